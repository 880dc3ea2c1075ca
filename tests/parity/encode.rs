//! Encoders of every architecture against the f64 oracle, in every precision; batch invariance; CUDA graphs.

use std::{fs, sync::Arc};

use accelerd_kernels::{
    Backend, DeviceId, OpError,
    ops::encode::{
        Activation, Encode, EncodeRequest, Encoded, Encoder, EncoderConfig, NormKind, NormPlacement, OutputType,
        Pooling, Positions, Precision, QkNorm, Role, SlidingWindow, Tensor, oracle,
        samples::{self, encoder},
    },
};
use accelerd_models::hf;
use accelerd_parity::{device, encoders, open, pytorch_models, random, run_batch};
use rand::Rng;
use serde_json::Value;

use super::Case;

const LENGTHS: [u32; 16] = [1, 0, 2, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 127, 129, 200];
/// The least cosine of a token's hidden state, and of a sequence's mean, to the f64 oracle's: in 16 bits and in f32.
pub(crate) const MIN_COSINE_16_BIT: f64 = 0.9999;
pub(crate) const MIN_COSINE_F32: f64 = 0.999_999;
/// The same of a hidden state on a CPU with bfloat16 GEMMs: one of Qwen2's shape here has 0.99984.
const MIN_COSINE_BF16_STATE_ON_CPU: f64 = 0.9998;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("encode::output_types_and_poolings", output_types),
        Case::new("encode::a_range_of_100_000_tokens", long_range),
        Case::new("encode::batch_invariance", batch_invariance),
        Case::new("encode::few_rows_have_the_bits_of_many", few_rows),
        Case::new("encode::many_rows_have_the_bits_of_fewer", many_rows),
        Case::new("encode::graphs_are_evicted", graphs_are_evicted),
        Case::new("encode::graphs_survive_a_failed_capture", capture_fails),
        Case::new("encode::two_workers_replay_concurrently", two_workers),
    ];
    for (name, config) in architectures() {
        let check = move |backend: &mut Backend| replayed(&config, backend);
        cases.push(Case::new(format!("encode::graphs_have_the_bits_of_launches_{name}"), check));
    }
    // Random weights, compared with PyTorch's f32 hidden states.
    for name in pytorch_models() {
        for precision in [Precision::Bf16, Precision::F16, Precision::F32] {
            let case = format!("encode::pytorch_{name}_{precision:?}").to_lowercase();
            let name = name.clone();
            cases.push(Case::new(case, move |backend: &mut Backend| pytorch(&name, precision, backend)));
        }
    }
    for (name, config) in architectures() {
        for precision in [Precision::Bf16, Precision::F16, Precision::F32] {
            let config = config.clone();
            let check = move |backend: &mut Backend| {
                let encoder = Arc::new(encoder(config.clone()).map_err(|e| e.to_string())?);
                compare(&request(&encoder, &LENGTHS, precision, 3), backend)
            };
            cases.push(Case::new(format!("encode::{name}_{precision:?}").to_lowercase(), check));
        }
    }
    cases
}

fn rotary(dims: usize) -> Positions {
    Positions::Rotary { theta: 10_000.0, local_theta: 10_000.0, dims }
}

/// Two layers like BERT's.
pub(crate) fn base() -> EncoderConfig {
    EncoderConfig {
        vocabulary: 97,
        hidden: 128,
        head_dim: 64,
        intermediate: 512,
        max_tokens: 256,
        epsilon: 1e-12,
        ..samples::bert()
    }
}

