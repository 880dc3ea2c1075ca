//! Sets of rows, as a list or a bitmap.

use crate::{index::set_bits, points::Bits};

/// A set of rows.
pub(super) enum RowSet {
    /// Ascending.
    Rows(Vec<u32>),
    /// Bit `i % 32` of word `i / 32` is row i's.
    Bitmap(Vec<u32>),
}

impl RowSet {
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.len(),
            Self::Bitmap(words) => words.iter().map(|word| word.count_ones() as usize).sum(),
        }
    }
}

/// Returns the bitmap of `len` rows.
pub(super) fn bitmap(rows: &[u32], len: usize) -> Vec<u32> {
    let mut words = vec![0; len.div_ceil(32)];
    set_bits(&mut words, rows);
    words
}

/// Returns the rows of a bitmap, ascending.
pub(super) fn bitmap_rows(words: &[u32]) -> Vec<u32> {
    (0u32..).zip(words).flat_map(|(i, word)| Bits(*word).map(move |bit| i * 32 + bit)).collect()
}
