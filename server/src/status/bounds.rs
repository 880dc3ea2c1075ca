//! Bounds of the text of statuses. A status is sent in trailers, and gRPC's clients accept 8 KiB of them: they report a longer
//! status as RESOURCE_EXHAUSTED, which is retried.

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, PreconditionViolation, QuotaViolation, StatusExt};

/// The most bytes of a status as it is sent: the percent-encoded message, and the details in base64, which repeat the message.
pub(crate) const MAX_STATUS_BYTES: usize = 4096;

/// The most bytes of a message, percent-encoded.
const MAX_MESSAGE_BYTES: usize = 1024;

/// The most bytes of the details without the message, before base64.
const MAX_DETAILS_BYTES: usize = 1024;

/// The most bytes of a name or path in the details.
const MAX_NAME_BYTES: usize = 192;

/// The most bytes of a description in the details.
const MAX_DESCRIPTION_BYTES: usize = 512;

/// Bytes of a kind of details besides its texts: the type's URL and lengths.
const KIND_BYTES: usize = 64;

/// Bytes of a text besides its content: tags and lengths.
const TEXT_BYTES: usize = 8;

/// Maximum size of the mark in place of the part that is left out.
const MARK_BYTES: usize = 40;

/// A status within the bounds.
pub(super) fn status(code: Code, text: &str, of: &ErrorDetails) -> Status {
    Status::with_error_details(code, message(text), details(of))
}

/// A message within the bound.
pub(super) fn message(text: &str) -> String {
    cut(text, MAX_MESSAGE_BYTES, percent_encoded)
}

/// Bytes of a character as gRPC percent-encodes it.
fn percent_encoded(character: char) -> usize {
    let is_plain = character.is_ascii_graphic() && !"\"#%<>`?{}".contains(character);
    if is_plain { 1 } else { 3 * character.len_utf8() }
}

/// The text, of which the middle is left out if it takes more than `max_size` bytes by `size`.
fn cut(text: &str, max_size: usize, size: fn(char) -> usize) -> String {
    if text.len() <= max_size && text.chars().map(size).sum::<usize>() <= max_size {
        return text.to_owned();
    }
    let Some(room) = max_size.checked_sub(MARK_BYTES) else { return String::new() };
    let tail_room = room / 4;
    let head = prefix_len(text.chars(), room - tail_room, size);
    let tail = prefix_len(text[head..].chars().rev(), tail_room, size);
    let left_out = text.len() - head - tail;
    format!("{}...[{left_out}_bytes_left_out]...{}", &text[..head], &text[text.len() - tail..])
}

/// Bytes of the first characters that take at most `room` bytes by `size`.
fn prefix_len(characters: impl Iterator<Item = char>, room: usize, size: fn(char) -> usize) -> usize {
    let ends = characters.scan((0, 0), |(taken, len), character| {
        *taken += size(character);
        *len += character.len_utf8();
        (*taken <= room).then_some(*len)
    });
    ends.last().unwrap_or(0)
}

/// Rest of [`MAX_DETAILS_BYTES`].
struct Budget(usize);

impl Budget {
    /// Takes the bytes of a kind of details, or of an entry; returns whether there are as many.
    fn take(&mut self, bytes: usize) -> bool {
        let left = self.0.checked_sub(bytes);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }

    /// A text, of at most `max_size` bytes.
    fn text(&mut self, text: &str, max_size: usize) -> String {
        let room = self.0.saturating_sub(TEXT_BYTES);
        let cut = cut(text, max_size.min(room), char::len_utf8);
        self.0 = self.0.saturating_sub(cut.len() + TEXT_BYTES);
        cut
    }
}

