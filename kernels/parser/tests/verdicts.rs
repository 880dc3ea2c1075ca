//! Valid and invalid sources, beyond the grammar of a line.

use accelerd_parser::{Class, Options, parse};

fn error(source: &str) -> Option<(Class, String)> {
    let outcome = parse(source.as_bytes(), &Options::default()).outcome;
    outcome.err().map(|error| (error.class, error.message.into_owned()))
}

#[track_caller]
fn right(sources: &[&str]) {
    for source in sources {
        assert_eq!(error(source), None, "{source:?}");
    }
}

#[track_caller]
fn wrong(cases: &[(&str, Class, &str)]) {
    for &(source, class, message) in cases {
        assert_eq!(error(source), Some((class, message.to_owned())), "{source:?}");
    }
}

const SYNTAX: Class = Class::Syntax;
const INDENTATION: Class = Class::Indentation;

#[test]
fn targets_are_names_attributes_subscripts_and_sequences_of_them() {
    right(&["(a) = [b.c, *(d)] = ()", "for x, in y: pass", "with a as (b, c[0]): pass", "del (a), [b]", "(a.b): int"]);
    wrong(&[
        ("f() = 1", SYNTAX, "cannot assign to function call here. Maybe you meant '==' instead of '='?"),
        ("for f(x) in y: pass", SYNTAX, "cannot assign to function call"),
        ("del a()", SYNTAX, "cannot delete function call"),
        ("(a, b) += 1", SYNTAX, "'tuple' is an illegal expression for augmented assignment"),
        ("[a]: int", SYNTAX, "only single target (not list) can be annotated"),
    ]);
}

#[test]
fn arguments_keep_their_order() {
    right(&["f(a=1, *b, **c, d=2)", "f(**a, **b)", "class A(*b, c=1): pass", "f(x for x in y)"]);
    wrong(&[
        ("f(a=1, *b, c)", SYNTAX, "positional argument follows keyword argument"),
        ("f(**a, b)", SYNTAX, "positional argument follows keyword argument unpacking"),
        ("f(**a, b=1, *c)", SYNTAX, "iterable argument unpacking follows keyword argument unpacking"),
        ("def f(a=1, /, b): pass", SYNTAX, "parameter without a default follows parameter with a default"),
        ("lambda *, **a: 0", SYNTAX, "named arguments must follow bare *"),
    ]);
}

#[test]
fn blocks_are_indented_and_clauses_follow_their_statement() {
    right(&["if a:\n\tb\nelse: c", "try: a\nexcept: b\nelse: c\nfinally: d", "@a\n@b\nasync def f(): pass"]);
    wrong(&[
        (" a", INDENTATION, "unexpected indent"),
        ("a\n b", INDENTATION, "unexpected indent"),
        ("if a:\nb", INDENTATION, "expected an indented block after 'if' statement on line 1"),
        ("else: a", SYNTAX, "invalid syntax"),
        ("try: a\nelse: b", SYNTAX, "expected 'except' or 'finally' block"),
        ("def f(a) -> b\nc", SYNTAX, "expected ':'"),
        ("a if b\nc", SYNTAX, "expected 'else' after 'if' expression"),
        ("try: a\nb", SYNTAX, "expected 'except' or 'finally' block"),
        ("try: a\nexcept* b: c\nexcept d: e", SYNTAX, "cannot have both 'except' and 'except*' on the same 'try'"),
        ("@a\nb", SYNTAX, "invalid syntax"),
        ("if a:\n  b\n c", INDENTATION, "unindent does not match any outer indentation level"),
        ("if a:\n\tb\n        c", Class::Tab, "inconsistent use of tabs and spaces in indentation"),
    ]);
}

#[test]
fn with_in_parentheses_is_items_where_it_can_be_and_else_an_expression() {
    right(&["with (a as b, c,): pass", "with (a, *b): pass", "with (yield): pass", "with (a for a in b): pass"]);
    wrong(&[("with (a as b, *c): pass", SYNTAX, "invalid syntax")]);
}

#[test]
fn patterns_restrict_literals() {
    right(&["match a:\n case -1 + 2j | {'k': [*_], **r} | A(b, c=_) | f'': pass"]);
    wrong(&[
        ("match a:\n case 1j + 1j: pass", SYNTAX, "real number required in complex literal"),
        ("match a:\n case 1 + 1: pass", SYNTAX, "imaginary number required in complex literal"),
        ("match a:\n case A(b=c, d): pass", SYNTAX, "positional patterns follow keyword patterns"),
        ("match a:\n case b as _: pass", SYNTAX, "cannot use '_' as a target"),
    ]);
}

