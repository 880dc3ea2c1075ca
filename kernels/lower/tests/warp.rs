//! Kernels in Warp's style compute what Warp computes.

mod common;

use std::ops::ControlFlow;

use accelerd_ir::kernel::interpret::{Limits, launch};
use accelerd_ir::kernel::{Argument, FaultKind};
use accelerd_lower::{Captured, Dialect, ErrorKind, Options, for_each_kernel, lower};
use common::{body, elements, fault, options, read, refused, refused_body, shaped, try_run};

fn run(source: &str, grid: &[u32], arguments: &mut [Argument]) {
    try_run(source, &options(Dialect::Warp), grid, arguments).unwrap_or_else(|error| panic!("{error}\n{source}"));
}

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
    assert_eq!(fault(source, &options(Dialect::Warp), &[1], &mut arguments), FaultKind::InvalidValue);
    assert_eq!(read::<i32>(&arguments[0]), [1], "the calls that assign it return it");
}

#[test]
fn an_index_outside_the_array_is_a_fault_and_negative_ones_do_not_wrap() {
    let source = "
import warp as wp

@wp.kernel
def k(out: wp.array(dtype=int), n: int):
    out[n] = 1
";
    for n in [-1, 2] {
        let mut arguments = [Argument::array(&[0_i32; 2]), Argument::value(n)];
        assert_eq!(fault(source, &options(Dialect::Warp), &[1], &mut arguments), FaultKind::OutOfBounds);
    }
}

#[test]
fn arrays_of_more_dimensions_have_views_and_shapes() {
    let source = "
import warp as wp

@wp.func
def total(row: wp.array(dtype=wp.float64)):
    s = wp.float64(0.0)
    for j in range(row.shape[0]):
        s += row[j]
    return s

@wp.kernel
def k(a: wp.array2d(dtype=wp.float64), out: wp.array2d(dtype=wp.float64)):
    i, j = wp.tid()
    row = a[i]
    out[i, j] = total(row) * wp.float64(j + len(a)) + a[i][j]
";
    let mut arguments = [shaped(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]), shaped(&[0.0_f64; 6], &[2, 3])];
    run(source, &[2, 3], &mut arguments);
    let expected =
        [6.0 * 2.0 + 1.0, 6.0 * 3.0 + 2.0, 6.0 * 4.0 + 3.0, 15.0 * 2.0 + 4.0, 15.0 * 3.0 + 5.0, 15.0 * 4.0 + 6.0];
    assert_eq!(read::<f64>(&arguments[1]), expected);
}

#[test]
fn atomics_return_the_previous_value() {
    let source = "
import warp as wp

@wp.kernel
def k(a: wp.array(dtype=int), v: wp.array(dtype=wp.vec2), out: wp.array(dtype=int)):
    i = wp.tid()
    out[i] = wp.atomic_add(a, 0, i + 1)
    wp.atomic_sub(a, 1, 1)
    wp.atomic_max(a, 2, i)
    wp.atomic_min(a, 3, -i)
    wp.atomic_or(a, 4, 1 << i)
    wp.atomic_cas(a, 5, i, i + 1)
    wp.atomic_exch(a, 6, i)
    a[7] += i
    a[8] -= i
    v[0] += wp.vec2(1.0, 2.0)
    v[0].y += 0.5
    v[0][0] -= 0.25
";
    let mut arguments = [Argument::array(&[0_i32; 9]), elements(&[0.0_f32; 2], 2), Argument::array(&[0_i32; 4])];
    run(source, &[4], &mut arguments);
    assert_eq!(read::<i32>(&arguments[0]), [10, -4, 3, -3, 15, 4, 3, 6, -6]);
    assert_eq!(read::<f32>(&arguments[1]), [3.0, 10.0]);
    assert_eq!(read::<i32>(&arguments[2]), [0, 1, 3, 6]);
}

