//! Values in sorted order together with their indices: a sort of the indices, by which the values are then gathered.

use crate::{
    Attribute, Dtype, TensorType,
    graph::ValueId,
    op::Op,
    scans::sorted_dim,
    signature::{Condition, DtypeRule, Results, ShapeRule},
};

use super::{
    Composite, composite,
    expansion::{Expansion, Result},
};

pub(super) const OPERATIONS: &[Composite] = &[
    composite("sort", ORDERED, sort),
    composite("msort", Results::one(ShapeRule::First, DtypeRule::First), msort),
    composite("topk", Results::two(ShapeRule::TopK, [DtypeRule::First, DtypeRule::Is(Dtype::I64)]), topk),
    composite("kthvalue", Results::untyped(2), kthvalue),
    composite("median", Results::untyped(1).or(2, &[Condition::Set("dim")]), median),
    Composite { unless: Some("dim"), ..composite("take_along_dim", Results::untyped(1), take_flat) },
];

const ORDERED: Results = Results::two(ShapeRule::First, [DtypeRule::First, DtypeRule::Is(Dtype::I64)]);

fn only(g: &Expansion<'_>) -> Result<ValueId> {
    match g.operands() {
        [x] => Ok(*x),
        operands => Err(g.error("inputs", "1", operands.len())),
    }
}

/// Values and indices in order along `dim`.
fn sort(g: &mut Expansion<'_>) -> Result<Vec<ValueId>> {
    let x = only(g)?;
    let (dim, extent) = sorted_dim(&g.attributes, g.type_of(x))?;
    let is_descending = g.attributes.bool("descending")?.unwrap_or(false);
    g.attributes.bool("stable")?;
    values_and_indices(g, x, dim, is_descending, extent)
}

/// Values in ascending order along the first dimension.
fn msort(g: &mut Expansion<'_>) -> Result<Vec<ValueId>> {
    let x = only(g)?;
    let extent = g.shape(x).first().copied().unwrap_or(1);
    values_and_indices(g, x, 0, false, extent).map(|mut results| results.drain(..1).collect())
}

/// The `k` greatest or least values and their indices, in order.
fn topk(g: &mut Expansion<'_>) -> Result<Vec<ValueId>> {
    let x = only(g)?;
    let (dim, extent) = sorted_dim(&g.attributes, g.type_of(x))?;
    let least = i64::from(g.shape(x).is_empty());
    let count = count(g, least, extent, &["largest", "sorted"])?;
    let is_largest = g.attributes.bool("largest")?.unwrap_or(true);
    g.attributes.bool("sorted")?;
    values_and_indices(g, x, dim, is_largest, count)
}

/// The `k`-th least value, counted from 1, and its index.
fn kthvalue(g: &mut Expansion<'_>) -> Result<Vec<ValueId>> {
    let x = only(g)?;
    let (dim, extent) = sorted_dim(&g.attributes, g.type_of(x))?;
    let count = count(g, 1, extent, &["keepdim"])?;
    nth_of_sorted(g, x, dim, count)
}

/// The lower of the middle values, with its index if `dim` is set. NaN if any value is.
fn median(g: &mut Expansion<'_>) -> Result<Vec<ValueId>> {
    let x = only(g)?;
    if g.attributes.get("dim").is_none() {
        let flat = g.op("flatten", &[x], &[])?;
        let count = g.shape(flat)[0];
        let mut results = median_along(g, flat, 0, count)?;
        results.truncate(1);
        return Ok(results);
    }
    let (dim, extent) = sorted_dim(&g.attributes, g.type_of(x))?;
    median_along(g, x, dim, extent)
}

