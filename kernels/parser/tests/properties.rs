//! Properties of the parser for any source.

use accelerd_parser::{NONE, Options, parse};
use proptest::prelude::*;

/// Fragments of sources, chosen so that long prefixes are valid.
#[rustfmt::skip]
const PARTS: &[&str] = &[
    "a", "_", "1", "2j", "'s'", "b''", "f'", "t\"", "{", "}", "(", ")", "[", "]", ",", ":", ";", "=", ":=", ".", "...",
    "*", "**", "/", "@", "->", "+=", "<", "if ", "elif ", "else", "for ", " in ", "def ", "class ", "match ", "case ",
    "type ", "with ", " as ", "try", "except ", "finally", "lambda ", "yield ", "await ", "async ", "not ", "import ",
    "from ", "del ", "\n", "\n ", "\n  ", "\n\t", "\\\n", "#", "!", "'''", "pass", "\u{e9}",
];

fn check(source: &[u8], feature_version: u8) {
    let parsed = parse(source, &Options::version(feature_version));
    let length = parsed.text.len();
    let Ok(columns) = parsed.outcome else { return };
    let rows = columns.kinds.len();
    for row in 0..rows {
        let parent = columns.parents[row];
        assert!(parent == NONE || (parent as usize) < rows && parent as usize != row, "the parent of {row}");
        let start = columns.starts[row];
        let end = columns.ends[row];
        assert!(start <= end && end as usize <= length, "the place of {row}");
    }
    let all = [columns.fields.len(), columns.parents.len(), columns.ends.len(), columns.aux.len()];
    assert_eq!(all, [rows; 4]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn any_bytes_have_a_tree_or_an_error(source in prop::collection::vec(any::<u8>(), 0..200), version in 8..=14_u8) {
        check(&source, version);
    }

    #[test]
    fn any_parts_have_a_tree_or_an_error(
        parts in prop::collection::vec(prop::sample::select(PARTS), 0..40),
        version in 8..=14_u8,
    ) {
        check(parts.concat().as_bytes(), version);
    }
}

/// Lists that grow by one element at a time; quadratic time would take minutes.
#[test]
fn lists_of_a_hundred_thousand_pieces_are_parsed() {
    const COUNT: usize = 100_000;
    for (before, piece, after, nodes_a_piece) in [
        ("", "x=", "1", 1),
        ("x=1", "<1", "", 2),
        ("[1 for a in b", " if c", "]", 1),
        ("x", ".y", "", 1),
        ("f(", "a=1,", ")", 2),
        ("{", "1:2,", "}", 2),
        ("del a", ",a", "", 1),
        ("global a", ",a", "", 1),
        ("import a", ".a", "", 1),
        ("x = 1", ";x", "", 2),
        ("with a as b", ",a as b", ": pass", 3),
        ("f'", "{a}", "'", 2),
    ] {
        let text = format!("{before}{}{after}", piece.repeat(COUNT));
        let columns = parse(text.as_bytes(), &Options::default()).outcome.expect("it is Python");
        let limit = nodes_a_piece * COUNT + 10;
        assert!((nodes_a_piece * COUNT..limit).contains(&columns.kinds.len()), "{piece}: {}", columns.kinds.len());
    }
}
