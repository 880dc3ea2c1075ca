//! Static embeddings against the f64 oracle.

use std::sync::Arc;

use accelerd_kernels::ops::embed::{Embed, EmbedRequest, Table, oracle};
use accelerd_parity::{random, run_batch};
use rand::Rng;

use super::Case;

const VOCABULARY: u32 = 1000;

/// The lengths of the sequences of each request.
const LENGTHS: [&[usize]; 6] = [&[1], &[0, 1, 31], &[32, 33, 0, 0, 1025], &[7; 33], &[256; 5], &[4000]];

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![Case::new("embed::batch_of_n_equals_n_batches_of_one", batch_invariance)];
    for dim in [1, 31, 64, 256, 257] {
        for normalize in [false, true] {
            cases.push(Case::new(format!("embed::dim_{dim}_normalize_{normalize}"), move |backend| {
                let requests = requests(&table(dim), dim, normalize, 5);
                let answers = run_batch::<Embed>(&requests, backend).map_err(|e| e.to_string())?;
                requests.iter().zip(&answers).try_for_each(|(request, answer)| compare(request, answer))
            }));
        }
    }
    cases
}

fn table(dim: usize) -> Arc<Table> {
    let mut random = random(dim as u64);
    let rows = VOCABULARY as usize;
    Arc::new(Table {
        id: 1000 + dim as u64,
        dim,
        values: (0..rows * dim).map(|_| random.random_range(-127..=127)).collect(),
        scales: (0..rows).map(|row| if row % 97 == 0 { 3.0 } else { random.random_range(0.001..0.02) }).collect(),
    })
}

fn requests(table: &Arc<Table>, dimensions: usize, normalize: bool, seed: u64) -> Vec<EmbedRequest> {
    let mut random = random(seed);
    let request = |lengths: &&[usize]| {
        let mut offsets = vec![0];
        let mut ids = vec![];
        for length in *lengths {
            ids.extend((0..*length).map(|_| random.random_range(0..VOCABULARY)));
            offsets.push(u32::try_from(ids.len()).expect("test texts are short"));
        }
        EmbedRequest { table: Arc::clone(table), ids, offsets, dimensions, normalize }
    };
    LENGTHS.iter().map(request).collect()
}

fn compare(request: &EmbedRequest, answer: &[f32]) -> Result<(), String> {
    let expected = oracle::embed(request);
    if expected.vectors.len() != answer.len() {
        return Err(format!("{} numbers expected, got {}", expected.vectors.len(), answer.len()));
    }
    for (index, ((want, bound), got)) in expected.vectors.iter().zip(&expected.bounds).zip(answer).enumerate() {
        let error = (want - f64::from(*got)).abs();
        if error > *bound || error.is_nan() {
            let text = index / request.dimensions;
            let column = index % request.dimensions;
            return Err(format!("text {text}, column {column}: expected {want}, got {got}, bound {bound}"));
        }
    }
    Ok(())
}

fn batch_invariance(backend: &mut accelerd_kernels::Backend) -> Result<(), String> {
    let requests = requests(&table(256), 128, true, 9);
    let together = run_batch::<Embed>(&requests, backend).map_err(|e| e.to_string())?;
    for (index, (request, answer)) in requests.into_iter().zip(together).enumerate() {
        let alone = run_batch::<Embed>(&[request], backend).map_err(|e| e.to_string())?;
        if alone[0].iter().map(|x| x.to_bits()).ne(answer.iter().map(|x| x.to_bits())) {
            return Err(format!("request {index} depends on its neighbours"));
        }
    }
    Ok(())
}
