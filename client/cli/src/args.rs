//! Parsers of durations and sizes.

use std::time::Duration;

/// Parses a duration such as `500ms`, `5s` or `2m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("expected a duration such as 500ms, 5s or 2m, got {text:?}");
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(unit_at);
    let seconds = match unit {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())
}

/// Parses a duration above zero.
pub fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err(format!("expected a duration above 0, got {text:?}")),
        positive => Ok(positive),
    }
}

/// Parses a size such as `512`, `64KiB` or `1MB`.
pub fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("expected a size such as 512KiB or 1MB, got {text:?}");
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "kb" => 1_000,
        "m" | "mib" => 1 << 20,
        "mb" => 1_000_000,
        "g" | "gib" => 1 << 30,
        "gb" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_need_a_unit() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for bad in ["", "5", "s", "-1s", "5 parsecs", "1e400s"] {
            assert!(duration(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_positive_duration_is_not_zero() {
        assert_eq!(positive_duration("1ms"), Ok(Duration::from_millis(1)));
        assert_eq!(positive_duration("0s"), Err("expected a duration above 0, got \"0s\"".to_owned()));
        assert!(positive_duration("5").is_err());
    }

    #[test]
    fn sizes_take_binary_and_decimal_units() {
        assert_eq!((size("512"), size("64KiB"), size("1MB")), (Ok(512), Ok(65_536), Ok(1_000_000)));
        for bad in ["", "MiB", "1.5MiB", "12quux", "99999999999999GiB"] {
            assert!(size(bad).is_err(), "{bad:?}");
        }
    }
}
