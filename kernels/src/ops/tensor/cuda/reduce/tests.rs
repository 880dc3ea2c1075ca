//! Preparation of steps, and compilation of the result.

use accelerd_ir::scalar::{BinaryOp, Builder, UnaryOp};
use accelerd_tensor::{ArgReduction, Layout, Location, Reduction};

use super::{
    super::{arg_reduce, compile::compiles},
    *,
};
use crate::cuda::{Arch, JitSource, jit_ptx};

fn cast(from: Dtype, to: Dtype) -> Function {
    let mut builder = Builder::new(&[from]);
    let element = builder.param(0);
    let result = builder.cast(element, to);
    builder.finish(&[result])
}

/// A reduction of a layout `[outer, inner]` of one input to a contiguous output.
fn step(dtype: Dtype, accumulate: Dtype, outer: &[usize], layout: Layout, reduction: Reduction) -> ReduceStep {
    ReduceStep {
        outer: outer.to_vec(),
        inner: layout.shape[outer.len()..].to_vec(),
        inputs: vec![View { location: Location::Input(0), dtype, layout }],
        prologue: cast(dtype, accumulate),
        reduction,
        accumulate,
        epilogue: cast(accumulate, dtype),
        output: View { location: Location::Output(0), dtype, layout: Layout::contiguous(outer) },
    }
}

fn rows(dtype: Dtype, rows: usize, columns: usize, reduction: Reduction) -> ReduceStep {
    step(dtype, dtype.compute(), &[rows], Layout::contiguous(&[rows, columns]), reduction)
}

fn columns(dtype: Dtype, rows: usize, columns: usize, reduction: Reduction) -> ReduceStep {
    let layout = Layout::contiguous(&[rows, columns]).permuted(&[1, 0]);
    step(dtype, dtype.compute(), &[columns], layout, reduction)
}

fn sizes() -> BufferSizes {
    BufferSizes::new(&[1 << 39; 3], &[1 << 39], 0)
}

fn prepared(step: &ReduceStep) -> Launches {
    prepare(step, &sizes()).unwrap_or_else(|error| panic!("{error}"))
}

/// The launches' templates and grids.
fn geometry(launches: &Launches) -> Vec<(&'static str, [u32; 2], u32)> {
    launches.launches.iter().map(|one| (one.source.template, [one.grid.x, one.grid.y], one.block_threads)).collect()
}

#[test]
fn rows_and_columns_take_one_launch_where_they_fill_a_device() {
    let launches = prepared(&rows(Dtype::F32, 16384, 4096, Reduction::Sum));
    assert_eq!(geometry(&launches), [("tensor_reduce_rows", [16384, 1], 256)]);
    assert_eq!(launches.workspace_bytes, 0);
    let launches = prepared(&columns(Dtype::F32, 512, 1 << 20, Reduction::Sum));
    assert_eq!(geometry(&launches), [("tensor_reduce_columns", [(1 << 20) / 128, 1], 256)]);
}

#[test]
fn few_results_take_two_launches_and_a_state_for_each_part() {
    let launches = prepared(&rows(Dtype::F32, 1, 128 << 20, Reduction::SquaredDeviations));
    assert_eq!(geometry(&launches), [("tensor_reduce_rows", [1, 1024], 256), ("tensor_reduce_states", [1, 1], 256)]);
    assert_eq!(launches.workspace_bytes, 1024 * 12);
    let launches = prepared(&columns(Dtype::F64, 16384, 4096, Reduction::LogSumExp));
    let parts = launches.launches[0].grid.y as usize;
    assert!(parts > 1);
    assert_eq!(launches.workspace_bytes, parts * 4096 * 16);
    // Eight threads for each of the 4096 results.
    assert_eq!(geometry(&launches)[1], ("tensor_reduce_states", [128, 1], 256));
    let workspaces = |launch: &Launch| launch.arguments.iter().filter(|one| **one == Argument::Workspace(0)).count();
    assert!(launches.launches.iter().all(|launch| workspaces(launch) == 1));
}

