//! The work of a call that is split into requests: what is left of it, estimated from the sizes of the texts that are not tokenized yet.

use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// The work of a call. Its streams update it while its requests read it.
#[derive(Debug, Default)]
pub(super) struct CallWork {
    /// Bytes of each text. Empty if the number of texts is not known, which then are tokenized at once.
    sizes: Vec<usize>,
    /// Bytes of all texts.
    bytes: u64,
    tokenized_bytes: AtomicU64,
    /// Cost of the requests of tokenized texts.
    tokenized_cost: AtomicU64,
    /// Cost of the requests that have begun.
    begun_cost: AtomicU64,
}

impl CallWork {
    /// The work of texts of these sizes in bytes.
    pub(super) fn new(sizes: Vec<usize>) -> Self {
        let bytes = sizes.iter().map(|size| *size as u64).sum();
        Self { sizes, bytes, ..Self::default() }
    }

    /// Adds the requests of tokenized texts.
    pub(super) fn add_tokenized(&self, texts: Range<usize>, cost: u64) {
        let bytes = self.sizes.get(texts).unwrap_or_default().iter().map(|size| *size as u64).sum();
        self.tokenized_bytes.fetch_add(bytes, Relaxed);
        self.tokenized_cost.fetch_add(cost, Relaxed);
    }

    /// Begins a request of this cost. Returns the expected cost of the call that is left with it.
    pub(super) fn begin(&self, cost: u64) -> u64 {
        let begun = self.begun_cost.fetch_add(cost, Relaxed);
        let tokenized_cost = self.tokenized_cost.load(Relaxed);
        let tokenized_bytes = self.tokenized_bytes.load(Relaxed);
        let bytes_left = self.bytes.saturating_sub(tokenized_bytes);
        let in_proportion = u128::from(tokenized_cost) * u128::from(bytes_left) / u128::from(tokenized_bytes.max(1));
        let cost_left = if tokenized_bytes == 0 { 0 } else { u64::try_from(in_proportion).unwrap_or(u64::MAX) };
        tokenized_cost.saturating_add(cost_left).saturating_sub(begun)
    }

    /// Returns true if a request has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.begun_cost.load(Relaxed) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_call_includes_texts_that_are_not_tokenized() {
        let work = CallWork::new(vec![10, 30, 20, 60]);
        work.add_tokenized(0..2, 400);
        assert_eq!(work.begin(100), 1200);
        assert_eq!(work.begin(300), 1100);
        work.add_tokenized(2..4, 1000);
        assert_eq!(work.begin(600), 1000, "more than was expected");
        assert_eq!(work.begin(400), 400);
    }

    #[test]
    fn a_call_that_is_tokenized_at_once_has_the_cost_of_its_requests() {
        let work = CallWork::default();
        work.add_tokenized(0..7, 500);
        assert!(!work.has_begun());
        assert_eq!((work.begin(200), work.begin(300)), (500, 300));
        assert!(work.has_begun());
    }
}
