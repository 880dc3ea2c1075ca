//! Streams of numbered batches that outlive their connection: after a lost connection, or the drain of a daemon, batches without an
//! answer are sent again.

use std::{
    collections::{BTreeMap, VecDeque},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use accelerd_proto::methods::Rpc;
use futures::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use prost::Message;
use tonic::Streaming;

use crate::{
    Client, Error, Result,
    proto::{
        EmbedStreamRequest, EmbedStreamResponse, ParseStreamRequest, ParseStreamResponse, UpsertStreamRequest,
        UpsertStreamResponse,
    },
    retry::Attempts,
};

/// A message of a stream of batches.
pub(crate) trait Numbered {
    /// The number of its batch.
    fn sequence(&self) -> u64;
}

macro_rules! numbered {
    ($($message:ty),*) => {
        $(impl Numbered for $message {
            fn sequence(&self) -> u64 {
                self.sequence
            }
        })*
    };
}
numbered!(
    EmbedStreamRequest,
    EmbedStreamResponse,
    ParseStreamRequest,
    ParseStreamResponse,
    UpsertStreamRequest,
    UpsertStreamResponse
);

/// Which batches are sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resend {
    /// Those without an answer.
    Unanswered,
    /// All from the first without an answer on, since later ones change what it changes.
    FromFirstUnanswered,
}

/// The batches of a stream, for one attempt after another.
struct Batches<Q>(Arc<Mutex<BatchesState<Q>>>);

struct BatchesState<Q> {
    /// `None` at its end.
    input: Option<BoxStream<'static, Q>>,
    kept: BTreeMap<u64, Kept<Q>>,
    /// The batches that the current attempt sends again before it reads on.
    again: VecDeque<Arc<Q>>,
    attempt: u64,
    /// The number after the last that was sent.
    next: u64,
    resend: Resend,
}

struct Kept<Q> {
    message: Arc<Q>,
    is_answered: bool,
}

/// The batches that one attempt sends. It ends when another attempt begins, since the transport may still poll it.
struct Outgoing<Q> {
    batches: Batches<Q>,
    attempt: u64,
}

/// The answers of a stream that is opened again when it breaks.
struct Answers<Q, R> {
    client: Client,
    method: Rpc<Q, R>,
    batches: Batches<Q>,
    attempts: Attempts,
    responses: Streaming<R>,
}

