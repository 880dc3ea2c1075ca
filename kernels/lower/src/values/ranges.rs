//! `reversed(range(...))`: a count of iterations, from which the values follow without overflow.

use accelerd_ir::Dtype;
use accelerd_ir::kernel::Expr;

use crate::values::Slice;
use crate::values::scalars::{self, add, div, integer, lt, mul, neg, select, sub};

const I64: Dtype = Dtype::I64;

impl Slice {
    /// The slice of a dimension of an extent. Negative bounds count from the end; bounds outside are moved to the end that they are beyond.
    pub(crate) fn within(extent: &Expr, lower: Option<Expr>, upper: Option<Expr>, step: &Expr) -> Self {
        let dtype = Dtype::I32;
        let number = |value| integer(dtype, value);
        let least = neg(dtype, extent.clone());
        let clamped = |bound: Expr| {
            let bound = select(lt(dtype, bound.clone(), least.clone()), least.clone(), bound);
            let bound = select(lt(dtype, extent.clone(), bound.clone()), extent.clone(), bound);
            select(lt(dtype, bound.clone(), number(0)), add(dtype, bound.clone(), extent.clone()), bound)
        };
        let is_down = lt(dtype, step.clone(), number(0));
        let last = sub(dtype, extent.clone(), number(1));
        let start = lower.map_or_else(|| select(is_down.clone(), last, number(0)), clamped);
        let end = upper.map_or_else(|| select(is_down, number(-1), extent.clone()), clamped);
        let wide = |part: &Expr| scalars::cast(dtype, I64, part.clone());
        let count = ReversedRange::count(&wide(&start), wide(&end), &wide(step));
        Self { start, step: step.clone(), extent: scalars::cast(I64, dtype, count) }
    }
}

/// A range in reverse. Its parts are i64 and cheap.
pub(crate) struct ReversedRange {
    pub(crate) start: Expr,
    pub(crate) step: Expr,
    /// The number of its values.
    pub(crate) count: Expr,
}

impl ReversedRange {
    /// The number of values from a start by a step before an end; none with a step of 0.
    pub(crate) fn count(start: &Expr, end: Expr, step: &Expr) -> Expr {
        let is_up = lt(I64, integer(I64, 0), step.clone());
        let distance = sub(I64, end, start.clone());
        let distance = select(is_up.clone(), distance.clone(), neg(I64, distance));
        let size = select(is_up, step.clone(), neg(I64, step.clone()));
        let rounded = sub(I64, add(I64, distance.clone(), size.clone()), integer(I64, 1));
        let is_empty = scalars::le(I64, distance, integer(I64, 0));
        select(is_empty, integer(I64, 0), div(I64, rounded, size))
    }

    /// The bounds and step of a loop over its values.
    pub(crate) fn counts(&self) -> [Expr; 3] {
        [integer(I64, 0), self.count.clone(), integer(I64, 1)]
    }

    /// The value of an iteration of this loop.
    pub(crate) fn value(self, dtype: Dtype, iteration: Expr) -> Expr {
        let from_start = sub(I64, sub(I64, self.count, integer(I64, 1)), iteration);
        scalars::cast(I64, dtype, add(I64, self.start, mul(I64, from_start, self.step)))
    }
}
