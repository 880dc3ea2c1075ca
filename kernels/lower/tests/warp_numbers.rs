//! Numbers, constants and comparisons of Warp.

mod common;

use accelerd_ir::kernel::{Argument, FaultKind};
use accelerd_lower::{Captured, Dialect, ErrorKind};
use common::{body, elements, fault, options, read, refused, refused_body, run, shaped, try_run};

#[test]
fn integers_divide_as_in_warps_headers() {
    let results = body(
        "int",
        "
a = int(-7)
b = int(2)
out[0] = a / b
out[1] = a // b
out[2] = a % b
out[3] = b // int(-3)
out[4] = a << 1
out[5] = a >> 1
out[6] = ~a
out[7] = wp.sign(0)
",
        8,
        0_i32,
    );
    assert_eq!(results, [-3, -4, -1, -1, -14, -4, 6, 1]);
}

#[test]
fn floats_divide_as_in_warps_headers() {
    let results = body(
        "float",
        "
a = float(-7.5)
b = float(2.0)
out[0] = a / b
out[1] = a // b
out[2] = a % b
out[3] = b ** 3.0
out[4] = wp.sign(0.0)
out[5] = wp.step(-1.0)
out[6] = wp.round(-2.5)
out[7] = wp.rint(2.5)
out[8] = wp.frac(-2.25)
out[9] = wp.clamp(5.0, 0.0, 1.0)
out[10] = wp.min(wp.nan, 3.0)
",
        11,
        0.0_f32,
    );
    assert_eq!(results, [-3.75, -4.0, -1.5, 8.0, 1.0, 1.0, -3.0, 2.0, -0.25, 1.0, 3.0]);
}

/// What Warp 1.19 computes on a CPU: `acosf(min(max(x, -1), 1))`, where a maximum with NaN is the number.
#[test]
fn inverse_sines_and_cosines_move_their_operand_to_the_domain() {
    use std::f64::consts::{FRAC_PI_2, PI};
    let cases = [
        (f64::NEG_INFINITY, -FRAC_PI_2, PI),
        (-1.5, -FRAC_PI_2, PI),
        (-1.000_000_1, -FRAC_PI_2, PI),
        (-1.0, -FRAC_PI_2, PI),
        (0.0, 0.0, FRAC_PI_2),
        (0.5, 0.5_f64.asin(), 0.5_f64.acos()),
        (1.0, FRAC_PI_2, 0.0),
        (1.000_000_1, FRAC_PI_2, 0.0),
        (1e30, FRAC_PI_2, 0.0),
        (f64::INFINITY, FRAC_PI_2, 0.0),
        (f64::NAN, -FRAC_PI_2, PI),
    ];
    for (dtype, bound) in [("wp.float64", 1e-15), ("wp.float32", 2e-7), ("wp.float16", 2e-3), ("wp.bfloat16", 2e-2)] {
        let source = format!(
            "
import warp as wp

@wp.kernel
def k(x: wp.array(dtype=wp.float64), sines: wp.array(dtype=wp.float64), cosines: wp.array(dtype=wp.float64)):
    i = wp.tid()
    v = {dtype}(x[i])
    f = wp.acos
    sines[i] = wp.float64(wp.asin(v))
    cosines[i] = wp.float64(f(v))
"
        );
        let inputs = cases.map(|(x, ..)| x);
        let mut arguments = [Argument::array(&inputs), Argument::array(&[9.0; 11]), Argument::array(&[9.0; 11])];
        run(&source, &[11], &mut arguments);
        let [sines, cosines] = [1, 2].map(|nth: usize| read::<f64>(&arguments[nth]));
        for (nth, (x, sine, cosine)) in cases.into_iter().enumerate() {
            assert!((sines[nth] - sine).abs() <= bound, "asin({x}) of {dtype}: {}", sines[nth]);
            assert!((cosines[nth] - cosine).abs() <= bound, "acos({x}) of {dtype}: {}", cosines[nth]);
        }
    }
}

