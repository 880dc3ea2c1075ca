//! Elementary functions of f32 for loops over elements: without calls and branches, so that the compiler vectorises the loops.
//!
//! A function takes f32 as f64, and its caller rounds the result to f32. The rounded result is within 0.51 units in the last place of the
//! exact one, and that of a power within 0.52. The definitions are those of the interpreter, but polynomials are shorter.
//!
//! `FMA` fuses products with sums. It is for instruction sets that have the instruction, all of which compute equal bits. `PLAIN` requires
//! [plain](UnaryFunction::is_plain) operands, for which some functions are faster.
#![expect(clippy::inline_always, reason = "a loop is vectorised only if all of its body is inlined")]

use super::{SMALL_ANGLE, angle, erf, exponential, inverse, logarithm, native::Native, takes_angle};
use crate::scalar::{BinaryOp, UnaryOp};

/// An elementary function of one f32.
pub trait UnaryFunction {
    /// Its operation.
    const OPERATION: UnaryOp;

    /// True if some operands are not plain.
    const HAS_CASES: bool = takes_angle(Self::OPERATION);

    /// Returns true for NaN and for all numbers but large angles.
    #[inline(always)]
    fn is_plain(x: f32) -> bool {
        !Self::HAS_CASES | x.is_nan() | (x.abs() <= SMALL_ANGLE)
    }

    /// The function of the f64 of an f32, before it is rounded.
    fn compute<const FMA: bool, const PLAIN: bool>(x: f64) -> f64;
}

/// An elementary function of two f32.
pub trait BinaryFunction {
    /// Its operation.
    const OPERATION: BinaryOp;

    /// True if some operands are not plain.
    const HAS_CASES: bool = matches!(Self::OPERATION, BinaryOp::Pow);

    /// Returns true unless the function is a power, of which the base is not positive and finite or the exponent is not finite.
    #[inline(always)]
    #[expect(clippy::needless_bitwise_bool, reason = "loops with branches are not vectorised")]
    fn is_plain(x: f32, y: f32) -> bool {
        !Self::HAS_CASES | ((x > 0.0) & (x < f32::INFINITY) & (y.abs() < f32::INFINITY))
    }

    /// The function of the f64 of two f32, before it is rounded.
    fn compute<const FMA: bool, const PLAIN: bool>(x: f64, y: f64) -> f64;
}

/// A function of any [`UnaryFunction`].
pub trait UnaryVisitor {
    /// Its result.
    type Out;
    /// Called with the function of the operation.
    fn visit<F: UnaryFunction>(self) -> Self::Out;
}

/// A function of any [`BinaryFunction`].
pub trait BinaryVisitor {
    /// Its result.
    type Out;
    /// Called with the function of the operation.
    fn visit<F: BinaryFunction>(self) -> Self::Out;
}

macro_rules! functions {
    (
        ($visit:ident, $visitor:ident, $function:ident, $operation:ident, $operands:tt)
        $($name:ident => $definition:path,)+
    ) => {
        /// Calls a visitor with the function of an operation; `None` if the operation is no elementary function.
        pub fn $visit<V: $visitor>(op: $operation, visitor: V) -> Option<V::Out> {
            Some(match op {
                $($operation::$name => visitor.visit::<$name>(),)+
                _ => return None,
            })
        }

        $(function!($function, $operation, $name, $definition, $operands);)+
    };
}

macro_rules! function {
    ($function:ident, $operation:ident, $name:ident, $definition:path, ($($x:ident),+)) => {
        #[doc = concat!("The function of [`", stringify!($operation), "::", stringify!($name), "`].")]
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl $function for $name {
            const OPERATION: $operation = $operation::$name;

            #[inline(always)]
            fn compute<const FMA: bool, const PLAIN: bool>($($x: f64),+) -> f64 {
                $definition(&mut Native::<true, FMA, PLAIN> {}, $($x.into()),+).value
            }
        }
    };
}

unary_definitions!(functions, (visit_unary, UnaryVisitor, UnaryFunction, UnaryOp, (x)));
binary_definitions!(functions, (visit_binary, BinaryVisitor, BinaryFunction, BinaryOp, (x, y)));
