//! Decoding of small sources.

use std::borrow::Cow;

use super::decode;
use crate::{Class, Options, Position, SourceType};

const BEFORE_314: Options = Options::version(13);

fn text(source: &[u8]) -> String {
    decode(source, &BEFORE_314).expect("a text").into_owned()
}

fn error(source: &[u8]) -> (u32, String) {
    let found = decode(source, &BEFORE_314).expect_err("an error");
    (found.start, found.message.into_owned())
}

#[test]
fn utf8_is_not_copied() {
    for source in ["x = 'é'\r\n", "\u{feff}x", "# coding: UTF-8-unix\nx", "\n# vim: fileencoding=utf_8\n"] {
        assert!(matches!(decode(source.as_bytes(), &BEFORE_314), Ok(Cow::Borrowed(same)) if same == source));
    }
}

#[test]
fn a_comment_in_the_first_two_lines_names_the_encoding() {
    assert_eq!(text(b"# -*- coding: latin-1 -*-\n'\xe9'"), "# -*- coding: latin-1 -*-\n'é'");
    assert_eq!(text(b"#coding=latin1\r'\xe9'"), "#coding=latin1\r'é'");
    assert_eq!(text(b" \n#coding:iso-8859-15\n'\xa4'"), " \n#coding:iso-8859-15\n'€'");
    assert_eq!(text(b"# coding: cp1251\n'\xcf'"), "# coding: cp1251\n'П'");
    assert_eq!(text(b"# coding: cp437\n'\x9b\xfb'"), "# coding: cp437\n'¢√'");
    assert_eq!(text(b"# coding: IBM850\n'\x9b'"), "# coding: IBM850\n'ø'");
    assert_eq!(text(b"# coding: iso-8859-9\n'\xfe\x80'"), "# coding: iso-8859-9\n'ş\u{80}'");
    assert_eq!(text(b"# coding: iso-8859-8\n'\xe0'"), "# coding: iso-8859-8\n'א'");
    assert_eq!(text(b"# coding: gbk\n'\xc4\xe3'"), "# coding: gbk\n'你'");
    assert_eq!(text(b"x\n# coding: foo\n"), "x\n# coding: foo\n");
    assert_eq!(text(b"# coding:\x0cfoo\n"), "# coding:\x0cfoo\n");
}

#[test]
fn every_codec_of_cpython_is_known_by_all_its_names() {
    let cases: [(&[u8], &str); 18] = [
        (b"# coding: utf-7\n'+AOk-'", "'é'\n"),
        (b"# coding: hz\n'~{VPND~}'", "'中文'\n"),
        (b"# coding: iso2022_kr\n'\x1b$)C\x0eG1\x0f'", "'풉'\n"),
        (b"# coding: iso-2022-jp-2\n'\x1b.A\x1bNi'", "'é'\n"),
        (b"# coding: ISO2022-JP-3\n'\x1b$(O0!\x1b(B'", "'亜'\n"),
        (b"# coding: johab\n'\xd0e'", "'한'"),
        (b"# coding: big5-hkscs\n'\x88b'", "'Ê̄'"),
        (b"# coding: shift_jisx0213\n'\x82\xf5'", "'か゚'"),
        (b"# coding: gb18030\n'\x952\x835'", "'\u{20009}'"),
        (b"# coding: tis-620\n'\xa1'", "'ก'"),
        (b"# coding: ptcp154\n'\x80'", "'Җ'"),
        (b"# coding: hp-roman8\n'\xd7'", "'æ'"),
        (b"# coding: mac_turkish\n'\xda'", "'Ğ'"),
        (b"# coding: kz1048\n'\xaf'", "'Ү'"),
        (b"# coding: cp1125\n'\xf2'", "'Ґ'"),
        (b"# coding: raw_unicode_escape\n'\\u20ac'", "'€'\n"),
        (b"# coding: unicode-escape\nx#\\u20ac", "x#€\n"),
        (b"# coding: idna\nx", "x\n"),
    ];
    for (source, expected) in cases {
        let text = text(source);
        assert_eq!(text.split_once('\n').expect("two lines").1, expected, "{}", String::from_utf8_lossy(source));
    }
}

