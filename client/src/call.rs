//! The client and how it makes one call: encode once, send until answered, give up at the deadline.

use std::{marker::PhantomData, sync::Arc, time::Duration};

use futures::{Stream, StreamExt};
use prost::Message;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::{
    Code, Request, Response, Status, Streaming, client::Grpc, codegen::http::uri::PathAndQuery,
    metadata::MetadataValue, transport::Channel,
};

use crate::{
    Builder, Error, Result,
    codec::Shared,
    connect::{Channels, Settings},
    error::Failure,
    timing::{self, Timings},
};

/// Connections to one or several daemons. Cheap to clone; clones share connections.
#[derive(Clone, Debug)]
pub struct Client {
    channels: Channels,
    settings: Settings,
}

/// A method of the API and what it takes and gives.
pub(crate) struct Method<Q, R> {
    path: &'static str,
    /// Whether running it twice is the same as running it once.
    repeatable: bool,
    types: PhantomData<(Q, R)>,
}

impl<Q, R> Method<Q, R> {
    /// A method that may run twice.
    pub(crate) const fn repeatable(path: &'static str) -> Self {
        Self { path, repeatable: true, types: PhantomData }
    }

    /// A method that must run at most once.
    pub(crate) const fn once(path: &'static str) -> Self {
        Self { path, repeatable: false, types: PhantomData }
    }
}

/// An answer and where its time went.
pub(crate) struct Reply<R> {
    pub(crate) message: R,
    pub(crate) timings: Timings,
}

impl Client {
    pub(crate) fn new(channels: Channels, settings: Settings) -> Self {
        Self { channels, settings }
    }

    /// Connects to a daemon at `http://host:port` or `unix:///path` with default settings.
    pub async fn connect(url: impl Into<String>) -> Result<Self> {
        Builder::new(url).connect().await
    }

    /// Settings to connect with.
    pub fn builder(url: impl Into<String>) -> Builder {
        Builder::new(url)
    }

    /// The same connections with another deadline.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.settings.deadline = deadline;
        self
    }

    /// Sends one message until it is answered, refused for good, or late.
    pub(crate) async fn unary<Q, R>(&self, method: Method<Q, R>, message: Q) -> Result<Reply<R>>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let message = Arc::new(message);
        let until = Instant::now() + self.settings.deadline;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let late = Error::Deadline { deadline: self.settings.deadline, attempts };
            let status = match timeout_at(until, self.attempt(&method, message.clone(), until)).await {
                Err(_) => return Err(late),
                Ok(Ok(answer)) => {
                    let timings = Timings::from_metadata(answer.metadata());
                    return Ok(Reply { message: answer.into_inner(), timings });
                }
                Ok(Err(status)) => status,
            };
            // The transport has a timer of its own and calls its ring a cancellation.
            let late_here = status.code() == Code::Cancelled && Instant::now() >= until;
            if status.code() == Code::DeadlineExceeded || late_here {
                return Err(late);
            }
            let failure = Failure::of(&status, attempts);
            match self.settings.retry.wait(&failure, method.repeatable, rand::random()) {
                Some(wait) if Instant::now() + wait < until => sleep(wait).await,
                _ => return Err(failure.into()),
            }
        }
    }

    async fn attempt<Q, R>(&self, method: &Method<Q, R>, message: Arc<Q>, until: Instant) -> Result<Response<R>, Status>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let mut request = Request::new(message);
        request.set_timeout(until.saturating_duration_since(Instant::now()));
        if self.settings.timings {
            request.metadata_mut().insert(timing::ASK, MetadataValue::from_static("1"));
        }
        let mut grpc = self.ready().await?;
        grpc.unary(request, PathAndQuery::from_static(method.path), Shared::default()).await
    }

    /// Sends one message and takes many, without deadline or retry.
    pub(crate) async fn server_stream<Q, R>(&self, method: Method<Q, R>, message: Q) -> Result<Streaming<R>>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let mut grpc = self.ready().await.map_err(last)?;
        let path = PathAndQuery::from_static(method.path);
        let answer = grpc.server_streaming(Request::new(Arc::new(message)), path, Shared::default()).await;
        answer.map(Response::into_inner).map_err(last)
    }

    /// Sends many messages and takes many, without deadline or retry.
    pub(crate) async fn both_stream<Q, R>(
        &self,
        method: Method<Q, R>,
        messages: impl Stream<Item = Q> + Send + 'static,
    ) -> Result<Streaming<R>>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let mut grpc = self.ready().await.map_err(last)?;
        let path = PathAndQuery::from_static(method.path);
        let answer = grpc.streaming(Request::new(messages.map(Arc::new)), path, Shared::default()).await;
        answer.map(Response::into_inner).map_err(last)
    }

    async fn ready(&self) -> Result<Grpc<Channel>, Status> {
        let mut grpc = Grpc::new(self.channels.next())
            .max_decoding_message_size(self.settings.max_message_bytes)
            .max_encoding_message_size(self.settings.max_message_bytes);
        grpc.ready().await.map_err(|error| Status::unavailable(format!("no connection: {error}")))?;
        Ok(grpc)
    }
}

/// A status that is not retried.
#[allow(clippy::needless_pass_by_value, reason = "it is what map_err takes")]
pub(crate) fn last(status: Status) -> Error {
    Failure::of(&status, 1).into()
}
