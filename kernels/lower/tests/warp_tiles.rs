//! Tiles, in blocks of one thread. Results are those of Warp 1.19 on the CPU.

mod common;

use accelerd_ir::kernel::{Argument, FaultKind};
use accelerd_lower::{Dialect, ErrorKind};
use common::{body, fault, options, read, refused, refused_body, run, shaped};

#[test]
fn a_tile_of_a_value_has_the_elements_of_one_thread() {
    let results = body(
        "float",
        "
x = float(3.0)
t = wp.tile(x)
out[0] = wp.tile_sum(t)[0]
out[1] = wp.tile_extract(wp.tile_max(t), 0)
out[2] = wp.untile(wp.tile_min(wp.tile(x + 1.0)))
v = wp.vec3(1.0, 5.0, 2.0)
w = wp.untile(wp.tile(v))
out[3] = w[1] - w[2]
out[4] = wp.tile_sum(wp.tile(v))[0] + wp.tile_reduce(wp.min, wp.tile(v))[0]
s = wp.tile_sum(wp.tile(v, preserve_type=True))[0]
out[5] = s[0] * 10.0 + s[2]
out[6] = float(wp.tile_argmax(wp.tile(v))[0] + len(wp.tile(v)))
out[7] = wp.tile(v)[1, 0] + wp.untile(wp.tile(wp.mat22(1.0, 2.0, 3.0, 4.0)))[1, 0]
wp.tile_store(out, wp.tile(x * 2.0), offset=8)
previous = wp.tile_atomic_add(out, wp.tile(x), offset=8)
wp.tile_atomic_add(out, previous, offset=(9,))
wp.tile_store(out, wp.tile_scan_exclusive(wp.tile(7.0)), offset=10)
out[11] = wp.tile_scan_inclusive(wp.tile(7.0))[0] + wp.tile_scan_max_inclusive(wp.tile(1.0))[0]
",
        12,
        1.0_f32,
    );
    assert_eq!(results, [3.0, 3.0, 4.0, 3.0, 9.0, 12.0, 4.0, 8.0, 9.0, 7.0, 0.0, 8.0]);
}

#[test]
fn elements_combine_in_order() {
    // 1e8 + 1 - 1e8 depends on the order.
    let results = body(
        "float",
        "
t = wp.tile_zeros(shape=4)
t[0] = 1e8
t[1] = 1.0
t[2] = -1e8
t[3] += 3.0
i = int(3)
out[0] = wp.tile_sum(t)[0]
out[1] = t[i]
copy = t
copy[i] = 8.0
out[2] = t[3] + copy[3]
copy += t
out[3] = copy[3]
wp.tile_store(out, wp.tile_scan_inclusive(wp.tile_full((2, 2), 2, dtype=float))[1, 1] * wp.tile_ones((3,), float), offset=4)
out[7] = float(wp.tile_argmin(t)[0])
m = wp.tile_full((2, 3), 2.0)
m[0, 1] = 5.0
out[7] += wp.tile_transpose(m)[1, 0] + wp.tile_transpose(m)[0, 1]
zero = wp.copysign(0.0, -1.0)
out[8] = wp.copysign(1.0, wp.tile_scan_inclusive(wp.tile(zero))[0])
",
        9,
        0.0_f32,
    );
    assert_eq!(results, [3.0, 3.0, 11.0, 11.0, 8.0, 8.0, 8.0, 9.0, 1.0]);
}

const SOURCE: &str = "
import warp as wp

@wp.func
def shifted(x: float, by: float):
    return x + by

@wp.func
def larger(a: float, b: float):
    return wp.where(a > b, a, b)

@wp.kernel
def k(a: wp.array2d(dtype=float), out: wp.array2d(dtype=float), total: wp.array(dtype=float)):
    i, j = wp.tid()
    t = wp.tile_load(a, shape=(2, 3), offset=(2 * i, 3 * j))
    u = wp.tile_map(shifted, t * 2.0, 0.5) - t / wp.tile_full((2, 3), 4.0)
    wp.tile_store(out, u, offset=(2 * i, 3 * j))
    wp.tile_atomic_add(total, wp.tile_reduce(larger, wp.tile_map(wp.abs, t)))
    row = wp.tile_load(a[1], 2, offset=-1)
    wp.tile_atomic_add(total, row, 1)
    wp.tile_store(total[3:4], wp.tile(row[1]))
";

