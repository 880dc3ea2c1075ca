//! Resident tensors: looking them up, keeping new ones, and moving their elements in chunks.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use accelerd_engine::{Context, Lane};
use accelerd_kernels::{
    DeviceId, OpError, Size,
    ledger::Limit,
    ops::tensor::{
        Download, DownloadRequest, HostUpload, ResidentTensor, TensorAccount, TensorInput, Upload as UploadOp,
        UploadRequest,
    },
};
use accelerd_tensor::{GraphError, TensorType};
use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream, StreamExt};

use super::{
    Tensors,
    placement::default_device,
    source::TensorSource,
    table::{Copies, Listed, Quota, ResidentLimit},
};
use crate::{
    auth::caller::Caller,
    error::{ApiError, RequestedTime},
    ledger::RequestMemory,
};

/// Bytes of a chunk of a download.
const DOWNLOAD_CHUNK: usize = 1 << 20;

/// Bytes of a step of a copy.
const COPY_CHUNK: usize = 4 << 20;

/// A tensor to make resident.
#[derive(Debug)]
pub(crate) struct UploadHeader {
    pub(crate) of: TensorType,
    /// Empty for the default one.
    pub(crate) device: String,
    pub(crate) ttl: RequestedTime,
}

/// A tensor to copy to a device.
#[derive(Debug)]
pub(crate) struct CopyRequest {
    pub(crate) handle: String,
    /// Empty for the default one.
    pub(crate) device: String,
    pub(crate) ttl: RequestedTime,
}

/// The resident tensors, and the lanes that move their elements.
#[derive(Clone)]
pub(crate) struct ResidentTensors {
    tensors: Tensors,
    uploads: Lane<UploadOp>,
    downloads: Lane<Download>,
}

impl ResidentTensors {
    pub(crate) fn new(tensors: &Tensors) -> Self {
        Self { uploads: tensors.lane(), downloads: tensors.lane(), tensors: tensors.clone() }
    }

    /// A tensor of the caller.
    pub(crate) fn get(&self, caller: &Caller, handle: &str) -> Result<Listed, ApiError> {
        self.tensors.table.get(caller.owner(), handle, Instant::now(), self.tensors.is_lost())
    }

    /// Type and elements of a tensor that the caller passes. A resident one counts towards its owner's quota until what is listed is dropped.
    pub(crate) fn input(
        &self,
        caller: &Caller,
        source: TensorSource,
    ) -> Result<(TensorType, TensorInput, Option<Listed>), ApiError> {
        match source {
            TensorSource::Value(of, data) => Ok((of, data.into(), None)),
            TensorSource::Handle(handle) => {
                let listed = self.get(caller, &handle)?;
                let tensor = Arc::clone(&listed.kept.tensor);
                Ok((tensor.of().clone(), TensorInput::Resident(tensor), Some(listed)))
            }
        }
    }

    /// Takes the caller's quota of tensors of these sizes.
    pub(crate) fn reserve(&self, caller: &Caller, sizes: &[u64]) -> Result<Vec<Quota>, ApiError> {
        let owner = caller.owner();
        let limit = self.tensors.auth.resident_limit(owner);
        let quota =
            limit.map(|limit| ResidentLimit { limit, used_elsewhere: self.tensors.collections.owned_bytes(owner) });
        let reserved = self.tensors.table.reserve(owner, sizes, quota).or_else(|_| {
            self.tensors.sweep();
            self.tensors.table.reserve(owner, sizes, quota)
        });
        Ok(reserved.map_err(|refusal| caller.refuse(refusal))?)
    }

    /// Host memory for the copies of a request.
    pub(crate) fn request_memory(&self) -> RequestMemory {
        RequestMemory::new(&self.tensors.requests)
    }

    /// The memory account of a caller's tensors.
    pub(crate) fn account(&self, context: &Context) -> TensorAccount {
        TensorAccount::new(&self.tensors.ledger, context.principal)
    }

    /// Gives a tensor a handle.
    pub(crate) fn keep(&self, caller: &Caller, tensor: Arc<ResidentTensor>, quota: Quota, ttl: Duration) -> Listed {
        self.tensors.table.insert(caller.owner(), tensor, None, quota, ttl, Instant::now())
    }

