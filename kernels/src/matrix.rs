//! Shaped views of numbers; a length mismatch cannot be built.

use std::borrow::Cow;

use bytes::Bytes;

/// Bytes and shape disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("shape [{rows}, {cols}] needs {expected} bytes, got {got}")]
pub struct ShapeError {
    /// Rows asked for.
    pub rows: usize,
    /// Columns asked for.
    pub cols: usize,
    /// Bytes the shape needs.
    pub expected: u128,
    /// Bytes there are.
    pub got: usize,
}

/// A row-major f32 matrix that shares its bytes: cloning and receiving one copies nothing.
#[derive(Clone, Debug)]
pub struct Matrix {
    rows: usize,
    cols: usize,
    data: Bytes,
}

impl Matrix {
    /// Takes little-endian f32 bytes as they came from the wire, aligned or not.
    pub fn from_bytes(rows: usize, cols: usize, data: Bytes) -> Result<Self, ShapeError> {
        let expected = rows as u128 * cols as u128 * 4;
        if expected == data.len() as u128 {
            Ok(Self { rows, cols, data })
        } else {
            Err(ShapeError { rows, cols, expected, got: data.len() })
        }
    }

    /// Takes numbers without copying them.
    pub fn from_vec(rows: usize, cols: usize, data: Vec<f32>) -> Result<Self, ShapeError> {
        Self::from_bytes(rows, cols, Bytes::from_owner(Floats(data)))
    }

    /// How many rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The bytes, shared.
    pub fn bytes(&self) -> &Bytes {
        &self.data
    }

    /// All numbers, row after row: borrowed where the bytes are aligned, copied where not.
    pub fn as_f32(&self) -> Cow<'_, [f32]> {
        match bytemuck::try_cast_slice(&self.data) {
            Ok(aligned) => Cow::Borrowed(aligned),
            Err(_) => Cow::Owned(bytemuck::pod_collect_to_vec(&self.data)),
        }
    }

    /// Row and column of the first NaN or infinity.
    pub fn first_non_finite(&self) -> Option<(usize, usize)> {
        let data = self.as_f32();
        let at = data.chunks(4096).position(|chunk| !chunk.iter().fold(true, |ok, x| ok & x.is_finite()))? * 4096;
        let at = at + data[at..].iter().position(|x| !x.is_finite())?;
        Some((at / self.cols, at % self.cols))
    }
}

/// Lets `Bytes` own floats.
struct Floats(Vec<f32>);

impl AsRef<[u8]> for Floats {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}
