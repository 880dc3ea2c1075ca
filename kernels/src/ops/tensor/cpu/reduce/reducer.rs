//! The state that a reduction accumulates.

use std::marker::PhantomData;

use accelerd_tensor::{Dtype, Reduction};
use bytemuck::{Pod, cast_slice, cast_slice_mut};

use super::super::{
    lanes,
    number::{Number, NumberVisitor, Real, visit_number},
};

/// Values whose extreme is found before it is compared with that of others.
const SEARCH_BLOCK: usize = 4096;

/// A reduction. States are arrays of plain data in aligned bytes, one for each row.
pub(super) trait Reducer: Sync {
    /// Bytes of the state of a row.
    fn state_size(&self) -> usize;

    /// Type of the results.
    fn dtype(&self) -> Dtype;

    /// The states of no values.
    fn empty(&self, states: &mut [u8]);

    /// The states of rows of as many values each, which begin at index `first` of the row.
    fn reduce(&self, values: &[u8], first: usize, states: &mut [u8]);

    /// Returns true if results do not depend on how values are grouped.
    fn is_exact(&self) -> bool {
        false
    }

    /// Returns true if [`Self::accumulate`] adds values to states.
    fn has_columns(&self) -> bool {
        false
    }

    /// Adds a value to each state.
    fn accumulate(&self, _states: &mut [u8], _values: &[u8]) {
        unreachable!("only of reductions that have columns");
    }

    /// Adds the states of later values of the same rows.
    fn combine(&self, states: &mut [u8], later: &[u8]);

    /// The results.
    fn finish(&self, states: &[u8], results: &mut [u8]);
}

/// The reducer of a reduction of values of a type; `None` if there is none.
pub(super) fn reducer(reduction: Reduction, dtype: Dtype) -> Option<Box<dyn Reducer>> {
    let combination = reduction.combination();
    if dtype == Dtype::Bool && combination.of_bool != reduction {
        return None;
    }
    let is_exact = combination.is_selection;
    match reduction {
        Reduction::Sum => visit_number(dtype, MakeFold { dtype, combine: Sum, is_exact }),
        Reduction::Prod => visit_number(dtype, MakeFold { dtype, combine: Prod, is_exact }),
        Reduction::Min => visit_number(dtype, MakeFold { dtype, combine: Min, is_exact }),
        Reduction::Max => visit_number(dtype, MakeFold { dtype, combine: Max, is_exact }),
        Reduction::LogSumExp => of_reals(dtype, LogSumExp::<f32>(PhantomData), LogSumExp::<f64>(PhantomData)),
        Reduction::SquaredDeviations => {
            of_reals(dtype, SquaredDeviations::<f32>(PhantomData), SquaredDeviations::<f64>(PhantomData))
        }
    }
}

/// The reducer of a type of real numbers; `None` for other types.
fn of_reals(dtype: Dtype, of_f32: impl Reducer + 'static, of_f64: impl Reducer + 'static) -> Option<Box<dyn Reducer>> {
    if dtype == Dtype::F32 {
        Some(Box::new(of_f32))
    } else if dtype == Dtype::F64 {
        Some(Box::new(of_f64))
    } else {
        None
    }
}

/// The reducer that finds the first extreme value.
pub(super) fn arg_reducer(is_max: bool, dtype: Dtype) -> Option<Box<dyn Reducer>> {
    visit_number(dtype, MakeArg(is_max))
}

/// An operation that combines two values.
trait Combine: Copy + Send + Sync + 'static {
    fn identity<T: Number>(self) -> T;
    fn apply<T: Number>(self, a: T, b: T) -> T;
    /// The combination of all values.
    fn fold<T: Number>(self, values: &[T]) -> T {
        lanes::fold(values, self.identity(), |a, b| self.apply(a, b))
    }
}

#[derive(Clone, Copy)]
struct Sum;
#[derive(Clone, Copy)]
struct Prod;
#[derive(Clone, Copy)]
struct Min;
#[derive(Clone, Copy)]
struct Max;

#[expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]
mod combine {
    use super::{Combine, Max, Min, Number, Prod, Sum, lanes};

    impl Combine for Sum {
        fn identity<T: Number>(self) -> T {
            T::ZERO
        }
        #[inline(always)]
        fn apply<T: Number>(self, a: T, b: T) -> T {
            a.add(b)
        }
    }

    impl Combine for Prod {
        fn identity<T: Number>(self) -> T {
            T::ONE
        }
        #[inline(always)]
        fn apply<T: Number>(self, a: T, b: T) -> T {
            a.mul(b)
        }
    }

    impl Combine for Min {
        fn identity<T: Number>(self) -> T {
            T::GREATEST
        }
        #[inline(always)]
        fn apply<T: Number>(self, a: T, b: T) -> T {
            a.minimum(b)
        }
        fn fold<T: Number>(self, values: &[T]) -> T {
            lanes::extreme(values, false, T::GREATEST)
        }
    }

