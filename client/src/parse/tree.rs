//! Tree view of the columns: a node per row, children indexed by parent.

use std::{fmt, ops::Range, sync::OnceLock};

use super::{
    Lines, Literal, Position,
    columns::{Columns, Rows, bytes_at},
    literal,
    schema::{self, Aux},
};
use crate::proto::{NodeField, NodeKind, Operator};

/// `parent` or `aux` without a value.
pub(super) const NONE: u32 = u32::MAX;

/// The tree of one source, a view of the columns. The first access to children sorts the rows by parent.
pub struct Tree<'a> {
    text: &'a [u8],
    extra: &'a [u8],
    kinds: &'a [u8],
    fields: &'a [u8],
    parents: &'a [u32],
    starts: &'a [u32],
    ends: &'a [u32],
    aux: &'a [u32],
    names: [&'a [u32]; 2],
    value_tags: &'a [u8],
    values: [&'a [u32]; 2],
    lines: Lines<'a>,
    children: OnceLock<Children>,
}

/// Index of children by parent.
#[derive(Debug)]
struct Children {
    /// Start of each row's children in `rows`, followed by the start of the module's children and their end.
    starts: Vec<u32>,
    rows: Vec<u32>,
}

/// Context of an expression, as in CPython's `ast.expr_context`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// The expression is read.
    Load,
    /// The expression is assigned to.
    Store,
    /// The expression is deleted.
    Del,
}

impl fmt::Debug for Tree<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Tree[{} nodes]", self.len())
    }
}

impl<'a> Tree<'a> {
    pub(super) fn new(text: &'a [u8], columns: &'a Columns, rows: &'a Rows<Range<usize>>, lines: Lines<'a>) -> Self {
        let nodes = &rows.nodes;
        Self {
            text,
            extra: bytes_at(&columns.extra, &rows.extra),
            kinds: bytes_at(&columns.kinds, nodes),
            fields: bytes_at(&columns.fields, nodes),
            parents: columns.parents.at(nodes),
            starts: columns.starts.at(nodes),
            ends: columns.ends.at(nodes),
            aux: columns.aux.at(nodes),
            names: columns.names.each_ref().map(|column| column.at(&rows.names)),
            value_tags: bytes_at(&columns.value_tags, &rows.values),
            values: columns.values.each_ref().map(|column| column.at(&rows.values)),
            lines,
            children: OnceLock::new(),
        }
    }

    /// Number of nodes, without the module.
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Returns true if the module is empty.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Node at a row; `None` if out of bounds.
    pub fn node(&self, row: usize) -> Option<Node<'_>> {
        (row < self.len()).then_some(Node { tree: self, row })
    }

    /// All nodes by logical line; in a line children precede their parents.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = Node<'_>> {
        (0..self.len()).map(|row| Node { tree: self, row })
    }

    /// Statements of the module.
    pub fn body(&self) -> impl ExactSizeIterator<Item = Node<'_>> {
        self.children_of(self.len())
    }

    /// Lines of the source.
    pub fn lines(&self) -> &Lines<'a> {
        &self.lines
    }

    /// Children of a row, or of the module if the row is one past the last.
    pub(super) fn children_of(&self, row: usize) -> impl ExactSizeIterator<Item = Node<'_>> {
        let children = self.children.get_or_init(|| Children::of(self.parents));
        let range = children.starts[row] as usize..children.starts[row + 1] as usize;
        children.rows[range].iter().map(|row| Node { tree: self, row: *row as usize })
    }

    /// Slice of the text followed by `extra`.
    fn written(&self, [starts, ends]: &[&'a [u32]; 2], index: u32) -> Option<&'a [u8]> {
        let start = *starts.get(index as usize)? as usize;
        let end = *ends.get(index as usize)? as usize;
        let length = self.text.len();
        if start < length {
            self.text.get(start..end)
        } else {
            self.extra.get(start - length..end.checked_sub(length)?)
        }
    }

    pub(super) fn name(&self, index: u32) -> Option<&'a str> {
        std::str::from_utf8(self.written(&self.names, index)?).ok()
    }

    pub(super) fn literal(&self, index: u32) -> Option<Literal<'a>> {
        literal::singleton(index).or_else(|| {
            let tag = *self.value_tags.get(index as usize)?;
            literal::parse(tag, self.written(&self.values, index)?)
        })
    }
}

