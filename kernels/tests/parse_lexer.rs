//! The GPU's lexer against the CPU's: every token, line, comment and name is equal, or the source falls back.
//!
//! `ACCELERD_CUDA_LIBRARY_PATH` names folders with NVRTC, `ACCELERD_PARSE_CORPUS` a folder of Python files to add, and
//! `ACCELERD_KERNEL_CACHE` a folder for compiled kernels. `ACCELERD_REQUIRE_CUDA=1` makes a missing GPU a failure.

#![expect(clippy::print_stdout, reason = "prints statistics of a corpus")]

use std::{collections::BTreeMap, env, fs, path::Path};

use accelerd_kernels::{
    Backend, Choice, Device, Settings, discover,
    ops::parse::cuda::{LexerReason, Sources, host::HostTokens, lex},
};
use accelerd_parser::{
    lexer::{self, Lexed},
    soft_keywords,
};
use rand::{Rng, SeedableRng, rngs::StdRng};

/// A GPU's worker, if there is one.
fn worker() -> Option<Backend> {
    let required = env::var("ACCELERD_REQUIRE_CUDA").is_ok_and(|v| v == "1");
    let folders = env::var_os("ACCELERD_CUDA_LIBRARY_PATH").unwrap_or_default();
    let settings = Settings {
        choice: if required { Choice::Cuda } else { Choice::Auto },
        cuda_library_paths: env::split_paths(&folders).filter(|p| !p.as_os_str().is_empty()).collect(),
        kernel_cache: env::var_os("ACCELERD_KERNEL_CACHE").map(Into::into),
        kernel_cache_bytes: 1 << 30,
        staging_bytes: 32 << 20,
        pinned_bytes: 512 << 20,
        ..Settings::default()
    };
    let found = discover(&settings).unwrap_or_else(|e| panic!("{e}"));
    let gpu = found.devices.into_iter().find(|device| matches!(device, Device::Cuda(_)))?;
    Some(gpu.open().expect("a worker"))
}

/// The CPU's tokens of a text; none if it has an error.
fn expected(text: &str) -> Option<Lexed> {
    let mut lexed = lexer::lex(text);
    if lexed.error.is_some() {
        return None;
    }
    soft_keywords::apply(&mut lexed);
    lexed.soft = lexer::SoftKeywords::default();
    Some(lexed)
}

/// Compares a batch, source by source; returns how many sources without an error fell back, by reason.
fn compare(texts: &[&str], on: &Backend) -> BTreeMap<String, usize> {
    let Backend::Cuda(worker) = on else { panic!("a GPU's worker") };
    let sources = Sources::upload(texts, worker).unwrap_or_else(|e| panic!("{e}"));
    let tokens = lex(&sources, worker).unwrap_or_else(|e| panic!("{e}"));
    let tokens = HostTokens::download(&tokens, worker).unwrap_or_else(|e| panic!("{e}"));
    let mut reasons = BTreeMap::new();
    for (source, text) in texts.iter().enumerate() {
        match (tokens.lexed(source), expected(text)) {
            (Some(found), Some(expected)) => {
                same(text, &found, &expected);
                assert_eq!(tokens.line_starts(source), lexer::line_starts(text), "lines of {}", shown(text));
            }
            (Some(_), None) => panic!("the GPU missed an error in {}", shown(text)),
            (None, Some(_)) => {
                for reason in LexerReason::of(tokens.flags[source]) {
                    *reasons.entry(reason.to_string()).or_default() += 1;
                }
            }
            (None, None) => {}
        }
    }
    reasons
}

fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(3000).collect::<String>())
}

fn same(text: &str, found: &Lexed, expected: &Lexed) {
    let tokens = |lexed: &Lexed| {
        let t = &lexed.tokens;
        (0..t.kinds.len())
            .map(|index| (t.kinds[index], t.starts[index], t.ends[index], t.payloads[index]))
            .collect::<Vec<_>>()
    };
    for (number, (found, expected)) in tokens(found).iter().zip(&tokens(expected)).enumerate() {
        assert_eq!(found, expected, "token {number} of {}", shown(text));
    }
    assert_eq!(found.tokens.kinds.len(), expected.tokens.kinds.len(), "tokens of {}", shown(text));
    assert_eq!(found.lines, expected.lines, "lines of {}", shown(text));
    assert_eq!(found.comments, expected.comments, "comments of {}", shown(text));
    assert_eq!(found.name_starts, expected.name_starts, "names of {}", shown(text));
    assert_eq!(found, expected, "{}", shown(text));
}

