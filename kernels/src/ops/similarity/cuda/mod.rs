//! Search on a GPU: a scan of quantised rows bounds every score; only rows whose upper bound reaches a threshold that k
//! rows provably reach are rescored in f64. The proof is in `cu/search/bounds.cuh`.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::request::{FindSimilarRequest, Hit, Hits, SearchRequest, Selection};
use crate::{OpError, cuda::Worker};

mod certificate;
mod kernels;
mod plan;
mod rows;
mod run;
mod trace;

pub(crate) use kernels::MODULES;

pub use trace::trace_stages;

use plan::{DeviceCaps, QuerySpec, ScanFormat, SearchPlan, SearchProblem, queries_at_once};
use rows::{DeviceCorpus, DeviceRows};
use run::{RowList, SearchContext, distinct_masks, run};

/// Up to this many pairs of query and selected row, the rows of a mask are scored without a scan.
const SPARSE_PAIRS: usize = 1 << 16;
/// Up to this many selected rows, likewise for any number of queries.
const SPARSE_ROWS: usize = 1 << 12;

static ALLOW_WGMMA: AtomicBool = AtomicBool::new(true);

/// Allows scans to use `wgmma`, the default, or restricts them to `mma.sync`; for benchmarks.
pub fn allow_wgmma(allowed: bool) {
    ALLOW_WGMMA.store(allowed, Relaxed);
}

/// Searches resident corpora.
pub(super) fn search(batch: &[&SearchRequest], worker: &mut Worker) -> Result<Vec<Hits>, OpError> {
    let Some(first) = batch.first() else { return Ok(vec![]) };
    let corpus_copy = DeviceCorpus::current(&first.corpus, worker)?;
    let context = SearchContext {
        worker,
        caps: device_caps(worker),
        rows: &corpus_copy.rows,
        len: corpus_copy.len,
        deleted: corpus_copy.deleted.as_deref(),
    };
    let answers = search_resident(batch, context);
    if answers.is_err() {
        // Kernels in flight may still read the device's copy.
        let _ = worker.synchronize();
    }
    answers
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
    let caps = device_caps(worker);
    // Quantising every row pays only if rows are read more than once.
    let format = if queries.rows() <= 8 || !caps.mma { ScanFormat::F32 } else { ScanFormat::Bf16 };
    let dim = corpus.cols();
    let problem = SearchProblem { rows: corpus.rows(), dim, queries: queries.rows(), k: *k, format };
    let scanned = problem.plan(&caps) != SearchPlan::BruteForce;
    let rows = DeviceRows::inline(&corpus.as_f32(), dim, *metric, format, scanned, worker)?;
    let context = SearchContext { worker, caps, rows: &rows, len: corpus.rows(), deleted: None };
    let data = queries.as_f32();
    let spec = |index| QuerySpec { queries: &data, at: index, k: *k, threshold: *threshold, mask: None };
    let specs: Vec<_> = (0..queries.rows()).map(spec).collect();
    scan(context, &specs).map(|lists| Hits { lists })
}

fn device_caps(worker: &Worker) -> DeviceCaps {
    let capability = worker.compute_capability();
    DeviceCaps {
        sm_count: worker.sm_count(),
        shared_bytes: worker.shared_bytes() as usize,
        mma: capability >= (8, 0),
        wgmma: capability == (9, 0) && ALLOW_WGMMA.load(Relaxed),
    }
}

