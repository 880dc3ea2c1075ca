//! Statistics, money, geometry and physics.

use crate::python::{self, at, div, erf, float_divmod, fmod, list, math, max, min, pow};

const EARTH_RADIUS_KM: f64 = 6371.0088;

#[repr(C)]
pub struct Pair(f64, f64);

#[repr(C)]
pub struct Triple(f64, f64, f64);

#[repr(C)]
pub struct Roundings(i64, i64, i64, i64);

#[repr(C)]
pub struct Significand(f64, i64);

fn mean_of(xs: &[f64]) -> f64 {
    div(xs.iter().fold(0.0, |total, x| total + x), xs.len() as f64)
}

#[no_mangle]
pub unsafe extern "C" fn mean(xs: *const f64, len: usize) -> f64 {
    mean_of(list(xs, len))
}

#[no_mangle]
pub unsafe extern "C" fn variance(xs: *const f64, len: usize) -> f64 {
    let xs = list(xs, len);
    let center = mean_of(xs);
    let squares = xs.iter().fold(0.0, |squares, x| squares + (x - center) * (x - center));
    div(squares, xs.len() as f64 - 1.0)
}

#[no_mangle]
pub extern "C" fn median_of_five(a: f64, b: f64, c: f64, d: f64, e: f64) -> f64 {
    let (a, b) = (min(a, b), max(a, b));
    let (d, e) = (min(d, e), max(d, e));
    let d = max(a, d);
    let b = min(b, e);
    let (b, c) = (min(b, c), max(b, c));
    max(b, min(c, d))
}

fn sorted(xs: &[f64]) -> Vec<f64> {
    let mut sorted = xs.to_vec();
    sorted.sort_by(|a, b| a.partial_cmp(b).expect("expected numbers"));
    sorted
}

#[no_mangle]
pub unsafe extern "C" fn median(xs: *const f64, len: usize) -> f64 {
    let sorted = sorted(list(xs, len));
    let half = len / 2;
    if len % 2 == 1 {
        sorted[half]
    } else {
        (sorted[half - 1] + sorted[half]) / 2.0
    }
}

#[no_mangle]
pub unsafe extern "C" fn quartiles(xs: *const f64, len: usize) -> Triple {
    let sorted = sorted(list(xs, len));
    let quartile = |n| {
        let position = n * (len + 1);
        let place = max(1, min(position / 4, len - 1));
        let after = position as f64 - 4.0 * place as f64;
        (sorted[place - 1] * (4.0 - after) + sorted[place] * after) / 4.0
    };
    Triple(quartile(1), quartile(2), quartile(3))
}

#[no_mangle]
pub unsafe extern "C" fn nth_smallest(xs: *const f64, len: usize, n: i64) -> f64 {
    sorted(list(xs, len))[usize::try_from(n - 1).expect("no such rank")]
}

#[no_mangle]
pub unsafe extern "C" fn mode(xs: *const i64, len: usize) -> i64 {
    let xs = list(xs, len);
    let count = |x: &i64| xs.iter().filter(|other| *other == x).count();
    // `max_by_key` returns the last maximum.
    *xs.iter().rev().max_by_key(|x| count(x)).expect("no numbers")
}

#[no_mangle]
pub unsafe extern "C" fn integer_variance(xs: *const i64, len: usize) -> f64 {
    let xs = list(xs, len);
    let n = len as i64;
    let (total, squares): (i64, i64) = (xs.iter().sum(), xs.iter().map(|x| x * x).sum());
    div((n * squares - total * total) as f64, (n * (n - 1)) as f64)
}

#[no_mangle]
pub unsafe extern "C" fn weighted_mean(xs: *const f64, xs_len: usize, weights: *const f64, weights_len: usize) -> f64 {
    let weights = list(weights, weights_len);
    let (mut total, mut weight) = (0.0, 0.0);
    for (i, x) in list(xs, xs_len).iter().enumerate() {
        assert!(!(weights[i] < 0.0), "negative weight");
        total += x * weights[i];
        weight += weights[i];
    }
    div(total, weight)
}

#[no_mangle]
pub unsafe extern "C" fn norm(xs: *const f64, len: usize) -> f64 {
    let xs = list(xs, len);
    let largest = xs.iter().fold(0.0, |largest, x| max(largest, x.abs()));
    if largest == 0.0 || f64::is_infinite(largest) {
        return largest;
    }
    let squares = xs.iter().fold(0.0, |squares, x| squares + (x / largest) * (x / largest));
    largest * math(f64::sqrt, squares)
}

