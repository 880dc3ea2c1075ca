//! All of a text's tokens as CPython's tokenizer makes them, up to its first error. Tokens that no grammar has are among
//! them, as names.

use super::indentation::{self, Wrong};
use super::names::place;
use super::{LexError, Lexer};
use crate::Options;
use crate::tokens::{Line, Tokens};

/// What [`lex_raw`] finds.
#[derive(Debug)]
pub(crate) struct Raw {
    /// The tokens up to the error.
    pub(crate) tokens: Tokens,
    /// Their lines. The last one may end in the error.
    pub(crate) lines: Vec<Line>,
    /// Why there are no more tokens.
    pub(crate) error: Option<LexError>,
    /// The line whose first token is the error.
    pub(crate) begun: Option<Line>,
}

/// Takes a text apart as a version's own tokenizer does: before 3.12 an f-string is one token, and before 3.14 there are no
/// t-strings.
pub(crate) fn lex_raw(text: &str, options: Options) -> Raw {
    let mut lexer = Lexer::new(text, options);
    lexer.as_versioned = true;
    let error = lexer.run().err().map(|error| *error);
    let end = place(lexer.tokens.kinds.len());
    let started = lexer.first != end;
    let line = Line { first: lexer.first, end, column: lexer.column, alternate: lexer.alternate };
    lexer.end_line();
    Raw { tokens: lexer.tokens, lines: lexer.lines, begun: error.as_ref().filter(|_| !started).map(|_| line), error }
}

/// The indentations of the blocks that are open.
#[derive(Debug)]
pub(crate) struct Levels(Vec<(u32, u32)>);

impl Default for Levels {
    fn default() -> Self {
        Self(vec![(0, 0)])
    }
}

impl Levels {
    /// Enters a line whose first token starts at a byte: whether it is deeper, and how many blocks it ends.
    pub(crate) fn enter(&mut self, text: &str, line: &Line, start: u32) -> Result<(bool, usize), Box<LexError>> {
        let before = self.0.len();
        let wrong: Option<Wrong> = indentation::step(&mut self.0, line);
        match wrong {
            Some(wrong) => Err(Box::new(indentation::error(text, start as usize, wrong))),
            None => Ok((self.0.len() > before, before.saturating_sub(self.0.len()))),
        }
    }

    /// How many blocks the end of the text ends.
    pub(crate) fn close(&self) -> usize {
        self.0.len() - 1
    }
}
