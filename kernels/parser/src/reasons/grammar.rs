//! The rules of `python.peg` for one version of Python.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::OnceLock;

use super::actions::Function;
use super::nodes::NodeKind;
use reader::Reader;

mod reader;

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
    /// An item, at least this many times.
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
