//! Blocks of pairs, and marks of some of them.
#![expect(clippy::inline_always, reason = "compiled for an instruction set only where it is inlined")]

use super::element::Element;

/// Consecutive pairs of two tensors.
pub(super) struct Block<'a, T: Element> {
    pub(super) actual: &'a [T::Raw],
    pub(super) expected: &'a [T::Raw],
    /// Index of the first pair.
    pub(super) start: u64,
}

impl<T: Element> Clone for Block<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Element> Copy for Block<'_, T> {}

impl<T: Element> Block<'_, T> {
    pub(super) fn len(&self) -> usize {
        self.actual.len()
    }

    /// Index of a pair in the tensors.
    pub(super) fn index(&self, index: usize) -> u64 {
        self.start + index as u64
    }

    /// Bit patterns of a pair: of the actual element and of the expected one.
    pub(super) fn pair(&self, index: usize) -> (T::Word, T::Word) {
        (T::bits(self.actual[index]), T::bits(self.expected[index]))
    }

    /// [`Self::pair`] of each.
    #[inline(always)]
    pub(super) fn pairs(&self) -> impl Iterator<Item = (T::Word, T::Word)> {
        self.actual.iter().zip(self.expected).map(|(actual, expected)| (T::bits(*actual), T::bits(*expected)))
    }
}

/// Positions of marks that are set. They should be rare.
pub(super) fn marked(marks: &[bool]) -> impl Iterator<Item = usize> {
    const CHUNK: usize = 16;
    let chunks = marks.chunks(CHUNK).enumerate().filter(|(_, chunk)| chunk.iter().fold(false, |any, mark| any | mark));
    chunks.flat_map(|(nth, chunk)| (nth * CHUNK..).zip(chunk).filter(|(_, mark)| **mark).map(|(index, _)| index))
}
