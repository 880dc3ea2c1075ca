//! How many streams a connection may reset before their requests have arrived.
//!
//! A peer does not know at once that its stream was reset, and `h2` ignores what still arrives on the streams that it remembers.
//! Data on a stream that it has forgotten counts as an error of the peer, and too many of these close the connection.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Reset streams that `h2` remembers for each connection, at some hundred bytes each.
pub(super) const REMEMBERED_RESETS: usize = 4096;

/// How long it remembers them: longer than a peer's data is in flight.
pub(super) const RESET_MEMORY: Duration = Duration::from_secs(1);

/// The resets of a connection. In any interval of [`RESET_MEMORY`], which overlaps at most two windows, there are at most
/// [`REMEMBERED_RESETS`].
#[derive(Debug, Default)]
pub(super) struct ResetBudget(Mutex<Window>);

#[derive(Debug, Default)]
struct Window {
    start: Option<Instant>,
    resets: usize,
}

impl ResetBudget {
    /// Takes one reset, if there is one left.
    pub(super) fn take(&self, now: Instant) -> bool {
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if window.start.is_none_or(|start| now.saturating_duration_since(start) >= RESET_MEMORY) {
            *window = Window { start: Some(now), resets: 0 };
        }
        let is_left = window.resets < REMEMBERED_RESETS / 2;
        window.resets += usize::from(is_left);
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resets_within_the_memory_of_the_connection_are_bounded() {
        let (budget, start) = (ResetBudget::default(), Instant::now());
        let every = Duration::from_micros(100);
        let resets: Vec<_> = (0..50_000).map(|at| start + every * at).filter(|at| budget.take(*at)).collect();
        let within = |from: usize| resets[from..].iter().take_while(|at| **at - resets[from] < RESET_MEMORY).count();
        let most = (0..resets.len()).step_by(64).map(within).max().expect("some were taken");
        assert!((REMEMBERED_RESETS / 2..=REMEMBERED_RESETS).contains(&most), "{most}");
        assert_eq!(resets.len(), 5 * REMEMBERED_RESETS / 2, "each of the five seconds has its share");
    }
}
