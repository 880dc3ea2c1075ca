//! Node columns that grow line by line.

use crate::columns::{Columns, Field, Kind};

/// Columns with spare capacity: the first `len` rows are nodes.
#[derive(Debug)]
pub(crate) struct Nodes {
    pub(crate) columns: Columns,
    pub(crate) len: usize,
}

impl Nodes {
    /// Capacity for the usual number of nodes of `tokens` tokens.
    pub(crate) fn with_capacity_for(tokens: usize) -> Self {
        let mut rows = Self { columns: Columns::default(), len: 0 };
        rows.resize(tokens + tokens / 8 + 16);
        rows
    }

    /// Doubles the capacity.
    #[cold]
    pub(crate) fn grow(&mut self) {
        self.resize(self.columns.kinds.len() * 2);
    }

    fn resize(&mut self, length: usize) {
        let columns = &mut self.columns;
        columns.kinds.resize(length, Kind::Pass);
        columns.fields.resize(length, Field::Body);
        for column in [&mut columns.parents, &mut columns.starts, &mut columns.ends, &mut columns.aux] {
            column.resize(length, 0);
        }
    }

    /// The columns without spare capacity.
    pub(crate) fn finish(mut self) -> Columns {
        self.resize(self.len);
        self.columns
    }
}
