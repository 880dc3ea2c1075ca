//! Chunks: the threads that run before the child looks at faults, deadlines and other requests.

use std::time::Duration;

/// Threads of the first chunk: about those that are resident on a large GPU at once.
const FIRST: u64 = 1 << 18;

/// Threads of the first chunk of a kernel that has run before, at most: its threads may take longer than those of the launch before.
const MAX_FIRST: u64 = 1 << 24;

/// Intended time of a chunk.
const TARGET: Duration = Duration::from_millis(4);

/// A chunk has at most this many times the threads of the one before.
const MAX_GROWTH: u64 = 32;

/// Sizes chunks by the time that the last one took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunks {
    size: u64,
}

impl Chunks {
    pub(super) fn new() -> Self {
        Self { size: FIRST }
    }

    /// Sizes for the next launch of the same kernel.
    pub(super) fn for_next_launch(self) -> Self {
        Self { size: self.size.min(MAX_FIRST) }
    }

    /// Threads of the next chunk, of `left` ones.
    pub(super) fn next(self, left: u64) -> u64 {
        // A rest that is smaller than a chunk is not worth one of its own.
        if left <= self.size.saturating_add(self.size / 2) { left } else { self.size }
    }

    pub(super) fn ended(&mut self, count: u64, time: Duration) {
        let nanos = time.as_nanos().max(1);
        let fitting = u128::from(count) * TARGET.as_nanos() / nanos;
        self.size = u64::try_from(fitting).unwrap_or(u64::MAX).clamp(1, count.saturating_mul(MAX_GROWTH));
    }
}

/// Returns the time that the GPU is left to others after a chunk, so that chunks take a share `duty_cycle` of the time.
pub(super) fn pause(time: Duration, duty_cycle: f32) -> Duration {
    let duty_cycle = duty_cycle.clamp(0.01, 1.0);
    time.mul_f32((1.0 - duty_cycle) / duty_cycle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_grow_to_the_time_that_one_should_take() {
        let mut chunks = Chunks::new();
        assert_eq!(chunks.next(u64::MAX), FIRST);
        chunks.ended(FIRST, Duration::from_micros(10));
        assert_eq!(chunks.next(u64::MAX), FIRST * MAX_GROWTH);
        chunks.ended(FIRST, TARGET * 4);
        assert_eq!(chunks.next(u64::MAX), FIRST / 4);
        chunks.ended(2, Duration::from_secs(60));
        assert_eq!(chunks.next(u64::MAX), 1);
        chunks.ended(u64::MAX, Duration::ZERO);
        assert_eq!(chunks.next(u64::MAX), u64::MAX);
    }

    #[test]
    fn the_next_launch_starts_with_what_the_last_one_learned() {
        let mut chunks = Chunks::new();
        chunks.ended(FIRST, TARGET / 2);
        assert_eq!(chunks.for_next_launch().next(u64::MAX), FIRST * 2);
        chunks.ended(u64::MAX, Duration::ZERO);
        assert_eq!(chunks.for_next_launch().next(u64::MAX), MAX_FIRST);
    }

    #[test]
    fn a_small_rest_is_part_of_the_last_chunk() {
        let chunks = Chunks::new();
        assert_eq!(chunks.next(FIRST + FIRST / 2), FIRST + FIRST / 2);
        assert_eq!(chunks.next(FIRST + FIRST / 2 + 1), FIRST);
        assert_eq!(chunks.next(3), 3);
    }

    #[test]
    fn pauses_leave_the_rest_of_the_time() {
        assert_eq!(pause(Duration::from_millis(3), 1.0), Duration::ZERO);
        assert_eq!(pause(Duration::from_millis(3), 0.5), Duration::from_millis(3));
        assert!(pause(Duration::from_millis(3), 0.0) > Duration::from_millis(250));
    }
}
