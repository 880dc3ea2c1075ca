//! Parsing of batches on each backend against the parser on one source at a time.

use std::{fmt::Write as _, fs, path::Path};

use accelerd_kernels::{
    Backend,
    ops::parse::{Options, Outputs, Parse, ParseRequest, ParseResponse},
};
use accelerd_parity::{random, run_batch};
use accelerd_parser::Tag;
use bytes::Bytes;
use rand::{Rng, rngs::StdRng};

use super::Case;

const ALL: Outputs = Outputs { tree: true, tokens: true, comments: true, outline: true, line_starts: true };

/// Pieces of random sources, most of which have an error.
const PIECES: [&str; 48] = [
    "x",
    "y.z",
    "f(a, *b, k=1)",
    "[1, 2]",
    "{1: 2}",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    " ",
    "\n",
    "\n    ",
    "\n\t",
    ":",
    ";",
    ",",
    "=",
    "+=",
    ":=",
    "->",
    "'a'",
    "b'\\x41'",
    "f'{x!r:>{w}}'",
    "\"\"\"\n\"\"\"",
    "'''",
    "\"",
    "# c\n",
    "\\\n",
    "if x:",
    "else:",
    "def f(a, /, b=1, *, c, **d):",
    "class A(B):",
    "match x:",
    "case [1, *_]:",
    "with (a as b, c):",
    "lambda: 0",
    "for i in j:",
    "try:",
    "except* E as e:",
    "import a.b as c",
    "from . import *",
    "return",
    "await",
    "1_0.5e-3j",
    "é",
    "\r\n",
];

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("parse::this_workspaces_own_python", |backend| agree(&[own_python()], backend)),
        Case::new("parse::batch_of_n_equals_n_batches_of_one", |backend| {
            let sources = own_python();
            let batches: Vec<_> = sources.chunks(3).map(<[Bytes]>::to_vec).collect();
            agree(&batches, backend)
        }),
        Case::new("parse::ten_thousand_tiny_sources", |backend| {
            let sources = (0..10_000).map(|n| Bytes::from(format!("v{n} = {n}  # {n}\n"))).collect();
            agree(&[sources], backend)
        }),
        Case::new("parse::sources_of_every_shape", |backend| agree(&[shapes()], backend)),
        Case::new("parse::long_brackets", |backend| agree(&[long_brackets()], backend)),
        Case::new("parse::errors_in_long_brackets", |backend| agree(&[wrong_brackets()], backend)),
        Case::new("parse::long_lines", |backend| agree(&[long_lines()], backend)),
        Case::new("parse::every_feature_version", |backend| {
            let requests: Vec<_> = (8..=14).map(|version| request(shapes(), version)).collect();
            compare(&requests, backend)
        }),
    ];
    for seed in 0..4 {
        cases.push(Case::new(format!("parse::random_pieces_{seed}"), move |backend| {
            let mut random = random(seed);
            let sources = (0..500).map(|_| random_source(&mut random)).collect();
            agree(&[sources], backend)
        }));
    }
    cases
}

fn request(sources: Vec<Bytes>, feature_version: u8) -> ParseRequest {
    let options = Options::version(feature_version);
    ParseRequest::new(sources, options, ALL)
}

fn agree(batches: &[Vec<Bytes>], backend: &mut Backend) -> Result<(), String> {
    let requests: Vec<_> = batches.iter().map(|sources| request(sources.clone(), 14)).collect();
    compare(&requests, backend)
}

fn compare(requests: &[ParseRequest], backend: &mut Backend) -> Result<(), String> {
    let responses = run_batch::<Parse>(requests, backend).map_err(|error| error.to_string())?;
    requests.iter().zip(&responses).try_for_each(|(request, response)| check(request, response))
}

/// Compares a response, source by source, with the parser's result for the source alone.
fn check(request: &ParseRequest, response: &ParseResponse) -> Result<(), String> {
    let columns = &response.columns;
    let mut nodes = 0;
    let mut names = 0;
    let mut values = 0;
    let mut extra = 0;
    for (source, result) in request.sources.iter().zip(&response.results) {
        let parsed = accelerd_parser::parse(source, &request.options);
        let counts = result.counts;
        let tree = match (&parsed.outcome, &result.diagnostic) {
            (Ok(tree), None) => tree,
            (Err(expected), Some(got)) if expected == got => continue,
            (expected, got) => return Err(format!("{source:?}: expected {expected:?}, got {got:?}")),
        };
        let own_nodes = nodes..nodes + counts.nodes as usize;
        let own_names = names..names + counts.names as usize;
        let own_values = values..values + counts.values as usize;
        let own_extra = extra..extra + counts.extra as usize;
        let same = columns.kinds[own_nodes.clone()] == *bytemuck::cast_slice::<_, u8>(&tree.kinds)
            && columns.fields[own_nodes.clone()] == *bytemuck::cast_slice::<_, u8>(&tree.fields)
            && columns.parents[own_nodes.clone()] == tree.parents
            && columns.starts[own_nodes.clone()] == tree.starts
            && columns.ends[own_nodes.clone()] == tree.ends
            && columns.aux[own_nodes.clone()] == tree.aux
            && columns.name_starts[own_names.clone()] == tree.name_starts
            && columns.name_ends[own_names.clone()] == tree.name_ends
            && columns.value_tags[own_values.clone()] == *bytemuck::cast_slice::<Tag, u8>(&tree.value_tags)
            && columns.value_starts[own_values.clone()] == tree.value_starts
            && columns.value_ends[own_values.clone()] == tree.value_ends
            && columns.extra[own_extra.clone()] == tree.extra;
        if !same {
            return Err(format!("{source:?} has a different tree than alone"));
        }
        (nodes, names, values, extra) = (own_nodes.end, own_names.end, own_values.end, own_extra.end);
    }
    let ends = (nodes, names, values, extra);
    let lengths = (columns.kinds.len(), columns.name_starts.len(), columns.value_tags.len(), columns.extra.len());
    if ends == lengths { Ok(()) } else { Err(format!("counts add up to {ends:?}, columns have {lengths:?}")) }
}

