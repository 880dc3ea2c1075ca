//! Indexed arrays: an array, and for each dimension an array of the indices that it has.

mod common;

use accelerd_ir::kernel::interpret::{LaunchError, Limits, launch};
use accelerd_ir::kernel::{Argument, FaultKind};
use accelerd_lower::{Dialect, ErrorKind, lower};
use common::{options, read, refused, run_kernel, shaped};

const SOURCE: &str = "
from typing import Literal
import warp as wp

@wp.func
def twice(a: wp.indexedarray(dtype=float), j: int):
    return 2.0 * a[j]

@wp.kernel
def k(a: wp.indexedarray[float, Literal[2]], out: wp.array2d[float]):
    i, j = wp.tid()
    out[i, j] = twice(a[i], j) + float(a.shape[1]) + 0.5 * a[-1, j]
    wp.atomic_add(a, i, j, 1.0)
    a[i][j] += 10.0
";

#[test]
fn elements_are_those_at_the_indices() {
    let module = lower(SOURCE, &options(Dialect::Warp)).unwrap_or_else(|error| panic!("{error}"));
    let kernel = &module.kernels[0];
    let names: Vec<_> = kernel.kernel.params.iter().map(|param| param.name.as_str()).collect();
    assert_eq!(names, ["a", "a_indices0", "a_indices1", "out"]);
    assert_eq!(kernel.parameters[0].params.len(), 3);
    let data: Vec<f32> = (0..12_u8).map(f32::from).collect();
    let mut arguments = [
        shaped(&data, &[3, 4]),
        Argument::array(&[2_i32, 0]),
        Argument::array(&[3_i32, 1, 0]),
        shaped(&[0.0_f32; 6], &[2, 3]),
    ];
    run_kernel(&kernel.kernel, &[2, 3], &mut arguments);
    assert_eq!(read::<f32>(&arguments[3]), [22.0 + 4.5, 18.0 + 3.5, 16.0 + 3.0, 6.0 + 4.5, 2.0 + 3.5, 3.0]);
    assert_eq!(read::<f32>(&arguments[0]), [11.0, 12.0, 2.0, 14.0, 4.0, 5.0, 6.0, 7.0, 19.0, 20.0, 10.0, 22.0]);
}

#[test]
fn indices_outside_are_faults() {
    let module = lower(SOURCE, &options(Dialect::Warp)).unwrap_or_else(|error| panic!("{error}"));
    let cases = [([0_i32, 3], [2, 1], "a", 3), ([0, -1], [2, 1], "a", -1), ([0, 1], [3, 1], "a_indices0", 2)];
    for (indices, grid, array, index) in cases {
        let mut arguments = [
            shaped(&[0.0_f32; 12], &[3, 4]),
            Argument::array(&indices),
            Argument::array(&[0_i32]),
            shaped(&[0.0_f32; 3], &[3, 1]),
        ];
        match launch(&module.kernels[0].kernel, &grid, &mut arguments, Limits::default()) {
            Err(LaunchError::Fault(fault)) => {
                assert_eq!(fault.kind, FaultKind::OutOfBounds);
                let access = fault.access.expect("an access");
                assert_eq!((access.array.as_str(), access.index), (array, index));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_indexed_array_is_no_array() {
    let error =
        refused(&SOURCE.replace("wp.indexedarray(dtype=float)", "wp.array(dtype=float)"), &options(Dialect::Warp));
    assert_eq!(
        error.message,
        "expected array of 1 dimensions of float32, got indexed array of 1 dimensions of float32"
    );
    let error = refused(&SOURCE.replace("a[-1, j]", "a[0:1, j][0]"), &options(Dialect::Warp));
    assert_eq!(error.kind, ErrorKind::UnsupportedExpression);
}
