//! The messages of a request body, received under the memory of the transport.
//!
//! Bytes are charged as they arrive and not as they are announced. A large message comes into one buffer that is placed so
//! that the numbers of its tensor are aligned in it, and is decoded from there without a copy: at whatever address comes,
//! they are aligned only by chance, and computing on them would then cost a copy of all of them.

use std::{pin::Pin, sync::Arc};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http_body::Body as HttpBody;
use http_body_util::BodyExt;
use tokio::runtime::Handle;
use tonic::{Status, codegen::StdError};

use super::{
    compression::{Decompress, Encoding},
    status,
};
use crate::{
    layers::timing,
    transport::{
        call::{Call, Charge, SMALL, Waiting},
        memory::Kind,
    },
};

/// Bytes before each message: a compression flag and the length, big-endian.
pub(super) const PREFIX: usize = 5;

/// What vector instructions and cache lines like.
const ALIGNMENT: usize = 64;

/// Where the numbers begin must show within this much of a message, or they are taken as they come.
const LONGEST_HEAD: usize = 4 << 20;

/// A buffer for the whole message is made once this share of it has come, so that an announcement alone costs nothing.
const BEGUN: usize = 8;

/// Compressed messages of more bytes are decompressed off the reactor, and so is what grows beyond [`SMALL`].
const INLINE: usize = 4 << 10;

/// A message, and what it holds of the memory of the transport.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) message: Bytes,
    pub(super) charge: Charge,
}

/// Whose messages are received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// One message; the caller is waited for from the start.
    Unary,
    /// Any number of messages; the caller may take its time between them, and is held back while memory is full.
    Stream,
}

/// Receives messages.
pub(super) struct Receiver<B> {
    body: Pin<Box<B>>,
    pub(super) call: Arc<Call>,
    shape: Shape,
    encoding: Option<Encoding>,
    limit: usize,
    offload: Handle,
    /// Data that came and is not taken yet.
    rest: Bytes,
    /// Whether a message has begun, so that the caller is waited for.
    begun: bool,
    waiting: Option<Waiting>,
}

impl<B> Receiver<B>
where
    B: HttpBody<Data = Bytes, Error: Into<StdError>>,
{
    pub(super) fn new(
        body: B,
        call: Arc<Call>,
        shape: Shape,
        encoding: Option<Encoding>,
        limit: usize,
        offload: Handle,
    ) -> Self {
        let begun = shape == Shape::Unary;
        Self { body: Box::pin(body), call, shape, encoding, limit, offload, rest: Bytes::new(), begun, waiting: None }
    }

    /// The one message of a unary call.
    pub(super) async fn only(mut self) -> Result<Received, Status> {
        let received = self.message().await?.ok_or_else(too_short)?;
        if !self.rest.is_empty() || self.data().await?.is_some() {
            return Err(Status::internal("expected one request message, got more"));
        }
        Ok(received)
    }

    /// The next message of a stream.
    pub(super) async fn next(&mut self) -> Result<Option<Received>, Status> {
        let received = self.message().await;
        self.begun = false;
        self.waiting = None;
        received
    }

    async fn message(&mut self) -> Result<Option<Received>, Status> {
        if self.rest.is_empty() {
            let Some(data) = self.data().await? else { return Ok(None) };
            self.rest = data;
        }
        self.begun = true;
        let (compressed, length) = self.prefix().await?;
        self.call.expect_message(length as u64);
        let mut charge = self.call.charge(Kind::Request);
        let mut buffer = Buffer::new(length);
        loop {
            let part = self.rest.split_to(self.rest.len().min(length - buffer.len()));
            self.charge(&mut charge, part.len() as u64).await?;
            buffer.extend(&part);
            if buffer.len() == length {
                break;
            }
            self.rest = self.data().await?.ok_or_else(too_short)?;
        }
        let received = Received { message: buffer.freeze(), charge };
        Ok(Some(if compressed { self.decompress(received).await? } else { received }))
    }

    /// Whether the next message is compressed, and its length.
    async fn prefix(&mut self) -> Result<(bool, usize), Status> {
        let mut prefix = [0; PREFIX];
        for byte in &mut prefix {
            while self.rest.is_empty() {
                self.rest = self.data().await?.ok_or_else(too_short)?;
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
            1 => Err(Status::internal("the message is marked as compressed, and no grpc-encoding is given")),
            _ => Err(Status::internal(format!("expected a compression flag of 0 or 1, got {flag}"))),
        }
    }

    async fn charge(&mut self, charge: &mut Charge, bytes: u64) -> Result<(), Status> {
        let charged = charge.grow(bytes);
        if charged.is_ok() || self.shape == Shape::Unary {
            return charged;
        }
        // It is not the caller who is waited for.
        self.waiting = None;
        charge.grow_patiently(bytes).await
    }

    /// The next data of the body; its trailers say nothing to us.
    async fn data(&mut self) -> Result<Option<Bytes>, Status> {
        if self.begun && self.waiting.is_none() {
            self.waiting = Some(self.call.await_request());
        }
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|error| Status::from_error(error.into()))?;
            match frame.into_data() {
                Ok(data) if data.is_empty() => {}
                Ok(data) => {
                    self.call.received(data.len());
                    return Ok(Some(data));
                }
                Err(_trailers) => return Ok(None),
            }
        }
        Ok(None)
    }

    async fn decompress(&mut self, received: Received) -> Result<Received, Status> {
        let Some(encoding) = self.encoding else { return Ok(received) };
        self.waiting = None;
        let limit = self.limit;
        if received.message.len() <= INLINE {
            let mut charge = self.call.charge(Kind::Request);
            let small = usize::try_from(SMALL).unwrap_or(limit).min(limit);
            match encoding.decompress(&received.message, small, &mut charge) {
                Ok(message) => return Ok(Received { message: message.into(), charge }),
                Err(Decompress::TooLarge) if small < limit => {}
                Err(error) => return Err(refusal(error, small)),
            }
        }
        let mut charge = self.call.charge(Kind::Request);
        let work = async move {
            let out = encoding.decompress(&received.message, limit, &mut charge);
            out.map(|message| Received { message: message.into(), charge }).map_err(|error| refusal(error, limit))
        };
        timing::apart(&self.offload, work).await
    }
}

