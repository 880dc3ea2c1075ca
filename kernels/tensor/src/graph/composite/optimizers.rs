//! Updates of parameters. Each is one function of its operands, and so one kernel.
//!
//! A number that changes from step to step is a scalar operand or an attribute. An attribute is a constant of the kernel: another value means
//! another kernel.

use accelerd_ir::scalar::Literal;

use crate::{
    Dtype, TensorType,
    elementwise::Expr,
    graph::ValueId,
    signature::{Condition, Results},
};

use super::{
    Composite, composite,
    expansion::{Expansion, Result},
};

pub(super) const OPERATIONS: &[Composite] = &[
    composite("sgd", Results::untyped(1).or(2, &[Condition::True("momentum")]), sgd),
    composite("adam", MOMENTS, |g| adam(g, Decay::OfGradient)),
    composite("adamw", MOMENTS, |g| adam(g, Decay::OfParameter)),
];

const MOMENTS: Results = Results::untyped(3).or(4, &[Condition::True("amsgrad")]);

/// The target of weight decay.
#[derive(Clone, Copy, PartialEq)]
enum Decay {
    /// Adds the parameter, weighted, to the gradient.
    OfGradient,
    /// Reduces the parameter itself.
    OfParameter,
}

/// The operands are parameter, gradient, and with momentum the buffer, which the first step has not, then maybe the learning rate. The
/// results are the parameter, and with momentum the buffer.
fn sgd(g: &mut Expansion<'_>) -> Result<Vec<ValueId>> {
    let momentum = g.non_negative("momentum", 0.0)?;
    let dampening = g.attributes.float("dampening")?.unwrap_or(0.0);
    let is_nesterov = g.flag("nesterov")?;
    if is_nesterov && (momentum == 0.0 || dampening != 0.0) {
        return Err(g.attributes.error("nesterov", "a momentum, and no dampening, with nesterov", true));
    }
    let states = usize::from(momentum > 0.0 && g.operands().len() > 2);
    let [lr] = scalars(g, 2 + states, [("lr", Some(1e-3))])?;
    let of = parameter(g, 2 + states)?;
    let param = g.operands()[0];
    let mut update = gradient(g, param, Decay::OfGradient, 0.0, &of)?;
    let mut results = vec![];
    if momentum > 0.0 {
        let buffer = match g.operands().get(2).filter(|_| states > 0) {
            Some(&buffer) => g.map([buffer, update], of.dtype, |[buffer, gradient]| {
                buffer * momentum + gradient * (1.0 - dampening)
            })?,
            None => update,
        };
        let stored = g.operands().get(2).filter(|_| states > 0).map_or(param, |buffer| *buffer);
        results.push(g.cast(buffer, g.dtype(stored))?);
        update = if is_nesterov {
            g.map([update, buffer], of.dtype, |[gradient, buffer]| gradient + buffer * momentum)?
        } else {
            buffer
        };
    }
    let lr = lr.value(g, &of)?;
    let moved = g.map([param, update, lr], of.dtype, |[param, update, lr]| param - lr.cast(of.dtype) * update)?;
    results.insert(0, g.cast(moved, g.dtype(param))?);
    Ok(results)
}

