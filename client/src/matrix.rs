//! Matrices. A received tensor is read in place if it is aligned.

use std::{fmt, marker::PhantomData};

use bytemuck::Pod;
use bytes::Bytes;

use crate::{
    error::{Error, ShapeError},
    proto::{Dtype, Tensor},
};

const _: () = assert!(cfg!(target_endian = "little"), "tensors are little-endian, and so must be the machine");

/// Element type of a matrix.
pub trait Element: Pod + Send + Sync {
    /// The type in a tensor.
    const DTYPE: Dtype;
}

impl Element for f32 {
    const DTYPE: Dtype = Dtype::F32;
}

impl Element for i32 {
    const DTYPE: Dtype = Dtype::I32;
}

/// A row-major matrix. Clones share the elements.
#[derive(Clone)]
pub struct Matrix<T = f32> {
    rows: usize,
    dim: usize,
    /// `rows * dim` aligned elements.
    data: Bytes,
    element: PhantomData<T>,
}

/// A borrowed row-major matrix. Sending it copies it once.
#[derive(Clone, Copy, Debug)]
pub struct MatrixRef<'a, T = f32> {
    dim: usize,
    data: &'a [T],
}

/// Lets `Bytes` own a vector of elements.
struct Numbers<T>(Vec<T>);

impl<T: Pod> AsRef<[u8]> for Numbers<T> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

fn rows_of(len: usize, dim: usize) -> Result<usize, ShapeError> {
    match (len, dim) {
        (0, _) => Ok(0),
        (_, 0) => Err(ShapeError { len, dim }),
        _ if len.is_multiple_of(dim) => Ok(len / dim),
        _ => Err(ShapeError { len, dim }),
    }
}

impl<T: Element> Matrix<T> {
    /// A matrix of rows of `dim` elements, without a copy.
    pub fn new(data: Vec<T>, dim: usize) -> Result<Self, ShapeError> {
        let rows = rows_of(data.len(), dim)?;
        Ok(Self { rows, dim, data: Bytes::from_owner(Numbers(data)), element: PhantomData })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements per row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// All elements, row-major.
    pub fn as_slice(&self) -> &[T] {
        bytemuck::cast_slice(&self.data)
    }

    /// A row; `None` if out of bounds.
    pub fn row(&self, index: usize) -> Option<&[T]> {
        (index < self.rows).then(|| &self.as_slice()[index * self.dim..][..self.dim])
    }

    /// The rows in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[T]> {
        self.as_slice().chunks_exact(self.dim.max(1))
    }

    /// Borrows the matrix.
    pub fn as_ref(&self) -> MatrixRef<'_, T> {
        MatrixRef { dim: self.dim, data: self.as_slice() }
    }

    /// Converts a `[rows, dim]` tensor, named in errors. A vector becomes a matrix with one column.
    pub(crate) fn from_tensor(tensor: Option<Tensor>, name: &str) -> Result<Self, Error> {
        let malformed = |what: String| Error::Malformed(format!("{name}: {what}"));
        let tensor = tensor.ok_or_else(|| malformed("missing".into()))?;
        if tensor.dtype != i32::from(T::DTYPE) {
            return Err(malformed(format!("dtype {}, expected {:?}", tensor.dtype, T::DTYPE)));
        }
        let extent = |dim: usize| tensor.shape.get(dim).map_or(Ok(1), |extent| usize::try_from(*extent));
        let (Ok(rows), Ok(dim), 1..=2) = (extent(0), extent(1), tensor.shape.len()) else {
            return Err(malformed(format!("shape {:?}", tensor.shape)));
        };
        let expected = rows.checked_mul(dim).and_then(|count| count.checked_mul(size_of::<T>()));
        if expected != Some(tensor.data.len()) {
            return Err(malformed(format!("shape {:?} with {} bytes", tensor.shape, tensor.data.len())));
        }
        Ok(Self { rows, dim, data: aligned::<T>(tensor.data), element: PhantomData })
    }
}

