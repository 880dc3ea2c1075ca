//! Texts to what a model reads: pieces, cut to a length, with what stands around them.

use std::ops::Range;

/// What is done with a text that has more tokens than its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Long {
    /// Tokens beyond the limit are left out.
    #[default]
    Truncate,
    /// It is refused.
    Refuse,
    /// It becomes several sequences, each within the limit.
    Chunk,
}

/// Which end of a long text stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Its start.
    #[default]
    Start,
    /// Its end.
    End,
}

/// How texts are made into sequences.
#[derive(Clone, Debug, Default)]
pub struct Cut {
    /// Put before each text.
    pub prompt: String,
    /// Most tokens of a sequence, special ones included; `None` is the model's own limit.
    pub limit: Option<usize>,
    /// What is done with longer texts.
    pub long: Long,
    /// Which end of them stays.
    pub keep: Keep,
    /// Whether it must be known from which bytes of its text each token comes.
    pub with_bytes: bool,
}

/// Why a text could not be made into sequences.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CutError {
    /// The model takes token ids only.
    #[error("the model has no tokeniser: send token ids")]
    NoTokenizer,
    /// The text is too long, and long texts are to be refused.
    #[error("expected at most {limit} tokens, got {tokens}")]
    TooLong {
        /// The limit.
        limit: usize,
        /// What the text has.
        tokens: usize,
    },
    /// A pair's query leaves no room for a token of a document.
    #[error("expected at most {most} tokens, so that a pair of {limit} has room for a document, got {tokens}")]
    LongQuery {
        /// Tokens that a query may have.
        most: usize,
        /// Most tokens of a pair.
        limit: usize,
        /// What the query has.
        tokens: usize,
    },
    /// The limit has no room for a token of the text.
    #[error("expected a limit of {least} to {most} tokens, got {got}")]
    Limit {
        /// One more than the special tokens.
        least: usize,
        /// What the model takes.
        most: usize,
        /// What was asked for.
        got: usize,
    },
    /// The tokeniser failed.
    #[error("{0}")]
    Tokenizer(String),
}

/// Sequences of many texts, flattened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequences {
    /// Ids of all sequences.
    pub ids: Vec<u32>,
    /// Where each sequence starts, then the length of `ids`.
    pub offsets: Vec<u32>,
    /// As many kinds of tokens; empty where all are 0.
    pub types: Vec<u32>,
    /// Of each text the first sequence, then their number.
    pub texts: Vec<u32>,
    /// Of each token its bytes in its text; empty for special tokens and prompts, and all where they were not asked for.
    pub bytes: Vec<Range<usize>>,
}

impl Default for Sequences {
    fn default() -> Self {
        Self { ids: vec![], offsets: vec![0], types: vec![], texts: vec![0], bytes: vec![] }
    }
}

impl Sequences {
    /// How many texts.
    pub fn texts(&self) -> usize {
        self.texts.len() - 1
    }

    /// The tokens of a text, as places in `ids`.
    pub fn tokens(&self, text: usize) -> Range<usize> {
        let at = |text: usize| self.offsets[self.texts[text] as usize] as usize;
        at(text)..at(text + 1)
    }

    /// Appends those of other texts. Both or neither have types.
    pub fn append(&mut self, other: Self) {
        let (ids, sequences) = (count(self.ids.len()), count(self.offsets.len() - 1));
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

    /// Ends a text of one sequence.
    pub fn end_text(&mut self) {
        self.end_sequence();
        self.end_sequences();
    }

    /// Ends a text whose sequences have ended.
    fn end_sequences(&mut self) {
        self.texts.push(count(self.offsets.len() - 1));
    }
}

/// Token ids are fewer than bytes of text, and those are limited below 4 GiB.
fn count(of: usize) -> u32 {
    u32::try_from(of).expect("fewer token ids than bytes of text")
}

/// Cuts the pieces of one text into sequences.
pub(crate) fn cut(
    pieces: &[u32],
    bytes: &[Range<usize>],
    around: (&[u32], &[u32]),
    limit: usize,
    how: &Cut,
    out: &mut Sequences,
) -> Result<(), CutError> {
    let (before, after) = around;
    let specials = before.len() + after.len();
    let room = limit.saturating_sub(specials).max(1);
    let tokens = pieces.len() + specials;
    let mut part = |range: Range<usize>| {
        let shown = bytes.get(range.clone()).unwrap_or_default();
        if how.with_bytes {
            out.bytes.extend(before.iter().map(|_| 0..0));
            let start = how.prompt.len();
            out.bytes.extend(shown.iter().map(|b| b.start.saturating_sub(start)..b.end.saturating_sub(start)));
            out.bytes.extend(after.iter().map(|_| 0..0));
        }
        out.ids.extend(before);
        out.ids.extend(&pieces[range]);
        out.ids.extend(after);
        out.end_sequence();
    };
    match how.long {
        _ if pieces.len() <= room => part(0..pieces.len()),
        Long::Refuse => return Err(CutError::TooLong { limit, tokens }),
        Long::Truncate => match how.keep {
            Keep::Start => part(0..room),
            Keep::End => part(pieces.len() - room..pieces.len()),
        },
        Long::Chunk => {
            for first in (0..pieces.len()).step_by(room) {
                part(first..(first + room).min(pieces.len()));
            }
        }
    }
    out.end_sequences();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(how: &Cut, limit: usize) -> Result<Sequences, CutError> {
        let mut out = Sequences::default();
        let bytes: Vec<_> = (0..7).map(|i| i..i + 1).collect();
        cut(&[10, 11, 12, 13, 14, 15, 16], &bytes, (&[1], &[2]), limit, how, &mut out).map(|()| out)
    }

    #[test]
    fn long_texts_are_cut_at_either_end_refused_or_split() {
        let how = Cut::default();
        assert_eq!(ids(&how, 9).expect("it fits").ids, [1, 10, 11, 12, 13, 14, 15, 16, 2]);
        assert_eq!(ids(&how, 5).expect("cut").ids, [1, 10, 11, 12, 2]);
        let end = Cut { keep: Keep::End, with_bytes: true, prompt: "12345".to_owned(), ..how.clone() };
        let end = ids(&end, 5).expect("cut");
        assert_eq!(end.ids, [1, 14, 15, 16, 2]);
        assert_eq!(end.bytes, [0..0, 0..0, 0..1, 1..2, 0..0], "the prompt's bytes are not the text's");
        assert_eq!(ids(&Cut { long: Long::Refuse, ..how.clone() }, 5), Err(CutError::TooLong { limit: 5, tokens: 9 }));
        let chunks = ids(&Cut { long: Long::Chunk, ..how }, 5).expect("split");
        assert_eq!((chunks.offsets, chunks.texts), (vec![0, 5, 10, 13], vec![0, 3]));
        assert_eq!(chunks.ids, [1, 10, 11, 12, 2, 1, 13, 14, 15, 2, 1, 16, 2]);
    }

    #[test]
    fn sequences_of_texts_are_joined() {
        let chunk = Cut { long: Long::Chunk, ..Cut::default() };
        let mut joined = ids(&chunk, 5).expect("split");
        joined.append(ids(&Cut::default(), 9).expect("it fits"));
        assert_eq!((joined.texts(), joined.tokens(0), joined.tokens(1)), (2, 0..13, 13..22));
        assert_eq!(joined.texts, [0, 3, 4]);
    }
}