/// Two layers of each family, and shapes that do not fill a tile.
fn architectures() -> Vec<(&'static str, EncoderConfig)> {
    let base = base();
    let gated = EncoderConfig { gated: true, ..base.clone() };
    let relative = Positions::RelativeBias { buckets: 32, max_distance: 128 };
    let modern = EncoderConfig {
        norm_placement: NormPlacement::PreNorm,
        positions: Positions::Rotary { theta: 160_000.0, local_theta: 10_000.0, dims: 64 },
        window: Some(SlidingWindow { distance: 20, layers: vec![false, true, false] }),
        token_types: 0,
        layers: 3,
        ..gated.clone()
    };
    let qwen = EncoderConfig {
        norm: NormKind::Rms,
        epsilon: 1e-6,
        norm_placement: NormPlacement::PreNorm,
        positions: rotary(128),
        head_dim: 128,
        heads: 4,
        kv_heads: 2,
        token_types: 0,
        activation: Activation::Silu,
        gated: true,
        causal: true,
        qk_norm: Some(QkNorm::PerHead),
        ..base.clone()
    };
    vec![
        ("bert", base.clone()),
        ("narrow_heads", EncoderConfig { heads: 4, kv_heads: 4, head_dim: 32, ..base.clone() }),
        (
            "narrow_heads_alibi",
            EncoderConfig { heads: 6, kv_heads: 6, head_dim: 20, positions: Positions::Alibi, ..base.clone() },
        ),
        (
            "narrow_heads_causal",
            EncoderConfig { heads: 4, kv_heads: 4, head_dim: 32, causal: true, pooling: Pooling::Last, ..base.clone() },
        ),
        (
            "odd_sizes",
            EncoderConfig { hidden: 90, heads: 5, kv_heads: 5, head_dim: 18, intermediate: 75, ..base.clone() },
        ),
        ("wide_heads", EncoderConfig { heads: 1, kv_heads: 1, head_dim: 160, ..base.clone() }),
        (
            "wide_states",
            EncoderConfig { hidden: 1100, heads: 1, kv_heads: 1, head_dim: 32, intermediate: 64, ..base.clone() },
        ),
        ("relu_roberta", EncoderConfig { position_offset: 2, activation: Activation::Relu, ..base.clone() }),
        ("mpnet", EncoderConfig { positions: relative, token_types: 0, ..base.clone() }),
        ("jina", EncoderConfig { positions: Positions::Alibi, ..gated.clone() }),
        ("jina_code", EncoderConfig { positions: Positions::Alibi, qk_norm: Some(QkNorm::AllHeads), ..gated.clone() }),
        ("nomic", EncoderConfig { positions: rotary(64), activation: Activation::Silu, ..gated.clone() }),
        ("odd_gates", EncoderConfig { intermediate: 75, activation: Activation::GeluTanh, ..gated }),
        ("modern", modern),
        ("qwen2", EncoderConfig { qk_norm: None, head_dim: 64, positions: rotary(64), ..qwen.clone() }),
        ("qwen3", qwen),
    ]
}

pub(crate) fn request(encoder: &Arc<Encoder>, lengths: &[u32], precision: Precision, seed: u64) -> EncodeRequest {
    let config = encoder.config();
    let mut random = random(seed);
    let mut offsets = vec![0];
    for length in lengths {
        offsets.push(offsets[offsets.len() - 1] + length);
    }
    let tokens = offsets[lengths.len()] as usize;
    let mut ids = |end: usize| -> Vec<u32> {
        let end = u32::try_from(end).expect("a small table");
        (0..tokens).map(|_| random.random_range(0..end)).collect()
    };
    EncodeRequest {
        encoder: Arc::clone(encoder),
        ids: ids(config.vocabulary),
        token_type_ids: if config.token_types > 1 { ids(config.token_types) } else { vec![] },
        offsets,
        spans: None,
        pooling: Pooling::None,
        dimensions: config.hidden,
        normalize: false,
        output: OutputType::F32,
        precision,
        exact_gelu: true,
    }
}

pub(crate) fn vectors(bytes: &[u8], dimensions: usize) -> Vec<Vec<f64>> {
    let numbers: Vec<_> =
        bytes.chunks_exact(4).map(|x| f64::from(f32::from_le_bytes([x[0], x[1], x[2], x[3]]))).collect();
    numbers.chunks_exact(dimensions).map(<[f64]>::to_vec).collect()
}

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

pub(crate) fn run(requests: &[EncodeRequest], backend: &mut Backend) -> Result<Vec<Encoded>, String> {
    run_batch::<Encode>(requests, backend).map_err(|e| e.to_string())
}

/// Compares each token's hidden state and each sequence's mean with the oracle's, in direction and length.
pub(crate) fn compare(request: &EncodeRequest, backend: &mut Backend) -> Result<(), String> {
    let expected = oracle::encode(request).map_err(|e| e.to_string())?;
    let expected = vectors(&expected.bytes, request.dimensions);
    match (used(request.precision, backend), backend.device()) {
        (Precision::F32, _) => compare_with(request, &expected, MIN_COSINE_F32, backend),
        (Precision::Bf16, DeviceId::Cpu) => {
            compare_apart(request, &expected, [MIN_COSINE_BF16_STATE_ON_CPU, MIN_COSINE_16_BIT], backend)
        }
        (Precision::F16 | Precision::Bf16 | Precision::Auto, _) => {
            compare_with(request, &expected, MIN_COSINE_16_BIT, backend)
        }
    }
}

