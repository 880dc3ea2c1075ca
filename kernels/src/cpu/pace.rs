//! The pace of a long computation on one thread: it suspends itself where a slice ends, as a future that a later slice resumes.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use super::slices::SLICE;

/// A computation in slices: each call of [`resume`] runs one.
pub(crate) type Sliced<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The rest of the current slice, in multiply-adds.
#[derive(Debug)]
pub(crate) struct Pace {
    left: u64,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self { left: SLICE }
    }

    /// Called before work of this cost, which is not interrupted: ends the slice if the work exceeds its rest.
    pub(crate) async fn spend(&mut self, cost: u64) {
        if cost > self.left && self.left < SLICE {
            EndOfSlice(false).await;
            self.left = SLICE;
        }
        self.left = self.left.saturating_sub(cost);
    }
}

/// Suspends once.
struct EndOfSlice(bool);

impl Future for EndOfSlice {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Runs the next slice: the result, or nothing if more slices are left.
pub(crate) fn resume<T>(computation: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Option<T> {
    match computation.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

/// Runs all slices, one after the other, on this thread.
pub(crate) fn complete<T>(computation: impl Future<Output = T>) -> T {
    let mut computation = std::pin::pin!(computation);
    loop {
        if let Some(result) = resume(computation.as_mut()) {
            return result;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slices that work of these costs takes.
    fn slices(costs: &[u64]) -> usize {
        let mut computation: Sliced<'_, ()> = Box::pin(async {
            let mut pace = Pace::new();
            for cost in costs {
                pace.spend(*cost).await;
            }
        });
        let mut slices = 1;
        while resume(computation.as_mut()).is_none() {
            slices += 1;
        }
        slices
    }

    #[test]
    fn a_slice_ends_before_the_work_that_exceeds_it() {
        assert_eq!(slices(&[]), 1);
        assert_eq!(slices(&[SLICE / 2, SLICE / 2]), 1);
        assert_eq!(slices(&[SLICE / 2, SLICE / 2, 1]), 2);
        assert_eq!(slices(&[SLICE / 2 + 1; 4]), 4);
        assert_eq!(slices(&[u64::MAX, u64::MAX, 1]), 3, "work that cannot be cut has a slice of its own");
    }

    #[test]
    fn a_computation_without_slices_is_completed_at_once() {
        assert_eq!(complete(async { 7 }), 7);
        let mut pace = Pace::new();
        complete(async {
            pace.spend(2 * SLICE).await;
            pace.spend(1).await;
        });
        assert_eq!(pace.left, SLICE - 1);
    }
}
