//! Resident tensors: uploads, downloads, copies and handles.

use std::time::Duration;

use accelerd_proto::methods::tensor_service;
use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};

use crate::{
    Client, Error, Result,
    call::final_error,
    proto::{self, ResidentTensor, Tensor},
};

/// Bytes of a message of an upload. A larger tensor is sent in several.
const CHUNK: usize = 1 << 20;

/// The most that a download reserves before it arrives.
const MAX_RESERVED: u64 = 1 << 30;

/// Where a tensor is kept, and for how long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UploadOptions {
    device: String,
    ttl: Option<Duration>,
}

impl UploadOptions {
    /// The device, such as `cpu` or `cuda:0`, instead of the daemon's default: its GPU with the most free memory for tensors, or the
    /// CPU.
    #[must_use]
    pub fn device(self, device: impl Into<String>) -> Self {
        Self { device: device.into(), ..self }
    }

    /// Frees the tensor once it is not used for this time, instead of the daemon's default.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl: Some(ttl), ..self }
    }
}

impl Client {
    /// Makes a tensor resident on a device of the daemon, for [`Graph::resident`](crate::Graph::resident). It takes a
    /// [`Matrix`](crate::Matrix), or any [`Tensor`], and is sent in chunks. It is retried
    /// only if the daemon did not execute it.
    pub async fn upload(&self, tensor: impl Into<Tensor>, options: &UploadOptions) -> Result<ResidentTensor> {
        let Tensor { dtype, shape, data } = tensor.into();
        let ttl = options.ttl.map(duration);
        let header = proto::UploadTensorHeader { dtype, shape, device: options.device.clone(), ttl };
        let messages = || stream::iter(messages(header.clone(), data.clone()));
        described(self.client_stream(&tensor_service::UPLOAD_TENSOR, messages).await?.tensor)
    }

    /// The elements of a resident tensor.
    pub async fn download(&self, tensor: &ResidentTensor) -> Result<Tensor> {
        let request = proto::DownloadTensorRequest { handle: tensor.handle.clone() };
        self.within_deadline(async {
            let mut parts = self.server_stream(tensor_service::DOWNLOAD_TENSOR, request).await?;
            let first = parts.next().await.transpose().map_err(final_error)?;
            let first = first.ok_or_else(|| Error::Malformed("an empty download".to_owned()))?;
            let ResidentTensor { dtype, shape, size_bytes, .. } = described(first.tensor)?;
            // Without a copy if there is one part.
            if first.data.len() as u64 == size_bytes {
                return Ok(Tensor { dtype, shape, data: first.data });
            }
            let reserved = usize::try_from(size_bytes.min(MAX_RESERVED)).unwrap_or_default();
            let mut data = BytesMut::with_capacity(reserved);
            data.extend_from_slice(&first.data);
            while let Some(part) = parts.next().await {
                data.extend_from_slice(&part.map_err(final_error)?.data);
            }
            if data.len() as u64 == size_bytes {
                return Ok(Tensor { dtype, shape, data: data.freeze() });
            }
            Err(Error::Malformed(format!("a download of {} bytes, expected {size_bytes}", data.len())))
        })
        .await
    }

    /// Frees resident tensors: all of them, or none if one does not exist.
    pub async fn free<'a>(&self, tensors: impl IntoIterator<Item = &'a ResidentTensor>) -> Result<()> {
        let handles = tensors.into_iter().map(|tensor| tensor.handle.clone()).collect();
        self.unary(tensor_service::FREE_TENSORS, proto::FreeTensorsRequest { handles }).await.map(drop)
    }

    /// The caller's resident tensors, oldest first.
    pub async fn list_tensors(&self) -> Result<Vec<ResidentTensor>> {
        Ok(self.unary(tensor_service::LIST_TENSORS, proto::ListTensorsRequest {}).await?.message.tensors)
    }

    /// Copies a resident tensor, as to another device.
    pub async fn copy_tensor(&self, tensor: &ResidentTensor, options: &UploadOptions) -> Result<ResidentTensor> {
        let ttl = options.ttl.map(duration);
        let request = proto::CopyTensorRequest { handle: tensor.handle.clone(), device: options.device.clone(), ttl };
        described(self.unary(tensor_service::COPY_TENSOR, request).await?.message.tensor)
    }
}

/// A header with the first chunk, and the other chunks, which share the memory of `data`.
fn messages(
    header: proto::UploadTensorHeader,
    mut data: Bytes,
) -> impl Iterator<Item = proto::UploadTensorRequest> + Send + 'static {
    let first = data.split_to(data.len().min(CHUNK));
    let first = proto::UploadTensorRequest { header: Some(header), data: first };
    let rest = std::iter::from_fn(move || {
        let chunk = data.split_to(data.len().min(CHUNK));
        (!chunk.is_empty()).then_some(proto::UploadTensorRequest { header: None, data: chunk })
    });
    std::iter::once(first).chain(rest)
}

fn described(tensor: Option<ResidentTensor>) -> Result<ResidentTensor> {
    tensor.ok_or_else(|| Error::Malformed("a response without a tensor".to_owned()))
}

/// A time as a message; the daemon refuses one that is too long.
pub(crate) fn duration(time: Duration) -> prost_types::Duration {
    let seconds = i64::try_from(time.as_secs());
    let nanos = i32::try_from(time.subsec_nanos());
    prost_types::Duration { seconds: seconds.unwrap_or(i64::MAX), nanos: nanos.unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_is_sent_in_chunks_that_share_its_memory() {
        let header = proto::UploadTensorHeader::default;
        let data = Bytes::from(vec![7; 2 * CHUNK + 1]);
        let start = data.as_ptr();
        let sent: Vec<_> = messages(header(), data).collect();
        assert_eq!(sent.iter().map(|one| one.data.len()).collect::<Vec<_>>(), [CHUNK, CHUNK, 1]);
        assert_eq!(sent.iter().map(|one| one.header.is_some()).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!(sent[0].data.as_ptr(), start);
        for bytes in [0, CHUNK] {
            assert_eq!(messages(header(), Bytes::from(vec![7; bytes])).count(), 1, "{bytes} bytes");
        }
    }
}
