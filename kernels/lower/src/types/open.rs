//! Types that an annotation leaves open, for calls of a function or overloads of a kernel to determine: `Any`, `wp.Float`,
//! `wp.types.vector(length=Any, dtype=wp.Scalar)`.

use std::fmt;

use accelerd_ir::Dtype;

use crate::types::{self, Type};

/// Types of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Open {
    /// All of them, structs with arrays among them.
    Any,
    Scalar(Scalars),
    /// Vectors of a number of components.
    Vector(Option<u32>, Scalars),
    /// Matrices of a number of rows and columns.
    Matrix(Option<u32>, Option<u32>, Scalars),
    Quat(Scalars),
    Transform(Scalars),
}

/// Scalar types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalars {
    One(Dtype),
    Integers,
    Floats,
    /// Integers and floating-point numbers.
    Numbers,
    All,
}

impl Open {
    /// Returns true if a type is one of them.
    pub(crate) fn admits(self, ty: &Type) -> bool {
        let is_count = |wanted: Option<u32>, count: u32| wanted.is_none_or(|wanted| wanted == count);
        match (self, ty) {
            (Self::Any, _) => true,
            (Self::Scalar(scalars), Type::Scalar(dtype)) => scalars.admits(*dtype),
            (Self::Vector(count, scalars), Type::Vector(dtype, length)) => {
                is_count(count, *length) && scalars.admits(*dtype)
            }
            (Self::Quat(scalars), Type::Quat(dtype)) | (Self::Transform(scalars), Type::Transform(dtype)) => {
                scalars.admits(*dtype)
            }
            (Self::Matrix(in_rows, in_columns, scalars), Type::Matrix(dtype, rows, columns)) => {
                is_count(in_rows, *rows) && is_count(in_columns, *columns) && scalars.admits(*dtype)
            }
            _ => false,
        }
    }
}

impl Scalars {
    fn admits(self, dtype: Dtype) -> bool {
        match self {
            Self::One(one) => one == dtype,
            Self::Integers => dtype.is_integer(),
            Self::Floats => dtype.is_float(),
            Self::Numbers => dtype.is_integer() || dtype.is_float(),
            Self::All => true,
        }
    }

    /// Its type, if there is one only.
    pub(crate) fn one(self) -> Option<Dtype> {
        match self {
            Self::One(dtype) => Some(dtype),
            Self::Integers | Self::Floats | Self::Numbers | Self::All => None,
        }
    }
}

impl fmt::Display for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |count: &Option<u32>| count.map_or("any number of".to_owned(), |count| count.to_string());
        match self {
            Self::Any => f.write_str("any type"),
            Self::Scalar(scalars) => write!(f, "one of {scalars}"),
            Self::Vector(count, scalars) => write!(f, "vector of {} {scalars}", number(count)),
            Self::Quat(scalars) => write!(f, "quaternion of {scalars}"),
            Self::Transform(scalars) => write!(f, "transform of {scalars}"),
            Self::Matrix(rows, columns, scalars) => {
                write!(f, "matrix of {} x {} {scalars}", number(rows), number(columns))
            }
        }
    }
}

impl fmt::Display for Scalars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::One(dtype) => types::name(*dtype),
            Self::Integers => "integers",
            Self::Floats => "floating-point numbers",
            Self::Numbers => "numbers",
            Self::All => "scalars",
        })
    }
}
