//! Streams of batches: several are answered concurrently, and the error of one is its answer.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
};

use accelerd_engine::SubmitError;
use futures::{
    Stream, StreamExt as _,
    future::ready,
    stream::{self, BoxStream},
};

use crate::error::ApiError;

/// Batches of a stream that are answered concurrently.
pub(crate) const CONCURRENT: usize = 8;

/// A batch of a stream, or its answer, with the number that the caller gave it. An error is its own: it does not end the stream.
pub(crate) type Numbered<T> = (u64, Result<T, ApiError>);

/// The error that ends a stream, once there is one.
struct EndingError<E>(Arc<Mutex<Option<E>>>);

impl<E> EndingError<E> {
    fn with<T>(&self, f: impl FnOnce(&mut Option<E>) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Another handle to the same error.
    fn handle(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// Answers the batches of a stream by `answered`, and then yields the error that ended the stream. What was accepted is answered
/// before. A batch that the engine does not accept, since the daemon drains, ends the stream too.
pub(crate) fn answers_then_error<B, R, E, S>(
    batches: impl Stream<Item = Result<Numbered<B>, E>> + Send + 'static,
    answered: impl FnOnce(BoxStream<'static, Numbered<B>>) -> S,
) -> BoxStream<'static, Result<Numbered<R>, E>>
where
    B: Send + 'static,
    R: Send + 'static,
    E: From<ApiError> + Send + 'static,
    S: Stream<Item = Numbered<R>> + Send + 'static,
{
    let error = EndingError(Arc::default());
    let of_batches = error.handle();
    let accepted = batches.scan((), move |(), batch| {
        let accepted = of_batches.with(|error| match batch {
            _ if error.is_some() => None,
            Ok(batch) => Some(batch),
            Err(ended) => {
                *error = Some(ended);
                None
            }
        });
        ready(accepted)
    });
    let of_answers = error.handle();
    let answers = answered(accepted.boxed()).filter_map(move |(sequence, answer)| {
        ready(match answer {
            Err(ApiError::Submit(SubmitError::Draining)) => {
                of_answers.with(|error| {
                    error.get_or_insert_with(|| ApiError::Submit(SubmitError::Draining).into());
                });
                None
            }
            answer => Some(Ok((sequence, answer))),
        })
    });
    let last = stream::once(async move { error.with(Option::take) }).filter_map(|error| ready(error.map(Err)));
    answers.chain(last).boxed()
}

/// Answers the batches of a stream as they complete. Only an error of the stream itself ends it.
pub(crate) fn answers<B, R, E, F>(
    batches: impl Stream<Item = Result<Numbered<B>, E>> + Send + 'static,
    mut answer: impl FnMut(B) -> F + Send + 'static,
) -> BoxStream<'static, Result<Numbered<R>, E>>
where
    B: Send + 'static,
    R: Send + 'static,
    E: From<ApiError> + Send + 'static,
    F: Future<Output = Result<R, ApiError>> + Send + 'static,
{
    answers_then_error(batches, move |batches| {
        let answered = batches.map(move |(sequence, batch)| {
            let begun = batch.map(&mut answer);
            async move {
                let answer = match begun {
                    Ok(answer) => answer.await,
                    Err(error) => Err(error),
                };
                (sequence, answer)
            }
        });
        answered.buffer_unordered(CONCURRENT)
    })
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, future};
    use tokio::sync::oneshot;

    use super::*;

    /// The error of a stream.
    #[derive(Debug, PartialEq)]
    enum Ended {
        Reset,
        Refused(String),
    }

    impl From<ApiError> for Ended {
        fn from(error: ApiError) -> Self {
            Self::Refused(error.to_string())
        }
    }

    fn shown(answer: &Result<Numbered<i32>, Ended>) -> String {
        match answer {
            Ok((sequence, Ok(half))) => format!("{sequence}: {half}"),
            Ok((sequence, Err(error))) => format!("{sequence}: {error}"),
            Err(error) => format!("{error:?}"),
        }
    }

    #[tokio::test]
    async fn the_error_of_a_batch_is_its_answer_and_that_of_the_stream_ends_it() {
        let refused = || ApiError::invalid("batch", "expected a batch, got none");
        let batches = [Ok((1, Ok(20))), Ok((2, Err(refused()))), Ok((3, Ok(0))), Err(Ended::Reset)];
        let half = move |number: i32| future::ready(if number == 0 { Err(refused()) } else { Ok(number / 2) });
        let answers: Vec<_> = answers(stream::iter(batches), half).collect().await;
        let refused = refused();
        let expected = ["1: 10".to_owned(), format!("2: {refused}"), format!("3: {refused}"), "Reset".to_owned()];
        assert_eq!(answers.iter().map(shown).collect::<Vec<_>>(), expected);
    }

    #[tokio::test]
    async fn accepted_batches_are_answered_before_the_error_that_ends_the_stream() {
        let (finish, finished) = oneshot::channel::<()>();
        let finished = finished.shared();
        let batches = [Ok((1, Ok(20))), Ok((2, Ok(40))), Err(Ended::Reset), Ok((3, Ok(60)))];
        let slow = move |number: i32| {
            let finished = finished.clone();
            async move {
                finished.await.expect("it is finished");
                Ok(number / 2)
            }
        };
        let mut answers = answers(stream::iter(batches), slow);
        assert!(answers.next().now_or_never().is_none(), "the error waits for the answers");
        finish.send(()).expect("the batches wait");
        let answers: Vec<_> = answers.collect().await;
        assert_eq!(answers.iter().map(shown).collect::<Vec<_>>(), ["1: 10", "2: 20", "Reset"]);
    }

    #[tokio::test]
    async fn a_stream_ends_at_the_first_batch_that_a_draining_engine_refuses() {
        let batches = (0..100).map(|sequence| Ok::<_, Ended>((sequence, Ok(2))));
        let mut accepted = 0;
        let engine = move |number: i32| {
            accepted += 1;
            let draining = ApiError::Submit(SubmitError::Draining);
            future::ready(if accepted <= 3 { Ok(number / 2) } else { Err(draining) })
        };
        let answers: Vec<_> = answers(stream::iter(batches), engine).collect().await;
        let draining = ApiError::Submit(SubmitError::Draining).to_string();
        let expected = ["0: 1".to_owned(), "1: 1".to_owned(), "2: 1".to_owned(), format!("Refused({draining:?})")];
        assert_eq!(answers.iter().map(shown).collect::<Vec<_>>(), expected);
    }
}
