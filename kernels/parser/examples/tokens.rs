//! Prints what files are made of, for `tests/conformance/lexer.py` to compare with CPython.

use std::io::{BufRead, Write};

use accelerd_parser::lexer::{Lexed, lex_as};
use accelerd_parser::{Diagnostic, Options, Terminal, text, values};

/// Of the CPython that it is compared with.
const OPTIONS: Options = Options::version(13);

fn main() -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for path in std::io::stdin().lock().lines() {
        let path = path?;
        let source = std::fs::read(&path)?;
        writeln!(out, "F {path}")?;
        match text::decode(&source, &OPTIONS) {
            Ok(text) => tell(&mut out, &text, &lex_as(&text, &OPTIONS))?,
            Err(error) => tell_error(&mut out, &error)?,
        }
    }
    out.flush()
}

fn tell(out: &mut impl Write, text: &str, lexed: &Lexed) -> std::io::Result<()> {
    let tokens = &lexed.tokens;
    for line in &lexed.lines {
        writeln!(out, "L {} {}", line.column, line.alternate)?;
        for at in line.first as usize..line.end as usize {
            let (kind, start, end) = (tokens.kinds[at], tokens.starts[at], tokens.ends[at]);
            writeln!(out, "T {kind:?} {start} {end}")?;
            if let Some(error) = tell_value(out, text, lexed, at)? {
                return tell_error(out, &lexed.better_reason(text, start).unwrap_or(error));
            }
        }
    }
    for (start, end) in &lexed.comments {
        writeln!(out, "C {start} {end}")?;
    }
    lexed.error.as_ref().map_or(Ok(()), |error| tell_error(out, &error.diagnostic))
}

/// What a string or number stands for, in hexadecimal; or why it does for nothing.
fn tell_value(out: &mut impl Write, text: &str, lexed: &Lexed, at: usize) -> std::io::Result<Option<Diagnostic>> {
    let tokens = &lexed.tokens;
    let (start, end, payload) = (tokens.starts[at], tokens.ends[at], tokens.payloads[at]);
    let mut extra = Vec::new();
    #[expect(clippy::wildcard_enum_match_arm, reason = "all other tokens are without value")]
    let value = match tokens.kinds[at] {
        Terminal::Number => return Ok(values::number(text, start, end).err()),
        Terminal::String => values::string(text, start, end, payload, &mut extra),
        Terminal::FStringMiddle => {
            let middle = values::middle(text, start, end, payload, (start, end), &mut extra);
            return Ok(middle.err());
        }
        _ => return Ok(None),
    };
    match value {
        Err(error) => Ok(Some(error)),
        Ok(value) => {
            let (from, to) = (value.start as usize, value.end as usize);
            let apart = from.checked_sub(text.len()).filter(|_| !extra.is_empty());
            let bytes = apart.map_or_else(|| &text.as_bytes()[from..to], |from| &extra[from..to - text.len()]);
            write!(out, "V {:?} ", value.tag)?;
            bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))?;
            writeln!(out).map(|()| None)
        }
    }
}

fn tell_error(out: &mut impl Write, error: &Diagnostic) -> std::io::Result<()> {
    writeln!(out, "E {:?} {} {} {}", error.class, error.start, error.end, error.message)
}
