//! The pipeline: files are read ahead on other threads, compared in groups, and sent as a bounded stream of batches.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use accelerd_client::{Client, Code, Collection, Error, Filter, Id, Upsert, Value};
use futures::{StreamExt, TryStreamExt, stream};
use indicatif::ProgressBar;
use tokio::{
    sync::{Semaphore, mpsc},
    task::spawn_blocking,
};
use tokio_stream::wrappers::ReceiverStream;

use super::{
    Skipped, outline,
    plan::{Batch, is_unchanged},
    read::{self, Cutting, Outcome, Prepared},
};
use crate::{
    error::{CliError, Result},
    screen::{BYTES_BAR, Screen},
    walk::{File, Walked},
};

/// Files read at once and ahead.
const READ_AHEAD: usize = 16;
/// Files compared with the collection by one call.
const FILES_A_GROUP: usize = 256;
/// Batches sent and not answered.
const IN_FLIGHT: usize = 8;

/// What to do.
pub struct Job<'a> {
    pub client: &'a Client,
    pub collection: &'a Collection,
    pub cutting: Cutting,
    /// The payload field that is to have the text of a chunk.
    pub text_field: Option<String>,
    /// Whether the collection may know some of the files.
    pub compare: bool,
    pub dry_run: bool,
}

/// What was done.
#[derive(Debug, Default)]
pub struct Tally {
    /// Path and hash of each file that was new or had changed.
    pub sent: Vec<(String, String)>,
    /// Paths that belong in the collection.
    pub present: BTreeSet<String>,
    pub unchanged: u64,
    pub skipped: Skipped,
    pub chunks: u64,
    pub bytes: u64,
}

/// Reads every file and sends those that the collection does not have.
pub async fn send(job: Job<'_>, walked: &Walked, screen: &Screen) -> Result<Tally> {
    let total = walked.files.iter().map(|file| file.size).sum();
    let bar = screen.bar(total, BYTES_BAR, "indexing");
    let mut tally = Tally::default();
    let (batches, received) = mpsc::channel(1);
    let flight = Flight::default();
    if job.dry_run {
        drop(received);
        produce(&job, walked, &mut tally, None, &bar, screen).await?;
    } else {
        let produce = produce(&job, walked, &mut tally, Some((batches, &flight)), &bar, screen);
        futures::try_join!(produce, consume(job.collection, received, &flight))?;
    }
    bar.finish_and_clear();
    Ok(tally)
}

/// Batches sent and not answered, by number.
struct Flight {
    window: Semaphore,
    batches: Mutex<HashMap<u64, Upsert>>,
    /// Whether everything was sent.
    complete: AtomicBool,
}

impl Default for Flight {
    fn default() -> Self {
        Self { window: Semaphore::new(IN_FLIGHT), batches: Mutex::default(), complete: AtomicBool::new(false) }
    }
}

