//! Progress of a driver, read at each tick of the clock.

use wasmtime::Global;

/// The time limits of a loop that runs in WebAssembly.
pub(super) struct Progress {
    /// The driver's globals `case` and `end`, once it is instantiated.
    pub(super) globals: Option<(Global, Global)>,
    timeout_ticks: u64,
    slice_end: u64,
    current: Option<i32>,
    ticks: u64,
}

/// Action at a tick.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tick {
    /// The loop runs on.
    Continue,
    /// The slice is over: no case starts after the current one.
    StopAfterCurrent,
    /// The current case has run too long.
    Timeout,
}

impl Progress {
    /// A case may see `timeout_ticks` ticks; no case starts after the clock reaches `slice_end`.
    pub(super) fn new(timeout_ticks: u64, slice_end: u64) -> Self {
        Self { globals: None, timeout_ticks, slice_end, current: None, ticks: 0 }
    }

    /// The next call of the loop is about to start.
    pub(super) fn restart(&mut self, slice_end: u64) {
        (self.slice_end, self.current, self.ticks) = (slice_end, None, 0);
    }

    /// Takes note of a tick while `case` runs; `None` during instantiation.
    pub(super) fn tick(&mut self, case: Option<i32>, now: u64) -> Tick {
        if self.current == case {
            self.ticks += 1;
        } else {
            (self.current, self.ticks) = (case, 1);
        }
        if self.ticks >= self.timeout_ticks {
            Tick::Timeout
        } else if now >= self.slice_end {
            Tick::StopAfterCurrent
        } else {
            Tick::Continue
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_case_that_sees_all_its_ticks_times_out() {
        let mut progress = Progress::new(3, 100);
        assert_eq!(progress.tick(Some(5), 1), Tick::Continue);
        assert_eq!(progress.tick(Some(5), 2), Tick::Continue);
        assert_eq!(progress.tick(Some(6), 3), Tick::Continue);
        assert_eq!(progress.tick(Some(6), 4), Tick::Continue);
        assert_eq!(progress.tick(Some(6), 5), Tick::Timeout);
    }

    #[test]
    fn a_slice_ends_with_the_case_that_runs_at_its_end() {
        let mut progress = Progress::new(9, 10);
        assert_eq!(progress.tick(Some(1), 9), Tick::Continue);
        assert_eq!(progress.tick(Some(2), 10), Tick::StopAfterCurrent);
    }

    #[test]
    fn a_restarted_loop_has_the_whole_time_limit() {
        let mut progress = Progress::new(2, 100);
        assert_eq!(progress.tick(Some(1), 1), Tick::Continue);
        progress.restart(100);
        assert_eq!(progress.tick(Some(1), 2), Tick::Continue);
        assert_eq!(progress.tick(Some(1), 3), Tick::Timeout);
    }
}
