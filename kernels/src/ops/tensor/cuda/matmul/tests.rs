//! Products are checked, described to the library or generated, and what remains of them is elementwise.

use accelerd_ir::scalar::{Literal, UnaryOp, interpret};
use accelerd_tensor::{Accumulate, Layout, Location};

use super::{super::compile::compiles, *};

fn negate(dtype: Dtype) -> Function {
    let mut builder = Builder::new(&[dtype]);
    let value = builder.param(0);
    let value = builder.cast(value, dtype.compute());
    let value = builder.unary(UnaryOp::Neg, value).expect("numbers have a negative");
    let value = builder.cast(value, dtype);
    builder.finish(&[value])
}

/// `[2, 3, 5]` by `[2, 5, 4]` with a bias and an epilogue.
fn step(dtype: Dtype) -> MatMulStep {
    let view = |location, shape: &[usize]| View { location, dtype, layout: Layout::contiguous(shape) };
    MatMulStep {
        a: view(Location::Input(0), &[2, 3, 5]),
        b: view(Location::Input(1), &[2, 5, 4]),
        bias: Some(view(Location::Input(2), &[4])),
        accumulate: Accumulate::F32,
        epilogue: Some(negate(dtype)),
        output: view(Location::Output(0), &[2, 3, 4]),
    }
}

fn check(step: &MatMulStep) -> Result<Checked, OpError> {
    Checked::new(step, &BufferSizes::new(&[512; 3], &[512], 0))
}

/// A layer of `[rows, 768]` by `[3072, 768]`, stored by rows.
fn layer(dtype: Dtype, rows: usize) -> MatMulStep {
    let mut step = step(dtype);
    step.a.layout = Layout::contiguous(&[1, rows, 768]);
    step.b.layout = Layout::contiguous(&[1, 3072, 768]).permuted(&[0, 2, 1]);
    step.bias.iter_mut().for_each(|bias| bias.layout = Layout::contiguous(&[3072]));
    step.output.layout = Layout::contiguous(&[1, rows, 3072]);
    step
}

fn on_hopper(step: &MatMulStep) -> Option<Launches> {
    let sizes = BufferSizes::new(&[1 << 39; 3], &[1 << 39], 0);
    let checked = Checked::new(step, &sizes).unwrap_or_else(|error| panic!("{error}"));
    sm90::prepare(step, &checked, (9, 0)).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn hopper_multiplies_large_aligned_layers_with_an_epilogue_in_one_launch() {
    let large = layer(Dtype::Bf16, 8190);
    let launches = on_hopper(&large).expect("large and aligned");
    let [launch] = &launches.launches[..] else { panic!("{} launches", launches.launches.len()) };
    assert_eq!((launch.source.template, launch.grid.x, launch.cluster), ("tensor_linear_sm90", 64 * 16, 2));
    let maps: Vec<_> = launch.maps.iter().map(|map| (&map.map.extents[..], &map.map.strides[..])).collect();
    let weight = (&[768, 3072, 1][..], &[1536, 16][..]);
    assert_eq!(maps, [(&[768, 8190, 1][..], &[1536, 16][..]), weight, (&[3072, 8190, 1], &[6144, 16])]);

    let others: [fn(&mut MatMulStep); 5] = [
        |step| step.epilogue = None,
        |step| step.b.layout = Layout::contiguous(&[1, 768, 3072]),
        |step| step.a.layout.strides[1] = 772,
        |step| step.a.layout.offset = 4,
        |step| *step = layer(Dtype::Bf16, 100),
    ];
    for (nth, other) in others.iter().enumerate() {
        let mut step = large.clone();
        other(&mut step);
        assert!(on_hopper(&step).is_none(), "{nth}");
    }
    assert!(on_hopper(&layer(Dtype::F32, 8190)).is_none());
}

#[test]
fn layers_compile_for_hopper() {
    let without_bias = MatMulStep { bias: None, ..layer(Dtype::F16, 4096) };
    compiles(&[sm90::source(&layer(Dtype::Bf16, 4096)), sm90::source(&without_bias)]);
}

#[test]
fn kernels_compile_for_every_type() {
    let sources = Dtype::ALL.iter().enumerate().map(|(nth, &dtype)| {
        let variant = simt::Variant { dtype, by_terms: [nth & 1 == 0, nth & 2 == 0], has_bias: nth % 3 != 0 };
        let epilogue = (dtype != Dtype::Bool && nth % 4 != 0).then(|| negate(dtype));
        variant.source(epilogue.as_ref())
    });
    compiles(&sources.collect::<Vec<_>>());
}

#[test]
fn a_step_that_does_not_fit_its_views_is_an_error() {
    let wrongs: [fn(&mut MatMulStep); 8] = [
        |step| step.a.layout = Layout::contiguous(&[3, 5]),
        |step| step.b.layout = Layout::contiguous(&[2, 4, 5]),
        |step| step.a.dtype = Dtype::F16,
        |step| step.output.layout.strides = vec![12, 1, 3],
        |step| step.output.location = Location::Input(0),
        |step| step.b.layout.offset = 100,
        |step| step.bias.iter_mut().for_each(|bias| bias.layout = Layout::contiguous(&[5])),
        |step| step.epilogue = Some(negate(Dtype::F64)),
    ];
    assert!(check(&step(Dtype::F32)).is_ok());
    for (nth, wrong) in wrongs.iter().enumerate() {
        let mut step = step(Dtype::F32);
        wrong(&mut step);
        assert!(matches!(check(&step), Err(OpError::Invalid(_))), "{nth}");
    }
}

#[test]
fn the_library_adds_the_bias_where_it_can_and_the_rest_is_elementwise() {
    let f32 = rest(&step(Dtype::F32)).expect("valid").expect("the epilogue is left");
    assert_eq!((f32.inputs.len(), f32.outputs.len()), (1, 1));
    let f64 = rest(&step(Dtype::F64)).expect("valid").expect("bias and epilogue are left");
    assert_eq!(f64.inputs.len(), 2);
    let [sum, bias] = [1.5, 0.25].map(|value| Literal::from_f64(Dtype::F64, value));
    assert_eq!(interpret(&f64.function, &[sum, bias], 0), [Literal::from_f64(Dtype::F64, -1.75)]);
    let plain = MatMulStep { bias: None, epilogue: None, ..step(Dtype::F32) };
    assert!(rest(&plain).expect("valid").is_none());
}

#[test]
fn a_product_without_terms_is_the_epilogue_of_the_bias() {
    let step = without_terms(&step(Dtype::F16)).expect("valid");
    let bias = Literal::from_f64(Dtype::F16, 2.0);
    assert_eq!(interpret(&step.function, &[bias], 0), [Literal::from_f64(Dtype::F16, -2.0)]);
    assert_eq!(step.inputs[0].layout.strides, [0, 0, 1]);
}

#[test]
fn integers_are_not_multiplied_by_the_library() {
    assert!(blas::product(&step(Dtype::F32)).is_some());
    assert!(blas::product(&step(Dtype::I32)).is_none());
}

#[test]
fn a_bias_between_the_multiples_of_16_bytes_is_not_added_by_the_library() {
    let moved = |dtype, offset| {
        let mut moved = step(dtype);
        moved.bias.iter_mut().for_each(|bias| bias.layout.offset = offset);
        blas::product(&moved).is_some()
    };
    assert!(moved(Dtype::F32, 4) && !moved(Dtype::F32, 2) && moved(Dtype::F64, 1));
}
