//! The budget of work admitted and not answered, in requests' items and bytes, over all lanes.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use accelerd_kernels::Size;
use tokio::sync::Notify;

use crate::{
    config::{Drained, EngineConfig},
    outcome::SubmitError,
    stats::AdmissionStats,
};

/// Bounds of the advice when to retry.
const SOONEST: Duration = Duration::from_millis(5);
const LATEST: Duration = Duration::from_secs(5);

/// The advice while nothing is known of the pace.
const UNKNOWN: Duration = Duration::from_millis(50);

/// Requests of more than this share of the budget are large, and leave another share to the others: a caller who floods the
/// daemon with them does not lock out those who ask for little.
const LARGE_SHARE: u64 = 256;
const RESERVED_SHARE: u64 = 16;

/// How much of the recent past the pace is measured over: one to two of these.
const WINDOW: Duration = Duration::from_millis(500);

/// What is admitted now, and the gate that closes when the engine drains.
#[derive(Debug)]
pub(crate) struct Admission {
    items: Budget,
    bytes: Budget,
    requests: AtomicU64,
    draining: AtomicBool,
    /// Told when the last request is answered while draining.
    empty: Notify,
    drain_rate: Mutex<DrainRate>,
}

/// One measure of the budget.
#[derive(Debug)]
struct Budget {
    measure: &'static str,
    limit: u64,
    held: AtomicU64,
    /// Given back since the start.
    released: AtomicU64,
    refused: AtomicU64,
}

/// A part of the budget, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    admission: Arc<Admission>,
    size: Size,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.admission.release(self.size);
    }
}

impl Admission {
    /// Nothing is admitted yet.
    pub(crate) fn new(config: &EngineConfig) -> Self {
        Self {
            items: Budget::new("items", config.max_items),
            bytes: Budget::new("bytes", config.max_bytes),
            requests: AtomicU64::new(0),
            draining: AtomicBool::new(false),
            empty: Notify::new(),
            drain_rate: Mutex::new(DrainRate::new(Instant::now())),
        }
    }

    /// Admits a request that holds so much, and needs so many bytes to run where there are at most so many.
    pub(crate) fn admit(self: &Arc<Self>, size: Size, needs: u64, most: u64) -> Result<Permit, SubmitError> {
        if self.is_draining() {
            return Err(SubmitError::Draining);
        }
        self.items.check(size.items, self.items.limit)?;
        self.bytes.check(size.bytes, self.bytes.limit)?;
        self.bytes.check(needs, most)?;
        self.items.reserve(size.items).map_err(|held| self.full(&self.items, held, size.items))?;
        if let Err(held) = self.bytes.reserve(size.bytes) {
            self.items.held.fetch_sub(size.items, SeqCst);
            return Err(self.full(&self.bytes, held, size.bytes));
        }
        self.requests.fetch_add(1, SeqCst);
        let permit = Permit { admission: Arc::clone(self), size };
        // Asked again now that it counts: a drain that began meanwhile either sees it, or it sees the drain.
        if self.is_draining() { Err(SubmitError::Draining) } else { Ok(permit) }
    }

    /// Admits nothing any more.
    pub(crate) fn stop(&self) {
        self.draining.store(true, SeqCst);
    }

    /// Admits again, after a drain. Not after the engine's own end.
    pub(crate) fn resume(&self) {
        self.draining.store(false, SeqCst);
    }

