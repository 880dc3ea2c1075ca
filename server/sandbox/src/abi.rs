//! Conversion of the columns of a call to arguments of a function, and of its results to columns: `abi.md` is the definition.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The most parameters or results that a signature may have.
pub const MAX_VALUES: usize = 256;

/// Type of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ScalarType {
    /// One byte; every value but 0 is true.
    Bool,
    /// Signed, 1 byte.
    I8,
    /// Unsigned, 1 byte.
    U8,
    /// Signed, 2 bytes.
    I16,
    /// Unsigned, 2 bytes.
    U16,
    /// Signed, 4 bytes.
    I32,
    /// Unsigned, 4 bytes.
    U32,
    /// Signed, 8 bytes.
    I64,
    /// Unsigned, 8 bytes.
    U64,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
}

/// A type that functions of WebAssembly take and return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WasmType {
    /// 32-bit integer.
    I32,
    /// 64-bit integer.
    I64,
    /// 32-bit floating-point number.
    F32,
    /// 64-bit floating-point number.
    F64,
    /// Any other type: a vector or a reference. No column can hold it.
    Other,
}

/// A parameter of a function, as a caller sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Param {
    /// A scalar from a column.
    Value(ScalarType),
    /// A buffer that the function reads: type and number of elements.
    Input(ScalarType, u32),
    /// A buffer that the function writes: type and number of elements.
    Output(ScalarType, u32),
    /// A buffer that the function reads and writes: type and number of elements.
    InOut(ScalarType, u32),
    /// A buffer that is passed as its address alone: its use, type and number of elements.
    Address(BufferUse, ScalarType, u32),
}

/// What a function does with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BufferUse {
    /// Reads it.
    Input,
    /// Writes it.
    Output,
    /// Reads and writes it.
    InOut,
}

/// Parameters and results of a function, as a caller sees them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Signature {
    /// Parameters, in order.
    pub params: Vec<Param>,
    /// Types of the returned values, in order.
    pub results: Vec<ScalarType>,
}

/// Parameters and results of a function in a module.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WasmSignature {
    /// Types of the parameters.
    pub params: Vec<WasmType>,
    /// Types of the results.
    pub results: Vec<WasmType>,
}

impl ScalarType {
    /// All types.
    pub const ALL: [Self; 11] = [
        Self::Bool,
        Self::I8,
        Self::U8,
        Self::I16,
        Self::U16,
        Self::I32,
        Self::U32,
        Self::I64,
        Self::U64,
        Self::F32,
        Self::F64,
    ];