/// The details within the bounds. What identifies an error comes first; the kinds that the daemon does not send are dropped.
fn details(of: &ErrorDetails) -> ErrorDetails {
    let mut all = ErrorDetails::new();
    let mut budget = Budget(MAX_DETAILS_BYTES);
    if let Some(retry) = of.retry_info()
        && budget.take(KIND_BYTES)
    {
        all.set_retry_info(retry.retry_delay);
    }
    if let Some(info) = of.error_info()
        && budget.take(KIND_BYTES)
    {
        let [reason, domain] = [&info.reason, &info.domain].map(|text| budget.text(text, MAX_NAME_BYTES));
        let mut entries: Vec<_> = info.metadata.iter().collect();
        entries.sort_unstable();
        let entries = entries.into_iter().map_while(|(key, value)| {
            let [key, value] = [key, value].map(|text| budget.text(text, MAX_NAME_BYTES));
            (!key.is_empty()).then_some((key, value))
        });
        all.set_error_info(reason, domain, entries.collect::<std::collections::HashMap<_, _>>());
    }
    if let Some(info) = of.resource_info()
        && budget.take(KIND_BYTES)
    {
        let names = [&info.resource_type, &info.resource_name, &info.owner, &info.description];
        let [kind, name, owner, description] = names.map(|text| budget.text(text, MAX_NAME_BYTES));
        all.set_resource_info(kind, name, owner, description);
    }
    if let Some(bad) = of.bad_request()
        && budget.take(KIND_BYTES)
    {
        let violations = bad.field_violations.iter().map_while(|violation| {
            let [field, description] = budget.violation(&violation.field, &violation.description)?;
            Some(FieldViolation::new(field, description))
        });
        all.set_bad_request(violations.collect::<Vec<_>>());
    }
    if let Some(failure) = of.precondition_failure()
        && budget.take(KIND_BYTES)
    {
        let violations = failure.violations.iter().map_while(|violation| {
            let kind = budget.text(&violation.r#type, MAX_NAME_BYTES);
            let [subject, description] = budget.violation(&violation.subject, &violation.description)?;
            Some(PreconditionViolation::new(kind, subject, description))
        });
        all.set_precondition_failure(violations.collect::<Vec<_>>());
    }
    if let Some(failure) = of.quota_failure()
        && budget.take(KIND_BYTES)
    {
        let violations = failure.violations.iter().map_while(|violation| {
            let [subject, description] = budget.violation(&violation.subject, &violation.description)?;
            Some(QuotaViolation::new(subject, description))
        });
        all.set_quota_failure(violations.collect::<Vec<_>>());
    }
    all
}

impl Budget {
    /// Returns the subject of a violation and its description; `None` if nothing is left for it.
    fn violation(&mut self, subject: &str, description: &str) -> Option<[String; 2]> {
        if self.0 <= 2 * TEXT_BYTES + MARK_BYTES {
            return None;
        }
        let subject = self.text(subject, MAX_NAME_BYTES);
        Some([subject, self.text(description, MAX_DESCRIPTION_BYTES)])
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::HeaderMap;
    use proptest::prelude::*;

    use super::*;

    /// Bytes of a status as it is sent.
    fn sent_bytes(status: &Status) -> usize {
        let mut headers = HeaderMap::new();
        status.add_header(&mut headers).expect("headers");
        headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum()
    }

    fn every_kind(text: &str, count: usize) -> ErrorDetails {
        let metadata =
            (0..count).map(|n| (format!("{n}{text}"), text.to_owned())).collect::<std::collections::HashMap<_, _>>();
        let mut all = ErrorDetails::with_error_info("REASON", "accelerd", metadata);
        all.set_retry_info(Some(Duration::from_millis(7))).set_resource_info("kind", text, "", text);
        for _ in 0..count {
            all.add_bad_request_violation(text, text);
            all.add_precondition_failure_violation("KIND", text, text);
            all.add_quota_failure_violation(text, text);
        }
        all
    }

    #[test]
    fn a_text_within_the_bound_is_sent_as_it_is() {
        let text = "queries.shape: expected 2 extents, got [1, 2, 3]";
        let details = ErrorDetails::with_bad_request_violation("queries.shape", text);
        let sent = status(Code::InvalidArgument, text, &details);
        assert_eq!(sent.message(), text);
        let violations = sent.get_details_bad_request().expect("bad request").field_violations;
        assert_eq!((&*violations[0].field, &*violations[0].description), ("queries.shape", text));
    }

    #[test]
    fn a_long_text_says_how_much_is_left_out() {
        let text = format!("name: expected at most 9, got {} (the end)", "x".repeat(3000));
        let sent = message(&text);
        assert!(sent.starts_with("name: expected at most 9, got xxx") && sent.ends_with("xxx (the end)"), "{sent}");
        let count = sent.split_once("...[").and_then(|(_, rest)| rest.split_once("_bytes_left_out]..."));
        let left_out: usize = count.expect("a mark").0.parse().expect("a number");
        let mark = format!("...[{left_out}_bytes_left_out]...");
        assert_eq!(sent.len() - mark.len() + left_out, text.len());
    }

    proptest! {
        #[test]
        fn every_status_is_within_the_bound(text in "\\PC{0,600}", repeat in 1..400_usize, count in 0..40_usize) {
            let text = text.repeat(repeat);
            let sent = status(Code::InvalidArgument, &text, &every_kind(&text, count));
            prop_assert!(sent_bytes(&sent) <= MAX_STATUS_BYTES, "{} bytes", sent_bytes(&sent));
            let retry = sent.get_details_retry_info().expect("retry info").retry_delay;
            prop_assert_eq!(retry, Some(Duration::from_millis(7)));
            prop_assert_eq!(sent.get_details_error_info().expect("error info").reason, "REASON");
        }
    }
}
