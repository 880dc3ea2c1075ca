//! Folders in HuggingFace's layout: config.json, safetensors, tokenizer.json, and the files of sentence-transformers.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use accelerd_kernels::ops::encode::{
    ClassificationHead, Embeddings, Encoder, EncoderConfig, NormKind, NormPlacement, Pooling, Positions, Tensor,
    Weights,
};

mod digest;
mod error;
mod families;
mod fields;
mod files;
mod heads;
mod modules;
mod npy;
mod pairs;
mod text;
mod weights;
mod wordpiece;

pub use error::LoadError;
pub use pairs::PairTemplate;
pub use text::{Pieces, TextTokenizer};

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

/// The supported `model_type`s.
pub fn known() -> &'static [&'static str] {
    families::KNOWN
}

/// Bytes of the weights in a folder or table file, without reading them.
pub fn weight_bytes(path: &Path) -> Result<u64, LoadError> {
    files::total_bytes(&sources(path)?)
}

fn sources(path: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let data = std::fs::metadata(path).map_err(|error| LoadError::Read { path: path.to_owned(), error })?;
    match path {
        folder if data.is_dir() => files::weight_files(folder),
        file if data.is_file() => Ok(vec![file.to_owned()]),
        other => Err(LoadError::format(other, "is neither a folder nor a file")),
    }
}

/// Loads a folder, or a table of word embeddings from `.npy` or `.safetensors`, with an optional tokenizer.json in its
/// folder.
pub fn load(path: &Path) -> Result<Loaded, LoadError> {
    if path.is_dir() { load_folder(path) } else { load_table(path) }
}

fn load_folder(folder: &Path) -> Result<Loaded, LoadError> {
    let path = folder.join("config.json");
    let config = files::optional_object(&path)?.ok_or_else(|| LoadError::format(&path, "is missing"))?;
    let fields = fields::Fields(&config);
    let mut family = families::Family::new(fields)?;
    let modules = modules::modules(folder)?;
    // A sequence classifier with pooling modules is an embedding model.
    let pools = modules.as_ref().is_some_and(|modules| modules.pools);
    let head = if pools { None } else { heads::HeadFamily::new(fields)? };
    // A cross-encoder uses prompts only where sentence-transformers wrote it as one.
    let uses_prompts = head.is_none() || (modules.is_some() && modules::is_cross_encoder(folder)?);
    if let Some(modules) = modules {
        (family.config.pooling, family.config.normalize) = (modules.pooling, modules.normalize);
    }
    let mut checkpoint = files::Checkpoint::read(&files::weight_files(folder)?)?;
    let weights = weights::read(&mut family, &mut checkpoint)?;
    let sha256 = checkpoint.sha256();
    let (prompts, default_prompt) = if uses_prompts { modules::prompts(folder)? } else { Default::default() };
    let text = TextTokenizer::read(folder, family.config.vocabulary)?;
    let reranker = match head {
        None => None,
        Some(head) => Some(Reranker {
            head: Arc::new(head.read(&family.config, &checkpoint)?),
            sigmoid: heads::sigmoid(folder, fields)?,
            pairs: text.as_ref().map(|text| PairTemplate::find(folder, text, family.config.token_types)).transpose()?,
        }),
    };
    Ok(Loaded {
        text,
        reranker,
        limit: modules::limit(folder, family.config.max_tokens)?,
        encoder: Encoder::new(family.config, weights)?,
        prompts,
        default_prompt,
        kind: fields.text(&["model_type"], "")?.to_owned(),
        digest: digest::of_folder(folder, &sha256)?,
        sha256,
    })
}

/// Maximum of tokens for a table.
const TABLE_TOKENS: usize = 1 << 20;

fn load_table(path: &Path) -> Result<Loaded, LoadError> {
    let (words, sha256) = if path.extension().is_some_and(|ending| ending == "npy") {
        npy::read(path)?
    } else {
        let checkpoint = files::Checkpoint::read(&[path.to_owned()])?;
        (checkpoint.only_matrix()?, checkpoint.sha256())
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    let encoder = table(words)?;
    Ok(Loaded {
        text: TextTokenizer::read(folder, encoder.config().vocabulary)?,
        encoder,
        limit: TABLE_TOKENS,
        prompts: BTreeMap::new(),
        default_prompt: None,
        kind: "table".to_owned(),
        reranker: None,
        digest: digest::of_table(folder, &sha256)?,
        sha256,
    })
}

/// A table of word embeddings is an encoder without layers.
fn table(words: Tensor) -> Result<Encoder, LoadError> {
    let &[vocabulary, hidden] = words.shape() else {
        return Err(LoadError::Unsupported(format!("a table of shape {:?}", words.shape())));
    };
    let config = EncoderConfig {
        vocabulary,
        hidden,
        layers: 0,
        heads: 1,
        kv_heads: 1,
        head_dim: 1,
        intermediate: 1,
        max_tokens: TABLE_TOKENS,
        position_offset: 0,
        token_types: 0,
        norm: NormKind::Layer,
        epsilon: 0.0,
        norm_placement: NormPlacement::PostNorm,
        positions: Positions::None,
        activation: accelerd_kernels::ops::encode::Activation::Relu,
        gated: false,
        causal: false,
        window: None,
        qk_norm: None,
        pooling: Pooling::Mean,
        normalize: true,
    };
    let embeddings =
        Embeddings { word_embeddings: words, position_embeddings: None, token_type_embeddings: None, norm: None };
    let weights = Weights {
        embeddings,
        rotary: None,
        local_rotary: None,
        relative_bias: None,
        slopes: None,
        layers: vec![],
        final_norm: None,
    };
    Ok(Encoder::new(config, weights)?)
}
