//! Losses.

use accelerd_kernels::Backend;
use accelerd_parity::random;
use accelerd_tensor::{Attribute, Dtype};
use rand::{Rng, rngs::StdRng};

use super::{Attributes, Values, expect, float, reduced, text};

const REDUCTIONS: [&str; 3] = ["none", "mean", "sum"];

pub(super) fn check(backend: &mut Backend, dtype: Dtype) -> Result<(), String> {
    let mut random = random(11);
    for shape in [vec![33, 65], vec![7], vec![3, 0]] {
        of_elements(backend, dtype, &shape, &mut random)?;
    }
    for shape in [vec![5], vec![33, 10], vec![2, 1025], vec![3, 7, 4, 5]] {
        of_classes(backend, dtype, &shape, &mut random)?;
    }
    Ok(())
}

/// Checks the loss of each element with every reduction.
fn each(
    backend: &mut Backend,
    op: &str,
    inputs: &[&Values],
    attributes: Attributes<'_>,
    losses: &[f64],
) -> Result<(), String> {
    for reduction in REDUCTIONS {
        let attributes = [attributes, &[("reduction", text(reduction))]].concat();
        expect(backend, op, inputs, &attributes, &[reduced(losses.to_vec(), reduction)])?;
    }
    Ok(())
}

fn of_elements(backend: &mut Backend, dtype: Dtype, shape: &[usize], random: &mut StdRng) -> Result<(), String> {
    let mut values = |bounds| Values::between(dtype, shape, random, bounds);
    let x = values([-3.0, 3.0]);
    let t = values([-3.0, 3.0]);
    let probability = values([0.01, 0.99]);
    let truth = values([0.0, 1.0]);
    let logarithms = values([-4.0, 0.0]);
    let weight = values([0.5, 2.0]);
    let pos_weight = values([0.5, 2.0]);
    let pairwise = |a: &Values, b: &Values, loss: &dyn Fn(f64, f64) -> f64| -> Vec<f64> {
        a.elements.iter().zip(&b.elements).map(|(a, b)| loss(*a, *b)).collect()
    };
    let distances = |loss: &dyn Fn(f64) -> f64| pairwise(&x, &t, &|x, t| loss((x - t).abs()));
    each(backend, "mse_loss", &[&x, &t], &[], &distances(&|d| d * d))?;
    each(backend, "l1_loss", &[&x, &t], &[], &distances(&|d| d))?;
    let smooth = distances(&|d| if d < 0.5 { d * d } else { d - 0.25 });
    each(backend, "smooth_l1_loss", &[&x, &t], &[("beta", float(0.5))], &smooth)?;
    each(backend, "smooth_l1_loss", &[&x, &t], &[("beta", float(0.0))], &distances(&|d| d))?;
    let huber = distances(&|d| if d <= 1.5 { d * d / 2.0 } else { 1.5 * (d - 0.75) });
    each(backend, "huber_loss", &[&x, &t], &[("delta", float(1.5))], &huber)?;

    let entropy = |p: f64, t: f64| -(t * p.ln() + (1.0 - t) * (1.0 - p).ln());
    each(backend, "binary_cross_entropy", &[&probability, &truth], &[], &pairwise(&probability, &truth, &entropy))?;
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let of_logits = pairwise(&x, &truth, &|x, t| entropy(sigmoid(x), t));
    each(backend, "binary_cross_entropy_with_logits", &[&x, &truth], &[], &of_logits)?;
    let weighted: Vec<f64> = (0..x.elements.len())
        .map(|nth| {
            let p = sigmoid(x.elements[nth]);
            let t = truth.elements[nth];
            let loss = -(pos_weight.elements[nth] * t * p.ln() + (1.0 - t) * (1.0 - p).ln());
            loss * weight.elements[nth]
        })
        .collect();
    let inputs = [&x, &truth, &weight, &pos_weight];
    each(backend, "binary_cross_entropy_with_logits", &inputs, &[], &weighted)?;

    let divergence = pairwise(&logarithms, &truth, &|x, t| if t == 0.0 { 0.0 } else { t * (t.ln() - x) });
    each(backend, "kl_div", &[&logarithms, &truth], &[], &divergence)?;
    let batch_mean = vec![divergence.iter().sum::<f64>() / shape[0] as f64];
    expect(backend, "kl_div", &[&logarithms, &truth], &[("reduction", text("batchmean"))], &[batch_mean])?;
    let of_logarithms = pairwise(&logarithms, &x, &|x, t| t.exp() * (t - x));
    each(backend, "kl_div", &[&logarithms, &x], &[("log_target", Attribute::Bool(true))], &of_logarithms)
}

/// Scores by class: of each row, the extents without the classes.
struct Scores<'a> {
    x: &'a Values,
    classes: usize,
    inner: usize,
}

impl Scores<'_> {
    fn rows(&self) -> usize {
        self.x.elements.len() / self.classes
    }

    fn place(&self, row: usize, class: usize) -> usize {
        (row / self.inner * self.classes + class) * self.inner + row % self.inner
    }

    fn row(&self, row: usize) -> Vec<f64> {
        (0..self.classes).map(|class| self.x.elements[self.place(row, class)]).collect()
    }
}

fn log_softmax(row: &[f64]) -> Vec<f64> {
    let greatest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let normalizer = greatest + row.iter().map(|x| (x - greatest).exp()).sum::<f64>().ln();
    row.iter().map(|x| x - normalizer).collect()
}

