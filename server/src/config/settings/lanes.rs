//! Queueing and batching by operation.

use std::time::Duration;

use accelerd_engine::LaneConfig;
use serde::{Deserialize, Serialize};

use crate::config::size::ByteSize;

/// Queueing and batching by operation.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Lanes {
    /// Defaults of all lanes.
    pub default: Lane,
    /// Overrides for Embed with static tables.
    pub embed: LaneOverride,
    /// Overrides for Embed with encoders.
    pub encode: LaneOverride,
    /// Overrides for Search.
    pub search: LaneOverride,
    /// Overrides for FindSimilar.
    pub find_similar: LaneOverride,
    /// Overrides for Cluster.
    pub cluster: LaneOverride,
    /// Overrides for Parse.
    pub parse: LaneOverride,
    /// Overrides for Execute.
    pub tensor: LaneOverride,
    /// Overrides for CompareOutputs and Verify.
    pub compare: LaneOverride,
    /// Overrides for Translate.
    pub translate: LaneOverride,
}

impl Lanes {
    /// The settings of a lane: the defaults with its overrides.
    pub fn lane(&self, overrides: &LaneOverride) -> LaneConfig {
        let default = &self.default;
        LaneConfig {
            max_batch_items: overrides.max_batch_items.unwrap_or(default.max_batch_items),
            max_batch_bytes: overrides.max_batch_bytes.unwrap_or(default.max_batch_bytes).as_u64(),
            gpu_max_batch_bytes: overrides.gpu_max_batch_bytes.unwrap_or(default.gpu_max_batch_bytes).as_u64(),
            max_wait: overrides.max_wait.unwrap_or(default.max_wait),
            concurrency: overrides.concurrency.unwrap_or(default.concurrency),
            max_age: overrides.max_age.unwrap_or(default.max_age),
            max_batch_time: overrides.max_batch_time.unwrap_or(default.max_batch_time),
            cpu_max_bytes: overrides.cpu_max_bytes.unwrap_or(default.cpu_max_bytes).as_u64(),
            large_request_bytes: overrides.large_request_bytes.unwrap_or(default.large_request_bytes).as_u64(),
        }
    }
}

/// Queueing and batching of one operation.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Lane {
    /// Maximum number of items in a batch.
    pub max_batch_items: u64,
    /// Maximum size of a batch on the CPU.
    pub max_batch_bytes: ByteSize,
    /// Maximum size of a batch on a GPU.
    pub gpu_max_batch_bytes: ByteSize,
    /// Maximum time that a batch waits for more requests while a worker is idle.
    #[serde(with = "humantime_serde")]
    pub max_wait: Duration,
    /// Maximum number of the lane's batches that run concurrently on a device.
    pub concurrency: usize,
    /// Queueing time after which a priority gets a share of the time of higher ones.
    #[serde(with = "humantime_serde")]
    pub max_age: Duration,
    /// Maximum expected time of a batch of several requests.
    #[serde(with = "humantime_serde")]
    pub max_batch_time: Duration,
    /// Requests of at most this size run on the CPU even if there is a GPU.
    pub cpu_max_bytes: ByteSize,
    /// Until times are known, requests of more bytes are batched separately, and one worker never runs them.
    pub large_request_bytes: ByteSize,
}

/// Overrides of one lane.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct LaneOverride {
    /// Maximum number of items in a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_batch_items: Option<u64>,
    /// Maximum size of a batch on the CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_batch_bytes: Option<ByteSize>,
    /// Maximum size of a batch on a GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_max_batch_bytes: Option<ByteSize>,
    /// Maximum time that a batch waits for more requests while a worker is idle.
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub max_wait: Option<Duration>,
    /// Maximum number of the lane's batches that run concurrently on a device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<usize>,
    /// Queueing time after which a priority gets a share of the time of higher ones.
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub max_age: Option<Duration>,
    /// Maximum expected time of a batch of several requests.
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub max_batch_time: Option<Duration>,
    /// Requests of at most this size run on the CPU even if there is a GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_max_bytes: Option<ByteSize>,
    /// Until times are known, requests of more bytes are batched separately, and one worker never runs them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub large_request_bytes: Option<ByteSize>,
}