#[test]
fn the_angle_between_unit_vectors_is_a_number() {
    let source = "
import warp as wp

@wp.kernel
def k(x: wp.array(dtype=wp.vec3), angles: wp.array(dtype=float)):
    i = wp.tid()
    u = wp.normalize(x[i])
    angles[2 * i] = wp.acos(wp.dot(u, u))
    angles[2 * i + 1] = wp.asin(wp.dot(u, -u))
";
    let count = 500_u32;
    let components: Vec<f32> = (0..3 * count).map(|nth| ((nth * 2_654_435 % 1009) as f32 - 500.0) / 97.0).collect();
    let mut arguments = [elements(&components, 3), Argument::array(&vec![9.0_f32; 1000])];
    run(source, &[count], &mut arguments);
    let angles = read::<f32>(&arguments[1]);
    assert!(angles.iter().step_by(2).all(|angle| angle.abs() < 1e-3));
    assert!(angles.iter().skip(1).step_by(2).all(|angle| (angle + std::f32::consts::FRAC_PI_2).abs() < 1e-3));
}

/// Warp negates scalars by subtraction from 0, components of vectors by their sign, and constants as Python does.
#[test]
fn the_negation_of_a_zero_has_the_sign_that_warp_gives_it() {
    let results = body(
        "float",
        "
x = float(out[0])
out[0] = wp.copysign(1.0, -x)
out[1] = wp.copysign(1.0, wp.neg(x))
out[2] = wp.copysign(1.0, (-wp.vec2(x, x))[1])
out[3] = wp.copysign(1.0, (-wp.mat22(x, x, x, x))[1, 1])
out[4] = wp.copysign(1.0, -0.0)
out[5] = wp.atan2(-x, -1.0)
out[6] = wp.copysign(1.0, float(-wp.float16(x)))
out[7] = float(-int(x + 5.0))
",
        8,
        0.0_f32,
    );
    assert_eq!(results, [1.0, 1.0, -1.0, -1.0, -1.0, std::f32::consts::PI, 1.0, -5.0]);
}

#[test]
fn constants_keep_their_precision_and_are_checked() {
    let results = body(
        "wp.float64",
        "
x = 0.1
out[0] = wp.float64(x)
out[1] = wp.float64(0.1)
out[2] = wp.float64(float(0.1))
out[3] = wp.vec3d(0.1, 0.2, 0.3)[2]
out[4] = wp.float64(wp.uint64(0xFFFFFFFFFFFFFFFF))
out[5] = wp.float64(wp.PI)
",
        6,
        0.0_f64,
    );
    let expected = [0.1, 0.1, f64::from(0.1_f32), 0.3, 18_446_744_073_709_551_615.0, std::f64::consts::PI];
    assert_eq!(results, expected);
    assert_eq!(refused_body("x = 3000000000"), ErrorKind::ConstantOutOfRange);
}

#[test]
fn captured_names_and_module_constants_are_known() {
    let source = "
import math
import warp as wp

HALF = 7 / 2
SIZE = 2 ** 3 - 1
UP = wp.constant(wp.vec3(0.0, 1.0, 0.0))
vec5 = wp.types.vector(length=5, dtype=wp.float32)

@wp.kernel
def k(out: wp.array(dtype=float)):
    v = vec5(1.0)
    out[0] = HALF + float(SIZE) + UP[1] + v[4] + SCALE * math.pi + wp.static(SIZE * 0.5)
";
    let mut options = options(Dialect::Warp);
    assert_eq!(refused(source, &options).kind, ErrorKind::UnknownName);
    options.constants.insert("SCALE".to_owned(), Captured::Float(2.0));
    let mut arguments = [Argument::array(&[0.0_f32])];
    try_run(source, &options, &[1], &mut arguments).expect("runs");
    let expected = 3.5 + 7.0 + 1.0 + 1.0 + 2.0 * std::f32::consts::PI + 3.5;
    assert!((read::<f32>(&arguments[0])[0] - expected).abs() < 1e-5);
}

