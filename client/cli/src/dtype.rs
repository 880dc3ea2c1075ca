//! Element types of tensors, as the protocol, NumPy and safetensors name them.

use std::{
    fmt::{Display, LowerExp},
    str::FromStr,
};

use accelerd_client::proto::{Dtype, Tensor};
use half::{bf16, f16};
use safetensors::Dtype as Stored;

/// An element type.
#[derive(Debug)]
pub struct DtypeInfo {
    pub dtype: Dtype,
    /// Its name in attributes, as `f32`.
    pub name: &'static str,
    /// Its code in .npy files, without the byte order.
    pub npy: Option<&'static str>,
    pub stored: Stored,
    /// Bytes of an element.
    pub bytes: usize,
}

const fn info(dtype: Dtype, name: &'static str, npy: Option<&'static str>, stored: Stored, bytes: usize) -> DtypeInfo {
    DtypeInfo { dtype, name, npy, stored, bytes }
}

/// All element types.
pub static ALL: [DtypeInfo; 13] = [
    info(Dtype::Bool, "bool", Some("b1"), Stored::BOOL, 1),
    info(Dtype::U8, "u8", Some("u1"), Stored::U8, 1),
    info(Dtype::I8, "i8", Some("i1"), Stored::I8, 1),
    info(Dtype::U16, "u16", Some("u2"), Stored::U16, 2),
    info(Dtype::I16, "i16", Some("i2"), Stored::I16, 2),
    info(Dtype::U32, "u32", Some("u4"), Stored::U32, 4),
    info(Dtype::I32, "i32", Some("i4"), Stored::I32, 4),
    info(Dtype::U64, "u64", Some("u8"), Stored::U64, 8),
    info(Dtype::I64, "i64", Some("i8"), Stored::I64, 8),
    info(Dtype::F16, "f16", Some("f2"), Stored::F16, 2),
    info(Dtype::Bf16, "bf16", None, Stored::BF16, 2),
    info(Dtype::F32, "f32", Some("f4"), Stored::F32, 4),
    info(Dtype::F64, "f64", Some("f8"), Stored::F64, 8),
];

/// The type of a received tensor; f32 if it is not set.
pub fn of(dtype: Dtype) -> &'static DtypeInfo {
    ALL.iter().find(|info| info.dtype == dtype).unwrap_or(&ALL[11])
}

/// The names of all types, for errors.
pub fn names() -> String {
    ALL.each_ref().map(|info| info.name).join(", ")
}

/// The first elements of a tensor as text.
pub fn values(tensor: &Tensor, count: usize) -> Vec<String> {
    let info = of(tensor.dtype());
    tensor.data.chunks_exact(info.bytes).take(count).map(|bytes| value(info.dtype, bytes)).collect()
}

/// The bits of the first elements in hexadecimal digits, as `0x3f800000`.
pub fn bits(tensor: &Tensor, count: usize) -> Vec<String> {
    let elements = tensor.data.chunks_exact(of(tensor.dtype()).bytes).take(count);
    elements.map(|bytes| format!("0x{}", hex::encode(bytes.iter().rev().copied().collect::<Vec<_>>()))).collect()
}

/// `bytes` are those of an element.
fn value(dtype: Dtype, bytes: &[u8]) -> String {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    let [a, b, c, d, ..] = word;
    match dtype {
        Dtype::Bool => (a != 0).to_string(),
        Dtype::U8 => a.to_string(),
        Dtype::I8 => i8::from_le_bytes([a]).to_string(),
        Dtype::U16 => u16::from_le_bytes([a, b]).to_string(),
        Dtype::I16 => i16::from_le_bytes([a, b]).to_string(),
        Dtype::U32 => u32::from_le_bytes([a, b, c, d]).to_string(),
        Dtype::I32 => i32::from_le_bytes([a, b, c, d]).to_string(),
        Dtype::U64 => u64::from_le_bytes(word).to_string(),
        Dtype::I64 => i64::from_le_bytes(word).to_string(),
        Dtype::F16 => f16::from_le_bytes([a, b]).to_string(),
        Dtype::Bf16 => float(bf16::from_le_bytes([a, b])),
        Dtype::F32 | Dtype::Unspecified => float(f32::from_le_bytes([a, b, c, d])),
        Dtype::F64 => float(f64::from_le_bytes(word)),
    }
}

