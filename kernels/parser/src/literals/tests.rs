//! Values of strings and numbers in small texts.

use super::{Value, expression_text, join, middle, number, string, strings};
use crate::Options;
use crate::columns::Tag;
use crate::lexer::lex;
use crate::tokens::Terminal;

fn bytes_of(text: &str, value: Value, extra: &[u8]) -> Vec<u8> {
    [text.as_bytes(), extra].concat()[value.start as usize..value.end as usize].to_vec()
}

/// The value of a text that is strings only.
fn value(text: &str) -> Result<(Tag, Vec<u8>), String> {
    let lexed = lex(text);
    let mut extra = Vec::new();
    assert!(lexed.error.is_none() && lexed.tokens.kinds.iter().all(|&kind| kind == Terminal::String), "{text}");
    match strings(text, &lexed.tokens, 0, lexed.tokens.kinds.len(), (0, 0), &mut extra) {
        Ok(value) => Ok((value.tag, bytes_of(text, value, &extra))),
        Err(error) => Err(error.message.into_owned()),
    }
}

fn text_of(text: &str) -> Vec<u8> {
    value(text).expect("a string").1
}

fn middles(text: &str) -> Vec<String> {
    let lexed = lex(text);
    let mut extra = Vec::new();
    let tokens = &lexed.tokens;
    (0..tokens.kinds.len())
        .filter(|&offset| tokens.kinds[offset] == Terminal::FStringMiddle)
        .map(|offset| {
            let found =
                middle(text, tokens.starts[offset], tokens.ends[offset], tokens.payloads[offset], (0, 0), &mut extra);
            found.map_or_else(
                |error| error.message.into_owned(),
                |value| String::from_utf8(bytes_of(text, value, &extra)).expect("characters"),
            )
        })
        .collect()
}

#[test]
fn strings_without_escapes_are_slices_of_the_text() {
    let text = "rb'a\\n'";
    let mut extra = Vec::new();
    let lexed = lex(text);
    let value = string(text, 0, 7, lexed.tokens.payloads[0], &mut extra).expect("bytes");
    assert_eq!((value, extra.len()), (Value { tag: Tag::Bytes, start: 3, end: 6 }, 0));
}

