//! Prints the control characters of foreign text visibly.
//!
//! File names, ids, snippets and messages are stored by one caller and shown in the terminal of another. An escape sequence in
//! them would move the cursor, recolour or retitle that terminal, and a newline or a bidirectional override would forge output.

use std::{
    borrow::Cow,
    fmt::Write,
    hash::{BuildHasher, RandomState},
    sync::LazyLock,
};

/// First parameters of the program's own styles. They are random, so that no foreign text contains them, and of four digits, which
/// is what `console` takes for an escape sequence when it measures text.
static OWN_PREFIX: LazyLock<String> = LazyLock::new(|| {
    let random = RandomState::new().hash_one(());
    let digits = |group: u32| random / 10_000_u64.pow(group) % 10_000;
    format!("\x1b[{:04};{:04};{:04};{:04};", digits(0), digits(1), digits(2), digits(3))
});

/// Applies the parameters of a style; only [`terminal`] turns the result into escape sequences of a terminal.
pub fn styled(parameters: &str, text: &str) -> String {
    let own = own_prefix();
    format!("{own}{parameters}m{text}{own}0m")
}

/// Replaces the program's own styles by escape sequences. Of all other control characters only newlines are left.
pub fn terminal(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c != '\n' && is_hidden(c), "\x1b[")
}

/// Escapes control characters, newlines among them, and keeps the program's own styles.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, is_hidden, own_prefix())
}

/// Escapes control characters except newlines.
pub fn lines(text: &str) -> Cow<'_, str> {
    if text.contains(|c| c != '\n' && is_hidden(c)) {
        Cow::Owned(text.split('\n').map(line).collect::<Vec<_>>().join("\n"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Escapes the control characters that JSON allows within strings. The document's value stays the same.
pub fn json(document: &str) -> Cow<'_, str> {
    // JSON escapes the characters below U+0020 itself: those in a document are its formatting.
    let is_left = |c: char| c >= ' ' && is_hidden(c);
    if !document.contains(is_left) {
        return Cow::Borrowed(document);
    }
    let mut escaped = String::with_capacity(document.len() + 16);
    for c in document.chars() {
        if is_left(c) {
            // Writing to a string does not fail.
            let _ = write!(escaped, "\\u{:04x}", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// Returns true if a character acts on a terminal or on the order of the text around it, or ends a line.
pub fn is_hidden(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn own_prefix() -> &'static str {
    OWN_PREFIX.as_str()
}

/// Escapes the characters that `is_escaped` selects; `own` takes the place of the prefix of the program's own styles.
fn escaped<'a>(text: &'a str, is_escaped: impl Fn(char) -> bool, own: &str) -> Cow<'a, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix(own_prefix()) {
            shown.push_str(own);
            rest = after;
            continue;
        }
        if is_escaped(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
        rest = &rest[c.len_utf8()..];
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Text in which every second character is one that must not be printed.
    fn hostile() -> impl Strategy<Value = String> {
        let hidden = prop::sample::select(vec![
            '\0', '\x07', '\t', '\n', '\r', '\x1b', '\x7f', '\u{85}', '\u{9b}', '\u{2028}', '\u{2029}', '\u{202e}',
            '\u{2066}', '\u{2069}',
        ]);
        let text =
            prop_oneof![hidden.prop_map(String::from), any::<char>().prop_map(String::from), Just("\x1b[31m".into())];
        prop::collection::vec(text, 0..40).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn no_control_character_reaches_a_terminal(text in hostile()) {
            prop_assert!(!line(&text).contains(is_hidden));
            prop_assert!(!terminal(&text).contains(|c| c != '\n' && is_hidden(c)));
            prop_assert!(!lines(&text).contains(|c| c != '\n' && is_hidden(c)));
            prop_assert_eq!(lines(&text).matches('\n').count(), text.matches('\n').count());
        }

        #[test]
        fn a_json_document_keeps_its_value(text in hostile()) {
            let document = serde_json::to_string(&text).unwrap();
            let escaped = json(&document);
            prop_assert!(!escaped.contains(is_hidden));
            prop_assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), text);
        }
    }

    #[test]
    fn control_characters_are_written_as_escapes() {
        assert_eq!(line("a\x1b[31m\n\u{9b}\u{202e}\t"), "a\\u{1b}[31m\\n\\u{9b}\\u{202e}\\t");
    }

    #[test]
    fn own_styles_become_escape_sequences_and_foreign_ones_do_not() {
        let text = styled("1;31", "name\x1b[1;31m");
        assert_eq!(terminal(&line(&text)), "\x1b[1;31mname\\u{1b}[1;31m\x1b[0m");
    }

    #[test]
    fn text_of_any_language_is_unchanged() {
        let text = "naïve λ 日本語 עברית \u{200f}👩\u{200d}💻";
        assert!(matches!(line(text), Cow::Borrowed(same) if same == text));
    }
}
