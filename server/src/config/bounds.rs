//! The range of every numeric setting. A value out of range is reported before anything starts, rather than failing later
//! for lack of threads or memory.

use std::{fmt, time::Duration};

use humantime_serde::re::humantime::{format_duration, parse_duration};
use serde_json::Value;

use super::{settings::Config, size::ByteSize};

/// The range of a setting, both ends included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bound {
    Count(u64, u64),
    /// Bytes.
    Size(u64, u64),
    /// Milliseconds.
    Time(u64, u64),
    /// A fraction from 0 to 1.
    Share,
}

use Bound::{Count, Share, Size, Time};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Ranges by setting. Those of `lanes.default` apply to every lane.
const BOUNDS: [(&str, Bound); 95] = [
    ("server.reactor_threads", Count(0, 1024)),
    // gRPC encodes the length of a message in 32 bits.
    ("server.max_message_bytes", Size(1, 4 * GIB - 1)),
    ("server.max_connections", Count(1, 1_000_000)),
    ("server.max_streams", Count(1, 100_000)),
    // Limits of HTTP/2.
    ("server.frame_bytes", Size(16 * KIB, 16 * MIB - 1)),
    ("server.stream_window_bytes", Size(64 * KIB - 1, 2 * GIB - 1)),
    ("server.connection_window_bytes", Size(64 * KIB - 1, 2 * GIB - 1)),
    ("server.max_header_bytes", Size(KIB, 16 * MIB - 1)),
    ("server.max_connection_age", Time(0, 365 * DAY)),
    ("server.max_connection_age_grace", Time(0, DAY)),
    ("server.keepalive_interval", Time(0, DAY)),
    ("server.keepalive_timeout", Time(1, HOUR)),
    ("server.handshake_timeout", Time(1, HOUR)),
    ("server.max_pending_resets", Count(0, 100_000)),
    ("server.stall_timeout", Time(1, DAY)),
    ("server.stall_timeout_under_pressure", Time(1, DAY)),
    ("http.idle_timeout", Time(1, DAY)),
    ("tls.reload_interval", Time(10, DAY)),
    ("backend.cpu_threads", Count(0, 1024)),
    ("backend.cpu_workers", Count(1, 256)),
    ("backend.cpu_paused_batches", Count(0, 256)),
    ("backend.cpu_slice", Time(1, MINUTE)),
    ("backend.ordinals", Count(0, 1023)),
    ("cuda.kernel_cache_limit", Size(0, TIB)),
    ("cuda.jit_cache_limit", Size(0, TIB)),
    ("cuda.pool_limit", Size(0, 16 * TIB)),
    ("cuda.streams", Count(1, 64)),
    ("cuda.slice", Time(1, MINUTE)),
    ("cuda.staging", Size(KIB, 16 * GIB)),
    ("cuda.pinned", Size(0, TIB)),
    ("cuda.lost_grace", Time(0, DAY)),
    ("cuda.hang_timeout", Time(0, DAY)),
    ("cuda.memory_retry", Time(0, HOUR)),
    ("memory.host_limit", Size(MIB, 64 * TIB)),
    ("memory.reserve", Size(0, 64 * TIB)),
    ("admission.max_items", Count(1, 1_000_000_000_000)),
    ("admission.max_bytes", Size(1, 64 * TIB)),
    ("admission.max_message_memory", Size(1, 64 * TIB)),
    ("lanes.default.max_batch_items", Count(1, 1_000_000_000_000)),
    ("lanes.default.max_batch_bytes", Size(1, 16 * TIB)),
    ("lanes.default.gpu_max_batch_bytes", Size(1, 16 * TIB)),
    ("lanes.default.max_wait", Time(0, MINUTE)),
    ("lanes.default.concurrency", Count(1, 256)),
    ("lanes.default.max_age", Time(0, HOUR)),
    ("lanes.default.max_batch_time", Time(1, HOUR)),
    ("lanes.default.cpu_max_bytes", Size(0, 16 * TIB)),
    ("lanes.default.large_request_bytes", Size(0, 16 * TIB)),
    ("limits.max_texts", Count(1, 100_000_000)),
    ("limits.max_text_bytes", Size(1, 2 * GIB)),
    // Token ids of a request are counted in 32 bits; there are at most a few more of them than bytes of text.
    ("limits.max_texts_bytes", Size(1, 2 * GIB)),
    ("limits.max_sources", Count(1, 100_000_000)),
    // Offsets in a source and in its parse are 32 bits.
    ("limits.max_source_bytes", Size(1, GIB)),
    ("limits.max_graph_nodes", Count(1, 1_000_000)),
    ("limits.max_benchmark_time", Time(1, DAY)),
    ("limits.max_compared_outputs", Count(1, 1_000_000)),
    ("limits.max_mismatches", Count(0, 1_000_000)),
    ("limits.max_kernel_source_bytes", Size(1, GIB)),
    ("limits.max_kept_kernels", Count(1, 1_000_000)),
    ("limits.max_kept_kernel_bytes", Size(KIB, 64 * GIB)),
    ("limits.max_generated_cases", Count(1, 1_000_000_000_000)),
    ("limits.max_counterexamples", Count(0, 1_000_000)),
    ("limits.max_dimensions", Count(1, 1_000_000)),
    ("limits.max_payload_bytes", Size(0, GIB)),
    ("limits.max_collections", Count(0, 1_000_000)),
    ("sandbox.processes", Count(0, 256)),
    ("sandbox.memory", Size(64 * MIB, TIB)),
    // The address space of WebAssembly has 32 bits.
    ("sandbox.case_memory", Size(64 * KIB, 4 * GIB)),
    ("sandbox.case_timeout", Time(1, HOUR)),
    ("sandbox.load_timeout", Time(1, HOUR)),
    ("sandbox.default_deadline", Time(1, DAY)),
    ("sandbox.nice", Count(0, 19)),
    ("sandbox.max_queue", Count(0, 1_000_000)),
    ("sandbox.caller_share", Share),
    ("sandbox.max_paused", Count(0, 256)),
    ("sandbox.guaranteed_time", Time(0, HOUR)),
    // Addresses in the memory of a launch have 32 bits.
    ("sandbox.gpu_memory", Size(64 * KIB, 4 * GIB)),
    ("sandbox.gpu_duty_cycle", Share),
    ("tensors.memory_limit", Size(0, 64 * TIB)),
    ("tensors.gpu_share", Share),
    ("tensors.max_count", Count(1, 1_000_000)),
    ("tensors.default_ttl", Time(1, 365 * DAY)),
    ("tensors.max_ttl", Time(1, 365 * DAY)),
    ("models.memory_limit", Size(0, 64 * TIB)),
    ("models.hub.cache_limit", Size(0, 1024 * TIB)),
    ("models.hub.timeout", Time(1, HOUR)),
    ("store.wal_limit", Size(KIB, TIB)),
    ("store.memory_limit", Size(0, 64 * TIB)),
    ("store.writer_threads", Count(1, 256)),
    ("store.open_logs", Count(1, 1_000_000)),
    ("drain.endpoint_delay", Time(0, DAY)),
    ("drain.timeout", Time(0, DAY)),
    ("drain.liveness_grace", Time(0, DAY)),
    ("telemetry.sample_ratio", Share),
    ("telemetry.metrics_interval", Time(1, DAY)),
    ("telemetry.max_series", Count(1, 1_000_000)),
];

