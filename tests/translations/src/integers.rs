//! Number theory, bits, checksums and encodings.

use crate::python::{floor_div, floor_mod, list, max, min, order, range, shift_left, shift_right};
use std::cmp::Ordering;

#[repr(C)]
pub struct Pair(i64, i64);

#[repr(C)]
pub struct Triple(i64, i64, i64);

#[no_mangle]
pub extern "C" fn gcd(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, floor_mod(a, b));
    }
    a.abs()
}

#[no_mangle]
pub extern "C" fn lcm(a: i64, b: i64) -> i64 {
    if a == 0 || b == 0 {
        return 0;
    }
    (a / gcd(a, b) * b).abs()
}

#[no_mangle]
pub extern "C" fn is_prime(n: i64) -> bool {
    if n < 2 {
        return false;
    }
    if n % 2 == 0 {
        return n == 2;
    }
    let mut divisor = 3;
    while divisor * divisor <= n {
        if n % divisor == 0 {
            return false;
        }
        divisor += 2;
    }
    true
}

#[no_mangle]
pub extern "C" fn power_mod(base: i64, mut exponent: i64, modulus: i64) -> i64 {
    assert!(exponent >= 0, "negative exponent");
    let mut result = floor_mod(1, modulus);
    let mut base = floor_mod(base, modulus);
    while exponent > 0 {
        if exponent & 1 != 0 {
            result = floor_mod(result * base, modulus);
        }
        base = floor_mod(base * base, modulus);
        exponent >>= 1;
    }
    result
}

#[no_mangle]
pub extern "C" fn bit_length(n: i64) -> i64 {
    (64 - n.abs().leading_zeros()).into()
}

#[no_mangle]
pub extern "C" fn integer_sqrt(n: i64) -> i64 {
    assert!(n >= 0, "negative number");
    if n == 0 {
        return 0;
    }
    let bits = 64 - n.leading_zeros();
    let mut root = 1_i64 << ((bits + 1) / 2);
    loop {
        let better = (root + n / root) / 2;
        if better >= root {
            return root;
        }
        root = better;
    }
}

#[no_mangle]
pub extern "C" fn bit_count(n: i64) -> i64 {
    n.abs().count_ones().into()
}

#[no_mangle]
pub extern "C" fn collatz_steps(mut n: i64) -> i64 {
    assert!(n > 0, "expected a positive number");
    let mut steps = 0;
    while n != 1 {
        n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
        steps += 1;
    }
    steps
}

#[no_mangle]
pub extern "C" fn fibonacci(n: i64) -> i64 {
    assert!(n >= 0, "negative index");
    let (mut a, mut b) = (0_i64, 1_i64);
    for _ in 0..n - 1 {
        (a, b) = (b, a + b);
    }
    if n > 0 {
        b
    } else {
        a
    }
}

#[no_mangle]
pub extern "C" fn binomial(n: i64, k: i64) -> i64 {
    if k < 0 || k > n {
        return 0;
    }
    (1..=min(k, n - k)).fold(1, |ways, i| ways * (n - i + 1) / i)
}

#[no_mangle]
pub extern "C" fn permutations(n: i64, k: i64) -> i64 {
    assert!(n >= 0 && k >= 0, "negative number");
    if k > n {
        return 0;
    }
    (n - k + 1..=n).rev().product()
}

#[no_mangle]
pub extern "C" fn factorial(n: i64) -> i64 {
    assert!(n >= 0, "negative number");
    (2..=n).product()
}

#[no_mangle]
pub extern "C" fn digital_root(n: i64) -> i64 {
    let mut n = n.abs();
    while n >= 10 {
        let mut total = 0;
        while n > 0 {
            total += n % 10;
            n /= 10;
        }
        n = total;
    }
    n
}

#[no_mangle]
pub extern "C" fn reversed_digits(n: i64) -> i64 {
    let (mut rest, mut result) = (n.abs(), 0_i64);
    while rest > 0 {
        result = result * 10 + rest % 10;
        rest /= 10;
    }
    if n < 0 {
        -result
    } else {
        result
    }
}

#[no_mangle]
pub extern "C" fn totient(mut n: i64) -> i64 {
    assert!(n > 0, "expected a positive number");
    let mut result = n;
    let mut factor = 2;
    while factor * factor <= n {
        if n % factor == 0 {
            while n % factor == 0 {
                n /= factor;
            }
            result -= result / factor;
        }
        factor += 1;
    }
    if n > 1 {
        result - result / n
    } else {
        result
    }
}

