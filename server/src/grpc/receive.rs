//! Receives the messages of a request body, charged to transport memory.
//!
//! Bytes are charged as they arrive, not as they are announced. A large message is received into one buffer, offset so that
//! the data of its largest tensor is aligned, and decoded without a copy. Without the offset the tensor would be aligned
//! only by chance, and computing on it would cost a copy.

use std::{pin::Pin, sync::Arc, time::Duration};

use accelerd_engine::Arrival;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use http_body::Body as HttpBody;
use http_body_util::BodyExt;
use tokio::{
    runtime::Handle,
    time::{Instant, sleep, timeout_at},
};
use tonic::{Status, codegen::StdError};

use super::compression::{DecompressError, Encoding};
use crate::{
    auth::{caller::Caller, quota::BytesInFlight},
    layers::timing,
    status,
    transport::{
        call::{Call, Charge, SMALL_CALL_BYTES, WaitGuard},
        memory::MemoryKind,
    },
};

/// Length of a message's prefix: compression flag and big-endian length.
pub(super) const PREFIX: usize = 5;

/// Alignment of tensor data: a cache line, and the widest vector register.
const ALIGNMENT: usize = 64;

/// Tensor data that starts after this many bytes of a message is not aligned.
const MAX_TENSOR_OFFSET: usize = 4 << 20;

/// The buffer for the whole message is allocated once one eighth of it has arrived, so that an announced length alone
/// allocates nothing.
const ALLOCATE_AFTER: usize = 8;

/// Time that a request that is being received counts as queued: a client that sends slowly takes nobody's place.
const MAX_ARRIVAL: Duration = Duration::from_millis(100);

/// Time that a message of a stream waits for its principal's quota of bytes in flight.
const QUOTA_TIMEOUT: Duration = Duration::from_secs(5);
const QUOTA_RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// Compressed messages above this size, or above [`SMALL_CALL_BYTES`] once decompressed, are decompressed off the reactor.
const MAX_INLINE_COMPRESSED: usize = 4 << 10;

/// A message and its charge.
#[derive(Debug)]
pub(super) struct Received {
    /// Of a message that was screened.
    pub(super) arrival: Option<Arrival>,
    pub(super) message: Bytes,
    pub(super) charge: MessageCharge,
}

/// Resources of a message until it is handled: transport memory, and bytes of its principal's quota.
#[derive(Debug)]
pub(super) struct MessageCharge {
    memory: Charge,
    _quota: Option<BytesInFlight>,
}

impl MessageCharge {
    /// Charges more memory.
    pub(super) fn grow(&mut self, bytes: u64) -> Result<(), Status> {
        Ok(self.memory.grow(bytes)?)
    }
}

/// The number of request messages of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cardinality {
    /// One; the stall timeout applies from the start.
    Unary,
    /// Any number; the client may pause between them, and gets backpressure while memory is exhausted.
    Stream,
}

/// Decides by the length of a message whether it is received.
pub(super) type Screen = Box<dyn FnOnce(u64) -> Result<Arrival, Status> + Send>;

/// Receives messages.
pub(super) struct Receiver<B> {
    body: Pin<Box<B>>,
    screen: Option<Screen>,
    pub(super) call: Arc<Call>,
    caller: Caller,
    cardinality: Cardinality,
    encoding: Option<Encoding>,
    limit: usize,
    offload: Handle,
    /// True if the first message has been received, which the caller's rate admitted with the call.
    has_first: bool,
    /// Received data that is not consumed.
    rest: Bytes,
    /// True if a message is being received, so that the stall timeout applies.
    receiving: bool,
    waiting: Option<WaitGuard>,
}

