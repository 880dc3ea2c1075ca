//! Noise and samples of shapes. Results are those of Warp 1.19 without contraction.

mod common;

use accelerd_ir::kernel::Argument;
use accelerd_lower::{Dialect, lower};
use common::{body, options, read, run_kernel};

#[test]
fn noise_has_the_bits_of_warp() {
    let results = body(
        "float",
        "
s = wp.rand_init(42)
out[0] = wp.noise(s, 1.3)
out[1] = wp.noise(s, wp.vec2(1.3, -2.7))
out[2] = wp.noise(s, wp.vec3(1.3, -2.7, 0.4))
out[3] = wp.noise(s, wp.vec4(1.3, -2.7, 0.4, 9.1))
out[4] = wp.pnoise(s, 5.3, 4)
out[5] = wp.pnoise(s, wp.vec2(5.3, -2.7), 4, 3)
out[6] = wp.pnoise(s, wp.vec3(5.3, -2.7, 3.9), 4, 3, 2)
out[7] = wp.pnoise(s, wp.vec4(5.3, -2.7, 3.9, 1.1), 4, 3, 2, 7)
a = wp.curlnoise(s, wp.vec2(1.3, -2.7))
b = wp.curlnoise(s, wp.vec2(1.3, -2.7), wp.uint32(3), 1.5, 0.25)
c = wp.curlnoise(s, wp.vec3(1.3, -2.7, 0.4), wp.uint32(2))
d = wp.curlnoise(s, wp.vec4(1.3, -2.7, 0.4, 9.1), octaves=wp.uint32(2), gain=0.75)
out[8] = a[0]
out[9] = a[1]
out[10] = b[0]
out[11] = b[1]
for i in range(3):
    out[12 + i] = c[i]
    out[15 + i] = d[i]
",
        18,
        0.0_f32,
    );
    let bits: Vec<_> = results.iter().map(|value| value.to_bits()).collect();
    let expected = [
        0xbe22_520e_u32,
        0xbd88_95d0,
        0x3ea2_df2c,
        0xbe1b_ab53,
        0xbe22_5212,
        0x3d62_ee40,
        0x3c71_4b00,
        0x3db6_ad2a,
        0xbdf5_6ac8,
        0xbe55_9765,
        0xbe6d_28b5,
        0x3d4d_772c,
        0x3f15_52b6,
        0xbf0a_6074,
        0x3f8e_9cf0,
        0xbc02_7a80,
        0xbfdf_a5a8,
        0x3f7c_5b44,
    ];
    assert_eq!(bits, expected);
}

#[test]
fn norms_are_those_of_the_components() {
    let results = body(
        "float",
        "
v = wp.types.vector(length=2, dtype=float)(-3.0, 4.0)
out[0] = wp.norm_l1(v)
out[1] = wp.norm_l2(v)
",
        2,
        0.0_f32,
    );
    assert_eq!(results, [7.0, 5.0]);
}

#[test]
fn samples_of_shapes_are_those_of_warp() {
    let source = "
import warp as wp

@wp.kernel
def k(cdf: wp.array[float], out: wp.array[float]):
    s = wp.rand_init(7)
    a = wp.sample_triangle(s)
    b = wp.sample_unit_ring(s)
    c = wp.sample_unit_disk(s)
    d = wp.sample_unit_sphere_surface(s)
    e = wp.sample_unit_sphere(s)
    f = wp.sample_unit_hemisphere_surface(s)
    g = wp.sample_unit_hemisphere(s)
    h = wp.sample_unit_square(s)
    i = wp.sample_unit_cube(s)
    for n in range(2):
        out[n] = a[n]
        out[2 + n] = b[n]
        out[4 + n] = c[n]
        out[6 + n] = h[n]
    for n in range(3):
        out[8 + n] = d[n]
        out[11 + n] = e[n]
        out[14 + n] = f[n]
        out[17 + n] = g[n]
        out[20 + n] = i[n]
    out[23] = float(wp.sample_cdf(s, cdf))
    out[24] = float(wp.lower_bound(cdf, 0.5))
    out[25] = float(wp.lower_bound(cdf, 1, 3, 0.9))
";
    let module = lower(source, &options(Dialect::Warp)).unwrap_or_else(|error| panic!("{error}"));
    let mut arguments = [Argument::array(&[0.1_f32, 0.2, 0.5, 0.7, 1.0]), Argument::array(&[0.0_f32; 26])];
    run_kernel(&module.kernels[0].kernel, &[1], &mut arguments);
    let expected = [
        0.291_094_9,
        0.621_798_75,
        -0.929_432_45,
        -0.368_992_27,
        -0.168_665_32,
        -0.301_473_83,
        -0.396_057_25,
        0.036_670_506,
        0.271_113_57,
        -0.558_326_96,
        0.784_071_7,
        -0.285_515_4,
        -0.602_473_26,
        -0.740_260_24,
        0.191_109_64,
        0.036_282_383,
        0.980_897_9,
        -0.498_885_12,
        -0.426_787_14,
        0.324_619_53,
        0.217_964_83,
        0.228_548_88,
        -0.123_861_97,
        4.0,
        2.0,
        2.0_f32,
    ];
    for (result, expected) in read::<f32>(&arguments[1]).iter().zip(expected) {
        assert!((result - expected).abs() < 1e-6, "{result} {expected}");
    }
}
