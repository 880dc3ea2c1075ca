//! Static embeddings on the CPU, compared with their contract and with the oracle.

use std::{
    sync::{Arc, mpsc},
    time::Duration,
};

use proptest::prelude::*;

use super::{Embed, EmbedRequest, Table, oracle};
use crate::{Backend, Op, OpError, cpu};

const ROWS: u32 = 211;

fn backend() -> Backend {
    Backend::Cpu(cpu::Worker::new(cpu::Pool::start(2).expect("two threads")))
}

/// A table with rows of very different sizes, among them one of zeros.
fn table(dim: usize) -> Arc<Table> {
    let value = |i: usize| (i.wrapping_mul(2_654_435_761) >> 7).to_le_bytes()[0].cast_signed();
    let scale = |row: u32| if row == 3 { 0.0 } else { 0.013 * 1.09_f32.powi((row % 97).cast_signed() - 48) };
    Arc::new(Table::new(dim, (0..ROWS as usize * dim).map(value).collect(), (0..ROWS).map(scale).collect()))
}

/// Texts of the given lengths with ids that repeat and jump.
fn request(table: &Arc<Table>, lengths: &[usize], dimensions: usize, normalize: bool) -> EmbedRequest {
    let mut offsets = vec![0];
    let mut ids = vec![];
    for (text, &length) in (0..).zip(lengths) {
        ids.extend((0..).take(length).map(|i: u32| (i * i * 7 + i + 31 * text) % ROWS));
        offsets.push(u32::try_from(ids.len()).expect("few ids"));
    }
    EmbedRequest { table: Arc::clone(table), ids, offsets, dimensions, normalize }
}

fn run(requests: &[EmbedRequest]) -> Vec<Vec<f32>> {
    Embed::run(&requests.iter().collect::<Vec<_>>(), &mut backend()).expect("a fit batch")
}

fn bits(vectors: &[f32]) -> Vec<u32> {
    vectors.iter().map(|x| x.to_bits()).collect()
}

/// The contract in the plainest words, which also a GPU must repeat bit for bit.
fn mean_in_token_order(request: &EmbedRequest) -> Vec<f32> {
    let mut vectors = vec![];
    for text in request.offsets.windows(2) {
        let ids = &request.ids[text[0] as usize..text[1] as usize];
        for d in 0..request.dimensions {
            let mut sum = 0.0_f32;
            for &id in ids {
                let product = request.table.scales[id as usize]
                    * f32::from(request.table.values[id as usize * request.table.dim + d]);
                sum += product;
            }
            vectors.push(if ids.is_empty() { 0.0 } else { sum / ids.len() as f32 });
        }
    }
    vectors
}

#[test]
fn a_small_batch_does_not_wait_for_the_threads_of_the_pool() {
    let pool = cpu::Pool::start(1).expect("a thread");
    let (release, held) = mpsc::channel::<()>();
    pool.spawn(move || {
        let _released = held.recv();
    });
    let (done, embedded) = mpsc::channel();
    std::thread::spawn(move || {
        let mut backend = Backend::Cpu(cpu::Worker::new(pool));
        let request = request(&table(64), &[3], 64, false);
        done.send(Embed::run(&[&request], &mut backend).expect("a fit batch"))
    });
    let vectors = embedded.recv_timeout(Duration::from_secs(30)).expect("it runs while the pool's only thread is busy");
    assert_eq!(vectors[0].len(), 64);
    drop(release);
}

#[test]
fn means_have_the_bits_of_the_plain_loop() {
    for dim in [1, 15, 64, 100, 256, 384] {
        let table = table(dim);
        for dimensions in [1, dim / 2 + 1, dim] {
            let request = request(&table, &[1, 0, 2, 33, 500, 0, 1025], dimensions, false);
            let expected = mean_in_token_order(&request);
            assert_eq!(bits(&run(&[request])[0]), bits(&expected), "{dimensions} of {dim} dimensions");
        }
    }
}

