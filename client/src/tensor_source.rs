//! Tensors as arguments of calls: sent with the request, or resident.

use crate::{
    Matrix,
    matrix::Element,
    proto::{self, Dtype, ResidentTensor, Tensor, tensor_input::Source},
};

/// A tensor that is sent, or one that is resident. Tensors, matrices and numbers convert to it.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorSource(Source);

impl TensorSource {
    /// The message, under a name.
    pub(crate) fn named(self, name: impl Into<String>) -> proto::TensorInput {
        proto::TensorInput { name: name.into(), source: Some(self.0) }
    }
}

impl From<Tensor> for TensorSource {
    fn from(tensor: Tensor) -> Self {
        Self(Source::Value(tensor))
    }
}

impl<T: Element> From<Matrix<T>> for TensorSource {
    fn from(matrix: Matrix<T>) -> Self {
        Tensor::from(matrix).into()
    }
}

impl From<&ResidentTensor> for TensorSource {
    fn from(tensor: &ResidentTensor) -> Self {
        Self(Source::Handle(tensor.handle.clone()))
    }
}

macro_rules! from_scalar {
    ($($scalar:ty => $dtype:ident),*) => {$(
        impl From<$scalar> for TensorSource {
            fn from(scalar: $scalar) -> Self {
                let data = scalar.to_le_bytes().to_vec().into();
                Tensor { dtype: Dtype::$dtype.into(), shape: vec![], data }.into()
            }
        }
    )*};
}

from_scalar!(f32 => F32, f64 => F64, i32 => I32, i64 => I64, u32 => U32, u64 => U64);

impl From<bool> for TensorSource {
    fn from(scalar: bool) -> Self {
        Tensor { dtype: Dtype::Bool.into(), shape: vec![], data: vec![u8::from(scalar)].into() }.into()
    }
}
