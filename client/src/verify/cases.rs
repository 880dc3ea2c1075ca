//! Streams of cases and their verdicts.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use accelerd_proto::methods::verify_service;
use futures::{Stream, StreamExt, stream, stream::BoxStream};

use super::Verification;
use crate::{
    Client, Error, Result,
    call::BoundedStreaming,
    proto::{
        CaseVerdicts, VerifyCases, VerifyRequest, VerifyResponse, VerifySummary, verify_request, verify_response::Part,
    },
    tensor_source::TensorSource,
};

/// A chunk of cases: tensors by name, whose first dimension is the number of cases.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cases(VerifyCases);

/// The verdicts of a verification, as they come.
#[derive(Debug)]
pub struct Verdicts {
    responses: BoundedStreaming<VerifyResponse>,
    summary: Option<VerifySummary>,
}

impl Cases {
    /// An input of functions.
    #[must_use]
    pub fn input(mut self, name: impl Into<String>, values: impl Into<TensorSource>) -> Self {
        self.0.inputs.push(values.into().named(name));
        self
    }

    /// An output of a subject that the client sends.
    #[must_use]
    pub fn actual(mut self, name: impl Into<String>, values: impl Into<TensorSource>) -> Self {
        self.0.actual.push(values.into().named(name));
        self
    }

    /// An output of a reference that the client sends.
    #[must_use]
    pub fn expected(mut self, name: impl Into<String>, values: impl Into<TensorSource>) -> Self {
        self.0.expected.push(values.into().named(name));
        self
    }

    /// Sets the expected outcome of the subject: a name for each case, empty for that of [`Verification::expect_outcome`].
    #[must_use]
    pub fn expected_outcomes(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.0.expected_outcomes = names.into_iter().map(Into::into).collect();
        self
    }
}

impl Verdicts {
    /// The verdicts of the next chunk; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<CaseVerdicts>> {
        if self.summary.is_some() {
            return Ok(None);
        }
        match self.responses.next().await?.map(|response| response.part) {
            Some(Some(Part::Cases(verdicts))) => Ok(Some(verdicts)),
            Some(Some(Part::Summary(summary))) => {
                self.summary = Some(summary);
                Ok(None)
            }
            Some(None) => Err(Error::Malformed("a response without verdicts".to_owned())),
            None => Err(Error::Malformed("a verification without a summary".to_owned())),
        }
    }

    /// The result of all cases, once they are verified.
    pub async fn summary(mut self) -> Result<VerifySummary> {
        while self.next().await?.is_some() {}
        self.summary.ok_or_else(|| Error::Malformed("a verification without a summary".to_owned()))
    }
}

impl Client {
    /// Verifies the cases that a generator makes, or those of the chunks: `stream::empty()` with a generator, `stream::iter(..)` of an
    /// iterator.
    ///
    /// The client's deadline is that of all chunks. The call is retried until it took the first chunk.
    ///
    /// ```no_run
    /// # async fn run(client: accelerd_client::Client, module: Vec<u8>) -> Result<(), accelerd_client::Error> {
    /// use accelerd_client::{KernelProgram, Policy, Verification, WasmFunction};
    ///
    /// let reference = "import math\ndef norm(x: float, y: float) -> float:\n    return math.sqrt(x * x + y * y)\n";
    /// let verification = Verification::of(WasmFunction::new(module).name("norm"))
    ///     .against(KernelProgram::new(reference))
    ///     .policy(Policy::default().max_ulps(1))
    ///     .generate(100_000, 7)
    ///     .domain("x", -1e6..=1e6);
    /// let mut verdicts = client.verify(&verification, futures::stream::empty()).await?;
    /// while let Some(chunk) = verdicts.next().await? {
    ///     eprintln!("{} of {} cases fail", chunk.failed_count, chunk.case_count);
    /// }
    /// let summary = verdicts.summary().await?;
    /// for failing in summary.functions.iter().flat_map(|functions| &functions.counterexamples) {
    ///     eprintln!("case {}: {:?}", failing.case_index, failing.shrunk.as_ref().or(failing.found.as_ref()));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn verify(
        &self,
        verification: &Verification,
        chunks: impl Stream<Item = Cases> + Send + 'static,
    ) -> Result<Verdicts> {
        let header = request(verify_request::Part::Header(verification.0.clone()));
        let mut chunks = Chunks::new(chunks.boxed());
        let messages = |chunks: &Chunks| stream::iter([header.clone()]).chain(chunks.clone());
        let first = messages(&chunks);
        let again = || {
            chunks = Chunks::new(chunks.reclaim()?);
            Some(messages(&chunks))
        };
        let responses = self.bounded_bidi_stream(&verify_service::VERIFY, first, again).await?;
        Ok(Verdicts { responses, summary: None })
    }
}

fn request(part: verify_request::Part) -> VerifyRequest {
    VerifyRequest { part: Some(part) }
}

/// Chunks of an attempt, which the next attempt takes back unless one was sent. The transport may still hold those of a failed attempt,
/// which then are at their end.
#[derive(Clone)]
struct Chunks(Arc<Mutex<ChunksState>>);

struct ChunksState {
    chunks: Option<BoxStream<'static, Cases>>,
    is_taken: bool,
}

impl Chunks {
    fn new(chunks: BoxStream<'static, Cases>) -> Self {
        Self(Arc::new(Mutex::new(ChunksState { chunks: Some(chunks), is_taken: false })))
    }

    fn reclaim(&self) -> Option<BoxStream<'static, Cases>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_taken { None } else { state.chunks.take() }
    }
}

impl Stream for Chunks {
    type Item = VerifyRequest;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<VerifyRequest>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(chunks) = &mut state.chunks else { return Poll::Ready(None) };
        let next = std::task::ready!(chunks.poll_next_unpin(context));
        state.is_taken |= next.is_some();
        Poll::Ready(next.map(|Cases(cases)| request(verify_request::Part::Cases(cases))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn chunks_return_to_the_next_attempt_unless_one_was_sent() {
        let mut failed = Chunks::new(stream::iter([Cases::default(), Cases::default()]).boxed());
        let mut next = Chunks::new(failed.reclaim().expect("none was sent"));
        assert!(failed.next().await.is_none(), "the transport may still poll a failed attempt");
        assert!(next.next().await.is_some());
        assert!(next.reclaim().is_none());
        assert_eq!(next.count().await, 1, "an attempt goes on after it was asked to return its chunks");
    }
}
