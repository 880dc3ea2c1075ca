//! Launches are laid out in memory as modules expect them, or refused.

mod common {
    pub(crate) mod wasm;

    mod builder;
    pub(crate) use builder::*;
}

use accelerd_ir::{
    Dtype,
    kernel::{
        Argument, AtomicOp, Expr, FaultRecord, Kernel, Stmt,
        cuda::{Layout, ParamBlock, ParamLayout},
        interpret::{Limits, launch},
        wasm::{ArgumentMismatch, ImageArgument, ImageError, MemoryImage, RESERVED, View},
    },
};
use common::{
    Builder, add, at, component, element, equal, int, load, local, mul, number, store, tid,
    wasm::{Machine, has_vectors},
    when,
};
use proptest::prelude::*;

const GIB: u64 = 1 << 30;

/// `out[i, j] = point[i].y * scale`, with an array of structs of two dimensions between values.
fn kernel() -> Kernel {
    let mut builder = Builder::new(2);
    let flag = builder.value(Dtype::Bool);
    let points = builder.array_of(element(&[("x", Dtype::I8, 0), ("y", Dtype::F64, 8)], 16), 1);
    let scale = builder.value(Dtype::F64);
    let out = builder.array(Dtype::F64, 2);
    let y = builder.local(Dtype::F64);
    let position = [Expr::ThreadId(0), Expr::ThreadId(1)];
    builder.finish(vec![
        when(Expr::Param(flag, 0), vec![Stmt::Load(y, component(points, &position[..1], 1))]),
        Stmt::Store(at(out, &position), mul(local(y), Expr::Param(scale, 0))),
    ])
}

fn arguments<'a>(points: &'a [u8], scale: &'a [u8]) -> Vec<ImageArgument<&'a [u8]>> {
    vec![
        ImageArgument::Value(&[1]),
        ImageArgument::Array { extents: vec![3], data: points },
        ImageArgument::Value(scale),
        ImageArgument::Zeros { extents: vec![3, 5] },
    ]
}

#[test]
fn a_module_computes_on_an_image_what_the_interpreter_does() {
    let kernel = kernel();
    let points: Vec<u8> = (0..48).collect();
    let scale = 3.0_f64.to_le_bytes();
    let image = MemoryImage::new(&kernel, &[3, 5], arguments(&points, &scale), GIB).expect("a launch that fits");
    assert_eq!(image.thread_count, 15);
    let mut machine = Machine::new(&kernel);
    let placed = machine.place_image(&image);
    assert_eq!(machine.run(&placed, 0, image.thread_count, 0), None);
    let mut expected = [
        Argument::value(true),
        Argument::contiguous(points.clone(), &[3], 16),
        Argument::value(3.0),
        Argument::contiguous(vec![0; 15 * 8], &[3, 5], 8),
    ];
    let mut got = expected.clone();
    launch(&kernel, &[3, 5], &mut expected, Limits { loop_budget: 0, steps: 1000 }).expect("no fault");
    machine.read(&placed, &mut got);
    assert_eq!(got, expected);
    assert_ne!(got[3].to_vec::<f64>(), [0.0; 15]);
}

#[test]
fn arrays_are_aligned_and_do_not_overlap() {
    let points = [0; 48];
    let image = MemoryImage::new(&kernel(), &[3, 5], arguments(&points, &[0; 8]), GIB).expect("a launch that fits");
    let arrays: Vec<_> = image.arrays.iter().flatten().cloned().collect();
    assert_eq!(image.arrays.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, false, true]);
    assert!(arrays.iter().all(|range| range.start % 16 == 0));
    assert!(arrays[0].start >= u64::from(RESERVED) + image.head.len() as u64);
    assert!(arrays[1].start >= arrays[0].end && image.memory_bytes == arrays[1].end);
    assert_eq!(image.data, [(u32::try_from(arrays[0].start).expect("small"), &points[..])]);
    assert_eq!(arrays[1].end - arrays[1].start, 15 * 8);
}

