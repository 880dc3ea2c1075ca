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
use tokio::time::{Instant, sleep, timeout_at};
use tonic::{
    Code, ConnectError, Request, Response, Status, Streaming,
    client::Grpc,
    codegen::http::uri::PathAndQuery,
    metadata::{Ascii, MetadataValue},
    transport::Channel,
};

use crate::{
    Error, Priority, Result, RetryPolicy,
    codec::Shared,
    error::{Failure, root_cause},
    retry::Attempts,
    retry_budget::RetryBudget,
    timing::{self, Timings},
    token,
};

/// Deadlines further away than this count as none, as in the daemon.
const MAX_DEADLINE: Duration = Duration::from_secs(366 * 86_400);

/// Client of one or more daemons. Cheap to clone; clones share connections.
#[derive(Clone, Debug)]
pub struct Client {
    channels: Channels,
    settings: Settings,
    retry_budget: RetryBudget,
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
        Self { channels, settings, retry_budget: RetryBudget::default() }
    }

    /// Returns a client with another deadline over the same connections. More than a year means none.
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

    /// Maximum message size that the client sends.
    pub(crate) fn max_message_bytes(&self) -> usize {
        self.settings.max_message_bytes
    }

    /// Makes a unary call, with retries until the deadline.
    pub(crate) async fn unary<Q, R>(&self, method: Rpc<Q, R>, message: Q) -> Result<Reply<R>>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        self.unary_until(method, message, self.until()).await
    }

    /// As [`Self::unary`], with the deadline of a call of several.
    pub(crate) async fn unary_until<Q, R>(
        &self,
        method: Rpc<Q, R>,
        message: Q,
        until: Option<Instant>,
    ) -> Result<Reply<R>>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let message = Arc::new(message);
        let attempt = || self.attempt(&method, message.clone(), until);
        let response = self.retried(method.is_idempotent(), until, attempt).await?;
        let timings = Timings::from_metadata(response.metadata());
        Ok(Reply { message: response.into_inner(), timings })
    }

    /// The attempts of a call.
    pub(crate) fn attempts(&self, is_idempotent: bool, until: Option<Instant>) -> Attempts {
        Attempts::new(self.settings.retry.clone(), self.retry_budget.clone(), is_idempotent, until)
    }

    /// The deadline of a call that begins now.
    pub(crate) fn until(&self) -> Option<Instant> {
        let deadline = self.settings.deadline;
        (deadline <= MAX_DEADLINE).then(|| Instant::now() + deadline)
    }

    /// Waits until the next attempt of a call that failed; an error if there is none.
    pub(crate) async fn back_off(&self, status: &Status, attempts: &mut Attempts) -> Result<()> {
        if is_late(status, attempts.until) {
            return Err(self.late(attempts.failed + 1));
        }
        sleep(attempts.failed(status, Instant::now(), rand::random())?).await;
        Ok(())
    }

    /// An error if the deadline has passed, so that no attempt begins.
    fn in_time(&self, until: Option<Instant>, attempts: u32) -> Result<()> {
        let is_over = until.is_some_and(|until| Instant::now() >= until);
        if is_over { Err(self.late(attempts)) } else { Ok(()) }
    }

    fn late(&self, attempts: u32) -> Error {
        Error::Deadline { deadline: self.settings.deadline, attempts }
    }

    async fn attempt<Q, R>(
        &self,
        method: &Rpc<Q, R>,
        message: Arc<Q>,
        until: Option<Instant>,
    ) -> Result<Response<R>, Status>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let mut request = self.request(message);
        set_timeout(&mut request, until);
        if self.settings.timings {
            request.metadata_mut().insert(timing::REQUEST_KEY, MetadataValue::from_static("1"));
        }
        let mut grpc = self.ready().await?;
        grpc.unary(request, PathAndQuery::from_static(method.path()), Shared::default()).await
    }

    /// Makes a server-streaming call without deadline. It is retried until the daemon responds.
    pub(crate) async fn server_stream<Q, R>(&self, method: Rpc<Q, R>, message: Q) -> Result<Streaming<R>>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let message = Arc::new(message);
        self.retried(method.is_idempotent(), None, || self.open_server_stream(method, message.clone())).await
    }

    async fn open_server_stream<Q, R>(&self, method: Rpc<Q, R>, message: Arc<Q>) -> Result<Streaming<R>, Status>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let mut grpc = self.ready().await?;
        let path = PathAndQuery::from_static(method.path());
        let response = grpc.server_streaming(self.request(message), path, Shared::default()).await;
        response.map(Response::into_inner)
    }

    /// Makes a call with a stream of requests and one response, with retries until the deadline. `messages` returns all requests.
    pub(crate) async fn client_stream<Q, R, S>(&self, method: &Rpc<Q, R>, messages: impl Fn() -> S) -> Result<R>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
        S: Stream<Item = Q> + Send + 'static,
    {
        let until = self.until();
        let attempt = || self.send_all(method, messages(), until);
        let response = self.retried(method.is_idempotent(), until, attempt).await?;
        response.ok_or_else(|| Error::Malformed("a stream of requests without a response".to_owned()))
    }

    async fn send_all<Q, R>(
        &self,
        method: &Rpc<Q, R>,
        messages: impl Stream<Item = Q> + Send + 'static,
        until: Option<Instant>,
    ) -> Result<Option<R>, Status>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        self.open(method, messages.map(Arc::new), until).await?.message().await
    }

    /// Makes attempts until one succeeds.
    async fn retried<T, F>(&self, is_idempotent: bool, until: Option<Instant>, attempt: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let mut attempts = self.attempts(is_idempotent, until);
        loop {
            self.in_time(until, attempts.failed)?;
            match by(until, attempt()).await {
                None => return Err(self.late(attempts.failed + 1)),
                Some(Ok(done)) => return Ok(done),
                Some(Err(status)) => self.back_off(&status, &mut attempts).await?,
            }
        }
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
        let mut attempts = self.attempts(method.is_idempotent(), self.until());
        let until = attempts.until;
        loop {
            self.in_time(until, attempts.failed)?;
            let status = match by(until, self.open(method, messages.map(Arc::new), until)).await {
                None => return Err(self.late(attempts.failed + 1)),
                Some(Ok(responses)) => return Ok(BoundedStreaming { responses, deadline, until }),
                Some(Err(status)) => status,
            };
            messages = match again() {
                Some(messages) => messages,
                None if is_late(&status, until) => return Err(self.late(attempts.failed + 1)),
                None => return Err(Failure::of(&status, attempts.failed + 1).into()),
            };
            self.back_off(&status, &mut attempts).await?;
        }
    }

    pub(crate) async fn open<Q, R>(
        &self,
        method: &Rpc<Q, R>,
        messages: impl Stream<Item = Arc<Q>> + Send + 'static,
        until: Option<Instant>,
    ) -> Result<Streaming<R>, Status>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let mut request = self.request(messages);
        set_timeout(&mut request, until);
        let mut grpc = self.ready().await?;
        let response = grpc.streaming(request, PathAndQuery::from_static(method.path()), Shared::default()).await;
        response.map(Response::into_inner)
    }

    /// Bounds a call without a deadline of its own, such as a stream, by the client's.
    pub(crate) async fn within_deadline<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        let until = self.until();
        self.in_time(until, 0)?;
        by(until, call).await.unwrap_or_else(|| Err(self.late(1)))
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
        grpc.ready().await.map_err(|error| {
            let mut status = Status::unavailable(format!("no connection: {}", root_cause(&error)));
            status.set_source(Arc::new(ConnectError(error.into())));
            status
        })?;
        Ok(grpc)
    }
}