/// The Python files of this workspace.
fn own_python() -> Vec<Bytes> {
    fn walk(folder: &Path, found: &mut Vec<Bytes>) {
        for entry in fs::read_dir(folder).expect("a folder of the workspace can be read") {
            let path = entry.expect("its entries can be read").path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "py") {
                found.push(fs::read(&path).expect("a file of the workspace can be read").into());
            }
        }
    }
    let mut found = vec![];
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    for folder in [tests.to_owned(), tests.join("../client/python/src")] {
        // If the binary runs outside of the workspace, the other cases still have plenty of sources.
        if folder.is_dir() {
            walk(&folder, &mut found);
        }
    }
    found.push(Bytes::from_static(b"pass\n"));
    found
}

/// Large, deep, empty, truncated and unusual sources.
fn shapes() -> Vec<Bytes> {
    let nested = |depth: usize| format!("{}1{}\n", "(".repeat(depth), ")".repeat(depth));
    let indented = |depth: usize| {
        let mut text = String::new();
        for index in 0..depth {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{}if x:", " ".repeat(index));
        }
        text + &" ".repeat(depth) + "x\n"
    };
    let mut texts = vec![
        String::new(),
        "\n\n\n".into(),
        "# only a comment".into(),
        "\u{feff}x = 1".into(),
        "x = 1\r\ny = '''a\r\nb'''\r\n".into(),
        "def f():\n\treturn 1\n".into(),
        "if x:\n\ty\n        z\n".into(),
        "x = \\\n    1\n".into(),
        "\x0c\nclass A: pass\n".into(),
        "f'{a:{b}}' f\"{'x' + f'{1}'}\" 'plain'\n".into(),
        "f'''{\nx\n}'''\n".into(),
        "t'{x!r}'\n".into(),
        "x = 'a' \"b\" '\\N{BULLET}\\u00e9' b''\n".into(),
        "é = ª = 1\n".into(),
        "match = 1\nmatch x:\n    case A(b=1) | [*_, {'k': v, **r}] if y: pass\n".into(),
        "type X[T: int, *Ts, **P] = list[T]\n".into(),
        "async def f():\n    async with (a as b, c): yield await x\n".into(),
        "try: pass\nexcept* E: pass\nelse: pass\nfinally: pass\n".into(),
        format!("x = [{}]\n", "1, 'a', ".repeat(20_000)),
        format!("x = {{{}}}\n", "'k': v, ".repeat(5_000)),
        format!("f({})\n", "a, b=c, ".repeat(3_000)),
        format!("({}", "x = 1\n".repeat(2_000)),
        format!("x = '{}'\n", "a".repeat(100_000)),
        format!("x{}\n", ".y".repeat(3_000)),
        "x = 1\n".repeat(20_000),
    ];
    texts.extend([nested(199), nested(200), nested(201), indented(98), indented(99), indented(100)]);
    let bytes = [&b"x = '\xff'\n"[..], b"# coding: latin-1\nx = '\xe9'\n", b"x\0y\n", b"# coding: nonsense\n"];
    texts.into_iter().map(Bytes::from).chain(bytes.map(Bytes::from_static)).collect()
}

