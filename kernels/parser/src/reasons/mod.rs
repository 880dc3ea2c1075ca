//! Why a source is refused, in CPython's words: what it makes of an error by looking at it a second time.
//!
//! Nothing here changes what is refused. Each reason has a rule of its own about the tokens around the one that the tables
//! refuse; the tables themselves say what an expression is, of some tokens with others put around them.

mod assignments;
mod expressions;
mod headers;
mod parameters;
mod probe;

use crate::Options;
use crate::diagnostic::{Class, Diagnostic};
use crate::lexer::{LexError, Lexed};
use crate::tokens::{Terminal, Tokens, string};
use crate::values;

/// A line that the tables refuse.
pub(crate) struct Refused<'a> {
    pub(crate) text: &'a str,
    pub(crate) tokens: &'a Tokens,
    pub(crate) options: Options,
    /// The line's tokens.
    pub(crate) first: usize,
    pub(crate) end: usize,
    /// The token that cannot follow; the line's end, if it must not end.
    pub(crate) at: usize,
    /// What the lexer met behind the line's last token.
    pub(crate) behind: Option<&'a LexError>,
}

impl Refused<'_> {
    /// The error that CPython reports.
    pub(crate) fn reason(&self) -> Diagnostic {
        if self.at == self.first {
            return self.plain();
        }
        None.or_else(|| self.parameter_reason())
            .or_else(|| self.target_reason())
            .or_else(|| self.assignment_reason())
            .or_else(|| self.expression_reason())
            .or_else(|| self.header_reason())
            .unwrap_or_else(|| self.plain())
    }

    fn plain(&self) -> Diagnostic {
        let (start, end) = self.place(self.at);
        Diagnostic::syntax(start, end, "invalid syntax")
    }

    /// Where a token stands; behind the last one, its end.
    fn place(&self, at: usize) -> (u32, u32) {
        if at < self.end {
            return (self.tokens.starts[at], self.tokens.ends[at]);
        }
        if let Some(stray) = self.stray() {
            return (stray.start, stray.end);
        }
        let behind = self.tokens.ends[self.end - 1];
        (behind, behind)
    }

    /// A token behind the line's last one that no grammar has.
    fn stray(&self) -> Option<&Diagnostic> {
        self.behind.filter(|error| error.is_stray()).map(|error| &error.diagnostic)
    }

    /// What a token of the line is; nothing behind the last one.
    fn kind(&self, at: usize) -> Option<Terminal> {
        (self.first..self.end).contains(&at).then(|| self.tokens.kinds[at])
    }

    fn written(&self, at: usize) -> &str {
        &self.text[self.tokens.starts[at] as usize..self.tokens.ends[at] as usize]
    }

    /// An error over some tokens.
    fn over(&self, first: usize, end: usize, message: impl Into<std::borrow::Cow<'static, str>>) -> Diagnostic {
        Diagnostic::syntax(self.place(first).0, self.place(end - 1).1, message)
    }

    /// An error from where an expression starts, without the parentheses around it, up to the end of some tokens.
    fn from(
        &self,
        expression: std::ops::Range<usize>,
        end: usize,
        message: impl Into<std::borrow::Cow<'static, str>>,
    ) -> Diagnostic {
        let start = self.start_of(expression.clone()).unwrap_or(self.place(expression.start).0);
        Diagnostic { start, ..self.over(expression.start, end, message) }
    }

    /// An error at a token.
    fn at(&self, at: usize, message: impl Into<std::borrow::Cow<'static, str>>) -> Diagnostic {
        let (start, end) = self.place(at);
        Diagnostic::syntax(start, end, message)
    }
}

/// What CPython reports instead of an error: what is wrong with a string in front of it, or with a token that it meets when
/// it reads the rest of the source for a better reason.
#[cold]
pub(crate) fn settled(text: &str, lexed: &Lexed, error: Diagnostic) -> Diagnostic {
    let depth = error.class == Class::Indentation && error.message.starts_with("unexpected");
    if error.class == Class::Value || error.class == Class::Tab || depth {
        return error;
    }
    let error = bad_string(text, lexed, error.end).unwrap_or(error);
    lexed.better_reason(text, error.end).unwrap_or(error)
}

/// The first string in front of a place whose escapes are wrong, or that stands beside bytes.
fn bad_string(text: &str, lexed: &Lexed, before: u32) -> Option<Diagnostic> {
    let tokens = &lexed.tokens;
    let behind = tokens.starts.partition_point(|&start| start < before);
    let mut extra = Vec::new();
    let mut at = 0;
    // The last f-strings may not have been read to their ends.
    while at < behind {
        let run = tokens.kinds[at..behind].iter().take_while(|&&kind| kind == Terminal::String).count();
        if run > 0 {
            extra.clear();
            let bytes = |at: usize| tokens.payloads[at] & string::BYTES != 0;
            let place = |column: &[u32]| column.get(at + run).copied().unwrap_or(before);
            let blame = (place(&tokens.starts), place(&tokens.ends));
            let beside = matches!(tokens.kinds.get(at + run), Some(Terminal::FStringStart | Terminal::TStringStart));
            let mixed = (at..at + run).any(|one| bytes(one) != bytes(at));
            let found = if mixed && !beside {
                Some(values::mixed(blame))
            } else {
                (at..at + run).find_map(|one| {
                    values::string(text, tokens.starts[one], tokens.ends[one], tokens.payloads[one], &mut extra).err()
                })
            };
            if found.is_some() {
                return found;
            }
        }
        at += run.max(1);
    }
    None
}