fn refusal(error: Decompress, limit: usize) -> Status {
    match error {
        Decompress::TooLarge => status::message_too_large(limit as u64 + 1, limit as u64),
        Decompress::Malformed(error) => Status::internal(format!("the message was not decompressed: {error}")),
        Decompress::Full(status) => status,
    }
}

fn too_short() -> Status {
    Status::internal("the request ended before its message did")
}

/// A message as it comes, after some bytes that only place it.
struct Buffer {
    data: BytesMut,
    before: usize,
    length: usize,
    placed: bool,
}

impl Buffer {
    fn new(length: usize) -> Self {
        let small = length as u64 <= SMALL;
        let data = if small { BytesMut::with_capacity(length) } else { BytesMut::new() };
        Self { data, before: 0, length, placed: small }
    }

    fn len(&self) -> usize {
        self.data.len() - self.before
    }

    fn extend(&mut self, part: &[u8]) {
        self.data.extend_from_slice(part);
        if !self.placed && self.len() >= self.length / BEGUN {
            let offset = numbers_at(&self.data, self.length);
            if offset.is_some() || self.len() >= LONGEST_HEAD.min(self.length) {
                self.place(offset.unwrap_or(0));
            }
        }
    }

    /// Moves to a buffer for the whole message, where what is at `offset` is aligned.
    fn place(&mut self, offset: usize) {
        let mut data = BytesMut::with_capacity(self.length + ALIGNMENT);
        let misaligned = (data.as_ptr().addr() + offset) % ALIGNMENT;
        self.before = (ALIGNMENT - misaligned) % ALIGNMENT;
        data.put_bytes(0, self.before);
        data.extend_from_slice(&self.data);
        self.data = data;
        self.placed = true;
    }

    fn freeze(mut self) -> Bytes {
        self.data.advance(self.before);
        self.data.freeze()
    }
}

/// Where the bytes begin that make up most of a message: those of a tensor, two levels down. None as long as that does
/// not show in `head`.
fn numbers_at(head: &[u8], length: usize) -> Option<usize> {
    let (tensor, _) = unfinished(head, 0)?;
    let (data, bytes) = unfinished(head, tensor)?;
    (bytes >= length / 2).then_some(data)
}