/// Ranges of all other settings.
const ANY_COUNT: Bound = Count(0, 1_000_000_000_000);
const ANY_SIZE: Bound = Size(0, 64 * TIB);
const ANY_TIME: Bound = Time(0, 365 * DAY);

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Count(least, most) => write!(f, "{least} to {most}"),
            Size(least, most) => write!(f, "{} to {}", ByteSize::b(least), ByteSize::b(most)),
            Time(least, most) => write!(f, "{} to {}", time(least), time(most)),
            Share => f.write_str("0 to 1"),
        }
    }
}

fn time(millis: u64) -> String {
    if millis == 365 * DAY { "365days".to_owned() } else { format_duration(Duration::from_millis(millis)).to_string() }
}

impl Bound {
    /// Returns true if a value is in range; `None` if it is of another type.
    fn contains(self, value: &Value) -> Option<bool> {
        match self {
            Count(least, most) => value.as_u64().map(|count| (least..=most).contains(&count)),
            Share => value.as_f64().map(|share| (0.0..=1.0).contains(&share)),
            Size(least, most) => {
                let size: ByteSize = value.as_str()?.parse().ok()?;
                Some((least..=most).contains(&size.as_u64()))
            }
            Time(least, most) => {
                let time = parse_duration(value.as_str()?).ok()?;
                Some((Duration::from_millis(least)..=Duration::from_millis(most)).contains(&time))
            }
        }
    }
}

/// The range of a setting, if it has a specific one.
pub(super) fn of(key: &str) -> Option<Bound> {
    let lane = key.strip_prefix("lanes.").and_then(|rest| rest.split_once('.'));
    let key = lane.map_or_else(|| key.to_owned(), |(_, field)| format!("lanes.default.{field}"));
    BOUNDS.iter().find(|(known, _)| *known == key).map(|(_, bound)| *bound)
}

