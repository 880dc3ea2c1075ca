//! Sequences of tokens to requests for the encoder's lane, each small enough to share a batch.

use std::{ops::Range, sync::Arc};

use accelerd_kernels::ops::encode::{EncodeRequest, Encoder, EncoderConfig, Precision};
use accelerd_models::Sequences;

use super::{
    cut::Part,
    options::{Choice, Options, Span},
};
use crate::error::ApiError;

/// Tokens of one request, about: a text is never cut.
const REQUEST_TOKENS: usize = 8192;

/// How a call is parted into requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parting {
    /// Tokens of a request, about; a wide model's have fewer.
    pub(super) tokens: usize,
    /// Requests that are queued at once.
    pub(super) at_once: usize,
}

impl Parting {
    /// On a CPU other callers wait for what is queued before them, so that is little. A GPU is soon done with it, and slow
    /// with less.
    pub(super) fn new(encoder: &EncoderConfig, on_gpu: bool) -> Self {
        let (state_bytes, at_once) = if on_gpu { (256 << 20, 8) } else { (48 << 20, 4) };
        Self { tokens: REQUEST_TOKENS.min(state_bytes / encoder.token_bytes().max(1)), at_once }
    }
}

/// What a request's texts are computed with.
pub(super) struct Plan<'a> {
    pub(super) encoder: &'a Arc<Encoder>,
    pub(super) precision: Precision,
    pub(super) options: &'a Options,
    pub(super) choice: &'a Choice,
}

impl Plan<'_> {
    /// The requests, in order, each of so many tokens, about.
    pub(super) fn requests(&self, part: &Part, most: usize) -> Result<Vec<EncodeRequest>, ApiError> {
        let spans = self.spans(part)?;
        let sequences = &part.sequences;
        let mut requests = vec![];
        let mut first = 0;
        for text in 0..sequences.texts() {
            let is_last = text + 1 == sequences.texts();
            let with_next = |next: usize| sequences.tokens(next).end - sequences.tokens(first).start;
            if is_last || with_next(text + 1) > most {
                requests.push(self.request(sequences, first..text + 1, &spans));
                first = text + 1;
            }
        }
        Ok(requests)
    }

    fn request(&self, sequences: &Sequences, texts: Range<usize>, spans: &[(usize, Range<usize>)]) -> EncodeRequest {
        let tokens = sequences.tokens(texts.start).start..sequences.tokens(texts.end - 1).end;
        let own = sequences.texts[texts.start] as usize..=sequences.texts[texts.end] as usize;
        let place = |at: usize| u32::try_from(at - tokens.start).unwrap_or(u32::MAX);
        let pair = |range: &Range<usize>| [place(range.start), place(range.end)];
        let wanted: Vec<_> = if self.options.spans.is_empty() {
            texts.map(|text| pair(&sequences.tokens(text))).collect()
        } else {
            spans.iter().filter(|(text, _)| texts.contains(text)).map(|(_, range)| pair(range)).collect()
        };
        EncodeRequest {
            encoder: Arc::clone(self.encoder),
            ids: sequences.ids[tokens.clone()].to_vec(),
            types: sequences.types.get(tokens.clone()).unwrap_or_default().to_vec(),
            offsets: sequences.offsets[own].iter().map(|offset| place(*offset as usize)).collect(),
            spans: Some(wanted),
            pooling: self.choice.pooling,
            dimensions: self.choice.dimensions,
            normalize: self.choice.normalize,
            output: self.options.output,
            precision: self.precision,
            exact_gelu: self.options.exact_gelu,
        }
    }

    /// The tokens of each span of a part's texts, with the text's place in the part.
    fn spans(&self, part: &Part) -> Result<Vec<(usize, Range<usize>)>, ApiError> {
        let texts = part.first..part.first + part.sequences.texts();
        let own = |(_, span): &(usize, &Span)| texts.contains(&(span.text as usize));
        let spans = self.options.spans.iter().enumerate().filter(own).map(|(at, span)| {
            let text = span.text as usize - part.first;
            let range = tokens_of(&part.sequences, text, span, self.choice.cut.with_bytes);
            range.map(|range| (text, range)).ok_or_else(|| {
                let (start, end) = (span.start, span.end);
                let reason = format!("expected a part with tokens that the model reads, got {start} to {end}");
                ApiError::invalid(format!("spans[{at}]"), reason)
            })
        });
        spans.collect()
    }
}

