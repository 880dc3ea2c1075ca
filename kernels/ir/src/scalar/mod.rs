//! Pure functions of scalars in static single assignment form.
//!
//! 16-bit floating-point types are storage types: a function casts their values to f32, computes, and casts the result back, which
//! rounds it to nearest even. Integer arithmetic wraps. Division and remainder of integers by zero are 0. A cast from a floating-point
//! number to an integer truncates and saturates, and NaN becomes 0; a cast to a floating-point type rounds once; a cast between integers
//! wraps; a cast to bool tests for a value other than 0.

mod builder;
pub mod cuda;
pub(crate) mod elementary;
mod function;
pub(crate) mod interpret;
mod literal;
pub mod math;
mod operations;
mod round;
mod row;

pub use builder::{Builder, TypeError};
pub use elementary::loops;
pub use function::{Function, Inst, Value, ValueId};
pub use interpret::interpret;
pub use literal::Literal;
pub use operations::{BinaryOp, UnaryOp};
pub(crate) use operations::{elementary_binary, elementary_unary};
pub use row::MathResult;
