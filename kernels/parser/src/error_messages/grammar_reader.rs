//! Reads the grammar notation of `python.peg`.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::grammar::{
    Action, Alternative, Body, CLASSES, ErrorPlace, FIRST_LITERAL, FIRST_SOFT, FirstSet, Grammar, Helper, Item,
    ItemMode, Message, MessagePart, Rule, SOFT, Symbol,
};
use super::node_arena::NodeKind;

/// The grammar of a minor version of Python 3.
pub(super) fn grammar_of(version: u8) -> &'static Grammar {
    static GRAMMARS: [OnceLock<Grammar>; 5] = [const { OnceLock::new() }; 5];
    // 3.8 and 3.9 are parsed as CPython 3.13 parses them with `feature_version`.
    let version = if version < 10 { 13 } else { version.min(14) };
    GRAMMARS[usize::from(version - 10)].get_or_init(|| GrammarReader::read(include_str!("python.peg"), version))
}

struct GrammarReader {
    grammar: Grammar,
    version: u8,
    /// The rest of the current rule.
    rest: &'static str,
}

/// The items of an alternative and their labels.
struct Sequence {
    items: Vec<Item>,
    labels: Vec<(&'static str, u8)>,
}

impl GrammarReader {
    fn read(text: &'static str, version: u8) -> Grammar {
        let mut literals = HashMap::new();
        for (number, (text, _)) in (FIRST_SOFT..).zip(SOFT) {
            literals.insert(text, number);
        }
        let current = SOFT.iter().zip(FIRST_SOFT..).filter(|((_, since), _)| *since <= version);
        let soft = current.fold(0, |all, (_, number)| all | 1 << number);
        let rules = Vec::new();
        let alternatives = Vec::new();
        let items = Vec::new();
        let grammar = Grammar { rules, alternatives, items, literals, names: HashMap::new(), soft };
        let mut reader = Self { grammar, version, rest: "" };
        let rules: Vec<_> = split_rules(text).collect();
        for (number, (name, flags, _)) in (0_u16..).zip(&rules) {
            reader.grammar.names.insert(name, number);
            reader.grammar.rules.push(Rule {
                body: Body::Choice(0..0),
                memo: flags.contains("memo"),
                left: flags.contains("left"),
                plain: flags.contains("plain"),
                start: FirstSet::default(),
            });
        }
        for (number, (_, _, body)) in rules.iter().enumerate() {
            reader.rest = body;
            reader.grammar.rules[number].body = reader.choice();
            assert!(reader.peek().is_empty(), "not read: {}", reader.rest);
        }
        reader.grammar.compute_first_sets();
        reader.grammar
    }

    /// The rest, after white space and comments.
    fn peek(&mut self) -> &'static str {
        loop {
            self.rest = self.rest.trim_start();
            if !self.rest.starts_with('#') {
                return self.rest;
            }
            self.rest = self.rest.split_once('\n').map_or("", |(_, rest)| rest);
        }
    }

    /// Consumes `text` if it follows.
    fn take(&mut self, text: &str) -> bool {
        let found = self.peek().strip_prefix(text);
        self.rest = found.unwrap_or(self.rest);
        found.is_some()
    }

