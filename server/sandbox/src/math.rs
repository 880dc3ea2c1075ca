//! The functions that a module may import from `math`.
//!
//! They compute what the interpreter of `accelerd-ir` does: in f64, with the standard library and `libm`. `<name>_f32` converts its operands
//! to f64, computes, and rounds the result. `<name>` is `<name>_f64`: so do modules of kernels call it.

/// A function of one operand.
pub type Unary = fn(f64) -> f64;

/// A function of two operands.
pub type Binary = fn(f64, f64) -> f64;

/// Functions of one operand, without the suffix of their type.
pub const UNARY: [(&str, Unary); 20] = [
    ("acos", f64::acos),
    ("acosh", acosh),
    ("asin", f64::asin),
    ("asinh", libm::asinh),
    ("atan", f64::atan),
    ("atanh", libm::atanh),
    ("cos", f64::cos),
    ("cosh", f64::cosh),
    ("erf", libm::erf),
    ("exp", f64::exp),
    ("exp2", f64::exp2),
    ("expm1", f64::exp_m1),
    ("log", f64::ln),
    ("log10", f64::log10),
    ("log1p", f64::ln_1p),
    ("log2", f64::log2),
    ("sin", f64::sin),
    ("sinh", f64::sinh),
    ("tan", f64::tan),
    ("tanh", f64::tanh),
];

/// Functions of two operands, without the suffix of their type. `rem` is C's `fmod`.
pub const BINARY: [(&str, Binary); 4] =
    [("atan2", f64::atan2), ("hypot", f64::hypot), ("pow", f64::powf), ("rem", |x, y| x % y)];

/// That of libm has numbers for large negative operands.
fn acosh(x: f64) -> f64 {
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}

/// Number of operands of a function by its name with or without suffix, and whether they are f32.
pub(crate) fn operands(name: &str) -> Option<(usize, bool)> {
    let (name, suffix) = name.rsplit_once('_').unwrap_or((name, "f64"));
    let count = if UNARY.iter().any(|(known, _)| *known == name) {
        1
    } else if BINARY.iter().any(|(known, _)| *known == name) {
        2
    } else {
        return None;
    };
    match suffix {
        "f32" => Some((count, true)),
        "f64" => Some((count, false)),
        _ => None,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the result is rounded to the type of the operands")]
pub(crate) fn rounded(x: f64) -> f32 {
    x as f32
}

#[cfg(test)]
mod tests {
    use accelerd_ir::{
        Dtype,
        scalar::{BinaryOp, Builder, Function, Literal, UnaryOp, interpret},
    };
    use proptest::prelude::*;

    use super::*;

    fn unary_op(name: &str) -> UnaryOp {
        let is_named = |op: &UnaryOp| format!("{op:?}").to_lowercase() == name;
        UnaryOp::ALL.into_iter().find(is_named).expect("every function is an operation of the IR")
    }

    fn binary_op(name: &str) -> BinaryOp {
        match name {
            "atan2" => BinaryOp::Atan2,
            "hypot" => BinaryOp::Hypot,
            "pow" => BinaryOp::Pow,
            "rem" => BinaryOp::Rem,
            _ => panic!("{name} is not an operation of the IR"),
        }
    }

    fn unary(op: UnaryOp, dtype: Dtype) -> Function {
        let mut builder = Builder::new(&[dtype]);
        let x = builder.param(0);
        let result = builder.unary(op, x).expect("an operation of floating-point numbers");
        builder.finish(&[result])
    }

    fn binary(op: BinaryOp, dtype: Dtype) -> Function {
        let mut builder = Builder::new(&[dtype; 2]);
        let (x, y) = (builder.param(0), builder.param(1));
        let result = builder.binary(op, x, y).expect("an operation of floating-point numbers");
        builder.finish(&[result])
    }

    /// Bits of the interpreter's result; those of one NaN for all.
    fn bits(dtype: Dtype, function: &Function, arguments: &[f64]) -> u64 {
        let arguments: Vec<_> = arguments.iter().map(|x| Literal::from_f64(dtype, *x)).collect();
        let result = interpret(function, &arguments, 0)[0];
        if result.as_f64().is_nan() { f64::NAN.to_bits() } else { result.bits() }
    }

    fn canonical(x: f64) -> u64 {
        if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() }
    }

    proptest! {
        #[test]
        fn functions_compute_what_the_interpreter_does(x: f64, y: f64, near in -8.0..8.0f64) {
            for (name, function) in UNARY {
                let op = unary_op(name);
                for x in [x, near] {
                    prop_assert_eq!(canonical(function(x)), bits(Dtype::F64, &unary(op, Dtype::F64), &[x]), "{} {}", name, x);
                    let x = f64::from(rounded(x));
                    let single = rounded(function(x));
                    let single = if single.is_nan() { f64::NAN.to_bits() } else { u64::from(single.to_bits()) };
                    prop_assert_eq!(single, bits(Dtype::F32, &unary(op, Dtype::F32), &[x]), "{} {} in f32", name, x);
                }
            }
            for (name, function) in BINARY {
                let expected = bits(Dtype::F64, &binary(binary_op(name), Dtype::F64), &[x, y]);
                prop_assert_eq!(canonical(function(x, y)), expected, "{} {} {}", name, x, y);
            }
        }
    }

    #[test]
    fn names_may_have_the_suffix_of_a_type() {
        assert_eq!(operands("sin_f32"), Some((1, true)));
        assert_eq!(operands("sin"), Some((1, false)));
        assert_eq!(operands("pow_f64"), Some((2, false)));
        for unknown in ["sine", "sin_", "sin_f16", "sine_f64", "_f64", ""] {
            assert_eq!(operands(unknown), None, "{unknown}");
        }
    }
}
