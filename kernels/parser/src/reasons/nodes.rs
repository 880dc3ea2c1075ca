//! The little of a tree that errors are about: what each expression is, where it stands and what it consists of.

/// What a rule left: nothing, a token or a node, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Value(u32);

/// What a [`Value`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Is {
    Nothing,
    Token(usize),
    Node(usize),
}

impl Value {
    pub(super) const NOTHING: Self = Self(0);

    pub(super) fn token(number: usize) -> Self {
        Self(small(number) << 1 | 1)
    }

    /// An outcome as one number.
    pub(super) fn pack(outcome: Option<Self>) -> u32 {
        outcome.map_or(u32::MAX, |value| value.0)
    }

    pub(super) fn unpack(number: u32) -> Option<Self> {
        (number != u32::MAX).then_some(Self(number))
    }

    fn node(number: usize) -> Self {
        Self((small(number) + 1) << 1)
    }

    pub(super) fn is(self) -> Is {
        match (self.0, self.0 & 1) {
            (0, _) => Is::Nothing,
            (number, 1) => Is::Token(number as usize >> 1),
            (number, _) => Is::Node((number as usize >> 1) - 1),
        }
    }
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeKind {
    /// Values of no kind: whoever holds a group holds what is in it.
    Group,
    Arguments,
    Attribute,
    Await,
    Call,
    Compare,
    Comprehension,
    Dict,
    DictComp,
    Ellipsis,
    FString,
    False,
    GeneratorExp,
    IfExp,
    /// `in` and what it compares with.
    In,
    Keyword,
    KeywordUnpacking,
    Lambda,
    List,
    ListComp,
    Name,
    NamedExpr,
    None,
    Literal,
    Operation,
    Parameter,
    Pattern,
    Set,
    SetComp,
    Slice,
    Starred,
    Statement,
    Subscript,
    Template,
    True,
    Tuple,
    Yield,
}

/// Each kind with the name that the grammar has for it, and the one that CPython's messages have.
const KINDS: [(NodeKind, &str, &str); 35] = [
    (NodeKind::Arguments, "Arguments", "function call"),
    (NodeKind::Attribute, "Attribute", "attribute"),
    (NodeKind::Await, "Await", "await expression"),
    (NodeKind::Call, "Call", "function call"),
    (NodeKind::Compare, "Compare", "comparison"),
    (NodeKind::Comprehension, "Comprehension", "expression"),
    (NodeKind::Dict, "Dict", "dict literal"),
    (NodeKind::DictComp, "DictComp", "dict comprehension"),
    (NodeKind::Ellipsis, "Ellipsis", "ellipsis"),
    (NodeKind::FString, "FString", "f-string expression"),
    (NodeKind::False, "False", "False"),
    (NodeKind::GeneratorExp, "GeneratorExp", "generator expression"),
    (NodeKind::IfExp, "IfExp", "conditional expression"),
    (NodeKind::In, "In", "comparison"),
    (NodeKind::Keyword, "Keyword", "keyword"),
    (NodeKind::KeywordUnpacking, "KeywordUnpacking", "keyword"),
    (NodeKind::Lambda, "Lambda", "lambda"),
    (NodeKind::List, "List", "list"),
    (NodeKind::ListComp, "ListComp", "list comprehension"),
    (NodeKind::Literal, "Literal", "literal"),
    (NodeKind::Name, "Name", "name"),
    (NodeKind::NamedExpr, "NamedExpr", "named expression"),
    (NodeKind::None, "None", "None"),
    (NodeKind::Operation, "Operation", "expression"),
    (NodeKind::Parameter, "Parameter", "parameter"),
    (NodeKind::Pattern, "Pattern", "pattern"),
    (NodeKind::Set, "Set", "set display"),
    (NodeKind::SetComp, "SetComp", "set comprehension"),
    (NodeKind::Slice, "Slice", "slice"),
    (NodeKind::Starred, "Starred", "starred"),
    (NodeKind::Statement, "Statement", "statement"),
    (NodeKind::Subscript, "Subscript", "subscript"),
    (NodeKind::Template, "Template", "t-string expression"),
    (NodeKind::True, "True", "True"),
    (NodeKind::Tuple, "Tuple", "tuple"),
];

impl NodeKind {
    pub(super) fn named(name: &str) -> Self {
        if name == "Yield" {
            return Self::Yield;
        }
        KINDS.iter().find(|(_, other, _)| *other == name).unwrap_or_else(|| panic!("no kind of node {name:?}")).0
    }

