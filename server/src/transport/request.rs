//! The body of a request, straight from its HTTP/2 stream.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use h2::{Reason, RecvStream};
use http_body::{Body as HttpBody, Frame};
use tonic::Status;

/// A request's body. What was read may be sent again by the caller; what is not read stays within the stream's window.
#[derive(Debug)]
pub(crate) struct RequestBody {
    stream: RecvStream,
    data_done: bool,
}

impl RequestBody {
    pub(crate) fn new(stream: RecvStream) -> Self {
        Self { stream, data_done: false }
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if !self.data_done {
            match ready!(self.stream.poll_data(cx)) {
                Some(Ok(data)) => {
                    // Fails only where the stream is gone, which the next poll reports.
                    let _gone = self.stream.flow_control().release_capacity(data.len());
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Some(Err(error)) => return Poll::Ready(ended(&error)),
                None => self.data_done = true,
            }
        }
        match ready!(self.stream.poll_trailers(cx)) {
            Ok(trailers) => Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers)))),
            Err(error) => Poll::Ready(ended(&error)),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }
}

/// A reset without an error only says that the caller wants no more.
fn ended(error: &h2::Error) -> Option<Result<Frame<Bytes>, Status>> {
    match error.reason() {
        Some(Reason::NO_ERROR) => None,
        Some(Reason::CANCEL) => Some(Err(Status::cancelled("the caller cancelled the call"))),
        _ => Some(Err(Status::unavailable(format!("the connection failed: {error}")))),
    }
}