#[test]
fn escapes_are_decoded() {
    assert_eq!(text_of(r#""\n\x41\u00e9\U0001F600\101\0\8\q""#), "\nA\u{e9}\u{1f600}A\0\\8\\q".as_bytes());
    assert_eq!(text_of("'a\\\nb\\\r\nc\\'\\\\'"), b"abc'\\");
    assert_eq!(text_of(r"'\ud83d\ude00'"), b"\xed\xa0\xbd\xed\xb8\x80");
    assert_eq!(text_of(r"b'\777\xff\u1234\N{x}'"), b"\xff\xff\\u1234\\N{x}");
}

#[test]
fn character_names_are_those_of_cpython() {
    assert_eq!(
        text_of(r"'\N{latin small letter a}\N{NULL}\N{BELL}\N{LF}\N{VS1}'"),
        "a\0\u{1f514}\n\u{fe00}".as_bytes()
    );
    assert_eq!(text_of(r"'\N{CJK UNIFIED IDEOGRAPH-04E00}\N{HANGUL SYLLABLE GA}'"), "一가".as_bytes());
    for name in
        ["LATIN_SMALL_LETTER_A", "LATIN SMALL LETTER  A", "cjk unified ideograph-4e00", "TANGUT IDEOGRAPH-17000"]
    {
        let error = value(&format!("'\\N{{{name}}}'")).expect_err("no name");
        assert!(error.ends_with("unknown Unicode character name"), "{error}");
    }
    assert!(value(r"'\N{LATIN SMALL LETTER A WITH MACRON AND GRAVE}'").is_err());
}

#[test]
fn invalid_escapes_have_the_messages_of_cpython() {
    let unicode = |at: &str, reason: &str| {
        Err(format!("(unicode error) 'unicodeescape' codec can't decode bytes in position {at}: {reason}"))
    };
    assert_eq!(value(r"'\x'"), unicode("0-1", "truncated \\xXX escape"));
    assert_eq!(value(r"'a\x1' 'b'"), unicode("1-3", "truncated \\xXX escape"));
    assert_eq!(value(r"'é\xg'"), unicode("10-11", "truncated \\xXX escape"));
    assert_eq!(value(r"'\é\xg'"), unicode("16-17", "truncated \\xXX escape"));
    assert_eq!(value(r"'\U00110000'"), unicode("0-9", "illegal Unicode character"));
    assert_eq!(value(r"'\N{'"), unicode("0-2", "malformed \\N character escape"));
    assert_eq!(value(r"'\N{foo}'"), unicode("0-6", "unknown Unicode character name"));
    assert_eq!(value(r"'\N{-a}'"), unicode("0-5", "unknown Unicode character name"));
    assert_eq!(value(r"b'ab\xg'"), Err("(value error) invalid \\x escape at position 2".to_owned()));
    assert_eq!(value("b'é'"), Err("bytes can only contain ASCII literal characters".to_owned()));
    assert_eq!(value("b'a' 'b'"), Err("cannot mix bytes and nonbytes literals".to_owned()));
}

#[test]
fn adjacent_strings_are_one_value() {
    assert_eq!(value("u'a' 'b'\\\n'''c'''"), Ok((Tag::UnicodeStr, b"abc".to_vec())));
    assert_eq!(value("'a' u'b'"), Ok((Tag::Str, b"ab".to_vec())));
    assert_eq!(value("'' 'b' ''"), Ok((Tag::Str, b"b".to_vec())));
    assert_eq!(value(r"'\x41' '\x42' 'c' '\n'"), Ok((Tag::Str, b"ABc\n".to_vec())));
}

#[test]
fn contiguous_values_are_joined_without_copies() {
    let mut extra = b"xyz".to_vec();
    let parts = [Value { tag: Tag::Str, start: 4, end: 5 }, Value { tag: Tag::Str, start: 5, end: 7 }];
    assert_eq!(join("abc", &parts, &mut extra), Value { tag: Tag::Str, start: 4, end: 7 });
    // The end of the text and the start of `extra` have the same offset, but are not contiguous.
    let parts = [Value { tag: Tag::Str, start: 1, end: 3 }, Value { tag: Tag::Str, start: 3, end: 4 }];
    let joined = join("abc", &parts, &mut extra);
    assert_eq!(bytes_of("abc", joined, &extra), b"bcx");
}

#[test]
fn literal_text_of_fstrings_is_decoded_by_its_own_rules() {
    assert_eq!(middles("f'a{{\\x41}}{x}\\{y}'"), ["a{A}", "\\"]);
    assert_eq!(middles(r"rf'\{{x}}\n'"), ["\\{x}\\n"]);
    assert_eq!(middles("f'{x:\\x41{y}{{}'"), ["A", "{"]);
    assert_eq!(middles(r"f'\N{EM DASH}}}'"), ["\u{2014}}"]);
    assert_eq!(
        middles(r"f'a{{\x{x}'"),
        ["(unicode error) 'unicodeescape' codec can't decode bytes in position 0-1: truncated \\xXX escape"]
    );
}

#[test]
fn newlines_in_strings_are_line_feeds() {
    assert_eq!(text_of("'''a\r\nb\rc'''"), b"a\nb\nc");
    assert_eq!(text_of("r'''a\r\nb\rc\\''''"), b"a\nb\nc\\'");
}

#[test]
fn the_source_of_an_expression_loses_its_comments() {
    let text = "x # y\r\n=";
    let mut extra = Vec::new();
    let value = expression_text(text, 0, 8, &Options::default(), &mut extra);
    assert_eq!(bytes_of(text, value, &extra), b"x \n=");
}

#[test]
fn numbers_keep_their_spelling() {
    let tag = |text: &str| number(text, 0, u32::try_from(text.len()).expect("short")).map(|value| value.tag);
    assert_eq!(tag("0x1e5"), Ok(Tag::Int));
    assert_eq!(tag("1e5"), Ok(Tag::Float));
    assert_eq!(tag("1_0.5J"), Ok(Tag::Imaginary));
    assert_eq!(tag(&"0".repeat(5000)), Ok(Tag::Int));
    assert!(tag(&"1".repeat(4300)).is_ok());
    assert!(tag(&"1".repeat(4301)).is_err_and(|error| error.message.contains("value has 4301 digits")));
}
