//! What the rules do besides matching: the errors that depend on more than the tokens' order.

use super::grammar::{Grammar, Message, Part, Place, class};
use super::machine::{Machine, Stop};
use super::nodes::{Is, NodeKind, Value};
use super::strings;
use unicode_normalization::UnicodeNormalization;

use crate::diagnostic::{Class, Diagnostic, Span};

/// A function of the grammar, `@name` there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Assigned,
    Looped,
    Deleted,
    Real,
    Imaginary,
    Number,
    String,
    Strings,
    StringsWithFields,
    Fstring,
    MissingComma,
    Legacy,
    BoundOfTuple,
    BoundOfSpec,
    Field,
    Conversion,
    MixedTemplate,
    MissingValue,
    Generator,
    GeneratorInCall,
    PositionalAfterKeyword,
}

const FUNCTIONS: [(&str, Function); 21] = [
    ("assigned", Function::Assigned),
    ("looped", Function::Looped),
    ("deleted", Function::Deleted),
    ("real", Function::Real),
    ("imaginary", Function::Imaginary),
    ("number", Function::Number),
    ("string", Function::String),
    ("strings", Function::Strings),
    ("strings_with_fields", Function::StringsWithFields),
    ("fstring", Function::Fstring),
    ("missing_comma", Function::MissingComma),
    ("legacy", Function::Legacy),
    ("bound_of_tuple", Function::BoundOfTuple),
    ("bound_of_spec", Function::BoundOfSpec),
    ("field", Function::Field),
    ("conversion", Function::Conversion),
    ("mixed_template", Function::MixedTemplate),
    ("missing_value", Function::MissingValue),
    ("generator", Function::Generator),
    ("generator_in_call", Function::GeneratorInCall),
    ("positional_after_keyword", Function::PositionalAfterKeyword),
];

impl Function {
    pub(super) fn named(name: &str) -> Self {
        FUNCTIONS.iter().find(|(other, _)| *other == name).unwrap_or_else(|| panic!("no function {name:?}")).1
    }
}

type Outcome = Result<Option<Value>, Stop>;
type Text = std::borrow::Cow<'static, str>;

