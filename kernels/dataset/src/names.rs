//! Names of parameters and variables, as people write them.

use std::borrow::Cow;

use crate::choices::Choices;

const FLOATS: [&str; 23] = [
    "x", "y", "z", "u", "v", "w", "p", "q", "s", "t", "value", "weight", "mass", "speed", "signal", "height", "error",
    "delta", "energy", "rate", "level", "sample", "density",
];
const INTS: [&str; 11] =
    ["n", "code", "step", "label", "key", "mode", "rank", "order", "phase", "ticket", "shift_count"];
const ARRAYS: [&str; 11] =
    ["a", "b", "data", "values", "points", "rows", "weights", "samples", "left", "right", "field"];
const SCALARS: [&str; 12] =
    ["alpha", "beta", "gamma", "scale", "bias", "offset", "limit", "lower", "upper", "factor", "threshold", "damping"];
const RESULTS: [&str; 6] = ["out", "result", "dst", "target", "total", "output"];
const TEMPORARIES: [&str; 12] =
    ["tmp", "mixed", "term", "partial", "acc", "best", "sum1", "local", "state", "current", "scaled", "blend"];

/// The role of a name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Role {
    Float,
    Int,
    Array,
    Scalar,
    Result,
    Temporary,
}

/// A name. Most are one of the lists, and take no memory.
pub(crate) type Name = Cow<'static, str>;

/// The names of a module, each once.
#[derive(Debug, Default)]
pub(crate) struct Names(Vec<Name>);

impl Names {
    /// A name that nothing has yet.
    pub(crate) fn take(&mut self, role: Role, choices: &mut Choices) -> Name {
        let pool: &[&'static str] = match role {
            Role::Float => &FLOATS,
            Role::Int => &INTS,
            Role::Array => &ARRAYS,
            Role::Scalar => &SCALARS,
            Role::Result => &RESULTS,
            Role::Temporary => &TEMPORARIES,
        };
        let name = choices.pick(pool);
        let is_taken = |name: &str| self.0.iter().any(|taken| taken == name);
        let mut numbered = (2..).map(|nth| format!("{name}{nth}")).filter(|name| !is_taken(name));
        let free = if is_taken(name) { numbered.next() } else { None };
        let name = free.map_or(Name::Borrowed(name), Name::Owned);
        self.0.push(name.clone());
        name
    }
}
