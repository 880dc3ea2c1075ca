//! Expressions that end too early, or go on where they should not.

use super::Refused;
use super::probe::{BIT_OR, DISJUNCTION, EXPRESSION, EXPRESSIONS, Longest, closes, opens};
use crate::diagnostic::Diagnostic;
use crate::tokens::Terminal as T;

impl Refused<'_> {
    pub(super) fn expression_reason(&self) -> Option<Diagnostic> {
        // A `not` may have been taken for that of `not in`.
        let negated = self.at > self.first + 1 && self.tokens.kinds[self.at - 1] == T::Not;
        // `[]` may have been taken for a subscript.
        let empty = self.kind(self.at - 1) == Some(T::LeftBracket) && self.kind(self.at) == Some(T::RightBracket);
        let ends = [Some(self.at), (negated || empty).then_some(self.at - 1)];
        self.loop_variables()
            .or_else(|| ends.into_iter().flatten().find_map(|end| self.juxtaposed(end)))
            .or_else(|| self.starred())
            .or_else(|| self.item())
            .or_else(|| self.argument())
            .or_else(|| self.complex_literal())
            .or_else(|| self.field())
    }

    /// Two expressions without anything between them; or a condition without `else`.
    fn juxtaposed(&self, end: usize) -> Option<Diagnostic> {
        let start = self.expression_start(end)?;
        if let Some(error) = self.without_else(start, end) {
            return Some(error);
        }
        if self.kind(start) == Some(T::Name)
            && matches!(self.kind(start + 1), Some(T::String | T::FStringStart | T::TStringStart))
        {
            return None;
        }
        let legacy = end == start + 1 && matches!(self.written(start), "print" | "exec");
        let soft = self.kind(start) == Some(T::Name) && matches!(self.written(start), "match" | "case" | "_" | "type");
        if soft || !self.is(DISJUNCTION, start..end) {
            return None;
        }
        match self.longest(if legacy { EXPRESSIONS } else { EXPRESSION }, end) {
            Longest::Cut => self.behind.map(|error| error.diagnostic.clone()),
            Longest::Up(behind) if legacy => {
                let name = self.written(start);
                let message = format!("Missing parentheses in call to '{name}'. Did you mean {name}(...)?");
                Some(self.over(start, behind, message))
            }
            Longest::Up(behind) if self.opener(behind).is_some() => {
                Some(self.from(start..end, behind, "invalid syntax. Perhaps you forgot a comma?"))
            }
            Longest::None | Longest::Up(_) => None,
        }
    }

    fn without_else(&self, start: usize, end: usize) -> Option<Diagnostic> {
        if matches!(self.kind(end), Some(T::Else | T::Colon)) {
            return None;
        }
        let condition = self.shallow(start, end).find(|&at| self.tokens.kinds[at] == T::If)?;
        let right = self.is(DISJUNCTION, start..condition) && self.is(DISJUNCTION, condition + 1..end);
        right.then(|| self.from(start..condition, end, "expected 'else' after 'if' expression"))
    }

    /// Tokens of a range that stand in none of its brackets.
    pub(super) fn shallow(&self, start: usize, end: usize) -> impl Iterator<Item = usize> + '_ {
        let mut depth = 0_i32;
        (start..end).filter(move |&at| {
            let kind = self.tokens.kinds[at];
            let outside = depth == 0;
            depth += i32::from(opens(kind)) - i32::from(closes(kind));
            outside && depth == 0
        })
    }

    /// Where the innermost expression starts that ends in front of a token, if an expression may stand there.
    pub(super) fn expression_start(&self, end: usize) -> Option<usize> {
        let mut depth = 0_usize;
        let outside = self.opener(end).is_none();
        for at in (self.first..end).rev() {
            let kind = self.tokens.kinds[at];
            if closes(kind) {
                depth += 1;
            } else if opens(kind) && depth > 0 {
                depth -= 1;
            } else if depth == 0 && self.separates(at, outside) {
                return (at + 1 < end && self.may_start_behind(at)).then_some(at + 1);
            }
        }
        let header = matches!(
            self.tokens.kinds[self.first],
            T::Def | T::Class | T::Import | T::From | T::Global | T::Nonlocal | T::Type | T::Async | T::Case | T::For
        );
        (!header).then_some(self.first)
    }

    /// Whether an expression starts anew behind a token, which may stand outside of all brackets.
    fn separates(&self, at: usize, outside: bool) -> bool {
        let kind = self.tokens.kinds[at];
        let first = at == self.first;
        opens(kind)
            || matches!(kind, T::Comma | T::Colon | T::Equal | T::Walrus | T::Augmented | T::Else | T::Semicolon)
            || matches!(kind, T::Return | T::Raise | T::Assert | T::Yield | T::Del | T::From | T::Arrow | T::Lambda)
            || first && matches!(kind, T::If | T::Elif | T::While | T::Match | T::With | T::Except | T::At)
            || kind == T::In && outside && matches!(self.kind(self.first), Some(T::For | T::Async))
            || matches!(kind, T::Star | T::DoubleStar)
                && (first || self.kind(at - 1).is_none_or(|before| opens(before) || before == T::Comma))
    }

    /// Whether what stands behind a separator is an expression, and not a parameter, a pattern or an imported name.
    fn may_start_behind(&self, at: usize) -> bool {
        let kind = self.tokens.kinds[at];
        if kind == T::Lambda || self.kind(self.first) == Some(T::Case) && !self.behind_guard(at) {
            return false;
        }
        if !opens(kind) && kind != T::Comma {
            return kind != T::Else;
        }
        if kind == T::Comma && self.in_lambda_parameters(at) {
            return false;
        }
        match if kind == T::Comma { self.opener(at) } else { Some(at) } {
            Some(opener) => !self.declares(opener),
            None => !matches!(self.kind(self.first), Some(T::Import | T::From | T::Global | T::Nonlocal)),
        }
    }

    fn behind_guard(&self, at: usize) -> bool {
        self.shallow(self.first, at + 1).any(|one| self.tokens.kinds[one] == T::If)
    }

    /// Whether a bracket holds parameters or imported names.
    pub(super) fn declares(&self, opener: usize) -> bool {
        let before = |back: usize| opener.checked_sub(back).and_then(|at| self.kind(at));
        match self.tokens.kinds[opener] {
            T::LeftParen => self.is_of_def(opener) || before(1) == Some(T::Import),
            T::LeftBracket => matches!(before(2), Some(T::Def | T::Class | T::Type)),
            _ => false,
        }
    }

    /// Whether a parenthesis opens the parameters of a function.
    pub(super) fn is_of_def(&self, opener: usize) -> bool {
        let start = self.first + usize::from(self.kind(self.first) == Some(T::Async));
        self.kind(start) == Some(T::Def)
            && self.shallow(start, opener).all(|at| at <= start + 1)
            && self.opener(opener).is_none()
    }

    /// Whether the parameters of a lambda are not over at a token.
    pub(super) fn in_lambda_parameters(&self, at: usize) -> bool {
        self.lambda(at).is_some()
    }

    /// The lambda whose parameters a token is among.
    pub(super) fn lambda(&self, at: usize) -> Option<usize> {
        let from = self.opener(at).map_or(self.first, |opener| opener + 1);
        let mut open = Vec::new();
        for one in self.shallow(from, at) {
            match self.tokens.kinds[one] {
                T::Lambda => open.push(one),
                T::Colon => drop(open.pop()),
                _ => {}
            }
        }
        open.pop()
    }

    /// A comprehension's variables without `in`.
    fn loop_variables(&self) -> Option<Diagnostic> {
        let opener = self.opener(self.at)?;
        let first = self.shallow(opener + 1, self.at).filter(|&at| self.tokens.kinds[at] == T::For).last()?;
        if self.shallow(first, self.at).any(|at| self.tokens.kinds[at] == T::In) {
            return None;
        }
        let mut next = first + 1;
        loop {
            match self.longest(BIT_OR, next) {
                Longest::Cut => return self.behind.map(|error| error.diagnostic.clone()),
                Longest::None if next == first + 1 => return None,
                Longest::None => break,
                Longest::Up(end) => next = end,
            }
            if self.kind(next) != Some(T::Comma) {
                break;
            }
            next += 1;
        }
        (self.kind(next) != Some(T::In)).then(|| self.at(next, "'in' expected after for-loop variables"))
    }

    /// `*` and `**` where they cannot stand.
    fn starred(&self) -> Option<Diagnostic> {
        let opener = self.opener(self.at)?;
        if self.declares(opener) || self.kind(self.first) == Some(T::Case) {
            return None;
        }
        let before = self.kind(self.at - 1)?;
        let star = before == T::Star
            && (opener == self.at - 2 || self.is_call(opener) && self.kind(self.at - 2) == Some(T::Comma));
        if star && !matches!(self.kind(self.at), Some(T::Name | T::Number)) {
            return match self.longest(EXPRESSION, self.at) {
                Longest::Cut => self.behind.map(|error| error.diagnostic.clone()),
                _ => Some(self.at(self.at, "Invalid star expression")),
            };
        }
        let group = self.tokens.kinds[opener] == T::LeftParen && !self.is_call(opener);
        match (self.kind(opener + 1), self.kind(self.at)) {
            (Some(T::Star), Some(T::RightParen)) if group && self.is(EXPRESSION, opener + 2..self.at) => {
                Some(self.over(opener + 1, self.at, "cannot use starred expression here"))
            }
            (Some(T::Star), Some(T::For)) if self.is(EXPRESSION, opener + 2..self.at) => {
                Some(self.over(opener + 1, self.at, "iterable unpacking cannot be used in comprehension"))
            }
            (Some(T::DoubleStar), _) if group => Some(self.at(opener + 1, "cannot use double starred expression here")),
            _ => None,
        }
    }

    /// What a dictionary's key or value lacks.
    fn item(&self) -> Option<Diagnostic> {
        let opener = self.opener(self.at).filter(|&opener| self.tokens.kinds[opener] == T::LeftBrace)?;
        let ends = matches!(self.kind(self.at), Some(T::RightBrace | T::Comma));
        if self.kind(self.first) == Some(T::Case) || !ends {
            return None;
        }
        if self.kind(self.at - 1) == Some(T::Colon) && self.lambda(self.at - 1).is_none() {
            let start = self.expression_start(self.at - 1)?;
            let message = "expression expected after dictionary key and ':'";
            return self.is(EXPRESSION, start..self.at - 1).then(|| self.at(self.at - 1, message));
        }
        let start = self.expression_start(self.at)?;
        let pairs = self.shallow(opener + 1, start).any(|at| self.tokens.kinds[at] == T::Colon);
        let key = pairs && self.kind(start - 1) == Some(T::Comma) && self.is(EXPRESSION, start..self.at);
        key.then(|| self.at(self.at - 1, "':' expected after dictionary key"))
    }

    /// What is wrong with an argument.
    fn argument(&self) -> Option<Diagnostic> {
        let opener = self.opener(self.at).filter(|&opener| self.is_call(opener) && !self.declares(opener))?;
        let ends = matches!(self.kind(self.at), Some(T::RightParen | T::Comma));
        if ends && self.kind(self.at - 1) == Some(T::Equal) && self.kind(self.at - 2) == Some(T::Name) {
            return Some(self.over(self.at - 2, self.at, "expected argument value expression"));
        }
        let message = "Generator expression must be parenthesized";
        match self.kind(self.at) {
            Some(T::For) => {
                let start = self.expression_start(self.at)?;
                let later = self.kind(start - 1) == Some(T::Comma) && self.is(EXPRESSION, start..self.at);
                later.then(|| self.over(start, self.at, message))
            }
            Some(T::Comma) => {
                let generates = self.shallow(opener + 1, self.at).any(|at| self.tokens.kinds[at] == T::For);
                generates.then(|| self.over(opener + 1, self.at, message))
            }
            _ => None,
        }
    }

    /// The numbers of a pattern that is a complex number.
    fn complex_literal(&self) -> Option<Diagnostic> {
        if self.kind(self.first) != Some(T::Case) {
            return None;
        }
        let guard = self.shallow(self.first, self.at).find(|&at| self.tokens.kinds[at] == T::If).unwrap_or(self.at);
        let number = |at: usize| self.kind(at) == Some(T::Number);
        let imaginary = |at: usize| self.written(at).ends_with(['j', 'J']);
        (self.first + 3..guard).find_map(|at| {
            let sum = number(at) && number(at - 2) && matches!(self.kind(at - 1), Some(T::Plus | T::Minus));
            if !sum {
                None
            } else if imaginary(at - 2) {
                Some(self.at(at - 2, "real number required in complex literal"))
            } else {
                (!imaginary(at)).then(|| self.at(at, "imaginary number required in complex literal"))
            }
        })
    }

    /// Whether a parenthesis opens arguments.
    pub(super) fn is_call(&self, opener: usize) -> bool {
        let ends = |kind: T| {
            closes(kind)
                || matches!(
                    kind,
                    T::Name | T::String | T::FStringEnd | T::Number | T::None | T::True | T::False | T::Ellipsis
                )
        };
        self.tokens.kinds[opener] == T::LeftParen && opener > self.first && self.kind(opener - 1).is_some_and(ends)
    }

    /// What is wrong with a replacement field.
    fn field(&self) -> Option<Diagnostic> {
        let opener = self.opener(self.at)?;
        if !matches!(self.tokens.kinds[opener], T::FieldOpen | T::DebugOpen) {
            return None;
        }
        let letter = self.letter(opener);
        let say = |at: usize, what: &str| Some(self.at(at, format!("{letter}-string: {what}")));
        let next = self.kind(self.at);
        if self.at == opener + 1 {
            return match next {
                Some(T::Equal | T::FieldBang | T::FieldColon | T::FieldClose) => {
                    say(self.at, &format!("valid expression required before '{}'", self.written(self.at)))
                }
                Some(_) => match self.longest(EXPRESSIONS, self.at) {
                    Longest::None => say(self.at, "expecting a valid expression after '{'"),
                    _ => None,
                },
                None => None,
            };
        }
        self.behind_expression(opener, say)
    }

    /// What is wrong behind the expression of a field.
    fn behind_expression(&self, opener: usize, say: impl Fn(usize, &str) -> Option<Diagnostic>) -> Option<Diagnostic> {
        let next = self.kind(self.at);
        let before = self.kind(self.at - 1)?;
        if before == T::FieldBang {
            return match next {
                Some(T::FieldColon | T::FieldClose) => say(self.at, "missing conversion character"),
                Some(_) => say(self.at, "invalid conversion character"),
                None => None,
            };
        }
        let bang = self.shallow(opener + 1, self.at).any(|at| self.tokens.kinds[at] == T::FieldBang);
        let colon = self.shallow(opener + 1, self.at).any(|at| self.tokens.kinds[at] == T::FieldColon);
        if next.is_none() && self.stray().is_none() {
            return None;
        }
        if colon {
            return say(self.at, "expecting '}', or format specs");
        }
        if bang {
            return say(self.at, "expecting ':' or '}'");
        }
        if before == T::Equal && self.is(EXPRESSIONS, opener + 1..self.at - 1) {
            return say(self.at, "expecting '!', or ':', or '}'");
        }
        if next == Some(T::Equal) && self.is(EXPRESSIONS, opener + 1..self.at) {
            return say(self.at + 1, "expecting '!', or ':', or '}'");
        }
        match self.longest(EXPRESSIONS, opener + 1) {
            Longest::Up(end) if end < self.end || self.stray().is_some() => {
                say(end, "expecting '=', or '!', or ':', or '}'")
            }
            _ => None,
        }
    }

    /// What CPython calls the string that a field is in by.
    fn letter(&self, field: usize) -> char {
        let mut depth = 0_usize;
        for at in (self.first..field).rev() {
            match self.tokens.kinds[at] {
                T::FStringEnd => depth += 1,
                T::FStringStart | T::TStringStart if depth > 0 => depth -= 1,
                T::TStringStart => return 't',
                _ => {}
            }
        }
        'f'
    }
}
