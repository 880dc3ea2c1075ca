//! Random numbers, each a function of its position, a seed and an offset.
//!
//! Seed and offset are scalar operands or attributes. An attribute is a constant of the kernel: another value means another kernel.

use std::f64::consts::TAU;

use accelerd_ir::scalar::{BinaryOp, Literal, UnaryOp};

use crate::{
    Dtype,
    elementwise::{Expr, Scope},
    generators,
    graph::ValueId,
    row_ops::fraction_bits,
    signature::{DtypeRule, Results, ShapeRule},
};

use super::{
    Composite, composite,
    expansion::{Expansion, Result},
    philox::Stream,
};

pub(super) const OPERATIONS: &[Composite] = &[
    composite("rand", FLOATS, |g| floats(g, uniform)),
    composite("randn", FLOATS, |g| floats(g, normal)),
    composite("randint", Results::one(ShapeRule::Given, DtypeRule::GivenOr(Dtype::I64)), randint),
    composite("bernoulli", OF_FIRST, bernoulli),
    composite("dropout", OF_FIRST, dropout),
];

const FLOATS: Results = Results::one(ShapeRule::Given, DtypeRule::GivenOr(Dtype::F32));
const OF_FIRST: Results = Results::one(ShapeRule::First, DtypeRule::First);

/// Floating-point numbers of the attributes `shape` and `dtype`.
fn floats(g: &mut Expansion<'_>, number: impl for<'s> FnOnce(&Stream<'s>, Dtype) -> Expr<'s>) -> Result<Vec<ValueId>> {
    let shape = generators::shape(&g.attributes, &["dtype", "seed", "offset"])?;
    let dtype = g.attributes.dtype("dtype")?.unwrap_or(Dtype::F32);
    if !dtype.is_float() {
        return Err(g.attributes.error("dtype", "a floating-point type", dtype));
    }
    let state = state(g, 0, &shape)?;
    Ok(vec![g.map_over(shape, state, dtype, |scope, state| number(&stream(scope, state), dtype))?])
}

/// Integers from `low` to `high`, which is excluded: the upper part of the product of random bits and the number of integers.
fn randint(g: &mut Expansion<'_>) -> Result<Vec<ValueId>> {
    let shape = generators::shape(&g.attributes, &["low", "high", "dtype", "seed", "offset"])?;
    let low = g.attributes.int("low")?.unwrap_or(0);
    let high = g.attributes.required("high", g.attributes.int("high")?, &["dtype", "seed", "offset"])?;
    let dtype = g.attributes.dtype("dtype")?.unwrap_or(Dtype::I64);
    let count = u64::try_from(i128::from(high) - i128::from(low)).unwrap_or(0);
    if count == 0 {
        return Err(g.attributes.error("high", format!("a number above {low}"), high));
    }
    for (name, bound) in [("low", low), ("high", high.saturating_sub(1))] {
        let fits = Literal::from_i64(dtype, bound).as_i64() == bound && (dtype.is_signed() || bound >= 0);
        if dtype == Dtype::Bool || dtype.is_integer() && !fits {
            return Err(g.attributes.error(name, format!("integers that {dtype} holds"), bound));
        }
    }
    let state = state(g, 0, &shape)?;
    let integers = g.map_over(shape, state, dtype, |scope, state| {
        let stream = stream(scope, state);
        let bits = if count > 1 << 32 { stream.bits_64() } else { stream.bits_32() };
        // 2^32 integers take the bits as they are.
        let of_type = Literal::from_bits(bits.dtype(), count);
        let chosen = if count == 1 << 32 { bits } else { bits.with(BinaryOp::MulHigh, scope.literal(of_type)) };
        let chosen = chosen.cast(Dtype::I64);
        chosen + chosen.integer(low)
    })?;
    Ok(vec![integers])
}

/// 1 with the probability that is the operand's element, else 0.
fn bernoulli(g: &mut Expansion<'_>) -> Result<Vec<ValueId>> {
    g.expect_operands(1, 3)?;
    let dtype = g.float(0)?;
    let probability = g.operands()[0];
    let shape = g.shape(probability).to_vec();
    let [seed, offset] = state(g, 1, &shape)?;
    let chosen = g.map_over(shape, [seed, offset, probability], dtype, |scope, [seed, offset, probability]| {
        let uniform = uniform(&stream(scope, [seed, offset]), dtype.compute());
        uniform.lt(probability).cast(dtype)
    })?;
    Ok(vec![chosen])
}

/// Elements are 0 with the probability `p`; the others are divided by `1 - p`.
fn dropout(g: &mut Expansion<'_>) -> Result<Vec<ValueId>> {
    g.expect_operands(1, 3)?;
    let dtype = g.float(0)?;
    let p = g.attributes.float("p")?.unwrap_or(0.5);
    if !(0.0..=1.0).contains(&p) {
        return Err(g.attributes.error("p", "a probability from 0 to 1", p));
    }
    let is_training = g.attributes.bool("training")?.unwrap_or(true);
    let x = g.operands()[0];
    let shape = g.shape(x).to_vec();
    if !is_training || p == 0.0 {
        // They are attributes of the operation, even where they make no difference.
        g.attributes.int("seed")?;
        g.attributes.int("offset")?;
        return Ok(vec![x]);
    }
    let [seed, offset] = state(g, 1, &shape)?;
    let scale = if p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 };
    let kept = g.map_over(shape, [seed, offset, x], dtype, |scope, [seed, offset, x]| {
        // Not a choice between x and 0: NaN stays NaN, as in PyTorch.
        let uniform = uniform(&stream(scope, [seed, offset]), Dtype::F32);
        x * uniform.lt(1.0 - p).select(x.number(scale), 0.0)
    })?;
    Ok(vec![kept])
}

