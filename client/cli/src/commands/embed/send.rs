//! Sends a corpus as a bounded stream of batches and reorders the responses.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use accelerd_client::{Client, Code, EmbedOptions, EmbedOutcome, Embeddings, Error};
use futures::{Stream, StreamExt, stream};
use tokio::sync::{Semaphore, mpsc};

use super::source::Texts;
use crate::error::{CliError, Result};

/// Maximum batches in flight.
const IN_FLIGHT: usize = 8;

/// Embeds all texts. Calls `note` for each batch, in order.
pub async fn each_batch(
    client: &Client,
    options: &EmbedOptions,
    texts: Texts,
    mut note: impl FnMut(&[String], &Embeddings) -> Result,
) -> Result {
    let mut texts = texts.read();
    let first = texts.batches.recv().await;
    let second = texts.batches.recv().await;
    match (first, second) {
        (None, _) => {}
        // A unary call is retried while the daemon is busy.
        (Some(only), None) => note(&only, &client.embed_with(only.iter().cloned(), options).await?)?,
        (Some(first), Some(second)) => {
            let batches = stream::iter([first, second]).chain(received(&mut texts.batches));
            stream_all(client, options, batches, note).await?;
        }
    }
    texts.end()
}

/// Takes the receiver as a stream. The caller learns from `Batches::end` why it ended.
fn received(from: &mut mpsc::Receiver<Vec<String>>) -> impl Stream<Item = Vec<String>> + Send + use<> {
    let (_, empty) = mpsc::channel(1);
    let from = std::mem::replace(from, empty);
    tokio_stream::wrappers::ReceiverStream::new(from)
}

async fn stream_all(
    client: &Client,
    options: &EmbedOptions,
    batches: impl Stream<Item = Vec<String>> + Send + 'static,
    mut note: impl FnMut(&[String], &Embeddings) -> Result,
) -> Result {
    let flight = Arc::new(Flight::default());
    let launched = flight.clone();
    let batches = batches.then(move |batch| launched.clone().launch(batch));
    let mut outcomes = client.embed_stream(batches, options).await?;
    let mut ready = BTreeMap::new();
    let mut next = 0;
    while let Some(outcome) = outcomes.next().await {
        let EmbedOutcome { sequence, result } = outcome?;
        ready.insert(sequence, result);
        while let Some(result) = ready.remove(&next) {
            let batch = flight.land().ok_or_else(|| CliError::Partial("unexpected response".into()))?;
            let done = match result {
                Ok(done) => done,
                Err(error) => retry(client, options, error, &batch).await?,
            };
            note(&batch, &done)?;
            next += 1;
        }
    }
    let is_complete = flight.sent().is_empty() && ready.is_empty();
    if is_complete { Ok(()) } else { Err(CliError::Partial("the daemon ended the stream early".into())) }
}

/// Retries a failed batch as a unary call, if the error is transient.
async fn retry(
    client: &Client,
    options: &EmbedOptions,
    error: Error,
    batch: &[String],
) -> Result<Embeddings, CliError> {
    if matches!(error.code(), Code::ResourceExhausted | Code::Unavailable | Code::Aborted) {
        return Ok(client.embed_with(batch.iter().cloned(), options).await?);
    }
    Err(error.into())
}

/// Batches in flight, in order.
struct Flight {
    window: Semaphore,
    sent: Mutex<VecDeque<Vec<String>>>,
}

impl Default for Flight {
    fn default() -> Self {
        Self { window: Semaphore::new(IN_FLIGHT), sent: Mutex::default() }
    }
}

impl Flight {
    fn sent(&self) -> std::sync::MutexGuard<'_, VecDeque<Vec<String>>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn launch(self: Arc<Self>, batch: Vec<String>) -> Vec<String> {
        if let Ok(permit) = self.window.acquire().await {
            permit.forget();
        }
        self.sent().push_back(batch.clone());
        batch
    }

    fn land(&self) -> Option<Vec<String>> {
        self.window.add_permits(1);
        self.sent().pop_front()
    }
}
