//! What is known about variables at a point of a function, and where paths part and meet.

use std::collections::{BTreeMap, HashSet};

use accelerd_ir::kernel::LocalId;

use crate::lowerer::{Lowerer, VariableKind};
use crate::source::environment::Number;

/// Facts about variables at a point: the flag that tells one from others of its name, whether it is assigned, and the number that it holds.
#[derive(Clone, Debug)]
pub(crate) struct Knowledge(BTreeMap<String, (LocalId, bool, Option<Number>)>);

impl Knowledge {
    /// The state of the variable of a name and flag: true if it is assigned, and the number that it holds.
    fn of(&self, name: &str, flag: LocalId) -> (bool, Option<Number>) {
        match self.0.get(name) {
            Some((known, is_assigned, constant)) if *known == flag => (*is_assigned, *constant),
            _ => (false, None),
        }
    }
}

impl Lowerer<'_> {
    /// Counts steps for a pass over all variables, each of which is much cheaper than a node.
    fn look_through_variables(&self) {
        self.add_work(self.frame().variables.len() / 8);
    }

    /// Facts about each variable, to be merged where paths meet.
    pub(crate) fn knowledge(&self) -> Knowledge {
        self.look_through_variables();
        let variables = self.frame().variables.iter();
        Knowledge(variables.map(|(name, v)| (name.clone(), (v.flag, v.is_assigned, v.constant))).collect())
    }

    /// Restores the knowledge at the start of a path.
    pub(crate) fn restore(&mut self, known: &Knowledge) {
        self.look_through_variables();
        for (name, variable) in &mut self.frame_mut().variables {
            (variable.is_assigned, variable.constant) = known.of(name, variable.flag);
        }
    }

    /// Restores the knowledge common to all of some paths.
    pub(crate) fn merge(&mut self, paths: &[Knowledge]) {
        self.look_through_variables();
        for (name, variable) in &mut self.frame_mut().variables {
            let known: Vec<_> = paths.iter().map(|path| path.of(name, variable.flag)).collect();
            variable.is_assigned = known.iter().all(|(is_assigned, _)| *is_assigned);
            let first = known.first().and_then(|(_, constant)| *constant);
            variable.constant = first.filter(|_| known.iter().all(|(_, constant)| *constant == first));
        }
    }

    /// Forgets what is known of variables that a loop assigns, before it: their numbers, and that their arrays are assigned.
    pub(crate) fn forget_assigned(&mut self, names: &HashSet<String>) {
        let mut records = vec![];
        for (name, variable) in &mut self.frame_mut().variables {
            if names.contains(name) {
                variable.constant = None;
                if matches!(variable.kind, VariableKind::Record(..)) {
                    records.push((name.clone(), variable.kind.clone()));
                }
            }
        }
        for (name, mut kind) in records {
            self.flag_arrays(&name, &mut kind);
            self.frame_mut().variables.get_mut(&name).expect("it is known").kind = kind;
        }
    }
}
