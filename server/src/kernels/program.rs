//! A kernel as a client describes it: module, dialect, constants and name.

use std::collections::BTreeMap;

use accelerd_kernels::ops::translate::{Captured, Dialect, Request, Targets};
use sha2::{Digest, Sha256};

use crate::error::ApiError;

/// The code of a diagnostic of a requested kernel that the module does not have.
pub(crate) const NO_KERNEL: &str = "no_kernel";

/// A kernel of a module.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) source: String,
    /// `None` if the module decides.
    pub(crate) dialect: Option<Dialect>,
    pub(crate) constants: BTreeMap<String, Captured>,
    /// Empty if the module has one kernel.
    pub(crate) name: String,
}

impl Program {
    /// SHA-256 of an encoding of all parts, each with its length, in hexadecimal digits.
    pub(super) fn id(&self) -> String {
        let mut hash = Sha256::new();
        let mut add = |part: &[u8]| {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        };
        add(self.source.as_bytes());
        add(&[match self.dialect {
            None => 0,
            Some(Dialect::Warp) => 1,
            Some(Dialect::Python) => 2,
        }]);
        add(self.name.as_bytes());
        for (name, value) in &self.constants {
            add(name.as_bytes());
            match value {
                Captured::Int(value) => add(&[&[0], &value.to_le_bytes()[..]].concat()),
                Captured::Float(value) => add(&[&[1], &value.to_bits().to_le_bytes()[..]].concat()),
                Captured::Bool(value) => add(&[2, (*value).into()]),
                Captured::Type(dtype) => add(&[&[3], dtype.name().as_bytes()].concat()),
            }
        }
        hex::encode(hash.finalize())
    }

    /// Returns the request of its translation to WebAssembly and to code for GPUs.
    pub(super) fn translation(&self, max_bytes: usize) -> Request {
        Request {
            source: self.source.clone(),
            dialect: self.dialect,
            constants: self.constants.clone(),
            names: if self.name.is_empty() { vec![] } else { vec![self.name.clone()] },
            targets: Targets { cuda: false, wasm: true, device: true },
            max_bytes,
        }
    }
}

/// Checks the length of a module.
pub(crate) fn check_source(field: &str, source: &str, max_bytes: usize) -> Result<(), ApiError> {
    if source.is_empty() {
        return Err(ApiError::invalid(field, "expected a module, got none"));
    }
    if source.len() > max_bytes {
        return Err(ApiError::invalid(field, format!("expected at most {max_bytes} bytes, got {}", source.len())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(source: &str, name: &str, constants: &[(&str, Captured)]) -> Program {
        let constants = constants.iter().map(|(name, value)| ((*name).to_owned(), *value));
        let (source, name) = (source.to_owned(), name.to_owned());
        Program { source, dialect: None, constants: constants.collect(), name }
    }

    #[test]
    fn the_id_depends_on_every_part_and_on_nothing_else() {
        let first = program("a", "f", &[("N", Captured::Int(1)), ("M", Captured::Float(1.0))]);
        let same = program("a", "f", &[("M", Captured::Float(1.0)), ("N", Captured::Int(1))]);
        assert_eq!((first.id(), first.id().len()), (same.id(), 64));
        let others = [
            program("b", "f", &[("N", Captured::Int(1)), ("M", Captured::Float(1.0))]),
            program("a", "g", &[("N", Captured::Int(1)), ("M", Captured::Float(1.0))]),
            program("af", "", &[("N", Captured::Int(1)), ("M", Captured::Float(1.0))]),
            program("a", "f", &[("N", Captured::Int(1)), ("M", Captured::Float(-1.0))]),
            program("a", "f", &[("N", Captured::Bool(true)), ("M", Captured::Float(1.0))]),
            program("a", "f", &[("N", Captured::Int(1))]),
            Program { dialect: Some(Dialect::Warp), ..program("a", "f", &[]) },
            Program { dialect: Some(Dialect::Python), ..program("a", "f", &[]) },
        ];
        let mut ids: Vec<_> = others.iter().map(Program::id).chain([first.id()]).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 9);
    }
}
