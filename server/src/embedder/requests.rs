//! Splits tokenized batches into requests for the encoder lane, each small enough to share a batch.

use std::{ops::Range, sync::Arc};

use accelerd_kernels::ops::encode::{EncodeRequest, Encoder, EncoderConfig, OutputType, Precision};
use accelerd_models::Sequences;

use super::{
    options::{Options, ResolvedOptions, Span},
    tokenizer_pool::TokenizedBatch,
};
use crate::error::ApiError;

/// Approximate number of tokens of a request; texts are not split.
const REQUEST_TOKENS: usize = 8192;

/// Split of a call into requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestSizing {
    /// Approximate number of tokens of a request; fewer for wide models.
    pub(super) max_tokens: usize,
    /// Requests queued concurrently.
    pub(super) in_flight: usize,
}

impl RequestSizing {
    /// Small on the CPU, where other calls wait for queued requests; large on a GPU, which is inefficient with small ones.
    pub(super) fn new(encoder: &EncoderConfig, on_gpu: bool) -> Self {
        let (state_bytes, in_flight) = if on_gpu { (256 << 20, 8) } else { (48 << 20, 4) };
        Self { max_tokens: REQUEST_TOKENS.min(state_bytes / encoder.token_bytes().max(1)), in_flight }
    }
}

/// Builds the requests of a call.
pub(super) struct RequestBuilder<'a> {
    pub(super) encoder: &'a Arc<Encoder>,
    pub(super) precision: Precision,
    pub(super) options: &'a Options,
    pub(super) resolved: &'a ResolvedOptions,
}

/// The type in which devices return vectors for an output type. The integer types have no NaN, so that they are converted
/// from f32 once the vectors are known to be finite.
pub(super) fn device_output(output: OutputType) -> OutputType {
    match output {
        OutputType::Int8 | OutputType::Binary => OutputType::F32,
        OutputType::F32 | OutputType::F16 | OutputType::Bf16 => output,
    }
}

impl RequestBuilder<'_> {
    /// The requests of a batch in order, each of about `max_tokens`.
    pub(super) fn requests(&self, batch: &TokenizedBatch, max_tokens: usize) -> Result<Vec<EncodeRequest>, ApiError> {
        let spans = self.spans(batch)?;
        let sequences = &batch.sequences;
        let mut requests = vec![];
        let mut first = 0;
        for text in 0..sequences.texts() {
            let is_last = text + 1 == sequences.texts();
            let with_next = |next: usize| sequences.tokens(next).end - sequences.tokens(first).start;
            if is_last || with_next(text + 1) > max_tokens {
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
            token_type_ids: sequences.types.get(tokens.clone()).unwrap_or_default().to_vec(),
            offsets: sequences.offsets[own].iter().map(|offset| place(*offset as usize)).collect(),
            spans: Some(wanted),
            pooling: self.resolved.pooling,
            dimensions: self.resolved.dimensions,
            normalize: self.resolved.normalize,
            output: device_output(self.options.output),
            precision: self.precision,
            exact_gelu: self.options.exact_gelu,
        }
    }

    /// The token ranges of the spans in a batch, with the index of their text in it.
    fn spans(&self, batch: &TokenizedBatch) -> Result<Vec<(usize, Range<usize>)>, ApiError> {
        let texts = batch.first..batch.first + batch.sequences.texts();
        let own = |(_, span): &(usize, &Span)| texts.contains(&(span.text as usize));
        let spans = self.options.spans.iter().enumerate().filter(own).map(|(at, span)| {
            let text = span.text as usize - batch.first;
            let range = tokens_of(&batch.sequences, text, span, self.resolved.tokenize.with_offsets);
            range.map(|range| (text, range)).ok_or_else(|| {
                let (start, end) = (span.start, span.end);
                let reason = format!("expected a span with tokens within the model's limit, got {start} to {end}");
                ApiError::invalid(format!("spans[{at}]"), reason)
            })
        });
        spans.collect()
    }
}

/// Checks the number of spans, their text indices and their order.
pub(super) fn check_spans(spans: &[Span], texts: usize, max: usize) -> Result<(), ApiError> {
    if spans.len() > max {
        return Err(ApiError::invalid("spans", format!("expected at most {max} spans, got {}", spans.len())));
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

/// The token range of a span; `None` if it is empty.
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
    fn a_gpu_gets_larger_requests_than_a_cpu() {
        let wide = EncoderConfig { hidden: 768, heads: 12, kv_heads: 12, intermediate: 3072, ..samples::bert() };
        let of = |encoder: &EncoderConfig| [false, true].map(|on_gpu| RequestSizing::new(encoder, on_gpu));
        let sizing = |max_tokens, in_flight| RequestSizing { max_tokens, in_flight };
        assert_eq!(of(&wide), [sizing(1489, 4), sizing(7943, 8)]);
        let narrow = EncoderConfig { hidden: 64, heads: 1, kv_heads: 1, intermediate: 64, ..wide };
        assert_eq!(of(&narrow), [sizing(8192, 4), sizing(8192, 8)]);
    }

    #[test]
    fn byte_spans_cover_the_tokens_they_overlap() {
        let of = |text, start, end| tokens_of(&sequences(), text, &Span { text: 7, start, end }, true);
        assert_eq!(of(0, 0, 3), Some(1..2));
        assert_eq!(of(0, 2, 5), Some(1..3));
        assert_eq!(of(1, 3, 6), Some(6..8));
        assert_eq!(of(0, 3, 4), None, "only whitespace");
        assert_eq!(of(0, 5, 2), None);
    }

    #[test]
    fn token_spans_are_relative_to_their_text() {
        let of = |text, start, end| tokens_of(&sequences(), text, &Span { text: 7, start, end }, false);
        assert_eq!(of(1, 0, 5), Some(4..9));
        assert_eq!(of(1, 4, 6), None, "beyond the text");
        assert_eq!(of(0, 2, 2), None, "empty");
        assert_eq!(of(0, 2, u32::MAX), None);
    }
}
