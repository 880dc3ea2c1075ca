//! A loaded model.

use std::{collections::BTreeMap, sync::Arc};

use accelerd_kernels::ops::encode::{ClassificationHead, Encoder};

use super::{pairs::PairTemplate, text::TextTokenizer};

/// The contents of a model's folder.
#[derive(Debug)]
pub struct Loaded {
    /// The encoder.
    pub encoder: Encoder,
    /// Its tokeniser, if the folder has one.
    pub text: Option<TextTokenizer>,
    /// Default maximum of tokens.
    pub limit: usize,
    /// Prompts by name.
    pub prompts: BTreeMap<String, String>,
    /// Name of the default prompt.
    pub default_prompt: Option<String>,
    /// `model_type` of config.json, or `table`.
    pub kind: String,
    /// The classification head and pair template of a cross-encoder.
    pub reranker: Option<Reranker>,
    /// SHA-256 of the concatenated weight files, in hexadecimal.
    pub sha256: String,
    /// SHA-256 of the weights, the configuration and the tokeniser, in hexadecimal.
    pub digest: String,
}

/// The parts of a cross-encoder, which scores pairs and makes no embeddings.
#[derive(Debug)]
pub struct Reranker {
    /// Scores the pooled output.
    pub head: Arc<ClassificationHead>,
    /// True if scores pass the sigmoid by default.
    pub sigmoid: bool,
    /// The template of pairs, if there is a tokeniser.
    pub pairs: Option<PairTemplate>,
}