/// The operands are parameter, gradient, their moving averages `exp_avg` and `exp_avg_sq`, with `amsgrad` the maximum of the latter, then
/// the number of this step, which counts from 1, unless it is an attribute, and maybe the learning rate. The results are the parameter and
/// the averages.
fn adam(g: &mut Expansion<'_>, decay: Decay) -> Result<Vec<ValueId>> {
    let is_amsgrad = g.flag("amsgrad")?;
    let [beta1, beta2] = [("beta1", 0.9), ("beta2", 0.999)].map(|(name, default)| beta(g, name, default));
    let (beta1, beta2, eps) = (beta1?, beta2?, g.non_negative("eps", 1e-8)?);
    let tensors = 4 + usize::from(is_amsgrad);
    let [step, lr] = scalars(g, tensors, [("step", None), ("lr", Some(1e-3))])?;
    let of = parameter(g, tensors)?;
    let (step, lr) = (step.value(g, &of)?, lr.value(g, &of)?);
    let (compute, operands) = (of.dtype, g.operands());
    let (default_decay, mut param) = (if decay == Decay::OfParameter { 1e-2 } else { 0.0 }, operands[0]);
    let gradient = gradient(g, param, decay, default_decay, &of)?;
    let weight_decay = g.non_negative("weight_decay", default_decay)?;
    if decay == Decay::OfParameter && weight_decay > 0.0 {
        param = g.map([param, lr], compute, |[param, lr]| param * (lr.cast(compute) * weight_decay).complement())?;
    }
    let average =
        g.map([operands[2], gradient], compute, |[average, gradient]| average + (gradient - average) * (1.0 - beta1))?;
    let average_sq = g.map([operands[3], gradient], compute, |[average, gradient]| {
        average * beta2 + gradient * gradient * (1.0 - beta2)
    })?;
    let mut states = vec![average, average_sq];
    if is_amsgrad {
        states.push(g.map([operands[4], average_sq], compute, |[most, average]| most.max(average))?);
    }
    let [spread, first] = [states[states.len() - 1], average];
    let moved = g.map([param, first, spread, step, lr], compute, |[param, average, spread, step, lr]| {
        let [step, lr] = [step, lr].map(|scalar| scalar.cast(compute));
        let divisor = spread.sqrt() / bias_correction(step, beta2).sqrt() + eps;
        param - lr / bias_correction(step, beta1) * (average / divisor)
    })?;
    let mut results = vec![g.cast(moved, g.dtype(operands[0]))?];
    for (state, operand) in states.into_iter().zip(&operands[2..]) {
        results.push(g.cast(state, g.dtype(*operand))?);
    }
    Ok(results)
}

/// `1 - beta^step`, without the cancellation of the difference.
fn bias_correction(step: Expr<'_>, beta: f64) -> Expr<'_> {
    -(step * beta.ln()).expm1()
}

/// A decay rate of averages.
fn beta(g: &Expansion<'_>, name: &'static str, default: f64) -> Result<f64> {
    let beta = g.non_negative(name, default)?;
    if beta < 1.0 { Ok(beta) } else { Err(g.attributes.error(name, "a number from 0, below 1", beta)) }
}

/// A scalar: an operand, or a number.
struct Scalar {
    operand: Option<usize>,
    number: f64,
}

impl Scalar {
    fn value(&self, g: &mut Expansion<'_>, of: &TensorType) -> Result<ValueId> {
        g.scalar(self.operand, Literal::from_f64(of.dtype, self.number), &of.shape)
    }
}

/// The scalars of these names and defaults: attributes, or operands from `first` in their order.
fn scalars<const N: usize>(
    g: &Expansion<'_>,
    first: usize,
    names: [(&'static str, Option<f64>); N],
) -> Result<[Scalar; N]> {
    let mut free = first..g.operands().len();
    let mut required = first;
    let mut most = first;
    let scalars = names.map(|(name, default)| {
        let number = g.attributes.float(name)?;
        let operand = if number.is_none() { free.next() } else { None };
        most += usize::from(number.is_none());
        required += usize::from(number.is_none() && default.is_none());
        Ok(Scalar { operand, number: number.or(default).unwrap_or_default() })
    });
    g.expect_operands(required, most)?;
    let mut scalars = scalars.into_iter().collect::<Result<Vec<_>>>()?.into_iter();
    Ok(std::array::from_fn(|_| scalars.next().expect("one for each name")))
}

/// The shape of the parameter, which the first `count` operands have, and the type in which they are computed.
fn parameter(g: &Expansion<'_>, count: usize) -> Result<TensorType> {
    let shape = g.shape(g.operands()[0]).to_vec();
    for nth in 1..count {
        g.expect_shape(nth, &shape)?;
    }
    let dtype: Dtype = g.common_float(count)?.compute();
    Ok(TensorType { dtype, shape })
}

/// The gradient of what is minimised, with the weight decay that is its part.
fn gradient(
    g: &mut Expansion<'_>,
    param: ValueId,
    decay: Decay,
    default_decay: f64,
    of: &TensorType,
) -> Result<ValueId> {
    let weight_decay = g.non_negative("weight_decay", default_decay)?;
    let is_negated = g.flag("maximize")?;
    let decayed = if decay == Decay::OfGradient { weight_decay } else { 0.0 };
    g.map([g.operands()[1], param], of.dtype, |[gradient, param]| {
        let gradient = if is_negated { -gradient } else { gradient };
        if decayed > 0.0 { gradient + param * decayed } else { gradient }
    })
}
