//! Vectors of unit length, and the cosine of two vectors.

use accelerd_ir::scalar::BinaryOp;

use crate::{
    Attribute, Dtype, TensorType,
    graph::ValueId,
    signature::{DtypeRule, Results, ShapeRule},
};

use super::{
    Composite, composite,
    expansion::{Expansion, Result, extents, named},
};

pub(super) const OPERATIONS: &[Composite] = &[
    composite("normalize", Results::one(ShapeRule::First, DtypeRule::First), normalize),
    composite("cosine_similarity", Results::untyped(1), cosine_similarity),
];

/// Elements divided by the `p`-norm over `dim`, or by `eps` if that is greater.
fn normalize(g: &mut Expansion<'_>) -> Result<Vec<ValueId>> {
    g.expect_operands(1, 1)?;
    let dtype = g.float(0)?;
    let p = g.attributes.float("p")?.unwrap_or(2.0);
    let dim = g.attributes.ints("dim")?.map_or(Attribute::Int(1), Attribute::Ints);
    let eps = g.attributes.float("eps")?.unwrap_or(1e-12);
    let x = g.operands()[0];
    let norm = norm(g, x, p, &[("dim", dim), ("keepdim", Attribute::Bool(true))], dtype.compute())?;
    Ok(vec![g.map([x, norm], dtype, |[x, norm]| x / norm.max(eps))?])
}

/// The `p`-norm of a value: of infinite `p` the extreme magnitude, of 0 the number of elements other than 0.
#[expect(clippy::float_cmp, reason = "exactly these exponents have a simpler function")]
fn norm(g: &mut Expansion<'_>, x: ValueId, p: f64, over: &[(&str, Attribute)], dtype: Dtype) -> Result<ValueId> {
    if p == 2.0 {
        return g.op("norm", &[x], &[over, &[("dtype", named(dtype))]].concat());
    }
    if p.is_infinite() || p == 1.0 {
        let magnitudes = g.map([x], dtype, |[x]| x.abs())?;
        let reduction = if p == 1.0 { "sum" } else { ["amin", "amax"][usize::from(p > 0.0)] };
        return g.op(reduction, &[magnitudes], over);
    }
    if p == 0.0 {
        let others = g.map([x], dtype, |[x]| x.ne(0.0).cast(dtype))?;
        return g.op("sum", &[others], over);
    }
    let powers = g.map([x], dtype, |[x]| x.abs().with(BinaryOp::Pow, p))?;
    let sum = g.op("sum", &[powers], over)?;
    g.map([sum], dtype, |[sum]| sum.with(BinaryOp::Pow, 1.0 / p))
}

/// The product of two vectors divided by their lengths, which are at least `eps`.
fn cosine_similarity(g: &mut Expansion<'_>) -> Result<Vec<ValueId>> {
    g.expect_operands(2, 2)?;
    let dtype = g.common_float(2)?;
    let compute = dtype.compute();
    let dim = ("dim", Attribute::Int(g.attributes.int("dim")?.unwrap_or(1)));
    let eps = g.attributes.float("eps")?.unwrap_or(1e-8);
    let products = g.map([g.operands()[0], g.operands()[1]], compute, |[a, b]| a * b)?;
    let TensorType { shape, .. } = g.type_of(products).clone();
    let mut lengths = [g.operands()[0], g.operands()[1]];
    for length in &mut lengths {
        let vectors = g.op("expand", &[*length], &[("shape", extents(&shape))])?;
        *length = g.op("norm", &[vectors], &[dim.clone(), ("dtype", named(compute))])?;
    }
    let product = g.op("sum", &[products], &[dim])?;
    let [a, b] = lengths;
    Ok(vec![g.map([product, a, b], dtype, |[product, a, b]| product / a.max(eps) / b.max(eps))?])
}
