//! Admission control: a budget of items and bytes for admitted, unanswered requests, shared by all lanes.

use std::{
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use accelerd_kernels::{Size, ledger::Allowance};
use tokio::sync::Notify;

use crate::{
    config::{Drained, EngineConfig},
    outcome::SubmitError,
    stats::AdmissionStats,
};

/// Bounds of `retry_after`.
const MIN_RETRY_AFTER: Duration = Duration::from_millis(5);
const MAX_RETRY_AFTER: Duration = Duration::from_secs(5);

/// `retry_after` while the drain rate is unknown.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_millis(50);

/// A request of more than 1/256 of the budget is large. 1/16 of the budget is reserved for the others, so that a flood
/// of large requests does not lock them out.
const LARGE_SHARE: u64 = 256;
const RESERVED_SHARE: u64 = 16;

/// The drain rate is measured over the last one to two windows.
const WINDOW: Duration = Duration::from_millis(500);

/// Admits requests within the budget until the engine drains.
#[derive(Debug)]
pub(crate) struct Admission {
    items: Budget,
    bytes: Budget,
    /// The part of the ledger that admitted bytes are taken from, if any.
    allowance: OnceLock<Arc<Allowance>>,
    /// Requests refused because they would have missed their deadline.
    refused_time: AtomicU64,
    requests: AtomicU64,
    draining: AtomicBool,
    /// Notified when the last request is answered while draining.
    empty: Notify,
    drain_rate: Mutex<DrainRate>,
}

/// The budget of one measure, items or bytes.
#[derive(Debug)]
struct Budget {
    measure: &'static str,
    limit: u64,
    held: AtomicU64,
    /// Total released since the start.
    released: AtomicU64,
    refused: AtomicU64,
}

/// A request's part of the budget, released on drop.
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
    pub(crate) fn new(config: &EngineConfig) -> Self {
        Self {
            items: Budget::new("items", config.max_items),
            bytes: Budget::new("bytes", config.max_bytes),
            allowance: OnceLock::new(),
            refused_time: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            draining: AtomicBool::new(false),
            empty: Notify::new(),
            drain_rate: Mutex::new(DrainRate::new(Instant::now())),
        }
    }

    /// Takes admitted bytes from `allowance`, unless there is one. No request may be admitted before.
    pub(crate) fn charge_to(&self, allowance: Arc<Allowance>) {
        let _was_set = self.allowance.set(allowance);
    }

    /// Admits a request that reserves `size` of the budget. It needs `run_bytes` on its device, which has `capacity`.
    pub(crate) fn admit(self: &Arc<Self>, size: Size, run_bytes: u64, capacity: u64) -> Result<Permit, SubmitError> {
        if self.is_draining() {
            return Err(SubmitError::Draining);
        }
        self.items.check(size.items, self.items.limit)?;
        self.bytes.check(size.bytes, self.bytes.limit)?;
        self.bytes.check(run_bytes, capacity)?;
        self.items.reserve(size.items).map_err(|held| self.full(&self.items, held, size.items))?;
        if let Err(held) = self.bytes.reserve(size.bytes) {
            self.items.held.fetch_sub(size.items, SeqCst);
            return Err(self.full(&self.bytes, held, size.bytes));
        }
        if let Some(Err(refusal)) = self.allowance.get().map(|allowance| allowance.take(size.bytes)) {
            self.items.held.fetch_sub(size.items, SeqCst);
            self.bytes.held.fetch_sub(size.bytes, SeqCst);
            self.bytes.refused.fetch_add(1, SeqCst);
            return Err(SubmitError::MemoryLimit(Box::new(refusal)));
        }
        self.requests.fetch_add(1, SeqCst);
        let permit = Permit { admission: Arc::clone(self), size };
        // Checked again after the increment: either a concurrent drain sees this request, or this check sees the drain.
        if self.is_draining() { Err(SubmitError::Draining) } else { Ok(permit) }
    }

    /// Stops admission.
    pub(crate) fn stop(&self) {
        self.draining.store(true, SeqCst);
    }

    /// Resumes admission after a drain. Not called once the engine stops.
    pub(crate) fn resume(&self) {
        self.draining.store(false, SeqCst);
    }

    /// Returns true if admission is stopped.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(SeqCst)
    }

    /// Number of admitted, unanswered requests.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(SeqCst)
    }

    /// Stops admission and waits until every request is answered, for at most `timeout`.
    pub(crate) async fn drain(&self, timeout: Duration) -> Drained {
        self.stop();
        let emptied = async {
            loop {
                let notified = self.empty.notified();
                tokio::pin!(notified);
                notified.as_mut().enable();
                if self.requests() == 0 {
                    break;
                }
                notified.await;
            }
        };
        // The count below decides: the last answer may coincide with the timeout.
        let _ = tokio::time::timeout(timeout, emptied).await;
        let remaining = self.requests();
        Drained { complete: remaining == 0, remaining }
    }

    /// Advances the window of the drain rate; called periodically.
    pub(crate) fn tick(&self, now: Instant) {
        if let Ok(mut rate) = self.drain_rate.try_lock() {
            rate.tick(now, self.released());
        }
    }

    pub(crate) fn stats(&self) -> AdmissionStats {
        AdmissionStats {
            requests: self.requests(),
            items: self.items.held.load(SeqCst),
            max_items: self.items.limit,
            bytes: self.bytes.held.load(SeqCst),
            max_bytes: self.bytes.limit,
            refused_items: self.items.refused.load(SeqCst),
            refused_bytes: self.bytes.refused.load(SeqCst),
            refused_time: self.refused_time.load(SeqCst),
        }
    }

    /// Counts the refusal of a request that would be answered after `estimated`, with its deadline in `left`. The queue is
    /// short enough for such a request once the excess is served, unless it takes too long by itself.
    pub(crate) fn would_miss(&self, estimated: Duration, left: Duration, fits_alone: bool) -> SubmitError {
        self.refused_time.fetch_add(1, SeqCst);
        let excess = estimated.saturating_sub(left);
        let retry_after = fits_alone.then(|| excess.clamp(MIN_RETRY_AFTER, MAX_RETRY_AFTER));
        SubmitError::WouldMissDeadline { estimated, left, retry_after }
    }

    fn release(&self, size: Size) {
        self.items.release(size.items);
        self.bytes.release(size.bytes);
        if let Some(allowance) = self.allowance.get() {
            allowance.release(size.bytes);
        }
        if self.requests.fetch_sub(1, SeqCst) == 1 && self.is_draining() {
            self.empty.notify_waiters();
        }
    }

    fn released(&self) -> Size {
        Size { items: self.items.released.load(SeqCst), bytes: self.bytes.released.load(SeqCst) }
    }

    /// Counts a refusal. `retry_after` is the time until enough budget is released at the recent drain rate.
    fn full(&self, budget: &Budget, held: u64, asked: u64) -> SubmitError {
        budget.refused.fetch_add(1, SeqCst);
        let limit = budget.limit;
        let missing = (held + asked).saturating_sub(limit);
        let now = Instant::now();
        let mut rate = self.drain_rate.lock().unwrap_or_else(PoisonError::into_inner);
        rate.tick(now, self.released());
        let retry_after = rate.time_to_release(missing, now, self.released(), |size| match budget.measure {
            "items" => size.items,
            _ => size.bytes,
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

    /// Reserves a part. On failure, returns how much is in use.
    fn reserve(&self, asked: u64) -> Result<u64, u64> {
        let is_large = asked > self.limit / LARGE_SHARE;
        let reserved = if is_large { self.limit / RESERVED_SHARE } else { 0 };
        // A request that exceeds the unreserved part may use the whole budget while nothing else is admitted.
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

/// The rate at which budget was released over the last one or two windows.
#[derive(Debug)]
struct DrainRate {
    /// Start of the measured interval.
    from: (Instant, Size),
    /// Start of the next interval.
    next: (Instant, Size),
}

impl DrainRate {
    fn new(now: Instant) -> Self {
        Self { from: (now, Size::default()), next: (now, Size::default()) }
    }

    fn tick(&mut self, now: Instant, released: Size) {
        let age = now.saturating_duration_since(self.next.0);
        if age > 4 * WINDOW {
            // The last sample is too old to describe the current rate.
            *self = Self { from: (now, released), next: (now, released) };
        } else if age >= WINDOW {
            self.from = std::mem::replace(&mut self.next, (now, released));
        }
    }

    /// Estimates the time until `missing` more of the measure that `select` picks is released.
    fn time_to_release(&self, missing: u64, now: Instant, released: Size, select: impl Fn(Size) -> u64) -> Duration {
        let seconds = now.saturating_duration_since(self.from.0).as_secs_f64();
        let recent = select(released).saturating_sub(select(self.from.1));
        if recent == 0 {
            // Either the interval is too short to tell, or everything is stalled.
            return if seconds < MIN_RETRY_AFTER.as_secs_f64() { DEFAULT_RETRY_AFTER } else { MAX_RETRY_AFTER };
        }
        let wait = missing as f64 * seconds / recent as f64;
        Duration::try_from_secs_f64(wait).unwrap_or(MAX_RETRY_AFTER).clamp(MIN_RETRY_AFTER, MAX_RETRY_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use accelerd_kernels::ledger::{Account, Kind, Limit};

    use super::*;

    fn admission(max_items: u64, max_bytes: u64) -> Arc<Admission> {
        let slice = Duration::from_millis(10);
        Arc::new(Admission::new(&EngineConfig {
            cuda_workers: 1,
            cpu_workers: 1,
            cpu_paused_batches: 0,
            max_items,
            max_bytes,
            cpu_slice: slice,
            cuda_slice: slice,
            hang_timeout: Duration::ZERO,
            memory_retry: Duration::ZERO,
        }))
    }

    fn size(items: u64, bytes: u64) -> Size {
        Size { items, bytes }
    }

    #[test]
    fn each_measure_is_bounded_and_released() {
        let admission = admission(10, 1000);
        let first = admission.admit(size(6, 100), 100, u64::MAX).expect("fits");
        let refused = admission.admit(size(5, 100), 100, u64::MAX).expect_err("11 items");
        assert!(
            matches!(refused, SubmitError::Full { measure: "items", held: 6, limit: 10, asked: 5, .. }),
            "{refused}"
        );
        let refused = admission.admit(size(1, 950), 950, u64::MAX).expect_err("1050 bytes");
        assert!(matches!(refused, SubmitError::Full { measure: "bytes", held: 100, .. }), "{refused}");
        assert_eq!(admission.stats().items, 6, "a refusal reserves nothing");
        drop(first);
        admission.admit(size(10, 1000), 1000, u64::MAX).expect("all is free again");
        assert_eq!((admission.stats().items, admission.stats().bytes, admission.requests()), (0, 0, 0));
    }

    #[test]
    fn large_requests_leave_a_reserve_for_small_ones() {
        let admission = admission(1600, 1 << 40);
        let large: Vec<_> = (0..20).map_while(|_| admission.admit(size(100, 1), 1, u64::MAX).ok()).collect();
        assert_eq!(large.len(), 15, "a sixteenth is reserved");
        let small: Vec<_> = (0..20).map_while(|_| admission.admit(size(6, 1), 1, u64::MAX).ok()).collect();
        assert_eq!(small.len(), 16, "small requests use the reserve");
        drop((large, small));
        admission.admit(size(1600, 1), 1, u64::MAX).expect("a lone request may use the whole budget");
    }

    #[test]
    fn requests_that_can_never_fit_get_a_different_error_than_a_full_budget() {
        let admission = admission(10, 1000);
        let refused = admission.admit(size(11, 1), 1, u64::MAX).expect_err("over the limit");
        assert!(matches!(refused, SubmitError::TooLarge { measure: "items", asked: 11, limit: 10 }));
        let refused = admission.admit(size(1, 60), 600, 500).expect_err("over the device");
        assert!(matches!(refused, SubmitError::TooLarge { measure: "bytes", asked: 600, limit: 500 }));
        let refused = admission.admit(size(1, 1001), 1, u64::MAX).expect_err("over the budget");
        assert!(matches!(refused, SubmitError::TooLarge { measure: "bytes", asked: 1001, limit: 1000 }));
        admission.admit(size(1, 10), 5000, 5000).expect("bytes needed to run are not reserved");
    }

    #[test]
    fn bytes_are_taken_from_the_ledger_and_returned() {
        let account = Account::standalone(Kind::Requests, Limit { bytes: 500, setting: "memory.host_limit" });
        let allowance = Arc::new(Allowance::new(&account, 0, 1).expect("nothing is asked for"));
        let admission = admission(10, 1000);
        admission.charge_to(Arc::clone(&allowance));
        let held = admission.admit(size(1, 400), 400, u64::MAX).expect("fits both");
        let refused = admission.admit(size(1, 200), 200, u64::MAX).expect_err("the ledger has 100 left");
        assert!(matches!(&refused, SubmitError::MemoryLimit(full) if full.asked == 200), "{refused}");
        assert_eq!((admission.stats().bytes, admission.stats().items, allowance.taken()), (400, 1, 400));
        drop(held);
        assert_eq!((allowance.taken(), admission.stats().bytes), (0, 0));
    }

    #[test]
    fn retry_after_follows_the_recent_drain_rate_within_its_bounds() {
        let start = Instant::now();
        let mut rate = DrainRate::new(start);
        let after = |millis| start + Duration::from_millis(millis);
        let wait_for = |rate: &DrainRate, missing, millis, released| {
            rate.time_to_release(missing, after(millis), size(released, 0), |size| size.items)
        };
        assert_eq!(wait_for(&rate, 10, 1, 0), DEFAULT_RETRY_AFTER);
        // 100 items in 100 ms.
        assert_eq!(wait_for(&rate, 20, 100, 100), Duration::from_millis(20));
        assert_eq!(wait_for(&rate, 1, 100, 100), MIN_RETRY_AFTER);
        assert_eq!(wait_for(&rate, 1_000_000, 100, 100), MAX_RETRY_AFTER);
        // Nothing is released for two windows.
        rate.tick(after(500), size(100, 0));
        rate.tick(after(1000), size(100, 0));
        assert_eq!(wait_for(&rate, 1, 1100, 100), MAX_RETRY_AFTER);
        // The last sample is too old.
        rate.tick(after(10_000), size(100, 0));
        assert_eq!(wait_for(&rate, 1, 10_001, 100), DEFAULT_RETRY_AFTER);
    }

    #[tokio::test(start_paused = true)]
    async fn a_drain_ends_with_the_last_answer_or_its_timeout() {
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