#[no_mangle]
pub unsafe extern "C" fn correlation(xs: *const f64, xs_len: usize, ys: *const f64, ys_len: usize) -> f64 {
    let (xs, ys) = (list(xs, xs_len), list(ys, ys_len));
    let (x_mean, y_mean) = (mean_of(xs), mean_of(ys));
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for i in 0..xs.len() {
        let (dx, dy) = (xs[i] - x_mean, ys[i] - y_mean);
        xx += dx * dx;
        yy += dy * dy;
        xy += dx * dy;
    }
    div(xy, math(f64::sqrt, xx * yy))
}

#[no_mangle]
pub unsafe extern "C" fn geometric_mean(xs: *const f64, len: usize) -> f64 {
    let logarithms = list(xs, len).iter().fold(0.0, |sum, &x| sum + math(f64::ln, x));
    math(f64::exp, div(logarithms, len as f64))
}

#[no_mangle]
pub unsafe extern "C" fn polynomial(coefficients: *const f64, len: usize, x: f64) -> f64 {
    list(coefficients, len).iter().rev().fold(0.0, |value, coefficient| value * x + coefficient)
}

#[no_mangle]
pub unsafe extern "C" fn bisect_left(xs: *const f64, len: usize, x: f64) -> i64 {
    let xs = list(xs, len);
    let (mut low, mut high) = (0, xs.len());
    while low < high {
        let middle = (low + high) / 2;
        if xs[middle] < x {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low as i64
}

#[no_mangle]
pub unsafe extern "C" fn bisect_right(xs: *const f64, len: usize, x: f64) -> i64 {
    let xs = list(xs, len);
    let (mut low, mut high) = (0, xs.len());
    while low < high {
        let middle = (low + high) / 2;
        if x < xs[middle] {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low as i64
}

#[no_mangle]
pub unsafe extern "C" fn index_of_max(xs: *const f64, len: usize) -> i64 {
    let xs = list(xs, len);
    let mut best: Option<usize> = None;
    for (i, x) in xs.iter().enumerate() {
        if !x.is_nan() && best.map_or(true, |best| *x > xs[best]) {
            best = Some(i);
        }
    }
    best.map_or(-1, |best| best as i64)
}

#[no_mangle]
pub unsafe extern "C" fn longest_run(flags: *const u8, len: usize) -> i64 {
    let (mut longest, mut run) = (0, 0);
    for flag in list(flags, len) {
        run = if *flag != 0 { run + 1 } else { 0 };
        longest = max(longest, run);
    }
    longest
}

#[no_mangle]
pub unsafe extern "C" fn interpolate(xs: *const f64, xs_len: usize, ys: *const f64, ys_len: usize, x: f64) -> f64 {
    let (xs, ys) = (list(xs, xs_len), list(ys, ys_len));
    if !(x > xs[0]) {
        return ys[0];
    }
    for i in 1..xs.len() {
        if x <= xs[i] {
            let share = div(x - xs[i - 1], xs[i] - xs[i - 1]);
            return ys[i - 1] + share * (ys[i] - ys[i - 1]);
        }
    }
    at(ys, -1)
}

#[no_mangle]
pub unsafe extern "C" fn compensated_sum(xs: *const f64, len: usize) -> f64 {
    let (mut total, mut lost) = (0.0_f64, 0.0);
    for &x in list(xs, len) {
        let new = total + x;
        lost += if total.abs() >= x.abs() { (total - new) + x } else { (x - new) + total };
        total = new;
    }
    total + lost
}

#[no_mangle]
pub unsafe extern "C" fn product(xs: *const f64, len: usize) -> f64 {
    list(xs, len).iter().product()
}

#[no_mangle]
pub unsafe extern "C" fn element(xs: *const f64, len: usize, i: i64) -> f64 {
    at(list(xs, len), i)
}

#[no_mangle]
pub extern "C" fn compound(principal: f64, rate: f64, years: i64) -> f64 {
    assert!(years >= 0, "negative years");
    (0..years).fold(principal, |amount, _| amount + amount * rate)
}

fn present_value(rate: f64, flows: &[f64]) -> f64 {
    let (mut value, mut discount) = (0.0, 1.0);
    for flow in flows {
        value += div(*flow, discount);
        discount *= 1.0 + rate;
    }
    value
}

#[no_mangle]
pub unsafe extern "C" fn net_present_value(rate: f64, flows: *const f64, len: usize) -> f64 {
    present_value(rate, list(flows, len))
}

#[no_mangle]
pub extern "C" fn payment(principal: f64, rate: f64, months: i64) -> f64 {
    assert!(months > 0);
    let monthly = rate / 12.0;
    if monthly.abs() < 1e-6 {
        return principal / months as f64;
    }
    div(principal * monthly, 1.0 - pow(1.0 + monthly, -months as f64))
}

#[no_mangle]
pub extern "C" fn income_tax(income: f64) -> f64 {
    if income <= 10_000.0 {
        0.0
    } else if income <= 50_000.0 {
        (income - 10_000.0) * 0.2
    } else if income < 150_000.0 {
        8_000.0 + (income - 50_000.0) * 0.4
    } else {
        48_000.0 + (income - 150_000.0) * 0.45
    }
}

#[no_mangle]
pub extern "C" fn shipping(price: f64, weight: f64, is_express: bool, is_member: bool) -> f64 {
    if price >= 100.0 && !is_express || is_member && weight < 5.0 {
        return 0.0;
    }
    let cost = 4.5 + 1.25 * max(weight - 1.0, 0.0);
    cost * if is_express { 2.0 } else { 1.0 }
}

#[no_mangle]
pub extern "C" fn cents(amount: f64) -> f64 {
    python::round(amount * 100.0) as f64 / 100.0
}

#[no_mangle]
pub unsafe extern "C" fn internal_rate(flows: *const f64, len: usize) -> f64 {
    let flows = list(flows, len);
    let (mut low, mut high) = (-0.5, 1.0);
    let at_low = present_value(low, flows);
    if at_low * present_value(high, flows) > 0.0 {
        return f64::NAN;
    }
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        let value = present_value(middle, flows);
        if value == 0.0 {
            break;
        }
        if (value > 0.0) == (at_low > 0.0) {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

#[no_mangle]
pub extern "C" fn triangle_area(a: f64, b: f64, c: f64) -> f64 {
    assert!(a + b >= c && b + c >= a && c + a >= b, "no triangle");
    let half = (a + b + c) / 2.0;
    math(f64::sqrt, max(half * (half - a) * (half - b) * (half - c), 0.0))
}

#[no_mangle]
pub extern "C" fn haversine(latitude: f64, longitude: f64, latitude2: f64, longitude2: f64) -> f64 {
    let (north, north2) = (latitude.to_radians(), latitude2.to_radians());
    let sine = math(f64::sin, (north2 - north) / 2.0);
    let sine2 = math(f64::sin, (longitude2 - longitude).to_radians() / 2.0);
    let share = sine * sine + math(f64::cos, north) * math(f64::cos, north2) * sine2 * sine2;
    2.0 * EARTH_RADIUS_KM * math(f64::asin, math(f64::sqrt, min(share, 1.0)))
}

#[no_mangle]
pub extern "C" fn quadratic_roots(a: f64, b: f64, c: f64) -> Pair {
    let discriminant = b * b - 4.0 * a * c;
    if a == 0.0 || discriminant < 0.0 {
        return Pair(f64::NAN, f64::NAN);
    }
    let q = -(b + math(f64::sqrt, discriminant).copysign(b)) / 2.0;
    Pair(q / a, if q != 0.0 { c / q } else { 0.0 })
}

#[no_mangle]
#[allow(clippy::too_many_arguments)]
pub extern "C" fn segments_cross(ax: f64, ay: f64, bx: f64, by: f64, cx: f64, cy: f64, dx: f64, dy: f64) -> bool {
    let c_is_left = (bx - ax) * (cy - ay) > (by - ay) * (cx - ax);
    let d_is_left = (bx - ax) * (dy - ay) > (by - ay) * (dx - ax);
    let a_is_left = (dx - cx) * (ay - cy) > (dy - cy) * (ax - cx);
    let b_is_left = (dx - cx) * (by - cy) > (dy - cy) * (bx - cx);
    c_is_left != d_is_left && a_is_left != b_is_left
}

#[no_mangle]
pub unsafe extern "C" fn polygon_area(xs: *const f64, xs_len: usize, ys: *const f64, ys_len: usize) -> f64 {
    let (xs, ys) = (list(xs, xs_len), list(ys, ys_len));
    let mut total = 0.0;
    for i in 0..xs.len() {
        let before = if i == 0 { xs.len() - 1 } else { i - 1 };
        total += xs[before] * ys[i] - xs[i] * ys[before];
    }
    f64::abs(total) / 2.0
}

#[no_mangle]
pub extern "C" fn polar(x: f64, y: f64) -> Pair {
    Pair(x.hypot(y), y.atan2(x))
}

#[no_mangle]
pub extern "C" fn bearing(east: f64, north: f64) -> f64 {
    east.atan2(north).to_degrees()
}

#[no_mangle]
pub extern "C" fn power(x: f64, y: f64) -> f64 {
    pow(x, y)
}

#[no_mangle]
pub extern "C" fn complex_quotient(a: f64, b: f64, c: f64, d: f64) -> Pair {
    if c.abs() >= d.abs() {
        let ratio = div(d, c);
        let scale = c + d * ratio;
        return Pair(div(a + b * ratio, scale), div(b - a * ratio, scale));
    }
    let ratio = div(c, d);
    let scale = c * ratio + d;
    Pair(div(a * ratio + b, scale), div(b * ratio - a, scale))
}

#[no_mangle]
pub extern "C" fn complex_product(a: f64, b: f64, c: f64, d: f64) -> Pair {
    Pair(a * c - b * d, a * d + b * c)
}

#[no_mangle]
pub extern "C" fn clamp(x: f64, low: f64, high: f64) -> f64 {
    assert!(!(low > high), "empty interval");
    max(low, min(x, high))
}

#[no_mangle]
pub extern "C" fn smoothstep(low: f64, high: f64, x: f64) -> f64 {
    let t = clamp(div(x - low, high - low), 0.0, 1.0);
    t * t * (3.0 - 2.0 * t)
}

#[no_mangle]
pub extern "C" fn fahrenheit(celsius: f64) -> f64 {
    celsius * 9.0 / 5.0 + 32.0
}

#[no_mangle]
pub extern "C" fn bmi_class(kilograms: f64, metres: f64) -> i64 {
    let index = div(kilograms, metres * metres);
    [18.5, 25.0, 30.0].iter().filter(|threshold| index >= **threshold).count() as i64
}

#[no_mangle]
pub extern "C" fn wind_chill(celsius: f64, speed: f64) -> f64 {
    if celsius > 10.0 || speed < 4.8 {
        return celsius;
    }
    let power = pow(speed, 0.16);
    13.12 + 0.6215 * celsius - 11.37 * power + 0.3965 * celsius * power
}

fn hue_of(red: f64, green: f64, blue: f64, value: f64, span: f64) -> f64 {
    let without = |channel| (value - channel) / span;
    let sector = if red == value {
        without(blue) - without(green)
    } else if green == value {
        2.0 + without(red) - without(blue)
    } else {
        4.0 + without(green) - without(red)
    };
    float_divmod(sector / 6.0, 1.0).1
}

fn extremes(red: f64, green: f64, blue: f64) -> (f64, f64) {
    (max(max(red, green), blue), min(min(red, green), blue))
}

#[no_mangle]
pub extern "C" fn hsv(red: f64, green: f64, blue: f64) -> Triple {
    let (value, low) = extremes(red, green, blue);
    if value == low {
        return Triple(0.0, 0.0, value);
    }
    Triple(hue_of(red, green, blue, value, value - low), div(value - low, value), value)
}

#[no_mangle]
pub extern "C" fn from_hsv(hue: f64, saturation: f64, value: f64) -> Triple {
    if saturation == 0.0 {
        return Triple(value, value, value);
    }
    let sector = python::int(hue * 6.0);
    let share = hue * 6.0 - sector as f64;
    let low = value * (1.0 - saturation);
    let falling = value * (1.0 - saturation * share);
    let rising = value * (1.0 - saturation * (1.0 - share));
    match sector.rem_euclid(6) {
        0 => Triple(value, rising, low),
        1 => Triple(falling, value, low),
        2 => Triple(low, value, rising),
        3 => Triple(low, falling, value),
        4 => Triple(rising, low, value),
        _ => Triple(value, low, falling),
    }
}

#[no_mangle]
pub extern "C" fn hls(red: f64, green: f64, blue: f64) -> Triple {
    let (high, low) = extremes(red, green, blue);
    let lightness = (high + low) / 2.0;
    if high == low {
        return Triple(0.0, lightness, 0.0);
    }
    let widest = if lightness <= 0.5 { high + low } else { 2.0 - high - low };
    Triple(hue_of(red, green, blue, high, high - low), lightness, div(high - low, widest))
}

#[no_mangle]
pub extern "C" fn from_hls(hue: f64, lightness: f64, saturation: f64) -> Triple {
    if saturation == 0.0 {
        return Triple(lightness, lightness, lightness);
    }
    let high =
        if lightness <= 0.5 { lightness * (1.0 + saturation) } else { lightness + saturation - lightness * saturation };
    let low = 2.0 * lightness - high;
    let channel = |hue: f64| match float_divmod(hue, 1.0).1 {
        hue if hue < 1.0 / 6.0 => low + (high - low) * hue * 6.0,
        hue if hue < 0.5 => high,
        hue if hue < 2.0 / 3.0 => low + (high - low) * (2.0 / 3.0 - hue) * 6.0,
        _ => low,
    };
    Triple(channel(hue + 1.0 / 3.0), channel(hue), channel(hue - 1.0 / 3.0))
}

#[no_mangle]
pub extern "C" fn yiq(red: f64, green: f64, blue: f64) -> Triple {
    let luma = 0.30 * red + 0.59 * green + 0.11 * blue;
    let (red, blue) = (red - luma, blue - luma);
    Triple(luma, 0.74 * red - 0.27 * blue, 0.48 * red + 0.41 * blue)
}

#[no_mangle]
pub extern "C" fn srgb_to_linear(channel: f64) -> f64 {
    if channel <= 0.04045 {
        return channel / 12.92;
    }
    pow((channel + 0.055) / 1.055, 2.4)
}

#[no_mangle]
pub extern "C" fn sigmoid(x: f64) -> f64 {
    if x >= 0.0 {
        return 1.0 / (1.0 + math(f64::exp, -x));
    }
    let power = math(f64::exp, x);
    power / (1.0 + power)
}

#[no_mangle]
pub extern "C" fn normal_cdf(x: f64, mean_value: f64, deviation: f64) -> f64 {
    (1.0 + math(erf, div(x - mean_value, deviation * f64::sqrt(2.0)))) / 2.0
}

#[no_mangle]
pub extern "C" fn normal_density(x: f64, mean_value: f64, deviation: f64) -> f64 {
    let spread = deviation * deviation;
    assert!(!(deviation < 0.0) && spread != 0.0, "expected a positive deviation");
    let difference = x - mean_value;
    math(f64::exp, difference * difference / (-2.0 * spread)) / math(f64::sqrt, std::f64::consts::TAU * spread)
}

#[no_mangle]
pub extern "C" fn uniform(low: f64, high: f64, share: f64) -> f64 {
    low + (high - low) * share
}

#[no_mangle]
pub extern "C" fn triangular(low: f64, high: f64, peak: f64, share: f64) -> f64 {
    if high - low == 0.0 {
        return low;
    }
    let split = (peak - low) / (high - low);
    if share > split {
        high + (low - high) * math(f64::sqrt, (1.0 - share) * (1.0 - split))
    } else {
        low + (high - low) * math(f64::sqrt, share * split)
    }
}

#[no_mangle]
pub extern "C" fn exponential(rate: f64, share: f64) -> f64 {
    div(-math(f64::ln, 1.0 - share), rate)
}

#[no_mangle]
pub extern "C" fn decibels(power: f64, reference: f64) -> f64 {
    10.0 * math(f64::log10, div(power, reference))
}

#[no_mangle]
pub extern "C" fn decayed(amount: f64, time: f64, half_life: f64) -> f64 {
    amount * math(f64::exp2, div(-time, half_life))
}

#[no_mangle]
pub extern "C" fn continuous_rates(rate: f64) -> Pair {
    Pair(math(f64::exp_m1, rate), math(f64::ln_1p, rate))
}

#[no_mangle]
pub extern "C" fn binary_entropy(share: f64) -> f64 {
    assert!((0.0..=1.0).contains(&share), "expected a share");
    if share == 0.0 || share == 1.0 {
        return 0.0;
    }
    -share * share.log2() - (1.0 - share) * (1.0 - share).log2()
}

#[no_mangle]
pub extern "C" fn gudermannian(x: f64) -> f64 {
    math(f64::sinh, x).atan()
}

#[no_mangle]
pub extern "C" fn hanging_cable(x: f64, sag: f64) -> f64 {
    sag * math(f64::cosh, div(x, sag))
}

#[no_mangle]
pub extern "C" fn inverse_hyperbolics(x: f64) -> Triple {
    Triple(python::asinh(x), math(python::acosh, 1.0 + x), math(python::atanh, x / 2.0))
}

#[no_mangle]
pub extern "C" fn day_length(latitude: f64, declination: f64) -> f64 {
    let cosine = -math(f64::tan, latitude.to_radians()) * math(f64::tan, declination.to_radians());
    if cosine >= 1.0 {
        return 0.0;
    }
    if cosine <= -1.0 {
        return 24.0;
    }
    math(f64::acos, cosine).to_degrees() / 7.5
}

#[no_mangle]
pub extern "C" fn soft_limit(x: f64, limit: f64) -> f64 {
    limit * div(x, limit).tanh()
}

#[no_mangle]
pub extern "C" fn wrapped_degrees(angle: f64) -> f64 {
    float_divmod(angle + 180.0, 360.0).1 - 180.0
}

#[no_mangle]
pub extern "C" fn floor_divide(a: f64, b: f64) -> Pair {
    let (quotient, rest) = float_divmod(a, b);
    Pair(quotient, rest)
}

#[no_mangle]
pub extern "C" fn truncated(x: f64, step: f64) -> f64 {
    x - fmod(x, step)
}

#[no_mangle]
pub extern "C" fn remainder(x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() {
        return f64::NAN;
    }
    assert!(x.is_finite() && y != 0.0, "expected a finite dividend, and a divisor other than 0");
    if y.is_infinite() {
        return x;
    }
    let low = fmod(x.abs(), y.abs());
    let high = y.abs() - low;
    let rest = if low < high {
        low
    } else if low > high {
        -high
    } else {
        low - 2.0 * fmod(0.5 * (x.abs() - low), y.abs())
    };
    1_f64.copysign(x) * rest
}

#[no_mangle]
pub extern "C" fn fraction_and_whole(x: f64) -> Pair {
    let fraction = if x.is_infinite() { 0.0 } else { x.fract() };
    Pair(fraction.copysign(x), x.trunc())
}

#[no_mangle]
pub extern "C" fn significand_and_exponent(x: f64) -> Significand {
    if x == 0.0 || !x.is_finite() {
        return Significand(x, 0);
    }
    let is_subnormal = x.abs() < f64::MIN_POSITIVE;
    let (bits, shift) =
        if is_subnormal { ((x * f64::from(1 << 30) * f64::from(1 << 30)).to_bits(), 60) } else { (x.to_bits(), 0) };
    let exponent = (bits >> 52 & 0x7FF) as i64 - 1022;
    Significand(f64::from_bits(bits & !(0x7FF << 52) | 1022 << 52), exponent - shift)
}

#[no_mangle]
pub extern "C" fn roundings(x: f64) -> Roundings {
    Roundings(python::round(x), python::int(x.floor()), python::int(x.ceil()), python::int(x.trunc()))
}

#[no_mangle]
pub extern "C" fn is_close(a: f64, b: f64, relative: f64, absolute: f64) -> bool {
    assert!(!(relative < 0.0 || absolute < 0.0), "negative tolerance");
    if a == b {
        return true;
    }
    if a.is_infinite() || b.is_infinite() {
        return false;
    }
    let difference = (b - a).abs();
    difference <= (relative * b).abs() || difference <= (relative * a).abs() || difference <= absolute
}

#[no_mangle]
pub extern "C" fn cube_root(x: f64) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    let mut root = x;
    for _ in 0..1500 {
        let step = (root - div(x, root * root)) / 3.0;
        root -= step;
        if step.abs() <= 1e-15 * root.abs() {
            break;
        }
    }
    root
}

#[no_mangle]
pub extern "C" fn escape_iterations(x: f64, y: f64, limit: i64) -> i64 {
    let (mut a, mut b) = (0.0, 0.0);
    for i in 0..limit {
        if a * a + b * b > 4.0 {
            return i;
        }
        (a, b) = (a * a - b * b + x, 2.0 * a * b + y);
    }
    limit
}

#[no_mangle]
pub unsafe extern "C" fn determinant(m: *const f64, len: usize) -> f64 {
    let m = list(m, len);
    let a = m[0] * (m[4] * m[8] - m[5] * m[7]);
    let b = m[1] * (m[5] * m[6] - m[3] * m[8]);
    let c = m[2] * (m[3] * m[7] - m[4] * m[6]);
    a + b + c
}
