//! All stages in order.

use std::borrow::Cow;

use crate::blocks::{self, Blocks, Source};
use crate::columns::Columns;
use crate::constants::Constants;
use crate::diagnostic::Diagnostic;
use crate::driver::{Driver, Stop};
use crate::lexer::{self, Lexed};
use crate::reasons;
use crate::rows::Rows;
use crate::tokens::{Line, Terminal, Tokens};
use crate::{Options, checks, fields, future, modes, rules, text};

/// A parsed source.
#[derive(Clone, Debug)]
pub struct Parsed<'a> {
    /// The source as UTF-8: what places are bytes of.
    pub text: Cow<'a, str>,
    /// Its tokens; up to the first error where there is one.
    pub tokens: Tokens,
    /// Where each comment starts and ends.
    pub comments: Vec<(u32, u32)>,
    /// The tree, or the first error.
    pub outcome: Result<Columns, Diagnostic>,
}

/// Parses a source.
///
/// The time is linear in the length of the source, whatever is in it.
pub fn parse<'a>(source: &'a [u8], options: &Options) -> Parsed<'a> {
    let options = *options;
    match text::decode(source, &options) {
        Ok(text) => {
            let mut parsed = parse_text(text, options);
            if let Err(error) = &mut parsed.outcome {
                error.locate(&parsed.text, options);
            }
            parsed
        }
        // Its position is known already, for it is not one in the text.
        Err(error) => Parsed { text: "".into(), tokens: Tokens::default(), comments: Vec::new(), outcome: Err(error) },
    }
}

fn parse_text(text: Cow<'_, str>, options: Options) -> Parsed<'_> {
    let mut lexed = lexer::lex_as(&text, &options);
    rules::apply(&mut lexed);
    let textless = fields::mark(&mut lexed.tokens);
    let outcome = modes::outcome(&text, &mut lexed, options, |lexed| tree(&text, lexed, options));
    // It fails as soon as it has read that far.
    let reaches = |error: &Diagnostic, field: usize| lexed.tokens.starts.get(field).is_none_or(|&at| at < error.start);
    let outcome = match (outcome, textless) {
        (Ok(_), Some(_)) => Err(no_text()),
        (Err(error), Some(field)) if field < lexed.tokens.kinds.len() && reaches(&error, field) => Err(no_text()),
        (outcome, _) => outcome,
    };
    let outcome = outcome.map_err(|error| reasons::explain(&text, &lexed, options, error));
    let outcome = outcome.map(|columns| Columns {
        name_starts: std::mem::take(&mut lexed.name_starts),
        name_ends: std::mem::take(&mut lexed.name_ends),
        ..columns
    });
    Parsed { text, tokens: lexed.tokens, comments: lexed.comments, outcome }
}

/// CPython's words where it has no text for a field with `=`.
#[cold]
fn no_text() -> Diagnostic {
    Diagnostic::value("field 'value' is required for Constant")
}

fn tree(text: &str, lexed: &mut Lexed, options: Options) -> Result<Columns, Diagnostic> {
    let underscore = lexed.soft.r#match.and_then(|_| underscore(text, lexed));
    let mut rows = Rows::for_tokens(lexed.tokens.kinds.len());
    rows.columns.extra = std::mem::take(&mut lexed.extra);
    let mut driver = Driver::default();
    let mut blocks = Blocks::default();
    for number in 0..lexed.lines.len() {
        let line = lexed.lines[number];
        let first = rows.len;
        blocks.enter(Source { text, tokens: &lexed.tokens }, &line, &mut rows.columns)?;
        let parsed = nodes(text, &mut driver, lexed, number, &mut rows);
        parsed.map_err(|error| blocks.before(Source { text, tokens: &lexed.tokens }, &line).unwrap_or(error))?;
        blocks.line(Source { text, tokens: &lexed.tokens }, &line, first..rows.len, &mut rows.columns)?;
        checks::line(text, &lexed.tokens, underscore, options, &mut rows.columns, first..rows.len)?;
    }
    if let Some(error) = &lexed.error {
        let indented = lexed.begun.is_some_and(|column| blocks.refuses(column));
        return Err(if indented { blocks::unexpected(error.diagnostic.start) } else { error.diagnostic.clone() });
    }
    blocks.finish(Source { text, tokens: &lexed.tokens }, &mut rows.columns)?;
    let mut columns = rows.finish();
    let mut constants = Constants::new(text, &lexed.tokens, options);
    constants.all(&mut columns)?;
    constants.finish(&mut columns);
    if options.feature_version >= 14 {
        future::check(text, lexed, &columns)?;
    }
    Ok(columns)
}

/// The number of the name `_`.
fn underscore(text: &str, lexed: &Lexed) -> Option<u32> {
    (0..small(lexed.name_starts.len())).find(|&name| lexed.name(text, &lexed.extra, name) == b"_")
}

/// Parses one line, which may be cut by an error of the lexer.
fn nodes(text: &str, driver: &mut Driver, lexed: &mut Lexed, number: usize, rows: &mut Rows) -> Result<(), Diagnostic> {
    let line = lexed.lines[number];
    let range = (line.first as usize, line.end as usize);
    let before = rows.len;
    let mut outcome = driver.parse(text.as_bytes(), &lexed.tokens, range, rows);
    if outcome.is_err() && free_parenthesis(&mut lexed.tokens, &line) {
        rows.len = before;
        outcome = driver.parse(text.as_bytes(), &lexed.tokens, range, rows);
    }
    let cut = lexed.cut && number + 1 == lexed.lines.len();
    match (outcome, &lexed.error) {
        (Ok(()), None) => Ok(()),
        (Ok(()), Some(_)) if !cut => Ok(()),
        (Ok(()), Some(error)) => Err(error.diagnostic.clone()),
        (Err(Stop::Wrong(at)), Some(error)) if cut && at == range.1 && !error.is_stray() => {
            Err(error.diagnostic.clone())
        }
        (Err(Stop::Wrong(at)), _) => Err(wrong(text, lexed, at, range.1)),
        (Err(Stop::Deep(at)), _) => {
            Err(blocks::at(Source { text, tokens: &lexed.tokens }, small(at), "too many nested expressions"))
        }
    }
}

/// In a line that does not parse with the items of a `with` in parentheses, the parentheses are part of one expression.
fn free_parenthesis(tokens: &mut Tokens, line: &Line) -> bool {
    let kinds = &mut tokens.kinds[line.first as usize..line.end as usize];
    let found = kinds.iter_mut().take(3).find(|kind| **kind == Terminal::WithParen);
    found.map(|kind| *kind = Terminal::LeftParen).is_some()
}

/// An error of the grammar at a token of a line which ends before `end`.
#[cold]
fn wrong(text: &str, lexed: &Lexed, at: usize, end: usize) -> Diagnostic {
    let tokens = &lexed.tokens;
    if at < end {
        return blocks::at(Source { text, tokens }, small(at), "invalid syntax");
    }
    let behind = tokens.ends[end - 1];
    Diagnostic::syntax(behind, behind, "invalid syntax")
}

fn small(token: usize) -> u32 {
    u32::try_from(token).unwrap_or(u32::MAX)
}
