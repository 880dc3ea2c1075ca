//! Convolutions are checked, launched by their extents, and their kernels compile.

use accelerd_ir::scalar::{BinaryOp, Builder};
use accelerd_tensor::{Accumulate, Dtype, Layout, Location, Windows};

use super::{super::compile::compiles, *};
use crate::cuda::TmaBox;

const HOPPER: (u32, u32) = (9, 0);

fn double(dtype: Dtype) -> Function {
    let mut builder = Builder::new(&[dtype]);
    let value = builder.param(0);
    let value = builder.cast(value, dtype.compute());
    let value = builder.binary(BinaryOp::Add, value, value).expect("of numbers");
    let value = builder.cast(value, dtype);
    builder.finish(&[value])
}

/// A kernel of 3 x 3 without padding on images `[batch, channels, height, width]`.
fn step(dtype: Dtype, input: [usize; 4], out_channels: usize, groups: usize) -> ConvStep {
    let [batch, channels, height, width] = input;
    let view = |location, shape: &[usize]| View { location, dtype, layout: Layout::contiguous(shape) };
    ConvStep {
        input: view(Location::Input(0), &input),
        weight: view(Location::Input(1), &[out_channels, channels / groups, 3, 3]),
        bias: Some(view(Location::Input(2), &[out_channels])),
        windows: Windows { kernel: [3; 2], stride: [1; 2], padding: [0; 2], dilation: [1; 2] },
        groups,
        accumulate: if dtype == Dtype::F64 { Accumulate::F64 } else { Accumulate::F32 },
        epilogue: Some(double(dtype)),
        output: view(Location::Output(0), &[batch, out_channels, height - 2, width - 2]),
    }
}

fn launches(step: &ConvStep, capability: (u32, u32)) -> Result<Launches, OpError> {
    prepare(step, &BufferSizes::new(&[1 << 39; 3], &[1 << 39], 0), capability)
}

