//! Resident tensors: looking them up, keeping new ones, and moving their elements in chunks.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use accelerd_engine::{Context, Lane};
use accelerd_kernels::{
    DeviceId, OpError, Size,
    ops::tensor::{
        Download, DownloadRequest, HostUpload, ResidentTensor, TensorAccount, TensorInput, Upload as UploadOp,
        UploadRequest,
    },
};
use accelerd_proto::v1 as pb;
use accelerd_tensor::{GraphError, TensorType};
use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream, stream::BoxStream};
use tokio::time::timeout_at;
use tonic::{Response, Status};

use super::{
    call::{ChargedRequests, Requests},
    delivery::Delivery,
    dtype::{dtype_from_proto, dtype_to_proto},
    placement::default_device,
    shown::List,
};
use crate::{
    app::App,
    auth::caller::Caller,
    error::ApiError,
    ledger::RequestMemory,
    status,
    tensors::{Copies, Listed, Quota, ResidentLimit},
};

/// Bytes of a message of a download.
const DOWNLOAD_CHUNK: usize = 1 << 20;

/// An upload that sends less within `server.stall_timeout` is ended: the memory of its tensor is reserved.
const STALL_BYTES: usize = 64 << 10;

/// Bytes of a step of a copy.
const COPY_CHUNK: usize = 4 << 20;

/// The resident tensors, and the lanes that move their elements.
#[derive(Clone, Debug)]
pub(super) struct ResidentTensors {
    app: Arc<App>,
    uploads: Lane<UploadOp>,
    downloads: Lane<Download>,
}

impl ResidentTensors {
    pub(super) fn new(app: &Arc<App>) -> Self {
        let config = app.config.lanes.lane(&app.config.lanes.tensor);
        let (uploads, downloads) = (app.engine.lane(config.clone()), app.engine.lane(config));
        Self { app: Arc::clone(app), uploads, downloads }
    }

    /// A tensor of the caller.
    pub(super) fn get(&self, caller: &Caller, handle: &str) -> Result<Listed, ApiError> {
        self.app.tensors.get(caller.owner(), handle, Instant::now(), self.app.is_lost())
    }

    /// Takes the caller's quota of tensors of these sizes.
    pub(super) fn reserve(&self, caller: &Caller, sizes: &[u64]) -> Result<Vec<Quota>, ApiError> {
        let owner = caller.owner();
        let quota = self
            .app
            .auth
            .resident_limit(owner)
            .map(|limit| ResidentLimit { limit, used_elsewhere: self.app.collections.owned_bytes(owner) });
        let reserved = self.app.tensors.reserve(owner, sizes, quota).or_else(|_| {
            self.app.sweep_tensors();
            self.app.tensors.reserve(owner, sizes, quota)
        });
        Ok(reserved.map_err(|refusal| caller.refuse(refusal))?)
    }

    /// Memory of the host for what a request copies there.
    pub(super) fn request_memory(&self) -> RequestMemory {
        RequestMemory::new(&self.app.requests)
    }

    /// The memory account of a caller's tensors.
    pub(super) fn account(&self, context: &Context) -> TensorAccount {
        TensorAccount::new(&self.app.ledger, context.principal)
    }

    /// Gives a tensor a handle.
    pub(super) fn keep(
        &self,
        caller: &Caller,
        tensor: Arc<ResidentTensor>,
        quota: Quota,
        ttl: Duration,
    ) -> pb::ResidentTensor {
        describe(&self.app.tensors.insert(caller.owner(), tensor, None, quota, ttl, Instant::now()))
    }

