//! Kernels in Warp's style compute what Warp computes.

mod common;

use accelerd_ir::kernel::{Argument, FaultKind};
use accelerd_lower::{Dialect, ErrorKind, Options, lower};
use common::{body, options, read, refused, refused_body, run, shaped, try_run, whole_fault};

#[test]
fn saxpy_computes_each_element() {
    let source = "
import warp as wp

@wp.kernel
def saxpy(x: wp.array(dtype=float), y: wp.array[wp.float32], a: float):
    \"\"\"Adds a scaled array.\"\"\"
    i = wp.tid()
    y[i] = a * x[i] + y[i]
";
    let mut arguments =
        [Argument::array(&[1.0_f32, 2.0, 3.0]), Argument::array(&[0.5_f32, 0.25, -1.0]), Argument::value(2.0_f32)];
    run(source, &[3], &mut arguments);
    assert_eq!(read::<f32>(&arguments[1]), [2.5, 4.25, 5.0]);
    let module = lower(source, &options(Dialect::Warp)).expect("lowers");
    let kernel = &module.kernels[0];
    assert_eq!((kernel.name.as_str(), kernel.docstring.as_deref()), ("saxpy", Some("Adds a scaled array.")));
    let names: Vec<_> = kernel.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
    assert_eq!(names, ["x", "y", "a"]);
}

#[test]
fn loops_branches_and_early_exits_follow_python() {
    let results = body(
        "int",
        "
total = int(0)
for i in range(10):
    if i == 2:
        continue
    if i > 5:
        break
    total += i
out[0] = total
n = int(27)
steps = int(0)
while n != 1:
    if n % 2 == 0:
        n = n // 2
    else:
        n = 3 * n + 1
    steps += 1
out[1] = steps
count = int(0)
for i in range(5, -6, -3):
    for j in range(i):
        count += 1
out[2] = count
out[3] = i
x = 3
out[4] = 1 if 0 < x < 3 or not x == 3 else 2
out[5] = 7 if x > 1 and x != 2 else 8
",
        6,
        0_i32,
    );
    assert_eq!(results, [1 + 3 + 4 + 5, 111, 5 + 2, -4, 2, 7]);
}

#[test]
fn a_variable_that_no_path_assigns_is_a_fault() {
    let source = "
import warp as wp

@wp.func
def pick(n: int):
    if n > 0:
        x = n
    return x

@wp.kernel
def k(out: wp.array(dtype=int), n: int):
    for i in range(n, -1, -1):
        out[0] = pick(i)
";
    let mut arguments = [Argument::array(&[0_i32]), Argument::value(2_i32)];
    let fault = whole_fault(source, &options(Dialect::Warp), &[1], &mut arguments);
    assert_eq!((fault.kind, fault.unassigned.as_deref()), (FaultKind::InvalidValue, Some("x")));
    assert_eq!(fault.site.map(|site| (site.line, site.column)), Some((8, 11)), "where it is read");
    assert_eq!(read::<i32>(&arguments[0]), [1], "the calls that assign it return it");
}

#[test]
fn operands_are_read_once_all_are_evaluated() {
    let results = body(
        "wp.uint32",
        "
state = wp.rand_init(1)
old = state
out[0] = state ^ wp.randu(state)
out[1] = old
out[2] = state
",
        3,
        0_u32,
    );
    assert_ne!(results[1], results[2]);
    assert_eq!(results[0], 0, "both are the new state");
    // Expectations are what Warp 1.19 computes.
    let source = "
import warp as wp

@wp.func
def g(a: wp.array[float]):
    a[0] = a[0] + 10.0
    return a[0]

@wp.func
def inc(x: wp.ref[wp.float32]):
    x += 10.0
    return x

@wp.func
def zero(x: wp.ref[wp.float32]):
    was = x
    x = 0.0
    return was

@wp.kernel
def k(out: wp.array[float], a: wp.array[float], b: wp.array[float]):
    out[0] = a[0] + wp.atomic_add(a, 0, 5.0)
    a[0] = 1.0
    out[1] = a[0] + g(a)
    a[0] = 1.0
    out[2] = wp.max(a[0], g(a) * 0.0)
    a[0] = 1.0
    v = wp.vec2(a[0], g(a))
    out[3] = v[0]
    a[0] = 1.0
    out[4] = float((a[0] > 5.0) or (g(a) > 0.0))
    a[0] = 1.0
    x, y = a[0], g(a)
    out[5] = x
    a[0] = 1.0
    out[6] = (a[0] + 0.0) + g(a)
    p = float(1.0)
    out[7] = p + inc(p)
    q = float(1.0)
    out[8] = q * 2.0 + inc(q)
    r = float(5.0)
    out[9] = zero(r) + r
    w = float(1.0)
    copy = w
    out[10] = inc(w) + copy
    out[11] = b[0] + inc(b[0])
    t = (w, inc(w))
    out[12] = t[0]
    s = float(3.0)
    out[13] = wp.max(s, inc(s)) + wp.min(s, inc(s))
";
    let mut arguments = [Argument::array(&[0.0_f32; 14]), Argument::array(&[1.0_f32]), Argument::array(&[1.0_f32])];
    run(source, &[1], &mut arguments);
    let expected = [7.0, 22.0, 11.0, 11.0, 1.0, 11.0, 12.0, 22.0, 13.0, 5.0, 12.0, 22.0, 21.0, 36.0];
    assert_eq!(read::<f32>(&arguments[0]), expected);
}

