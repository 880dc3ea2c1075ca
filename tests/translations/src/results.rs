//! Functions with several results, as WebAssembly returns them. In Rust's C ABI they write them to an address that is the first parameter.

#![no_std]
#![feature(wasm_abi)]

use core::mem::MaybeUninit;

#[repr(C)]
pub struct Integers(i64, i64);

#[repr(C)]
pub struct Integers3(i64, i64, i64);

#[repr(C)]
pub struct Integers6(i64, i64, i64, i64, i64, i64);

#[repr(C)]
pub struct Pair(f64, f64);

#[repr(C)]
pub struct Triple(f64, f64, f64);

#[repr(C)]
pub struct Significand(f64, i64);

#[repr(C)]
pub struct Roundings(i64, i64, i64, i64);

macro_rules! results {
    ($($name:ident = $function:ident($($param:ident: $type:ty),*) -> $results:ty;)*) => {
        $(
            #[no_mangle]
            pub extern "wasm" fn $name($($param: $type),*) -> $results {
                extern "C" {
                    fn $function(results: *mut $results, $($param: $type),*);
                }
                let mut results = MaybeUninit::uninit();
                unsafe {
                    $function(results.as_mut_ptr(), $($param),*);
                    results.assume_init()
                }
            }
        )*
    };
}

results! {
    divide_with_remainder_results = divide_with_remainder(a: i64, b: i64) -> Integers;
    fraction_sum_results = fraction_sum(a: i64, b: i64, c: i64, d: i64) -> Integers;
    limit_denominator_results = limit_denominator(numerator: i64, denominator: i64, limit: i64) -> Integers;
    ipv4_network_results = ipv4_network(address: i64, prefix: i64) -> Integers3;
    slice_indices_results = slice_indices(start: i64, stop: i64, step: i64, length: i64) -> Integers3;
    date_of_ordinal_results = date_of_ordinal(days: i64) -> Integers3;
    week_of_year_results = week_of_year(year: i64, month: i64, day: i64) -> Integers;
    date_of_week_results = date_of_week(year: i64, week: i64, day: i64) -> Integers3;
    utc_time_results = utc_time(seconds: i64) -> Integers6;
    normalized_duration_results = normalized_duration(days: i64, seconds: i64, microseconds: i64) -> Integers3;
    easter_results = easter(year: i64) -> Integers;
    quartiles_results = quartiles(xs: *const f64, len: usize) -> Triple;
    quadratic_roots_results = quadratic_roots(a: f64, b: f64, c: f64) -> Pair;
    polar_results = polar(x: f64, y: f64) -> Pair;
    complex_quotient_results = complex_quotient(a: f64, b: f64, c: f64, d: f64) -> Pair;
    complex_product_results = complex_product(a: f64, b: f64, c: f64, d: f64) -> Pair;
    hsv_results = hsv(red: f64, green: f64, blue: f64) -> Triple;
    from_hsv_results = from_hsv(hue: f64, saturation: f64, value: f64) -> Triple;
    hls_results = hls(red: f64, green: f64, blue: f64) -> Triple;
    from_hls_results = from_hls(hue: f64, lightness: f64, saturation: f64) -> Triple;
    yiq_results = yiq(red: f64, green: f64, blue: f64) -> Triple;
    continuous_rates_results = continuous_rates(rate: f64) -> Pair;
    inverse_hyperbolics_results = inverse_hyperbolics(x: f64) -> Triple;
    floor_divide_results = floor_divide(a: f64, b: f64) -> Pair;
    fraction_and_whole_results = fraction_and_whole(x: f64) -> Pair;
    significand_and_exponent_results = significand_and_exponent(x: f64) -> Significand;
    roundings_results = roundings(x: f64) -> Roundings;
}
