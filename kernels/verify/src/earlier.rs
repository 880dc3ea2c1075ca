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
    /// What the inputs of the case have to do with each other.
    pub(crate) relation: Relation,
}

/// What the inputs of a case have to do with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// What the mix draws.
    Any,
    /// They repeat each other more often.
    Repeated,
    /// Those of the second half are the same as those of the first half, opposite, or half a turn away: two points.
    Paired,
}

impl Earlier<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    /// Returns true if inputs should repeat each other more often.
    pub(crate) fn is_related(&self) -> bool {
        self.relation == Relation::Repeated && !self.is_empty()
    }

    /// The value of the input that the next one of `count` belongs to, if their values are paired: as many inputs before it as there are in a
    /// half.
    pub(crate) fn partner(&self, count: usize) -> Option<Literal> {
        if self.relation != Relation::Paired || !count.is_multiple_of(2) {
            return None;
        }
        let position = self.inputs.len().checked_sub(count / 2)?;
        self.inputs[position].length().is_none().then(|| self.element(position, 0))?
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
