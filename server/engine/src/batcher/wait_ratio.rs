//! Ratio of the time that a principal's entries wait to the one that was expected when they were admitted.
//!
//! The ratio covers causes that an expectation cannot know: calls of higher priority that arrive later, other lanes on the same
//! device, principals that return. It is a mean plus the mean deviation, as a retransmission timeout is (Jacobson, 1988), so
//! that waits that vary are expected to be long.

/// The weight of a new observation.
const WEIGHT: f64 = 0.05;

/// Seconds added to both waits, so that short ones, whose ratio is noise, count little.
const OFFSET: f64 = 0.005;

/// Bounds of one observation and of the ratio.
const MAX_RATIO: f64 = 8.0;

#[derive(Clone, Copy, Debug)]
pub(super) struct WaitRatio {
    mean: f64,
    deviation: f64,
}

impl Default for WaitRatio {
    fn default() -> Self {
        Self { mean: 1.0, deviation: 0.0 }
    }
}

impl WaitRatio {
    /// Seconds expected at admission, and the seconds that the entry waited until it was served or removed.
    pub(super) fn record(&mut self, expected: f64, waited: f64) {
        let ratio = ((waited + OFFSET) / (expected + OFFSET)).min(MAX_RATIO);
        let error = ratio - self.mean;
        self.mean += error * WEIGHT;
        self.deviation += (error.abs() - self.deviation) * WEIGHT;
    }

    /// The factor to apply to an expected wait. At least 1: an expectation that is too long costs nothing while the queue
    /// is long enough to keep the device busy.
    pub(super) fn get(self) -> f64 {
        (self.mean + self.deviation).clamp(1.0, MAX_RATIO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_bias_is_learned() {
        let mut ratio = WaitRatio::default();
        (0..200).for_each(|_| ratio.record(0.1, 0.3));
        assert!((2.7..3.2).contains(&ratio.get()), "{ratio:?}");
        (0..200).for_each(|_| ratio.record(0.1, 0.1));
        assert!((1.0..1.1).contains(&ratio.get()), "{ratio:?}");
    }

    #[test]
    fn waits_that_vary_are_expected_to_be_long() {
        let mut ratio = WaitRatio::default();
        (0..400).for_each(|number| ratio.record(0.1, if number % 2 == 0 { 0.02 } else { 0.18 }));
        assert!(ratio.get() > 1.5, "{ratio:?}");
    }

    #[test]
    fn short_waits_and_outliers_move_it_little() {
        let mut ratio = WaitRatio::default();
        (0..100).for_each(|_| ratio.record(0.0, 0.001));
        assert!(ratio.get() < 1.5, "{ratio:?}");
        ratio.record(0.001, 1e6);
        assert!(ratio.get() < 2.5, "{ratio:?}");
    }
}
