//! What is assigned to, and `=` where nothing can be.

use std::ops::Range;

use super::Refused;
use super::probe::{BIT_OR, EXPRESSION, EXPRESSIONS, Longest, opens};
use crate::checks::described;
use crate::columns::Kind;
use crate::diagnostic::Diagnostic;
use crate::tokens::Terminal as T;

/// What may make a statement of what stands in front of the wrong token.
const ENDS: [&[T]; 6] = [
    &[],
    &[T::Number],
    &[T::In, T::Number, T::Colon, T::Pass],
    &[T::Number, T::Colon, T::Pass],
    &[T::Colon, T::Pass],
    &[T::Equal, T::Number],
];

impl Refused<'_> {
    /// A target that is none, in front of the wrong token.
    pub(super) fn target_reason(&self) -> Option<Diagnostic> {
        if let Some(error) = self.deleted_or_looped() {
            return Some(error);
        }
        let closers = self.closers(self.at);
        // Inside of brackets nothing has been assigned yet.
        let kept = |error: &Diagnostic| self.opener(self.at).is_none_or(|at| error.end <= self.tokens.starts[at]);
        let next = self.kind(self.at);
        let fits = |end: &&&[T]| match end {
            [T::Equal, ..] => next == Some(T::Equal),
            [T::Colon, ..] => matches!(next, Some(T::Comma | T::RightParen)),
            _ => true,
        };
        let (error, made_up) = ENDS.iter().filter(fits).find_map(|end| {
            let behind: Vec<T> = closers.iter().chain(*end).copied().collect();
            self.judged(&behind).filter(kept).map(|error| (error, !end.is_empty()))
        })?;
        // What stands behind these is part of what is wrong.
        let whole = ["annotat", "augmented"].iter().any(|word| error.message.contains(word));
        if whole && made_up {
            return None;
        }
        let Some(plain) = error.message.strip_suffix(" here. Maybe you meant '==' instead of '='?") else {
            return Some(error);
        };
        let equal = self.tokens.starts.partition_point(|&start| start < error.end);
        match self.longest(BIT_OR, equal + 1) {
            Longest::Up(end) if !matches!(self.kind(end), Some(T::Equal | T::Walrus)) => Some(error),
            Longest::Cut => self.behind.map(|error| error.diagnostic.clone()),
            _ => Some(Diagnostic { message: plain.to_owned().into(), ..error }),
        }
    }

    /// What `del`, `for` and `with` have as their targets, where the tables refuse them.
    fn deleted_or_looped(&self) -> Option<Diagnostic> {
        let opener = self.opener(self.at);
        let from = opener.map_or(self.first, |opener| opener + 1);
        let last = |kind: T| self.shallow(from, self.at).filter(|&at| self.tokens.kinds[at] == kind).last();
        match self.kind(self.first) {
            Some(T::Del) if opener.is_none() => self.deleted(),
            Some(T::With) if last(T::As).is_some() => self.with_target(last(T::As)? + 1),
            _ => self.looped(last(T::For)? + 1, opener.is_some()),
        }
    }

    fn deleted(&self) -> Option<Diagnostic> {
        let start = self.first + 1;
        let Longest::Up(end) = self.longest(EXPRESSIONS, start) else { return None };
        self.elements(start, end).into_iter().find_map(|element| {
            if self.kind(element.start) == Some(T::Star) {
                return Some(self.over(element.start, element.end, "cannot delete starred"));
            }
            self.bad_target(element, "delete")
        })
    }

    /// The variables of a loop; in a comprehension CPython asks for `in` first.
    fn looped(&self, start: usize, comprehension: bool) -> Option<Diagnostic> {
        let inside = |at: &usize| self.tokens.kinds[*at] == T::In;
        if self.shallow(start, self.at).any(|at| inside(&at)) {
            return None;
        }
        let Longest::Up(end) = self.longest(EXPRESSIONS, start) else { return None };
        let end = self.shallow(start, end).find(inside).unwrap_or(end);
        if comprehension && self.kind(end) != Some(T::In) {
            return None;
        }
        self.elements(start, end).into_iter().find_map(|element| {
            let star = usize::from(self.kind(element.start) == Some(T::Star));
            self.bad_target(element.start + star..element.end, "assign to")
        })
    }

    /// What commas part.
    fn elements(&self, start: usize, end: usize) -> Vec<Range<usize>> {
        let mut elements = Vec::new();
        let mut first = start;
        for comma in self.shallow(start, end).filter(|&at| self.tokens.kinds[at] == T::Comma) {
            elements.push(first..comma);
            first = comma + 1;
        }
        elements.push(first..end);
        elements.retain(|element| !element.is_empty());
        elements
    }

    fn bad_target(&self, target: Range<usize>, verb: &str) -> Option<Diagnostic> {
        let (kind, aux) = self.root(target.clone())?;
        let right = matches!(kind, Kind::Name | Kind::Attribute | Kind::Subscript | Kind::Tuple | Kind::List);
        let compared = verb != "delete" && kind == Kind::Compare;
        let message = || format!("cannot {verb} {}", described(kind, aux));
        (!right && !compared).then(|| self.over(target.start, target.end, message()))
    }

    /// What stands behind the `as` of a `with`.
    fn with_target(&self, start: usize) -> Option<Diagnostic> {
        let Longest::Up(end) = self.longest(EXPRESSION, start) else { return None };
        let ends = matches!(self.kind(end), Some(T::Comma | T::RightParen | T::Colon));
        if ends { self.bad_target(start..end, "assign to") } else { None }
    }

    /// `=` in brackets or in a condition.
    pub(super) fn assignment_reason(&self) -> Option<Diagnostic> {
        if self.kind(self.at) == Some(T::Walrus) {
            return self.named();
        }
        if self.kind(self.at) != Some(T::Equal) {
            return None;
        }
        let start = self.expression_start(self.at)?;
        let before = start.checked_sub(1).and_then(|at| self.kind(at));
        let opener = self.opener(self.at);
        let call = opener.is_some_and(|opener| self.is_call(opener));
        if call && before.is_some_and(|kind| opens(kind) || kind == T::Comma) {
            let single = self.at == start + 1;
            if single && matches!(self.kind(start), Some(T::True | T::False | T::None)) {
                return Some(self.over(start, self.at + 1, format!("cannot assign to {}", self.written(start))));
            }
            let message = "expression cannot contain assignment, perhaps you meant \"==\"?";
            return self.is(EXPRESSION, start..self.at).then(|| self.from(start..self.at, self.at + 1, message));
        }
        let condition = matches!(before, Some(T::If | T::Elif | T::While)) && start == self.first + 1;
        let field = opener.is_some_and(|at| matches!(self.kind(at), Some(T::FieldOpen | T::DebugOpen)));
        let grouped = opener.is_some() && !field && before.is_some_and(|kind| opens(kind) || kind == T::Comma);
        if !condition && !grouped || opener.is_some_and(|opener| self.declares(opener)) {
            return None;
        }
        self.meant(start)
    }

    /// What `==` or `:=` would be right for.
    fn meant(&self, start: usize) -> Option<Diagnostic> {
        let end = match self.longest(BIT_OR, self.at + 1) {
            Longest::Up(end) => end,
            Longest::None => return None,
            Longest::Cut => return self.behind.map(|error| error.diagnostic.clone()),
        };
        if matches!(self.kind(end), Some(T::Equal | T::Walrus)) {
            return None;
        }
        if self.at == start + 1 && self.kind(start) == Some(T::Name) {
            let message = "invalid syntax. Maybe you meant '==' or ':=' instead of '='?";
            return Some(self.over(start, end, message));
        }
        if !self.is(BIT_OR, start..self.at) {
            return None;
        }
        let (kind, aux) = self.root(start..self.at)?;
        let what = described(kind, aux);
        let plain = matches!(what, "list" | "tuple" | "generator expression" | "True" | "False" | "None");
        let message = format!("cannot assign to {what} here. Maybe you meant '==' instead of '='?");
        (!plain).then(|| self.from(start..self.at, self.at, message))
    }

    /// `:=` behind what is no name.
    fn named(&self) -> Option<Diagnostic> {
        let start = self.expression_start(self.at)?;
        if !self.is(EXPRESSION, start..self.at) {
            return None;
        }
        let name = self.at == start + 1 && self.kind(start) == Some(T::Name);
        match self.longest(EXPRESSION, self.at + 1) {
            Longest::Up(_) if name => None,
            Longest::None => None,
            Longest::Cut => self.behind.map(|error| error.diagnostic.clone()),
            Longest::Up(_) => {
                let (kind, aux) = self.root(start..self.at)?;
                let message = format!("cannot use assignment expressions with {}", described(kind, aux));
                Some(self.over(start, self.at, message))
            }
        }
    }
}
