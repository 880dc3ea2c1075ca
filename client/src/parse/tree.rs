//! A tree over its columns: nodes in rows, children by parent.

use std::{fmt, ops::Range, sync::OnceLock};

use super::{
    Lines, Literal, Position,
    batch::{Columns, Rows, part},
    dump::{self, DumpOptions},
    literal,
    schema::{self, Aux},
};
use crate::proto::{NodeField, NodeKind, Operator};

/// No parent, no name, no conversion.
pub(super) const NONE: u32 = u32::MAX;

/// The tree of one source. Making one costs nothing; asking for children the first time sorts its rows by parent.
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

/// The rows of each parent's children.
#[derive(Debug)]
struct Children {
    /// Where the children of each row start in `rows`, then those of the module, then where they end.
    starts: Vec<u32>,
    rows: Vec<u32>,
}

/// What an expression is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// Its value is read.
    Load,
    /// It is assigned to.
    Store,
    /// It is deleted.
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
            extra: part(&columns.extra, &rows.extra),
            kinds: part(&columns.kinds, nodes),
            fields: part(&columns.fields, nodes),
            parents: columns.parents.part(nodes),
            starts: columns.starts.part(nodes),
            ends: columns.ends.part(nodes),
            aux: columns.aux.part(nodes),
            names: columns.names.each_ref().map(|column| column.part(&rows.names)),
            value_tags: part(&columns.value_tags, &rows.values),
            values: columns.values.each_ref().map(|column| column.part(&rows.values)),
            lines,
            children: OnceLock::new(),
        }
    }

    /// How many nodes it has; the module is none.
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Whether the module is empty.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// One node; `None` past the last.
    pub fn node(&self, row: usize) -> Option<Node<'_>> {
        (row < self.len()).then_some(Node { tree: self, row })
    }

    /// Every node: by logical line, in a line children before their parents.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = Node<'_>> {
        (0..self.len()).map(|row| Node { tree: self, row })
    }

    /// The statements of the module.
    pub fn body(&self) -> impl ExactSizeIterator<Item = Node<'_>> {
        self.children_of(self.len())
    }

    /// Its lines.
    pub fn lines(&self) -> &Lines<'a> {
        &self.lines
    }

    /// The tree as `ast.dump` writes it.
    pub fn dump(&self, options: &DumpOptions) -> String {
        dump::dump(self, options)
    }

    /// The children of a row, or of the module where the row is behind the last.
    pub(super) fn children_of(&self, row: usize) -> impl ExactSizeIterator<Item = Node<'_>> {
        let children = self.children.get_or_init(|| Children::of(self.parents));
        let range = children.starts[row] as usize..children.starts[row + 1] as usize;
        children.rows[range].iter().map(|row| Node { tree: self, row: *row as usize })
    }

    /// A slice of the text followed by `extra`; empty where it lies outside.
    fn written(&self, [starts, ends]: &[&'a [u32]; 2], at: u32) -> Option<&'a [u8]> {
        let (start, end) = (*starts.get(at as usize)? as usize, *ends.get(at as usize)? as usize);
        let length = self.text.len();
        if start < length {
            self.text.get(start..end)
        } else {
            self.extra.get(start - length..end.checked_sub(length)?)
        }
    }

    pub(super) fn name(&self, at: u32) -> Option<&'a str> {
        std::str::from_utf8(self.written(&self.names, at)?).ok()
    }

    pub(super) fn literal(&self, at: u32) -> Option<Literal<'a>> {
        literal::plain(at).or_else(|| {
            let tag = *self.value_tags.get(at as usize)?;
            literal::written(tag, self.written(&self.values, at)?)
        })
    }
}

impl Children {
    /// Sorts rows by parent, by counting. A parent that is no row has no children here.
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
            let at = &mut next[place(*parent)];
            rows[*at as usize] = row;
            *at += 1;
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
    /// Its row in the columns.
    pub fn row(self) -> usize {
        self.row
    }

    /// What it is; `Unspecified` where this crate does not know it.
    pub fn kind(self) -> NodeKind {
        NodeKind::try_from(i32::from(self.tree.kinds[self.row])).unwrap_or_default()
    }

    /// The name of its class in CPython's `ast`.
    pub fn class(self) -> &'static str {
        schema::class(self.kind())
    }

    /// Which field of its parent it is in, or of its parent's `arguments`.
    pub fn field(self) -> NodeField {
        NodeField::try_from(i32::from(self.tree.fields[self.row])).unwrap_or_default()
    }

    /// Its parent; `None` for a statement of the module.
    pub fn parent(self) -> Option<Self> {
        self.tree.node(self.tree.parents[self.row] as usize)
    }

    /// Its children in the order of their rows: fields are mixed, those of one field are in order.
    pub fn children(self) -> impl ExactSizeIterator<Item = Node<'a>> {
        self.tree.children_of(self.row)
    }

    /// The children of one field, in order.
    pub fn children_in(self, field: NodeField) -> impl Iterator<Item = Node<'a>> {
        self.children().filter(move |child| child.field() == field)
    }

    /// The first child of a field.
    pub fn child(self, field: NodeField) -> Option<Node<'a>> {
        self.children_in(field).next()
    }

    /// Bytes of the source.
    pub fn span(self) -> Range<usize> {
        self.tree.starts[self.row] as usize..self.tree.ends[self.row] as usize
    }

    /// What stands there.
    pub fn text(self) -> &'a [u8] {
        self.tree.text.get(self.span()).unwrap_or_default()
    }

    /// Where it starts.
    pub fn start(self) -> Position {
        self.tree.lines.position(self.span().start)
    }

    /// Where it ends.
    pub fn end(self) -> Position {
        self.tree.lines.position(self.span().end)
    }

    /// What its kind keeps in `aux`, as the protocol says.
    pub fn aux(self) -> u32 {
        self.tree.aux[self.row]
    }

    /// Its name: a variable's, an attribute's, a function's, an argument's, a captured pattern's.
    pub fn name(self) -> Option<&'a str> {
        let aux = self.aux();
        match schema::aux(self.kind()) {
            Aux::NameAndContext => self.tree.name(aux >> 2),
            Aux::Name => self.tree.name(aux),
            Aux::Context | Aux::Operator | Aux::Literal | Aux::Other => None,
        }
    }

    /// What an expression is there for.
    pub fn context(self) -> Option<Context> {
        let contexts = [Context::Load, Context::Store, Context::Del];
        let has_one = matches!(schema::aux(self.kind()), Aux::NameAndContext | Aux::Context);
        has_one.then(|| contexts.get((self.aux() & 3) as usize).copied()).flatten()
    }

    /// The operator of a BoolOp, BinOp, UnaryOp, AugAssign or CompareOp.
    pub fn operator(self) -> Option<Operator> {
        let number = (schema::aux(self.kind()) == Aux::Operator).then(|| i32::try_from(self.aux()));
        number?.ok().and_then(|number| Operator::try_from(number).ok())
    }

    /// The value of a Constant or MatchSingleton.
    pub fn literal(self) -> Option<Literal<'a>> {
        let has_one = schema::aux(self.kind()) == Aux::Literal;
        has_one.then(|| self.tree.literal(self.aux())).flatten()
    }
}
