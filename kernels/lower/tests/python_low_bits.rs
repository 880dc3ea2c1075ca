//! Integers of plain Python have no bounds: where only low bits are read of a result, it may have more than 64.

mod common;

use accelerd_ir::kernel::{Argument, FaultKind};
use accelerd_lower::{Dialect, ErrorKind};
use common::{fault, options, read, refused, try_run};

const VALUES: [i64; 12] =
    [0, 1, -1, 2, -7, 31, 0xffff_ffff, 0x85eb_ca6b, -0x1234_5678_9abc, i64::MAX, i64::MIN, i64::MAX / 3];

/// The results of a function of two integers for all pairs of [`VALUES`].
fn pairs(body: &str) -> Vec<([i128; 2], i64)> {
    let pairs: Vec<_> = VALUES.iter().flat_map(|&a| VALUES.map(|b| [a, b])).collect();
    let column = |place: usize| Argument::array(&pairs.iter().map(|pair| pair[place]).collect::<Vec<_>>());
    let mut arguments = vec![column(0), column(1), Argument::array(&vec![0_i64; pairs.len()])];
    let source = format!("M = 0xFFFFFFFF\n\ndef f(a: int, b: int) -> int:\n    {body}\n");
    let grid = [u32::try_from(pairs.len()).expect("few pairs")];
    try_run(&source, &options(Dialect::Python), &grid, &mut arguments)
        .unwrap_or_else(|error| panic!("{error}\n{source}"));
    let results: Vec<i64> = read(&arguments[2]);
    pairs.into_iter().map(|pair| pair.map(i128::from)).zip(results).collect()
}

fn fault_of(body: &str, a: i64, b: i64) -> FaultKind {
    let source = format!("def f(a: int, b: int) -> int:\n    {body}\n");
    let mut arguments = [Argument::array(&[a]), Argument::array(&[b]), Argument::array(&[0_i64])];
    fault(&source, &options(Dialect::Python), &[1], &mut arguments)
}

const M: i128 = 0xffff_ffff;

/// The low 64 bits of an expression, of which fewer count.
fn low(value: i128) -> i128 {
    value & i128::from(u64::MAX)
}

#[test]
fn a_mask_takes_the_low_bits_of_results_of_any_size() {
    type Expected = fn(i128, i128) -> i128;
    let expressions: [(&str, Expected); 18] = [
        ("(a * 0x85EBCA6B) & 0xFFFFFFFF", |a, _| low(a.wrapping_mul(0x85eb_ca6b)) & M),
        ("M & (a * b)", |a, b| low(a.wrapping_mul(b)) & M),
        ("(a + b) & M", |a, b| (a + b) & M),
        ("(a - b) % 2**32", |a, b| (a - b) & M),
        ("-a & 0xFF", |a, _| -a & 0xff),
        ("~(a * a) % 256", |a, _| !low(a.wrapping_mul(a)) & 0xff),
        ("(a * b + a * 31 - b) & ((1 << 20) - 1)", |a, b| low(a.wrapping_mul(b).wrapping_add(a * 31 - b)) & 0xf_ffff),
        ("((a << 5) + a + b) & M", |a, b| ((a << 5) + a + b) & M),
        ("(a << 70) & M", |_, _| 0),
        ("(a << (b & 63)) & M", |a, b| low(a << (b & 63)) & M),
        ("((a * b) >> 7) & 0x7FFF", |a, b| (low(a.wrapping_mul(b)) >> 7) & 0x7fff),
        ("((a * 1103515245 + 12345) // 65536) % 32768", |a, _| {
            (low(a.wrapping_mul(1_103_515_245) + 12345) >> 16) & 0x7fff
        }),
        ("((a ^ (a >> 15)) * (b | 1)) & M", |a, b| low((a ^ (a >> 15)).wrapping_mul(b | 1)) & M),
        ("(a ** 3 - b) & M", |a, b| low(a.wrapping_mul(a).wrapping_mul(a).wrapping_sub(b)) & M),
        ("(a * 0x9E3779B97F4A7C15) & M", |a, _| low(a.wrapping_mul(0x9e37_79b9_7f4a_7c15)) & M),
        ("(((a * b) & M) * 0x85EBCA6B) & M", |a, b| low((low(a.wrapping_mul(b)) & M).wrapping_mul(0x85eb_ca6b)) & M),
        ("(a * b) % 1", |_, _| 0),
        ("((a * b) & 0xFFFFFFFFFFFFFFFF) & 0xFF", |a, b| low(a.wrapping_mul(b)) & 0xff),
    ];
    for (expression, expected) in expressions {
        for ([a, b], result) in pairs(&format!("return {expression}")) {
            assert_eq!(i128::from(result), expected(a, b), "{expression} with a = {a}, b = {b}");
        }
    }
}

