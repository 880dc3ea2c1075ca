//! Bounds the memory of request messages while they are received, decoded and waited for.
//!
//! The engine admits work; this admits bytes before that, since a limit on one message bounds nothing when it is
//! multiplied by calls and connections. Each message's length is known from its five-byte prefix.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use http::Request;
use http_body::{Body as HttpBody, Frame, SizeHint};
use pin_project_lite::pin_project;
use tonic::Status;
use tower::{Layer, Service};

use crate::grpc::status;

/// A message is taken to grow to this many times its size when it is decompressed. More is cut off at the message
/// limit while it is decoded, which happens on one message at a time in each reactor.
const INFLATION: u64 = 16;

/// The bytes that request messages may hold.
#[derive(Debug)]
pub struct Budget {
    held: AtomicU64,
    limit: u64,
    max_message: u64,
    refused: AtomicU64,
}

impl Budget {
    /// A budget of `limit` bytes, and of `max_message` for each message.
    pub fn new(limit: u64, max_message: u64) -> Arc<Self> {
        Arc::new(Self { held: AtomicU64::new(0), limit, max_message, refused: AtomicU64::new(0) })
    }

    /// Held now.
    pub fn held(&self) -> u64 {
        self.held.load(Relaxed)
    }

    /// Messages refused since the start.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    fn take(&self, asked: u64) -> Result<(), Status> {
        let held = self.held.fetch_add(asked, Relaxed);
        if held + asked <= self.limit {
            return Ok(());
        }
        self.held.fetch_sub(asked, Relaxed);
        self.refused.fetch_add(1, Relaxed);
        Err(status::message_memory_full(asked, held, self.limit))
    }
}

/// What one call holds of the budget. Its body and its response share it, since a message is needed until the later
/// of the two is done.
#[derive(Debug)]
struct Hold {
    budget: Arc<Budget>,
    bytes: AtomicU64,
}

impl Hold {
    /// Lets go of the last message and holds the next.
    fn next(&self, length: u64, compressed: bool) -> Result<(), Status> {
        if length > self.budget.max_message {
            self.budget.refused.fetch_add(1, Relaxed);
            return Err(status::message_too_large(length, self.budget.max_message));
        }
        let asked = if compressed { (length * INFLATION).min(self.budget.max_message) } else { length };
        self.release();
        self.budget.take(asked)?;
        self.bytes.store(asked, Relaxed);
        Ok(())
    }

    fn release(&self) {
        self.budget.held.fetch_sub(self.bytes.swap(0, Relaxed), Relaxed);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.release();
    }
}

/// Admits request messages by their bytes.
#[derive(Clone, Debug)]
pub struct AdmissionLayer(pub Arc<Budget>);

/// See [`AdmissionLayer`].
#[derive(Clone, Debug)]
pub struct AdmissionService<S> {
    inner: S,
    budget: Arc<Budget>,
}

impl<S> Layer<S> for AdmissionLayer {
    type Service = AdmissionService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        AdmissionService { inner, budget: Arc::clone(&self.0) }
    }
}

impl<S, B> Service<Request<B>> for AdmissionService<S>
where
    S: Service<Request<Admitted<B>>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = AdmissionFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let hold = Arc::new(Hold { budget: Arc::clone(&self.budget), bytes: AtomicU64::new(0) });
        let request = request.map(|inner| Admitted { inner, hold: Arc::clone(&hold), at: Position::default() });
        AdmissionFuture { inner: self.inner.call(request), hold }
    }
}

pin_project! {
    /// A call that holds some of the budget.
    #[derive(Debug)]
    pub struct AdmissionFuture<F> {
        #[pin]
        inner: F,
        hold: Arc<Hold>,
    }
}

impl<F: Future> Future for AdmissionFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.project().inner.poll(cx)
    }
}