#[test]
fn an_alias_is_known_from_the_version_on_that_has_it() {
    let source = b"# coding: windows-31j\n'\x82\xa0'";
    let old = decode(source, &Options::version(12)).expect_err("unknown");
    assert_eq!(old.message, "unknown encoding: windows-31j");
    assert_eq!(decode(source, &Options::version(13)).expect("known"), "# coding: windows-31j\n'あ'");
}

#[test]
fn codecs_that_make_no_text_are_refused_as_cpython_refuses_them() {
    let hint = "is not a text encoding; use codecs.decode() to handle arbitrary codecs";
    for name in ["rot13", "hex", "base64_codec", "bz2", "zlib", "uu", "quopri"] {
        assert_eq!(error(format!("# coding: {name}\n").as_bytes()).1, format!("'{name}' {hint}"));
    }
    for name in ["mbcs", "oem", "aliases", "utf-9"] {
        assert_eq!(error(format!("\n# coding: {name}\n").as_bytes()).1, format!("unknown encoding: {name}"));
    }
    assert_eq!(error(b"# coding: undefined\n").1, "undefined encoding");
}

#[test]
fn an_error_of_decoding_has_the_position_that_cpython_gives_it() {
    let position = Position::new;
    let encoding = Position { lineno: Some(0), offset: Some(-1), ..Position::default() };
    let cases: [(&[u8], [Position; 2]); 9] = [
        (b"# coding: foo\n", [encoding, encoding]),
        (b"# coding: ascii\nx\n\xff", [encoding, encoding]),
        (b"a\0", [Position::default(), Position::default()]),
        (b"x=1\n'\xff'\n", [position(2, 4, 2, 4), position(2, 1, 2, 2)]),
        (b"# coding: utf-8\nx=1\n'\xff'\n", [position(3, 2, 3, 2), position(3, 1, 3, 2)]),
        (b"x\n\xffy\n", [position(2, 2, 2, -1), position(2, 1, 2, -1)]),
        (b"\xef\xbb\xbf'\xff'\n", [position(1, 2, 1, 2), position(1, 1, 1, 2)]),
        (b"x = 'a' '\xff' + 1\n", [position(1, 13, 1, 14), position(1, 9, 1, 10)]),
        (b"x = b'\xff'\n", [position(1, 5, 1, 9), position(1, 5, 1, 7)]),
    ];
    for (source, positions) in cases {
        for (version, expected) in [11, 13].into_iter().zip(positions) {
            let error = decode(source, &Options::version(version)).expect_err("an error");
            assert_eq!(error.position, expected, "{} in 3.{version}", String::from_utf8_lossy(source));
        }
    }
    let mark = decode(b"\xef\xbb\xbf#\n# coding: latin-1\n", &Options::default()).expect_err("two encodings");
    assert_eq!(mark.position, position(2, 0, 2, 18));
}

#[test]
fn decoded_text_is_taken_as_it_is() {
    let options = Options { source_type: SourceType::Text, ..Options::default() };
    assert_eq!(decode("# coding: latin-1\n'é'".as_bytes(), &options).expect("text"), "# coding: latin-1\n'é'");
    let mark = decode("\u{feff}x".as_bytes(), &options).expect_err("a mark");
    assert_eq!(
        (mark.message.as_ref(), mark.position),
        ("invalid non-printable character U+FEFF", Position::new(1, 1, 1, 1))
    );
    let lone = decode(b"'\xed\xa0\x80\xed\xb0\x80'", &options).expect_err("surrogates");
    let message = "'utf-8' codec can't encode characters in position 1-2: surrogates not allowed";
    assert_eq!((lone.class, lone.message.as_ref()), (Class::UnicodeEncode, message));
}