    impl Combine for Max {
        fn identity<T: Number>(self) -> T {
            T::LEAST
        }
        #[inline(always)]
        fn apply<T: Number>(self, a: T, b: T) -> T {
            a.maximum(b)
        }
        fn fold<T: Number>(self, values: &[T]) -> T {
            lanes::extreme(values, true, T::LEAST)
        }
    }
}

struct MakeFold<C> {
    dtype: Dtype,
    combine: C,
    is_exact: bool,
}

impl<C: Combine> NumberVisitor for MakeFold<C> {
    type Out = Box<dyn Reducer>;

    fn visit<T: Number>(self) -> Box<dyn Reducer> {
        let Self { dtype, combine, is_exact } = self;
        Box::new(Fold::<T, C> { dtype, combine, is_exact, values: PhantomData })
    }
}

/// The state is the combination of the values.
struct Fold<T, C> {
    dtype: Dtype,
    combine: C,
    is_exact: bool,
    values: PhantomData<T>,
}

impl<T: Number, C: Combine> Reducer for Fold<T, C> {
    fn state_size(&self) -> usize {
        size_of::<T>()
    }

    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn empty(&self, states: &mut [u8]) {
        cast_slice_mut::<u8, T>(states).fill(self.combine.identity());
    }

    fn reduce(&self, values: &[u8], _first: usize, states: &mut [u8]) {
        for (state, row) in rows::<T, T>(values, states) {
            *state = self.combine.fold(row);
        }
    }

    fn is_exact(&self) -> bool {
        self.is_exact
    }

    fn has_columns(&self) -> bool {
        true
    }

    fn accumulate(&self, states: &mut [u8], values: &[u8]) {
        self.combine(states, values);
    }

    fn combine(&self, states: &mut [u8], later: &[u8]) {
        lanes::accumulate::<T>(cast_slice_mut(states), cast_slice(later), |a, b| self.combine.apply(a, b));
    }

    fn finish(&self, states: &[u8], results: &mut [u8]) {
        results.copy_from_slice(states);
    }
}

/// Each state with the values of its row.
fn rows<'a, T: Pod, S: Pod>(values: &'a [u8], states: &'a mut [u8]) -> impl Iterator<Item = (&'a mut S, &'a [T])> {
    let values = cast_slice::<u8, T>(values);
    let states = cast_slice_mut::<u8, S>(states);
    let len = values.len() / states.len();
    states.iter_mut().zip(values.chunks_exact(len))
}

fn results_of<S: Pod, R: Pod>(states: &[u8], results: &mut [u8], result: impl Fn(&S) -> R) {
    for (to, state) in cast_slice_mut::<u8, R>(results).iter_mut().zip(cast_slice::<u8, S>(states)) {
        *to = result(state);
    }
}

fn combine_each<S: Pod>(states: &mut [u8], later: &[u8], combine: impl Fn(S, S) -> S) {
    for (state, later) in cast_slice_mut::<u8, S>(states).iter_mut().zip(cast_slice::<u8, S>(later)) {
        *state = combine(*state, *later);
    }
}

/// The state is the greatest value and the sum of the exponentials of the differences from it.
struct LogSumExp<T>(PhantomData<T>);

impl<T: Real> Reducer for LogSumExp<T> {
    fn state_size(&self) -> usize {
        size_of::<[f64; 2]>()
    }

    fn dtype(&self) -> Dtype {
        real_dtype::<T>()
    }

    fn empty(&self, states: &mut [u8]) {
        cast_slice_mut::<u8, [f64; 2]>(states).fill([f64::NEG_INFINITY, 0.0]);
    }

    fn reduce(&self, values: &[u8], _first: usize, states: &mut [u8]) {
        for (state, row) in rows::<T, [f64; 2]>(values, states) {
            let greatest = lanes::fold(row, T::LEAST, T::maximum).to_f64();
            // The difference of infinities is not a number.
            let sum = if greatest.is_infinite() { 1.0 } else { lanes::sum_of(row, |x| T::exp(x - greatest)) };
            *state = [greatest, if greatest == f64::NEG_INFINITY { 0.0 } else { sum }];
        }
    }

    fn combine(&self, states: &mut [u8], later: &[u8]) {
        combine_each(states, later, |[a, sum_a]: [f64; 2], [b, sum_b]| {
            let greatest = Number::maximum(a, b);
            #[expect(clippy::float_cmp, reason = "one is a copy of the other")]
            let scaled =
                |maximum: f64, sum: f64| if maximum == greatest { sum } else { sum * (maximum - greatest).exp() };
            [greatest, scaled(a, sum_a) + scaled(b, sum_b)]
        });
    }

