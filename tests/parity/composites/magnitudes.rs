//! The errors of composites over magnitudes from 1e-30 to 1e30, against f64: a table of what each one holds. The numbers of 16-bit types
//! have the magnitudes that their type has.

use accelerd_kernels::Backend;
use accelerd_parity::random;
use accelerd_tensor::{Attribute, Dtype, scalar::Literal};
use rand::{Rng, rngs::StdRng};

use super::{Attributes, Values, float, run, text};

const ROWS: usize = 5;
const COLUMNS: usize = 33;

/// Operands of rows.
#[derive(Clone, Copy)]
enum Operand {
    /// Numbers between bounds, times the magnitude.
    Scaled(f64, f64),
    /// Numbers between bounds.
    Plain(f64, f64),
    /// Numbers below the magnitude, if it is at most 1.
    Probability,
    /// One class for each row.
    Class,
}
use Operand::{Class, Plain, Probability, Scaled};

/// The expected results of a row: each with the magnitude of the terms that it is the sum of.
type Oracle = fn(&[&[f64]]) -> Vec<[f64; 2]>;

/// A composite, and the largest error of its results: `relative` times the result and `absolute` times its terms, in units of the last place
/// of 1.
#[derive(Clone, Copy)]
struct Composite {
    op: &'static str,
    attributes: &'static [(&'static str, Value)],
    operands: &'static [Operand],
    oracle: Oracle,
    relative: f64,
    absolute: f64,
    /// The extents of the rows of its operands; the last one is a row's.
    shape: &'static [usize],
}

#[derive(Clone, Copy)]
enum Value {
    Float(f64),
    Int(i64),
    Bool(bool),
    Text(&'static str),
}

const fn composite(op: &'static str, operands: &'static [Operand], oracle: Oracle, errors: [f64; 2]) -> Composite {
    let [relative, absolute] = errors;
    Composite { op, attributes: &[], operands, oracle, relative, absolute, shape: &[ROWS, COLUMNS] }
}

const fn with(attributes: &'static [(&'static str, Value)], composite: Composite) -> Composite {
    Composite { attributes, ..composite }
}

const fn of_images(composite: Composite) -> Composite {
    Composite { shape: &[1, ROWS, COLUMNS], ..composite }
}

const X: &[Operand] = &[Scaled(-4.0, 4.0)];
const PAIR: &[Operand] = &[Scaled(-4.0, 4.0), Scaled(-4.0, 4.0)];
const LAST: (&str, Value) = ("dim", Value::Int(-1));
const NONE: (&str, Value) = ("reduction", Value::Text("none"));
const SCORES: &[Operand] = &[Scaled(-4.0, 4.0), Class];
const OF_PROBABILITIES: &[Operand] = &[Scaled(-4.0, 4.0), Plain(0.0, 1.0)];

const LAYER_NORM: Composite = composite("layer_norm", X, |x| normalized(x[0], 1e-5), [16.0, 8.0]);
const RMS_NORM: Composite =
    with(&[("eps", Value::Float(1e-5))], composite("rms_norm", X, |x| rms(x[0], 1e-5), [16.0, 0.0]));