impl Children {
    /// Counting sort of the rows by parent. Rows with an invalid parent are in no list.
    fn of(parents: &[u32]) -> Self {
        let module = parents.len();
        let place = |parent: u32| if parent == NONE { module } else { (parent as usize).min(module + 1) };
        let mut starts = vec![0_u32; module + 3];
        for parent in parents {
            starts[place(*parent) + 1] += 1;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        let mut next = starts.clone();
        let mut rows = vec![0; module];
        for (row, parent) in (0..).zip(parents) {
            let slot = &mut next[place(*parent)];
            rows[*slot as usize] = row;
            *slot += 1;
        }
        Self { starts, rows }
    }
}

/// A node of a tree.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    tree: &'a Tree<'a>,
    row: usize,
}

impl fmt::Debug for Node<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}@{:?}", schema::class(self.kind()), self.span())
    }
}

impl PartialEq for Node<'_> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.tree, other.tree) && self.row == other.row
    }
}

impl<'a> Node<'a> {
    /// Row in the columns.
    pub fn row(self) -> usize {
        self.row
    }

    /// Kind; `Unspecified` if this crate does not know it.
    pub fn kind(self) -> NodeKind {
        NodeKind::try_from(i32::from(self.tree.kinds[self.row])).unwrap_or_default()
    }

    /// Name of the class in CPython's `ast`.
    pub fn class(self) -> &'static str {
        schema::class(self.kind())
    }

    /// Field of the parent, or of the parent's `arguments`, that holds the node.
    pub fn field(self) -> NodeField {
        NodeField::try_from(i32::from(self.tree.fields[self.row])).unwrap_or_default()
    }

    /// Parent; `None` for a statement of the module.
    pub fn parent(self) -> Option<Self> {
        self.tree.node(self.tree.parents[self.row] as usize)
    }

    /// Children in the order of their rows. Children in one field are in order; fields are interleaved.
    pub fn children(self) -> impl ExactSizeIterator<Item = Node<'a>> {
        self.tree.children_of(self.row)
    }

    /// Children in a field, in order.
    pub fn children_in(self, field: NodeField) -> impl Iterator<Item = Node<'a>> {
        self.children().filter(move |child| child.field() == field)
    }

    /// First child in a field.
    pub fn child(self, field: NodeField) -> Option<Node<'a>> {
        self.children_in(field).next()
    }

    /// Range of bytes in the text.
    pub fn span(self) -> Range<usize> {
        self.tree.starts[self.row] as usize..self.tree.ends[self.row] as usize
    }

    /// Text of the node.
    pub fn text(self) -> &'a [u8] {
        self.tree.text.get(self.span()).unwrap_or_default()
    }

    /// Position of the start.
    pub fn start(self) -> Position {
        self.tree.lines.position(self.span().start)
    }

    /// Position of the end.
    pub fn end(self) -> Position {
        self.tree.lines.position(self.span().end)
    }

    /// The column `aux`, whose meaning depends on the kind (see `proto::ParseResponse`).
    pub fn aux(self) -> u32 {
        self.tree.aux[self.row]
    }

    /// Name of a variable, attribute, function, class, argument or capture pattern.
    pub fn name(self) -> Option<&'a str> {
        let aux = self.aux();
        match schema::aux(self.kind()) {
            Aux::NameAndContext => self.tree.name(aux >> 2),
            Aux::Name => self.tree.name(aux),
            Aux::Context | Aux::Operator | Aux::Literal | Aux::Other => None,
        }
    }

    /// Context of an expression.
    pub fn context(self) -> Option<Context> {
        let contexts = [Context::Load, Context::Store, Context::Del];
        let has_one = matches!(schema::aux(self.kind()), Aux::NameAndContext | Aux::Context);
        has_one.then(|| contexts.get((self.aux() & 3) as usize).copied()).flatten()
    }

    /// Operator of a BoolOp, BinOp, UnaryOp, AugAssign or CompareOp.
    pub fn operator(self) -> Option<Operator> {
        let number = (schema::aux(self.kind()) == Aux::Operator).then(|| i32::try_from(self.aux()));
        number?.ok().and_then(|number| Operator::try_from(number).ok())
    }

    /// Value of a Constant or MatchSingleton.
    pub fn literal(self) -> Option<Literal<'a>> {
        let has_one = schema::aux(self.kind()) == Aux::Literal;
        has_one.then(|| self.tree.literal(self.aux())).flatten()
    }
}