impl<B> Receiver<B>
where
    B: HttpBody<Data = Bytes, Error: Into<StdError>>,
{
    pub(super) fn new(
        body: B,
        call: Arc<Call>,
        caller: Caller,
        cardinality: Cardinality,
        encoding: Option<Encoding>,
        limit: usize,
        offload: Handle,
    ) -> Self {
        let receiving = cardinality == Cardinality::Unary;
        Self {
            body: Box::pin(body),
            screen: None,
            call,
            caller,
            cardinality,
            encoding,
            limit,
            offload,
            has_first: false,
            rest: Bytes::new(),
            receiving,
            waiting: None,
        }
    }

    /// Has the screen decide about the first message, unless it has arrived as a whole.
    pub(super) fn with_screen(mut self, screen: Option<Screen>) -> Self {
        self.screen = screen;
        self
    }

    /// The message of a unary call.
    pub(super) async fn unary(mut self) -> Result<Received, Status> {
        let received = self.message().await?.ok_or_else(truncated)?;
        if !self.rest.is_empty() || self.data().await?.is_some() {
            return Err(status::malformed_message("expected one message, got more"));
        }
        Ok(received)
    }

    /// The next message of a stream.
    pub(super) async fn next(&mut self) -> Result<Option<Received>, Status> {
        let received = self.message().await;
        self.receiving = false;
        self.waiting = None;
        received
    }

    async fn message(&mut self) -> Result<Option<Received>, Status> {
        if self.rest.is_empty() {
            let Some(data) = self.data().await? else { return Ok(None) };
            self.rest = data;
        }
        self.receiving = true;
        let (compressed, length) = self.prefix().await?;
        let screen = self.screen.take().filter(|_| length > self.rest.len());
        let arrival = screen.map(|screen| screen(length as u64)).transpose();
        let mut arrival = arrival.inspect_err(|_| self.call.refuse_message())?;
        let counts_until = Instant::now() + MAX_ARRIVAL;
        let quota = self.admit(length as u64).await?;
        self.call.expect_message(length as u64);
        let mut charge = self.call.charge(MemoryKind::Request);
        let mut buffer = Buffer::new(length);
        loop {
            let part = self.rest.split_to(self.rest.len().min(length - buffer.len()));
            self.charge(&mut charge, part.len() as u64).await?;
            buffer.extend(&part);
            if buffer.len() == length {
                break;
            }
            self.rest = self.data_of(&mut arrival, counts_until).await?.ok_or_else(truncated)?;
        }
        let charge = MessageCharge { memory: charge, _quota: quota };
        let received = Received { arrival, message: buffer.freeze(), charge };
        Ok(Some(if compressed { self.decompress(received).await? } else { received }))
    }

    /// Returns true if the next message is compressed, and its length.
    async fn prefix(&mut self) -> Result<(bool, usize), Status> {
        let mut prefix = [0; PREFIX];
        for byte in &mut prefix {
            while self.rest.is_empty() {
                self.rest = self.data().await?.ok_or_else(truncated)?;
            }
            *byte = self.rest.get_u8();
        }
        let [flag, length @ ..] = prefix;
        let length = u32::from_be_bytes(length) as usize;
        if length > self.limit {
            return Err(status::message_too_large(length as u64, self.limit as u64));
        }
        match flag {
            0 => Ok((false, length)),
            1 if self.encoding.is_some() => Ok((true, length)),
            1 => Err(status::malformed_message("it is compressed, but the call has no grpc-encoding")),
            _ => Err(status::malformed_message(&format!("expected a compression flag of 0 or 1, got {flag}"))),
        }
    }

    /// Takes the message's share of the caller's quotas. A stream waits for them, as it does for memory.
    async fn admit(&mut self, bytes: u64) -> Result<Option<BytesInFlight>, Status> {
        let is_stream = self.cardinality == Cardinality::Stream;
        if is_stream && std::mem::replace(&mut self.has_first, true) {
            while let Err(wait) = self.caller.take_request() {
                // The stall timeout does not apply: the client is not the one waited for.
                self.waiting = None;
                sleep(wait.retry_after().unwrap_or(QUOTA_RETRY_INTERVAL)).await;
            }
        }
        let last_attempt = Instant::now() + QUOTA_TIMEOUT;
        loop {
            let refusal = match self.caller.reserve_bytes(bytes) {
                Ok(reserved) => return Ok(reserved),
                Err(refusal) => refusal,
            };
            if !is_stream || refusal.retry_after().is_none() || Instant::now() >= last_attempt {
                return Err(status::refused(&self.caller.refuse(refusal)));
            }
            self.waiting = None;
            sleep(QUOTA_RETRY_INTERVAL).await;
        }
    }

    async fn charge(&mut self, charge: &mut Charge, bytes: u64) -> Result<(), Status> {
        let charged = charge.grow(bytes);
        if charged.is_ok() || self.cardinality == Cardinality::Unary {
            return Ok(charged?);
        }
        // The stall timeout does not apply: the client is not the one waited for.
        self.waiting = None;
        Ok(charge.grow_or_wait(bytes).await?)
    }

    /// The next data frame; trailers are ignored.
    async fn data(&mut self) -> Result<Option<Bytes>, Status> {
        if self.receiving && self.waiting.is_none() {
            self.waiting = Some(self.call.wait_for_request());
        }
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|error| Status::from_error(error.into()))?;
            match frame.into_data() {
                Ok(data) if data.is_empty() => {}
                Ok(data) => {
                    self.call.record_received(data.len());
                    return Ok(Some(data));
                }
                Err(_trailers) => return Ok(None),
            }
        }
        Ok(None)
    }

    /// As [`Self::data`], for a request whose arrival counts until then.
    async fn data_of(&mut self, arrival: &mut Option<Arrival>, counts_until: Instant) -> Result<Option<Bytes>, Status> {
        if arrival.is_some() {
            match timeout_at(counts_until, self.data()).await {
                Ok(data) => return data,
                Err(_elapsed) => *arrival = None,
            }
        }
        self.data().await
    }

    async fn decompress(&mut self, received: Received) -> Result<Received, Status> {
        let Some(encoding) = self.encoding else { return Ok(received) };
        self.waiting = None;
        let limit = self.limit;
        if received.message.len() <= MAX_INLINE_COMPRESSED {
            let mut charge = self.call.charge(MemoryKind::Request);
            let small = usize::try_from(SMALL_CALL_BYTES).unwrap_or(limit).min(limit);
            match encoding.decompress(&received.message, small, &mut charge) {
                Ok(message) => {
                    let charge = MessageCharge { memory: charge, ..received.charge };
                    return Ok(Received { message: message.into(), charge, ..received });
                }
                Err(DecompressError::TooLarge) if small < limit => {}
                Err(error) => return Err(decompress_status(error, small)),
            }
        }
        let mut charge = self.call.charge(MemoryKind::Request);
        let work = async move {
            let out = encoding.decompress(&received.message, limit, &mut charge);
            let message = out.map_err(|error| decompress_status(error, limit))?;
            let charge = MessageCharge { memory: charge, ..received.charge };
            Ok(Received { message: message.into(), charge, ..received })
        };
        timing::spawn_on(&self.offload, work).await
    }
}

