//! Properties of the lexer for any input: it does not panic, and its tokens are ordered.

use accelerd_parser::lexer::{Lexed, lex, line_starts};
use accelerd_parser::{Options, Terminal, Tokens, literals, soft_keywords, text};
use proptest::prelude::{Strategy, prop, prop_oneof, proptest};

/// Fragments that make nested and invalid texts likely.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "f'", "'", "\"", "'''", "f\"\"\"", "{", "}", "{{", "}}", "(", ")", "[", "]", ":", "!r", "=", "\\", "\n",
            "\r\n", "\r", " ", "\t", "\x0c", "#", "\\N{", "\\x", "rb'", "u'", "t'", "0x", "1_", "1e", ".", "...", "if",
            "match x:", "case", "type", "with (", "é", "ﬁ", "€", "\u{feff}", "\0", "\\\n", "$", "<>", "x", "0", "_",
            "**=", "->",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,3}",
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn check(text: &str) {
    let mut lexed = lex(text);
    check_order(text, &lexed);
    check_values(text, &lexed);
    soft_keywords::apply(&mut lexed);
    assert!(line_starts(text).is_sorted());
    if let Some(error) = &lexed.error {
        assert!(error.diagnostic.start <= error.diagnostic.end && error.diagnostic.end as usize <= text.len() + 1);
        for index in 0..text.len() {
            lexed.preferred_error(text, u32::try_from(index).expect("short"));
        }
    }
}

fn check_order(text: &str, lexed: &Lexed) {
    let tokens = &lexed.tokens;
    let mut index = 0;
    for (&start, &end) in tokens.starts.iter().zip(&tokens.ends) {
        assert!(index <= start && start < end && text.get(start as usize..end as usize).is_some(), "{text:?}");
        index = end;
    }
    let mut first = 0;
    for line in &lexed.lines {
        assert!(line.first == first && line.first < line.end, "{text:?}");
        first = line.end;
    }
    assert_eq!(first as usize, tokens.kinds.len(), "{text:?}");
    assert!(lexed.comments.iter().all(|&(start, end)| text[start as usize..end as usize].starts_with('#')));
}

fn check_values(text: &str, lexed: &Lexed) {
    let tokens = &lexed.tokens;
    let mut extra = Vec::new();
    for (index, &kind) in tokens.kinds.iter().enumerate() {
        let start = tokens.starts[index];
        let end = tokens.ends[index];
        let payload = tokens.payloads[index];
        let value = if kind == Terminal::String {
            literals::strings(text, tokens, index, index + 1, (0, 0), &mut extra)
        } else if kind == Terminal::FStringMiddle {
            literals::middle(text, start, end, payload, (0, 0), &mut extra)
        } else if kind == Terminal::Number {
            literals::number(text, start, end)
        } else {
            continue;
        };
        if let Ok(value) = value {
            assert!(value.start <= value.end && value.end as usize <= text.len() + extra.len());
        }
        literals::expression_text(text, start, end, &Options::default(), &mut extra);
    }
}

/// The value of a string.
fn value(text: &str, tokens: &Tokens, index: usize) -> Option<Vec<u8>> {
    let mut extra = Vec::new();
    if tokens.kinds[index] != Terminal::String {
        return None;
    }
    let value = literals::strings(text, tokens, index, index + 1, (0, 0), &mut extra).ok()?;
    let start = value.start as usize;
    let end = value.end as usize;
    let apart = start.checked_sub(text.len()).filter(|_| !extra.is_empty());
    Some(apart.map_or_else(|| text.as_bytes()[start..end].to_vec(), |from| extra[from..end - text.len()].to_vec()))
}

proptest! {
    #[test]
    fn any_bytes_are_lexed(bytes in prop::collection::vec(prop::num::u8::ANY, 0..200)) {
        if let Ok(text) = text::decode(&bytes, &Options::default()) {
            check(&text);
        }
    }

    #[test]
    fn any_pieces_are_lexed(text in pieces()) {
        check(&text);
    }

    #[test]
    fn each_kind_of_newline_gives_the_same_tokens_and_values(text in pieces(), newline in prop::sample::select(vec!["\r\n", "\r"])) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let other = text.replace('\n', newline);
        let one = lex(&text);
        let two = lex(&other);
        assert_eq!(one.tokens.kinds, two.tokens.kinds, "{text:?}");
        assert_eq!(one.lines, two.lines, "{text:?}");
        assert_eq!(one.error.map(|error| error.diagnostic.message), two.error.map(|error| error.diagnostic.message));
        assert_eq!(line_starts(&text).len(), line_starts(&other).len());
        for index in 0..one.tokens.kinds.len() {
            assert_eq!(value(&text, &one.tokens, index), value(&other, &two.tokens, index), "{text:?}");
        }
    }

    #[test]
    fn a_truncated_source_keeps_the_lines_before_the_cut(text in pieces(), at in 0..100_usize) {
        let whole = lex(&text);
        if let (None, Some(line)) = (&whole.error, whole.lines.get(at % whole.lines.len().max(1))) {
            let end = whole.tokens.ends[line.end as usize - 1] as usize;
            let part = lex(&text[..end]);
            assert_eq!(part.tokens.kinds[..], whole.tokens.kinds[..line.end as usize]);
        }
    }
}
