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
                    input: whole(Location::Input(0), dtype, &shape),
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
                let (weight, bias) = (factor(has_weight), factor(has_bias));
                let step = NormStep {
                    input: whole(Location::Input(0), dtype, &shape),
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
