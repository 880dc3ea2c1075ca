//! Tokens that a statement must go on with.

use super::Refused;
use crate::diagnostic::Diagnostic;
use crate::tokens::Terminal as T;

impl Refused<'_> {
    pub(super) fn header_reason(&self) -> Option<Diagnostic> {
        let start = self.first + usize::from(self.kind(self.first) == Some(T::Async));
        let named = self.kind(start) == Some(T::Def) && self.kind(start + 1) == Some(T::Name) && self.at == start + 2;
        if named && self.kind(self.at) != Some(T::LeftBracket) {
            return Some(self.at(self.at, "expected '('"));
        }
        if self.kind(start) == Some(T::Def) && self.kind(self.at - 1) == Some(T::Arrow) {
            return Some(self.at(self.at - 1, "expected ':'"));
        }
        if self.kind(self.at) != Some(T::Colon) && self.wants_colon() {
            return Some(self.at(self.at, "expected ':'"));
        }
        self.unfinished_match().or_else(|| self.names())
    }

    /// Whether CPython asks for a colon here: at the end of a header; in some, before anything else.
    fn wants_colon(&self) -> bool {
        let fits = || self.parse(&[], self.first..self.at, &[T::Colon]).is_ok();
        if self.at == self.end {
            return self.behind.is_none() && fits();
        }
        let start = self.first + usize::from(self.kind(self.first) == Some(T::Async));
        match self.kind(start) {
            Some(T::Try | T::Else | T::Finally) => start == self.first && self.at == start + 1,
            Some(T::Def) => fits(),
            _ => false,
        }
    }

    /// A line that would be the header of a match statement with a colon behind it.
    fn unfinished_match(&self) -> Option<Diagnostic> {
        let named = self.kind(self.first) == Some(T::Name) && self.written(self.first) == "match";
        let whole = self.behind.is_none() && self.kind(self.end - 1) != Some(T::Colon);
        let fits = || self.parse(&[T::Match], self.first + 1..self.end, &[T::Colon]).is_ok();
        (named && whole && fits()).then(|| self.at(self.end, "expected ':'"))
    }

    /// What an import lacks.
    fn names(&self) -> Option<Diagnostic> {
        let before = self.kind(self.at - 1)?;
        let ends = self.at == self.end && self.behind.is_none();
        let from = self.kind(self.first) == Some(T::From);
        match before {
            T::Import if ends && (from || self.at == self.first + 1) => {
                Some(self.at(self.at, "Expected one or more names after 'import'"))
            }
            T::Comma if ends && from && self.opener(self.at).is_none() => {
                Some(self.at(self.at - 1, "trailing comma not allowed without surrounding parentheses"))
            }
            T::LeftBracket if self.kind(self.at) == Some(T::RightBracket) && self.declares(self.at - 1) => {
                Some(self.at(self.at, "Type parameter list cannot be empty"))
            }
            _ => None,
        }
    }
}
