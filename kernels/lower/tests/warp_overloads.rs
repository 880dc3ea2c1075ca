//! Generic kernels and functions: a kernel has an instance for each overload, a function for each call.

mod common;

use accelerd_ir::kernel::{Argument, Kernel};
use accelerd_lower::{Dialect, ErrorKind, LowerError, lower, lower_each};
use common::{options, read, run_kernel};

fn refused(source: &str) -> LowerError {
    common::refused(source, &options(Dialect::Warp))
}

/// The kernels of a source.
fn kernels(source: &str) -> Vec<Kernel> {
    let module = lower(source, &options(Dialect::Warp)).unwrap_or_else(|error| panic!("{error}\n{source}"));
    module.kernels.into_iter().map(|one| one.kernel).collect()
}

const SCALE: &str = "
from typing import Any
import warp as wp

@wp.kernel
def scale(x: wp.array(dtype=Any), s: Any):
    i = wp.tid()
    x[i] = x[i] * s
";

#[test]
fn a_generic_kernel_has_an_instance_for_each_overload() {
    let source = format!(
        "{SCALE}
first = wp.overload(scale, [wp.array(dtype=float), float])
wp.overload(scale, {{'x': wp.array[wp.vec2d], 's': wp.float64}})
wp.overload(scale, [wp.array[wp.float32], wp.float32])

@wp.overload
def scale(x: wp.array[int], s: int):
    ...
"
    );
    let kernels = kernels(&source);
    assert_eq!(kernels.len(), 3, "types that were stated before are no other overload");
    let mut floats = [Argument::array(&[1.5_f32, -2.0]), Argument::value(3.0_f32)];
    run_kernel(&kernels[0], &[2], &mut floats);
    assert_eq!(read::<f32>(&floats[0]), [4.5, -6.0]);
    let mut vectors = [common::elements(&[1.0_f64, 2.0], 2), Argument::value(0.5_f64)];
    run_kernel(&kernels[1], &[1], &mut vectors);
    assert_eq!(read::<f64>(&vectors[0]), [0.5, 1.0]);
    let mut integers = [Argument::array(&[7_i32]), Argument::value(-3_i32)];
    run_kernel(&kernels[2], &[1], &mut integers);
    assert_eq!(read::<i32>(&integers[0]), [-21]);
}

#[test]
fn a_generic_kernel_without_overloads_is_refused() {
    let error = refused(SCALE);
    assert_eq!((error.kind, error.line, error.column), (ErrorKind::GenericKernel, 6, 10));
}

#[test]
fn an_overload_is_of_the_kernel_before_it() {
    let source = format!(
        "{SCALE}
wp.overload(scale, [wp.array[int], int])

@wp.kernel
def scale(x: wp.array(dtype=Any), s: Any):
    x[0] = s
"
    );
    let outcomes = lower_each(&source, &options(Dialect::Warp)).expect("a module");
    let kinds: Vec<_> = outcomes.iter().map(|one| one.kernel.as_ref().err().map(|error| error.kind)).collect();
    assert_eq!(kinds, [None, Some(ErrorKind::GenericKernel)]);
}

#[test]
fn overloads_that_do_not_go_with_the_kernel_are_refused() {
    let wrong = [
        ("[wp.array[int]]", "expected 2 types of parameters, got 1"),
        ("[int, int]", "expected array of 1 dimensions for `x`, got int32"),
        ("[wp.array2d[int], int]", "expected array of 1 dimensions for `x`, got array of 2 dimensions of int32"),
        ("{'y': int}", "expected the name of a parameter"),
        ("TYPES", "expected a list or dictionary of types"),
        ("[wp.array[unknown], int]", "unknown type `unknown`"),
        (
            "[wp.array[wp.array[int]], int]",
            "expected elements of a type with values, got array of 1 dimensions of int32",
        ),
        ("{'s': int}", "expected a type of parameter `x`, or an overload of the kernel"),
    ];
    for (types, message) in wrong {
        let error = refused(&format!("{SCALE}\nwp.overload(scale, {types})\n"));
        assert_eq!(error.message, message);
    }
}

