//! `wp.static`, and the loops that it unrolls. Results are those of Warp 1.19.

mod common;

use accelerd_lower::ErrorKind;
use common::{body, refused_body};

#[test]
fn static_expressions_have_the_values_of_the_loop_variable() {
    let results = body(
        "float",
        "
for i in range(3):
    out[i] = wp.static(float(i * 2 + 1)) + 0.0 * float(i)
for i in range(7, 1, -2):
    out[i] = wp.static(i / 2)
for i in range(8, 4, -2):
    for j in range(2):
        out[i + j] += wp.static(float(i) + wp.static(100.0) * 1.0) * wp.static(float(j))
",
        10,
        0.0_f32,
    );
    assert_eq!(results, [1.0, 3.0, 5.0, 1.5, 0.0, 2.5, 0.0, 109.5, 0.0, 108.0]);
}

#[test]
fn unrolled_loops_are_left_and_continued() {
    let results = body(
        "int",
        "
n = int(0)
for i in range(20):
    if wp.static(i % 2 == 0):
        continue
    if i > 10:
        break
    n += i
    out[0] = n
    for j in range(5):
        if j == 2:
            break
        out[1] += wp.static(i)
out[2] = n
while n > 0:
    for i in range(4):
        if wp.static(i >= 2):
            break
        n -= wp.static(i + 1)
out[3] = n
",
        4,
        0_i32,
    );
    assert_eq!(results, [25, 50, 25, -2]);
}

#[test]
fn lengths_of_variables_are_static() {
    let results = body(
        "int",
        "
q = wp.quat()
m = wp.types.matrix(shape=(3, 2), dtype=float)()
out[0] = wp.static(len(q))
out[1] = wp.static(len(m) * 10)
for i in range(wp.static(len(m))):
    out[2] += wp.static(i)
for i in range(wp.static(True)):
    out[3] += 1
",
        4,
        0_i32,
    );
    assert_eq!(results, [4, 30, 3, 1]);
}

#[test]
fn variables_that_hold_a_known_number_are_static() {
    let results = body(
        "int",
        "
n = 3
out[0] = wp.static(n + 1)
m = n * 2
n = 5
out[1] = wp.static(n - 0)
out[2] = int(wp.static(n > 3 and (n < 2 or n == 5)))
",
        3,
        0_i32,
    );
    assert_eq!(results, [4, 5, 1]);
}

#[test]
fn items_of_tuples_are_static() {
    let results = body(
        "int",
        "
for i in range(3):
    out[i] = wp.static((wp.min, wp.max)[i % 2])(wp.static(((7, 8), (9, 10), [11, 12])[i][-1]), 9)
",
        3,
        0_i32,
    );
    assert_eq!(results, [8, 10, 9]);
    assert_eq!(refused_body("out[0] = float(wp.static((1, 2)[2]))"), ErrorKind::NotConstant);
    assert_eq!(refused_body("out[0] = float(wp.static((1, 2)[n]))"), ErrorKind::NotConstant);
}

#[test]
fn lengths_of_types_are_static() {
    let results = body(
        "int",
        "
q = wp.quat()
m = wp.types.matrix(shape=(3, 2), dtype=wp.float64)()
v = wp.vector(length=type(q).length + 1, dtype=type(m).dtype)
out[0] = wp.static(m.length)
out[1] = len(v)
out[2] = wp.vec3.length + wp.types.vector(length=7, dtype=float).length
for i in range(out.dtype.length):
    out[3] += 1
one = wp.identity(n=m.length - 3, dtype=m[0].dtype)
out[4] = int(one[2, 2]) + one.length
",
        5,
        0_i32,
    );
    assert_eq!(results, [6, 5, 10, 1, 10]);
}

#[test]
fn what_is_not_static_is_refused() {
    assert_eq!(refused_body("for i in range(n):\n    out[0] = float(wp.static(i))"), ErrorKind::NotConstant);
    assert_eq!(refused_body("for i in range(9999):\n    out[0] = float(wp.static(i))"), ErrorKind::TooLarge);
    assert_eq!(refused_body("x = 3\nif n > 0:\n    x = 4\nout[0] = float(wp.static(x))"), ErrorKind::NotConstant);
    assert_eq!(refused_body("x = float(n)\nout[0] = float(wp.static(len(x)))"), ErrorKind::NotConstant);
    assert_eq!(
        refused_body("i = 1\nfor i in range(3):\n    pass\nout[0] = float(wp.static(i))"),
        ErrorKind::NotConstant
    );
}

#[test]
fn the_type_of_a_value_converts() {
    let results = body(
        "wp.float64",
        "x = wp.float64(2.5)\nout[0] = type(x)(7) * x\nout[1] = type(out[0])(wp.block_dim())\n",
        2,
        0.0_f64,
    );
    assert_eq!(results, [17.5, 1.0]);
}