/// Seed and offset for each element of a shape: operands from `first`, or attributes. The offset is 0 by default.
fn state(g: &mut Expansion<'_>, first: usize, shape: &[usize]) -> Result<[ValueId; 2]> {
    let (seed, offset) = (g.attributes.int("seed")?, g.attributes.int("offset")?);
    let required = first + usize::from(seed.is_none());
    let most = required + usize::from(offset.is_none());
    let got = g.operands().len();
    if !(required..=most).contains(&got) {
        let expected = if got < required { "a seed, as an attribute or a scalar".to_owned() } else { most.to_string() };
        return Err(g.error("inputs", expected, got));
    }
    let seed = integer(g, seed.is_none().then_some(first), seed.unwrap_or_default(), shape)?;
    let offset = integer(g, Some(required).filter(|nth| *nth < got), offset.unwrap_or_default(), shape)?;
    Ok([seed, offset])
}

/// An integer operand, or the number in its place, for each element of a shape.
fn integer(g: &mut Expansion<'_>, operand: Option<usize>, number: i64, shape: &[usize]) -> Result<ValueId> {
    if let Some(nth) = operand
        && !g.dtype(g.operands()[nth]).is_integer()
    {
        return Err(g.error(format!("inputs[{nth}]"), "an integer", g.dtype(g.operands()[nth])));
    }
    g.scalar(operand, Literal::from_i64(Dtype::I64, number), shape)
}

fn stream<'a>(scope: &'a Scope, state: [Expr<'a>; 2]) -> Stream<'a> {
    let [seed, offset] = state.map(|word| word.cast(Dtype::I64));
    Stream::new(scope, seed, offset)
}

/// A number of `[0, 1)`: as many random bits as the type has of precision, so that it is exact.
fn uniform<'a>(stream: &Stream<'a>, dtype: Dtype) -> Expr<'a> {
    let is_wide = dtype == Dtype::F64;
    let (bits, width) = if is_wide { (stream.bits_64(), 64) } else { (stream.bits_32(), 32) };
    let digits = 1 + fraction_bits(dtype);
    let kept = bits.with(BinaryOp::Shr, bits.integer((width - digits).into()));
    kept.cast(dtype.compute()) * 2_f64.powi(-digits)
}

/// A number of the standard normal distribution, by the transformation of Box and Muller: two neighbours are the coordinates of a point.
fn normal<'a>(stream: &Stream<'a>, dtype: Dtype) -> Expr<'a> {
    let (words, is_second) = if dtype == Dtype::F64 { stream.pair_64() } else { stream.pair_32() };
    let unit = if dtype == Dtype::F64 { 2_f64.powi(-64) } else { 2_f64.powi(-32) };
    let [radius, turn] = words.map(|bits| bits.cast(dtype.compute()) * unit);
    // Never 0, whose logarithm is infinite.
    let radius = ((radius + unit / 2.0).log() * -2.0).sqrt();
    // The sine is the cosine a quarter of a turn later.
    let quarter = is_second.select(turn.number(0.25), 0.0);
    radius * ((turn - quarter) * TAU).apply(UnaryOp::Cos)
}
