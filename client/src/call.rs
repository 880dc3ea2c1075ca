//! The client and its calls: encode once, retry, and fail at the deadline.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use accelerd_proto::methods::Rpc;
use futures::{Stream, StreamExt};
use prost::Message;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tonic::{
    Code, Request, Response, Status, Streaming,
    client::Grpc,
    codegen::http::uri::PathAndQuery,
    metadata::{Ascii, MetadataValue},
    transport::Channel,
};

use crate::{
    Error, Priority, Result, RetryPolicy,
    codec::Shared,
    error::{Failure, root_cause},
    timing::{self, Timings},
    token,
};

/// Client of one or more daemons. Cheap to clone; clones share connections.
#[derive(Clone, Debug)]
pub struct Client {
    channels: Channels,
    settings: Settings,
}

/// Settings of a client's calls.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) deadline: Duration,
    pub(crate) retry: RetryPolicy,
    pub(crate) max_message_bytes: usize,
    pub(crate) timings: bool,
    pub(crate) priority: Priority,
    /// Value of the `authorization` metadata.
    pub(crate) authorization: Option<MetadataValue<Ascii>>,
}

/// The connections of a client and its clones.
#[derive(Clone, Debug)]
pub(crate) struct Channels {
    all: Arc<[Channel]>,
    next: Arc<AtomicUsize>,
}

impl Channels {
    /// `all` must not be empty.
    pub(crate) fn new(all: Vec<Channel>) -> Self {
        Self { all: all.into(), next: Arc::default() }
    }

    pub(crate) fn next(&self) -> Channel {
        self.all[self.next.fetch_add(1, Ordering::Relaxed) % self.all.len()].clone()
    }
}

/// A response and its server-side timings.
pub(crate) struct Reply<R> {
    pub(crate) message: R,
    pub(crate) timings: Timings,
}

impl Client {
    pub(crate) fn new(channels: Channels, settings: Settings) -> Self {
        Self { channels, settings }
    }

