//! Texts to token ids, by a tokenizer.json.

use std::{ops::Range, panic::catch_unwind, path::Path};

use serde::de::IgnoredAny;
use tokenizers::Tokenizer;

use super::{error::LoadError, files::read_if_there, wordpiece::WordPiece};

/// A tokeniser, and what it puts around a text.
pub struct TextRules {
    pub(super) tokenizer: Tokenizer,
    /// The same faster, where it is of BERT's family.
    wordpiece: Option<WordPiece>,
    before: Vec<u32>,
    after: Vec<u32>,
}

impl std::fmt::Debug for TextRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TextRules").field("before", &self.before).field("after", &self.after).finish_non_exhaustive()
    }
}

/// A tokeniser from its file. The library panics at some files that are none.
fn parsed(bytes: &[u8]) -> Result<Tokenizer, String> {
    serde_json::from_slice::<IgnoredAny>(bytes).map_err(|error| error.to_string())?;
    match catch_unwind(|| Tokenizer::from_bytes(bytes)) {
        Ok(parsed) => parsed.map_err(|error| error.to_string()),
        Err(_) => Err("is not the description of a tokeniser".to_owned()),
    }
}

/// Ids of a text without what stands around it, and the bytes that each comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pieces {
    /// The ids.
    pub ids: Vec<u32>,
    /// As many ranges of bytes; empty where they were not asked for.
    pub bytes: Vec<Range<usize>>,
}

impl TextRules {
    /// Reads tokenizer.json, if it is there. Padding and truncation that are baked into it are cleared: a batch has no
    /// padding here, and the limit comes from the model's configuration.
    pub fn read(folder: &Path, vocabulary: usize) -> Result<Option<Self>, LoadError> {
        let path = folder.join("tokenizer.json");
        let Some(bytes) = read_if_there(&path)? else { return Ok(None) };
        let mut tokenizer = parsed(&bytes).map_err(|error| LoadError::format(&path, error))?;
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|error| LoadError::format(&path, error))?;
        let highest = tokenizer.get_vocab(true).into_values().max().map_or(0, |id| id as usize + 1);
        if highest > vocabulary {
            return Err(LoadError::TokenizerMismatch { tokens: highest, words: vocabulary });
        }
        let wordpiece = WordPiece::of(&tokenizer);
        let mut rules = Self { tokenizer, wordpiece, before: vec![], after: vec![] };
        rules.find_surroundings().map_err(|error| LoadError::format(&path, error))?;
        Ok(Some(rules))
    }

    /// Looks where the pieces of a text stand in the same text with special tokens.
    fn find_surroundings(&mut self) -> Result<(), String> {
        let ids = |specials| {
            let encoded = self.tokenizer.encode_fast("a", specials).map_err(|error| error.to_string())?;
            Ok::<_, String>(encoded.get_ids().to_vec())
        };
        let (bare, whole) = (ids(false)?, ids(true)?);
        let found = whole.windows(bare.len().max(1)).position(|ids| ids == bare).filter(|_| !bare.is_empty());
        let at = found.ok_or("its post-processor changes the pieces of a text")?;
        self.before = whole[..at].to_vec();
        self.after = whole[at + bare.len()..].to_vec();
        Ok(())
    }

    /// Whether texts are cut by tables of our own.
    pub fn is_fast(&self) -> bool {
        self.wordpiece.is_some()
    }

    /// Tokens that are put before every text.
    pub fn before(&self) -> &[u32] {
        &self.before
    }

    /// Tokens that are put behind every text.
    pub fn after(&self) -> &[u32] {
        &self.after
    }

    /// Pieces of a text, with their bytes where asked.
    pub fn pieces(&self, text: &str, with_bytes: bool) -> Result<Pieces, String> {
        if !with_bytes {
            if let Some(ids) = self.wordpiece.as_ref().and_then(|wordpiece| wordpiece.encode(text)) {
                return Ok(Pieces { ids, bytes: vec![] });
            }
            let encoded = self.tokenizer.encode_fast(text, false).map_err(|error| error.to_string())?;
            return Ok(Pieces { ids: encoded.get_ids().to_vec(), bytes: vec![] });
        }
        let encoded = self.tokenizer.encode(text, false).map_err(|error| error.to_string())?;
        let bytes = encoded.get_offsets().iter().map(|(start, end)| *start..*end).collect();
        Ok(Pieces { ids: encoded.get_ids().to_vec(), bytes })
    }
}
