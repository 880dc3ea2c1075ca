//! Why sources are refused: the messages of CPython 3.13 and their places.

use accelerd_parser::{Class, Options, parse};

/// Sources whose error is marked: `«` where it starts, `»` where it ends.
#[track_caller]
fn are(message: &str, sources: &[&str]) {
    for marked in sources {
        let source = marked.replace(['«', '»'], "");
        let start = marked.find('«').expect("a start");
        let end = marked.find('»').expect("an end") - '«'.len_utf8();
        let error = parse(source.as_bytes(), &Options::version(13)).outcome.expect_err("an error");
        let place = (error.start as usize, error.end as usize);
        assert_eq!((error.message.as_ref(), place), (message, (start, end)), "{source:?}");
    }
}

#[track_caller]
fn say(cases: &[(&str, &str)]) {
    for &(source, message) in cases {
        let error = parse(source.as_bytes(), &Options::version(13)).outcome.expect_err("an error");
        assert_eq!(error.message, message, "{source:?}");
    }
}

#[test]
fn expressions_side_by_side_lack_a_comma() {
    are(
        "invalid syntax. Perhaps you forgot a comma?",
        &["(«a b»)", "f(a, «b.c() d[0]», e)", "[«a not b»]", "{1: «a\n b»}", "f'{«a b»}'"],
    );
    are("expected 'else' after 'if' expression", &["«a if b» c", "x = («1 if 2»)", "«a if b»"]);
    are(
        "invalid syntax",
        &[
            "a «b»",
            "(a for a in b «c»)",
            "def f(a «b»): pass",
            "from a import (b «c»)",
            "(_ «a»)",
            "(a if b else c «d»)",
        ],
    );
    are("Missing parentheses in call to 'print'. Did you mean print(...)?", &["«print a, b»", "(«print a»)"]);
}

#[test]
fn equals_signs_are_no_comparisons() {
    are(
        "expression cannot contain assignment, perhaps you meant \"==\"?",
        &["f(«a.b=»1)", "f(a, «1 =» 2)", "f((«a)=»1)"],
    );
    are("cannot assign to True", &["f(«True=»1)", "«True» = 1"]);
    are("invalid syntax. Maybe you meant '==' or ':=' instead of '='?", &["if «a = 1»: b", "x[«a=1»]", "(«a = b.c»)"]);
    are("cannot assign to attribute here. Maybe you meant '==' instead of '='?", &["while «a.b» = 1: c"]);
    are("cannot use assignment expressions with attribute", &["(«a.b» := 1)"]);
    are("expected argument value expression", &["f(«a=»)"]);
}

#[test]
fn targets_count_before_what_follows_them() {
    are("cannot assign to function call", &["«f()» =", "for «f()» in a b: c"]);
    are("cannot delete expression", &["del «-a»", "del b, «a + 1»"]);
    are("cannot delete starred", &["del «*a»"]);
    are("illegal target for annotation", &["«3»:4:"]);
    are("cannot assign to expression", &["for «-a» in b: c", "with a as «-b»: c", "[a for «-b» in c]"]);
    are("'in' expected after for-loop variables", &["[a for b«]»", "(a for b, 1 «c» in d)"]);
}

#[test]
fn parameters_are_in_order() {
    are("named arguments must follow bare *", &["def f(«*»): a", "lambda *«:» a", "lambda a, *, «**»b: a"]);
    are("* argument may appear only once", &["def f(*a, «*»b): c", "lambda *, «*»b: c"]);
    are("var-positional argument cannot have default value", &["def f(*a: b«=»1): c", "lambda *a«=»1: c"]);
    are("var-keyword argument cannot have default value", &["def f(**a«=»1): c"]);
    are("arguments cannot follow var-keyword argument", &["def f(**a, «b»): c", "lambda **a, «*»b: c"]);
    are("at least one argument must precede /", &["def f(«/», a): b"]);
    are("/ may appear only once", &["def f(a, /, «/»): b"]);
    are("/ must be ahead of *", &["def f(*a, «/»): b"]);
    are("expected default value expression", &["def f(a«=»): b"]);
    are("Function parameters cannot be parenthesized", &["def f(«(a, b)»): c"]);
    are("Lambda expression parameters cannot be parenthesized", &["lambda «(a)»: c"]);
}

