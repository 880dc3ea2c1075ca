//! The order of arguments and parameters.

use super::{Checker, Result};
use crate::NONE;
use crate::columns::{Field, Kind};

impl Checker<'_> {
    /// The arguments between a keyword argument and the next one: none is positional, and after `**` none has `*`.
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
            Some(sibling) if unpacks && self.columns.aux[sibling] != NONE => self.after_unpacking(sibling),
            _ => Ok(()),
        }
    }

    /// The arguments after a named one that follows `**`, up to the next `**`: none has `*`.
    fn after_unpacking(&self, named: usize) -> Result<()> {
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

    /// A parameter after one with a default needs one too.
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