    /// The caller's tensors on these devices with the elements of others.
    pub(super) fn copies<'a>(
        &self,
        caller: &Caller,
        of: impl IntoIterator<Item = &'a Listed>,
        devices: &[DeviceId],
    ) -> Copies {
        let of = of.into_iter().map(|listed| &*listed.kept);
        self.app.tensors.copies(caller.owner(), of, devices, Instant::now())
    }

    /// A response with the handles of new tensors, which are freed unless it is sent: nobody else knows them.
    pub(super) fn respond<R>(&self, caller: &Caller, response: R, kept: &[pb::ResidentTensor]) -> Response<R> {
        let handles: Vec<_> = kept.iter().map(|tensor| tensor.handle.clone()).collect();
        let (app, owner) = (Arc::clone(&self.app), caller.owner().to_owned());
        Delivery::attach(response, move || {
            for handle in &handles {
                // Listing shows it to its owner, who may have freed it.
                let _gone = app.tensors.free(&owner, std::slice::from_ref(handle), Instant::now());
            }
        })
    }

    /// The time to live that a request sets, or else the default.
    pub(super) fn ttl(&self, field: &str, requested: Option<prost_types::Duration>) -> Result<Duration, ApiError> {
        let settings = &self.app.config.tensors;
        let Some(requested) = requested else { return Ok(settings.default_ttl) };
        let expected = |got: &str| {
            let reason = format!("expected more than 0s and at most {:?}, got {got}", settings.max_ttl);
            ApiError::invalid(field, reason)
        };
        let ttl = Duration::try_from(requested).map_err(|error| expected(&error.to_string()))?;
        let is_allowed = !ttl.is_zero() && ttl <= settings.max_ttl;
        if is_allowed { Ok(ttl) } else { Err(expected(&format!("{ttl:?}"))) }
    }

    /// The devices in use: GPUs by ordinal, then the CPU.
    pub(super) fn devices(&self) -> impl Iterator<Item = DeviceId> {
        let devices = self.app.engine.devices().into_iter();
        devices.filter(|(_, lost)| lost.is_none()).map(|(device, _)| device.id())
    }

    /// The device in use of this name; the default one if it is empty.
    pub(super) fn device(&self, field: &str, name: &str) -> Result<DeviceId, ApiError> {
        if name.is_empty() {
            return Ok(default_device(&self.app.ledger, self.devices()));
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

    /// Makes the tensor of an upload resident.
    pub(super) async fn upload(
        &self,
        caller: Caller,
        mut context: Context,
        mut parts: ChargedRequests<pb::UploadTensorRequest>,
    ) -> Result<Response<pb::UploadTensorResponse>, Status> {
        let stall_timeout = self.app.config.server.stall_timeout;
        let (mut stalls_at, mut counted) = (Instant::now() + stall_timeout, 0);
        let mut next = async |received: usize| {
            if received >= counted + STALL_BYTES {
                (stalls_at, counted) = (Instant::now() + stall_timeout, received);
            }
            match timeout_at(stalls_at.into(), parts.next()).await {
                Ok(next) => next.transpose(),
                Err(_elapsed) => Err(status::stalled()),
            }
        };
        let missing = || ApiError::invalid("header", "expected a header in the first message, got none");
        let (pb::UploadTensorRequest { header, data }, mut charge) = next(0).await?.ok_or_else(missing)?;
        let header = header.ok_or_else(missing)?;
        let of = tensor_type("header", header.dtype, &header.shape)?;
        of.check_size("header", "shape").map_err(|GraphError { field, expected, got, .. }| {
            ApiError::invalid(format!("header.{field}"), format!("expected {expected}, got {got}"))
        })?;
        let device = self.device("header.device", &header.device)?;
        context.no_cpu_fallback = !header.device.is_empty();
        let ttl = self.ttl("header.ttl", header.ttl)?;
        let expected = of.bytes();
        let quota = self.reserve_one(&caller, expected)?;
        let mut writer = Writer::begin(self, of, device, &context).await?;
        let (mut received, mut data) = (0_usize, data);
        loop {
            received = received.saturating_add(data.len());
            if received > expected {
                let reason = format!("expected {expected} bytes, got at least {received}");
                return Err(ApiError::invalid("data", reason).into());
            }
            writer.write(self, data, &context).await?;
            drop(charge);
            let Some((part, its_charge)) = next(received).await? else { break };
            if part.header.is_some() {
                return Err(ApiError::invalid("header", "expected a header in the first message only").into());
            }
            (data, charge) = (part.data, its_charge);
        }
        if received < expected {
            return Err(ApiError::invalid("data", format!("expected {expected} bytes, got {received}")).into());
        }
        let tensor = self.keep(&caller, writer.finish(), quota, ttl);
        caller.record_change(&tensor.handle);
        let response = pb::UploadTensorResponse { tensor: Some(tensor.clone()) };
        Ok(self.respond(&caller, response, &[tensor]))
    }

    /// The messages of a download.
    pub(super) fn download(
        &self,
        caller: Caller,
        context: Context,
        mut requests: Requests<pb::DownloadTensorRequest>,
    ) -> BoxStream<'static, Result<pb::DownloadTensorResponse, Status>> {
        let this = self.clone();
        let begin = async move {
            let request = requests.next().await.transpose()?;
            let request = request.ok_or_else(|| ApiError::invalid("handle", "expected a request, got none"))?;
            let found = this.get(&caller, &request.handle)?;
            Ok::<_, Status>(this.messages(found, context))
        };
        let messages = stream::once(begin).flat_map(|begun| match begun {
            Ok(messages) => messages,
            Err(status) => stream::once(async { Err(status) }).boxed(),
        });
        messages.boxed()
    }

    fn messages(
        self,
        found: Listed,
        context: Context,
    ) -> BoxStream<'static, Result<pb::DownloadTensorResponse, Status>> {
        let bytes = found.kept.tensor.of().bytes();
        let header = Some(describe(&found));
        let state = (self, found, header, 0_usize);
        let messages = stream::try_unfold(state, move |(this, found, header, at)| {
            let context = context.clone();
            async move {
                if header.is_none() && at == bytes {
                    return Ok(None);
                }
                let end = bytes.min(at + DOWNLOAD_CHUNK);
                let data = this.read(&found.kept.tensor, at..end, &context).await?;
                let message = pb::DownloadTensorResponse { tensor: header, data };
                Ok(Some((message, (this, found, None, end))))
            }
        });
        messages.boxed()
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
    pub(super) async fn read_all(&self, tensor: &Arc<ResidentTensor>, context: &Context) -> Result<Bytes, ApiError> {
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
    pub(super) async fn move_to_host(
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
    pub(super) async fn copy(
        &self,
        caller: &Caller,
        mut context: Context,
        request: pb::CopyTensorRequest,
    ) -> Result<Response<pb::CopyTensorResponse>, ApiError> {
        let device = self.device("device", &request.device)?;
        context.no_cpu_fallback = !request.device.is_empty();
        let ttl = self.ttl("ttl", request.ttl)?;
        let original = self.get(caller, &request.handle)?.kept;
        let quota = self.reserve_one(caller, original.tensor.of().bytes())?;
        let copy = self.write_copy(&original.tensor, device, &context).await?;
        let now = Instant::now();
        let tensor = describe(&self.app.tensors.insert(caller.owner(), copy, Some(&original), quota, ttl, now));
        caller.record_change(&tensor.handle);
        let response = pb::CopyTensorResponse { tensor: Some(tensor.clone()) };
        Ok(self.respond(caller, response, &[tensor]))
    }

    /// A copy of a tensor on a device, without a handle.
    pub(super) async fn copy_to(
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

    pub(super) fn free(&self, caller: &Caller, handles: &[String]) -> Result<(), ApiError> {
        self.app.tensors.free(caller.owner(), handles, Instant::now())?;
        caller.record_change(&named(handles));
        Ok(())
    }

    pub(super) fn list(&self, caller: &Caller) -> Vec<pb::ResidentTensor> {
        let listed = self.app.tensors.list(caller.owner(), Instant::now(), self.app.is_lost());
        listed.iter().map(describe).collect()
    }
}

/// Whether the CPU cannot read an input in place.
pub(super) fn is_on_gpu(input: &TensorInput) -> bool {
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
                let (start, len) = (*at, data.len());
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
pub(super) fn named(handles: &[impl AsRef<str>]) -> String {
    let shown: Vec<_> = handles.iter().take(MAX_AUDITED).map(AsRef::as_ref).collect();
    match handles.len().saturating_sub(MAX_AUDITED) {
        0 => shown.join(","),
        more => format!("{},+{more}", shown.join(",")),
    }
}

/// A type that is sent, within the limits of graphs. `prefix` names the message in errors.
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

/// A tensor, for its owner.
fn describe(listed: &Listed) -> pb::ResidentTensor {
    let (now, of) = (SystemTime::now(), listed.kept.tensor.of());
    let before = |time: Duration| now.checked_sub(time).map(Into::into);
    pb::ResidentTensor {
        handle: listed.handle.clone(),
        dtype: dtype_to_proto(of.dtype).into(),
        shape: of.shape.iter().map(|extent| i64::try_from(*extent).unwrap_or(i64::MAX)).collect(),
        size_bytes: of.bytes() as u64,
        device: listed.kept.tensor.device().to_string(),
        create_time: before(listed.age),
        last_use_time: before(listed.idle),
        expire_time: now.checked_add(listed.left).map(Into::into),
    }
}