    /// The caller's tensors on these devices with the elements of others.
    pub(crate) fn copies<'a>(
        &self,
        caller: &Caller,
        of: impl IntoIterator<Item = &'a Listed>,
        devices: &[DeviceId],
    ) -> Copies {
        let of = of.into_iter().map(|listed| &*listed.kept);
        self.tensors.table.copies(caller.owner(), of, devices, Instant::now())
    }

    /// Frees tensors of a caller who is not told their handles. They may be gone already.
    pub(crate) fn take_back(&self, owner: &str, handles: &[String]) {
        for handle in handles {
            // Listing shows it to its owner, who may have freed it.
            let _gone = self.tensors.table.free(owner, std::slice::from_ref(handle), Instant::now());
        }
    }

    /// The time to live that a request sets, or else the default.
    pub(crate) fn ttl(&self, field: &str, requested: RequestedTime) -> Result<Duration, ApiError> {
        let Tensors { default_ttl, max_ttl, .. } = self.tensors;
        let Some(requested) = requested else { return Ok(default_ttl) };
        let expected = |got: &str| {
            let reason = format!("expected more than 0s and at most {max_ttl:?}, got {got}");
            ApiError::invalid(field, reason)
        };
        let ttl = requested.map_err(|got| expected(&got))?;
        let is_allowed = !ttl.is_zero() && ttl <= max_ttl;
        if is_allowed { Ok(ttl) } else { Err(expected(&format!("{ttl:?}"))) }
    }

    /// The devices in use: GPUs by ordinal, then the CPU.
    pub(crate) fn devices(&self) -> impl Iterator<Item = DeviceId> {
        let devices = self.tensors.engine.devices().into_iter();
        devices.filter(|(_, lost)| lost.is_none()).map(|(device, _)| device.id())
    }

    /// The device in use of this name; the default one if it is empty.
    pub(crate) fn device(&self, field: &str, name: &str) -> Result<DeviceId, ApiError> {
        if name.is_empty() {
            return Ok(default_device(&self.tensors.ledger, self.devices()));
        }
        self.devices().find(|id| id.to_string() == name).ok_or_else(|| {
            let known: Vec<_> = self.devices().map(|id| id.to_string()).collect();
            let shown: String = name.chars().take(64).collect();
            ApiError::invalid(field, format!("expected a device in use, of {}, got {shown:?}", known.join(", ")))
        })
    }

    fn reserve_one(&self, caller: &Caller, bytes: usize) -> Result<Quota, ApiError> {
        // One size, one share.
        Ok(self.reserve(caller, &[bytes as u64])?.remove(0))
    }

    /// The chunks of a tensor's elements, at least one.
    pub(crate) fn chunks(self, of: Listed, context: Context) -> BoxStream<'static, Result<Bytes, ApiError>> {
        let bytes = of.kept.tensor.of().bytes();
        let state = Some((self, of, 0_usize));
        let chunks = stream::try_unfold(state, move |state| {
            let context = context.clone();
            async move {
                let Some((this, of, at)) = state else { return Ok(None) };
                let end = bytes.min(at + DOWNLOAD_CHUNK);
                let data = this.read(&of.kept.tensor, at..end, &context).await?;
                let next = (end < bytes).then_some((this, of, end));
                Ok(Some((data, next)))
            }
        });
        chunks.boxed()
    }

    /// The tensor of a request. A resident one on a GPU is copied to host memory, which may have `limit` bytes and is added to `copies`.
    pub(crate) async fn read_source(
        &self,
        caller: &Caller,
        source: TensorSource,
        (copies, limit): (&mut RequestMemory, Limit),
        context: &Context,
    ) -> Result<(TensorType, Bytes), ApiError> {
        let handle = match source {
            TensorSource::Value(of, data) => return Ok((of, data)),
            TensorSource::Handle(handle) => handle,
        };
        let tensor = Arc::clone(&self.get(caller, &handle)?.kept.tensor);
        if tensor.host_bytes().is_none() {
            let asked = (tensor.of().bytes() as u64).saturating_add(copies.bytes());
            if asked > limit.bytes {
                return Err(ApiError::CaseMemory { asked, limit });
            }
            copies.try_resize(asked)?;
        }
        Ok((tensor.of().clone(), self.read_all(&tensor, context).await?))
    }

    async fn read(
        &self,
        tensor: &Arc<ResidentTensor>,
        range: std::ops::Range<usize>,
        context: &Context,
    ) -> Result<Bytes, ApiError> {
        if let Some(bytes) = tensor.host_bytes() {
            return Ok(bytes.slice(range));
        }
        let request = DownloadRequest::new(Arc::clone(tensor), range);
        Ok(self.downloads.submit(request, context.clone()).await?.response)
    }

    /// All elements of a tensor, in host memory.
    pub(crate) async fn read_all(&self, tensor: &Arc<ResidentTensor>, context: &Context) -> Result<Bytes, ApiError> {
        if let Some(bytes) = tensor.host_bytes() {
            return Ok(bytes.clone());
        }
        let bytes = tensor.of().bytes();
        let mut all = BytesMut::with_capacity(bytes);
        for at in (0..bytes).step_by(COPY_CHUNK) {
            all.extend_from_slice(&self.read(tensor, at..bytes.min(at + COPY_CHUNK), context).await?);
        }
        Ok(all.freeze())
    }

    /// Replaces a tensor on a GPU by its elements in host memory, which `memory` reserves.
    pub(crate) async fn move_to_host(
        &self,
        input: &mut TensorInput,
        memory: &mut RequestMemory,
        context: &Context,
    ) -> Result<(), ApiError> {
        let TensorInput::Resident(tensor) = &*input else { return Ok(()) };
        if is_on_gpu(input) {
            memory.try_resize(memory.bytes() + tensor.of().bytes() as u64)?;
            *input = TensorInput::Inline(self.read_all(tensor, context).await?);
        }
        Ok(())
    }

    /// Copies a tensor to a device, under a new handle.
    pub(crate) async fn copy(
        &self,
        caller: &Caller,
        mut context: Context,
        request: CopyRequest,
    ) -> Result<Listed, ApiError> {
        let device = self.device("device", &request.device)?;
        context.no_cpu_fallback = !request.device.is_empty();
        let ttl = self.ttl("ttl", request.ttl)?;
        let original = self.get(caller, &request.handle)?.kept;
        let quota = self.reserve_one(caller, original.tensor.of().bytes())?;
        let copy = self.write_copy(&original.tensor, device, &context).await?;
        let now = Instant::now();
        let listed = self.tensors.table.insert(caller.owner(), copy, Some(&original), quota, ttl, now);
        caller.record_change(&listed.handle);
        Ok(listed)
    }

    /// A copy of a tensor on a device, without a handle.
    pub(crate) async fn copy_to(
        &self,
        source: &Arc<ResidentTensor>,
        device: DeviceId,
        context: &Context,
    ) -> Result<Arc<ResidentTensor>, ApiError> {
        self.write_copy(source, device, &Context { no_cpu_fallback: true, ..context.clone() }).await
    }

    async fn write_copy(
        &self,
        source: &Arc<ResidentTensor>,
        device: DeviceId,
        context: &Context,
    ) -> Result<Arc<ResidentTensor>, ApiError> {
        let bytes = source.of().bytes();
        let mut writer = Writer::begin(self, source.of().clone(), device, context).await?;
        for at in (0..bytes).step_by(COPY_CHUNK) {
            let data = self.read(source, at..bytes.min(at + COPY_CHUNK), context).await?;
            writer.write(self, data, context).await?;
        }
        Ok(writer.finish())
    }

    pub(crate) fn free(&self, caller: &Caller, handles: &[String]) -> Result<(), ApiError> {
        self.tensors.table.free(caller.owner(), handles, Instant::now())?;
        caller.record_change(&named(handles));
        Ok(())
    }

    pub(crate) fn list(&self, caller: &Caller) -> Vec<Listed> {
        self.tensors.table.list(caller.owner(), Instant::now(), self.tensors.is_lost())
    }
}