const TABLE: &[Composite] = &[
    // Elementwise.
    composite("sigmoid", X, |x| each(x, |x| [sigmoid(x), 0.0]), [128.0, 0.0]),
    composite("silu", X, |x| each(x, |x| [x * sigmoid(x), 0.0]), [128.0, 0.0]),
    composite("softplus", X, |x| each(x, |x| [if x > 20.0 { x } else { softplus(x) }, 0.0]), [128.0, 0.0]),
    composite("gelu", X, |x| each(x, |x| [x * 0.5 * erfc(-x / 2f64.sqrt()), x]), [4.0, 2.0]),
    with(&[("approximate", Value::Text("tanh"))], composite("gelu", X, |x| each(x, gelu_tanh), [4.0, 4.0])),
    composite("elu", X, |x| each(x, |x| [if x > 0.0 { x } else { x.exp_m1() }, 0.0]), [4.0, 0.0]),
    composite("softsign", X, |x| each(x, |x| [x / (1.0 + x.abs()), 0.0]), [4.0, 0.0]),
    composite("logit", &[Probability], |x| each(x, |x| [(x / (1.0 - x)).ln(), 1.0]), [4.0, 4.0]),
    composite("hypot", PAIR, |x| pairs(x, |a, b| [a.hypot(b), 0.0]), [4.0, 0.0]),
    composite(
        "logaddexp",
        PAIR,
        |x| pairs(x, |a, b| [a.max(b) + (-(a - b).abs()).exp().ln_1p(), a.max(b)]),
        [4.0, 2.0],
    ),
    // Reductions.
    with(&[LAST], composite("mean", X, |x| vec![mean(x[0])], [4.0, 4.0])),
    with(&[LAST], composite("norm", X, |x| vec![[norm(x[0]), 0.0]], [4.0, 0.0])),
    with(&[LAST], composite("var", X, |x| vec![[variance(x[0], 1.0), 0.0]], [16.0, 0.0])),
    with(&[LAST], composite("std", X, |x| vec![[variance(x[0], 1.0).sqrt(), 0.0]], [16.0, 0.0])),
    with(&[LAST], composite("logsumexp", X, |x| vec![[greatest(x[0]) + log_sum(x[0]), greatest(x[0])]], [4.0, 4.0])),
    // Rows.
    with(&[LAST], composite("softmax", X, |x| softmax(x[0], f64::exp), [128.0, 0.0])),
    with(&[LAST], composite("log_softmax", X, |x| softmax(x[0], |log| log), [4.0, 4.0])),
    LAYER_NORM,
    RMS_NORM,
    // Channels.
    with(
        &[("num_groups", Value::Int(5))],
        of_images(composite("group_norm", X, |x| normalized(x[0], 1e-5), [16.0, 8.0])),
    ),
    of_images(composite("instance_norm", X, |x| normalized(x[0], 1e-5), [16.0, 8.0])),
    with(
        &[("training", Value::Bool(true)), ("track_running_stats", Value::Bool(false))],
        of_images(composite("batch_norm", X, |x| normalized(x[0], 1e-5), [16.0, 8.0])),
    ),
    // Vectors.
    with(&[LAST], composite("normalize", X, |x| divided(x[0], norm(x[0])), [4.0, 0.0])),
    with(
        &[LAST, ("p", Value::Float(1.0))],
        composite("normalize", X, |x| divided(x[0], p_norm(x[0], 1.0)), [4.0, 0.0]),
    ),
    with(
        &[LAST, ("p", Value::Float(3.0))],
        composite("normalize", X, |x| divided(x[0], p_norm(x[0], 3.0)), [16.0, 0.0]),
    ),
    with(
        &[LAST, ("p", Value::Float(-2.5))],
        composite("normalize", X, |x| divided(x[0], p_norm(x[0], -2.5)), [64.0, 0.0]),
    ),
    with(&[LAST], composite("cosine_similarity", PAIR, |x| vec![cosine(x[0], x[1])], [4.0, 4.0])),
    // Losses.
    with(&[NONE], composite("mse_loss", PAIR, |x| pairs(x, |a, b| [(a - b) * (a - b), 0.0]), [4.0, 0.0])),
    with(&[NONE], composite("l1_loss", PAIR, |x| pairs(x, |a, b| [(a - b).abs(), 0.0]), [4.0, 0.0])),
    with(&[NONE], composite("smooth_l1_loss", PAIR, |x| pairs(x, |a, b| smooth(a - b, 1.0)), [4.0, 0.0])),
    with(
        &[NONE, ("beta", Value::Float(1e-25))],
        composite("smooth_l1_loss", PAIR, |x| pairs(x, |a, b| smooth(a - b, 1e-25)), [4.0, 0.0]),
    ),
    with(
        &[NONE, ("delta", Value::Float(2.0))],
        composite("huber_loss", PAIR, |x| pairs(x, |a, b| [2.0 * smooth(a - b, 2.0)[0], 0.0]), [4.0, 0.0]),
    ),
    with(&[NONE], composite("kl_div", &[Scaled(-4.0, 0.0), Plain(0.0, 1.0)], |x| pairs(x, divergence), [4.0, 4.0])),
    with(
        &[NONE],
        composite("binary_cross_entropy", &[Probability, Plain(0.0, 1.0)], |x| pairs(x, entropy), [8.0, 0.0]),
    ),
    with(
        &[NONE],
        composite(
            "binary_cross_entropy_with_logits",
            &[Scaled(-4.0, 4.0), Plain(0.0, 1.0)],
            |x| pairs(x, |x, t| [(1.0 - t) * softplus(x) + t * softplus(-x), 0.0]),
            [128.0, 0.0],
        ),
    ),
    with(&[NONE], composite("cross_entropy", SCORES, |x| vec![[cross_entropy(x[0], x[1][0], 0.0), 0.0]], [128.0, 0.0])),
    with(
        &[NONE, ("label_smoothing", Value::Float(0.125))],
        composite("cross_entropy", SCORES, |x| vec![[cross_entropy(x[0], x[1][0], 0.125), 0.0]], [128.0, 0.0]),
    ),
    with(
        &[NONE],
        composite("cross_entropy", OF_PROBABILITIES, |x| vec![[of_probabilities(x[0], x[1]), 0.0]], [128.0, 0.0]),
    ),
];