impl Flight {
    fn batches(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Upsert>> {
        self.batches.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    async fn launch(&self, sequence: u64, batch: Upsert, to: &mpsc::Sender<Upsert>) {
        if let Ok(permit) = self.window.acquire().await {
            permit.forget();
        }
        self.batches().insert(sequence, batch.clone());
        if to.send(batch).await.is_err() {
            // The stream broke, and `consume` is about to end all this by saying why.
            std::future::pending::<()>().await;
        }
    }

    fn land(&self, sequence: u64) -> Option<Upsert> {
        self.window.add_permits(1);
        self.batches().remove(&sequence)
    }
}

async fn produce(
    job: &Job<'_>,
    walked: &Walked,
    tally: &mut Tally,
    out: Option<(mpsc::Sender<Upsert>, &Flight)>,
    bar: &ProgressBar,
    screen: &Screen,
) -> Result {
    let cutting = job.cutting;
    let read = |file: File| async move {
        let outcome = spawn_blocking(move || (read::read(&file, cutting), file)).await;
        outcome.map_err(|error| CliError::Partial(format!("a reader failed: {error}")))
    };
    let mut groups =
        stream::iter(walked.files.iter().cloned()).map(read).buffered(READ_AHEAD).try_chunks(FILES_A_GROUP);
    let (mut batch, mut sequence) = (Batch::default(), 0..);
    while let Some(group) = groups.next().await {
        let ready = sort_out(group.map_err(|error| error.1)?, tally, bar, screen);
        let stored = if job.compare { stored_hashes(job.collection, &ready).await? } else { HashMap::new() };
        tally.present.extend(ready.iter().map(|file| file.path.clone()));
        let (unchanged, changed): (Vec<_>, Vec<_>) = ready.into_iter().partition(|file| is_unchanged(file, &stored));
        tally.unchanged += unchanged.len() as u64;
        bar.inc(unchanged.iter().map(|file| file.size).sum());
        let outlines = outline::outlines(job.client, &changed).await?;
        for (file, outline) in changed.into_iter().zip(outlines) {
            let mut pieces = file.pieces(outline.as_deref(), cutting.windows);
            if let Some(field) = &job.text_field {
                for piece in &mut pieces {
                    piece.keep_text(field);
                }
            }
            bar.inc(file.size);
            bar.set_message(file.below);
            tally.sent.push((file.path, file.hash));
            tally.chunks += pieces.len() as u64;
            tally.bytes += file.size;
            if let Some((to, flight)) = &out {
                for full in batch.add(pieces) {
                    flight.launch(sequence.next().unwrap_or_default(), full, to).await;
                }
            }
        }
    }
    if let (Some((to, flight)), Some(rest)) = (&out, batch.take()) {
        flight.launch(sequence.next().unwrap_or_default(), rest, to).await;
    }
    if let Some((_, flight)) = out {
        flight.complete.store(true, Ordering::Relaxed);
    }
    Ok(())
}

/// Counts what is passed over; gives what is left.
fn sort_out(group: Vec<(Outcome, File)>, tally: &mut Tally, bar: &ProgressBar, screen: &Screen) -> Vec<Prepared> {
    let mut ready = vec![];
    for (outcome, file) in group {
        if !matches!(outcome, Outcome::Ready(_)) {
            bar.inc(file.size);
        }
        match outcome {
            Outcome::Ready(prepared) => ready.push(prepared),
            Outcome::Empty => tally.skipped.empty += 1,
            Outcome::Binary => tally.skipped.binary += 1,
            Outcome::Unreadable(why) => {
                // It is there, so what the collection has of it stays.
                tally.present.insert(file.path);
                tally.skipped.unreadable += 1;
                bar.suspend(|| screen.warn(why));
            }
        }
    }
    ready
}

/// The hashes in the collection, by the id of each file's first piece.
async fn stored_hashes(collection: &Collection, files: &[Prepared]) -> Result<HashMap<String, String>> {
    let firsts: Vec<_> = files.iter().map(|file| file.first_id.clone()).collect();
    if firsts.is_empty() {
        return Ok(HashMap::new());
    }
    let stored = collection.get_points(firsts, false).await?;
    let hash = |(at, payload): (usize, &accelerd_client::Payload)| match (stored.ids.get(at), payload.get("file_hash"))
    {
        (Some(Id::Uuid(id)), Some(Value::Text(hash))) => Some((id, hash.clone())),
        _ => None,
    };
    Ok(stored.payloads.iter().enumerate().filter_map(hash).collect())
}

async fn consume(collection: &Collection, batches: mpsc::Receiver<Upsert>, flight: &Flight) -> Result {
    let mut outcomes = collection.upsert_stream(ReceiverStream::new(batches)).await?;
    while let Some(outcome) = outcomes.next().await {
        let outcome = outcome?;
        match (outcome.result, flight.land(outcome.sequence)) {
            (Ok(_), _) => {}
            (Err(error), Some(batch)) => again(collection, error, batch).await?,
            (Err(error), None) => return Err(error.into()),
        }
    }
    if flight.complete.load(Ordering::Relaxed) && flight.batches().is_empty() {
        return Ok(());
    }
    Err(CliError::Partial("the daemon ended the stream early; run the same command again to go on".into()))
}

/// Sends a batch once more, by itself and with retries, where that may help. A file whose batch is lost for good loses
/// all it has in the collection, so that no later run takes it for whole.
async fn again(collection: &Collection, error: Error, batch: Upsert) -> Result<(), Error> {
    let may_help = matches!(error.code(), Code::ResourceExhausted | Code::Unavailable | Code::Aborted);
    let paths: BTreeSet<_> =
        batch.payloads.iter().filter_map(|payload| payload.get("path")?.as_str().map(str::to_owned)).collect();
    let outcome = if may_help { collection.upsert(batch).await.map(|_| ()) } else { Err(error) };
    if outcome.is_err() {
        // The daemon may refuse this too; the failure to report is the first.
        let _best_effort = collection.delete_points(Filter::new().any_of("path", paths)).await;
    }
    outcome
}
