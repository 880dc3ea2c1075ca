//! Variables and functions that expressions may use.

use accelerd_verify::Random;

/// The type of a scalar: 32 bits in Warp, 64 in Python.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Float,
    Int,
}

/// Variables by type, each with whether an expression has used it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    floats: Vec<(String, bool)>,
    ints: Vec<(String, bool)>,
}

impl Scope {
    pub(crate) fn add(&mut self, ty: Type, name: impl Into<String>) {
        self.variables(ty).push((name.into(), false));
    }

    /// A variable of a type, if there is one. An unused one is more likely, so that computed values are used.
    pub(crate) fn pick(&mut self, ty: Type, random: &mut Random) -> Option<String> {
        let variables = self.variables(ty);
        let unused = variables.iter().rposition(|(_, is_used)| !is_used).filter(|_| random.below(3) > 0);
        let nth = unused.or_else(|| (!variables.is_empty()).then(|| random.index(variables.len())))?;
        variables[nth].1 = true;
        Some(variables[nth].0.clone())
    }

    /// Returns true if there is a variable of a type.
    pub(crate) fn has(&self, ty: Type) -> bool {
        match ty {
            Type::Float => !self.floats.is_empty(),
            Type::Int => !self.ints.is_empty(),
        }
    }

    fn variables(&mut self, ty: Type) -> &mut Vec<(String, bool)> {
        match ty {
            Type::Float => &mut self.floats,
            Type::Int => &mut self.ints,
        }
    }
}