    /// What CPython's messages call it.
    pub(super) fn described(self) -> &'static str {
        match self {
            Self::Yield => "yield expression",
            Self::Group => "expression",
            kind => KINDS.iter().find(|(other, ..)| *other == kind).map_or("expression", |(.., text)| text),
        }
    }
}

/// A node over the tokens from `first` up to and including `last`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) kind: NodeKind,
    pub(super) first: u32,
    pub(super) last: u32,
    children: (u32, u32),
}

/// The nodes that were made so far.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    nodes: Vec<Node>,
    children: Vec<Value>,
}

impl Nodes {
    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.children.clear();
    }

    /// How much is kept.
    pub(super) fn len(&self) -> usize {
        self.nodes.len() + self.children.len()
    }

    /// Makes a node; groups among the values become what is in them, and tokens no children unless in a group.
    pub(super) fn push(&mut self, kind: NodeKind, first: usize, end: usize, values: &[Value]) -> Value {
        let before = self.children.len();
        for &value in values {
            match value.is() {
                Is::Nothing => {}
                Is::Token(_) => {
                    if kind == NodeKind::Group {
                        self.children.push(value);
                    }
                }
                Is::Node(number) if self.nodes[number].kind == NodeKind::Group => {
                    let (from, to) = self.nodes[number].children;
                    for at in from as usize..to as usize {
                        let inner = self.children[at];
                        if kind == NodeKind::Group || matches!(inner.is(), Is::Node(_)) {
                            self.children.push(inner);
                        }
                    }
                }
                Is::Node(_) => self.children.push(value),
            }
        }
        let children = (small(before), small(self.children.len()));
        let (first, last) = (small(first), small(end.saturating_sub(1)));
        self.nodes.push(Node { kind, first, last, children });
        Value::node(self.nodes.len() - 1)
    }

    pub(super) fn children(&self, node: Node) -> &[Value] {
        &self.children[node.children.0 as usize..node.children.1 as usize]
    }

    /// The kind of a value, if it is a node.
    pub(super) fn kind(&self, value: Value) -> Option<NodeKind> {
        match value.is() {
            Is::Node(number) => Some(self.nodes[number].kind),
            _ => None,
        }
    }

    /// The nodes in a value.
    pub(super) fn inside(&self, value: Value) -> Vec<Value> {
        match value.is() {
            Is::Node(number) => {
                let children = self.children(self.nodes[number]);
                children.iter().copied().filter(|one| matches!(one.is(), Is::Node(_))).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The first and last token of a value. A group's are those of what is in it.
    pub(super) fn span(&self, value: Value) -> (usize, usize) {
        match value.is() {
            Is::Nothing => (0, 0),
            Is::Token(number) => (number, number),
            Is::Node(number) => {
                let node = self.nodes[number];
                let children = self.children(node);
                match (node.kind, children.first(), children.last()) {
                    (NodeKind::Group, Some(&first), Some(&last)) => {
                        // Commas and keywords around nodes are no part of what an error is about.
                        let nodes = self.inside(value);
                        let first = nodes.first().copied().unwrap_or(first);
                        let last = nodes.last().copied().unwrap_or(last);
                        (self.span(first).0, self.span(last).1)
                    }
                    _ => (node.first as usize, node.last as usize),
                }
            }
        }
    }
}

fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX >> 2)
}
