//! Embedding models: files in, tables, encoders and token ids out.

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
mod cut;
mod format;
pub mod hf;
mod tokenizer;
mod trie;
mod words;

pub use cut::{Cut, CutError, Keep, Long, Sequences};
pub use format::ModelError;
use hf::{LoadError, Loaded, PairRules, Reranker, TextRules};
use tokenizer::Tokenizer;
pub use words::words;

/// The name of the model that is part of the binary.
pub const BUILTIN: &str = "builtin";

/// A model that embeds text.
#[derive(Debug)]
pub struct Model {
    name: String,
    offered_dimensions: Vec<u32>,
    sha256: String,
    kind: Kind,
}

/// How a model embeds.
#[derive(Debug)]
pub enum Kind {
    /// By the mean of its tokens' rows in a table of int8.
    Table(Box<TableModel>),
    /// By an encoder.
    Encoder(Box<EncoderModel>),
}

/// A table and how its texts are cut into tokens.
#[derive(Debug)]
pub struct TableModel {
    tokenizer: Tokenizer,
    /// The table, shared with the devices.
    pub table: Arc<Table>,
}

/// An encoder and how its texts are cut into tokens.
#[derive(Debug)]
pub struct EncoderModel {
    /// The encoder, shared with the devices.
    pub encoder: Arc<Encoder>,
    text: Option<TextRules>,
    /// Most tokens of a text where the request does not say.
    pub limit: usize,
    /// Prompts by name.
    pub prompts: BTreeMap<String, String>,
    /// Which of them is put before texts where the request does not say.
    pub default_prompt: Option<String>,
    /// Its architecture, as config.json names it.
    pub architecture: String,
    /// What makes it a cross-encoder, if it is one.
    pub reranker: Option<Reranker>,
    /// Bytes of its weights.
    pub bytes: u64,
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
            kind: Kind::Table(Box::new(TableModel {
                tokenizer: Tokenizer::new(&parts.pieces, parts.characters)?,
                table: Arc::new(Table::new(parts.dim, parts.values, parts.scales)),
            })),
        })
    }

    /// Loads a folder as HuggingFace lays them out, or a table of words.
    pub fn load(name: impl Into<String>, path: &Path) -> Result<Self, LoadError> {
        let Loaded { encoder, text, limit, prompts, default_prompt, kind: architecture, reranker, sha256 } =
            hf::load(path)?;
        let hidden = u32::try_from(encoder.config().hidden).unwrap_or(u32::MAX);
        let bytes = encoder.weights().bytes() + reranker.as_ref().map_or(0, |reranker| reranker.head.bytes());
        let offered_dimensions = if reranker.is_some() { vec![] } else { vec![hidden] };
        let encoder = Arc::new(encoder);
        let kind = EncoderModel { encoder, text, limit, prompts, default_prompt, architecture, reranker, bytes };
        let kind = Kind::Encoder(Box::new(kind));
        Ok(Self { name: name.into(), offered_dimensions, sha256, kind })
    }

    /// The encoder and what makes it a cross-encoder, if it is one.
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

    /// How it embeds.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Its table, where it embeds by one.
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

    /// Dimensions it was trained to be truncated to, largest first, the full ones included.
    pub fn offered_dimensions(&self) -> &[u32] {
        &self.offered_dimensions
    }

    /// Whether vectors of so many dimensions can be had: what it offers; of an encoder any number, since its files do
    /// not say for which it was trained.
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

    /// How it pools where the request does not say.
    pub fn pooling(&self) -> Pooling {
        match &self.kind {
            Kind::Table(_) => Pooling::Mean,
            Kind::Encoder(model) => model.encoder.config().pooling,
        }
    }

    /// Whether it scales vectors to unit length where the request does not say.
    pub fn normalize(&self) -> bool {
        match &self.kind {
            Kind::Table(_) => true,
            Kind::Encoder(model) => model.encoder.config().normalize,
        }
    }

    /// Most tokens of a sequence, and how many of them a text is cut to where the request does not say; `None`: any
    /// number.
    pub fn limits(&self) -> Option<(usize, usize)> {
        match &self.kind {
            Kind::Table(_) => None,
            Kind::Encoder(model) => Some((model.encoder.config().max_tokens, model.limit)),
        }
    }

    /// Whether it takes texts, and not only token ids.
    pub fn takes_texts(&self) -> bool {
        match &self.kind {
            Kind::Table(_) => true,
            Kind::Encoder(model) => model.text.is_some(),
        }
    }

    /// Whether it cuts texts by tables of our own, in nanoseconds a byte.
    pub fn tokenizes_fast(&self) -> bool {
        match &self.kind {
            Kind::Table(_) => true,
            Kind::Encoder(model) => model.text.as_ref().is_some_and(TextRules::is_fast),
        }
    }

    /// Appends the sequences of a text.
    pub fn cut(&self, text: &str, how: &Cut, out: &mut Sequences) -> Result<(), CutError> {
        let joined;
        let whole = if how.prompt.is_empty() {
            text
        } else {
            joined = [&how.prompt, text].concat();
            &joined
        };
        match &self.kind {
            Kind::Table(model) => {
                model.tokenizer.encode(whole, &mut out.ids);
                out.end_text();
                Ok(())
            }
            Kind::Encoder(model) => model.cut(whole, how, out),
        }
    }

    /// Appends the sequences of a text whose ids were made elsewhere, special ones included.
    pub fn cut_ids(&self, ids: &[u32], how: &Cut, out: &mut Sequences) -> Result<(), CutError> {
        let limit = match self.limits() {
            None => usize::MAX,
            Some((most, limit)) => how.limit.unwrap_or(limit).min(most),
        };
        cut::cut(ids, &[], (&[], &[]), limit, how, out)
    }

    /// Appends the token ids of a text, special ones included, cut to no length.
    pub fn tokenize(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), CutError> {
        match &self.kind {
            Kind::Table(model) => model.tokenizer.encode(text, ids),
            Kind::Encoder(model) => {
                let rules = model.text.as_ref().ok_or(CutError::NoTokenizer)?;
                let pieces = rules.pieces(text, false).map_err(CutError::Tokenizer)?;
                ids.extend(rules.before().iter().chain(&pieces.ids).chain(rules.after()));
            }
        }
        Ok(())
    }
}