/// The precision that a backend uses.
pub(crate) fn used(precision: Precision, backend: &Backend) -> Precision {
    if backend.device() == DeviceId::Cpu { precision.on_cpu() } else { precision.on_gpu() }
}

fn compare_with(request: &EncodeRequest, expected: &[Vec<f64>], bar: f64, backend: &mut Backend) -> Result<(), String> {
    compare_apart(request, expected, [bar, bar], backend)
}

/// With separate thresholds for hidden states and means.
fn compare_apart(
    request: &EncodeRequest,
    expected: &[Vec<f64>],
    [of_states, of_means]: [f64; 2],
    backend: &mut Backend,
) -> Result<(), String> {
    let got = run(std::slice::from_ref(request), backend)?;
    let got = vectors(&got[0].bytes, request.dimensions);
    if expected.len() != got.len() {
        return Err(format!("expected {} vectors, got {}", expected.len(), got.len()));
    }
    for (text, ends) in request.offsets.windows(2).enumerate() {
        let tokens = ends[0] as usize..ends[1] as usize;
        for token in tokens.clone() {
            same(&got[token], &expected[token], of_states).map_err(|e| format!("token {token} of text {text}: {e}"))?;
        }
        if !tokens.is_empty() {
            let got = mean(&got[tokens.clone()]);
            let expected = mean(&expected[tokens]);
            same(&got, &expected, of_means).map_err(|e| format!("text {text}: {e}"))?;
        }
    }
    Ok(())
}

/// A model exported by PyTorch, compared with PyTorch's output.
fn pytorch(name: &str, precision: Precision, backend: &mut Backend) -> Result<(), String> {
    let folder = encoders().join(name);
    let encoder = Arc::new(hf::load(&folder).map_err(|e| e.to_string())?.encoder);
    let read = |file: &str| fs::read(folder.join(file)).map_err(|e| format!("{file}: {e}"));
    let json: Value = serde_json::from_slice(&read("expected.json")?).map_err(|e| e.to_string())?;
    let texts: Vec<Vec<u32>> = serde_json::from_value(json["texts"].clone()).map_err(|e| e.to_string())?;
    let ends = texts.iter().scan(0, |end, text| {
        *end += u32::try_from(text.len()).expect("a short text");
        Some(*end)
    });
    let offsets: Vec<u32> = [0].into_iter().chain(ends).collect();
    let request =
        EncodeRequest { ids: texts.concat(), token_type_ids: vec![], offsets, ..request(&encoder, &[1], precision, 0) };
    let expected = vectors(&read("states.f32")?, request.dimensions);
    let bar = match used(precision, backend) {
        Precision::Bf16 | Precision::Auto => MIN_COSINE_16_BIT.min(bar_of_bf16(&request, &expected)?),
        Precision::F16 => MIN_COSINE_16_BIT,
        Precision::F32 => MIN_COSINE_F32,
    };
    compare_with(&request, &expected, bar, backend)
}

/// The threshold for bfloat16, whose 8 bits are few for these models: rounding the weights alone moves some hidden states
/// further than [`MIN_COSINE_16_BIT`] allows. Rounding between layers may move them as far again; twice the distance is four
/// times the loss of cosine.
pub(crate) fn bar_of_bf16(request: &EncodeRequest, expected: &[Vec<f64>]) -> Result<f64, String> {
    let encoder = in_bf16(&request.encoder).map_err(|e| e.to_string())?;
    let rounded = oracle::encode(&EncodeRequest { encoder, ..request.clone() }).map_err(|e| e.to_string())?;
    let rounded = vectors(&rounded.bytes, request.dimensions);
    let worst = rounded.iter().zip(expected).map(|(got, expected)| cosine(got, expected)).fold(1.0, f64::min);
    Ok(1.0 - 4.0 * (1.0 - worst))
}

