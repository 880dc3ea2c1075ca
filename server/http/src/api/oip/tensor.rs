//! A named tensor with its elements as bytes.

use bytes::{Buf, BufMut, Bytes};

use super::datatype::Datatype;
use crate::failure::Failure;

/// Bytes of the length before an element of BYTES.
const LENGTH: usize = 4;

/// A named tensor. [`Tensor::new`] makes only those whose data fits their shape.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tensor {
    pub(super) name: String,
    pub(super) datatype: Datatype,
    pub(super) shape: Vec<i64>,
    /// The elements, little-endian and row-major; an element of BYTES has its length of 4 bytes before it.
    pub(super) data: Bytes,
}

impl Tensor {
    /// A tensor of a request.
    pub(super) fn new(name: String, datatype: Datatype, shape: Vec<i64>, data: Bytes) -> Result<Self, Failure> {
        let expected = element_count(&name, &shape)?;
        match datatype.size() {
            Some(size) if expected.checked_mul(size) == Some(data.len()) => {}
            Some(size) => {
                let (datatype, got) = (datatype.name(), data.len());
                let message =
                    format!("expected {expected} elements of {datatype}, {size} bytes each, for the shape {shape:?}");
                return Err(Failure::invalid(&name, format!("{message}; got {got} bytes")));
            }
            None => {
                let got = count_bytes_elements(&name, &data)?;
                if got != expected {
                    let message = format!("expected {expected} elements for the shape {shape:?}, got {got}");
                    return Err(Failure::invalid(&name, message));
                }
            }
        }
        Ok(Self { name, datatype, shape, data })
    }

    /// Refuses another type.
    pub(super) fn expect_type(&self, expected: Datatype) -> Result<(), Failure> {
        if self.datatype == expected {
            return Ok(());
        }
        let message = format!("expected the datatype {}, got {}", expected.name(), self.datatype.name());
        Err(Failure::invalid(&self.name, message))
    }

    /// The texts of a list; its shape is [n], or with dimensions of 1 added.
    pub(super) fn texts(&self) -> Result<Vec<String>, Failure> {
        self.expect_type(Datatype::Bytes)?;
        let invalid = |message: String| Failure::invalid(&self.name, message);
        if self.shape.is_empty() || self.shape.len() > 2 || self.shape.iter().filter(|extent| **extent != 1).count() > 1
        {
            return Err(invalid(format!("expected the shape [n], [n, 1] or [1, n], got {:?}", self.shape)));
        }
        let mut texts = vec![];
        for (index, element) in self.bytes_elements().enumerate() {
            let text = std::str::from_utf8(element);
            texts.push(text.map_err(|error| invalid(format!("element {index}: {error}")))?.to_owned());
        }
        if texts.is_empty() {
            return Err(invalid("expected at least one element, got none".to_owned()));
        }
        Ok(texts)
    }

    /// Bytes of memory that [`Self::texts`] allocates, at most.
    pub(super) fn texts_bytes(&self) -> u64 {
        let count = self.bytes_elements().count();
        (self.data.len() + count * (2 * size_of::<String>() + size_of::<usize>())) as u64
    }

    /// The elements of BYTES.
    pub(super) fn bytes_elements(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.data[..];
        std::iter::from_fn(move || next_element(&mut rest))
    }
}

/// Appends an element of BYTES; `None` if it is too long.
pub(super) fn put_bytes(out: &mut Vec<u8>, element: &[u8]) -> Option<()> {
    out.put_u32_le(u32::try_from(element.len()).ok()?);
    out.put_slice(element);
    Some(())
}

/// The number of elements of a shape.
fn element_count(name: &str, shape: &[i64]) -> Result<usize, Failure> {
    let mut count = 1usize;
    for extent in shape {
        let extent = usize::try_from(*extent).map_err(|_| {
            Failure::invalid(name, format!("expected extents of 0 or more in the shape, got {shape:?}"))
        })?;
        let product = count.checked_mul(extent);
        count = product.ok_or_else(|| Failure::invalid(name, format!("the shape {shape:?} has too many elements")))?;
    }
    Ok(count)
}

/// Counts the elements of BYTES, whose lengths must add up to the data.
fn count_bytes_elements(name: &str, mut data: &[u8]) -> Result<usize, Failure> {
    let mut count = 0;
    while !data.is_empty() {
        let left = data.len();
        next_element(&mut data).ok_or_else(|| {
            let message = format!("element {count} of BYTES exceeds the data, of which {left} bytes are left");
            Failure::invalid(name, format!("{message}; each element has its length of {LENGTH} bytes before it"))
        })?;
        count += 1;
    }
    Ok(count)
}

/// Removes the first element of BYTES; `None` if there is no whole one.
fn next_element<'a>(data: &mut &'a [u8]) -> Option<&'a [u8]> {
    let mut rest = *data;
    let length = usize::try_from(rest.try_get_u32_le().ok()?).ok()?;
    let (element, rest) = rest.split_at_checked(length)?;
    *data = rest;
    Some(element)
}
