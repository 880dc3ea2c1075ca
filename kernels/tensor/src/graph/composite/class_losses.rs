//! Losses of class scores `[C]` or `[N, C, ..]` and target classes.
//!
//! The score of the target is the sum over the classes of the scores that an elementwise comparison leaves: one reduction, which reads the
//! scores once.

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
    let [logits, target] = [g.operands()[0], g.operands()[1]];
    let over = [("dim", extents(&[loss.dim])), ("keepdim", Attribute::Bool(true)), ("dtype", named(loss.compute()))];
    let normalizer = g.op("logsumexp", &[logits], &over)?;
    let losses = g.map([normalizer, logits], loss.compute(), |[normalizer, logit]| normalizer - logit)?;
    if g.dtype(target).is_float() {
        return loss.of_probabilities(g, losses, smoothing);
    }
    loss.of_classes(g, losses, smoothing)
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

    /// The loss of classes with these losses, if a class other than the target has the probability `smoothing` divided by their number.
    fn of_classes(self, g: &mut Expansion<'_>, losses: ValueId, smoothing: f64) -> Result<Vec<ValueId>> {
        let target = g.operands()[1];
        let ignored = g.attributes.int("ignore_index")?.unwrap_or(-100);
        if !g.dtype(target).is_integer() {
            return Err(g.error("inputs[1]", "integers, the indices of classes", g.dtype(target)));
        }
        g.expect_shape(1, &self.rows())?;
        let count = self.scores.shape[self.dim];
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
        let last = i64::try_from(count).unwrap_or(i64::MAX);
        let rows = g.map([target, sums], compute, |[target, sum]| {
            // A target that is no class has no loss: NaN shows the mistake.
            let target = target.cast(Dtype::I64);
            let is_class = target.ge(target.integer(0)) & target.lt(target.integer(last));
            is(target, ignored).select(sum.number(0.0), is_class.select(sum, sum.number(f64::NAN)))
        })?;
        if self.reduction != Reduction::Mean {
            return Ok(vec![self.reduction.apply(g, rows, self.scores.dtype)?]);
        }
        let weights = self.weights(g, [target_column, classes], ignored)?;
        let total = g.op("sum", &[rows], &[])?;
        let weight = g.op("sum", &[weights], &[])?;
        Ok(vec![g.map([total, weight], self.scores.dtype, |[total, weight]| total / weight)?])
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
        let count = self.scores.shape[self.dim];
        // Half the bytes of i64, which the reduction reads for every score.
        let dtype = if i32::try_from(count).is_ok() { Dtype::I32 } else { Dtype::I64 };
        let end = Attribute::Int(i64::try_from(count).unwrap_or(i64::MAX));
        let classes = g.op("arange", &[], &[("end", end), ("dtype", named(dtype))])?;
        let classes = along(g, classes, &self.scores, self.dim)?;
        let dim = Attribute::Int(i64::try_from(self.dim).unwrap_or(i64::MAX));
        Ok([g.op("unsqueeze", &[g.operands()[1]], &[("dim", dim)])?, classes])
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

/// A vector as dimension `dim` of a shape.
fn along(g: &mut Expansion<'_>, vector: ValueId, of: &TensorType, dim: usize) -> Result<ValueId> {
    let shape = [&of.shape[dim..=dim], &vec![1; of.shape.len() - dim - 1][..]].concat();
    g.reshape(vector, &shape)
}