/// Brackets with more elements than one thread parses, alone and nested, in every context.
fn long_brackets() -> Vec<Bytes> {
    let many = |count: usize, element: &str| element.repeat(count);
    let numbers = many(40, "1, ");
    let names = many(100, "a, ");
    let nested = format!("[{}]", many(30, &format!("(i, {{'k': [{numbers}]}}, f(x, *y, k=[{names}])), ")));
    let mut texts = vec![
        format!("x = [{}]\ny = 2\n", many(100_000, "1, ")),
        format!("x = [{}]\n", many(2_000, "'a', b'c', 1.5, ..., 'd' 'e\\n', ")),
        format!("x = {{{}**c}}\n", many(2_000, "'k': v, **w, ")),
        format!("x = {{{}}}\n", many(1_000, "a, *b, ")),
        format!("x = ({})\n", many(1_000, "a, b := 1, ")),
        format!("f({}*b, **c)\n", many(1_000, "a, *b, ")),
        format!("f({}**c)\n", many(1_000, "k=v, ")),
        format!("class A({}m=1):\n  x = 1\n", many(100, "B, ")),
        format!("class A({}): x = 1; y\n", many(100, "k=v, ")),
        format!("x[{names}] = y[{names}:1]\n"),
        format!("def f(a=[{names}], *, b=({numbers})): return [{numbers}]\n"),
        format!("def f({}): pass\nfrom a import ({})\n", many(100, "a, ").trim_end_matches(", "), names),
        format!("z = {nested}\n"),
        format!("if x in {nested}: pass\nelif y in ({numbers}): q\nelse: w\n"),
        format!("z = [{}]\n", many(30, &format!("[i for i, j in [{names}] if i], "))),
        format!("print(*(i for i in [{names}]), {names} sep='')\n"),
        format!("z = [{}]\n", many(60, "lambda a, b=1, *c: {1: 2}, ")),
        format!("z = {{{}}}\n", many(60, "k: lambda a, b: lambda: 0, ")),
        format!("z = [{}]\n", many(9, &format!("f'{{[{numbers}]}}{{x!r:>{{w}}}}' 'b' f'{{y=}}', "))),
        format!("z = t'{{[{numbers}{numbers}]}}{{y=}}'\n"),
        format!("(a, {}) = [b, {}] = x\n", many(60, "(b, c), [d.e, *f], "), many(60, "c[0], ")),
        format!("for (a, {names}) in x: del (a, {names})\n"),
        format!(
            "with (a as b, f({names}) as c): pass\nwith (a, f({names})) as c: pass\nwith (a, {names}) as c: pass\n"
        ),
        format!("match [{names}]:\n  case [{numbers}]: pass\n"),
        format!("match ({names}):\n  case f({numbers}): pass\n"),
        format!("try: pass\nexcept ({names}): pass\n"),
        format!("@f({names})\nasync def g(): return (await h({names}))\n"),
        format!("x: ({names}) = [{numbers}{numbers}]\nx += ({names})\n"),
        format!("f({names})({}*c)[d]({names}).e({names})\n", many(60, "*b, ")),
        format!("x = {}\n", many(30, &format!("[{names}] + ")) + "[]"),
        format!("x = {}{numbers}{}\n", "[".repeat(150), "], ".repeat(150)),
        format!("x = (yield {names} b)\n"),
        format!("type X = Y[{names}]\ntype ({names})\n"),
    ];
    // Comments and newlines between elements.
    texts.push(format!("if x:\n    f({})\n    y = 1\n", many(80, "a,  # b\n  'd' 'e', ")));
    texts.into_iter().map(Bytes::from).collect()
}

/// Long brackets with an error at their start, in their middle and at their end.
fn wrong_brackets() -> Vec<Bytes> {
    const WRONG: [&str; 20] = [
        "1,, 2",
        "1 2",
        "a=1",
        "**b",
        "1: 2",
        "x for x in y",
        "",
        ",",
        "*",
        "lambda",
        "yield",
        "1 if 2",
        "a.b=3",
        "f(",
        ")",
        "'\\x'",
        "1a",
        "a := ",
        "k=1, b",
        "*a=1",
    ];
    const AROUND: [(&str, &str); 8] = [
        ("[", "]"),
        ("(", ")"),
        ("{", "}"),
        ("f(", ")"),
        ("class A(", "): pass"),
        ("{a: b, ", "}"),
        ("x[", "]"),
        ("def f(", "): pass"),
    ];
    let mut texts = vec![];
    for (open, close) in AROUND {
        for wrong in WRONG {
            for place in [0, 50, 99] {
                let element = |index: usize| {
                    if index == place {
                        wrong
                    } else if open.len() == 7 {
                        "1: 2"
                    } else {
                        "a"
                    }
                };
                let elements: Vec<_> = (0..100).map(element).collect();
                texts.push(Bytes::from(format!("x\n{open}{}{close}\n", elements.join(", "))));
            }
        }
    }
    texts
}

/// Physical lines of 5, 100 and 1,000 KB, of code, text and comments.
fn long_lines() -> Vec<Bytes> {
    let of = |bytes: usize, piece: &str| piece.repeat(bytes / piece.len());
    let lines = |bytes: usize| {
        [
            format!("x = [{}]\ny = 1\n", of(bytes, "'a', 12, ")),
            format!("x = '{}'\ny = 1\n", of(bytes, "ab\\n\\u00e9c ")),
            format!("x = 1  # {}\ny = 1\n", of(bytes, "[' ")),
            format!("{}\n", of(bytes, "x = 1; ")),
        ]
    };
    [5 << 10, 100 << 10, 1 << 20].into_iter().flat_map(lines).map(Bytes::from).collect()
}

fn random_source(random: &mut StdRng) -> Bytes {
    let count = random.random_range(0..40);
    (0..count).map(|_| PIECES[random.random_range(0..PIECES.len())]).collect::<String>().into()
}
