//! Calls of the gRPC services in this process: frames of requests and responses.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use tonic::{Status, body::Body};

/// Length of a message's prefix: compression flag and big-endian length.
const PREFIX: usize = 5;

/// The body of a request with one message.
pub(crate) fn request_body(message: &impl prost::Message) -> Result<Body, Status> {
    requests_body(std::slice::from_ref(message))
}

/// The body of a request with a stream of messages.
pub(crate) fn requests_body(messages: &[impl prost::Message]) -> Result<Body, Status> {
    let lengths = messages.iter().map(|message| PREFIX + message.encoded_len());
    let mut frames = BytesMut::with_capacity(lengths.sum());
    for message in messages {
        let prefix = u32::try_from(message.encoded_len());
        frames.put_u8(0);
        frames.put_u32(prefix.map_err(|_| Status::invalid_argument("the request exceeds 4 GiB"))?);
        message.encode(&mut frames).map_err(|error| Status::internal(error.to_string()))?;
    }
    Ok(Body::new(Full::new(frames.freeze())))
}

/// The messages of a response. A message that arrives in one piece is not copied, and keeps the charge of its memory.
#[derive(Debug)]
pub(crate) struct Replies {
    body: Body,
    /// Data that is not consumed.
    rest: Pieces,
}

impl Replies {
    /// The messages of a response; its status if it has one already.
    pub(crate) fn new(response: http::Response<Body>) -> Result<Self, Status> {
        let (head, body) = response.into_parts();
        match Status::from_header_map(&head.headers) {
            Some(status) if status.code() != tonic::Code::Ok => Err(status),
            _ => Ok(Self { body, rest: Pieces::default() }),
        }
    }

    /// The only message of a unary call.
    pub(crate) async fn only(mut self) -> Result<Bytes, Status> {
        let message = self.next().await?.ok_or_else(|| Status::internal("the call has no response"))?;
        // The status follows the message.
        match self.next().await? {
            None => Ok(message),
            Some(_) => Err(Status::internal("expected one response, got more")),
        }
    }

    /// The next message; `None` after the last if the call succeeded.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        loop {
            if let Some(message) = self.rest.message() {
                return Ok(Some(message));
            }
            let Some(frame) = self.body.frame().await else {
                return Err(Status::internal("the response ended without a status"));
            };
            match frame?.into_data() {
                Ok(data) => self.rest.push(data),
                Err(frame) => {
                    let trailers = frame.into_trailers().unwrap_or_default();
                    let status = Status::from_header_map(&trailers);
                    return match status.unwrap_or_else(|| Status::internal("the response has no status")) {
                        status if status.code() == tonic::Code::Ok => Ok(None),
                        status => Err(status),
                    };
                }
            }
        }
    }
}

/// Consecutive pieces of data.
#[derive(Debug, Default)]
struct Pieces {
    pieces: std::collections::VecDeque<Bytes>,
    length: usize,
}

impl Pieces {
    fn push(&mut self, piece: Bytes) {
        self.length += piece.len();
        self.pieces.push_back(piece);
    }

    /// Removes a message with its prefix, if it has arrived as a whole.
    fn message(&mut self) -> Option<Bytes> {
        let mut prefix = self.pieces.iter().flatten().copied();
        let [_flag, length @ ..] = [prefix.next()?, prefix.next()?, prefix.next()?, prefix.next()?, prefix.next()?];
        let length = u32::from_be_bytes(length) as usize;
        if self.length < PREFIX + length {
            return None;
        }
        self.take(PREFIX);
        Some(self.take(length))
    }

    /// Removes the first bytes, of which there are enough.
    fn take(&mut self, length: usize) -> Bytes {
        self.length -= length;
        while self.pieces.front().is_some_and(Bytes::is_empty) {
            self.pieces.pop_front();
        }
        if let Some(first) = self.pieces.front_mut().filter(|first| first.len() >= length) {
            return first.split_to(length);
        }
        let mut taken = BytesMut::with_capacity(length);
        while taken.len() < length {
            let first = self.pieces.front_mut().expect("there are enough bytes");
            let part = first.split_to(first.len().min(length - taken.len()));
            taken.put(part);
            if !first.has_remaining() {
                self.pieces.pop_front();
            }
        }
        taken.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_wherever_their_data_is_split() {
        let wire = [&[0, 0, 0, 0, 3][..], b"abc", &[0, 0, 0, 0, 0], &[0, 0, 0, 0, 1], b"d"].concat();
        for first in 0..=wire.len() {
            for second in first..=wire.len() {
                let mut pieces = Pieces::default();
                let mut messages = vec![];
                for piece in [&wire[..first], &wire[first..second], &wire[second..]] {
                    pieces.push(Bytes::copy_from_slice(piece));
                    messages.extend(std::iter::from_fn(|| pieces.message()));
                }
                assert_eq!(messages, [&b"abc"[..], b"", b"d"], "{first} {second}");
                assert_eq!(pieces.length, 0);
            }
        }
    }

    #[test]
    fn a_message_in_one_piece_is_not_copied() {
        let wire = Bytes::from_static(&[0, 0, 0, 0, 2, 7, 8]);
        let mut pieces = Pieces::default();
        pieces.push(wire.clone());
        assert_eq!(pieces.message().expect("a message").as_ptr(), wire[PREFIX..].as_ptr());
    }
}
