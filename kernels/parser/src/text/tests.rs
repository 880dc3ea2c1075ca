//! What bytes become, in small sources.

use std::borrow::Cow;

use super::decode;
use crate::Options;

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
fn errors_of_encodings_have_the_words_of_cpython() {
    let cases: [(&[u8], &str); 10] = [
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
    for (source, at, reason) in cases {
        assert_eq!(error(source), (at, format!("(unicode error) 'utf-8' codec can't decode {reason}")));
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
