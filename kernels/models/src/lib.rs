//! Embedding models: files in, tables and token ids out.

use std::sync::{Arc, OnceLock};

use accelerd_kernels::ops::embed::Table;

mod characters;
mod format;
pub mod hf;
mod tokenizer;
mod trie;

pub use format::ModelError;
use tokenizer::Tokenizer;

/// The name of the model that is part of the binary.
pub const BUILTIN: &str = "builtin";

/// A model that embeds text by looking tokens up in a table.
#[derive(Debug)]
pub struct Model {
    name: String,
    offered_dimensions: Vec<u32>,
    sha256: String,
    tokenizer: Tokenizer,
    table: Arc<Table>,
}

impl Model {
    /// The model that is part of the binary. Parsed once; calls after the first are free.
    pub fn builtin() -> Arc<Self> {
        static MODEL: OnceLock<Arc<Model>> = OnceLock::new();
        let parse = || Self::parse(BUILTIN, include_bytes!("../builtin/table.bin"));
        Arc::clone(MODEL.get_or_init(|| Arc::new(parse().expect("the embedded file is one that a test has parsed"))))
    }

    /// Reads a table file, in the format that `builtin/table.py` describes.
    pub fn parse(name: impl Into<String>, file: &[u8]) -> Result<Self, ModelError> {
        let parts = format::parse(file)?;
        Ok(Self {
            name: name.into(),
            offered_dimensions: parts.offered_dimensions,
            sha256: parts.sha256,
            tokenizer: Tokenizer::new(&parts.pieces, parts.characters)?,
            table: Arc::new(Table::new(parts.dim, parts.values, parts.scales)),
        })
    }

    /// Its name in requests.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Dimensions it may be truncated to, largest first, the full ones included.
    pub fn offered_dimensions(&self) -> &[u32] {
        &self.offered_dimensions
    }

    /// Rows of its vocabulary.
    pub fn vocabulary_size(&self) -> usize {
        self.table.scales.len()
    }

    /// SHA-256 of its file, in hexadecimal.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// The table, shared with the devices.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Appends the token ids of a text.
    pub fn tokenize(&self, text: &str, ids: &mut Vec<u32>) {
        self.tokenizer.encode(text, ids);
    }
}
