//! Trees of small sources, row by row.

use accelerd_parser::{Kind, NONE, Options, parse};

/// One line per row: number, kind, field, parent, source text, and `aux` unless it is 0.
fn rows(source: &str) -> Vec<String> {
    let columns = parse(source.as_bytes(), &Options::default()).outcome.unwrap();
    let show = |row: usize| {
        let start = columns.starts[row] as usize;
        let end = columns.ends[row] as usize;
        let parent = columns.parents[row];
        let parent = if parent == NONE { "-".to_owned() } else { parent.to_string() };
        let aux = match columns.aux[row] {
            0 => String::new(),
            NONE => " none".to_owned(),
            aux => format!(" {aux}"),
        };
        let kind = columns.kinds[row].name();
        let field = columns.fields[row].name();
        format!("{row} {kind} {field} {parent} `{}`{aux}", source[start..end].replace('\n', "|"))
    };
    (0..columns.kinds.len()).map(show).collect()
}

#[test]
fn an_augmented_assignment_has_the_documented_columns() {
    assert_eq!(
        rows("x += f(1)"),
        [
            "0 Name target 4 `x` 1",
            "1 Name func 3 `f` 4",
            "2 Constant args 3 `1`",
            "3 Call value 4 `f(1)`",
            "4 AugAssign body - `x += f(1)` 3",
        ]
    );
}

#[test]
fn clauses_nest_and_end_with_the_last_token_of_their_last_line() {
    assert_eq!(
        rows("if a:\n  b;\nelif c: d\nelse:\n  pass;\nx\n"),
        [
            "0 Name test 1 `a`",
            "1 If body - `if a:|  b;|elif c: d|else:|  pass;`",
            "2 Name value 3 `b` 4",
            "3 Expr body 1 `b`",
            "4 Name test 5 `c` 8",
            "5 If orelse 1 `elif c: d|else:|  pass;`",
            "6 Name value 7 `d` 12",
            "7 Expr body 5 `d`",
            "8 Pass orelse 5 `pass`",
            "9 Name value 10 `x` 16",
            "10 Expr body - `x`",
        ]
    );
}

#[test]
fn handlers_end_before_the_next_clause_and_decorators_precede_their_function() {
    assert_eq!(
        rows("@d\ndef f(): pass\ntry: pass\nexcept* E as e:\n  pass\nfinally: pass"),
        [
            "0 Name decorator_list 1 `d`",
            "1 FunctionDef body - `def f(): pass` 1",
            "2 Pass body 1 `pass`",
            "3 TryStar body - `try: pass|except* E as e:|  pass|finally: pass`",
            "4 Pass body 3 `pass`",
            "5 Name type 6 `E` 8",
            "6 ExceptHandler handlers 3 `except* E as e:|  pass` 3",
            "7 Pass body 6 `pass`",
            "8 Pass finalbody 3 `pass`",
        ]
    );
}

#[test]
fn parameters_get_the_fields_of_their_sections() {
    assert_eq!(
        rows("lambda a, b=1, /, c=2, *d, e, f=3, **g: 0"),
        [
            "0 arg posonlyargs 11 `a`",
            "1 arg posonlyargs 11 `b` 1",
            "2 Constant defaults 11 `1`",
            "3 arg args 11 `c` 2",
            "4 Constant defaults 11 `2` 1",
            "5 arg vararg 11 `d` 3",
            "6 arg kwonlyargs 11 `e` 4",
            "7 arg kwonlyargs 11 `f` 5",
            "8 Constant kw_defaults 11 `3` 2",
            "9 arg kwarg 11 `g` 6",
            "10 Constant body 11 `0` 3",
            "11 Lambda value 12 `lambda a, b=1, /, c=2, *d, e, f=3, **g: 0`",
            "12 Expr body - `lambda a, b=1, /, c=2, *d, e, f=3, **g: 0`",
        ]
    );
}

#[test]
fn targets_have_the_store_or_del_context() {
    assert_eq!(
        rows("a.b[c], *d = e"),
        [
            "0 Name value 1 `a`",
            "1 Attribute value 3 `a.b` 4",
            "2 Name slice 3 `c` 8",
            "3 Subscript elts 6 `a.b[c]` 1",
            "4 Name value 5 `d` 13",
            "5 Starred elts 6 `*d` 1",
            "6 Tuple targets 8 `a.b[c], *d` 1",
            "7 Name value 8 `e` 16",
            "8 Assign body - `a.b[c], *d = e`",
        ]
    );
    assert_eq!(
        rows("del (a, [b.c])")[..4],
        ["0 Name elts 4 `a` 2", "1 Name value 2 `b` 4", "2 Attribute elts 3 `b.c` 10", "3 List elts 4 `[b.c]` 2"]
    );
}

#[test]
fn adjacent_strings_are_one_and_empty_text_has_no_row() {
    assert_eq!(
        rows(r#"'a' f"b{x!r}" "" f'{y=}'"#),
        [
            "0 Constant values 6 `'a' f\"b`",
            "1 Name value 2 `x`",
            "2 FormattedValue values 6 `{x!r}` 114",
            "3 Constant values 6 `\"\" f'{y=` 1",
            "4 Name value 5 `y` 8",
            "5 FormattedValue values 6 `{y=}` 114",
            "6 JoinedStr value 7 `'a' f\"b{x!r}\" \"\" f'{y=}'`",
            "7 Expr body - `'a' f\"b{x!r}\" \"\" f'{y=}'`",
        ]
    );
    assert_eq!(
        rows("f'' '' f'{x}'"),
        [
            "0 Name value 1 `x`",
            "1 FormattedValue values 2 `{x}` none",
            "2 JoinedStr value 3 `f'' '' f'{x}'`",
            "3 Expr body - `f'' '' f'{x}'`",
        ]
    );
}

#[test]
fn a_class_pattern_has_its_keywords_before_their_patterns() {
    // The names are match, p, case, A, _, k and g.
    assert_eq!(
        rows("match p:\n  case A(_, k=[*_]) if g: pass"),
        [
            "0 Name subject 1 `p` 4",
            "1 Match body - `match p:|  case A(_, k=[*_]) if g: pass`",
            "2 Name cls 7 `A` 12",
            "3 MatchAs patterns 7 `_` none",
            "4 Identifier kwd_attrs 7 `k` 5",
            "5 MatchStar patterns 6 `*_` none",
            "6 MatchSequence kwd_patterns 7 `[*_]`",
            "7 MatchClass pattern 9 `A(_, k=[*_])`",
            "8 Name guard 9 `g` 24",
            "9 match_case cases 1 `case A(_, k=[*_]) if g: pass`",
            "10 Pass body 9 `pass`",
        ]
    );
}

#[test]
fn an_interpolation_has_the_source_of_its_expression() {
    let source = "t'a{ x + 1 !r:>{w}}'";
    let columns = parse(source.as_bytes(), &Options::default()).outcome.unwrap();
    let texts = (0..columns.kinds.len()).filter(|&row| columns.kinds[row] == Kind::Constant);
    let value = |row: usize| {
        let value = columns.aux[row] as usize;
        &source[columns.value_starts[value] as usize..columns.value_ends[value] as usize]
    };
    assert_eq!(texts.map(value).collect::<Vec<_>>(), ["a", "1", " x + 1", ">"]);
}
