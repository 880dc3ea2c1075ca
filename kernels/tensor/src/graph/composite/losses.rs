//! Losses of predictions and targets, element by element.

use crate::{Attribute, Dtype, Layout, elementwise::Expr, graph::ValueId, signature::Results};

use super::{
    Composite, composite,
    expansion::{Expansion, Result, named},
};

/// The reduction of the losses of elements.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Reduction {
    None,
    Mean,
    Sum,
    /// The sum divided by the extent of the first dimension.
    BatchMean,
}

pub(super) const OPERATIONS: &[Composite] = &[
    composite("mse_loss", Results::untyped(1), |g| of_distance(g, |d| d * d)),
    composite("l1_loss", Results::untyped(1), |g| of_distance(g, |d| d)),
    composite("smooth_l1_loss", Results::untyped(1), smooth_l1_loss),
    composite("huber_loss", Results::untyped(1), huber_loss),
    composite("binary_cross_entropy", Results::untyped(1), binary_cross_entropy),
    composite("binary_cross_entropy_with_logits", Results::untyped(1), binary_cross_entropy_with_logits),
    composite("kl_div", Results::untyped(1), kl_div),
];

impl Reduction {
    /// The attribute `reduction`, by default the mean.
    pub(super) fn of(g: &Expansion<'_>) -> Result<Self> {
        match g.attributes.text("reduction")?.unwrap_or("mean") {
            "none" => Ok(Self::None),
            "mean" => Ok(Self::Mean),
            "sum" => Ok(Self::Sum),
            other => Err(g.attributes.error("reduction", "none, mean or sum", other)),
        }
    }

    /// Reduces losses, and rounds the result to `dtype`.
    pub(super) fn apply(self, g: &mut Expansion<'_>, losses: ValueId, dtype: Dtype) -> Result<ValueId> {
        let rounded = [("dtype", named(dtype))];
        match self {
            Self::None => g.cast(losses, dtype),
            Self::Mean => g.op("mean", &[losses], &rounded),
            Self::Sum => g.op("sum", &[losses], &rounded),
            Self::BatchMean => {
                let batch = g.shape(losses).first().copied().unwrap_or(1) as f64;
                let sum = g.op("sum", &[losses], &[("dtype", named(Dtype::F64))])?;
                let mean = g.map([sum], Dtype::F64, |[sum]| sum / batch)?;
                g.cast(mean, dtype)
            }
        }
    }
}