    fn word(&mut self) -> &'static str {
        let rest = self.peek();
        let end = rest.find(|character: char| !character.is_alphanumeric() && character != '_').unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.rest = rest;
        word
    }

    /// The text between two quotes.
    fn quoted(&mut self, quote: char) -> &'static str {
        let rest = &self.peek()[1..];
        let end = rest
            .char_indices()
            .find(|&(offset, character)| character == quote && !rest[..offset].ends_with('\\'))
            .expect("a quote ends")
            .0;
        self.rest = &rest[end + 1..];
        &rest[..end]
    }

    fn choice(&mut self) -> Body {
        self.take("|");
        let mut read = Vec::new();
        loop {
            let fits = self.version_gate();
            let alternative = self.alternative();
            if fits {
                read.push(alternative);
            }
            if !self.take("|") {
                break;
            }
        }
        // The alternatives of a rule are contiguous; those of its groups were added before.
        let first = number(self.grammar.alternatives.len());
        self.grammar.alternatives.append(&mut read);
        Body::Choice(first..number(self.grammar.alternatives.len()))
    }

    /// Returns true if a version range in brackets, if there is one, includes this version.
    fn version_gate(&mut self) -> bool {
        if !self.take("[") {
            return true;
        }
        let (versions, rest) = self.rest.split_once(']').expect("a bracket closes");
        self.rest = rest;
        let (from, to) = match versions.strip_suffix('+') {
            Some(from) => (from, ""),
            None => versions.split_once('-').expect("two versions"),
        };
        from.parse().unwrap_or(0) <= self.version && self.version <= to.parse().unwrap_or(u8::MAX)
    }

    fn alternative(&mut self) -> Alternative {
        let mut sequence = Sequence { items: Vec::new(), labels: Vec::new() };
        let mut invalid = false;
        while !matches!(self.peek().chars().next(), None | Some('|' | ')')) && !self.rest.starts_with("=>") {
            invalid = sequence.items.is_empty() && self.rest.starts_with("invalid_");
            let item = self.item(&mut sequence.labels, sequence.items.len());
            sequence.items.push(item);
        }
        let invalid = invalid && sequence.items.len() == 1;
        let action = if self.take("=>") {
            self.action(&sequence)
        } else {
            // Lookaheads and cuts have no value.
            let mut valued = sequence.items.iter().enumerate().filter(|(_, item)| item.has_value());
            match (valued.next(), valued.next()) {
                (Some((index, _)), None) => Action::Value(u8::try_from(index).expect("few items")),
                _ => Action::Group,
            }
        };
        let first = number(self.grammar.items.len());
        self.grammar.items.append(&mut sequence.items);
        Alternative { items: first..number(self.grammar.items.len()), invalid, action, start: FirstSet::default() }
    }

    fn item(&mut self, labels: &mut Vec<(&'static str, u8)>, index: usize) -> Item {
        if self.take("~") {
            return Item { symbol: Symbol::Cut, mode: ItemMode::Required };
        }
        if self.take("&") {
            return Item { symbol: self.repeated(), mode: ItemMode::Lookahead };
        }
        if self.take("!") {
            return Item { symbol: self.repeated(), mode: ItemMode::NegativeLookahead };
        }
        if self.take("expect ") {
            return Item { symbol: self.repeated(), mode: ItemMode::Forced };
        }
        let before = self.peek();
        let word = self.word();
        if word.is_empty() || !self.rest.starts_with(':') {
            self.rest = before;
        } else {
            self.rest = &self.rest[1..];
            labels.push((word, u8::try_from(index).expect("few items")));
        }
        let symbol = self.repeated();
        if self.rest.starts_with('?') {
            self.rest = &self.rest[1..];
            return Item { symbol, mode: ItemMode::Optional };
        }
        Item { symbol, mode: ItemMode::Required }
    }

    /// A primary with its repetition operator.
    fn repeated(&mut self) -> Symbol {
        let symbol = self.primary();
        let item = Item { symbol, mode: ItemMode::Required };
        if self.take("++") {
            let separator = Item { symbol: self.primary(), mode: ItemMode::Required };
            return self.anonymous_rule(Body::Gather { item, separator });
        }
        match self.rest.chars().next() {
            Some('*') => {
                self.rest = &self.rest[1..];
                self.anonymous_rule(Body::Repeat { item, min: 0 })
            }
            Some('+') => {
                self.rest = &self.rest[1..];
                self.anonymous_rule(Body::Repeat { item, min: 1 })
            }
            _ => symbol,
        }
    }

    fn primary(&mut self) -> Symbol {
        match self.peek().chars().next() {
            Some('\'') => {
                let text = self.quoted('\'');
                let next = FIRST_LITERAL + u8::try_from(self.grammar.literals.len()).expect("few literals");
                let next = next - u8::try_from(SOFT.len()).expect("few soft keywords");
                assert!(next < 128, "a set of kinds has 128 bits");
                Symbol::Token(*self.grammar.literals.entry(text).or_insert(next))
            }
            Some('"') => {
                let text = self.quoted('"');
                Symbol::Token(self.grammar.literals[text])
            }
            Some('(') => {
                self.take("(");
                let body = self.choice();
                assert!(self.take(")"), "expected a parenthesis: {}", self.rest);
                self.anonymous_rule(body)
            }
            _ => match self.word() {
                "NAME" => Symbol::Name,
                "SOFT_KEYWORD" => Symbol::SoftKeyword,
                word => match CLASSES.iter().position(|&class| class == word) {
                    Some(class) => Symbol::Token(u8::try_from(class).expect("few classes")),
                    None => Symbol::Rule(*self.grammar.names.get(word).unwrap_or_else(|| panic!("no rule {word:?}"))),
                },
            },
        }
    }

    /// Adds an anonymous rule.
    fn anonymous_rule(&mut self, body: Body) -> Symbol {
        let rule = Rule { body, memo: false, left: false, plain: false, start: FirstSet::default() };
        self.grammar.rules.push(rule);
        Symbol::Rule(number(self.grammar.rules.len()) - 1)
    }

    fn action(&mut self, sequence: &Sequence) -> Action {
        if self.take("@") {
            let helper = Helper::named(self.word());
            let mut labels = Vec::new();
            while self.peek().starts_with(|character: char| character.is_ascii_lowercase()) {
                labels.push(sequence.label(self.word()));
            }
            return Action::Call(helper, labels);
        }
        let indentation = self.take("!!");
        if indentation || self.take("!") {
            let place = self.place(sequence);
            let message = message(self.quoted('"'), sequence);
            return Action::Raise { indentation, place, message };
        }
        let word = self.word();
        if word.starts_with(|character: char| character.is_ascii_lowercase()) {
            return Action::Value(sequence.label(word));
        }
        Action::Node(NodeKind::named(word))
    }

    fn place(&mut self, sequence: &Sequence) -> ErrorPlace {
        let first = self.word();
        if !self.rest.starts_with("..") {
            return match first {
                "last" => ErrorPlace::LastToken,
                "next" => ErrorPlace::NextToken,
                _ => ErrorPlace::Range(sequence.label(first), sequence.label(first)),
            };
        }
        self.rest = &self.rest[2..];
        let first = sequence.label(first);
        if self.rest.starts_with(' ') {
            return ErrorPlace::StartingFrom(first);
        }
        ErrorPlace::Range(first, sequence.label(self.word()))
    }
}

