//! Arguments on which a kernel runs without a fault.
//!
//! All dimensions of the grid and of arrays have one extent, which is also the value of integer parameters: kernels use these as sizes.
//! Integers of arrays are valid indices. Handles of geometry are those of small objects. If the interpreter reports a fault, or threads race, other numbers and grids of fewer threads are tried.

use accelerd_ir::Kind;
use accelerd_ir::kernel::cuda::Example;
use accelerd_ir::kernel::interpret::{LaunchError, Limits, ThreadOrder, launch_watched};
use accelerd_ir::kernel::{Argument, Component, Element, Kernel, Param, ParamType, Races};
use accelerd_ir::scalar::Literal;

use crate::geometry::{self, Geometry};

/// Extents of a dimension by the largest number of dimensions of grid and arrays.
const EXTENTS: [i32; 4] = [64, 12, 6, 4];
/// Iterations of a thread.
const LOOP_BUDGET: u64 = 1 << 16;
/// Steps of the interpreter for one attempt, and for all kernels of a request.
const ATTEMPT_STEPS: u64 = 1 << 21;
const REQUEST_STEPS: u64 = 1 << 25;

/// Steps of the interpreter that a request may still take.
#[derive(Debug)]
pub(crate) struct Budget(u64);

impl Default for Budget {
    fn default() -> Self {
        Self(REQUEST_STEPS)
    }
}

impl Budget {
    /// An example without races, whose results do not depend on the order of the threads, but for the rounding of atomic sums.
    fn example(&mut self, kernel: &Kernel, grid: Vec<u32>, arguments: Vec<Argument>) -> Result<Example, NoExample> {
        let mut races = Races::default();
        let expected = self.launch(kernel, &grid, &arguments, ThreadOrder::RowMajor, &mut races)?;
        if races.is_found() {
            return Err(NoExample::Race);
        }
        if kernel.exactness().float_sums == 0 && grid.iter().any(|extent| *extent > 1) {
            let reversed = self.launch(kernel, &grid, &arguments, ThreadOrder::Reverse, &mut races)?;
            if reversed != expected {
                return Err(NoExample::Race);
            }
        }
        Ok(Example { grid, arguments, expected })
    }

    /// The arguments after a launch.
    fn launch(
        &mut self,
        kernel: &Kernel,
        grid: &[u32],
        arguments: &[Argument],
        order: ThreadOrder,
        races: &mut Races,
    ) -> Result<Vec<Argument>, LaunchError> {
        let steps = self.0.min(ATTEMPT_STEPS);
        let mut limits = Limits { loop_budget: LOOP_BUDGET, steps };
        let mut after = arguments.to_vec();
        let outcome = launch_watched(kernel, grid, &mut after, order, &mut limits, Some(races));
        self.0 -= steps - limits.steps;
        outcome.map(|()| after)
    }
}

/// Which numbers arguments have.
#[derive(Clone, Copy)]
struct Attempt {
    /// The least and the greatest floating-point number.
    floats: (f64, f64),
    /// True if integers of arrays are 1 instead of indices.
    ones: bool,
    /// Threads along a dimension are the extent divided by this, and at least 1.
    divisor: i32,
}

const ATTEMPTS: [Attempt; 7] = [
    Attempt { floats: (-2.0, 2.0), ones: false, divisor: 1 },
    Attempt { floats: (0.125, 1.0), ones: false, divisor: 1 },
    Attempt { floats: (1.0, 3.0), ones: true, divisor: 1 },
    Attempt { floats: (0.125, 1.0), ones: false, divisor: 2 },
    Attempt { floats: (0.125, 1.0), ones: true, divisor: 4 },
    Attempt { floats: (-2.0, 2.0), ones: false, divisor: i32::MAX },
    Attempt { floats: (0.125, 1.0), ones: true, divisor: i32::MAX },
];

/// Why a launch is no example.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoExample {
    /// It fails.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// Its results depend on the order of the threads.
    #[error("threads write what others read or write")]
    Race,
}

/// An example of a kernel; the error of the first attempt if there is none.
pub(crate) fn example(kernel: &Kernel, budget: &mut Budget) -> Result<Example, NoExample> {
    let dims = kernel.params.iter().map(dims).chain([kernel.grid_dims]).max().unwrap_or(1);
    let extent = EXTENTS[usize::from(dims.clamp(1, 4)) - 1];
    let mut first_error = None;
    let queries = kernel.params.iter().any(|param| param.name == geometry::INTS);
    let kinds: &[Geometry] = if queries { &Geometry::ALL } else { &Geometry::ALL[..1] };
    let attempts = ATTEMPTS.iter().enumerate();
    for ((nth, attempt), kind) in attempts.flat_map(|attempt| kinds.iter().map(move |kind| (attempt, *kind))) {
        if budget.0 == 0 {
            return Err(first_error.unwrap_or(LaunchError::StepLimit(REQUEST_STEPS).into()));
        }
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ nth as u64);
        let arguments: Vec<_> =
            kernel.params.iter().map(|param| attempt.argument(param, extent, kind, &mut random)).collect();
        let grid = vec![(extent / attempt.divisor).unsigned_abs().max(1); kernel.grid_dims.into()];
        match budget.example(kernel, grid, arguments) {
            Ok(example) => return Ok(example),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(first_error.expect("there are attempts"))
}

fn dims(param: &Param) -> u8 {
    match &param.ty {
        ParamType::Value(_) => 0,
        ParamType::Array(array) => array.dims,
    }
}

impl Attempt {
    fn argument(self, param: &Param, extent: i32, kind: Geometry, random: &mut Random) -> Argument {
        if let Some(table) = kind.table(&param.name, extent) {
            return table;
        }
        match &param.ty {
            ParamType::Value(element) => Argument::Value(self.element(element, &mut |_| extent.into(), random)),
            ParamType::Array(array) => {
                let shape = vec![extent; array.dims.into()];
                let count = shape.iter().map(|extent| extent.unsigned_abs() as usize).product::<usize>();
                let integer =
                    |random: &mut Random| if self.ones { 1 } else { random.below(extent.unsigned_abs().into()) };
                let data: Vec<u8> =
                    (0..count).flat_map(|_| self.element(&array.element, &mut { integer }, random)).collect();
                Argument::contiguous(data, &shape, array.element.size as usize)
            }
        }
    }

    /// The bytes of an element, of which bytes between components are 0.
    fn element(self, element: &Element, integer: &mut dyn FnMut(&mut Random) -> i64, random: &mut Random) -> Vec<u8> {
        let mut bytes = vec![0; element.size as usize];
        for Component { dtype, offset, .. } in &element.components {
            let value = match dtype.kind() {
                Kind::Bool => Literal::from_i64(*dtype, random.below(2)),
                Kind::Integer => Literal::from_i64(*dtype, integer(random)),
                Kind::Float => Literal::from_f64(*dtype, random.between(self.floats)),
            };
            let size = dtype.size();
            bytes[*offset as usize..][..size].copy_from_slice(&value.bits().to_le_bytes()[..size]);
        }
        bytes
    }
}

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    #[expect(clippy::cast_possible_wrap, reason = "a bound is far below 2^63")]
    fn below(&mut self, bound: u64) -> i64 {
        (self.next() % bound) as i64
    }

    /// A multiple of 2^-10 of the distance: numbers that are short in the text of a program.
    fn between(&mut self, (least, greatest): (f64, f64)) -> f64 {
        let share = (self.next() % 1024) as f64 / 1024.0;
        (greatest - least).mul_add(share, least)
    }
}
