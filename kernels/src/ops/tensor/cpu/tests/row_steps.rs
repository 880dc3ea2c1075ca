//! Softmax and norms.

use accelerd_tensor::{NormKind, NormStep, SoftmaxStep};

use super::*;

const FLOATS: [Dtype; 4] = [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::F64];
const SHAPES: [[usize; 2]; 8] = [[1, 1], [3, 7], [0, 5], [5, 0], [31, 33], [2, 5000], [700, 1025], [1, 300_000]];

#[test]
fn softmax_agrees_with_the_oracle() {
    for dtype in FLOATS {
        for shape in SHAPES {
            for is_log in [false, true] {
                let step = SoftmaxStep {
                    inputs: vec![whole(Location::Input(0), dtype, &shape)],
                    prologue: Function::conversion(dtype, dtype),
                    is_log,
                    output: whole(Location::Output(0), dtype, &shape),
                };
                let plan = one_step(vec![tensor(dtype, &shape)], vec![tensor(dtype, &shape)], Step::Softmax(step));
                for is_tame in [true, false] {
                    let input = numbers(dtype, shape[0] * shape[1], 8, is_tame);
                    check(&plan, &[input], 3.0, if dtype == Dtype::F64 { 1e-12 } else { 1e-7 });
                }
            }
        }
    }
}

#[test]
fn norms_agree_with_the_oracle() {
    for dtype in FLOATS {
        for shape in SHAPES {
            for (kind, has_weight, has_bias) in [
                (NormKind::Layer, true, true),
                (NormKind::Layer, false, true),
                (NormKind::Rms, true, false),
                (NormKind::Rms, false, false),
            ] {
                let mut inputs = vec![tensor(dtype, &shape)];
                let mut factor = |is_there: bool| {
                    is_there.then(|| {
                        inputs.push(tensor(dtype, &shape[1..]));
                        whole(Location::Input(inputs.len() - 1), dtype, &shape[1..])
                    })
                };
                let weight = factor(has_weight);
                let bias = factor(has_bias);
                let step = NormStep {
                    inputs: vec![whole(Location::Input(0), dtype, &shape)],
                    prologue: Function::conversion(dtype, dtype),
                    kind,
                    eps_bits: 1e-5_f64.to_bits(),
                    weight,
                    bias,
                    output: whole(Location::Output(0), dtype, &shape),
                };
                let plan = one_step(inputs, vec![tensor(dtype, &shape)], Step::Norm(step));
                let data: Vec<_> =
                    (10..).zip(&plan.inputs).map(|(seed, of)| numbers(dtype, of.elements(), seed, true)).collect();
                check(&plan, &data, 2.0, if dtype == Dtype::F64 { 1e-12 } else { 1e-7 });
            }
        }
    }
}

/// `(x + row) * value`, in the type that computes with `dtype`, and rounded to it.
fn prologue(params: [Dtype; 3], dtype: Dtype) -> Function {
    let mut builder = Builder::new(&params);
    let [x, row, value] = [0, 1, 2].map(|nth| {
        let param = builder.param(nth);
        builder.cast(param, dtype.compute())
    });
    let sum = builder.binary(BinaryOp::Add, x, row).expect("numbers of one type");
    let scaled = builder.binary(BinaryOp::Mul, sum, value).expect("numbers of one type");
    let result = builder.cast(scaled, dtype);
    builder.finish(&[result])
}

#[test]
fn functions_of_rows_a_shared_row_and_a_value_agree_with_the_oracle() {
    let params = [
        ([Dtype::F32, Dtype::F32, Dtype::F32], Dtype::F32),
        ([Dtype::Bf16, Dtype::F32, Dtype::F64], Dtype::F32),
        ([Dtype::F64, Dtype::F16, Dtype::I32], Dtype::F16),
        ([Dtype::U8, Dtype::Bf16, Dtype::Bool], Dtype::Bf16),
        ([Dtype::F32, Dtype::I64, Dtype::F64], Dtype::F64),
    ];
    for (params, dtype) in params {
        for shape in SHAPES {
            let shared = |layout: Layout| layout.broadcast(&shape).expect("rows repeat");
            let inputs = vec![
                whole(Location::Input(0), params[0], &shape),
                view(Location::Input(1), params[1], shared(Layout::contiguous(&shape[1..]))),
                view(Location::Input(2), params[2], shared(Layout::contiguous(&[]))),
            ];
            let of = [tensor(params[0], &shape), tensor(params[1], &shape[1..]), tensor(params[2], &[])];
            let output = whole(Location::Output(0), dtype, &shape);
            let prologue = prologue(params, dtype);
            let softmax = SoftmaxStep {
                inputs: inputs.clone(),
                prologue: prologue.clone(),
                is_log: false,
                output: output.clone(),
            };
            let eps_bits = 1e-5_f64.to_bits();
            let kind = NormKind::Layer;
            let weight = None;
            let bias = None;
            let norm = NormStep { inputs, prologue, kind, eps_bits, weight, bias, output };
            for step in [Step::Softmax(softmax), Step::Norm(norm)] {
                let plan = one_step(of.to_vec(), vec![tensor(dtype, &shape)], step);
                let data: Vec<_> =
                    (20..).zip(&of).map(|(seed, of)| numbers(of.dtype, of.elements(), seed, true)).collect();
                check(&plan, &data, 3.0, if dtype == Dtype::F64 { 1e-12 } else { 1e-6 });
            }
        }
    }
}