pub(super) fn check(backend: &mut Backend, dtype: Dtype) -> Result<(), String> {
    let mut wrong = vec![];
    for composite in TABLE {
        for (seed, magnitude) in (0..).zip(magnitudes(dtype)) {
            let is_probability = composite.operands.iter().any(|of| matches!(of, Probability));
            if !(is_probability && *magnitude > 1.0) {
                wrong.extend(errors(backend, dtype, composite, *magnitude, seed)?);
            }
        }
    }
    wrong.extend(long_norms(backend, dtype)?);
    known_losses(backend, dtype)?;
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Norms of rows that a GPU reads twice: few, each by many blocks, and many, each by one block.
fn long_norms(backend: &mut Backend, dtype: Dtype) -> Result<Vec<String>, String> {
    let magnitude = magnitudes(dtype).last().copied().unwrap_or(1.0);
    let mut wrong = vec![];
    for shape in [&[2, 40_000], &[130, 33_000]] {
        for norm in [LAYER_NORM, RMS_NORM] {
            wrong.extend(errors(backend, dtype, &Composite { shape, ..norm }, magnitude, 0)?);
        }
    }
    Ok(wrong)
}

/// Magnitudes whose multiples by 4 the type has.
fn magnitudes(dtype: Dtype) -> &'static [f64] {
    if dtype == Dtype::F16 {
        return &[1e-4, 1e-2, 1.0, 1e2, 1e4];
    }
    &[1e-30, 1e-25, 1e-20, 1e-15, 1e-10, 1e-5, 1e-2, 1.0, 10.0, 1e5, 1e10, 1e15, 1e20, 1e25, 1e30]
}

/// The results of a composite at a magnitude whose error is too large.
fn errors(
    backend: &mut Backend,
    dtype: Dtype,
    composite: &Composite,
    magnitude: f64,
    seed: u64,
) -> Result<Option<String>, String> {
    let mut random = random(seed);
    let operands: Vec<_> =
        composite.operands.iter().map(|of| operand(dtype, *of, magnitude, composite.shape, &mut random)).collect();
    let attribute = |(name, value): &(&'static str, Value)| {
        let value = match *value {
            Value::Float(value) => float(value),
            Value::Int(value) => Attribute::Int(value),
            Value::Bool(value) => Attribute::Bool(value),
            Value::Text(value) => text(value),
        };
        (*name, value)
    };
    let attributes: Vec<_> = composite.attributes.iter().map(attribute).collect();
    let attributes: Attributes<'_> = &attributes;
    let inputs: Vec<_> = operands.iter().collect();
    let (_, results) = run(backend, composite.op, &inputs, attributes, 1)?;
    let count = row_count(composite.shape);
    let rows = |row: usize| -> Vec<&[f64]> {
        operands.iter().map(|of| &of.elements[row * of.elements.len() / count..][..of.elements.len() / count]).collect()
    };
    let expected: Vec<_> = (0..count).flat_map(|row| (composite.oracle)(&rows(row))).collect();
    if results[0].len() != expected.len() {
        return Err(format!("{}: {} results, expected {}", composite.op, results[0].len(), expected.len()));
    }
    let wrong = results[0].iter().zip(&expected).position(|(got, want)| !is_close(dtype, *got, *want, composite));
    Ok(wrong.map(|nth| {
        let ([want, terms], got) = (expected[nth], results[0][nth]);
        let units = (got - want).abs() / unit(dtype) / want.abs().max(f64::MIN_POSITIVE);
        format!(
            "{} {attributes:?} at {magnitude:e}: expected {want:e} of terms {terms:e}, got {got:e}, {units:.1} units",
            composite.op
        )
    }))
}

fn is_close(dtype: Dtype, got: f64, [want, terms]: [f64; 2], composite: &Composite) -> bool {
    let rounded = |value: f64| Literal::from_f64(dtype, value).as_f64();
    // The oracle has rounding errors of f64 as well.
    let slack = if dtype == Dtype::F64 { 8.0 } else { 1.0 };
    let bound = slack * unit(dtype) * (composite.relative * want.abs() + composite.absolute * terms.abs());
    // The last number before infinity may be either, and the numbers next to 0 are as far from each other as from it.
    let overflows = rounded(want.abs() + bound).is_infinite() && got.is_infinite() && got.signum() == want.signum();
    overflows || (got - want).abs() <= bound + 4.0 * smallest(dtype)
}

