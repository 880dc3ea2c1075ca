//! The modes `eval` and `single`: the errors of CPython 3.13.

use accelerd_parser::{Class, Field, Kind, Mode, NONE, Options, Position, parse};

fn error(source: &str, mode: Mode) -> Option<(Class, String, [Option<i32>; 4])> {
    let options = Options { mode, ..Options::version(13) };
    let error = parse(source.as_bytes(), &options).outcome.err()?;
    let Position { lineno, offset, end_lineno, end_offset } = error.position;
    Some((error.class, error.message.into_owned(), [lineno, offset, end_lineno, end_offset]))
}

#[track_caller]
fn wrong(mode: Mode, cases: &[(&str, &str, [i32; 4])]) {
    for &(source, message, numbers) in cases {
        let expected = Some((Class::Syntax, message.to_owned(), numbers.map(Some)));
        assert_eq!(error(source, mode), expected, "{source:?}");
    }
}

#[test]
fn eval_takes_one_expression() {
    for source in ["x", "\n\nx\n\n", "x,\n", "(x:=1)", "(yield x)", "lambda: y", "x if y else z", "x # c", "await x"] {
        assert_eq!(error(source, Mode::Eval), None, "{source:?}");
    }
    let invalid = "invalid syntax";
    wrong(
        Mode::Eval,
        &[
            ("x\ny", invalid, [2, 1, 2, 2]),
            ("x;y", invalid, [1, 2, 1, 3]),
            ("x=1", invalid, [1, 2, 1, 3]),
            ("x:=1", invalid, [1, 2, 1, 4]),
            ("*a,b", invalid, [1, 1, 1, 2]),
            ("yield x", invalid, [1, 1, 1, 6]),
            ("import a", invalid, [1, 1, 1, 7]),
            ("match x: pass", invalid, [1, 7, 1, 8]),
            ("type X=1", invalid, [1, 6, 1, 7]),
            ("x: int", invalid, [1, 2, 1, 3]),
            ("if x:\n y\nz\n", invalid, [1, 1, 1, 3]),
            ("@d\n", invalid, [1, 1, 1, 2]),
            ("", invalid, [0, 0, 0, 0]),
            ("#c\n", invalid, [1, 0, 1, 0]),
            ("(x", "'(' was never closed", [1, 1, 1, 0]),
        ],
    );
    assert_eq!(error("x\n  y", Mode::Eval).map(|error| error.0), Some(Class::Indentation));
}

#[test]
fn the_expression_of_eval_has_no_statement_around_it() {
    let options = Options { mode: Mode::Eval, ..Options::default() };
    let columns = parse(b"f(1)", &options).outcome.expect("an expression");
    assert_eq!(columns.kinds, [Kind::Name, Kind::Constant, Kind::Call]);
    assert_eq!((columns.parents, columns.fields[2]), (vec![2, 2, NONE], Field::Body));
}

#[test]
fn single_takes_one_statement() {
    for source in [
        "x",
        "x;y",
        "x = 1",
        "import a",
        "if x: pass\n",
        "if x:\n  y",
        "if x:\n  y\n\n",
        "x\n#c\n",
        "\n\nx=1\n",
        "@d\ndef f(): pass\n",
        "try: x\nexcept: y\n",
        "while 1: pass\nelse: y\n",
    ] {
        assert_eq!(error(source, Mode::Single), None, "{source:?}");
    }
    let several = "multiple statements found while compiling a single statement";
    wrong(
        Mode::Single,
        &[
            ("x\ny", several, [1, 2, 1, 3]),
            ("x\n  y", several, [1, 2, 1, 3]),
            ("x=1\n\n\ny=2", several, [1, 4, 1, 5]),
            ("x\n'", several, [1, 2, 1, 3]),
            ("if x:\n y\nz\n", "invalid syntax", [3, 1, 3, 2]),
            ("if x: pass", "invalid syntax", [1, 0, 1, 0]),
            ("", "invalid syntax", [0, 0, 0, 0]),
            ("x y", "invalid syntax", [1, 3, 1, 4]),
        ],
    );
}
