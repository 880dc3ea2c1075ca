//! Functions: overloads, values and references.

mod common;

use std::ops::ControlFlow;

use accelerd_ir::kernel::interpret::{Limits, launch};
use accelerd_ir::kernel::{Argument, FaultKind};
use accelerd_lower::{Dialect, ErrorKind, for_each_kernel, lower};
use common::{fault, options, read, refused, refused_body, run, shaped};

#[test]
fn functions_are_inlined_with_early_returns_and_tuples() {
    let source = "
import warp as wp

LIMIT = wp.constant(10)

@wp.func
def clip(x: float):
    if x < 0.0:
        return 0.0
    if x > float(LIMIT):
        return float(LIMIT)
    return x

@wp.func
def both(a: float, b: float):
    return clip(a), b + clip(b)

@wp.func
def find(x: wp.array(dtype=float), value: float):
    for i in range(x.shape[0]):
        if x[i] == value:
            return i
    return -1

@wp.func
def twice(x: int):
    return 2 * x

@wp.func
def twice(x: float):
    return 2.0 * x

@wp.kernel
def k(x: wp.array(dtype=float), out: wp.array(dtype=float), found: wp.array(dtype=int)):
    i = wp.tid()
    a, b = both(x[i], 1.0)
    a, b = b, a
    out[i] = a + 100.0 * b
    found[i] = find(x, 20.0) + twice(i)
    x[i] = twice(x[i])
";
    let mut arguments =
        [Argument::array(&[-5.0_f32, 4.0, 20.0]), Argument::array(&[0.0_f32; 3]), Argument::array(&[0_i32; 3])];
    run(source, &[1], &mut arguments[..]);
    run(source, &[3], &mut arguments[..]);
    assert_eq!(read::<f32>(&arguments[1]), [2.0, 402.0, 1002.0]);
    // The array changes while the threads run, in order.
    assert_eq!(read::<i32>(&arguments[2]), [2, 4, 6]);
    assert_eq!(read::<f32>(&arguments[0]), [-20.0, 8.0, 40.0]);
}

#[test]
fn a_function_without_a_result_may_return_early() {
    let source = "
import warp as wp

@wp.func
def store(x: float, out: wp.array(dtype=float), i: int):
    if x < 0.0:
        return
    out[i] = wp.sqrt(x)

@wp.func
def nested(x: float, out: wp.array(dtype=float), i: int):
    for j in range(4):
        if x > float(j):
            out[i] += 1.0
            continue
        if x < -1.0:
            return
        out[i] += 10.0
        return
    out[i] += 100.0

@wp.func
def ends(x: float, out: wp.array(dtype=float), i: int) -> None:
    if x > 1.0:
        out[i] = 1.0
        return
    out[i] = 2.0
    return

@wp.func
def never(x: float, out: wp.array(dtype=float), i: int):
    return
    out[i] = 3.0

@wp.func
def caller(x: float, out: wp.array(dtype=float), i: int):
    store(x, out, i)
    if x == 4.0:
        return
    store(x + 5.0, out, i)

@wp.kernel
def k(x: wp.array(dtype=float), a: wp.array(dtype=float), b: wp.array(dtype=float), c: wp.array(dtype=float)):
    i = wp.tid()
    store(x[i], a, i)
    nested(x[i], b, i)
    ends(x[i], c, i)
    never(x[i], c, i)
    if x[i] == 2.25:
        return
    caller(x[i], c, i)
";
    let x = [-4.0_f32, -1.0, 2.25, 4.0, 9.0];
    let mut arguments = [&x, &[7.0; 5], &[0.0; 5], &[0.0; 5]].map(|values| Argument::array(values));
    run(source, &[5], &mut arguments);
    assert_eq!(read::<f32>(&arguments[1]), [7.0, 7.0, 1.5, 2.0, 3.0]);
    assert_eq!(read::<f32>(&arguments[2]), [0.0, 10.0, 13.0, 104.0, 104.0]);
    assert_eq!(read::<f32>(&arguments[3]), [1.0, 2.0, 1.0, 2.0, 14.0_f32.sqrt()]);
}

