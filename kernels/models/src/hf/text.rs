//! Tokenises texts by a tokenizer.json.

use std::{ops::Range, panic::catch_unwind, path::Path};

use serde::{Deserialize, de::IgnoredAny};
use tokenizers::{Tokenizer, TruncationDirection};

use super::{
    error::LoadError,
    files::read_optional,
    tokenizer_settings::{TokenizerSettings, lowercase_first},
    wordpiece::WordPiece,
};
use crate::sequences::TruncationSide;

/// The tokeniser.
pub(super) const FILE: &str = "tokenizer.json";

/// A tokeniser, and the special tokens that it adds to a text.
pub struct TextTokenizer {
    pub(super) tokenizer: Tokenizer,
    /// The native implementation, for BERT's family.
    wordpiece: Option<WordPiece>,
    before: Vec<u32>,
    after: Vec<u32>,
    truncation_side: TruncationSide,
    /// The truncation in tokenizer.json, in tokens.
    max_tokens: Option<usize>,
    rules: StaticRules,
}

/// What model2vec does to texts and tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StaticRules {
    /// The unknown token, which is left out.
    pub left_out: Option<u32>,
    /// Characters of a text that are read for each token of the limit: the median length of a token. `None`: all.
    pub characters_per_token: Option<usize>,
}

impl StaticRules {
    /// The start of a text that can have `limit` tokens.
    pub(crate) fn start_of(self, text: &str, limit: usize) -> &str {
        let characters = self.characters_per_token.and_then(|characters| characters.checked_mul(limit));
        let end = characters.and_then(|characters| text.char_indices().nth(characters));
        end.map_or(text, |(end, _)| &text[..end])
    }
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

/// The part of tokenizer.json that names the unknown token, by its text or its id.
#[derive(Deserialize)]
struct UnknownToken {
    model: UnknownTokenOfModel,
}

#[derive(Deserialize)]
struct UnknownTokenOfModel {
    unk_token: Option<String>,
    unk_id: Option<u32>,
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
    /// Reads tokenizer.json, if it exists, and changes it as the settings say; `lowercase` is set if texts are lower-cased
    /// first. Its padding and truncation are cleared: batches are packed without padding, and the limit comes from the
    /// model's configuration.
    pub(super) fn read(
        folder: &Path,
        vocabulary: usize,
        architecture: &str,
        settings: &TokenizerSettings,
        lowercase: bool,
    ) -> Result<Option<Self>, LoadError> {
        let path = folder.join(FILE);
        let Some(bytes) = read_optional(&path)? else { return Ok(None) };
        let mut text = Self::parse(&path, &bytes)?;
        text.truncation_side = settings.truncation_side()?.unwrap_or(text.truncation_side);
        settings.apply(&mut text.tokenizer, architecture)?;
        if lowercase {
            lowercase_first(&mut text.tokenizer);
        }
        text.find_special_tokens(&path)?;
        text.fit(vocabulary).map(Some)
    }

    /// Reads tokenizer.json of a static model, if it exists. Such a model has no special tokens around a text.
    pub fn read_static(folder: &Path, vocabulary: usize) -> Result<Option<Self>, LoadError> {
        let path = folder.join(FILE);
        let Some(bytes) = read_optional(&path)? else { return Ok(None) };
        Self::parse(&path, &bytes)?.fit(vocabulary).map(Some)
    }

    /// Reads tokenizer.json of model2vec, if it exists: the unknown token is left out, and long texts are cut by characters
    /// before they are cut by tokens.
    pub(super) fn read_model2vec(folder: &Path, vocabulary: usize) -> Result<Option<Self>, LoadError> {
        let path = folder.join(FILE);
        let Some(bytes) = read_optional(&path)? else { return Ok(None) };
        let mut text = Self::parse(&path, &bytes)?;
        let unknown: UnknownToken = serde_json::from_slice(&bytes).map_err(|error| LoadError::format(&path, error))?;
        let UnknownTokenOfModel { unk_token, unk_id } = unknown.model;
        let left_out = unk_token.map_or(unk_id, |token| text.tokenizer.token_to_id(&token));
        text.rules = StaticRules { left_out, characters_per_token: Some(text.median_token_length()) };
        text.truncation_side = TruncationSide::Right;
        text.fit(vocabulary).map(Some)
    }

    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, LoadError> {
        let mut tokenizer = parsed(bytes).map_err(|error| LoadError::format(path, error))?;
        let truncation = tokenizer.get_truncation().cloned();
        let is_left = truncation.as_ref().is_some_and(|cut| cut.direction == TruncationDirection::Left);
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|error| LoadError::format(path, error))?;
        Ok(Self {
            tokenizer,
            wordpiece: None,
            before: vec![],
            after: vec![],
            truncation_side: if is_left { TruncationSide::Left } else { TruncationSide::Right },
            max_tokens: truncation.map(|truncation| truncation.max_length),
            rules: StaticRules::default(),
        })
    }

    /// Checks that all tokens are rows of the model, and prepares the native implementation.
    fn fit(mut self, vocabulary: usize) -> Result<Self, LoadError> {
        let highest = self.tokenizer.get_vocab(true).into_values().max().map_or(0, |id| id as usize + 1);
        if highest > vocabulary {
            return Err(LoadError::TokenizerMismatch { tokens: highest, words: vocabulary });
        }
        self.wordpiece = WordPiece::of(&self.tokenizer);
        Ok(self)
    }

    /// The median length of a token in characters, rounded down.
    fn median_token_length(&self) -> usize {
        let vocabulary = self.tokenizer.get_vocab(true);
        let mut lengths: Vec<_> = vocabulary.keys().map(|token| token.chars().count()).collect();
        lengths.sort_unstable();
        let middle = lengths.len() / 2;
        match (lengths.get(middle), lengths.len().is_multiple_of(2)) {
            (Some(upper), true) => usize::midpoint(lengths[middle - 1], *upper),
            (Some(middle), false) => *middle,
            (None, _) => 0,
        }
    }

    /// Finds the special tokens before and after the pieces of a probe text.
    fn find_special_tokens(&mut self, path: &Path) -> Result<(), LoadError> {
        let ids = |specials| {
            let encoded = self.tokenizer.encode_fast("a", specials).map_err(|error| LoadError::format(path, error))?;
            Ok::<_, LoadError>(encoded.get_ids().to_vec())
        };
        let bare = ids(false)?;
        let whole = ids(true)?;
        let found = whole.windows(bare.len().max(1)).position(|ids| ids == bare).filter(|_| !bare.is_empty());
        let changed = || LoadError::format(path, "its post-processor changes the pieces of a text");
        let index = found.ok_or_else(changed)?;
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

    /// The text of a token in the vocabulary.
    pub fn token_text(&self, id: u32) -> Option<String> {
        self.tokenizer.id_to_token(id)
    }

    /// Which end of a long text is left out by default.
    pub fn truncation_side(&self) -> TruncationSide {
        self.truncation_side
    }

    /// Maximum of tokens by tokenizer.json, which only sentence-transformers' static models obey.
    pub(super) fn max_tokens(&self) -> Option<usize> {
        self.max_tokens
    }

    /// What a static model does to texts and tokens.
    pub fn static_rules(&self) -> StaticRules {
        self.rules
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
