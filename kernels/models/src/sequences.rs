//! Sequences of tokens: truncation, chunking and special tokens.

use std::ops::Range;

/// The treatment of a text with more tokens than the limit, as `LongInput` of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LongInput {
    /// Tokens beyond the limit are left out.
    #[default]
    Truncate,
    /// The call fails.
    Error,
    /// The text is split into sequences within the limit.
    Chunk,
}

/// Which end of a long text is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TruncationSide {
    /// The end is left out.
    #[default]
    Right,
    /// The start is left out.
    Left,
}

/// Options of tokenisation.
#[derive(Clone, Debug, Default)]
pub struct TokenizeOptions {
    /// Prepended to each text.
    pub prompt: String,
    /// Maximum of tokens per sequence, special tokens included; `None`: the model's default.
    pub max_tokens: Option<usize>,
    /// The treatment of longer texts.
    pub long_input: LongInput,
    /// Which end of them is left out; `None`: the model's default.
    pub truncation_side: Option<TruncationSide>,
    /// True to return the byte range of each token.
    pub with_offsets: bool,
}

/// An error of tokenisation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenizeError {
    /// The model accepts only token ids.
    #[error("the model has no tokeniser: send token ids")]
    NoTokenizer,
    /// The text is too long, with `LongInput::Error`.
    #[error("expected at most {limit} tokens, got {tokens}")]
    TooLong {
        /// The limit.
        limit: usize,
        /// Tokens of the text.
        tokens: usize,
    },
    /// The query of a pair leaves no room for a document.
    #[error(
        "expected a query of at most {most} tokens, so that a pair of {limit} has room for a document, got {tokens}"
    )]
    LongQuery {
        /// Maximum of tokens of a query.
        most: usize,
        /// Maximum of tokens of a pair.
        limit: usize,
        /// Tokens of the query.
        tokens: usize,
    },
    /// The limit is out of range.
    #[error("expected a limit of {least} to {most} tokens, got {got}")]
    Limit {
        /// One more than the number of special tokens.
        least: usize,
        /// The model's maximum.
        most: usize,
        /// The requested limit.
        got: usize,
    },
    /// The tokeniser failed.
    #[error("{0}")]
    Tokenizer(String),
}

/// Token sequences of texts, flattened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequences {
    /// Token ids of all sequences.
    pub ids: Vec<u32>,
    /// Where each sequence starts, then the length of `ids`.
    pub offsets: Vec<u32>,
    /// Token type ids; empty where all are 0.
    pub types: Vec<u32>,
    /// The first sequence of each text, then the number of sequences.
    pub texts: Vec<u32>,
    /// The byte range of each token in its text, empty for special tokens and prompts. No entries without
    /// `with_offsets`.
    pub bytes: Vec<Range<usize>>,
}

impl Default for Sequences {
    fn default() -> Self {
        Self { ids: vec![], offsets: vec![0], types: vec![], texts: vec![0], bytes: vec![] }
    }
}

impl Sequences {
    /// Number of texts.
    pub fn texts(&self) -> usize {
        self.texts.len() - 1
    }

    /// The tokens of a text, as a range of `ids`.
    pub fn tokens(&self, text: usize) -> Range<usize> {
        let at = |text: usize| self.offsets[self.texts[text] as usize] as usize;
        at(text)..at(text + 1)
    }

    /// Appends the sequences of other texts. Both or neither have token types.
    pub fn append(&mut self, other: Self) {
        let ids = count(self.ids.len());
        let sequences = count(self.offsets.len() - 1);
        self.ids.extend(other.ids);
        self.types.extend(other.types);
        self.bytes.extend(other.bytes);
        self.offsets.extend(other.offsets[1..].iter().map(|offset| offset + ids));
        self.texts.extend(other.texts[1..].iter().map(|first| first + sequences));
    }

    /// Ends a sequence.
    fn end_sequence(&mut self) {
        self.offsets.push(count(self.ids.len()));
    }

    /// Ends a text with one sequence.
    pub fn end_text(&mut self) {
        self.end_sequence();
        self.end_sequences();
    }

    /// Ends a text after its sequences.
    fn end_sequences(&mut self) {
        self.texts.push(count(self.offsets.len() - 1));
    }
}

/// There are fewer token ids than bytes of text, which are limited below 4 GiB.
fn count(ids: usize) -> u32 {
    u32::try_from(ids).expect("fewer token ids than bytes of text")
}

/// How a model makes sequences of tokens.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SequenceRules<'a> {
    /// Special tokens before a text.
    pub(crate) before: &'a [u32],
    /// Special tokens after a text.
    pub(crate) after: &'a [u32],
    /// A token that is left out. It counts towards the limit.
    pub(crate) left_out: Option<u32>,
    /// Which end of long texts is left out by default.
    pub(crate) truncation_side: TruncationSide,
}