/// Where in a message the body is.
#[derive(Debug, Default)]
struct Position {
    /// The prefix, as far as it has come: a compression flag and the length, big-endian.
    prefix: [u8; 5],
    prefix_len: usize,
    /// Bytes of the message still to come.
    rest: u64,
}

impl Position {
    /// Goes past `data`, holding each message that begins in it.
    fn advance(&mut self, mut data: &[u8], hold: &Hold) -> Result<(), Status> {
        while !data.is_empty() {
            if self.rest > 0 {
                let step = usize::try_from(self.rest).unwrap_or(usize::MAX).min(data.len());
                data.advance(step);
                self.rest -= step as u64;
                continue;
            }
            self.prefix[self.prefix_len] = data.get_u8();
            self.prefix_len += 1;
            if self.prefix_len == self.prefix.len() {
                self.prefix_len = 0;
                let [flag, length @ ..] = self.prefix;
                self.rest = u32::from_be_bytes(length).into();
                hold.next(self.rest, flag == 1)?;
            }
        }
        Ok(())
    }
}

pin_project! {
    /// A request body whose messages are admitted one by one.
    #[derive(Debug)]
    pub struct Admitted<B> {
        #[pin]
        inner: B,
        hold: Arc<Hold>,
        at: Position,
    }
}

impl<B> HttpBody for Admitted<B>
where
    B: HttpBody<Data = Bytes, Error: Into<tonic::codegen::StdError>>,
{
    type Data = Bytes;
    type Error = tonic::codegen::StdError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.project();
        let Some(frame) = ready!(this.inner.poll_frame(cx)) else { return Poll::Ready(None) };
        let frame = frame.map_err(Into::into)?;
        if let Some(data) = frame.data_ref() {
            this.at.advance(data, this.hold)?;
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    fn message(flag: u8, length: u32) -> Vec<u8> {
        let mut bytes = vec![flag];
        bytes.extend(length.to_be_bytes());
        bytes.resize(5 + length as usize, 7);
        bytes
    }

    fn hold(budget: &Arc<Budget>) -> Hold {
        Hold { budget: Arc::clone(budget), bytes: AtomicU64::new(0) }
    }

    #[test]
    fn each_message_of_a_stream_replaces_the_one_before_however_it_is_cut() {
        let stream = [message(0, 3), message(0, 0), message(0, 8)].concat();
        for cut in 1..stream.len() {
            let budget = Budget::new(10, 10);
            let (hold, mut at) = (hold(&budget), Position::default());
            for part in stream.chunks(cut) {
                at.advance(part, &hold).expect("within the budget");
            }
            assert_eq!(budget.held(), 8, "cut {cut}");
            drop(hold);
            assert_eq!(budget.held(), 0, "cut {cut}");
        }
    }

    #[test]
    fn a_prefix_alone_takes_what_it_announces() {
        let budget = Budget::new(100, 60);
        let holds = [hold(&budget), hold(&budget)];
        let prefix = &message(0, 60)[..5];
        Position::default().advance(prefix, &holds[0]).expect("within the budget");
        let refused = Position::default().advance(prefix, &holds[1]).expect_err("over the budget");
        assert_eq!(refused.code(), Code::ResourceExhausted);
        assert_eq!((budget.held(), budget.refused()), (60, 1));
    }

    #[test]
    fn a_message_over_the_limit_is_refused_before_it_comes() {
        let budget = Budget::new(1000, 10);
        let refused = Position::default().advance(&message(0, 11)[..5], &hold(&budget)).expect_err("over the limit");
        assert!(refused.message().contains("expected at most 10"), "{refused}");
    }

    #[test]
    fn a_compressed_message_takes_what_it_may_grow_to() {
        let budget = Budget::new(1000, 100);
        let hold = hold(&budget);
        Position::default().advance(&message(1, 2), &hold).expect("within the budget");
        assert_eq!(budget.held(), 32);
        Position::default().advance(&message(1, 20), &hold).expect("within the budget");
        assert_eq!(budget.held(), 100);
    }
}
