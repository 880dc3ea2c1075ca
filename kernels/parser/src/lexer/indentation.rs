//! The indentation stack: checks each line against the open blocks, as CPython's tokenizer does.

use memchr::{memchr2, memrchr2};

use super::errors::LexError;
use super::names::offset;
use crate::diagnostic::{Class, Diagnostic, Span};
use crate::tokens::{Line, Tokens};

/// CPython's MAXINDENT, the outermost level included.
const MAX_INDENTS: usize = 100;

/// The first line with an indentation error, and the error. `error_line` is a further line whose first token is an
/// error, and the offset of that token.
pub(super) fn check(
    text: &str,
    lines: &[Line],
    tokens: &Tokens,
    error_line: Option<(Line, u32)>,
) -> Option<(usize, LexError)> {
    let mut indents = vec![(0, 0)];
    let mut current = (0, 0);
    for (number, line) in lines.iter().enumerate() {
        // The common case: the indentation of the line before.
        if current == (line.column, line.alternate) {
            continue;
        }
        current = (line.column, line.alternate);
        if let Some(wrong) = step(&mut indents, line) {
            return Some((number, error(text, tokens.starts[line.first as usize] as usize, wrong)));
        }
    }
    let (line, offset) = error_line?;
    step(&mut indents, &line).map(|wrong| (lines.len(), error(text, offset as usize, wrong)))
}

#[derive(Clone, Copy)]
pub(super) enum IndentError {
    TabSpace,
    TooDeep,
    Dedent,
}

/// Pushes or pops indentations for a line.
#[inline]
pub(super) fn step(indents: &mut Vec<(u32, u32)>, line: &Line) -> Option<IndentError> {
    let (mut column, mut alternate) = indents[indents.len() - 1];
    if line.column > column {
        if indents.len() >= MAX_INDENTS {
            return Some(IndentError::TooDeep);
        }
        indents.push((line.column, line.alternate));
        return (line.alternate <= alternate).then_some(IndentError::TabSpace);
    }
    while line.column < column {
        indents.pop();
        (column, alternate) = indents[indents.len() - 1];
    }
    if line.column != column {
        return Some(IndentError::Dedent);
    }
    (line.alternate != alternate).then_some(IndentError::TabSpace)
}

pub(super) fn error(text: &str, first: usize, wrong: IndentError) -> LexError {
    let bytes = text.as_bytes();
    let line_start = memrchr2(b'\n', b'\r', &bytes[..first]).map_or(0, |position| position + 1);
    let line_end = first + memchr2(b'\n', b'\r', &bytes[first..]).unwrap_or(bytes.len() - first);
    let (class, position, end_offset, message) = match wrong {
        IndentError::TabSpace => (Class::Tab, line_start, 0, "inconsistent use of tabs and spaces in indentation"),
        IndentError::TooDeep => (Class::Indentation, line_start, 0, "too many levels of indentation"),
        IndentError::Dedent => {
            (Class::Indentation, line_end, -1, "unindent does not match any outer indentation level")
        }
    };
    let diagnostic = Diagnostic {
        class,
        span: Span::Start(end_offset),
        ..Diagnostic::syntax(offset(position), offset(position), message)
    };
    LexError { diagnostic, takes_precedence: false, open: None }
}
