//! Constants of Python as values of other types, and names of operators.

use accelerd_ir::Dtype;
use accelerd_ir::scalar::Literal;
use accelerd_parser::Operator;

use crate::source::environment::Number;
use crate::types::Type;
use crate::values::Data;

/// A constant in a type: integers wrap, floating-point numbers are rounded, or truncated to integers.
pub(crate) fn convert(number: Number, dtype: Dtype) -> Literal {
    match number {
        #[expect(clippy::cast_possible_truncation, reason = "integers wrap")]
        Number::Int(value) if !dtype.is_float() && dtype != Dtype::Bool => Literal::from_i64(dtype, value as i64),
        Number::Int(value) => match i64::try_from(value) {
            Ok(value) => Literal::from_i64(Dtype::I64, value).cast(dtype),
            Err(_) => Literal::from_f64(dtype, value as f64),
        },
        // As in C, where the constant of a 16-bit type is one of f32 first.
        Number::Float(value) if dtype.compute() != dtype => Literal::from_f64(Dtype::F32, value).cast(dtype),
        Number::Float(value) => Literal::from_f64(dtype, value),
        Number::Bool(value) => Literal::from_i64(Dtype::I32, value.into()).cast(dtype),
    }
}

/// A constant of Python as a scalar of another type: an integer of any type of numbers that has it, a floating-point number of any
/// floating-point type.
pub(crate) fn adapted(data: &Data, dtype: Dtype) -> Option<Data> {
    if data.ty == Type::Scalar(dtype) {
        return Some(data.clone());
    }
    let constant = data.constant?;
    let fits = match constant {
        Number::Int(_) if dtype.is_float() => true,
        Number::Int(value) => {
            let bits = 8 * dtype.size() - usize::from(dtype.is_signed());
            let least = if dtype.is_signed() { -(1_i128 << bits) } else { 0 };
            dtype.is_integer() && (least..1 << bits).contains(&value)
        }
        Number::Float(_) => dtype.is_float(),
        Number::Bool(_) => false,
    };
    fits.then(|| Data { constant: Some(constant), ..Data::literal(convert(constant, dtype)) })
}

/// The symbol of an operator.
pub(crate) fn symbol(op: Operator) -> &'static str {
    match op {
        Operator::And => "and",
        Operator::Or => "or",
        Operator::Add | Operator::UAdd => "+",
        Operator::Sub | Operator::USub => "-",
        Operator::Mult => "*",
        Operator::MatMult => "@",
        Operator::Div => "/",
        Operator::Mod => "%",
        Operator::Pow => "**",
        Operator::LShift => "<<",
        Operator::RShift => ">>",
        Operator::BitOr => "|",
        Operator::BitXor => "^",
        Operator::BitAnd => "&",
        Operator::FloorDiv => "//",
        Operator::Invert => "~",
        Operator::Not => "not",
        Operator::Eq => "==",
        Operator::NotEq => "!=",
        Operator::Lt => "<",
        Operator::LtE => "<=",
        Operator::Gt => ">",
        Operator::GtE => ">=",
        Operator::Is => "is",
        Operator::IsNot => "is not",
        Operator::In => "in",
        Operator::NotIn => "not in",
    }
}

/// Warp's name of an operator, by which a source can define it.
pub(crate) fn function_of(op: Operator) -> Option<&'static str> {
    Some(match op {
        Operator::Add => "add",
        Operator::Sub => "sub",
        Operator::Mult | Operator::MatMult => "mul",
        Operator::Div => "div",
        Operator::FloorDiv => "floordiv",
        Operator::Pow => "pow",
        Operator::Mod => "mod",
        Operator::LShift => "lshift",
        Operator::RShift => "rshift",
        Operator::BitAnd => "bit_and",
        Operator::BitOr => "bit_or",
        Operator::BitXor => "bit_xor",
        _ => return None,
    })
}
