//! How each request of a batch reads the rows that it selects: which of them share a pass over all rows, which gather theirs
//! from wherever they lie, and which score theirs at once.

use std::borrow::Cow;

use super::{
    Asked, Selection, keep,
    table::{Filter, Table},
};

/// Up to so many scores cost less in f64 than a scan, its proof and what that needs.
const DIRECT: usize = 512;
/// A request that selects a smaller share of the rows than one in so many never joins a pass over all rows.
const JOINS: usize = 8;
/// Gathered rows cost more to read than rows side by side: by so many parts of `WHOLE`.
const GATHER: usize = 5;
const WHOLE: usize = 4;

/// The filter of each request.
pub(super) fn filters<'a>(table: &Table<'_>, asked: &[Asked<'a>]) -> Vec<Filter<'a>> {
    let counts: Vec<_> = asked.iter().map(|asked| selected(table.len, asked.selection)).collect();
    let is_whole = |asked: &Asked<'_>| matches!(asked.selection, Selection::All);
    let gathered: usize = counts.iter().filter(|count| **count * JOINS >= table.len).sum();
    // One pass over all rows serves everybody who selects many of them, if somebody needs it or their rows are as many.
    let shares = asked.iter().any(is_whole) || gathered * GATHER > table.len * WHOLE;
    asked.iter().zip(counts).map(|(asked, count)| filter(table.len, asked, count, shares)).collect()
}

fn filter<'a>(len: usize, asked: &Asked<'a>, count: usize, shares: bool) -> Filter<'a> {
    let all_are_kept = count <= keep::kept(asked.k);
    let is_few = all_are_kept || count.saturating_mul(asked.count) <= DIRECT;
    match asked.selection {
        Selection::All if all_are_kept => Filter::Rows((0..).take(len).collect()),
        Selection::All => Filter::All,
        Selection::Mask(bits) if shares && !is_few && count * JOINS >= len => Filter::Mask(bits),
        selection @ (Selection::Mask(_) | Selection::Rows(_)) => {
            let rows = rows(len, selection);
            if is_few { Filter::Rows(rows) } else { Filter::Gathered(rows) }
        }
    }
}

/// How many rows a selection has, dead ones included.
fn selected(len: usize, selection: &Selection) -> usize {
    match selection {
        Selection::All => len,
        Selection::Mask(bits) => words(len, bits).iter().map(|word| word.count_ones() as usize).sum(),
        Selection::Rows(rows) => there(len, rows).len(),
    }
}

/// The rows of a selection, ascending.
fn rows(len: usize, selection: &Selection) -> Cow<'_, [u32]> {
    match selection {
        Selection::All => (0..).take(len).collect(),
        Selection::Mask(bits) => (0..).zip(words(len, bits)).flat_map(|(at, &word)| set_bits(at, word)).collect(),
        Selection::Rows(rows) => Cow::Borrowed(there(len, rows)),
    }
}

/// Those of a list that are there.
fn there(len: usize, rows: &[u32]) -> &[u32] {
    &rows[..rows.partition_point(|&row| (row as usize) < len)]
}

/// The words of a mask that have bits of rows.
fn words(len: usize, bits: &[u32]) -> &[u32] {
    &bits[..bits.len().min(len.div_ceil(32))]
}

fn set_bits(at: u32, mut word: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros())?;
        word &= word - 1;
        Some(at * 32 + bit)
    })
}
