//! Structs with arrays, and within them.

mod common;

use accelerd_ir::kernel::{Argument, FaultKind};
use accelerd_lower::{Dialect, ErrorKind, LowerError, lower};
use common::{fault, options, read, refused, run, run_kernel};

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

/// A module with structs and a kernel `k(x, y, n, out)`, of which `i` is the thread.
fn source(functions: &str, body: &str) -> String {
    let body: String = body.trim().lines().flat_map(|line| ["    ", line, "\n"]).collect();
    format!(
        "
import warp as wp

@wp.struct
class Empty:
    pass

@wp.struct
class Inner:
    data: wp.array(dtype=float)
    empty: Empty

@wp.struct
class S:
    scale: float
    at: wp.vec3
    data: wp.array(dtype=float)
    inner: Inner

{functions}

@wp.kernel
def k(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int, out: wp.array(dtype=float)):
    i = wp.tid()
{body}"
    )
}

/// `out` of two threads with `x` of 1 and 2, and `y` of 10 and 20.
fn results(functions: &str, body: &str, n: i32) -> Vec<f32> {
    let mut arguments = [
        Argument::array(&[1.0_f32, 2.0]),
        Argument::array(&[10.0_f32, 20.0]),
        Argument::value(n),
        Argument::array(&[0.0_f32; 2]),
    ];
    run(&source(functions, body), &[2], &mut arguments);
    read(&arguments[3])
}

fn error(functions: &str, body: &str) -> LowerError {
    refused(&source(functions, body), &options(Dialect::Warp))
}

#[test]
fn local_structs_have_arrays() {
    let functions = "
@wp.func
def value(s: S, i: int):
    s.scale += 1.0
    return s.scale * s.data[i] + s.at[0] + s.inner.data[i]

@wp.func
def filled(data: wp.array(dtype=float), n: int):
    s = S()
    if n == 0:
        return 0, s
    s.data = data
    s.inner.data = data
    s.scale = 2.0
    return 1, s
";
    let body = "
known, s = filled(x, n)
t = s
t.data = y
t.at[0] = 5.0
inner = Inner(y, Empty())
t.inner = inner
s.at = wp.vec3(100.0, 0.0, 0.0)
if s.inner.data:
    out[i] = value(s, i) + value(t, i) + float(known)
";
    // Of `s`: 3 x + 100 + x. Of `t`: 3 y + 5 + y.
    assert_eq!(results(functions, body, 1), [150.0, 194.0]);
    assert_eq!(results(functions, body, 0), [0.0, 0.0]);
}

#[test]
fn a_field_may_be_an_array_on_some_paths_only() {
    let body = "
s = S()
if n > i:
    s.data = x
elif n < 0:
    s.data = x
out[i] = 1.0
if n != 0:
    out[i] = s.data[i]
";
    assert_eq!(results("", body, 2), [1.0, 2.0]);
    assert_eq!(results("", body, 0), [1.0, 1.0]);
    let mut arguments =
        [Argument::array(&[1.0_f32]), Argument::array(&[1.0_f32]), Argument::value(1), Argument::array(&[0.0_f32; 2])];
    let unassigned = fault(&source("", body), &options(Dialect::Warp), &[2], &mut arguments);
    assert_eq!(unassigned, FaultKind::InvalidValue);
    let mut arguments =
        [Argument::array(&[1.0_f32]), Argument::array(&[1.0_f32]), Argument::value(1), Argument::array(&[0.0_f32; 1])];
    let never = source("", "s = S()\nout[i] = s.data[i]");
    assert_eq!(fault(&never, &options(Dialect::Warp), &[1], &mut arguments), FaultKind::InvalidValue);
}

#[test]
fn a_new_struct_has_no_array() {
    let body = "
s = S()
s.data = x
for j in range(2):
    out[i] += s.data[i]
    if n > j:
        s = S()
";
    assert_eq!(results("", body, 0), [2.0, 4.0]);
    let mut arguments =
        [Argument::array(&[1.0_f32]), Argument::array(&[1.0_f32]), Argument::value(1), Argument::array(&[0.0_f32])];
    assert_eq!(fault(&source("", body), &options(Dialect::Warp), &[1], &mut arguments), FaultKind::InvalidValue);
}

#[test]
fn parameters_keep_their_fields() {
    let functions = "
@wp.func
def changed(s: S, i: int):
    s.inner.data = s.data
    s.scale = 7.0
    return s

@wp.func
def added(value: wp.ref[float]):
    value += 1.0
";
    let body = "
s = S(1.0, wp.vec3(), x, Inner(y, Empty()))
t = changed(s, i)
added(s.scale)
out[i] = s.scale + s.inner.data[i] + 1000.0 * (t.scale + t.inner.data[i])
";
    assert_eq!(results(functions, body, 0), [8012.0, 9022.0]);
}

#[test]
fn an_array_that_depends_on_a_condition_is_refused_by_name() {
    let error = error("", "s = S()\nif n > 0:\n    s.data = x\nelse:\n    s.data = y\nout[i] = s.data[i]");
    assert_eq!(error.kind, ErrorKind::UnsupportedExpression);
    assert!(error.message.contains("`s.data`"), "{}", error.message);
    let early = "
@wp.func
def f(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    if n > 0:
        return x
    return y
";
    assert_eq!(self::error(early, "z = f(x, y, n)\nout[i] = z[i]").kind, ErrorKind::TypeMismatch);
    assert_eq!(self::error("", "s = S()\ns.scale = x").kind, ErrorKind::TypeMismatch);
    assert_eq!(self::error("", "s = S()\ns.data = n").kind, ErrorKind::TypeMismatch);
    assert_eq!(self::error("", "s = S()\ns.none = x").kind, ErrorKind::TypeMismatch);
    assert_eq!(self::error("", "s = S(1.0)\nout[i] = s.scale").kind, ErrorKind::ArgumentMismatch);
}

#[test]
fn an_empty_struct_is_a_parameter_without_arrays() {
    let text = source("", "pass").replace("n: int, out", "e: Empty, out");
    let module = lower(&text, &options(Dialect::Warp)).unwrap_or_else(|error| panic!("{error}"));
    let names: Vec<_> = module.kernels[0].kernel.params.iter().map(|param| param.name.as_str()).collect();
    assert_eq!(names, ["x", "y", "out"]);
    assert!(module.kernels[0].parameters[2].params.is_empty());
}