fn decompress_status(error: DecompressError, limit: usize) -> Status {
    match error {
        DecompressError::TooLarge => status::message_too_large(limit as u64 + 1, limit as u64),
        DecompressError::Malformed(error) => status::malformed_message(&format!("it cannot be decompressed: {error}")),
        DecompressError::Memory(refusal) => refusal.into(),
    }
}

fn truncated() -> Status {
    status::malformed_message("the body ended within it")
}

/// A partly received message, after padding that aligns its tensor data.
struct Buffer {
    data: BytesMut,
    padding: usize,
    length: usize,
    /// True if the whole message has room.
    is_allocated: bool,
    /// True if the tensor data has been found, or is no longer looked for.
    is_aligned: bool,
}

impl Buffer {
    fn new(length: usize) -> Self {
        let is_small = length as u64 <= SMALL_CALL_BYTES;
        let data = if is_small { BytesMut::with_capacity(length) } else { BytesMut::new() };
        Self { data, padding: 0, length, is_allocated: is_small, is_aligned: is_small }
    }

    fn len(&self) -> usize {
        self.data.len() - self.padding
    }

    fn extend(&mut self, part: &[u8]) {
        self.data.extend_from_slice(part);
        if self.is_aligned || self.len() < self.length / ALLOCATE_AFTER {
            return;
        }
        let offset = tensor_offset(&self.data[self.padding..], self.length);
        self.is_aligned = offset.is_some() || self.len() >= MAX_TENSOR_OFFSET.min(self.length);
        if offset.is_some() || !self.is_allocated {
            self.allocate(offset.unwrap_or(0));
        }
    }

    /// Moves to a buffer for the whole message in which the byte at `offset` is aligned.
    fn allocate(&mut self, offset: usize) {
        let mut data = BytesMut::with_capacity(self.length + ALIGNMENT);
        let misaligned = (data.as_ptr().addr() + offset) % ALIGNMENT;
        let padding = (ALIGNMENT - misaligned) % ALIGNMENT;
        data.put_bytes(0, padding);
        data.extend_from_slice(&self.data[self.padding..]);
        (self.data, self.padding, self.is_allocated) = (data, padding, true);
    }

    fn freeze(mut self) -> Bytes {
        self.data.advance(self.padding);
        self.data.freeze()
    }
}

/// Offset of the data of the tensor that makes up most of a message, two levels down; `None` if `head` does not reach it.
fn tensor_offset(head: &[u8], length: usize) -> Option<usize> {
    let (tensor, _) = field_beyond_end(head, 0)?;
    let (data, bytes) = field_beyond_end(head, tensor)?;
    (bytes >= length / 2).then_some(data)
}

