//! Logs, traces and metrics. An exporter that fails is logged and retried by the SDK, on threads of its own: it never
//! holds up a call.

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
    metrics::{PeriodicReader, SdkMeterProvider},
    trace::{Sampler, SdkTracerProvider},
};
use prometheus::TextEncoder;
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    filter::{LevelFilter, filter_fn},
    layer::SubscriberExt,
    reload,
    util::SubscriberInitExt,
};

use crate::config::{LogFormat, Telemetry};

/// How long an export may take before it counts as failed, and how long the last one may hold up the exit.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Seconds; from a small call on the CPU to a k-means over millions of rows.
const LATENCY_BOUNDS: [f64; 18] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0,
];

/// Seconds, as OpenTelemetry's conventions for RPC have them.
const RPC_BOUNDS: [f64; 14] = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];

/// Telemetry could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("telemetry could not be set up: {0}")]
pub struct TelemetryError(String);

impl TelemetryError {
    fn new(error: impl fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// Logs and traces of the process. Kept until its end, since dropping it ends the export of traces.
#[derive(Debug)]
pub struct Logs {
    filter: reload::Handle<EnvFilter, Registry>,
    traces: Option<SdkTracerProvider>,
}

impl Logs {
    /// Installs the process's subscriber. Once, and in a tokio runtime when there is an OTLP endpoint.
    pub fn install(settings: &Telemetry) -> Result<Self, TelemetryError> {
        let filter = filter(&settings.log_level)?;
        let (filter, handle) = reload::Layer::new(filter);
        let traces = tracer(settings)?;
        let spans = traces.as_ref().map(|provider| {
            let ours = filter_fn(|metadata| metadata.is_span() && metadata.target().starts_with("accelerd"));
            tracing_opentelemetry::layer().with_tracer(provider.tracer("accelerd")).with_filter(ours)
        });
        let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr);
        let lines = if is_json(settings.log_format) {
            lines.json().flatten_event(true).with_current_span(true).with_span_list(false).boxed()
        } else {
            lines.with_ansi(io::stderr().is_terminal()).boxed()
        };
        let subscriber = tracing_subscriber::registry().with(lines.with_filter(filter)).with(spans);
        subscriber.try_init().map_err(TelemetryError::new)?;
        Ok(Self { filter: handle, traces })
    }

    /// Changes what is logged.
    pub fn set_level(&self, level: &str) -> Result<(), TelemetryError> {
        self.filter.reload(filter(level)?).map_err(TelemetryError::new)
    }

    /// Sends the last spans. Blocks for at most a few seconds.
    pub fn flush(&self) {
        if let Some(Err(error)) = self.traces.as_ref().map(|traces| traces.shutdown_with_timeout(EXPORT_TIMEOUT)) {
            tracing::warn!(%error, "the last traces were not sent");
        }
    }
}

/// What a level or filter lets through. A bare level is ours alone: libraries speak up from `warn` on.
pub(crate) fn filter(level: &str) -> Result<EnvFilter, TelemetryError> {
    if is_level(level) {
        // h2 warns of every connection whose peer floods it; the daemon does so itself, now and then.
        return EnvFilter::try_new(format!("warn,h2=error,accelerd={level}")).map_err(TelemetryError::new);
    }
    // The parser takes a word that is no level for the name of a module, and lets everything of it through.
    if let Some(wrong) = directives(level).find(|directive| !is_directive(directive)) {
        return Err(TelemetryError::new(format!("{wrong:?} is neither a level nor TARGET=LEVEL")));
    }
    EnvFilter::try_new(level).map_err(TelemetryError::new)
}

fn is_level(word: &str) -> bool {
    // A number is a level to the parser and a riddle to people.
    word.parse::<LevelFilter>().is_ok() && word.bytes().all(|byte| byte.is_ascii_alphabetic()) && !word.is_empty()
}

/// The parts of a filter: commas between brackets belong to a part.
fn directives(filter: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0u32;
    filter.split(move |c: char| {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
}

fn is_directive(directive: &str) -> bool {
    is_level(directive.trim())
        || directive.trim().rsplit_once('=').is_some_and(|(target, level)| !target.is_empty() && is_level(level))
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
}

impl Metrics {
    /// Metrics to be scraped, and sent to an OTLP endpoint as well where one is configured.
    pub fn new(settings: Option<&Telemetry>) -> Result<Self, TelemetryError> {
        let registry = prometheus::Registry::new();
        // What every process is asked for: CPU time, memory, descriptors, threads, when it started.
        let process = prometheus::process_collector::ProcessCollector::for_self();
        registry.register(Box::new(process)).map_err(TelemetryError::new)?;
        let scraped = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .scope_info_enabled(false)
            .build()
            .map_err(TelemetryError::new)?;
        let mut builder = SdkMeterProvider::builder().with_reader(scraped).with_resource(resource());
        if let Some(settings) = settings.filter(|settings| !settings.otlp_endpoint.is_empty()) {
            builder = builder.with_reader(sent(settings)?);
        }
        let provider = builder.build();
        let meter = provider.meter("accelerd");
        let in_flight = Arc::new(AtomicI64::new(0));
        let now = Arc::clone(&in_flight);
        meter
            .i64_observable_gauge("accelerd_requests_in_flight")
            .with_description("Calls taken up and not answered.")
            .with_callback(move |gauge| gauge.observe(now.load(Relaxed), &[]))
            .build();
        let durations = meter
            .f64_histogram("accelerd_request_duration_seconds")
            .with_description("Time of a call, from its headers to its last byte.")
            .with_boundaries(LATENCY_BOUNDS.to_vec())
            .build();
        let rpc_durations = meter
            .f64_histogram("rpc.server.call.duration")
            .with_unit("s")
            .with_description("Duration of a call, by OpenTelemetry's conventions for RPC.")
            .with_boundaries(RPC_BOUNDS.to_vec())
            .build();
        Ok(Self { registry, provider, meter, durations, rpc_durations, in_flight })
    }

    /// Lets libraries that ask for the global meter find this one. Whoever makes instruments next, gets them here.
    pub(crate) fn make_global(&self) {
        opentelemetry::global::set_meter_provider(self.provider.clone());
    }

    /// Where other instruments are made.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// A call was taken up.
    pub(crate) fn request_begins(&self) {
        self.in_flight.fetch_add(1, Relaxed);
    }

    /// A call was answered.
    pub(crate) fn request_ends(
        &self,
        method: &'static str,
        rpc_method: &'static str,
        code: &'static str,
        failed: bool,
        took: Duration,
    ) {
        self.in_flight.fetch_sub(1, Relaxed);
        let known = [
            KeyValue::new("rpc.system.name", "grpc"),
            KeyValue::new("rpc.method", rpc_method),
            KeyValue::new("rpc.response.status_code", code),
            KeyValue::new("error.type", code),
        ];
        self.rpc_durations.record(took.as_secs_f64(), if failed { &known } else { &known[..3] });
        self.durations.record(took.as_secs_f64(), &[KeyValue::new("method", method), KeyValue::new("code", code)]);
    }

    /// Calls taken up and not answered.
    pub fn in_flight(&self) -> i64 {
        self.in_flight.load(Relaxed)
    }

    /// Everything, in Prometheus' text format.
    pub fn text(&self) -> String {
        TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap_or_else(|error| {
            tracing::error!(%error, "the metrics could not be written");
            String::new()
        })
    }

    /// Sends the last metrics. Blocks for at most a few seconds.
    pub fn flush(&self) {
        if let Err(error) = self.provider.shutdown_with_timeout(EXPORT_TIMEOUT) {
            tracing::warn!(%error, "the last metrics were not sent");
        }
    }
}

fn sent(settings: &Telemetry) -> Result<PeriodicReader<opentelemetry_otlp::MetricExporter>, TelemetryError> {
    let exporter = opentelemetry_otlp::MetricExporter::builder()
        .with_tonic()
        .with_endpoint(&settings.otlp_endpoint)
        .with_timeout(EXPORT_TIMEOUT)
        .build()
        .map_err(TelemetryError::new)?;
    Ok(PeriodicReader::builder(exporter).with_interval(settings.metrics_interval).build())
}