fn of_classes(backend: &mut Backend, dtype: Dtype, shape: &[usize], random: &mut StdRng) -> Result<(), String> {
    let x = Values::between(dtype, shape, random, [-4.0, 4.0]);
    let dim = usize::from(shape.len() > 1);
    let scores = Scores { x: &x, classes: shape[dim], inner: shape[dim + 1..].iter().product() };
    let mut row_shape = shape.to_vec();
    row_shape.remove(dim);
    let weight = Values::between(dtype, &[scores.classes], random, [0.25, 2.0]);
    // One in four rows is ignored, the first one not, so that a mean exists.
    let ignored: i32 = 1;
    let target = |row: usize, random: &mut StdRng| match row {
        0 => Some(2),
        _ if random.random_ratio(1, 4) => None,
        _ => Some(random.random_range(2..scores.classes)),
    };
    let targets: Vec<_> = (0..scores.rows()).map(|row| target(row, random)).collect();
    let indices = targets.iter().map(|target| target.map_or(f64::from(ignored), |class| class as f64));
    for (nth, target_type) in [Dtype::I64, Dtype::U8, Dtype::I32].into_iter().enumerate() {
        if scores.classes > 256 && target_type == Dtype::U8 {
            continue;
        }
        let target = Values::new(target_type, &row_shape, indices.clone());
        let weights = [None, Some(&weight), Some(&weight)][nth];
        let smoothing = [0.0, 0.0, 0.1][nth];
        let ignore = ("ignore_index", Attribute::Int(ignored.into()));
        let inputs: Vec<_> = [&x, &target].into_iter().chain(weights).collect();
        let smooth = [ignore.clone(), ("label_smoothing", float(smoothing))];
        for reduction in REDUCTIONS {
            let reduction = ("reduction", text(reduction));
            let of = |losses: &dyn Fn(&[f64]) -> Vec<f64>, smoothing: f64| {
                indexed(&scores, &targets, weights, smoothing, losses, &reduction.1)
            };
            let attributes = [&smooth[..], std::slice::from_ref(&reduction)].concat();
            expect(backend, "cross_entropy", &inputs, &attributes, &[of(&log_softmax, smoothing)])?;
            let attributes = [ignore.clone(), reduction.clone()];
            expect(backend, "nll_loss", &inputs, &attributes, &[of(&<[f64]>::to_vec, 0.0)])?;
        }
    }
    no_class(backend, &x, &row_shape)?;
    of_probabilities(backend, &scores, &weight, random)
}

/// The losses of target classes, `None` where the target is ignored, reduced as PyTorch does.
fn indexed(
    scores: &Scores<'_>,
    targets: &[Option<usize>],
    weight: Option<&Values>,
    smoothing: f64,
    logarithms: &dyn Fn(&[f64]) -> Vec<f64>,
    reduction: &Attribute,
) -> Vec<f64> {
    let weight_of = |class: usize| weight.map_or(1.0, |weight| weight.elements[class]);
    let mut total_weight = 0.0;
    let mut losses = vec![];
    for (row, target) in targets.iter().enumerate() {
        let Some(class) = *target else {
            losses.push(0.0);
            continue;
        };
        let of = logarithms(&scores.row(row));
        let all: f64 = (0..scores.classes).map(|class| -of[class] * weight_of(class)).sum();
        let share = smoothing / scores.classes as f64;
        losses.push((1.0 - smoothing) * -of[class] * weight_of(class) + share * all);
        total_weight += weight_of(class);
    }
    if *reduction == text("mean") {
        vec![losses.iter().sum::<f64>() / total_weight]
    } else {
        reduced(losses, if *reduction == text("sum") { "sum" } else { "none" })
    }
}

/// Without a target there is no mean; a target that is no class has no loss.
fn no_class(backend: &mut Backend, x: &Values, row_shape: &[usize]) -> Result<(), String> {
    let rows = row_shape.iter().product();
    let none = Values::new(Dtype::I64, row_shape, vec![-100.0; rows]);
    expect(backend, "cross_entropy", &[x, &none], &[], &[vec![f64::NAN]])?;
    let outside = Values::new(Dtype::I64, row_shape, vec![1e6; rows]);
    let each = [("reduction", text("none"))];
    expect(backend, "cross_entropy", &[x, &outside], &each, &[vec![f64::NAN; rows]])?;
    expect(backend, "nll_loss", &[x, &outside], &[], &[vec![f64::NAN]])
}

fn of_probabilities(
    backend: &mut Backend,
    scores: &Scores<'_>,
    weight: &Values,
    random: &mut StdRng,
) -> Result<(), String> {
    let target = Values::between(scores.x.of.dtype, &scores.x.of.shape, random, [0.0, 1.0]);
    let loss = |row: usize| {
        let of = log_softmax(&scores.row(row));
        let one = |class: usize| {
            let smoothed = target.elements[scores.place(row, class)] * 0.8 + 0.2 / scores.classes as f64;
            -of[class] * smoothed * weight.elements[class]
        };
        (0..scores.classes).map(one).sum()
    };
    let losses: Vec<f64> = (0..scores.rows()).map(loss).collect();
    each(backend, "cross_entropy", &[scores.x, &target, weight], &[("label_smoothing", float(0.2))], &losses)
}