#[test]
fn what_is_printed_is_evaluated() {
    let source = "
import warp as wp

@wp.kernel
def k(x: wp.array(dtype=float), n: int):
    wp.printf(\"%d %f\\n\", n, x[n])
    print(x[0])
    print(\"done\")
    wp.print(wp.vec2(1.0, 2.0))
    wp.printf(\"%f\\n\", wp.atomic_add(x, 0, 1.0))
";
    let mut arguments = [Argument::array(&[4.0_f32, 5.0]), Argument::value(1)];
    run(source, &[1], &mut arguments);
    assert_eq!(read::<f32>(&arguments[0]), [5.0, 5.0]);
    arguments[1] = Argument::value(2);
    assert_eq!(fault(source, &options(Dialect::Warp), &[1], &mut arguments), FaultKind::OutOfBounds);
}

#[test]
fn functions_are_made_kernels_and_functions_by_calls() {
    let source = "
import warp as wp

def squared(x: float):
    return x * x

def twice(x: float):
    return 2.0 * x

def k(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = square(x[i]) + twice(x[i])

square = wp.func(squared)
twice = wp.func(f=twice)
kernel = KERNEL
";
    for made in ["wp.kernel(k)", "wp.kernel(k, enable_backward=False)", "wp.Kernel(func=k)"] {
        let mut arguments = [Argument::array(&[3.0_f32, -1.0])];
        run(&source.replace("KERNEL", made), &[2], &mut arguments);
        assert_eq!(read::<f32>(&arguments[0]), [15.0, -1.0]);
    }
    assert_eq!(refused(&source.replace("KERNEL", "k"), &options(Dialect::Warp)).kind, ErrorKind::NoKernel);
    let decorated = source.replace("def squared", "@other\ndef squared").replace("KERNEL", "wp.kernel(k)");
    assert_eq!(refused(&decorated, &options(Dialect::Warp)).kind, ErrorKind::UnsupportedExpression);
}

#[test]
fn a_function_with_a_result_must_not_reach_its_end() {
    let source = "
import warp as wp

@wp.func
def f(x: float):
    if x < 0.0:
        return 1.0

@wp.kernel
def k(x: wp.array(dtype=float)):
    x[0] = f(x[0])
";
    let mut arguments = [Argument::array(&[-1.0_f32])];
    run(source, &[1], &mut arguments);
    assert_eq!(read::<f32>(&arguments[0]), [1.0]);
    assert_eq!(fault(source, &options(Dialect::Warp), &[1], &mut arguments), FaultKind::InvalidValue);
    let mixed = source.replace("return 1.0", "return\n    return 1.0");
    assert_eq!(refused(&mixed, &options(Dialect::Warp)).kind, ErrorKind::TypeMismatch);
}

#[test]
fn an_overload_is_chosen_by_the_types_of_the_arguments() {
    let source = "
import warp as wp

@wp.func
def half(x: int):
    return x / 2

@wp.func
def half(x: float):
    return x / 2.0

@wp.func
def half(x: wp.float64):
    return x / wp.float64(2.0)

@wp.struct
class Complex:
    re: float
    im: float

@wp.func
def mul(a: Complex, b: Complex):
    return Complex(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)

@wp.kernel
def k(out: wp.array(dtype=float)):
    out[0] = float(half(3)) + 10.0 * half(3.0)
    c = Complex(1.0, 2.0) * Complex(3.0, -1.0)
    c *= c
    out[1] = c.re
    out[2] = c.im
";
    let mut arguments = [Argument::array(&[0.0_f32; 3])];
    run(source, &[1], &mut arguments);
    assert_eq!(read::<f32>(&arguments[0]), [16.0, 0.0, 50.0]);
    let ambiguous = source
        .replace("def half(x: int)", "def half(x: wp.int64)")
        .replace("half(3))", "half(3)))")
        .replace("float(half", "float(float(half");
    assert_eq!(refused(&ambiguous, &options(Dialect::Warp)).kind, ErrorKind::ArgumentMismatch);
}

#[test]
fn functions_are_values() {
    let source = "
import warp as wp

@wp.func
def double(x: float):
    return 2.0 * x

@wp.func
def triple(x: float):
    return 3.0 * x

@wp.func
def apply(f: wp.Function, x: float):
    g = f
    return g(x)

@wp.func
def apply_default(f: wp.Function = double, x: float = 5.0):
    return f(x)

ALIAS = triple
SINE = wp.sin
TABLE = {\"double\": double, \"triple\": triple}
THREAD = wp.tid

@wp.kernel
def k(out: wp.array[float]):
    i = THREAD()
    f = double
    out[0] = f(1.0) + apply(f, 10.0)
    out[1] = apply(triple, 1.0) + ALIAS(2.0)
    out[2] = apply(f=ALIAS, x=3.0)
    out[3] = apply(wp.sqrt, 16.0) + SINE(0.0)
    out[4] = apply_default()
    out[5] = wp.static(TABLE[\"triple\"])(2.0)
    out[6] = wp.add(2.0, apply(wp.floor, 1.5))
";
    let mut arguments = [Argument::array(&[0.0_f32; 7])];
    run(source, &[1], &mut arguments);
    assert_eq!(read::<f32>(&arguments[0]), [22.0, 9.0, 9.0, 4.0, 10.0, 6.0, 3.0]);
}

#[test]
fn an_alias_stands_for_the_definition_before_it() {
    let source = "
import warp as wp

@wp.func
def f():
    return 17

first = f

@wp.func
def f():
    return 42

@wp.kernel
def k(out: wp.array[int]):
    out[0] = f()
    out[1] = first()
";
    let mut arguments = [Argument::array(&[0_i32; 2])];
    run(source, &[1], &mut arguments);
    assert_eq!(read::<i32>(&arguments[0]), [42, 17]);
    let rebound = "f = wp.sin\nf = wp.cos\nout[0] = f(1.0)";
    assert_eq!(refused_body(rebound), ErrorKind::UnsupportedExpression);
    assert_eq!(refused_body("f = wp.sin\nf = 1.0"), ErrorKind::TypeMismatch);
}

#[test]
fn functions_change_what_references_refer_to() {
    let source = "
import warp as wp

@wp.struct
class Box:
    value: float
    at: wp.vec3

@wp.func
def add(x: wp.ref[wp.float32], by: float):
    x += by

@wp.func
def forward(x: wp.ref[wp.float32]):
    add(x, 1.0)
    x = x * 2.0

@wp.func
def swap(x: wp.ref[wp.float32], y: wp.ref[wp.float32]):
    x, y = y, x

@wp.func
def fill(box: wp.ref[Box]):
    box.value += 1.0
    box.at[1] = box.value
    add(box.at.z, 7.0)

@wp.func
def old(x: wp.ref[wp.float32]):
    was = x
    x = 0.0
    return was

@wp.func
def by_value(x: float):
    add(x, 100.0)
    return x

@wp.kernel(enable_backward=False)
def k(out: wp.array[float], rows: wp.array2d[float]):
    a = float(1.0)
    add(a, by=2.0)
    out[0] = a
    forward(out[1])
    b = float(8.0)
    swap(a, b)
    out[2] = a
    out[3] = b
    box = Box()
    fill(box)
    fill(box)
    out[4] = box.value + box.at[1] + box.at[2]
    add(rows[1, 0], 3.0)
    n = int(0)
    out[5] = 0.0
    while n < 3:
        add(out[5], float(n))
        n += 1
    out[6] = old(a) + a
    out[7] = by_value(b) + b
";
    let mut arguments = [Argument::array(&[0.0_f32; 8]), shaped(&[0.0_f32; 4], &[2, 2])];
    run(source, &[1], &mut arguments);
    assert_eq!(read::<f32>(&arguments[0]), [3.0, 2.0, 8.0, 3.0, 18.0, 3.0, 8.0, 106.0]);
    assert_eq!(read::<f32>(&arguments[1]), [0.0, 0.0, 3.0, 0.0]);
    let header = "
import warp as wp

@wp.func
def add(x: wp.ref[wp.float32]):
    x += 1.0

@wp.kernel
def k(a: wp.array[float], n: wp.array[int], s: float):
";
    for (line, kind) in [
        ("add(1.0)", ErrorKind::ArgumentMismatch),
        ("add(a[0] + 1.0)", ErrorKind::ArgumentMismatch),
        ("add(n[0])", ErrorKind::TypeMismatch),
        ("add(a)", ErrorKind::TypeMismatch),
    ] {
        let error = lower(&format!("{header}    {line}\n"), &options(Dialect::Warp)).expect_err(line);
        assert_eq!(error.kind, kind, "{line}: {error}");
    }
}

#[test]
fn a_named_function_is_mapped_over_rows() {
    let source = "
import warp as wp

@wp.func
def half(x: int):
    return x / 2

@wp.func
def both(x: float, n: int, up: bool):
    if up:
        return x + float(half(n)), n
    return x, -n

@wp.func
def thread(x: int):
    return x + wp.tid()

@wp.kernel
def k(out: wp.array[float]):
    out[0] = 1.0
";
    let kernel = |name: &str| {
        let mut found = vec![];
        let names = [name.to_owned()];
        for_each_kernel(source, &options(Dialect::Warp), &names, &|| ControlFlow::Continue(()), |outcome| {
            found.push(outcome.kernel);
            ControlFlow::Continue(())
        })
        .expect("there is one");
        found.remove(0)
    };
    let lowered = kernel("both").expect("lowers");
    assert!(lowered.maps_rows);
    let mut arguments = [
        Argument::array(&[0.5_f32, 1.5, 2.5]),
        Argument::array(&[7_i32, 8, -9]),
        Argument::array(&[true, false, true]),
        Argument::array(&[0.0_f32; 3]),
        Argument::array(&[0_i32; 3]),
    ];
    launch(&lowered.kernel, &[3], &mut arguments, Limits::default()).expect("runs");
    assert_eq!(read::<f32>(&arguments[3]), [3.5, 1.5, -1.5]);
    assert_eq!(read::<i32>(&arguments[4]), [7, -8, -9]);
    assert!(!kernel("k").expect("lowers").maps_rows);
    assert_eq!(kernel("thread").expect_err("it has no thread").kind, ErrorKind::UnsupportedBuiltin);
    let all = lower(source, &options(Dialect::Warp)).expect("lowers");
    assert_eq!(all.kernels.iter().map(|kernel| kernel.name.as_str()).collect::<Vec<_>>(), ["k"]);
}

#[test]
fn recursion_depth_and_size_are_bounded() {
    let warp = options(Dialect::Warp);
    let recursive =
        "import warp as wp\n\n@wp.func\ndef f(x: int):\n    return f(x)\n\n@wp.kernel\ndef k():\n    x = f(1)\n";
    assert_eq!(refused(recursive, &warp).kind, ErrorKind::Recursion);
    for (open, close) in [("-", ""), ("(1 + ", ")"), ("wp.abs(", ")")] {
        let deep = format!("{}1{}", open.repeat(150), close.repeat(150));
        let source = format!("import warp as wp\n\n@wp.kernel\ndef k():\n    x = {deep}\n");
        let _ = lower(&source, &warp);
        let deeper = format!("x{}", " + x".repeat(20_000));
        let source = format!("import warp as wp\n\n@wp.kernel\ndef k(x: int):\n    y = {deeper}\n");
        assert_eq!(refused(&source, &warp).kind, ErrorKind::TooDeep);
    }
    // Each function calls the one before twice.
    let mut source = "import warp as wp\n\n@wp.func\ndef f0(x: float):\n    return wp.sin(x) * x\n".to_owned();
    for index in 1..30 {
        let before = index - 1;
        source = format!("{source}\n@wp.func\ndef f{index}(x: float):\n    return f{before}(x) + f{before}(x + 1.0)\n");
    }
    source += "\n@wp.kernel\ndef k(out: wp.array(dtype=float)):\n    out[0] = f29(1.0)\n";
    assert_eq!(refused(&source, &warp).kind, ErrorKind::TooLarge);
}
