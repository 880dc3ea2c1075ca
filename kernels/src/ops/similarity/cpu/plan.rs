//! The plan by which each request of a batch reads the rows that it selects: by a pass over all rows that requests share, by
//! gathering its rows, or by scoring them directly.

use std::borrow::Cow;

use super::{
    collectors,
    table::{Filter, QueryBatch, Table},
};
use crate::ops::similarity::request::{Selection, existing_rows, mask_words};

/// Up to this many scores cost less in f64 than a scan with its certificate.
const DIRECT_SCORES: usize = 512;
/// A request joins a pass over all rows only if it selects at least one row in this many.
const SHARED_PASS_RATIO: usize = 8;
/// Cost of reading a gathered row relative to a contiguous one: `GATHER_COST / CONTIGUOUS_COST`.
const GATHER_COST: usize = 5;
const CONTIGUOUS_COST: usize = 4;

/// The filter of each request.
pub(super) fn filters<'a>(table: &Table<'_>, batches: &[QueryBatch<'a>]) -> Vec<Filter<'a>> {
    let counts: Vec<_> = batches.iter().map(|batch| batch.selection.count(table.len)).collect();
    let selects_all = |batch: &QueryBatch<'_>| matches!(batch.selection, Selection::All);
    let gathered: usize = counts.iter().filter(|count| **count * SHARED_PASS_RATIO >= table.len).sum();
    // One pass over all rows serves every request that selects many of them, if some request needs the pass or
    // gathering would cost more.
    let shares = batches.iter().any(selects_all) || gathered * GATHER_COST > table.len * CONTIGUOUS_COST;
    batches.iter().zip(counts).map(|(batch, count)| filter(table.len, batch, count, shares)).collect()
}

fn filter<'a>(len: usize, batch: &QueryBatch<'a>, count: usize, shares: bool) -> Filter<'a> {
    let all_are_candidates = count <= collectors::candidate_count(batch.k);
    let is_direct = all_are_candidates || count.saturating_mul(batch.count) <= DIRECT_SCORES;
    match batch.selection {
        Selection::All if all_are_candidates => Filter::Rows((0..).take(len).collect()),
        Selection::All => Filter::All,
        Selection::Mask(bits) if shares && !is_direct && count * SHARED_PASS_RATIO >= len => Filter::Mask(bits),
        selection @ (Selection::Mask(_) | Selection::Rows(_)) => {
            let rows = rows(len, selection);
            if is_direct { Filter::Rows(rows) } else { Filter::Gathered(rows) }
        }
    }
}

/// The rows of a selection, ascending.
fn rows(len: usize, selection: &Selection) -> Cow<'_, [u32]> {
    match selection {
        Selection::All => (0..).take(len).collect(),
        Selection::Mask(bits) => {
            (0..).zip(mask_words(bits, len)).flat_map(|(index, &word)| set_bits(index, word)).collect()
        }
        Selection::Rows(rows) => Cow::Borrowed(existing_rows(rows, len)),
    }
}

fn set_bits(index: u32, mut word: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros())?;
        word &= word - 1;
        Some(index * 32 + bit)
    })
}
