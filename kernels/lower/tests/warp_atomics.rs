//! Atomic operations on 16-bit floating-point numbers. Results are those of Warp 1.19.

mod common;

use accelerd_ir::kernel::Argument;
use accelerd_lower::{Dialect, ErrorKind, lower};
use common::{options, read, refused, run_kernel};
use half::{bf16, f16};

const SOURCE: &str = "
import warp as wp

@wp.kernel
def k(x: wp.array[wp.bfloat16], h: wp.array[wp.float16], sums: wp.array[wp.bfloat16], halves: wp.array[wp.float16]):
    i = wp.tid()
    wp.atomic_add(sums, 0, x[i])
    wp.atomic_min(sums, 1, x[i])
    wp.atomic_max(sums, 2, x[i])
    sums[3] -= x[i]
    wp.atomic_sub(halves, 0, h[i])
    halves[1] += h[i]
";

#[test]
fn sums_are_rounded_after_each_addition() {
    let module = lower(SOURCE, &options(Dialect::Warp)).unwrap_or_else(|error| panic!("{error}"));
    let x = [256.0, 1.0, -3.0, 1.0].map(bf16::from_f32);
    let h = [2048.0, 1.0, -0.5, 1.0].map(f16::from_f32);
    let mut arguments =
        [Argument::array(&x), Argument::array(&h), Argument::array(&[bf16::ZERO; 4]), Argument::array(&[f16::ZERO; 2])];
    run_kernel(&module.kernels[0].kernel, &[4], &mut arguments);
    let sums: Vec<_> = read::<bf16>(&arguments[2]).into_iter().map(bf16::to_f32).collect();
    assert_eq!(sums, [254.0, -3.0, 256.0, -254.0]);
    let halves: Vec<_> = read::<f16>(&arguments[3]).into_iter().map(f16::to_f32).collect();
    assert_eq!(halves, [-2048.0, 2048.0]);
}

#[test]
fn operations_that_warp_does_not_have_are_refused() {
    for (call, kind) in [
        ("wp.atomic_min(halves, 0, h[i])", ErrorKind::UnsupportedType),
        ("wp.atomic_exch(halves, 0, h[i])", ErrorKind::UnsupportedType),
        ("wp.atomic_and(halves, 0, h[i])", ErrorKind::ArgumentMismatch),
    ] {
        let source = SOURCE.replace("wp.atomic_sub(halves, 0, h[i])", call);
        assert_eq!(refused(&source, &options(Dialect::Warp)).kind, kind, "{call}");
    }
}
