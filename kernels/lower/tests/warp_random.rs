//! Random numbers and their states. Results are those of Warp 1.19.

mod common;

use accelerd_ir::kernel::Argument;
use accelerd_lower::{Dialect, ErrorKind, lower};
use common::{body, options, read, refused_body, run, run_kernel};

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
    let second = pcg(start);
    let third = pcg(pcg(start));
    let fourth = pcg(pcg(pcg(start)));
    assert_eq!(results, [start, second, third >> 8, fourth % 10]);
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
    for (index, rate) in [(1, 2.5), (2, 40.0)] {
        let values: Vec<f64> = read::<u32>(&arguments[index]).iter().map(|value| f64::from(*value)).collect();
        let (mean, variance) = moments(&values);
        let error = 6.0 * (rate / count as f64).sqrt();
        assert!((mean - rate).abs() < error && (variance / rate - 1.0).abs() < 0.08, "{rate}: {mean}, {variance}");
    }
}

#[test]
fn a_parameter_that_is_a_state_is_a_copy() {
    let source = "
import warp as wp

@wp.func
def two(state: wp.uint32):
    return wp.randu(state), wp.randu(state)

@wp.kernel
def k(seed: wp.uint32, out: wp.array(dtype=wp.uint32)):
    a, b = two(seed)
    out[0] = wp.randu(seed)
    out[1] = wp.randu(seed)
    out[2] = a
    out[3] = b
";
    let mut arguments = [Argument::value(7_u32), Argument::array(&[0_u32; 4])];
    run(source, &[1], &mut arguments);
    let numbers: Vec<u32> = read(&arguments[1]);
    assert_eq!(numbers[..2], numbers[2..]);
    assert_ne!(numbers[0], numbers[1]);
}
