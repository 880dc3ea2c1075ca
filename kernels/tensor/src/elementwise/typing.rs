//! Which element types an operation takes, in which it computes, and which its result has.

use accelerd_ir::{Dtype, Kind};

pub(super) use crate::signature::Accepts;
use crate::{Attribute, GraphError, attributes::Attributes, signature::DtypeRule};

/// Rules from the common type of the operands to the types of an operation.
#[derive(Clone, Copy)]
pub(super) enum Typing {
    /// The common type, computed in [`Dtype::compute`] of it.
    Same(Accepts),
    /// Likewise for floating-point numbers; integers and bool are computed in f32.
    Float,
    /// Bool, computed in [`Dtype::compute`] of the common type.
    Comparison,
    /// Bool, computed from whether each operand is other than 0.
    Logic,
    /// The attribute `dtype`.
    Cast,
    /// The types of a quotient: `Float`, or `Same` of numbers if it is rounded to an integer, which the function tells.
    Quotient(fn(&Attributes<'_>) -> Result<bool, GraphError>),
}

/// The types of one call of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Types {
    /// Of the values of scalars, before they take the type `compute`.
    pub(super) scalar: Dtype,
    /// Of the operands.
    pub(super) compute: Dtype,
    /// Of the result.
    pub(super) result: Dtype,
}

impl Accepts {
    fn accepts(self, dtype: Dtype) -> bool {
        match self {
            Self::Any => true,
            Self::Numbers => dtype.kind() != Kind::Bool,
            Self::Bits => dtype.kind() != Kind::Float,
            Self::Integers => dtype.kind() == Kind::Integer,
        }
    }

    fn describe(self) -> &'static str {
        match self {
            Self::Any => "any type",
            Self::Numbers => "integers or floating-point numbers",
            Self::Bits => "integers or bool",
            Self::Integers => "integers",
        }
    }
}

impl Typing {
    /// The types of a call. `tensors` are the types of its tensors, `scalars` those of its operands that are attributes.
    pub(super) fn resolve(
        self,
        attributes: &Attributes<'_>,
        tensors: &[Dtype],
        scalars: &[Kind],
    ) -> Result<Types, GraphError> {
        let node = &attributes.node().name;
        let common = || common(node, tensors).map(|tensors| with_scalars(tensors, scalars));
        let of_compute = |compute: Dtype, result| Types { scalar: compute, compute, result };
        Ok(match self {
            Self::Same(accepts) => {
                let common = common()?;
                if !accepts.accepts(common) {
                    return Err(GraphError::new(node, "inputs", accepts.describe(), common));
                }
                of_compute(common.compute(), common)
            }
            Self::Float => {
                let common = common()?;
                let result = if common.is_float() { common } else { Dtype::F32 };
                of_compute(result.compute(), result)
            }
            Self::Comparison => {
                let common = common()?;
                Types { scalar: common, compute: common.compute(), result: Dtype::Bool }
            }
            Self::Logic => of_compute(Dtype::Bool, Dtype::Bool),
            Self::Cast => of_compute(common()?, attributes.required("dtype", attributes.dtype("dtype")?, &[])?),
            Self::Quotient(is_rounded) => {
                let typing = if is_rounded(attributes)? { Self::Same(Accepts::Numbers) } else { Self::Float };
                typing.resolve(attributes, tensors, scalars)?
            }
        })
    }

    /// The common types of the operands that it takes whatever the attributes are.
    pub(super) fn accepts(self) -> Accepts {
        match self {
            Self::Same(accepts) => accepts,
            Self::Float | Self::Comparison | Self::Logic | Self::Cast | Self::Quotient(_) => Accepts::Any,
        }
    }

    /// The rule of the type of the result.
    pub(super) fn rule(self) -> DtypeRule {
        match self {
            Self::Same(_) => DtypeRule::Common,
            Self::Float => DtypeRule::Float,
            Self::Comparison => DtypeRule::Comparison,
            Self::Logic => DtypeRule::Is(Dtype::Bool),
            Self::Cast => DtypeRule::Given,
            Self::Quotient(_) => DtypeRule::Quotient,
        }
    }
}

/// The kind of a scalar operand; `None` if the attribute is not a number.
pub(super) fn kind(scalar: &Attribute) -> Option<Kind> {
    match scalar {
        Attribute::Bool(_) => Some(Kind::Bool),
        Attribute::Int(_) => Some(Kind::Integer),
        Attribute::Float(_) => Some(Kind::Float),
        Attribute::Text(_) | Attribute::Ints(_) => None,
    }
}

/// The common type of tensors; `None` without any. The order does not matter: types of lower kinds count only among themselves.
fn common(node: &str, tensors: &[Dtype]) -> Result<Option<Dtype>, GraphError> {
    let Some(kind) = tensors.iter().map(|dtype| dtype.kind()).max() else { return Ok(None) };
    let mut leading = tensors.iter().copied().filter(|dtype| dtype.kind() == kind);
    let first = leading.next();
    let all = leading.try_fold(first, |common, dtype| match common {
        None => Ok(Some(dtype)),
        Some(common) => common.promote(dtype).map(Some),
    });
    all.map_err(|_| {
        let got: Vec<_> = tensors.iter().map(|dtype| dtype.name()).collect();
        GraphError::new(node, "inputs", "types that have a common type", got.join(", "))
    })
}

/// Scalars are weakly typed: only one of a higher kind changes the type of the tensors.
fn with_scalars(tensors: Option<Dtype>, scalars: &[Kind]) -> Dtype {
    let highest = scalars.iter().copied().max().unwrap_or(Kind::Bool);
    match (tensors, highest) {
        (Some(dtype), kind) if dtype.kind() >= kind => dtype,
        (_, Kind::Bool) => Dtype::Bool,
        (_, Kind::Integer) => Dtype::I64,
        (_, Kind::Float) => Dtype::F32,
    }
}