#[test]
fn a_variable_that_is_masked_next_may_have_more_bits_before() {
    type Expected = fn(i128, i128) -> i128;
    let bodies: [(&str, Expected); 6] = [
        ("h = a * b\n    h = h & M\n    return h", |a, b| low(a.wrapping_mul(b)) & M),
        ("h = a\n    h *= 0x85EBCA6B\n    h &= 0xFFFFFFFF\n    return h", |a, _| low(a.wrapping_mul(0x85eb_ca6b)) & M),
        ("h = a\n    h = h * b\n    h += a\n    h ^= b\n    h %= 65536\n    return h", |a, b| {
            (low(a.wrapping_mul(b).wrapping_add(a)) ^ low(b)) & 0xffff
        }),
        ("h = a * b\n    h = (h ^ (h >> 16)) & 0xFFFF\n    return h", |a, b| {
            let product = low(a.wrapping_mul(b));
            (product ^ (product >> 16)) & 0xffff
        }),
        ("mask = 0xFFFF\n    h = a * b\n    h &= mask\n    return h", |a, b| low(a.wrapping_mul(b)) & 0xffff),
        ("h = 1\n    for i in range(20):\n        h = h * 31 + a\n        h = h & M\n    return h", |a, _| {
            (0..20).fold(1, |h: i128, _| (h * 31 + a) & M)
        }),
    ];
    for (body, expected) in bodies {
        for ([a, b], result) in pairs(body) {
            assert_eq!(i128::from(result), expected(a, b), "{body} with a = {a}, b = {b}");
        }
    }
}

#[test]
fn a_product_that_is_shifted_has_128_bits() {
    for ([a, b], result) in pairs("return ((a & M) * (b & M)) >> 32") {
        assert_eq!(i128::from(result), ((a & M) * (b & M)) >> 32, "{a} and {b}");
    }
    for ([a, b], result) in pairs("return ((a * b) >> 40) & M") {
        assert_eq!(i128::from(result), ((a * b) >> 40) & M, "{a} and {b}");
    }
    for ([a, b], result) in pairs("return (a * (b & 0xFF)) // 256") {
        assert_eq!(i128::from(result), (a * (b & 0xff)) >> 8, "{a} and {b}");
    }
    assert_eq!(fault_of("return (a * b) >> 32", i64::MAX, i64::MAX), FaultKind::InvalidValue);
}

#[test]
fn results_whose_high_bits_are_read_must_fit() {
    let big = i64::MAX;
    for body in [
        "return a * b",
        "return (a * b) & ~255",
        "return ((a * b) & 255) + a * b",
        "h = a * b\n    g = h & 255\n    return h - g",
        "h = a * b\n    h = (h & 255) + h // 3",
        "h = a * b\n    h = (h + abs(h)) & 255\n    return h",
        "h = a * b\n    if h > 0:\n        h &= 255\n    return h",
        "return (a * b) % 255",
    ] {
        let body = if body.contains("return") { body.to_owned() } else { format!("{body}\n    return h") };
        assert_eq!(fault_of(&body, big, 3), FaultKind::InvalidValue, "{body}");
    }
    assert_eq!(fault_of("return (a << (b - 5)) & 255", 1, 3), FaultKind::InvalidValue);
}

#[test]
fn a_mask_of_64_bits_is_still_beyond_the_range() {
    let source = "def f(a: int) -> int:\n    return (a * 3) & 0xFFFFFFFFFFFFFFFF\n";
    assert_eq!(refused(source, &options(Dialect::Python)).kind, ErrorKind::ConstantOutOfRange);
}

#[test]
fn floats_are_not_integers_of_low_bits() {
    let source = "def f(a: float, b: float) -> float:\n    return (a * b + 1) % 8\n";
    let mut arguments = [Argument::array(&[1e10, -1.5]), Argument::array(&[1e10, 3.0]), Argument::array(&[0.0_f64; 2])];
    try_run(source, &options(Dialect::Python), &[2], &mut arguments).expect("no fault");
    assert_eq!(read::<f64>(&arguments[2]), [(1e20 + 1.0) % 8.0, 4.5]);
}
