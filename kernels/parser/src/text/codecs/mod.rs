//! CPython's text codecs, with their aliases and errors.
//!
//! `codecs/generate.py` extracts aliases and tables from CPython; stateful codecs are code here.

mod escapes;
mod iso2022;
mod multibyte;
mod punycode;
mod tables;
mod unicode;

use std::borrow::Cow;

use memchr::{memchr, memmem};

use crate::{Mode, Options};

/// One codec a line: module, kind and aliases; `>=` gives the minor version that added an alias.
const NAMES: &str = include_str!("../../../codecs/names.txt");

/// A codec of CPython.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Codec {
    module: &'static str,
    /// `charmap`, `pairs`, `binary`, or the module's name for a codec implemented here.
    kind: &'static str,
}

/// Bytes that a codec rejects.
#[derive(Debug, PartialEq, Eq)]
struct Undecodable {
    codec: &'static str,
    at: usize,
    end: usize,
    reason: Cow<'static, str>,
}

impl Undecodable {
    fn new(codec: &'static str, offset: usize, end: usize, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { codec, at: offset, end, reason: reason.into() }
    }

    fn byte(codec: &'static str, offset: usize, reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(codec, offset, offset + 1, reason)
    }

    /// The message of `UnicodeDecodeError`, with positions reduced by `before` bytes.
    fn message(&self, bytes: &[u8], before: usize) -> String {
        let Self { codec, at: offset, end, reason } = self;
        let position = offset - before;
        match bytes.get(*offset) {
            Some(byte) if *end == offset + 1 => {
                format!("'{codec}' codec can't decode byte {byte:#04x} in position {position}: {reason}")
            }
            _ => {
                let last = (end - before).max(1) - 1;
                format!("'{codec}' codec can't decode bytes in position {position}-{last}: {reason}")
            }
        }
    }
}

/// Code points, or the undecodable bytes.
type Decoded = Result<Vec<u32>, Undecodable>;

impl Codec {
    /// Looks up a codec as `encodings` does: case and the punctuation between words do not matter.
    pub(super) fn named(name: &str, options: Options) -> Option<Self> {
        let name = normalized(name);
        let dotless = name.replace('.', "_");
        by_alias(&name, options)
            .or_else(|| by_alias(&dotless, options))
            .or_else(|| lines().find(|(codec, _)| codec.module == name).map(|(codec, _)| codec))
    }

    /// Returns true if it is no text encoding.
    pub(super) fn is_binary(self) -> bool {
        self.kind == "binary"
    }

    /// Decodes a source; an error is CPython's message.
    pub(super) fn decode(self, source: &[u8], options: Options) -> Result<Cow<'_, str>, String> {
        let decoded = match self.kind {
            "utf_8" | "utf_8_sig" => {
                return std::str::from_utf8(source)
                    .map(Cow::Borrowed)
                    .map_err(|error| super::utf8_message(source, error.valid_up_to()));
            }
            "ascii" => ascii(source, "ascii"),
            "latin_1" => Ok(latin1(source)),
            "charmap" if has_line_feeds(self.module) => charmap(self.module, source, options),
            "pairs" => return self.pairs(source, options).map(Cow::Owned),
            _ => return self.decode_lines(source, options).map(Cow::Owned),
        };
        // CPython normalises newlines before it decodes.
        let pairs = |offset: usize| memmem::find_iter(&source[..offset], b"\r\n").count();
        decoded.map(Cow::Owned).map_err(|bad| bad.message(source, pairs(bad.at)))
    }

    /// Decodes pairs of bytes. CPython normalises newlines first, which changes a pair with a carriage return.
    fn pairs(self, source: &[u8], options: Options) -> Result<String, String> {
        multibyte::decode(self.module, source).or_else(|_| {
            let bytes = with_line_feeds(source, options.mode == Mode::Exec);
            multibyte::decode(self.module, &bytes).map_err(|bad| bad.message(&bytes, 0))
        })
    }

    /// Decodes with normalised newlines; a module ends with one.
    fn decode_lines(self, source: &[u8], options: Options) -> Result<String, String> {
        let bytes = with_line_feeds(source, options.mode == Mode::Exec);
        let decoded = match self.kind {
            "charmap" => return charmap(self.module, &bytes, options).map_err(|bad| bad.message(&bytes, 0)),
            "hz" => iso2022::hz(&bytes),
            "utf_7" => unicode::utf7(&bytes),
            "utf_16" | "utf_16_le" | "utf_16_be" => unicode::utf16(self.kind, &bytes),
            "utf_32" | "utf_32_le" | "utf_32_be" => unicode::utf32(self.kind, &bytes),
            "unicode_escape" => escapes::unicode_escape(&bytes),
            "raw_unicode_escape" => escapes::raw_unicode_escape(&bytes),
            "punycode" => return punycode::decode(&bytes, options).and_then(|points| encoded(&points)),
            "idna" => return punycode::idna(&bytes, options),
            "undefined" if options.feature_version < 12 => {
                return Err("decoding with 'undefined' codec failed (UnicodeError: undefined encoding)".into());
            }
            "undefined" => return Err("undefined encoding".into()),
            kind => iso2022::decode(kind, &bytes),
        };
        decoded.map_err(|bad| bad.message(&bytes, 0)).and_then(|points| encoded(&points))
    }
}

