//! Static models: a table with a vector for each token, from model2vec, sentence-transformers or anywhere.
//!
//! A text's vector is the mean of its tokens' rows, without special tokens around the text.

use std::{collections::BTreeMap, path::Path};

use accelerd_kernels::ops::encode::{
    Activation, DType, Embeddings, Encoder, EncoderConfig, NormKind, NormPlacement, Pooling, Positions, Tensor, Weights,
};

use super::{
    digest,
    error::LoadError,
    fields::Fields,
    files::{self, Checkpoint},
    loaded::Loaded,
    modules::{self, Modules},
    npy,
    text::TextTokenizer,
};

/// Maximum of tokens for a table.
const TABLE_TOKENS: usize = 1 << 20;
/// Default maximum of tokens of model2vec.
const MODEL2VEC_TOKENS: usize = 512;

/// `model_type` of model2vec.
pub(super) const MODEL2VEC: &str = "model2vec";
/// `model_type` of other tables.
const TABLE: &str = "table";

/// The table's tensor in model2vec's files and in those of sentence-transformers.
const EMBEDDINGS: [&str; 2] = ["embeddings", "embedding.weight"];
/// The row of each token, and the factor of each token's row.
const MAPPING: &str = "mapping";
const WEIGHTS: &str = "weights";

/// The settings of a table's folder.
#[derive(Clone, Copy, Debug)]
struct Settings {
    kind: &'static str,
    normalize: bool,
    limit: usize,
}

impl Settings {
    /// Of a table that says nothing about itself.
    const PLAIN: Self = Self { kind: TABLE, normalize: true, limit: TABLE_TOKENS };

    /// Reads config.json of model2vec.
    fn model2vec(fields: Fields<'_>) -> Result<Self, LoadError> {
        let limit = match fields.count_or_none(&["max_length"])? {
            Some(limit) => limit.clamp(1, TABLE_TOKENS),
            None if fields.has("max_length") => TABLE_TOKENS,
            None => MODEL2VEC_TOKENS,
        };
        Ok(Self { kind: MODEL2VEC, normalize: fields.flag(&["normalize"], false)?, limit })
    }
}

/// Loads a file: `.npy` or `.safetensors`, with an optional tokenizer.json and config.json of model2vec in its folder.
pub(super) fn load_file(path: &Path) -> Result<Loaded, LoadError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    if path.extension().is_some_and(|ending| ending == "npy") {
        let (rows, sha256) = npy::read(path)?;
        return loaded(rows, Settings::PLAIN, folder, TextTokenizer::read_static, sha256);
    }
    let checkpoint = Checkpoint::read(&[path.to_owned()])?;
    if !checkpoint.has(EMBEDDINGS[0]) {
        return loaded(read(&checkpoint)?, Settings::PLAIN, folder, TextTokenizer::read_static, checkpoint.sha256());
    }
    let config = files::optional_object(&folder.join(files::CONFIG))?.unwrap_or_default();
    let fields = Fields::new(files::CONFIG, &config);
    let is_model2vec = fields.text(&["model_type"], "")? == MODEL2VEC;
    let settings = if is_model2vec { Settings::model2vec(fields)? } else { Settings::PLAIN };
    loaded(read(&checkpoint)?, settings, folder, TextTokenizer::read_model2vec, checkpoint.sha256())
}

/// Loads a folder of model2vec, with this config.json.
pub(super) fn load_model2vec(folder: &Path, fields: Fields<'_>) -> Result<Loaded, LoadError> {
    let checkpoint = Checkpoint::read(&files::weight_files(folder)?)?;
    let settings = Settings::model2vec(fields)?;
    loaded(read(&checkpoint)?, settings, folder, TextTokenizer::read_model2vec, checkpoint.sha256())
}

/// Loads a folder whose first module is a static embedding.
pub(super) fn load_module(folder: &Path, modules: &Modules) -> Result<Loaded, LoadError> {
    let checkpoint = Checkpoint::read(&files::weight_files(&modules.folder)?)?;
    let settings = Settings { normalize: modules.normalize, ..Settings::PLAIN };
    let rows = read(&checkpoint)?;
    let model = loaded(rows, settings, &modules.folder, TextTokenizer::read_static, checkpoint.sha256())?;
    let limit = model.text.as_ref().and_then(TextTokenizer::max_tokens);
    let (prompts, default_prompt) = modules::prompts(folder)?;
    let digest = digest::of_folder(folder, &modules.folder, &model.sha256)?;
    Ok(Loaded {
        limit: limit.map_or(TABLE_TOKENS, |limit| limit.clamp(1, TABLE_TOKENS)),
        prompts,
        default_prompt,
        digest,
        ..model
    })
}