/// A part of a request's queries, by the method of its search.
enum Part<'a> {
    /// By a scan, with a mask or of all rows.
    Scan(Option<&'a [u32]>),
    /// By scoring these rows.
    List(&'a [u32]),
}

fn search_resident(batch: &[&SearchRequest], context: SearchContext<'_>) -> Result<Vec<Hits>, OpError> {
    let mut answers: Vec<Hits> =
        batch.iter().map(|request| Hits { lists: vec![vec![]; request.queries.rows()] }).collect();
    if context.len == 0 || context.rows.dim == 0 {
        return Ok(answers);
    }
    let queries: Vec<_> = batch.iter().map(|request| request.queries.as_f32()).collect();
    let specs_of = |index: usize, mask| {
        let SearchRequest { k, threshold, .. } = *batch[index];
        let queries = &queries[index][..];
        (0..batch[index].queries.rows()).map(move |index| QuerySpec { queries, at: index, k, threshold, mask })
    };
    let sparse: Vec<_> = batch.iter().map(|request| sparse_rows(request, context.len)).collect();
    let mut scanned = vec![];
    let mut specs = vec![];
    for (index, request) in batch.iter().enumerate() {
        let part = match (&request.selection, &sparse[index]) {
            (Selection::Rows(list), _) => Part::List(list),
            (_, Some(list)) => Part::List(list),
            (Selection::Mask(mask), None) => Part::Scan(Some(mask)),
            (Selection::All, None) => Part::Scan(None),
        };
        match part {
            Part::List(list) => {
                answers[index].lists = score_listed(context, &specs_of(index, None).collect::<Vec<_>>(), list)?;
            }
            Part::Scan(mask) => {
                specs.extend(specs_of(index, mask));
                scanned.push(index);
            }
        }
    }
    let mut lists = scan(context, &specs)?.into_iter();
    for index in scanned {
        let count = answers[index].lists.len();
        answers[index].lists = lists.by_ref().take(count).collect();
    }
    Ok(answers)
}

/// The rows of a mask that selects too few for a scan to pay.
fn sparse_rows(request: &SearchRequest, len: usize) -> Option<Vec<u32>> {
    let Selection::Mask(mask) = &request.selection else { return None };
    let words = &mask[..mask.len().min(len.div_ceil(32))];
    let count: usize = words.iter().map(|word| word.count_ones() as usize).sum();
    let few = count <= SPARSE_ROWS || count.saturating_mul(request.queries.rows()) <= SPARSE_PAIRS;
    few.then(|| {
        let rows = words.iter().zip(0_u32..).flat_map(|(&word, index)| set_bits(word).map(move |bit| index * 32 + bit));
        rows.filter(|row| (*row as usize) < len).collect()
    })
}

/// The indices of the set bits of a word.
fn set_bits(mut word: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros())?;
        word &= word - 1;
        Some(bit)
    })
}

/// Scores listed rows by brute force.
fn score_listed(context: SearchContext<'_>, specs: &[QuerySpec<'_>], list: &[u32]) -> Result<Vec<Vec<Hit>>, OpError> {
    if list.is_empty() || specs.is_empty() {
        return Ok(vec![vec![]; specs.len()]);
    }
    let uploaded = context.worker.upload_new(list)?;
    let listed = RowList { list: Some(&uploaded), count: list.len() };
    let lists = in_groups(context, specs, SearchPlan::BruteForce, listed)?;
    Ok(lists.into_iter().map(Option::unwrap_or_default).collect())
}

/// Searches all rows; queries that a plan fails to certify fall back to the next plan.
fn scan(context: SearchContext<'_>, specs: &[QuerySpec<'_>]) -> Result<Vec<Vec<Hit>>, OpError> {
    let mut lists = vec![vec![]; specs.len()];
    let mut open: Vec<usize> = (0..specs.len()).collect();
    let mut plan = problem(context, specs).plan(&context.caps);
    let all = RowList { list: None, count: context.len };
    while !open.is_empty() {
        let these: Vec<_> = open.iter().map(|&index| specs[index]).collect();
        let found = in_groups(context, &these, plan, all)?;
        let mut left = vec![];
        for (index, list) in open.into_iter().zip(found) {
            match list {
                Some(list) => lists[index] = list,
                None => left.push(index),
            }
        }
        open = left;
        plan = plan.fallback();
    }
    Ok(lists)
}

fn problem(context: SearchContext<'_>, specs: &[QuerySpec<'_>]) -> SearchProblem {
    let k = specs.iter().map(|spec| spec.k).max().unwrap_or(1);
    SearchProblem { rows: context.len, dim: context.rows.dim, queries: specs.len(), k, format: context.rows.format }
}

/// Runs groups of as many queries as memory allows.
fn in_groups(
    context: SearchContext<'_>,
    specs: &[QuerySpec<'_>],
    plan: SearchPlan,
    listed: RowList<'_>,
) -> Result<Vec<Option<Vec<Hit>>>, OpError> {
    let memory = usize::try_from(context.worker.device().info().memory_bytes).unwrap_or(usize::MAX);
    let budget = (memory / 16).clamp(64 << 20, 1 << 30);
    let masks = distinct_masks(specs).len();
    let at_once = queries_at_once(&problem(context, specs), plan, masks, listed.count, budget);
    let mut lists = Vec::with_capacity(specs.len());
    for specs in specs.chunks(at_once) {
        lists.extend(run(context, specs, plan, listed)?);
        context.worker.preemption_point()?;
    }
    Ok(lists)
}
