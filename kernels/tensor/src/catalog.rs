//! The operations of all tables.

use crate::{
    elementwise,
    graph::composite,
    infer, reductions,
    signature::{Accepts, Signature},
};

/// All operations, in the order of their names.
pub fn signatures() -> Vec<Signature> {
    let others = |names: &'static [&'static str], results| {
        names.iter().enumerate().map(move |(nth, name)| Signature {
            name,
            alias_of: (nth > 0).then_some(names[0]),
            operands: &[],
            accepts: Accepts::Any,
            results,
        })
    };
    let mut all: Vec<_> = elementwise::signatures().collect();
    all.extend(reductions::REDUCTIONS.iter().flat_map(|row| others(row.names, row.results)));
    all.extend(infer::operations().flat_map(|operation| others(operation.names, operation.results)));
    // A composite without one of its attributes may be an operation of that name, too.
    let composites = composite::operations().filter(|composite| composite.unless.is_none());
    all.extend(composites.flat_map(|composite| others(std::slice::from_ref(&composite.name), composite.results)));
    all.sort_by_key(|signature| signature.name);
    all
}
