//! A batch in a GPU's memory, and how attention parts it among blocks.

use super::weights::fit;
use crate::{
    OpError,
    cuda::{Buffer, Worker},
    ops::encode::Batch,
};

/// Queries a block of attention takes of one text.
const QUERIES: usize = 128;
/// Texts up to this length have a block for each head; up to the next ones, two and four heads share one.
const WHOLE_TEXT: usize = 64;
const MIDDLE_TEXT: usize = 32;
const SHORT_TEXT: usize = 16;

/// What is uploaded of a batch: items of attention, ids, types, starts of texts, in one buffer.
#[derive(Default)]
pub(super) struct Input {
    buffer: Option<Buffer<u32>>,
    pub(super) items: Items,
    pub(super) rows: usize,
    pub(super) texts: usize,
    typed: bool,
}

/// Texts and first queries of what blocks of attention do, two words each: of long texts, then of whole, of middle and
/// of short ones.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Items {
    words: Vec<u32>,
    pub(super) long: usize,
    pub(super) whole: usize,
    pub(super) middle: usize,
    pub(super) short: usize,
}

impl Items {
    fn new(starts: &[u32]) -> Result<Self, OpError> {
        let (mut long, mut whole, mut middle, mut short) = (vec![], vec![], vec![], vec![]);
        for (text, ends) in starts.windows(2).enumerate() {
            let (text, length) = (fit(text)?, (ends[1] - ends[0]) as usize);
            if length > WHOLE_TEXT {
                for query in (0..length).step_by(QUERIES) {
                    long.extend([text, fit(query)?]);
                }
            } else if length > MIDDLE_TEXT {
                whole.extend([text, 0]);
            } else if length > SHORT_TEXT {
                middle.extend([text, 0]);
            } else if length > 0 {
                short.extend([text, 0]);
            }
        }
        let [a, b, c, d] = [&long, &whole, &middle, &short].map(|words| words.len() / 2);
        Ok(Self { words: [long, whole, middle, short].concat(), long: a, whole: b, middle: c, short: d })
    }

    /// Blocks for so many heads: of texts that are not long, and of long ones.
    pub(super) fn blocks(&self, heads: usize) -> [usize; 2] {
        let few = self.whole * heads + self.middle * heads.div_ceil(2) + self.short * heads.div_ceil(4);
        [few, self.long * heads]
    }
}

impl Input {
    pub(super) fn new(batch: &Batch, worker: &Worker) -> Result<Self, OpError> {
        let items = Items::new(&batch.starts)?;
        let parts = [&items.words[..], &batch.ids, &batch.types, &batch.starts];
        let buffer = worker.alloc(parts.iter().map(|part| part.len()).sum())?;
        worker.upload_parts(parts.into_iter(), &buffer, 0)?;
        let (rows, texts) = (batch.ids.len(), batch.starts.len().saturating_sub(1));
        Ok(Self { buffer: Some(buffer), items, rows, texts, typed: !batch.types.is_empty() })
    }

    /// Where word `at` lies.
    pub(super) fn address(&self, at: usize) -> u64 {
        self.buffer.as_ref().map_or(0, |buffer| buffer.ptr_at(at).address())
    }

    pub(super) fn ids(&self) -> usize {
        self.items.words.len()
    }

    pub(super) fn types(&self) -> u64 {
        if self.typed { self.address(self.ids() + self.rows) } else { 0 }
    }

    pub(super) fn starts(&self) -> u64 {
        self.address(self.ids() + self.rows * if self.typed { 2 } else { 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_into_items_by_their_length() {
        let items = Items::new(&[0, 16, 16, 48, 177, 178, 242]).expect("few");
        assert_eq!(items.words, [3, 0, 3, 128, 5, 0, 2, 0, 0, 0, 4, 0]);
        assert_eq!(items.blocks(5), [5 + 3 + 2 * 2, 2 * 5]);
        assert_eq!(Items::new(&[]).expect("none").blocks(12), [0, 0]);
    }
}
