//! The engine's overhead: requests per second, CPU time per request and latency of an operation that does nothing.
//!
//! `cargo bench -p accelerd-engine --bench overhead`

use std::{
    fs,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use accelerd_engine::{Context, Engine, EngineConfig, Lane, LaneConfig};
use accelerd_kernels::{Backend, Choice, Op, OpError, Settings, Size, discover};
use opentelemetry::global;
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
use tokio::sync::oneshot;

/// Answers at once.
struct Nothing;

impl Op for Nothing {
    const NAME: &'static str = "nothing";
    type Request = u64;
    type Response = u64;
    type Key = u8;

    fn key(_: &u64) -> u8 {
        0
    }

    fn size(_: &u64) -> Size {
        Size { items: 1, bytes: 64 }
    }

    fn run(batch: &[&u64], _: &mut Backend) -> Result<Vec<u64>, OpError> {
        Ok(batch.iter().map(|request| **request).collect())
    }
}

#[tokio::main]
#[allow(clippy::print_stdout)] // The table is the program's output.
async fn main() {
    println!("{:>26}  submitters  requests/s  CPU us/request  p50 us  p99 us  requests/batch", "");
    report("two channels, no engine", 1, None, two_channels(20_000)).await;
    report_engine("engine", None).await;
    report_engine("with deadlines", Some(Duration::from_secs(10))).await;
    let reader = PeriodicReader::builder(InMemoryMetricExporter::default()).build();
    global::set_meter_provider(SdkMeterProvider::builder().with_reader(reader).build());
    report_engine("with deadlines, metered", Some(Duration::from_secs(10))).await;
}

/// Measures a new engine with few and many submitters.
async fn report_engine(name: &str, deadline: Option<Duration>) {
    let settings = Settings { choice: Choice::Cpu, cpu_threads: 1, ..Settings::default() };
    let devices = discover(&settings).expect("a CPU is always there").devices;
    let config = EngineConfig {
        cuda_workers: 2,
        cpu_workers: 1,
        cpu_paused_batches: 0,
        max_items: 1 << 20,
        max_bytes: 1 << 30,
        cpu_slice: Duration::from_millis(10),
        cuda_slice: Duration::from_millis(5),
        hang_timeout: Duration::ZERO,
        memory_retry: Duration::ZERO,
    };
    let engine = Engine::start(devices, config).expect("the workers start");
    let lane = engine.lane::<Nothing>(LaneConfig {
        max_batch_items: 1024,
        max_batch_bytes: 1 << 20,
        gpu_max_batch_bytes: 1 << 20,
        max_wait: Duration::ZERO,
        concurrency: 1,
        max_age: Duration::from_secs(1),
        cpu_max_bytes: 0,
        large_request_bytes: 0,
        max_batch_time: Duration::from_millis(50),
    });
    measure(&lane, 1, 20_000, None).await;
    for submitters in [1, 32, 256] {
        let requests = 400_000 / (submitters + 9);
        report(name, submitters, Some(&engine), measure(&lane, submitters, requests, deadline)).await;
    }
}

/// Runs a measurement and prints its line.
#[allow(clippy::print_stdout)] // The table is the program's output.
async fn report(
    name: &str,
    submitters: usize,
    engine: Option<&Engine>,
    measurement: impl Future<Output = Vec<Duration>>,
) {
    let counts = || engine.map(|engine| engine.stats().lanes[0].counts).unwrap_or_default();
    let before = counts();
    let cpu = cpu_time();
    let start = Instant::now();
    let mut latencies = measurement.await;
    let wall = start.elapsed();
    let cpu = cpu_time().saturating_sub(cpu);
    let after = counts();
    latencies.sort_unstable();
    let requests = latencies.len() as f64;
    let batch = (after.requests - before.requests) as f64 / (after.batches - before.batches).max(1) as f64;
    let micros = |latency: Duration| latency.as_secs_f64() * 1e6;
    println!(
        "{name:>26}  {submitters:>10}  {:>10.0}  {:>14.2}  {:>6.1}  {:>6.1}  {batch:>14.1}",
        requests / wall.as_secs_f64(),
        micros(cpu) / requests,
        micros(latencies[latencies.len() / 2]),
        micros(latencies[latencies.len() * 99 / 100]),
    );
}

/// A round trip to another thread without the engine: the lower bound of a lone request.
async fn two_channels(requests: usize) -> Vec<Duration> {
    let (send, receive) = mpsc::channel::<oneshot::Sender<()>>();
    let echo = thread::spawn(move || receive.into_iter().for_each(|reply| reply.send(()).expect("it waits")));
    let measured = tokio::spawn(async move {
        let mut latencies = Vec::with_capacity(requests);
        for _ in 0..requests {
            let start = Instant::now();
            let (reply, answer) = oneshot::channel();
            send.send(reply).expect("the thread lives");
            answer.await.expect("the thread answers");
            latencies.push(start.elapsed());
        }
        latencies
    });
    let latencies = measured.await.expect("no panic");
    echo.join().expect("no panic");
    latencies
}

/// Each submitter sends `requests` requests sequentially. Returns the latency of each.
async fn measure(
    lane: &Lane<Nothing>,
    submitters: usize,
    requests: usize,
    deadline: Option<Duration>,
) -> Vec<Duration> {
    let submitter = |lane: Lane<Nothing>| async move {
        let mut latencies = Vec::with_capacity(requests);
        for number in 0..requests as u64 {
            let start = Instant::now();
            let context = Context { deadline: deadline.map(|after| start + after), ..Context::default() };
            lane.submit(number, context).await.expect("nothing fails");
            latencies.push(start.elapsed());
        }
        latencies
    };
    let tasks: Vec<_> = (0..submitters).map(|_| tokio::spawn(submitter(lane.clone()))).collect();
    let mut latencies = vec![];
    for task in tasks {
        latencies.extend(task.await.expect("no submitter panics"));
    }
    latencies
}

/// User and system time of this process so far.
fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().filter_map(Result::ok);
    let of_threads = threads.filter_map(|thread| {
        let stat = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        stat.split_whitespace().next()?.parse::<u64>().ok()
    });
    let nanos: u64 = of_threads.sum();
    let main: u64 = stat.split_whitespace().next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0);
    Duration::from_nanos(nanos.max(main))
}