impl Machine<'_> {
    /// Runs a function on the values that the grammar names; `first` is the alternative's first token.
    pub(super) fn call(&mut self, function: Function, [a, b]: [Value; 2], first: usize) -> Outcome {
        match function {
            Function::Assigned => self.refuse_target(a, false, "assign to"),
            Function::Looped => self.refuse_target(a, true, "assign to"),
            Function::Deleted => self.refuse_target(a, false, "delete"),
            Function::Real => self.real(a),
            Function::Imaginary => self.imaginary(a),
            Function::Number => self.number(first),
            Function::String => self.string(a, first),
            Function::Strings => self.strings(a, first),
            Function::StringsWithFields => strings::whole(self, a, first),
            Function::Fstring => self.fstring(first),
            Function::MissingComma => self.missing_comma(a, b),
            Function::Legacy => self.legacy(a, b),
            Function::BoundOfTuple => self.bound(a, b, "TypeVarTuple"),
            Function::BoundOfSpec => self.bound(a, b, "ParamSpec"),
            Function::Field => self.field(a, first),
            Function::Conversion => self.conversion(a, b),
            Function::MixedTemplate => {
                let first = self.nodes.inside(a).last().copied().unwrap_or(a);
                self.raise(first, b, "cannot mix t-string literals with string or bytes literals")
            }
            Function::MissingValue => self.missing_value(a),
            Function::Generator => self.raise(a, self.last_item(b), GENERATOR),
            Function::GeneratorInCall => self.generator_in_call(a, b),
            Function::PositionalAfterKeyword => self.positional_after_keyword(a),
        }
    }

    /// An error over tokens from one up to another.
    pub(super) fn over_tokens(&self, first: usize, last: usize, message: impl Into<Text>) -> Diagnostic {
        let stream = self.stream;
        let error = Diagnostic::syntax(stream.starts[first], stream.ends[last], message);
        let newline = stream.kinds[last] == class::NEWLINE && stream.version >= 12;
        if newline { error.with_span(Span::Newline) } else { error }
    }

    /// An error from a value up to the last token that was read.
    fn up_to_here(&self, first: Value, message: impl Into<Text>) -> Diagnostic {
        let stream = self.stream;
        let (first, last) = (self.nodes.span(first).0, self.fill - 1);
        let span = if stream.kinds[last] == class::NEWLINE { Span::Range } else { Span::Current };
        Diagnostic::syntax(stream.starts[first], stream.ends[last], message).with_span(span)
    }

    fn raise(&self, first: Value, last: Value, message: impl Into<Text>) -> Outcome {
        let (first, last) = (self.nodes.span(first).0, self.nodes.span(last).1);
        Err(Stop::Raised(self.over_tokens(first, last, message)))
    }

    /// An error at the last token that was read.
    pub(super) fn at_last(&self, message: impl Into<Text>) -> Diagnostic {
        super::at_token(self.stream, self.fill.saturating_sub(1), message)
    }

    /// An error at a place of the grammar's notation.
    pub(super) fn placed(&mut self, place: Place, values: &[Value], message: String) -> Result<Diagnostic, Stop> {
        let value = |label: u8| values[usize::from(label)];
        Ok(match place {
            Place::Over(first, last) => {
                let (first, last) = (self.nodes.span(value(first)).0, self.nodes.span(value(last)).1);
                self.over_tokens(first, last, message)
            }
            Place::From(first) => self.up_to_here(value(first), message),
            Place::Last => self.at_last(message),
            Place::Next => {
                self.kind(self.mark)?;
                super::at_token(self.stream, self.mark, message)
            }
        })
    }

    pub(super) fn message(&self, message: &Message, values: &[Value]) -> String {
        let mut text = String::new();
        for part in &message.0 {
            match part {
                Part::Text(plain) => text.push_str(plain),
                Part::Described(label) => text.push_str(self.described(values[usize::from(*label)])),
                Part::Source(label) => {
                    text.push_str(self.stream.written(self.nodes.span(values[usize::from(*label)]).0));
                }
                Part::Line(label) => {
                    let token = self.nodes.span(values[usize::from(*label)]).0;
                    text.push_str(&self.stream.line_of(token).to_string());
                }
            }
        }
        text
    }

    fn described(&self, value: Value) -> &'static str {
        match value.is() {
            Is::Token(token) if Grammar::is_name(self.stream.kinds[token]) => NodeKind::Name.described(),
            _ => self.nodes.kind(value).unwrap_or(NodeKind::Group).described(),
        }
    }

    /// Raises the error of what cannot be assigned to or deleted, if there is such a thing in a target.
    fn refuse_target(&self, target: Value, loops: bool, verb: &str) -> Outcome {
        match self.wrong_target(target, loops, verb == "delete") {
            Some(wrong) => self.raise(wrong, wrong, format!("cannot {verb} {}", self.described(wrong))),
            None => Ok(None),
        }
    }

    fn wrong_target(&self, target: Value, loops: bool, deletes: bool) -> Option<Value> {
        // What is to be looked at yet, the next one last.
        let mut rest = vec![target];
        while let Some(value) = rest.pop() {
            let children = self.nodes.inside(value);
            match self.nodes.kind(value) {
                Some(NodeKind::Tuple | NodeKind::List) => rest.extend(children.iter().rev()),
                Some(NodeKind::Starred) if !deletes => rest.extend(children),
                // `a in b` of `for a in b` is a comparison, too.
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

    fn is_imaginary(&self, number: Value) -> bool {
        let (token, _) = self.nodes.span(number);
        self.stream.written(token).ends_with(['j', 'J'])
    }

    fn real(&self, number: Value) -> Outcome {
        if self.is_imaginary(number) {
            return self.raise(number, number, "real number required in complex literal");
        }
        Ok(Some(number))
    }

    fn imaginary(&self, number: Value) -> Outcome {
        if self.is_imaginary(number) {
            return Ok(Some(number));
        }
        self.raise(number, number, "imaginary number required in complex literal")
    }

    /// The name that a value is.
    fn name(&self, value: Value) -> Option<&str> {
        let (token, last) = self.nodes.span(value);
        let named = matches!(value.is(), Is::Token(_)) || self.nodes.kind(value) == Some(NodeKind::Name);
        (named && token == last).then(|| self.stream.written(token))
    }

    fn is_legacy(&self, value: Value) -> bool {
        matches!(self.name(value), Some("print" | "exec"))
    }

    fn missing_comma(&self, a: Value, b: Value) -> Outcome {
        if self.is_legacy(a) || !self.stream.enclosed[self.mark - 1] {
            return Ok(None);
        }
        self.raise(a, b, "invalid syntax. Perhaps you forgot a comma?")
    }

    fn legacy(&self, name: Value, argument: Value) -> Outcome {
        let Some(written @ ("print" | "exec")) = self.name(name) else { return Ok(None) };
        let message = format!("Missing parentheses in call to '{written}'. Did you mean {written}(...)?");
        self.raise(name, argument, message)
    }

    fn bound(&self, colon: Value, bound: Value, what: &str) -> Outcome {
        let kind = if self.nodes.kind(bound) == Some(NodeKind::Tuple) { "constraints" } else { "bound" };
        let message = format!("cannot use {kind} with {what}");
        Err(Stop::Raised(self.up_to_here(colon, message)))
    }

    /// A key of a dictionary without a value. CPython names the last character of the key.
    fn missing_value(&self, key: Value) -> Outcome {
        let last = self.nodes.span(key).1;
        let end = self.stream.ends[last];
        let written = self.stream.written(last);
        let width = written.chars().next_back().map_or(0, char::len_utf8);
        let start = end - u32::try_from(width).unwrap_or(0);
        let error = Diagnostic::syntax(start, end, "':' expected after dictionary key");
        Err(Stop::Raised(error.with_span(Span::Start(0))))
    }

    /// The last part of the last of some comprehensions: its condition, or what it goes over.
    fn last_item(&self, clauses: Value) -> Value {
        let last = self.nodes.inside(clauses).last().copied().unwrap_or(clauses);
        self.nodes.inside(last).last().copied().unwrap_or(last)
    }

    fn generator_in_call(&self, arguments: Value, clauses: Value) -> Outcome {
        let is_keyword =
            |&value: &Value| matches!(self.nodes.kind(value), Some(NodeKind::Keyword | NodeKind::KeywordUnpacking));
        let positional: Vec<Value> = self.nodes.inside(arguments).into_iter().filter(|one| !is_keyword(one)).collect();
        match positional.as_slice() {
            [_, .., last] => self.raise(*last, self.last_item(clauses), GENERATOR),
            _ => Ok(None),
        }
    }

    fn positional_after_keyword(&self, arguments: Value) -> Outcome {
        let unpacks = |value: &Value| self.nodes.kind(*value) == Some(NodeKind::KeywordUnpacking);
        let message = if self.nodes.inside(arguments).iter().any(unpacks) {
            "positional argument follows keyword argument unpacking"
        } else {
            "positional argument follows keyword argument"
        };
        Err(Stop::Raised(self.at_last(message)))
    }

    /// `!` and the conversion, between which nothing may stand.
    fn conversion(&self, bang: Value, name: Value) -> Outcome {
        let (bang_token, name_token) = (self.nodes.span(bang).0, self.nodes.span(name).0);
        if self.stream.ends[bang_token] == self.stream.starts[name_token] {
            return Ok(Some(name));
        }
        let letter = self.letter(bang_token);
        // CPython misspelled it before 3.14.
        let mark = if self.stream.version < 14 { "exclamanation" } else { "exclamation" };
        self.raise(bang, name, format!("{letter}-string: conversion type must come right after the {mark} mark"))
    }

    fn field(&mut self, conversion: Value, first: usize) -> Outcome {
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

    /// `t` inside of a template string, else `f`.
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
        let (start, end) = (self.stream.starts[first], self.stream.ends[first]);
        match crate::values::number(self.stream.text, start, end) {
            // An integer of too many digits has a line, but no column.
            Err(error) => Err(Stop::Raised(super::without_column(self.stream, first, error))),
            Ok(_) => Ok(Some(self.nodes.push(NodeKind::Literal, first, self.mark, &[]))),
        }
    }

    fn string(&mut self, token: Value, first: usize) -> Outcome {
        let (number, _) = self.nodes.span(token);
        match strings::wrong_literal(self.stream, number) {
            None => Ok(Some(self.nodes.push(NodeKind::Literal, first, self.mark, &[]))),
            Some(error) if error.message.starts_with('(') => {
                Err(Stop::Raised(Diagnostic { class: Class::Syntax, ..self.at_last(error.message) }))
            }
            Some(error) => Err(Stop::Raised(error)),
        }
    }

    fn fstring(&mut self, first: usize) -> Outcome {
        match strings::wrong_middle(self.stream, first, self.mark) {
            Some(error) if error.class == Class::Syntax => Err(Stop::Raised(self.at_last(error.message))),
            Some(error) => Err(Stop::Raised(error)),
            None => Ok(Some(self.nodes.push(NodeKind::FString, first, self.mark, &[]))),
        }
    }

    /// Strings side by side, whose pieces are right.
    fn strings(&mut self, pieces: Value, first: usize) -> Outcome {
        let all = self.nodes.inside(pieces);
        let is_fstring = |value: &Value| self.nodes.kind(*value) == Some(NodeKind::FString);
        let has_fields = all.iter().any(is_fstring);
        let is_bytes = |value: &&Value| strings::is_bytes(self.stream.written(self.nodes.span(**value).0));
        let bytes = all.iter().filter(|value| !is_fstring(value)).filter(is_bytes).count();
        if bytes > 0 && bytes < all.len() {
            return Err(Stop::Raised(self.at_last("cannot mix bytes and nonbytes literals")));
        }
        let kind = if has_fields { NodeKind::FString } else { NodeKind::Literal };
        Ok(Some(self.nodes.push(kind, first, self.mark, &[])))
    }
}

const GENERATOR: &str = "Generator expression must be parenthesized";
