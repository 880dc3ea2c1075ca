//! Element types, and the promotion of mixed operands.

use std::fmt;

/// Type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dtype {
    /// One byte, 0 or 1.
    Bool,
    /// Unsigned, 1 byte.
    U8,
    /// Signed, two's complement, 1 byte.
    I8,
    /// Unsigned, 2 bytes.
    U16,
    /// Signed, two's complement, 2 bytes.
    I16,
    /// Unsigned, 4 bytes.
    U32,
    /// Signed, two's complement, 4 bytes.
    I32,
    /// Unsigned, 8 bytes.
    U64,
    /// Signed, two's complement, 8 bytes.
    I64,
    /// IEEE 754 binary16.
    F16,
    /// bfloat16.
    Bf16,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
}

/// Category of element types. Promotion between categories goes upwards in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Truth values.
    Bool,
    /// Unsigned and signed integers.
    Integer,
    /// Floating-point numbers.
    Float,
}

/// Two element types have no common type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} and {1} have no common type")]
pub struct PromotionError(pub Dtype, pub Dtype);

impl Dtype {
    /// All element types.
    pub const ALL: [Self; 13] = [
        Self::Bool,
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::U32,
        Self::I32,
        Self::U64,
        Self::I64,
        Self::F16,
        Self::Bf16,
        Self::F32,
        Self::F64,
    ];

    /// Bytes of an element.
    pub fn size(self) -> usize {
        match self {
            Self::Bool | Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// Name, as in an attribute of a node: `f32`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }

    /// The type of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Its category.
    pub fn kind(self) -> Kind {
        match self {
            Self::Bool => Kind::Bool,
            Self::F16 | Self::Bf16 | Self::F32 | Self::F64 => Kind::Float,
            Self::U8 | Self::I8 | Self::U16 | Self::I16 | Self::U32 | Self::I32 | Self::U64 | Self::I64 => {
                Kind::Integer
            }
        }
    }

    /// Returns true if it is a floating-point type.
    pub fn is_float(self) -> bool {
        self.kind() == Kind::Float
    }

    /// Returns true if it is an integer type; `bool` is not.
    pub fn is_integer(self) -> bool {
        self.kind() == Kind::Integer
    }

    /// Returns true if it is a signed integer or floating-point type.
    pub fn is_signed(self) -> bool {
        self.is_float() || matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64)
    }

    /// The type in which elements are computed: f32 for the 16-bit floating-point types, which are storage types, else itself.
    #[must_use]
    pub fn compute(self) -> Self {
        if matches!(self, Self::F16 | Self::Bf16) { Self::F32 } else { self }
    }

    /// The common type of two operands: the smallest type of the higher category that holds the values of both, as in the
    /// Array API standard; an integer takes the type of a floating-point operand, as in PyTorch.
    ///
    /// # Errors
    /// u64 and a signed integer have no common type.
    pub fn promote(self, other: Self) -> Result<Self, PromotionError> {
        use std::cmp::Ordering::{Equal, Greater, Less};
        match self.kind().cmp(&other.kind()) {
            Greater => Ok(self),
            Less => Ok(other),
            Equal if self == other => Ok(self),
            Equal if self.is_float() => Ok(promote_floats(self, other)),
            Equal => promote_integers(self, other).ok_or(PromotionError(self, other)),
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// f16 and bf16 hold values that the other does not.
fn promote_floats(a: Dtype, b: Dtype) -> Dtype {
    if a.size() == b.size() { Dtype::F32 } else { larger(a, b) }
}

fn promote_integers(a: Dtype, b: Dtype) -> Option<Dtype> {
    if a.is_signed() == b.is_signed() {
        return Some(larger(a, b));
    }
    let (signed, unsigned) = if a.is_signed() { (a, b) } else { (b, a) };
    if signed.size() > unsigned.size() {
        return Some(signed);
    }
    match unsigned.size() {
        1 => Some(Dtype::I16),
        2 => Some(Dtype::I32),
        4 => Some(Dtype::I64),
        _ => None,
    }
}

fn larger(a: Dtype, b: Dtype) -> Dtype {
    if a.size() >= b.size() { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::{Dtype::*, *};

    #[test]
    fn promotion_is_commutative_and_idempotent() {
        for a in Dtype::ALL {
            assert_eq!(a.promote(a), Ok(a));
            for b in Dtype::ALL {
                assert_eq!(a.promote(b).ok(), b.promote(a).ok(), "{a} and {b}");
            }
        }
    }

    #[test]
    fn promotion_follows_the_array_api_and_pytorch_across_categories() {
        let cases = [
            (U8, I8, I16),
            (U16, I8, I32),
            (U32, I32, I64),
            (I64, U8, I64),
            (F16, Bf16, F32),
            (F16, F32, F32),
            (I64, F16, F16),
            (Bool, U8, U8),
            (Bool, Bf16, Bf16),
        ];
        for (a, b, expected) in cases {
            assert_eq!(a.promote(b), Ok(expected), "{a} and {b}");
        }
        assert_eq!(U64.promote(I8), Err(PromotionError(U64, I8)));
    }

    #[test]
    fn a_name_names_one_type() {
        for dtype in Dtype::ALL {
            assert_eq!(Dtype::parse(dtype.name()), Some(dtype));
        }
        assert_eq!(Dtype::parse("float"), None);
    }
}
