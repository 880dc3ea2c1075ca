//! What is left of a text once it is lexed: all of it, or what stands before the first error.

use super::names::place;
use super::{LexError, Lexed, Lexer, errors, indentation};
use crate::rules::SoftKeywords;
use crate::tokens::Line;

/// A token that is an error wherever it stands. CPython looks on for a better reason, so the lexer does too.
pub(super) struct Stray {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) tokens: usize,
    pub(super) lines: usize,
}

impl Lexer<'_> {
    /// Puts the result together; of several errors the first one counts.
    pub(super) fn finish(mut self, error: Option<LexError>) -> Lexed {
        let column = self.column;
        let ended = error.as_ref().is_some_and(|_| self.first == place(self.tokens.kinds.len()));
        let met = error.as_ref().map(|error| error.diagnostic.clone());
        let (error, cut) = self.first_error(error);
        let begun = (ended && met == error.as_ref().map(|error| error.diagnostic.clone())).then_some(column);
        let soft = SoftKeywords {
            r#match: self.names.find(b"match"),
            case: self.names.find(b"case"),
            r#type: self.names.find(b"type"),
        };
        Lexed {
            soft,
            tokens: self.tokens,
            lines: self.lines,
            comments: self.comments,
            name_starts: self.names.starts,
            name_ends: self.names.ends,
            extra: self.names.extra,
            error,
            begun,
            cut,
        }
    }

    /// Which of the errors counts, of indentation, of a stray token and of what ended the lexing, and whether it stands
    /// inside the last line. Drops what stands behind it.
    fn first_error(&mut self, error: Option<LexError>) -> (Option<LexError>, bool) {
        let before = self.lines.len();
        let column = (self.first, self.column, self.alternate);
        self.end_line();
        let mut cut = self.lines.len() > before;
        let begun = error.as_ref().filter(|_| !cut).map(|error| {
            let (first, column, alternate) = column;
            (Line { first, end: first, column, alternate }, error.diagnostic.start)
        });
        let mut first = error;
        if let Some((line, found)) = indentation::check(self.text, &self.lines, &self.tokens, begun) {
            let tokens = self.lines.get(line).map_or(self.tokens.kinds.len(), |line| line.first as usize);
            cut = self.keep(tokens, line);
            first = Some(found);
        }
        if let Some(stray) = self.stray.take()
            && stray.lines < self.lines.len()
        {
            cut = self.keep(stray.tokens, stray.lines);
            first = first.and_then(|error| {
                let diagnostic = error.better_than(self.text, place(stray.start))?;
                Some(LexError { diagnostic, ..error })
            });
            first = first.or_else(|| Some(errors::stray(stray.start, stray.end)));
        }
        (first, cut)
    }

    /// Drops the tokens from a number on, and the lines they form; whether the last line that is left lost some.
    fn keep(&mut self, tokens: usize, lines: usize) -> bool {
        let end = place(tokens);
        self.tokens.kinds.truncate(tokens);
        self.tokens.starts.truncate(tokens);
        self.tokens.ends.truncate(tokens);
        self.tokens.payloads.truncate(tokens);
        self.lines.truncate(lines + 1);
        let cut = self.lines.get(lines).is_some_and(|line| line.first < end);
        self.lines.truncate(lines + usize::from(cut));
        if let Some(line) = self.lines.last_mut() {
            line.end = line.end.min(end);
        }
        cut
    }
}