#[test]
fn open_vectors_and_matrices_take_sizes_and_types_from_overloads() {
    let source = "
from typing import Any
import warp as wp

@wp.kernel
def count(v: wp.types.vector(Any, wp.Float), m: wp.types.matrix((Any, 2), dtype=Any), out: wp.array[int]):
    out[0] = len(v)
    out[1] = len(m)

wp.overload(count, [wp.vec4d, wp.types.matrix((3, 2), int), wp.array[int]])
";
    let kernels = kernels(source);
    let mut arguments = [common::value_of(&[0.0_f64; 4]), common::value_of(&[0_i32; 6]), Argument::array(&[0_i32; 2])];
    run_kernel(&kernels[0], &[1], &mut arguments);
    assert_eq!(read::<i32>(&arguments[2]), [4, 3]);
    for (types, message) in [
        (
            "[wp.vec4i, wp.mat22, wp.array[int]]",
            "expected vector of any number of floating-point numbers for `v`, got vector of 4 int32",
        ),
        (
            "[wp.vec4, wp.mat33, wp.array[int]]",
            "expected matrix of any number of x 2 scalars for `m`, got matrix of 3 x 3 float32",
        ),
    ] {
        let error = refused(&source.replace("[wp.vec4d, wp.types.matrix((3, 2), int), wp.array[int]]", types));
        assert_eq!((error.message.as_str(), error.line), (message, 10));
    }
}

/// Results of Warp 1.19: of functions of open types, the one that is defined first takes the arguments.
#[test]
fn open_functions_are_tried_in_the_order_of_their_definitions() {
    let source = "
from typing import Any
import warp as wp

@wp.func
def kind(x: wp.Float):
    return 1

@wp.func
def kind(x: wp.Int):
    return 2

@wp.func
def kind(x: wp.types.vector(length=Any, dtype=float)):
    return 3

@wp.func
def kind(x: Any):
    return 4

@wp.func
def kind(x: wp.types.matrix(shape=(Any, Any), dtype=float)):
    return 5

@wp.func
def count(x: int):
    return 10

@wp.func
def count(x: int, y: int = 1):
    return 20

@wp.kernel
def k(out: wp.array[int]):
    out[0] = kind(1.0)
    out[1] = kind(1)
    out[2] = kind(wp.vec3())
    out[3] = kind(wp.quat())
    out[4] = kind(wp.vec3d())
    out[5] = kind(wp.mat22())
    out[6] = count(0)
    out[7] = count(0, 0)
";
    let mut arguments = [Argument::array(&[0_i32; 8])];
    run_kernel(&kernels(source)[0], &[1], &mut arguments);
    assert_eq!(read::<i32>(&arguments[0]), [1, 2, 3, 4, 4, 4, 10, 20]);
}

#[test]
fn dimensions_of_arrays_are_stated_as_literals() {
    let source = "
from typing import Literal
import warp as wp

@wp.kernel
def k(x: wp.array[float, Literal[2]], out: wp.array[int]):
    out[0] = x.ndim
";
    let kernels = kernels(source);
    let mut arguments = [common::shaped(&[1.0_f32; 4], &[2, 2]), Argument::array(&[0_i32])];
    run_kernel(&kernels[0], &[1], &mut arguments);
    assert_eq!(read::<i32>(&arguments[1]), [2]);
    let error = refused(&source.replace("Literal[2]", "Literal[5]"));
    assert_eq!(error.message, "expected a type and 1 to 4 dimensions");
}

#[test]
fn a_function_takes_open_scalars_only_of_its_kind() {
    let error = refused(
        "
import warp as wp

@wp.func
def f(x: wp.Float):
    return x

@wp.kernel
def k(out: wp.array[int]):
    out[0] = f(1)
",
    );
    assert_eq!((error.message.as_str(), error.line), ("expected one of floating-point numbers, got int32", 10));
}

#[test]
fn a_kernel_has_a_bounded_number_of_overloads() {
    let kernel = "
import warp as wp
from typing import Any

@wp.kernel
def k(out: wp.array[int], x: Any):
    out[0] = int(x)

";
    let overloads = |count: usize| format!("{kernel}{}", "wp.overload(k, [wp.array[int], float])\n".repeat(count));
    assert_eq!(kernels(&overloads(256)).len(), 1, "equal overloads are one");
    let error = refused(&overloads(257));
    assert_eq!((error.kind, error.line), (ErrorKind::TooLarge, 6));
    assert_eq!(error.message, "expected at most 256 overloads of a kernel, got 257");
}
