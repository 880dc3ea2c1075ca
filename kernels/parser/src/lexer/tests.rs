//! Tokens, lines and errors of small texts.

use super::{Lexed, lex, line_starts};
use crate::tokens::{Terminal, string};

fn kinds(text: &str) -> Vec<Terminal> {
    let lexed = lex(text);
    assert_eq!(lexed.error, None, "{text:?}");
    lexed.tokens.kinds
}

fn pieces<'a>(text: &'a str, lexed: &Lexed) -> Vec<&'a str> {
    let places = lexed.tokens.starts.iter().zip(&lexed.tokens.ends);
    places.map(|(&start, &end)| &text[start as usize..end as usize]).collect()
}

fn error(text: &str) -> (u32, u32, String) {
    let found = lex(text).error.expect("the text has an error").diagnostic;
    (found.start, found.end, found.message.into_owned())
}

#[test]
fn words_operators_and_numbers_have_their_kinds() {
    use Terminal::{Augmented, Comparison, Equal, If, Name, Number, Plus};
    assert_eq!(kinds("if x == 1.5e3:\n y += z+0x1f\n")[..4], [If, Name, Comparison, Number]);
    assert_eq!(kinds("y **= z+0_0"), [Name, Augmented, Name, Plus, Number]);
    assert_eq!(kinds("a=b"), [Name, Equal, Name]);
}

#[test]
fn names_are_numbered_as_they_first_occur() {
    let text = "b a b a_rather_long_name a a_rather_long_name";
    let lexed = lex(text);
    assert_eq!(lexed.tokens.payloads, [0, 1, 0, 2, 1, 2]);
    assert_eq!(lexed.name_starts, [0, 2, 6]);
}

#[test]
fn names_are_equal_in_normal_form() {
    let text = "fi ﬁ ｉｆ if";
    let lexed = lex(text);
    assert_eq!(lexed.tokens.payloads[..3], [0, 0, 1]);
    assert_eq!(lexed.tokens.kinds, [Terminal::Name, Terminal::Name, Terminal::Name, Terminal::If]);
    assert_eq!(lexed.extra, b"if");
    assert_eq!(lexed.name_starts[1] as usize, text.len());
}

#[test]
fn brackets_strings_and_backslashes_join_lines() {
    let lexed = lex("a = (1,\n 2)\nb = '''x\ny'''\nc = \\\n 3\n# end\n");
    assert_eq!(lexed.lines.iter().map(|line| line.column).collect::<Vec<_>>(), [0, 0, 0]);
    assert_eq!(lexed.comments.len(), 1);
}

#[test]
fn both_columns_of_an_indentation_are_measured() {
    let lexed = lex("if x:\n \ty\n\x0c\nz\n");
    assert_eq!((lexed.lines[1].column, lexed.lines[1].alternate), (8, 2));
    assert_eq!(lexed.lines[2].column, 0);
}

#[test]
fn fields_nest() {
    let text = "f'a{x!r:>{w}}{{b}}' t\"{y=}\"";
    let lexed = lex(text);
    assert_eq!(lexed.error, None);
    assert_eq!(
        pieces(text, &lexed),
        ["f'", "a", "{", "x", "!", "r", ":", ">", "{", "w", "}", "}", "{{b}}", "'", "t\"", "{", "y", "=", "}", "\""]
    );
    assert_eq!(lexed.tokens.payloads[7], string::SPEC);
    assert_eq!(lexed.tokens.payloads[12], string::CHANGED);
}

#[test]
fn quotes_may_be_reused_in_a_field() {
    let text = "f'{d['k']}{f'{1}'}'";
    assert_eq!(pieces(text, &lex(text)).concat(), text);
}

#[test]
fn tokens_before_an_error_are_kept() {
    let lexed = lex("a b\nc = (1, 'x\n");
    assert_eq!((lexed.lines.len(), lexed.tokens.kinds.len(), lexed.error_in_line), (2, 7, true));
    assert!(lexed.error.is_some_and(|error| error.takes_precedence));
}

#[test]
fn an_error_token_is_reported_unless_a_preferred_error_follows() {
    assert_eq!(error("a $ b"), (2, 3, "invalid syntax".to_owned()));
    assert_eq!(error("a <> b\n'"), (7, 7, "unterminated string literal (detected at line 2)".to_owned()));
    assert_eq!(error("(1\n$"), (0, 0, "'(' was never closed".to_owned()));
}

#[test]
fn errors_have_the_messages_and_positions_of_cpython() {
    let cases = [
        ("x='abc", 2, "unterminated string literal (detected at line 1)"),
        ("x='''abc\n\n", 2, "unterminated triple-quoted string literal (detected at line 2)"),
        ("x='a\\'bc", 2, "unterminated string literal (detected at line 1); perhaps you escaped the end quote?"),
        ("f'{x", 2, "'{' was never closed"),
        ("f'abc", 0, "unterminated f-string literal (detected at line 1)"),
        ("f'{'", 3, "f-string: expecting '}'"),
        ("(\n\n]", 3, "closing parenthesis ']' does not match opening parenthesis '(' on line 1"),
        ("f'{)}'", 3, "f-string: unmatched ')'"),
        ("f'}'", 2, "f-string: single '}' is not allowed"),
        ("1__0", 1, "invalid decimal literal"),
        ("0b12", 3, "invalid digit '2' in binary literal"),
        ("1e+", 2, "invalid decimal literal"),
        ("a€b", 1, "invalid character '€' (U+20AC)"),
        ("\u{1}", 0, "invalid non-printable character U+0001"),
        ("f'{x:{x:{x:{x}}}}'", 10, "f-string: expressions nested too deeply"),
        ("x = \\ y", 5, "unexpected character after line continuation character"),
        ("a\\\n", 2, "unexpected EOF while parsing"),
        ("if x:\n    a\n  b = 1\nc", 19, "unindent does not match any outer indentation level"),
        ("if x:\n        a\n\tb\n", 16, "inconsistent use of tabs and spaces in indentation"),
    ];
    for (text, offset, message) in cases {
        assert_eq!(error(text), (offset, offset, message.to_owned()), "{text:?}");
    }
}

#[test]
fn all_kinds_of_newlines_end_lines() {
    assert_eq!(line_starts("a\r\nb\rc\nd"), [0, 3, 5, 7]);
    assert_eq!(lex("a\r\nb\rc\nd").lines.len(), 4);
}