/// A tensor whose elements arrive in parts.
pub(crate) struct TensorUpload<'a> {
    resident: &'a ResidentTensors,
    context: Context,
    quota: Quota,
    ttl: Duration,
    writer: Writer,
    expected: usize,
    received: usize,
}

impl<'a> TensorUpload<'a> {
    /// Reserves the memory of the tensor.
    pub(crate) async fn begin(
        resident: &'a ResidentTensors,
        caller: &Caller,
        mut context: Context,
        header: UploadHeader,
    ) -> Result<Self, ApiError> {
        let of = header.of;
        of.check_size("header", "shape").map_err(|GraphError { field, expected, got, .. }| {
            ApiError::invalid(format!("header.{field}"), format!("expected {expected}, got {got}"))
        })?;
        let device = resident.device("header.device", &header.device)?;
        context.no_cpu_fallback = !header.device.is_empty();
        let ttl = resident.ttl("header.ttl", header.ttl)?;
        let expected = of.bytes();
        let quota = resident.reserve_one(caller, expected)?;
        let writer = Writer::begin(resident, of, device, &context).await?;
        Ok(Self { resident, context, quota, ttl, writer, expected, received: 0 })
    }

    /// Bytes that have arrived.
    pub(crate) fn received(&self) -> usize {
        self.received
    }