/// A unit in the last place of 1.
fn unit(dtype: Dtype) -> f64 {
    if dtype == Dtype::F16 {
        2f64.powi(-10)
    } else if dtype == Dtype::Bf16 {
        2f64.powi(-7)
    } else if dtype == Dtype::F32 {
        f64::from(f32::EPSILON)
    } else {
        f64::EPSILON
    }
}

/// The smallest number above 0.
fn smallest(dtype: Dtype) -> f64 {
    Literal::from_bits(dtype, 1).as_f64()
}

fn operand(dtype: Dtype, of: Operand, magnitude: f64, shape: &[usize], random: &mut StdRng) -> Values {
    match of {
        Scaled(low, high) => Values::between(dtype, shape, random, [low * magnitude, high * magnitude]),
        Plain(low, high) => Values::between(dtype, shape, random, [low, high]),
        Probability => Values::between(dtype, shape, random, [0.1 * magnitude, 0.9 * magnitude]),
        Class => {
            let count = row_count(shape);
            Values::new(Dtype::I64, &[count], (0..count).map(|_| random.random_range(0..COLUMNS) as f64))
        }
    }
}

fn row_count(shape: &[usize]) -> usize {
    shape.iter().rev().skip(1).product()
}

/// Losses whose logits are far apart, large or equal.
fn known_losses(backend: &mut Backend, dtype: Dtype) -> Result<(), String> {
    let tail = (-12_f64).exp().ln_1p();
    let cases = [
        ([1e8, 1e8], 2f64.ln()),
        ([30_000.0, 29_990.0], (-10_f64).exp().ln_1p()),
        ([12.0, 0.0], tail),
        ([0.0, 12.0], 12.0 + tail),
        ([-1e30, -1e30], 2f64.ln()),
        ([0.0, f64::NEG_INFINITY], 0.0),
        ([f64::NEG_INFINITY, 0.0], f64::INFINITY),
        ([f64::NEG_INFINITY, f64::NEG_INFINITY], f64::NAN),
        ([f64::INFINITY, 0.0], f64::NAN),
        ([0.0, f64::NAN], f64::NAN),
    ];
    let first = Values::new(Dtype::I64, &[1], [0.0]);
    for (scores, want) in cases {
        let held = Values::new(dtype, &[1, 2], scores);
        // What the type does not hold is another case.
        if scores.iter().zip(&held.elements).any(|(score, held)| score.is_finite() && held.is_infinite()) {
            continue;
        }
        let distance = held.elements[1] - held.elements[0];
        let want = if want.is_finite() && distance.is_finite() { softplus(distance) } else { want };
        let (_, results) = run(backend, "cross_entropy", &[&held, &first], &[], 1)?;
        let got = results[0][0];
        let is_close = (got - want).abs() <= 8.0 * unit(dtype) * want.abs() + smallest(dtype);
        if !is_close && got.total_cmp(&want).is_ne() && !(got.is_nan() && want.is_nan()) {
            return Err(format!("cross_entropy of {:?}: expected {want:e}, got {got:e}", held.elements));
        }
    }
    Ok(())
}

fn each(rows: &[&[f64]], function: fn(f64) -> [f64; 2]) -> Vec<[f64; 2]> {
    rows[0].iter().map(|x| function(*x)).collect()
}

fn pairs(rows: &[&[f64]], function: fn(f64, f64) -> [f64; 2]) -> Vec<[f64; 2]> {
    rows[0].iter().zip(rows[1]).map(|(a, b)| function(*a, *b)).collect()
}

fn sigmoid(x: f64) -> f64 {
    if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }
}

/// log(1 + exp(x)).
fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

fn gelu_tanh(x: f64) -> [f64; 2] {
    let doubled = ((x + 0.044_715 * x * x * x) * (2.0 / std::f64::consts::PI).sqrt()).tanh() + 1.0;
    [x * 0.5 * doubled, x]
}

