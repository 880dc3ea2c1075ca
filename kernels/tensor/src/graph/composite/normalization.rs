//! Normalisation of channels: batch, group and instance norm.

use crate::{
    Attribute, Dtype, TensorType,
    graph::ValueId,
    signature::{Condition, DtypeRule, Results, ShapeRule},
};

use super::{
    Composite, composite,
    expansion::{Expansion, Result, extents, named},
};

pub(super) const OPERATIONS: &[Composite] = &[
    composite("batch_norm", TRAINED, batch_norm),
    composite("group_norm", NORMALIZED, group_norm),
    composite("instance_norm", NORMALIZED, instance_norm),
];

const NORMALIZED: Results = Results::one(ShapeRule::First, DtypeRule::First);
/// The new running statistics have the types of the old ones.
const TRAINED: Results = Results {
    types: [
        Some((ShapeRule::First, DtypeRule::First)),
        Some((ShapeRule::Second, DtypeRule::Second)),
        Some((ShapeRule::Third, DtypeRule::Third)),
    ],
    ..NORMALIZED.or(3, &[Condition::True("training"), Condition::NotFalse("track_running_stats")])
};

/// The subtrahend and the factor of elements, then weight and bias if they are there; all broadcast with them.
struct Affine {
    mean: ValueId,
    scale: ValueId,
    weight: Option<ValueId>,
    bias: Option<ValueId>,
}

/// The operands are values `[N, C, ..]`, running mean and variance unless `track_running_stats` is false, weight, and bias. The results are
/// those of PyTorch, then the new running mean and variance if `training`.
fn batch_norm(g: &mut Expansion<'_>) -> Result<Vec<ValueId>> {
    let is_training = g.flag("training")?;
    let has_running = g.attributes.bool("track_running_stats")?.unwrap_or(true);
    let momentum = g.attributes.float("momentum")?.unwrap_or(0.1);
    let eps = g.attributes.float("eps")?.unwrap_or(1e-5);
    if !is_training && !has_running {
        return Err(g.attributes.error("training", "true without running statistics", false));
    }
    let first = if has_running { 3 } else { 1 };
    g.expect_operands(first, first + 2)?;
    let x = channels(g, 2)?;
    let count = x.elements().checked_div(x.shape[1]).unwrap_or(0);
    let running = |nth: usize| g.operands().get(nth).copied().filter(|_| has_running);
    let (running_mean, running_var) = (running(1), running(2));
    if let (false, Some(mean), Some(var)) = (is_training, running_mean, running_var) {
        let affine = affine(g, [mean, var], eps, first, &x)?;
        return Ok(vec![normalized(g, g.operands()[0], &affine, &x)?]);
    }
    if count < 2 {
        return Err(g.error("inputs[0]", "more than 1 value of each channel to train", count));
    }
    let dims: Vec<_> = (0..x.shape.len()).filter(|dim| *dim != 1).collect();
    let [mean, var] = moments(g, g.operands()[0], &dims)?;
    let [mean, var] = [g.reshape(mean, &x.shape[1..2])?, g.reshape(var, &x.shape[1..2])?];
    let affine = affine(g, [mean, var], eps, first, &x)?;
    let mut results = vec![normalized(g, g.operands()[0], &affine, &x)?];
    // The running variance is that of the population, of which the batch is a sample.
    let unbiased = count as f64 / (count as f64 - 1.0);
    for (running, batch, factor) in [(running_mean, mean, 1.0), (running_var, var, unbiased)] {
        let Some(running) = running else { continue };
        let dtype = g.dtype(running);
        results.push(g.map([running, batch], dtype, |[running, batch]| {
            running * (1.0 - momentum) + batch * (factor * momentum)
        })?);
    }
    Ok(results)
}

