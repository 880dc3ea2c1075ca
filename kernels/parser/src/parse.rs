//! The parser's stages in order.

use std::borrow::Cow;

use crate::blocks::{self, Blocks, Tokenized};
use crate::columns::Columns;
use crate::constants::Constants;
use crate::diagnostic::Diagnostic;
use crate::driver::{Driver, ParseError};
use crate::error_messages;
use crate::lexer::{self, Lexed};
use crate::nodes::Nodes;
use crate::tokens::{Line, Terminal, Tokens};
use crate::{Options, checks, future, modes, replacement_fields, soft_keywords, text};

/// A parsed source.
#[derive(Clone, Debug)]
pub struct Parsed<'a> {
    /// The source as UTF-8, into which all offsets point.
    pub text: Cow<'a, str>,
    /// Its tokens, up to the first error.
    pub tokens: Tokens,
    /// Start and end of each comment.
    pub comments: Vec<(u32, u32)>,
    /// The syntax tree, or the first error.
    pub outcome: Result<Columns, Diagnostic>,
}

/// Parses a source.
///
/// Takes linear time for any source.
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
        // A decoding error has its position already.
        Err(error) => Parsed { text: "".into(), tokens: Tokens::default(), comments: Vec::new(), outcome: Err(error) },
    }
}

fn parse_text(text: Cow<'_, str>, options: Options) -> Parsed<'_> {
    let mut lexed = lexer::lex_with(&text, &options);
    soft_keywords::apply(&mut lexed);
    let sourceless_field = replacement_fields::mark(&mut lexed.tokens);
    let outcome = modes::parse_in_mode(&text, &mut lexed, options, |lexed| parse_module(&text, lexed, options));
    // CPython fails at the field, unless an error comes before it.
    let reaches =
        |error: &Diagnostic, field: usize| lexed.tokens.starts.get(field).is_none_or(|&index| index < error.start);
    let outcome = match (outcome, sourceless_field) {
        (Ok(_), Some(_)) => Err(missing_field_source()),
        (Err(error), Some(field)) if field < lexed.tokens.kinds.len() && reaches(&error, field) => {
            Err(missing_field_source())
        }
        (outcome, _) => outcome,
    };
    let outcome =
        outcome.map_err(|error| error_messages::explain(&text, &lexed, options, error)).map(|columns| Columns {
            name_starts: std::mem::take(&mut lexed.name_starts),
            name_ends: std::mem::take(&mut lexed.name_ends),
            ..columns
        });
    Parsed { text, tokens: lexed.tokens, comments: lexed.comments, outcome }
}

/// CPython's error where it has no source text for a field with `=`.
#[cold]
fn missing_field_source() -> Diagnostic {
    Diagnostic::value("field 'value' is required for Constant")
}

fn parse_module(text: &str, lexed: &mut Lexed, options: Options) -> Result<Columns, Diagnostic> {
    let underscore = lexed.soft.r#match.and_then(|_| underscore(text, lexed));
    let mut nodes = Nodes::with_capacity_for(lexed.tokens.kinds.len());
    nodes.columns.extra = std::mem::take(&mut lexed.extra);
    let mut driver = Driver::default();
    let mut blocks = Blocks::default();
    for number in 0..lexed.lines.len() {
        let line = lexed.lines[number];
        let first = nodes.len;
        blocks.enter(Tokenized { text, tokens: &lexed.tokens }, &line, &mut nodes.columns)?;
        let parsed = parse_line(text, &mut driver, lexed, number, &mut nodes);
        parsed.map_err(|error| blocks.misplaced(Tokenized { text, tokens: &lexed.tokens }, &line).unwrap_or(error))?;
        blocks.line(Tokenized { text, tokens: &lexed.tokens }, &line, first..nodes.len, &mut nodes.columns)?;
        checks::check_line(text, &lexed.tokens, underscore, options, &mut nodes.columns, first..nodes.len)?;
    }
    if let Some(error) = &lexed.error {
        let indented = lexed.error_column.is_some_and(|column| blocks.is_unexpected_indent(column));
        return Err(if indented {
            blocks::unexpected_indent(error.diagnostic.start)
        } else {
            error.diagnostic.clone()
        });
    }
    blocks.finish(Tokenized { text, tokens: &lexed.tokens }, &mut nodes.columns)?;
    let mut columns = nodes.finish();
    let mut constants = Constants::new(text, &lexed.tokens, options);
    constants.evaluate(&mut columns)?;
    constants.finish(&mut columns);
    if options.feature_version >= 14 {
        future::check(text, lexed, &columns)?;
    }
    Ok(columns)
}

/// The number of the name `_`.
fn underscore(text: &str, lexed: &Lexed) -> Option<u32> {
    (0..to_u32(lexed.name_starts.len())).find(|&name| lexed.name(text, &lexed.extra, name) == b"_")
}

/// Parses one logical line, which a lexer error may have cut short.
fn parse_line(
    text: &str,
    driver: &mut Driver,
    lexed: &mut Lexed,
    number: usize,
    nodes: &mut Nodes,
) -> Result<(), Diagnostic> {
    let line = lexed.lines[number];
    let range = (line.first as usize, line.end as usize);
    let before = nodes.len;
    let mut outcome = driver.parse(text.as_bytes(), &lexed.tokens, range, nodes);
    if outcome.is_err() && reinterpret_with_paren(&mut lexed.tokens, &line) {
        nodes.len = before;
        outcome = driver.parse(text.as_bytes(), &lexed.tokens, range, nodes);
    }
    let error_in_line = lexed.error_in_line && number + 1 == lexed.lines.len();
    match (outcome, &lexed.error) {
        (Ok(()), None) => Ok(()),
        (Ok(()), Some(_)) if !error_in_line => Ok(()),
        (Ok(()), Some(error)) => Err(error.diagnostic.clone()),
        (Err(ParseError::Unexpected(index)), Some(error))
            if error_in_line && index == range.1 && !error.is_error_token() =>
        {
            Err(error.diagnostic.clone())
        }
        (Err(ParseError::Unexpected(index)), _) => Err(unexpected_token(text, lexed, index, range.1)),
        (Err(ParseError::TooDeep(index)), _) => Err(blocks::error_at(
            Tokenized { text, tokens: &lexed.tokens },
            to_u32(index),
            "too many nested expressions",
        )),
    }
}

/// Reinterprets the parenthesis after `with`, where the line does not parse with parenthesised items, as part of an
/// expression.
fn reinterpret_with_paren(tokens: &mut Tokens, line: &Line) -> bool {
    let kinds = &mut tokens.kinds[line.first as usize..line.end as usize];
    let found = kinds.iter_mut().take(3).find(|kind| **kind == Terminal::WithParen);
    found.map(|kind| *kind = Terminal::LeftParen).is_some()
}

/// A syntax error at token `index` of a line that ends before token `end`.
#[cold]
fn unexpected_token(text: &str, lexed: &Lexed, index: usize, end: usize) -> Diagnostic {
    let tokens = &lexed.tokens;
    if index < end {
        return blocks::error_at(Tokenized { text, tokens }, to_u32(index), "invalid syntax");
    }
    let after = tokens.ends[end - 1];
    Diagnostic::syntax(after, after, "invalid syntax")
}

fn to_u32(token: usize) -> u32 {
    u32::try_from(token).unwrap_or(u32::MAX)
}
