//! Losses of class scores `[C]` or `[N, C, ..]` and target classes.
//!
//! The score of the target is the sum over the classes of the scores that an elementwise comparison leaves: one reduction, which reads the
//! scores once.
//!
//! Cross entropy is computed relative to a reference class, whose score it reads by index. With the differences `d` of the scores from that of
//! the reference, the loss of the reference is `log(1 + sum(exp(d)))` over the other classes, and that of another class is larger by `-d`.
//! Nothing cancels: the difference of `logsumexp(x)` and `x` would have the rounding errors of the scores, whatever the loss is.

use crate::{Attribute, Dtype, TensorType, elementwise::Expr, graph::ValueId, signature::Results};

use super::{
    Composite, composite,
    expansion::{Expansion, Result, extents, named},
    losses::Reduction,
};

pub(super) const OPERATIONS: &[Composite] = &[
    composite("nll_loss", Results::untyped(1), nll_loss),
    composite("cross_entropy", Results::untyped(1), cross_entropy),
];

/// A loss under construction.
struct ClassLoss {
    /// The type of the scores.
    scores: TensorType,
    /// The dimension of the classes.
    dim: usize,
    /// Weights of the classes, broadcast with the scores.
    weight: Option<ValueId>,
    reduction: Reduction,
}

/// The operands are logarithms of probabilities, target classes, and maybe weights of classes.
fn nll_loss(g: &mut Expansion<'_>) -> Result<Vec<ValueId>> {
    let loss = ClassLoss::new(g)?;
    let scores = g.operands()[0];
    let losses = g.map([scores], loss.compute(), |[score]| -score)?;
    loss.of_classes(g, losses, 0.0)
}

/// The operands are logits, target classes or probabilities of all classes, and maybe weights of classes.
fn cross_entropy(g: &mut Expansion<'_>) -> Result<Vec<ValueId>> {
    let loss = ClassLoss::new(g)?;
    let smoothing = g.attributes.float("label_smoothing")?.unwrap_or(0.0);
    if !(0.0..=1.0).contains(&smoothing) {
        return Err(g.attributes.error("label_smoothing", "a number from 0 to 1", smoothing));
    }
    let target = g.operands()[1];
    let is_of_classes = !g.dtype(target).is_float();
    if is_of_classes {
        loss.check_classes(g)?;
    }
    if loss.class_count() == 0 {
        // There is no reference, and no loss to add.
        let none = g.operands()[0];
        return if is_of_classes { loss.of_classes(g, none, 0.0) } else { loss.of_probabilities(g, none, smoothing) };
    }
    if is_of_classes && smoothing == 0.0 {
        return loss.of_targets(g);
    }
    let losses = loss.of_all(g)?;
    if is_of_classes { loss.of_classes(g, losses, smoothing) } else { loss.of_probabilities(g, losses, smoothing) }
}

/// The score and the loss of one class of each row.
struct Reference {
    score: ValueId,
    loss: ValueId,
}

impl ClassLoss {
    fn new(g: &mut Expansion<'_>) -> Result<Self> {
        g.expect_operands(2, 3)?;
        g.float(0)?;
        let scores = g.type_of(g.operands()[0]).clone();
        let dim = scores.shape.len().min(2).checked_sub(1);
        let dim = dim.ok_or_else(|| g.error("inputs[0]", "a dimension of classes", "a scalar"))?;
        let reduction = Reduction::of(g)?;
        let weight = if g.operands().len() > 2 {
            g.float(2)?;
            g.expect_shape(2, &scores.shape[dim..=dim])?;
            Some(along(g, g.operands()[2], &scores, dim)?)
        } else {
            None
        };
        Ok(Self { scores, dim, weight, reduction })
    }

    fn compute(&self) -> Dtype {
        self.scores.dtype.compute()
    }

    /// The extents of the scores without the classes.
    fn rows(&self) -> Vec<usize> {
        let mut shape = self.scores.shape.clone();
        shape.remove(self.dim);
        shape
    }

    /// The sum of values over the classes.
    fn sum(&self, g: &mut Expansion<'_>, values: ValueId) -> Result<ValueId> {
        g.op("sum", &[values], &[("dim", extents(&[self.dim])), ("dtype", named(self.compute()))])
    }

    fn class_count(&self) -> usize {
        self.scores.shape[self.dim]
    }

    /// Refuses targets that are no classes of rows.
    fn check_classes(&self, g: &Expansion<'_>) -> Result<()> {
        let target = g.dtype(g.operands()[1]);
        if !target.is_integer() {
            return Err(g.error("inputs[1]", "integers, the indices of classes", target));
        }
        g.expect_shape(1, &self.rows())
    }

