//! The categories of kernels.

use accelerd_lower::Dialect;

/// The category of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Category {
    /// Arithmetic on elements.
    Arithmetic,
    /// Small vectors, or lists of a row as such.
    Vector,
    /// Small matrices, and products of arrays of two dimensions.
    Matrix,
    /// Loops that end early, and branches.
    ControlFlow,
    /// Elementary functions.
    Math,
    /// Atomic operations. Warp only.
    Atomic,
    /// Loops within loops.
    NestedLoop,
    /// Chains of branches with compound conditions.
    MultiConditional,
    /// Helper functions, loops, branches and elementary functions together.
    Combined,
    /// Parameters that are values for all threads.
    ScalarParam,
    /// Neighbours in arrays of one and two dimensions. Warp only.
    Stencil,
    /// Bits of integers.
    Bitwise,
}

impl Category {
    /// All categories.
    pub const ALL: [Self; 12] = [
        Self::Arithmetic,
        Self::Vector,
        Self::Matrix,
        Self::ControlFlow,
        Self::Math,
        Self::Atomic,
        Self::NestedLoop,
        Self::MultiConditional,
        Self::Combined,
        Self::ScalarParam,
        Self::Stencil,
        Self::Bitwise,
    ];

    /// Its name, with which names of its kernels begin.
    pub fn name(self) -> &'static str {
        match self {
            Self::Arithmetic => "arithmetic",
            Self::Vector => "vector",
            Self::Matrix => "matrix",
            Self::ControlFlow => "control_flow",
            Self::Math => "math",
            Self::Atomic => "atomic",
            Self::NestedLoop => "nested_loop",
            Self::MultiConditional => "multi_conditional",
            Self::Combined => "combined",
            Self::ScalarParam => "scalar_param",
            Self::Stencil => "stencil",
            Self::Bitwise => "bitwise",
        }
    }

    /// Returns true if a dialect has kernels of the category: a row of the dialect Python sees no other row.
    pub fn has(self, dialect: Dialect) -> bool {
        dialect == Dialect::Warp || !matches!(self, Self::Atomic | Self::Stencil)
    }
}
