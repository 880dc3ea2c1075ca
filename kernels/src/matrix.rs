//! A matrix view of bytes whose length always matches its shape.

use std::borrow::Cow;

use bytes::Bytes;

/// The byte length does not match the shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("shape [{rows}, {cols}] needs {expected} bytes, got {got}")]
pub struct ShapeError {
    /// Rows of the shape.
    pub rows: usize,
    /// Columns of the shape.
    pub cols: usize,
    /// Bytes the shape needs.
    pub expected: u128,
    /// Length in bytes.
    pub got: usize,
}

/// A row-major f32 matrix that shares its bytes: cloning and receiving it copies nothing.
#[derive(Clone, Debug)]
pub struct Matrix {
    rows: usize,
    cols: usize,
    data: Bytes,
}

impl Matrix {
    /// Wraps little-endian f32 bytes from the wire, aligned or not.
    pub fn from_bytes(rows: usize, cols: usize, data: Bytes) -> Result<Self, ShapeError> {
        let expected = (rows as u128 * cols as u128).saturating_mul(4);
        if expected == data.len() as u128 {
            Ok(Self { rows, cols, data })
        } else {
            Err(ShapeError { rows, cols, expected, got: data.len() })
        }
    }

    /// Wraps a vector without copying it.
    pub fn from_vec(rows: usize, cols: usize, data: Vec<f32>) -> Result<Self, ShapeError> {
        Self::from_bytes(rows, cols, Bytes::from_owner(Floats(data)))
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The bytes, shared.
    pub fn bytes(&self) -> &Bytes {
        &self.data
    }

    /// All elements in row-major order: borrowed if the bytes are aligned, copied otherwise.
    pub fn as_f32(&self) -> Cow<'_, [f32]> {
        match bytemuck::try_cast_slice(&self.data) {
            Ok(aligned) => Cow::Borrowed(aligned),
            Err(_) => Cow::Owned(bytemuck::pod_collect_to_vec(&self.data)),
        }
    }

    /// Row and column of the first NaN or infinity.
    pub fn first_non_finite(&self) -> Option<(usize, usize)> {
        let data = self.as_f32();
        let index = data.chunks(4096).position(|chunk| !chunk.iter().fold(true, |ok, x| ok & x.is_finite()))? * 4096;
        let index = index + data[index..].iter().position(|x| !x.is_finite())?;
        Some((index / self.cols, index % self.cols))
    }
}

/// Lets `Bytes` own floats.
struct Floats(Vec<f32>);

impl AsRef<[u8]> for Floats {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_mismatch_is_rejected() {
        let refused = Matrix::from_bytes(2, 3, Bytes::from_static(&[0; 23])).expect_err("one byte is missing");
        assert_eq!(refused.to_string(), "shape [2, 3] needs 24 bytes, got 23");
        assert!(Matrix::from_vec(usize::MAX, usize::MAX, vec![]).is_err(), "no overflow makes it fit");
    }

    #[test]
    fn unaligned_bytes_give_the_same_elements() {
        let numbers = [1.5_f32, -2.0, 3.25];
        let bytes: Vec<u8> = std::iter::once(0).chain(numbers.iter().flat_map(|x| x.to_le_bytes())).collect();
        let matrix = Matrix::from_bytes(3, 1, Bytes::from(bytes).slice(1..)).expect("twelve bytes");
        assert_eq!(matrix.as_f32()[..], numbers);
    }

    #[test]
    fn the_first_number_that_is_not_finite_is_found() {
        let mut data = vec![0.0_f32; 3 * 5000];
        assert_eq!(Matrix::from_vec(5000, 3, data.clone()).expect("5000 rows").first_non_finite(), None);
        data[14_000] = f32::NAN;
        data[13_000] = f32::NEG_INFINITY;
        assert_eq!(Matrix::from_vec(5000, 3, data).expect("5000 rows").first_non_finite(), Some((4333, 1)));
        assert_eq!(Matrix::from_vec(5, 0, vec![]).expect("no columns").first_non_finite(), None);
    }
}
