//! Formats numbers, sizes and times.

use std::time::Duration;

/// Formats a count with thousands separators: `1,234,567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a size in binary units: `1.5 MiB`.
pub fn bytes(n: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = n as f64;
    let mut unit = "B";
    for larger in units {
        if value < 1023.95 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    if unit == "B" { format!("{n} B") } else { format!("{value:.1} {unit}") }
}

/// Formats a rate without its unit: `812`, `12.3k`, `4.56M`.
pub fn rate(per_second: f64) -> String {
    match per_second {
        r if r >= 999_950.0 => format!("{:.2}M", r / 1e6),
        r if r >= 9_999.5 => format!("{:.1}k", r / 1e3),
        r if r >= 99.95 => count_of(r),
        r => format!("{r:.1}"),
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "called between 0 and 10,000")]
fn count_of(number: f64) -> String {
    count(number.round() as u64)
}

/// Formats a duration with about three digits: `350 µs`, `1.25 ms`, `2.1 s`, `3 min 20 s`, `2 d 3 h`.
pub fn time(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        0.0 => "0".into(),
        s if s < 999.5e-6 => format!("{:.0} µs", s * 1e6),
        s if s < 9.995e-3 => format!("{:.2} ms", s * 1e3),
        s if s < 0.9995 => format!("{:.0} ms", s * 1e3),
        s if s < 99.95 => format!("{s:.1} s"),
        _ => long_time(duration.as_secs()),
    }
}

fn long_time(seconds: u64) -> String {
    match seconds {
        s if s < 3_600 => format!("{} min {} s", s / 60, s % 60),
        s if s < 86_400 => format!("{} h {} min", s / 3_600, s % 3_600 / 60),
        s => format!("{} d {} h", s / 86_400, s % 86_400 / 3_600),
    }
}

/// Formats a count with a noun: `1 file`, `2 files`.
pub fn plural(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(n), if n == 1 { "" } else { "s" })
}

/// Formats a shape: `2x3`, or `scalar`.
pub fn shape(extents: &[i64]) -> String {
    if extents.is_empty() {
        return "scalar".to_owned();
    }
    extents.iter().map(i64::to_string).collect::<Vec<_>>().join("x")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_sizes() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0, 1_023, 1_024, 1_572_864, u64::MAX].map(bytes),
            ["0 B", "1023 B", "1.0 KiB", "1.5 MiB", "16.0 EiB"]
        );
        assert_eq!(bytes((1 << 20) - 1), "1.0 MiB");
        assert_eq!((plural(1, "file"), plural(2, "file")), ("1 file".into(), "2 files".into()));
    }

    #[test]
    fn rates_and_times() {
        assert_eq!([0.5, 812.4, 9_999.0, 12_345.0, 4.56e6].map(rate), ["0.5", "812", "9,999", "12.3k", "4.56M"]);
        let times = [0, 350, 1_250, 45_000, 2_100_000, 200_000_000, 7_500_000_000, 183_600_000_000];
        let texts = times.map(|micros| time(Duration::from_micros(micros)));
        assert_eq!(texts, ["0", "350 µs", "1.25 ms", "45 ms", "2.1 s", "3 min 20 s", "2 h 5 min", "2 d 3 h"]);
    }
}
