//! Vectors of unit length, and the cosine of two vectors.

use accelerd_ir::scalar::BinaryOp;

use crate::{
    Attribute, Dtype, TensorType,
    elementwise::Expr,
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
    let norm = norm(g, x, p, &[("dim", dim), ("keepdim", Attribute::Bool(true))])?;
    if dtype == Dtype::F64 {
        return Ok(vec![g.map([x, norm], dtype, |[x, norm]| x / norm.max(eps))?]);
    }
    // The norm may be out of the range of the type. A product in f64 costs less than a quotient in f32, and is rounded once.
    let factor = g.map_reduced(norm, Dtype::F64, |norm| norm.max(eps).reciprocal())?;
    let scaled = g.map([x, factor], Dtype::F64, |[x, factor]| x * factor)?;
    let scaled = g.cast(scaled, dtype.compute())?;
    Ok(vec![g.cast(scaled, dtype)?])
}

/// The `p`-norm of a value, in f64: of infinite `p` the extreme magnitude, of 0 the number of elements other than 0.
#[expect(clippy::float_cmp, reason = "exactly these exponents have a simpler function")]
fn norm(g: &mut Expansion<'_>, x: ValueId, p: f64, over: &[(&str, Attribute)]) -> Result<ValueId> {
    let in_f64 = [over, &[("dtype", named(Dtype::F64))]].concat();
    let compute = g.dtype(x).compute();
    if p == 2.0 {
        return g.op("norm", &[x], &in_f64);
    }
    if p == 0.0 {
        let others = g.map([x], compute, |[x]| x.ne(0.0).cast(compute))?;
        return g.op("sum", &[others], &in_f64);
    }
    let magnitudes = g.map([x], compute, |[x]| x.abs())?;
    if p == 1.0 {
        return g.op("sum", &[magnitudes], &in_f64);
    }
    let extreme = g.op(["amin", "amax"][usize::from(p > 0.0)], &[magnitudes], over)?;
    if p.is_infinite() {
        return g.cast(extreme, Dtype::F64);
    }
    // Powers of quotients up to 1 do not overflow.
    let powers = g.map([x, extreme], compute, |[x, extreme]| (x.abs() / unit(extreme)).with(BinaryOp::Pow, p))?;
    let sum = g.op("sum", &[powers], &in_f64)?;
    g.map([sum, extreme], Dtype::F64, |[sum, extreme]| sum.with(BinaryOp::Pow, 1.0 / p) * unit(extreme))
}

/// The product of two vectors divided by their lengths, which are at least `eps`. Products and lengths are computed in f64, which holds
/// those of all numbers of smaller types.
fn cosine_similarity(g: &mut Expansion<'_>) -> Result<Vec<ValueId>> {
    g.expect_operands(2, 2)?;
    let dtype = g.common_float(2)?;
    let dim = ("dim", Attribute::Int(g.attributes.int("dim")?.unwrap_or(1)));
    let in_f64 = [dim, ("dtype", named(Dtype::F64))];
    let eps = g.attributes.float("eps")?.unwrap_or(1e-8);
    let products = g.map([g.operands()[0], g.operands()[1]], Dtype::F64, |[a, b]| a * b)?;
    let TensorType { shape, .. } = g.type_of(products).clone();
    let mut lengths = [g.operands()[0], g.operands()[1]];
    for length in &mut lengths {
        let vectors = g.op("expand", &[*length], &[("shape", extents(&shape))])?;
        *length = g.op("norm", &[vectors], &in_f64)?;
    }
    let product = g.op("sum", &[products], &in_f64)?;
    let [a, b] = lengths;
    let cosine = g.map([product, a, b], Dtype::F64, |[product, a, b]| product / a.max(eps) / b.max(eps))?;
    Ok(vec![g.cast(cosine, dtype)?])
}

/// A magnitude as a unit of others: 1 in place of 0, infinity and NaN.
fn unit(magnitude: Expr<'_>) -> Expr<'_> {
    let is_unit = magnitude.gt(0.0) & magnitude.lt(f64::INFINITY);
    is_unit.select(magnitude, magnitude.number(1.0))
}