    /// Bytes of a value in a column.
    pub fn size(self) -> usize {
        match self {
            Self::Bool | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// The type of WebAssembly that carries a value.
    pub fn wasm_type(self) -> WasmType {
        match self {
            Self::Bool | Self::I8 | Self::U8 | Self::I16 | Self::U16 | Self::I32 | Self::U32 => WasmType::I32,
            Self::I64 | Self::U64 => WasmType::I64,
            Self::F32 => WasmType::F32,
            Self::F64 => WasmType::F64,
        }
    }
}

impl Param {
    /// Use, type and number of elements of its buffer, if it is one.
    pub fn buffer(self) -> Option<(BufferUse, ScalarType, u32)> {
        match self {
            Self::Value(_) => None,
            Self::Input(ty, length) => Some((BufferUse::Input, ty, length)),
            Self::Output(ty, length) => Some((BufferUse::Output, ty, length)),
            Self::InOut(ty, length) => Some((BufferUse::InOut, ty, length)),
            Self::Address(usage, ty, length) => Some((usage, ty, length)),
        }
    }

    /// Bytes of a case in the column of a request, if the parameter has one.
    pub fn input_bytes(self) -> Option<u64> {
        match (self, self.buffer()) {
            (Self::Value(ty), _) => Some(ty.size() as u64),
            (_, Some((BufferUse::Input | BufferUse::InOut, ..))) => self.buffer_bytes(),
            (_, Some((BufferUse::Output, ..)) | None) => None,
        }
    }

    /// Bytes of a case in the column of a response, if the parameter has one.
    pub fn output_bytes(self) -> Option<u64> {
        match self.buffer() {
            Some((BufferUse::Output | BufferUse::InOut, ..)) => self.buffer_bytes(),
            Some((BufferUse::Input, ..)) | None => None,
        }
    }

    /// Bytes of its buffer, if it is one.
    pub fn buffer_bytes(self) -> Option<u64> {
        self.buffer().map(|(_, ty, length)| ty.size() as u64 * u64::from(length))
    }
}

impl Signature {
    /// A function of scalars.
    pub fn scalar(params: &[ScalarType], results: &[ScalarType]) -> Self {
        Self { params: params.iter().copied().map(Param::Value).collect(), results: results.to_vec() }
    }

    /// Bytes of a case in each column of a request.
    pub fn input_columns(&self) -> Vec<u64> {
        self.params.iter().filter_map(|param| param.input_bytes()).collect()
    }

    /// Bytes of a case in each column of a response.
    pub fn output_columns(&self) -> Vec<u64> {
        let buffers = self.params.iter().filter_map(|param| param.output_bytes());
        buffers.chain(self.results.iter().map(|result| result.size() as u64)).collect()
    }

    /// Bytes of a case in all columns of a request; saturates.
    pub fn input_bytes(&self) -> u64 {
        self.input_columns().into_iter().fold(0, u64::saturating_add)
    }

    /// Bytes of a case in all columns of a response; saturates.
    pub fn output_bytes(&self) -> u64 {
        self.output_columns().into_iter().fold(0, u64::saturating_add)
    }

    /// Bytes of all buffers; saturates.
    pub fn buffer_bytes(&self) -> u64 {
        self.params.iter().filter_map(|param| param.buffer_bytes()).fold(0, u64::saturating_add)
    }

    /// Returns true if all parameters are scalars.
    pub fn is_scalar(&self) -> bool {
        self.params.iter().all(|param| matches!(param, Param::Value(_)))
    }

    /// Returns the signature that the function must have in the module.
    pub fn wasm(&self) -> WasmSignature {
        let params = self.params.iter().flat_map(|param| match param {
            Param::Value(ty) => vec![ty.wasm_type()],
            Param::Input(..) | Param::Output(..) | Param::InOut(..) => vec![WasmType::I32; 2],
            Param::Address(..) => vec![WasmType::I32],
        });
        WasmSignature {
            params: params.collect(),
            results: self.results.iter().map(|result| result.wasm_type()).collect(),
        }
    }
}

impl WasmSignature {
    /// The signature with the widest scalars: i32, i64, f32 and f64 as they are. `None` if a type is [`WasmType::Other`].
    pub fn scalar(&self) -> Option<Signature> {
        let scalar = |ty: &WasmType| match ty {
            WasmType::I32 => Some(ScalarType::I32),
            WasmType::I64 => Some(ScalarType::I64),
            WasmType::F32 => Some(ScalarType::F32),
            WasmType::F64 => Some(ScalarType::F64),
            WasmType::Other => None,
        };
        Some(Signature {
            params: self.params.iter().map(|ty| scalar(ty).map(Param::Value)).collect::<Option<_>>()?,
            results: self.results.iter().map(scalar).collect::<Option<_>>()?,
        })
    }
}

impl fmt::Display for WasmType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Other => "other",
        })
    }
}

/// As in the text format's comments: `(i32, f64) -> (f64)`.
impl fmt::Display for WasmSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |types: &[WasmType]| types.iter().map(WasmType::to_string).collect::<Vec<_>>().join(", ");
        write!(f, "({}) -> ({})", list(&self.params), list(&self.results))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_follow_the_order_of_parameters_and_then_results() {
        let signature = Signature {
            params: vec![
                Param::Value(ScalarType::I8),
                Param::InOut(ScalarType::F64, 3),
                Param::Output(ScalarType::U16, 5),
                Param::Input(ScalarType::F32, 0),
            ],
            results: vec![ScalarType::Bool, ScalarType::U64],
        };
        assert_eq!(signature.input_columns(), [1, 24, 0]);
        assert_eq!(signature.output_columns(), [24, 10, 1, 8]);
        assert_eq!(signature.wasm().to_string(), "(i32, i32, i32, i32, i32, i32, i32) -> (i32, i64)");
    }

    #[test]
    fn a_buffer_without_a_length_is_one_parameter() {
        let buffer = |usage| Param::Address(usage, ScalarType::F32, 4);
        let signature = Signature {
            params: vec![buffer(BufferUse::Input), buffer(BufferUse::Output), buffer(BufferUse::InOut)],
            results: vec![],
        };
        assert_eq!(signature.input_columns(), [16, 16]);
        assert_eq!(signature.output_columns(), [16, 16]);
        assert_eq!((signature.buffer_bytes(), signature.is_scalar()), (48, false));
        assert_eq!(signature.wasm().to_string(), "(i32, i32, i32) -> ()");
    }

    #[test]
    fn sizes_of_hostile_signatures_saturate() {
        let signature = Signature { params: vec![Param::Output(ScalarType::F64, u32::MAX); 256], results: vec![] };
        assert_eq!(signature.output_bytes(), 256 * 8 * u64::from(u32::MAX));
    }
}
