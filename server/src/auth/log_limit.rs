//! Bounds how many refusals are logged, so that a caller cannot fill the log: of refusals with the same principal, host and
//! reason, ten a second. The rest are counted, and the next event that is logged has their number.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Events of one kind that are logged in an interval.
const EVENTS: u32 = 10;

const INTERVAL: Duration = Duration::from_secs(1);

/// Kinds that are told apart; beyond this number they share one limit.
const KINDS: usize = 1024;

/// Kind of refusals that share a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct RefusalKind {
    principal: String,
    host: u64,
    reason: &'static str,
}

impl RefusalKind {
    pub(super) fn new(principal: &str, host: u64, reason: &'static str) -> Self {
        Self { principal: principal.to_owned(), host, reason }
    }
}

#[derive(Debug, Default)]
pub(super) struct LogLimit {
    kinds: Mutex<HashMap<RefusalKind, Window>>,
}

#[derive(Debug)]
struct Window {
    began: Instant,
    logged: u32,
    suppressed: u64,
}

impl LogLimit {
    /// Admits an event to the log. If it is logged, returns the number of its kind that were not since the last one that was.
    pub(super) fn admit(&self, now: Instant, kind: RefusalKind) -> Option<u64> {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        if kinds.len() >= KINDS && !kinds.contains_key(&kind) {
            kinds.retain(|_, window| now.saturating_duration_since(window.began) < INTERVAL);
        }
        let kind = if kinds.len() >= KINDS && !kinds.contains_key(&kind) { RefusalKind::default() } else { kind };
        let window = kinds.entry(kind).or_insert(Window { began: now, logged: 0, suppressed: 0 });
        if now.saturating_duration_since(window.began) >= INTERVAL {
            (window.began, window.logged) = (now, 0);
        }
        if window.logged == EVENTS {
            window.suppressed += 1;
            return None;
        }
        window.logged += 1;
        Some(std::mem::take(&mut window.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(principal: &str) -> RefusalKind {
        RefusalKind::new(principal, 1, "WRONG_CREDENTIALS")
    }

    #[test]
    fn a_flood_is_counted_and_the_next_event_tells_how_many_were_left_out() {
        let limit = LogLimit::default();
        let now = Instant::now();
        let admitted = (0..100).filter(|_| limit.admit(now, kind("a")).is_some()).count();
        assert_eq!(admitted, 10);
        assert_eq!(limit.admit(now + INTERVAL, kind("a")), Some(90));
        assert_eq!(limit.admit(now + INTERVAL, kind("a")), Some(0));
    }

    #[test]
    fn a_flood_of_one_caller_hides_no_other() {
        let limit = LogLimit::default();
        let now = Instant::now();
        (0..100).for_each(|_| _ = limit.admit(now, kind("a")));
        assert_eq!(limit.admit(now, kind("b")), Some(0));
    }

    #[test]
    fn the_kinds_that_are_kept_are_bounded() {
        let limit = LogLimit::default();
        let now = Instant::now();
        let admitted = (0..10 * KINDS).filter(|number| limit.admit(now, kind(&number.to_string())).is_some()).count();
        let kept = limit.kinds.lock().expect("no panic").len();
        assert!(kept <= KINDS + 1 && admitted <= KINDS + EVENTS as usize, "{kept} kinds, {admitted} events");
        assert_eq!(limit.admit(now + INTERVAL, kind("new")), Some(0), "kinds of the last interval are dropped");
    }
}
