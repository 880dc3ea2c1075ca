//! The engine's telemetry: its metrics and statistics, and the spans of requests and batches.

use std::{
    collections::BTreeMap,
    sync::{Arc, Barrier, Mutex},
    time::{Duration, Instant},
};

use accelerd_engine::{Context, Engine, EngineConfig, LaneConfig};
use accelerd_kernels::{Backend, Choice, Op, OpError, Settings, Size, discover};
use opentelemetry::global;
use opentelemetry_sdk::metrics::{
    InMemoryMetricExporter, PeriodicReader, SdkMeterProvider,
    data::{AggregatedMetrics, MetricData, ResourceMetrics, ScopeMetrics},
};
use tracing::{Id, Instrument, Subscriber, span::Attributes};
use tracing_subscriber::{
    Layer, layer,
    prelude::*,
    registry::{LookupSpan, SpanRef},
};

/// This request waits at the gate.
const GATED: u64 = 77;
/// This request runs a kernel.
const KERNEL: u64 = 78;
static GATE: Barrier = Barrier::new(2);

/// Adds one; 13 is invalid.
struct Increment;

impl Op for Increment {
    const NAME: &'static str = "increment";
    type Request = u64;
    type Response = u64;
    type Key = ();

    fn key(_: &u64) {}

    fn size(_: &u64) -> Size {
        Size { items: 1, bytes: 8 }
    }

    fn run(batch: &[&u64], on: &mut Backend) -> Result<Vec<u64>, OpError> {
        if batch.contains(&&13) {
            return Err(OpError::Invalid("13".to_owned()));
        }
        if batch.contains(&&GATED) {
            GATE.wait();
        }
        if let (true, Backend::Cpu(worker)) = (batch.contains(&&KERNEL), on) {
            worker.pool().time_inline("add_one", || ());
        }
        Ok(batch.iter().map(|request| **request + 1).collect())
    }
}

fn engine() -> Engine {
    let settings = Settings { choice: Choice::Cpu, cpu_threads: 1, ..Settings::default() };
    let devices = discover(&settings).expect("a CPU is always there").devices;
    let config = EngineConfig {
        cuda_workers: 1,
        cpu_workers: 1,
        cpu_paused_batches: 0,
        max_items: 1,
        max_bytes: 100,
        cpu_slice: Duration::from_millis(10),
        cuda_slice: Duration::from_millis(5),
        hang_timeout: Duration::ZERO,
        memory_retry: Duration::ZERO,
    };
    Engine::start(devices, config).expect("the CPU opens")
}

fn lane_config() -> LaneConfig {
    LaneConfig {
        max_batch_items: 4,
        max_batch_bytes: 100,
        gpu_max_batch_bytes: 100,
        max_wait: Duration::ZERO,
        concurrency: 1,
        max_age: Duration::from_secs(3600),
        cpu_max_bytes: 0,
        large_request_bytes: 0,
        max_batch_time: Duration::from_secs(3600),
    }
}

#[tokio::test]
async fn every_metric_is_exported_with_its_name_and_labels() {
    let exporter = InMemoryMetricExporter::default();
    let provider = SdkMeterProvider::builder().with_reader(PeriodicReader::builder(exporter.clone()).build()).build();
    global::set_meter_provider(provider.clone());

    let engine = engine();
    let lane = engine.lane::<Increment>(lane_config());
    assert_eq!(lane.submit(1, Context::default()).await.expect("it is answered").response, 2);
    lane.submit(13, Context::default()).await.expect_err("it is invalid");
    let late = Context { deadline: Some(Instant::now()), ..Context::default() };
    lane.submit(1, late).await.expect_err("it is late");
    // The gated request holds the whole budget of one item.
    let (waiting, refused) = tokio::join!(lane.submit(GATED, Context::default()), async {
        let refused = lane.submit(1, Context::default()).await;
        GATE.wait();
        refused
    });
    assert!(waiting.is_ok() && refused.is_err());

    // The queue gauges exist only while the engine does. A launch may be recorded after its last reply, but before its
    // worker stops.
    provider.force_flush().expect("the exporter takes it");
    drop(engine);
    provider.force_flush().expect("the exporter takes it");
    let labels = labels(&exporter);
    let of = |name: &str| labels.get(name).unwrap_or_else(|| panic!("{name} is missing in {labels:?}")).as_str();
    for name in
        ["queue_wait_seconds", "batch_items", "batch_requests", "batch_fill_ratio", "queue_items", "queue_bytes"]
    {
        assert_eq!(of(&format!("accelerd_{name}")), "lane=increment");
    }
    assert_eq!(of("accelerd_device_execute_seconds"), "device=cpu,lane=increment");
    assert_eq!(of("accelerd_device_errors"), "kind=invalid");
    assert_eq!(of("accelerd_requests_cancelled"), "lane=increment,stage=queued");
    assert_eq!(of("accelerd_admission_refused"), "measure=items");
}

