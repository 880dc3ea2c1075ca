//! Benchmarks tokenisation and pooling of the built-in model on one core:
//! `cargo bench -p accelerd-models --bench embed_bench [FILE...]`.
//!
//! Texts are 40-line windows of the given files, by default of this repository's kernels.
#![expect(clippy::print_stdout, reason = "a benchmark")]

use std::{
    fs,
    hint::black_box,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use accelerd_kernels::{
    Backend, Op,
    cpu::{Pool, Worker},
    ops::embed::{Embed, EmbedRequest},
};
use accelerd_models::Model;

const WINDOW_LINES: usize = 40;
const ROUNDS: u32 = 50;
const SPREAD_TOKENS: u32 = 1 << 20;

fn main() {
    let file = include_bytes!("../builtin/table.bin");
    let parsing = cpu_time(|| {
        black_box(Model::parse("builtin", black_box(file)).expect("a fit file"));
    });
    println!("builtin model parsed in {parsing:.1?}");
    let model = Model::builtin();
    let texts = texts();
    tokenizer(&model, &texts);
    let (ids, offsets) = tokenize(&model, &texts);
    let mut core = Backend::Cpu(Worker::new(Pool::start(1).expect("one thread")));
    for dimensions in [256, 128, 64] {
        pooling(&mut core, "tokens of the texts", &model, &ids, &offsets, dimensions);
    }
    let rows = u32::try_from(model.vocabulary_size()).expect("a table of fewer than 2^32 rows");
    let spread: Vec<u32> = (0..SPREAD_TOKENS).map(|i| i.wrapping_mul(2_654_435_761) % rows).collect();
    let offsets: Vec<u32> = (0..=SPREAD_TOKENS).step_by(128).collect();
    pooling(&mut core, "uniform rows, 128 tokens a text", &model, &spread, &offsets, 256);
}

/// Windows of the given files, or of this repository's.
fn texts() -> Vec<String> {
    let named: Vec<_> =
        std::env::args_os().skip(1).filter(|argument| argument != "--bench").map(PathBuf::from).collect();
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate stands below kernels");
    let files = if named.is_empty() { sources(kernels) } else { named };
    let read = files.iter().filter_map(|path| fs::read_to_string(path).ok());
    read.flat_map(|text| {
        let lines: Vec<_> = text.lines().collect();
        lines.chunks(WINDOW_LINES).map(|window| window.join("\n")).collect::<Vec<_>>()
    })
    .collect()
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return vec![] };
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let source = |path: &Path| path.extension().is_some_and(|e| ["rs", "py", "cu", "cuh"].iter().any(|s| e == *s));
    paths
        .iter()
        .flat_map(|path| if path.is_dir() { sources(path) } else { vec![path.clone()] })
        .filter(|p| source(p))
        .collect()
}

fn tokenize(model: &Model, texts: &[String]) -> (Vec<u32>, Vec<u32>) {
    let mut ids = vec![];
    let mut offsets = vec![0];
    for text in texts {
        model.token_ids(text, &mut ids).expect("it takes texts");
        offsets.push(u32::try_from(ids.len()).expect("fewer than 2^32 tokens"));
    }
    (ids, offsets)
}

fn tokenizer(model: &Model, texts: &[String]) {
    let bytes: usize = texts.iter().map(String::len).sum();
    let tokens = tokenize(model, texts).0.len();
    let time = cpu_time(|| {
        black_box(tokenize(model, black_box(texts)));
    });
    let seconds = time.as_secs_f64() * 1e6;
    println!(
        "tokeniser: {:.1} M tokens/s, {:.0} MB/s ({} texts, {bytes} bytes, {tokens} tokens)",
        tokens as f64 / seconds,
        bytes as f64 / seconds,
        texts.len(),
    );
}

fn pooling(core: &mut Backend, what: &str, model: &Model, ids: &[u32], offsets: &[u32], dimensions: usize) {
    let table = Arc::clone(model.table().expect("a table"));
    let request = EmbedRequest { table, ids: ids.to_vec(), offsets: offsets.to_vec(), dimensions, normalize: true };
    let time = cpu_time(|| {
        black_box(Embed::run(&[black_box(&request)], core).expect("a fit batch"));
    });
    println!(
        "pooling, {dimensions} dimensions, {what}: {:.1} M tokens/s ({} texts, {} tokens)",
        ids.len() as f64 / time.as_secs_f64() / 1e6,
        offsets.len() - 1,
        ids.len(),
    );
}

/// Mean CPU time of a run of `work`.
fn cpu_time(mut work: impl FnMut()) -> Duration {
    work();
    let before = process_cpu_time();
    for _ in 0..ROUNDS {
        work();
    }
    process_cpu_time().saturating_sub(before) / ROUNDS
}

/// CPU time of all threads of this process, on Linux.
fn process_cpu_time() -> Duration {
    let tasks = fs::read_dir("/proc/self/task").expect("a Linux machine");
    let stats = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("schedstat")).ok());
    let nanos = |stat: String| stat.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0);
    Duration::from_nanos(stats.map(nanos).sum())
}