impl EncoderModel {
    fn cut(&self, text: &str, how: &Cut, out: &mut Sequences) -> Result<(), CutError> {
        let rules = self.text.as_ref().ok_or(CutError::NoTokenizer)?;
        let most = self.encoder.config().max_tokens;
        let limit = how.limit.unwrap_or(self.limit);
        let least = rules.before().len() + rules.after().len() + 1;
        if !(least..=most).contains(&limit) {
            return Err(CutError::Limit { least, most, got: limit });
        }
        let pieces = rules.pieces(text, how.with_bytes).map_err(CutError::Tokenizer)?;
        cut::cut(&pieces.ids, &pieces.bytes, (rules.before(), rules.after()), limit, how, out)
    }
}

/// A query that pairs of a cross-encoder start with.
#[derive(Clone, Debug)]
pub struct Query {
    ids: Vec<u32>,
    room: usize,
}

impl EncoderModel {
    fn pair_rules(&self) -> Result<(&TextRules, &PairRules), CutError> {
        let pairs = self.reranker.as_ref().and_then(|reranker| reranker.pairs.as_ref());
        self.text.as_ref().zip(pairs).ok_or(CutError::NoTokenizer)
    }

    /// Splits the query of pairs of at most `limit` tokens, or as many as the model's own files say. Before it stands the
    /// default prompt of these files, as sentence-transformers has it; before a
    /// document stands none.
    pub fn query(&self, text: &str, limit: Option<usize>) -> Result<Query, CutError> {
        let (text_rules, pairs) = self.pair_rules()?;
        let limit = limit.unwrap_or(self.limit).min(self.encoder.config().max_tokens);
        let prompt = self.default_prompt.as_ref().and_then(|name| self.prompts.get(name)).map_or("", String::as_str);
        let ids = text_rules.pieces(&[prompt, text].concat(), false).map_err(CutError::Tokenizer)?.ids;
        let room = pairs.room(ids.len(), limit)?;
        Ok(Query { ids, room })
    }

    /// Appends the pair of a query and a document, of which only the end of the document is left out.
    pub fn pair(&self, query: &Query, document: &str, out: &mut Sequences) -> Result<(), CutError> {
        let (text_rules, pairs) = self.pair_rules()?;
        let ids = text_rules.pieces(document, false).map_err(CutError::Tokenizer)?.ids;
        pairs.put(&query.ids, &ids[..ids.len().min(query.room)], out);
        Ok(())
    }
}