/// The settings out of range, as key, range and value.
pub(super) fn violations(config: &Config) -> Vec<(String, Bound, String)> {
    let mut found = vec![];
    // Settings always serialise.
    let shown = serde_json::to_value(config).unwrap_or_default();
    visit("", &shown, &mut |key, value| {
        let general = || [ANY_COUNT, ANY_SIZE, ANY_TIME].into_iter().find(|bound| bound.contains(value) == Some(false));
        // JSON has no NaN: it serialises to null, which is in no range.
        let own = of(key).map(|bound| (bound.contains(value) != Some(true)).then_some(bound));
        if let Some(bound) = own.unwrap_or_else(general) {
            let got = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            found.push((key.to_owned(), bound, got));
        }
    });
    found
}

/// Calls `visitor` with every leaf and its key; the values of a list have the list's key.
fn visit(key: &str, value: &Value, visitor: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
            visit(&key, value, visitor);
        }),
        Value::Array(values) => values.iter().for_each(|value| visit(key, value, visitor)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => visitor(key, value),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::load, *};

    /// Every setting of the defaults with its value.
    fn settings() -> Vec<(String, Value)> {
        let mut all = vec![];
        let shown = serde_json::to_value(Config::default()).expect("settings serialise");
        visit("", &shown, &mut |key, value| all.push((key.to_owned(), value.clone())));
        all
    }

    fn refused(key: &str, value: &str) -> String {
        let errors = load::load(None, [], &[(key.to_owned(), value.to_owned())]).map(drop);
        let errors = errors.expect_err(&format!("{key} = {value}")).0;
        let error = errors.iter().find(|error| error.key == key);
        error.unwrap_or_else(|| panic!("{key} = {value} is not named in {errors:?}")).reason.clone()
    }

    #[test]
    fn absurd_values_of_every_setting_are_rejected_by_name() {
        let mut counts = 0;
        let mut sizes = 0;
        let mut times = 0;
        for (key, value) in settings() {
            if value.is_number() {
                counts += 1;
                for absurd in ["-1", "1000000000000000", "99999999999999999999999999"] {
                    refused(&key, absurd);
                }
            } else if ANY_SIZE.contains(&value).is_some() {
                sizes += 1;
                for absurd in ["-1MiB", "2048TiB", "18446744073709551615B", "99999999999999999999999TiB"] {
                    refused(&key, absurd);
                }
            } else if ANY_TIME.contains(&value).is_some() {
                times += 1;
                for absurd in ["-1s", "1000years", "99999999999999999999999s"] {
                    refused(&key, absurd);
                }
            }
        }
        assert!(counts >= 15 && sizes >= 20 && times >= 10, "{counts} counts, {sizes} sizes, {times} times");
    }

    #[test]
    fn a_fraction_that_is_no_number_is_rejected() {
        for odd in ["nan", "inf", "-inf", "-0.1", "1e300"] {
            assert!(refused("telemetry.sample_ratio", odd).contains("expected 0 to 1"), "{odd}");
        }
    }

    #[test]
    fn both_ends_of_every_range_are_included_and_the_next_value_is_not() {
        for (key, bound) in BOUNDS {
            let (ends, beyond) = match bound {
                Count(least, most) => ([least.to_string(), most.to_string()], (most + 1).to_string()),
                Size(least, most) => ([format!("{least}B"), format!("{most}B")], format!("{}B", most + 1)),
                Time(least, most) => ([format!("{least}ms"), format!("{most}ms")], format!("{}ms", most + 1)),
                Share => (["0".to_owned(), "1".to_owned()], "1.01".to_owned()),
            };
            for end in ends {
                // The value may conflict with another setting, but must be in range.
                let errors = load::load(None, [], &[(key.to_owned(), end.clone())]).map_or_else(|e| e.0, |_| vec![]);
                let own = errors.iter().filter(|error| error.key == key && error.reason.contains(&bound.to_string()));
                assert_eq!(own.count(), 0, "{key} = {end}: {errors:?}");
            }
            let reason = refused(key, &beyond);
            assert!(reason.contains(&format!("expected {bound}, got")), "{key} = {beyond}: {reason}");
        }
    }

    #[test]
    fn every_range_is_documented_in_the_defaults() {
        let mut missing = vec![];
        for (key, bound) in BOUNDS {
            let (section, name) = key.rsplit_once('.').expect("a section");
            let section = load::DEFAULTS.split("\n[").find(|text| text.starts_with(&format!("{section}]")));
            let mut lines = section.expect("the section is there").lines();
            // Consecutive settings share the comment above them.
            let mut comment = vec![];
            let mut after_setting = false;
            let found = lines.by_ref().any(|line| {
                if let Some(text) = line.strip_prefix('#') {
                    if std::mem::take(&mut after_setting) {
                        comment.clear();
                    }
                    comment.push(text.to_owned());
                } else {
                    after_setting = true;
                }
                line.starts_with(&format!("{name} ="))
            });
            if !found || !comment.join(" ").contains(&format!("({bound})")) {
                missing.push(format!("{key} ({bound})"));
            }
        }
        assert!(missing.is_empty(), "{missing:#?}");
    }
}
