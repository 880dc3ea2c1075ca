//! Quotas of a principal: the rate of its requests, and the bytes of its request messages in flight.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::time::Instant;

/// A principal's use of its quotas.
#[derive(Debug, Default)]
pub(super) struct Usage {
    bucket: TokenBucket,
    bytes_in_flight: AtomicU64,
}

impl Usage {
    /// Takes one request of `rate` per second; an error says when the next one is available.
    pub(super) fn take_request(&self, rate: f64) -> Result<(), Duration> {
        self.bucket.take(rate, Instant::now())
    }

    /// Reserves bytes of `limit`; an error has the bytes in use.
    pub(super) fn reserve_bytes(self: &Arc<Self>, bytes: u64, limit: u64) -> Result<BytesInFlight, u64> {
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit);
        self.bytes_in_flight.fetch_update(Relaxed, Relaxed, fits)?;
        Ok(BytesInFlight { usage: Arc::clone(self), bytes })
    }
}

/// Reserved bytes of a principal's quota, released on drop.
#[derive(Debug)]
pub(crate) struct BytesInFlight {
    usage: Arc<Usage>,
    bytes: u64,
}

impl Drop for BytesInFlight {
    fn drop(&mut self) {
        self.usage.bytes_in_flight.fetch_sub(self.bytes, Relaxed);
    }
}

/// A token bucket that holds one second of requests, and at least one. It starts full.
#[derive(Debug, Default)]
struct TokenBucket(Mutex<Option<Level>>);

/// Fill level of a bucket.
#[derive(Clone, Copy, Debug)]
struct Level {
    requests: f64,
    at: Instant,
}

impl TokenBucket {
    fn take(&self, rate: f64, now: Instant) -> Result<(), Duration> {
        let burst = rate.max(1.0);
        let mut level = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = level.unwrap_or(Level { requests: burst, at: now });
        let refilled = before.requests + now.saturating_duration_since(before.at).as_secs_f64() * rate;
        let available = refilled.min(burst);
        let is_allowed = available >= 1.0;
        *level = Some(Level { requests: if is_allowed { available - 1.0 } else { available }, at: now });
        if is_allowed {
            Ok(())
        } else {
            Err(Duration::try_from_secs_f64((1.0 - available) / rate).unwrap_or(Duration::MAX))
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_second_of_requests_may_burst_and_then_the_rate_holds() {
        let usage = Usage::default();
        for _ in 0..10 {
            usage.take_request(10.0).expect("a burst");
        }
        let retry = usage.take_request(10.0).expect_err("the bucket is empty");
        assert!(retry.abs_diff(Duration::from_millis(100)) < Duration::from_millis(1), "{retry:?}");
        advance(retry / 2).await;
        let retry = usage.take_request(10.0).expect_err("half a request is left");
        assert!(retry.abs_diff(Duration::from_millis(50)) < Duration::from_millis(1), "{retry:?}");
        advance(retry + Duration::from_micros(1)).await;
        usage.take_request(10.0).expect("one request has accrued");
        usage.take_request(10.0).expect_err("and not two");
        advance(Duration::from_secs(60)).await;
        let granted = std::iter::repeat_with(|| usage.take_request(10.0)).take_while(Result::is_ok).count();
        assert_eq!(granted, 10, "an idle principal saves one second of requests");
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_below_one_allows_one_request_at_a_time() {
        let usage = Usage::default();
        usage.take_request(0.5).expect("the first");
        let retry = usage.take_request(0.5).expect_err("one in two seconds");
        assert!(retry.abs_diff(Duration::from_secs(2)) < Duration::from_millis(1), "{retry:?}");
        advance(retry + Duration::from_micros(1)).await;
        usage.take_request(0.5).expect("the second");
    }

    #[test]
    fn bytes_in_flight_are_released_on_drop() {
        let usage = Arc::new(Usage::default());
        let held = usage.reserve_bytes(60, 100).expect("100 are left");
        assert_eq!(usage.reserve_bytes(41, 100).map(drop), Err(60));
        let rest = usage.reserve_bytes(40, 100).expect("40 are left");
        drop((held, rest));
        usage.reserve_bytes(100, 100).expect("all are left");
        assert_eq!(usage.reserve_bytes(101, 100).map(drop), Err(0));
    }
}