fn prepared(step: &ConvStep, capability: (u32, u32)) -> Launches {
    launches(step, capability).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_kernel_depends_on_type_precision_device_and_channels() {
    let last = |step: &ConvStep, capability| {
        prepared(step, capability).launches.last().map(|launch| (launch.source.template, launch.grid.x))
    };
    let large = |dtype| step(dtype, [32, 64, 128, 128], 128, 1);
    assert_eq!(last(&large(Dtype::Bf16), HOPPER), Some(("tensor_conv_sm90", 2646)));
    assert_eq!(last(&large(Dtype::Bf16), (8, 0)), Some(("tensor_conv_mma", 3969)));
    assert_eq!(last(&step(Dtype::F16, [32, 24, 128, 128], 128, 1), HOPPER), Some(("tensor_conv_mma", 3969)));
    assert_eq!(last(&step(Dtype::F16, [32, 128, 128, 128], 128, 2), HOPPER), Some(("tensor_conv_mma", 7938)));
    assert_eq!(last(&large(Dtype::Bf16), (7, 5)), Some(("tensor_conv_simt", 3969)));
    assert_eq!(last(&large(Dtype::F32), HOPPER), Some(("tensor_conv_simt", 3969)));
    assert_eq!(last(&large(Dtype::F64), HOPPER), Some(("tensor_conv_simt", 2 * 7938)));
    let tf32 = ConvStep { accumulate: Accumulate::Tf32, ..large(Dtype::F32) };
    assert_eq!(last(&tf32, HOPPER), Some(("tensor_conv_mma", 3969)));
    assert_eq!(last(&step(Dtype::F16, [1, 64, 18, 18], 128, 1), HOPPER), Some(("tensor_conv_mma", 4)), "small tiles");
    assert_eq!(last(&step(Dtype::F16, [1, 64, 18, 18], 64, 64), HOPPER), Some(("tensor_conv_direct", 64)));
    assert_eq!(last(&step(Dtype::F16, [1, 64, 18, 18], 3, 1), HOPPER), Some(("tensor_conv_direct", 3)));
    assert_eq!(last(&step(Dtype::F16, [0, 64, 18, 18], 64, 1), HOPPER), None);
}

#[test]
fn tensor_maps_describe_packed_filters_and_windows() {
    let windows = Windows { kernel: [3, 5], stride: [1, 2], padding: [1, 3], dilation: [2, 1] };
    let mut step = step(Dtype::F16, [16, 36, 67, 130], 130, 1);
    step.weight.layout = Layout::contiguous(&[130, 36, 3, 5]);
    step.output.layout = Layout::contiguous(&[16, 130, 65, 66]);
    step.windows = windows;
    let launches = prepared(&step, HOPPER);
    let [.., launch] = &launches.launches[..] else { panic!("no launch") };
    let [filters, images] = &launch.maps[..] else { panic!("{:?}", launch.maps) };
    // 36 channels are padded to 40.
    assert_eq!(filters.map.extents, [40, 15, 130]);
    assert_eq!(filters.map.strides, [80, 1200]);
    assert_eq!(
        (&images.map.extents[..], &images.map.strides[..]),
        (&[40, 130, 67, 16][..], &[80, 80 * 130, 80 * 130 * 67][..])
    );
    let TmaBox::Im2col { lower_corner, upper_corner, position_strides, .. } = images.map.boxes else {
        panic!("{:?}", images.map.boxes)
    };
    assert_eq!((lower_corner, upper_corner, position_strides), ([-3, -1], [-1, -3], [2, 1]));

    let strided = ConvStep { windows: Windows { stride: [1, 9], ..windows }, ..step.clone() };
    assert_eq!(prepared(&strided, HOPPER).launches[2].source.template, "tensor_conv_mma");
}

#[test]
fn channels_are_packed_in_whole_chunks() {
    let launches = prepared(&step(Dtype::Bf16, [2, 6, 5, 7], 8, 2), HOPPER);
    // Filters of 9 times 8 channels, and images with twice as many, of 2 bytes.
    assert_eq!(launches.workspace_bytes, (8_usize * 9 * 8 * 2).next_multiple_of(256) + 2 * 35 * 16 * 2);
    let exact = prepared(&step(Dtype::F32, [2, 6, 5, 7], 8, 2), HOPPER);
    assert_eq!(exact.workspace_bytes, 8 * 9 * 8 * 4, "images are read in place");
}

#[test]
fn the_workspace_is_within_what_the_plan_accounts_for() {
    for (dtype, accumulate) in [
        (Dtype::Bf16, Accumulate::F32),
        (Dtype::F32, Accumulate::F32),
        (Dtype::F32, Accumulate::Tf32),
        (Dtype::F64, Accumulate::F64),
    ] {
        for (input, out_channels, groups) in
            [([3, 6, 5, 7], 8, 2), ([1, 3, 9, 9], 64, 1), ([2, 6, 9, 9], 6, 6), ([2, 65, 4, 4], 70, 1)]
        {
            let step = ConvStep { accumulate, ..step(dtype, input, out_channels, groups) };
            for capability in [(7, 5), HOPPER] {
                assert!(prepared(&step, capability).workspace_bytes <= step.workspace_bytes(), "{step:?}");
            }
        }
    }
}

#[test]
fn a_step_that_does_not_fit_its_views_is_an_error() {
    let good = step(Dtype::F32, [2, 6, 5, 7], 8, 2);
    assert!(launches(&good, HOPPER).is_ok());
    let wrongs: [fn(&mut ConvStep); 9] = [
        |step| step.groups = 0,
        |step| step.groups = 3,
        |step| step.windows.kernel = [3, 2],
        |step| step.weight.dtype = Dtype::F16,
        |step| step.input.layout = Layout::contiguous(&[6, 5, 7]),
        |step| step.input.layout = step.input.layout.permuted(&[0, 1, 3, 2]),
        |step| step.output.layout = Layout::contiguous(&[2, 7, 3, 5]),
        |step| step.output.location = Location::Input(0),
        |step| step.epilogue = Some(double(Dtype::F64)),
    ];
    for (nth, wrong) in wrongs.iter().enumerate() {
        let mut step = good.clone();
        wrong(&mut step);
        assert!(matches!(launches(&step, HOPPER), Err(OpError::Invalid(_))), "{nth}");
    }
}

#[test]
fn every_type_and_schedule_compiles() {
    let large = ([8, 16, 66, 66], 128, 1);
    let small = ([1, 12, 9, 11], 20, 2);
    let depthwise = ([2, 6, 7, 10], 6, 6);
    let cases = [
        (Dtype::Bf16, Accumulate::F32, HOPPER, large),
        (Dtype::F16, Accumulate::F32, HOPPER, small),
        (Dtype::F32, Accumulate::Tf32, HOPPER, large),
        (Dtype::F32, Accumulate::Tf32, HOPPER, small),
        (Dtype::F32, Accumulate::F32, HOPPER, large),
        (Dtype::F64, Accumulate::F64, HOPPER, small),
        (Dtype::F16, Accumulate::F32, (7, 5), large),
        (Dtype::Bf16, Accumulate::F32, (7, 5), small),
        (Dtype::F16, Accumulate::F32, HOPPER, depthwise),
        (Dtype::Bf16, Accumulate::F32, HOPPER, ([8, 40, 66, 66], 128, 1)),
        (Dtype::F16, Accumulate::F32, HOPPER, ([8, 64, 67, 68], 200, 1)),
        (Dtype::F64, Accumulate::F64, HOPPER, depthwise),
    ];
    let mut sources = vec![];
    for (nth, (dtype, accumulate, capability, (input, out_channels, groups))) in cases.into_iter().enumerate() {
        let mut step = ConvStep { accumulate, ..step(dtype, input, out_channels, groups) };
        if nth % 2 == 0 {
            (step.bias, step.epilogue) = (None, None);
        }
        let launches = prepared(&step, capability);
        sources.extend(launches.launches.into_iter().map(|launch| launch.source));
    }
    sources.sort_by(|a, b| a.text.cmp(&b.text));
    sources.dedup();
    compiles(&sources);
}
