//! Encodes responses and charges them until their last byte is sent or dropped.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{BufMut, Bytes};
use http::{HeaderMap, HeaderValue, Response, header::CONTENT_TYPE};
use http_body::{Body as HttpBody, Frame};
use prost::Message;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use tonic::{Status, body::Body, metadata::MetadataMap};

use super::{compression::Encoding, delivery::Delivery, receive::PREFIX};
use crate::{
    status,
    transport::{
        call::{Call, Charge},
        memory::MemoryKind,
    },
};

/// Encodes the responses of one call.
#[derive(Clone, Debug)]
pub(super) struct Encoder {
    pub(super) call: Arc<Call>,
    pub(super) encoding: Option<Encoding>,
    /// Maximum message size in bytes.
    pub(super) limit: usize,
}

impl Encoder {
    /// Charges a response of about `length` bytes before it is computed.
    pub(super) fn charge(&self, length: usize) -> Result<Charge, Status> {
        self.resize(self.call.charge(MemoryKind::Response), length)
    }

    /// As [`Self::charge`], but waits for memory.
    pub(super) async fn charge_or_wait(&self, length: usize) -> Result<Charge, Status> {
        self.check_size(length)?;
        let mut charge = self.call.charge(MemoryKind::Response);
        charge.grow_or_wait((length + PREFIX) as u64).await?;
        Ok(charge)
    }

    /// Resizes a charge to a response of `length` bytes.
    pub(super) fn resize(&self, mut charge: Charge, length: usize) -> Result<Charge, Status> {
        self.check_size(length)?;
        charge.resize((length + PREFIX) as u64)?;
        Ok(charge)
    }

    fn check_size(&self, length: usize) -> Result<(), Status> {
        if length > self.limit { Err(status::response_too_large(length, self.limit)) } else { Ok(()) }
    }

    /// Encodes a message with its prefix. The bytes own `charge`, resized, or a new charge.
    pub(super) fn encode<R: Message>(&self, response: R, charge: Option<Charge>) -> Result<Bytes, Status> {
        let length = response.encoded_len();
        let charge = self.resize(charge.unwrap_or_else(|| self.call.charge(MemoryKind::Response)), length)?;
        let mut data = Vec::with_capacity(length + PREFIX);
        put_prefix(&mut data, false, length);
        response.encode(&mut data).map_err(|error| Status::internal(error.to_string()))?;
        let Some(encoding) = self.encoding else { return Ok(charge.into_bytes(data)) };
        drop(response);
        let mut compressed = vec![0; PREFIX];
        encoding.compress(&data[PREFIX..], &mut compressed)?;
        drop((data, charge));
        compressed.shrink_to_fit();
        let length = compressed.len() - PREFIX;
        put_prefix(&mut &mut compressed[..PREFIX], true, length);
        let mut charge = self.call.charge(MemoryKind::Response);
        charge.grow(compressed.len() as u64)?;
        Ok(charge.into_bytes(compressed))
    }

    fn headers(&self, metadata: MetadataMap) -> HeaderMap {
        let mut headers = metadata.into_headers();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        super::compression::add_accepted(&mut headers);
        if let Some(encoding) = self.encoding {
            headers.insert("grpc-encoding", encoding.header());
        }
        headers
    }

    /// The response of a unary call.
    pub(super) fn respond<R: Message>(
        &self,
        response: tonic::Response<R>,
        charge: Charge,
    ) -> Result<Response<Body>, Status> {
        let (metadata, message, mut extensions) = response.into_parts();
        let data = self.encode(message, Some(charge))?;
        let body = UnaryBody { data: Some(data), delivery: extensions.remove(), ended: false };
        let mut response = Response::new(Body::new(body));
        *response.headers_mut() = self.headers(metadata);
        Ok(response)
    }

    /// The response of a stream whose messages are encoded by a task.
    pub(super) fn respond_with(&self, messages: mpsc::Receiver<Result<Bytes, Status>>, task: Task) -> Response<Body> {
        let mut response = Response::new(Body::new(StreamBody { messages, task, ended: false }));
        *response.headers_mut() = self.headers(MetadataMap::new());
        response
    }
}

/// Writes the prefix of a message: compression flag and length.
fn put_prefix(out: &mut impl BufMut, compressed: bool, length: usize) {
    out.put_u8(compressed.into());
    out.put_u32(u32::try_from(length).expect("a message has at most max_message_bytes, which is below 4 GiB"));
}

/// One message followed by status OK.
struct UnaryBody {
    data: Option<Bytes>,
    delivery: Option<Delivery>,
    ended: bool,
}

impl HttpBody for UnaryBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(data) = self.data.take() {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        if std::mem::replace(&mut self.ended, true) {
            return Poll::Ready(None);
        }
        // The status is asked for once the peer's window has admitted the message.
        if let Some(delivery) = self.delivery.take() {
            delivery.complete();
        }
        Poll::Ready(Some(trailers(&Status::ok(""))))
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }
}

/// The task that encodes the messages of a stream.
pub(super) type Task = AbortOnDropHandle<()>;

/// The messages of a stream followed by its status.
struct StreamBody {
    messages: mpsc::Receiver<Result<Bytes, Status>>,
    task: Task,
    ended: bool,
}

impl HttpBody for StreamBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let status = match ready!(self.messages.poll_recv(cx)) {
            Some(Ok(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
            Some(Err(status)) => status,
            // The task has ended or is ending; its outcome is the status.
            None => match ready!(Pin::new(&mut self.task).poll(cx)) {
                Ok(()) => Status::ok(""),
                Err(error) if error.is_panic() => status::panicked(),
                Err(_aborted) => Status::unavailable("the daemon is shutting down"),
            },
        };
        self.ended = true;
        Poll::Ready(Some(trailers(&status)))
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }
}

pub(super) fn trailers(status: &Status) -> Result<Frame<Bytes>, Status> {
    let mut trailers = HeaderMap::new();
    status.add_header(&mut trailers)?;
    Ok(Frame::trailers(trailers))
}

/// Charges the data of another body as it is read, for responses that generated servers encode.
pub(super) struct ChargedBody {
    pub(super) body: Body,
    pub(super) call: Arc<Call>,
}

impl HttpBody for ChargedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)) else { return Poll::Ready(None) };
        Poll::Ready(Some(frame.and_then(|frame| charge_frame(frame, &self.call))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

fn charge_frame(frame: Frame<Bytes>, call: &Arc<Call>) -> Result<Frame<Bytes>, Status> {
    match frame.into_data() {
        Ok(data) => {
            let mut charge = call.charge(MemoryKind::Response);
            charge.grow(data.len() as u64)?;
            Ok(Frame::data(charge.into_bytes(data.into())))
        }
        Err(frame) => Ok(frame),
    }
}