#[test]
fn a_device_gets_the_same_arguments() {
    let points = [0; 48];
    let scale = 3.0_f64.to_le_bytes();
    let image = MemoryImage::new(&kernel(), &[3, 5], arguments(&points, &scale), GIB).expect("a launch that fits");
    let layout = Layout::new(&kernel());
    let block = ParamBlock::new(&kernel(), &image);
    let [flag, points, scale, out] = &layout.params[..] else { panic!("four parameters, got {layout:?}") };
    let value = |of: &ParamLayout, size: usize| match of {
        ParamLayout::Value(offsets) => block.bytes[offsets[0]..offsets[0] + size].to_vec(),
        ParamLayout::Array { .. } => panic!("an array"),
    };
    assert_eq!((value(flag, 1), value(scale, 8)), (vec![1], 3.0_f64.to_le_bytes().to_vec()));
    let long = |offset: usize| u64::from_le_bytes(block.bytes[offset..offset + 8].try_into().expect("8 bytes"));
    let word = |offset: usize| u32::from_le_bytes(block.bytes[offset..offset + 4].try_into().expect("4 bytes"));
    let array = |of: &ParamLayout| match of {
        ParamLayout::Value(_) => panic!("a value"),
        ParamLayout::Array { data, strides, shape } => (*data, *strides, *shape),
    };
    let (points, points_strides, points_shape) = array(points);
    let (out, out_strides, out_shape) = array(out);
    assert_eq!(block.addresses, [points, out]);
    let starts: Vec<_> = image.arrays.iter().flatten().map(|range| range.start).collect();
    assert_eq!([long(points), long(out)], starts[..]);
    assert_eq!((long(points_strides), word(points_shape)), (16, 3));
    assert_eq!([long(out_strides), long(out_strides + 8)], [40, 8]);
    assert_eq!([word(out_shape), word(out_shape + 4)], [3, 5]);
}

fn error(grid: &[u64], arguments: Vec<ImageArgument<&[u8]>>, limit: u64) -> ImageError {
    MemoryImage::new(&kernel(), grid, arguments, limit).expect_err("a launch that is refused")
}

/// The error of an argument in place of the right one.
fn mismatch(param: usize, argument: ImageArgument<&[u8]>) -> ArgumentMismatch {
    let points = [0; 48];
    let scale = [0; 8];
    let mut arguments = arguments(&points, &scale);
    arguments[param] = argument;
    let error = error(&[3, 5], arguments, GIB);
    let ImageError::Argument { param: found, mismatch, .. } = error else { panic!("{error}") };
    assert_eq!(found, param);
    mismatch
}

#[test]
fn arguments_that_do_not_fit_are_named() {
    use ImageArgument::{Array, Value, Zeros};
    let size = |expected, got| ArgumentMismatch::Size { expected, got };
    assert_eq!(mismatch(2, Value(&[0; 7])), size(8, 7));
    assert_eq!(mismatch(1, Array { extents: vec![3], data: &[0; 47] }), size(48, 47));
    assert_eq!(mismatch(1, Array { extents: vec![0], data: &[0; 16] }), size(0, 16));
    assert_eq!(mismatch(3, Zeros { extents: vec![15] }), ArgumentMismatch::Dims { expected: 2, got: 1 });
    let extent = ArgumentMismatch::Extent { axis: 1, extent: 1 << 31 };
    assert_eq!(mismatch(3, Zeros { extents: vec![0, 1 << 31] }), extent);
    assert!(matches!(mismatch(0, Zeros { extents: vec![] }), ArgumentMismatch::Kind(_)));
    assert!(matches!(mismatch(1, Value(&[])), ArgumentMismatch::Kind(_)));
    let points = [0; 48];
    let scale = [0; 7];
    let text = error(&[3, 5], arguments(&points, &scale), GIB).to_string();
    assert_eq!(text, "argument `p2`: expected 8 bytes, got 7");
}

#[test]
fn grids_that_do_not_fit_are_named() {
    assert_eq!(error(&[3], vec![], GIB), ImageError::GridDims { expected: 2, got: 1 });
    assert_eq!(error(&[1, 1 << 31], vec![], GIB), ImageError::GridExtent { axis: 1, extent: 1 << 31 });
    assert_eq!(error(&[3, 5], vec![], GIB), ImageError::ArgumentCount { expected: 4, got: 0 });
    let four = Builder::new(4).finish(vec![]);
    let huge = MemoryImage::<&[u8]>::new(&four, &[1 << 30; 4], vec![], GIB);
    assert_eq!(huge, Err(ImageError::TooManyThreads));
}

