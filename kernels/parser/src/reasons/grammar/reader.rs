//! Reads the notation of `python.peg`.

use std::collections::HashMap;

use super::{
    Action, Alternative, Body, CLASSES, FIRST_LITERAL, FIRST_SOFT, Grammar, Item, Message, Mode, Part, Place, Rule,
    SOFT, Start, What,
};
use crate::reasons::actions::Function;
use crate::reasons::nodes::NodeKind;

/// Reads the notation.
pub(super) struct Reader {
    grammar: Grammar,
    version: u8,
    /// What is left of the rule that is being read.
    rest: &'static str,
}

/// What was read of an alternative.
struct Sequence {
    items: Vec<Item>,
    labels: Vec<(&'static str, u8)>,
}

impl Reader {
    pub(super) fn read(text: &'static str, version: u8) -> Grammar {
        let mut literals = HashMap::new();
        for (number, (text, _)) in (FIRST_SOFT..).zip(SOFT) {
            literals.insert(text, number);
        }
        let current = SOFT.iter().zip(FIRST_SOFT..).filter(|((_, since), _)| *since <= version);
        let soft = current.fold(0, |all, (_, number)| all | 1 << number);
        let (rules, alternatives, items) = (Vec::new(), Vec::new(), Vec::new());
        let grammar = Grammar { rules, alternatives, items, literals, names: HashMap::new(), soft };
        let mut reader = Self { grammar, version, rest: "" };
        let rules: Vec<_> = chunks(text).collect();
        for (number, (name, flags, _)) in (0_u16..).zip(&rules) {
            reader.grammar.names.insert(name, number);
            reader.grammar.rules.push(Rule {
                body: Body::Choice(0..0),
                memo: flags.contains("memo"),
                left: flags.contains("left"),
                plain: flags.contains("plain"),
                start: Start::default(),
            });
        }
        for (number, (_, _, body)) in rules.iter().enumerate() {
            reader.rest = body;
            reader.grammar.rules[number].body = reader.choice();
            assert!(reader.peek().is_empty(), "not read: {}", reader.rest);
        }
        reader.grammar.find_starts();
        reader.grammar
    }

    /// What follows, without space and comments.
    fn peek(&mut self) -> &'static str {
        loop {
            self.rest = self.rest.trim_start();
            if !self.rest.starts_with('#') {
                return self.rest;
            }
            self.rest = self.rest.split_once('\n').map_or("", |(_, rest)| rest);
        }
    }

    /// Takes some text if it follows.
    fn take(&mut self, text: &str) -> bool {
        let found = self.peek().strip_prefix(text);
        self.rest = found.unwrap_or(self.rest);
        found.is_some()
    }

