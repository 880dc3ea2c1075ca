//! Descriptions of the server and of models, and the versions of models.

use http::StatusCode;
use serde::Serialize;

use super::datatype::Datatype;
use crate::failure::Failure;

/// The name of the server.
pub(super) const NAME: &str = "accelerd";
/// The extensions of the protocol.
pub(super) const EXTENSIONS: [&str; 2] = ["binary_tensor_data", "model_repository"];
/// The version of encoders and rerankers.
pub(super) const VERSION: u64 = 1;

/// A model with its inputs and outputs.
#[derive(Debug, Serialize)]
pub(super) struct Metadata {
    pub(super) name: String,
    pub(super) versions: [String; 1],
    pub(super) platform: &'static str,
    pub(super) inputs: Vec<TensorMetadata>,
    pub(super) outputs: Vec<TensorMetadata>,
}

/// An input or output.
#[derive(Debug, Serialize)]
pub(super) struct TensorMetadata {
    pub(super) name: String,
    pub(super) datatype: &'static str,
    pub(super) shape: Vec<i64>,
}

/// A model of the list of all.
#[derive(Debug, Serialize)]
pub(super) struct IndexEntry {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) state: &'static str,
}

impl TensorMetadata {
    pub(super) fn new(name: &str, datatype: Datatype, shape: &[i64]) -> Self {
        Self { name: name.to_owned(), datatype: datatype.name(), shape: shape.to_vec() }
    }
}

pub(super) fn check_version(name: &str, asked: &str, version: u64) -> Result<(), Failure> {
    if asked.is_empty() || asked == version.to_string() {
        return Ok(());
    }
    let message = format!("the model {name:?} has version {version}, not {asked:?}");
    Err(Failure::new(StatusCode::NOT_FOUND, message))
}