#[test]
fn vectors_have_components_products_and_lengths() {
    let results = body(
        "float",
        "
v = wp.vec3(1.0, 2.0, 2.0)
w = wp.vec3(0.0, 1.0, 0.0)
v[0] = v[0] + 0.0
out[0] = wp.dot(v, w)
out[1] = wp.length(v)
c = wp.cross(v, w)
out[2] = c.x
out[3] = c[1]
out[4] = c[-1]
u = 2.0 * v - w / 2.0
out[5] = u.y
n = wp.normalize(v)
out[6] = n.z
for i in range(3):
    out[7] += v[i]
    v[i] = float(i)
out[8] = v[2]
v = wp.vec3(v.z, v.x, v.y)
out[9] = v.x
out[10] = wp.length_sq(wp.cw_mul(v, wp.vec3(2.0)))
if v == wp.vec3(2.0, 0.0, 1.0) and v != w:
    out[11] = 1.0
s = wp.vec4(1.0, 2.0, 3.0, 4.0)[1:3]
out[12] = s[0] * s[1]
",
        13,
        0.0_f32,
    );
    let two_thirds = 2.0_f32 / 3.0;
    assert_eq!(results, [2.0, 3.0, -2.0, 0.0, 1.0, 3.5, two_thirds, 5.0, 2.0, 2.0, 20.0, 1.0, 6.0]);
}

#[test]
fn an_index_outside_a_vector_is_a_fault_or_an_error() {
    let source = "
import warp as wp

@wp.kernel
def k(out: wp.array(dtype=float), n: int):
    v = wp.vec3(1.0, 2.0, 3.0)
    out[0] = v[n]
";
    let mut arguments = [Argument::array(&[0.0_f32]), Argument::value(-3_i32)];
    run(source, &[1], &mut arguments);
    assert_eq!(read::<f32>(&arguments[0]), [1.0], "negative indices count from the end");
    for n in [3, -4] {
        let mut arguments = [Argument::array(&[0.0_f32]), Argument::value(n)];
        assert_eq!(fault(source, &options(Dialect::Warp), &[1], &mut arguments), FaultKind::OutOfBounds);
    }
    assert_eq!(refused_body("out[0] = wp.vec3()[3]"), ErrorKind::IndexOutOfRange);
}

#[test]
fn matrices_multiply_invert_and_transpose() {
    let source = "
import warp as wp

@wp.kernel
def k(m2: wp.array(dtype=wp.mat22d), m3: wp.array(dtype=wp.mat33d), m4: wp.array(dtype=wp.mat44d), out: wp.array(dtype=wp.float64)):
    a = m2[0]
    b = m3[0]
    c = m4[0]
    i2 = a * wp.inverse(a)
    i3 = wp.inverse(b) * b
    i4 = c @ wp.inverse(c)
    for i in range(4):
        for j in range(4):
            if i < 2 and j < 2:
                out[0] += wp.abs(i2[i, j] - wp.where(i == j, wp.float64(1.0), wp.float64(0.0)))
            if i < 3 and j < 3:
                out[1] += wp.abs(i3[i, j] - wp.where(i == j, wp.float64(1.0), wp.float64(0.0)))
            out[2] += wp.abs(i4[i, j] - wp.where(i == j, wp.float64(1.0), wp.float64(0.0)))
    out[3] = wp.determinant(a)
    out[4] = wp.determinant(b)
    out[5] = wp.determinant(c)
    out[6] = wp.transpose(a)[0, 1]
    out[7] = (a * wp.vec2d(1.0, 1.0))[1]
    out[8] = (wp.vec2d(1.0, 1.0) * a)[1]
    out[9] = wp.trace(wp.outer(wp.vec2d(1.0, 2.0), wp.vec2d(3.0, 4.0)))
    a[1, 0] = wp.float64(7.0)
    a[0] = wp.vec2d(8.0, 9.0)
    out[10] = a[1][0] + a[0, 1] + wp.ddot(a, wp.diag(wp.vec2d(1.0, 0.0)))
";
    let m2 = [1.0, 2.0, 3.0, 5.0];
    let m3 = [2.0, 0.0, 1.0, 1.0, 3.0, 2.0, 1.0, 1.0, 4.0];
    let m4 = [4.0, 1.0, 2.0, 0.5, 1.0, 3.0, 0.0, 1.0, 2.0, 1.0, 5.0, 2.0, 0.0, 1.0, 1.0, 6.0];
    let mut arguments = [elements(&m2, 4), elements(&m3, 9), elements(&m4, 16), Argument::array(&[0.0_f64; 11])];
    run(source, &[1], &mut arguments);
    let results = read::<f64>(&arguments[3]);
    assert!(results[..3].iter().all(|error| *error < 1e-13), "{results:?}");
    assert_eq!(results[3..5], [-1.0, 18.0]);
    assert!((results[5] - determinant(&m4)).abs() < 1e-10, "{} {}", results[5], determinant(&m4));
    assert_eq!(results[6..], [3.0, 8.0, 7.0, 11.0, 7.0 + 9.0 + 8.0]);
}