#[test]
fn one_kernel_serves_many_shapes() {
    let source = |step: &ReduceStep| prepared(step).launches[0].source.clone();
    let first = source(&rows(Dtype::F32, 16384, 4096, Reduction::Sum));
    assert_eq!(first, source(&rows(Dtype::F32, 20000, 8192, Reduction::Sum)));
    assert_ne!(first, source(&rows(Dtype::F32, 16384, 4096, Reduction::Max)));
    assert_ne!(first, source(&rows(Dtype::F32, 16384, 64, Reduction::Sum)));
}

#[test]
fn no_result_takes_no_launch_and_an_empty_reduction_takes_one() {
    assert!(prepared(&rows(Dtype::F32, 0, 5, Reduction::Sum)).launches.is_empty());
    assert_eq!(geometry(&prepared(&rows(Dtype::F32, 300, 0, Reduction::Sum)))[0].1, [2, 1]);
}

#[test]
fn a_step_whose_parts_do_not_fit_is_refused() {
    let good = rows(Dtype::F16, 4, 8, Reduction::Sum);
    let refused = |step: ReduceStep| matches!(prepare(&step, &sizes()), Err(OpError::Invalid(_)));
    assert!(refused(ReduceStep { prologue: cast(Dtype::F16, Dtype::F64), ..good.clone() }));
    assert!(refused(ReduceStep { epilogue: cast(Dtype::F32, Dtype::F64), ..good.clone() }));
    assert!(refused(ReduceStep { inner: vec![9], ..good.clone() }));
    assert!(refused(ReduceStep { outer: vec![2, 2], ..good.clone() }));
    assert!(refused(rows(Dtype::I32, 4, 8, Reduction::LogSumExp)));
    assert!(refused(rows(Dtype::F32, 1 << 30, 1 << 30, Reduction::Sum)), "beyond the buffer");
    let written = View { location: Location::Input(0), ..good.output.clone() };
    assert!(refused(ReduceStep { output: written, ..good }));
}

/// `sqrt(sum of (x + y * z)^2)`, where `y` is broadcast along the rows and `z` is an integer.
fn fused() -> ReduceStep {
    let mut builder = Builder::new(&[Dtype::F32, Dtype::Bf16, Dtype::I8]);
    let [x, y, z] = [0, 1, 2].map(|nth| builder.param(nth));
    let [y, z] = [y, z].map(|value| builder.cast(value, Dtype::F32));
    let product = builder.binary(BinaryOp::Mul, y, z).expect("floats");
    let sum = builder.binary(BinaryOp::Add, x, product).expect("floats");
    let square = builder.binary(BinaryOp::Mul, sum, sum).expect("floats");
    let prologue = builder.finish(&[square]);
    let mut builder = Builder::new(&[Dtype::F32]);
    let total = builder.param(0);
    let root = builder.unary(UnaryOp::Sqrt, total).expect("floats");
    let root = builder.cast(root, Dtype::F16);
    let dense = Layout::contiguous(&[64, 3, 256]);
    let row = Layout { shape: vec![64, 3, 256], strides: vec![1, 64, 0], offset: 0 };
    let view = |nth, dtype, layout: &Layout| View { location: Location::Input(nth), dtype, layout: layout.clone() };
    ReduceStep {
        outer: vec![64],
        inner: vec![3, 256],
        inputs: vec![view(0, Dtype::F32, &dense), view(1, Dtype::Bf16, &row), view(2, Dtype::I8, &dense)],
        prologue,
        reduction: Reduction::Sum,
        accumulate: Dtype::F32,
        epilogue: builder.finish(&[root]),
        output: View { location: Location::Output(0), dtype: Dtype::F16, layout: Layout::contiguous(&[64]) },
    }
}

fn sources(launches: Launches) -> impl Iterator<Item = JitSource> {
    launches.launches.into_iter().map(|launch| launch.source)
}

