//! Embedding models and the hub that they come from.

use std::{fmt, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use crate::config::{
    deserialize,
    size::{self, ByteSize},
};

/// Embedding models.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSettings {
    /// Directories from which clients may load models, including subdirectories.
    #[serde(deserialize_with = "deserialize::list")]
    pub folders: Vec<PathBuf>,
    /// Maximum total size of the models' weights; 0 means no limit.
    #[serde(deserialize_with = "size::size_or_auto")]
    pub memory_limit: ByteSize,
    /// Models to load at the start.
    #[serde(deserialize_with = "deserialize::tables")]
    pub preload: Vec<Preload>,
    /// Directory of graphs that are models of the Open Inference Protocol; empty means none.
    pub graphs: PathBuf,
    /// The source of models named `hf://`.
    pub hub: HubSettings,
}

/// A model hub.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HubSettings {
    /// Base URL.
    pub endpoint: String,
    /// Who may name its models.
    #[serde(deserialize_with = "deserialize::choice")]
    pub allow: Allow,
    /// Owners whose models may be downloaded; empty allows all.
    #[serde(deserialize_with = "deserialize::list")]
    pub owners: Vec<String>,
    /// Directory of downloaded models; empty keeps none.
    pub cache: PathBuf,
    /// Maximum size of that directory; 0 means no limit.
    pub cache_limit: ByteSize,
    /// True to use only the cache.
    pub offline: bool,
    /// Timeout for connecting, for the response, and for each read.
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
}

/// Who may name models of the hub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Allow {
    /// Nobody.
    #[default]
    Off,
    /// Only `models.preload`.
    Preload,
    /// Also clients, through LoadModel.
    Callers,
}

impl fmt::Display for Allow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Preload => "preload",
            Self::Callers => "callers",
        })
    }
}

/// A model to load at the start.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Preload {
    /// Name in requests.
    pub name: String,
    /// Directory or file, or `hf://owner/name`.
    pub path: String,
    /// Other names.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Number type of the computation.
    #[serde(default, deserialize_with = "deserialize::choice")]
    pub precision: Precision,
}

/// Number type of an encoder's computation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// bfloat16 on a GPU, f32 on the CPU.
    #[default]
    Auto,
    /// bfloat16; f32 on a CPU without AMX.
    Bf16,
    /// binary16; f32 on the CPU.
    F16,
    /// binary32.
    F32,
}