/// A number as `1.5`, or as `1e300` if it has many digits before or after its point.
fn float<T: Copy + Display + LowerExp + Into<f64>>(number: T) -> String {
    let magnitude = number.into().abs();
    let is_short = magnitude == 0.0 || !magnitude.is_finite() || (1e-5..1e16).contains(&magnitude);
    if is_short { number.to_string() } else { format!("{number:e}") }
}

/// The bytes of an element that is written as text.
pub fn parse(dtype: Dtype, text: &str) -> Option<Vec<u8>> {
    fn bytes<T: FromStr, const N: usize>(text: &str, to_bytes: fn(T) -> [u8; N]) -> Option<Vec<u8>> {
        Some(to_bytes(text.parse().ok()?).to_vec())
    }
    match dtype {
        Dtype::Bool => bytes(&text.to_lowercase(), |value: bool| [value.into()]),
        Dtype::U8 => bytes(text, u8::to_le_bytes),
        Dtype::I8 => bytes(text, i8::to_le_bytes),
        Dtype::U16 => bytes(text, u16::to_le_bytes),
        Dtype::I16 => bytes(text, i16::to_le_bytes),
        Dtype::U32 => bytes(text, u32::to_le_bytes),
        Dtype::I32 => bytes(text, i32::to_le_bytes),
        Dtype::U64 => bytes(text, u64::to_le_bytes),
        Dtype::I64 => bytes(text, i64::to_le_bytes),
        Dtype::F16 => bytes(text, |value: f64| f16::from_f64(value).to_le_bytes()),
        Dtype::Bf16 => bytes(text, |value: f64| bf16::from_f64(value).to_le_bytes()),
        Dtype::F32 | Dtype::Unspecified => bytes(text, f32::to_le_bytes),
        Dtype::F64 => bytes(text, f64::to_le_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_shown_by_their_type() {
        let shown = |dtype: Dtype, data: &[u8]| {
            values(&Tensor { dtype: dtype.into(), shape: vec![], data: data.to_vec().into() }, 2).join(" ")
        };
        assert_eq!(shown(Dtype::Bf16, &[0x80, 0x3f, 0, 0xc0, 0, 0]), "1 -2");
        assert_eq!(shown(Dtype::F16, &[0, 0x3c]), "1");
        assert_eq!(shown(Dtype::I16, &[0xff, 0xff, 1, 0]), "-1 1");
        assert_eq!(shown(Dtype::F64, &0.1_f64.to_le_bytes()), "0.1");
        assert_eq!(shown(Dtype::F64, &5e-324_f64.to_le_bytes()), "5e-324");
        assert_eq!(shown(Dtype::F32, &f32::INFINITY.to_le_bytes()), "inf");
        assert_eq!(shown(Dtype::Bool, &[2, 0]), "true false");
        let tensor = Tensor { dtype: Dtype::F32.into(), shape: vec![], data: 1_f32.to_le_bytes().to_vec().into() };
        assert_eq!(bits(&tensor, 2), ["0x3f800000"]);
    }

    #[test]
    fn elements_that_are_written_as_text_are_shown_as_they_were_written() {
        for info in &ALL {
            let text = if info.dtype == Dtype::Bool { "true" } else { "1" };
            let data = parse(info.dtype, text).unwrap();
            assert_eq!(data.len(), info.bytes, "{}", info.name);
            assert_eq!(value(info.dtype, &data), text, "{}", info.name);
        }
        assert_eq!(parse(Dtype::Bool, "True"), Some(vec![1]));
        for (dtype, text) in [(Dtype::I32, "2.5"), (Dtype::U8, "256"), (Dtype::F32, "x"), (Dtype::Bool, "2")] {
            assert_eq!(parse(dtype, text), None, "{text}");
        }
    }

    #[test]
    fn the_table_lists_every_type_with_its_size() {
        for info in &ALL {
            assert_eq!(info.stored.bitsize(), 8 * info.bytes, "{}", info.name);
            assert_eq!(of(info.dtype).name, info.name);
        }
    }
}
