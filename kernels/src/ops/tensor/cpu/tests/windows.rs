//! Convolutions and pooling.

use accelerd_tensor::{Accumulate, ConvStep, Divisor, PoolKind, PoolStep, PoolWindows, Windows};

use super::*;

const FLOATS: [Dtype; 4] = [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::F64];

#[derive(Clone, Copy)]
struct Conv {
    /// Batch, channels, height, width.
    input: [usize; 4],
    out_channels: usize,
    groups: usize,
    windows: Windows,
    /// Positions after the last row and column.
    after: [usize; 2],
}

fn windows(kernel: [usize; 2], stride: [usize; 2], padding: [usize; 2], dilation: [usize; 2]) -> Windows {
    Windows { kernel, stride, padding, dilation }
}

/// `x * 2` in a type of numbers.
fn double(dtype: Dtype) -> Function {
    let mut builder = Builder::new(&[dtype]);
    let param = builder.param(0);
    let value = builder.cast(param, dtype.compute());
    let value = builder.binary(BinaryOp::Add, value, value).expect("of numbers");
    let result = builder.cast(value, dtype);
    builder.finish(&[result])
}

fn conv_plan(dtype: Dtype, case: &Conv, has_bias: bool) -> Plan {
    let Conv { input: [batch, channels, height, width], out_channels, groups, windows, after } = *case;
    let extent = |axis: usize, extent: usize| {
        (extent + windows.padding[axis] + after[axis] - windows.reach(axis)) / windows.stride[axis] + 1
    };
    let output = [batch, out_channels, extent(0, height), extent(1, width)];
    let weight = [out_channels, channels / groups, windows.kernel[0], windows.kernel[1]];
    let mut inputs = vec![tensor(dtype, &case.input), tensor(dtype, &weight)];
    let bias = has_bias.then(|| {
        inputs.push(tensor(dtype, &[out_channels]));
        whole(Location::Input(2), dtype, &[out_channels])
    });
    let step = ConvStep {
        input: whole(Location::Input(0), dtype, &case.input),
        weight: whole(Location::Input(1), dtype, &weight),
        bias,
        windows,
        groups,
        accumulate: if dtype == Dtype::F64 { Accumulate::F64 } else { Accumulate::F32 },
        epilogue: has_bias.then(|| double(dtype)),
        output: whole(Location::Output(0), dtype, &output),
    };
    one_step(inputs, vec![tensor(dtype, &output)], Step::Conv(step))
}

fn check_conv(dtype: Dtype, case: &Conv, has_bias: bool) {
    let plan = conv_plan(dtype, case, has_bias);
    let data: Vec<_> = (40..).zip(&plan.inputs).map(|(seed, of)| numbers(dtype, of.elements(), seed, true)).collect();
    // As of products of matrices: the mean square of the numbers is 25 / 3.
    let terms: usize = plan.inputs[1].shape[1..].iter().product();
    let norms = 25.0 / 3.0 * terms.max(1) as f64;
    let precision = if dtype == Dtype::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    check(&plan, &data, 1.0, 8.0 * precision * norms);
}

#[test]
fn convolutions_agree_with_the_oracle() {
    let plain = windows([3, 3], [1, 1], [1, 1], [1, 1]);
    let conv = |input, out_channels, groups, windows: Windows| Conv {
        input,
        out_channels,
        groups,
        windows,
        after: windows.padding,
    };
    let cases = [
        conv([2, 5, 9, 11], 7, 1, plain),
        conv([1, 1, 1, 1], 1, 1, windows([1, 1], [1, 1], [0, 0], [1, 1])),
        conv([2, 33, 6, 5], 18, 1, windows([1, 1], [1, 1], [0, 0], [1, 1])),
        conv([1, 6, 13, 17], 10, 2, windows([3, 2], [2, 3], [2, 1], [2, 4])),
        conv([1, 4, 20, 23], 8, 1, windows([2, 3], [5, 7], [0, 0], [1, 1])),
        conv([2, 6, 8, 9], 6, 6, plain),
        conv([1, 3, 8, 9], 9, 3, windows([3, 5], [2, 2], [1, 2], [1, 1])),
        conv([1, 12, 7, 9], 6, 3, plain),
        conv([1, 2, 1, 700], 5, 1, windows([1, 9], [1, 2], [0, 40], [1, 3])),
        conv([1, 2, 1, 2500], 2, 2, windows([1, 4], [1, 1], [0, 3], [1, 2])),
        conv([1, 1, 1, 900], 4, 1, windows([1, 600], [1, 1], [0, 0], [1, 1])),
        conv([1, 70, 5, 5], 68, 1, plain),
        conv([0, 3, 8, 9], 4, 1, plain),
        conv([1, 0, 8, 9], 4, 1, plain),
        // Windows that lie in the padding as a whole.
        conv([1, 2, 2, 3], 4, 1, windows([2, 2], [1, 1], [5, 6], [1, 1])),
        Conv { after: [0, 4], ..conv([1, 3, 6, 7], 5, 1, windows([1, 4], [1, 1], [0, 1], [1, 1])) },
    ];
    for (nth, case) in cases.iter().enumerate() {
        for (index, dtype) in FLOATS.into_iter().enumerate() {
            check_conv(dtype, case, (nth + index) % 2 == 0);
        }
    }
}

