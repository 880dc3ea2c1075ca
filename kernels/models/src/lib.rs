//! Loads embedding models and tokenises their texts.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, OnceLock},
};

use accelerd_kernels::ops::{
    embed::Table,
    encode::{Encoder, Pooling},
};

mod characters;
mod error;
mod format;
pub mod hf;
mod sequences;
mod tokenizer;
mod trie;
mod words;

pub use error::ModelError;
use hf::{LoadError, Loaded, PairTemplate, Reranker, TextTokenizer};
use sequences::SequenceRules;
pub use sequences::{LongInput, Sequences, TokenizeError, TokenizeOptions, TruncationSide};
use tokenizer::Tokenizer;
pub use words::words;

/// Name of the model embedded in the binary.
pub const BUILTIN: &str = "builtin";

/// A model that embeds text.
#[derive(Debug)]
pub struct Model {
    name: String,
    offered_dimensions: Vec<u32>,
    sha256: String,
    digest: String,
    kind: Kind,
}

/// The way a model embeds: a table of token vectors, or an encoder.
#[derive(Debug)]
pub enum Kind {
    /// A static model: the mean of its tokens' rows in an int8 table.
    Table(Box<TableModel>),
    /// A transformer encoder.
    Encoder(Box<EncoderModel>),
}

/// An embedding table and its tokeniser.
#[derive(Debug)]
pub struct TableModel {
    tokenizer: Tokenizer,
    /// The table, shared with the devices.
    pub table: Arc<Table>,
}

/// An encoder and its tokeniser.
#[derive(Debug)]
pub struct EncoderModel {
    /// The encoder, shared with the devices.
    pub encoder: Arc<Encoder>,
    text: Option<TextTokenizer>,
    /// Default maximum of tokens.
    pub limit: usize,
    /// Prompts by name.
    pub prompts: BTreeMap<String, String>,
    /// Name of the default prompt.
    pub default_prompt: Option<String>,
    /// `model_type` of config.json.
    pub architecture: String,
    /// The classification head and pair template of a cross-encoder.
    pub reranker: Option<Reranker>,
    /// Bytes of its weights.
    pub bytes: u64,
}

impl Model {
    /// The model embedded in the binary, parsed on the first call.
    pub fn builtin() -> Arc<Self> {
        static MODEL: OnceLock<Arc<Model>> = OnceLock::new();
        let parse = || Self::parse(BUILTIN, include_bytes!("../builtin/table.bin"));
        Arc::clone(MODEL.get_or_init(|| Arc::new(parse().expect("a test parses the embedded file"))))
    }

    /// Reads a table file, in the format that `builtin/table.py` describes.
    pub fn parse(name: impl Into<String>, file: &[u8]) -> Result<Self, ModelError> {
        let parts = format::parse(file)?;
        Ok(Self {
            name: name.into(),
            offered_dimensions: parts.offered_dimensions,
            digest: parts.sha256.clone(),
            sha256: parts.sha256,
            kind: Kind::Table(Box::new(TableModel {
                tokenizer: Tokenizer::new(&parts.pieces, parts.characters)?,
                table: Arc::new(Table::new(parts.dim, parts.values, parts.scales)),
            })),
        })
    }

    /// Loads a folder in HuggingFace's layout, or a table of word embeddings.
    pub fn load(name: impl Into<String>, path: &Path) -> Result<Self, LoadError> {
        let Loaded { encoder, text, limit, prompts, default_prompt, kind: architecture, reranker, sha256, digest } =
            hf::load(path)?;
        let hidden = u32::try_from(encoder.config().hidden).unwrap_or(u32::MAX);
        let bytes = encoder.weights().bytes() + reranker.as_ref().map_or(0, |reranker| reranker.head.bytes());
        let offered_dimensions = if reranker.is_some() { vec![] } else { vec![hidden] };
        let encoder = Arc::new(encoder);
        let kind = EncoderModel { encoder, text, limit, prompts, default_prompt, architecture, reranker, bytes };
        let kind = Kind::Encoder(Box::new(kind));
        Ok(Self { name: name.into(), offered_dimensions, sha256, digest, kind })
    }

    /// The encoder and head of a cross-encoder.
    pub fn reranker(&self) -> Option<(&EncoderModel, &Reranker)> {
        match &self.kind {
            Kind::Table(_) => None,
            Kind::Encoder(model) => model.reranker.as_ref().map(|reranker| (model.as_ref(), reranker)),
        }
    }

    /// Its name in requests.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The way it embeds.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Its table, if it is a static model.
    pub fn table(&self) -> Option<&Arc<Table>> {
        match &self.kind {
            Kind::Table(model) => Some(&model.table),
            Kind::Encoder(_) => None,
        }
    }

    /// Dimensions of its full vectors.
    pub fn dimensions(&self) -> usize {
        match &self.kind {
            Kind::Table(model) => model.table.dim,
            Kind::Encoder(model) => model.encoder.config().hidden,
        }
    }