/// Compares texts as one batch and one by one; none may fall back unless it has an error.
fn equal(texts: &[&str], on: &Backend) {
    let reasons = compare(texts, on);
    assert_eq!(reasons, BTreeMap::new());
    for text in texts.iter().take(40) {
        compare(&[text], on);
    }
}

const PLAIN: &[&str] = &[
    "",
    "\n",
    "\n\n\n",
    "x",
    "x = 1\n",
    "x = 1",
    "# only a comment",
    "   # indented comment\n",
    "\u{feff}x = 1\n",
    "if x == 1.5e3:\n y += z+0x1f\n",
    "y **= z+0_0; a //= b; c <<= 2; d >>= 3; e -> f; g := h; i != j; k ... l\n",
    "a=b==c<=d>=e<f>g<<h>>i//j**k%l@m&n|o^p~q-r*s/t\n",
    "a+=b-=c*=d/=e%=f@=g&=h|=i^=j\n",
    "b a b a_rather_long_name a a_rather_long_name an_even_longer_name_than_that a_rather_long_namf\n",
    "a = (1,\n 2)\nb = '''x\ny'''\nc = \\\n 3\n# end\n",
    "if x:\n \ty\n\x0c\nz\n",
    "if x:\n\tif y:\n\t\tz\n\telse:\n\t\tw\nq\n",
    "f'a{x!r:>{w}}{{b}}' t\"{y=}\"\n",
    "f'{d['k']}{f'{1}'}'\n",
    "f'{x:{y}}' f'{x:a{y}b}' rf'\\{x}' f'\\N{DASH}{x}' f'{x!r}' F'{x != y}' f'{(x:=1)}'\n",
    "f'{x:{{}}}' if 0 else 1\n",
    "f'''{x:\n}'''\n",
    "u'a' U'b' b'c' Rb'd' bR'e' r'f' br'\\g' '\\n' 'a\\'b' \"'\" '''a\\'''b'''\n",
    "x = '''\n\\n\n''' + r'''\n\\n\n''' + b'''\n\n'''\n",
    "f'''a\n{x} b {y:>3}\n c''' + rf'''\n\\d{x}\n\\{y}'''\n",
    "t'''a\n{x}\n'''\n",
    "x = 'a\\\nb' + \"c\\\n\\\nd\"\ny = f'a\\\n{x}b\\\nc'\n",
    "x = r'a\\\nb'\n",
    "def f(a, /, *, b: int = 1, **c) -> None: return lambda x: x\n",
    "1 1. .1 1.1 1e5 1E+5 1.e-5 1j 1.5J 0 00 0_0 0x_f 0b1 0o7 1_000 0.5 00.5 09.5 1if 2else 3or 4\n",
    "0xfor x\n1_0j\n1..real\n1.__class__\n",
    "match x:\n  case 1:\n    case = 2\n  case _:\n    match = 3\n",
    "match = 1\nmatch: int\ncase(x)\nmatch[x]\n",
    "match x:\n case [y]:\n  match y:\n   case z:\n    pass\n case _:\n  pass\ncase\n",
    "type X = int\ntype(x)\ntype = 1\ntype type = int\na; type X = 1\nif x: type Y = 2\n",
    "with (a, f'{(b)}'): pass\nasync with (a as b):\n  pass\nwith (a) as b: pass\nwith (a), (b): pass\n",
    "x = [\n  1, # one\n  2,\n\n]\ny = {'a': (1,\n 2), 'b': [\n]}\n",
    "class A:\n    def f(self):\n        '''Doc.\n\n        More.\n        '''\n        return 1\n\n    x = 1\n",
    "a\r\nb = '''x\r\ny'''\r\nc = 'z' r'w'\r\nif a:\r\n    b # c\r\n\r\nd = \\\r\n 1\r\nf'''x\r\n{y}'''\r\n",
    "é = 1\n",
    "x = 'é' # é\n",
    "x = ((((((((((1))))))))))\n",
    "x = (\n(\n(\n(1\n)\n)\n)\n)\n",
    "if a:\n  if b:\n    c\n  d\nelif e:\n        f\ng\n",
    "x = f'{\"a\" if b else \"c\"}' f\"{a['b']}\"\n",
    "\tx\n",
    "  x\n y\n",
    "@a.b\ndef f(): ...\n",
    "print(f'{x!s}', f'{x!s:>{y}}', f'{x=!r}', f'{x:%Y-%m-%d}', f'{{}}', f'{x}}}{{')\n",
    "x = '#' # '''\ny = \"'''\" + '\"\"\"'\nz = 1\n",
    "a = 1 if b else\\\n  2\n",
];

