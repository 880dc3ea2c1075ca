//! Why a folder cannot be loaded.

use std::path::PathBuf;

use accelerd_kernels::OpError;

/// Why a model's folder cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// The operating system's words.
        error: std::io::Error,
    },
    /// A file is not what its name says.
    #[error("{}: {reason}", path.display())]
    Format {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The folder has no weights that can be read.
    #[error("{} has neither model.safetensors nor model.safetensors.index.json{}", path.display(), hint)]
    NoWeights {
        /// The folder.
        path: PathBuf,
        /// What is there instead.
        hint: &'static str,
    },
    /// Nothing is known of the architecture.
    #[error("unknown architecture \"{got}\"; known are {}", known.join(", "))]
    UnknownArchitecture {
        /// `model_type` of config.json.
        got: String,
        /// What may stand there.
        known: Vec<&'static str>,
    },
    /// The architecture is known, and this variant of it is not.
    #[error("{0} is not supported")]
    Unsupported(String),
    /// A setting is missing or of another kind.
    #[error("config.json: {0}")]
    Config(String),
    /// A tensor is not in the file.
    #[error("tensor {0} is missing")]
    MissingTensor(String),
    /// A tensor has another shape than the configuration says.
    #[error("tensor {name} is expected to be {expected:?}, got {got:?}")]
    Shape {
        /// Which.
        name: String,
        /// What config.json means.
        expected: Vec<usize>,
        /// What the file says.
        got: Vec<usize>,
    },
    /// The tokeniser gives ids that the model has no words for.
    #[error("the tokeniser has {tokens} tokens, the model {words} words")]
    TokenizerMismatch {
        /// Highest id and one.
        tokens: usize,
        /// Rows of the word table.
        words: usize,
    },
    /// The description or the weights were refused.
    #[error(transparent)]
    Encoder(#[from] OpError),
}

impl LoadError {
    pub(crate) fn format(path: impl Into<PathBuf>, reason: impl std::fmt::Display) -> Self {
        Self::Format { path: path.into(), reason: format!("{reason}") }
    }
}