impl Sequence {
    fn label(&self, name: &str) -> u8 {
        self.labels.iter().find(|(label, _)| *label == name).unwrap_or_else(|| panic!("no label {name:?}")).1
    }
}

fn number(count: usize) -> u16 {
    u16::try_from(count).expect("few rules and items")
}

fn message(mut text: &'static str, sequence: &Sequence) -> Message {
    let mut parts = Vec::new();
    while let Some((before, rest)) = text.split_once('{') {
        // A quoted brace is literal.
        let Some((inside, after)) = rest.split_once('}').filter(|(inside, _)| !inside.contains('\'')) else { break };
        let (label, what) = inside.split_once('.').unwrap_or((inside, ""));
        let label = sequence.label(label);
        parts.push(MessagePart::Text(before.replace('\\', "")));
        parts.push(match what {
            "text" => MessagePart::Source(label),
            "line" => MessagePart::Line(label),
            _ => MessagePart::ExprName(label),
        });
        text = after;
    }
    parts.push(MessagePart::Text(text.replace('\\', "")));
    Message(parts)
}

/// The rules as name, flags and body.
fn split_rules(text: &'static str) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let starts: Vec<usize> = text
        .match_indices('\n')
        .map(|(offset, _)| offset + 1)
        .filter(|&offset| text[offset..].starts_with(|character: char| character.is_ascii_lowercase()))
        .chain([text.len()])
        .collect();
    let bounds: Vec<_> = starts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
    bounds.into_iter().map(|chunk| {
        let (header, body) = chunk.split_once(':').expect("a rule has a colon");
        let (name, flags) = header.split_once(' ').unwrap_or((header, ""));
        (name, flags, body)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_of_every_version_is_valid() {
        for version in 8..=14 {
            let grammar = grammar_of(version);
            assert!(grammar.rules.len() > 200, "{version}");
        }
    }

    #[test]
    fn version_gates_select_alternatives() {
        let literal = |version: u8, text: &str| grammar_of(version).literal(text).is_some();
        assert!(literal(11, "while") && literal(14, "!"));
        let count = |version: u8, rule: &str| {
            let grammar = grammar_of(version);
            match &grammar.rules[usize::from(grammar.rule(rule))].body {
                Body::Choice(range) => range.len(),
                _ => 0,
            }
        };
        assert_eq!((count(11, "type_params"), count(12, "type_params")), (0, 2));
    }
}
