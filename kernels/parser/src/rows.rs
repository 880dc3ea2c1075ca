//! Columns that grow line by line.

use crate::columns::{Columns, Field, Kind};

/// Columns with room: only the first `len` rows of them count so far.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) columns: Columns,
    pub(crate) len: usize,
}

impl Rows {
    /// With room for what so many tokens become as a rule.
    pub(crate) fn for_tokens(tokens: usize) -> Self {
        let mut rows = Self { columns: Columns::default(), len: 0 };
        rows.resize(tokens + tokens / 8 + 16);
        rows
    }

    /// Makes room for twice as many rows.
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

    /// The rows that count.
    pub(crate) fn finish(mut self) -> Columns {
        self.resize(self.len);
        self.columns
    }
}