    /// The loss of target classes, relative to their scores.
    fn of_targets(self, g: &mut Expansion<'_>) -> Result<Vec<ValueId>> {
        let target = g.operands()[1];
        let ignored = g.attributes.int("ignore_index")?.unwrap_or(-100);
        let count = i64::try_from(self.class_count()).unwrap_or(i64::MAX);
        let indices = g.map([target], Dtype::I64, |[target]| {
            let target = target.cast(Dtype::I64);
            is_class(target, count).select(target, target.integer(0))
        })?;
        let column = g.op("unsqueeze", &[indices], &[("dim", self.attribute())])?;
        let Reference { loss: mut losses, .. } = self.reference(g, column, &self.rows())?;
        let weight = self.weight.map(|_| self.weight_of(g, indices)).transpose()?;
        if let Some(weight) = weight {
            losses = g.map([losses, weight], self.compute(), |[loss, weight]| loss * weight)?;
        }
        let rows = self.without_ignored(g, losses, ignored)?;
        if self.reduction != Reduction::Mean {
            return Ok(vec![self.reduction.apply(g, rows, self.scores.dtype)?]);
        }
        let compute = self.compute();
        let weights = match weight {
            Some(weight) => g.map([target, weight], compute, |[target, weight]| {
                is(target.cast(Dtype::I64), ignored).select(weight.number(0.0), weight)
            })?,
            None => g.map([target], compute, |[target]| (!is(target.cast(Dtype::I64), ignored)).cast(compute))?,
        };
        self.weighted_mean(g, rows, weights)
    }

    /// The losses of all classes, relative to the greatest score: a sum of numbers that are not negative.
    fn of_all(&self, g: &mut Expansion<'_>) -> Result<ValueId> {
        let x = g.operands()[0];
        let greatest = g.op("argmax", &[x], &[("dim", self.attribute()), ("keepdim", Attribute::Bool(true))])?;
        let shape = g.shape(greatest).to_vec();
        let Reference { score, loss } = self.reference(g, greatest, &shape)?;
        g.map([loss, x, score], self.compute(), |[loss, x, score]| loss - (x - score))
    }

    /// Score and loss of the classes of these indices, whose extent along the classes is 1, in a shape of as many elements.
    fn reference(&self, g: &mut Expansion<'_>, indices: ValueId, shape: &[usize]) -> Result<Reference> {
        let x = g.operands()[0];
        let compute = self.compute();
        let score = g.op("gather", &[x, indices], &[("dim", self.attribute())])?;
        let classes = self.classes(g)?;
        let differences = g.map([x, score, indices, classes], compute, |[x, score, index, class]| {
            let none = x.number(f64::NEG_INFINITY);
            // The difference of two infinities is not a number, and no other class has a greater one than -inf.
            let difference = x.eq(none).select(none, x - score);
            index.cast(class.dtype()).eq(class).select(none, difference)
        })?;
        let keepdim = Attribute::Bool(shape.len() == self.scores.shape.len());
        let others = g.op("logsumexp", &[differences], &[("dim", self.attribute()), ("keepdim", keepdim)])?;
        let score = g.reshape(score, shape)?;
        let loss = g.map([others, score], compute, |[others, score]| {
            let loss = others.max(0.0) + (-others.abs()).exp().log1p();
            // As in PyTorch: without a probability for any class, or with an infinite score, there is no loss.
            let of_excluded = score.eq(f64::NEG_INFINITY).select(others - score, loss);
            score.lt(f64::INFINITY).select(of_excluded, score.number(f64::NAN))
        })?;
        Ok(Reference { score, loss })
    }

    /// The weights of the classes of rows.
    fn weight_of(&self, g: &mut Expansion<'_>, indices: ValueId) -> Result<ValueId> {
        let flat = g.op("flatten", &[indices], &[])?;
        let weights = g.op("index_select", &[g.operands()[2], flat], &[("dim", Attribute::Int(0))])?;
        g.reshape(weights, &self.rows())
    }

    /// The losses of rows: 0 of an ignored target. A target that is no class has no loss: NaN shows the mistake.
    fn without_ignored(&self, g: &mut Expansion<'_>, losses: ValueId, ignored: i64) -> Result<ValueId> {
        let count = i64::try_from(self.class_count()).unwrap_or(i64::MAX);
        g.map([g.operands()[1], losses], self.compute(), |[target, loss]| {
            let target = target.cast(Dtype::I64);
            let of_class = is_class(target, count).select(loss, loss.number(f64::NAN));
            is(target, ignored).select(loss.number(0.0), of_class)
        })
    }

    /// The sum of losses divided by that of weights.
    fn weighted_mean(&self, g: &mut Expansion<'_>, losses: ValueId, weights: ValueId) -> Result<Vec<ValueId>> {
        let in_f64 = [("dtype", named(Dtype::F64))];
        let [total, weight] = [g.op("sum", &[losses], &in_f64)?, g.op("sum", &[weights], &in_f64)?];
        let mean = g.map([total, weight], Dtype::F64, |[total, weight]| total / weight)?;
        Ok(vec![g.cast(mean, self.scores.dtype)?])
    }