    /// Writes the next bytes.
    pub(crate) async fn write(&mut self, data: Bytes) -> Result<(), ApiError> {
        self.received = self.received.saturating_add(data.len());
        if self.received > self.expected {
            let reason = format!("expected {} bytes, got at least {}", self.expected, self.received);
            return Err(ApiError::invalid("data", reason));
        }
        self.writer.write(self.resident, data, &self.context).await
    }

    /// Makes the tensor resident, once all of its bytes have arrived.
    pub(crate) fn finish(self, caller: &Caller) -> Result<Listed, ApiError> {
        let Self { resident, quota, ttl, writer, expected, received, .. } = self;
        if received < expected {
            return Err(ApiError::invalid("data", format!("expected {expected} bytes, got {received}")));
        }
        let listed = resident.keep(caller, writer.finish(), quota, ttl);
        caller.record_change(&listed.handle);
        Ok(listed)
    }
}

/// Returns true if the CPU cannot read an input in place.
pub(crate) fn is_on_gpu(input: &TensorInput) -> bool {
    matches!(input, TensorInput::Resident(tensor) if tensor.device() != DeviceId::Cpu)
}

/// A tensor that is being written.
enum Writer {
    Host(HostUpload),
    Gpu { tensor: Arc<ResidentTensor>, at: usize },
}

impl Writer {
    /// Reserves and allocates the memory; on the host if the GPU has none left and the caller did not name it.
    async fn begin(
        to: &ResidentTensors,
        of: TensorType,
        device: DeviceId,
        context: &Context,
    ) -> Result<Self, ApiError> {
        let account = to.account(context);
        let on_host = |of| HostUpload::new(of, &account).map(Self::Host).map_err(failed);
        if device == DeviceId::Cpu {
            return on_host(of);
        }
        let size = Size { items: 1, bytes: of.bytes() as u64 };
        let request = UploadRequest::begin(of.clone(), device, account.clone(), Bytes::new());
        match to.uploads.submit(request, context.clone()).await {
            Ok(begun) => Ok(Self::Gpu { tensor: begun.response, at: 0 }),
            Err(error) if to.uploads.falls_back(&error, size, context) => on_host(of),
            Err(error) => Err(error.into()),
        }
    }

    async fn write(&mut self, to: &ResidentTensors, data: Bytes, context: &Context) -> Result<(), ApiError> {
        match self {
            Self::Host(upload) => upload.write(&data).map_err(failed)?,
            Self::Gpu { .. } if data.is_empty() => {}
            Self::Gpu { tensor, at } => {
                let start = *at;
                let len = data.len();
                let request = UploadRequest::next(Arc::clone(tensor), start, data);
                to.uploads.submit(request, context.clone()).await?;
                *at = start + len;
            }
        }
        Ok(())
    }

    fn finish(self) -> Arc<ResidentTensor> {
        match self {
            Self::Host(upload) => Arc::new(upload.finish()),
            Self::Gpu { tensor, .. } => tensor,
        }
    }
}

fn failed(error: OpError) -> ApiError {
    ApiError::Submit(error.into())
}

/// The most handles that an audit event names.
const MAX_AUDITED: usize = 16;

/// Handles as the resource of an audit event.
pub(crate) fn named(handles: &[impl AsRef<str>]) -> String {
    let shown: Vec<_> = handles.iter().take(MAX_AUDITED).map(AsRef::as_ref).collect();
    match handles.len().saturating_sub(MAX_AUDITED) {
        0 => shown.join(","),
        more => format!("{},+{more}", shown.join(",")),
    }
}
