//! Measures encoders of the shapes of MiniLM-L6 and BERT-base, with random weights, on a GPU: `encode_bench [--quick]
//! [--kernels] [--plain] [--small] [--sm80] [--cache FOLDER] [minilm | bert | qwen] [bf16 | f16 | f32]`, libraries where
//! `ACCELERD_CUDA_LIBRARY_PATH` says. `qwen` is four layers of the shape of Qwen3-Embedding 0.6B.
//!
//! A measurement is a whole batch as the daemon runs it: ids on the host to vectors on the host, mean pooling, unit length,
//! f32. First it compares the vectors of ragged sequences with the CPU's, and checks batch invariance. Prints a line of JSON
//! per measurement, and with `--kernels` the time per kernel; `--plain` disables CUDA graphs, `--small` measures small
//! batches only, and `--sm80` measures the kernels of GPUs before Hopper.
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

use std::{path::PathBuf, sync::Arc, time::Instant};

use accelerd_kernels::{
    Backend, Choice, Device, Op, Settings, discover,
    ops::encode::{
        Activation, Encode, EncodeRequest, Encoder, EncoderConfig, NormKind, NormPlacement, Pooling, Positions,
        Precision, QkNorm, samples,
    },
};

/// The daemon's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const LENGTHS: [usize; 4] = [32, 128, 512, 2048];
const BATCHES: [usize; 6] = [1, 32, 128, 512, 2048, 4096];
const QUICK_BATCHES: [usize; 4] = [1, 32, 512, 2048];
const SMALL_BATCHES: [usize; 4] = [1, 4, 16, 32];
/// The most tokens of a batch.
const TOKENS: usize = 1 << 20;
const QUICK_TOKENS: usize = 1 << 18;
/// The most runs of a measurement, and its time in seconds.
const RUNS: usize = 200;
const SECONDS: f64 = 0.4;
const RAGGED: [usize; 12] = [1, 7, 16, 25, 32, 33, 64, 90, 128, 200, 333, 512];