    fn word(&mut self) -> &'static str {
        let rest = self.peek();
        let end = rest.find(|one: char| !one.is_alphanumeric() && one != '_').unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        self.rest = behind;
        word
    }

    /// What is between two quotes.
    fn quoted(&mut self, quote: char) -> &'static str {
        let rest = &self.peek()[1..];
        let end = rest.char_indices().find(|&(at, one)| one == quote && !rest[..at].ends_with('\\'));
        let end = end.expect("a quote ends").0;
        self.rest = &rest[end + 1..];
        &rest[..end]
    }

    fn choice(&mut self) -> Body {
        self.take("|");
        let mut read = Vec::new();
        loop {
            let fits = self.gate();
            let alternative = self.alternative();
            if fits {
                read.push(alternative);
            }
            if !self.take("|") {
                break;
            }
        }
        // Alternatives of one rule stand side by side; those of groups inside them were added before.
        let first = number(self.grammar.alternatives.len());
        self.grammar.alternatives.append(&mut read);
        Body::Choice(first..number(self.grammar.alternatives.len()))
    }

    /// Whether the versions in brackets include this one.
    fn gate(&mut self) -> bool {
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
            // What only looks ahead or commits has no value.
            let mut valued = sequence.items.iter().enumerate().filter(|(_, item)| item.has_value());
            match (valued.next(), valued.next()) {
                (Some((at, _)), None) => Action::Value(u8::try_from(at).expect("few items")),
                _ => Action::Group,
            }
        };
        let first = number(self.grammar.items.len());
        self.grammar.items.append(&mut sequence.items);
        Alternative { items: first..number(self.grammar.items.len()), invalid, action, start: Start::default() }
    }

    fn item(&mut self, labels: &mut Vec<(&'static str, u8)>, at: usize) -> Item {
        if self.take("~") {
            return Item { what: What::Cut, mode: Mode::One };
        }
        if self.take("&") {
            return Item { what: self.repeated(), mode: Mode::Ahead };
        }
        if self.take("!") {
            return Item { what: self.repeated(), mode: Mode::NotAhead };
        }
        if self.take("expect ") {
            return Item { what: self.repeated(), mode: Mode::Forced };
        }
        let before = self.peek();
        let word = self.word();
        if word.is_empty() || !self.rest.starts_with(':') {
            self.rest = before;
        } else {
            self.rest = &self.rest[1..];
            labels.push((word, u8::try_from(at).expect("few items")));
        }
        let what = self.repeated();
        if self.rest.starts_with('?') {
            self.rest = &self.rest[1..];
            return Item { what, mode: Mode::Optional };
        }
        Item { what, mode: Mode::One }
    }

    /// A primary with what says how often it occurs.
    fn repeated(&mut self) -> What {
        let what = self.primary();
        let item = Item { what, mode: Mode::One };
        if self.take("++") {
            let separator = Item { what: self.primary(), mode: Mode::One };
            return self.helper(Body::Separated { item, separator });
        }
        match self.rest.chars().next() {
            Some('*') => {
                self.rest = &self.rest[1..];
                self.helper(Body::Loop { item, least: 0 })
            }
            Some('+') => {
                self.rest = &self.rest[1..];
                self.helper(Body::Loop { item, least: 1 })
            }
            _ => what,
        }
    }

    fn primary(&mut self) -> What {
        match self.peek().chars().next() {
            Some('\'') => {
                let text = self.quoted('\'');
                let next = FIRST_LITERAL + u8::try_from(self.grammar.literals.len()).expect("few literals");
                let next = next - u8::try_from(SOFT.len()).expect("few soft keywords");
                assert!(next < 128, "a set of kinds has 128 bits");
                What::Token(*self.grammar.literals.entry(text).or_insert(next))
            }
            Some('"') => {
                let text = self.quoted('"');
                What::Token(self.grammar.literals[text])
            }
            Some('(') => {
                self.take("(");
                let body = self.choice();
                assert!(self.take(")"), "expected a parenthesis: {}", self.rest);
                self.helper(body)
            }
            _ => match self.word() {
                "NAME" => What::Name,
                "SOFT_KEYWORD" => What::Soft,
                word => match CLASSES.iter().position(|&class| class == word) {
                    Some(class) => What::Token(u8::try_from(class).expect("few classes")),
                    None => What::Rule(*self.grammar.names.get(word).unwrap_or_else(|| panic!("no rule {word:?}"))),
                },
            },
        }
    }

    /// A rule without a name.
    fn helper(&mut self, body: Body) -> What {
        let rule = Rule { body, memo: false, left: false, plain: false, start: Start::default() };
        self.grammar.rules.push(rule);
        What::Rule(number(self.grammar.rules.len()) - 1)
    }

    fn action(&mut self, sequence: &Sequence) -> Action {
        if self.take("@") {
            let function = Function::named(self.word());
            let mut labels = Vec::new();
            while self.peek().starts_with(|one: char| one.is_ascii_lowercase()) {
                labels.push(sequence.label(self.word()));
            }
            return Action::Call(function, labels);
        }
        let indentation = self.take("!!");
        if indentation || self.take("!") {
            let place = self.place(sequence);
            let message = message(self.quoted('"'), sequence);
            return Action::Raise { indentation, place, message };
        }
        let word = self.word();
        if word.starts_with(|one: char| one.is_ascii_lowercase()) {
            return Action::Value(sequence.label(word));
        }
        Action::Node(NodeKind::named(word))
    }

    fn place(&mut self, sequence: &Sequence) -> Place {
        let first = self.word();
        if !self.rest.starts_with("..") {
            return match first {
                "last" => Place::Last,
                "next" => Place::Next,
                _ => Place::Over(sequence.label(first), sequence.label(first)),
            };
        }
        self.rest = &self.rest[2..];
        let first = sequence.label(first);
        if self.rest.starts_with(' ') {
            return Place::From(first);
        }
        Place::Over(first, sequence.label(self.word()))
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
        // A brace in quotes stands for itself.
        let Some((inside, behind)) = rest.split_once('}').filter(|(inside, _)| !inside.contains('\'')) else { break };
        let (label, what) = inside.split_once('.').unwrap_or((inside, ""));
        let label = sequence.label(label);
        parts.push(Part::Text(before.replace('\\', "")));
        parts.push(match what {
            "text" => Part::Source(label),
            "line" => Part::Line(label),
            _ => Part::Described(label),
        });
        text = behind;
    }
    parts.push(Part::Text(text.replace('\\', "")));
    Message(parts)
}

/// The rules: name, flags and body.
fn chunks(text: &'static str) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let starts = text
        .match_indices('\n')
        .map(|(at, _)| at + 1)
        .filter(|&at| text[at..].starts_with(|one: char| one.is_ascii_lowercase()));
    let starts: Vec<usize> = starts.chain([text.len()]).collect();
    let bounds: Vec<_> = starts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
    bounds.into_iter().map(|chunk| {
        let (header, body) = chunk.split_once(':').expect("a rule has a colon");
        let (name, flags) = header.split_once(' ').unwrap_or((header, ""));
        (name, flags, body)
    })
}
