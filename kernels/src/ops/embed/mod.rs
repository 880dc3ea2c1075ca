//! Static embeddings: token ids to the mean of their rows of an int8 table.
//!
//! Both backends have the same bits before normalisation: with `s` the scale and `v` the values of a row,
//! `sum = sum + s * v` over the tokens in order, from +0, in f32 with the product rounded before it is added (no fused
//! multiply-add), then `sum / n` for `n` tokens. A text without tokens is a zero vector. Normalising multiplies by the
//! reciprocal length, taken in f64, and leaves a zero vector alone. [`oracle`] states the error bound.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::{Backend, Op, OpError, Size, op::product};

mod cpu;
pub(crate) mod cuda;
pub mod oracle;
mod simd;
#[cfg(test)]
mod tests;

/// An int8 embedding table with one scale per row, shared by all devices.
#[derive(Debug)]
pub struct Table {
    /// Unique in the process where [`Table::new`] assigned it.
    pub id: u64,
    /// Columns.
    pub dim: usize,
    /// i8 [vocabulary, dim], row-major.
    pub values: Vec<i8>,
    /// f32 `[vocabulary]`; a row is `scale * values`.
    pub scales: Vec<f32>,
}

/// Sequences of token ids, each pooled to one vector.
#[derive(Clone, Debug)]
pub struct EmbedRequest {
    /// The table.
    pub table: Arc<Table>,
    /// Token ids of all sequences, each below the vocabulary size.
    pub ids: Vec<u32>,
    /// The start of each sequence, then the length of `ids`.
    pub offsets: Vec<u32>,
    /// Leading dimensions to keep, 1 to `dim`.
    pub dimensions: usize,
    /// True to scale to unit length.
    pub normalize: bool,
}

impl Table {
    /// A table with a new id. `values` are `scales.len()` rows of `dim`; requests validate that.
    pub fn new(dim: usize, values: Vec<i8>, scales: Vec<f32>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), dim, values, scales }
    }
}

impl EmbedRequest {
    /// The number of sequences.
    pub fn sequence_count(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Validates all bounds that the backends rely on to index memory. [`Embed`] always calls it.
    pub fn check(&self) -> Result<(), OpError> {
        self.check_table()?;
        self.check_offsets()?;
        let rows = self.table.scales.len();
        let highest = self.ids.iter().fold(0, |highest, &id| id.max(highest));
        if !self.ids.is_empty() && highest as usize >= rows {
            return Err(OpError::Invalid(format!("token id {highest} is not below the vocabulary size {rows}")));
        }
        Ok(())
    }

    fn check_table(&self) -> Result<(), OpError> {
        let Table { dim, values, scales, .. } = &*self.table;
        if values.len() as u128 != *dim as u128 * scales.len() as u128 {
            let got = values.len();
            return Err(OpError::Invalid(format!("table of [{}, {dim}] has {got} values", scales.len())));
        }
        if self.dimensions == 0 || self.dimensions > *dim {
            return Err(OpError::Invalid(format!("dimensions must be 1 to {dim}, got {}", self.dimensions)));
        }
        Ok(())
    }

    fn check_offsets(&self) -> Result<(), OpError> {
        let ends = self.offsets.first().copied().zip(self.offsets.last().copied());
        if ends.is_none_or(|(first, last)| first != 0 || last as usize != self.ids.len()) {
            return Err(OpError::Invalid(format!("offsets must go from 0 to {}, got {ends:?}", self.ids.len())));
        }
        if let Some(index) = self.offsets.windows(2).position(|pair| pair[0] > pair[1]) {
            return Err(OpError::Invalid(format!("offset {} is below offset {index}", index + 1)));
        }
        Ok(())
    }
}

/// The static embedding op.
#[derive(Debug)]
pub struct Embed;

impl Op for Embed {
    const NAME: &'static str = "embed";
    type Request = EmbedRequest;
    /// f32 [sequences, dimensions].
    type Response = Vec<f32>;
    type Key = u64;

    fn key(request: &EmbedRequest) -> u64 {
        request.table.id
    }

    fn size(request: &EmbedRequest) -> Size {
        let texts = request.sequence_count() as u64;
        Size { items: texts.max(1), bytes: 4 * (request.ids.len() as u64 + texts * (request.dimensions as u64 + 1)) }
    }

    /// Multiply-adds: the kept dimensions of each token's row, and of each vector.
    fn cost(request: &EmbedRequest) -> u64 {
        product([request.ids.len().saturating_add(request.sequence_count()), request.dimensions]).max(1)
    }

    fn run(batch: &[&EmbedRequest], on: &mut Backend) -> Result<Vec<Vec<f32>>, OpError> {
        batch.iter().try_for_each(|request| request.check())?;
        match on {
            Backend::Cpu(worker) => cpu::run(batch, worker),
            Backend::Cuda(worker) => cuda::run(batch, worker),
        }
    }
}