/// The operands are values `[N, C, ..]`, weight and bias. Statistics are those of groups of channels.
fn group_norm(g: &mut Expansion<'_>) -> Result<Vec<ValueId>> {
    g.expect_operands(1, 3)?;
    let eps = g.attributes.float("eps")?.unwrap_or(1e-5);
    let groups = g.attributes.required("num_groups", g.attributes.int("num_groups")?, &[])?;
    let x = channels(g, 2)?;
    let of_group = usize::try_from(groups).ok().filter(|groups| *groups > 0 && x.shape[1] % groups == 0);
    let groups = of_group
        .ok_or_else(|| g.attributes.error("num_groups", format!("a divisor of {} channels", x.shape[1]), groups))?;
    let grouped = [&[x.shape[0], groups, x.shape[1] / groups], &x.shape[2..]].concat();
    let values = g.reshape(g.operands()[0], &grouped)?;
    let grouped = TensorType { shape: grouped, ..x.clone() };
    let dims: Vec<_> = (2..grouped.shape.len()).collect();
    let moments = moments(g, values, &dims)?;
    let mut affine = affine(g, moments, eps, 1, &x)?;
    for parameter in [&mut affine.weight, &mut affine.bias].into_iter().flatten() {
        *parameter = g.reshape(*parameter, &[&grouped.shape[1..3], &vec![1; x.shape.len() - 2][..]].concat())?;
    }
    let normalized = normalized(g, values, &affine, &grouped)?;
    Ok(vec![g.reshape(normalized, &x.shape)?])
}

/// The operands are values `[N, C, ..]`, weight and bias. Statistics are those of each channel of each sample.
fn instance_norm(g: &mut Expansion<'_>) -> Result<Vec<ValueId>> {
    g.expect_operands(1, 3)?;
    let eps = g.attributes.float("eps")?.unwrap_or(1e-5);
    let x = channels(g, 3)?;
    let count: usize = x.shape[2..].iter().product();
    if count == 1 {
        return Err(g.error("inputs[0]", "more than 1 value of each channel", count));
    }
    let dims: Vec<_> = (2..x.shape.len()).collect();
    let moments = moments(g, g.operands()[0], &dims)?;
    let affine = affine(g, moments, eps, 1, &x)?;
    Ok(vec![normalized(g, g.operands()[0], &affine, &x)?])
}

/// The type of the values: floating-point numbers of at least `rank` dimensions, the second of which are channels.
fn channels(g: &Expansion<'_>, rank: usize) -> Result<TensorType> {
    g.float(0)?;
    let x = g.type_of(g.operands()[0]).clone();
    let got = x.shape.len();
    (got >= rank).then_some(x).ok_or_else(|| g.error("inputs[0]", format!("at least {rank} dimensions"), got))
}

/// Mean and variance over dimensions, which keep the extent 1, in f64: the squares of numbers from 1e19 on are out of the range of f32.
fn moments(g: &mut Expansion<'_>, values: ValueId, dims: &[usize]) -> Result<[ValueId; 2]> {
    let over = [("dim", extents(dims)), ("keepdim", Attribute::Bool(true)), ("dtype", named(Dtype::F64))];
    let mean = g.op("mean", &[values], &over)?;
    let squares = g.map([values, mean], Dtype::F64, |[x, mean]| (x - mean) * (x - mean))?;
    Ok([mean, g.op("mean", &[squares], &over)?])
}

/// Statistics, and the weight and bias that are operands from `first`. Vectors are those of channels.
fn affine(g: &mut Expansion<'_>, moments: [ValueId; 2], eps: f64, first: usize, x: &TensorType) -> Result<Affine> {
    let vector = &x.shape[1..2];
    for nth in 1..g.operands().len() {
        g.float(nth)?;
        g.expect_shape(nth, vector)?;
    }
    let [mean, var] = moments;
    let scale = g.map_reduced(var, x.dtype.compute(), |var| (var + eps).sqrt().reciprocal())?;
    let column = [vector, &vec![1; x.shape.len() - 2][..]].concat();
    let mut aligned = |value: ValueId| match g.shape(value) {
        shape if shape == vector => g.reshape(value, &column),
        _ => Ok(value),
    };
    let [mean, scale] = [aligned(mean)?, aligned(scale)?];
    let operands = g.operands();
    let mut parameter = |nth: usize| operands.get(nth).map(|value| g.reshape(*value, &column)).transpose();
    Ok(Affine { mean, scale, weight: parameter(first)?, bias: parameter(first + 1)? })
}

/// The values less the mean, scaled, multiplied by the weight, plus the bias: one function.
fn normalized(g: &mut Expansion<'_>, values: ValueId, affine: &Affine, x: &TensorType) -> Result<ValueId> {
    let compute = x.dtype.compute();
    let operands = [values, affine.mean, affine.scale];
    let mut result = g.map(operands, compute, |[x, mean, scale]| (x - mean) * scale)?;
    if let Some(weight) = affine.weight {
        result = g.map([result, weight], compute, |[x, weight]| x * weight)?;
    }
    if let Some(bias) = affine.bias {
        result = g.map([result, bias], compute, |[x, bias]| x + bias)?;
    }
    g.cast(result, x.dtype)
}
