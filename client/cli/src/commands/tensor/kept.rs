//! Output about a resident tensor.

use std::time::SystemTime;

use accelerd_client::ResidentTensor;
use serde::Serialize;

use crate::dtype;

/// A resident tensor.
#[derive(Serialize)]
pub(super) struct Kept {
    pub(super) handle: String,
    pub(super) dtype: &'static str,
    pub(super) shape: Vec<i64>,
    pub(super) size_bytes: u64,
    pub(super) device: String,
    /// Time until it is freed, unless a call uses it.
    pub(super) expires_in_seconds: f64,
}

impl From<ResidentTensor> for Kept {
    fn from(tensor: ResidentTensor) -> Self {
        let expires = tensor.expire_time.and_then(|time| SystemTime::try_from(time).ok());
        let left = expires.and_then(|time| time.duration_since(SystemTime::now()).ok());
        Self {
            dtype: dtype::of(tensor.dtype()).name,
            handle: tensor.handle,
            shape: tensor.shape,
            size_bytes: tensor.size_bytes,
            device: tensor.device,
            expires_in_seconds: left.unwrap_or_default().as_secs_f64(),
        }
    }
}