/// The encoder with matrices rounded to bfloat16.
fn in_bf16(encoder: &Encoder) -> Result<Arc<Encoder>, OpError> {
    let weights = encoder.weights().map(&mut |tensor: &Tensor, role| {
        let round =
            |x: f32| if matches!(role, Role::Matrix | Role::Gated) { half::bf16::from_f32(x).to_f32() } else { x };
        Tensor::from_f32(tensor.shape(), &tensor.to_f32().into_iter().map(round).collect::<Vec<_>>())
    })?;
    Ok(Arc::new(Encoder::new(encoder.config().clone(), weights)?))
}

fn mean(vectors: &[Vec<f64>]) -> Vec<f64> {
    (0..vectors[0].len()).map(|index| vectors.iter().map(|x| x[index]).sum::<f64>() / vectors.len() as f64).collect()
}

/// NaN is never close.
fn same(got: &[f64], expected: &[f64], bar: f64) -> Result<(), String> {
    let size = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>().sqrt();
    let near = cosine(got, expected);
    let ratio = size(got) / size(expected);
    if near >= bar && (ratio - 1.0).abs() <= (2.0 - 2.0 * bar).sqrt() {
        return Ok(());
    }
    Err(format!("cosine {near}, ratio of lengths {ratio}"))
}

/// All poolings and output types, truncated and normalised, over ranges that are empty, long, or span sequences.
fn output_types(backend: &mut Backend) -> Result<(), String> {
    let encoder = Arc::new(encoder(EncoderConfig { layers: 1, ..base() }).map_err(|e| e.to_string())?);
    let plain = request(&encoder, &[3, 0, 70, 1], Precision::F32, 8);
    for pooling in [Pooling::Cls, Pooling::Mean, Pooling::Max, Pooling::WeightedMean, Pooling::Last, Pooling::None] {
        for output in [OutputType::F32, OutputType::F16, OutputType::Bf16, OutputType::Int8, OutputType::Binary] {
            for (dimensions, normalize) in [(128, true), (37, false)] {
                let spans = Some(vec![[0, 3], [2, 2], [1, 70], [73, 74]]);
                let request = EncodeRequest { pooling, output, dimensions, normalize, spans, ..plain.clone() };
                let expected = oracle::encode(&request).map_err(|e| e.to_string())?;
                let got = run(std::slice::from_ref(&request), backend)?.remove(0);
                let name = format!("{pooling:?} {output:?} {dimensions}");
                near(&got.bytes, &expected.bytes, output).map_err(|e| format!("{name}: {e}"))?;
                let pairs = got.scales.iter().zip(&expected.scales);
                if got.scales.len() != expected.scales.len() || pairs.into_iter().any(|(a, b)| (a - b).abs() > 1e-5) {
                    return Err(format!("{name}: scales {:?}, expected {:?}", got.scales, expected.scales));
                }
            }
        }
    }
    Ok(())
}

/// Pooling stays accurate over very many tokens.
fn long_range(backend: &mut Backend) -> Result<(), String> {
    const COPIES: u32 = 2_000;
    let small = EncoderConfig { layers: 1, hidden: 64, heads: 1, kv_heads: 1, intermediate: 64, ..base() };
    let encoder = Arc::new(encoder(small).map_err(|e| e.to_string())?);
    let text = request(&encoder, &[50], Precision::F32, 12);
    let states = vectors(&run(std::slice::from_ref(&text), backend)?.remove(0).bytes, 64);
    let copies = EncodeRequest {
        ids: text.ids.repeat(COPIES as usize),
        token_type_ids: text.token_type_ids.repeat(COPIES as usize),
        offsets: (0..=COPIES).map(|copy| 50 * copy).collect(),
        spans: Some(vec![[0, 50 * COPIES]]),
        ..text
    };
    // The mean with weights 1, 2, .. over all copies.
    let every = || (0..COPIES as usize).flat_map(|_| &states).zip(1..).map(|(state, index)| (state, f64::from(index)));
    let weights: f64 = every().map(|(_, weight)| weight).sum();
    let weighted = |index: usize| every().map(|(state, weight)| weight * state[index]).sum::<f64>() / weights;
    let largest = |index: usize| states.iter().map(|state| state[index]).fold(f64::MIN, f64::max);
    let expected = [
        (Pooling::Mean, mean(&states)),
        (Pooling::WeightedMean, (0..64).map(weighted).collect()),
        (Pooling::Max, (0..64).map(largest).collect()),
    ];
    for (pooling, expected) in expected {
        let got = vectors(&run(&[EncodeRequest { pooling, ..copies.clone() }], backend)?.remove(0).bytes, 64).remove(0);
        let apart = (0..64).map(|index| (got[index] - expected[index]).abs()).fold(0.0, f64::max);
        if apart.is_nan() || apart > 1e-5 {
            return Err(format!("{pooling:?}: off by {apart}"));
        }
    }
    Ok(())
}

