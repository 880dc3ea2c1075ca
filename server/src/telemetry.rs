//! Logs, traces and metrics. The SDK exports on its own threads and logs and retries failures, so that an export never blocks
//! a call.

mod log_fields;

use std::{
    fmt,
    io::{self, IsTerminal},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
    time::Duration,
};

use opentelemetry::{
    KeyValue,
    metrics::{Histogram, Meter, MeterProvider},
    trace::TracerProvider,
};
use opentelemetry_otlp::WithExportConfig;
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    metrics::{PeriodicReader, SdkMeterProvider},
    trace::{Sampler, SdkTracerProvider},
};
use prometheus::TextEncoder;
use tokio::{task::spawn_blocking, time::timeout};
use tracing_subscriber::{
    EnvFilter, Layer, Registry, filter::filter_fn, layer::SubscriberExt, reload, util::SubscriberInitExt,
};

use self::log_fields::VisibleJson;
use crate::{
    config::{LogFormat, Telemetry, log_filter},
    series_limit,
};

/// Timeout of an export, including the last one before exit.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// The most series of a metric without settings.
const DEFAULT_MAX_SERIES: usize = 1000;

/// Bucket bounds in seconds, from a small call on the CPU to k-means over millions of rows.
const LATENCY_BOUNDS: [f64; 18] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0,
];

/// Bucket bounds in seconds of OpenTelemetry's semantic conventions for RPC.
const RPC_BOUNDS: [f64; 14] = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];

/// Telemetry could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("cannot set up telemetry: {0}")]
pub struct TelemetryError(String);

impl TelemetryError {
    fn new(error: impl fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// Logs and traces of the process. Dropping it stops the export of traces.
#[derive(Debug)]
pub struct Logs {
    filter: reload::Handle<EnvFilter, Registry>,
    traces: Option<SdkTracerProvider>,
}

impl Logs {
    /// Installs the process-wide subscriber. May be called once; needs a tokio runtime if an OTLP endpoint is set.
    pub fn install(settings: &Telemetry) -> Result<Self, TelemetryError> {
        let filter = log_filter(&settings.log_level).map_err(TelemetryError::new)?;
        let (filter, handle) = reload::Layer::new(filter);
        let traces = tracer(settings)?;
        let spans = traces.as_ref().map(|provider| {
            let accelerd_spans = filter_fn(|metadata| metadata.is_span() && metadata.target().starts_with("accelerd"));
            tracing_opentelemetry::layer().with_tracer(provider.tracer("accelerd")).with_filter(accelerd_spans)
        });
        let lines = tracing_subscriber::fmt::layer();
        let lines = if is_json(settings.log_format) {
            let lines = lines.json().flatten_event(true).with_current_span(true).with_span_list(false);
            lines.with_writer(|| VisibleJson(io::stderr())).boxed()
        } else {
            let lines = lines.with_ansi(io::stderr().is_terminal()).fmt_fields(log_fields::visible());
            lines.with_writer(io::stderr).boxed()
        };
        let subscriber = tracing_subscriber::registry().with(lines.with_filter(filter)).with(spans);
        subscriber.try_init().map_err(TelemetryError::new)?;
        Ok(Self { filter: handle, traces })
    }

    /// Changes the log level or filter.
    pub fn set_level(&self, level: &str) -> Result<(), TelemetryError> {
        let filter = log_filter(level).map_err(TelemetryError::new)?;
        self.filter.reload(filter).map_err(TelemetryError::new)
    }

    /// Exports the last spans within `limit`, and at most five seconds. Logs a failure.
    pub async fn flush(&self, limit: Duration) {
        let Some(traces) = self.traces.clone() else { return };
        if let Err(error) = flush(limit, move || traces.shutdown()).await {
            tracing::warn!(error, "the last spans were not exported");
        }
    }
}

fn is_json(format: LogFormat) -> bool {
    match format {
        LogFormat::Auto => !io::stderr().is_terminal(),
        LogFormat::Json => true,
        LogFormat::Human => false,
    }
}

fn resource() -> Resource {
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    Resource::builder().with_service_name("accelerd").with_attribute(version).build()
}

fn tracer(settings: &Telemetry) -> Result<Option<SdkTracerProvider>, TelemetryError> {
    if settings.otlp_endpoint.is_empty() {
        return Ok(None);
    }
    let exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_tonic()
        .with_endpoint(&settings.otlp_endpoint)
        .with_timeout(EXPORT_TIMEOUT)
        .build()
        .map_err(TelemetryError::new)?;
    let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(settings.sample_ratio)));
    let provider =
        SdkTracerProvider::builder().with_batch_exporter(exporter).with_sampler(sampler).with_resource(resource());
    Ok(Some(provider.build()))
}

/// The metrics of one daemon.
#[derive(Debug)]
pub struct Metrics {
    registry: prometheus::Registry,
    provider: SdkMeterProvider,
    meter: Meter,
    durations: Histogram<f64>,
    rpc_durations: Histogram<f64>,
    in_flight: Arc<AtomicI64>,
    max_series: usize,
}

