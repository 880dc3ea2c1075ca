//! The minimal syntax tree that error messages need: kind, token range and children of each expression.

/// The result of a match: nothing, a token or a node, packed into 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Match(u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MatchKind {
    Nothing,
    Token(usize),
    Node(usize),
}

impl Match {
    pub(super) const NOTHING: Self = Self(0);

    pub(super) fn token(number: usize) -> Self {
        Self(to_u32(number) << 1 | 1)
    }

    pub(super) fn pack(outcome: Option<Self>) -> u32 {
        outcome.map_or(u32::MAX, |value| value.0)
    }

    pub(super) fn unpack(number: u32) -> Option<Self> {
        (number != u32::MAX).then_some(Self(number))
    }

    fn node(number: usize) -> Self {
        Self((to_u32(number) + 1) << 1)
    }

    pub(super) fn kind(self) -> MatchKind {
        match (self.0, self.0 & 1) {
            (0, _) => MatchKind::Nothing,
            (number, 1) => MatchKind::Token(number as usize >> 1),
            (number, _) => MatchKind::Node((number as usize >> 1) - 1),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeKind {
    /// A sequence of values: its parent adopts its children.
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
    /// `in` and its right operand.
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

/// Each kind with its name in the grammar and in CPython's messages.
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

    /// `_PyPegen_get_expr_name`: its name in messages.
    pub(super) fn expr_name(self) -> &'static str {
        match self {
            Self::Yield => "yield expression",
            Self::Group => "expression",
            kind => KINDS.iter().find(|(other, ..)| *other == kind).map_or("expression", |(.., text)| text),
        }
    }
}

/// A node over the tokens `first..=last`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) kind: NodeKind,
    pub(super) first: u32,
    pub(super) last: u32,
    children: (u32, u32),
}

/// The nodes of the current statement.
#[derive(Debug, Default)]
pub(super) struct NodeArena {
    nodes: Vec<Node>,
    children: Vec<Match>,
}

impl NodeArena {
    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.children.clear();
    }

    /// Nodes and child entries.
    pub(super) fn len(&self) -> usize {
        self.nodes.len() + self.children.len()
    }

    /// Adds a node over `first..end`. Groups among the values are flattened; only a group has tokens as children.
    pub(super) fn push(&mut self, kind: NodeKind, first: usize, end: usize, values: &[Match]) -> Match {
        let before = self.children.len();
        for &value in values {
            match value.kind() {
                MatchKind::Nothing => {}
                MatchKind::Token(_) => {
                    if kind == NodeKind::Group {
                        self.children.push(value);
                    }
                }
                MatchKind::Node(number) if self.nodes[number].kind == NodeKind::Group => {
                    let (from, to) = self.nodes[number].children;
                    for index in from as usize..to as usize {
                        let inner = self.children[index];
                        if kind == NodeKind::Group || matches!(inner.kind(), MatchKind::Node(_)) {
                            self.children.push(inner);
                        }
                    }
                }
                MatchKind::Node(_) => self.children.push(value),
            }
        }
        let children = (to_u32(before), to_u32(self.children.len()));
        let first = to_u32(first);
        let last = to_u32(end.saturating_sub(1));
        self.nodes.push(Node { kind, first, last, children });
        Match::node(self.nodes.len() - 1)
    }

    pub(super) fn children(&self, node: Node) -> &[Match] {
        &self.children[node.children.0 as usize..node.children.1 as usize]
    }

    /// The kind of a value, if it is a node.
    pub(super) fn kind(&self, value: Match) -> Option<NodeKind> {
        match value.kind() {
            MatchKind::Node(number) => Some(self.nodes[number].kind),
            _ => None,
        }
    }

    /// The children of a value that are nodes.
    pub(super) fn child_nodes(&self, value: Match) -> Vec<Match> {
        match value.kind() {
            MatchKind::Node(number) => {
                let children = self.children(self.nodes[number]);
                children.iter().copied().filter(|child| matches!(child.kind(), MatchKind::Node(_))).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The first and last token of a value; those of a group are its children's.
    pub(super) fn span(&self, value: Match) -> (usize, usize) {
        match value.kind() {
            MatchKind::Nothing => (0, 0),
            MatchKind::Token(number) => (number, number),
            MatchKind::Node(number) => {
                let node = self.nodes[number];
                let children = self.children(node);
                match (node.kind, children.first(), children.last()) {
                    (NodeKind::Group, Some(&first), Some(&last)) => {
                        // Commas and keywords around the nodes are excluded.
                        let nodes = self.child_nodes(value);
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

fn to_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX >> 2)
}
