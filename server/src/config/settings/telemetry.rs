//! Logs, traces and metrics.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::deserialize;

/// Logs, traces, metrics.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Telemetry {
    /// Log level or filter.
    pub log_level: String,
    /// Format of log lines.
    #[serde(deserialize_with = "deserialize::choice")]
    pub log_format: LogFormat,
    /// OTLP endpoint; empty for none.
    pub otlp_endpoint: String,
    /// Fraction of traces started here that are sampled.
    pub sample_ratio: f64,
    /// Interval of the export of metrics.
    #[serde(with = "humantime_serde")]
    pub metrics_interval: Duration,
    /// Maximum number of series of a metric that Prometheus scrapes.
    pub max_series: usize,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Human-readable on a terminal, else JSON.
    Auto,
    /// One JSON object per line.
    Json,
    /// Human-readable.
    Human,
}
