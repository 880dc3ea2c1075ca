//! Translations with one error each. Comments say which.

#[allow(dead_code)]
#[path = "src/python.rs"]
mod python;

use python::{div, floor_div, floor_mod, list, max, pow};

/// Includes the end of the range.
#[no_mangle]
pub extern "C" fn range_sum(start: i64, stop: i64, step: i64) -> i64 {
    assert!(step != 0);
    let (mut total, mut i) = (0, start);
    while if step > 0 { i <= stop } else { i >= stop } {
        total += i;
        i += step;
    }
    total
}

/// Compares with `>` in place of `>=`.
#[no_mangle]
pub extern "C" fn bmi_class(kilograms: f64, metres: f64) -> i64 {
    let index = div(kilograms, metres * metres);
    [18.5, 25.0, 30.0].iter().filter(|threshold| index > **threshold).count() as i64
}

/// Compares with `<=` in place of `<`.
#[no_mangle]
pub unsafe extern "C" fn bisect_left(xs: *const f64, len: usize, x: f64) -> i64 {
    let xs = list(xs, len);
    let (mut low, mut high) = (0, xs.len());
    while low < high {
        let middle = (low + high) / 2;
        if xs[middle] <= x {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low as i64
}

/// Rounds ties away from zero.
#[no_mangle]
pub extern "C" fn cents(amount: f64) -> f64 {
    python::int((amount * 100.0).round()) as f64 / 100.0
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => panic!("expected a month from 1 to 12"),
    }
}

/// Truncates quotients.
#[no_mangle]
pub extern "C" fn ordinal(year: i64, month: i64, day: i64) -> i64 {
    assert!((1..=days_in_month(year, month)).contains(&day));
    let before = year - 1;
    let leap_days = before / 4 - before / 100 + before / 400;
    let months: i64 = (1..month).map(|earlier| days_in_month(year, earlier)).sum();
    before * 365 + leap_days + months + day
}

/// Takes a remainder with the sign of the dividend.
#[no_mangle]
pub extern "C" fn wrapped_degrees(angle: f64) -> f64 {
    (angle + 180.0) % 360.0 - 180.0
}

/// Has no case for NaN.
#[no_mangle]
pub unsafe extern "C" fn index_of_max(xs: *const f64, len: usize) -> i64 {
    let xs = list(xs, len);
    let mut best = 0;
    for (i, x) in xs.iter().enumerate() {
        if *x > xs[best] {
            best = i;
        }
    }
    best as i64
}

/// Takes the lesser of two numbers where the original has NaN.
#[no_mangle]
pub extern "C" fn clamp(x: f64, low: f64, high: f64) -> f64 {
    assert!(!(low > high), "empty interval");
    x.min(high).max(low)
}

/// Has no case for -0.
#[no_mangle]
pub extern "C" fn bearing(east: f64, north: f64) -> f64 {
    if east == 0.0 && !north.is_nan() {
        return if north < 0.0 { 180.0_f64.copysign(east) } else { 0.0 };
    }
    east.atan2(north).to_degrees()
}

/// Has 32 bits.
#[no_mangle]
pub extern "C" fn digital_root(n: i64) -> i64 {
    let mut n = (n as i32).abs();
    while n >= 10 {
        let mut total = 0;
        while n > 0 {
            total += n % 10;
            n /= 10;
        }
        n = total;
    }
    n.into()
}

/// Wraps.
#[no_mangle]
pub extern "C" fn fibonacci(n: i64) -> i64 {
    assert!(n >= 0, "negative index");
    let (mut a, mut b) = (0_i64, 1_i64);
    for _ in 0..n - 1 {
        (a, b) = (b, a.wrapping_add(b));
    }
    if n > 0 {
        b
    } else {
        a
    }
}

/// Has a constant with another last digit.
#[no_mangle]
pub extern "C" fn wind_chill(celsius: f64, speed: f64) -> f64 {
    if celsius > 10.0 || speed < 4.8 {
        return celsius;
    }
    let power = pow(speed, 0.16);
    13.12 + 0.6215 * celsius - 11.37 * power + 0.3966 * celsius * power
}

/// Exchanges the operands of a subtraction in one branch.
#[no_mangle]
pub extern "C" fn income_tax(income: f64) -> f64 {
    if income <= 10_000.0 {
        0.0
    } else if income <= 50_000.0 {
        (10_000.0 - income) * 0.2
    } else if income < 150_000.0 {
        8_000.0 + (income - 50_000.0) * 0.4
    } else {
        48_000.0 + (income - 150_000.0) * 0.45
    }
}

/// Leaves out the last element.
#[no_mangle]
pub unsafe extern "C" fn mean(xs: *const f64, len: usize) -> f64 {
    let xs = list(xs, len);
    div(xs[..xs.len() - 1].iter().fold(0.0, |total, x| total + x), xs.len() as f64)
}

/// Keeps the longest run of earlier calls.
#[no_mangle]
pub unsafe extern "C" fn longest_run(flags: *const u8, len: usize) -> i64 {
    static mut LONGEST: i64 = 0;
    let mut run = 0;
    for flag in list(flags, len) {
        run = if *flag != 0 { run + 1 } else { 0 };
        LONGEST = max(LONGEST, run);
    }
    LONGEST
}

/// Divides by zero for 0.
#[no_mangle]
pub extern "C" fn integer_sqrt(n: i64) -> i64 {
    assert!(n >= 0, "negative number");
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

/// Has no rule for centuries.
#[no_mangle]
pub extern "C" fn is_leap_year(year: i64) -> bool {
    year % 4 == 0
}

/// Has results below zero.
#[no_mangle]
pub extern "C" fn gcd(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, floor_mod(a, b));
    }
    a
}

/// Rounds a tie down.
#[no_mangle]
pub extern "C" fn align(n: i64, step: i64) -> i64 {
    let (mut quotient, rest) = (floor_div(n, step), floor_mod(n, step));
    if 2 * rest.abs() > step.abs() {
        quotient += 1;
    }
    quotient * step
}

/// Is correct in Rust, but LLVM 14 compiles the selection to `f64.max`, which is 0.0 for -0.0.
#[no_mangle]
pub extern "C" fn triangle_area(a: f64, b: f64, c: f64) -> f64 {
    assert!(a + b >= c && b + c >= a && c + a >= b, "no triangle");
    let half = (a + b + c) / 2.0;
    let square = half * (half - a) * (half - b) * (half - c);
    (if square < 0.0 { 0.0 } else { square }).sqrt()
}