#[test]
fn tiles_are_loaded_and_stored_within_the_bounds_of_arrays() {
    let a: Vec<_> = (0_u8..12).map(|x| f32::from(x) - 4.0).collect();
    let mut arguments = [shaped(&a, &[3, 4]), shaped(&[9.0_f32; 12], &[3, 4]), Argument::array(&[0.0_f32; 5])];
    run(SOURCE, &[2, 2], &mut arguments);
    let expected: Vec<_> = a.iter().map(|x| x * 2.0 + 0.5 - x / 4.0).collect();
    assert_eq!(read::<f32>(&arguments[1]), expected);
    // The greatest of each tile: 4, 3, 6 and 7. `a[1, -1]` is outside, and `a[1, 0]` is 0.
    assert_eq!(read::<f32>(&arguments[2]), [20.0, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn only_subscripts_count_from_the_end() {
    let source = "
import warp as wp
@wp.kernel
def k(out: wp.array(dtype=float), i: int):
    t = wp.tile_full((2, 2), 1.0)
    t[0, 1] = 3.0
    out[0] = t[-2, -1] + wp.tile_extract(t, i, 1)
";
    let arguments = |i: i32| [Argument::array(&[0.0_f32]), Argument::value(i)];
    let mut zero = arguments(0);
    run(source, &[1], &mut zero);
    assert_eq!(read::<f32>(&zero[0]), [6.0]);
    for outside in [-1, 2] {
        assert_eq!(fault(source, &options(Dialect::Warp), &[1], &mut arguments(outside)), FaultKind::OutOfBounds);
    }
}

#[test]
fn elements_of_large_tiles_are_chosen() {
    let source = "
import warp as wp
@wp.kernel
def k(a: wp.array2d(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    t = wp.tile_load(a, shape=(16, 16))
    out[i] = t[i / 16, i % 16] + wp.tile_extract(t, i / 16, i % 16)
";
    let a: Vec<_> = (0_u8..=255).map(f32::from).collect();
    let mut arguments = [shaped(&a, &[16, 16]), Argument::array(&[0.0_f32; 256])];
    run(source, &[256], &mut arguments);
    assert_eq!(read::<f32>(&arguments[1]), a.iter().map(|x| x * 2.0).collect::<Vec<_>>());
}

#[test]
fn what_is_unsupported_is_named() {
    for (body, kind) in [
        ("wp.tile_matmul(wp.tile(1.0), wp.tile(2.0))", ErrorKind::UnsupportedBuiltin),
        ("t = wp.tile_sort(wp.tile(1.0))", ErrorKind::UnsupportedBuiltin),
        ("t = wp.tile_sum(1.0)", ErrorKind::ArgumentMismatch),
        ("t = wp.tile_sum(wp.tile_zeros((2, 2)), axis=0)", ErrorKind::ArgumentMismatch),
        ("t = wp.tile_zeros(shape=n)", ErrorKind::NotConstant),
        ("t = wp.tile_zeros(shape=(16, 17))", ErrorKind::UnsupportedType),
        ("t = wp.tile_zeros(shape=(2, 2))[0]", ErrorKind::TypeMismatch),
        ("t = wp.tile_zeros(shape=4)[1:2]", ErrorKind::UnsupportedExpression),
        ("t = wp.tile_zeros(shape=4)[4]", ErrorKind::IndexOutOfRange),
        ("t = wp.tile_zeros(shape=4) + 1.0", ErrorKind::TypeMismatch),
        ("t = wp.tile_zeros(shape=4) + wp.tile_zeros(shape=5)", ErrorKind::TypeMismatch),
        ("wp.tile_store(out, wp.tile(1))", ErrorKind::ArgumentMismatch),
        ("t = wp.untile(wp.tile_zeros(shape=2))", ErrorKind::ArgumentMismatch),
        ("t = wp.tile(1.0, n > 0)", ErrorKind::NotConstant),
        ("t = wp.tile()", ErrorKind::ArgumentMismatch),
        ("t = wp.tile_map(wp.atomic_add, wp.tile(1.0))", ErrorKind::ArgumentMismatch),
        ("t = wp.tile_load(out, 300)", ErrorKind::NotConstant),
    ] {
        assert_eq!(refused_body(body), kind, "{body}");
    }
    let passed = "
import warp as wp
@wp.func
def f(t):
    return t[0]
@wp.kernel
def k(out: wp.array(dtype=float)):
    out[0] = f(wp.tile(1.0))
";
    let error = refused(passed, &options(Dialect::Warp));
    assert_eq!(error.message, "tiles as arguments of functions are unsupported");
}
