//! The tokens that CPython's tokenizer of a version makes, up to its first error; error tokens are included as names.

use super::indentation::{self, IndentError};
use super::names::offset;
use super::{LexError, Lexer};
use crate::Options;
use crate::tokens::{Line, Tokens};

/// The result of [`lex_cpython`].
#[derive(Debug)]
pub(crate) struct CpythonTokens {
    pub(crate) tokens: Tokens,
    /// Logical lines; the error may be inside the last one.
    pub(crate) lines: Vec<Line>,
    pub(crate) error: Option<LexError>,
    /// The line whose first token is the error.
    pub(crate) error_line: Option<Line>,
}

/// Lexes a text as the version's own tokenizer does: before 3.12 an f-string is one token, and before 3.14 there are no
/// t-strings.
pub(crate) fn lex_cpython(text: &str, options: Options) -> CpythonTokens {
    let mut lexer = Lexer::new(text, options);
    lexer.versioned_strings = true;
    let error = lexer.run().err().map(|error| *error);
    let end = offset(lexer.tokens.kinds.len());
    let started = lexer.first != end;
    let line = Line { first: lexer.first, end, column: lexer.column, alternate: lexer.alternate };
    lexer.end_line();
    CpythonTokens {
        tokens: lexer.tokens,
        lines: lexer.lines,
        error_line: error.as_ref().filter(|_| !started).map(|_| line),
        error,
    }
}

/// The columns of the open blocks.
#[derive(Debug)]
pub(crate) struct IndentStack(Vec<(u32, u32)>);

impl Default for IndentStack {
    fn default() -> Self {
        Self(vec![(0, 0)])
    }
}

impl IndentStack {
    /// Processes a line whose first token is at `start`; returns whether it indents, and how many dedents precede it.
    pub(crate) fn enter(&mut self, text: &str, line: &Line, start: u32) -> Result<(bool, usize), Box<LexError>> {
        let before = self.0.len();
        let wrong: Option<IndentError> = indentation::step(&mut self.0, line);
        match wrong {
            Some(wrong) => Err(Box::new(indentation::error(text, start as usize, wrong))),
            None => Ok((self.0.len() > before, before.saturating_sub(self.0.len()))),
        }
    }

    /// Dedents at the end of the text.
    pub(crate) fn close(&self) -> usize {
        self.0.len() - 1
    }
}
