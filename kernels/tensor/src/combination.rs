//! The combinations of values by reductions.

/// An associative combination of values. Sums of floating-point numbers are taken in an order that depends on the shape alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// Sum; 0 if there are none. Integers wrap.
    Sum,
    /// Product; 1 if there are none. Integers wrap.
    Prod,
    /// The least, NaN if any is. All of bool, true if there are none; of numbers there is at least one.
    Min,
    /// The greatest, NaN if any is. Any of bool, false if there are none; of numbers there is at least one.
    Max,
    /// Logarithm of the sum of exponentials, without overflow; -inf if there are none.
    LogSumExp,
    /// Sum of squared differences from the mean, without cancellation; 0 if there are none.
    SquaredDeviations,
}

/// The facts about a reduction that the backends need besides its code.
#[derive(Clone, Copy, Debug)]
pub struct Combination {
    /// The template of the state in `tensor/states.cuh`.
    pub state: &'static str,
    /// Values in a state. States of several take many instructions to merge.
    pub state_values: usize,
    /// True where the result is one of the values, so that their grouping does not matter.
    pub is_selection: bool,
    /// True where only floating-point numbers are combined.
    pub is_of_floats: bool,
    /// Operations for each value.
    pub operations: u64,
    /// The reduction with the same result for truth values.
    pub of_bool: Reduction,
}

impl Reduction {
    /// All reductions.
    pub const ALL: [Self; 6] = [Self::Sum, Self::Prod, Self::Min, Self::Max, Self::LogSumExp, Self::SquaredDeviations];

    /// The facts about the reduction. The sum of truths is whether any is true, their product whether all are.
    pub const fn combination(self) -> Combination {
        match self {
            Self::Sum => Combination { of_bool: Self::Max, ..Combination::of_values("SumState", self) },
            Self::Prod => Combination { of_bool: Self::Min, ..Combination::of_values("ProdState", self) },
            Self::Min => Combination { is_selection: true, ..Combination::of_values("MinState", self) },
            Self::Max => Combination { is_selection: true, ..Combination::of_values("MaxState", self) },
            Self::LogSumExp => Combination::of_floats("LogSumExpState", 2, self),
            Self::SquaredDeviations => Combination::of_floats("DeviationsState", 3, self),
        }
    }
}

impl Combination {
    /// Of values of any type, whose combination is the state.
    const fn of_values(state: &'static str, of_bool: Reduction) -> Self {
        Self { state, state_values: 1, is_selection: false, is_of_floats: false, operations: 1, of_bool }
    }

    /// Of floating-point numbers: difference from a maximum or a mean, function of it, sum.
    const fn of_floats(state: &'static str, state_values: usize, of_bool: Reduction) -> Self {
        Self { state, state_values, is_selection: false, is_of_floats: true, operations: 3, of_bool }
    }
}