    fn finish(&self, states: &[u8], results: &mut [u8]) {
        results_of(states, results, |[greatest, sum]: &[f64; 2]| {
            T::from_f64(if greatest.is_infinite() { *greatest } else { greatest + sum.ln() })
        });
    }
}

/// The state is number, mean and sum of squared differences from the mean.
struct SquaredDeviations<T>(PhantomData<T>);

impl<T: Real> Reducer for SquaredDeviations<T> {
    fn state_size(&self) -> usize {
        size_of::<[f64; 3]>()
    }

    fn dtype(&self) -> Dtype {
        real_dtype::<T>()
    }

    fn empty(&self, states: &mut [u8]) {
        cast_slice_mut::<u8, [f64; 3]>(states).fill([0.0; 3]);
    }

    fn reduce(&self, values: &[u8], _first: usize, states: &mut [u8]) {
        for (state, row) in rows::<T, [f64; 3]>(values, states) {
            let count = row.len() as f64;
            let mean = lanes::sum_of(row, |x| x) / count;
            *state = [count, mean, lanes::sum_of(row, |x| (x - mean) * (x - mean))];
        }
    }

    /// Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances" (1979).
    fn combine(&self, states: &mut [u8], later: &[u8]) {
        combine_each(states, later, |[n, mean, squares]: [f64; 3], [other_n, other_mean, other_squares]| {
            let count = n + other_n;
            let delta = other_mean - mean;
            let share = other_n / count;
            [count, mean + delta * share, squares + other_squares + delta * delta * n * share]
        });
    }

    fn finish(&self, states: &[u8], results: &mut [u8]) {
        results_of(states, results, |state: &[f64; 3]| T::from_f64(state[2]));
    }
}

fn real_dtype<T: Real>() -> Dtype {
    if size_of::<T>() == 4 { Dtype::F32 } else { Dtype::F64 }
}

struct MakeArg(bool);

impl NumberVisitor for MakeArg {
    type Out = Box<dyn Reducer>;

    fn visit<T: Number>(self) -> Box<dyn Reducer> {
        Box::new(ArgExtreme::<T> { is_max: self.0, of: PhantomData })
    }
}

/// The state is the value, in the low bytes, and its index.
struct ArgExtreme<T> {
    is_max: bool,
    of: PhantomData<T>,
}

impl<T: Number> ArgExtreme<T> {
    fn value([value, _]: [u64; 2]) -> T {
        bytemuck::pod_read_unaligned(&value.to_le_bytes()[..size_of::<T>()])
    }

    fn state(value: T, index: usize) -> [u64; 2] {
        let mut bytes = [0; 8];
        bytes[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&value));
        [u64::from_le_bytes(bytes), index as u64]
    }

    /// The first position of the extreme value. Values are compared in blocks, of which one is searched.
    fn position(&self, row: &[T]) -> usize {
        let identity = if self.is_max { T::LEAST } else { T::GREATEST };
        let mut blocks = row.chunks(SEARCH_BLOCK).map(|block| lanes::extreme(block, self.is_max, identity));
        let mut extreme = blocks.next().expect("a row has values");
        let mut block = 0;
        for (nth, candidate) in (1..).zip(blocks) {
            if self.exceeds(candidate, extreme) {
                (extreme, block) = (candidate, nth);
            }
        }
        let start = block * SEARCH_BLOCK;
        start + lanes::position(&row[start..], extreme).expect("the extreme is one of the values")
    }

    /// Returns true if a later value replaces an earlier one.
    fn exceeds(&self, later: T, earlier: T) -> bool {
        let is_further = if self.is_max { later > earlier } else { later < earlier };
        !earlier.is_nan() && (later.is_nan() || is_further)
    }
}

impl<T: Number> Reducer for ArgExtreme<T> {
    fn state_size(&self) -> usize {
        size_of::<[u64; 2]>()
    }

    fn dtype(&self) -> Dtype {
        Dtype::I64
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn empty(&self, states: &mut [u8]) {
        cast_slice_mut::<u8, [u64; 2]>(states).fill([0; 2]);
    }

    fn reduce(&self, values: &[u8], first: usize, states: &mut [u8]) {
        for (state, row) in rows::<T, [u64; 2]>(values, states) {
            let index = self.position(row);
            *state = Self::state(row[index], first + index);
        }
    }

    fn combine(&self, states: &mut [u8], later: &[u8]) {
        combine_each(states, later, |earlier, later| {
            if self.exceeds(Self::value(later), Self::value(earlier)) { later } else { earlier }
        });
    }

    fn finish(&self, states: &[u8], results: &mut [u8]) {
        results_of(states, results, |[_, index]: &[u64; 2]| *index);
    }
}