/// Compares rows, which may differ by what the rounding of the output type makes of 1e-5.
fn near(got: &[u8], expected: &[u8], output: OutputType) -> Result<(), String> {
    if got.len() != expected.len() {
        return Err(format!("{} bytes, expected {}", got.len(), expected.len()));
    }
    let numbers = |bytes: &[u8]| -> Vec<f64> {
        let pairs = || bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        match output {
            OutputType::F32 => vectors(bytes, 1).into_iter().flatten().collect(),
            OutputType::F16 => pairs().map(|bits| f64::from(half::f16::from_bits(bits))).collect(),
            OutputType::Bf16 => pairs().map(|bits| f64::from(half::bf16::from_bits(bits))).collect(),
            OutputType::Int8 => bytes.iter().map(|byte| f64::from(byte.cast_signed())).collect(),
            OutputType::Binary => bytes.iter().map(|byte| f64::from(byte.count_ones())).collect(),
        }
    };
    let step = match output {
        OutputType::F32 => 2e-5,
        OutputType::F16 => 4e-3,
        OutputType::Bf16 => 3e-2,
        // A number near the midpoint of two steps, or near zero, may round either way.
        OutputType::Int8 | OutputType::Binary => 1.0,
    };
    let got = numbers(got);
    let expected = numbers(expected);
    let apart = |got: &f64, expected: &f64| (got - expected).abs();
    let wrong = |(got, expected): (&f64, &f64)| apart(got, expected) > step || apart(got, expected).is_nan();
    match got.iter().zip(&expected).position(wrong) {
        Some(index) => Err(format!("number {index} is {}, expected {}", got[index], expected[index])),
        None => Ok(()),
    }
}

/// A sequence alone, next to another and among 500 has the same bits, in every precision and with both Hopper kernels.
fn batch_invariance(backend: &mut Backend) -> Result<(), String> {
    for (heads, head_dim) in [(4, 64), (8, 32)] {
        let shape = EncoderConfig { hidden: 256, heads, kv_heads: heads, head_dim, intermediate: 512, ..base() };
        let encoder = Arc::new(encoder(shape).map_err(|e| e.to_string())?);
        for precision in [Precision::Bf16, Precision::F16, Precision::F32] {
            alone_and_batched(&encoder, precision, backend)?;
        }
    }
    Ok(())
}

fn alone_and_batched(encoder: &Arc<Encoder>, precision: Precision, backend: &mut Backend) -> Result<(), String> {
    let mut random = random(1);
    let texts = [1, 16, 30, 64, 77, 200].map(|length| request(encoder, &[length], precision, u64::from(length)));
    let mut alone = vec![];
    for text in &texts {
        alone.push(run(std::slice::from_ref(text), backend)?.remove(0));
    }
    for others in [1, 500] {
        let lengths: Vec<_> = (0..others).map(|_| random.random_range(1..=60)).collect();
        let neighbours = request(encoder, &lengths, precision, 99);
        let batch = [std::slice::from_ref(&neighbours), &texts, std::slice::from_ref(&neighbours)].concat();
        let together = &run(&batch, backend)?[1..=texts.len()];
        if let Some(nth) = (0..texts.len()).find(|&nth| together[nth] != alone[nth]) {
            return Err(format!("{precision:?}: text {nth} differs among {others} others"));
        }
    }
    Ok(())
}

