//! Measures the recovery of a durable collection, in points per second.
//!
//! ```text
//! cargo bench -p accelerd-collections --bench recovery -- points=4000000 threads=16 runs=3 folder=/var/tmp
//! ```
//!
//! Options: `points` (100,000 by default), `dim` (384), `threads` (0: one for each core), `runs` (3), `payload` (0: bytes of
//! a text in each payload), `from` (`checkpoint` or `log`), `folder` (of temporary files).
#![allow(clippy::print_stdout, reason = "a command for people")]

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use accelerd_collections::{
    BoxError, Collections, NewCollection, NewPayloads, NewPoints, PromptChoice, Services, Settings, TextEmbedder,
    TextOptions, Vectors,
};
use accelerd_engine::{Context, Engine, EngineConfig, LaneConfig};
use accelerd_kernels::{Choice, DeviceId, Matrix, Settings as Devices, discover};
use accelerd_proto::v1::{Payload, Value, value::Kind};
use accelerd_store::{Ids, Metric, Prompts, Storage};
use futures::future::BoxFuture;

/// Points of an upsert.
const BATCH: usize = 4096;
const NAME: &str = "bench";

#[derive(Debug)]
struct Options {
    points: usize,
    dim: usize,
    threads: usize,
    runs: usize,
    payload: usize,
    from_log: bool,
    folder: PathBuf,
}

impl Options {
    fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, BoxError> {
        let folder = std::env::temp_dir();
        let mut this = Self { points: 100_000, dim: 384, threads: 0, runs: 3, payload: 0, from_log: false, folder };
        for argument in arguments.filter(|argument| argument != "--bench") {
            let (name, value) = argument.split_once('=').ok_or("expected NAME=VALUE")?;
            match name {
                "points" => this.points = value.parse()?,
                "dim" => this.dim = value.parse()?,
                "threads" => this.threads = value.parse()?,
                "runs" => this.runs = value.parse()?,
                "payload" => this.payload = value.parse()?,
                "from" => this.from_log = value == "log",
                "folder" => this.folder = value.into(),
                other => return Err(format!("unknown option {other:?}").into()),
            }
        }
        Ok(this)
    }
}

/// Collections without a model need none.
struct NoEmbedder;

impl TextEmbedder for NoEmbedder {
    fn dimensions(&self, _: &str, _: u32) -> Result<u32, BoxError> {
        Err("there is no model".into())
    }

    fn digest(&self, _: &str) -> Result<String, BoxError> {
        Err("there is no model".into())
    }

    fn prompts(&self, _: &str, _: PromptChoice, _: PromptChoice) -> Result<Option<Prompts>, BoxError> {
        Err("there is no model".into())
    }

    fn embed<'a>(
        &'a self,
        _: &'a str,
        _: Vec<String>,
        _: TextOptions,
        _: Context,
    ) -> BoxFuture<'a, Result<(Matrix, String), BoxError>> {
        Box::pin(async { Err("there is no model".into()) })
    }
}

fn engine() -> Result<Engine, BoxError> {
    let found = discover(&Devices { choice: Choice::Cpu, cpu_threads: 1, ..Devices::default() })?;
    let config = EngineConfig {
        cuda_workers: 1,
        cpu_workers: 1,
        cpu_paused_batches: 0,
        max_items: 1 << 20,
        max_bytes: 1 << 30,
        cpu_slice: Duration::from_millis(10),
        cuda_slice: Duration::from_millis(5),
        memory_retry: Duration::ZERO,
        hang_timeout: Duration::ZERO,
    };
    Ok(Engine::start(found.devices, config)?)
}

fn services(engine: &Engine) -> Services {
    let second = Duration::from_secs(1);
    let lane = LaneConfig {
        max_batch_items: 1024,
        max_batch_bytes: 64 << 20,
        gpu_max_batch_bytes: 64 << 20,
        max_wait: Duration::ZERO,
        concurrency: 1,
        max_age: second,
        cpu_max_bytes: 0,
        large_request_bytes: 0,
        max_batch_time: second,
    };
    let devices = vec![DeviceId::Cpu];
    let embedder = Arc::new(NoEmbedder);
    Services { devices, search: engine.lane(lane), embedder, record_timing: |_, _| {} }
}

fn points(options: &Options, first: usize, count: usize) -> Result<NewPoints, BoxError> {
    let ids = (first..first + count).map(|id| id as u64);
    let number = |i: usize| ((i * 2_654_435_761) % 1009) as f32 / 1009.0;
    let numbers = (first * options.dim..(first + count) * options.dim).map(number).collect();
    let payload = |id: usize| {
        let mut text = format!("{id} ");
        while text.len() < options.payload {
            text.push_str("text ");
        }
        let kind = Some(Kind::StringValue(text));
        Payload { fields: [("text".to_owned(), Value { kind })].into() }
    };
    let with_payloads = options.payload > 0;
    Ok(NewPoints {
        ids: Ids::Numbers(ids.collect()),
        vectors: Vectors::Rows(Matrix::from_vec(count, options.dim, numbers)?),
        payloads: NewPayloads::Messages((first..first + count).filter(|_| with_payloads).map(payload).collect()),
    })
}

/// Writes the points to a log, or to a checkpoint with an empty log after it.
async fn write(engine: &Engine, options: &Options, dir: &Path) -> Result<(), BoxError> {
    let settings = |wal_limit| Settings { data_dir: Some(dir.into()), wal_limit, ..Settings::default() };
    let collections = Collections::open(settings(u64::MAX), services(engine))?;
    let spec = NewCollection {
        name: NAME.into(),
        dimensions: u32::try_from(options.dim)?,
        metric: Metric::Cosine,
        storage: Storage::Bf16,
        model: String::new(),
        document_prompt: PromptChoice::Default,
        query_prompt: PromptChoice::Default,
        text_field: String::new(),
        owner: String::new(),
        durable: Some(true),
    };
    let collection = collections.create(spec).await?;
    for first in (0..options.points).step_by(BATCH) {
        let count = BATCH.min(options.points - first);
        collection.upsert(points(options, first, count)?, Context::default()).await?;
    }
    drop(collection);
    collections.close().await;
    if !options.from_log {
        // A log above the limit is folded into a checkpoint as soon as it is recovered.
        Collections::open(settings(1), services(engine))?.close().await;
    }
    Ok(())
}

fn main() -> Result<(), BoxError> {
    let options = Options::parse(std::env::args().skip(1))?;
    let dir = options.folder.join(format!("recovery-{}", std::process::id()));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let engine = engine()?;
    runtime.block_on(write(&engine, &options, &dir))?;
    let source = if options.from_log { "log" } else { "checkpoint" };
    for run in 1..=options.runs {
        let settings = Settings {
            data_dir: Some(dir.clone()),
            wal_limit: u64::MAX,
            recovery_threads: options.threads,
            ..Settings::default()
        };
        let _inside = runtime.enter();
        let started = Instant::now();
        let collections = Collections::open(settings, services(&engine))?;
        let elapsed = started.elapsed();
        let points = collections.get(NAME)?.describe().points;
        if points != options.points as u64 {
            return Err(format!("{points} points were recovered, expected {}", options.points).into());
        }
        let rate = points as f64 / elapsed.as_secs_f64();
        let Options { dim, threads, .. } = options;
        println!(
            "run {run}: {points} points of dim {dim} from a {source}, threads {threads}: {elapsed:.2?}, {rate:.0} points/s"
        );
        runtime.block_on(collections.close());
    }
    std::fs::remove_dir_all(dir)?;
    Ok(())
}
