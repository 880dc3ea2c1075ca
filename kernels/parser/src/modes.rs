//! The modes `eval` and `single`: one expression, or one interactive statement, instead of a module.
//!
//! The tables parse a module. A mode rejects further sources by their tokens: at the first token that cannot be part of
//! an expression, or of the first statement. CPython stops there, so later lines are dropped.

use crate::columns::{Columns, Field, Kind, NONE};
use crate::diagnostic::{Diagnostic, Position, Span};
use crate::lexer::{LexError, Lexed};
use crate::tokens::{Line, Terminal};
use crate::{Mode, Options};

type Outcome = Result<Columns, Diagnostic>;

/// Parses a text in its mode; `tree` parses the lines that remain as a module.
pub(crate) fn parse_in_mode(
    text: &str,
    lexed: &mut Lexed,
    options: Options,
    tree: impl FnOnce(&mut Lexed) -> Outcome,
) -> Outcome {
    match options.mode {
        Mode::Exec => tree(lexed),
        Mode::Eval => expression(text, lexed, tree),
        Mode::Single => statement(text, lexed, options, tree),
    }
}

fn expression(text: &str, lexed: &mut Lexed, tree: impl FnOnce(&mut Lexed) -> Outcome) -> Outcome {
    let Some(&line) = lexed.lines.first() else { return Err(unexpected_end(text, lexed)) };
    let first = line.first as usize;
    if matches!(lexed.tokens.kinds[first], Terminal::Match | Terminal::Case | Terminal::Type) {
        lexed.tokens.kinds[first] = Terminal::Name;
    }
    let unexpected = non_expression_token(&lexed.tokens.kinds[first..line.end as usize]).map(|index| first + index);
    let place = |lexed: &Lexed, index: usize| (lexed.tokens.starts[index], lexed.tokens.ends[index]);
    let unexpected = unexpected.map(|index| invalid(place(lexed, index)));
    let after = lexed.lines.get(1).copied().map(|next| (next, invalid(place(lexed, next.first as usize))));
    let error = truncate_lines(lexed, 1);
    let outcome = tree(lexed);
    lexed.error = lexed.error.take().or(error);
    match (outcome, unexpected) {
        (Err(error), Some(unexpected)) if unexpected.start > error.start => Err(error),
        (_, Some(unexpected)) => Err(unexpected),
        (Err(error), None) => Err(error),
        (Ok(columns), None) => match (after, &lexed.error) {
            (Some((next, invalid)), _) if next.column > line.column => {
                Err(crate::blocks::unexpected_indent(invalid.start))
            }
            (Some((_, invalid)), _) => Err(invalid),
            (None, Some(error)) => Err(error.diagnostic.clone()),
            (None, None) => Ok(unwrap_expression(columns)),
        },
    }
}

/// The first token of a line that cannot occur there in an expression of mode `eval`.
fn non_expression_token(kinds: &[Terminal]) -> Option<usize> {
    let mut depth = 0_usize;
    let mut lambdas = 0_usize;
    for (index, &kind) in kinds.iter().enumerate() {
        let starts = index == 0 || kinds[index - 1] == Terminal::Comma;
        match kind {
            _ if opens(kind) => depth += 1,
            _ if closes(kind) => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            Terminal::Lambda => lambdas += 1,
            Terminal::Colon if lambdas > 0 => lambdas -= 1,
            _ if lambdas > 0 => {}
            Terminal::Equal | Terminal::Walrus | Terminal::Augmented | Terminal::Semicolon | Terminal::Colon => {
                return Some(index);
            }
            Terminal::Star | Terminal::Yield if starts => return Some(index),
            _ if index == 0 && starts_statement(kind) => return Some(index),
            _ => {}
        }
    }
    None
}

fn starts_statement(kind: Terminal) -> bool {
    is_compound(kind)
        || matches!(
            kind,
            Terminal::Import
                | Terminal::From
                | Terminal::Pass
                | Terminal::Break
                | Terminal::Continue
                | Terminal::Return
                | Terminal::Raise
                | Terminal::Global
                | Terminal::Nonlocal
                | Terminal::Del
                | Terminal::Assert
                | Terminal::Elif
                | Terminal::Else
                | Terminal::Except
                | Terminal::Finally
        )
}

fn opens(kind: Terminal) -> bool {
    matches!(
        kind,
        Terminal::LeftParen
            | Terminal::LeftBracket
            | Terminal::LeftBrace
            | Terminal::WithParen
            | Terminal::FieldOpen
            | Terminal::DebugOpen
            | Terminal::FStringStart
            | Terminal::TStringStart
    )
}

fn closes(kind: Terminal) -> bool {
    matches!(
        kind,
        Terminal::RightParen
            | Terminal::RightBracket
            | Terminal::RightBrace
            | Terminal::FieldClose
            | Terminal::FStringEnd
    )
}

/// Removes the expression statement around the expression.
fn unwrap_expression(mut columns: Columns) -> Columns {
    let last = columns.kinds.len().saturating_sub(1);
    debug_assert_eq!(columns.kinds.get(last), Some(&Kind::Expr), "no other statement passes");
    columns.kinds.truncate(last);
    columns.fields.truncate(last);
    columns.parents.truncate(last);
    columns.starts.truncate(last);
    columns.ends.truncate(last);
    columns.aux.truncate(last);
    if let Some(root) = last.checked_sub(1) {
        columns.parents[root] = NONE;
        columns.fields[root] = Field::Body;
    }
    columns
}