/// Sequences alone, which use the skinny GEMM, and all in one batch: tiles that are not full, and layers of few and many k
/// tiles, whose last stage is partial.
fn few_rows(backend: &mut Backend) -> Result<(), String> {
    let shapes = [(768, 3072, false), (384, 1536, false), (320, 2048, true), (1024, 64, true), (64, 192, false)];
    for (hidden, intermediate, gated) in shapes {
        let heads = hidden / 64;
        let config = EncoderConfig { layers: 1, hidden, heads, kv_heads: heads, intermediate, gated, ..base() };
        let encoder = Arc::new(encoder(config).map_err(|e| e.to_string())?);
        for precision in [Precision::Bf16, Precision::F16] {
            let lengths = [1, 7, 8, 9, 16, 17, 31, 33, 64, 65, 72, 127, 128];
            let texts: Vec<_> =
                lengths.map(|length| request(&encoder, &[length], precision, u64::from(length))).into_iter().collect();
            let together = run(&texts, backend)?;
            for ((text, expected), length) in texts.iter().zip(&together).zip(lengths) {
                if run(std::slice::from_ref(text), backend)?[0] != *expected {
                    return Err(format!("{hidden} to {intermediate}, {precision:?}: {length} rows differ alone"));
                }
            }
        }
    }
    Ok(())
}

/// Sequences in batches of two, and all in one, with enough rows for the fused linear layer and norm on a GPU: in partial
/// tiles, in one wave and in many; with both kinds of norm, with and without biases.
fn many_rows(backend: &mut Backend) -> Result<(), String> {
    let counts: &[u32] = if backend.device() == DeviceId::Cpu { &[3] } else { &[70, 131, 600] };
    for (hidden, norm) in [(384, NormKind::Layer), (768, NormKind::Layer), (384, NormKind::Rms), (768, NormKind::Rms)] {
        let heads = hidden / 64;
        let intermediate = if hidden == 384 { 1536 } else { 768 };
        let config = EncoderConfig { layers: 2, hidden, heads, kv_heads: heads, intermediate, norm, ..base() };
        let encoder = Arc::new(encoder(config).map_err(|e| e.to_string())?);
        for precision in [Precision::Bf16, Precision::F16] {
            for &count in counts {
                let texts: Vec<_> = (0..count)
                    .map(|index| request(&encoder, &[1 + index * 53 % 130], precision, index.into()))
                    .collect();
                let together = run(&texts, backend)?;
                for (index, (texts, expected)) in texts.chunks(2).zip(together.chunks(2)).enumerate() {
                    if run(texts, backend)? != expected {
                        return Err(format!(
                            "{hidden}, {norm:?}, {precision:?}: pair {index} of {count} sequences differs"
                        ));
                    }
                }
            }
        }
    }
    Ok(())
}

/// Lengths of batches, some of which share graphs.
const BATCHES: [&[u32]; 14] = [
    &[1],
    &[16],
    &[9],
    &[32],
    &[20],
    &[64],
    &[65],
    &[128],
    &[200],
    &[197],
    &[3, 0, 70, 1],
    &[16, 64, 2, 30, 20, 9],
    &[129, 1, 130, 33, 200],
    &[40, 60, 33, 50, 64],
];

/// Limits the memory of graphs; no effect on the CPU.
fn limit_graph_bytes(backend: &Backend, bytes: usize) {
    if let Backend::Cuda(worker) = backend {
        worker.limit_graph_bytes(bytes);
    }
}

/// The number of cached graphs on a GPU.
fn graph_count(backend: &Backend) -> Option<usize> {
    match backend {
        Backend::Cuda(worker) => Some(worker.graph_count()),
        Backend::Cpu(_) => None,
    }
}

fn batches(encoder: &Arc<Encoder>, precision: Precision) -> Vec<EncodeRequest> {
    (1..).zip(BATCHES).map(|(seed, lengths)| request(encoder, lengths, precision, seed)).collect()
}

/// The output without graphs.
fn launched(requests: &[EncodeRequest]) -> Result<Vec<Encoded>, String> {
    let mut backend = open(device(true).or(device(false)).ok_or("there is no device")?)?;
    limit_graph_bytes(&backend, 0);
    requests.iter().map(|request| Ok(run(std::slice::from_ref(request), &mut backend)?.remove(0))).collect()
}

/// Runs each request until it was launched, captured and replayed. Requests alternate, which reveals data left over from
/// another batch.
fn run_rounds(requests: &[EncodeRequest], expected: &[Encoded], backend: &mut Backend) -> Result<(), String> {
    for round in 0..4 {
        for (request, expected) in requests.iter().zip(expected) {
            if run(std::slice::from_ref(request), backend)?[0] != *expected {
                return Err(format!("{:?} {:?}: other bits in round {round}", request.precision, request.offsets));
            }
        }
    }
    Ok(())
}