/// The value is the greatest in place of the middle one where that is NaN.
fn median_along(g: &mut Expansion<'_>, x: ValueId, dim: usize, extent: usize) -> Result<Vec<ValueId>> {
    if extent == 0 {
        return Err(g.error("inputs[0]", "at least one element to reduce", "none"));
    }
    if !g.dtype(x).is_float() {
        return nth_of_sorted(g, x, dim, extent.div_ceil(2));
    }
    // NaN comes last in ascending order, and first in descending order: its first index is found there.
    let middle = nth_of_sorted(g, x, dim, extent.div_ceil(2))?;
    let greatest = values_and_indices(g, x, dim, true, 1)?;
    let greatest = kept(g, greatest, dim, g.shape(x).is_empty())?;
    let is_nan = g.op("isnan", &greatest[..1], &[])?;
    let choose = |g: &mut Expansion<'_>, nth: usize| g.op("where", &[is_nan, greatest[nth], middle[nth]], &[]);
    Ok(vec![choose(g, 0)?, choose(g, 1)?])
}

/// The last of the first `count` values in ascending order, and its index.
fn nth_of_sorted(g: &mut Expansion<'_>, x: ValueId, dim: usize, count: usize) -> Result<Vec<ValueId>> {
    let is_scalar = g.shape(x).is_empty();
    let indices = argsort(g, x, dim, false, count)?;
    let last = if is_scalar {
        indices
    } else {
        g.op("slice", &[indices], &[("dim", int(dim)), ("start", int(count - 1)), ("end", int(count))])?
    };
    let value = g.op("gather", &[x, last], &[("dim", int(dim))])?;
    kept(g, vec![value, last], dim, is_scalar)
}

/// Results with extent 1 along `dim`, which disappears unless `keepdim` is set.
fn kept(g: &mut Expansion<'_>, results: Vec<ValueId>, dim: usize, is_scalar: bool) -> Result<Vec<ValueId>> {
    let keepdim = g.attributes.bool("keepdim")?.unwrap_or(false);
    if is_scalar || keepdim {
        return Ok(results);
    }
    results.into_iter().map(|value| g.op("squeeze", &[value], &[("dim", int(dim))])).collect()
}

fn values_and_indices(
    g: &mut Expansion<'_>,
    x: ValueId,
    dim: usize,
    is_descending: bool,
    count: usize,
) -> Result<Vec<ValueId>> {
    let indices = argsort(g, x, dim, is_descending, count)?;
    let values = g.op("gather", &[x, indices], &[("dim", int(dim))])?;
    Ok(vec![values, indices])
}

/// The indices of the first `count` elements in order.
fn argsort(g: &mut Expansion<'_>, x: ValueId, dim: usize, is_descending: bool, count: usize) -> Result<ValueId> {
    let mut shape = g.shape(x).to_vec();
    if let Some(extent) = shape.get_mut(dim) {
        *extent = count;
    }
    g.push(Op::ArgSort { dim, is_descending }, &[x], TensorType { dtype: Dtype::I64, shape })
}

/// The attribute `k`. `later` are those that the operation asks for after it.
fn count(g: &Expansion<'_>, least: i64, extent: usize, later: &'static [&'static str]) -> Result<usize> {
    let k = g.attributes.required("k", g.attributes.int("k")?, later)?;
    let count = usize::try_from(k).ok().filter(|count| k >= least && *count <= extent);
    count.ok_or_else(|| g.error("attributes.k", format!("{least} to {extent}"), k))
}

/// `take_along_dim` of the elements of both operands in row-major order.
fn take_flat(g: &mut Expansion<'_>) -> Result<Vec<ValueId>> {
    let &[x, index] = g.operands() else { return Err(g.error("inputs", "2", g.operands().len())) };
    let flat = [g.op("flatten", &[x], &[])?, g.op("flatten", &[index], &[])?];
    g.op("take_along_dim", &flat, &[("dim", int(0))]).map(|taken| vec![taken])
}

#[expect(clippy::cast_possible_wrap, reason = "dimensions and extents of tensors are below 2^46")]
fn int(value: usize) -> Attribute {
    Attribute::Int(value as i64)
}
