//! Checks beyond the grammar, and expression contexts. Each check reads one node, its siblings or its subtree.

mod arguments;
mod patterns;
mod targets;
mod versions;

use std::ops::Range;

use crate::Options;
use crate::columns::{Columns, Field, Kind};
use crate::diagnostic::Diagnostic;
use crate::tokens::Tokens;

type Result<T> = std::result::Result<T, Diagnostic>;

struct Checker<'a> {
    tokens: &'a Tokens,
    text: &'a str,
    columns: &'a mut Columns,
    options: Options,
    /// The number of the name `_`, if it occurs.
    underscore: Option<u32>,
}

/// Checks the nodes of one line, whose roots have their parents, and sets the contexts of targets.
///
/// Visits parents before children, from the last node on. Of several errors the leftmost one is returned.
pub(crate) fn check_line(
    text: &str,
    tokens: &Tokens,
    underscore: Option<u32>,
    options: Options,
    columns: &mut Columns,
    rows: Range<usize>,
) -> Result<()> {
    let mut checker = Checker { tokens, text, columns, options, underscore };
    let mut outcome: Result<()> = Ok(());
    for row in rows.rev() {
        let checked = checker.row(row).and_then(|()| match underscore {
            None => Ok(()),
            Some(_) => checker.pattern_head_of(row),
        });
        if let Err(error) = checked {
            outcome = match outcome {
                Err(other) if precedes(&other, &error) => Err(other),
                _ => Err(error),
            };
        }
    }
    outcome
}

fn precedes(other: &Diagnostic, error: &Diagnostic) -> bool {
    other.start < error.start
}

impl Checker<'_> {
    #[inline]
    fn row(&mut self, row: usize) -> Result<()> {
        match self.columns.fields[row] {
            Field::Target | Field::Targets | Field::OptionalVars => self.target(row)?,
            Field::Defaults => self.default(row)?,
            Field::KwdPatterns => self.keyword_pattern(row)?,
            _ => {}
        }
        match self.columns.kinds[row] {
            Kind::Keyword => self.keyword(row)?,
            Kind::MatchAs | Kind::MatchStar | Kind::MatchMapping => self.capture(row)?,
            Kind::MatchValue => self.match_value(row)?,
            Kind::BinOp if self.columns.fields[row] == Field::Keys => {
                self.match_key(row)?;
            }
            Kind::FormattedValue | Kind::Interpolation => self.conversion(row)?,
            _ => {}
        }
        if self.options.feature_version < crate::NEWEST { self.version(row) } else { Ok(()) }
    }

    /// The conversion of a field.
    fn conversion(&self, row: usize) -> Result<()> {
        let aux = self.columns.aux[row];
        match u8::try_from(aux) {
            Ok(b's' | b'r' | b'a') => Ok(()),
            Err(_) if aux == crate::NONE => Ok(()),
            _ => Err(self.error(row, "f-string: invalid conversion character: expected 's', 'r', or 'a'")),
        }
    }

    fn kind(&self, row: usize) -> Kind {
        self.columns.kinds[row]
    }

    fn parent(&self, row: usize) -> usize {
        self.columns.parents[row] as usize
    }

    /// The next sibling before the parent.
    fn next_sibling(&self, row: usize) -> Option<usize> {
        let parent = self.parent(row);
        let mut next = row + 1;
        while next < parent && self.parent(next) != parent {
            next = self.parent(next);
        }
        (next < parent).then_some(next)
    }

    /// The descendants of a node in its line, last first.
    fn subtree(&self, row: usize) -> impl Iterator<Item = usize> + use<> {
        let inside = |inner: usize| (inner + 1..=row).contains(&self.parent(inner));
        let size = (0..row).rev().take_while(|&inner| inside(inner)).count();
        (row - size..row).rev()
    }

    fn error(&self, row: usize, message: impl Into<std::borrow::Cow<'static, str>>) -> Diagnostic {
        Diagnostic::syntax(self.columns.starts[row], self.columns.ends[row], message)
    }
}
