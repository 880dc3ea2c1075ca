//! Reads `python.peg` into rules for one version of Python.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::OnceLock;

use super::actions::Function;
use super::nodes::NodeKind;

/// What a token is: one of [`class`], or the number of a literal of the grammar.
pub(super) type Kind = u8;

/// The classes of tokens, in the order of [`CLASSES`].
pub(super) mod class {
    use super::Kind;

    pub(in crate::reasons) const NAME: Kind = 0;
    pub(in crate::reasons) const NUMBER: Kind = 1;
    pub(in crate::reasons) const STRING: Kind = 2;
    pub(in crate::reasons) const FSTRING_START: Kind = 3;
    pub(in crate::reasons) const FSTRING_MIDDLE: Kind = 4;
    pub(in crate::reasons) const FSTRING_END: Kind = 5;
    pub(in crate::reasons) const TSTRING_START: Kind = 6;
    pub(in crate::reasons) const TSTRING_MIDDLE: Kind = 7;
    pub(in crate::reasons) const TSTRING_END: Kind = 8;
    pub(in crate::reasons) const NEWLINE: Kind = 9;
    pub(in crate::reasons) const INDENT: Kind = 10;
    pub(in crate::reasons) const DEDENT: Kind = 11;
    pub(in crate::reasons) const END: Kind = 12;
    /// A token that no rule has.
    pub(in crate::reasons) const OTHER: Kind = 13;
}

const CLASSES: [&str; 14] = [
    "NAME",
    "NUMBER",
    "STRING",
    "FSTRING_START",
    "FSTRING_MIDDLE",
    "FSTRING_END",
    "TSTRING_START",
    "TSTRING_MIDDLE",
    "TSTRING_END",
    "NEWLINE",
    "INDENT",
    "DEDENT",
    "END",
    "OTHER",
];

/// Names that are keywords in some places, and the first version where each is.
const SOFT: [(&str, u8); 4] = [("_", 10), ("case", 10), ("match", 10), ("type", 12)];
const FIRST_SOFT: Kind = 14;
const FIRST_LITERAL: Kind = 18;

/// A set of kinds.
type Kinds = u128;

/// The kinds of names.
const NAMES: Kinds = 1 << class::NAME | ((1 << FIRST_LITERAL) - (1 << FIRST_SOFT));

/// The rules of a version.
#[derive(Debug)]
pub(super) struct Grammar {
    pub(super) rules: Vec<Rule>,
    pub(super) alternatives: Vec<Alternative>,
    pub(super) items: Vec<Item>,
    literals: HashMap<&'static str, Kind>,
    names: HashMap<&'static str, u16>,
    /// The soft keywords of this version.
    soft: Kinds,
}

#[derive(Debug)]
pub(super) struct Rule {
    pub(super) body: Body,
    pub(super) memo: bool,
    pub(super) left: bool,
    /// Rules that explain errors are not tried below it.
    pub(super) plain: bool,
    pub(super) start: Start,
}

/// What a rule or an alternative can start with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Start {
    kinds: Kinds,
    /// It may match nothing, or look at a token without taking it.
    empty: bool,
}

impl Start {
    /// Whether it may match in front of a token.
    #[inline]
    pub(super) fn admits(self, kind: Kind) -> bool {
        self.empty || self.kinds >> kind & 1 == 1
    }
}

#[derive(Debug)]
pub(super) enum Body {
    /// Alternatives, by number.
    Choice(Range<u16>),
    /// An item, so many times at least.
    Loop { item: Item, least: u16 },
    /// Items with a separator between them.
    Separated { item: Item, separator: Item },
}

#[derive(Debug)]
pub(super) struct Alternative {
    pub(super) items: Range<u16>,
    /// It is a single rule that explains errors.
    pub(super) invalid: bool,
    pub(super) action: Action,
    pub(super) start: Start,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) what: What,
    pub(super) mode: Mode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Token(Kind),
    /// Any name, soft keywords included.
    Name,
    /// A soft keyword. Before 3.14 CPython takes a name for one that only starts like one.
    Soft,
    Rule(u16),
    /// Commits to the alternative.
    Cut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    One,
    Optional,
    Ahead,
    NotAhead,
    /// Its absence is an error.
    Forced,
}

/// What an alternative that matched amounts to. Numbers are those of its items.
#[derive(Debug)]
pub(super) enum Action {
    /// A group without a kind.
    Group,
    Value(u8),
    Node(NodeKind),
    Call(Function, Vec<u8>),
    Raise {
        indentation: bool,
        place: Place,
        message: Message,
    },
}

/// Where an error is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    Over(u8, u8),
    /// Up to the last token read.
    From(u8),
    Last,
    Next,
}

/// A message with parts about items.
#[derive(Debug)]
pub(super) struct Message(pub(super) Vec<Part>);

