//! State that exists before the daemon serves: its health, its metrics, and the progress of its start.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use accelerd_collections::RecoveryProgress;
use accelerd_kernels::LoadProgress;
use opentelemetry::{KeyValue, metrics::Meter};
use tokio_util::sync::CancellationToken;

use crate::{
    config::Telemetry,
    health::Reporter,
    telemetry::{Metrics, TelemetryError},
};

/// State that probes and scrapes see while the daemon starts.
#[derive(Clone, Debug)]
pub(crate) struct Starting {
    pub(crate) health: Reporter,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) progress: StartProgress,
    pub(crate) kernels: Arc<LoadProgress>,
    pub(crate) recovery: Arc<RecoveryProgress>,
}

/// Time between two log lines of the loading of kernels.
const LOG_INTERVAL: Duration = Duration::from_secs(5);

impl Starting {
    /// The health is live and not ready; `closing` ends its watches.
    pub(crate) fn new(telemetry: &Telemetry, closing: CancellationToken) -> Result<Self, TelemetryError> {
        let metrics = Arc::new(Metrics::new(Some(telemetry))?);
        let progress = StartProgress::new(metrics.meter());
        let kernels = Arc::default();
        observe_kernels(metrics.meter(), &kernels);
        let recovery = Arc::default();
        observe_recovery(metrics.meter(), &recovery);
        Ok(Self { health: Reporter::new(closing), metrics, progress, kernels, recovery })
    }
}

/// Registers the instruments of the recovery of durable collections.
fn observe_recovery(meter: &Meter, recovery: &Arc<RecoveryProgress>) {
    let gauge = |name, description, measure| observe(meter, recovery, name, description, measure);
    gauge(
        "accelerd_recovery_done_bytes",
        "Bytes of checkpoints and logs of collections that the start has read.",
        RecoveryProgress::done_bytes,
    );
    gauge(
        "accelerd_recovery_total_bytes",
        "Bytes of checkpoints and logs of collections that the start reads.",
        RecoveryProgress::total_bytes,
    );
    gauge(
        "accelerd_recovery_points",
        "Points that the start has read, replaced ones included.",
        RecoveryProgress::points,
    );
}

/// Registers the instruments of the loading of built-in kernels.
fn observe_kernels(meter: &Meter, kernels: &Arc<LoadProgress>) {
    let gauge = |name, description, measure| observe(meter, kernels, name, description, measure);
    gauge(
        "accelerd_kernel_modules",
        "Modules of built-in kernels that the start loads for the GPUs.",
        LoadProgress::total,
    );
    gauge(
        "accelerd_kernel_modules_loaded",
        "Modules of built-in kernels that the start has loaded.",
        LoadProgress::loaded,
    );
    gauge(
        "accelerd_kernel_modules_compiled",
        "Modules of built-in kernels that the start has compiled, because the kernel cache lacks them.",
        LoadProgress::compiled,
    );
}

fn observe<T: Send + Sync + 'static>(
    meter: &Meter,
    progress: &Arc<T>,
    name: &'static str,
    description: &'static str,
    measure: fn(&T) -> u64,
) {
    let progress = Arc::clone(progress);
    meter
        .u64_observable_gauge(name)
        .with_description(description)
        .with_callback(move |gauge| gauge.observe(measure(&progress), &[]))
        .build();
}

/// Runs `load`, and logs the progress that it makes with kernels.
pub(crate) fn log_kernels<T>(progress: &Arc<LoadProgress>, load: impl FnOnce() -> T) -> T {
    let shared = Arc::clone(progress);
    let log = tokio::spawn(async move {
        loop {
            tokio::time::sleep(LOG_INTERVAL).await;
            let modules = shared.total();
            let loaded = shared.loaded();
            let compiled = shared.compiled();
            tracing::info!(modules, loaded, compiled, "loading the kernels of GPUs");
        }
    });
    let began = Instant::now();
    let result = load();
    log.abort();
    let modules = progress.total();
    let compiled = progress.compiled();
    if modules > 0 {
        tracing::info!(modules, compiled, elapsed = ?began.elapsed(), "loaded the kernels of GPUs");
    }
    result
}

