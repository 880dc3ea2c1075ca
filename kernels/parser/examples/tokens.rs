//! Prints what files are made of, for `tests/conformance/lexer.py` to compare with CPython.

use std::io::{BufRead, Write};

use accelerd_parser::lexer::lex;

fn main() -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for path in std::io::stdin().lock().lines() {
        let path = path?;
        let Ok(text) = String::from_utf8(std::fs::read(&path)?) else {
            continue;
        };
        let lexed = lex(&text);
        writeln!(out, "F {path}")?;
        for line in &lexed.lines {
            writeln!(out, "L {} {}", line.column, line.alternate)?;
            for at in line.first as usize..line.end as usize {
                let tokens = &lexed.tokens;
                let (kind, start, end) = (tokens.kinds[at], tokens.starts[at], tokens.ends[at]);
                writeln!(out, "T {kind:?} {start} {end}")?;
            }
        }
        for (start, end) in &lexed.comments {
            writeln!(out, "C {start} {end}")?;
        }
        if let Some(error) = &lexed.error {
            let found = &error.diagnostic;
            writeln!(out, "E {:?} {} {} {}", found.class, found.start, found.end, found.message)?;
        }
    }
    out.flush()
}
