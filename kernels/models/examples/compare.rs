//! Compares a model's vectors with reference vectors in its folder, and benchmarks the CPU:
//! `cargo run --release -p accelerd-models --example compare -- FOLDER`.
//!
//! `tests/encoders/reference.py` writes the folder's `texts.json` and `vectors.f32`. The benchmark prints sequences per
//! second by precision, threads and length: medians of wall-clock time, and the CPU time of all threads.
#![expect(clippy::print_stdout, reason = "prints its results")]

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use accelerd_kernels::{
    Backend, Op,
    cpu::{Pool, Worker},
    ops::encode::{Encode, EncodeRequest, OutputType, Precision},
};
use accelerd_models::{EncoderModel, Kind, Model, Sequences, TokenizeOptions};

const ROUNDS: usize = 9;

fn main() {
    let folder = PathBuf::from(env::args().nth(1).expect("the folder of a model"));
    let begin = Instant::now();
    let model = Model::load("model", &folder).expect("a model that can be loaded");
    println!("loaded in {:.2?}", begin.elapsed());
    let Kind::Encoder(encoder) = model.kind() else { panic!("a folder holds an encoder") };
    for precision in [Precision::F32, Precision::Bf16] {
        let used = precision.on_cpu();
        println!("{precision:?}, which is {used:?} on this machine");
        compare(&folder, &model, encoder, precision);
        for threads in [1, 2] {
            speed(encoder, precision, threads);
        }
    }
}

fn compare(folder: &Path, model: &Model, encoder: &EncoderModel, precision: Precision) {
    let texts = fs::read(folder.join("texts.json")).expect("texts.json in the folder");
    let texts: Vec<String> = serde_json::from_slice(&texts).expect("a list of texts");
    let mut sequences = Sequences::default();
    for text in &texts {
        model.tokenize(text, &TokenizeOptions::default(), &mut sequences).expect("a valid text");
    }
    let request = request(encoder, precision, sequences.ids, sequences.offsets);
    let got = run(&request, 2);
    let expected: Vec<f32> = fs::read(folder.join("vectors.f32"))
        .expect("vectors.f32 in the folder")
        .chunks_exact(4)
        .map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]]))
        .collect();
    assert_eq!(got.len(), expected.len(), "as many numbers");
    let hidden = encoder.encoder.config().hidden;
    let mut worst = 1.0_f64;
    for ((a, b), text) in got.chunks(hidden).zip(expected.chunks(hidden)).zip(&texts) {
        let cosine = cosine(a, b);
        assert!(cosine >= least(precision), "cosine {cosine} of {:?}", text.get(..40).unwrap_or(text));
        worst = worst.min(cosine);
    }
    println!("{} texts: least cosine {worst:.9}", texts.len());
}

fn least(precision: Precision) -> f64 {
    if precision.on_cpu() == Precision::F32 { 0.999_999 } else { 0.9999 }
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

fn request(encoder: &EncoderModel, precision: Precision, ids: Vec<u32>, offsets: Vec<u32>) -> EncodeRequest {
    let config = encoder.encoder.config();
    EncodeRequest {
        encoder: Arc::clone(&encoder.encoder),
        ids,
        token_type_ids: vec![],
        offsets,
        spans: None,
        pooling: config.pooling,
        dimensions: config.hidden,
        normalize: config.normalize,
        output: OutputType::F32,
        precision,
        exact_gelu: true,
    }
}

fn run(request: &EncodeRequest, threads: usize) -> Vec<f32> {
    let mut backend = Backend::Cpu(Worker::new(Pool::start(threads).expect("threads")));
    let answer = Encode::run(&[request], &mut backend).expect("a fit request").remove(0);
    answer.bytes.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect()
}

fn speed(encoder: &EncoderModel, precision: Precision, threads: usize) {
    let vocabulary = u32::try_from(encoder.encoder.config().vocabulary).expect("a small vocabulary");
    for (texts, tokens) in [(1, 32), (32, 32), (32, 128), (8, 256)] {
        let ids = (0..texts * tokens).map(|i| i * 7919 % vocabulary).collect();
        let request = request(encoder, precision, ids, (0..=texts).map(|text| text * tokens).collect());
        let mut backend = Backend::Cpu(Worker::new(Pool::start(threads).expect("threads")));
        Encode::run(&[&request], &mut backend).expect("a fit request");
        let before = cpu_seconds();
        let mut seconds: Vec<_> = (0..ROUNDS)
            .map(|_| {
                let begin = Instant::now();
                Encode::run(&[&request], &mut backend).expect("a fit request");
                begin.elapsed().as_secs_f64()
            })
            .collect();
        let busy = (cpu_seconds() - before) / ROUNDS as f64 / f64::from(texts) * 1e3;
        seconds.sort_by(f64::total_cmp);
        let rate = |seconds: f64| f64::from(texts) / seconds;
        let median = seconds[ROUNDS / 2];
        let minimum = seconds[ROUNDS - 1];
        let maximum = seconds[0];
        println!(
            "{threads} threads, {texts} x {tokens} tokens: {:.1} seq/s ({:.1} to {:.1}), {busy:.2} ms CPU a text",
            rate(median),
            rate(minimum),
            rate(maximum)
        );
    }
}

/// The CPU time of all threads of this process.
fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: f64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
    ticks / 100.0
}
