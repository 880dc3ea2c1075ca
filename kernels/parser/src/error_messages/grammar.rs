//! The rules of `python.peg` for one version of Python.

use std::collections::HashMap;
use std::ops::Range;

use super::node_arena::NodeKind;

/// The kind of a token: one of [`class`], or the number of a keyword or operator.
pub(super) type TokenKind = u8;

/// Token classes, in the order of [`CLASSES`].
pub(super) mod class {
    use super::TokenKind;

    pub(in crate::error_messages) const NAME: TokenKind = 0;
    pub(in crate::error_messages) const NUMBER: TokenKind = 1;
    pub(in crate::error_messages) const STRING: TokenKind = 2;
    pub(in crate::error_messages) const FSTRING_START: TokenKind = 3;
    pub(in crate::error_messages) const FSTRING_MIDDLE: TokenKind = 4;
    pub(in crate::error_messages) const FSTRING_END: TokenKind = 5;
    pub(in crate::error_messages) const TSTRING_START: TokenKind = 6;
    pub(in crate::error_messages) const TSTRING_MIDDLE: TokenKind = 7;
    pub(in crate::error_messages) const TSTRING_END: TokenKind = 8;
    pub(in crate::error_messages) const NEWLINE: TokenKind = 9;
    pub(in crate::error_messages) const INDENT: TokenKind = 10;
    pub(in crate::error_messages) const DEDENT: TokenKind = 11;
    pub(in crate::error_messages) const END: TokenKind = 12;
    /// A token that occurs in no rule: CPython's ERRORTOKEN.
    pub(in crate::error_messages) const OTHER: TokenKind = 13;
}

pub(super) const CLASSES: [&str; 14] = [
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

/// The soft keywords, each with the first minor version that has it.
pub(super) const SOFT: [(&str, u8); 4] = [("_", 10), ("case", 10), ("match", 10), ("type", 12)];
pub(super) const FIRST_SOFT: TokenKind = 14;
pub(super) const FIRST_LITERAL: TokenKind = 18;

type KindSet = u128;

/// Names and soft keywords.
const NAMES: KindSet = 1 << class::NAME | ((1 << FIRST_LITERAL) - (1 << FIRST_SOFT));

#[derive(Debug)]
pub(super) struct Grammar {
    pub(super) rules: Vec<Rule>,
    pub(super) alternatives: Vec<Alternative>,
    pub(super) items: Vec<Item>,
    pub(super) literals: HashMap<&'static str, TokenKind>,
    pub(super) names: HashMap<&'static str, u16>,
    /// The soft keywords of this version.
    pub(super) soft: KindSet,
}

#[derive(Debug)]
pub(super) struct Rule {
    pub(super) body: Body,
    pub(super) memo: bool,
    pub(super) left: bool,
    /// `invalid_` rules are not tried below it.
    pub(super) plain: bool,
    pub(super) start: FirstSet,
}

/// The tokens that a rule or an alternative can start with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FirstSet {
    kinds: KindSet,
    /// It may match without consuming a token.
    empty: bool,
}

impl FirstSet {
    /// Returns true if it may match before this lookahead.
    #[inline]
    pub(super) fn admits(self, kind: TokenKind) -> bool {
        self.empty || self.kinds >> kind & 1 == 1
    }
}

#[derive(Debug)]
pub(super) enum Body {
    /// A range of alternatives.
    Choice(Range<u16>),
    /// `item*` or `item+`: at least `min` times.
    Repeat { item: Item, min: u16 },
    /// `separator.item+`.
    Gather { item: Item, separator: Item },
}