/// Returns bytes that are aligned for `T`, copied if necessary.
pub(crate) fn aligned<T: Pod + Send + Sync>(data: Bytes) -> Bytes {
    match bytemuck::try_cast_slice::<u8, T>(&data) {
        Ok(_) => data,
        Err(_) => Bytes::from_owner(Numbers(bytemuck::pod_collect_to_vec::<u8, T>(&data))),
    }
}

impl<'a, T: Element> MatrixRef<'a, T> {
    /// A matrix of rows of `dim` elements.
    pub fn new(data: &'a [T], dim: usize) -> Result<Self, ShapeError> {
        rows_of(data.len(), dim).map(|_| Self { dim, data })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.data.len().checked_div(self.dim).unwrap_or_default()
    }
}

impl<T: Element> fmt::Debug for Matrix<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Matrix<{:?}>[{}, {}]", T::DTYPE, self.rows, self.dim)
    }
}

impl<T: Element + PartialEq> PartialEq for Matrix<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.rows, self.dim, self.as_slice()) == (other.rows, other.dim, other.as_slice())
    }
}

fn tensor<T: Element>(rows: usize, dim: usize, data: Bytes) -> Tensor {
    let extent = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    Tensor { dtype: T::DTYPE.into(), shape: vec![extent(rows), extent(dim)], data }
}

impl<T: Element> From<Matrix<T>> for Tensor {
    fn from(matrix: Matrix<T>) -> Self {
        tensor::<T>(matrix.rows, matrix.dim, matrix.data)
    }
}

impl<T: Element> From<&Matrix<T>> for Tensor {
    fn from(matrix: &Matrix<T>) -> Self {
        matrix.clone().into()
    }
}

impl<T: Element> From<MatrixRef<'_, T>> for Tensor {
    fn from(matrix: MatrixRef<'_, T>) -> Self {
        tensor::<T>(matrix.rows(), matrix.dim, Bytes::copy_from_slice(bytemuck::cast_slice(matrix.data)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_survives_the_wire_at_any_alignment() {
        let matrix = Matrix::new(vec![1.0_f32, -2.5, 3.0, 4.0, 5.0, 6.0], 3).unwrap();
        let sent = Tensor::from(&matrix);
        assert_eq!(sent.shape, [2, 3]);
        for shift in 0..4 {
            let mut shifted = vec![0; shift];
            shifted.extend_from_slice(&sent.data);
            let received = Tensor { data: Bytes::from(shifted).slice(shift..), ..sent.clone() };
            assert_eq!(Matrix::from_tensor(Some(received), "vectors").unwrap(), matrix, "shifted by {shift}");
        }
        assert_eq!(matrix.row(1), Some(&[4.0, 5.0, 6.0][..]));
        assert_eq!(matrix.row(2), None);
    }

    #[test]
    fn lengths_that_make_no_whole_rows_are_refused() {
        assert_eq!(Matrix::new(vec![1.0_f32; 5], 2).unwrap_err(), ShapeError { len: 5, dim: 2 });
        assert_eq!(MatrixRef::new(&[1.0_f32], 0).unwrap_err(), ShapeError { len: 1, dim: 0 });
        assert_eq!(Matrix::<f32>::new(vec![], 8).unwrap().rows(), 0);
    }

    #[test]
    fn tensors_that_lie_about_their_shape_are_refused() {
        let good = Tensor { dtype: Dtype::F32.into(), shape: vec![1, 2], data: Bytes::from_static(&[0; 8]) };
        assert!(Matrix::<f32>::from_tensor(Some(good.clone()), "t").is_ok());
        let lies = [
            Tensor { dtype: 99, ..good.clone() },
            Tensor { dtype: Dtype::I32.into(), ..good.clone() },
            Tensor { shape: vec![], ..good.clone() },
            Tensor { shape: vec![-1, -2], ..good.clone() },
            Tensor { shape: vec![1, 1, 2], ..good.clone() },
            Tensor { shape: vec![i64::MAX, i64::MAX], ..good.clone() },
            Tensor { shape: vec![2, 2], ..good },
        ];
        for lie in lies {
            assert!(Matrix::<f32>::from_tensor(Some(lie.clone()), "t").is_err(), "{lie:?}");
        }
        assert!(Matrix::<f32>::from_tensor(None, "t").is_err());
    }
}
