//! The daemon's health after the loss of all GPUs: only a new process can use them again.

use std::time::Duration;

use accelerd_engine::DeviceLoss;
use accelerd_kernels::DeviceId;
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::health::Reporter;

/// Waits until all of `gpus` are lost; false if the engine or the daemon closes before, or there is none.
pub(crate) async fn all_lost(
    gpus: &[DeviceId],
    mut losses: watch::Receiver<Vec<DeviceLoss>>,
    closing: &CancellationToken,
) -> bool {
    let is_lost = |gpu: &DeviceId, losses: &[DeviceLoss]| losses.iter().any(|loss| loss.device == *gpu);
    let all = losses.wait_for(|losses| gpus.iter().all(|gpu| is_lost(gpu, losses)));
    !gpus.is_empty() && matches!(closing.run_until_cancelled(all).await, Some(Ok(_)))
}

/// Reports the loss of all GPUs: not ready at once, unless the CPU may serve; not live after `grace`.
pub(crate) async fn report_all_lost(
    cpu_may_serve: bool,
    grace: Duration,
    health: Reporter,
    closing: CancellationToken,
) {
    tracing::error!(cpu_may_serve, ?grace, "all GPUs are lost");
    if !cpu_may_serve {
        health.set_devices_ready(false);
    }
    if closing.run_until_cancelled(sleep(grace)).await.is_some() {
        tracing::error!("all GPUs are lost: reporting not live");
        health.set_live(false);
    }
}

#[cfg(test)]
mod tests {
    use accelerd_engine::LossCause;
    use tokio::time::advance;

    use super::*;

    const GRACE: Duration = Duration::from_secs(30);
    const FIRST: DeviceId = DeviceId::Cuda(0);
    const SECOND: DeviceId = DeviceId::Cuda(1);

    fn loss(device: DeviceId) -> DeviceLoss {
        DeviceLoss { device, cause: LossCause::DeviceError, lane: "search", reason: "gone".to_owned() }
    }

    #[tokio::test]
    async fn only_the_loss_of_the_last_gpu_counts() {
        let (losses, receiver) = watch::channel(vec![]);
        let closing = CancellationToken::new();
        let gpus = [FIRST, SECOND];
        let token = closing.clone();
        let waiting = tokio::spawn(async move { all_lost(&gpus, receiver, &token).await });
        losses.send_modify(|losses| losses.push(loss(FIRST)));
        losses.send_modify(|losses| losses.push(loss(DeviceId::Cpu)));
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished(), "one GPU works");
        losses.send_modify(|losses| losses.push(loss(SECOND)));
        assert!(waiting.await.expect("no panic"));
    }

    #[tokio::test]
    async fn without_a_gpu_none_is_lost() {
        let (_losses, receiver) = watch::channel(vec![loss(DeviceId::Cpu)]);
        assert!(!all_lost(&[], receiver, &CancellationToken::new()).await);
    }

    #[tokio::test]
    async fn closing_ends_the_wait() {
        let (_losses, receiver) = watch::channel(vec![]);
        let closing = CancellationToken::new();
        closing.cancel();
        assert!(!all_lost(&[FIRST], receiver, &closing).await);
    }

    /// The daemon's readiness and liveness, once started.
    fn health() -> Reporter {
        let health = Reporter::new(CancellationToken::new());
        health.set_ready(true);
        health
    }

    #[tokio::test(start_paused = true)]
    async fn liveness_ends_after_the_grace_and_the_cpu_serves_until_then() {
        let health = health();
        let reporting = tokio::spawn(report_all_lost(true, GRACE, health.clone(), CancellationToken::new()));
        tokio::task::yield_now().await;
        advance(GRACE.saturating_sub(Duration::from_secs(1))).await;
        assert!(health.now().live && health.now().ready, "within the grace period");
        reporting.await.expect("the grace period ends");
        assert!(!health.now().live);
    }

    #[tokio::test(start_paused = true)]
    async fn readiness_ends_at_once_where_the_cpu_may_not_serve() {
        let health = health();
        let closing = CancellationToken::new();
        let reporting = tokio::spawn(report_all_lost(false, GRACE, health.clone(), closing.clone()));
        tokio::task::yield_now().await;
        assert!(!health.now().ready && health.now().live);
        closing.cancel();
        reporting.await.expect("closing ends it");
        assert!(health.now().live, "the daemon ends before the grace period");
    }
}
