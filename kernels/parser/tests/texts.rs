//! Literal text of f- and t-strings, where it depends on CPython's version.

use accelerd_parser::{Columns, Kind, Options, Tag, parse};

fn parsed(source: &str, feature_version: u8) -> (String, Columns) {
    let parsed = parse(source.as_bytes(), &Options::version(feature_version));
    (parsed.text.into_owned(), parsed.outcome.unwrap_or_else(|error| panic!("{source:?}: {error}")))
}

/// All texts, in the order of their rows.
fn texts(source: &str, feature_version: u8) -> Vec<String> {
    let (text, columns) = parsed(source, feature_version);
    let written = |(&start, &end): (&u32, &u32)| {
        let start = start as usize;
        let end = end as usize;
        let bytes = match start.checked_sub(text.len()).filter(|_| end > text.len()) {
            Some(start) => &columns.extra[start..end - text.len()],
            None => &text.as_bytes()[start..end],
        };
        String::from_utf8_lossy(bytes).into_owned()
    };
    let all = columns.value_starts.iter().zip(&columns.value_ends).zip(&columns.value_tags);
    all.filter(|(_, tag)| **tag == Tag::Str).map(|(place, _)| written(place)).collect()
}

#[track_caller]
fn are(source: &str, before_3_14: &[&str], since: &[&str]) {
    assert_eq!(texts(source, 13), before_3_14, "{source:?} in 3.13");
    assert_eq!(texts(source, 14), since, "{source:?} in 3.14");
}

#[test]
fn before_3_14_the_shown_source_of_a_field_is_decoded() {
    are("f'{\\\nC()=!r}'", &["C()="], &["\\\nC()="]);
    are("f'{C()\\\r\n=}'", &["C()="], &["C()\\\n="]);
    are("f'{x[\"\\x41\"]=}'", &["x[\"A\"]=", "A"], &["x[\"\\x41\"]=", "A"]);
    are("rf'{\\\nx=}'", &["\\\nx="], &["\\\nx="]);
    are("rf'{f\"{\\\nx=}\"}'", &["x="], &["\\\nx="]);
    let bad = parse(b"f\"{r'\\x4'=}\"", &Options::version(13)).outcome.expect_err("an escape");
    assert!(bad.message.starts_with("(unicode error)"), "{bad}");
}

#[test]
fn an_inequality_passes_for_a_conversion() {
    are("f'{a!=b!=c=}'", &["a"], &["a!=b!=c="]);
    are("f'{a!=b!=c=:}'", &["a"], &["a!=b"]);
    are("f'{x(a!=b)=:}'", &["x(a!=b)="], &["x(a!=b)="]);
    are("f'{x:{y!=z=}}'", &["y"], &["y!=z="]);
    assert_eq!(texts("f'{a!=b=:}'", 11), ["a!=b="]);
    assert_eq!(texts("t'{a!=b!=c:}'", 14), ["a!=b"]);
    assert_eq!(texts("t'{a!=b}{a!=b!r:c}'", 14), ["a!=b", "a!=b", "c"]);
}

#[test]
fn from_3_14_a_hash_between_quotes_is_no_comment() {
    are("f'{\"#\"=}'", &["\"", "#"], &["\"#\"=", "#"]);
    are("f'{x #\"\n=}'", &["x \n="], &["x \n="]);
    are("f\"\"\"{'''a'#'''=}\"\"\"", &["'''a'", "a'#"], &["'''a'", "a'#"]);
}

#[test]
fn text_with_an_empty_rest_ends_at_its_last_brace() {
    for (source, place) in [
        ("f'{x}\\}}\\\n'", (5, 8)),
        ("f'''{x}}}\\\n\\\r\n'''", (7, 9)),
        ("f'a{{\\\n'", (2, 5)),
        ("f'{x}a\\\n'", (5, 8)),
        ("f'{x}a}}\\\\\\\n'", (5, 12)),
        ("rf'{x}}}\\\n'", (6, 10)),
    ] {
        let (_, columns) = parsed(source, 14);
        let row = columns.kinds.iter().rposition(|&kind| kind == Kind::Constant).expect("a text");
        assert_eq!((columns.starts[row], columns.ends[row]), place, "{source:?}");
    }
}

#[test]
fn adjacent_fields_in_a_specification_show_the_source_that_cpython_records() {
    are("f'{b:{x}{y=}}'", &["x"], &["x}{y="]);
    are("f'{b:{x!r}{z}{y=}}'", &["x"], &["x!r}{z}{y="]);
    are("f'{b:{x=}{y=}}'", &["x=", "x="], &["x=", "x=}{y="]);
    are("f'{b:{x} {y=}}'", &[" y="], &[" y="]);
    are("f'{b:a{x}{y=}}'", &["a", "x}{y="], &["a", "x}{y="]);
    are("f'{b:{{1}}{y=}}'", &["{1}}{y="], &["{1}}{y="]);
    are("f'{b:{f(\"\\x41\")=}}'", &["f(\"\\x41\")=", "A"], &["f(\"\\x41\")=", "A"]);
    are("f'{x}{y=}'", &["y="], &["y="]);
}

#[test]
fn before_3_14_raw_specifications_are_decoded() {
    are(r"rf'{s:\1}'", &["\u{1}"], &[r"\1"]);
    are(r"rf'{s:\x41{b}\x41}\x41'", &["A", "A", r"\x41"], &[r"\x41", r"\x41", r"\x41"]);
    let bad = parse(br"rf'{s:\N{w}}'", &Options::version(13)).outcome.expect_err("no name");
    assert_eq!(bad.class, accelerd_parser::Class::UnicodeDecode);
    are(r"rf'{s:\{w}}'", &["\\"], &["\\"]);
}

#[test]
fn text_after_a_character_name_makes_a_specification_a_plain_constant() {
    for (source, version, kind, place) in [
        (r"f'{1:\N{BULLET}b}'", 13, Kind::Constant, (5, 16)),
        (r"f'{1:\N{BULLET}b}'", 14, Kind::Constant, (4, 16)),
        (r"f'{1:b\N{BULLET}}'", 14, Kind::JoinedStr, (4, 16)),
        (r"f'{1:\N{BULLET}b{c}}'", 13, Kind::JoinedStr, (4, 19)),
        (r"f'{1:\N{BULLET}b}'", 11, Kind::JoinedStr, (4, 16)),
    ] {
        let (_, columns) = parsed(source, version);
        let row = columns.fields.iter().position(|field| *field == accelerd_parser::Field::FormatSpec).expect("one");
        assert_eq!(
            (columns.kinds[row], (columns.starts[row], columns.ends[row])),
            (kind, place),
            "{source} in 3.{version}"
        );
    }
    let (_, columns) = parsed(r"f'{a=:\N{BULLET}=}'", 13);
    assert_eq!((columns.starts[0], columns.ends[0]), (3, 6));
}
