//! An entry of the table of elementwise operations, and how a node calls it.

use accelerd_ir::{
    Dtype,
    scalar::{Function, Literal},
};

use super::{
    expr::{Expr, Scope},
    operands::{Slot, Source, sources},
    typing::{Types, Typing},
};
use crate::{Attribute, GraphError, NodeSpec, attributes::Attributes};

/// An elementwise operation.
pub(super) struct Operation {
    pub(super) name: &'static str,
    pub(super) slots: &'static [Slot],
    pub(super) typing: Typing,
    pub(super) body: Body,
}

/// Computes the result from the operands, which have the type in which the operation computes.
pub(super) enum Body {
    One(for<'a> fn(Expr<'a>) -> Expr<'a>),
    Two(for<'a> fn(Expr<'a>, Expr<'a>) -> Expr<'a>),
    /// Any number of operands, and attributes.
    Call(for<'a> fn(&Call<'a>) -> Result<Expr<'a>, GraphError>),
}

/// One call of an operation.
pub(super) struct Call<'a> {
    pub(super) attributes: &'a Attributes<'a>,
    scope: &'a Scope,
    types: Types,
    sources: &'a [Option<Source<'a>>],
}

/// An operation of one tensor.
pub(super) const fn unary(name: &'static str, typing: Typing, body: for<'a> fn(Expr<'a>) -> Expr<'a>) -> Operation {
    Operation { name, slots: &[Slot::Tensor], typing, body: Body::One(body) }
}

/// An operation of one tensor with attributes.
pub(super) const fn unary_with(
    name: &'static str,
    typing: Typing,
    body: for<'a> fn(&Call<'a>) -> Result<Expr<'a>, GraphError>,
) -> Operation {
    Operation { name, slots: &[Slot::Tensor], typing, body: Body::Call(body) }
}

/// The operands of binary operations; a scalar on the left is the attribute `input`.
pub(super) const PAIR: &[Slot] = &[Slot::Either("input"), Slot::Either("other")];

/// An operation of two operands, at most one of which is a scalar.
pub(super) const fn binary(
    name: &'static str,
    typing: Typing,
    body: for<'a> fn(Expr<'a>, Expr<'a>) -> Expr<'a>,
) -> Operation {
    Operation { name, slots: PAIR, typing, body: Body::Two(body) }
}

impl Operation {
    /// The function of a call.
    pub(super) fn function(&self, node: &NodeSpec, operands: &[Dtype]) -> Result<Function, GraphError> {
        let attributes = Attributes::new(node);
        let sources = sources(self.slots, &attributes, operands)?;
        let tensors: Vec<_> = sources.iter().flatten().filter_map(Source::promoted).collect();
        let scalars: Vec<_> = sources.iter().flatten().filter_map(Source::kind).collect();
        let types = self.typing.resolve(&attributes, &tensors, &scalars)?;
        let scope = Scope::new(operands);
        let call = Call { attributes: &attributes, scope: &scope, types, sources: &sources };
        let result = match self.body {
            Body::One(body) => body(call.operand(0)?),
            Body::Two(body) => body(call.operand(0)?, call.operand(1)?),
            Body::Call(body) => body(&call)?,
        };
        attributes.finish()?;
        let refused = |error| GraphError::new(&node.name, "inputs", format!("types that {} takes", node.op), error);
        scope.finish(result.cast(types.result)).map_err(refused)
    }
}

impl<'a> Call<'a> {
    /// An operand that is not optional.
    pub(super) fn operand(&self, slot: usize) -> Result<Expr<'a>, GraphError> {
        Ok(self.optional(slot)?.expect("only an optional operand is missing, and those are not asked for here"))
    }

    /// An operand; `None` if it is missing.
    pub(super) fn optional(&self, slot: usize) -> Result<Option<Expr<'a>>, GraphError> {
        self.sources[slot].map(|source| self.load(source)).transpose()
    }

    /// The value of an operand that is a scalar.
    pub(super) fn constant(&self, slot: usize) -> Option<(&'static str, &'a Attribute)> {
        match self.sources[slot] {
            Some(Source::Scalar { name, value, .. }) => Some((name, value)),
            Some(Source::Tensor { .. }) | None => None,
        }
    }

    /// The type of the result.
    pub(super) fn result(&self) -> Dtype {
        self.types.result
    }

    /// An attribute in the type in which the operation computes; `default` if it is not set.
    pub(super) fn scalar(&self, name: &'static str, default: f64) -> Result<Expr<'a>, GraphError> {
        let default = || self.scope.literal(Literal::from_f64(self.types.compute, default));
        Ok(self.optional_scalar(name)?.unwrap_or_else(default))
    }

    /// An attribute in the type in which the operation computes; `None` if it is not set.
    pub(super) fn optional_scalar(&self, name: &'static str) -> Result<Option<Expr<'a>>, GraphError> {
        let Some(value) = self.attributes.get(name) else { return Ok(None) };
        Ok(Some(self.scope.literal(self.literal(name, value, self.types.compute)?)))
    }

    /// An attribute that must be set, in the type in which the operation computes.
    pub(super) fn required_scalar(
        &self,
        name: &'static str,
        later: &'static [&'static str],
    ) -> Result<Expr<'a>, GraphError> {
        self.attributes.required(name, self.optional_scalar(name)?, later)
    }

    fn load(&self, source: Source<'a>) -> Result<Expr<'a>, GraphError> {
        Ok(match source {
            Source::Tensor { nth, is_condition: true, .. } => self.scope.param(nth),
            Source::Tensor { nth, .. } => self.scope.param(nth).cast(self.types.compute),
            Source::Scalar { name, value, .. } => {
                let literal = self.literal(name, value, self.types.scalar)?;
                let (of, compute) = (literal.dtype(), self.types.compute);
                self.scope.literal(if of == compute { literal } else { Literal::from_f64(compute, literal.as_f64()) })
            }
        })
    }

    /// A scalar as a constant of a type that must hold it, if it is an integer type.
    fn literal(&self, name: &'static str, value: &Attribute, dtype: Dtype) -> Result<Literal, GraphError> {
        match value {
            Attribute::Bool(value) => Ok(Literal::from_i64(dtype, i64::from(*value))),
            Attribute::Int(_) if dtype.is_float() => {
                Ok(Literal::from_f64(dtype, self.attributes.float(name)?.unwrap_or_default()))
            }
            Attribute::Int(value) if dtype == Dtype::Bool => Ok(Literal::from_i64(dtype, *value)),
            Attribute::Int(int) => {
                let literal = Literal::from_i64(dtype, *int);
                let fits = literal.as_i64() == *int && (dtype.is_signed() || *int >= 0);
                fits.then_some(literal)
                    .ok_or_else(|| self.attributes.mismatch(name, &format!("a value of {dtype}"), value))
            }
            Attribute::Float(value) if dtype.is_float() || dtype == Dtype::Bool => Ok(Literal::from_f64(dtype, *value)),
            Attribute::Float(_) => Err(self.attributes.mismatch(name, &format!("a value of {dtype}"), value)),
            Attribute::Text(_) | Attribute::Ints(_) => Err(self.attributes.mismatch(name, "a number", value)),
        }
    }
}
