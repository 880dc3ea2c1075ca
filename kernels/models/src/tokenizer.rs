//! The built-in model's tokeniser, as `builtin/tokenizer.py` defines it: words split at camelCase, then greedy
//! longest-match pieces of the vocabulary.
//!
//! Takes linear time: pieces have a bounded length, and a byte is read at most once per candidate piece. ASCII text is
//! tokenised in place; a run with other characters is folded to ASCII first.

use std::ops::Range;

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

    /// Calls `emit` with each token of a text and its byte range.
    pub(crate) fn encode(&self, text: &str, mut emit: impl FnMut(u32, Range<usize>)) {
        let bytes = text.as_bytes();
        let mut offset = 0;
        while offset < bytes.len() {
            if !in_run(bytes[offset]) {
                offset += 1;
                continue;
            }
            let length = bytes[offset..].iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
            if bytes.get(offset + length).is_none_or(u8::is_ascii) {
                let run = &bytes[offset..offset + length];
                self.encode_run(run, &mut |id, range| emit(id, offset + range.start..offset + range.end));
                offset += length;
            } else {
                offset += self.encode_folded(&text[offset..], &mut |id, range| {
                    emit(id, offset + range.start..offset + range.end);
                });
            }
        }
    }

    /// Folds the first run of the text and emits its tokens; returns the bytes consumed.
    fn encode_folded(&self, text: &str, emit: &mut impl FnMut(u32, Range<usize>)) -> usize {
        let mut run = [0; MAX_RUN];
        // The byte range of the character that each byte of the run comes from.
        let mut sources = [(0, 0); MAX_RUN];
        let mut length = 0;
        let mut taken = text.len();
        for (offset, character) in text.char_indices() {
            let mut ascii = [0];
            let plain = if character.is_ascii_alphanumeric() {
                Some(character.encode_utf8(&mut ascii).as_bytes())
            } else {
                self.characters.plain(character)
            };
            let end = offset + character.len_utf8();
            let Some(plain) = plain else {
                taken = end;
                break;
            };
            if let Some(room) = run.get_mut(length..length + plain.len()) {
                room.copy_from_slice(plain);
                sources[length..length + plain.len()].fill((offset, end));
            }
            length += plain.len();
        }
        if let Some(run) = run.get(..length) {
            self.encode_run(run, &mut |id, range| emit(id, sources[range.start].0..sources[range.end - 1].1));
        }
        taken
    }

    /// Emits the tokens of a run of ASCII letters and digits.
    fn encode_run(&self, run: &[u8], emit: &mut impl FnMut(u32, Range<usize>)) {
        if run.len() > MAX_RUN {
            return;
        }
        let mut start = 0;
        while start < run.len() {
            let end = start + word_length(&run[start..]);
            let mut pieces = &self.starts;
            while start < end {
                let (id, length) = pieces.longest(&run[start..end]);
                emit(id, start..start + length);
                start += length;
                pieces = &self.inner;
            }
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