#[test]
fn a_syllable_of_ks_x_1001_is_one_character() {
    let source = b"# coding: euc-kr\n# \xa4\xd4\xa4\xbe\xa4\xd3\xa4\xbe\xa4\xd4\xa4\xa1\xa4\xbf\xa4\xd4";
    let text = decode(source, &Options::default()).expect("two syllables");
    assert_eq!(text, "# coding: euc-kr\n# \u{d7a3}\u{ac00}");
}

#[test]
fn errors_of_encodings_have_the_words_of_cpython() {
    let cases: [(&[u8], &str); 11] = [
        (
            b"# coding: euc-kr\n# \xa4\xd4\xa4\xa1",
            "'euc_kr' codec can't decode bytes in position 19-23: incomplete multibyte sequence",
        ),
        (
            b"# coding: cp869\n'\x80'",
            "'charmap' codec can't decode byte 0x80 in position 17: character maps to <undefined>",
        ),
        (
            b"# coding: euc-kr\n'\x81\x82'",
            "'euc_kr' codec can't decode byte 0x81 in position 18: illegal multibyte sequence",
        ),
        (b"# coding: foo\n", "unknown encoding: foo"),
        (b"\xef\xbb\xbf# coding: latin-1\n", "encoding problem: iso-8859-1 with BOM"),
        (b"\xef\xbb\xbf# coding: utf8\n", "encoding problem: utf8 with BOM"),
        (
            b"# coding: ascii\r\n\r\n'\xe9'",
            "'ascii' codec can't decode byte 0xe9 in position 18: ordinal not in range(128)",
        ),
        (
            b"# coding: cp1252\n'\x81'",
            "'charmap' codec can't decode byte 0x81 in position 18: character maps to <undefined>",
        ),
        (b"# coding: gbk\n'\xff\xff'", "'gbk' codec can't decode byte 0xff in position 15: illegal multibyte sequence"),
        (b"# coding: utf8\n'\xff'", "'utf-8' codec can't decode byte 0xff in position 16: invalid start byte"),
        (b"a\0b", "source code string cannot contain null bytes"),
    ];
    for (source, message) in cases {
        assert_eq!(error(source).1, message);
    }
}

#[test]
fn bytes_that_are_no_utf8_are_errors_of_their_token() {
    let cases: [(&[u8], u32, &str); 7] = [
        (b"x = '\xff'\n", 4, "byte 0xff in position 0: invalid start byte"),
        (b"\n\nx='\xc3('", 4, "byte 0xc3 in position 0: invalid continuation byte"),
        (b"x='a\xe2\x82A'", 2, "bytes in position 1-2: invalid continuation byte"),
        (b"x='\\n \xff'", 2, "byte 0xff in position 0: invalid start byte"),
        (b"abc\xff", 3, "byte 0xff in position 3: invalid start byte"),
        (b"x=1 \xe9", 4, "byte 0xe9 in position 0: unexpected end of data"),
        (b"# coding: utf-8\n'\xff'", 16, "byte 0xff in position 0: invalid start byte"),
    ];
    for (source, offset, reason) in cases {
        assert_eq!(error(source), (offset, format!("(unicode error) 'utf-8' codec can't decode {reason}")));
    }
}

#[test]
fn comments_are_not_decoded() {
    assert_eq!(text(b"x # \xff\xe9\ny"), "x # XX\ny");
}

#[test]
fn from_3_14_on_comments_are_decoded() {
    let source = b"x\r\n# a\xff";
    assert_eq!(text(source), "x\r\n# aX");
    let found = decode(source, &Options::default()).expect_err("no UTF-8");
    let message = "Non-UTF-8 code starting with '\\xff' on line 2, but no encoding declared; \
                   see https://peps.python.org/pep-0263/ for details";
    assert_eq!((found.start, found.message.as_ref()), (6, message));
    // An error before its line comes first.
    assert!(decode(b"'\n# \xff", &Options::default()).is_ok());
}