/// Start and length of the first field after `at` that goes beyond the end of `message`.
fn unfinished(message: &[u8], at: usize) -> Option<(usize, usize)> {
    let mut rest = message.get(at..)?;
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
    use crate::{grpc::convert::tensor_of, transport::memory::Memory};

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
        memory: &Arc<Memory>,
        shape: Shape,
        limit: usize,
    ) -> Receiver<B> {
        let call = Call::new(Arc::clone(memory), None);
        Receiver::new(body, call, shape, Some(Encoding::Gzip), limit, Handle::current())
    }

    async fn received(wire: &[u8], frame: usize, limit: usize) -> Result<Bytes, Status> {
        let receiver = receiver(body(wire, frame), &Memory::new(1 << 31), Shape::Unary, limit);
        receiver.only().await.map(|received| received.message)
    }

    #[tokio::test]
    async fn messages_arrive_whole_however_they_are_cut() {
        for message in [request(0, 0), request(1, 1), request(3, 40)] {
            let wire = encoded(&message);
            for frame in 1..=wire.len() {
                let bytes = received(&wire, frame, LIMIT).await.expect("received");
                assert_eq!(pb::FindSimilarRequest::decode(bytes).expect("decoded"), message, "frames of {frame}");
            }
        }
    }

    #[tokio::test]
    async fn the_larger_tensor_is_aligned_in_the_buffer_it_came_into() {
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
    async fn what_is_not_one_plain_message_is_refused() {
        let wire = encoded(&request(1, 100));
        let code = async |wire: &[u8], limit| received(wire, 64, limit).await.expect_err("refused").code();
        assert_eq!(code(&wire[..wire.len() - 1], LIMIT).await, Code::Internal);
        assert_eq!(code(&wire[..3], LIMIT).await, Code::Internal);
        assert_eq!(code(&[], LIMIT).await, Code::Internal);
        assert_eq!(code(&[&wire[..], &wire[..]].concat(), LIMIT).await, Code::Internal);
        assert_eq!(code(&[&[1], &wire[1..]].concat(), LIMIT).await, Code::Internal);
        assert_eq!(code(&[&[2], &wire[1..]].concat(), LIMIT).await, Code::Internal);
        assert_eq!(code(&wire, 100).await, Code::ResourceExhausted);
    }

    #[tokio::test]
    async fn bytes_are_charged_as_they_arrive_and_not_as_they_are_announced() {
        let memory = Memory::new(64 << 20);
        let wire = framed(0, &vec![7; 1 << 20]);
        let sent = stream::iter([Ok::<_, Status>(Frame::data(Bytes::copy_from_slice(&wire[..1000])))]);
        let body = StreamBody::new(futures::StreamExt::chain(sent, stream::pending()));
        let mut receiving = Box::pin(receiver(body, &memory, Shape::Unary, LIMIT).only());
        assert!(futures::poll!(&mut receiving).is_pending());
        assert_eq!(memory.held(), 1000 - PREFIX as u64);
        drop(receiving);
        assert_eq!(memory.held(), 0);
    }

    #[tokio::test]
    async fn each_message_of_a_stream_is_charged_until_it_is_dropped() {
        let memory = Memory::new(64 << 20);
        let wire = [framed(0, &[1; 300]), framed(0, &[]), framed(0, &[2; 700])].concat();
        for frame in [1, 7, 400, 2000] {
            let mut receiver = receiver(body(&wire, frame), &memory, Shape::Stream, LIMIT);
            let mut next = async || receiver.next().await.expect("received");
            let first = next().await.expect("a message");
            assert_eq!(memory.held(), 300, "frames of {frame}");
            assert!(next().await.expect("a message").message.is_empty());
            drop(first);
            let last = next().await.expect("a message");
            assert_eq!((last.message.len(), memory.held()), (700, 700));
            assert!(next().await.is_none());
        }
        assert_eq!(memory.held(), 0);
    }

    #[tokio::test]
    async fn a_stream_stalls_within_a_message_and_not_between_two() {
        let memory = Memory::new(64 << 20);
        let stalled = async |wire: Vec<u8>| {
            let sent = stream::iter([Ok::<_, Status>(Frame::data(Bytes::from(wire)))]);
            let body = StreamBody::new(futures::StreamExt::chain(sent, stream::pending()));
            let mut receiver = receiver(body, &memory, Shape::Stream, LIMIT);
            let call = Arc::clone(&receiver.call);
            receiver.next().await.expect("received").expect("a message");
            let mut next = Box::pin(receiver.next());
            assert!(futures::poll!(&mut next).is_pending());
            call.stalled().is_some()
        };
        assert!(!stalled(framed(0, &[1; 30])).await, "the caller may take its time");
        for extra in [1, PREFIX, PREFIX + 3] {
            let wire = [&framed(0, &[1; 30])[..], &framed(0, &[2; 30])[..extra]].concat();
            assert!(stalled(wire).await, "{extra} bytes of a message have come");
        }
    }

    #[tokio::test]
    async fn compressed_messages_come_out_plain_and_bombs_are_refused() {
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
        assert!(bomb.len() < INLINE, "it looks small");
        let refused = received(&framed(1, &bomb), 1000, 500_000).await.expect_err("too large");
        assert_eq!(refused.code(), Code::ResourceExhausted);
        assert_eq!(received(&framed(1, &bomb), 1000, 1 << 20).await.expect("received").len(), 1 << 20);
    }

    #[test]
    fn made_up_bytes_have_no_numbers() {
        for bytes in [&[][..], &[0xff; 40], &[0x0a], &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]] {
            assert_eq!(numbers_at(bytes, 1 << 20), None, "{bytes:?}");
        }
    }
}
