//! Decodes sources: UTF-8; UTF-16 with a byte order mark; the encoding that a file declares, as PEP 263 defines it for Python;
//! Japanese without a declaration; and otherwise Windows-1252, which contains the characters of Latin-1.

use std::borrow::Cow;

use encoding_rs::{EUC_JP, Encoding, SHIFT_JIS, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// Bytes at the start of a file that are searched for a NUL, which marks a binary file.
pub const SNIFFED_BYTES: usize = 8 << 10;

/// Lines that may declare the encoding.
const DECLARING_LINES: usize = 2;

/// A text with more bytes above ASCII than one in this is not taken for Windows-1252.
const MIN_BYTES_PER_HIGH_BYTE: usize = 4;

/// Why bytes are no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotText {
    Binary,
    /// They may be a text; the reason why it cannot be decoded.
    Undecodable(String),
}

/// Returns true if the start of a file is not that of a text.
pub fn is_binary(start: &[u8]) -> bool {
    let sniffed = &start[..start.len().min(SNIFFED_BYTES)];
    sniffed.contains(&0) && marked(start).is_none()
}

/// The text of a file.
pub fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, NotText> {
    if is_binary(bytes) {
        return Err(NotText::Binary);
    }
    if let Some(encoding) = marked(bytes) {
        let text = encoding.decode_with_bom_removal(bytes);
        return if text.1 { Err(undecodable(encoding.name())) } else { Ok(text.0) };
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Ok(text.into());
    }
    if let Some(name) = declared(bytes) {
        let encoding = named(&name).ok_or_else(|| NotText::Undecodable(format!("its encoding {name} is unknown")))?;
        return strict(encoding, bytes).ok_or_else(|| undecodable(encoding.name()));
    }
    let mut japanese = [SHIFT_JIS, EUC_JP].into_iter().filter_map(|encoding| strict(encoding, bytes));
    if let Some(text) = japanese.find(|text| is_japanese(text)) {
        return Ok(text);
    }
    guess_western(bytes)
}

/// The text without a declaration of its encoding, for a parser that gets it as UTF-8. Its length stays.
pub fn without_declaration(text: &str) -> Cow<'_, str> {
    let end: usize = text.split_inclusive('\n').take(DECLARING_LINES).map(str::len).sum();
    let (head, rest) = text.split_at(end);
    if head.contains(DECLARATION) { (head.replace(DECLARATION, "c.ding") + rest).into() } else { text.into() }
}

/// The encoding of a byte order mark of UTF-16.
fn marked(bytes: &[u8]) -> Option<&'static Encoding> {
    // The mark of UTF-32 in little-endian order begins like that of UTF-16.
    if bytes.starts_with(&[0xff, 0xfe, 0, 0]) {
        return None;
    }
    Encoding::for_bom(bytes).map(|(encoding, _)| encoding).filter(|encoding| [UTF_16LE, UTF_16BE].contains(encoding))
}

fn undecodable(encoding: &str) -> NotText {
    NotText::Undecodable(format!("it is not valid {encoding}, the encoding that it declares"))
}

fn strict(encoding: &'static Encoding, bytes: &[u8]) -> Option<Cow<'static, str>> {
    let text = encoding.decode_without_bom_handling_and_without_replacement(bytes)?;
    Some(text.into_owned().into())
}

const DECLARATION: &str = "coding";

/// The name of an encoding after `coding:` or `coding=` in one of the first lines.
fn declared(bytes: &[u8]) -> Option<String> {
    let head = bytes.split(|byte| *byte == b'\n').take(DECLARING_LINES);
    head.map(String::from_utf8_lossy).find_map(|line| {
        let (_, rest) = line.split_once(DECLARATION)?;
        let name = rest.strip_prefix([':', '='])?.trim_start();
        let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')));
        let name = &name[..end.unwrap_or(name.len())];
        (!name.is_empty()).then(|| name.to_owned())
    })
}

/// The encoding of a name of Python's or of the Encoding Standard.
fn named(name: &str) -> Option<&'static Encoding> {
    let name = name.to_ascii_lowercase().replace('_', "-");
    // Editors append how lines end.
    let name = ["-unix", "-dos", "-mac"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(&name);
    let label = match name {
        "latin-1" | "iso-8859-1" | "l1" | "cp819" => "latin1",
        "latin-9" => "iso-8859-15",
        "cp932" | "ms-kanji" => "shift_jis",
        "cp936" => "gbk",
        "cp949" | "uhc" => "euc-kr",
        "cp950" => "big5",
        "mac-roman" => "macintosh",
        name => name,
    };
    Encoding::for_label(label.as_bytes()).or_else(|| Encoding::for_label(label.replace('-', "_").as_bytes()))
}

/// Returns true for a text in Japanese characters with kana, which no text of another encoding looks like.
fn is_japanese(text: &str) -> bool {
    let is_kana = |c: char| matches!(c, '\u{3041}'..='\u{30fe}');
    let is_expected = |c: char| {
        c.is_ascii()
            || is_kana(c)
            || matches!(c, '\u{3000}'..='\u{303f}' | '\u{4e00}'..='\u{9fff}' | '\u{ff01}'..='\u{ff60}' | '\u{2000}'..='\u{266f}')
    };
    text.chars().any(is_kana) && text.chars().all(is_expected)
}

/// Windows-1252, if the bytes look like a text in it.
fn guess_western(bytes: &[u8]) -> Result<Cow<'static, str>, NotText> {
    let is_control =
        |byte: &u8| matches!(byte, 0..=8 | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f | 0x81 | 0x8d | 0x8f | 0x90 | 0x9d);
    if bytes.iter().any(is_control) {
        return Err(NotText::Binary);
    }
    let high_bytes = bytes.iter().filter(|byte| !byte.is_ascii()).count();
    if high_bytes > bytes.len() / MIN_BYTES_PER_HIGH_BYTE {
        return Err(NotText::Undecodable("its encoding is unknown: it is not UTF-8 and declares no other".to_owned()));
    }
    strict(WINDOWS_1252, bytes).ok_or(NotText::Binary)
}