#[test]
fn every_type_and_every_reduction_compiles() {
    let (of_floats, of_any_type): (Vec<_>, Vec<_>) =
        Reduction::ALL.into_iter().partition(|reduction| reduction.combination().is_of_floats);
    let plain = Dtype::ALL.into_iter().enumerate().map(|(nth, dtype)| (dtype, of_any_type[nth % of_any_type.len()]));
    let floats = || [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::F64].into_iter();
    let pairs = plain.chain(of_floats.iter().flat_map(|reduction| floats().map(move |dtype| (dtype, *reduction))));
    let mut texts = vec![];
    for (nth, (dtype, reduction)) in pairs.enumerate() {
        let step = match nth % 3 {
            0 => rows(dtype, 5000, 4096, reduction),
            1 => rows(dtype, 1, 1_000_003, reduction),
            _ => columns(dtype, 3000, 640, reduction),
        };
        texts.extend(sources(prepared(&step)));
    }
    compiles(&texts);
}

#[test]
fn every_case_compiles() {
    let f32 = |outer: &[usize], layout| step(Dtype::F32, Dtype::F32, outer, layout, Reduction::Sum);
    let image = Layout::contiguous(&[8, 3, 10, 12]);
    let mut texts = vec![];
    for step in [
        fused(),
        rows(Dtype::F32, 1000, 3, Reduction::Sum),
        rows(Dtype::F32, 10000, 2048, Reduction::SquaredDeviations),
        rows(Dtype::F32, 1 << 31, 2, Reduction::Sum),
        rows(Dtype::F32, 10, 0, Reduction::Max),
        columns(Dtype::F32, 1 << 20, 3, Reduction::LogSumExp),
        f32(&[3], image.permuted(&[1, 0, 2, 3])),
        f32(&[8, 10, 12], image.permuted(&[0, 2, 3, 1])),
        f32(&[8, 12], image.sliced(3, 11, 12, -1).permuted(&[0, 3, 1, 2])),
        f32(&[10], image.sliced(2, 0, 10, 1).sliced(3, 0, 6, 2).permuted(&[2, 0, 1, 3])),
    ] {
        texts.extend(sources(prepared(&step)));
    }
    compiles(&texts);
}

#[test]
fn arguments_stay_out_of_local_memory() {
    let folder = std::env::var_os("ACCELERD_NVRTC_PATH").expect("ACCELERD_NVRTC_PATH must name the folder of libnvrtc");
    let strided = Layout::contiguous(&[8, 3, 10, 12]).sliced(2, 0, 5, 2).permuted(&[1, 3, 0, 2]);
    let strided = step(Dtype::F32, Dtype::F32, &[3, 12], strided, Reduction::SquaredDeviations);
    for source in [fused(), strided].iter().flat_map(|step| sources(prepared(step))) {
        let ptx = jit_ptx(&source, Arch::new(9, 0), &[folder.clone().into()]).unwrap_or_else(|log| panic!("{log}"));
        assert!(!ptx.contains(".local"), "{}", source.text);
    }
}

#[test]
fn the_index_of_an_extreme_value_compiles_for_every_type() {
    let mut texts = vec![];
    for (nth, dtype) in Dtype::ALL.into_iter().enumerate() {
        let (outer, layout) = match nth % 3 {
            0 => (vec![100], Layout::contiguous(&[100, 3000])),
            1 => (vec![3000], Layout::contiguous(&[100, 3000]).permuted(&[1, 0])),
            _ => (vec![], Layout::contiguous(&[300, 500]).permuted(&[1, 0])),
        };
        let step = ArgReduction {
            inner: layout.shape[outer.len()..].to_vec(),
            input: View { location: Location::Input(0), dtype, layout },
            is_max: nth % 2 == 0,
            output: View { location: Location::Output(0), dtype: Dtype::I64, layout: Layout::contiguous(&outer) },
            outer,
        };
        texts.extend(sources(arg_reduce::prepare(&step, &sizes()).unwrap_or_else(|error| panic!("{error}"))));
    }
    compiles(&texts);
}
