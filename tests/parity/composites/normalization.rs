//! Normalisation of channels, statistics of two results, and vectors of unit length.

use accelerd_kernels::Backend;
use accelerd_parity::random;
use accelerd_tensor::{Attribute, Dtype};
use rand::rngs::StdRng;

use super::{Values, expect, float};

/// Samples, channels, and the other extents.
const SHAPES: [[usize; 4]; 3] = [[3, 6, 5, 7], [2, 12, 33, 40], [1, 2, 1, 1025]];

pub(super) fn check(backend: &mut Backend, dtype: Dtype) -> Result<(), String> {
    for (seed, shape) in SHAPES.into_iter().enumerate() {
        let mut random = random(seed as u64);
        let x = Values::between(dtype, &shape, &mut random, [-1.0, 3.0]);
        channels(backend, &x, &mut random)?;
        pairs(backend, &x)?;
        vectors(backend, &x, &mut random)?;
    }
    Ok(())
}

/// Mean and biased variance of some elements.
fn moments(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count;
    (mean, values.map(|x| (x - mean).powi(2)).sum::<f64>() / count)
}

/// The elements less the mean of their group, divided by its deviation, with weight and bias of their channel. `group` numbers the group
/// of a sample and channel.
fn normalized(x: &Values, eps: f64, affine: Option<[&Values; 2]>, group: impl Fn(usize, usize) -> usize) -> Vec<f64> {
    let channels = x.of.shape[1];
    let inner = x.of.shape[2] * x.of.shape[3];
    let place = |nth: usize| (nth / inner / channels, nth / inner % channels);
    let group_of = |nth: usize| group(place(nth).0, place(nth).1);
    let groups = (0..x.elements.len()).map(group_of).max().unwrap_or(0) + 1;
    let of = |wanted: usize| {
        moments((0..x.elements.len()).filter(|nth| group_of(*nth) == wanted).map(|nth| x.elements[nth]))
    };
    let statistics: Vec<_> = (0..groups).map(of).collect();
    let one = |nth: usize| {
        let (mean, var) = statistics[group_of(nth)];
        let y = (x.elements[nth] - mean) / (var + eps).sqrt();
        affine.map_or(y, |[weight, bias]| y * weight.elements[place(nth).1] + bias.elements[place(nth).1])
    };
    (0..x.elements.len()).map(one).collect()
}

fn channels(backend: &mut Backend, x: &Values, random: &mut StdRng) -> Result<(), String> {
    let dtype = x.of.dtype;
    let channels = x.of.shape[1];
    let mut vector = |bounds| Values::between(dtype, &[channels], random, bounds);
    let weight = vector([0.5, 2.0]);
    let bias = vector([-1.0, 1.0]);
    let mean = vector([-1.0, 1.0]);
    let var = vector([0.5, 3.0]);
    let affine = Some([&weight, &bias]);
    let by_groups = |_: usize, channel: usize| channel / (channels / 2);
    let groups = [("num_groups", Attribute::Int(2)), ("eps", float(0.1))];
    let of_group = |sample: usize, channel: usize| sample * 2 + by_groups(sample, channel);
    expect(backend, "group_norm", &[x, &weight, &bias], &groups, &[normalized(x, 0.1, affine, of_group)])?;
    expect(backend, "group_norm", &[x], &groups, &[normalized(x, 0.1, None, of_group)])?;
    let of_instance = |sample: usize, channel: usize| sample * channels + channel;
    expect(backend, "instance_norm", &[x, &weight, &bias], &[], &[normalized(x, 1e-5, affine, of_instance)])?;
    let of_channel = |_: usize, channel: usize| channel;
    let training = ("training", Attribute::Bool(true));
    let without = [training.clone(), ("track_running_stats", Attribute::Bool(false))];
    expect(backend, "batch_norm", &[x, &weight, &bias], &without, &[normalized(x, 1e-5, affine, of_channel)])?;

    let inner = x.of.shape[2] * x.of.shape[3];
    let channel = |nth: usize| nth / inner % channels;
    let fixed = |nth: usize| {
        let y = (x.elements[nth] - mean.elements[channel(nth)]) / (var.elements[channel(nth)] + 1e-3).sqrt();
        y * weight.elements[channel(nth)] + bias.elements[channel(nth)]
    };
    let fixed = (0..x.elements.len()).map(fixed).collect();
    expect(backend, "batch_norm", &[x, &mean, &var, &weight, &bias], &[("eps", float(1e-3))], &[fixed])?;

    let count = (x.elements.len() / channels) as f64;
    let of =
        |wanted: usize| moments((0..x.elements.len()).filter(|nth| channel(*nth) == wanted).map(|nth| x.elements[nth]));
    let batch: Vec<_> = (0..channels).map(of).collect();
    let moved = |running: &Values, batch: Vec<f64>| {
        running.elements.iter().zip(batch).map(|(old, new)| 0.75 * old + 0.25 * new).collect::<Vec<_>>()
    };
    let new_mean = moved(&mean, batch.iter().map(|(mean, _)| *mean).collect());
    let new_var = moved(&var, batch.iter().map(|(_, var)| var * count / (count - 1.0)).collect());
    let expected = [normalized(x, 1e-5, None, of_channel), new_mean, new_var];
    expect(backend, "batch_norm", &[x, &mean, &var], &[training, ("momentum", float(0.25))], &expected)
}

