//! The order of arguments and parameters.

use super::{Checker, Result};
use crate::NONE;
use crate::columns::{Field, Kind};

impl Checker<'_> {
    /// What follows a keyword argument, up to the next one: no positional argument, and behind `**` none with `*` either.
    pub(super) fn keyword(&self, row: usize) -> Result<()> {
        let unpacks = self.columns.aux[row] == NONE;
        let mut next = self.next_sibling(row);
        while let Some(sibling) = next.filter(|&sibling| self.kind(sibling) != Kind::Keyword) {
            if self.kind(sibling) != Kind::Starred {
                let message = if unpacks {
                    "positional argument follows keyword argument unpacking"
                } else {
                    "positional argument follows keyword argument"
                };
                return Err(self.error(sibling, message));
            }
            if unpacks {
                let message = "iterable argument unpacking follows keyword argument unpacking";
                return Err(self.error(sibling, message));
            }
            next = self.next_sibling(sibling);
        }
        match next {
            Some(sibling) if unpacks && self.columns.aux[sibling] != NONE => self.behind_unpacking(sibling),
            _ => Ok(()),
        }
    }

    /// What follows named arguments behind a `**`, up to the next `**`.
    fn behind_unpacking(&self, named: usize) -> Result<()> {
        let mut next = self.next_sibling(named);
        while let Some(sibling) = next {
            match self.kind(sibling) {
                Kind::Keyword if self.columns.aux[sibling] == NONE => return Ok(()),
                Kind::Starred => {
                    let message = "iterable argument unpacking follows keyword argument unpacking";
                    return Err(self.error(sibling, message));
                }
                _ => next = self.next_sibling(sibling),
            }
        }
        Ok(())
    }

    /// The parameter behind one with a default has one too.
    pub(super) fn default(&self, row: usize) -> Result<()> {
        let positional = |row: usize| matches!(self.columns.fields[row], Field::Args | Field::Posonlyargs);
        let Some(parameter) = self.next_sibling(row).filter(|&next| positional(next)) else { return Ok(()) };
        let default = self.next_sibling(parameter).map(|next| self.columns.fields[next]);
        if default == Some(Field::Defaults) {
            return Ok(());
        }
        Err(self.error(parameter, "parameter without a default follows parameter with a default"))
    }
}
