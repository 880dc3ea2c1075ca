//! What Python's operators and functions mean, for translations.

use std::cmp::Ordering;
use std::iter::successors;

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// The elements of a list. The caller guarantees that the memory has them.
pub unsafe fn list<'a, T>(first: *const T, len: usize) -> &'a [T] {
    std::slice::from_raw_parts(first, len)
}

/// An element, from the end by a negative index.
pub fn at<T: Copy>(xs: &[T], i: i64) -> T {
    let i = if i < 0 { i + xs.len() as i64 } else { i };
    xs[usize::try_from(i).expect("list index out of range")]
}

pub fn range(start: i64, stop: i64, step: i64) -> impl Iterator<Item = i64> {
    assert!(step != 0, "range() arg 3 must not be zero");
    successors(Some(start), move |i| i.checked_add(step))
        .take_while(move |i| if step > 0 { *i < stop } else { *i > stop })
}

pub fn floor_div(a: i64, b: i64) -> i64 {
    let quotient = a / b;
    quotient - i64::from(a.wrapping_rem(b) != 0 && (a < 0) != (b < 0))
}

pub fn floor_mod(a: i64, b: i64) -> i64 {
    let rest = a.wrapping_rem(b);
    if rest != 0 && (rest < 0) != (b < 0) {
        rest + b
    } else {
        rest
    }
}

pub fn shift_left(n: i64, count: i64) -> i64 {
    assert!(count >= 0, "negative shift count");
    if n == 0 {
        return 0;
    }
    let shifted = n.checked_shl(u32::try_from(count).expect("too large")).expect("too large");
    assert!(shifted >> count == n, "too large");
    shifted
}

pub fn shift_right(n: i64, count: i64) -> i64 {
    assert!(count >= 0, "negative shift count");
    n >> count.min(63)
}

/// The order of an integer and a float, which is none for NaN.
pub fn order(n: i64, x: f64) -> Option<Ordering> {
    if x.is_nan() {
        None
    } else if x >= TWO_TO_63 {
        Some(Ordering::Less)
    } else if x < -TWO_TO_63 {
        Some(Ordering::Greater)
    } else {
        let whole = x.trunc();
        Some(n.cmp(&(whole as i64)).then(if whole < x {
            Ordering::Less
        } else if whole > x {
            Ordering::Greater
        } else {
            Ordering::Equal
        }))
    }
}

pub fn div(a: f64, b: f64) -> f64 {
    assert!(b != 0.0, "division by zero");
    a / b
}

/// Quotient and remainder of floats, rounded down.
pub fn float_divmod(a: f64, b: f64) -> (f64, f64) {
    assert!(b != 0.0, "division by zero");
    let rest = a % b;
    let quotient = (a - rest) / b;
    let (quotient, rest) = if rest == 0.0 {
        (quotient, 0.0_f64.copysign(b))
    } else if (rest < 0.0) != (b < 0.0) {
        (quotient - 1.0, rest + b)
    } else {
        (quotient, rest)
    };
    if quotient == 0.0 {
        return (0.0_f64.copysign(a / b), rest);
    }
    let floor = quotient.floor();
    (if quotient - floor > 0.5 { floor + 1.0 } else { floor }, rest)
}

pub fn int(x: f64) -> i64 {
    assert!((-TWO_TO_63..TWO_TO_63).contains(&x), "cannot convert to an integer");
    x as i64
}

/// The nearest integer, the even one of two.
pub fn round(x: f64) -> i64 {
    let is_tie = (x - x.trunc()).abs() == 0.5;
    int(if is_tie { 2.0 * (x / 2.0).round() } else { x.round() })
}

/// The first of two numbers, unless the other is less.
pub fn min<T: PartialOrd>(a: T, b: T) -> T {
    if b < a {
        b
    } else {
        a
    }
}

/// The first of two numbers, unless the other is greater. LLVM 14 compiles an inlined `max(x, 0.0)` to `f64.max`, which is 0.0 for -0.0.
#[inline(never)]
pub fn max<T: PartialOrd>(a: T, b: T) -> T {
    if b > a {
        b
    } else {
        a
    }
}

/// Panics as `math` raises an exception: if the result is NaN and no operand is, or infinite and all operands are finite.
fn checked(result: f64, operands: &[f64]) -> f64 {
    assert!(!result.is_nan() || operands.iter().any(|x| x.is_nan()), "math domain error");
    assert!(!result.is_infinite() || operands.iter().any(|x| !x.is_finite()), "math range error");
    result
}

/// A function of `math` with one operand.
pub fn math(function: fn(f64) -> f64, x: f64) -> f64 {
    checked(function(x), &[x])
}

pub fn fmod(x: f64, y: f64) -> f64 {
    checked(x % y, &[x, y])
}

pub fn pow(x: f64, y: f64) -> f64 {
    checked(x.powf(y), &[x, y])
}

/// The error function: a series without cancellation.
pub fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return 1.0_f64.copysign(x);
    }
    let (mut term, mut sum, mut n) = (x, x, 1.0);
    while term.abs() > sum.abs() * 1e-17 {
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
        n += 1.0;
    }
    sum * (-x * x).exp() * std::f64::consts::FRAC_2_SQRT_PI
}

pub fn asinh(x: f64) -> f64 {
    let size = x.abs();
    (size + size * size / (1.0 + (size * size + 1.0).sqrt())).ln_1p().copysign(x)
}

pub fn acosh(x: f64) -> f64 {
    let above = x - 1.0;
    (above + (above * (above + 2.0)).sqrt()).ln_1p()
}

pub fn atanh(x: f64) -> f64 {
    0.5 * (2.0 * x / (1.0 - x)).ln_1p()
}