/// The complementary error function: a series near 0, and a continued fraction elsewhere.
fn erfc(x: f64) -> f64 {
    let magnitude = x.abs();
    let of_magnitude = if magnitude < 1.0 {
        let mut term = magnitude;
        let mut sum = magnitude;
        for n in 1..60 {
            term *= -magnitude * magnitude / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        1.0 - sum * std::f64::consts::FRAC_2_SQRT_PI
    } else {
        let fraction = (1..200).rev().fold(magnitude, |below, n| magnitude + f64::from(n) / 2.0 / below);
        (-magnitude * magnitude).exp() / std::f64::consts::PI.sqrt() / fraction
    };
    if x < 0.0 { 2.0 - of_magnitude } else { of_magnitude }
}

fn greatest(row: &[f64]) -> f64 {
    row.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

fn log_sum(row: &[f64]) -> f64 {
    row.iter().map(|x| (x - greatest(row)).exp()).sum::<f64>().ln()
}

fn mean(row: &[f64]) -> [f64; 2] {
    let count = row.len() as f64;
    [row.iter().sum::<f64>() / count, row.iter().map(|x| x.abs()).sum::<f64>() / count]
}

fn norm(row: &[f64]) -> f64 {
    p_norm(row, 2.0)
}

fn p_norm(row: &[f64], p: f64) -> f64 {
    let unit = row.iter().map(|x| x.abs()).fold(0.0, f64::max);
    row.iter().map(|x| (x.abs() / unit).powf(p)).sum::<f64>().powf(1.0 / p) * unit
}

fn variance(row: &[f64], correction: f64) -> f64 {
    let [mean, _] = mean(row);
    row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (row.len() as f64 - correction)
}

/// A function of the logarithms of softmax. The terms of a logarithm are at least 1: that of a sum near 1 has the error of the sum.
fn softmax(row: &[f64], of: fn(f64) -> f64) -> Vec<[f64; 2]> {
    row.iter().map(|x| x - greatest(row) - log_sum(row)).map(|log| [of(log), 1.0]).collect()
}

fn normalized(row: &[f64], eps: f64) -> Vec<[f64; 2]> {
    let [mean, magnitude] = mean(row);
    let deviation = (variance(row, 0.0) + eps).sqrt();
    row.iter().map(|x| [(x - mean) / deviation, magnitude / deviation]).collect()
}

fn rms(row: &[f64], eps: f64) -> Vec<[f64; 2]> {
    let square = row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64;
    row.iter().map(|x| [x / (square + eps).sqrt(), 0.0]).collect()
}

fn divided(row: &[f64], norm: f64) -> Vec<[f64; 2]> {
    row.iter().map(|x| [x / norm.max(1e-12), 0.0]).collect()
}

fn cosine(a: &[f64], b: &[f64]) -> [f64; 2] {
    let [length, other] = [a, b].map(|row| norm(row).max(1e-8));
    let quotient = |x: &f64, y: &f64| x / length * (y / other);
    let all = || a.iter().zip(b).map(|(x, y)| quotient(x, y));
    [all().sum(), all().map(f64::abs).sum()]
}

fn smooth(difference: f64, beta: f64) -> [f64; 2] {
    let distance = difference.abs();
    [if distance < beta { 0.5 * distance * (distance / beta) } else { distance - 0.5 * beta }, 0.0]
}

fn divergence(x: f64, t: f64) -> [f64; 2] {
    let entropy = if t == 0.0 { 0.0 } else { t * t.ln() };
    [entropy - t * x, entropy.abs() + (t * x).abs()]
}

fn entropy(x: f64, t: f64) -> [f64; 2] {
    [(t - 1.0) * (-x).ln_1p().max(-100.0) - t * x.ln().max(-100.0), 0.0]
}

/// The loss of each class: that of the greatest score by the sum of the others, so that it has all its digits.
fn class_losses(row: &[f64]) -> Vec<f64> {
    let first = row.iter().position(|x| x.total_cmp(&greatest(row)).is_eq()).unwrap_or(0);
    let others = row.iter().enumerate().filter(|(nth, _)| *nth != first);
    let least = others.map(|(_, x)| (x - row[first]).exp()).sum::<f64>().ln_1p();
    row.iter().map(|x| least + (row[first] - x)).collect()
}

fn cross_entropy(row: &[f64], class: f64, smoothing: f64) -> f64 {
    let losses = class_losses(row);
    let share = smoothing / row.len() as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a class is a small index")]
    let of_class = losses[class as usize];
    (1.0 - smoothing) * of_class + share * losses.iter().sum::<f64>()
}

fn of_probabilities(row: &[f64], target: &[f64]) -> f64 {
    class_losses(row).iter().zip(target).map(|(loss, t)| loss * t).sum()
}
