//! Encoded answers, charged from their encoding until their last byte is sent or dropped.

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

use super::{compression::Encoding, receive::PREFIX, status};
use crate::transport::{
    call::{Call, Charge},
    memory::Kind,
};

/// How answers of one call are encoded.
#[derive(Clone, Debug)]
pub(super) struct Encoder {
    pub(super) call: Arc<Call>,
    pub(super) encoding: Option<Encoding>,
    /// Largest message.
    pub(super) limit: usize,
}

impl Encoder {
    /// Charges an answer of about this length before it is computed.
    pub(super) fn charge(&self, length: usize) -> Result<Charge, Status> {
        self.fit(self.call.charge(Kind::Answer), length)
    }

    /// The same, and waits for memory where there is none.
    pub(super) async fn charge_patiently(&self, length: usize) -> Result<Charge, Status> {
        self.check(length)?;
        let mut charge = self.call.charge(Kind::Answer);
        charge.grow_patiently((length + PREFIX) as u64).await?;
        Ok(charge)
    }

    /// Makes a charge that of an answer of this length.
    pub(super) fn fit(&self, mut charge: Charge, length: usize) -> Result<Charge, Status> {
        self.check(length)?;
        charge.resize((length + PREFIX) as u64)?;
        Ok(charge)
    }

    fn check(&self, length: usize) -> Result<(), Status> {
        if length > self.limit { Err(status::response_too_large(length, self.limit)) } else { Ok(()) }
    }

    /// Encodes a message with its prefix. Its charge, if there is one, becomes that of its bytes.
    pub(super) fn encode<R: Message>(&self, answer: R, charge: Option<Charge>) -> Result<Bytes, Status> {
        let length = answer.encoded_len();
        let charge = self.fit(charge.unwrap_or_else(|| self.call.charge(Kind::Answer)), length)?;
        let mut data = Vec::with_capacity(length + PREFIX);
        put_prefix(&mut data, false, length);
        answer.encode(&mut data).map_err(|error| Status::internal(error.to_string()))?;
        let Some(encoding) = self.encoding else { return Ok(charge.own(data)) };
        drop(answer);
        let mut compressed = vec![0; PREFIX];
        encoding.compress(&data[PREFIX..], &mut compressed)?;
        drop((data, charge));
        compressed.shrink_to_fit();
        let length = compressed.len() - PREFIX;
        put_prefix(&mut &mut compressed[..PREFIX], true, length);
        let mut charge = self.call.charge(Kind::Answer);
        charge.grow(compressed.len() as u64)?;
        Ok(charge.own(compressed))
    }

    /// The headers of an answer.
    fn headers(&self, metadata: MetadataMap) -> HeaderMap {
        let mut headers = metadata.into_headers();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        super::compression::announce(&mut headers);
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
        let (metadata, answer, _) = response.into_parts();
        let data = self.encode(answer, Some(charge))?;
        let mut response = Response::new(Body::new(Whole { data: Some(data), done: false }));
        *response.headers_mut() = self.headers(metadata);
        Ok(response)
    }

    /// The response of a stream whose messages a task encodes.
    pub(super) fn respond_with(&self, answers: mpsc::Receiver<Result<Bytes, Status>>, task: Task) -> Response<Body> {
        let mut response = Response::new(Body::new(Streamed { answers, task, done: false }));
        *response.headers_mut() = self.headers(MetadataMap::new());
        response
    }
}

/// Room for a prefix is taken by this.
fn put_prefix(out: &mut impl BufMut, compressed: bool, length: usize) {
    out.put_u8(compressed.into());
    out.put_u32(u32::try_from(length).expect("a message has at most max_message_bytes, which is below 4 GiB"));
}

/// One message, and an OK.
struct Whole {
    data: Option<Bytes>,
    done: bool,
}

impl HttpBody for Whole {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(data) = self.data.take() {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        if std::mem::replace(&mut self.done, true) {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(trailers(&Status::ok(""))))
    }

    fn is_end_stream(&self) -> bool {
        self.done
    }
}

/// The task that makes the messages of a stream.
pub(super) type Task = AbortOnDropHandle<()>;

/// Messages as they come, and how the stream ended.
struct Streamed {
    answers: mpsc::Receiver<Result<Bytes, Status>>,
    task: Task,
    done: bool,
}

impl HttpBody for Streamed {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.done {
            return Poll::Ready(None);
        }
        let status = match ready!(self.answers.poll_recv(cx)) {
            Some(Ok(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
            Some(Err(status)) => status,
            // The task has ended, or is about to: what it ended with is the status.
            None => match ready!(Pin::new(&mut self.task).poll(cx)) {
                Ok(()) => Status::ok(""),
                Err(error) if error.is_panic() => status::panicked(),
                Err(_ended) => Status::unavailable("the daemon ends"),
            },
        };
        self.done = true;
        Poll::Ready(Some(trailers(&status)))
    }

    fn is_end_stream(&self) -> bool {
        self.done
    }
}

fn trailers(status: &Status) -> Result<Frame<Bytes>, Status> {
    let mut trailers = HeaderMap::new();
    status.add_header(&mut trailers)?;
    Ok(Frame::trailers(trailers))
}

/// A body whose data is charged as it is taken: of services whose answers others encode.
pub(super) struct Charged {
    pub(super) body: Body,
    pub(super) call: Arc<Call>,
}

impl HttpBody for Charged {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)) else { return Poll::Ready(None) };
        Poll::Ready(Some(frame.and_then(|frame| charged(frame, &self.call))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

fn charged(frame: Frame<Bytes>, call: &Arc<Call>) -> Result<Frame<Bytes>, Status> {
    match frame.into_data() {
        Ok(data) => {
            let mut charge = call.charge(Kind::Answer);
            charge.grow(data.len() as u64)?;
            Ok(Frame::data(charge.own(data.into())))
        }
        Err(frame) => Ok(frame),
    }
}
