//! Folders in HuggingFace's layout: config.json, safetensors, tokenizer.json, and the files of sentence-transformers.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use accelerd_kernels::ops::encode::Encoder;

mod digest;
mod error;
mod families;
mod fields;
mod files;
mod heads;
mod loaded;
mod modules;
mod npy;
mod pairs;
mod sentence_settings;
mod table;
mod text;
mod tokenizer_settings;
mod weights;
mod wordpiece;

pub use error::LoadError;
use fields::Fields;
pub use loaded::{Loaded, Reranker};
use modules::Modules;
pub use pairs::PairTemplate;
use sentence_settings::SentenceSettings;
pub use text::{Pieces, StaticRules, TextTokenizer};
use tokenizer_settings::TokenizerSettings;

/// The supported `model_type`s.
pub fn known() -> &'static [&'static str] {
    families::KNOWN
}

/// The files that loading a folder reads where they exist, besides those of its weights and modules.
pub const OPTIONAL_FILES: [&str; 15] = [
    files::CONFIG,
    text::FILE,
    tokenizer_settings::FILE,
    tokenizer_settings::ADDED_TOKENS,
    tokenizer_settings::SPECIAL_TOKENS,
    sentence_settings::FILES[0],
    sentence_settings::FILES[1],
    sentence_settings::FILES[2],
    sentence_settings::FILES[3],
    sentence_settings::FILES[4],
    sentence_settings::FILES[5],
    sentence_settings::FILES[6],
    modules::MODULES,
    modules::SETTINGS,
    ADAPTER,
];

/// Bytes of the weights in a folder or table file, and of the table that a static model makes of them, without reading them.
pub fn weight_bytes(path: &Path) -> Result<u64, LoadError> {
    let files = sources(path)?;
    let folded = files.iter().map(|file| table::folded_bytes(file)).fold(0, u64::saturating_add);
    Ok(files::total_bytes(&files)?.saturating_add(folded))
}

fn sources(path: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let data = std::fs::metadata(path).map_err(|error| LoadError::Read { path: path.to_owned(), error })?;
    match path {
        folder if data.is_dir() => files::weight_files(&modules::first_folder(folder)?),
        file if data.is_file() => Ok(vec![file.to_owned()]),
        other => Err(LoadError::format(other, "is neither a folder nor a file")),
    }
}

/// Loads a folder, or a table of word embeddings from `.npy` or `.safetensors`, with an optional tokenizer.json in its
/// folder.
pub fn load(path: &Path) -> Result<Loaded, LoadError> {
    if path.is_dir() { load_folder(path) } else { table::load_file(path) }
}

fn load_folder(folder: &Path) -> Result<Loaded, LoadError> {
    let modules = modules::modules(folder)?;
    let own = modules.as_ref().map_or(folder, |modules| &modules.folder);
    if own.join(ADAPTER).exists() {
        return Err(LoadError::Unsupported(format!("an adapter that is not merged into the weights ({ADAPTER})")));
    }
    let path = own.join(files::CONFIG);
    let config = files::optional_object(&path)?;
    if let Some(config) = config.as_ref().filter(|config| config.get("model_type") == Some(&table::MODEL2VEC.into())) {
        return table::load_model2vec(own, Fields::new(files::CONFIG, config));
    }
    if let Some(modules) = modules.as_ref().filter(|modules| modules.is_static) {
        return table::load_module(folder, modules);
    }
    let mut config = config.ok_or_else(|| LoadError::format(&path, "is missing"))?;
    let sentences = SentenceSettings::read(own)?;
    config.extend(sentences.config.clone());
    load_encoder(folder, own, modules.as_ref(), Fields::new(files::CONFIG, &config), &sentences)
}

/// The file of a PEFT adapter, which transformers adds to the weights.
const ADAPTER: &str = "adapter_config.json";

/// Loads an encoder whose configuration, weights and tokeniser are in `own`, all else in `folder`.
fn load_encoder(
    folder: &Path,
    own: &Path,
    modules: Option<&Modules>,
    fields: Fields<'_>,
    sentences: &SentenceSettings,
) -> Result<Loaded, LoadError> {
    let mut family = families::Family::new(fields)?;
    // A sequence classifier with pooling modules is an embedding model.
    let pools = modules.is_some_and(|modules| modules.pools);
    let head = if pools { None } else { heads::HeadFamily::new(fields)? };
    // A cross-encoder uses prompts only where sentence-transformers wrote it as one.
    let uses_prompts = head.is_none() || (modules.is_some() && modules::is_cross_encoder(folder)?);
    if let Some(modules) = modules {
        (family.config.pooling, family.config.normalize) = (modules.pooling, modules.normalize);
    }
    let mut checkpoint = files::Checkpoint::read(&files::weight_files(own)?)?;
    let weights = weights::read(&mut family, &mut checkpoint)?;
    let sha256 = checkpoint.sha256();
    let (prompts, default_prompt) = if uses_prompts { modules::prompts(folder)? } else { Default::default() };
    let settings = TokenizerSettings::read(own, &sentences.tokenizer)?;
    let kind = fields.text(&["model_type"], "")?.to_owned();
    let text = TextTokenizer::read(own, family.config.vocabulary, &kind, &settings, sentences.lowercase)?;
    let reranker = match head {
        None => None,
        Some(head) => Some(Reranker {
            head: Arc::new(head.read(&family.config, &checkpoint)?),
            sigmoid: heads::sigmoid(folder, fields)?,
            pairs: text.as_ref().map(|text| PairTemplate::find(own, text, family.config.token_types)).transpose()?,
        }),
    };
    let maximum = family.config.max_tokens;
    let limit = sentences.max_tokens.or(settings.max_tokens()?);
    Ok(Loaded {
        text,
        reranker,
        limit: limit.map_or(maximum, |limit| limit.min(maximum)),
        encoder: Encoder::new(family.config, weights)?,
        prompts,
        default_prompt,
        kind,
        digest: digest::of_folder(folder, own, &sha256)?,
        sha256,
    })
}