    /// Whether nothing is admitted any more.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(SeqCst)
    }

    /// Requests admitted and not answered.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(SeqCst)
    }

    /// Admits nothing any more and waits until all is answered, at most so long.
    pub(crate) async fn drain(&self, timeout: Duration) -> Drained {
        self.stop();
        let emptied = async {
            loop {
                let told = self.empty.notified();
                tokio::pin!(told);
                told.as_mut().enable();
                if self.requests() == 0 {
                    break;
                }
                told.await;
            }
        };
        // Whether the time was up does not matter if the last answer came with it.
        let _ = tokio::time::timeout(timeout, emptied).await;
        let remaining = self.requests();
        Drained { complete: remaining == 0, remaining }
    }

    /// Keeps the measured pace recent; called now and then by whoever knows the time.
    pub(crate) fn tick(&self, now: Instant) {
        if let Ok(mut rate) = self.drain_rate.try_lock() {
            rate.tick(now, self.released());
        }
    }

    /// Held and refused so far.
    pub(crate) fn stats(&self) -> AdmissionStats {
        AdmissionStats {
            requests: self.requests(),
            items: self.items.held.load(SeqCst),
            max_items: self.items.limit,
            bytes: self.bytes.held.load(SeqCst),
            max_bytes: self.bytes.limit,
            refused_items: self.items.refused.load(SeqCst),
            refused_bytes: self.bytes.refused.load(SeqCst),
        }
    }

    fn release(&self, size: Size) {
        self.items.release(size.items);
        self.bytes.release(size.bytes);
        if self.requests.fetch_sub(1, SeqCst) == 1 && self.is_draining() {
            self.empty.notify_waiters();
        }
    }

    fn released(&self) -> Size {
        Size { items: self.items.released.load(SeqCst), bytes: self.bytes.released.load(SeqCst) }
    }

    /// The refusal, with the time after which so much will have been given back at the recent pace.
    fn full(&self, budget: &Budget, held: u64, asked: u64) -> SubmitError {
        budget.refused.fetch_add(1, SeqCst);
        let limit = budget.limit;
        let missing = (held + asked).saturating_sub(limit);
        let now = Instant::now();
        let mut rate = self.drain_rate.lock().unwrap_or_else(PoisonError::into_inner);
        rate.tick(now, self.released());
        let retry_after = rate.time_for(now, self.released(), |size| match budget.measure {
            "items" => (size.items, missing),
            _ => (size.bytes, missing),
        });
        SubmitError::Full { measure: budget.measure, held, limit, asked, retry_after }
    }
}

impl Budget {
    fn new(measure: &'static str, limit: u64) -> Self {
        let zero = || AtomicU64::new(0);
        Self { measure, limit, held: zero(), released: zero(), refused: zero() }
    }

    fn check(&self, asked: u64, limit: u64) -> Result<(), SubmitError> {
        let refusal = SubmitError::TooLarge { measure: self.measure, asked, limit };
        if asked > limit { Err(refusal) } else { Ok(()) }
    }

    /// Takes a part, or says how much is held.
    fn reserve(&self, asked: u64) -> Result<u64, u64> {
        let is_large = asked > self.limit / LARGE_SHARE;
        let reserved = if is_large { self.limit / RESERVED_SHARE } else { 0 };
        // What is larger than the rest of the budget may have all of it, when nobody else has any.
        let take = |held: u64| {
            held.checked_add(asked).filter(|sum| *sum <= self.limit - reserved || (held == 0 && *sum <= self.limit))
        };
        self.held.fetch_update(SeqCst, SeqCst, take)
    }

    fn release(&self, part: u64) {
        self.held.fetch_sub(part, SeqCst);
        self.released.fetch_add(part, SeqCst);
    }
}

/// How fast budget was given back over the last one or two windows.
#[derive(Debug)]
struct DrainRate {
    /// Where the measured stretch starts.
    from: (Instant, Size),
    /// Where the next one will.
    next: (Instant, Size),
}

impl DrainRate {
    fn new(now: Instant) -> Self {
        Self { from: (now, Size::default()), next: (now, Size::default()) }
    }

    fn tick(&mut self, now: Instant, released: Size) {
        let age = now.saturating_duration_since(self.next.0);
        if age > 4 * WINDOW {
            // Nobody looked for long: the pace of that time says nothing of now.
            *self = Self { from: (now, released), next: (now, released) };
        } else if age >= WINDOW {
            self.from = std::mem::replace(&mut self.next, (now, released));
        }
    }

