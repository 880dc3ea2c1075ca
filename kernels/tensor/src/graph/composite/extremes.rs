//! Cumulative extremes with their indices.

use crate::{
    Attribute, Dtype, ScanKind, TensorType,
    dims::resolve_or_scalar,
    graph::ValueId,
    op::Op,
    signature::{DtypeRule, Results, ShapeRule},
};

use super::{
    Composite, composite,
    expansion::{Expansion, Result},
};

pub(super) const OPERATIONS: &[Composite] = &[
    composite("cummax", RESULTS, |g| cumulative(g, ScanKind::Max)),
    composite("cummin", RESULTS, |g| cumulative(g, ScanKind::Min)),
];

const RESULTS: Results = Results::two(ShapeRule::First, [DtypeRule::First, DtypeRule::Is(Dtype::I64)]);

/// The extreme value up to each element, and the index of the last element that equals it. From the first NaN on the values are NaN, and
/// the indices those of the last NaN.
fn cumulative(g: &mut Expansion<'_>, kind: ScanKind) -> Result<Vec<ValueId>> {
    g.expect_operands(1, 1)?;
    let x = g.operands()[0];
    let TensorType { dtype, shape } = g.type_of(x).clone();
    let dim = g.attributes.required("dim", g.attributes.int("dim")?, &[])?;
    let dim = resolve_or_scalar(&g.attributes, "dim", dim, shape.len())?;
    let accumulate = if dtype == Dtype::Bool { Dtype::U8 } else { dtype.compute() };
    let values = g.push(Op::Scan { dim, kind, accumulate }, &[x], TensorType { dtype, shape: shape.clone() })?;
    let mut is_extreme = g.op("eq", &[x, values], &[])?;
    if dtype.is_float() {
        let is_nan = g.op("isnan", &[x], &[])?;
        is_extreme = g.op("logical_or", &[is_extreme, is_nan], &[])?;
    }
    // The first element is one, so that 0 is not the index of another one.
    let positions = positions(g, &shape, dim)?;
    let candidates = g.op("where", &[is_extreme, positions], &[("other", Attribute::Int(0))])?;
    let scan = Op::Scan { dim, kind: ScanKind::Max, accumulate: Dtype::I64 };
    let indices = g.push(scan, &[candidates], TensorType { dtype: Dtype::I64, shape })?;
    Ok(vec![values, indices])
}

/// The index along `dim` of each element, in a shape that broadcasts.
fn positions(g: &mut Expansion<'_>, shape: &[usize], dim: usize) -> Result<ValueId> {
    let extent = shape.get(dim).copied().unwrap_or(1);
    let end = Attribute::Int(i64::try_from(extent).unwrap_or(i64::MAX));
    let counted = g.op("arange", &[], &[("end", end)])?;
    let after = shape.len().saturating_sub(dim + 1);
    let along: Vec<_> = if shape.is_empty() { vec![] } else { [vec![extent], vec![1; after]].concat() };
    g.reshape(counted, &along)
}