#[cfg(test)]
mod tests {
    use super::*;

    const JAPANESE: &str = "x = 1  # 最大の値を返します\n";

    fn encoded(encoding: &'static Encoding, text: &str) -> Vec<u8> {
        let (bytes, _, is_lossy) = encoding.encode(text);
        assert!(!is_lossy);
        bytes.into_owned()
    }

    fn utf_16(text: &str, to_bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        format!("\u{feff}{text}").encode_utf16().flat_map(to_bytes).collect()
    }

    fn undecodable(bytes: &[u8]) -> String {
        match decode(bytes) {
            Err(NotText::Undecodable(reason)) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn utf_8_and_utf_16_are_told_apart_by_their_marks() {
        assert_eq!(decode("naïve\n".as_bytes()), Ok("naïve\n".into()));
        for to_bytes in [u16::to_le_bytes, u16::to_be_bytes] {
            assert_eq!(decode(&utf_16("naïve 最\n", to_bytes)), Ok("naïve 最\n".into()));
        }
        assert!(undecodable(&[0xff, 0xfe, 0x00, 0xd8]).contains("UTF-16LE"), "half of a character");
        let utf_32: Vec<u8> = "\u{feff}a".chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
        assert_eq!(decode(&utf_32), Err(NotText::Binary));
    }

    #[test]
    fn a_declared_encoding_is_used() {
        for (name, encoding, text) in [
            ("latin-1", WINDOWS_1252, "naïve"),
            ("iso-8859-15", encoding_rs::ISO_8859_15, "5 €"),
            ("cp1251", encoding_rs::WINDOWS_1251, "наибольшее значение"),
            ("koi8-r", encoding_rs::KOI8_R, "наибольшее значение"),
            ("shift_jis", SHIFT_JIS, "最大"),
            ("cp932", SHIFT_JIS, "最大"),
            ("euc_jp", EUC_JP, "最大"),
            ("gb2312", encoding_rs::GBK, "最大值"),
            ("euc-kr", encoding_rs::EUC_KR, "최대"),
            ("latin-1-unix", WINDOWS_1252, "naïve"),
        ] {
            for line in
                [format!("# -*- coding: {name} -*-"), format!("#!/usr/bin/python\n# vim: fileencoding={name} :")]
            {
                let text = format!("{line}\nx = 1  # {text}\n");
                assert_eq!(decode(&encoded(encoding, &text)), Ok(text.into()), "{name}");
            }
        }
        assert!(undecodable(b"# coding: martian\n# \xe9\n").contains("martian"));
        assert!(undecodable(b"# coding: shift_jis\n# \x82\n").contains("Shift_JIS"));
        assert!(undecodable(b"# coding: utf-8\n# \xe9\n").contains("UTF-8"));
        assert_eq!(decode(b"x\ny\n# coding: martian\n\xe9\n"), Ok("x\ny\n# coding: martian\né\n".into()), "too late");
    }

    #[test]
    fn japanese_needs_no_declaration_and_western_text_is_not_taken_for_it() {
        for encoding in [SHIFT_JIS, EUC_JP] {
            assert_eq!(decode(&encoded(encoding, JAPANESE)), Ok(JAPANESE.into()), "{}", encoding.name());
        }
        for text in ["// naïve café, Müller £5 ¥3\n", "/* Größe: 5 µm ± 1° */\n", "// El señor «niño»: ¿qué pasa?\n"]
        {
            assert_eq!(decode(&encoded(WINDOWS_1252, text)), Ok(text.into()));
        }
    }

    #[test]
    fn what_no_rule_explains_is_named() {
        assert_eq!(decode(b"a\0b"), Err(NotText::Binary));
        assert_eq!(decode(&[0x1f, 0x8b, 0x08, 0x03, 0xe9, 0xff]), Err(NotText::Binary));
        let russian = encoded(encoding_rs::KOI8_R, "наибольшее значение");
        assert!(undecodable(&russian).contains("unknown"));
    }

    #[test]
    fn a_declaration_is_hidden_from_a_parser_of_utf_8() {
        let text = "# coding: shift_jis\n# 最大 coding: x\ncoding = 1\n";
        let hidden = without_declaration(text);
        assert_eq!(hidden, "# c.ding: shift_jis\n# 最大 c.ding: x\ncoding = 1\n");
        assert_eq!(without_declaration("x = 1\n"), "x = 1\n");
    }
}
