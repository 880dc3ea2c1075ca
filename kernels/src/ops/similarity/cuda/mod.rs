//! Search on a GPU: a scan in few bits gives bounds of every score; only rows whose upper bound reaches what k rows are
//! proven to have are scored exactly. `similarity.cuh` has the proof.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::{FindSimilarRequest, Hit, Hits, SearchRequest, Selection};
use crate::{OpError, cuda::Worker};

mod answer;
pub(crate) mod kernels;
mod plan;
mod rows;
mod run;
mod trace;

pub use trace::trace_stages;

use plan::{Format, Machine, Problem, Way, queries_at_once};
use rows::{Resident, Rows};
use run::{Ask, Listed, Place, distinct_masks, run};

/// Pairs of query and row up to which the rows of a mask are scored without a scan.
const SPARSE_PAIRS: usize = 1 << 16;
/// Rows of a mask up to which that is so for any number of queries.
const SPARSE_ROWS: usize = 1 << 12;

static WARPGROUPS: AtomicBool = AtomicBool::new(true);

/// Whether scans may use Hopper's warpgroup products, which is so from the start; without, they use `mma.sync`. For
/// measurements.
pub fn allow_warpgroups(allowed: bool) {
    WARPGROUPS.store(allowed, Relaxed);
}

/// Searches resident corpora.
pub(super) fn search(batch: &[&SearchRequest], worker: &mut Worker) -> Result<Vec<Hits>, OpError> {
    let Some(first) = batch.first() else { return Ok(vec![]) };
    let resident = Resident::current(&first.corpus, worker)?;
    let place = Place {
        worker,
        machine: machine(worker),
        rows: &resident.rows,
        len: resident.len,
        dead: resident.dead.as_deref(),
    };
    let found = search_resident(batch, place);
    if found.is_err() {
        // What was launched may still read the copy.
        let _ = worker.synchronize();
    }
    found
}

/// Searches inline corpora.
pub(super) fn find_similar(batch: &[&FindSimilarRequest], worker: &mut Worker) -> Result<Vec<Hits>, OpError> {
    batch.iter().map(|request| find_one(request, worker)).collect()
}

fn find_one(request: &FindSimilarRequest, worker: &Worker) -> Result<Hits, OpError> {
    let FindSimilarRequest { queries, corpus, metric, k, threshold } = request;
    if corpus.rows() == 0 || queries.rows() == 0 || corpus.cols() == 0 {
        return Ok(Hits { lists: vec![vec![]; queries.rows()] });
    }
    let machine = machine(worker);
    // A copy of every row pays only where it is read more than once.
    let format = if queries.rows() <= 8 || !machine.tensor { Format::F32 } else { Format::Bf16 };
    let dim = corpus.cols();
    let problem = Problem { rows: corpus.rows(), dim, queries: queries.rows(), k: *k, format };
    let scanned = problem.way(&machine) != Way::Direct;
    let rows = Rows::inline(&corpus.as_f32(), dim, *metric, format, scanned, worker)?;
    let place = Place { worker, machine, rows: &rows, len: corpus.rows(), dead: None };
    let data = queries.as_f32();
    let ask = |at| Ask { queries: &data, at, k: *k, threshold: *threshold, mask: None };
    let asks: Vec<_> = (0..queries.rows()).map(ask).collect();
    scan(place, &asks).map(|lists| Hits { lists })
}

fn machine(worker: &Worker) -> Machine {
    let capability = worker.compute_capability();
    Machine {
        units: worker.units(),
        shared_bytes: worker.shared_bytes() as usize,
        tensor: capability >= (8, 0),
        groups: capability == (9, 0) && WARPGROUPS.load(Relaxed),
    }
}