struct Options {
    batches: &'static [usize],
    tokens: usize,
    plain: bool,
    kernels: bool,
    sm80: bool,
    cache: Option<PathBuf>,
    shapes: Vec<(&'static str, EncoderConfig)>,
    precisions: Vec<Precision>,
}

impl Options {
    fn read() -> Self {
        let words: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
        let has = |word: &str| words.iter().any(|given| given == word);
        let only = |names: &[&str]| names.iter().any(|name| has(name));
        let mut shapes = vec![("minilm", shape(6, 384)), ("bert", shape(12, 768)), ("qwen", qwen())];
        shapes.retain(|(name, _)| has(name) || (*name != "qwen" && !only(&["minilm", "bert", "qwen"])));
        let mut precisions = vec![("bf16", Precision::Bf16), ("f16", Precision::F16), ("f32", Precision::F32)];
        precisions.retain(|(name, _)| has(name) || (*name == "bf16" && !only(&["bf16", "f16", "f32"])));
        let precisions = precisions.into_iter().map(|(_, precision)| precision).collect();
        let cache = words.iter().skip_while(|word| *word != "--cache").nth(1).map(PathBuf::from);
        let (batches, tokens) = match (has("--small"), has("--quick")) {
            (true, _) => (&SMALL_BATCHES[..], QUICK_TOKENS),
            (false, true) => (&QUICK_BATCHES[..], QUICK_TOKENS),
            (false, false) => (&BATCHES[..], TOKENS),
        };
        Self {
            batches,
            tokens,
            plain: has("--plain"),
            kernels: has("--kernels"),
            sm80: has("--sm80"),
            cache,
            shapes,
            precisions,
        }
    }
}

fn main() {
    let options = Options::read();
    let folders = std::env::var_os("ACCELERD_CUDA_LIBRARY_PATH").unwrap_or_default();
    let settings = Settings {
        choice: Choice::Cuda,
        cuda_library_paths: std::env::split_paths(&folders).collect(),
        staging_bytes: 64 << 20,
        kernel_cache: options.cache.clone(),
        kernel_cache_bytes: 1 << 30,
        max_compute_capability: options.sm80.then_some((8, 0)),
        ..Settings::default()
    };
    let found = discover(&settings).unwrap_or_else(|e| panic!("{e}"));
    let gpu = &found.devices[0];
    let cpu = found.devices.last().expect("the CPU is always there");
    let mut on_gpu = gpu.open().expect("a worker");
    let mut on_cpu = cpu.open().expect("a worker");
    if let (Backend::Cuda(worker), true) = (&on_gpu, options.plain) {
        worker.limit_graph_bytes(0);
    }
    for (name, config) in &options.shapes {
        let encoder = Arc::new(samples::encoder(config.clone()).expect("a fit description"));
        compare(name, &encoder, &mut on_gpu, &mut on_cpu);
        for &precision in &options.precisions {
            for length in LENGTHS.into_iter().filter(|length| *length <= config.max_tokens) {
                for &batch in options.batches.iter().filter(|batch| **batch * length <= options.tokens) {
                    measure(name, &encoder, precision, (batch, length), &mut on_gpu);
                    if options.kernels {
                        print_kernels(gpu);
                    }
                }
            }
        }
    }
}

fn shape(layers: usize, hidden: usize) -> EncoderConfig {
    EncoderConfig {
        vocabulary: 30_522,
        hidden,
        layers,
        heads: 12,
        kv_heads: 12,
        head_dim: hidden / 12,
        intermediate: 4 * hidden,
        max_tokens: 512,
        epsilon: 1e-12,
        ..samples::bert()
    }
}

/// Causal grouped-query attention with heads of 128.
fn qwen() -> EncoderConfig {
    EncoderConfig {
        heads: 16,
        kv_heads: 8,
        head_dim: 128,
        intermediate: 3072,
        max_tokens: 2048,
        token_types: 0,
        norm: NormKind::Rms,
        epsilon: 1e-6,
        norm_placement: NormPlacement::PreNorm,
        positions: Positions::Rotary { theta: 1e6, local_theta: 1e6, dims: 128 },
        activation: Activation::Silu,
        gated: true,
        causal: true,
        qk_norm: Some(QkNorm::PerHead),
        pooling: Pooling::Last,
        ..shape(4, 1024)
    }
}

fn run(backend: &mut Backend, requests: &[&EncodeRequest]) -> Vec<Vec<f32>> {
    let answers = Encode::run(requests, backend).unwrap_or_else(|e| panic!("{e}"));
    answers.iter().map(|answer| bytemuck::pod_collect_to_vec(&answer.bytes)).collect()
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// Prints the worst cosine to the CPU's vectors in each precision, and whether results are batch-invariant.
fn compare(name: &str, encoder: &Arc<Encoder>, on_gpu: &mut Backend, on_cpu: &mut Backend) {
    let hidden = encoder.config().hidden;
    let request = samples::request(encoder, &RAGGED);
    let expected = run(on_cpu, &[&request]).remove(0);
    let neighbours: Vec<usize> = (0..500).map(|i| 1 + i * 37 % 90).collect();
    for precision in [Precision::Bf16, Precision::F16, Precision::F32] {
        let request = EncodeRequest { precision, ..request.clone() };
        let got = run(on_gpu, &[&request]).remove(0);
        let worst = expected.chunks(hidden).zip(got.chunks(hidden)).map(|(e, g)| cosine(e, g)).fold(1.0, f64::min);
        let crowd = EncodeRequest { precision, ..samples::request(encoder, &neighbours) };
        let batched = run(on_gpu, &[&crowd, &request, &crowd]).remove(1);
        let mut same = batched == got;
        for index in 0..RAGGED.len() {
            let alone = run(on_gpu, &[&samples::sequence(&request, index)]).remove(0);
            same &= alone == got[index * hidden..][..hidden];
        }
        println!(
            r#"{{"check": "{name}", "precision": "{precision:?}", "worst_cosine": {worst:.8}, "same_bits": {same}}}"#
        );
    }
}

/// Measures sequences of one length.
fn measure(name: &str, encoder: &Arc<Encoder>, precision: Precision, shape: (usize, usize), on: &mut Backend) {
    let (batch, length) = shape;
    let request = EncodeRequest { precision, ..samples::request(encoder, &vec![length; batch]) };
    let mut once = || {
        let start = Instant::now();
        let answers = Encode::run(&[&request], on).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(answers[0].rows, batch);
        start.elapsed().as_secs_f64()
    };
    (0..3).for_each(|_| {
        once();
    });
    let start = Instant::now();
    let mut times = vec![];
    while times.len() < 5 || (times.len() < RUNS && start.elapsed().as_secs_f64() < SECONDS) {
        times.push(once());
    }
    times.sort_by(f64::total_cmp);
    let at = |quarter: usize| times[(times.len() - 1) * quarter / 4] * 1e3;
    let median = at(2);
    println!(
        r#"{{"model": "{name}", "precision": "{precision:?}", "tokens": {length}, "batch": {batch}, "median_ms": {median:.4}, "q1_ms": {:.4}, "q3_ms": {:.4}, "texts_per_s": {:.0}, "mtokens_per_s": {:.3}}}"#,
        at(1),
        at(3),
        batch as f64 / median * 1e3,
        (batch * length) as f64 / median / 1e3,
    );
}

/// Prints calls and mean time of the costliest kernels since the start.
fn print_kernels(device: &Device) {
    let mut kernels = device.kernel_stats();
    kernels.sort_by_key(|kernel| std::cmp::Reverse(kernel.nanos));
    for kernel in kernels.iter().filter(|kernel| kernel.nanos > 0).take(12) {
        let each = kernel.nanos as f64 / kernel.calls.max(1) as f64 / 1e3;
        println!("    {:32} {:8} calls {each:10.2} us each", kernel.name, kernel.calls);
    }
}
