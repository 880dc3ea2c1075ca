//! Annotations of parameters: types of values, arrays of them, structs with arrays, and open types.

use std::fmt;
use std::rc::Rc;

use crate::types::open::Open;
use crate::types::{ArrayForm, Type};

/// A struct with fields that are arrays, or without fields.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RecordType {
    pub(crate) name: String,
    pub(crate) fields: Vec<(String, Annotation)>,
}

impl RecordType {
    /// The position of a field.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|(field, _)| field == name)
    }
}

/// The type that a name stands for in an annotation or a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Annotation {
    /// A value of a type.
    Data(Type),
    /// An array of elements of a type.
    Array(Type, ArrayForm),
    /// An array whose elements are of any of some types.
    OpenArray(Open, ArrayForm),
    /// Several values.
    Tuple(Vec<Self>),
    /// A struct with fields that are arrays.
    Record(Rc<RecordType>),
    /// A function.
    Function,
    /// A variable or element of a type, which the function may change.
    Reference(Type),
    /// A type that each call, or an overload of the kernel, determines.
    Open(Open),
    /// No value.
    None,
}

impl Annotation {
    /// The components, arrays and other values that it stands for. A type that mentions another twice doubles them.
    pub(crate) fn leaves(&self) -> usize {
        match self {
            Self::Data(ty) => ty.count(),
            Self::Tuple(items) => items.iter().map(Self::leaves).sum(),
            Self::Record(record) => {
                record.fields.iter().map(|(_, annotation)| annotation.leaves()).sum::<usize>().max(1)
            }
            Self::Array(..)
            | Self::OpenArray(..)
            | Self::Function
            | Self::Reference(_)
            | Self::Open(_)
            | Self::None => 1,
        }
    }
}

impl fmt::Display for Annotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data(ty) => ty.fmt(f),
            Self::Array(element, form) => write!(f, "{form} of {element}"),
            Self::OpenArray(Open::Any, form) => form.fmt(f),
            Self::OpenArray(open, form) => write!(f, "{form} of {open}"),
            Self::Tuple(items) => {
                let items: Vec<_> = items.iter().map(ToString::to_string).collect();
                write!(f, "({})", items.join(", "))
            }
            Self::Record(record) => f.write_str(&record.name),
            Self::Function => f.write_str("function"),
            Self::Reference(ty) => write!(f, "reference to {ty}"),
            Self::Open(open) => open.fmt(f),
            Self::None => f.write_str("None"),
        }
    }
}
