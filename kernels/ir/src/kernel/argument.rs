//! Arguments of a launch.

use half::{bf16, f16};

use super::{ArrayType, Element, Param, ParamType};
use crate::Dtype;

/// The argument of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// The bytes of one element.
    Value(Vec<u8>),
    /// A strided array.
    Array(ArrayArgument),
}

/// An array: bytes, and where its elements lie in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayArgument {
    /// The bytes, little-endian.
    pub data: Vec<u8>,
    /// The extent of each dimension.
    pub shape: Vec<i32>,
    /// Bytes from an element to the next along each dimension.
    pub strides: Vec<i64>,
    /// Where the first element starts in `data`.
    pub offset: usize,
}

/// An argument does not fit its parameter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// An array stands for a value, or the reverse.
    #[error("expected {0}")]
    Kind(&'static str),
    /// The bytes of a value are not those of one element.
    #[error("expected {expected} bytes, got {got}")]
    Size {
        /// Bytes of the element.
        expected: u32,
        /// Bytes of the argument.
        got: usize,
    },
    /// Shape or strides have another number of dimensions.
    #[error("expected {expected} dimensions, got {extents} extents and {strides} strides")]
    Dims {
        /// Dimensions of the parameter.
        expected: u8,
        /// Extents of the argument.
        extents: usize,
        /// Strides of the argument.
        strides: usize,
    },
    /// An extent is negative.
    #[error("dimension {axis} has the extent {extent}")]
    Extent {
        /// The dimension.
        axis: usize,
        /// Its extent.
        extent: i32,
    },
    /// Offset or strides are no multiples of the element's alignment.
    #[error("offset and strides must be multiples of {0} bytes")]
    Alignment(u32),
    /// Elements lie outside of the data.
    #[error("elements reach from byte {start} to byte {end}, the data has {size} bytes")]
    Reach {
        /// Where the lowest element starts.
        start: i128,
        /// Where the highest element ends.
        end: i128,
        /// Bytes of the data.
        size: usize,
    },
}

/// A type of the host that is an element type.
pub trait Scalar: Copy {
    /// The element type.
    const DTYPE: Dtype;
    /// Appends its bytes, little-endian.
    fn write(self, to: &mut Vec<u8>);
    /// The value of these bytes, whose number is the size of the type.
    fn read(bytes: &[u8]) -> Self;
}

macro_rules! scalars {
    ($($native:ty: $dtype:ident,)*) => {$(
        impl Scalar for $native {
            const DTYPE: Dtype = Dtype::$dtype;

            fn write(self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }

            fn read(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("as many bytes as the type has"))
            }
        }
    )*};
}

scalars! {
    u8: U8, i8: I8, u16: U16, i16: I16, u32: U32, i32: I32, u64: U64, i64: I64,
    f16: F16, bf16: Bf16, f32: F32, f64: F64,
}

impl Scalar for bool {
    const DTYPE: Dtype = Dtype::Bool;

    fn write(self, to: &mut Vec<u8>) {
        to.push(self.into());
    }

    fn read(bytes: &[u8]) -> Self {
        bytes != [0]
    }
}

fn bytes_of<T: Scalar>(elements: &[T]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size_of_val(elements));
    for element in elements {
        element.write(&mut bytes);
    }
    bytes
}

impl Argument {
    /// A scalar.
    pub fn value<T: Scalar>(value: T) -> Self {
        Self::Value(bytes_of(&[value]))
    }

    /// A contiguous array of one dimension.
    ///
    /// # Panics
    /// If it has 2^31 elements or more.
    pub fn array<T: Scalar>(elements: &[T]) -> Self {
        let extent = i32::try_from(elements.len()).expect("fewer than 2^31 elements");
        Self::contiguous(bytes_of(elements), &[extent], T::DTYPE.size())
    }

    /// A contiguous row-major array of elements of `size` bytes.
    pub fn contiguous(data: Vec<u8>, shape: &[i32], size: usize) -> Self {
        let mut strides = vec![0; shape.len()];
        let mut stride = i64::try_from(size).unwrap_or(i64::MAX);
        for (to, extent) in strides.iter_mut().zip(shape).rev() {
            *to = stride;
            stride = stride.saturating_mul((*extent).into());
        }
        Self::Array(ArrayArgument { data, shape: shape.to_vec(), strides, offset: 0 })
    }

    /// The bytes of a value, or all bytes of an array.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Value(data) | Self::Array(ArrayArgument { data, .. }) => data,
        }
    }

    /// The bytes as scalars.
    pub fn to_vec<T: Scalar>(&self) -> Vec<T> {
        self.bytes().chunks_exact(T::DTYPE.size()).map(T::read).collect()
    }

    /// Checks that a parameter can have it.
    pub fn check(&self, param: &Param) -> Result<(), ArgumentError> {
        match (&param.ty, self) {
            (ParamType::Value(element), Self::Value(data)) => {
                let is_one = data.len() == element.size as usize;
                if is_one { Ok(()) } else { Err(ArgumentError::Size { expected: element.size, got: data.len() }) }
            }
            (ParamType::Array(ty), Self::Array(array)) => array.check(ty),
            (ParamType::Value(_), Self::Array(_)) => Err(ArgumentError::Kind("a value, got an array")),
            (ParamType::Array(_), Self::Value(_)) => Err(ArgumentError::Kind("an array, got a value")),
        }
    }
}

impl ArrayArgument {
    fn check(&self, ty: &ArrayType) -> Result<(), ArgumentError> {
        let dims = usize::from(ty.dims);
        if self.shape.len() != dims || self.strides.len() != dims {
            let extents = self.shape.len();
            let strides = self.strides.len();
            return Err(ArgumentError::Dims { expected: ty.dims, extents, strides });
        }
        if let Some((axis, extent)) = self.shape.iter().enumerate().find(|(_, extent)| **extent < 0) {
            return Err(ArgumentError::Extent { axis, extent: *extent });
        }
        let alignment = ty.element.alignment();
        let is_aligned = |bytes: i64| bytes % i64::from(alignment) == 0;
        if !self.offset.is_multiple_of(alignment as usize) || !self.strides.iter().all(|stride| is_aligned(*stride)) {
            return Err(ArgumentError::Alignment(alignment));
        }
        self.check_reach(&ty.element)
    }

    fn check_reach(&self, element: &Element) -> Result<(), ArgumentError> {
        if self.shape.contains(&0) {
            return Ok(());
        }
        let mut start = self.offset as i128;
        let mut end = self.offset as i128 + i128::from(element.size);
        for (extent, stride) in self.shape.iter().zip(&self.strides) {
            let reach = i128::from(extent - 1) * i128::from(*stride);
            start += reach.min(0);
            end += reach.max(0);
        }
        let size = self.data.len();
        if start < 0 || end > size as i128 { Err(ArgumentError::Reach { start, end, size }) } else { Ok(()) }
    }
}
