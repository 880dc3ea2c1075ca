//! Types of values: scalars, vectors, matrices, quaternions, transforms and structs, as sequences of scalar components.

mod annotations;
pub(crate) mod open;
pub(crate) mod parameters;

use std::fmt;
use std::rc::Rc;

use accelerd_ir::Dtype;
use accelerd_ir::kernel::{Component, Element};

use crate::source::environment::Number;

/// The type of a value that has components.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Scalar(Dtype),
    /// A vector of a length.
    Vector(Dtype, u32),
    /// A matrix of rows and columns; its components are row-major.
    Matrix(Dtype, u32, u32),
    /// A quaternion x, y, z, w.
    Quat(Dtype),
    /// A position p and a rotation q.
    Transform(Dtype),
    Struct(Rc<StructType>),
    /// Elements of a shape; its components are row-major.
    Tile(Rc<TileType>),
}

/// A struct.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StructType {
    pub(crate) name: String,
    pub(crate) fields: Vec<(String, Type)>,
}

/// A tile.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TileType {
    pub(crate) element: Type,
    pub(crate) shape: Vec<u32>,
}

impl TileType {
    /// The number of its elements.
    pub(crate) fn count(&self) -> usize {
        self.shape.iter().map(|size| *size as usize).product()
    }
}

/// The form of an array: all that its type states except the type of its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArrayForm {
    pub(crate) dims: u8,
    /// True if arrays of indices select from each dimension: `wp.indexedarray`.
    pub(crate) is_indexed: bool,
}

/// The most components of a vector or matrix.
pub(crate) const MAX_COMPONENTS: usize = 256;
/// The most components and arrays of a struct.
pub(crate) const MAX_STRUCT_COMPONENTS: usize = 1024;

impl Type {
    pub(crate) const BOOL: Self = Self::Scalar(Dtype::Bool);
    pub(crate) const I32: Self = Self::Scalar(Dtype::I32);
    pub(crate) const F64: Self = Self::Scalar(Dtype::F64);

    /// The type of its components, for other types than structs and tiles.
    pub(crate) fn scalar(&self) -> Option<Dtype> {
        match self {
            Self::Scalar(dtype)
            | Self::Vector(dtype, _)
            | Self::Matrix(dtype, ..)
            | Self::Quat(dtype)
            | Self::Transform(dtype) => Some(*dtype),
            Self::Struct(_) | Self::Tile(_) => None,
        }
    }

    /// The types of its components.
    pub(crate) fn components(&self) -> Vec<Dtype> {
        match self {
            Self::Struct(structure) => structure.fields.iter().flat_map(|(_, ty)| ty.components()).collect(),
            Self::Tile(tile) => (0..tile.count()).flat_map(|_| tile.element.components()).collect(),
            Self::Scalar(dtype) => vec![*dtype],
            Self::Vector(dtype, _) | Self::Matrix(dtype, ..) | Self::Quat(dtype) | Self::Transform(dtype) => {
                vec![*dtype; self.count()]
            }
        }
    }

    /// The number of its components.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Scalar(_) => 1,
            Self::Vector(_, length) => *length as usize,
            Self::Matrix(_, rows, columns) => *rows as usize * *columns as usize,
            Self::Quat(_) => 4,
            Self::Transform(_) => 7,
            Self::Struct(structure) => structure.fields.iter().map(|(_, ty)| ty.count()).sum(),
            Self::Tile(tile) => tile.count() * tile.element.count(),
        }
    }

    /// The number of its items: components, rows, or elements along the first dimension; absent for scalars and structs.
    pub(crate) fn length(&self) -> Option<u32> {
        match self {
            Self::Scalar(_) | Self::Struct(_) => None,
            Self::Vector(_, length) => Some(*length),
            Self::Matrix(_, rows, _) => Some(*rows),
            Self::Quat(_) => Some(4),
            Self::Transform(_) => Some(7),
            Self::Tile(tile) => tile.shape.first().copied(),
        }
    }

    /// The number of its components, which Warp names its `length`; absent for structs.
    pub(crate) fn size(&self) -> Option<Number> {
        let count = i128::try_from(self.count()).expect("components are limited");
        (!matches!(self, Self::Struct(_))).then_some(Number::Int(count))
    }

    /// Its layout in memory: that of C, where vectors and matrices are arrays of scalars.
    pub(crate) fn element(&self) -> Element {
        let mut components = vec![];
        let end = self.layout("", 0, &mut components);
        Element { components, size: align(end, self.alignment()) }
    }

    fn alignment(&self) -> u32 {
        match self {
            Self::Struct(structure) => structure.fields.iter().map(|(_, ty)| ty.alignment()).max().unwrap_or(1),
            _ => self.scalar().map_or(1, size),
        }
    }

    /// Appends its components from an offset on; returns the end.
    fn layout(&self, path: &str, mut offset: u32, components: &mut Vec<Component>) -> u32 {
        if let Self::Struct(structure) = self {
            for (field, ty) in &structure.fields {
                offset = ty.layout(&join(path, field), align(offset, ty.alignment()), components);
            }
            return align(offset, self.alignment());
        }
        for (nth, dtype) in self.components().into_iter().enumerate() {
            components.push(Component { name: join(path, &self.component_name(nth)), dtype, offset });
            offset += size(dtype);
        }
        offset
    }

    fn component_name(&self, nth: usize) -> String {
        match self {
            Self::Scalar(_) | Self::Struct(_) | Self::Tile(_) => String::new(),
            Self::Vector(_, 1..=4) | Self::Quat(_) => ["x", "y", "z", "w"][nth].to_owned(),
            Self::Vector(..) => format!("c{nth}"),
            Self::Matrix(_, _, columns) => {
                let columns = *columns as usize;
                format!("m{}{}{}", nth / columns, if columns > 9 { "_" } else { "" }, nth % columns)
            }
            Self::Transform(_) => ["p.x", "p.y", "p.z", "q.x", "q.y", "q.z", "q.w"][nth].to_owned(),
        }
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() || name.is_empty() { format!("{path}{name}") } else { format!("{path}.{name}") }
}