#[test]
fn a_launch_that_needs_too_much_memory_is_refused_with_the_figure() {
    let points = [0; 48];
    let scale = [0; 8];
    let needed = MemoryImage::new(&kernel(), &[3, 5], arguments(&points, &scale), GIB).expect("fits").memory_bytes;
    let fits = |limit| MemoryImage::new(&kernel(), &[3, 5], arguments(&points, &scale), limit);
    assert!(fits(needed).is_ok());
    assert_eq!(fits(needed - 1), Err(ImageError::TooLarge { got: needed, limit: needed - 1 }));
    for (extents, at_least) in [([1 << 15, 1 << 14], 1 << 32), ([i32::MAX as u64; 2], u64::MAX)] {
        let mut arguments = arguments(&points, &scale);
        arguments[3] = ImageArgument::Zeros { extents: extents.to_vec() };
        let error = error(&[3, 5], arguments, u64::MAX);
        let ImageError::TooLarge { got, limit } = error else { panic!("{error}") };
        assert!(got >= at_least && limit == 1 << 32, "{got}");
    }
}

#[test]
fn arrays_without_elements_take_no_memory() {
    let mut arguments = arguments(&[], &[0; 8]);
    arguments[1] = ImageArgument::Array { extents: vec![0], data: &[] };
    arguments[3] = ImageArgument::Zeros { extents: vec![i32::MAX as u64, 0] };
    let image = MemoryImage::new(&kernel(), &[0, 5], arguments, GIB).expect("an empty launch");
    assert_eq!((image.thread_count, image.memory_bytes), (0, u64::from(RESERVED) + image.head.len() as u64));
    assert!(image.arrays.iter().flatten().all(std::ops::Range::is_empty) && image.data.is_empty());
}

#[test]
fn written_arrays_and_repeatable_kernels_are_known() {
    let mut builder = Builder::new(1);
    let value = builder.value(Dtype::I32);
    let [input, output, count] = [(); 3].map(|()| builder.array(Dtype::I32, 1));
    let x = builder.local(Dtype::I32);
    let reads = load(x, input, tid());
    let writes = when(equal(tid(), int(3)), vec![store(output, tid(), add(local(x), Expr::Param(value, 0)))]);
    let counts = Stmt::Atomic {
        op: AtomicOp::Add,
        place: at(count, &[int(0)]),
        operand: int(1),
        expected: None,
        previous: None,
    };
    let kernel = builder.finish(vec![reads.clone(), writes.clone()]);
    assert_eq!((kernel.written(), kernel.is_repeatable()), (vec![false, false, true, false], true));
    let kernel = Kernel { body: vec![reads, writes.clone(), counts], ..kernel };
    assert_eq!((kernel.written(), kernel.is_repeatable()), (vec![false, false, true, true], false));
    let kernel = Kernel { body: vec![load(x, output, tid()), writes], ..kernel };
    assert_eq!((kernel.written(), kernel.is_repeatable()), (vec![false, false, true, false], false));
}

proptest! {
    #[test]
    fn no_bytes_of_a_record_make_the_decoder_panic(
        bytes: [u8; FaultRecord::SIZE],
        small in 0..4_u8,
        grid in proptest::collection::vec(0..4_u32, 0..3),
    ) {
        let kernel = kernel();
        let mut record = FaultRecord::from_bytes(&bytes);
        prop_assert!(record.resolve(&kernel, &[0, 0]).is_none());
        // Fields that may be those of a record.
        (record.thread, record.kind, record.array) = (small.into(), small.into(), small.into());
        record.site = if small == 0 { FaultRecord::NONE } else { small.into() };
        let fault = record.resolve(&kernel, &grid);
        prop_assert!(fault.is_none_or(|fault| fault.thread.iter().zip(&grid).all(|(index, extent)| index < extent)));
    }
}

/// `to[i] = from[i] + 1`, which vectors of threads run.
fn successor() -> Kernel {
    let mut builder = Builder::new(1);
    let from = builder.array(Dtype::F32, 1);
    let to = builder.array(Dtype::F32, 1);
    let x = builder.local(Dtype::F32);
    let kernel = builder.finish(vec![load(x, from, tid()), store(to, tid(), add(local(x), number(Dtype::F32, 1.0)))]);
    assert!(has_vectors(&kernel));
    kernel
}

