//! The CPU's encoder against plain f64 loops, and its bits against any cut of the same work.

use super::super::{samples, *};
use crate::{
    Backend, Op,
    cpu::{self, gemm_bf16::AmxToken},
};

/// The precisions of encoders on this machine: f32, bfloat16 as this machine has it, and where a machine has no unit for it.
fn precisions() -> [(Precision, Option<AmxToken>); 3] {
    [(Precision::F32, None), (Precision::Bf16, AmxToken::detect()), (Precision::Bf16, None)]
}

fn run_on(amx: Option<AmxToken>, requests: &[EncodeRequest], threads: usize) -> Vec<Encoded> {
    let worker = cpu::Worker::new(cpu::Pool::start(threads).expect("threads"));
    super::run_with(&requests.iter().collect::<Vec<_>>(), &worker, amx).expect("a fit batch")
}

fn cosine(a: &[f32], b: &[f64]) -> f64 {
    let mut dot = 0.0;
    let mut of_a = 0.0;
    let mut of_b = 0.0;
    for (a, b) in a.iter().map(|a| f64::from(*a)).zip(b) {
        (dot, of_a, of_b) = (dot + a * b, of_a + a * a, of_b + b * b);
    }
    dot / (of_a * of_b).sqrt()
}

fn backend(threads: usize) -> Backend {
    Backend::Cpu(cpu::Worker::new(cpu::Pool::start(threads).expect("threads")))
}

fn run(requests: &[EncodeRequest], threads: usize) -> Vec<Encoded> {
    Encode::run(&requests.iter().collect::<Vec<_>>(), &mut backend(threads)).expect("a fit batch")
}

fn floats(encoded: &Encoded) -> Vec<f32> {
    bytemuck::pod_collect_to_vec(&encoded.bytes)
}

#[test]
fn every_architecture_is_close_to_its_oracle() {
    for (name, encoder) in samples::all().expect("fit samples") {
        let request = samples::request(&encoder, &[1, 2, 0, 13, 16, 17, 70, encoder.config().max_tokens]);
        let expected = oracle::vectors(&request).expect("a fit request").concat();
        let got = floats(&run(&[request], 2)[0]);
        assert_eq!(got.len(), expected.len());
        let worst = got.iter().zip(&expected).map(|(x, e)| (f64::from(*x) - e).abs()).fold(0.0, f64::max);
        assert!(worst < 2e-6, "{name}: {worst}");
    }
}

#[test]
fn bfloat16_is_close_to_the_oracle_and_f32_where_there_is_no_unit() {
    for (name, encoder) in samples::all().expect("fit samples") {
        let request = samples::request(&encoder, &[1, 2, 13, 16, 17, 70, encoder.config().max_tokens]);
        let single = run_on(AmxToken::detect(), std::slice::from_ref(&request), 2);
        let auto = EncodeRequest { precision: Precision::Auto, ..request.clone() };
        assert_eq!(run_on(AmxToken::detect(), &[auto], 2), single, "{name}: f32, unless it is asked for");
        let request = EncodeRequest { precision: Precision::Bf16, ..request };
        assert_eq!(run_on(None, std::slice::from_ref(&request), 2), single, "{name}");
        let expected = oracle::vectors(&request).expect("a fit request");
        let got = floats(&run_on(AmxToken::detect(), &[request], 2)[0]);
        for (got, expected) in got.chunks(encoder.config().hidden).zip(&expected) {
            let cosine = cosine(got, expected);
            assert!(cosine >= 0.9999, "{name}: {cosine}");
        }
    }
}

#[test]
fn numbers_that_overflow_stay_in_their_text() {
    for (precision, amx) in precisions() {
        let config = EncoderConfig { layers: 1, ..samples::bert() };
        let sound = samples::encoder(config.clone()).expect("a fit sample");
        let weights = sound.weights().map(&mut |tensor: &Tensor, role| {
            let mut numbers = tensor.to_f32();
            if role == Role::Table && tensor.shape()[0] == config.vocabulary {
                numbers[..3].copy_from_slice(&[f32::INFINITY, f32::NAN, 3e38]);
            }
            Tensor::from_f32(tensor.shape(), &numbers)
        });
        let encoder = Arc::new(Encoder::new(config.clone(), weights.expect("tensors")).expect("fit weights"));
        let sequences = [vec![5_u32; 20], vec![7, 0, 9], vec![5; 20]];
        let request = EncodeRequest {
            ids: sequences.concat(),
            offsets: vec![0, 20, 23, 43],
            precision,
            ..samples::request(&encoder, &[])
        };
        let got = floats(&run_on(amx, &[request], 1)[0]);
        let mut got = got.chunks(config.hidden);
        let first = got.next();
        let touched = got.next();
        let last = got.next();
        assert!(first == last && first.is_some_and(|text| text.iter().all(|x| x.is_finite())), "{precision:?}");
        assert!(touched.is_some_and(|text| text.iter().any(|x| x.is_nan())), "{precision:?}");
    }
}

#[test]
fn a_text_has_the_same_bits_alone_in_pairs_and_among_five_hundred() {
    for (precision, amx) in precisions() {
        same_bits(precision, amx);
    }
}

