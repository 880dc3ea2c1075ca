//! The built-in model's tokeniser, as `builtin/tokenizer.py` defines it: words split at camelCase, then greedy
//! longest-match pieces of the vocabulary.
//!
//! Takes linear time: pieces have a bounded length, and a byte is read at most once per candidate piece. ASCII text is
//! tokenised in place; a run with other characters is folded to ASCII first.

use crate::{ModelError, characters::Characters, trie::Trie};

/// A longer run of letters and digits is data, not words, and has no tokens.
const MAX_RUN: usize = 128;

/// Splits texts into pieces of a vocabulary.
#[derive(Debug)]
pub(crate) struct Tokenizer {
    characters: Characters,
    /// Pieces that start a word.
    starts: Trie,
    /// Pieces that continue one.
    inner: Trie,
}

impl Tokenizer {
    /// `pieces` are in the order of their ids; `##` marks those that continue a word.
    pub(crate) fn new(pieces: &[&str], characters: Characters) -> Result<Self, ModelError> {
        let mut starts = vec![];
        let mut inner = vec![];
        for (id, piece) in (0..).zip(pieces) {
            match piece.strip_prefix("##") {
                Some(piece) => inner.push((piece, id)),
                None => starts.push((*piece, id)),
            }
        }
        Ok(Self { characters, starts: Trie::new(starts)?, inner: Trie::new(inner)? })
    }

    /// Appends the token ids of a text.
    pub(crate) fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        let bytes = text.as_bytes();
        let mut offset = 0;
        while offset < bytes.len() {
            if !in_run(bytes[offset]) {
                offset += 1;
                continue;
            }
            let length = bytes[offset..].iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
            if bytes.get(offset + length).is_none_or(u8::is_ascii) {
                self.encode_run(&bytes[offset..offset + length], ids);
                offset += length;
            } else {
                offset += self.encode_folded(&text[offset..], ids);
            }
        }
    }

    /// Folds the first run of the text and appends its ids; returns the bytes consumed.
    fn encode_folded(&self, text: &str, ids: &mut Vec<u32>) -> usize {
        let mut run = [0; MAX_RUN];
        let mut length = 0;
        let mut taken = text.len();
        for (offset, character) in text.char_indices() {
            let mut ascii = [0];
            let plain = if character.is_ascii_alphanumeric() {
                Some(character.encode_utf8(&mut ascii).as_bytes())
            } else {
                self.characters.plain(character)
            };
            let Some(plain) = plain else {
                taken = offset + character.len_utf8();
                break;
            };
            if let Some(room) = run.get_mut(length..length + plain.len()) {
                room.copy_from_slice(plain);
            }
            length += plain.len();
        }
        if let Some(run) = run.get(..length) {
            self.encode_run(run, ids);
        }
        taken
    }

    /// Appends the ids of a run of ASCII letters and digits.
    fn encode_run(&self, run: &[u8], ids: &mut Vec<u32>) {
        if run.len() > MAX_RUN {
            return;
        }
        let mut rest = run;
        while !rest.is_empty() {
            let (word, after) = rest.split_at(word_length(rest));
            self.encode_word(word, ids);
            rest = after;
        }
    }

    fn encode_word(&self, word: &[u8], ids: &mut Vec<u32>) {
        let (id, mut offset) = self.starts.longest(word);
        ids.push(id);
        while offset < word.len() {
            let (id, length) = self.inner.longest(&word[offset..]);
            ids.push(id);
            offset += length;
        }
    }
}

/// Returns true if a byte may be part of a run: a letter, a digit, or part of a non-ASCII character.
fn in_run(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || !byte.is_ascii()
}

/// The length of the first word of a run of letters and digits, at least 1.
pub(crate) fn word_length(run: &[u8]) -> usize {
    let count = |from: usize, fits: fn(&u8) -> bool| run[from..].iter().take_while(|byte| fits(byte)).count();
    if run[0].is_ascii_digit() {
        return count(0, u8::is_ascii_digit);
    }
    let upper = count(0, u8::is_ascii_uppercase);
    let lower = count(upper, u8::is_ascii_lowercase);
    match (upper, lower) {
        (0 | 1, _) | (_, 0) => upper + lower,
        // The plural of an acronym, as in URLs.
        (_, 1) if run[upper] == b's' => upper + 1,
        // The last capital starts the next word, as in HTTPServer.
        _ => upper - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(run: &str) -> Vec<&str> {
        let mut rest = run;
        let mut words = vec![];
        while !rest.is_empty() {
            let (word, after) = rest.split_at(word_length(rest.as_bytes()));
            words.push(word);
            rest = after;
        }
        words
    }

    #[test]
    fn runs_are_split_at_camel_case_and_digits() {
        assert_eq!(words("parseHTTPUrls2"), ["parse", "HTTP", "Urls", "2"]);
        assert_eq!(words("URLs"), ["URLs"]);
        assert_eq!(words("getIDsNow"), ["get", "IDs", "Now"]);
        assert_eq!(words("XMLset"), ["XM", "Lset"]);
        assert_eq!(words("utf8Decode"), ["utf", "8", "Decode"]);
        assert_eq!(words("aB"), ["a", "B"]);
        assert_eq!(words("ABC"), ["ABC"]);
    }
}