/// Spans must be few, of texts that are there, and in their order.
pub(super) fn check_spans(spans: &[Span], texts: usize, most: usize) -> Result<(), ApiError> {
    if spans.len() > most {
        return Err(ApiError::invalid("spans", format!("expected at most {most} spans, got {}", spans.len())));
    }
    let mut last = 0;
    for (at, span) in spans.iter().enumerate() {
        let wrong = |reason: String| Err(ApiError::invalid(format!("spans[{at}].text"), reason));
        if span.text as usize >= texts {
            return wrong(format!("expected a text below {texts}, got {}", span.text));
        }
        if span.text < last {
            return wrong(format!("expected spans in the order of the texts, got {} after {last}", span.text));
        }
        last = span.text;
    }
    Ok(())
}

/// The tokens of a span; none where it holds none.
fn tokens_of(sequences: &Sequences, text: usize, span: &Span, by_bytes: bool) -> Option<Range<usize>> {
    let tokens = sequences.tokens(text);
    let (start, end) = (span.start as usize, span.end as usize);
    if !by_bytes {
        let range = tokens.start.checked_add(start)?..tokens.start.checked_add(end)?;
        return (range.start < range.end && range.end <= tokens.end).then_some(range);
    }
    let inside = |at: &usize| {
        let bytes = &sequences.bytes[*at];
        bytes.start < end && start < bytes.end
    };
    let first = tokens.clone().find(inside)?;
    let last = tokens.rev().find(inside)?;
    Some(first..last + 1)
}

#[cfg(test)]
mod tests {
    use accelerd_kernels::ops::encode::samples;

    use super::*;

    fn sequences() -> Sequences {
        Sequences {
            ids: vec![1, 10, 11, 2, 1, 12, 13, 14, 2],
            offsets: vec![0, 4, 9],
            types: vec![],
            texts: vec![0, 1, 2],
            bytes: vec![0..0, 0..3, 4..7, 0..0, 0..0, 0..2, 2..5, 5..9, 0..0],
        }
    }

    #[test]
    fn a_gpu_gets_more_of_a_call_at_once_than_a_cpu() {
        let wide = EncoderConfig { hidden: 768, heads: 12, kv_heads: 12, intermediate: 3072, ..samples::bert() };
        let of = |encoder: &EncoderConfig| [false, true].map(|on_gpu| Parting::new(encoder, on_gpu));
        let parting = |tokens, at_once| Parting { tokens, at_once };
        assert_eq!(of(&wide), [parting(1489, 4), parting(7943, 8)]);
        let narrow = EncoderConfig { hidden: 64, heads: 1, kv_heads: 1, intermediate: 64, ..wide };
        assert_eq!(of(&narrow), [parting(8192, 4), parting(8192, 8)]);
    }

    #[test]
    fn spans_of_bytes_are_the_tokens_they_touch() {
        let of = |text, start, end| tokens_of(&sequences(), text, &Span { text: 7, start, end }, true);
        assert_eq!(of(0, 0, 3), Some(1..2));
        assert_eq!(of(0, 2, 5), Some(1..3));
        assert_eq!(of(1, 3, 6), Some(6..8));
        assert_eq!(of(0, 3, 4), None, "only a blank");
        assert_eq!(of(0, 5, 2), None);
    }

    #[test]
    fn spans_of_tokens_count_from_the_text() {
        let of = |text, start, end| tokens_of(&sequences(), text, &Span { text: 7, start, end }, false);
        assert_eq!(of(1, 0, 5), Some(4..9));
        assert_eq!(of(1, 4, 6), None, "beyond the text");
        assert_eq!(of(0, 2, 2), None, "empty");
        assert_eq!(of(0, 2, u32::MAX), None);
    }
}