    /// The loss of classes with these losses, if a class other than the target has the probability `smoothing` divided by their number.
    fn of_classes(self, g: &mut Expansion<'_>, losses: ValueId, smoothing: f64) -> Result<Vec<ValueId>> {
        self.check_classes(g)?;
        let ignored = g.attributes.int("ignore_index")?.unwrap_or(-100);
        let count = self.class_count();
        let ([target_column, classes], compute) = (self.compared(g)?, self.compute());
        let weighted = match self.weight {
            Some(weight) => g.map([losses, weight], compute, |[loss, weight]| loss * weight)?,
            None => losses,
        };
        let of_others = smoothing / count as f64;
        let smoothed = g.map([target_column, classes, weighted], compute, |[target, class, loss]| {
            let others = if smoothing > 0.0 { loss * of_others } else { loss.number(0.0) };
            target.cast(class.dtype()).eq(class).select(loss * (1.0 - smoothing) + others, others)
        })?;
        let sums = self.sum(g, smoothed)?;
        let rows = self.without_ignored(g, sums, ignored)?;
        if self.reduction != Reduction::Mean {
            return Ok(vec![self.reduction.apply(g, rows, self.scores.dtype)?]);
        }
        let weights = self.weights(g, [target_column, classes], ignored)?;
        self.weighted_mean(g, rows, weights)
    }

    /// The loss of probabilities of all classes.
    fn of_probabilities(self, g: &mut Expansion<'_>, losses: ValueId, smoothing: f64) -> Result<Vec<ValueId>> {
        g.expect_shape(1, &self.scores.shape)?;
        let of_others = smoothing / self.scores.shape[self.dim] as f64;
        let target = g.operands()[1];
        let mut weighted = g.map([losses, target], self.compute(), |[loss, target]| {
            loss * if smoothing > 0.0 { target * (1.0 - smoothing) + of_others } else { target }
        })?;
        if let Some(weight) = self.weight {
            weighted = g.map([weighted, weight], self.compute(), |[loss, weight]| loss * weight)?;
        }
        let rows = self.sum(g, weighted)?;
        Ok(vec![self.reduction.apply(g, rows, self.scores.dtype)?])
    }

    /// The targets and the indices of the classes, which broadcast with the scores. They are compared where the result is used: a
    /// comparison with two readers would be written to memory.
    fn compared(&self, g: &mut Expansion<'_>) -> Result<[ValueId; 2]> {
        let classes = self.classes(g)?;
        Ok([g.op("unsqueeze", &[g.operands()[1]], &[("dim", self.attribute())])?, classes])
    }

    /// The indices of the classes, which broadcast with the scores.
    fn classes(&self, g: &mut Expansion<'_>) -> Result<ValueId> {
        let count = self.class_count();
        // Half the bytes of i64, which the reduction reads for every score.
        let dtype = if i32::try_from(count).is_ok() { Dtype::I32 } else { Dtype::I64 };
        let end = Attribute::Int(i64::try_from(count).unwrap_or(i64::MAX));
        let classes = g.op("arange", &[], &[("end", end), ("dtype", named(dtype))])?;
        along(g, classes, &self.scores, self.dim)
    }

    /// The dimension of the classes.
    fn attribute(&self) -> Attribute {
        Attribute::Int(i64::try_from(self.dim).unwrap_or(i64::MAX))
    }

    /// The weight of each row: that of its target, 0 if the target is ignored.
    fn weights(&self, g: &mut Expansion<'_>, compared: [ValueId; 2], ignored: i64) -> Result<ValueId> {
        let (target, compute) = (g.operands()[1], self.compute());
        let Some(weight) = self.weight else {
            return g.map([target], compute, |[target]| (!is(target.cast(Dtype::I64), ignored)).cast(compute));
        };
        let [column, classes] = compared;
        let chosen = g.map([column, classes, weight], compute, |[target, class, weight]| {
            target.cast(class.dtype()).eq(class).select(weight, 0.0)
        })?;
        let weights = self.sum(g, chosen)?;
        g.map([target, weights], compute, |[target, weight]| {
            is(target.cast(Dtype::I64), ignored).select(weight.number(0.0), weight)
        })
    }
}

fn is(target: Expr<'_>, class: i64) -> Expr<'_> {
    target.eq(target.integer(class))
}

fn is_class(target: Expr<'_>, count: i64) -> Expr<'_> {
    target.ge(target.integer(0)) & target.lt(target.integer(count))
}

/// A vector as dimension `dim` of a shape.
fn along(g: &mut Expansion<'_>, vector: ValueId, of: &TensorType, dim: usize) -> Result<ValueId> {
    let shape = [&of.shape[dim..=dim], &vec![1; of.shape.len() - dim - 1][..]].concat();
    g.reshape(vector, &shape)
}