impl<Q> Clone for Batches<Q> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<Q: Numbered> Batches<Q> {
    fn new(input: BoxStream<'static, Q>, resend: Resend) -> Self {
        Self(Arc::new(Mutex::new(BatchesState {
            input: Some(input),
            kept: BTreeMap::new(),
            again: VecDeque::new(),
            attempt: 0,
            next: 0,
            resend,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, BatchesState<Q>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an attempt.
    fn begin(&self) -> Outgoing<Q> {
        let mut state = self.lock();
        state.attempt += 1;
        state.again = state.kept.values().map(|kept| Arc::clone(&kept.message)).collect();
        Outgoing { batches: self.clone(), attempt: state.attempt }
    }

    /// Takes the answer to a batch. Returns false if it was answered before.
    fn answered(&self, sequence: u64) -> Result<bool> {
        let mut state = self.lock();
        // One that is not kept was answered in an earlier attempt, and what preceded it in this one.
        let is_repeated = state.resend == Resend::FromFirstUnanswered && sequence < state.next;
        let is_new = match state.kept.get_mut(&sequence) {
            Some(kept) => !std::mem::replace(&mut kept.is_answered, true),
            None if is_repeated => return Ok(false),
            None => return Err(Error::Malformed(format!("unexpected sequence {sequence}"))),
        };
        match state.resend {
            Resend::Unanswered => drop(state.kept.remove(&sequence)),
            Resend::FromFirstUnanswered => {
                while state.kept.first_entry().is_some_and(|first| first.get().is_answered) {
                    state.kept.pop_first();
                }
            }
        }
        Ok(is_new)
    }

    /// Returns true if all batches are answered.
    fn is_complete(&self) -> bool {
        let state = self.lock();
        state.input.is_none() && state.kept.is_empty()
    }
}

impl<Q: Numbered> Stream for Outgoing<Q> {
    type Item = Arc<Q>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Arc<Q>>> {
        let mut state = self.batches.lock();
        if state.attempt != self.attempt {
            return Poll::Ready(None);
        }
        if let Some(message) = state.again.pop_front() {
            return Poll::Ready(Some(message));
        }
        let Some(input) = &mut state.input else { return Poll::Ready(None) };
        let Some(message) = ready!(input.poll_next_unpin(context)) else {
            state.input = None;
            return Poll::Ready(None);
        };
        let message = Arc::new(message);
        let kept = Kept { message: Arc::clone(&message), is_answered: false };
        state.kept.insert(message.sequence(), kept);
        state.next = message.sequence() + 1;
        Poll::Ready(Some(message))
    }
}

impl Client {
    /// Makes a stream of numbered batches, without deadline. It is opened again while a call without deadline would be retried, and any
    /// answer counts as progress.
    pub(crate) async fn resumable_stream<Q, R>(
        &self,
        method: Rpc<Q, R>,
        input: impl Stream<Item = Q> + Send + 'static,
        resend: Resend,
    ) -> Result<BoxStream<'static, Result<R>>>
    where
        Q: Message + Numbered + 'static,
        R: Message + Default + Numbered + 'static,
    {
        let batches = Batches::new(input.boxed(), resend);
        let mut attempts = self.attempts(method.is_idempotent(), None);
        let responses = self.open_again(&method, &batches, &mut attempts).await?;
        let answers = Answers { client: self.clone(), method, batches, attempts, responses };
        let answers = stream::try_unfold(answers, |mut answers| async {
            let answer = answers.next().await?;
            Ok(answer.map(|answer| (answer, answers)))
        });
        Ok(answers.boxed())
    }

    async fn open_again<Q, R>(
        &self,
        method: &Rpc<Q, R>,
        batches: &Batches<Q>,
        attempts: &mut Attempts,
    ) -> Result<Streaming<R>>
    where
        Q: Message + Numbered + 'static,
        R: Message + Default + 'static,
    {
        loop {
            match self.open(method, batches.begin(), None).await {
                Ok(responses) => return Ok(responses),
                Err(status) => self.back_off(&status, attempts).await?,
            }
        }
    }
}

impl<Q, R> Answers<Q, R>
where
    Q: Message + Numbered + 'static,
    R: Message + Default + Numbered + 'static,
{
    /// The next answer; `None` once all batches are answered.
    async fn next(&mut self) -> Result<Option<R>> {
        loop {
            match self.responses.message().await {
                Ok(Some(response)) => {
                    self.attempts.progressed();
                    if self.batches.answered(response.sequence())? {
                        return Ok(Some(response));
                    }
                }
                Ok(None) if self.batches.is_complete() => return Ok(None),
                Ok(None) => return Err(Error::Malformed("the stream ended before its last batch".to_owned())),
                Err(status) => {
                    self.client.back_off(&status, &mut self.attempts).await?;
                    let responses = self.client.open_again(&self.method, &self.batches, &mut self.attempts);
                    self.responses = responses.await?;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn batches(count: u64, resend: Resend) -> Batches<EmbedStreamRequest> {
        let message = |sequence| EmbedStreamRequest { sequence, embed: None };
        Batches::new(stream::iter((0..count).map(message)).boxed(), resend)
    }

    fn sent(outgoing: impl Stream<Item = Arc<EmbedStreamRequest>>, count: usize) -> Vec<u64> {
        let messages = outgoing.take(count).map(|message| message.sequence).collect::<Vec<_>>();
        messages.now_or_never().expect("the input is there")
    }

    #[test]
    fn batches_without_an_answer_are_sent_again_and_then_the_others() {
        let batches = batches(6, Resend::Unanswered);
        let mut first = batches.begin();
        assert_eq!(sent(&mut first, 4), [0, 1, 2, 3]);
        assert!([0, 2].into_iter().all(|sequence| batches.answered(sequence).expect("it was sent")));
        let second = batches.begin();
        assert_eq!(sent(first, 9), [0; 0], "the transport may still poll a failed attempt");
        assert_eq!(sent(second, 9), [1, 3, 4, 5]);
        assert!(!batches.is_complete());
        assert!([1, 3, 4, 5].into_iter().all(|sequence| batches.answered(sequence).expect("it was sent")));
        assert!(batches.is_complete());
        assert!(batches.answered(5).is_err() && batches.answered(6).is_err());
    }

    #[test]
    fn ordered_batches_are_sent_again_from_the_first_without_an_answer() {
        let batches = batches(5, Resend::FromFirstUnanswered);
        assert_eq!(sent(batches.begin(), 4), [0, 1, 2, 3]);
        assert!([0, 3, 2].into_iter().all(|sequence| batches.answered(sequence).expect("it was sent")));
        assert_eq!(sent(batches.begin(), 9), [1, 2, 3, 4]);
        let is_new: Vec<_> = (1..5).map(|sequence| batches.answered(sequence).expect("it was sent")).collect();
        assert_eq!(is_new, [true, false, false, true]);
        assert!(batches.is_complete());
    }
}