#[test]
fn a_convolution_that_does_not_fit_its_views_is_refused() {
    let case = Conv {
        input: [1, 4, 5, 6],
        out_channels: 8,
        groups: 2,
        windows: windows([3, 3], [1, 1], [1, 1], [1, 1]),
        after: [1, 1],
    };
    let good = conv_plan(Dtype::F32, &case, true);
    let data: Vec<_> = good.inputs.iter().map(|of| numbers(Dtype::F32, of.elements(), 1, true)).collect();
    let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    let refuse = |change: &dyn Fn(&mut ConvStep)| {
        let mut plan = good.clone();
        let Step::Conv(step) = &mut plan.steps[0] else { panic!("a convolution") };
        change(step);
        let refused = execute(&plan, &data, &worker(1)).err();
        assert!(matches!(refused, Some(OpError::Invalid(_))), "{refused:?} of {:?}", plan.steps[0]);
    };
    refuse(&|step| step.groups = 0);
    refuse(&|step| step.groups = 3);
    refuse(&|step| step.windows.stride = [0, 1]);
    refuse(&|step| step.windows.kernel = [3, 2]);
    refuse(&|step| step.weight.dtype = Dtype::F16);
    refuse(&|step| step.epilogue = Some(double(Dtype::F64)));
    refuse(&|step| step.input.layout = Layout::contiguous(&[4, 5, 6]));
    refuse(&|step| step.output.location = Location::Input(0));
}

fn check_pool(dtype: Dtype, input: [usize; 3], output: [usize; 2], windows: PoolWindows, kind: PoolKind) {
    let output = [input[0], output[0], output[1]];
    let step = PoolStep {
        input: whole(Location::Input(0), dtype, &input),
        windows,
        kind,
        output: whole(Location::Output(0), dtype, &output),
    };
    let plan = one_step(vec![tensor(dtype, &input)], vec![tensor(dtype, &output)], Step::Pool(step));
    // Rounding errors of a sum are relative to its terms.
    let is_tame = kind != PoolKind::Max;
    let data = numbers(dtype, plan.inputs[0].elements(), 9, is_tame);
    let precision = if dtype == Dtype::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    check(&plan, &[data], 1.0, if is_tame { 100.0 * precision } else { 0.0 });
}

#[test]
fn pooling_agrees_with_the_oracle() {
    let sliding = |kernel, stride, padding, dilation| PoolWindows::Sliding(windows(kernel, stride, padding, dilation));
    let cases = [
        ([3, 8, 10], [4, 5], sliding([2, 2], [2, 2], [0, 0], [1, 1])),
        ([2, 9, 11], [5, 5], sliding([3, 2], [2, 2], [1, 0], [1, 1])),
        // The last windows reach beyond the image.
        ([2, 9, 11], [5, 4], sliding([2, 3], [2, 3], [0, 0], [1, 1])),
        ([1, 7, 9], [4, 2], sliding([3, 3], [2, 5], [1, 1], [1, 1])),
        ([1, 1, 3000], [1, 1501], sliding([1, 4], [1, 2], [0, 2], [1, 1])),
        ([0, 7, 9], [3, 4], sliding([2, 2], [2, 2], [0, 0], [1, 1])),
        ([2, 7, 9], [3, 4], PoolWindows::Adaptive),
        ([2, 3, 4], [5, 9], PoolWindows::Adaptive),
        ([2, 3, 4], [1, 0], PoolWindows::Adaptive),
    ];
    for (input, output, windows) in cases {
        for dtype in Dtype::ALL.into_iter().filter(|dtype| *dtype != Dtype::Bool) {
            check_pool(dtype, input, output, windows, PoolKind::Max);
        }
        for dtype in FLOATS {
            for divisor in [Divisor::Elements, Divisor::Padded, Divisor::Number(-3)] {
                check_pool(dtype, input, output, windows, PoolKind::Average(divisor));
            }
        }
    }
    for dtype in Dtype::ALL.into_iter().filter(|dtype| *dtype != Dtype::Bool) {
        check_pool(dtype, [2, 12, 11], [6, 4], sliding([3, 2], [1, 2], [1, 1], [3, 4]), PoolKind::Max);
        // A window of positions of the padding alone.
        check_pool(dtype, [2, 1, 1], [1, 1], sliding([2, 2], [1, 1], [1, 1], [2, 2]), PoolKind::Max);
    }
}