    /// Returns a client with another deadline over the same connections.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.settings.deadline = deadline;
        self
    }

    /// Returns a client whose calls have another priority, over the same connections.
    #[must_use]
    pub fn with_priority(mut self, priority: Priority) -> Self {
        self.settings.priority = priority;
        self
    }

    /// Makes a unary call, with retries until the deadline.
    pub(crate) async fn unary<Q, R>(&self, method: Rpc<Q, R>, message: Q) -> Result<Reply<R>>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let message = Arc::new(message);
        let until = Instant::now() + self.settings.deadline;
        let mut attempts = 0;
        loop {
            attempts += 1;
            match timeout_at(until, self.attempt(&method, message.clone(), until)).await {
                Err(_) => return Err(self.late(attempts)),
                Ok(Ok(response)) => {
                    let timings = Timings::from_metadata(response.metadata());
                    return Ok(Reply { message: response.into_inner(), timings });
                }
                Ok(Err(status)) => self.back_off(&status, method.is_idempotent(), attempts, until).await?,
            }
        }
    }

    /// Waits until the next attempt of a call that failed; an error if there is none.
    async fn back_off(&self, status: &Status, idempotent: bool, attempts: u32, until: Instant) -> Result<()> {
        if is_late(status, until) {
            return Err(self.late(attempts));
        }
        let failure = Failure::of(status, attempts);
        match self.settings.retry.wait(&failure, idempotent, rand::random()) {
            Some(wait) if Instant::now() + wait < until => {
                sleep(wait).await;
                Ok(())
            }
            _ => Err(failure.into()),
        }
    }

    fn late(&self, attempts: u32) -> Error {
        Error::Deadline { deadline: self.settings.deadline, attempts }
    }

    async fn attempt<Q, R>(&self, method: &Rpc<Q, R>, message: Arc<Q>, until: Instant) -> Result<Response<R>, Status>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let mut request = self.request(message);
        request.set_timeout(until.saturating_duration_since(Instant::now()));
        if self.settings.timings {
            request.metadata_mut().insert(timing::REQUEST_KEY, MetadataValue::from_static("1"));
        }
        let mut grpc = self.ready().await?;
        grpc.unary(request, PathAndQuery::from_static(method.path()), Shared::default()).await
    }

    /// Makes a server-streaming call, without deadline or retry.
    pub(crate) async fn server_stream<Q, R>(&self, method: Rpc<Q, R>, message: Q) -> Result<Streaming<R>>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let mut grpc = self.ready().await.map_err(final_error)?;
        let path = PathAndQuery::from_static(method.path());
        let response = grpc.server_streaming(self.request(Arc::new(message)), path, Shared::default()).await;
        response.map(Response::into_inner).map_err(final_error)
    }

    /// Makes a bidirectional streaming call, without deadline or retry.
    pub(crate) async fn bidi_stream<Q, R>(
        &self,
        method: Rpc<Q, R>,
        messages: impl Stream<Item = Q> + Send + 'static,
    ) -> Result<Streaming<R>>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let mut grpc = self.ready().await.map_err(final_error)?;
        let path = PathAndQuery::from_static(method.path());
        let response = grpc.streaming(self.request(messages.map(Arc::new)), path, Shared::default()).await;
        response.map(Response::into_inner).map_err(final_error)
    }

    /// Makes a bidirectional streaming call with a deadline. Until the daemon responds it is retried with the messages that `again`
    /// returns, which is `None` if they cannot be sent again.
    pub(crate) async fn bounded_bidi_stream<Q, R, S>(
        &self,
        method: &Rpc<Q, R>,
        mut messages: S,
        mut again: impl FnMut() -> Option<S>,
    ) -> Result<BoundedStreaming<R>>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
        S: Stream<Item = Q> + Send + 'static,
    {
        let deadline = self.settings.deadline;
        let until = Instant::now() + deadline;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let status = match timeout_at(until, self.open(method, messages, until)).await {
                Err(_) => return Err(self.late(attempts)),
                Ok(Ok(responses)) => return Ok(BoundedStreaming { responses, deadline, until }),
                Ok(Err(status)) => status,
            };
            messages = match again() {
                Some(messages) => messages,
                None if is_late(&status, until) => return Err(self.late(attempts)),
                None => return Err(Failure::of(&status, attempts).into()),
            };
            self.back_off(&status, method.is_idempotent(), attempts, until).await?;
        }
    }

    async fn open<Q, R>(
        &self,
        method: &Rpc<Q, R>,
        messages: impl Stream<Item = Q> + Send + 'static,
        until: Instant,
    ) -> Result<Streaming<R>, Status>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let mut request = self.request(messages.map(Arc::new));
        request.set_timeout(until.saturating_duration_since(Instant::now()));
        let mut grpc = self.ready().await?;
        let response = grpc.streaming(request, PathAndQuery::from_static(method.path()), Shared::default()).await;
        response.map(Response::into_inner)
    }

    /// Bounds a call without a deadline of its own, such as a stream, by the client's.
    pub(crate) async fn within_deadline<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        let deadline = self.settings.deadline;
        timeout(deadline, call).await.unwrap_or(Err(Error::Deadline { deadline, attempts: 1 }))
    }

    /// A request with the metadata of all calls.
    fn request<M>(&self, message: M) -> Request<M> {
        let mut request = Request::new(message);
        self.settings.priority.insert(request.metadata_mut());
        if let Some(value) = &self.settings.authorization {
            request.metadata_mut().insert(token::KEY, value.clone());
        }
        request
    }

    async fn ready(&self) -> Result<Grpc<Channel>, Status> {
        let mut grpc = Grpc::new(self.channels.next())
            .max_decoding_message_size(self.settings.max_message_bytes)
            .max_encoding_message_size(self.settings.max_message_bytes);
        grpc.ready().await.map_err(|error| Status::unavailable(format!("no connection: {}", root_cause(&error))))?;
        Ok(grpc)
    }
}

/// Responses of a call with a deadline.
#[derive(Debug)]
pub(crate) struct BoundedStreaming<R> {
    responses: Streaming<R>,
    deadline: Duration,
    until: Instant,
}

impl<R> BoundedStreaming<R> {
    /// The next response; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<R>> {
        let late = || Error::Deadline { deadline: self.deadline, attempts: 1 };
        match timeout_at(self.until, self.responses.message()).await {
            Err(_) => Err(late()),
            Ok(Err(status)) if is_late(&status, self.until) => Err(late()),
            Ok(response) => response.map_err(final_error),
        }
    }
}

/// Returns true if a call failed because of its deadline.
fn is_late(status: &Status, until: Instant) -> bool {
    // The transport's own timer reports CANCELLED.
    status.code() == Code::DeadlineExceeded || (status.code() == Code::Cancelled && Instant::now() >= until)
}

/// The error of a status that is not retried.
#[allow(clippy::needless_pass_by_value, reason = "the signature that map_err needs")]
pub(crate) fn final_error(status: Status) -> Error {
    Failure::of(&status, 1).into()
}
