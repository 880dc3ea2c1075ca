//! Pairs of a query and a document, by the tokeniser's template.
//!
//! The template is derived from the positions of two short texts among the special tokens, and verified against the
//! tokeniser's own pairs when a model is loaded. A query is then tokenised once, not once per document.

use std::path::Path;

use tokenizers::Encoding;

use super::{error::LoadError, fields::Fields, files::optional_object, text::TextTokenizer, tokenizer_settings::FILE};
use crate::sequences::{Sequences, TokenizeError};

/// Special tokens with their token types.
type Specials = Vec<(u32, u32)>;

/// The special tokens and token types of a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairTemplate {
    before: Specials,
    between: Specials,
    after: Specials,
    /// Token types of the query and of the document.
    types: (u32, u32),
    /// True if the model has token types.
    typed: bool,
}

/// Two pairs to derive and verify a template.
const PROBES: [(&str, &str); 2] = [("a", "b"), ("b a", "a b a b")];

impl PairTemplate {
    /// Derives the template of a folder's tokeniser, for a model with `token_types` token types.
    pub(super) fn find(folder: &Path, rules: &TextTokenizer, token_types: usize) -> Result<Self, LoadError> {
        let wrong = |reason: String| LoadError::format(folder.join("tokenizer.json"), reason);
        let typed = token_types > 1 && takes_types(folder)?;
        let template = Self::of(rules, typed).map_err(wrong)?;
        let highest = template.highest_type();
        if typed && highest as usize >= token_types {
            return Err(wrong(format!("has pairs of token type {highest}, the model {token_types} types")));
        }
        Ok(template)
    }

    fn of(rules: &TextTokenizer, typed: bool) -> Result<Self, String> {
        let encode = |(query, document)| rules.tokenizer.encode((query, document), true).map_err(|e| e.to_string());
        let template = Self::in_encoding(&encode(PROBES[0])?, typed).ok_or("has no template for a pair of texts")?;
        for (query, document) in PROBES {
            let whole = encode((query, document))?;
            let mut own = Sequences::default();
            let query = rules.pieces(query, false)?.ids;
            let document = rules.pieces(document, false)?.ids;
            template.append(&query, &document, &mut own);
            if own.ids != whole.get_ids() || (typed && own.types != whole.get_type_ids()) {
                return Err("has a template for pairs that is not a plain concatenation".to_owned());
            }
        }
        Ok(template)
    }

    fn in_encoding(pair: &Encoding, typed: bool) -> Option<Self> {
        let part_of = pair.get_sequence_ids();
        let tokens = |which: usize| {
            let first = part_of.iter().position(|part| *part == Some(which))?;
            let last = part_of.iter().rposition(|part| *part == Some(which))?;
            Some(first..last + 1)
        };
        let query = tokens(0)?;
        let document = tokens(1)?;
        let ids = pair.get_ids();
        let types = pair.get_type_ids();
        let special = |at: std::ops::Range<usize>| -> Option<Specials> {
            Some(ids.get(at.clone())?.iter().copied().zip(types.get(at)?.iter().copied()).collect())
        };
        Some(Self {
            before: special(0..query.start)?,
            between: special(query.end..document.start)?,
            after: special(document.end..ids.len())?,
            types: (*types.get(query.start)?, *types.get(document.start)?),
            typed,
        })
    }

    fn highest_type(&self) -> u32 {
        let specials = [&self.before, &self.between, &self.after].into_iter().flatten().map(|(_, kind)| *kind);
        specials.chain([self.types.0, self.types.1]).max().unwrap_or(0)
    }

    /// Special tokens of a pair.
    fn specials(&self) -> usize {
        self.before.len() + self.between.len() + self.after.len()
    }

    /// Maximum of tokens of a document after a query of `query` tokens, in a pair of at most `limit`; at least 1.
    pub(crate) fn room(&self, query: usize, limit: usize) -> Result<usize, TokenizeError> {
        let room = limit.saturating_sub(self.specials());
        if query >= room {
            return Err(TokenizeError::LongQuery { most: room.saturating_sub(1), limit, tokens: query });
        }
        Ok(room - query)
    }

    /// Appends a pair as a text with one sequence.
    pub(crate) fn append(&self, query: &[u32], document: &[u32], out: &mut Sequences) {
        let specials = |of: &Specials| of.iter().map(|(id, _)| *id).collect::<Vec<_>>();
        let parts = [&specials(&self.before), query, &specials(&self.between), document, &specials(&self.after)];
        for ids in parts {
            out.ids.extend(ids);
        }
        if self.typed {
            let kinds = |of: &Specials| of.iter().map(|(_, kind)| *kind).collect::<Vec<_>>();
            out.types.extend(kinds(&self.before));
            out.types.extend(std::iter::repeat_n(self.types.0, query.len()));
            out.types.extend(kinds(&self.between));
            out.types.extend(std::iter::repeat_n(self.types.1, document.len()));
            out.types.extend(kinds(&self.after));
        }
        out.end_text();
    }
}

/// Returns true if tokenizer_config.json allows token types: it may list the model's inputs.
fn takes_types(folder: &Path) -> Result<bool, LoadError> {
    let settings = optional_object(&folder.join(FILE))?.unwrap_or_default();
    let inputs = Fields::new(FILE, &settings).texts(&["model_input_names"])?;
    Ok(inputs.is_none_or(|names| names.contains(&"token_type_ids")))
}
