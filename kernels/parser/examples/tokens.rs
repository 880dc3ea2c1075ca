//! Prints the tokens of files, for `tests/conformance/lexer.py` to compare with CPython's.

use std::io::{BufRead, Write};

use accelerd_parser::lexer::{Lexed, lex_with};
use accelerd_parser::{Diagnostic, Options, Terminal, literals, text};

/// The version of the CPython to compare with.
const OPTIONS: Options = Options::version(13);

fn main() -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for path in std::io::stdin().lock().lines() {
        let path = path?;
        let source = std::fs::read(&path)?;
        writeln!(out, "F {path}")?;
        match text::decode(&source, &OPTIONS) {
            Ok(text) => print_tokens(&mut out, &text, &lex_with(&text, &OPTIONS))?,
            Err(error) => print_error(&mut out, &error)?,
        }
    }
    out.flush()
}

fn print_tokens(out: &mut impl Write, text: &str, lexed: &Lexed) -> std::io::Result<()> {
    let tokens = &lexed.tokens;
    for line in &lexed.lines {
        writeln!(out, "L {} {}", line.column, line.alternate)?;
        for index in line.first as usize..line.end as usize {
            let kind = tokens.kinds[index];
            let start = tokens.starts[index];
            let end = tokens.ends[index];
            writeln!(out, "T {kind:?} {start} {end}")?;
            if let Some(error) = print_value(out, text, lexed, index)? {
                return print_error(out, &lexed.preferred_error(text, start).unwrap_or(error));
            }
        }
    }
    for (start, end) in &lexed.comments {
        writeln!(out, "C {start} {end}")?;
    }
    lexed.error.as_ref().map_or(Ok(()), |error| print_error(out, &error.diagnostic))
}

/// Prints the value of a string in hexadecimal; returns the error of an invalid literal.
fn print_value(out: &mut impl Write, text: &str, lexed: &Lexed, index: usize) -> std::io::Result<Option<Diagnostic>> {
    let tokens = &lexed.tokens;
    let start = tokens.starts[index];
    let end = tokens.ends[index];
    let payload = tokens.payloads[index];
    let mut extra = Vec::new();
    #[expect(clippy::wildcard_enum_match_arm, reason = "all other tokens are without value")]
    let value = match tokens.kinds[index] {
        Terminal::Number => return Ok(literals::number(text, start, end).err()),
        Terminal::String => literals::string(text, start, end, payload, &mut extra),
        Terminal::FStringMiddle => {
            let middle = literals::middle(text, start, end, payload, (start, end), &mut extra);
            return Ok(middle.err());
        }
        _ => return Ok(None),
    };
    match value {
        Err(error) => Ok(Some(error)),
        Ok(value) => {
            let from = value.start as usize;
            let to = value.end as usize;
            let extra_from = from.checked_sub(text.len()).filter(|_| !extra.is_empty());
            let bytes = extra_from.map_or_else(|| &text.as_bytes()[from..to], |from| &extra[from..to - text.len()]);
            write!(out, "V {:?} ", value.tag)?;
            bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))?;
            writeln!(out).map(|()| None)
        }
    }
}

fn print_error(out: &mut impl Write, error: &Diagnostic) -> std::io::Result<()> {
    writeln!(out, "E {:?} {} {} {}", error.class, error.start, error.end, error.message)
}