/// Responses of a call with a deadline.
#[derive(Debug)]
pub(crate) struct BoundedStreaming<R> {
    responses: Streaming<R>,
    deadline: Duration,
    until: Option<Instant>,
}

impl<R> BoundedStreaming<R> {
    /// The next response; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<R>> {
        let late = || Error::Deadline { deadline: self.deadline, attempts: 1 };
        match by(self.until, self.responses.message()).await {
            None => Err(late()),
            Some(Err(status)) if is_late(&status, self.until) => Err(late()),
            Some(response) => response.map_err(final_error),
        }
    }
}

/// Returns true if a call failed because of its deadline.
fn is_late(status: &Status, until: Option<Instant>) -> bool {
    let has_passed = until.is_some_and(|until| Instant::now() >= until);
    // The transport's own timer reports CANCELLED.
    status.code() == Code::DeadlineExceeded || (status.code() == Code::Cancelled && has_passed)
}

/// Awaits a call until its deadline; `None` once it has passed.
async fn by<T>(until: Option<Instant>, call: impl Future<Output = T>) -> Option<T> {
    match until {
        Some(until) => timeout_at(until, call).await.ok(),
        None => Some(call.await),
    }
}

fn set_timeout<M>(request: &mut Request<M>, until: Option<Instant>) {
    if let Some(until) = until {
        request.set_timeout(until.saturating_duration_since(Instant::now()));
    }
}