/// Start and length of the first field after `start` that extends beyond the end of `message`.
fn field_beyond_end(message: &[u8], start: usize) -> Option<(usize, usize)> {
    let mut rest = message.get(start..)?;
    while rest.has_remaining() {
        let tag = prost::encoding::decode_varint(&mut rest).ok()?;
        let skipped = match tag & 7 {
            0 => {
                prost::encoding::decode_varint(&mut rest).ok()?;
                0
            }
            1 => 8,
            2 => usize::try_from(prost::encoding::decode_varint(&mut rest).ok()?).ok()?,
            5 => 4,
            _ => return None,
        };
        if skipped > rest.len() {
            return Some((message.len() - rest.len(), skipped));
        }
        rest.advance(skipped);
    }
    None
}

#[cfg(test)]
mod tests {
    use accelerd_proto::v1 as pb;
    use futures::stream;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use prost::Message;
    use tonic::Code;

    use super::*;
    use crate::{grpc::convert::tensor_of, transport::memory::TransportMemory};

    const LIMIT: usize = 1 << 30;

    fn request(queries: usize, corpus: usize) -> pb::FindSimilarRequest {
        let tensor = |rows: usize| {
            let data: Vec<u8> = (0..=250).cycle().take(rows * 16).collect();
            tensor_of(pb::Dtype::F32, &[rows, 4], data.into())
        };
        pb::FindSimilarRequest {
            queries: Some(tensor(queries)),
            corpus: Some(tensor(corpus)),
            k: 3,
            ..pb::FindSimilarRequest::default()
        }
    }

    fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
        let length = u32::try_from(message.len()).expect("a short message");
        [&[flag], &length.to_be_bytes()[..], message].concat()
    }

    fn encoded(message: &impl Message) -> Vec<u8> {
        framed(0, &message.encode_to_vec())
    }

    fn body(wire: &[u8], frame: usize) -> impl HttpBody<Data = Bytes, Error = Status> {
        let frames: Vec<_> =
            wire.chunks(frame).map(|part| Ok::<_, Status>(Frame::data(Bytes::copy_from_slice(part)))).collect();
        StreamBody::new(stream::iter(frames))
    }

    fn receiver<B: HttpBody<Data = Bytes, Error = Status>>(
        body: B,
        memory: &Arc<TransportMemory>,
        cardinality: Cardinality,
        limit: usize,
    ) -> Receiver<B> {
        let call = Call::new(Arc::clone(memory));
        let nobody = Caller::of(&http::Extensions::new());
        Receiver::new(body, call, nobody, cardinality, Some(Encoding::Gzip), limit, Handle::current())
    }

    async fn received(wire: &[u8], frame: usize, limit: usize) -> Result<Bytes, Status> {
        let receiver = receiver(body(wire, frame), &TransportMemory::new(1 << 31), Cardinality::Unary, limit);
        receiver.unary().await.map(|received| received.message)
    }

    #[tokio::test]
    async fn messages_are_received_from_frames_of_any_size() {
        for message in [request(0, 0), request(1, 1), request(3, 40)] {
            let wire = encoded(&message);
            for frame in 1..=wire.len() {
                let bytes = received(&wire, frame, LIMIT).await.expect("received");
                assert_eq!(pb::FindSimilarRequest::decode(bytes).expect("decoded"), message, "frames of {frame}");
            }
        }
    }

    #[tokio::test]
    async fn the_larger_tensor_is_aligned_without_a_copy() {
        for (queries, corpus) in [(1, 70_000), (2_000, 70_000), (70_000, 1), (30_000, 40_000)] {
            let message = request(queries, corpus);
            let bytes = received(&encoded(&message), 16_384, LIMIT).await.expect("received");
            let decoded = pb::FindSimilarRequest::decode(bytes.clone()).expect("decoded");
            let larger = if queries > corpus { decoded.queries } else { decoded.corpus };
            let data = larger.expect("a tensor").data;
            assert_eq!(data.as_ptr().addr() % ALIGNMENT, 0, "{queries} and {corpus} rows");
            assert!(bytes.as_ptr_range().contains(&data.as_ptr()), "nothing was copied");
        }
    }

    #[tokio::test]
    async fn a_body_that_is_not_one_valid_message_is_refused() {
        let wire = encoded(&request(1, 100));
        let code = async |wire: &[u8], limit| received(wire, 64, limit).await.expect_err("refused").code();
        assert_eq!(code(&wire[..wire.len() - 1], LIMIT).await, Code::InvalidArgument);
        assert_eq!(code(&wire[..3], LIMIT).await, Code::InvalidArgument);
        assert_eq!(code(&[], LIMIT).await, Code::InvalidArgument);
        assert_eq!(code(&[&wire[..], &wire[..]].concat(), LIMIT).await, Code::InvalidArgument);
        assert_eq!(code(&[&[1], &wire[1..]].concat(), LIMIT).await, Code::InvalidArgument);
        assert_eq!(code(&[&[2], &wire[1..]].concat(), LIMIT).await, Code::InvalidArgument);
        assert_eq!(code(&wire, 100).await, Code::ResourceExhausted);
    }

    #[tokio::test]
    async fn bytes_are_charged_as_they_arrive() {
        let memory = TransportMemory::new(64 << 20);
        let wire = framed(0, &vec![7; 1 << 20]);
        let sent = stream::iter([Ok::<_, Status>(Frame::data(Bytes::copy_from_slice(&wire[..1000])))]);
        let body = StreamBody::new(futures::StreamExt::chain(sent, stream::pending()));
        let mut receiving = Box::pin(receiver(body, &memory, Cardinality::Unary, LIMIT).unary());
        assert!(futures::poll!(&mut receiving).is_pending());
        assert_eq!(memory.used(), 1000 - PREFIX as u64);
        drop(receiving);
        assert_eq!(memory.used(), 0);
    }

    #[tokio::test]
    async fn each_message_of_a_stream_is_charged_until_it_is_dropped() {
        let memory = TransportMemory::new(64 << 20);
        let wire = [framed(0, &[1; 300]), framed(0, &[]), framed(0, &[2; 700])].concat();
        for frame in [1, 7, 400, 2000] {
            let mut receiver = receiver(body(&wire, frame), &memory, Cardinality::Stream, LIMIT);
            let mut next = async || receiver.next().await.expect("received");
            let first = next().await.expect("a message");
            assert_eq!(memory.used(), 300, "frames of {frame}");
            assert!(next().await.expect("a message").message.is_empty());
            drop(first);
            let last = next().await.expect("a message");
            assert_eq!((last.message.len(), memory.used()), (700, 700));
            assert!(next().await.is_none());
        }
        assert_eq!(memory.used(), 0);
    }

    #[tokio::test]
    async fn a_stream_stalls_within_a_message_and_not_between_two() {
        let memory = TransportMemory::new(64 << 20);
        let stalled = async |wire: Vec<u8>| {
            let sent = stream::iter([Ok::<_, Status>(Frame::data(Bytes::from(wire)))]);
            let body = StreamBody::new(futures::StreamExt::chain(sent, stream::pending()));
            let mut receiver = receiver(body, &memory, Cardinality::Stream, LIMIT);
            let call = Arc::clone(&receiver.call);
            receiver.next().await.expect("received").expect("a message");
            let mut next = Box::pin(receiver.next());
            assert!(futures::poll!(&mut next).is_pending());
            call.stalled_for().is_some()
        };
        assert!(!stalled(framed(0, &[1; 30])).await, "the client may pause between messages");
        for extra in [1, PREFIX, PREFIX + 3] {
            let wire = [&framed(0, &[1; 30])[..], &framed(0, &[2; 30])[..extra]].concat();
            assert!(stalled(wire).await, "{extra} bytes of a message have arrived");
        }
    }

    #[tokio::test]
    async fn compressed_messages_are_decompressed_up_to_the_limit() {
        for length in [0, 100, 200_000] {
            let message: Vec<u8> = (0..length).map(|at: u32| at.to_le_bytes()[0] ^ at.to_le_bytes()[1]).collect();
            let mut compressed = vec![];
            Encoding::Gzip.compress(&message, &mut compressed).expect("compresses");
            let bytes = received(&framed(1, &compressed), 1000, 200_000).await.expect("received");
            assert!(bytes == message, "{length} bytes");
            if length > 100 {
                let refused = received(&framed(1, &compressed), 1000, 199_999).await.expect_err("too large");
                assert_eq!(refused.code(), Code::ResourceExhausted);
            }
        }
        let mut bomb = vec![];
        Encoding::Gzip.compress(&vec![0; 1 << 20], &mut bomb).expect("compresses");
        assert!(bomb.len() < MAX_INLINE_COMPRESSED, "it looks small");
        let refused = received(&framed(1, &bomb), 1000, 500_000).await.expect_err("too large");
        assert_eq!(refused.code(), Code::ResourceExhausted);
        assert_eq!(received(&framed(1, &bomb), 1000, 1 << 20).await.expect("received").len(), 1 << 20);
    }

    #[test]
    fn arbitrary_bytes_have_no_tensor() {
        for bytes in [&[][..], &[0xff; 40], &[0x0a], &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]] {
            assert_eq!(tensor_offset(bytes, 1 << 20), None, "{bytes:?}");
        }
    }
}