/// Reads a tokeniser for a number of tokens.
type ReadTokenizer = fn(&Path, usize) -> Result<Option<TextTokenizer>, LoadError>;

fn loaded(
    rows: Tensor,
    settings: Settings,
    folder: &Path,
    tokenizer: ReadTokenizer,
    sha256: String,
) -> Result<Loaded, LoadError> {
    let encoder = encoder(rows, settings.normalize)?;
    Ok(Loaded {
        text: tokenizer(folder, encoder.config().vocabulary)?,
        encoder,
        limit: settings.limit,
        prompts: BTreeMap::new(),
        default_prompt: None,
        kind: settings.kind.to_owned(),
        reranker: None,
        digest: digest::of_table(folder, &sha256)?,
        sha256,
    })
}

/// The table of a file: a row for each token.
fn read(checkpoint: &Checkpoint) -> Result<Tensor, LoadError> {
    let Some(name) = EMBEDDINGS.into_iter().find(|name| checkpoint.has(name)) else { return checkpoint.only_matrix() };
    let rows = checkpoint.matrix(name)?;
    let mapping = checkpoint.indices(MAPPING)?;
    let weights = checkpoint.numbers(WEIGHTS)?;
    if mapping.is_none() && weights.is_none() { Ok(rows) } else { fold(&rows, mapping.as_deref(), weights.as_deref()) }
}

/// The row that each token has by the mapping, times its weight.
fn fold(rows: &Tensor, mapping: Option<&[usize]>, weights: Option<&[f64]>) -> Result<Tensor, LoadError> {
    let &[count, dim] = rows.shape() else { return Err(not_a_table(rows)) };
    let tokens = mapping.map_or(count, <[usize]>::len);
    if let Some(got) = weights.map(<[f64]>::len).filter(|got| *got != tokens) {
        return Err(LoadError::Shape { name: WEIGHTS.to_owned(), expected: vec![tokens], got: vec![got] });
    }
    let bytes = tokens.checked_mul(dim).and_then(|numbers| numbers.checked_mul(4));
    let mut folded = Vec::<u8>::new();
    if bytes.is_none_or(|bytes| folded.try_reserve_exact(bytes).is_err()) {
        return Err(LoadError::Unsupported(format!("a table of {tokens} tokens with {dim} dimensions")));
    }
    let numbers = rows.to_f32();
    for token in 0..tokens {
        let row = mapping.map_or(token, |mapping| mapping[token]);
        if row >= count {
            let reason = format!("has row {row} for token {token}, where the table has {count} rows");
            return Err(LoadError::Tensor { name: MAPPING.to_owned(), reason });
        }
        let weight = weights.map_or(1.0, |weights| weights[token]);
        folded.extend(numbers[row * dim..][..dim].iter().flat_map(|number| product(*number, weight).to_le_bytes()));
    }
    Ok(Tensor::new(DType::F32, &[tokens, dim], folded.into())?)
}

#[expect(clippy::cast_possible_truncation, reason = "a table is used in f32")]
fn product(number: f32, weight: f64) -> f32 {
    (f64::from(number) * weight) as f32
}

/// Bytes of the table that a file's mapping and weights make, 0 without them: from its header.
pub(super) fn folded_bytes(path: &Path) -> u64 {
    let Some(shapes) = files::shapes(path) else { return 0 };
    let first = |name: &str| shapes.get(name).and_then(|shape| shape.first().copied());
    let columns = EMBEDDINGS.iter().find_map(|name| shapes.get(*name)?.get(1).copied());
    let tokens = first(MAPPING).or(first(WEIGHTS));
    tokens.zip(columns).map_or(0, |(tokens, columns)| tokens.saturating_mul(columns).saturating_mul(4))
}

fn not_a_table(rows: &Tensor) -> LoadError {
    LoadError::Unsupported(format!("a table of shape {:?}", rows.shape()))
}

/// A table of word embeddings is an encoder without layers.
fn encoder(words: Tensor, normalize: bool) -> Result<Encoder, LoadError> {
    let &[vocabulary, hidden] = words.shape() else { return Err(not_a_table(&words)) };
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
        activation: Activation::Relu,
        gated: false,
        causal: false,
        window: None,
        qk_norm: None,
        pooling: Pooling::Mean,
        normalize,
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