/// Queries of a batch that are searched together.
enum Part<'a> {
    /// By scanning.
    Scan(Option<&'a [u32]>),
    /// By scoring these rows.
    List(&'a [u32]),
}

fn search_resident(batch: &[&SearchRequest], place: Place<'_>) -> Result<Vec<Hits>, OpError> {
    let mut answers: Vec<Hits> =
        batch.iter().map(|request| Hits { lists: vec![vec![]; request.queries.rows()] }).collect();
    if place.len == 0 || place.rows.dim == 0 {
        return Ok(answers);
    }
    let queries: Vec<_> = batch.iter().map(|request| request.queries.as_f32()).collect();
    let asks_of = |at: usize, mask| {
        let SearchRequest { k, threshold, .. } = *batch[at];
        let queries = &queries[at][..];
        (0..batch[at].queries.rows()).map(move |at| Ask { queries, at, k, threshold, mask })
    };
    let sparse: Vec<_> = batch.iter().map(|request| sparse_rows(request, place.len)).collect();
    let (mut scanned, mut asks) = (vec![], vec![]);
    for (at, request) in batch.iter().enumerate() {
        let part = match (&request.selection, &sparse[at]) {
            (Selection::Rows(list), _) => Part::List(list),
            (_, Some(list)) => Part::List(list),
            (Selection::Mask(mask), None) => Part::Scan(Some(mask)),
            (Selection::All, None) => Part::Scan(None),
        };
        match part {
            Part::List(list) => answers[at].lists = score_listed(place, &asks_of(at, None).collect::<Vec<_>>(), list)?,
            Part::Scan(mask) => {
                asks.extend(asks_of(at, mask));
                scanned.push(at);
            }
        }
    }
    let mut lists = scan(place, &asks)?.into_iter();
    for at in scanned {
        let count = answers[at].lists.len();
        answers[at].lists = lists.by_ref().take(count).collect();
    }
    Ok(answers)
}

/// The rows of a mask that lets so few count that a scan is not worth it.
fn sparse_rows(request: &SearchRequest, len: usize) -> Option<Vec<u32>> {
    let Selection::Mask(mask) = &request.selection else { return None };
    let words = &mask[..mask.len().min(len.div_ceil(32))];
    let count: usize = words.iter().map(|word| word.count_ones() as usize).sum();
    let few = count <= SPARSE_ROWS || count.saturating_mul(request.queries.rows()) <= SPARSE_PAIRS;
    few.then(|| {
        let rows = words.iter().zip(0_u32..).flat_map(|(&word, at)| set_bits(word).map(move |bit| at * 32 + bit));
        rows.filter(|row| (*row as usize) < len).collect()
    })
}

/// The places of the bits of a word that are set.
fn set_bits(mut word: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros())?;
        word &= word - 1;
        Some(bit)
    })
}

/// Scores the rows of a list exactly.
fn score_listed(place: Place<'_>, asks: &[Ask<'_>], list: &[u32]) -> Result<Vec<Vec<Hit>>, OpError> {
    if list.is_empty() || asks.is_empty() {
        return Ok(vec![vec![]; asks.len()]);
    }
    let uploaded = place.worker.upload_new(list)?;
    let listed = Listed { list: Some(&uploaded), count: list.len() };
    let found = in_groups(place, asks, Way::Direct, listed)?;
    Ok(found.into_iter().map(Option::unwrap_or_default).collect())
}

/// Searches all rows; what one way leaves open, the next one answers.
fn scan(place: Place<'_>, asks: &[Ask<'_>]) -> Result<Vec<Vec<Hit>>, OpError> {
    let mut lists = vec![vec![]; asks.len()];
    let mut open: Vec<usize> = (0..asks.len()).collect();
    let mut way = problem(place, asks).way(&place.machine);
    let all = Listed { list: None, count: place.len };
    while !open.is_empty() {
        let these: Vec<_> = open.iter().map(|&at| asks[at]).collect();
        let found = in_groups(place, &these, way, all)?;
        let mut left = vec![];
        for (at, list) in open.into_iter().zip(found) {
            match list {
                Some(list) => lists[at] = list,
                None => left.push(at),
            }
        }
        open = left;
        way = way.after();
    }
    Ok(lists)
}

fn problem(place: Place<'_>, asks: &[Ask<'_>]) -> Problem {
    let k = asks.iter().map(|ask| ask.k).max().unwrap_or(1);
    Problem { rows: place.len, dim: place.rows.dim, queries: asks.len(), k, format: place.rows.format }
}

/// Runs as many queries at once as memory allows.
fn in_groups(
    place: Place<'_>,
    asks: &[Ask<'_>],
    way: Way,
    listed: Listed<'_>,
) -> Result<Vec<Option<Vec<Hit>>>, OpError> {
    let memory = usize::try_from(place.worker.device().info().memory_bytes).unwrap_or(usize::MAX);
    let budget = (memory / 16).clamp(64 << 20, 1 << 30);
    let masks = distinct_masks(asks).len();
    let at_once = queries_at_once(&problem(place, asks), way, masks, listed.count, budget);
    let mut found = Vec::with_capacity(asks.len());
    for asks in asks.chunks(at_once) {
        found.extend(run(place, asks, way, listed)?);
    }
    Ok(found)
}
