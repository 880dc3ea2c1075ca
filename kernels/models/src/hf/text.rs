//! Tokenises texts by a tokenizer.json.

use std::{ops::Range, panic::catch_unwind, path::Path};

use serde::de::IgnoredAny;
use tokenizers::Tokenizer;

use super::{error::LoadError, files::read_optional, wordpiece::WordPiece};

/// A tokeniser, and the special tokens that it adds to a text.
pub struct TextTokenizer {
    pub(super) tokenizer: Tokenizer,
    /// The native implementation, for BERT's family.
    wordpiece: Option<WordPiece>,
    before: Vec<u32>,
    after: Vec<u32>,
}

impl std::fmt::Debug for TextTokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TextTokenizer")
            .field("before", &self.before)
            .field("after", &self.after)
            .finish_non_exhaustive()
    }
}

/// Parses tokenizer.json. `tokenizers` panics on some invalid files.
fn parsed(bytes: &[u8]) -> Result<Tokenizer, String> {
    serde_json::from_slice::<IgnoredAny>(bytes).map_err(|error| error.to_string())?;
    match catch_unwind(|| Tokenizer::from_bytes(bytes)) {
        Ok(parsed) => parsed.map_err(|error| error.to_string()),
        Err(_) => Err("does not describe a tokeniser".to_owned()),
    }
}

/// Token ids of a text without special tokens, and their byte ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pieces {
    /// The ids.
    pub ids: Vec<u32>,
    /// The byte range of each token; empty without `with_offsets`.
    pub bytes: Vec<Range<usize>>,
}

impl TextTokenizer {
    /// Reads tokenizer.json, if it exists. Its padding and truncation are cleared: batches are packed without padding,
    /// and the limit comes from the model's configuration.
    pub fn read(folder: &Path, vocabulary: usize) -> Result<Option<Self>, LoadError> {
        let path = folder.join("tokenizer.json");
        let Some(bytes) = read_optional(&path)? else { return Ok(None) };
        let mut tokenizer = parsed(&bytes).map_err(|error| LoadError::format(&path, error))?;
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|error| LoadError::format(&path, error))?;
        let highest = tokenizer.get_vocab(true).into_values().max().map_or(0, |id| id as usize + 1);
        if highest > vocabulary {
            return Err(LoadError::TokenizerMismatch { tokens: highest, words: vocabulary });
        }
        let wordpiece = WordPiece::of(&tokenizer);
        let mut tokenizer = Self { tokenizer, wordpiece, before: vec![], after: vec![] };
        tokenizer.find_special_tokens().map_err(|error| LoadError::format(&path, error))?;
        Ok(Some(tokenizer))
    }

    /// Finds the special tokens before and after the pieces of a probe text.
    fn find_special_tokens(&mut self) -> Result<(), String> {
        let ids = |specials| {
            let encoded = self.tokenizer.encode_fast("a", specials).map_err(|error| error.to_string())?;
            Ok::<_, String>(encoded.get_ids().to_vec())
        };
        let bare = ids(false)?;
        let whole = ids(true)?;
        let found = whole.windows(bare.len().max(1)).position(|ids| ids == bare).filter(|_| !bare.is_empty());
        let index = found.ok_or("its post-processor changes the pieces of a text")?;
        self.before = whole[..index].to_vec();
        self.after = whole[index + bare.len()..].to_vec();
        Ok(())
    }

    /// Returns true if it has a native implementation.
    pub fn is_fast(&self) -> bool {
        self.wordpiece.is_some()
    }

    /// Special tokens before a text.
    pub fn before(&self) -> &[u32] {
        &self.before
    }

    /// Special tokens after a text.
    pub fn after(&self) -> &[u32] {
        &self.after
    }

    /// The pieces of a text.
    pub fn pieces(&self, text: &str, with_offsets: bool) -> Result<Pieces, String> {
        if !with_offsets {
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
