//! Asks the tables what some tokens are.

use std::ops::Range;

use super::Refused;
use crate::blocks::{Blocks, Source};
use crate::checks;
use crate::columns::Kind;
use crate::diagnostic::Diagnostic;
use crate::driver::{Driver, Stop};
use crate::rows::Rows;
use crate::tokens::{Line, Terminal, Tokens};

/// How many tokens what was read too far is cut back by.
const MOST_STEPS_BACK: usize = 8;

/// How an expression of a kind is asked for: what stands before it and behind it.
#[derive(Clone, Copy)]
pub(super) struct Form {
    before: &'static [Terminal],
    behind: &'static [Terminal],
    /// Commas may part several.
    several: bool,
}

use Terminal as T;

/// `disjunction`, which a conditional expression and a lambda are not.
pub(super) const DISJUNCTION: Form =
    Form { before: &[T::Raise, T::Name, T::If], behind: &[T::Else, T::Name], several: false };
pub(super) const EXPRESSION: Form =
    Form { before: &[T::Raise, T::Name, T::If, T::Name, T::Else], behind: &[], several: false };
/// What operators but comparisons and `not` are between.
pub(super) const BIT_OR: Form =
    Form { before: &[T::LeftBrace, T::DoubleStar], behind: &[T::RightBrace], several: false };
pub(super) const EXPRESSIONS: Form = Form { before: &[T::For, T::Name, T::In], behind: &[T::Colon], several: true };

/// The longest expression from some token on.
pub(super) enum Longest {
    None,
    /// Behind so many of the line's tokens.
    Up(usize),
    /// The lexer's error came first.
    Cut,
}

impl Refused<'_> {
    /// The tokens of a range with others around them.
    fn framed(&self, before: &[Terminal], range: Range<usize>, behind: &[Terminal]) -> Tokens {
        let (start, end) = (self.place(range.start).0, self.place(range.end.max(range.start + 1) - 1).1);
        let mut framed = Tokens::default();
        for &kind in before {
            framed.push(kind, start, start, 0);
        }
        for at in range {
            framed.push(self.tokens.kinds[at], self.tokens.starts[at], self.tokens.ends[at], self.tokens.payloads[at]);
        }
        for &kind in behind {
            framed.push(kind, end, end, 0);
        }
        framed
    }

    /// Parses tokens with others around them; else says how many of them the tables take.
    pub(super) fn parse(&self, before: &[Terminal], range: Range<usize>, behind: &[Terminal]) -> Result<Rows, usize> {
        let framed = self.framed(before, range, behind);
        let mut rows = Rows::for_tokens(framed.kinds.len());
        match Driver::default().parse(self.text.as_bytes(), &framed, (0, framed.kinds.len()), &mut rows) {
            Ok(()) => Ok(rows),
            Err(Stop::Wrong(at)) => Err(at.saturating_sub(before.len())),
            Err(Stop::Deep(_)) => Err(0),
        }
    }

    pub(super) fn is(&self, form: Form, range: Range<usize>) -> bool {
        !range.is_empty() && self.parse(form.before, range, form.behind).is_ok()
    }

    /// What an expression is.
    pub(super) fn root(&self, range: Range<usize>) -> Option<(Kind, u32)> {
        let rows = self.parse(&[T::Return], range, &[]).ok()?;
        let value = rows.len.checked_sub(2)?;
        Some((rows.columns.kinds[value], rows.columns.aux[value]))
    }

    /// Where the node of an expression starts.
    pub(super) fn start_of(&self, range: Range<usize>) -> Option<u32> {
        let rows = self.parse(&[T::Return], range, &[]).ok()?;
        Some(rows.columns.starts[rows.len.checked_sub(2)?])
    }

    pub(super) fn longest(&self, form: Form, from: usize) -> Longest {
        // A token that no grammar has is read like others.
        let cut = self.behind.is_some() && self.stray().is_none();
        if from >= self.end {
            return if cut { Longest::Cut } else { Longest::None };
        }
        let comma = self.shallow(from, self.end).find(|&at| self.tokens.kinds[at] == T::Comma);
        let limit = comma.filter(|_| !form.several).unwrap_or(self.end);
        let taken = match self.parse(form.before, from..limit, &[]) {
            Ok(_) => limit,
            Err(taken) => (from + taken).min(limit),
        };
        if taken == self.end && cut {
            return Longest::Cut;
        }
        let ends = (from + 1..=taken).rev().take(MOST_STEPS_BACK);
        ends.into_iter().find(|&end| self.is(form, from..end)).map_or(Longest::None, Longest::Up)
    }

    /// What the checks have against the line up to where it is refused, made a statement by tokens behind it.
    pub(super) fn judged(&self, behind: &[Terminal]) -> Option<Diagnostic> {
        let framed = self.framed(&[], self.first..self.at, behind);
        let count = framed.kinds.len();
        let mut rows = Rows::for_tokens(count);
        Driver::default().parse(self.text.as_bytes(), &framed, (0, count), &mut rows).ok()?;
        let line = Line { first: 0, end: u32::try_from(count).ok()?, column: 0, alternate: 0 };
        let source = Source { text: self.text, tokens: &framed };
        let all = 0..rows.len;
        Blocks::default().line(source, &line, all.clone(), &mut rows.columns).ok()?;
        let error = checks::line(self.text, &framed, None, self.options, &mut rows.columns, all).err()?;
        (error.start < self.tokens.ends[self.at - 1]).then_some(error)
    }

    /// The innermost bracket that is open in front of a token.
    pub(super) fn opener(&self, at: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for before in (self.first..at).rev() {
            match self.tokens.kinds[before] {
                kind if closes(kind) => depth += 1,
                kind if opens(kind) && depth == 0 => return Some(before),
                kind if opens(kind) => depth -= 1,
                _ => {}
            }
        }
        None
    }

    /// What closes the brackets that are open in front of a token, innermost first.
    pub(super) fn closers(&self, at: usize) -> Vec<Terminal> {
        let mut closers = Vec::new();
        let mut next = self.opener(at);
        while let Some(opener) = next {
            closers.push(match self.tokens.kinds[opener] {
                T::LeftBracket => T::RightBracket,
                T::LeftBrace => T::RightBrace,
                T::LeftParen | T::WithParen => T::RightParen,
                _ => return Vec::new(),
            });
            next = self.opener(opener);
        }
        closers
    }
}

pub(super) fn opens(kind: Terminal) -> bool {
    matches!(kind, T::LeftParen | T::LeftBracket | T::LeftBrace | T::WithParen | T::FieldOpen | T::DebugOpen)
}

pub(super) fn closes(kind: Terminal) -> bool {
    matches!(kind, T::RightParen | T::RightBracket | T::RightBrace | T::FieldClose)
}
