//! Structs with arrays, and within them.

mod common;

use accelerd_ir::kernel::Argument;
use accelerd_lower::{Dialect, lower};
use common::{options, read, run_kernel};

#[test]
fn structs_with_arrays_have_structs_with_arrays() {
    let source = "
import warp as wp

@wp.struct
class Inner:
    x: wp.array[float]
    scale: float

@wp.struct
class Outer:
    inner: Inner
    out: wp.array[float]

@wp.func
def scaled(inner: Inner, i: int):
    return inner.x[i] * inner.scale

@wp.kernel
def k(s: Outer):
    i = wp.tid()
    s.out[i] = scaled(s.inner, i) + float(s.inner.x.shape[0])
";
    let module = lower(source, &options(Dialect::Warp)).unwrap_or_else(|error| panic!("{error}"));
    let kernel = &module.kernels[0].kernel;
    let names: Vec<_> = kernel.params.iter().map(|param| param.name.as_str()).collect();
    assert_eq!(names, ["s_inner_x", "s_inner_scale", "s_out"]);
    let mut arguments = [Argument::array(&[1.0_f32, 2.0]), Argument::value(3.0_f32), Argument::array(&[0.0_f32; 2])];
    run_kernel(kernel, &[2], &mut arguments);
    assert_eq!(read::<f32>(&arguments[2]), [5.0, 8.0]);
}
