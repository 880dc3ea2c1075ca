//! Errors of invalid sources: CPython's messages and ranges, 3.13 where no version is given.

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
fn adjacent_expressions_lack_a_comma() {
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
fn an_equals_sign_is_no_comparison() {
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
fn an_invalid_target_precedes_later_errors() {
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
fn misplaced_stars_are_rejected() {
    are("cannot use starred expression here", &["(«*a»)"]);
    are("iterable unpacking cannot be used in comprehension", &["[«*a» for b in c]"]);
    are("Invalid star expression", &["[*«]»", "f(a, *«)»"]);
}

#[test]
fn incomplete_statements_name_the_missing_token() {
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
fn incomplete_fields_name_the_missing_part() {
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
fn errors_are_reported_in_the_order_of_cpython() {
    let unterminated = "unterminated string literal (detected at line 3)";
    let cases = [
        // CPython decodes strings as it parses them.
        (
            "'\\x4'\na b",
            "(unicode error) 'unicodeescape' codec can't decode bytes in position 0-2: truncated \\xXX escape",
        ),
        ("b'' '' = a b", "cannot mix bytes and nonbytes literals"),
        // After a syntax error CPython tokenises on and prefers a tokenizer error.
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

/// With quadratic time this would take minutes.
#[test]
fn long_invalid_lines_take_linear_time() {
    const COUNT: usize = 10_000;
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

/// Checks the message and the marked range of the error in a version.
#[track_caller]
fn is_in(version: u8, message: &str, marked: &str) {
    let source = marked.replace(['«', '»'], "");
    let start = marked.find('«').expect("a start");
    let end = marked.find('»').expect("an end") - '«'.len_utf8();
    let error = parse(source.as_bytes(), &Options::version(version)).outcome.expect_err("an error");
    let place = (error.start as usize, error.end as usize);
    assert_eq!((error.message.as_ref(), place), (message, (start, end)), "{source:?} in 3.{version}");
}

#[test]
fn python_2_has_its_messages_in_every_version() {
    for version in 10..=14 {
        let print = "Missing parentheses in call to 'print'. Did you mean print(...)?";
        let exec = "Missing parentheses in call to 'exec'. Did you mean exec(...)?";
        is_in(version, print, "def f():\n    «print \"a\" % b»\n");
        is_in(version, exec, "«exec \"x\" in y»");
        is_in(version, "invalid syntax", "raise A«,» \"b\"");
        is_in(version, "invalid syntax", "a «<>» b");
        is_in(version, "invalid decimal literal", "1«»0L");
    }
    for version in 10..=13 {
        let error = "multiple exception types must be parenthesized";
        is_in(version, error, "try: pass\nexcept «A, e:»\n    pass\n");
    }
    let both = "multiple exception types must be parenthesized when using 'as'";
    is_in(14, both, "try: pass\nexcept «A, B as e:» pass\n");
}

#[test]
fn each_version_has_its_own_messages() {
    is_in(11, "expected '('", "def f«[»T](): pass");
    is_in(13, "expected '('", "def f[T]«:» pass");
    is_in(11, "non-default argument follows default argument", "def f(a=1, «b»): pass");
    is_in(12, "parameter without a default follows parameter with a default", "def f(a=1, «b»): pass");
    is_in(11, "invalid syntax", "import a «from» b");
    is_in(13, "Did you mean to use 'from ... import ...' instead?", "«import a from b»");
    is_in(13, "invalid syntax", "«ur'a'»".replace("«ur", "ur«").as_str());
    is_in(14, "'u' and 'r' prefixes are incompatible", "«ur»'a'");
    is_in(14, "'elif' block follows an 'else' block", "if a: b\nelse: c\n«elif» d: e\n");
    is_in(13, "invalid syntax", "if a: b\nelse: c\n«elif» d: e\n");
}

#[test]
fn fields_before_3_12_are_parsed_as_separate_expressions() {
    let error = |source: &str| parse(source.as_bytes(), &Options::version(11)).outcome.expect_err("an error");
    let comma = error("x = f'{a b}'\n");
    assert_eq!(comma.message, "f-string: invalid syntax. Perhaps you forgot a comma?");
    assert_eq!((comma.position.lineno, comma.position.offset), (Some(1), Some(2)));
    assert_eq!(error("f'{}'").message, "f-string: empty expression not allowed");
    assert_eq!(error("f'{a!x}'").message, "f-string: invalid conversion character: expected 's', 'r', or 'a'");
    assert_eq!(error("f'{a'").message, "f-string: expecting '}'");
}

/// Nested constructs may be parsed again at each depth, but only a constant number of times.
#[test]
fn deep_and_hostile_sources_take_linear_time() {
    let nested = |open: &str, middle: &str, close: &str, depth: usize| {
        format!("{}{middle}{}", open.repeat(depth), close.repeat(depth))
    };
    let blocks = |header: &str, depth: usize, last: &str| {
        let lines = (0..depth).map(|index| [&" ".repeat(index), header, "\n"].concat());
        lines.chain([" ".repeat(depth), last.to_owned(), "\n".to_owned()]).collect::<String>()
    };
    let mut sources = vec![
        nested("(", "a b", ")", 199),
        nested("[", "a b", "]", 199),
        nested("{", "a b", "}", 199),
        nested("{a: ", "b c", "}", 199),
        nested("f(", "a b", ")", 199),
        nested("f(a=", "b c", ")", 199),
        nested("a[", "b c", "]", 199),
        nested("[a for a in ", "b c", "]", 199),
        nested("(yield ", "b c", ")", 199),
        nested("lambda: ", "b c", "", 600),
        nested("lambda a=", "b c", "", 600),
        nested("not ", "b c", "", 3_000),
        nested("-", "b c", "", 3_000),
        nested("a if b else ", "c d", "", 600),
        nested("f'{", "a b", "}'", 140),
        format!("{} = 1 2", "a = ".repeat(3_000)),
        format!("match x:\n case {}: y", nested("[", "a b", "]", 199)),
        format!("match x:\n case {}: y", nested("A(", "a b", ")", 199)),
        format!("with {}: pass", nested("(", "a as b c", ")", 199)),
        format!("del {}", nested("(", "a b", ")", 199)),
        format!("for {} in b c: pass", nested("(", "a", ")", 199)),
        blocks("if a:", 98, "b c"),
        blocks("def f():", 98, "b c"),
        blocks("try:", 49, "b"),
    ];
    // A long statement, and many short ones.
    sources.push(format!("x = [{}\n1 2]\n", "a.b(c, d=1)[e], ".repeat(1_500)));
    sources.push(format!("{}a b\n", "x = f(a, b)[c] + d\n".repeat(1_500)));
    sources.push(format!("{}a b\n", "def f(a, b=1):\n    return a.b if b else [c for c in a]\n".repeat(500)));
    for source in &sources {
        for version in [11, 14] {
            let refused = parse(source.as_bytes(), &Options::version(version)).outcome.is_err();
            assert!(refused || version == 11, "{:?}", &source[..source.len().min(40)]);
        }
    }
}
