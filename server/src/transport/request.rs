//! A request body read directly from its HTTP/2 stream.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use h2::{Reason, RecvStream};
use http_body::{Body as HttpBody, Frame};
use tonic::Status;

/// A request body. Reading releases flow-control capacity; unread bytes stay within the stream's window.
#[derive(Debug)]
pub(crate) struct RequestBody {
    stream: RecvStream,
    data_ended: bool,
}

impl RequestBody {
    pub(crate) fn new(stream: RecvStream) -> Self {
        Self { stream, data_ended: false }
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if !self.data_ended {
            match ready!(self.stream.poll_data(cx)) {
                Some(Ok(data)) => {
                    // Fails only if the stream is closed, which the next poll reports.
                    let _closed = self.stream.flow_control().release_capacity(data.len());
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Some(Err(error)) => return Poll::Ready(stream_error(&error)),
                None => self.data_ended = true,
            }
        }
        match ready!(self.stream.poll_trailers(cx)) {
            Ok(trailers) => Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers)))),
            Err(error) => Poll::Ready(stream_error(&error)),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }
}

/// A reset with NO_ERROR ends the body normally.
fn stream_error(error: &h2::Error) -> Option<Result<Frame<Bytes>, Status>> {
    match error.reason() {
        Some(Reason::NO_ERROR) => None,
        Some(Reason::CANCEL) => Some(Err(Status::cancelled("the client cancelled the call"))),
        _ => Some(Err(Status::unavailable(format!("the connection failed: {error}")))),
    }
}
