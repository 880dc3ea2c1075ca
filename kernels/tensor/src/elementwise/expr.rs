//! Expressions over the values of a scalar function under construction.

use std::{
    cell::RefCell,
    ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Sub},
};

use accelerd_ir::{
    Dtype,
    scalar::{BinaryOp, Builder, Function, Literal, TypeError, UnaryOp, ValueId},
};

/// A function under construction, shared by its expressions. It keeps the first type error.
pub(crate) struct Scope {
    builder: RefCell<Builder>,
    error: RefCell<Option<TypeError>>,
}

/// A value of a function.
#[derive(Clone, Copy)]
pub(crate) struct Expr<'a> {
    scope: &'a Scope,
    value: ValueId,
}

/// The other operand of an operation: an expression of the same type, or a number, which takes the type.
pub(crate) trait Operand<'a> {
    fn of_type(self, like: Expr<'a>) -> Expr<'a>;
}

impl Scope {
    pub(crate) fn new(params: &[Dtype]) -> Self {
        Self { builder: RefCell::new(Builder::new(params)), error: RefCell::default() }
    }

    pub(crate) fn param(&self, nth: usize) -> Expr<'_> {
        self.expr(self.builder.borrow_mut().param(nth))
    }

    pub(crate) fn literal(&self, literal: Literal) -> Expr<'_> {
        self.expr(self.builder.borrow_mut().literal(literal))
    }

    /// Position of the element in its iteration space, row-major; i64.
    pub(crate) fn index(&self) -> Expr<'_> {
        self.expr(self.builder.borrow_mut().index())
    }

    /// The function of one result.
    pub(crate) fn finish(&self, result: Expr<'_>) -> Result<Function, TypeError> {
        match self.error.take() {
            Some(error) => Err(error),
            None => Ok(self.builder.borrow().clone().finish(&[result.value])),
        }
    }

    fn expr(&self, value: ValueId) -> Expr<'_> {
        Expr { scope: self, value }
    }

    /// The value, or `instead` if it is an error.
    fn checked(&self, value: Result<ValueId, TypeError>, instead: Expr<'_>) -> Expr<'_> {
        let value = value.unwrap_or_else(|error| {
            self.error.borrow_mut().get_or_insert(error);
            instead.value
        });
        self.expr(value)
    }
}

impl<'a> Expr<'a> {
    pub(crate) fn dtype(self) -> Dtype {
        self.scope.builder.borrow().dtype(self.value)
    }

    pub(crate) fn is_bool(self) -> bool {
        self.dtype() == Dtype::Bool
    }

    pub(crate) fn is_float(self) -> bool {
        self.dtype().is_float()
    }

    /// A constant of the type of this value.
    pub(crate) fn number(self, value: f64) -> Self {
        self.scope.literal(Literal::from_f64(self.dtype(), value))
    }

    /// An integer constant of the type of this value.
    pub(crate) fn integer(self, value: i64) -> Self {
        self.scope.literal(Literal::from_i64(self.dtype(), value))
    }

    pub(crate) fn cast(self, to: Dtype) -> Self {
        let value = self.scope.builder.borrow_mut().cast(self.value, to);
        self.scope.expr(value)
    }

    pub(crate) fn apply(self, op: UnaryOp) -> Self {
        let value = self.scope.builder.borrow_mut().unary(op, self.value);
        self.scope.checked(value, self)
    }

    pub(crate) fn with(self, op: BinaryOp, other: impl Operand<'a>) -> Self {
        let other = other.of_type(self);
        let value = self.scope.builder.borrow_mut().binary(op, self.value, other.value);
        self.scope.checked(value, self)
    }

    /// `a` where this bool is true, else `b`.
    pub(crate) fn select(self, a: Self, b: impl Operand<'a>) -> Self {
        let b = b.of_type(a);
        let value = self.scope.builder.borrow_mut().select(self.value, a.value, b.value);
        self.scope.checked(value, a)
    }

    pub(crate) fn eq(self, other: impl Operand<'a>) -> Self {
        self.with(BinaryOp::Eq, other)
    }

    pub(crate) fn ne(self, other: impl Operand<'a>) -> Self {
        self.with(BinaryOp::Ne, other)
    }

    pub(crate) fn lt(self, other: impl Operand<'a>) -> Self {
        self.with(BinaryOp::Lt, other)
    }

    pub(crate) fn le(self, other: impl Operand<'a>) -> Self {
        self.with(BinaryOp::Le, other)
    }

    pub(crate) fn gt(self, other: impl Operand<'a>) -> Self {
        other.of_type(self).lt(self)
    }

    pub(crate) fn ge(self, other: impl Operand<'a>) -> Self {
        other.of_type(self).le(self)
    }

    pub(crate) fn min(self, other: impl Operand<'a>) -> Self {
        self.with(BinaryOp::Min, other)
    }

    pub(crate) fn max(self, other: impl Operand<'a>) -> Self {
        self.with(BinaryOp::Max, other)
    }

    /// The absolute value; unsigned integers are their own.
    pub(crate) fn abs(self) -> Self {
        if self.dtype().is_signed() || self.is_bool() { self.apply(UnaryOp::Abs) } else { self }
    }

    pub(crate) fn exp(self) -> Self {
        self.apply(UnaryOp::Exp)
    }

    pub(crate) fn log(self) -> Self {
        self.apply(UnaryOp::Log)
    }

    pub(crate) fn log1p(self) -> Self {
        self.apply(UnaryOp::Log1p)
    }

    pub(crate) fn sqrt(self) -> Self {
        self.apply(UnaryOp::Sqrt)
    }

    pub(crate) fn expm1(self) -> Self {
        self.apply(UnaryOp::Expm1)
    }

    pub(crate) fn trunc(self) -> Self {
        self.apply(UnaryOp::Trunc)
    }

    pub(crate) fn floor(self) -> Self {
        self.apply(UnaryOp::Floor)
    }

    /// 1 less a number.
    pub(crate) fn complement(self) -> Self {
        self.number(1.0) - self
    }

    /// 1 divided by a number.
    pub(crate) fn reciprocal(self) -> Self {
        self.number(1.0) / self
    }

    /// Returns true if a number is NaN; false for integers.
    pub(crate) fn is_nan(self) -> Self {
        self.ne(self)
    }
}

impl<'a> Operand<'a> for Expr<'a> {
    fn of_type(self, _: Expr<'a>) -> Expr<'a> {
        self
    }
}

impl<'a> Operand<'a> for f64 {
    fn of_type(self, like: Expr<'a>) -> Expr<'a> {
        like.number(self)
    }
}

impl Neg for Expr<'_> {
    type Output = Self;

    fn neg(self) -> Self {
        self.apply(UnaryOp::Neg)
    }
}

impl Not for Expr<'_> {
    type Output = Self;

    fn not(self) -> Self {
        self.apply(UnaryOp::Not)
    }
}

/// Implements an operator of expressions by the operation of the same meaning.
macro_rules! operator {
    ($($operator:ident $method:ident $op:ident;)*) => {$(
        impl<'a, T: Operand<'a>> $operator<T> for Expr<'a> {
            type Output = Self;

            fn $method(self, other: T) -> Self {
                self.with(BinaryOp::$op, other)
            }
        }
    )*};
}

operator! {
    Add add Add;
    Sub sub Sub;
    Mul mul Mul;
    Div div Div;
    Rem rem Rem;
    BitAnd bitand And;
    BitOr bitor Or;
    BitXor bitxor Xor;
}
