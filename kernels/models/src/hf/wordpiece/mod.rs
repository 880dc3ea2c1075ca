//! A one-pass WordPiece tokeniser: the ids of `BertNormalizer`, `BertPreTokenizer` and `WordPiece` of `tokenizers`,
//! several times faster.
//!
//! Falls back to `tokenizers` for texts with an added token, and for the few characters whose normalisation depends on
//! their neighbours.

use tokenizers::{AddedToken, AddedVocabulary, Model, ModelWrapper, NormalizerWrapper, PreTokenizerWrapper, Tokenizer};

mod characters;
#[cfg(test)]
mod tests;
mod trie;

use characters::{Characters, Part, Plain};
use trie::Trie;

/// Texts to compare both implementations on at load.
const PROBES: [&str; 4] =
    ["a", "Hello, World! (don't)", "naïve Straße 東京 #1\t\u{a0}x", "unaffable qwzx ##ing [ UNK ]"];

/// A `tokenizer.json` of BERT's family.
pub(super) struct WordPiece {
    characters: Characters,
    /// Pieces that start a word.
    starts: Trie,
    /// Pieces that continue one, without their prefix.
    inner: Trie,
    /// The token of a word without pieces.
    unknown: u32,
    /// Maximum of characters of a word; longer words are unknown.
    longest: usize,
    added: Vec<String>,
    /// The first bytes of added tokens.
    added_starts: [bool; 256],
}

impl WordPiece {
    /// The native form of a tokeniser, if it is of BERT's family.
    pub(super) fn of(tokenizer: &Tokenizer) -> Option<Self> {
        let (Some(NormalizerWrapper::BertNormalizer(normalizer)), Some(PreTokenizerWrapper::BertPreTokenizer(_))) =
            (tokenizer.get_normalizer(), tokenizer.get_pre_tokenizer())
        else {
            return None;
        };
        let ModelWrapper::WordPiece(model) = tokenizer.get_model() else { return None };
        let added = added(tokenizer.get_added_vocabulary())?;
        let mut added_starts = [false; 256];
        added
            .iter()
            .filter_map(|token| token.as_bytes().first())
            .for_each(|byte| added_starts[usize::from(*byte)] = true);
        let vocabulary = model.get_vocab();
        let prefix = model.continuing_subword_prefix.as_str();
        let inner = vocabulary.iter().filter_map(|(piece, id)| Some((piece.strip_prefix(prefix)?.as_bytes(), *id)));
        let own = Self {
            characters: Characters::new(*normalizer)?,
            starts: Trie::new(vocabulary.iter().map(|(piece, id)| (piece.as_bytes(), *id))),
            inner: Trie::new(inner),
            unknown: *vocabulary.get(&model.unk_token)?,
            longest: model.max_input_chars_per_word,
            added,
            added_starts,
        };
        let agrees = |text: &&str| {
            let theirs = tokenizer.encode_fast(*text, false).ok();
            own.encode(text).is_none_or(|ids| theirs.is_some_and(|theirs| theirs.get_ids() == ids))
        };
        PROBES.iter().all(agrees).then_some(own)
    }

    /// The ids of a text; `None` where `tokenizers` must decide.
    pub(super) fn encode(&self, text: &str) -> Option<Vec<u32>> {
        let mut words =
            Words { rules: self, ids: Vec::with_capacity(text.len() / 4 + 4), word: Vec::with_capacity(64) };
        let bytes = text.as_bytes();
        let mut offset = 0;
        while let Some(&byte) = bytes.get(offset) {
            if self.added_starts[usize::from(byte)] && self.is_added(&bytes[offset..]) {
                return None;
            }
            offset += match self.characters.ascii(byte) {
                Some(plain) => words.plain(plain),
                None => words.part(text[offset..].chars().next()?)?,
            };
        }
        words.end();
        Some(words.ids)
    }

    fn is_added(&self, rest: &[u8]) -> bool {
        self.added.iter().any(|token| rest.starts_with(token.as_bytes()))
    }
}

/// The added tokens; `None` if some are matched in normalised text.
fn added(vocabulary: &AddedVocabulary) -> Option<Vec<String>> {
    let tokens = vocabulary.get_added_tokens_decoder();
    let plain = |token: &AddedToken| !token.normalized;
    // Only one of the tokens that share an id has a description.
    let all = tokens.len() == vocabulary.get_vocab().len() && tokens.values().all(plain);
    all.then(|| vocabulary.get_vocab().keys().cloned().collect())
}

/// The ids so far and the current word.
struct Words<'a> {
    rules: &'a WordPiece,
    ids: Vec<u32>,
    word: Vec<u8>,
}

impl Words<'_> {
    /// Processes an ASCII character; returns its length.
    fn plain(&mut self, plain: Plain) -> usize {
        match plain {
            Plain::Nothing => {}
            Plain::Space => self.end(),
            Plain::Joins(byte) => self.word.push(byte),
            Plain::Alone(byte) => self.alone(&[byte]),
        }
        1
    }

    /// Processes another character; returns its length, or `None` where its normalisation depends on its neighbours.
    fn part(&mut self, character: char) -> Option<usize> {
        match self.rules.characters.part(character) {
            Part::Nothing => {}
            Part::Space => self.end(),
            Part::Joins(text) => self.word.extend_from_slice(text.as_bytes()),
            Part::Alone(text) => self.alone(text.as_bytes()),
            Part::ContextDependent => return None,
        }
        Some(character.len_utf8())
    }

    fn alone(&mut self, word: &[u8]) {
        self.end();
        self.word.extend_from_slice(word);
        self.end();
    }

    /// Ends the current word, if there is one.
    fn end(&mut self) {
        if self.word.is_empty() {
            return;
        }
        let first = self.ids.len();
        if self.is_too_long() || !self.pieces() {
            self.ids.truncate(first);
            self.ids.push(self.rules.unknown);
        }
        self.word.clear();
    }

    fn is_too_long(&self) -> bool {
        let starts_character = |byte: &&u8| **byte & 0xc0 != 0x80;
        self.word.len() > self.rules.longest && self.word.iter().filter(starts_character).count() > self.rules.longest
    }

    /// Appends the longest pieces of the word in order; returns whether they cover it. Pieces end between characters.
    fn pieces(&mut self) -> bool {
        let mut pieces = &self.rules.starts;
        let mut rest = self.word.as_slice();
        while !rest.is_empty() {
            let Some((id, length)) = pieces.longest(rest) else { return false };
            self.ids.push(id);
            rest = &rest[length..];
            pieces = &self.rules.inner;
        }
        true
    }
}
