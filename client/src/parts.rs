//! Calls whose rows exceed a message are made in parts, one after another.

use std::ops::Range;

use tokio::time::Instant;

use crate::{Client, Error, Failure, Result};

/// Bytes of a request that the daemon takes by default, without what its other fields take.
pub(crate) const MAX_REQUEST_BYTES: usize = 60 << 20;
/// The daemon's default limit of texts in a request.
const MAX_TEXTS: usize = 16_384;
/// Bytes of a text's field header.
const TEXT_OVERHEAD: usize = 6;
/// Bytes for the other fields of a message, such as a model's name.
const RESERVED: usize = 4096;

/// Bytes of a text in a message.
pub(crate) fn text_bytes(text: &str) -> usize {
    text.len() + TEXT_OVERHEAD
}

impl Client {
    /// The parts of rows of these sizes that fit a message with `common` other bytes.
    pub(crate) fn parts(&self, sizes: impl Iterator<Item = usize>, common: usize) -> Vec<Range<usize>> {
        parts(sizes, self.max_message_bytes().min(MAX_REQUEST_BYTES).saturating_sub(RESERVED + common))
    }

    /// Calls once for each part of a field, until one deadline. A part that is too large for the daemon is halved. Returns the parts that
    /// were made, and their results.
    pub(crate) async fn in_parts<T, F>(
        &self,
        field: &str,
        mut waiting: Vec<Range<usize>>,
        call: impl Fn(Range<usize>, Option<Instant>) -> F,
    ) -> Result<Vec<(Range<usize>, T)>>
    where
        F: Future<Output = Result<T>>,
    {
        let until = self.until();
        waiting.reverse();
        let mut done = vec![];
        while let Some(part) = waiting.pop() {
            match call(part.clone(), until).await {
                Err(error) if error.is_message_too_large() && part.len() > 1 => {
                    let middle = part.start + part.len() / 2;
                    waiting.extend([middle..part.end, part.start..middle]);
                }
                answer => {
                    let answer = answer.map_err(|error| of_row(error, field, part.start))?;
                    done.push((part, answer));
                }
            }
        }
        Ok(done)
    }
}

/// The error of a part that cannot be halved, with its row if it is too large.
fn of_row(error: Error, field: &str, row: usize) -> Error {
    match error.failure() {
        Some(failure) if error.is_message_too_large() => {
            let message = format!("{field}[{row}]: {}", failure.message);
            Failure { message, ..failure.clone() }.into()
        }
        Some(_) | None => error,
    }
}

/// Consecutive ranges of rows within limits of bytes and rows. Each has a row at least, and there is one at least.
fn parts(sizes: impl Iterator<Item = usize>, limit: usize) -> Vec<Range<usize>> {
    let mut parts = vec![];
    let mut part = 0..0;
    let mut bytes = 0_usize;
    for (row, size) in sizes.enumerate() {
        bytes = bytes.saturating_add(size);
        if row > part.start && (bytes > limit || part.len() == MAX_TEXTS) {
            parts.push(std::mem::replace(&mut part, row..row));
            bytes = size;
        }
        part.end = row + 1;
    }
    parts.push(part);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_consecutive_and_within_limits() {
        assert_eq!(parts([4, 6, 1, 20, 3].into_iter(), 10), [0..2, 2..3, 3..4, 4..5]);
        let none = parts(std::iter::empty(), 10);
        assert_eq!((none.len(), none[0].len()), (1, 0));
        assert_eq!(parts(std::iter::repeat_n(1, MAX_TEXTS + 1), usize::MAX), [0..MAX_TEXTS, MAX_TEXTS..MAX_TEXTS + 1]);
    }
}
