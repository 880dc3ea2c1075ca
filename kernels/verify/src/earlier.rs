//! Values already drawn for a case, for inputs that repeat others.

use accelerd_ir::scalar::Literal;

use crate::{input::Input, random::Random};

/// The inputs of a case that are already drawn.
pub(crate) struct Earlier<'a> {
    pub(crate) inputs: &'a [Input],
    /// The column of each of the inputs, and perhaps of others.
    pub(crate) columns: &'a [Vec<u8>],
    /// The place of the case in the columns.
    pub(crate) row: usize,
    /// True if inputs should repeat each other more often.
    pub(crate) related: bool,
}

impl Earlier<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    /// Returns true if inputs should repeat each other more often.
    pub(crate) fn is_related(&self) -> bool {
        self.related && !self.is_empty()
    }

    /// An input at random, by position.
    pub(crate) fn choose(&self, random: &mut Random) -> Option<usize> {
        (!self.is_empty()).then(|| random.index(self.inputs.len()))
    }

    /// A value of an input at random. `None` if that has no elements.
    fn pick(&self, random: &mut Random) -> Option<Literal> {
        let position = self.choose(random)?;
        self.element(position, random.index(self.inputs[position].elements()))
    }

    pub(crate) fn pick_two(&self, random: &mut Random) -> Option<[Literal; 2]> {
        Some([self.pick(random)?, self.pick(random)?])
    }

    /// An element of an input, if there is one.
    pub(crate) fn element(&self, position: usize, element: usize) -> Option<Literal> {
        let input = &self.inputs[position];
        if element >= input.elements() {
            return None;
        }
        let size = input.dtype().size();
        let start = self.row * input.case_bytes() + element * size;
        let value = input.values().decode(&self.columns[position][start..start + size]).next()?;
        Some(Literal::from_bits(input.dtype(), value))
    }
}
