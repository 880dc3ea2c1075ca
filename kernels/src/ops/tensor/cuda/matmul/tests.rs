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
