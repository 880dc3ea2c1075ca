//! Liveness, which ends once all GPUs have been lost for a while: nothing but a new process brings them back.

use std::time::Duration;

use accelerd_kernels::DeviceId;
use tokio::time::{Instant, interval};
use tokio_util::sync::CancellationToken;

use crate::health::Reporter;

/// How often the devices are looked at.
const EVERY: Duration = Duration::from_secs(1);

/// Reports not live once `all_lost` has been true for as long as `grace`. Ends then, when the daemon closes, or when there
/// is nothing to look at any more.
pub(crate) async fn watch(
    mut all_lost: impl FnMut() -> Option<bool>,
    grace: Duration,
    health: Reporter,
    closing: CancellationToken,
) {
    let mut lost_since = None;
    let mut ticks = interval(EVERY);
    while closing.run_until_cancelled(ticks.tick()).await.is_some() {
        let Some(lost) = all_lost() else { return };
        if !lost {
            lost_since = None;
        } else if lost_since.get_or_insert_with(Instant::now).elapsed() >= grace {
            tracing::error!("all GPUs are lost; this process should be replaced");
            health.set_live(false);
            return;
        }
    }
}

/// Whether there were GPUs, and every one of them was lost. Of each device: its name, and whether it is lost.
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

    struct World {
        lost: Arc<AtomicBool>,
        health: Reporter,
        closing: CancellationToken,
        task: JoinHandle<()>,
    }

    fn world() -> World {
        let (lost, closing) = (Arc::new(AtomicBool::new(false)), CancellationToken::new());
        let health = Reporter::new(closing.clone());
        let seen = Arc::clone(&lost);
        let task = tokio::spawn(watch(move || Some(seen.load(SeqCst)), GRACE, health.clone(), closing.clone()));
        World { lost, health, closing, task }
    }

    /// Lets so many seconds pass, one by one, as the watch sees them.
    async fn pass(seconds: u64) {
        for _ in 0..seconds {
            advance(Duration::from_secs(1)).await;
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn liveness_ends_when_all_gpus_stay_lost_for_the_grace() {
        let World { lost, health, task, .. } = world();
        pass(100).await;
        assert!(health.now().live, "nothing is lost");
        lost.store(true, SeqCst);
        pass(GRACE.as_secs() - 1).await;
        assert!(health.now().live, "within the grace");
        pass(2).await;
        assert!(!health.now().live, "the grace is over");
        task.await.expect("it has said what it has to say");
    }

    #[tokio::test(start_paused = true)]
    async fn a_gpu_that_comes_back_in_time_starts_the_grace_anew() {
        let World { lost, health, .. } = world();
        for _ in 0..5 {
            lost.store(true, SeqCst);
            pass(GRACE.as_secs() - 1).await;
            lost.store(false, SeqCst);
            pass(1).await;
        }
        assert!(health.now().live);
    }

    #[tokio::test(start_paused = true)]
    async fn a_daemon_that_closes_is_not_watched_any_more() {
        let World { lost, health, closing, task } = world();
        closing.cancel();
        task.await.expect("it ends");
        lost.store(true, SeqCst);
        pass(2 * GRACE.as_secs()).await;
        assert!(health.now().live);
    }

    #[test]
    fn the_cpu_is_no_gpu_and_one_gpu_that_lives_is_enough() {
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