fn size(dtype: Dtype) -> u32 {
    u32::try_from(dtype.size()).expect("a scalar has at most 8 bytes")
}

fn align(offset: u32, alignment: u32) -> u32 {
    offset.next_multiple_of(alignment.max(1))
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scalar(dtype) => f.write_str(name(*dtype)),
            Self::Vector(dtype, length) => write!(f, "vector of {length} {}", name(*dtype)),
            Self::Matrix(dtype, rows, columns) => write!(f, "matrix of {rows} x {columns} {}", name(*dtype)),
            Self::Quat(dtype) => write!(f, "quaternion of {}", name(*dtype)),
            Self::Transform(dtype) => write!(f, "transform of {}", name(*dtype)),
            Self::Struct(structure) => f.write_str(&structure.name),
            Self::Tile(tile) => {
                let shape: Vec<_> = tile.shape.iter().map(ToString::to_string).collect();
                write!(f, "tile of {} {}", shape.join(" x "), tile.element)
            }
        }
    }
}

impl fmt::Display for ArrayForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let indexed = if self.is_indexed { "indexed " } else { "" };
        write!(f, "{indexed}array of {} dimensions", self.dims)
    }
}

/// The name of a scalar type in NumPy and Warp.
pub(crate) fn name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Bool => "bool",
        Dtype::U8 => "uint8",
        Dtype::I8 => "int8",
        Dtype::U16 => "uint16",
        Dtype::I16 => "int16",
        Dtype::U32 => "uint32",
        Dtype::I32 => "int32",
        Dtype::U64 => "uint64",
        Dtype::I64 => "int64",
        Dtype::F16 => "float16",
        Dtype::Bf16 => "bfloat16",
        Dtype::F32 => "float32",
        Dtype::F64 => "float64",
    }
}

/// The scalar type of a name in NumPy and Warp.
pub(crate) fn parse_scalar(text: &str) -> Option<Dtype> {
    Dtype::ALL.into_iter().find(|&dtype| name(dtype) == text)
}

/// A type that Warp names: `float32`, `vec3`, `mat33d`, `quatf`, `transform`, `spatial_vector`.
pub(crate) fn parse_warp(text: &str) -> Option<Type> {
    if let Some(dtype) = parse_scalar(text) {
        return Some(Type::Scalar(dtype));
    }
    let composite = |prefix: &str| text.strip_prefix(prefix);
    let digit = |c: Option<char>| c.and_then(|c| c.to_digit(10)).filter(|n| (2..=4).contains(n));
    if let Some(rest) = composite("vec") {
        let mut chars = rest.chars();
        let length = digit(chars.next())?;
        return Some(Type::Vector(suffix(chars.as_str())?, length));
    }
    if let Some(rest) = composite("mat") {
        let mut chars = rest.chars();
        let rows = digit(chars.next())?;
        let columns = digit(chars.next())?;
        return (rows == columns)
            .then_some(())
            .and_then(|()| Some(Type::Matrix(float_suffix(chars.as_str())?, rows, columns)));
    }
    if let Some(rest) = composite("quat") {
        return Some(Type::Quat(float_suffix(rest)?));
    }
    if let Some(rest) = composite("transform") {
        return Some(Type::Transform(float_suffix(rest)?));
    }
    if let Some(rest) = composite("spatial_vector") {
        return Some(Type::Vector(float_suffix(rest)?, 6));
    }
    composite("spatial_matrix").and_then(|rest| Some(Type::Matrix(float_suffix(rest)?, 6, 6)))
}

fn suffix(text: &str) -> Option<Dtype> {
    Some(match text {
        "b" => Dtype::I8,
        "ub" => Dtype::U8,
        "s" => Dtype::I16,
        "us" => Dtype::U16,
        "i" => Dtype::I32,
        "ui" => Dtype::U32,
        "l" => Dtype::I64,
        "ul" => Dtype::U64,
        _ => return float_suffix(text),
    })
}

fn float_suffix(text: &str) -> Option<Dtype> {
    Some(match text {
        "" | "f" => Dtype::F32,
        "h" => Dtype::F16,
        "d" => Dtype::F64,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warps_names_are_types() {
        assert_eq!(parse_warp("vec3"), Some(Type::Vector(Dtype::F32, 3)));
        assert_eq!(parse_warp("vec2ub"), Some(Type::Vector(Dtype::U8, 2)));
        assert_eq!(parse_warp("mat44d"), Some(Type::Matrix(Dtype::F64, 4, 4)));
        assert_eq!(parse_warp("mat23"), None);
        assert_eq!(parse_warp("quat_identity"), None);
        assert_eq!(parse_warp("transform_point"), None);
    }

    #[test]
    fn a_struct_is_laid_out_as_in_c() {
        let fields = vec![
            ("flag".to_owned(), Type::BOOL),
            ("at".to_owned(), Type::Vector(Dtype::F64, 2)),
            ("n".to_owned(), Type::I32),
        ];
        let element = Type::Struct(Rc::new(StructType { name: "S".to_owned(), fields })).element();
        let offsets: Vec<_> = element.components.iter().map(|c| (c.name.as_str(), c.offset)).collect();
        assert_eq!(offsets, [("flag", 0), ("at.x", 8), ("at.y", 16), ("n", 24)]);
        assert_eq!(element.size, 32);
    }
}