/// The loss of a function of `|input - target|`.
fn of_distance(g: &mut Expansion<'_>, loss: impl for<'s> FnOnce(Expr<'s>) -> Expr<'s>) -> Result<Vec<ValueId>> {
    of_pair(g, Reduction::of(g)?, |input, target| loss((input - target).abs()))
}

/// The loss of a function of input and target, which broadcast.
fn of_pair(
    g: &mut Expansion<'_>,
    reduction: Reduction,
    loss: impl for<'s> FnOnce(Expr<'s>, Expr<'s>) -> Expr<'s>,
) -> Result<Vec<ValueId>> {
    g.expect_operands(2, 2)?;
    let dtype = g.common_float(2)?;
    let [input, target] = [g.operands()[0], g.operands()[1]];
    let losses = g.map([input, target], dtype.compute(), |[input, target]| loss(input, target))?;
    Ok(vec![reduction.apply(g, losses, dtype)?])
}

/// Quadratic below `beta`, linear above.
fn smooth_l1_loss(g: &mut Expansion<'_>) -> Result<Vec<ValueId>> {
    let beta = g.non_negative("beta", 1.0)?;
    if beta == 0.0 {
        return of_distance(g, |d| d);
    }
    // The square of a distance below a small `beta` would underflow.
    of_distance(g, |d| d.lt(beta).select(d / beta * d * 0.5, d - 0.5 * beta))
}

/// `delta` times the smooth loss.
fn huber_loss(g: &mut Expansion<'_>) -> Result<Vec<ValueId>> {
    let delta = g.non_negative("delta", 1.0)?;
    if delta == 0.0 {
        return Err(g.attributes.error("delta", "a number above 0", delta));
    }
    of_distance(g, |d| d.lt(delta).select(d * d * 0.5, (d - 0.5 * delta) * delta))
}

/// The operands are probabilities, targets of equal shape, and maybe weights. Logarithms are at least -100, as PyTorch has them.
fn binary_cross_entropy(g: &mut Expansion<'_>) -> Result<Vec<ValueId>> {
    g.expect_operands(2, 3)?;
    let dtype = g.common_float(g.operands().len())?;
    let [input, target] = input_and_target(g)?;
    let losses = g.map([input, target], dtype.compute(), |[x, t]| {
        (t - 1.0) * (-x).log1p().max(-100.0) - t * x.log().max(-100.0)
    })?;
    weighted(g, losses, dtype)
}

/// The operands are logits, targets of equal shape, and maybe weights of elements and of positive targets. For targets from 0 to 1 the loss
/// is a sum of numbers that are not negative, so that nothing cancels.
fn binary_cross_entropy_with_logits(g: &mut Expansion<'_>) -> Result<Vec<ValueId>> {
    g.expect_operands(2, 4)?;
    let dtype = g.common_float(g.operands().len())?;
    let [input, target] = input_and_target(g)?;
    let compute = dtype.compute();
    let losses = if let Some(&weight) = g.operands().get(3) {
        g.map([input, target, weight], compute, |[x, t, weight]| of_logit(x, t, weight * t))
    } else {
        g.map([input, target], compute, |[x, t]| of_logit(x, t, t))
    };
    let losses = losses?;
    weighted(g, losses, dtype)
}

/// `(1 - target) * log(1 + exp(x)) + weight * log(1 + exp(-x))`, without overflow.
fn of_logit<'a>(x: Expr<'a>, target: Expr<'a>, weight: Expr<'a>) -> Expr<'a> {
    let tail = (-x.abs()).exp().log1p();
    target.complement() * (x.max(0.0) + tail) + weight * ((-x).max(0.0) + tail)
}

/// Input and target, which have the same shape; weights broadcast to it.
fn input_and_target(g: &Expansion<'_>) -> Result<[ValueId; 2]> {
    let [input, target] = [g.operands()[0], g.operands()[1]];
    let shape = g.shape(input);
    g.expect_shape(1, shape)?;
    for (nth, weight) in g.operands().iter().enumerate().skip(2) {
        let got = g.shape(*weight);
        if Layout::contiguous(got).broadcast(shape).is_none() {
            let expected = format!("a shape that broadcasts to {shape:?}");
            return Err(g.error(format!("inputs[{nth}]"), expected, format!("{got:?}")));
        }
    }
    Ok([input, target])
}

/// Losses multiplied by the third operand, if there is one, and reduced.
fn weighted(g: &mut Expansion<'_>, losses: ValueId, dtype: Dtype) -> Result<Vec<ValueId>> {
    let reduction = Reduction::of(g)?;
    let losses = match g.operands().get(2) {
        Some(&weight) => g.map([losses, weight], dtype.compute(), |[loss, weight]| loss * weight)?,
        None => losses,
    };
    Ok(vec![reduction.apply(g, losses, dtype)?])
}

/// The operands are logarithms of probabilities, and probabilities, or their logarithms if `log_target`.
fn kl_div(g: &mut Expansion<'_>) -> Result<Vec<ValueId>> {
    let is_batch_mean = matches!(g.attributes.get("reduction"), Some(Attribute::Text(text)) if text == "batchmean");
    let reduction = if is_batch_mean { Reduction::BatchMean } else { Reduction::of(g)? };
    if g.flag("log_target")? {
        return of_pair(g, reduction, |x, t| t.exp() * (t - x));
    }
    of_pair(g, reduction, |x, t| {
        let entropy = (t.eq(0.0)).select(t.number(0.0), t * t.log());
        entropy - t * x
    })
}