    /// Dimensions that it was trained to be truncated to (matryoshka), largest first, the full ones included.
    pub fn offered_dimensions(&self) -> &[u32] {
        &self.offered_dimensions
    }

    /// Returns true if vectors can have this many dimensions. An encoder supports any number, since its files do not state
    /// those it was trained for.
    pub fn offers(&self, dimensions: u32) -> bool {
        match &self.kind {
            Kind::Table(_) => self.offered_dimensions.contains(&dimensions),
            Kind::Encoder(_) => (1..=self.dimensions()).contains(&(dimensions as usize)),
        }
    }

    /// Rows of its vocabulary.
    pub fn vocabulary_size(&self) -> usize {
        match &self.kind {
            Kind::Table(model) => model.table.scales.len(),
            Kind::Encoder(model) => model.encoder.config().vocabulary,
        }
    }

    /// Bytes of its weights.
    pub fn bytes(&self) -> u64 {
        match &self.kind {
            Kind::Table(model) => (model.table.values.len() + 4 * model.table.scales.len()) as u64,
            Kind::Encoder(model) => model.bytes,
        }
    }

    /// SHA-256 of its weights' files, in hexadecimal.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// SHA-256 of its weights, configuration and tokeniser, in hexadecimal. Models with equal digests compute the same
    /// vectors.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Default pooling.
    pub fn pooling(&self) -> Pooling {
        match &self.kind {
            Kind::Table(_) => Pooling::Mean,
            Kind::Encoder(model) => model.encoder.config().pooling,
        }
    }

    /// Returns true if vectors have unit length by default.
    pub fn normalize(&self) -> bool {
        match &self.kind {
            Kind::Table(_) => true,
            Kind::Encoder(model) => model.encoder.config().normalize,
        }
    }

    /// Maximum and default maximum of tokens per sequence; `None`: unlimited.
    pub fn limits(&self) -> Option<(usize, usize)> {
        match &self.kind {
            Kind::Table(_) => None,
            Kind::Encoder(model) => Some((model.encoder.config().max_tokens, model.limit)),
        }
    }

    /// Returns true if it has a tokeniser; else it accepts only token ids.
    pub fn takes_texts(&self) -> bool {
        match &self.kind {
            Kind::Table(_) => true,
            Kind::Encoder(model) => model.text.is_some(),
        }
    }

    /// Returns true if it has a native tokeniser, at nanoseconds per byte.
    pub fn tokenizes_fast(&self) -> bool {
        match &self.kind {
            Kind::Table(_) => true,
            Kind::Encoder(model) => model.text.as_ref().is_some_and(TextTokenizer::is_fast),
        }
    }

    /// Tokenises a text and appends its sequences.
    pub fn tokenize(&self, text: &str, options: &TokenizeOptions, out: &mut Sequences) -> Result<(), TokenizeError> {
        let joined;
        let whole = if options.prompt.is_empty() {
            text
        } else {
            joined = [&options.prompt, text].concat();
            &joined
        };
        match &self.kind {
            Kind::Table(model) => {
                model.tokenizer.encode(whole, |id, _| out.ids.push(id));
                out.end_text();
                Ok(())
            }
            Kind::Encoder(model) => model.tokenize(whole, options, out),
        }
    }

    /// Appends the sequences of a text given as token ids, special tokens included.
    pub fn split_ids(&self, ids: &[u32], options: &TokenizeOptions, out: &mut Sequences) -> Result<(), TokenizeError> {
        let limit = match self.limits() {
            None => usize::MAX,
            Some((maximum, limit)) => options.max_tokens.unwrap_or(limit).min(maximum),
        };
        let truncation_side = match &self.kind {
            Kind::Table(_) => TruncationSide::default(),
            Kind::Encoder(model) => model.truncation_side(),
        };
        let rules = SequenceRules { truncation_side, ..SequenceRules::default() };
        sequences::split(ids, &[], rules, limit, options, out)
    }

    /// Appends the token ids of a text, special tokens included, without truncation.
    pub fn token_ids(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), TokenizeError> {
        match &self.kind {
            Kind::Table(model) => model.tokenizer.encode(text, |id, _| ids.push(id)),
            Kind::Encoder(model) => {
                let rules = model.text.as_ref().ok_or(TokenizeError::NoTokenizer)?;
                let pieces = rules.pieces(text, false).map_err(TokenizeError::Tokenizer)?;
                let left_out = rules.static_rules().left_out;
                let kept = pieces.ids.iter().filter(|id| left_out != Some(**id));
                ids.extend(rules.before().iter().chain(kept).chain(rules.after()));
            }
        }
        Ok(())
    }

