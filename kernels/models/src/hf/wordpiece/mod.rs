//! The way of BERT's family from a text to ids, all in one pass: what `BertNormalizer`, `BertPreTokenizer` and `WordPiece`
//! of `tokenizers` make of it, with the same ids, several times faster.
//!
//! What is not sure to come out the same is left to `tokenizers`: texts with an added token in them, and the few
//! characters of which `characters` does not know what becomes of them without their neighbours.

use tokenizers::{AddedToken, AddedVocabulary, Model, ModelWrapper, NormalizerWrapper, PreTokenizerWrapper, Tokenizer};

mod characters;
#[cfg(test)]
mod tests;
mod trie;

use characters::{Characters, Part, Plain};
use trie::Trie;

/// Texts that both ways are tried on at the start.
const PROBES: [&str; 4] =
    ["a", "Hello, World! (don't)", "naïve Straße 東京 #1\t\u{a0}x", "unaffable qwzx ##ing [ UNK ]"];

/// A `tokenizer.json` of BERT's family.
pub(super) struct WordPiece {
    characters: Characters,
    /// Pieces that start a word.
    starts: Trie,
    /// Pieces that continue one, without the prefix that says so.
    inner: Trie,
    /// What a word becomes that has no pieces.
    unknown: u32,
    /// Characters of a word; longer ones are unknown.
    longest: usize,
    added: Vec<String>,
    /// Bytes that an added token starts with.
    marks: [bool; 256],
}

impl WordPiece {
    /// What a tokeniser does, if it is one of these.
    pub(super) fn of(tokenizer: &Tokenizer) -> Option<Self> {
        let (Some(NormalizerWrapper::BertNormalizer(normalizer)), Some(PreTokenizerWrapper::BertPreTokenizer(_))) =
            (tokenizer.get_normalizer(), tokenizer.get_pre_tokenizer())
        else {
            return None;
        };
        let ModelWrapper::WordPiece(model) = tokenizer.get_model() else { return None };
        let added = added(tokenizer.get_added_vocabulary())?;
        let mut marks = [false; 256];
        added.iter().filter_map(|token| token.as_bytes().first()).for_each(|byte| marks[usize::from(*byte)] = true);
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
            marks,
        };
        let agrees = |text: &&str| {
            let theirs = tokenizer.encode_fast(*text, false).ok();
            own.encode(text).is_none_or(|ids| theirs.is_some_and(|theirs| theirs.get_ids() == ids))
        };
        PROBES.iter().all(agrees).then_some(own)
    }

    /// The ids of a text; `None` where it is not sure which they are.
    pub(super) fn encode(&self, text: &str) -> Option<Vec<u32>> {
        let mut words =
            Words { rules: self, ids: Vec::with_capacity(text.len() / 4 + 4), word: Vec::with_capacity(64) };
        let bytes = text.as_bytes();
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if self.marks[usize::from(byte)] && self.is_added(&bytes[at..]) {
                return None;
            }
            at += match self.characters.ascii(byte) {
                Some(plain) => words.plain(plain),
                None => words.part(text[at..].chars().next()?)?,
            };
        }
        words.end();
        Some(words.ids)
    }

    fn is_added(&self, rest: &[u8]) -> bool {
        self.added.iter().any(|token| rest.starts_with(token.as_bytes()))
    }
}

/// The added tokens as they stand in texts; `None` where some are looked for in normalised text.
fn added(vocabulary: &AddedVocabulary) -> Option<Vec<String>> {
    let tokens = vocabulary.get_added_tokens_decoder();
    let plain = |token: &AddedToken| !token.normalized;
    // Where two share an id, only one of them is described.
    let all = tokens.len() == vocabulary.get_vocab().len() && tokens.values().all(plain);
    all.then(|| vocabulary.get_vocab().keys().cloned().collect())
}

/// Ids so far, and the word that is being read.
struct Words<'a> {
    rules: &'a WordPiece,
    ids: Vec<u32>,
    word: Vec<u8>,
}

impl Words<'_> {
    /// Takes an ASCII character; its length.
    fn plain(&mut self, plain: Plain) -> usize {
        match plain {
            Plain::Nothing => {}
            Plain::Space => self.end(),
            Plain::Joins(byte) => self.word.push(byte),
            Plain::Alone(byte) => self.alone(&[byte]),
        }
        1
    }

    /// Takes another character; its length, or `None` where it is not sure what becomes of it.
    fn part(&mut self, character: char) -> Option<usize> {
        match self.rules.characters.part(character) {
            Part::Nothing => {}
            Part::Space => self.end(),
            Part::Joins(text) => self.word.extend_from_slice(text.as_bytes()),
            Part::Alone(text) => self.alone(text.as_bytes()),
            Part::Unsure => return None,
        }
        Some(character.len_utf8())
    }

    fn alone(&mut self, word: &[u8]) {
        self.end();
        self.word.extend_from_slice(word);
        self.end();
    }

    /// Ends the word that is being read, if there is one.
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

    /// Appends the longest pieces of the word, one after the other, as far as there are any; whether there were to its
    /// end. Pieces are whole characters, so that they end between two.
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