const BROKEN: &[&str] = &[
    "x = 'abc",
    "x = 'abc\ny",
    "x = '''abc\n\n",
    "x='a\\'bc",
    "f'{x",
    "f'abc",
    "f'{'",
    "(\n\n]",
    "(",
    ")",
    "(]\n",
    "x = (1\n",
    "f'{)}'",
    "f'}'",
    "1__0",
    "0b12",
    "1e+",
    "1x",
    "a€b",
    "\u{1}",
    "f'{x:{x:{x:{x}}}}'",
    "x = \\ y",
    "a\\\n",
    "a\\",
    "if x:\n    a\n  b = 1\nc",
    "if x:\n        a\n\tb\n",
    "if x:\n  a\n\tb\n",
    "a $ b",
    "a ? b",
    "a <> b",
    "a ! b",
    "'''a\\",
    "f'''{x\n",
    "f'''a\n",
    "a\0b",
    "x = (\n'''\n",
    "{[(\n)\n}\n]\n",
    "f(a[1)\n]",
];

/// Valid, but falls back.
const RARE: &[&str] = &["f'''{x\n}'''\n", "a\rb\n", "a\r", "\\\nx\n", "  \\\n  x\n", "naïve = ﬁ\n", "f'{x:\n}'\n"];

/// A text of random pieces, most of which fit together.
fn token_fuzz(random: &mut StdRng, pieces: &[&str], count: usize) -> String {
    (0..count).map(|_| pieces[random.random_range(0..pieces.len())]).collect()
}

const PIECES: &[&str] = &[
    "x",
    "y ",
    "self",
    ".",
    "foo_bar_baz_quux",
    " = ",
    "\n",
    "\n",
    "\n    ",
    "\n  ",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "'a'",
    "\"b\"",
    "'''c\nd'''",
    "f'{x}'",
    "f\"{y:>3}\"",
    "f'''\n{z}\n'''",
    "# c\n",
    "1",
    "0x1f",
    "1.5e3",
    ":",
    ",",
    ";",
    "+=",
    "**",
    "\\\n",
    "\t",
    "if ",
    "else",
    "match ",
    "case ",
    "type ",
    "with (",
    "'",
    "\"",
    "'''",
    "\"\"\"",
    "f'",
    "rb'",
    "\\",
    "é",
    "$",
    "!=",
    "->",
    "\r\n",
    "\x0c",
    "lambda",
    "async ",
    "==",
    "...",
    " ",
    "  ",
    "as ",
    "u'\\n'",
    "r'\\n'",
    "b'x'",
    ":=",
    "{{",
    "}}",
];

const GOOD: &[&str] = &[
    "x",
    "y ",
    "self",
    ".a ",
    "foo_bar_baz_quux",
    " = ",
    "\n",
    "\n",
    "\n",
    "(a, b)",
    "[1]",
    "{2: 3}",
    "'a'",
    "\"b\\n\"",
    "'''c\nd'''",
    "f'{x}'",
    "f\"{y:>3}\"",
    "f'''\n{z}\n'''",
    " # c\n",
    " 1 ",
    " 0x1f ",
    " 1.5e3 ",
    ":",
    ",",
    ";",
    "+=",
    "**",
    "\"\"\"a\\\n'''\n\"\"\"",
    "(\n 1, # d\n)",
    "match ",
    "case ",
    "type ",
    "with (a): ",
    " else ",
    "r'\\n'",
    "'a\\\nb'",
    "(x\n)",
];