/// The expected output: without graphs on a GPU.
fn expected(requests: &[EncodeRequest], backend: &mut Backend) -> Result<Vec<Encoded>, String> {
    match backend.device() {
        DeviceId::Cpu => run(requests, backend),
        DeviceId::Cuda(_) => launched(requests),
    }
}

fn replayed(config: &EncoderConfig, backend: &mut Backend) -> Result<(), String> {
    let encoder = Arc::new(encoder(config.clone()).map_err(|e| e.to_string())?);
    for precision in [Precision::Bf16, Precision::F16, Precision::F32] {
        let requests = batches(&encoder, precision);
        let expected = expected(&requests, backend)?;
        run_rounds(&requests, &expected, backend)?;
    }
    if graph_count(backend) == Some(0) {
        return Err("no graph was captured".to_owned());
    }
    Ok(())
}

/// A limit evicts graphs at once and while other shapes are captured. Dropping the encoder drops its graphs.
fn graphs_are_evicted(backend: &mut Backend) -> Result<(), String> {
    let small = EncoderConfig { layers: 1, ..base() };
    let encoder = Arc::new(samples::encoder(small.clone()).map_err(|e| e.to_string())?);
    let shapes = (1..=15).flat_map(|rows| [1, 2, 3, 5].map(|texts| vec![(rows * 64) / texts; texts as usize]));
    let requests: Vec<_> = shapes.map(|lengths| request(&encoder, &lengths, Precision::Bf16, 5)).collect();
    let short = |request: &EncodeRequest| request.offsets.windows(2).all(|pair| pair[1] - pair[0] <= 256);
    let requests: Vec<_> = requests.into_iter().filter(short).collect();
    let answers = expected(&requests, backend)?;
    run_rounds(&requests, &answers, backend)?;
    let all = graph_count(backend);
    limit_graph_bytes(backend, 1 << 20);
    let limited = graph_count(backend);
    let mut counts = vec![];
    for (request, expected) in requests.iter().zip(&answers) {
        run_rounds(std::slice::from_ref(request), std::slice::from_ref(expected), backend)?;
        counts.push(graph_count(backend));
    }
    drop((requests, encoder));
    let other = Arc::new(samples::encoder(small).map_err(|e| e.to_string())?);
    run(&[request(&other, &[3], Precision::Bf16, 5)], backend)?;
    let outlived = graph_count(backend);
    // The limit itself may evict all: the graphs of the largest shapes were used last.
    let is_evicted = all.is_none_or(|_| limited < all && counts.iter().all(|count| (Some(1)..all).contains(count)));
    if !is_evicted || outlived.is_some_and(|kept| kept > 0) {
        return Err(format!(
            "{all:?} graphs without a limit, {limited:?} and then {counts:?} with one, {outlived:?} outlived the encoder"
        ));
    }
    Ok(())
}

/// Limits under which no graph fits, some fit, and all fit.
fn capture_fails(backend: &mut Backend) -> Result<(), String> {
    let encoder = Arc::new(encoder(base()).map_err(|e| e.to_string())?);
    let requests = batches(&encoder, Precision::Bf16);
    let expected = expected(&requests, backend)?;
    for (limit, some) in [(200 << 10, false), (1 << 20, true), (0, false), (1 << 30, true)] {
        limit_graph_bytes(backend, limit);
        run_rounds(&requests, &expected, backend)?;
        if graph_count(backend).is_some_and(|kept| (kept > 0) != some) {
            return Err(format!("{:?} graphs are cached within {limit} bytes", graph_count(backend)));
        }
    }
    Ok(())
}

/// Each worker has its own graphs.
fn two_workers(backend: &mut Backend) -> Result<(), String> {
    let encoder = Arc::new(encoder(base()).map_err(|e| e.to_string())?);
    let requests = batches(&encoder, Precision::Bf16);
    let expected = expected(&requests, backend)?;
    let cuda = backend.device() != DeviceId::Cpu;
    let requests = &requests;
    let expected = &expected;
    let worker = || -> Result<(), String> {
        let mut backend = open(device(cuda).ok_or("no such device")?)?;
        (0..20).try_for_each(|_| run_rounds(requests, expected, &mut backend))
    };
    std::thread::scope(|threads| {
        let other = threads.spawn(worker);
        let mine = (0..20).try_for_each(|_| run_rounds(requests, expected, backend));
        mine.and(other.join().map_err(|_| "a worker panicked".to_owned())?)
    })
}
