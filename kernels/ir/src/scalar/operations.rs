//! The operations of scalar functions: one table, from which names, types, spellings, error bounds and costs derive.

use super::row::{
    BinaryFunction, Cost, MathResult,
    Operands::{Any, Bits, Floats, Integers, Numbers, Signed},
    Row,
    Spelling::{Call, Infix, Text},
    UnaryFunction, elementary, elementary_of_two, predicate, primitive,
};
use crate::Dtype;

/// Defines an enumeration of operations by its rows. The macro that `elementary` names is a pattern of all elementary functions, so that
/// matches of operations treat them alike and stay exhaustive.
macro_rules! operations {
    (
        $(#[$about:meta])*
        enum $Op:ident, $function:ty;
        primitive { $($(#[$doc:meta])* $op:ident: $row:expr;)* }
        elementary $pattern:ident { $($(#[$elementary_doc:meta])* $elementary:ident: $elementary_row:expr;)* }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $Op {
            $($(#[$doc])* $op,)*
            $($(#[$elementary_doc])* $elementary,)*
        }

        macro_rules! $pattern {
            () => { $($crate::scalar::$Op::$elementary)|* };
        }
        pub(crate) use $pattern;

        impl $Op {
            const COUNT: usize = [$(stringify!($op),)* $(stringify!($elementary),)*].len();

            /// All operations.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$op,)* $(Self::$elementary,)*];

            pub(crate) fn row(self) -> &'static Row<$function> {
                static ROWS: [Row<$function>; $Op::COUNT] = [$($row,)* $($elementary_row,)*];
                &ROWS[self as usize]
            }

            /// Its name: that of the variant in lower case.
            pub fn name(self) -> &'static str {
                self.row().name
            }

            /// The type of the result, or `None` if operands of this type are not supported.
            pub fn result(self, operands: Dtype) -> Option<Dtype> {
                self.row().result(operands)
            }

            /// Returns true for the functions of [`math`](super::math), which math libraries approximate.
            pub fn is_elementary(self) -> bool {
                self.row().function.is_some()
            }

            /// The function of f64 of an elementary function; `None` for other operations.
            pub fn f64_function(self) -> Option<$function> {
                self.row().function
            }

            /// The elementary functions among the operations.
            pub fn elementary() -> impl Iterator<Item = Self> {
                Self::ALL.into_iter().filter(|op| op.is_elementary())
            }

            /// Greatest error in CUDA's math library in units of the last place; 0 for operations that are rounded correctly.
            pub fn max_ulp(self) -> u32 {
                self.row().max_ulp
            }

            /// Estimated length of its code on a GPU, in instructions.
            pub fn code_length(self) -> usize {
                self.row().cost.code_length()
            }

            /// The operation of a function of Python's module `math`, and what the function returns.
            pub fn of_python(name: &str) -> Option<(Self, MathResult)> {
                Self::ALL.into_iter().find_map(|op| {
                    let (own, result) = op.row().python?;
                    (own == name).then_some((op, result))
                })
            }

            /// The operation of a function of Warp on floating-point scalars.
            pub fn of_warp(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|op| op.row().warp == Some(name))
            }

            /// The functions of CUDA's math library that the operations call.
            pub(crate) fn cuda_calls() -> impl Iterator<Item = &'static str> {
                Self::ALL.into_iter().flat_map(|op| op.row().cuda_calls())
            }
        }
    };
}

operations! {
    /// An operation of one operand.
    enum UnaryOp, UnaryFunction;

    primitive {
        /// Negation; wraps for integers.
        Neg: primitive("neg", Numbers, Text("-{a}")).integers(Text("({t})(0 - {ua})"));
        /// Absolute value; wraps for the least signed integer.
        Abs: primitive("abs", Signed, Call("fabs"))
            .integers(Text("({t})({a} < 0 ? 0 - {ua} : {ua})"))
            .python_as("fabs", MathResult::Value);
        /// -1, 0 or 1 by sign; 0 for -0, NaN for NaN.
        Sign: primitive("sign", Signed, Text("ir::sign({a})"))
            .integers(Text("({t})(({a} > 0) - ({a} < 0))"))
            .cost(Cost::Function);
        /// Largest integer not above.
        Floor: primitive("floor", Floats, Call("floor")).cost(Cost::Function).python(MathResult::Integer).warp();
        /// Smallest integer not below.
        Ceil: primitive("ceil", Floats, Call("ceil")).cost(Cost::Function).python(MathResult::Integer).warp();
        /// Integer part.
        Trunc: primitive("trunc", Floats, Call("trunc")).cost(Cost::Function).python(MathResult::Integer).warp();
        /// Nearest integer, ties to even.
        Round: primitive("round", Floats, Call("rint")).cost(Cost::Function).warp_as("rint");
        /// Square root.
        Sqrt: primitive("sqrt", Floats, Call("sqrt")).python(MathResult::Checked).warp();
        /// Complement of all bits of an integer; negation of a bool.
        Not: primitive("not", Bits, Text("({t})(~{ua})")).bools(Text("!{a}"));
        /// True if the operand is NaN.
        IsNan: predicate("isnan", Floats, Text("{a} != {a}")).cost(Cost::Function).python(MathResult::Value);
        /// True if the operand is infinite.
        IsInf: predicate("isinf", Floats, Text("ir::is_inf({a})")).cost(Cost::Function).python(MathResult::Value);
        /// True if the sign bit is set, also of -0. Operations other than negation, absolute value and `CopySign` leave the sign of a NaN
        /// undefined.
        SignBit: predicate("signbit", Floats, Text("ir::sign_bit({a})")).cost(Cost::Function);
    }

    elementary elementary_unary {
        /// e to the power.
        Exp: elementary("exp", 2, f64::exp).for_16_bits("ir::exp_for_16_bits").python(MathResult::Checked).warp();
        /// 2 to the power.
        Exp2: elementary("exp2", 2, f64::exp2).python(MathResult::Checked);
        /// e to the power, less 1, exact for small operands.
        Expm1: elementary("expm1", 1, f64::exp_m1).python(MathResult::Checked);
        /// Natural logarithm.
        Log: elementary("log", 1, f64::ln).python(MathResult::Checked).warp();
        /// Binary logarithm.
        Log2: elementary("log2", 1, f64::log2).python(MathResult::Checked).warp();
        /// Decimal logarithm.
        Log10: elementary("log10", 2, f64::log10).python(MathResult::Checked).warp();
        /// Natural logarithm of 1 plus the operand, exact for small operands.
        Log1p: elementary("log1p", 1, f64::ln_1p).python(MathResult::Checked);
        /// Sine.
        Sin: elementary("sin", 2, f64::sin).python(MathResult::Checked).warp();
        /// Cosine.
        Cos: elementary("cos", 2, f64::cos).python(MathResult::Checked).warp();
        /// Tangent.
        Tan: elementary("tan", 4, f64::tan).python(MathResult::Checked).warp();
        /// Inverse sine.
        Asin: elementary("asin", 2, f64::asin).python(MathResult::Checked).warp();
        /// Inverse cosine.
        Acos: elementary("acos", 2, f64::acos).python(MathResult::Checked).warp();
        /// Inverse tangent.
        Atan: elementary("atan", 2, f64::atan).python(MathResult::Checked).warp();
        /// Hyperbolic sine.
        Sinh: elementary("sinh", 3, f64::sinh).python(MathResult::Checked).warp();
        /// Hyperbolic cosine.
        Cosh: elementary("cosh", 1, f64::cosh).python(MathResult::Checked).warp();
        /// Hyperbolic tangent.
        Tanh: elementary("tanh", 2, f64::tanh).for_16_bits("ir::tanh_for_16_bits").python(MathResult::Checked).warp();
        /// Inverse hyperbolic sine. That of the standard library loses digits and overflows.
        Asinh: elementary("asinh", 3, libm::asinh).python(MathResult::Checked);
        /// Inverse hyperbolic cosine.
        Acosh: elementary("acosh", 4, acosh).python(MathResult::Checked);
        /// Inverse hyperbolic tangent. That of the standard library loses digits.
        Atanh: elementary("atanh", 3, libm::atanh).python(MathResult::Checked);
        /// Error function.
        Erf: elementary("erf", 2, libm::erf).for_16_bits("ir::erf_for_16_bits").python(MathResult::Checked).warp();
    }
}

operations! {
    /// An operation of two operands of equal type.
    enum BinaryOp, BinaryFunction;

    primitive {
        /// Sum; wraps for integers.
        Add: primitive("add", Numbers, Infix("+"));
        /// Difference; wraps for integers.
        Sub: primitive("sub", Numbers, Infix("-"));
        /// Product; wraps for integers.
        Mul: primitive("mul", Numbers, Infix("*"));
        /// Quotient; truncated for integers, 0 if the divisor is 0.
        Div: primitive("div", Numbers, Infix("/")).integers(Text("ir::quotient({a}, {b})")).cost(Cost::Division);
        /// Remainder of the truncated quotient, with the dividend's sign (C's `fmod`); 0 for integers if the divisor is 0.
        Rem: primitive("rem", Numbers, Call("fmod"))
            .integers(Text("ir::remainder({a}, {b})"))
            .cost(Cost::Function)
            .python_as("fmod", MathResult::Checked);
        /// The lesser; NaN if either is; -0 is less than 0.
        Min: primitive("min", Any, Text("ir::minimum({a}, {b})")).integers(Text("{b} < {a} ? {b} : {a}"));
        /// The greater; NaN if either is; 0 is greater than -0.
        Max: primitive("max", Any, Text("ir::maximum({a}, {b})")).integers(Text("{a} < {b} ? {b} : {a}"));
        /// Magnitude of the first, sign of the second.
        CopySign: primitive("copysign", Floats, Call("copysign")).python(MathResult::Value).warp();
        /// Both bits, or both truths.
        And: primitive("and", Bits, Infix("&"));
        /// Either bit, or either truth.
        Or: primitive("or", Bits, Infix("|"));
        /// Differing bits, or differing truths.
        Xor: primitive("xor", Bits, Infix("^"));
        /// Left shift of an integer; 0 if the second operand is negative or not below the number of bits.
        Shl: primitive("shl", Integers, Text("ir::shift_left({a}, {b})"));
        /// Right shift of an integer, arithmetic if signed; if the second operand is negative or not below the number of bits, no bit but
        /// the sign remains: -1 for a negative number, else 0.
        Shr: primitive("shr", Integers, Text("ir::shift_right({a}, {b})"));
        /// Equal; false for NaN.
        Eq: predicate("eq", Any, Text("{a} == {b}"));
        /// Not equal; true for NaN.
        Ne: predicate("ne", Any, Text("{a} != {b}"));
        /// Less; false for NaN.
        Lt: predicate("lt", Any, Text("{a} < {b}"));
        /// Less or equal; false for NaN.
        Le: predicate("le", Any, Text("{a} <= {b}"));
        /// The upper half of the product of integers, which has twice their bits.
        MulHigh: primitive("mulhigh", Integers, Text("ir::mul_high({a}, {b})"));
    }

    elementary elementary_binary {
        /// Power of floating-point numbers.
        Pow: elementary_of_two("pow", 4, f64::powf);
        /// Angle of the point (second operand, first operand).
        Atan2: elementary_of_two("atan2", 3, f64::atan2).python(MathResult::Value).warp();
        /// Length of the hypotenuse, without overflow in between.
        // CPython's `hypot` overflows to infinity without an exception.
        Hypot: elementary_of_two("hypot", 3, f64::hypot).python(MathResult::Value);
    }
}

/// The standard library's loses digits near 1 and overflows; that of libm has numbers for large negative operands.
fn acosh(x: f64) -> f64 {
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_the_names_of_their_variants() {
        for op in UnaryOp::ALL {
            assert_eq!(op.name(), format!("{op:?}").to_lowercase());
        }
        for op in BinaryOp::ALL {
            assert_eq!(op.name(), format!("{op:?}").to_lowercase());
        }
    }

    #[test]
    fn a_function_of_a_dialect_is_one_operation() {
        let unary = UnaryOp::ALL.into_iter().map(|op| (op.row().python.map(|(name, _)| name), op.row().warp));
        let binary = BinaryOp::ALL.into_iter().map(|op| (op.row().python.map(|(name, _)| name), op.row().warp));
        let (mut python, mut warp): (Vec<_>, Vec<_>) = unary.chain(binary).unzip();
        for names in [&mut python, &mut warp] {
            names.retain(Option::is_some);
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{names:?}");
        }
    }

    #[test]
    fn operations_that_are_rounded_correctly_are_not_elementary() {
        assert!(UnaryOp::ALL.into_iter().all(|op| op.is_elementary() == (op.max_ulp() > 0)));
        assert!(BinaryOp::ALL.into_iter().all(|op| op.is_elementary() == (op.max_ulp() > 0)));
    }
}
