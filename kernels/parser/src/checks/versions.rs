//! Syntax that older versions lack, as `ast.parse(feature_version=...)` rejects it.

use super::{Checker, Result};
use crate::columns::{Field, Kind};
use crate::tokens::Terminal;

impl Checker<'_> {
    /// Rejects a node that the version lacks.
    pub(super) fn version(&self, row: usize) -> Result<()> {
        let (needed, what) = match (self.kind(row), self.columns.fields[row]) {
            (_, Field::TypeParams) if self.has_default(row) => (13, "Type parameter defaults are"),
            (_, Field::TypeParams) => (12, "Type parameter lists are"),
            (_, Field::Posonlyargs) => (8, "Positional-only parameters are"),
            (Kind::NamedExpr, _) => (8, "Assignment expressions are"),
            (Kind::Match, _) => (10, "Pattern matching is"),
            (Kind::TypeAlias, _) => (12, "Type statement is"),
            (Kind::ExceptHandler, _) if self.kind(self.parent(row)) == Kind::TryStar => (11, "Exception groups are"),
            (Kind::TemplateStr, _) => (14, "t-strings are"),
            (Kind::Tuple, Field::Type) if self.is_bare(row) => (14, "except expressions without parentheses are"),
            _ => return Ok(()),
        };
        if self.options.feature_version >= needed {
            return Ok(());
        }
        Err(self.error(row, format!("{what} only supported in Python 3.{needed} and greater")))
    }

    /// Returns true if a tuple has no parentheses: an opening one at its start closes before its end.
    fn is_bare(&self, row: usize) -> bool {
        let start = self.columns.starts[row];
        let end = self.columns.ends[row];
        let first = self.tokens.starts.partition_point(|&place| place < start);
        let mut depth = 0_usize;
        for (kind, &token_end) in self.tokens.kinds[first..].iter().zip(&self.tokens.ends[first..]) {
            match kind {
                Terminal::LeftParen | Terminal::LeftBracket | Terminal::LeftBrace => depth += 1,
                Terminal::RightParen | Terminal::RightBracket | Terminal::RightBrace => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return token_end < end;
            }
        }
        false
    }

    fn has_default(&self, row: usize) -> bool {
        row > 0 && self.columns.fields[row - 1] == Field::DefaultValue && self.parent(row - 1) == row
    }
}