#[derive(Debug)]
pub(super) enum Part {
    Text(String),
    Described(u8),
    Source(u8),
    Line(u8),
}

impl Item {
    fn has_value(self) -> bool {
        !matches!(self.mode, Mode::Ahead | Mode::NotAhead) && self.what != What::Cut
    }
}

impl Grammar {
    /// The rules of a minor version of Python 3.
    pub(super) fn of(version: u8) -> &'static Self {
        static GRAMMARS: [OnceLock<Grammar>; 5] = [const { OnceLock::new() }; 5];
        // The parsers of 3.8 and 3.9 are no longer maintained: theirs is the grammar of 3.13, as in its `feature_version`.
        let version = if version < 10 { 13 } else { version.min(14) };
        GRAMMARS[usize::from(version - 10)].get_or_init(|| Reader::read(include_str!("python.peg"), version))
    }

    /// The kind of a keyword, soft keyword or operator.
    pub(super) fn literal(&self, text: &str) -> Option<Kind> {
        self.literals.get(text).copied()
    }

    pub(super) fn rule(&self, name: &str) -> u16 {
        self.names[name]
    }

    /// How a literal is written.
    pub(super) fn written(&self, kind: Kind) -> &'static str {
        self.literals.iter().find(|&(_, &other)| other == kind).map_or("", |(text, _)| text)
    }

    /// Whether a kind is that of names.
    #[inline]
    pub(super) fn is_name(kind: Kind) -> bool {
        kind == class::NAME || (FIRST_SOFT..FIRST_LITERAL).contains(&kind)
    }

    #[inline]
    pub(super) fn is_soft(&self, kind: Kind) -> bool {
        self.soft >> kind & 1 == 1
    }

    /// Whether a soft keyword starts with a name.
    pub(super) fn starts_soft(&self, name: &str) -> bool {
        SOFT.iter().zip(FIRST_SOFT..).any(|((word, _), kind)| self.is_soft(kind) && word.starts_with(name))
    }

    /// Finds out what each rule can start with.
    fn find_starts(&mut self) {
        let mut changed = true;
        while changed {
            changed = false;
            for number in 0..self.alternatives.len() {
                let start = self.sequence(&self.items[range(&self.alternatives[number].items)]);
                changed |= start != self.alternatives[number].start;
                self.alternatives[number].start = start;
            }
            for number in 0..self.rules.len() {
                let start = match &self.rules[number].body {
                    Body::Choice(alternatives) => {
                        self.alternatives[range(alternatives)].iter().fold(Start::default(), |all, one| Start {
                            kinds: all.kinds | one.start.kinds,
                            empty: all.empty | one.start.empty,
                        })
                    }
                    Body::Loop { item, least } => {
                        let start = self.sequence(std::slice::from_ref(item));
                        Start { empty: start.empty || *least == 0, ..start }
                    }
                    Body::Separated { item, .. } => self.sequence(std::slice::from_ref(item)),
                };
                changed |= start != self.rules[number].start;
                self.rules[number].start = start;
            }
        }
    }

    fn sequence(&self, items: &[Item]) -> Start {
        let mut kinds = 0;
        for item in items {
            let (more, empty) = match item.what {
                What::Token(kind) => (1 << kind, false),
                What::Name | What::Soft => (NAMES, false),
                What::Rule(rule) => (self.rules[rule as usize].start.kinds, self.rules[rule as usize].start.empty),
                What::Cut => (0, true),
            };
            match item.mode {
                Mode::One if !empty => return Start { kinds: kinds | more, empty: false },
                Mode::Forced => return Start { kinds: Kinds::MAX, empty: true },
                // A lookahead decides when it comes to it.
                Mode::Ahead | Mode::NotAhead => {}
                _ => kinds |= more,
            }
        }
        Start { kinds, empty: true }
    }
}

pub(super) fn range(numbers: &Range<u16>) -> Range<usize> {
    usize::from(numbers.start)..usize::from(numbers.end)
}

/// Reads the notation.
struct Reader {
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
    fn read(text: &'static str, version: u8) -> Grammar {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_of_every_version_can_be_read() {
        for version in 8..=14 {
            let grammar = Grammar::of(version);
            assert!(grammar.rules.len() > 200, "{version}");
        }
    }

    #[test]
    fn gates_choose_alternatives_by_version() {
        let literal = |version: u8, text: &str| Grammar::of(version).literal(text).is_some();
        assert!(literal(11, "while") && literal(14, "!"));
        let count = |version: u8, rule: &str| {
            let grammar = Grammar::of(version);
            match &grammar.rules[usize::from(grammar.rule(rule))].body {
                Body::Choice(range) => range.len(),
                _ => 0,
            }
        };
        assert_eq!((count(11, "type_params"), count(12, "type_params")), (0, 2));
    }
}
