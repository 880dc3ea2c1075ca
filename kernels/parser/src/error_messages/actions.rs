//! Action helpers of the grammar: errors that depend on more than token order, as in CPython's `action_helpers.c`.

use super::grammar::{ErrorPlace, Grammar, Helper, Message, MessagePart, class};
use super::node_arena::{Match, MatchKind, NodeKind};
use super::peg_parser::{PegParser, Stop};
use super::strings;
use unicode_normalization::UnicodeNormalization;

use crate::diagnostic::{Class, Diagnostic, Span};

type Outcome = Result<Option<Match>, Stop>;
type Text = std::borrow::Cow<'static, str>;

impl PegParser<'_> {
    /// Runs a helper on its arguments; `first` is the first token of the alternative.
    pub(super) fn call(&mut self, helper: Helper, [a, b]: [Match; 2], first: usize) -> Outcome {
        match helper {
            Helper::Assigned => self.raise_invalid_target(a, false, "assign to"),
            Helper::Looped => self.raise_invalid_target(a, true, "assign to"),
            Helper::Deleted => self.raise_invalid_target(a, false, "delete"),
            Helper::Real => self.real(a),
            Helper::Imaginary => self.imaginary(a),
            Helper::Number => self.number(first),
            Helper::String => self.string(a, first),
            Helper::Strings => self.strings(a, first),
            Helper::StringsWithFields => strings::concatenate(self, a, first),
            Helper::Fstring => self.fstring(first),
            Helper::MissingComma => self.missing_comma(a, b),
            Helper::Legacy => self.legacy(a, b),
            Helper::BoundOfTuple => self.bound(a, b, "TypeVarTuple"),
            Helper::BoundOfSpec => self.bound(a, b, "ParamSpec"),
            Helper::Field => self.field(a, first),
            Helper::Conversion => self.conversion(a, b),
            Helper::MixedTemplate => {
                let first = self.nodes.child_nodes(a).last().copied().unwrap_or(a);
                self.raise(first, b, "cannot mix t-string literals with string or bytes literals")
            }
            Helper::MissingValue => self.missing_value(a),
            Helper::Generator => self.raise(a, self.last_item(b), GENERATOR),
            Helper::GeneratorInCall => self.generator_in_call(a, b),
            Helper::PositionalAfterKeyword => self.positional_after_keyword(a),
        }
    }

    /// `RAISE_ERROR_KNOWN_RANGE`: an error over the tokens from `first` to `last`.
    pub(super) fn error_over(&self, first: usize, last: usize, message: impl Into<Text>) -> Diagnostic {
        let stream = self.stream;
        let error = Diagnostic::syntax(stream.starts[first], stream.ends[last], message);
        let newline = stream.kinds[last] == class::NEWLINE && stream.version >= 12;
        if newline { error.with_span(Span::Newline) } else { error }
    }

    /// `RAISE_SYNTAX_ERROR_STARTING_FROM`: an error from a value to the last token fetched.
    fn error_from(&self, first: Match, message: impl Into<Text>) -> Diagnostic {
        let stream = self.stream;
        let first = self.nodes.span(first).0;
        let last = self.fill - 1;
        let span = if stream.kinds[last] == class::NEWLINE { Span::Range } else { Span::Current };
        Diagnostic::syntax(stream.starts[first], stream.ends[last], message).with_span(span)
    }

    fn raise(&self, first: Match, last: Match, message: impl Into<Text>) -> Outcome {
        let first = self.nodes.span(first).0;
        let last = self.nodes.span(last).1;
        Err(Stop::Raised(self.error_over(first, last, message)))
    }

    /// `RAISE_SYNTAX_ERROR`: an error at the last token fetched.
    pub(super) fn error_at_last(&self, message: impl Into<Text>) -> Diagnostic {
        self.stream.error_at(self.fill.saturating_sub(1), message)
    }

    pub(super) fn error_at_place(
        &mut self,
        place: ErrorPlace,
        values: &[Match],
        message: String,
    ) -> Result<Diagnostic, Stop> {
        let value = |label: u8| values[usize::from(label)];
        Ok(match place {
            ErrorPlace::Range(first, last) => {
                let first = self.nodes.span(value(first)).0;
                let last = self.nodes.span(value(last)).1;
                self.error_over(first, last, message)
            }
            ErrorPlace::StartingFrom(first) => self.error_from(value(first), message),
            ErrorPlace::LastToken => self.error_at_last(message),
            ErrorPlace::NextToken => {
                self.kind(self.mark)?;
                self.stream.error_at(self.mark, message)
            }
        })
    }

    pub(super) fn message(&self, message: &Message, values: &[Match]) -> String {
        let mut text = String::new();
        for part in &message.0 {
            match part {
                MessagePart::Text(plain) => text.push_str(plain),
                MessagePart::ExprName(label) => text.push_str(self.expr_name(values[usize::from(*label)])),
                MessagePart::Source(label) => {
                    text.push_str(self.stream.token_text(self.nodes.span(values[usize::from(*label)]).0));
                }
                MessagePart::Line(label) => {
                    let token = self.nodes.span(values[usize::from(*label)]).0;
                    text.push_str(&self.stream.line_of(token).to_string());
                }
            }
        }
        text
    }

    fn expr_name(&self, value: Match) -> &'static str {
        match value.kind() {
            MatchKind::Token(token) if Grammar::is_name(self.stream.kinds[token]) => NodeKind::Name.expr_name(),
            _ => self.nodes.kind(value).unwrap_or(NodeKind::Group).expr_name(),
        }
    }

    /// `_PyPegen_get_invalid_target`: raises an error if a part of a target cannot be assigned to or deleted.
    fn raise_invalid_target(&self, target: Match, loops: bool, verb: &str) -> Outcome {
        match self.invalid_target(target, loops, verb == "delete") {
            Some(wrong) => self.raise(wrong, wrong, format!("cannot {verb} {}", self.expr_name(wrong))),
            None => Ok(None),
        }
    }

    fn invalid_target(&self, target: Match, loops: bool, deletes: bool) -> Option<Match> {
        // A stack: the next value is last.
        let mut rest = vec![target];
        while let Some(value) = rest.pop() {
            let children = self.nodes.child_nodes(value);
            match self.nodes.kind(value) {
                Some(NodeKind::Tuple | NodeKind::List) => rest.extend(children.iter().rev()),
                Some(NodeKind::Starred) if !deletes => rest.extend(children),
                // The rule matches `a in b` of `for a in b` as a comparison.
                Some(NodeKind::Compare) if loops => {
                    let is_in = children.get(1).is_some_and(|&second| self.nodes.kind(second) == Some(NodeKind::In));
                    rest.extend(children.first().filter(|_| is_in));
                }
                Some(NodeKind::Name | NodeKind::Attribute | NodeKind::Subscript) | None => {}
                Some(_) => return Some(value),
            }
        }
        None
    }

    fn is_imaginary(&self, number: Match) -> bool {
        let (token, _) = self.nodes.span(number);
        self.stream.token_text(token).ends_with(['j', 'J'])
    }

    fn real(&self, number: Match) -> Outcome {
        if self.is_imaginary(number) {
            return self.raise(number, number, "real number required in complex literal");
        }
        Ok(Some(number))
    }

    fn imaginary(&self, number: Match) -> Outcome {
        if self.is_imaginary(number) {
            return Ok(Some(number));
        }
        self.raise(number, number, "imaginary number required in complex literal")
    }

    /// The text of a value that is a name.
    fn name(&self, value: Match) -> Option<&str> {
        let (token, last) = self.nodes.span(value);
        let named = matches!(value.kind(), MatchKind::Token(_)) || self.nodes.kind(value) == Some(NodeKind::Name);
        (named && token == last).then(|| self.stream.token_text(token))
    }

    fn is_legacy(&self, value: Match) -> bool {
        matches!(self.name(value), Some("print" | "exec"))
    }

    fn missing_comma(&self, a: Match, b: Match) -> Outcome {
        if self.is_legacy(a) || !self.stream.enclosed[self.mark - 1] {
            return Ok(None);
        }
        self.raise(a, b, "invalid syntax. Perhaps you forgot a comma?")
    }

    fn legacy(&self, name: Match, argument: Match) -> Outcome {
        let Some(written @ ("print" | "exec")) = self.name(name) else { return Ok(None) };
        let message = format!("Missing parentheses in call to '{written}'. Did you mean {written}(...)?");
        self.raise(name, argument, message)
    }

    fn bound(&self, colon: Match, bound: Match, what: &str) -> Outcome {
        let kind = if self.nodes.kind(bound) == Some(NodeKind::Tuple) { "constraints" } else { "bound" };
        let message = format!("cannot use {kind} with {what}");
        Err(Stop::Raised(self.error_from(colon, message)))
    }

    /// A dict key without a value. CPython reports the last character of the key.
    fn missing_value(&self, key: Match) -> Outcome {
        let last = self.nodes.span(key).1;
        let end = self.stream.ends[last];
        let written = self.stream.token_text(last);
        let width = written.chars().next_back().map_or(0, char::len_utf8);
        let start = end - u32::try_from(width).unwrap_or(0);
        let error = Diagnostic::syntax(start, end, "':' expected after dictionary key");
        Err(Stop::Raised(error.with_span(Span::Start(0))))
    }

    /// The last expression of the last comprehension clause: its condition or its iterable.
    fn last_item(&self, clauses: Match) -> Match {
        let last = self.nodes.child_nodes(clauses).last().copied().unwrap_or(clauses);
        self.nodes.child_nodes(last).last().copied().unwrap_or(last)
    }

    fn generator_in_call(&self, arguments: Match, clauses: Match) -> Outcome {
        let is_keyword =
            |&value: &Match| matches!(self.nodes.kind(value), Some(NodeKind::Keyword | NodeKind::KeywordUnpacking));
        let positional: Vec<Match> =
            self.nodes.child_nodes(arguments).into_iter().filter(|argument| !is_keyword(argument)).collect();
        match positional.as_slice() {
            [_, .., last] => self.raise(*last, self.last_item(clauses), GENERATOR),
            _ => Ok(None),
        }
    }

    fn positional_after_keyword(&self, arguments: Match) -> Outcome {
        let unpacks = |value: &Match| self.nodes.kind(*value) == Some(NodeKind::KeywordUnpacking);
        let message = if self.nodes.child_nodes(arguments).iter().any(unpacks) {
            "positional argument follows keyword argument unpacking"
        } else {
            "positional argument follows keyword argument"
        };
        Err(Stop::Raised(self.error_at_last(message)))
    }

    /// A conversion must follow its `!` immediately.
    fn conversion(&self, bang: Match, name: Match) -> Outcome {
        let bang_token = self.nodes.span(bang).0;
        let name_token = self.nodes.span(name).0;
        if self.stream.ends[bang_token] == self.stream.starts[name_token] {
            return Ok(Some(name));
        }
        let letter = self.letter(bang_token);
        // Misspelt in CPython before 3.14.
        let mark = if self.stream.version < 14 { "exclamanation" } else { "exclamation" };
        self.raise(bang, name, format!("{letter}-string: conversion type must come right after the {mark} mark"))
    }

    fn field(&mut self, conversion: Match, first: usize) -> Outcome {
        let name: Option<String> = self.name(conversion).map(|name| name.nfkc().collect());
        if let Some(name) = name
            && !matches!(name.as_str(), "s" | "r" | "a")
        {
            let letter = self.letter(first);
            let message = format!("{letter}-string: invalid conversion character '{name}': expected 's', 'r', or 'a'");
            return self.raise(conversion, conversion, message);
        }
        Ok(Some(self.nodes.push(NodeKind::FString, first, self.mark, &[])))
    }

    /// `t` inside a t-string, else `f`.
    fn letter(&self, token: usize) -> char {
        let mut depth = 0;
        for kind in self.stream.kinds[..token].iter().rev() {
            match *kind {
                class::FSTRING_END | class::TSTRING_END => depth += 1,
                class::FSTRING_START | class::TSTRING_START if depth > 0 => depth -= 1,
                class::TSTRING_START => return 't',
                class::FSTRING_START => return 'f',
                _ => {}
            }
        }
        'f'
    }

    fn number(&mut self, first: usize) -> Outcome {
        let start = self.stream.starts[first];
        let end = self.stream.ends[first];
        match crate::literals::number(self.stream.text, start, end) {
            // The error of an integer with too many digits has a line and no column.
            Err(error) => Err(Stop::Raised(self.stream.without_column(first, error))),
            Ok(_) => Ok(Some(self.nodes.push(NodeKind::Literal, first, self.mark, &[]))),
        }
    }

    fn string(&mut self, token: Match, first: usize) -> Outcome {
        let (number, _) = self.nodes.span(token);
        match strings::literal_error(self.stream, number) {
            None => Ok(Some(self.nodes.push(NodeKind::Literal, first, self.mark, &[]))),
            Some(error) if error.message.starts_with('(') => {
                Err(Stop::Raised(Diagnostic { class: Class::Syntax, ..self.error_at_last(error.message) }))
            }
            Some(error) => Err(Stop::Raised(error)),
        }
    }

    fn fstring(&mut self, first: usize) -> Outcome {
        match strings::middle_error(self.stream, first, self.mark) {
            Some(error) if error.class == Class::Syntax => Err(Stop::Raised(self.error_at_last(error.message))),
            Some(error) => Err(Stop::Raised(error)),
            None => Ok(Some(self.nodes.push(NodeKind::FString, first, self.mark, &[]))),
        }
    }

    /// Adjacent strings whose parts are valid.
    fn strings(&mut self, pieces: Match, first: usize) -> Outcome {
        let all = self.nodes.child_nodes(pieces);
        let is_fstring = |value: &Match| self.nodes.kind(*value) == Some(NodeKind::FString);
        let has_fields = all.iter().any(is_fstring);
        let is_bytes = |value: &&Match| strings::is_bytes(self.stream.token_text(self.nodes.span(**value).0));
        let bytes = all.iter().filter(|value| !is_fstring(value)).filter(is_bytes).count();
        if bytes > 0 && bytes < all.len() {
            return Err(Stop::Raised(self.error_at_last("cannot mix bytes and nonbytes literals")));
        }
        let kind = if has_fields { NodeKind::FString } else { NodeKind::Literal };
        Ok(Some(self.nodes.push(kind, first, self.mark, &[])))
    }
}

const GENERATOR: &str = "Generator expression must be parenthesized";
