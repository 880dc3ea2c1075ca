//! Vectors, matrices, quaternions and structs.

mod common;

use accelerd_ir::kernel::{Argument, FaultKind};
use accelerd_lower::{Dialect, ErrorKind, lower};
use common::{body, elements, fault, options, read, refused_body, run, vectors_of};

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
    for index in 0..4 {
        det *= rows[index][index];
        for row in index + 1..4 {
            let factor = rows[row][index] / rows[index][index];
            let pivot = rows[index].clone();
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
    assert!(lower(&assigned, &options(Dialect::Warp)).is_ok());
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
    for (index, (got, expected)) in results.iter().zip(expected).enumerate() {
        assert!((got - expected).abs() < 1e-5, "out[{index}] is {got}, expected {expected}");
    }
}

#[test]
fn rows_and_columns_of_matrices_are_selected_at_run_time() {
    let results = vectors_of(
        "wp.vec2",
        "
m = wp.types.matrix(shape=(2, 3), dtype=float)(1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
i = wp.tid() + 2
out[0] = m[:, i]
out[1] = m[wp.tid() + 1, 1:]
m[:, i] = wp.vec2(8.0, 9.0)
out[2] = m[:, -1]
",
        3,
        2,
    );
    assert_eq!(results, [3.0, 6.0, 5.0, 6.0, 8.0, 9.0]);
}

#[test]
fn rotations_are_made_of_vectors() {
    let results = vectors_of(
        "wp.quat",
        "
q = wp.quat_between_vectors(wp.vec3(1.0, 2.0, 3.0), wp.vec3(-2.0, 0.5, 1.0))
m = wp.transform_compose(wp.vec3(1.0, 2.0, 3.0), q, wp.vec3(2.0, 3.0, -1.0))
t = wp.transform_to_matrix(wp.transform(wp.vec3(1.0, 2.0, 3.0), q))
out[0] = wp.quaternion(wp.vec3(1.0, 2.0, 3.0), 4.0)
out[1] = q
out[2] = wp.quaternion(m[1, 0], m[1, 1], m[1, 2], w=m[1, 3])
out[3] = wp.quaternion(2.0 * t[1, 0] - m[1, 0], t[3, 1], t[3, 3], t[2, 3], dtype=float)
",
        4,
        4,
    );
    let expected = [
        [1.0, 2.0, 3.0, 4.0],
        [0.037_134_69, -0.519_885_5, 0.334_212_12, 0.785_265_86],
        [0.972_558_3, 2.321_540_4, 0.405_825_26, 2.0],
        [0.0, 0.0, 1.0, 3.0],
    ];
    let differences = results.iter().zip(expected.as_flattened()).map(|(a, b)| (a - b).abs());
    assert!(differences.fold(0.0, f32::max) < 2e-7, "{results:?}");
}
