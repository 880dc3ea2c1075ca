//! States of random numbers. Results are those of Warp 1.19.

mod common;

use accelerd_ir::kernel::Argument;
use accelerd_lower::{Dialect, lower};
use common::{options, read, run_kernel};

#[test]
fn a_state_in_an_array_is_not_advanced() {
    let source = "
import warp as wp

@wp.kernel
def k(s: wp.array[wp.uint32], out: wp.array[wp.uint32]):
    out[0] = wp.poisson(s[0], 10.0)
    out[1] = wp.randu(s[1])
    out[2] = wp.randu(s[1])
    out[3] = wp.randu(wp.uint32(5))
";
    let module = lower(source, &options(Dialect::Warp)).unwrap_or_else(|error| panic!("{error}"));
    let states = [962_669_792_u32, 1_029_222_154];
    let mut arguments = [Argument::array(&states), Argument::array(&[0_u32; 4])];
    run_kernel(&module.kernels[0].kernel, &[1], &mut arguments);
    assert_eq!(read::<u32>(&arguments[1]), [14, 94_419_356, 94_419_356, 2_161_170_183]);
    assert_eq!(read::<u32>(&arguments[0]), states);
}
