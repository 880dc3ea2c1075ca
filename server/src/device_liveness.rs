//! Reports the daemon not live once all GPUs have been lost for a grace period: only a new process can recover them.

use std::time::Duration;

use accelerd_kernels::DeviceId;
use tokio::time::{Instant, interval};
use tokio_util::sync::CancellationToken;

use crate::health::Reporter;

const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Reports not live once `all_lost` has been true for `grace`. Returns then, when the daemon closes, or when `all_lost`
/// returns `None`.
pub(crate) async fn watch(
    mut all_lost: impl FnMut() -> Option<bool>,
    grace: Duration,
    health: Reporter,
    closing: CancellationToken,
) {
    let mut lost_since = None;
    let mut ticks = interval(POLL_INTERVAL);
    while closing.run_until_cancelled(ticks.tick()).await.is_some() {
        let Some(lost) = all_lost() else { return };
        if !lost {
            lost_since = None;
        } else if lost_since.get_or_insert_with(Instant::now).elapsed() >= grace {
            tracing::error!("all GPUs are lost: reporting not live");
            health.set_live(false);
            return;
        }
    }
}

/// Whether there are GPUs and all are lost. Takes each device's id and whether it is lost.
pub(crate) fn all_lost(devices: impl Iterator<Item = (DeviceId, bool)>) -> bool {
    let mut gpus = devices.filter(|(device, _)| matches!(device, DeviceId::Cuda(_))).peekable();
    gpus.peek().is_some() && gpus.all(|(_, lost)| lost)
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    };

    use tokio::{task::JoinHandle, time::advance};

    use super::*;

    const GRACE: Duration = Duration::from_secs(30);

    struct Watched {
        lost: Arc<AtomicBool>,
        health: Reporter,
        closing: CancellationToken,
        task: JoinHandle<()>,
    }

    fn watched() -> Watched {
        let (lost, closing) = (Arc::new(AtomicBool::new(false)), CancellationToken::new());
        let health = Reporter::new(closing.clone());
        let seen = Arc::clone(&lost);
        let task = tokio::spawn(watch(move || Some(seen.load(SeqCst)), GRACE, health.clone(), closing.clone()));
        Watched { lost, health, closing, task }
    }

    /// Advances the clock second by second.
    async fn pass(seconds: u64) {
        for _ in 0..seconds {
            advance(Duration::from_secs(1)).await;
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn liveness_ends_when_all_gpus_are_lost_for_the_grace_period() {
        let Watched { lost, health, task, .. } = watched();
        pass(100).await;
        assert!(health.now().live, "nothing is lost");
        lost.store(true, SeqCst);
        pass(GRACE.as_secs() - 1).await;
        assert!(health.now().live, "within the grace period");
        pass(2).await;
        assert!(!health.now().live, "the grace period is over");
        task.await.expect("the watch returns");
    }

    #[tokio::test(start_paused = true)]
    async fn a_recovered_gpu_restarts_the_grace_period() {
        let Watched { lost, health, .. } = watched();
        for _ in 0..5 {
            lost.store(true, SeqCst);
            pass(GRACE.as_secs() - 1).await;
            lost.store(false, SeqCst);
            pass(1).await;
        }
        assert!(health.now().live);
    }

    #[tokio::test(start_paused = true)]
    async fn closing_ends_the_watch() {
        let Watched { lost, health, closing, task } = watched();
        closing.cancel();
        task.await.expect("the watch returns");
        lost.store(true, SeqCst);
        pass(2 * GRACE.as_secs()).await;
        assert!(health.now().live);
    }

    #[test]
    fn only_gpus_count_and_one_that_works_is_enough() {
        let (first, second, cpu) = (DeviceId::Cuda(0), DeviceId::Cuda(1), DeviceId::Cpu);
        for (devices, expected) in [
            (vec![], false),
            (vec![(cpu, false)], false),
            (vec![(first, true), (cpu, false)], true),
            (vec![(first, true), (second, false), (cpu, false)], false),
            (vec![(first, true), (second, true), (cpu, false)], true),
        ] {
            assert_eq!(all_lost(devices.iter().copied()), expected, "{devices:?}");
        }
    }
}