fn shifted(offset: u64, extent: u64) -> View {
    View { array: 0, offset, extents: vec![extent], strides: None }
}

/// The array after a launch in which `to` is a view of it.
fn after_launch_on(view: View) -> Vec<f32> {
    let threads = view.extents[0];
    let data: Vec<u8> = (0_u8..100).flat_map(|x| f32::from(x % 7).to_le_bytes()).collect();
    let array = ImageArgument::Array { extents: vec![100], data: &data[..] };
    let kernel = successor();
    let image = MemoryImage::new(&kernel, &[threads], vec![array, ImageArgument::View(view)], GIB).expect("a view");
    assert!(image.arrays[0].is_some() && image.arrays[1].is_none());
    let mut machine = Machine::new(&kernel);
    let placed = machine.place_image(&image);
    assert_eq!(machine.run(&placed, 0, threads, 0), None);
    let mut got = [Argument::contiguous(data.clone(), &[100], 4), Argument::contiguous(vec![], &[0], 4)];
    machine.read(&placed, &mut got);
    got[0].to_vec()
}

#[test]
fn a_view_has_the_elements_of_the_array() {
    let before: Vec<f32> = (0_u8..100).map(|x| f32::from(x % 7)).collect();
    let added: Vec<f32> = before.iter().map(|x| x + 1.0).collect();
    assert_eq!(after_launch_on(shifted(0, 100)), added);
    let sums: Vec<f32> = (0_u8..100).map(f32::from).collect();
    assert_eq!(after_launch_on(shifted(4, 99)), sums, "a thread reads what the one before it has written");
    let mut ends = before.clone();
    ends[50..].copy_from_slice(&added[..50]);
    assert_eq!(after_launch_on(shifted(200, 50)), ends, "the halves are apart");
    let mut odd = before.clone();
    (0..50).for_each(|nth| odd[2 * nth + 1] = odd[nth] + 1.0);
    assert_eq!(after_launch_on(View { strides: Some(vec![8]), ..shifted(4, 50) }), odd);
}

#[test]
fn views_that_do_not_fit_are_named() {
    let error = |view| {
        let array = ImageArgument::Array { extents: vec![3], data: &[0; 12][..] };
        let image = MemoryImage::new(&successor(), &[3], vec![array, ImageArgument::View(view)], GIB);
        let Err(ImageError::Argument { param: 1, mismatch, .. }) = image else { panic!("{image:?}") };
        mismatch
    };
    assert_eq!(error(shifted(4, 3)), ArgumentMismatch::Outside { expected: 12, got: 16 });
    assert_eq!(error(shifted(u64::MAX - 3, 3)), ArgumentMismatch::Outside { expected: 12, got: u64::MAX });
    let strided = |strides| View { strides: Some(strides), ..shifted(0, 2) };
    assert_eq!(error(strided(vec![12])), ArgumentMismatch::Outside { expected: 12, got: 16 });
    assert_eq!(error(strided(vec![])), ArgumentMismatch::Strides { expected: 1, got: 0 });
    assert_eq!(error(strided(vec![1 << 31])), ArgumentMismatch::Stride { axis: 0, stride: 1 << 31 });
    assert_eq!(error(shifted(2, 1)), ArgumentMismatch::Alignment(4));
    assert_eq!(error(View { array: 1, ..shifted(0, 3) }), ArgumentMismatch::NoArray);
    assert_eq!(error(View { array: 2, ..shifted(0, 3) }), ArgumentMismatch::NoArray);
    let zeros = ImageArgument::Zeros::<&[u8]> { extents: vec![3, 5] };
    let view = View { array: 3, ..shifted(0, 3) };
    let value = |bytes: &'static [u8]| ImageArgument::Value(bytes);
    let arguments = vec![value(&[1]), ImageArgument::View(view), value(&[0; 8]), zeros];
    let error = MemoryImage::new(&kernel(), &[3, 5], arguments, GIB).expect_err("bytes are no numbers of f64");
    assert!(matches!(error, ImageError::Argument { mismatch: ArgumentMismatch::Components, .. }), "{error}");
}