    /// How long until a measure has grown by what `select` gives beside it.
    fn time_for(&self, now: Instant, released: Size, select: impl Fn(Size) -> (u64, u64)) -> Duration {
        let seconds = now.saturating_duration_since(self.from.0).as_secs_f64();
        let ((before, missing), (after, _)) = (select(self.from.1), select(released));
        let grown = after.saturating_sub(before);
        if grown == 0 {
            // Nothing came back: either the stretch is too short to tell, or everything stands still.
            return if seconds < SOONEST.as_secs_f64() { UNKNOWN } else { LATEST };
        }
        let wait = missing as f64 * seconds / grown as f64;
        Duration::try_from_secs_f64(wait).unwrap_or(LATEST).clamp(SOONEST, LATEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(max_items: u64, max_bytes: u64) -> Arc<Admission> {
        Arc::new(Admission::new(&EngineConfig { cuda_workers: 1, cpu_workers: 1, max_items, max_bytes }))
    }

    fn size(items: u64, bytes: u64) -> Size {
        Size { items, bytes }
    }

    #[test]
    fn each_measure_is_bounded_and_given_back() {
        let admission = admission(10, 1000);
        let first = admission.admit(size(6, 100), 100, u64::MAX).expect("fits");
        let refused = admission.admit(size(5, 100), 100, u64::MAX).expect_err("11 items");
        assert!(
            matches!(refused, SubmitError::Full { measure: "items", held: 6, limit: 10, asked: 5, .. }),
            "{refused}"
        );
        let refused = admission.admit(size(1, 950), 950, u64::MAX).expect_err("1050 bytes");
        assert!(matches!(refused, SubmitError::Full { measure: "bytes", held: 100, .. }), "{refused}");
        assert_eq!(admission.stats().items, 6, "a refusal leaves nothing behind");
        drop(first);
        admission.admit(size(10, 1000), 1000, u64::MAX).expect("all is free again");
        assert_eq!((admission.stats().items, admission.stats().bytes, admission.requests()), (0, 0, 0));
    }

    #[test]
    fn large_requests_leave_room_for_small_ones() {
        let admission = admission(1600, 1 << 40);
        let large: Vec<_> = (0..20).map_while(|_| admission.admit(size(100, 1), 1, u64::MAX).ok()).collect();
        assert_eq!(large.len(), 15, "a sixteenth is left");
        let small: Vec<_> = (0..20).map_while(|_| admission.admit(size(6, 1), 1, u64::MAX).ok()).collect();
        assert_eq!(small.len(), 16, "small ones have it");
        drop((large, small));
        admission.admit(size(1600, 1), 1, u64::MAX).expect("one may have everything, where nobody else has any");
    }

    #[test]
    fn what_can_never_fit_is_told_apart_from_what_does_not_fit_now() {
        let admission = admission(10, 1000);
        let refused = admission.admit(size(11, 1), 1, u64::MAX).expect_err("over the limit");
        assert!(matches!(refused, SubmitError::TooLarge { measure: "items", asked: 11, limit: 10 }));
        let refused = admission.admit(size(1, 60), 600, 500).expect_err("over the device");
        assert!(matches!(refused, SubmitError::TooLarge { measure: "bytes", asked: 600, limit: 500 }));
        let refused = admission.admit(size(1, 1001), 1, u64::MAX).expect_err("over the budget");
        assert!(matches!(refused, SubmitError::TooLarge { measure: "bytes", asked: 1001, limit: 1000 }));
        admission.admit(size(1, 10), 5000, 5000).expect("what it needs once it runs is not held until then");
    }

    #[test]
    fn the_advice_follows_the_recent_pace_within_its_bounds() {
        let start = Instant::now();
        let mut rate = DrainRate::new(start);
        let after = |millis| start + Duration::from_millis(millis);
        let of_items = |missing| move |size: Size| (size.items, missing);
        assert_eq!(rate.time_for(after(1), size(0, 0), of_items(10)), UNKNOWN);
        // 100 items in 100 ms.
        assert_eq!(rate.time_for(after(100), size(100, 0), of_items(20)), Duration::from_millis(20));
        assert_eq!(rate.time_for(after(100), size(100, 0), of_items(1)), SOONEST);
        assert_eq!(rate.time_for(after(100), size(100, 0), of_items(1_000_000)), LATEST);
        // Nothing has come back for two windows: it stands still.
        rate.tick(after(500), size(100, 0));
        rate.tick(after(1000), size(100, 0));
        assert_eq!(rate.time_for(after(1100), size(100, 0), of_items(1)), LATEST);
        // After a long silence nothing is known.
        rate.tick(after(10_000), size(100, 0));
        assert_eq!(rate.time_for(after(10_001), size(100, 0), of_items(1)), UNKNOWN);
    }

    #[tokio::test(start_paused = true)]
    async fn a_drain_ends_with_the_last_answer_or_with_its_time() {
        let admission = admission(10, 1000);
        let held = admission.admit(size(1, 1), 1, u64::MAX).expect("fits");
        let late = admission.drain(Duration::from_secs(1)).await;
        assert_eq!(late, Drained { complete: false, remaining: 1 });
        assert!(matches!(admission.admit(size(1, 1), 1, u64::MAX), Err(SubmitError::Draining)));
        let waiting = tokio::spawn({
            let admission = Arc::clone(&admission);
            async move { admission.drain(Duration::from_secs(1)).await }
        });
        tokio::task::yield_now().await;
        drop(held);
        assert_eq!(waiting.await.expect("it ends"), Drained { complete: true, remaining: 0 });
    }
}
