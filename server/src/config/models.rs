//! Which models there are from the start, where others may come from, and who may ask for them.

use std::{fmt, path::PathBuf, time::Duration};

use accelerd_kernels::ops::encode;
use serde::{Deserialize, Serialize};

use super::ByteSize;
use crate::embedder::Source;

/// Models that embed.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Models {
    /// Folders that callers may load models from, with all below them.
    #[serde(deserialize_with = "super::load::list")]
    pub folders: Vec<PathBuf>,
    /// Most bytes of the weights of all models; 0 means no cap.
    #[serde(deserialize_with = "super::size::size_or_auto")]
    pub memory_limit: ByteSize,
    /// Models that are loaded at the start.
    #[serde(deserialize_with = "super::load::tables")]
    pub preload: Vec<Preload>,
    /// Where models come from that are not in a folder.
    pub hub: Hub,
}

/// A hub of models.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Hub {
    /// Its address.
    pub endpoint: String,
    /// Who may name its models.
    pub allow: Allow,
    /// Owners whose models may be fetched; empty allows all.
    #[serde(deserialize_with = "super::load::list")]
    pub owners: Vec<String>,
    /// Folder where fetched models are kept; empty keeps none.
    pub cache: PathBuf,
    /// Most bytes of that folder; 0 means no cap.
    pub cache_limit: ByteSize,
    /// Whether only the cache is used.
    pub offline: bool,
    /// How long it may take to accept a connection, to answer, and to send on.
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
}

/// Who may name a model of the hub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Allow {
    /// Nobody.
    #[default]
    Off,
    /// The settings' own list of models.
    Preload,
    /// Callers, too.
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

/// A model that is loaded at the start.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Preload {
    /// Its name in requests.
    pub name: String,
    /// Its folder or file, or `hf://owner/name`.
    pub path: String,
    /// Other names.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// What it is computed in.
    #[serde(default)]
    pub precision: Precision,
}

/// What an encoder is computed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// bfloat16 on a GPU, f32 on a CPU.
    #[default]
    Auto,
    /// bfloat16; f32 on a CPU without instructions for it.
    Bf16,
    /// binary16; on a CPU f32.
    F16,
    /// binary32.
    F32,
}

impl From<&Preload> for Source {
    fn from(preload: &Preload) -> Self {
        let Preload { name, path, aliases, precision } = preload.clone();
        let precision = match precision {
            Precision::Auto => encode::Precision::Auto,
            Precision::Bf16 => encode::Precision::Bf16,
            Precision::F16 => encode::Precision::F16,
            Precision::F32 => encode::Precision::F32,
        };
        Self { name, path, aliases, precision }
    }
}
