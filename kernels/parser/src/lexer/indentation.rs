//! Checks the indentation of lines against that of the lines before them, as CPython's lexer does.

use memchr::{memchr2, memrchr2};

use super::errors::LexError;
use super::names::place;
use crate::diagnostic::{Class, Diagnostic, Span};
use crate::tokens::{Line, Tokens};

/// CPython keeps at most so many indentations, the outermost included.
const MOST_LEVELS: usize = 100;

/// The first line whose indentation is an error, and the error. `begun` is a line behind the others whose first token is an
/// error, and the place of that.
pub(super) fn check(
    text: &str,
    lines: &[Line],
    tokens: &Tokens,
    begun: Option<(Line, u32)>,
) -> Option<(usize, LexError)> {
    let mut levels = vec![(0, 0)];
    let mut current = (0, 0);
    for (number, line) in lines.iter().enumerate() {
        // As most lines are: neither deeper nor less deep than the one before.
        if current == (line.column, line.alternate) {
            continue;
        }
        current = (line.column, line.alternate);
        if let Some(wrong) = step(&mut levels, line) {
            return Some((number, error(text, tokens.starts[line.first as usize] as usize, wrong)));
        }
    }
    let (line, at) = begun?;
    step(&mut levels, &line).map(|wrong| (lines.len(), error(text, at as usize, wrong)))
}

#[derive(Clone, Copy)]
enum Wrong {
    Tabs,
    TooDeep,
    NoSuchLevel,
}

/// Brings the levels to those of a line.
#[inline]
fn step(levels: &mut Vec<(u32, u32)>, line: &Line) -> Option<Wrong> {
    let (mut column, mut alternate) = levels[levels.len() - 1];
    if line.column > column {
        if levels.len() >= MOST_LEVELS {
            return Some(Wrong::TooDeep);
        }
        levels.push((line.column, line.alternate));
        return (line.alternate <= alternate).then_some(Wrong::Tabs);
    }
    while line.column < column {
        levels.pop();
        (column, alternate) = levels[levels.len() - 1];
    }
    if line.column != column {
        return Some(Wrong::NoSuchLevel);
    }
    (line.alternate != alternate).then_some(Wrong::Tabs)
}

fn error(text: &str, first: usize, wrong: Wrong) -> LexError {
    let bytes = text.as_bytes();
    let line_start = memrchr2(b'\n', b'\r', &bytes[..first]).map_or(0, |at| at + 1);
    let line_end = first + memchr2(b'\n', b'\r', &bytes[first..]).unwrap_or(bytes.len() - first);
    let (class, at, end_offset, message) = match wrong {
        Wrong::Tabs => (Class::Tab, line_start, 0, "inconsistent use of tabs and spaces in indentation"),
        Wrong::TooDeep => (Class::Indentation, line_start, 0, "too many levels of indentation"),
        Wrong::NoSuchLevel => (Class::Indentation, line_end, -1, "unindent does not match any outer indentation level"),
    };
    let diagnostic =
        Diagnostic { class, span: Span::Start(end_offset), ..Diagnostic::syntax(place(at), place(at), message) };
    LexError { diagnostic, eager: false, open: None }
}
