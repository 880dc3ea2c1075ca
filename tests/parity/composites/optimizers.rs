//! Updates of parameters: several steps of PyTorch's algorithms.

use accelerd_kernels::Backend;
use accelerd_parity::random;
use accelerd_tensor::{Attribute, Dtype};

use super::{Values, expect, float};

const SHAPE: [usize; 2] = [33, 65];

pub(super) fn check(backend: &mut Backend, dtype: Dtype) -> Result<(), String> {
    let mut random = random(23);
    let param = Values::between(dtype, &SHAPE, &mut random, [-1.0, 1.0]);
    let gradient = Values::between(dtype, &SHAPE, &mut random, [-1.0, 1.0]);
    let average = Values::between(dtype, &SHAPE, &mut random, [-1.0, 1.0]);
    // States in a wider type than the parameter are usual.
    let wide = if dtype == Dtype::F64 { Dtype::F64 } else { Dtype::F32 };
    let squares = Values::between(wide, &SHAPE, &mut random, [0.25, 2.0]);
    let largest = Values::between(wide, &SHAPE, &mut random, [0.25, 2.0]);
    sgd(backend, &param, &gradient, &average)?;
    for amsgrad in [false, true] {
        for decoupled in [false, true] {
            let states = [&average, &squares, &largest];
            adam(backend, &param, &gradient, states, amsgrad, decoupled)?;
        }
    }
    Ok(())
}

fn scalar(dtype: Dtype, value: f64) -> Values {
    Values::new(dtype, &[], [value])
}

fn each<const N: usize>(inputs: [&Values; N], update: impl Fn([f64; N]) -> Vec<f64>) -> Vec<Vec<f64>> {
    let rows: Vec<_> =
        (0..inputs[0].elements.len()).map(|nth| update(inputs.map(|input| input.elements[nth]))).collect();
    (0..rows[0].len()).map(|result| rows.iter().map(|row| row[result]).collect()).collect()
}

fn sgd(backend: &mut Backend, param: &Values, gradient: &Values, buffer: &Values) -> Result<(), String> {
    let decay = ("weight_decay", float(0.1));
    let plain = each([param, gradient], |[p, g]| vec![p - 0.001 * g]);
    expect(backend, "sgd", &[param, gradient], &[], &plain)?;
    let rate = scalar(Dtype::F32, 0.5);
    let raised = each([param, gradient], |[p, g]| vec![p - 0.5 * (-g + 0.1 * p)]);
    expect(backend, "sgd", &[param, gradient, &rate], &[decay.clone(), ("maximize", Attribute::Bool(true))], &raised)?;

    let first = each([param, gradient], |[p, g]| vec![p - 0.25 * (g + 0.1 * p), g + 0.1 * p]);
    let momentum = [("lr", float(0.25)), decay, ("momentum", float(0.75)), ("dampening", float(0.5))];
    expect(backend, "sgd", &[param, gradient], &momentum, &first)?;
    let later = each([param, gradient, buffer], |[p, g, b]| {
        let b = 0.75 * b + 0.5 * (g + 0.1 * p);
        vec![p - 0.25 * b, b]
    });
    expect(backend, "sgd", &[param, gradient, buffer], &momentum, &later)?;
    let ahead = each([param, gradient, buffer], |[p, g, b]| {
        let b = 0.75 * b + g;
        vec![p - 0.5 * (g + 0.75 * b), b]
    });
    let nesterov = [("momentum", float(0.75)), ("nesterov", Attribute::Bool(true))];
    expect(backend, "sgd", &[param, gradient, buffer, &rate], &nesterov, &ahead)
}

fn adam(
    backend: &mut Backend,
    param: &Values,
    gradient: &Values,
    [average, squares, maximum]: [&Values; 3],
    amsgrad: bool,
    decoupled: bool,
) -> Result<(), String> {
    let op = if decoupled { "adamw" } else { "adam" };
    for step in [1, 7, 100_000] {
        let update = |[p, g, m, v, maximum]: [f64; 5]| {
            let mut p = p;
            let mut g = g;
            if decoupled {
                p -= 0.25 * 0.1 * p;
            } else {
                g += 0.1 * p;
            }
            let m = 0.8 * m + 0.2 * g;
            let v = 0.95 * v + 0.05 * g * g;
            let maximum = maximum.max(v);
            let spread = if amsgrad { maximum } else { v };
            let divisor = (spread / (1.0 - 0.95_f64.powi(step))).sqrt() + 1e-3;
            let p = p - 0.25 / (1.0 - 0.8_f64.powi(step)) * m / divisor;
            if amsgrad { vec![p, m, v, maximum] } else { vec![p, m, v] }
        };
        let expected = each([param, gradient, average, squares, maximum], update);
        let mut inputs = vec![param, gradient, average, squares];
        inputs.extend(amsgrad.then_some(maximum));
        let common = [
            ("beta1", float(0.8)),
            ("beta2", float(0.95)),
            ("eps", float(1e-3)),
            ("weight_decay", float(0.1)),
            ("amsgrad", Attribute::Bool(amsgrad)),
        ];
        let numbers = [("lr", float(0.25)), ("step", Attribute::Int(step.into()))];
        expect(backend, op, &inputs, &[&common[..], &numbers].concat(), &expected)?;
        let scalars = [scalar(Dtype::I64, step.into()), scalar(Dtype::F32, 0.25)];
        inputs.extend(&scalars);
        expect(backend, op, &inputs, &common, &expected)?;
    }
    Ok(())
}