#[no_mangle]
pub extern "C" fn modular_inverse(a: i64, modulus: i64) -> i64 {
    assert!(modulus > 0, "expected a positive modulus");
    let (mut r, mut next_r) = (a.rem_euclid(modulus), modulus);
    let (mut s, mut next_s) = (1, 0);
    while next_r != 0 {
        let quotient = r / next_r;
        (r, next_r) = (next_r, r - quotient * next_r);
        (s, next_s) = (next_s, s - quotient * next_s);
    }
    assert!(r == 1, "not invertible");
    i64::rem_euclid(s, modulus)
}

#[no_mangle]
pub extern "C" fn divide_with_remainder(a: i64, b: i64) -> Pair {
    Pair(floor_div(a, b), floor_mod(a, b))
}

#[no_mangle]
pub extern "C" fn multiply_add(a: i64, b: i64, c: i64) -> i64 {
    a * b + c
}

#[no_mangle]
pub extern "C" fn align(n: i64, step: i64) -> i64 {
    let (mut quotient, rest) = (floor_div(n, step), floor_mod(n, step));
    let twice = 2 * rest.abs();
    if twice > step.abs() || twice == step.abs() && floor_mod(quotient, 2) == 1 {
        quotient += 1;
    }
    quotient * step
}

#[no_mangle]
pub extern "C" fn rotate_left(x: i64, count: i64) -> i64 {
    i64::from((x as u32).rotate_left(count.rem_euclid(32) as u32))
}

#[no_mangle]
pub extern "C" fn xorshift(state: i64, steps: i64) -> i64 {
    let mut state = state as u32;
    for _ in 0..steps {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
    }
    state.into()
}

#[no_mangle]
pub extern "C" fn shifted(n: i64, count: i64) -> i64 {
    if count < 0 {
        shift_right(n, -count)
    } else {
        shift_left(n, count)
    }
}

#[no_mangle]
pub extern "C" fn range_sum(start: i64, stop: i64, step: i64) -> i64 {
    range(start, stop, step).sum()
}

#[no_mangle]
pub extern "C" fn lowest_zero(n: i64) -> i64 {
    !n & (n + 1)
}

#[no_mangle]
pub extern "C" fn sum_of_cubes(n: i64) -> i64 {
    floor_div(n.pow(2) * (n + 1).pow(2), 4)
}

#[no_mangle]
pub extern "C" fn ratio(a: i64, b: i64) -> f64 {
    assert!(b != 0, "division by zero");
    a as f64 / b as f64
}

#[no_mangle]
pub extern "C" fn compare(n: i64, x: f64) -> i64 {
    match order(n, x) {
        Some(Ordering::Less) => -1,
        Some(Ordering::Equal) => 0,
        Some(Ordering::Greater) => 1,
        None => 2,
    }
}

#[no_mangle]
pub extern "C" fn fraction_sum(a: i64, b: i64, c: i64, d: i64) -> Pair {
    assert!(b != 0 && d != 0, "denominator is 0");
    let (numerator, denominator) = (a * d + c * b, b * d);
    let divisor = gcd(numerator, denominator) * denominator.signum();
    Pair(numerator / divisor, denominator / divisor)
}

#[no_mangle]
pub extern "C" fn limit_denominator(numerator: i64, denominator: i64, limit: i64) -> Pair {
    assert!(limit >= 1, "expected a positive limit");
    let Pair(n, d) = fraction_sum(numerator, denominator, 0, 1);
    if d <= limit {
        return Pair(n, d);
    }
    let (mut dividend, mut divisor) = (n, d);
    let (mut last, mut convergent) = ((0, 1), (1, 0));
    loop {
        let digit = floor_div(dividend, divisor);
        let next = (last.0 + digit * convergent.0, last.1 + digit * convergent.1);
        if next.1 > limit {
            break;
        }
        (last, convergent) = (convergent, next);
        (dividend, divisor) = (divisor, floor_mod(dividend, divisor));
    }
    let digit = (limit - last.1) / convergent.1;
    let between = (last.0 + digit * convergent.0, last.1 + digit * convergent.1);
    let (p, q) = if 2 * divisor * between.1 <= d { convergent } else { between };
    Pair(p, q)
}

