//! Elements of tensors in JSON: numbers, truth values and texts, in flat or nested lists.

use http::StatusCode;
use serde::{Serialize, Serializer, ser::SerializeSeq};
use serde_json::Value;

use super::{
    datatype::Datatype,
    tensor::{Tensor, put_bytes},
};
use crate::failure::Failure;

/// The bytes of elements in JSON.
pub(super) fn from_json(input: &str, datatype: Datatype, data: &Value) -> Result<Vec<u8>, Failure> {
    if !data.is_array() {
        return Err(Failure::invalid(input, "expected a list as the data"));
    }
    if is_binary_only(datatype) {
        return Err(Failure::invalid(input, format!("JSON has no {}: send binary data", datatype.name())));
    }
    let mut out = vec![];
    append_all(input, datatype, data, &mut out)?;
    Ok(out)
}

/// Recursion is bounded by the parser, which refuses lists that are nested deeper than 128.
fn append_all(input: &str, datatype: Datatype, data: &Value, out: &mut Vec<u8>) -> Result<(), Failure> {
    if let Value::Array(items) = data {
        return items.iter().try_for_each(|item| append_all(input, datatype, item, out));
    }
    append(datatype, data, out).ok_or_else(|| {
        let mut shown = data.to_string();
        shown.truncate(shown.char_indices().nth(40).map_or(shown.len(), |(at, _)| at));
        Failure::invalid(input, format!("expected elements of {}, got {shown}", datatype.name()))
    })
}

/// Appends one element; `None` if it has another type or is out of range.
fn append(datatype: Datatype, value: &Value, out: &mut Vec<u8>) -> Option<()> {
    macro_rules! integer {
        ($kind:ty, $as:ident) => {
            out.extend(<$kind>::try_from(value.$as()?).ok()?.to_le_bytes())
        };
    }
    match datatype {
        Datatype::Bool => out.push(value.as_bool()?.into()),
        Datatype::Uint8 => integer!(u8, as_u64),
        Datatype::Uint16 => integer!(u16, as_u64),
        Datatype::Uint32 => integer!(u32, as_u64),
        Datatype::Uint64 => integer!(u64, as_u64),
        Datatype::Int8 => integer!(i8, as_i64),
        Datatype::Int16 => integer!(i16, as_i64),
        Datatype::Int32 => integer!(i32, as_i64),
        Datatype::Int64 => integer!(i64, as_i64),
        Datatype::Fp32 => {
            #[expect(clippy::cast_possible_truncation, reason = "numbers are rounded to the nearest")]
            let number = value.as_f64()? as f32;
            out.extend(Some(number).filter(|number| number.is_finite())?.to_le_bytes());
        }
        Datatype::Fp64 => out.extend(value.as_f64()?.to_le_bytes()),
        Datatype::Bytes => put_bytes(out, value.as_str()?.as_bytes())?,
        Datatype::Fp16 | Datatype::Bf16 => return None,
    }
    Some(())
}

fn is_binary_only(datatype: Datatype) -> bool {
    matches!(datatype, Datatype::Fp16 | Datatype::Bf16)
}

/// The elements of an output as a flat list of JSON.
pub(super) struct Elements<'a>(&'a Tensor);

impl<'a> Elements<'a> {
    /// Fails if JSON lacks the type or one of the numbers.
    pub(super) fn of(tensor: &'a Tensor) -> Result<Self, Failure> {
        let name = &tensor.name;
        let datatype = tensor.datatype.name();
        let refused = |what: String| {
            let message = format!("{name}: JSON has no {what}: set the parameter binary_data of the output");
            Err(Failure { field: Some("outputs".to_owned()), ..Failure::new(StatusCode::BAD_REQUEST, message) })
        };
        if is_binary_only(tensor.datatype) {
            return refused(datatype.to_owned());
        }
        let data = &tensor.data;
        let is_finite = if tensor.datatype == Datatype::Fp32 {
            data.as_chunks().0.iter().all(|bytes| f32::from_le_bytes(*bytes).is_finite())
        } else {
            tensor.datatype != Datatype::Fp64
                || data.as_chunks().0.iter().all(|bytes| f64::from_le_bytes(*bytes).is_finite())
        };
        if is_finite { Ok(Self(tensor)) } else { refused("NaN or infinity".to_owned()) }
    }
}

impl Serialize for Elements<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let tensor = self.0;
        let mut list = to.serialize_seq(None)?;
        macro_rules! numbers {
            ($kind:ty) => {
                for bytes in tensor.data.as_chunks::<{ size_of::<$kind>() }>().0 {
                    list.serialize_element(&<$kind>::from_le_bytes(*bytes))?;
                }
            };
        }
        match tensor.datatype {
            Datatype::Bool => tensor.data.iter().try_for_each(|byte| list.serialize_element(&(*byte != 0)))?,
            Datatype::Uint8 => numbers!(u8),
            Datatype::Uint16 => numbers!(u16),
            Datatype::Uint32 => numbers!(u32),
            Datatype::Uint64 => numbers!(u64),
            Datatype::Int8 => numbers!(i8),
            Datatype::Int16 => numbers!(i16),
            Datatype::Int32 => numbers!(i32),
            Datatype::Int64 => numbers!(i64),
            Datatype::Fp32 => numbers!(f32),
            Datatype::Fp64 => numbers!(f64),
            Datatype::Bytes => {
                for element in tensor.bytes_elements() {
                    list.serialize_element(&String::from_utf8_lossy(element))?;
                }
            }
            // `Elements::of` refuses them.
            Datatype::Fp16 | Datatype::Bf16 => {}
        }
        list.end()
    }
}
