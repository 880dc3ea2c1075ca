//! Errors of loading a model.

use std::path::PathBuf;

use accelerd_kernels::OpError;

/// An error of loading a model.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// A file is invalid.
    #[error("{}: {reason}", path.display())]
    Format {
        /// Its path.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// The folder has no safetensors weights.
    #[error("{} has neither model.safetensors nor model.safetensors.index.json{}", path.display(), hint)]
    NoWeights {
        /// The folder.
        path: PathBuf,
        /// A note on weights in another format.
        hint: &'static str,
    },
    /// The architecture is unknown.
    #[error("unknown architecture \"{got}\"; known are {}", known.join(", "))]
    UnknownArchitecture {
        /// `model_type` of config.json.
        got: String,
        /// The supported values.
        known: Vec<&'static str>,
    },
    /// This variant of a known architecture is not supported.
    #[error("{0} is not supported")]
    Unsupported(String),
    /// A tensor is missing.
    #[error("tensor {0} is missing")]
    MissingTensor(String),
    /// A tensor's shape contradicts config.json.
    #[error("tensor {name} is expected to be {expected:?}, got {got:?}")]
    Shape {
        /// Its name.
        name: String,
        /// The shape by config.json.
        expected: Vec<usize>,
        /// The shape in the file.
        got: Vec<usize>,
    },
    /// A tensor has NaN or infinity, with which every vector could be.
    #[error("tensor {name} has NaN or infinity at element {element}")]
    NonFinite {
        /// Its name.
        name: String,
        /// Index of the first such element.
        element: usize,
    },
    /// A tensor holds what it must not.
    #[error("tensor {name} {reason}")]
    Tensor {
        /// Its name.
        name: String,
        /// The cause.
        reason: String,
    },
    /// The tokeniser has ids outside the model's vocabulary.
    #[error("the tokeniser has {tokens} tokens, the model {words} words")]
    TokenizerMismatch {
        /// The highest id plus one.
        tokens: usize,
        /// Rows of the word embeddings.
        words: usize,
    },
    /// The encoder rejected its configuration or weights.
    #[error(transparent)]
    Encoder(#[from] OpError),
}

impl LoadError {
    pub(crate) fn format(path: impl Into<PathBuf>, reason: impl std::fmt::Display) -> Self {
        Self::Format { path: path.into(), reason: format!("{reason}") }
    }
}