#[derive(Debug)]
pub(super) struct Alternative {
    pub(super) items: Range<u16>,
    /// It is a single `invalid_` rule.
    pub(super) invalid: bool,
    pub(super) action: Action,
    pub(super) start: FirstSet,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) symbol: Symbol,
    pub(super) mode: ItemMode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Symbol {
    Token(TokenKind),
    /// Any name, soft keywords included.
    Name,
    /// A soft keyword. CPython before 3.14 also accepts a name that is a prefix of one.
    SoftKeyword,
    Rule(u16),
    /// Commits to the alternative.
    Cut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemMode {
    Required,
    Optional,
    Lookahead,
    NegativeLookahead,
    /// `&&item`: its absence is an error.
    Forced,
}

/// The action of an alternative. Numbers are indices of its items.
#[derive(Debug)]
pub(super) enum Action {
    /// All items, without a node kind.
    Group,
    Value(u8),
    Node(NodeKind),
    Call(Helper, Vec<u8>),
    Raise {
        indentation: bool,
        place: ErrorPlace,
        message: Message,
    },
}

/// An action helper, written `@name` in the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Helper {
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

const HELPERS: [(&str, Helper); 21] = [
    ("assigned", Helper::Assigned),
    ("looped", Helper::Looped),
    ("deleted", Helper::Deleted),
    ("real", Helper::Real),
    ("imaginary", Helper::Imaginary),
    ("number", Helper::Number),
    ("string", Helper::String),
    ("strings", Helper::Strings),
    ("strings_with_fields", Helper::StringsWithFields),
    ("fstring", Helper::Fstring),
    ("missing_comma", Helper::MissingComma),
    ("legacy", Helper::Legacy),
    ("bound_of_tuple", Helper::BoundOfTuple),
    ("bound_of_spec", Helper::BoundOfSpec),
    ("field", Helper::Field),
    ("conversion", Helper::Conversion),
    ("mixed_template", Helper::MixedTemplate),
    ("missing_value", Helper::MissingValue),
    ("generator", Helper::Generator),
    ("generator_in_call", Helper::GeneratorInCall),
    ("positional_after_keyword", Helper::PositionalAfterKeyword),
];

impl Helper {
    pub(super) fn named(name: &str) -> Self {
        HELPERS.iter().find(|(other, _)| *other == name).unwrap_or_else(|| panic!("no helper {name:?}")).1
    }
}

/// Where an error is raised: CPython's `RAISE_ERROR_*` variants.
#[derive(Clone, Copy, Debug)]
pub(super) enum ErrorPlace {
    /// `KNOWN_RANGE`.
    Range(u8, u8),
    /// `STARTING_FROM`: up to the last token fetched.
    StartingFrom(u8),
    /// The last token fetched.
    LastToken,
    NextToken,
}

/// A message with placeholders for items.
#[derive(Debug)]
pub(super) struct Message(pub(super) Vec<MessagePart>);

#[derive(Debug)]
pub(super) enum MessagePart {
    Text(String),
    ExprName(u8),
    Source(u8),
    Line(u8),
}

impl Item {
    pub(super) fn has_value(self) -> bool {
        !matches!(self.mode, ItemMode::Lookahead | ItemMode::NegativeLookahead) && self.symbol != Symbol::Cut
    }
}

impl Grammar {
    /// The kind of a keyword, soft keyword or operator.
    pub(super) fn literal(&self, text: &str) -> Option<TokenKind> {
        self.literals.get(text).copied()
    }

    pub(super) fn rule(&self, name: &str) -> u16 {
        self.names[name]
    }

    /// The spelling of a keyword or operator.
    pub(super) fn spelling(&self, kind: TokenKind) -> &'static str {
        self.literals.iter().find(|&(_, &other)| other == kind).map_or("", |(text, _)| text)
    }

    /// Returns true if a token is a name or a soft keyword.
    #[inline]
    pub(super) fn is_name(kind: TokenKind) -> bool {
        kind == class::NAME || (FIRST_SOFT..FIRST_LITERAL).contains(&kind)
    }

    #[inline]
    pub(super) fn is_soft(&self, kind: TokenKind) -> bool {
        self.soft >> kind & 1 == 1
    }

    /// Returns true if a name is a prefix of a soft keyword.
    pub(super) fn starts_soft(&self, name: &str) -> bool {
        SOFT.iter().zip(FIRST_SOFT..).any(|((word, _), kind)| self.is_soft(kind) && word.starts_with(name))
    }

    /// Computes FIRST of all rules and alternatives as a fixed point.
    pub(super) fn compute_first_sets(&mut self) {
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
                        self.alternatives[range(alternatives)].iter().fold(FirstSet::default(), |all, alternative| {
                            FirstSet {
                                kinds: all.kinds | alternative.start.kinds,
                                empty: all.empty | alternative.start.empty,
                            }
                        })
                    }
                    Body::Repeat { item, min } => {
                        let start = self.sequence(std::slice::from_ref(item));
                        FirstSet { empty: start.empty || *min == 0, ..start }
                    }
                    Body::Gather { item, .. } => self.sequence(std::slice::from_ref(item)),
                };
                changed |= start != self.rules[number].start;
                self.rules[number].start = start;
            }
        }
    }

    fn sequence(&self, items: &[Item]) -> FirstSet {
        let mut kinds = 0;
        for item in items {
            let (more, empty) = match item.symbol {
                Symbol::Token(kind) => (1 << kind, false),
                Symbol::Name | Symbol::SoftKeyword => (NAMES, false),
                Symbol::Rule(rule) => (self.rules[rule as usize].start.kinds, self.rules[rule as usize].start.empty),
                Symbol::Cut => (0, true),
            };
            match item.mode {
                ItemMode::Required if !empty => return FirstSet { kinds: kinds | more, empty: false },
                ItemMode::Forced => return FirstSet { kinds: KindSet::MAX, empty: true },
                // A lookahead is evaluated when it is reached.
                ItemMode::Lookahead | ItemMode::NegativeLookahead => {}
                _ => kinds |= more,
            }
        }
        FirstSet { kinds, empty: true }
    }
}

pub(super) fn range(numbers: &Range<u16>) -> Range<usize> {
    usize::from(numbers.start)..usize::from(numbers.end)
}