#[no_mangle]
pub unsafe extern "C" fn adler32(data: *const i64, len: usize) -> i64 {
    let (mut low, mut high) = (1, 0);
    for byte in list(data, len) {
        low = (low + (byte & 0xFF)) % 65521;
        high = (high + low) % 65521;
    }
    high << 16 | low
}

#[no_mangle]
pub unsafe extern "C" fn fnv1a(data: *const i64, len: usize) -> i64 {
    let mut value = 0x811C_9DC5_u32;
    for byte in list(data, len) {
        value = (value ^ (byte & 0xFF) as u32).wrapping_mul(0x0100_0193);
    }
    value.into()
}

#[no_mangle]
pub unsafe extern "C" fn crc8(data: *const i64, len: usize) -> i64 {
    let mut crc = 0_u8;
    for byte in list(data, len) {
        crc ^= *byte as u8;
        for _ in 0..8 {
            crc = if crc & 0x80 != 0 { crc << 1 ^ 7 } else { crc << 1 };
        }
    }
    crc.into()
}

#[no_mangle]
pub unsafe extern "C" fn crc32(data: *const i64, len: usize) -> i64 {
    let mut crc = !0_u32;
    for byte in list(data, len) {
        crc ^= u32::from(*byte as u8);
        for _ in 0..8 {
            crc = if crc & 1 != 0 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
        }
    }
    (!crc).into()
}

#[no_mangle]
pub unsafe extern "C" fn crc16(data: *const i64, len: usize, crc: i64) -> i64 {
    let mut crc = crc as u16;
    for byte in list(data, len) {
        crc ^= u16::from(*byte as u8) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 != 0 { crc << 1 ^ 0x1021 } else { crc << 1 };
        }
    }
    crc.into()
}

#[no_mangle]
pub extern "C" fn integer_hash(n: i64) -> i64 {
    match n.abs() % ((1 << 61) - 1) * n.signum() {
        -1 => -2,
        value => value,
    }
}

#[no_mangle]
pub unsafe extern "C" fn from_bytes(data: *const i64, len: usize) -> i64 {
    let bytes = list(data, len).iter().map(|byte| u8::try_from(*byte).expect("expected bytes"));
    bytes
        .enumerate()
        .fold(0, |value, (i, byte)| value << 8 | if i == 0 { (byte as i8).into() } else { i64::from(byte) })
}

#[no_mangle]
pub extern "C" fn utf8(code: i64) -> i64 {
    let character = u32::try_from(code).ok().and_then(char::from_u32).expect("no character");
    let mut buffer = [0; 4];
    character.encode_utf8(&mut buffer).bytes().fold(0, |value, byte| value << 8 | i64::from(byte))
}

#[no_mangle]
pub extern "C" fn from_half_bits(bits: i64) -> f64 {
    let bits = bits as u64;
    let (exponent, fraction) = (bits >> 10 & 0x1F, bits & 0x3FF);
    let magnitude = match exponent {
        0x1F if fraction == 0 => f64::INFINITY,
        0x1F => f64::NAN,
        0 => fraction as f64 / f64::from(1 << 24),
        _ => f64::from_bits((exponent + 1023 - 15) << 52 | fraction << 42),
    };
    if bits & 0x8000 != 0 {
        -magnitude
    } else {
        magnitude
    }
}

#[no_mangle]
pub extern "C" fn ipv4_network(address: i64, prefix: i64) -> Triple {
    let address = u32::try_from(address).expect("expected an address of 32 bits");
    assert!((0..=32).contains(&prefix), "expected a prefix");
    let mask = u32::MAX.checked_shl(32 - prefix as u32).unwrap_or(0);
    Triple((address & mask).into(), (address | !mask).into(), i64::from(!mask) + 1)
}

#[no_mangle]
pub extern "C" fn slice_indices(start: i64, stop: i64, step: i64, length: i64) -> Triple {
    assert!(step != 0 && length >= 0, "expected a step other than 0, and a length");
    let (low, high) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let bounded = |i: i64| if i < 0 { max(i + length, low) } else { min(i, high) };
    Triple(bounded(start), bounded(stop), step)
}

#[no_mangle]
pub unsafe extern "C" fn luhn_is_valid(digits: *const i64, len: usize) -> bool {
    let mut total = 0;
    for (i, &digit) in list(digits, len).iter().rev().enumerate() {
        assert!((0..=9).contains(&digit), "expected digits");
        let digit = if i % 2 == 1 { 2 * digit } else { digit };
        total += if digit > 9 { digit - 9 } else { digit };
    }
    total % 10 == 0
}
