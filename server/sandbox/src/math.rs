//! The functions that a module may import from `math`: the elementary functions of `accelerd-ir`, and `rem`, C's `fmod`.
//!
//! `<name>_f32` is the function of f32. `<name>` is `<name>_f64`: so do modules of kernels call it.

use accelerd_ir::scalar::math::MathOp;

/// The remainder of the truncated quotient.
pub(crate) const REM: &str = "rem";

/// Number of operands of a function by its name with or without suffix, and whether they are f32.
pub(crate) fn operands(name: &str) -> Option<(usize, bool)> {
    let (name, suffix) = name.rsplit_once('_').unwrap_or((name, "f64"));
    let count = match MathOp::parse(name) {
        Some(function) => function.arity(),
        None if name == REM => 2,
        None => return None,
    };
    match suffix {
        "f32" => Some((count, true)),
        "f64" => Some((count, false)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_have_the_suffix_of_a_type() {
        assert_eq!(operands("sin_f32"), Some((1, true)));
        assert_eq!(operands("sin"), Some((1, false)));
        assert_eq!(operands("pow_f64"), Some((2, false)));
        assert_eq!(operands("rem_f32"), Some((2, true)));
        for unknown in ["sine", "sin_", "sin_f16", "sine_f64", "_f64", ""] {
            assert_eq!(operands(unknown), None, "{unknown}");
        }
    }
}