#[test]
fn gpu_and_cpu_agree_on_small_texts() {
    let Some(on) = worker() else { return };
    let plain: Vec<_> =
        PLAIN.iter().copied().filter(|text| expected(text).is_some_and(|l| l.extra.is_empty())).collect();
    let fallen_back = compare(PLAIN, &on);
    println!("{fallen_back:?}");
    let fine: Vec<_> = plain.into_iter().filter(|text| text.is_ascii() && !text.contains("{x:\n}")).collect();
    equal(&fine, &on);
    compare(BROKEN, &on);
    for text in BROKEN {
        compare(&[text], &on);
    }
    println!("{:?}", compare(RARE, &on));
    let mixed: Vec<_> = BROKEN.iter().flat_map(|broken| [*broken, PLAIN[33], RARE[0], PLAIN[22]]).collect();
    compare(&mixed, &on);
}

#[test]
fn gpu_and_cpu_agree_on_fuzzed_tokens() {
    let Some(on) = worker() else { return };
    let mut random = StdRng::seed_from_u64(7);
    for pieces in [PIECES, GOOD] {
        for length in [3, 10, 40, 400, 4000] {
            let texts: Vec<_> =
                (0..(200_000 / length).min(4000)).map(|_| token_fuzz(&mut random, pieces, length)).collect();
            let texts: Vec<_> = texts.iter().map(String::as_str).collect();
            println!("{length} pieces, {} texts: {:?}", texts.len(), compare(&texts, &on));
        }
    }
}

#[test]
fn gpu_and_cpu_agree_on_large_texts() {
    let Some(on) = worker() else { return };
    let one_line = format!("x = [{}]\n", "1, ".repeat(300_000));
    let many_lines = format!("x = [\n{}]\n", "  (1, 'two', [3]),\n".repeat(100_000));
    let blank = "\n".repeat(100_000);
    let comments = "# a\n".repeat(50_000);
    let names = (0..60_000).map(|i| format!("name_{i} = name_{}\n", i / 2)).collect::<Vec<_>>().concat();
    let docs = format!("'''\n{}'''\nx = 1\n", "Some text, don't \"quote\" it.\n".repeat(50_000));
    let quotes = "'''\n'''\n".repeat(20_000);
    let dense = "(((((((((())))))))))\n".repeat(10_000);
    let body = format!("class A:\n{}x = 1\n", "    def f(self):\n        return 1\n".repeat(20_000));
    let all = [&one_line, &many_lines, &blank, &comments, &names, &docs, &quotes, &dense, &body];
    for text in all {
        println!("{:?}: {:?}", &text[..20.min(text.len())], compare(&[text], &on));
    }
    let texts: Vec<_> = all.iter().map(|text| text.as_str()).collect();
    compare(&texts, &on);
    let tiny: Vec<_> = (0..10_000).map(|i| format!("import a{i}\n\n\ndef f(x):\n    return x + {i}\n")).collect();
    equal(&tiny.iter().map(String::as_str).collect::<Vec<_>>(), &on);
}

#[test]
fn gpu_and_cpu_agree_on_a_corpus() {
    let (Some(on), Some(folder)) = (worker(), env::var_os("ACCELERD_PARSE_CORPUS")) else { return };
    let mut texts = vec![];
    collect(Path::new(&folder), &mut texts);
    let texts: Vec<_> = texts.iter().map(String::as_str).collect();
    let bytes: usize = texts.iter().map(|text| text.len()).sum();
    let broken = texts.iter().filter(|text| expected(text).is_none()).count();
    let fallen_back = compare(&texts, &on);
    println!("{} files, {bytes} bytes, {broken} with lexical errors, fallen back: {fallen_back:?}", texts.len());
}

fn collect(folder: &Path, into: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, into);
        } else if path.extension().is_some_and(|end| end == "py") {
            into.extend(fs::read_to_string(&path));
        }
    }
}