#[test]
fn vectors_are_within_the_bound_of_the_oracle() {
    for dim in [1, 31, 128, 256] {
        for normalize in [false, true] {
            let request = request(&table(dim), &[1, 2, 31, 32, 33, 1025, 0, 20_000], dim, normalize);
            let expected = oracle::embed(&request);
            let got = &run(&[request])[0];
            assert_eq!(got.len(), expected.vectors.len());
            for (i, &got) in got.iter().enumerate() {
                let vector = expected.vectors[i];
                let bound = expected.bounds[i];
                assert!((f64::from(got) - vector).abs() <= bound, "number {i} is {got}, not {vector} +- {bound}");
            }
        }
    }
}

#[test]
fn normalised_vectors_have_unit_length() {
    let vectors = &run(&[request(&table(256), &[1, 7, 300], 128, true)])[0];
    for vector in vectors.chunks(128) {
        let length = vector.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
        assert!((length - 1.0).abs() < 1e-6, "length {length}");
    }
}

#[test]
fn a_text_without_tokens_and_one_of_zero_rows_are_zero_vectors() {
    let table = table(48);
    let zeros = EmbedRequest { table, ids: vec![3, 3], offsets: vec![0, 0, 2, 2], dimensions: 48, normalize: true };
    for normalize in [false, true] {
        assert_eq!(run(&[EmbedRequest { normalize, ..zeros.clone() }])[0], vec![0.0; 3 * 48]);
    }
}

#[test]
fn a_request_without_texts_has_no_vectors() {
    assert_eq!(run(&[request(&table(8), &[], 8, true)]), [vec![]]);
}

#[test]
fn truncated_means_are_the_beginnings_of_the_full_ones() {
    let table = table(256);
    let full = &run(&[request(&table, &[9, 40], 256, false)])[0];
    let half = &run(&[request(&table, &[9, 40], 64, false)])[0];
    assert_eq!(full.chunks(256).flat_map(|v| &v[..64]).copied().collect::<Vec<_>>(), *half);
}

#[test]
fn work_spread_over_threads_has_the_bits_of_one_text_at_a_time() {
    let table = table(256);
    let lengths: Vec<_> = (0..400).map(|i| i * i % 211).collect();
    let whole = request(&table, &lengths, 256, true);
    assert!(whole.ids.len() > 20_000, "enough to be spread");
    let single: Vec<_> = whole
        .offsets
        .windows(2)
        .map(|text| EmbedRequest {
            ids: whole.ids[text[0] as usize..text[1] as usize].to_vec(),
            offsets: vec![0, text[1] - text[0]],
            ..whole.clone()
        })
        .collect();
    let mut backend = backend();
    let alone = single.iter().flat_map(|r| Embed::run(&[r], &mut backend).expect("a fit batch").remove(0));
    assert_eq!(bits(&alone.collect::<Vec<_>>()), bits(&run(&[whole])[0]));
}

#[test]
fn requests_that_would_read_outside_the_table_are_refused() {
    let fit = request(&table(16), &[2, 2], 16, true);
    let thin = Arc::new(Table::new(16, vec![0; 16], vec![1.0; 2]));
    let unfit = [
        EmbedRequest { ids: vec![0, 1, 2, ROWS], ..fit.clone() },
        EmbedRequest { offsets: vec![0, 5, 4], ..fit.clone() },
        EmbedRequest { offsets: vec![0, 2, 3], ..fit.clone() },
        EmbedRequest { offsets: vec![1, 2, 4], ..fit.clone() },
        EmbedRequest { offsets: vec![], ..fit.clone() },
        EmbedRequest { dimensions: 0, ..fit.clone() },
        EmbedRequest { dimensions: 17, ..fit.clone() },
        EmbedRequest { table: thin, ..fit.clone() },
    ];
    for request in unfit {
        let result = Embed::run(&[&fit, &request], &mut backend());
        assert!(matches!(result, Err(OpError::Invalid(_))), "{request:?}");
    }
}

proptest! {
    #[test]
    fn a_batch_of_n_is_n_batches_of_one(
        lengths in prop::collection::vec(prop::collection::vec(0..90_usize, 0..20), 1..8),
        dimensions in 1..=80_usize,
        normalize in any::<bool>(),
    ) {
        let table = table(80);
        let requests: Vec<_> = lengths.iter().map(|l| request(&table, l, dimensions, normalize)).collect();
        let together = run(&requests);
        for (request, together) in requests.into_iter().zip(together) {
            prop_assert_eq!(bits(&run(&[request])[0]), bits(&together));
        }
    }
}