fn statement(text: &str, lexed: &mut Lexed, options: Options, tree: impl FnOnce(&mut Lexed) -> Outcome) -> Outcome {
    let Some(&first) = lexed.lines.first() else { return Err(unexpected_end(text, lexed)) };
    let kinds = &lexed.tokens.kinds;
    if !is_compound(kinds[first.first as usize]) {
        let complete = lexed.lines.len() > 1 || !lexed.error_in_line;
        truncate_lines(lexed, 1);
        return match tree(lexed) {
            Ok(_) if complete && is_followed(text, lexed, &first) => {
                Err(multiple_statements(text, lexed, &first, options))
            }
            outcome => outcome,
        };
    }
    let end =
        (1..lexed.lines.len()).find(|&index| starts_statement_after(lexed, index, &first)).unwrap_or(lexed.lines.len());
    let next = lexed
        .lines
        .get(end)
        .map(|line| line.first as usize)
        .map(|index| invalid((lexed.tokens.starts[index], lexed.tokens.ends[index])));
    let last = lexed.lines[end - 1];
    let error = truncate_lines(lexed, end);
    let outcome = tree(lexed);
    lexed.error = lexed.error.take().or(error);
    let columns = outcome?;
    let unfinished = last.column == first.column && !has_newline(text, lexed);
    match (next, &lexed.error) {
        (Some(next), _) => Err(next),
        (None, Some(error)) => Err(error.diagnostic.clone()),
        (None, None) if unfinished => Err(unexpected_end(text, lexed)),
        (None, None) => Ok(columns),
    }
}

fn is_compound(kind: Terminal) -> bool {
    matches!(
        kind,
        Terminal::If
            | Terminal::While
            | Terminal::For
            | Terminal::Async
            | Terminal::With
            | Terminal::Def
            | Terminal::Class
            | Terminal::Try
            | Terminal::Match
            | Terminal::At
    )
}

/// Returns true if a line starts a statement after the first one.
fn starts_statement_after(lexed: &Lexed, index: usize, first: &Line) -> bool {
    let kind = |line: &Line| lexed.tokens.kinds[line.first as usize];
    let line = &lexed.lines[index];
    let continues = matches!(kind(line), Terminal::Elif | Terminal::Else | Terminal::Except | Terminal::Finally);
    line.column <= first.column && !continues && kind(&lexed.lines[index - 1]) != Terminal::At
}

/// Drops the lines after the first `count` and the error after them; returns that error.
fn truncate_lines(lexed: &mut Lexed, count: usize) -> Option<LexError> {
    if count >= lexed.lines.len() {
        return if lexed.error_in_line { None } else { lexed.error.take() };
    }
    lexed.lines.truncate(count);
    let end = lexed.lines.last().map_or(0, |line| line.end as usize);
    lexed.tokens.kinds.truncate(end);
    lexed.tokens.starts.truncate(end);
    lexed.tokens.ends.truncate(end);
    lexed.tokens.payloads.truncate(end);
    lexed.error_in_line = false;
    lexed.error.take()
}

/// Returns true if anything but white space and comments follows a line.
fn is_followed(text: &str, lexed: &Lexed, line: &Line) -> bool {
    let mut rest = text.get(newline_after(text, lexed, line).1..).unwrap_or_default();
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
        if !rest.starts_with('#') {
            return !rest.is_empty();
        }
        rest = rest.find(['\n', '\r']).map_or("", |newline| &rest[newline..]);
    }
}

/// The range of the newline that ends a line, the comment before it included.
fn newline_after(text: &str, lexed: &Lexed, line: &Line) -> (usize, usize) {
    let end = lexed.tokens.ends[line.end as usize - 1] as usize;
    let rest = &text[end..];
    let start = end + rest.find(|byte| !matches!(byte, ' ' | '\t' | '\u{c}')).unwrap_or(rest.len());
    (start, end + rest.find(['\n', '\r']).unwrap_or(rest.len()))
}

fn has_newline(text: &str, lexed: &Lexed) -> bool {
    lexed.lines.last().is_some_and(|line| newline_after(text, lexed, line).1 < text.len())
}

fn multiple_statements(text: &str, lexed: &Lexed, line: &Line, options: Options) -> Diagnostic {
    let (start, end) = newline_after(text, lexed, line);
    let place = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
    let message = "multiple statements found while compiling a single statement";
    let span = if options.feature_version < 12 { Span::Range } else { Span::Newline };
    Diagnostic::syntax(place(start), place(end), message).with_span(span)
}

/// Unexpected end of the text.
fn unexpected_end(text: &str, lexed: &Lexed) -> Diagnostic {
    if let Some(error) = &lexed.error {
        return error.diagnostic.clone();
    }
    let lines = text.strip_suffix(['\n', '\r']).unwrap_or(text);
    let count = if text.is_empty() { 0 } else { crate::lexer::line_starts(lines).len() };
    let line = i32::try_from(count).unwrap_or(i32::MAX);
    let end = u32::try_from(text.len()).unwrap_or(u32::MAX);
    invalid((end, end)).with_span(Span::Fixed(Position::new(line, 0, line, 0)))
}

fn invalid((start, end): (u32, u32)) -> Diagnostic {
    Diagnostic::syntax(start, end, "invalid syntax")
}
