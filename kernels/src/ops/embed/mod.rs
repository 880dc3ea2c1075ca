//! Embedding by table: token ids to the pooled rows of an int8 table.

use std::sync::Arc;

use crate::{Backend, Op, OpError, Size};

/// An int8 embedding table with one scale a row, shared by every device.
#[derive(Debug)]
pub struct Table {
    /// Tells tables apart; unique in the process.
    pub id: u64,
    /// Columns.
    pub dim: usize,
    /// i8 [vocabulary, dim], row-major.
    pub values: Vec<i8>,
    /// f32 [vocabulary]; a row is `scale * values`.
    pub scales: Vec<f32>,
}

/// Token ids of many texts, to be pooled to one vector each.
#[derive(Clone, Debug)]
pub struct EmbedRequest {
    /// The table.
    pub table: Arc<Table>,
    /// Ids of all texts, each below the vocabulary size.
    pub ids: Vec<u32>,
    /// Where each text starts, then the length of `ids`.
    pub offsets: Vec<u32>,
    /// Leading dimensions to keep, 1 to the table's.
    pub dimensions: usize,
    /// Whether to scale to unit length.
    pub normalize: bool,
}

/// Embedding by table.
#[derive(Debug)]
pub struct Embed;

impl Op for Embed {
    const NAME: &'static str = "embed";
    type Request = EmbedRequest;
    /// f32 [texts, dimensions].
    type Response = Vec<f32>;
    type Key = u64;

    fn key(request: &EmbedRequest) -> u64 {
        request.table.id
    }

    fn size(request: &EmbedRequest) -> Size {
        let texts = (request.offsets.len() as u64).saturating_sub(1);
        Size { items: texts.max(1), bytes: 4 * (request.ids.len() as u64 + texts * (request.dimensions as u64 + 1)) }
    }

    fn run(_batch: &[&EmbedRequest], _on: &mut Backend) -> Result<Vec<Vec<f32>>, OpError> {
        unimplemented!()
    }
}
