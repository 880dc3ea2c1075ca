//! Arrays: elements, views, slices and atomic operations.

mod common;

use accelerd_ir::kernel::{Argument, FaultKind};
use accelerd_lower::{Dialect, ErrorKind, lower};
use common::{elements, fault, options, read, run, shaped, whole_fault};

#[test]
fn an_index_outside_the_array_is_a_fault() {
    let source = "
import warp as wp

@wp.kernel
def k(out: wp.array(dtype=int), n: int):
    out[n] = 1
";
    for n in [-3, -4, 2, i32::MIN, i32::MAX] {
        let mut arguments = [Argument::array(&[0_i32; 2]), Argument::value(n)];
        assert_eq!(fault(source, &options(Dialect::Warp), &[1], &mut arguments), FaultKind::OutOfBounds);
    }
    for dtype in ["wp.uint32", "wp.uint64"] {
        let of_all_bits = source.replace("out[n]", &format!("out[{dtype}(n)]"));
        let mut arguments = [Argument::array(&[0_i32; 2]), Argument::value(-1)];
        assert_eq!(fault(&of_all_bits, &options(Dialect::Warp), &[1], &mut arguments), FaultKind::OutOfBounds);
        let atomic =
            of_all_bits.replace(&format!("out[{dtype}(n)] = 1"), &format!("wp.atomic_add(out, {dtype}(n), 1)"));
        assert_eq!(fault(&atomic, &options(Dialect::Warp), &[1], &mut arguments), FaultKind::OutOfBounds);
    }
}

#[test]
fn a_fault_names_the_index_of_the_source() {
    let source = |index: &str| {
        format!(
            "
import warp as wp

@wp.kernel
def k(m: wp.array2d(dtype=int), n: int):
    row = m[0]
    {index}
"
        )
    };
    let accesses =
        ["m[0, n] = 1", "m[0][n] = 1", "row[n] = 1", "m[0, n] += 1", "wp.atomic_max(m, 0, n, 1)", "m[0, 0] = m[0, n]"];
    for (n, access) in [-4, 3, i32::MIN].into_iter().flat_map(|n| accesses.map(|access| (n, access))) {
        let source = source(access);
        let mut arguments = [shaped(&[0_i32; 6], &[2, 3]), Argument::value(n)];
        let fault = whole_fault(&source, &options(Dialect::Warp), &[1], &mut arguments);
        let access = fault.access.expect("an access");
        assert_eq!((access.index, access.axis, access.extent), (n.into(), 1, 3), "{source}");
    }
    for (access, index) in [("m[wp.uint32(n), 0] = 1", u32::MAX.into()), ("m[wp.uint64(n), 0] = 1", i64::MAX)] {
        let mut arguments = [shaped(&[0_i32; 6], &[2, 3]), Argument::value(-1)];
        let fault = whole_fault(&source(access), &options(Dialect::Warp), &[1], &mut arguments);
        assert_eq!(fault.access.expect("an access").index, index);
    }
}

/// Each way to state an index; the expected values are those of Warp on a CPU.
#[test]
fn computed_negative_indices_count_from_the_end() {
    let source = "
import warp as wp

@wp.func
def last(x: wp.array(dtype=float), back: int):
    return x[-back]

@wp.func
def shifted(x: wp.array(dtype=float), i: int):
    i -= 2
    return x[i]

@wp.kernel
def k(x: wp.array(dtype=float), m: wp.array2d(dtype=float), at: wp.array(dtype=int), out: wp.array(dtype=float), n: int):
    i = wp.tid()
    out[0] = x[n]
    x[n - 1] = 9.0
    wp.atomic_add(x, n - 2, 5.0)
    x[n] += 100.0
    out[1] = x[n]
    out[2] = m[n, n - 1] + m[i - 1][i - 3]
    out[3] = x[at[i]] + x[wp.int64(n)] + x[wp.int8(n)]
    out[4] = last(x, 2) + shifted(x, 1) + shifted(x, i)
    j = i
    for step in range(3):
        j = j - 1
        out[5] += x[j]
    for step in range(-2, 2):
        out[6] += x[step]
    for step in range(3, -2, -1):
        out[7] += x[step]
    out[8] = x[i] + x[i % 5] + x[wp.max(n, 0)]
";
    let mut arguments = [
        Argument::array(&[1.0_f32, 2.0, 3.0, 4.0, 5.0]),
        shaped(&[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]),
        Argument::array(&[-4_i32]),
        Argument::array(&[0.0_f32; 9]),
        Argument::value(-1),
    ];
    run(source, &[1], &mut arguments);
    // x is 1, 2, 8, 9, 105 after the stores.
    assert_eq!(read::<f32>(&arguments[0]), [1.0, 2.0, 8.0, 9.0, 105.0]);
    let expected =
        [5.0, 105.0, 5.0 + 4.0, 2.0 + 210.0, 9.0 + 105.0 + 9.0, 122.0, 117.0, 9.0 + 8.0 + 2.0 + 1.0 + 105.0, 3.0];
    assert_eq!(read::<f32>(&arguments[3]), expected);
}

#[test]
fn an_array_has_an_extent_of_0_beyond_its_dimensions() {
    let source = "
import warp as wp

@wp.kernel
def k(a: wp.array2d(dtype=float), out: wp.array(dtype=int)):
    depth = a.shape[2]
    out[0] = depth
    out[1] = a.shape[3] + a.shape[1]
    out[2] = a[0].shape[1]
";
    let mut arguments = [shaped(&[0.0_f32; 6], &[2, 3]), Argument::array(&[9_i32; 3])];
    run(source, &[1], &mut arguments);
    assert_eq!(read::<i32>(&arguments[1]), [0, 3, 0]);
}

#[test]
fn the_type_of_elements_constructs_values() {
    let source = "
import warp as wp

@wp.func
def doubled(x: wp.array(dtype=wp.Scalar), i: int):
    return x.dtype(2) * x[i]

@wp.kernel
def k(x: wp.array(dtype=wp.float64), v: wp.array(dtype=wp.vec2d), n: wp.array(dtype=wp.int16), out: wp.array(dtype=float)):
    w = v[0]
    out[0] = float(doubled(x, 0)) + float(doubled(n, 0))
    out[1] = float(v.dtype(2.0)[1] + w.dtype(0.5))
    out[2] = float(type(x).dtype(2.5)) + float(type(w).dtype(1))
    out[3] = float(wp.vector(length=3, dtype=x.dtype)[2] + wp.identity(n=2, dtype=w.dtype)[1, 1])
";
    let mut arguments = [
        Argument::array(&[1.5_f64]),
        elements(&[4.0_f64, 5.0], 2),
        Argument::array(&[7_i16]),
        Argument::array(&[0.0_f32; 4]),
    ];
    run(source, &[1], &mut arguments);
    assert_eq!(read::<f32>(&arguments[3]), [17.0, 2.5, 3.5, 1.0]);
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
    let numbers: Vec<f32> = (0..5).map(|index| index as f32).collect();
    let grid: Vec<f32> = (10..16).map(|index| index as f32).collect();
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
