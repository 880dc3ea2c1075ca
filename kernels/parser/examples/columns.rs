//! Parses many sources at once and writes their columns, for comparison with other parsers.
//!
//! `columns VERSION [text] [eval|single]` parses with the grammar of Python VERSION: `3.8` to `3.14`. With `text` the
//! sources are decoded text, not files.
//!
//! A block is a length and that many bytes; all numbers are 32-bit little-endian. Standard input has one block per
//! source. Standard output has for each source a number: 0 for a tree, else the exception: 1 `SyntaxError`, 2
//! `IndentationError`, 3 `TabError`, 4 `ValueError`, 5 `UnicodeDecodeError`, 6 `UnicodeEncodeError`, 99 a panic, which
//! is a bug. A block with the source as UTF-8 follows. For a tree there is one block per column: `kinds` and `fields`,
//! a byte per row; `parents`, `starts`, `ends` and `aux`, a number per row; `name_starts` and `name_ends`;
//! `value_tags`, a byte per value; `value_starts`, `value_ends`; `extra`. For an error there are its start and end, a
//! block with its message, and `lineno`, `offset`, `end_lineno` and `end_offset` as signed numbers, -2 for `None`.

use std::io::{self, Read, Write};
use std::panic;

use accelerd_parser::{Columns, Diagnostic, Mode, Options, Parsed, Position, SourceType, parse};

/// Encodes `None`.
const NONE: i32 = -2;

fn main() -> io::Result<()> {
    let version = std::env::args().nth(1).unwrap_or_else(|| "3.14".into());
    let minor = version.strip_prefix("3.").and_then(|minor| minor.parse().ok());
    let mut options = Options::version(minor.ok_or_else(|| io::Error::other("a version is 3.8 to 3.14"))?);
    for argument in std::env::args().skip(2) {
        match argument.as_str() {
            "text" => options.source_type = SourceType::Text,
            "eval" => options.mode = Mode::Eval,
            "single" => options.mode = Mode::Single,
            _ => return Err(io::Error::other(format!("expected text, eval or single, got {argument}"))),
        }
    }
    let mut input = Vec::new();
    io::stdin().read_to_end(&mut input)?;
    let mut output = io::BufWriter::new(io::stdout().lock());
    let mut rest = &input[..];
    while let Some((length, data)) = rest.split_first_chunk::<4>() {
        let (source, next) = data.split_at(u32::from_le_bytes(*length) as usize);
        if let Ok(parsed) = panic::catch_unwind(|| parse(source, &options)) {
            answer(&mut output, parsed)?;
        } else {
            number(&mut output, 99)?;
            block(&mut output, source)?;
            number(&mut output, 0)?;
            number(&mut output, 0)?;
            block(&mut output, b"panic")?;
            position(&mut output, Position::default())?;
        }
        rest = next;
    }
    output.flush()
}

fn answer(output: &mut impl Write, parsed: Parsed) -> io::Result<()> {
    let text = parsed.text;
    match parsed.outcome {
        Ok(columns) => {
            number(output, 0)?;
            block(output, text.as_bytes())?;
            tree(output, &columns)
        }
        Err(error) => {
            number(output, error.class as u32)?;
            block(output, text.as_bytes())?;
            write_error(output, &error)
        }
    }
}

fn tree(output: &mut impl Write, columns: &Columns) -> io::Result<()> {
    block(output, bytemuck::cast_slice(&columns.kinds))?;
    block(output, bytemuck::cast_slice(&columns.fields))?;
    for column in
        [&columns.parents, &columns.starts, &columns.ends, &columns.aux, &columns.name_starts, &columns.name_ends]
    {
        numbers(output, column)?;
    }
    block(output, bytemuck::cast_slice(&columns.value_tags))?;
    numbers(output, &columns.value_starts)?;
    numbers(output, &columns.value_ends)?;
    block(output, &columns.extra)
}

fn write_error(output: &mut impl Write, error: &Diagnostic) -> io::Result<()> {
    number(output, error.start)?;
    number(output, error.end)?;
    block(output, error.message.as_bytes())?;
    position(output, error.position)
}

fn position(output: &mut impl Write, position: Position) -> io::Result<()> {
    let Position { lineno, offset, end_lineno, end_offset } = position;
    let numbers = [lineno, offset, end_lineno, end_offset].map(|number| number.unwrap_or(NONE).to_le_bytes());
    output.write_all(numbers.as_flattened())
}

fn number(output: &mut impl Write, value: u32) -> io::Result<()> {
    output.write_all(&value.to_le_bytes())
}

fn numbers(output: &mut impl Write, column: &[u32]) -> io::Result<()> {
    let bytes: Vec<u8> = column.iter().flat_map(|value| value.to_le_bytes()).collect();
    block(output, &bytes)
}

fn block(output: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    number(output, u32::try_from(bytes.len()).map_err(io::Error::other)?)?;
    output.write_all(bytes)
}
