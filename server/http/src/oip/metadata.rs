//! What is said of a model, and which versions it has.

use accelerd_proto::{methods::embed_service, v1 as pb};
use http::StatusCode;
use serde::Serialize;

use super::datatype::Datatype;
use crate::{exchange::Exchange, failure::Failure};

/// The version of encoders and rerankers.
pub(super) const VERSION: u64 = 1;

/// What a model reads and returns.
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

/// The loaded encoders and rerankers. Callers without rights are refused here.
pub(super) async fn list(exchange: &Exchange) -> Result<Vec<pb::Model>, Failure> {
    Ok(exchange.call(embed_service::LIST_MODELS, &pb::ListModelsRequest {}).await?.models)
}

pub(super) fn check_version(name: &str, asked: &str, version: u64) -> Result<(), Failure> {
    if asked.is_empty() || asked == version.to_string() {
        return Ok(());
    }
    let message = format!("the model {name:?} has version {version}, not {asked:?}");
    Err(Failure::new(StatusCode::NOT_FOUND, message))
}
