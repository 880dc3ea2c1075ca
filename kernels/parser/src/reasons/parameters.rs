//! Parameters in an order that no function has.

use super::Refused;
use super::probe::{EXPRESSION, Longest};
use crate::diagnostic::Diagnostic;
use crate::tokens::Terminal as T;

/// What stands in front of a parameter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    Slash,
    Star,
    Keywords,
}

/// Where in a list of parameters a look at it has come to.
struct Walk {
    at: usize,
    before: Before,
    /// There was a parameter, and one with a default.
    any: bool,
    default: bool,
    /// What ends the list: of a lambda, whose parameters have no annotations, a colon.
    close: T,
}

/// Nothing is wrong so far; or nothing can be said; or an error.
type Step = Result<(), Option<Diagnostic>>;

impl Refused<'_> {
    pub(super) fn parameter_reason(&self) -> Option<Diagnostic> {
        if let Some(lambda) = self.lambda(self.at) {
            return self.listed(lambda + 1, T::Colon);
        }
        let inside = self.opener(self.at).filter(|&opener| self.is_of_def(opener))?;
        self.listed(inside + 1, T::RightParen)
    }

    /// Looks at parameters from the first one on, up to the wrong token.
    fn listed(&self, first: usize, close: T) -> Option<Diagnostic> {
        let mut walk = Walk { at: first, before: Before::Nothing, any: false, default: false, close };
        loop {
            if let Err(outcome) = self.parameter(&mut walk) {
                return outcome;
            }
            if walk.at >= self.at.max(first) || self.kind(walk.at) != Some(T::Comma) {
                return None;
            }
            walk.at += 1;
        }
    }

    fn parameter(&self, walk: &mut Walk) -> Step {
        let positional = matches!(walk.before, Before::Nothing | Before::Slash);
        match self.kind(walk.at) {
            Some(T::Slash | T::Star | T::DoubleStar | T::Name) if walk.before == Before::Keywords => {
                Err(Some(self.at(walk.at, "arguments cannot follow var-keyword argument")))
            }
            Some(T::Slash) => self.slash(walk),
            Some(T::Star) => self.star(walk),
            Some(T::DoubleStar) => self.keywords(walk),
            Some(T::Name) => self.named_parameter(walk),
            Some(T::LeftParen) if positional && !walk.default => Err(self.enclosed(walk.at, walk.close)),
            _ => Err(None),
        }
    }

    fn slash(&self, walk: &mut Walk) -> Step {
        let at = walk.at;
        match walk.before {
            Before::Nothing if !walk.any => {
                let followed = self.kind(at + 1) == Some(T::Comma);
                return Err(followed.then(|| self.at(at, "at least one argument must precede /")));
            }
            Before::Slash => return Err(Some(self.at(at, "/ may appear only once"))),
            Before::Star => return Err(Some(self.at(at, "/ must be ahead of *"))),
            Before::Nothing | Before::Keywords => {}
        }
        if self.kind(at + 1) == Some(T::Star) {
            return Err(Some(self.at(at + 1, "expected comma between / and *")));
        }
        (walk.before, walk.at) = (Before::Slash, at + 1);
        Ok(())
    }

    fn star(&self, walk: &mut Walk) -> Step {
        let (at, next, behind) = (walk.at, self.kind(walk.at + 1), self.kind(walk.at + 2));
        if walk.before == Before::Star {
            let again = matches!(next, Some(T::Name | T::Comma));
            return Err(again.then(|| self.at(at, "* argument may appear only once")));
        }
        let comma = next == Some(T::Comma);
        if next == Some(walk.close) || comma && (behind == Some(walk.close) || behind == Some(T::DoubleStar)) {
            // That of a lambda stands where CPython has read up to.
            let read = if walk.close == T::Colon { at + 1 + usize::from(comma) } else { at };
            return Err(Some(self.at(read, "named arguments must follow bare *")));
        }
        (walk.before, walk.at) = (Before::Star, at + 1);
        if next == Some(T::Name) {
            walk.at = self.annotated(at + 2, walk.close);
            self.refuse_default(walk.at, "var-positional argument cannot have default value")?;
        }
        Ok(())
    }

    fn keywords(&self, walk: &mut Walk) -> Step {
        if self.kind(walk.at + 1) != Some(T::Name) {
            return Err(None);
        }
        (walk.before, walk.at) = (Before::Keywords, self.annotated(walk.at + 2, walk.close));
        self.refuse_default(walk.at, "var-keyword argument cannot have default value")
    }

    fn refuse_default(&self, at: usize, message: &'static str) -> Step {
        if self.kind(at) == Some(T::Equal) { Err(Some(self.at(at, message))) } else { Ok(()) }
    }

    fn named_parameter(&self, walk: &mut Walk) -> Step {
        let start = walk.at;
        walk.any = true;
        walk.at = self.annotated(start + 1, walk.close);
        if self.kind(walk.at) != Some(T::Equal) {
            let late = walk.default && walk.before != Before::Star;
            let message = "parameter without a default follows parameter with a default";
            return if late { Err(Some(self.at(start, message))) } else { Ok(()) };
        }
        let next = self.kind(walk.at + 1);
        if next == Some(walk.close) || next == Some(T::Comma) {
            return Err(Some(self.at(walk.at, "expected default value expression")));
        }
        let Longest::Up(end) = self.longest(EXPRESSION, walk.at + 1) else { return Err(None) };
        walk.at = end;
        walk.default |= walk.before != Before::Star;
        Ok(())
    }

    /// Behind the annotation of a parameter.
    fn annotated(&self, at: usize, close: T) -> usize {
        if self.kind(at) != Some(T::Colon) || close == T::Colon {
            return at;
        }
        match self.longest(EXPRESSION, at + 1) {
            Longest::Up(end) => end,
            Longest::None | Longest::Cut => at,
        }
    }

    /// Parameters in parentheses of their own.
    fn enclosed(&self, open: usize, close: T) -> Option<Diagnostic> {
        let mut at = open + 1;
        while self.kind(at) == Some(T::Name) {
            at += 1;
            if self.kind(at) == Some(T::Comma) {
                at += 1;
            }
        }
        let what = if close == T::Colon { "Lambda expression" } else { "Function" };
        let ended = self.kind(at) == Some(T::RightParen) && at > open + 1;
        ended.then(|| self.over(open, at + 1, format!("{what} parameters cannot be parenthesized")))
    }
}
