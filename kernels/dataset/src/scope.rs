//! What expressions may use, and what nothing has read yet.

use crate::{choices::Choices, names::Name};

/// The type of a scalar: 32 bits in Warp, 64 in Python.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Float,
    Int,
}

/// Variables or parameters of one type, each with whether something reads it.
#[derive(Clone, Debug)]
pub(crate) struct Pool<T>(Vec<(T, bool)>);

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self(vec![])
    }
}

impl<T: Clone + PartialEq> Pool<T> {
    pub(crate) fn add(&mut self, entry: T) {
        self.0.push((entry, false));
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// An entry to read, if there is one. Mostly it is the last one that nothing has read yet.
    pub(crate) fn pick(&mut self, choices: &mut Choices) -> Option<T> {
        let unread = self.0.iter().rposition(|(_, is_read)| !is_read).filter(|_| choices.below(4) > 0);
        let nth = unread.or_else(|| (!self.0.is_empty()).then(|| choices.index(self.0.len())))?;
        Some(self.take(nth))
    }

    /// An entry of a pool that has some, without reading it.
    pub(crate) fn any(&self, choices: &mut Choices) -> &T {
        &self.0[choices.index(self.0.len())].0
    }

    /// The first entry from a position on that nothing has read yet, to read it.
    pub(crate) fn unread(&mut self, from: usize) -> Option<T> {
        let nth = (from..self.0.len()).find(|nth| !self.0[*nth].1)?;
        Some(self.take(nth))
    }

    /// Returns true if nothing has read an entry from a position on.
    pub(crate) fn has_unread(&self, from: usize) -> bool {
        self.0[from..].iter().any(|(_, is_read)| !is_read)
    }

    fn take(&mut self, nth: usize) -> T {
        self.0[nth].1 = true;
        self.0[nth].0.clone()
    }
}

/// Variables by type.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    floats: Pool<Name>,
    ints: Pool<Name>,
}

/// The variables that were in scope before others.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outer {
    floats: usize,
    ints: usize,
}

impl Scope {
    pub(crate) fn add(&mut self, ty: Type, name: impl Into<Name>) {
        self.of(ty).add(name.into());
    }

    /// A variable of a type to read, if there is one.
    pub(crate) fn pick(&mut self, ty: Type, choices: &mut Choices) -> Option<Name> {
        self.of(ty).pick(choices)
    }

    /// A variable of a type that nothing has read yet and that is not an outer one, to read it.
    pub(crate) fn unread(&mut self, ty: Type, outer: Outer) -> Option<Name> {
        let from = match ty {
            Type::Float => outer.floats,
            Type::Int => outer.ints,
        };
        self.of(ty).unread(from)
    }

    /// Returns true if nothing has read a variable of a type that is not an outer one.
    pub(crate) fn has_unread(&self, ty: Type, outer: Outer) -> bool {
        match ty {
            Type::Float => self.floats.has_unread(outer.floats),
            Type::Int => self.ints.has_unread(outer.ints),
        }
    }

    /// Notes that something reads a variable. Returns its name if it is in scope.
    pub(crate) fn read(&mut self, name: &str) -> Option<Name> {
        let mut found = None;
        for (variable, is_read) in self.floats.0.iter_mut().chain(&mut self.ints.0).filter(|(of, _)| of == name) {
            *is_read = true;
            found = Some(variable.clone());
        }
        found
    }

    /// Returns true if nothing has read a variable.
    pub(crate) fn is_unread(&self, name: &str) -> bool {
        self.floats.0.iter().chain(&self.ints.0).any(|(variable, is_read)| variable == name && !is_read)
    }

    /// Returns true if there is a variable of a type.
    pub(crate) fn has(&self, ty: Type) -> bool {
        match ty {
            Type::Float => self.floats.len() > 0,
            Type::Int => self.ints.len() > 0,
        }
    }

    /// The variables so far, which are the outer ones of those to come.
    pub(crate) fn outer(&self) -> Outer {
        Outer { floats: self.floats.len(), ints: self.ints.len() }
    }

    /// Ends the scope of all variables but the outer ones.
    pub(crate) fn leave(&mut self, outer: Outer) {
        self.floats.0.truncate(outer.floats);
        self.ints.0.truncate(outer.ints);
    }

    fn of(&mut self, ty: Type) -> &mut Pool<Name> {
        match ty {
            Type::Float => &mut self.floats,
            Type::Int => &mut self.ints,
        }
    }
}
