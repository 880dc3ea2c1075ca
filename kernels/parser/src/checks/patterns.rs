//! Captures and literals of patterns.

use super::{Checker, Result};
use crate::NONE;
use crate::columns::{Field, Kind, Operator};
use crate::diagnostic::Diagnostic;

impl Checker<'_> {
    /// `_` is the wildcard pattern on its own; as a capture target it is an error.
    pub(super) fn capture(&mut self, row: usize) -> Result<()> {
        let aux = self.columns.aux[row];
        if aux == NONE || Some(aux) != self.underscore {
            return Ok(());
        }
        let has_pattern = self.kind(row) == Kind::MatchAs && row > 0 && self.parent(row - 1) == row;
        if has_pattern {
            return Err(self.error(row, "cannot use '_' as a target"));
        }
        if self.kind(row) == Kind::MatchMapping {
            return Err(self.error(row, "invalid syntax"));
        }
        self.columns.aux[row] = NONE;
        Ok(())
    }

    /// Rejects a positional pattern after a keyword pattern.
    pub(super) fn keyword_pattern(&self, row: usize) -> Result<()> {
        match self.next_sibling(row).filter(|&next| self.columns.fields[next] == Field::Patterns) {
            Some(next) => Err(self.error(next, "positional patterns follow keyword patterns")),
            None => Ok(()),
        }
    }

    pub(super) fn match_value(&self, row: usize) -> Result<()> {
        self.literal(row - 1)
    }

    /// Rejects `_` as the head of a dotted name or class pattern: it is a complete pattern.
    pub(super) fn pattern_head_of(&self, row: usize) -> Result<()> {
        let mut row = match (self.kind(row), self.columns.fields[row]) {
            (Kind::MatchValue, _) => row - 1,
            (_, Field::Cls) => row,
            _ => return Ok(()),
        };
        while self.kind(row) == Kind::Attribute {
            row -= 1;
        }
        if self.kind(row) != Kind::Name || Some(self.columns.aux[row] / 4) != self.underscore {
            return Ok(());
        }
        let next = self.tokens.starts.partition_point(|&place| place < self.columns.ends[row]);
        Err(Diagnostic::syntax(self.tokens.starts[next], self.tokens.ends[next], "invalid syntax"))
    }

    pub(super) fn match_key(&self, row: usize) -> Result<()> {
        if self.kind(self.parent(row)) == Kind::MatchMapping { self.literal(row) } else { Ok(()) }
    }

    /// A complex literal is a real and an imaginary number. CPython's compiler, not its parser, rejects f-strings in
    /// patterns.
    fn literal(&self, row: usize) -> Result<()> {
        if self.kind(row) == Kind::BinOp { self.complex(row) } else { Ok(()) }
    }

    fn complex(&self, row: usize) -> Result<()> {
        debug_assert!(
            matches!(self.columns.aux[row], add if add == Operator::Add as u32 || add == Operator::Sub as u32)
        );
        // The right operand is one row, directly after the left one; a `UnaryOp` is directly after its number.
        let right = row - 1;
        let left = if self.kind(row - 2) == Kind::UnaryOp { row - 3 } else { row - 2 };
        if self.is_imaginary(left) {
            return Err(self.error(left, "real number required in complex literal"));
        }
        if !self.is_imaginary(right) {
            return Err(self.error(right, "imaginary number required in complex literal"));
        }
        Ok(())
    }

    fn is_imaginary(&self, row: usize) -> bool {
        let end = self.columns.ends[row] as usize;
        self.text.as_bytes().get(end.wrapping_sub(1)).is_some_and(|last| last.eq_ignore_ascii_case(&b'j'))
    }
}