fn same_bits(precision: Precision, amx: Option<AmxToken>) {
    let run = |requests: &[EncodeRequest], threads| run_on(amx, requests, threads);
    for (name, encoder) in samples::all().expect("fit samples") {
        let lengths: Vec<_> =
            (0..500).map(|i| (i * i) % 41 % encoder.config().max_tokens + usize::from(i % 7 > 0)).collect();
        let whole = EncodeRequest { precision, ..samples::request(&encoder, &lengths) };
        let singles: Vec<_> = (0..500).map(|index| samples::sequence(&whole, index)).collect();
        let width = encoder.config().hidden * 4;
        let crowd = &run(&[whole], 2)[0].bytes;
        for index in [0, 3, 77, 204, 499] {
            let alone = run(&[singles[index].clone()], 3).remove(0).bytes;
            assert_eq!(alone, crowd[index * width..][..width], "{name}: text {index} alone");
            let pair = run(&[singles[(index + 9) % 500].clone(), singles[index].clone()], 1).remove(1).bytes;
            assert_eq!(alone, pair, "{name}: text {index} in a pair");
        }
    }
}

#[test]
fn a_short_text_has_the_same_bits_while_long_work_has_reserved_the_pool() {
    for (name, encoder) in samples::all().expect("fit samples") {
        let request = samples::request(&encoder, &[3, 9]);
        let expected = run(std::slice::from_ref(&request), 2);
        let pool = cpu::Pool::start(1).expect("a thread");
        let (release, held) = std::sync::mpsc::channel::<()>();
        pool.spawn(move || _ = held.recv());
        let reservation = pool.reserve();
        let mut worker = Backend::Cpu(cpu::Worker::new(Arc::clone(&pool)));
        let got = Encode::run(&[&request], &mut worker).expect("a fit batch");
        assert_eq!(got, expected, "{name}: computed while the pool's only thread is busy");
        drop(reservation);
        drop(release);
    }
}

#[test]
fn spans_token_vectors_and_kinds_of_pooling_are_those_of_the_oracle() {
    let (_, encoder) = samples::all().expect("fit samples").remove(0);
    for pooling in [Pooling::Cls, Pooling::Mean, Pooling::Max, Pooling::WeightedMean, Pooling::Last, Pooling::None] {
        for spans in [None, Some(vec![[0, 3], [3, 9], [5, 5], [2, 12]])] {
            for output in [OutputType::F32, OutputType::F16, OutputType::Bf16] {
                let request = samples::request(&encoder, &[7, 0, 5]);
                let request = EncodeRequest { pooling, spans: spans.clone(), output, dimensions: 5, ..request };
                let expected = oracle::encode(&request).expect("a fit request");
                let got = run(&[request], 2).remove(0);
                assert_eq!((got.rows, got.bytes.len()), (expected.rows, expected.bytes.len()));
                if output == OutputType::F32 {
                    let pairs = floats(&got).into_iter().zip(floats(&expected));
                    assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 2e-6), "{pooling:?} {spans:?}");
                }
            }
        }
    }
}

#[test]
fn requests_that_would_read_outside_an_encoder_are_refused() {
    let (_, encoder) = samples::all().expect("fit samples").remove(0);
    let fit = samples::request(&encoder, &[2, 2]);
    let config = encoder.config();
    let long = samples::request(&encoder, &[config.max_tokens]);
    let ids = [long.ids.clone(), vec![1]].concat();
    let unfit = [
        EncodeRequest { ids: vec![0, 1, 2, u32::try_from(config.vocabulary).expect("small")], ..fit.clone() },
        EncodeRequest { offsets: vec![0, 3, 2, 4], ..fit.clone() },
        EncodeRequest { offsets: vec![0, 2], ..fit.clone() },
        EncodeRequest { offsets: vec![], ..fit.clone() },
        EncodeRequest { token_type_ids: vec![0], ..fit.clone() },
        EncodeRequest { token_type_ids: vec![0, 0, 0, 9], ..fit.clone() },
        EncodeRequest { spans: Some(vec![[1, 5]]), ..fit.clone() },
        EncodeRequest { spans: Some(vec![[3, 1]]), ..fit.clone() },
        EncodeRequest { dimensions: 0, ..fit.clone() },
        EncodeRequest { dimensions: config.hidden + 1, ..fit.clone() },
        EncodeRequest { offsets: vec![0, u32::try_from(ids.len()).expect("small")], ids, ..fit.clone() },
    ];
    for request in unfit {
        let result = Encode::run(&[&fit, &request], &mut backend(1));
        assert!(matches!(result, Err(OpError::Invalid(_))), "{request:?}");
    }
}

#[test]
fn a_request_without_tokens_has_zeros() {
    let (_, encoder) = samples::all().expect("fit samples").remove(0);
    let request = samples::request(&encoder, &[0, 0]);
    assert_eq!(floats(&run(&[request], 2)[0]), vec![0.0; 2 * encoder.config().hidden]);
    assert_eq!(run(&[samples::request(&encoder, &[])], 2)[0].rows, 0);
}

#[test]
fn groups_hold_whole_texts_and_no_more_tokens_than_they_may() {
    assert_eq!(super::groups(&[0, 3, 5, 9, 30, 30, 31], 6), [0..2, 2..3, 3..4, 4..6]);
    assert_eq!(super::groups(&[0, 0, 0], 6), [] as [std::ops::Range<usize>; 0]);
    assert_eq!(super::groups(&[0], 6), [] as [std::ops::Range<usize>; 0]);
}