#[test]
fn stars_have_their_places() {
    are("cannot use starred expression here", &["(«*a»)"]);
    are("iterable unpacking cannot be used in comprehension", &["[«*a» for b in c]"]);
    are("Invalid star expression", &["[*«]»", "f(a, *«)»"]);
}

#[test]
fn statements_lack_what_must_follow() {
    say(&[
        ("if a\nb", "expected ':'"),
        ("try a", "expected ':'"),
        ("match a\n", "expected ':'"),
        ("def f() -> : a", "expected ':'"),
        ("def f: a", "expected '('"),
        ("else a", "invalid syntax"),
        ("async else: a", "invalid syntax"),
        ("import", "Expected one or more names after 'import'"),
        ("from a import b,", "trailing comma not allowed without surrounding parentheses"),
        ("class A[]: b", "Type parameter list cannot be empty"),
        ("{a: 1, b}", "':' expected after dictionary key"),
        ("{a:}", "expression expected after dictionary key and ':'"),
        ("f(a, b for b in c)", "Generator expression must be parenthesized"),
        ("try: a\nb c", "expected 'except' or 'finally' block"),
        ("match a:\n case 1+2+: b", "imaginary number required in complex literal"),
    ]);
}

#[test]
fn fields_lack_parts() {
    say(&[
        ("f'{}'", "f-string: valid expression required before '}'"),
        ("f'{!r}'", "f-string: valid expression required before '!'"),
        ("f'{,}'", "f-string: expecting a valid expression after '{'"),
        ("f'{a$}'", "f-string: expecting '=', or '!', or ':', or '}'"),
        ("f'{a=b}'", "f-string: expecting '!', or ':', or '}'"),
        ("f'{a!}'", "f-string: missing conversion character"),
        ("f'{a!1}'", "f-string: invalid conversion character"),
        ("f'{a!r b}'", "f-string: expecting ':' or '}'"),
    ]);
}

#[test]
fn what_is_read_first_is_reported_first() {
    let unterminated = "unterminated string literal (detected at line 3)";
    let cases = [
        // Strings are decoded as they are read.
        (
            "'\\x4'\na b",
            "(unicode error) 'unicodeescape' codec can't decode bytes in position 0-2: truncated \\xXX escape",
        ),
        ("b'' '' = a b", "cannot mix bytes and nonbytes literals"),
        // Behind an error of the grammar CPython looks for one of the lexer.
        ("else:\n a\n'", unterminated),
        ("try: a\nb\n'", unterminated),
        ("f() = 1\n\n'", unterminated),
        ("a\n\n  '", "unexpected indent"),
        ("a{", "'{' was never closed"),
        ("a {b\\x", "unexpected character after line continuation character"),
    ];
    say(&cases);
    let indented = parse(b"a\n\n  '", &Options::default()).outcome.expect_err("an error");
    assert_eq!(indented.class, Class::Indentation);
}

/// Were a line walked at each of its tokens, this would take minutes.
#[test]
fn long_lines_are_refused_in_time_in_proportion_to_their_length() {
    const COUNT: usize = 50_000;
    for (before, piece, after) in [
        ("f(", "a, ", "b c)"),
        ("f(", "a=1, ", "b c)"),
        ("for a in (b", " in c", " d)"),
        ("def f(", "a=1, ", "*): b"),
        ("lambda ", "a, ", "(b)): c"),
        ("match a:\n case ", "1+2j | ", "+: b"),
        ("del ", "a, ", "-b"),
        ("for ", "a, ", "-b in c: d"),
        ("[a for b", ", b", "]"),
        ("", "a = ", "f() ="),
        ("x = f'", "{a}", "{b c}'"),
        ("{", "1: 2, ", "3}"),
        ("(", "a if b else ", "c d)"),
        ("", "not ", "a b"),
    ] {
        let text = format!("{before}{}{after}", piece.repeat(COUNT));
        assert!(parse(text.as_bytes(), &Options::default()).outcome.is_err(), "{piece:?}");
    }
}
