//! Streams of batches: several are answered concurrently, and the error of one is its answer.

use std::future::Future;

use futures::{Stream, StreamExt as _, stream::BoxStream};

use crate::error::ApiError;

/// Batches of a stream that are answered concurrently.
pub(crate) const CONCURRENT: usize = 8;

/// A batch of a stream, or its answer, with the number that the caller gave it. An error is its own: it does not end the stream.
pub(crate) type Numbered<T> = (u64, Result<T, ApiError>);

/// Answers the batches of a stream as they complete. Only an error of the stream itself ends it.
pub(crate) fn answers<B, R, E, F>(
    batches: impl Stream<Item = Result<Numbered<B>, E>> + Send + 'static,
    answer: impl Fn(B) -> F + Send + 'static,
) -> BoxStream<'static, Result<Numbered<R>, E>>
where
    B: 'static,
    R: Send + 'static,
    E: Send + 'static,
    F: Future<Output = Result<R, ApiError>> + Send + 'static,
{
    let answered = batches.map(move |batch| {
        let begun = batch.map(|(sequence, batch)| (sequence, batch.map(&answer)));
        async move {
            let (sequence, begun) = begun?;
            let answer = match begun {
                Ok(answer) => answer.await,
                Err(error) => Err(error),
            };
            Ok((sequence, answer))
        }
    });
    answered.buffer_unordered(CONCURRENT).boxed()
}

#[cfg(test)]
mod tests {
    use futures::{future, stream};

    use super::*;

    #[tokio::test]
    async fn the_error_of_a_batch_is_its_answer_and_that_of_the_stream_ends_it() {
        let refused = || ApiError::invalid("batch", "expected a batch, got none");
        let batches = [Ok((1, Ok(20))), Ok((2, Err(refused()))), Ok((3, Ok(0))), Err("reset")];
        let half = move |number: i32| future::ready(if number == 0 { Err(refused()) } else { Ok(number / 2) });
        let answers: Vec<_> = answers(stream::iter(batches), half).collect().await;
        let shown = |answer: &Result<Numbered<i32>, &str>| match answer {
            Ok((sequence, Ok(half))) => format!("{sequence}: {half}"),
            Ok((sequence, Err(error))) => format!("{sequence}: {error}"),
            Err(error) => (*error).to_owned(),
        };
        let shown: Vec<_> = answers.iter().map(shown).collect();
        let refused = refused();
        assert_eq!(shown, ["1: 10".to_owned(), format!("2: {refused}"), format!("3: {refused}"), "reset".to_owned()]);
    }
}
