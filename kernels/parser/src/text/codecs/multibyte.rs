//! Stateless multibyte codecs.

use super::Undecodable;
use super::tables::{Table, gb18030_ranges, table};

/// The first of three bytes in the codecs of EUC's family.
const THIRD_SET: u8 = 0x8f;

pub(super) fn decode(codec: &'static str, source: &[u8]) -> Result<String, Undecodable> {
    let pairs = table(codec);
    let triples = match codec {
        "euc_jp" => Some(table("euc_jp_triples")),
        "euc_jis_2004" => Some(table("euc_jis_2004_triples")),
        "euc_jisx0213" => Some(table("euc_jisx0213_triples")),
        _ => None,
    };
    // CPython reports a character of JIS X 0213:2004 that the 2000 set lacks as one illegal pair.
    let newer = match codec {
        "euc_jisx0213" => Some(table("euc_jis_2004")),
        "shift_jisx0213" => Some(table("shift_jis_2004")),
        _ => None,
    };
    let mut text = String::with_capacity(source.len() * 2);
    let mut offset = 0;
    while offset < source.len() {
        let rest = &source[offset..];
        let found = match rest {
            [SYLLABLE, FILLER, ..] if codec == "euc_kr" => syllable(rest),
            _ => one(pairs, triples, codec == "gb18030", rest),
        };
        let (character, length) = found.map_err(|wrong| match wrong {
            PairError::Illegal => {
                let length = if newer.is_some_and(|newer| has_pair(newer, rest)) { 2 } else { 1 };
                Undecodable::new(codec, offset, offset + length, "illegal multibyte sequence")
            }
            PairError::Incomplete => Undecodable::new(codec, offset, source.len(), "incomplete multibyte sequence"),
        })?;
        let characters = character.into_iter().filter(|&point| point != 0 || character[0] == 0);
        text.extend(characters.take(2).filter_map(char::from_u32));
        offset += length;
    }
    Ok(text)
}

/// The first byte of every letter of a composed syllable of KS X 1001, and the second of the filler that it begins
/// with.
const SYLLABLE: u8 = 0xa4;
const FILLER: u8 = 0xd4;

/// A syllable of KS X 1001's annex 3, in eight bytes: a filler, then initial, vowel and final or another filler.
fn syllable(rest: &[u8]) -> Result<([u32; 2], usize), PairError> {
    /// Consonants that begin a syllable, and those that end one, in the order of Unicode's syllables.
    const INITIALS: &str = "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ";
    const FINALS: &str = "ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ";
    let &[_, _, SYLLABLE, initial, SYLLABLE, vowel, SYLLABLE, end, ..] = rest else {
        return Err(if rest.len() < 8 { PairError::Incomplete } else { PairError::Illegal });
    };
    // Bytes from 0xa1 on are the letters from U+3131 on.
    let letter = |byte: u8| byte.checked_sub(0xa1).and_then(|place| char::from_u32(0x3131 + u32::from(place)));
    let place =
        |letters: &str, byte: u8| letters.chars().zip(0..).find(|&(character, _)| Some(character) == letter(byte));
    let initial = place(INITIALS, initial).map(|(_, place)| place);
    let vowel = vowel.checked_sub(0xbf).map(u32::from).filter(|&vowel| vowel < 21);
    let end = if end == FILLER { Some(0) } else { place(FINALS, end).map(|(_, place)| place + 1) };
    match (initial, vowel, end) {
        (Some(initial), Some(vowel), Some(end)) => Ok(([0xac00 + initial * 588 + vowel * 28 + end, 0], 8)),
        _ => Err(PairError::Illegal),
    }
}

/// Returns true if some bytes start with a pair in a table.
fn has_pair(pairs: &Table, rest: &[u8]) -> bool {
    let &[first, second, ..] = rest else { return false };
    let row = first.checked_sub(0x80).map(usize::from);
    row.is_some_and(|row| pairs.character(256 + row * 256 + usize::from(second)).is_some())
}

#[derive(Clone, Copy)]
enum PairError {
    Illegal,
    Incomplete,
}

/// The first character of some bytes, and its length.
fn one(pairs: &Table, triples: Option<&Table>, fours: bool, rest: &[u8]) -> Result<([u32; 2], usize), PairError> {
    let first = rest[0];
    if let Some(character) = pairs.character(usize::from(first)) {
        return Ok((character, 1));
    }
    if let Some(triples) = triples.filter(|_| first == THIRD_SET) {
        let &[_, second, third, ..] = rest else { return Err(PairError::Incomplete) };
        let set = |byte: u8| byte.checked_sub(0xa1).filter(|&place| place < 94).map(usize::from);
        let (Some(row), Some(cell)) = (set(second), set(third)) else { return Err(PairError::Illegal) };
        return triples.character(row * 94 + cell).map(|found| (found, 3)).ok_or(PairError::Illegal);
    }
    let Some(row) = first.checked_sub(0x80).map(|row| 256 + usize::from(row) * 256) else {
        return Err(PairError::Illegal);
    };
    let Some(&second) = rest.get(1) else {
        let leads = (row..row + 256).any(|entry| pairs.character(entry).is_some());
        return Err(if leads { PairError::Incomplete } else { PairError::Illegal });
    };
    if fours && second.is_ascii_digit() {
        return four(rest);
    }
    pairs.character(row + usize::from(second)).map(|found| (found, 2)).ok_or(PairError::Illegal)
}

/// Four bytes of gb18030.
fn four(rest: &[u8]) -> Result<([u32; 2], usize), PairError> {
    let &[first, second, third, fourth, ..] = rest else { return Err(PairError::Incomplete) };
    if first < 0x81 || third < 0x81 || !fourth.is_ascii_digit() {
        return Err(PairError::Illegal);
    }
    let digit = |byte: u8, zero: u8| u32::from(byte - zero);
    let number =
        ((digit(first, 0x81) * 10 + digit(second, 0x30)) * 126 + digit(third, 0x81)) * 10 + digit(fourth, 0x30);
    // From 0x90308130 on: the supplementary planes, in order.
    if let Some(beyond) = number.checked_sub(189_000) {
        return if beyond < 0x10_0000 { Ok(([0x1_0000 + beyond, 0], 4)) } else { Err(PairError::Illegal) };
    }
    let runs = gb18030_ranges();
    let run = runs.partition_point(|run| run[0] <= number).checked_sub(1).map(|run| runs[run]);
    match run {
        Some([from, character, count]) if number - from < count => Ok(([character + (number - from), 0], 4)),
        _ => Err(PairError::Illegal),
    }
}
