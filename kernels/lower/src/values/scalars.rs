//! Typed operations of scalars as expressions. 16-bit floating-point types are computed in f32, each result rounded.

use accelerd_ir::Dtype;
use accelerd_ir::kernel::Expr;
use accelerd_ir::scalar::{BinaryOp, Literal, UnaryOp};

/// A constant.
pub(crate) fn literal(dtype: Dtype, value: f64) -> Expr {
    Expr::Literal(Literal::from_f64(dtype, value))
}

/// An integer constant.
pub(crate) fn integer(dtype: Dtype, value: i64) -> Expr {
    Expr::Literal(Literal::from_i64(dtype, value))
}

/// A truth value.
pub(crate) fn truth(value: bool) -> Expr {
    Expr::Literal(Literal::from_i64(Dtype::Bool, value.into()))
}

/// An operation of two operands that has a result of their type.
pub(crate) fn binary(op: BinaryOp, dtype: Dtype, a: Expr, b: Expr) -> Expr {
    let compute = dtype.compute();
    let result = Expr::Binary(op, Box::new(cast(dtype, compute, a)), Box::new(cast(dtype, compute, b)));
    cast(compute, dtype, result)
}

/// An operation of one operand that has a result of its type.
pub(crate) fn unary(op: UnaryOp, dtype: Dtype, a: Expr) -> Expr {
    let compute = dtype.compute();
    cast(compute, dtype, Expr::Unary(op, Box::new(cast(dtype, compute, a))))
}

/// A comparison.
pub(crate) fn compare(op: BinaryOp, dtype: Dtype, a: Expr, b: Expr) -> Expr {
    let compute = dtype.compute();
    Expr::Binary(op, Box::new(cast(dtype, compute, a)), Box::new(cast(dtype, compute, b)))
}

/// A property of a number, such as whether it is NaN.
pub(crate) fn test(op: UnaryOp, dtype: Dtype, a: Expr) -> Expr {
    Expr::Unary(op, Box::new(cast(dtype, dtype.compute(), a)))
}

pub(crate) fn add(dtype: Dtype, a: Expr, b: Expr) -> Expr {
    binary(BinaryOp::Add, dtype, a, b)
}

pub(crate) fn sub(dtype: Dtype, a: Expr, b: Expr) -> Expr {
    binary(BinaryOp::Sub, dtype, a, b)
}

pub(crate) fn mul(dtype: Dtype, a: Expr, b: Expr) -> Expr {
    binary(BinaryOp::Mul, dtype, a, b)
}

pub(crate) fn div(dtype: Dtype, a: Expr, b: Expr) -> Expr {
    binary(BinaryOp::Div, dtype, a, b)
}

pub(crate) fn neg(dtype: Dtype, a: Expr) -> Expr {
    unary(UnaryOp::Neg, dtype, a)
}

pub(crate) fn lt(dtype: Dtype, a: Expr, b: Expr) -> Expr {
    compare(BinaryOp::Lt, dtype, a, b)
}

pub(crate) fn le(dtype: Dtype, a: Expr, b: Expr) -> Expr {
    compare(BinaryOp::Le, dtype, a, b)
}

pub(crate) fn eq(dtype: Dtype, a: Expr, b: Expr) -> Expr {
    compare(BinaryOp::Eq, dtype, a, b)
}

pub(crate) fn ne(dtype: Dtype, a: Expr, b: Expr) -> Expr {
    compare(BinaryOp::Ne, dtype, a, b)
}

pub(crate) fn not(a: Expr) -> Expr {
    match a {
        Expr::Literal(literal) => truth(!literal.is_truthy()),
        a => Expr::Unary(UnaryOp::Not, Box::new(a)),
    }
}

pub(crate) fn and(a: Expr, b: Expr) -> Expr {
    Expr::Binary(BinaryOp::And, Box::new(a), Box::new(b))
}

pub(crate) fn or(a: Expr, b: Expr) -> Expr {
    Expr::Binary(BinaryOp::Or, Box::new(a), Box::new(b))
}

pub(crate) fn select(condition: Expr, a: Expr, b: Expr) -> Expr {
    match condition {
        Expr::Literal(literal) => {
            if literal.is_truthy() {
                a
            } else {
                b
            }
        }
        condition => Expr::Select(Box::new(condition), Box::new(a), Box::new(b)),
    }
}

/// The operand, converted as C converts it. Wider numbers become 16-bit floating-point numbers by way of f32.
pub(crate) fn cast(from: Dtype, to: Dtype, a: Expr) -> Expr {
    if from == to {
        return a;
    }
    if to.compute() != to && !matches!(from, Dtype::F32 | Dtype::Bool) {
        return cast(Dtype::F32, to, cast(from, Dtype::F32, a));
    }
    match a {
        Expr::Literal(literal) => Expr::Literal(literal.cast(to)),
        a => Expr::Cast(to, Box::new(a)),
    }
}

/// True for a number other than 0.
pub(crate) fn truthy(dtype: Dtype, a: Expr) -> Expr {
    cast(dtype, Dtype::Bool, a)
}

/// The sum of terms, from the first on.
pub(crate) fn sum(dtype: Dtype, terms: impl IntoIterator<Item = Expr>) -> Expr {
    let sum = terms.into_iter().reduce(|sum, term| add(dtype, sum, term));
    sum.unwrap_or_else(|| literal(dtype, 0.0))
}

/// The sum of the products of components.
pub(crate) fn dot(dtype: Dtype, a: &[Expr], b: &[Expr]) -> Expr {
    sum(dtype, a.iter().zip(b).map(|(x, y)| mul(dtype, x.clone(), y.clone())))
}

/// The conjunction of conditions.
pub(crate) fn all(conditions: impl IntoIterator<Item = Expr>) -> Expr {
    conditions.into_iter().reduce(and).unwrap_or_else(|| truth(true))
}

/// The disjunction of conditions.
pub(crate) fn any(conditions: impl IntoIterator<Item = Expr>) -> Expr {
    conditions.into_iter().reduce(or).unwrap_or_else(|| truth(false))
}
