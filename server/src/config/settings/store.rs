//! Collections and snapshots.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::some_path;
use crate::config::{
    deserialize,
    size::{self, ByteSize},
};

/// Collections and snapshots.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// Directory of durable collections; empty keeps all in memory.
    pub data_dir: PathBuf,
    /// When a durable write is acknowledged.
    #[serde(deserialize_with = "deserialize::choice")]
    pub fsync: Fsync,
    /// Size at which a write-ahead log is compacted into a local snapshot.
    pub wal_limit: ByteSize,
    /// Threads that write logs.
    pub writer_threads: usize,
    /// Maximum number of open log files.
    pub open_logs: usize,
    /// Maximum host memory of collections; 0 means no limit.
    #[serde(deserialize_with = "size::size_or_auto")]
    pub memory_limit: ByteSize,
    /// Default folder of snapshots; empty for none.
    pub snapshot_url: String,
    /// True if the start fails if a snapshot folder cannot be listed.
    pub snapshot_check: bool,
    /// Further folders that clients may name for snapshots, including subfolders.
    #[serde(deserialize_with = "deserialize::list")]
    pub snapshot_folders: Vec<String>,
}

impl Store {
    /// Directory of durable collections, if any.
    pub fn folder(&self) -> Option<&Path> {
        some_path(&self.data_dir)
    }
}

/// When a durable write is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fsync {
    /// After fsync.
    Always,
    /// Once the operating system has it.
    Never,
}
