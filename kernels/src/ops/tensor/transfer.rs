//! The operations that copy the elements of resident tensors to and from a GPU, in chunks.

use std::{ops::Range, sync::Arc};

use accelerd_tensor::TensorType;
use bytes::Bytes;

use super::{ResidentTensor, TensorAccount, cuda::download::download};
use crate::{Backend, DeviceId, Op, OpError, Size, cuda};

/// A chunk to write.
#[derive(Clone, Debug)]
pub struct UploadRequest {
    to: Target,
    data: Bytes,
}

#[derive(Clone, Debug)]
enum Target {
    New { of: TensorType, device: DeviceId, account: TensorAccount },
    Begun { tensor: Arc<ResidentTensor>, at: usize },
}

impl UploadRequest {
    /// Reserves and allocates a tensor on a GPU, and writes its first bytes.
    pub fn begin(of: TensorType, device: DeviceId, account: TensorAccount, data: Bytes) -> Self {
        Self { to: Target::New { of, device, account }, data }
    }

    /// Writes bytes of a tensor that an earlier upload began, and that nothing reads yet.
    pub fn next(tensor: Arc<ResidentTensor>, index: usize, data: Bytes) -> Self {
        Self { to: Target::Begun { tensor, at: index }, data }
    }

    fn run(&self, worker: &cuda::Worker) -> Result<Arc<ResidentTensor>, OpError> {
        let (tensor, index) = match &self.to {
            Target::New { of, account, .. } => (Arc::new(allocate(of, account, worker)?), 0),
            Target::Begun { tensor, at: index } => (Arc::clone(tensor), *index),
        };
        tensor.check(&(index..index.saturating_add(self.data.len())))?;
        worker.upload(&self.data, tensor.on(worker)?, index)?;
        Ok(tensor)
    }
}

fn allocate(of: &TensorType, account: &TensorAccount, worker: &cuda::Worker) -> Result<ResidentTensor, OpError> {
    let reserved = account.reserve(worker.device().info().id, of.bytes())?;
    let buffer = worker.alloc(of.bytes())?;
    Ok(ResidentTensor::on_gpu(of.clone(), buffer, worker, reserved))
}

/// Writes chunks of resident tensors on a GPU.
#[derive(Debug)]
pub struct Upload;

impl Op for Upload {
    const NAME: &'static str = "tensor_upload";
    type Request = UploadRequest;
    /// The tensor that was written to.
    type Response = Arc<ResidentTensor>;
    type Key = ();

    fn key(_: &UploadRequest) {}

    fn size(request: &UploadRequest) -> Size {
        Size { items: 1, bytes: request.data.len() as u64 }
    }

    fn device_affinity(request: &UploadRequest) -> Option<DeviceId> {
        Some(match &request.to {
            Target::New { device, .. } => *device,
            Target::Begun { tensor, .. } => tensor.device(),
        })
    }

    fn run(batch: &[&UploadRequest], on: &mut Backend) -> Result<Vec<Arc<ResidentTensor>>, OpError> {
        let worker = gpu(on)?;
        let written = batch.iter().map(|request| request.run(worker)).collect();
        // Other streams write the next chunks, read the tensors, and free them.
        worker.synchronize()?;
        written
    }

    fn release(_: UploadRequest) -> Option<UploadRequest> {
        None
    }
}

/// A range of a tensor to read.
#[derive(Clone, Debug)]
pub struct DownloadRequest {
    tensor: Arc<ResidentTensor>,
    range: Range<usize>,
}

impl DownloadRequest {
    /// Reads a range of the bytes of a tensor on a GPU.
    pub fn new(tensor: Arc<ResidentTensor>, range: Range<usize>) -> Self {
        Self { tensor, range }
    }
}

/// Reads ranges of resident tensors on a GPU.
#[derive(Debug)]
pub struct Download;

impl Op for Download {
    const NAME: &'static str = "tensor_download";
    type Request = DownloadRequest;
    /// The bytes, in pinned memory.
    type Response = Bytes;
    type Key = ();

    fn key(_: &DownloadRequest) {}

    fn size(request: &DownloadRequest) -> Size {
        Size { items: 1, bytes: request.range.len() as u64 }
    }

    fn device_affinity(request: &DownloadRequest) -> Option<DeviceId> {
        Some(request.tensor.device())
    }

    fn run(batch: &[&DownloadRequest], on: &mut Backend) -> Result<Vec<Bytes>, OpError> {
        let worker = gpu(on)?;
        let read = |request: &&DownloadRequest| {
            request.tensor.check(&request.range)?;
            // It waits for the copy, so the tensor may be freed afterwards.
            let mut bytes = download(&[(request.tensor.on(worker)?, request.range.clone())], worker)?;
            Ok(bytes.pop().unwrap_or_default())
        };
        batch.iter().map(read).collect()
    }

    fn release(_: DownloadRequest) -> Option<DownloadRequest> {
        None
    }
}

fn gpu(on: &Backend) -> Result<&cuda::Worker, OpError> {
    match on {
        Backend::Cuda(worker) => Ok(worker),
        Backend::Cpu(_) => Err(OpError::Invalid("expected a tensor on a GPU, got one on cpu".to_owned())),
    }
}
