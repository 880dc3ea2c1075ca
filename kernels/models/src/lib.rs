//! Embedding models: files in, tables and token ids out.

use std::sync::Arc;

use accelerd_kernels::ops::embed::Table;

/// A model that embeds text by looking tokens up in a table.
#[derive(Debug)]
pub struct Model {
    name: String,
    table: Arc<Table>,
}

impl Model {
    /// The model that is part of the binary. Parsed once; calls after the first are free.
    pub fn builtin() -> Arc<Self> {
        unimplemented!()
    }

    /// Its name in requests.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Dimensions it may be truncated to, largest first, the full ones included.
    pub fn offered_dimensions(&self) -> &[u32] {
        unimplemented!()
    }

    /// Rows of its vocabulary.
    pub fn vocabulary_size(&self) -> usize {
        self.table.scales.len()
    }

    /// SHA-256 of its weights, in hexadecimal.
    pub fn sha256(&self) -> &str {
        unimplemented!()
    }

    /// The table, shared with the devices.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Appends the token ids of a text.
    pub fn tokenize(&self, _text: &str, _ids: &mut Vec<u32>) {
        unimplemented!()
    }
}