/// By elimination.
fn determinant(m: &[f64; 16]) -> f64 {
    let mut rows: Vec<Vec<f64>> = m.chunks(4).map(<[f64]>::to_vec).collect();
    let mut det = 1.0;
    for at in 0..4 {
        det *= rows[at][at];
        for row in at + 1..4 {
            let factor = rows[row][at] / rows[at][at];
            let pivot = rows[at].clone();
            rows[row].iter_mut().zip(pivot).for_each(|(cell, pivot)| *cell -= factor * pivot);
        }
    }
    det
}

#[test]
fn quaternions_rotate_vectors() {
    let results = body("wp.float64", "
axis = wp.normalize(wp.vec3d(1.0, 2.0, 3.0))
q = wp.quat_from_axis_angle(axis, wp.float64(0.7))
v = wp.vec3d(0.3, -0.2, 0.9)
r = wp.quat_rotate(q, v)
m = wp.quat_to_matrix(q) * v
out[0] = wp.length(r - m)
out[1] = wp.length(wp.quat_rotate_inv(q, r) - v)
out[2] = wp.length(wp.quat_rotate(wp.quat_inverse(q), r) - v)
p = wp.quat_from_matrix(wp.quat_to_matrix(q))
out[3] = wp.length(p - q)
out[4] = wp.length(wp.quat_rotate(q * q, v) - wp.quat_rotate(q, r))
ax, angle = wp.quat_to_axis_angle(q)
out[5] = wp.abs(angle - wp.float64(0.7)) + wp.length(ax - axis)
h = wp.quat_slerp(wp.quat_identity(dtype=wp.float64), q, wp.float64(0.5))
out[6] = wp.length(h * h - q)
t = wp.transformd(v, q)
out[7] = wp.length(wp.transform_point(wp.transform_inverse(t), wp.transform_point(t, r)) - r)
out[8] = wp.length(wp.transform_point(t * t, r) - wp.transform_point(t, wp.transform_point(t, r)))
out[9] = wp.length(wp.quat_rotate(wp.quat_rpy(wp.float64(0.0), wp.float64(0.0), wp.float64(0.5)), wp.vec3d(1.0, 0.0, 0.0)) - wp.vec3d(wp.cos(wp.float64(0.5)), wp.sin(wp.float64(0.5)), wp.float64(0.0)))
out[10] = wp.length(wp.quat_rotate(wp.quat_from_axis_angle(wp.vec3d(0.0, 0.0, 1.0), wp.float64(1.5707963267948966)), wp.vec3d(1.0, 0.0, 0.0)) - wp.vec3d(0.0, 1.0, 0.0))
", 11, 1.0_f64);
    assert!(results.iter().all(|error| *error < 1e-14), "{results:?}");
}

#[test]
fn structs_are_laid_out_as_in_c_and_passed_by_value() {
    let source = "
import warp as wp

@wp.struct
class Particle:
    alive: wp.bool
    position: wp.vec3
    mass: wp.float64

@wp.func
def moved(p: Particle, by: wp.vec3):
    p.position = p.position + by
    p.position[1] = -1.0
    return p

@wp.kernel
def k(particles: wp.array(dtype=Particle), p: Particle, out: wp.array(dtype=wp.float64)):
    i = wp.tid()
    q = moved(p, wp.vec3(1.0, 0.0, 0.0))
    particles[i] = q
    particles[i].mass = q.mass * wp.float64(2.0)
    out[i] = wp.float64(p.position.x) + particles[i].mass
    z = Particle()
    if z.alive or not q.alive:
        out[i] = wp.float64(-1.0)
";
    let mut bytes = vec![1_u8, 0, 0, 0];
    bytes.extend([1.5_f32, 2.0, 3.0].iter().flat_map(|x| x.to_le_bytes()));
    bytes.extend(4.0_f64.to_le_bytes());
    let array = Argument::contiguous(vec![0; 24], &[1], 24);
    let mut arguments = [array, Argument::Value(bytes), Argument::array(&[0.0_f64])];
    run(source, &[1], &mut arguments);
    assert_eq!(read::<f64>(&arguments[2]), [9.5]);
    let Argument::Array(particles) = &arguments[0] else { panic!("an array") };
    let mut expected = vec![1_u8, 0, 0, 0];
    expected.extend([2.5_f32, -1.0, 3.0].iter().flat_map(|x| x.to_le_bytes()));
    expected.extend(8.0_f64.to_le_bytes());
    assert_eq!(particles.data, expected);
}

#[test]
fn a_struct_with_arrays_is_a_parameter_for_each_field() {
    let source = "
import warp as wp

@wp.struct
class Mesh:
    points: wp.array(dtype=wp.vec2)
    scale: float

@wp.func
def area(mesh: Mesh, i: int):
    p = mesh.points[i]
    return p.x * p[1] * mesh.scale

@wp.kernel
def k(out: wp.array(dtype=float), mesh: Mesh):
    i = wp.tid()
    out[i] = area(mesh, i)
    mesh.points[i] = -mesh.points[i]
";
    let points = elements(&[1.0_f32, 2.0, 3.0, 4.0], 2);
    let mut arguments = [Argument::array(&[0.0_f32; 2]), points, Argument::value(0.5_f32)];
    run(source, &[2], &mut arguments);
    assert_eq!(read::<f32>(&arguments[0]), [1.0, 6.0]);
    assert_eq!(read::<f32>(&arguments[1]), [-1.0, -2.0, -3.0, -4.0]);
    let kernel = &lower(source, &options(Dialect::Warp)).expect("lowers").kernels[0];
    assert_eq!(kernel.parameters[1].params.len(), 2);
    let names: Vec<_> = kernel.kernel.params.iter().map(|param| param.name.as_str()).collect();
    assert_eq!(names, ["out", "mesh_points", "mesh_scale"]);
    let assigned = source.replace("mesh.points[i] = -mesh.points[i]", "mesh.scale = 1.0");
    assert_eq!(refused(&assigned, &options(Dialect::Warp)).kind, ErrorKind::TypeMismatch);
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
fn random_numbers_are_those_of_the_hash() {
    fn pcg(state: u32) -> u32 {
        let b = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        let c = ((b >> ((b >> 28) + 4)) ^ b).wrapping_mul(277_803_737);
        (c >> 22) ^ c
    }
    let results = body(
        "wp.uint32",
        "
state = wp.rand_init(42, 7)
out[0] = state
out[1] = wp.randu(state)
out[2] = wp.uint32(wp.randf(state) * 16777216.0)
out[3] = wp.uint32(wp.randi(state, -5, 5) + 5)
",
        4,
        0_u32,
    );
    let start = pcg(42_u32.wrapping_add(pcg(7)));
    let (second, third, fourth) = (pcg(start), pcg(pcg(start)), pcg(pcg(pcg(start))));
    assert_eq!(results, [start, second, third >> 8, fourth % 10]);
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
fn a_variable_hides_constants_of_the_module() {
    let source = "
import warp as wp

n = 3

@wp.kernel
def k(out: wp.array(dtype=int)):
    n = 4
    out[0] = wp.static(n)
";
    assert_eq!(refused(source, &options(Dialect::Warp)).kind, ErrorKind::NotConstant);
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
fn what_warp_refuses_is_refused() {
    for (body, expected) in [
        ("out[0] = 1.0 * float(n) * n", ErrorKind::TypeMismatch),
        ("out[0] = n", ErrorKind::TypeMismatch),
        ("x = 1\nx = 2.0", ErrorKind::TypeMismatch),
        ("out[0] = missing", ErrorKind::UnknownName),
        ("print(n)", ErrorKind::UnsupportedBuiltin),
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
    let error = refused("def f(:\n    pass\n", &warp);
    assert_eq!((error.kind, error.line), (ErrorKind::Syntax, 1));
    let source = "import warp as wp\n\n@wp.kernel\ndef a():\n    pass\n\n@wp.kernel\ndef b(x):\n    pass\n";
    let only = lower(source, &Options { entry: Some("a"), ..warp.clone() }).expect("lowers");
    assert_eq!(only.kernels.len(), 1);
    assert_eq!(refused(source, &warp).kind, ErrorKind::GenericKernel);
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
    for at in 1..30 {
        let before = at - 1;
        source = format!("{source}\n@wp.func\ndef f{at}(x: float):\n    return f{before}(x) + f{before}(x + 1.0)\n");
    }
    source += "\n@wp.kernel\ndef k(out: wp.array(dtype=float)):\n    out[0] = f29(1.0)\n";
    assert_eq!(refused(&source, &warp).kind, ErrorKind::TooLarge);
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
        let mut at = i64::from(start);
        while if step > 0 { at < i64::from(end) } else { at > i64::from(end) } {
            expected.push(at);
            at += i64::from(step);
        }
        expected.reverse();
        // The sixth column holds the count.
        let got: Vec<_> = row.iter().take(expected.len().min(5)).map(|at| i64::from(*at)).collect();
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

/// Expectations are derived by hand from the definitions.
#[test]
fn compositions_of_warps_functions_are_known() {
    let results = body(
        "float",
        "
half = 0.7071067811865476
about_z = wp.quat(0.0, 0.0, half, half)
axis = wp.vec3(0.0, 0.0, 1.0)
out[0] = wp.quat_twist_angle(axis, about_z)
out[1] = wp.quat_twist_angle_signed(axis, wp.quat(0.0, 0.0, -half, half))
out[2] = wp.quat_to_rpy(about_z)[2]
e = wp.quat_from_euler(wp.vec3(0.0, 0.0, 1.5707963267948966), 0, 1, 2)
out[3] = e[2]
t = wp.transform(wp.vec3(1.0, 0.0, 0.0), about_z)
out[4] = wp.transform_twist(t, wp.spatial_vector(0.0, 0.0, 1.0, 1.0, 0.0, 0.0))[4]
out[5] = wp.smooth_normalize(wp.vec3(0.0, 0.0, 0.0))[0]
out[6] = wp.norm_huber(wp.vec2(3.0, 4.0))
out[7] = wp.div_approx(1.0, 4.0)
out[8] = wp.transformation(1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0, dtype=float)[2]
angles = wp.vec3(0.1, 0.2, 0.3)
out[9] = wp.length(wp.quat_to_euler(wp.quat_from_euler(angles, 2, 0, 1), 2, 0, 1) - angles)
out[10] = wp.velocity_at_point(wp.spatial_vector(0.0, 0.0, 2.0, 1.0, 0.0, 0.0), wp.vec3(3.0, 0.0, 0.0))[1]
",
        11,
        0.0_f32,
    );
    let half_pi = std::f32::consts::FRAC_PI_2;
    let expected = [half_pi, -half_pi, half_pi, std::f32::consts::FRAC_1_SQRT_2, 0.0, 0.0, 4.5, 0.25, 3.0, 0.0, 6.0];
    for (at, (got, expected)) in results.iter().zip(expected).enumerate() {
        assert!((got - expected).abs() < 1e-5, "out[{at}] is {got}, expected {expected}");
    }
}

#[test]
fn normal_and_poisson_numbers_have_their_moments() {
    let source = "
import warp as wp

@wp.kernel
def k(normal: wp.array[float], few: wp.array[wp.uint32], many: wp.array[wp.uint32]):
    i = wp.tid()
    state = wp.rand_init(7, i)
    normal[i] = wp.randn(state)
    few[i] = wp.poisson(state, 2.5)
    many[i] = wp.poisson(state, 40.0)
";
    let count = 20_000;
    let mut arguments = [
        Argument::array(&vec![0.0_f32; count]),
        Argument::array(&vec![0_u32; count]),
        Argument::array(&vec![0_u32; count]),
    ];
    run(source, &[20_000], &mut arguments);
    for line in ["v = wp.types.vector(2, wp.uint32)()\ny = wp.randn(v[0])", "n = int(wp.poisson(3, 2.0))"] {
        assert_eq!(refused_body(line), ErrorKind::ArgumentMismatch, "{line}");
    }
    let moments = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
        (mean, variance)
    };
    let normal: Vec<f64> = read::<f32>(&arguments[0]).iter().map(|value| f64::from(*value)).collect();
    let (mean, variance) = moments(&normal);
    // Six standard errors.
    assert!(mean.abs() < 0.043 && (variance - 1.0).abs() < 0.06, "{mean}, {variance}");
    for (at, rate) in [(1, 2.5), (2, 40.0)] {
        let values: Vec<f64> = read::<u32>(&arguments[at]).iter().map(|value| f64::from(*value)).collect();
        let (mean, variance) = moments(&values);
        let error = 6.0 * (rate / count as f64).sqrt();
        assert!((mean - rate).abs() < error && (variance / rate - 1.0).abs() < 0.08, "{rate}: {mean}, {variance}");
    }
}

#[test]
fn slices_of_arrays_are_views() {
    let source = "
import warp as wp

@wp.func
def total(a: wp.array[float]):
    sum = float(0.0)
    for i in range(a.shape[0]):
        sum += a[i]
    return sum

@wp.kernel
def k(a: wp.array[float], grid: wp.array2d[float], n: int, out: wp.array[float]):
    out[0] = total(a[1:4])
    out[1] = total(a[::-2])
    out[2] = total(a[-3:])
    out[3] = total(a[n:n])
    out[4] = total(a[1:100][1:n])
    out[5] = total(grid[:, 1])
    out[6] = total(grid[1, 1:])
    part = grid[1:, ::2]
    out[7] = float(part.shape[0] * 10 + part.shape[1])
    out[8] = part[0, 1] + part[0][-1]
    out[9] = a[-1]
    tail = a[3:]
    tail[1] = 50.0
    tail[0] += 7.0
    wp.atomic_add(tail, 0, 1.0)
    out[10] = float(len(tail))
";
    let numbers: Vec<f32> = (0..5).map(|at| at as f32).collect();
    let grid: Vec<f32> = (10..16).map(|at| at as f32).collect();
    let mut arguments =
        [Argument::array(&numbers), shaped(&grid, &[2, 3]), Argument::value(3_i32), Argument::array(&[-1.0_f32; 11])];
    run(source, &[1], &mut arguments);
    assert_eq!(read::<f32>(&arguments[0]), [0.0, 1.0, 2.0, 11.0, 50.0]);
    assert_eq!(read::<f32>(&arguments[3]), [6.0, 6.0, 9.0, 0.0, 5.0, 25.0, 29.0, 12.0, 30.0, 4.0, 2.0]);
    let kernel =
        |line: &str| format!("import warp as wp\n@wp.kernel\ndef k(a: wp.array[float], n: int):\n    {line}\n");
    for (line, n, kind) in [
        ("a[1:3][n] = 1.0", 2, FaultKind::OutOfBounds),
        ("a[1:3][n] = 1.0", -3, FaultKind::OutOfBounds),
        ("a[n:][0] = 1.0", 5, FaultKind::OutOfBounds),
        ("x = a[::n]", 0, FaultKind::InvalidValue),
    ] {
        let mut arguments = [Argument::array(&numbers), Argument::value(n)];
        assert_eq!(fault(&kernel(line), &options(Dialect::Warp), &[1], &mut arguments), kind, "{line}, {n}");
    }
    let error = lower(&kernel("a[0:2] = 1.0"), &options(Dialect::Warp)).expect_err("an array is no value");
    assert_eq!(error.kind, ErrorKind::TypeMismatch);
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
        for_each_kernel(source, &options(Dialect::Warp), &names, |outcome| {
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
