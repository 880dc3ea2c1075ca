//! Global options, and parsers of durations and sizes.

use std::time::Duration;

use accelerd_client::{DEFAULT_URL, Priority};
use clap::{Args, ValueEnum};

/// Global options.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Address of the daemon: http://host:port or unix:///path.
    #[arg(long, global = true, env = "ACCELERD_SERVER", default_value = DEFAULT_URL, value_name = "URL")]
    pub server: String,
    /// Print one JSON document, or one per line for streams.
    #[arg(long, global = true)]
    pub json: bool,
    /// Print no progress bars and no notes.
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// When to use colours; NO_COLOR disables them too.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub color: Color,
    /// Timeout of a call, retries included.
    #[arg(long, global = true, value_parser = duration, default_value = "60s", value_name = "TIME")]
    pub timeout: Duration,
    /// Priority of the calls in the daemon's queues: low, normal or high.
    #[arg(long, global = true, default_value_t = Priority::Normal, value_name = "PRIORITY")]
    pub priority: Priority,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

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
    fn sizes_take_binary_and_decimal_units() {
        assert_eq!((size("512"), size("64KiB"), size("1MB")), (Ok(512), Ok(65_536), Ok(1_000_000)));
        for bad in ["", "MiB", "1.5MiB", "12quux", "99999999999999GiB"] {
            assert!(size(bad).is_err(), "{bad:?}");
        }
    }
}