    /// As [`Self::token_ids`], as a text with the byte range of each token.
    pub fn token_spans(&self, text: &str, out: &mut Sequences) -> Result<(), TokenizeError> {
        let Sequences { ids, bytes, .. } = out;
        let mut append = |id, range| {
            ids.push(id);
            bytes.push(range);
        };
        match &self.kind {
            Kind::Table(model) => model.tokenizer.encode(text, append),
            Kind::Encoder(model) => {
                let rules = model.text.as_ref().ok_or(TokenizeError::NoTokenizer)?;
                let pieces = rules.pieces(text, true).map_err(TokenizeError::Tokenizer)?;
                let left_out = rules.static_rules().left_out;
                rules.before().iter().for_each(|id| append(*id, 0..0));
                let pieces = pieces.ids.into_iter().zip(pieces.bytes);
                pieces.filter(|(id, _)| left_out != Some(*id)).for_each(|(id, range)| append(id, range));
                rules.after().iter().for_each(|id| append(*id, text.len()..text.len()));
            }
        }
        out.end_text();
        Ok(())
    }

    /// The special tokens before and after each text.
    pub fn special_tokens(&self) -> (&[u32], &[u32]) {
        self.text_tokenizer().map_or((&[], &[]), |rules| (rules.before(), rules.after()))
    }

    /// The text of a special token.
    pub fn special_text(&self, id: u32) -> Option<String> {
        self.text_tokenizer()?.token_text(id)
    }

    fn text_tokenizer(&self) -> Option<&TextTokenizer> {
        match &self.kind {
            Kind::Table(_) => None,
            Kind::Encoder(model) => model.text.as_ref(),
        }
    }
}

impl EncoderModel {
    /// Which end of a long text is left out by default.
    fn truncation_side(&self) -> TruncationSide {
        self.text.as_ref().map_or_else(TruncationSide::default, TextTokenizer::truncation_side)
    }

    fn tokenize(&self, text: &str, options: &TokenizeOptions, out: &mut Sequences) -> Result<(), TokenizeError> {
        let rules = self.text.as_ref().ok_or(TokenizeError::NoTokenizer)?;
        let maximum = self.encoder.config().max_tokens;
        let limit = options.max_tokens.unwrap_or(self.limit);
        let minimum = rules.before().len() + rules.after().len() + 1;
        if !(minimum..=maximum).contains(&limit) {
            return Err(TokenizeError::Limit { least: minimum, most: maximum, got: limit });
        }
        let own = rules.static_rules();
        let is_start =
            options.long_input == LongInput::Truncate && options.truncation_side != Some(TruncationSide::Left);
        let text = if is_start { own.start_of(text, limit) } else { text };
        let pieces = rules.pieces(text, options.with_offsets).map_err(TokenizeError::Tokenizer)?;
        let rules = SequenceRules {
            before: rules.before(),
            after: rules.after(),
            left_out: own.left_out,
            truncation_side: rules.truncation_side(),
        };
        sequences::split(&pieces.ids, &pieces.bytes, rules, limit, options, out)
    }
}

/// The tokenised query of a cross-encoder's pairs.
#[derive(Clone, Debug)]
pub struct Query {
    ids: Vec<u32>,
    room: usize,
}

impl EncoderModel {
    fn pair_rules(&self) -> Result<(&TextTokenizer, &PairTemplate), TokenizeError> {
        let pairs = self.reranker.as_ref().and_then(|reranker| reranker.pairs.as_ref());
        self.text.as_ref().zip(pairs).ok_or(TokenizeError::NoTokenizer)
    }

    /// Tokenises the query of pairs of at most `limit` tokens, by default the model's limit. The model's default prompt
    /// precedes the query, but not documents, as in sentence-transformers.
    pub fn query(&self, text: &str, limit: Option<usize>) -> Result<Query, TokenizeError> {
        let (text_rules, pairs) = self.pair_rules()?;
        let limit = limit.unwrap_or(self.limit).min(self.encoder.config().max_tokens);
        let prompt = self.default_prompt.as_ref().and_then(|name| self.prompts.get(name)).map_or("", String::as_str);
        let ids = text_rules.pieces(&[prompt, text].concat(), false).map_err(TokenizeError::Tokenizer)?.ids;
        let room = pairs.room(ids.len(), limit)?;
        Ok(Query { ids, room })
    }

    /// Appends the pair of a query and a document; only the document is truncated, at the model's side.
    pub fn pair(&self, query: &Query, document: &str, out: &mut Sequences) -> Result<(), TokenizeError> {
        let (text_rules, pairs) = self.pair_rules()?;
        let ids = text_rules.pieces(document, false).map_err(TokenizeError::Tokenizer)?.ids;
        let left_out = ids.len().saturating_sub(query.room);
        let kept = match self.truncation_side() {
            TruncationSide::Right => 0..ids.len() - left_out,
            TruncationSide::Left => left_out..ids.len(),
        };
        pairs.append(&query.ids, &ids[kept], out);
        Ok(())
    }
}
