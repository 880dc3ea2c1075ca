//! Where a tensor of a plan is.

use accelerd_ir::Dtype;

use crate::Layout;

/// A buffer of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Location {
    /// An input, by its position. Never written.
    Input(usize),
    /// An output, by its position.
    Output(usize),
    /// The arena, from this byte, a multiple of [`Plan::ALIGNMENT`](crate::Plan::ALIGNMENT).
    Arena(usize),
}

/// A tensor in a buffer. Its layout counts elements from the location.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct View {
    /// The buffer.
    pub location: Location,
    /// Element type.
    pub dtype: Dtype,
    /// Where in the buffer.
    pub layout: Layout,
}