#[test]
fn older_versions_reject_newer_syntax() {
    let cases = [
        (7, "(x := 1)"),
        (7, "def f(a, /): pass"),
        (9, "match a:\n case b: pass"),
        (10, "try: a\nexcept* b: c"),
        (11, "type X = int"),
        (11, "class A[T]: pass"),
        (12, "class A[T = int]: pass"),
        (13, "try: a\nexcept (b), c: d"),
        (13, "t''"),
    ];
    for (version, source) in cases {
        let with = |feature_version| parse(source.as_bytes(), &Options::version(feature_version)).outcome;
        assert!(with(version).is_err(), "{source:?} in 3.{version}");
        assert!(with(version + 1).is_ok(), "{source:?} in 3.{}", version + 1);
    }
}

#[test]
fn nesting_is_limited_not_fatal() {
    let deep = |open: &str, close: &str| format!("{}a{}", open.repeat(50_000), close.repeat(50_000));
    assert_eq!(error(&deep("(", ")")), Some((SYNTAX, "too many nested parentheses".into())));
    assert_eq!(error(&deep("-", "")), None);
    assert_eq!(error(&"-".repeat(100_000)), Some((SYNTAX, "too many nested expressions".into())));
}

#[test]
fn long_lines_take_linear_time() {
    let many = 200_000;
    for (part, last) in [("a = ", "b"), ("a < ", "b"), ("a, ", "b"), ("a; ", "b")] {
        assert_eq!(error(&(part.repeat(many) + last)), None, "{part:?}");
    }
    assert_eq!(error(&format!("[a {}]", "for b in c if d ".repeat(many))), None);
    assert_eq!(error(&format!("f({})", "a=1, **b, ".repeat(many))), None);
}

#[test]
fn an_underscore_is_a_complete_pattern() {
    right(&["match a:\n case b._ | A(_=_) | {_.b: _}: pass", "case = _; _(case)", "match a:\n case a if _(_.b): pass"]);
    for (source, place) in [("_ (b)", 16), ("_()", 15), ("_.b", 15), ("_.b.c(d)", 15), ("A(_.b())", 17)] {
        let source = format!("match a:\n case {source}: pass");
        let error = parse(source.as_bytes(), &Options::default()).outcome.expect_err("no pattern");
        assert_eq!((error.start, error.message.as_ref()), (place + 1, "invalid syntax"), "{source:?}");
    }
}

#[test]
fn from_3_14_a_newline_in_a_single_quoted_format_specification_is_an_error() {
    let before = Options::version(13);
    for (source, place) in [("f'{a:b\n}'", 6), ("(f'{a:\n}')", 6), ("f'''{f'{a:b\n}'}'''", 11)] {
        assert!(parse(source.as_bytes(), &before).outcome.is_ok(), "{source:?}");
        let error = parse(source.as_bytes(), &Options::default()).outcome.expect_err("a newline");
        let message = "f-string: newlines are not allowed in format specifiers for single quoted f-strings";
        assert_eq!((error.start, error.message.as_ref()), (place, message), "{source:?}");
    }
    right(&["f'''{a:b\n}'''", "f'{a:\\\n}'"]);
}

#[test]
fn from_3_14_future_features_must_exist() {
    let wrong = [
        ("from __future__ import b", "future feature b is not defined"),
        ("from __future__ import *", "future feature * is not defined"),
        ("'a'\nfrom __future__ import annotations; from __future__ import (division as a, braces)", "not a chance"),
    ];
    for (source, message) in wrong {
        assert_eq!(error(source), Some((SYNTAX, message.to_owned())), "{source:?}");
        assert!(parse(source.as_bytes(), &Options::version(13)).outcome.is_ok(), "{source:?}");
    }
    right(&[
        "'a'\nfrom __future__ import annotations, generators as b",
        "a\nfrom __future__ import b",
        "'a'\n'b'\nfrom __future__ import b",
        "f'a'\nfrom __future__ import b",
        "from .__future__ import b",
        "from __future__.a import b",
        "if a:\n from __future__ import b",
    ]);
}

#[test]
fn a_debug_field_at_the_third_level_is_an_error() {
    right(&["f'{a:{b=:{c}}}'", "f'{a:{b:{c(d=1)}}}'", "f'{f\"{f'''{a=}'''}\"}'"]);
    wrong(&[("f'{a:{b:{c=}}}'", Class::Value, "field 'value' is required for Constant")]);
}