#[test]
fn limits_of_types_are_constants() {
    let source = "
import sys
import numpy as np
import warp as wp

EPS = wp.constant(wp.float32(np.finfo(np.float32).eps))
WIDE = wp.float64(np.finfo(np.float64).eps)
TEXT = np.finfo(\"float16\").max
LEAST = float(np.finfo(float).tiny)
MOST = np.iinfo(np.int32).max
NARROW = int(np.iinfo(np.int8).min) - int(2.75)
OF_SYS = sys.float_info.epsilon * np.pi

@wp.kernel
def k(out: wp.array(dtype=wp.float64)):
    out[0] = wp.float64(EPS)
    out[1] = WIDE
    out[2] = wp.float64(TEXT)
    out[3] = wp.float64(LEAST)
    out[4] = wp.float64(MOST)
    out[5] = wp.float64(NARROW)
    out[6] = wp.float64(OF_SYS)
    out[7] = wp.float64(np.finfo(np.float32).min)
    out[8] = wp.float64(np.iinfo(np.uint8).max)
";
    let mut arguments = [Argument::array(&[0.0_f64; 9])];
    run(source, &[1], &mut arguments);
    let expected = [
        f64::from(f32::EPSILON),
        f64::EPSILON,
        65504.0,
        f64::MIN_POSITIVE,
        2_147_483_647.0,
        -130.0,
        f64::EPSILON * std::f64::consts::PI,
        f64::from(f32::MIN),
        255.0,
    ];
    assert_eq!(read::<f64>(&arguments[0]), expected);
    for wrong in
        ["np.finfo(np.int32).eps", "np.iinfo(np.float32).max", "np.finfo(np.float32).bits", "np.iinfo(np.int128).max"]
    {
        assert_ne!(refused_body(&format!("x = {wrong}")), ErrorKind::Syntax, "{wrong}");
    }
}

#[test]
fn a_name_is_bound_to_values_of_other_types() {
    let results = body(
        "float",
        "
x = 1
y = x + 1
x = 2.5
out[0] = x + float(y)
x = wp.vec2(3.0, 4.0)
out[1] = x[1]
k = x[0]
for k in range(2):
    out[2] += float(k) + 1.0
out[3] = float(k)
v = wp.vec3(1.0, 2.0, 3.0)
out[4] = v[2]
for r in range(2):
    for v in range(r + 1):
        out[5] += float(v) + 1.0
",
        6,
        0.0_f32,
    );
    assert_eq!(results, [4.5, 4.0, 3.0, 1.0, 3.0, 4.0]);
}

#[test]
fn a_name_is_bound_to_other_arrays() {
    let source = "
import warp as wp

@wp.kernel
def k(x: wp.array(dtype=float), y: wp.array2d(dtype=float), out: wp.array(dtype=float)):
    a = x
    out[0] = a[1]
    a = y[1]
    out[1] = a[0]
    a = y[0]
    out[2] = a[1]
    a = a[0]
    out[3] = a
    a = x
    out[4] = a[0]
";
    let mut arguments =
        [Argument::array(&[1.0_f32, 2.0]), shaped(&[3.0_f32, 4.0, 5.0, 6.0], &[2, 2]), Argument::array(&[0.0_f32; 5])];
    run(source, &[1], &mut arguments);
    assert_eq!(read::<f32>(&arguments[2]), [2.0, 5.0, 4.0, 3.0, 1.0]);
    let conditional = source.replace("    a = y[1]", "    if out[0] > 0.0:\n        a = y[1]");
    assert_eq!(refused(&conditional, &options(Dialect::Warp)).kind, ErrorKind::UnsupportedExpression);
}

#[test]
fn a_variable_of_a_loop_that_did_not_run_has_no_value() {
    let source = "
import warp as wp

@wp.kernel
def k(out: wp.array(dtype=float), n: int):
    k = 2.5
    for k in range(n):
        out[k] += 1.0
    out[3] = float(k)
";
    let mut arguments = [Argument::array(&[0.0_f32; 4]), Argument::value(3)];
    run(source, &[1], &mut arguments);
    assert_eq!(read::<f32>(&arguments[0]), [1.0, 1.0, 1.0, 2.0]);
    arguments[1] = Argument::value(0);
    assert_eq!(fault(source, &options(Dialect::Warp), &[1], &mut arguments), FaultKind::InvalidValue);
    // The former variable is no value of the loop's, whichever path is taken.
    let conditional = source.replace(
        "    for k in range(n):\n        out[k]",
        "    if n > 2:\n        for k in range(n):\n            out[k]",
    );
    assert_eq!(fault(&conditional, &options(Dialect::Warp), &[1], &mut arguments), FaultKind::InvalidValue);
}

#[test]
fn classes_derived_from_vectors_and_matrices_are_these_types() {
    let source = "
import warp as wp

N = 5

class vec5(wp.types.vector(length=N, dtype=float)):
    pass

class named(vec5):
    \"\"\"A second name.\"\"\"

class mat23(wp.types.matrix(shape=(2, 3), dtype=wp.float64)):
    pass

class point(wp.vec3):
    pass

@wp.func
def total(v: vec5):
    return v[0] + v[4]

@wp.kernel
def k(x: wp.array(dtype=named), out: wp.array(dtype=float)):
    v = vec5(1.0, 2.0, 3.0, 4.0, 5.0)
    x[0] = v + named(1.0)
    m = mat23(wp.float64(2.0))
    out[0] = total(v) + total(x[0]) + wp.dot(v, x[0])
    out[1] = float(m[1, 2]) + wp.length(point(0.0, 3.0, 4.0))
    out[2] = total(wp.types.vector(length=5, dtype=float)(3.0))
";
    let mut arguments = [elements(&[0.0_f32; 5], 5), Argument::array(&[0.0_f32; 3])];
    run(source, &[1], &mut arguments);
    assert_eq!(read::<f32>(&arguments[0]), [2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(read::<f32>(&arguments[1]), [6.0 + 8.0 + 70.0, 7.0, 6.0]);
    let of_itself = ("class vec5(wp.types.vector(length=N, dtype=float))", "class vec5(named)");
    for (class, other) in [of_itself, ("class named(vec5)", "class named(dict)")] {
        let broken = source.replace(class, other);
        assert_eq!(refused(&broken, &options(Dialect::Warp)).kind, ErrorKind::UnsupportedType, "{other}");
    }
}

#[test]
fn names_that_the_source_assigns_twice_are_ambiguous() {
    let source = "
import warp as wp

N = 1
N = 2

@wp.kernel
def k(out: wp.array(dtype=int)):
    out[0] = N
";
    assert_eq!(refused(source, &options(Dialect::Warp)).kind, ErrorKind::AmbiguousName);
}

#[test]
fn half_precision_is_rounded_at_each_operation() {
    use half::f16;
    let results = body(
        "wp.float16",
        "
a = wp.float16(0.1)
b = a * a + a
out[0] = b
out[1] = wp.float16(1) / wp.float16(3)
out[2] = wp.dot(wp.vec2h(0.1, 0.2), wp.vec2h(0.3, 0.4))
",
        3,
        f16::ZERO,
    );
    let of = f16::from_f32;
    let product = |a: f32, b: f32| of(of(a).to_f32() * of(b).to_f32()).to_f32();
    let expected = [of(product(0.1, 0.1) + of(0.1).to_f32()), of(1.0 / 3.0), of(product(0.1, 0.3) + product(0.2, 0.4))];
    assert_eq!(results, expected);
}

#[test]
fn bits_are_counted_and_cast() {
    let results = body(
        "int",
        "
out[0] = wp.bit_count(-1)
out[1] = wp.bit_count(wp.int8(-2))
out[2] = wp.bit_count(wp.uint64(0xF0F0F0F0F0F0F0F0))
out[3] = wp.cast(1.0, int)
v = wp.vec4i(3, -7, 9, -7)
out[4] = int(wp.argmin(v)) + 10 * int(wp.argmax(v))
out[5] = wp.min(v)
",
        6,
        0_i32,
    );
    assert_eq!(results, [32, 7, 32, 0x3f80_0000, 21, -7]);
}

#[test]
fn comparisons_of_mixed_types_convert_as_c_does() {
    let results = body(
        "int",
        "
a = int(-1)
b = wp.uint32(1)
c = float(0.5)
if a > b:
    out[0] = 1
if a < c:
    out[1] = 1
if wp.int8(-1) < wp.uint8(1):
    out[2] = 1
",
        3,
        0_i32,
    );
    assert_eq!(results, [1, 1, 1]);
}

#[test]
fn a_variable_hides_constants_of_the_module() {
    let source = "
import warp as wp

n = 3

@wp.kernel
def k(out: wp.array(dtype=int)):
    n = 4
    out[0] = wp.static(n)
    n += out[0]
    out[1] = wp.static(n)
";
    let refused = refused(source, &options(Dialect::Warp));
    assert_eq!((refused.kind, refused.line), (ErrorKind::NotConstant, 11));
    let mut arguments = [Argument::array(&[0_i32; 2])];
    run(&source.replace("out[1] = wp.static(n)", "out[1] = n"), &[1], &mut arguments);
    assert_eq!(read::<i32>(&arguments[0]), [4, 8]);
}

#[test]
fn members_of_classes_are_constants() {
    let source = "
import enum
import warp as wp

class Mode(enum.IntEnum):
    A = 3
    B = A + 4

@wp.kernel
def k(out: wp.array[int]):
    out[0] = Mode.B
    if Mode.A == 3:
        out[1] = int(Mode.A)
";
    let mut arguments = [Argument::array(&[0_i32; 2])];
    run(source, &[1], &mut arguments);
    assert_eq!(read::<i32>(&arguments[0]), [7, 3]);
}

#[test]
fn constants_of_the_module_are_computed_as_python_does() {
    let source = "
import math
import warp as wp

vec3bool = wp.types.vector(length=3, dtype=bool)
FLAGS = wp.constant(vec3bool([True, False, True]))
TURN = wp.constant(wp.float64(2.0 * math.pi))

@wp.kernel
def k(some: wp.array[int], none: wp.array[int], out: wp.array[wp.float64]):
    out[0] = TURN
    if FLAGS[0] and not FLAGS[1]:
        out[1] = wp.float64(1.0)
    if some and some[0] == 3 and not none:
        out[2] = wp.float64(1.0)
";
    let mut arguments = [Argument::array(&[3_i32]), Argument::array::<i32>(&[]), Argument::array(&[0.0_f64; 3])];
    run(source, &[1], &mut arguments);
    assert_eq!(read::<f64>(&arguments[2]), [std::f64::consts::TAU, 1.0, 1.0]);
}

/// Without values that are kept, this would take 2^30 steps.
#[test]
fn constants_that_refer_to_others_twice_are_computed_once() {
    let chain: Vec<_> = (1..=30).map(|nth| format!("x{nth} = x{} + x{}\n", nth - 1, nth - 1)).collect();
    let chain = chain.concat();
    let source = format!(
        "import warp as wp\n\nx0 = 1\n{chain}\n@wp.kernel\ndef k(out: wp.array[wp.int64]):\n    out[0] = wp.int64(x30)\n"
    );
    let mut arguments = [Argument::array(&[0_i64])];
    run(&source, &[1], &mut arguments);
    assert_eq!(read::<i64>(&arguments[0]), [1 << 30]);
}
