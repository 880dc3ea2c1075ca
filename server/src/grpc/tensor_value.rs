//! Tensors in messages: types, values, handles, and resident tensors as their owner sees them.

use std::time::{Duration, SystemTime};

use accelerd_proto::v1::{self as pb, tensor_input::Source};
use accelerd_tensor::TensorType;
use bytes::Bytes;

use super::{
    convert::tensor_of,
    dtype::{dtype_from_proto, dtype_to_proto},
};
use crate::{
    error::ApiError,
    shown::List,
    tensors::{source::TensorSource, table::Listed},
};

/// A type that is sent. `prefix` names the message in errors.
pub(super) fn tensor_type(prefix: &str, dtype: i32, shape: &[i64]) -> Result<TensorType, ApiError> {
    let field = |name: &str| format!("{prefix}.{name}");
    let known = pb::Dtype::try_from(dtype).ok().and_then(dtype_from_proto);
    let dtype = known.ok_or_else(|| {
        ApiError::invalid(field("dtype"), format!("expected a Dtype other than UNSPECIFIED, got {dtype}"))
    })?;
    let extents: Result<Vec<_>, _> = shape.iter().map(|extent| usize::try_from(*extent)).collect();
    let negative =
        |_| ApiError::invalid(field("shape"), format!("expected extents of at least 0, got {:?}", List(shape)));
    Ok(TensorType { dtype, shape: extents.map_err(negative)? })
}

/// Type and data of a tensor that is sent.
pub(super) fn inline(field: &str, tensor: pb::Tensor) -> Result<(TensorType, Bytes), ApiError> {
    let of = tensor_type(field, tensor.dtype, &tensor.shape)?;
    if of.bytes() != tensor.data.len() {
        let expected = of.bytes();
        let got = tensor.data.len();
        let reason = format!("expected {expected} bytes for {} of shape {:?}, got {got}", of.dtype, List(&of.shape));
        return Err(ApiError::invalid(format!("{field}.data"), reason));
    }
    Ok((of, tensor.data))
}

/// Where a tensor comes from; `field` is its place in the request.
pub(super) fn source(field: &str, source: Option<Source>) -> Result<TensorSource, ApiError> {
    match source {
        Some(Source::Value(tensor)) => {
            let (of, data) = inline(&format!("{field}.value"), tensor)?;
            Ok(TensorSource::Value(of, data))
        }
        Some(Source::Handle(handle)) => Ok(TensorSource::Handle(handle)),
        None => Err(ApiError::invalid(format!("{field}.value"), "expected a tensor or a handle, got none")),
    }
}

/// The tensors of a list by name; `list` is its place in the request.
pub(super) fn sources(list: &str, inputs: Vec<pb::TensorInput>) -> Result<Vec<(String, TensorSource)>, ApiError> {
    let named = |(nth, input): (usize, pb::TensorInput)| {
        let source = source(&format!("{list}[{nth}]"), input.source)?;
        Ok((input.name, source))
    };
    inputs.into_iter().enumerate().map(named).collect()
}

/// A tensor as a message.
pub(super) fn value(of: &TensorType, data: Bytes) -> pb::Tensor {
    tensor_of(dtype_to_proto(of.dtype), &of.shape, data)
}

/// A shape as a message.
pub(super) fn extents(of: &TensorType) -> Vec<i64> {
    of.shape.iter().map(|extent| i64::try_from(*extent).unwrap_or(i64::MAX)).collect()
}

/// A resident tensor, for its owner.
pub(super) fn resident(listed: &Listed) -> pb::ResidentTensor {
    let now = SystemTime::now();
    let of = listed.kept.tensor.of();
    let before = |time: Duration| now.checked_sub(time).map(Into::into);
    pb::ResidentTensor {
        handle: listed.handle.clone(),
        dtype: dtype_to_proto(of.dtype).into(),
        shape: extents(of),
        size_bytes: of.bytes() as u64,
        device: listed.kept.tensor.device().to_string(),
        create_time: before(listed.age),
        last_use_time: before(listed.idle),
        expire_time: now.checked_add(listed.left).map(Into::into),
    }
}
