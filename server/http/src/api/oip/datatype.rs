//! The types of elements.

use accelerd_proto::v1::Dtype;

use crate::failure::Failure;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Datatype {
    Bool,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Int8,
    Int16,
    Int32,
    Int64,
    Fp16,
    Bf16,
    Fp32,
    Fp64,
    /// Texts and other data of any length.
    Bytes,
}

/// Types, their names, and what the daemon calls them.
const TABLE: [(Datatype, &str, Dtype); 14] = [
    (Datatype::Bool, "BOOL", Dtype::Bool),
    (Datatype::Uint8, "UINT8", Dtype::U8),
    (Datatype::Uint16, "UINT16", Dtype::U16),
    (Datatype::Uint32, "UINT32", Dtype::U32),
    (Datatype::Uint64, "UINT64", Dtype::U64),
    (Datatype::Int8, "INT8", Dtype::I8),
    (Datatype::Int16, "INT16", Dtype::I16),
    (Datatype::Int32, "INT32", Dtype::I32),
    (Datatype::Int64, "INT64", Dtype::I64),
    (Datatype::Fp16, "FP16", Dtype::F16),
    (Datatype::Bf16, "BF16", Dtype::Bf16),
    (Datatype::Fp32, "FP32", Dtype::F32),
    (Datatype::Fp64, "FP64", Dtype::F64),
    (Datatype::Bytes, "BYTES", Dtype::Unspecified),
];

impl Datatype {
    /// The type with a name. `input` is the input that has it.
    pub(super) fn named(input: &str, name: &str) -> Result<Self, Failure> {
        let found = TABLE.iter().find(|row| row.1 == name).map(|row| row.0);
        found.ok_or_else(|| {
            let names = TABLE.map(|row| row.1).join(", ");
            Failure::invalid(input, format!("expected one of the datatypes {names}, got {name:?}"))
        })
    }

    pub(super) fn name(self) -> &'static str {
        TABLE.iter().find(|row| row.0 == self).map_or("", |row| row.1)
    }

    /// The type of a tensor of the daemon; `None` for one that has no name here.
    pub(super) fn of(dtype: Dtype) -> Option<Self> {
        TABLE.iter().find(|row| row.2 == dtype && dtype != Dtype::Unspecified).map(|row| row.0)
    }

    /// The type of the daemon; [`Dtype::Unspecified`] for [`Self::Bytes`].
    pub(super) fn dtype(self) -> Dtype {
        TABLE.iter().find(|row| row.0 == self).map_or(Dtype::Unspecified, |row| row.2)
    }

    /// Bytes of an element; `None` if they vary.
    pub(super) fn size(self) -> Option<usize> {
        match self {
            Self::Bool | Self::Uint8 | Self::Int8 => Some(1),
            Self::Uint16 | Self::Int16 | Self::Fp16 | Self::Bf16 => Some(2),
            Self::Uint32 | Self::Int32 | Self::Fp32 => Some(4),
            Self::Uint64 | Self::Int64 | Self::Fp64 => Some(8),
            Self::Bytes => None,
        }
    }
}