/// The error of a status that is not retried.
#[allow(clippy::needless_pass_by_value, reason = "the signature that map_err needs")]
pub(crate) fn final_error(status: Status) -> Error {
    Failure::of(&status, 1).into()
}

#[cfg(test)]
mod tests {
    use accelerd_test_support::FakeDaemon;

    use super::*;
    use crate::{Builder, CollectionOptions};

    const SECOND: Duration = Duration::from_secs(1);

    /// A client of a daemon that refuses connections at first.
    fn client(fake: &FakeDaemon, away_for: Duration, deadline: Duration) -> Client {
        Builder::new("http://memory").deadline(deadline).over(fake.connect_in_memory(Instant::now() + away_for))
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_waits_for_a_daemon_that_restarts() {
        let fake = FakeDaemon::default();
        let start = Instant::now();
        let client = client(&fake, 30 * SECOND, 60 * SECOND);
        assert_eq!(client.embed(["open a socket"]).await.expect("the daemon comes back").vectors.rows(), 1);
        assert!((30 * SECOND..33 * SECOND).contains(&start.elapsed()), "{:?}", start.elapsed());
        assert_eq!(fake.state().calls, ["Embed"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_without_time_is_not_made() {
        let fake = FakeDaemon::default();
        let error = client(&fake, Duration::ZERO, Duration::ZERO).models().await.expect_err("no time");
        assert_eq!(error.code(), Code::DeadlineExceeded);
        assert_eq!(error.to_string(), "deadline of 0ns exceeded after 0 attempt(s)");
        assert!(fake.state().calls.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn hundreds_of_calls_survive_a_restart_for_attempts_without_a_connection_are_free() {
        let fake = FakeDaemon::default();
        let client = client(&fake, 30 * SECOND, 60 * SECOND);
        let calls = (0..300).map(|_| client.models());
        let answers = futures::future::join_all(calls).await;
        assert!(answers.iter().all(Result::is_ok), "{:?}", answers.iter().find(|answer| answer.is_err()));
        assert_eq!(fake.state().calls.len(), 300);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_fails_with_its_cause_before_its_deadline_if_no_daemon_comes_back() {
        for (deadline, ends) in [(20 * SECOND, 18..=20), (Duration::MAX, 58..=60)] {
            let start = Instant::now();
            let error = client(&FakeDaemon::default(), 3600 * SECOND, deadline).models().await.expect_err("it is away");
            let failure = error.failure().expect("the cause is known");
            assert_eq!(failure.code, Code::Unavailable);
            assert!(failure.message.contains("refused") && failure.attempts > 15, "{failure:?}");
            assert!(ends.contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_collection_is_created_once_although_no_connection_could_be_made_at_first() {
        let fake = FakeDaemon::default();
        let client = client(&fake, 10 * SECOND, 60 * SECOND);
        client.collection("code").create(&CollectionOptions::default()).await.expect("the daemon comes back");
        assert_eq!(fake.state().calls, ["CreateCollection"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_daemon_that_fails_gets_few_retries_until_the_deadline() {
        let fake = FakeDaemon::default();
        fake.fail_next((0..10_000).map(|_| Status::unavailable("no healthy upstream")));
        let client = client(&fake, Duration::ZERO, 30 * SECOND);
        let calls = (0..100).map(|_| client.models());
        let answers = futures::future::join_all(calls).await;
        assert!(answers.iter().all(Result::is_err));
        let made = fake.state().calls.len();
        assert!((150..=160).contains(&made), "{made} attempts: 100 calls, a fifth of them, the reserve, one a second");
    }
}