fn lines() -> impl Iterator<Item = (Codec, &'static str)> {
    NAMES.lines().filter_map(|line| {
        let (module, rest) = line.split_once(' ')?;
        let (kind, aliases) = rest.split_once(' ').unwrap_or((rest, ""));
        Some((Codec { module, kind }, aliases))
    })
}

fn by_alias(name: &str, options: Options) -> Option<Codec> {
    let is = |alias: &str| match alias.split_once(">=") {
        Some((alias, since)) => alias == name && since.parse().is_ok_and(|since: u8| options.feature_version >= since),
        None => alias == name,
    };
    lines().find(|(_, aliases)| aliases.split(' ').any(is)).map(|(codec, _)| codec)
}

/// A name as `encodings.normalize_encoding` leaves it, in lower case.
fn normalized(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric() && c != '.').filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_").to_ascii_lowercase()
}

fn with_line_feeds(source: &[u8], is_module: bool) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(source.len() + 1);
    let mut rest = source;
    while let Some(offset) = memchr(b'\r', rest) {
        bytes.extend_from_slice(&rest[..offset]);
        bytes.push(b'\n');
        rest = &rest[offset + 1..];
        rest = rest.strip_prefix(b"\n").unwrap_or(rest);
    }
    bytes.extend_from_slice(rest);
    if is_module && bytes.last().is_some_and(|&last| last != b'\n') {
        bytes.push(b'\n');
    }
    bytes
}

/// Encodes code points as UTF-8; surrogates are an error.
fn encoded(points: &[u32]) -> Result<String, String> {
    let text: Option<String> = points.iter().map(|&point| char::from_u32(point)).collect();
    text.ok_or_else(|| super::surrogates_message(points))
}

fn ascii(source: &[u8], codec: &'static str) -> Result<String, Undecodable> {
    match source.iter().position(|byte| !byte.is_ascii()) {
        None => Ok(String::from_utf8_lossy(source).into_owned()),
        Some(offset) => Err(Undecodable::byte(codec, offset, "ordinal not in range(128)")),
    }
}

fn latin1(source: &[u8]) -> String {
    source.iter().map(|&byte| char::from(byte)).collect()
}

/// The 256 characters of a charmap.
fn characters(module: &str) -> &'static [u16] {
    let number = lines()
        .filter(|(codec, _)| codec.kind == "charmap")
        .map(|(codec, _)| codec.module)
        .position(|name| name == module)
        .unwrap_or_default();
    &tables::charmaps().numbers[number * 256..][..256]
}

/// Returns true if newlines are those of ASCII; those of EBCDIC differ.
fn has_line_feeds(module: &str) -> bool {
    let table = characters(module);
    [b'\n', b'\r'].into_iter().all(|byte| table[usize::from(byte)] == u16::from(byte))
}

fn charmap(module: &str, source: &[u8], options: Options) -> Result<String, Undecodable> {
    let table = characters(module);
    let character = |(offset, &byte): (usize, &u8)| match table[usize::from(byte)] {
        // Fixed in 3.14.
        0x9b if module == "palmos" && options.feature_version >= 14 => Ok('\u{203a}'),
        tables::NONE => Err(Undecodable::byte("charmap", offset, "character maps to <undefined>")),
        point => Ok(char::from_u32(u32::from(point)).unwrap_or_default()),
    };
    source.iter().enumerate().map(character).collect()
}
