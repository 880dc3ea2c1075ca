//! A pair as a JSON document.

use std::{collections::BTreeMap, path::Path, string::FromUtf8Error, time::Duration};

use accelerd_client::{DatasetPair, DatasetRun};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};

/// A pair of a data set.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(super) struct Record {
    /// Its place in the sequence of the data set.
    pub(super) index: u64,
    pub(super) id: String,
    pub(super) structure_id: String,
    pub(super) split: String,
    pub(super) category: String,
    pub(super) dialect: String,
    pub(super) name: String,
    pub(super) source: String,
    pub(super) bit_exact: bool,
    /// Text files of the translation by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) files: BTreeMap<String, String>,
    /// Other files, in base64.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) binary_files: BTreeMap<String, String>,
    pub(super) runs: Vec<Run>,
}

/// A run on the example, compared with the interpreter's results.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(super) struct Run {
    pub(super) device: String,
    pub(super) agreement: String,
    pub(super) element_count: u64,
    pub(super) different_count: u64,
    pub(super) max_ulp_error: u64,
    pub(super) execution_seconds: f64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) message: String,
}

impl Run {
    /// Returns true if the results are the expected ones.
    pub(super) fn agrees(&self) -> bool {
        matches!(self.agreement.as_str(), "equal" | "close")
    }
}

impl Record {
    /// Adds a file of the translation.
    pub(super) fn add_file(&mut self, name: String, content: Vec<u8>) {
        let is_module = Path::new(&name).extension().is_some_and(|extension| extension == "wasm");
        match String::from_utf8(content) {
            Ok(text) if !is_module => _ = self.files.insert(name, text),
            content => {
                let content = content.map_or_else(FromUtf8Error::into_bytes, String::into_bytes);
                self.binary_files.insert(name, BASE64_STANDARD.encode(content));
            }
        }
    }
}

impl From<DatasetPair> for Record {
    fn from(pair: DatasetPair) -> Self {
        let split = pair.split();
        let category = pair.category();
        let dialect = pair.dialect();
        let mut record = Self {
            index: pair.index,
            id: pair.id,
            structure_id: pair.structure_id,
            split: plain(split.as_str_name(), "DATASET_SPLIT_"),
            category: plain(category.as_str_name(), "DATASET_CATEGORY_"),
            dialect: plain(dialect.as_str_name(), "KERNEL_DIALECT_"),
            name: pair.name,
            source: pair.source,
            bit_exact: pair.bit_exact,
            files: BTreeMap::new(),
            binary_files: BTreeMap::new(),
            runs: pair.runs.into_iter().map(Run::from).collect(),
        };
        for file in pair.files {
            record.add_file(file.name, file.content.into());
        }
        record
    }
}

impl From<DatasetRun> for Run {
    fn from(run: DatasetRun) -> Self {
        let execution = run.execution_time.and_then(|time| Duration::try_from(time).ok()).unwrap_or_default();
        Self {
            device: plain(run.device().as_str_name(), "KERNEL_DEVICE_"),
            agreement: plain(run.agreement().as_str_name(), "DATASET_AGREEMENT_"),
            element_count: run.element_count,
            different_count: run.different_count,
            max_ulp_error: run.max_ulp_error,
            execution_seconds: execution.as_secs_f64(),
            message: run.message,
        }
    }
}

/// The name of an enum's value without that of the enum.
fn plain(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_lowercase()
}