impl Metrics {
    /// Metrics for Prometheus to scrape, and exported to the OTLP endpoint if one is set.
    pub fn new(settings: Option<&Telemetry>) -> Result<Self, TelemetryError> {
        let registry = prometheus::Registry::new();
        let max_series = settings.map_or(DEFAULT_MAX_SERIES, |settings| settings.max_series);
        // Standard process metrics: CPU time, memory, file descriptors, threads, start time.
        let process = prometheus::process_collector::ProcessCollector::for_self();
        registry.register(Box::new(process)).map_err(TelemetryError::new)?;
        let prometheus = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .scope_info_enabled(false)
            .build()
            .map_err(TelemetryError::new)?;
        let mut builder = SdkMeterProvider::builder().with_reader(prometheus).with_resource(resource());
        if let Some(settings) = settings.filter(|settings| !settings.otlp_endpoint.is_empty()) {
            builder = builder.with_reader(otlp_reader(settings)?);
        }
        let provider = builder.build();
        let meter = provider.meter("accelerd");
        let in_flight = Arc::new(AtomicI64::new(0));
        let count = Arc::clone(&in_flight);
        meter
            .i64_observable_gauge("accelerd_requests_in_flight")
            .with_description("Calls in progress.")
            .with_callback(move |gauge| gauge.observe(count.load(Relaxed), &[]))
            .build();
        let durations = meter
            .f64_histogram("accelerd_request_duration_seconds")
            .with_description(
                "Duration of a call in seconds, from its request headers to the last byte of its response.",
            )
            .with_boundaries(LATENCY_BOUNDS.to_vec())
            .build();
        let rpc_durations = meter
            .f64_histogram("rpc.server.call.duration")
            .with_unit("s")
            .with_description("Duration of a call, as OpenTelemetry's semantic conventions for RPC define it.")
            .with_boundaries(RPC_BOUNDS.to_vec())
            .build();
        Ok(Self { registry, provider, meter, durations, rpc_durations, in_flight, max_series })
    }

    /// Makes this the global meter provider, from which the engine creates its instruments.
    pub(crate) fn make_global(&self) {
        opentelemetry::global::set_meter_provider(self.provider.clone());
    }

    /// The meter on which further instruments are created.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Records the start of a call.
    pub(crate) fn request_started(&self) {
        self.in_flight.fetch_add(1, Relaxed);
    }

    /// Records the end of a call.
    pub(crate) fn request_ended(
        &self,
        method: &'static str,
        rpc_method: &'static str,
        code: &'static str,
        failed: bool,
        took: Duration,
    ) {
        self.in_flight.fetch_sub(1, Relaxed);
        let attributes = [
            KeyValue::new("rpc.system.name", "grpc"),
            KeyValue::new("rpc.method", rpc_method),
            KeyValue::new("rpc.response.status_code", code),
            KeyValue::new("error.type", code),
        ];
        self.rpc_durations.record(took.as_secs_f64(), if failed { &attributes } else { &attributes[..3] });
        self.durations.record(took.as_secs_f64(), &[KeyValue::new("method", method), KeyValue::new("code", code)]);
    }

    /// Calls in progress.
    pub fn in_flight(&self) -> i64 {
        self.in_flight.load(Relaxed)
    }

    /// All metrics in Prometheus' text format, each of at most `telemetry.max_series` series.
    pub fn text(&self) -> String {
        let families = series_limit::limit(self.registry.gather(), self.max_series);
        TextEncoder::new().encode_to_string(&families).unwrap_or_else(|error| {
            tracing::error!(%error, "cannot encode metrics");
            String::new()
        })
    }

    /// Exports the last metrics within `limit`, and at most five seconds. Logs a failure.
    pub async fn flush(&self, limit: Duration) {
        let provider = self.provider.clone();
        if let Err(error) = flush(limit, move || provider.shutdown()).await {
            tracing::warn!(error, "the last metrics were not exported");
        }
    }
}

/// Shuts a provider down, which exports what it has. The SDK exceeds its own time limits, so its thread is left behind after `limit`.
async fn flush(limit: Duration, shutdown: impl FnOnce() -> OTelSdkResult + Send + 'static) -> Result<(), String> {
    let limit = limit.min(EXPORT_TIMEOUT);
    match timeout(limit, spawn_blocking(shutdown)).await {
        Ok(Ok(exported)) => exported.map_err(|error| error.to_string()),
        Ok(Err(panic)) => Err(panic.to_string()),
        Err(_elapsed) => Err(format!("the collector did not answer within {limit:?}")),
    }
}

fn otlp_reader(settings: &Telemetry) -> Result<PeriodicReader<opentelemetry_otlp::MetricExporter>, TelemetryError> {
    let exporter = opentelemetry_otlp::MetricExporter::builder()
        .with_tonic()
        .with_endpoint(&settings.otlp_endpoint)
        .with_timeout(EXPORT_TIMEOUT)
        .build()
        .map_err(TelemetryError::new)?;
    Ok(PeriodicReader::builder(exporter).with_interval(settings.metrics_interval).build())
}