fn pairs(backend: &mut Backend, x: &Values) -> Result<(), String> {
    let columns = x.of.shape[3];
    let rows: Vec<_> = x.elements.chunks(columns).map(|row| moments(row.iter().copied())).collect();
    let means: Vec<_> = rows.iter().map(|(mean, _)| *mean).collect();
    let unbiased = columns as f64 / (columns as f64 - 1.0);
    let vars: Vec<_> = rows.iter().map(|(_, var)| var * unbiased).collect();
    let stds = rows.iter().map(|(_, var)| var.sqrt()).collect();
    let dim = ("dim", Attribute::Int(-1));
    expect(backend, "var_mean", &[x], std::slice::from_ref(&dim), &[vars, means.clone()])?;
    expect(backend, "std_mean", &[x], &[dim, ("correction", Attribute::Int(0))], &[stds, means])
}

fn vectors(backend: &mut Backend, x: &Values, random: &mut StdRng) -> Result<(), String> {
    let columns = x.of.shape[3];
    let last = ("dim", Attribute::Int(3));
    for p in [0.0, 1.0, 2.0, 3.0, f64::INFINITY, f64::NEG_INFINITY] {
        let norm = |row: &[f64]| match p {
            _ if p == 0.0 => row.iter().filter(|x| **x != 0.0).count() as f64,
            _ if p == f64::INFINITY => row.iter().fold(0.0, |maximum: f64, x| maximum.max(x.abs())),
            _ if p == f64::NEG_INFINITY => row.iter().fold(f64::INFINITY, |minimum: f64, x| minimum.min(x.abs())),
            _ => row.iter().map(|x| x.abs().powf(p)).sum::<f64>().powf(p.recip()),
        };
        let unit = |row: &[f64]| {
            let length = norm(row).max(0.125);
            row.iter().map(|x| x / length).collect::<Vec<_>>()
        };
        let expected = x.elements.chunks(columns).flat_map(unit).collect();
        let attributes = [("p", float(p)), ("eps", float(0.125)), last.clone()];
        expect(backend, "normalize", &[x], &attributes, &[expected])?;
    }
    let other = Values::between(x.of.dtype, &[columns], random, [-2.0, 2.0]);
    let length = |row: &[f64]| row.iter().map(|x| x * x).sum::<f64>().sqrt().max(1e-8);
    let cosine = |row: &[f64]| {
        let product: f64 = row.iter().zip(&other.elements).map(|(a, b)| a * b).sum();
        product / length(row) / length(&other.elements)
    };
    let expected = x.elements.chunks(columns).map(cosine).collect();
    expect(backend, "cosine_similarity", &[x, &other], &[last], &[expected])
}
