//! Folders as HuggingFace lays them out: config.json, safetensors, tokenizer.json, and what sentence-transformers adds.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use accelerd_kernels::ops::encode::{
    Embeddings, Encoder, EncoderConfig, Head, NormKind, Placement, Pooling, Positions, Tensor, Weights,
};

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
pub use pairs::PairRules;
pub use text::{Pieces, TextRules};

/// What a folder's encoder needs besides itself.
#[derive(Debug)]
pub struct Loaded {
    /// The encoder.
    pub encoder: Encoder,
    /// Its tokeniser, if the folder has one.
    pub text: Option<TextRules>,
    /// Tokens that a text is cut to where the request does not say.
    pub limit: usize,
    /// Prompts by name.
    pub prompts: BTreeMap<String, String>,
    /// Which of them is put before texts where the request does not say.
    pub default_prompt: Option<String>,
    /// `model_type` of config.json, or `table`.
    pub kind: String,
    /// What makes it a cross-encoder, if it is one.
    pub reranker: Option<Reranker>,
    /// SHA-256 of the files with weights, one after the other, in hexadecimal.
    pub sha256: String,
}

/// What makes an encoder a cross-encoder: it scores pairs, and makes no vectors of texts.
#[derive(Debug)]
pub struct Reranker {
    /// Scores a pooled state.
    pub head: Arc<Head>,
    /// Whether scores pass the logistic function where the request does not say.
    pub sigmoid: bool,
    /// How pairs are put together, where there is a tokeniser.
    pub pairs: Option<PairRules>,
}

/// `model_type`s that can be loaded.
pub fn known() -> &'static [&'static str] {
    families::KNOWN
}

/// Bytes of the weights in a folder or table file, before anything is read.
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

/// Loads a folder; or a file that is a table of words, `.npy` or `.safetensors`, with a tokenizer.json beside it or
/// without one.
pub fn load(path: &Path) -> Result<Loaded, LoadError> {
    if path.is_dir() { load_folder(path) } else { load_table(path) }
}

fn load_folder(folder: &Path) -> Result<Loaded, LoadError> {
    let path = folder.join("config.json");
    let config = files::object_if_there(&path)?.ok_or_else(|| LoadError::format(&path, "is missing"))?;
    let fields = fields::Fields(&config);
    let mut family = families::Family::new(fields)?;
    let modules = modules::modules(folder)?;
    // A classifier's encoder with modules that pool is there to embed.
    let pools = modules.as_ref().is_some_and(|modules| modules.pools);
    let head = if pools { None } else { heads::HeadFamily::new(fields)? };
    // What else makes a cross-encoder of it heeds the prompts of no other kind of model.
    let heeds_prompts = head.is_none() || (modules.is_some() && modules::is_cross_encoder(folder)?);
    if let Some(modules) = modules {
        (family.config.pooling, family.config.normalize) = (modules.pooling, modules.normalize);
    }
    let mut checkpoint = files::Checkpoint::read(&files::weight_files(folder)?)?;
    let weights = weights::read(&mut family, &mut checkpoint)?;
    let sha256 = checkpoint.sha256();
    let (prompts, default_prompt) = if heeds_prompts { modules::prompts(folder)? } else { Default::default() };
    let text = TextRules::read(folder, family.config.vocabulary)?;
    let reranker = match head {
        None => None,
        Some(head) => Some(Reranker {
            head: Arc::new(head.read(&family.config, &checkpoint)?),
            sigmoid: heads::sigmoid(folder, fields)?,
            pairs: text.as_ref().map(|text| PairRules::find(folder, text, family.config.token_types)).transpose()?,
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
        sha256,
    })
}

/// A text of a table may be this long.
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
        text: TextRules::read(folder, encoder.config().vocabulary)?,
        encoder,
        limit: TABLE_TOKENS,
        prompts: BTreeMap::new(),
        default_prompt: None,
        kind: "table".to_owned(),
        reranker: None,
        sha256,
    })
}

/// A table of words is an encoder without layers.
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
        placement: Placement::After,
        positions: Positions::None,
        activation: accelerd_kernels::ops::encode::Activation::Relu,
        gated: false,
        causal: false,
        window: None,
        query_norm: None,
        pooling: Pooling::Mean,
        normalize: true,
    };
    let embeddings = Embeddings { words, positions: None, types: None, norm: None };
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