#[test]
fn what_warp_refuses_is_refused() {
    for (body, expected) in [
        ("out[0] = 1.0 * float(n) * n", ErrorKind::TypeMismatch),
        ("out[0] = n", ErrorKind::TypeMismatch),
        ("if n > 0:\n    x = 1\n    x = 2.0", ErrorKind::TypeMismatch),
        ("x = 1\nif n > 0:\n    x = 2.0", ErrorKind::TypeMismatch),
        ("x = 1\nfor i in range(n):\n    x = 2.0", ErrorKind::TypeMismatch),
        ("out[0] = missing", ErrorKind::UnknownName),
        ("wp.printf(n)", ErrorKind::ArgumentMismatch),
        ("out[0] = out.shape[4]", ErrorKind::IndexOutOfRange),
        (
            "i = wp.vec2()\nfor j in range(n):\n    out[0] = i[0]\n    for i in range(n):\n        pass",
            ErrorKind::TypeMismatch,
        ),
        ("out[0] = wp.nothing(1.0)", ErrorKind::UnsupportedBuiltin),
        ("out[0] = wp.sin(n)", ErrorKind::ArgumentMismatch),
        ("x = [1, 2]", ErrorKind::UnsupportedExpression),
        ("try:\n    pass\nfinally:\n    pass", ErrorKind::UnsupportedStatement),
        ("with n:\n    pass", ErrorKind::UnsupportedStatement),
        ("out[0] = y\ny = 1.0", ErrorKind::UnassignedVariable),
        ("for i in range(3):\n    pass\nelse:\n    pass", ErrorKind::UnsupportedStatement),
        ("i = wp.tid()\ni, j = wp.tid()", ErrorKind::ArgumentMismatch),
        ("out[0, 1] = 1.0", ErrorKind::TypeMismatch),
        ("return 1.0", ErrorKind::TypeMismatch),
        ("out[0] = wp.vec3(1.0, 2.0).x", ErrorKind::ArgumentMismatch),
        ("out[0] = wp.vec2(1.0, 2.0).z", ErrorKind::UnknownAttribute),
        ("lambda: 1", ErrorKind::UnsupportedExpression),
    ] {
        assert_eq!(refused_body(body), expected, "{body}");
    }
}

#[test]
fn an_error_has_its_place_in_characters() {
    let source =
        "import warp as wp\n\n@wp.kernel\ndef k(out: wp.array(dtype=float)):\n    é = 1.0; out[0] = é + missing\n";
    let error = refused(source, &options(Dialect::Warp));
    assert_eq!((error.line, error.column), (5, 26));
    assert_eq!(error.to_string(), "line 5, column 26: unknown name `missing`");
}