/// Truncates or chunks the tokens of a text, and adds special tokens.
pub(crate) fn split(
    pieces: &[u32],
    bytes: &[Range<usize>],
    rules: SequenceRules<'_>,
    limit: usize,
    options: &TokenizeOptions,
    out: &mut Sequences,
) -> Result<(), TokenizeError> {
    let SequenceRules { before, after, left_out, truncation_side } = rules;
    let is_kept = |id: &u32| left_out != Some(*id);
    let specials = before.len() + after.len();
    let room = limit.saturating_sub(specials).max(1);
    let tokens = pieces.len() + specials;
    let mut sequence = |range: Range<usize>| {
        let ids = &pieces[range.clone()];
        let token_bytes = bytes.get(range).unwrap_or_default();
        if options.with_offsets {
            out.bytes.extend(before.iter().map(|_| 0..0));
            let start = options.prompt.len();
            let kept = token_bytes.iter().zip(ids).filter(|(_, id)| is_kept(id));
            out.bytes.extend(kept.map(|(b, _)| b.start.saturating_sub(start)..b.end.saturating_sub(start)));
            out.bytes.extend(after.iter().map(|_| 0..0));
        }
        out.ids.extend(before);
        out.ids.extend(ids.iter().filter(|id| is_kept(id)));
        out.ids.extend(after);
        out.end_sequence();
    };
    match options.long_input {
        _ if pieces.len() <= room => sequence(0..pieces.len()),
        LongInput::Error => return Err(TokenizeError::TooLong { limit, tokens }),
        LongInput::Truncate => match options.truncation_side.unwrap_or(truncation_side) {
            TruncationSide::Right => sequence(0..room),
            TruncationSide::Left => sequence(pieces.len() - room..pieces.len()),
        },
        LongInput::Chunk => {
            for first in (0..pieces.len()).step_by(room) {
                sequence(first..(first + room).min(pieces.len()));
            }
        }
    }
    out.end_sequences();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(options: &TokenizeOptions, limit: usize) -> Result<Sequences, TokenizeError> {
        let mut out = Sequences::default();
        let bytes: Vec<_> = (0..7).map(|i| i..i + 1).collect();
        let rules = SequenceRules { before: &[1], after: &[2], ..SequenceRules::default() };
        split(&[10, 11, 12, 13, 14, 15, 16], &bytes, rules, limit, options, &mut out).map(|()| out)
    }

    #[test]
    fn a_model_has_its_own_side_and_a_token_that_is_left_out_counts() {
        let rules =
            SequenceRules { left_out: Some(12), truncation_side: TruncationSide::Left, ..SequenceRules::default() };
        let bytes: Vec<_> = (0..4).map(|i| i..i + 1).collect();
        let cut = |truncation_side, limit| {
            let options = TokenizeOptions { truncation_side, with_offsets: true, ..TokenizeOptions::default() };
            let mut out = Sequences::default();
            split(&[10, 11, 12, 13], &bytes, rules, limit, &options, &mut out).expect("it is truncated");
            (out.ids, out.bytes)
        };
        assert_eq!(cut(None, 3), (vec![11, 13], vec![1..2, 3..4]));
        assert_eq!(cut(Some(TruncationSide::Right), 3), (vec![10, 11], vec![0..1, 1..2]));
        assert_eq!(cut(None, 4).0, [10, 11, 13]);
    }

    #[test]
    fn long_texts_are_truncated_at_either_end_rejected_or_chunked() {
        let options = TokenizeOptions::default();
        assert_eq!(ids(&options, 9).expect("it fits").ids, [1, 10, 11, 12, 13, 14, 15, 16, 2]);
        assert_eq!(ids(&options, 5).expect("truncated").ids, [1, 10, 11, 12, 2]);
        let end = TokenizeOptions {
            truncation_side: Some(TruncationSide::Left),
            with_offsets: true,
            prompt: "12345".to_owned(),
            ..options.clone()
        };
        let end = ids(&end, 5).expect("truncated");
        assert_eq!(end.ids, [1, 14, 15, 16, 2]);
        assert_eq!(end.bytes, [0..0, 0..0, 0..1, 1..2, 0..0], "the prompt's bytes are not the text's");
        assert_eq!(
            ids(&TokenizeOptions { long_input: LongInput::Error, ..options.clone() }, 5),
            Err(TokenizeError::TooLong { limit: 5, tokens: 9 })
        );
        let chunks = ids(&TokenizeOptions { long_input: LongInput::Chunk, ..options }, 5).expect("chunked");
        assert_eq!((chunks.offsets, chunks.texts), (vec![0, 5, 10, 13], vec![0, 3]));
        assert_eq!(chunks.ids, [1, 10, 11, 12, 2, 1, 13, 14, 15, 2, 1, 16, 2]);
    }

    #[test]
    fn sequences_of_texts_are_joined() {
        let chunk = TokenizeOptions { long_input: LongInput::Chunk, ..TokenizeOptions::default() };
        let mut joined = ids(&chunk, 5).expect("chunked");
        joined.append(ids(&TokenizeOptions::default(), 9).expect("it fits"));
        assert_eq!((joined.texts(), joined.tokens(0), joined.tokens(1)), (2, 0..13, 13..22));
        assert_eq!(joined.texts, [0, 3, 4]);
    }
}
