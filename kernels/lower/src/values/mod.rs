//! Values of expressions while a kernel is lowered.

pub(crate) mod constants;
pub(crate) mod ranges;
pub(crate) mod scalars;

use std::fmt;
use std::rc::Rc;

use accelerd_ir::Dtype;
use accelerd_ir::kernel::{Expr, LocalId, ParamId, Site};
use accelerd_ir::scalar::Literal;

use crate::source::environment::Number;
use crate::types::parameters::RecordType;
use crate::types::{ArrayForm, Type};

/// A value.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Data(Data),
    Array(View),
    Tuple(Vec<Self>),
    /// A struct with arrays, and its fields in order.
    Record(Rc<RecordType>, Vec<Self>),
    /// An array field that no assignment precedes, and a variable that is false.
    Unbound(Type, ArrayForm, LocalId),
    Function(Callable),
    /// A variable or element that a function may change.
    Reference(Location),
    Str,
    None,
}

/// A function as a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Callable {
    /// Its definitions in the source, by index, the latest first.
    Defined(Rc<[usize]>),
    /// A function of Warp.
    Builtin(Rc<str>),
}

/// A value with components.
#[derive(Clone, Debug)]
pub(crate) struct Data {
    pub(crate) ty: Type,
    /// An expression for each component.
    pub(crate) parts: Vec<Expr>,
    /// The number as it is written, if it is a constant of Python.
    pub(crate) constant: Option<Number>,
}

/// An array, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) array: ParamId,
    pub(crate) element: Type,
    /// The dimensions of the array itself.
    pub(crate) axes: Vec<Axis>,
    /// The arrays of indices of an indexed array, one for each dimension.
    pub(crate) selections: Vec<ParamId>,
    /// A variable that is true where the array is assigned, if it is a field that may not be.
    pub(crate) assigned: Option<LocalId>,
}

/// The selection that a view makes in a dimension of its array. Expressions are cheap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Axis {
    All,
    /// One index, i32 or i64.
    Index(Expr),
    /// A slice of i32.
    Slice(Slice),
}

impl Axis {
    /// Returns true if another one differs in its expressions alone.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// Its expressions.
    pub(crate) fn parts(&self) -> Vec<&Expr> {
        match self {
            Self::All => vec![],
            Self::Index(index) => vec![index],
            Self::Slice(Slice { start, step, extent }) => vec![start, step, extent],
        }
    }
}

/// Indices from a start by a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) start: Expr,
    pub(crate) step: Expr,
    pub(crate) extent: Expr,
}

/// Where a value is stored.
#[derive(Clone, Debug)]
pub(crate) struct Location {
    pub(crate) ty: Type,
    pub(crate) storage: Storage,
    /// The choices of components, of which `index` selects one; just one without.
    pub(crate) choices: Vec<Vec<u32>>,
    /// i32, within the number of choices.
    pub(crate) index: Option<Expr>,
}

/// The storage that a location is part of.
#[derive(Clone, Debug)]
pub(crate) enum Storage {
    /// Local variables, by component.
    Locals(Vec<LocalId>),
    /// Values that cannot be assigned.
    Parts(Vec<Expr>),
    /// An element of an array.
    Element { array: ParamId, indices: Vec<Expr>, site: Site },
}

impl View {
    /// A whole array.
    pub(crate) fn whole(array: ParamId, element: Type, dims: u8) -> Self {
        Self { array, element, axes: vec![Axis::All; dims.into()], selections: vec![], assigned: None }
    }

    /// Returns true if another view of the same array differs in its expressions alone.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.array == other.array && self.axes.iter().zip(&other.axes).all(|(a, b)| a.is_like(b))
    }

    /// The dimensions that are left.
    pub(crate) fn open(&self) -> impl Iterator<Item = usize> {
        let is_open = |&at: &usize| !matches!(self.axes[at], Axis::Index(_));
        (0..self.axes.len()).filter(is_open)
    }

    /// The number of dimensions.
    pub(crate) fn rank(&self) -> usize {
        self.open().count()
    }

    /// The extent along one of the dimensions that are left.
    pub(crate) fn extent(&self, nth: usize) -> Expr {
        let dim = self.open().nth(nth).expect("the view has the dimension");
        match &self.axes[dim] {
            Axis::Slice(slice) => slice.extent.clone(),
            Axis::All | Axis::Index(_) => self.array_extent(dim),
        }
    }

    /// Returns true if it is an array of a form.
    pub(crate) fn is_of(&self, form: ArrayForm) -> bool {
        self.rank() == usize::from(form.dims) && self.selections.is_empty() != form.is_indexed
    }

    /// The extent of the array itself along one of its dimensions.
    pub(crate) fn array_extent(&self, dim: usize) -> Expr {
        if let Some(&indices) = self.selections.get(dim) {
            return Expr::Extent(indices, 0);
        }
        Expr::Extent(self.array, u8::try_from(dim).expect("an array has at most 4 dimensions"))
    }

    /// The indices of the array, if no dimension is left.
    pub(crate) fn indices(&self) -> Option<Vec<Expr>> {
        let index = |axis: &Axis| match axis {
            Axis::Index(index) => Some(index.clone()),
            Axis::All | Axis::Slice(_) => None,
        };
        self.axes.iter().map(index).collect()
    }
}

impl Data {
    pub(crate) fn new(ty: Type, parts: Vec<Expr>) -> Self {
        debug_assert_eq!(ty.count(), parts.len(), "a part for each component");
        Self { ty, parts, constant: None }
    }

    pub(crate) fn scalar(dtype: Dtype, value: Expr) -> Self {
        Self::new(Type::Scalar(dtype), vec![value])
    }

    pub(crate) fn literal(literal: Literal) -> Self {
        Self::scalar(literal.dtype(), Expr::Literal(literal))
    }

    /// The zero of a type.
    pub(crate) fn zero(ty: &Type) -> Self {
        Self::new(ty.clone(), ty.components().into_iter().map(|dtype| scalars::literal(dtype, 0.0)).collect())
    }

    /// The scalar type and expression, if it is a scalar.
    pub(crate) fn as_scalar(&self) -> Option<(Dtype, &Expr)> {
        match self.ty {
            Type::Scalar(dtype) => Some((dtype, &self.parts[0])),
            _ => None,
        }
    }

    /// The value with each part replaced.
    pub(crate) fn map(&self, f: impl Fn(Expr) -> Expr) -> Self {
        Self::new(self.ty.clone(), self.parts.iter().cloned().map(f).collect())
    }

    /// The value without its constant, as after passing it to a function.
    pub(crate) fn without_constant(self) -> Self {
        Self { constant: None, ..self }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data(data) => data.ty.fmt(f),
            Self::Array(view) => {
                let dims = u8::try_from(view.rank()).expect("an array has at most 4 dimensions");
                let form = ArrayForm { dims, is_indexed: !view.selections.is_empty() };
                write!(f, "{form} of {}", view.element)
            }
            Self::Tuple(items) => {
                let items: Vec<_> = items.iter().map(ToString::to_string).collect();
                write!(f, "({})", items.join(", "))
            }
            Self::Record(record, _) => f.write_str(&record.name),
            Self::Unbound(element, form, _) => write!(f, "{form} of {element} without an assignment"),
            Self::Function(_) => f.write_str("function"),
            Self::Reference(location) => write!(f, "reference to {}", location.ty),
            Self::Str => f.write_str("string"),
            Self::None => f.write_str("None"),
        }
    }
}

impl From<Data> for Value {
    fn from(data: Data) -> Self {
        Self::Data(data)
    }
}