/// A part of the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Devices are opened; kernels that the cache does not have are compiled.
    Devices,
    /// Models of `models.preload` are loaded.
    Models,
    /// Durable collections are recovered.
    Collections,
    /// Everything else.
    Services,
}

impl Phase {
    const ALL: [Self; 4] = [Self::Devices, Self::Models, Self::Collections, Self::Services];

    fn name(self) -> &'static str {
        match self {
            Self::Devices => "devices",
            Self::Models => "models",
            Self::Collections => "collections",
            Self::Services => "services",
        }
    }
}

/// The progress. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct StartProgress(Arc<Mutex<Timeline>>);

/// The phases that have begun.
#[derive(Debug)]
struct Timeline {
    /// `None` before the first phase, and once the daemon serves.
    current: Option<(Phase, Instant)>,
    done: Vec<(Phase, Duration)>,
}

impl StartProgress {
    /// Registers the instruments.
    pub(crate) fn new(meter: &Meter) -> Self {
        let this = Self(Arc::new(Mutex::new(Timeline { current: None, done: vec![] })));
        let shared = this.clone();
        meter
            .f64_observable_gauge("accelerd_start_seconds")
            .with_description("Time that each phase of the start has taken so far, in seconds.")
            .with_callback(move |gauge| {
                for (phase, took, _) in shared.phases() {
                    gauge.observe(took.as_secs_f64(), &[KeyValue::new("phase", phase.name())]);
                }
            })
            .build();
        let shared = this.clone();
        meter
            .u64_observable_gauge("accelerd_start_in_progress")
            .with_description("1 for the phase of the start that is in progress, else 0.")
            .with_callback(move |gauge| {
                for phase in Phase::ALL {
                    let is_current = shared.phases().iter().any(|(of, _, is_current)| *of == phase && *is_current);
                    gauge.observe(is_current.into(), &[KeyValue::new("phase", phase.name())]);
                }
            })
            .build();
        this
    }

    /// Ends the phase before and begins this one.
    pub(crate) fn begin(&self, phase: Phase) {
        self.advance(Some(phase));
        tracing::info!(phase = phase.name(), "starting");
    }

    /// Ends the last phase.
    pub(crate) fn finish(&self) {
        self.advance(None);
    }

    fn advance(&self, next: Option<Phase>) {
        let mut timeline = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = std::mem::replace(&mut timeline.current, next.map(|phase| (phase, Instant::now())));
        if let Some((phase, began)) = ended {
            timeline.done.push((phase, began.elapsed()));
        }
    }

    /// The phases that have begun, with the time that they have taken, and whether they are in progress.
    fn phases(&self) -> Vec<(Phase, Duration, bool)> {
        let timeline = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let done = timeline.done.iter().map(|(phase, took)| (*phase, *took, false));
        let current = timeline.current.iter().map(|(phase, began)| (*phase, began.elapsed(), true));
        done.chain(current).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_show_the_progress_of_the_start() {
        let metrics = Metrics::new(None).expect("metrics");
        observe_kernels(metrics.meter(), &Arc::default());
        observe_recovery(metrics.meter(), &Arc::default());
        let text = metrics.text();
        for name in [
            "accelerd_kernel_modules",
            "accelerd_kernel_modules_loaded",
            "accelerd_kernel_modules_compiled",
            "accelerd_recovery_done_bytes",
            "accelerd_recovery_total_bytes",
            "accelerd_recovery_points",
        ] {
            assert!(text.contains(&format!("{name} 0")), "{name} in {text}");
        }
    }

    #[test]
    fn metrics_show_the_phase_in_progress() {
        let metrics = Metrics::new(None).expect("metrics");
        let progress = StartProgress::new(metrics.meter());
        progress.begin(Phase::Devices);
        progress.begin(Phase::Collections);
        let text = metrics.text();
        for line in [
            "accelerd_start_in_progress{phase=\"devices\"} 0",
            "accelerd_start_in_progress{phase=\"collections\"} 1",
            "accelerd_start_seconds{phase=\"devices\"} ",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        progress.finish();
        assert!(metrics.text().contains("accelerd_start_in_progress{phase=\"collections\"} 0"));
    }
}
