//! Pairs of a query and a document to token ids, as the tokeniser's own template puts them together.
//!
//! A template is found by looking where the pieces of two short texts stand among its special tokens. A query is then
//! split once, and not once a document; what comes of it is checked against the tokeniser's own pairs when a model is
//! loaded.

use std::path::Path;

use tokenizers::Encoding;

use super::{error::LoadError, fields::Fields, files::object_if_there, text::TextRules};
use crate::cut::{CutError, Sequences};

/// Ids of special tokens, with their types.
type Specials = Vec<(u32, u32)>;

/// What stands around the pieces of a query and of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairRules {
    before: Specials,
    between: Specials,
    after: Specials,
    /// Types of the query's and of the document's tokens.
    types: (u32, u32),
    /// Whether the model reads types.
    typed: bool,
}

/// Two pairs by which a template is found and checked.
const PROBES: [(&str, &str); 2] = [("a", "b"), ("b a", "a b a b")];

impl PairRules {
    /// Finds the template of a folder's tokeniser, for a model that tells `token_types` kinds of tokens apart.
    pub(super) fn find(folder: &Path, rules: &TextRules, token_types: usize) -> Result<Self, LoadError> {
        let wrong = |reason: String| LoadError::format(folder.join("tokenizer.json"), reason);
        let typed = token_types > 1 && takes_types(folder)?;
        let found = Self::of(rules, typed).map_err(wrong)?;
        let highest = found.highest_type();
        if typed && highest as usize >= token_types {
            return Err(wrong(format!("has pairs of token type {highest}, the model {token_types} types")));
        }
        Ok(found)
    }

    fn of(rules: &TextRules, typed: bool) -> Result<Self, String> {
        let encode = |(query, document)| rules.tokenizer.encode((query, document), true).map_err(|e| e.to_string());
        let found = Self::in_encoding(&encode(PROBES[0])?, typed).ok_or("has no template for a pair of texts")?;
        for (query, document) in PROBES {
            let whole = encode((query, document))?;
            let mut own = Sequences::default();
            let (query, document) = (rules.pieces(query, false)?.ids, rules.pieces(document, false)?.ids);
            found.put(&query, &document, &mut own);
            if own.ids != whole.get_ids() || (typed && own.types != whole.get_type_ids()) {
                return Err("puts pairs of texts together in no plain order".to_owned());
            }
        }
        Ok(found)
    }

    fn in_encoding(pair: &Encoding, typed: bool) -> Option<Self> {
        let part_of = pair.get_sequence_ids();
        let tokens = |which: usize| {
            let first = part_of.iter().position(|part| *part == Some(which))?;
            let last = part_of.iter().rposition(|part| *part == Some(which))?;
            Some(first..last + 1)
        };
        let (query, document) = (tokens(0)?, tokens(1)?);
        let (ids, types) = (pair.get_ids(), pair.get_type_ids());
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

    /// Tokens of a document that fit behind a query of so many, where a pair has at most `limit`. There must be room for
    /// one.
    pub(crate) fn room(&self, query: usize, limit: usize) -> Result<usize, CutError> {
        let room = limit.saturating_sub(self.specials());
        if query >= room {
            return Err(CutError::LongQuery { most: room.saturating_sub(1), limit, tokens: query });
        }
        Ok(room - query)
    }

    /// Appends a pair of pieces as a text of one sequence.
    pub(crate) fn put(&self, query: &[u32], document: &[u32], out: &mut Sequences) {
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

/// Whether the tokeniser's settings let a model have token types; they may name its inputs.
fn takes_types(folder: &Path) -> Result<bool, LoadError> {
    let settings = object_if_there(&folder.join("tokenizer_config.json"))?.unwrap_or_default();
    let inputs = Fields(&settings).texts(&["model_input_names"])?;
    Ok(inputs.is_none_or(|names| names.contains(&"token_type_ids")))
}