/// The labels of each metric's first data point.
fn labels(exporter: &InMemoryMetricExporter) -> BTreeMap<String, String> {
    let exported = exporter.get_finished_metrics().expect("the exporter lives");
    let scopes = exported.iter().flat_map(ResourceMetrics::scope_metrics);
    let metrics = scopes.filter(|scope| scope.scope().name() == "accelerd").flat_map(ScopeMetrics::metrics);
    metrics.map(|metric| (metric.name().to_owned(), labels_of(metric.data()))).collect()
}

fn labels_of(data: &AggregatedMetrics) -> String {
    let mut labels = match data {
        AggregatedMetrics::F64(data) => points_of(data),
        AggregatedMetrics::U64(data) => points_of(data),
        AggregatedMetrics::I64(data) => points_of(data),
    };
    labels.sort();
    labels.join(",")
}

fn points_of<T: Copy>(data: &MetricData<T>) -> Vec<String> {
    let labels = |attributes: &mut dyn Iterator<Item = &opentelemetry::KeyValue>| {
        attributes.map(|label| format!("{}={}", label.key, label.value)).collect()
    };
    match data {
        MetricData::Histogram(histogram) => {
            histogram.data_points().next().map(|point| labels(&mut point.attributes())).unwrap_or_default()
        }
        MetricData::Sum(sum) => {
            sum.data_points().next().map(|point| labels(&mut point.attributes())).unwrap_or_default()
        }
        MetricData::Gauge(gauge) => {
            gauge.data_points().next().map(|point| labels(&mut point.attributes())).unwrap_or_default()
        }
        MetricData::ExponentialHistogram(_) => vec![],
    }
}

/// Records spans with their parents, and `follows_from` links, by name.
#[derive(Clone, Default)]
struct Spans {
    parents: Arc<Mutex<Vec<(String, String)>>>,
    links: Arc<Mutex<Vec<(String, String)>>>,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, _: &Attributes<'_>, id: &Id, context: layer::Context<'_, S>) {
        let span = context.span(id).expect("it is open");
        self.parents.lock().expect("no panic").push((span.name().to_owned(), path(span.parent().as_ref())));
    }

    fn on_follows_from(&self, span: &Id, follows: &Id, context: layer::Context<'_, S>) {
        let path = |id| path(context.span(id).as_ref());
        self.links.lock().expect("no panic").push((path(span), path(follows)));
    }
}

/// The names from the root to a span, as in `first/batch`.
fn path<'a, R: LookupSpan<'a>>(span: Option<&SpanRef<'a, R>>) -> String {
    let names = span.iter().flat_map(|span| span.scope().from_root()).map(|span| span.name().to_owned());
    names.collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn a_request_has_its_queue_batch_and_kernels_as_children_and_is_linked_with_the_batch() {
    let spans = Spans::default();
    tracing_subscriber::registry().with(spans.clone()).init();
    let engine = engine();
    let lane = engine.lane::<Increment>(lane_config());
    for name in [tracing::info_span!("first"), tracing::info_span!("second")] {
        lane.submit(KERNEL, Context::default()).instrument(name).await.expect("it is answered");
    }
    // A request without a span has no children.
    lane.submit(KERNEL, Context::default()).await.expect("it is answered");
    drop(engine);
    let links = spans.links.lock().expect("no panic").clone();
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    let expected = ["first", "second"].map(|name| [pair("batch", name), pair(&format!("{name}/batch"), "batch")]);
    assert_eq!(links, expected.concat());
    // Other tests of the process have spans, too, but none within these calls.
    let parents = spans.parents.lock().expect("no panic").clone();
    for call in ["first", "second"] {
        let in_batch = format!("{call}/batch");
        let within = parents.iter().filter(|(_, parent)| *parent == call || *parent == in_batch);
        let expected = [pair("queue", call), pair("batch", call), pair("kernel", &in_batch)];
        assert_eq!(within.cloned().collect::<Vec<_>>(), expected);
    }
    assert!(parents.contains(&pair("kernel", "batch")), "{parents:?}");
    assert!(!parents.contains(&pair("queue", "")), "{parents:?}");
}
