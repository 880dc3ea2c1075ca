//! The columns of trees, the tables they belong to, and a generic container with one element per column.

use std::ops::Range;

use super::{Outputs, column::Column};

/// The number of rows of each table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the count of its table")]
pub struct Counts {
    pub nodes: u32,
    pub names: u32,
    pub values: u32,
    /// In bytes.
    pub extra: u32,
    pub lines: u32,
    pub tokens: u32,
    pub comments: u32,
}

impl Counts {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            nodes: self.nodes + other.nodes,
            names: self.names + other.names,
            values: self.values + other.values,
            extra: self.extra + other.extra,
            lines: self.lines + other.lines,
            tokens: self.tokens + other.tokens,
            comments: self.comments + other.comments,
        }
    }

    pub(super) fn minus(self, other: Self) -> Self {
        let all = Outputs { tree: true, tokens: true, comments: true, outline: true, line_starts: true };
        Self::between(other, self, all)
    }

    /// The rows between two offsets, of the wanted tables.
    pub(super) fn between(from: Self, to: Self, wanted: Outputs) -> Self {
        let rows = |table: Table| if table.wanted(wanted) { table.of(to) - table.of(from) } else { 0 };
        Self {
            nodes: rows(Table::Nodes),
            names: rows(Table::Names),
            values: rows(Table::Values),
            extra: rows(Table::Extra),
            lines: rows(Table::Lines),
            tokens: rows(Table::Tokens),
            comments: rows(Table::Comments),
        }
    }
}

/// One element per column: `B` for columns of bytes, `W` for columns of 32-bit words. `accelerd_parser::columns` describes
/// the columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "described there")]
pub struct Columns<B, W> {
    pub kinds: B,
    pub fields: B,
    pub parents: W,
    pub starts: W,
    pub ends: W,
    pub aux: W,
    pub name_starts: W,
    pub name_ends: W,
    pub value_tags: B,
    pub value_starts: W,
    pub value_ends: W,
    pub extra: B,
    pub line_starts: W,
    /// Numbers of terminals plus 1.
    pub token_kinds: B,
    pub token_starts: W,
    pub token_ends: W,
    pub comment_starts: W,
    pub comment_ends: W,
}

/// The columns of consecutive sources. Kinds, fields and tags are numbers.
pub type BatchColumns = Columns<Column<u8>, Column<u32>>;

/// The table of a column: columns of one table have equal lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    Nodes,
    Names,
    Values,
    Extra,
    Lines,
    Tokens,
    Comments,
}

impl Table {
    pub(super) const ALL: [Self; 7] =
        [Self::Nodes, Self::Names, Self::Values, Self::Extra, Self::Lines, Self::Tokens, Self::Comments];

    /// Returns true if its columns are to be returned.
    pub(super) fn wanted(self, outputs: Outputs) -> bool {
        match self {
            Self::Nodes | Self::Names | Self::Values | Self::Extra => outputs.tree,
            Self::Lines => outputs.tree || outputs.line_starts,
            Self::Tokens => outputs.tokens,
            Self::Comments => outputs.comments,
        }
    }

    pub(super) fn of(self, counts: Counts) -> u32 {
        match self {
            Self::Nodes => counts.nodes,
            Self::Names => counts.names,
            Self::Values => counts.values,
            Self::Extra => counts.extra,
            Self::Lines => counts.lines,
            Self::Tokens => counts.tokens,
            Self::Comments => counts.comments,
        }
    }

    pub(super) fn rows(self, from: Counts, to: Counts) -> Range<usize> {
        self.of(from) as usize..self.of(to) as usize
    }
}

impl<B, W> Columns<B, W> {
    /// Maps each element.
    pub(super) fn map<C, V>(
        self,
        mut bytes: impl FnMut(Table, B) -> C,
        mut words: impl FnMut(Table, W) -> V,
    ) -> Columns<C, V> {
        Columns {
            kinds: bytes(Table::Nodes, self.kinds),
            fields: bytes(Table::Nodes, self.fields),
            parents: words(Table::Nodes, self.parents),
            starts: words(Table::Nodes, self.starts),
            ends: words(Table::Nodes, self.ends),
            aux: words(Table::Nodes, self.aux),
            name_starts: words(Table::Names, self.name_starts),
            name_ends: words(Table::Names, self.name_ends),
            value_tags: bytes(Table::Values, self.value_tags),
            value_starts: words(Table::Values, self.value_starts),
            value_ends: words(Table::Values, self.value_ends),
            extra: bytes(Table::Extra, self.extra),
            line_starts: words(Table::Lines, self.line_starts),
            token_kinds: bytes(Table::Tokens, self.token_kinds),
            token_starts: words(Table::Tokens, self.token_starts),
            token_ends: words(Table::Tokens, self.token_ends),
            comment_starts: words(Table::Comments, self.comment_starts),
            comment_ends: words(Table::Comments, self.comment_ends),
        }
    }

    pub(super) fn zip<C, V>(self, other: Columns<C, V>) -> Columns<(B, C), (W, V)> {
        Columns {
            kinds: (self.kinds, other.kinds),
            fields: (self.fields, other.fields),
            parents: (self.parents, other.parents),
            starts: (self.starts, other.starts),
            ends: (self.ends, other.ends),
            aux: (self.aux, other.aux),
            name_starts: (self.name_starts, other.name_starts),
            name_ends: (self.name_ends, other.name_ends),
            value_tags: (self.value_tags, other.value_tags),
            value_starts: (self.value_starts, other.value_starts),
            value_ends: (self.value_ends, other.value_ends),
            extra: (self.extra, other.extra),
            line_starts: (self.line_starts, other.line_starts),
            token_kinds: (self.token_kinds, other.token_kinds),
            token_starts: (self.token_starts, other.token_starts),
            token_ends: (self.token_ends, other.token_ends),
            comment_starts: (self.comment_starts, other.comment_starts),
            comment_ends: (self.comment_ends, other.comment_ends),
        }
    }
}