#[test]
fn a_source_without_kernels_or_with_a_syntax_error_is_refused() {
    let warp = options(Dialect::Warp);
    assert_eq!(refused("x = 1\n", &warp).kind, ErrorKind::NoKernel);
    let plain = refused("\ndef f():\n    pass\n", &warp);
    assert_eq!(plain.to_string(), "line 2, column 0: expected a kernel, got none: `f` has no decorator `@wp.kernel`");
    let error = refused("def f(:\n    pass\n", &warp);
    assert_eq!((error.kind, error.line), (ErrorKind::Syntax, 1));
    let source = "import warp as wp\n\n@wp.kernel\ndef a():\n    pass\n\n@wp.kernel\ndef b(x):\n    pass\n";
    let only = lower(source, &Options { entry: Some("a"), ..warp.clone() }).expect("lowers");
    assert_eq!(only.kernels.len(), 1);
    assert_eq!(refused(source, &warp).kind, ErrorKind::GenericKernel);
}

#[test]
fn expectations_and_assertions_are_faults() {
    for (check, holds) in [
        ("wp.expect_eq(1 + 1, 2)", true),
        ("wp.expect_eq(wp.vec2(1.0, 2.0), wp.vec2(1.0, 3.0))", false),
        ("wp.expect_neq(1, 1)", false),
        ("wp.expect_near(1.0, 1.05, 0.1)", true),
        ("wp.expect_near(1.0, 1.2, 0.1)", false),
        ("assert 1 > 2", false),
    ] {
        let source = format!("import warp as wp\n\n@wp.kernel\ndef k():\n    {check}\n");
        let result = try_run(&source, &options(Dialect::Warp), &[1], &mut []);
        assert_eq!(result.is_ok(), holds, "{check}");
    }
}

#[test]
fn operands_that_are_not_reached_are_not_evaluated() {
    let source = "
import warp as wp

@wp.kernel
def k(a: wp.array(dtype=int), out: wp.array(dtype=int)):
    i = wp.tid()
    if i < a.shape[0] and a[i] > 0:
        out[i] = 1
    if i >= a.shape[0] or a[i] == 0:
        out[i] += 10
    out[i] += 100 if i >= a.shape[0] else a[i]
";
    let mut arguments = [Argument::array(&[0_i32, 5]), Argument::array(&[0_i32; 3])];
    run(source, &[3], &mut arguments);
    assert_eq!(read::<i32>(&arguments[1]), [10, 6, 110]);
}

#[test]
fn ranges_run_in_reverse() {
    let source = "
import warp as wp

@wp.kernel
def k(starts: wp.array[int], ends: wp.array[int], steps: wp.array[int], out: wp.array2d[int]):
    i = wp.tid()
    n = int(0)
    for at in reversed(range(starts[i], ends[i], steps[i])):
        out[i, n] = at
        n += 1
    out[i, 5] = n
";
    let ranges: [(i32, i32, i32); 6] =
        [(-2, 8, 3), (9, -3, -2), (0, 5, 1), (3, 3, 1), (i32::MAX - 2, i32::MAX, 1), (i32::MIN, i32::MAX, i32::MAX)];
    let column = |of: fn(&(i32, i32, i32)) -> i32| Argument::array(&ranges.iter().map(of).collect::<Vec<_>>());
    let mut arguments =
        [column(|range| range.0), column(|range| range.1), column(|range| range.2), shaped(&[-99; 48], &[6, 8])];
    run(source, &[6], &mut arguments);
    let out = read::<i32>(&arguments[3]);
    for (row, (start, end, step)) in out.chunks(8).zip(ranges) {
        let mut expected = vec![];
        let mut index = i64::from(start);
        while if step > 0 { index < i64::from(end) } else { index > i64::from(end) } {
            expected.push(index);
            index += i64::from(step);
        }
        expected.reverse();
        // The sixth column holds the count.
        let got: Vec<_> = row.iter().take(expected.len().min(5)).map(|index| i64::from(*index)).collect();
        assert_eq!(got, expected[..expected.len().min(5)], "range({start}, {end}, {step})");
    }
}

#[test]
fn stars_spread_tuples_and_vectors() {
    let results = body(
        "float",
        "
v = wp.vec3(1.0, 2.0, 3.0)
pair = (4.0, 5.0)
w = wp.vec3(*v)
q = wp.quat(*pair, *v[1:])
out[0] = w[2]
out[1] = q[0] + q[3]
out[2] = wp.max(*pair)
",
        3,
        0.0_f32,
    );
    assert_eq!(results, [3.0, 7.0, 5.0]);
    assert_eq!(refused_body("x = 1.0\nv = wp.vec3(*x)"), ErrorKind::TypeMismatch);
}
