//! What the CPU is nearly sure to get, seen before the device has: it begins with that at once, and is done in time.
//!
//! These are guesses: a source that the device could have done is the CPU's for nothing, and one that is missed is the CPU's
//! later. What comes of it is the same.

use memchr::{memchr, memmem};

/// Tokens of the longest line that the device cuts; as in `cu/parse_tree_cut.cu`.
const MOST_TOKENS: usize = 5000;
/// So far apart is looked for lines that go on.
const STRIDE: usize = 4096;
/// So many of these in a row are a reason to look closer.
const PROBES: usize = 3;

/// Whether a string may name a character: the device has no table of these names. Only in rare comments, raw strings and
/// bytes this is none.
pub(super) fn names_characters(text: &[u8]) -> bool {
    memmem::find_iter(text, b"\\N{").any(|at| {
        let backslashes = text[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
        backslashes.is_multiple_of(2)
    })
}

/// Whether a logical line may have more tokens than the device takes: a table of data, of whose physical lines each but the
/// last shows by its end that it goes on. Looks at few bytes of other text.
pub(super) fn has_long_line(text: &[u8]) -> bool {
    let (mut at, mut first, mut probes) = (0, 0, 0);
    while at < text.len() {
        at += line(text, at).len() + 1;
        if !goes_on(line(text, at)) {
            probes = 0;
        } else if probes + 1 < PROBES {
            first = if probes == 0 { at } else { first };
            probes += 1;
        } else {
            match end_of_long_line(text, first) {
                None => return true,
                Some(end) => (at, probes) = (end, 0),
            }
        }
        at += STRIDE;
    }
    false
}

/// The rest of a physical line, if there is one.
fn line(text: &[u8], at: usize) -> &[u8] {
    let rest = text.get(at..).unwrap_or_default();
    &rest[..memchr(b'\n', rest).unwrap_or(rest.len())]
}

/// Whether the logical line goes on behind this one, or may, since this is empty or a comment.
fn goes_on(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    line.starts_with(b"#") || matches!(line.last(), None | Some(b',' | b'(' | b'[' | b'{' | b'\'' | b'"' | b'\\'))
}

/// Where lines that go on end, from the one at `at` on, unless they have too many tokens.
fn end_of_long_line(text: &[u8], mut at: usize) -> Option<usize> {
    let mut tokens = 0;
    while at < text.len() {
        let line = line(text, at);
        if !goes_on(line) {
            return Some(at);
        }
        tokens += count_tokens(line);
        if tokens > MOST_TOKENS {
            return None;
        }
        at += line.len() + 1;
    }
    Some(at)
}

/// About as many tokens as a line has that begins and ends outside of strings.
fn count_tokens(line: &[u8]) -> usize {
    let (mut count, mut at) = (0, 0);
    while let Some(&byte) = line.get(at) {
        at += 1;
        match byte {
            b'#' => return count,
            b' ' | b'\t' | b'\r' | b'\\' => continue,
            b'\'' | b'"' => at += string_length(&line[at..], byte),
            _ if is_word(byte) => at += line[at..].iter().take_while(|byte| is_word(**byte)).count(),
            _ => {}
        }
        count += 1;
    }
    count
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | 0x80..)
}

/// Bytes of the rest of a string, its quote included.
fn string_length(rest: &[u8], quote: u8) -> usize {
    let mut escaped = false;
    let ends = |&byte: &u8| {
        let ends = byte == quote && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    };
    rest.iter().position(ends).map_or(rest.len(), |end| end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_character_is_seen_and_an_escaped_backslash_is_none() {
        for text in [r"'\N{DIGIT ONE}'", r"'\\\N{DIGIT ONE}'", r"x = '\\N{' + '\N{COLON}'", r"\N{"] {
            assert!(names_characters(text.as_bytes()), "{text}");
        }
        for text in ["", r"'\\N{DIGIT ONE}'", r"'\n{'", "N{}", r"'\N'", r"\N"] {
            assert!(!names_characters(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn tokens_are_counted() {
        for (line, tokens) in
            [("", 0), ("  'a\\'b, c': \"d\", # e, f", 4), ("x1 = [1.5, _é, (", 8), ("'open, to the end", 1)]
        {
            assert_eq!(count_tokens(line.as_bytes()), tokens, "{line}");
        }
    }

    #[test]
    fn tables_are_long_lines_and_code_and_short_tables_are_none() {
        let code =
            "def f(a, b):\n    \"\"\"Text, with\n    commas,\n    and more.\"\"\"\n    return g(a,\n        b)\n"
                .repeat(500);
        let entries = |count: usize| "    'name': (1, 'two'),\n    # three\n\n".repeat(count);
        assert!(!has_long_line(code.as_bytes()));
        for (count, expected) in [(100, false), (500, false), (900, true), (5000, true)] {
            let table = format!("{code}table = {{\n{}}}\n{code}", entries(count));
            assert_eq!(has_long_line(table.as_bytes()), expected, "{count}");
        }
        let texts = "    'a long text without an end, one of many of its kind\\n'\r\n".repeat(6000);
        assert!(has_long_line(format!("text = (\r\n{texts})\r\n").as_bytes()));
        let tables = "table = [\n    'one', 'two',\n    'three',\n    'four']\n".repeat(3000);
        assert!(!has_long_line(tables.as_bytes()));
        assert!(!has_long_line(b""));
    }

    #[test]
    fn the_limit_is_that_of_the_kernels() {
        let kernel = include_str!("../../../../cu/parse_tree_cut.cu");
        assert!(kernel.contains(&format!("#define MOST_CUT {MOST_TOKENS}u\n")));
    }
}
