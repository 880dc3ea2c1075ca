//! The pipeline: reads files ahead on blocking threads, compares them in groups, and sends a bounded stream of batches.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use accelerd_client::{Client, Code, Collection, Error, Filter, Id, Upsert, Value};
use futures::{StreamExt, TryStreamExt, stream};
use indicatif::ProgressBar;
use tokio::{
    sync::{Notify, Semaphore, mpsc},
    task::spawn_blocking,
    time::{Instant, timeout_at},
};
use tokio_stream::wrappers::ReceiverStream;

use super::{
    Skipped, SkippedFile,
    delete::delete_stale_chunks,
    outline,
    plan::{Batch, Batches, is_unchanged},
    read::{self, Outcome, Prepared, SplitOptions},
    reuse::reuse_vectors,
};
use crate::{
    error::{CliError, Result},
    format,
    interrupt::Interrupt,
    output::{BYTES_BAR, Output},
    walk::{File, Walked},
};

/// Maximum files read ahead.
const READ_AHEAD: usize = 16;
/// Maximum files split ahead.
const SPLIT_AHEAD: usize = 4;
/// Files per call that compares hashes.
const FILES_A_GROUP: usize = 256;
/// Maximum batches in flight.
const IN_FLIGHT: usize = 8;
/// Time after Ctrl-C in which the program ends.
const INTERRUPT_LIMIT: Duration = Duration::from_secs(1);
/// The part of it for batches in flight; the rest is for deleting stale chunks.
const FLIGHT_LIMIT: Duration = Duration::from_millis(700);

/// Parameters of a run.
pub struct IndexRun<'a> {
    pub client: &'a Client,
    pub collection: &'a Collection,
    pub split_options: SplitOptions,
    /// Payload field for the text of a chunk.
    pub text_field: Option<String>,
    /// True if the collection may contain some of the files.
    pub compare: bool,
    pub dry_run: bool,
    pub interrupt: &'a Interrupt,
}

/// Totals of a run.
#[derive(Debug, Default)]
pub struct Tally {
    /// Path and hash of each new or changed file.
    pub sent: Vec<(String, String)>,
    /// Paths of all files that belong in the collection.
    pub present: BTreeSet<String>,
    pub unchanged: u64,
    pub skipped: Skipped,
    pub skipped_files: Vec<SkippedFile>,
    pub chunks: u64,
    /// Chunks whose vectors the collection had, and which were not embedded again.
    pub reused_chunks: u64,
    pub bytes: u64,
}

/// Reads all files and sends those that the collection lacks.
///
/// After Ctrl-C it waits for the batches in flight, for at most a second, and fails with [`CliError::Interrupted`].
pub async fn send(run: IndexRun<'_>, walked: &Walked, output: &Output) -> Result<Tally> {
    let total = walked.files.iter().map(|file| file.size).sum();
    let bar = output.bar(total, BYTES_BAR, "indexing");
    let mut tally = Tally::default();
    if run.dry_run {
        produce(&run, walked, &mut tally, None, &bar, output).await?;
        bar.finish_and_clear();
        return Ok(tally);
    }
    let (batches, received) = mpsc::channel(1);
    let flight = Flight { bar: bar.clone(), ..Flight::default() };
    let mut interrupted = None;
    let stop = Notify::new();
    let sent = {
        let produced = async {
            tokio::select! {
                produced = produce(&run, walked, &mut tally, Some((batches, &flight)), &bar, output) => produced,
                () = stop.notified() => {
                    flight.complete.store(true, Ordering::Relaxed);
                    Ok(())
                }
            }
        };
        let both = async { futures::try_join!(produced, consume(run.collection, received, &flight)).map(|_| ()) };
        let mut both = std::pin::pin!(both);
        tokio::select! {
            sent = &mut both => sent,
            () = run.interrupt.pressed() => {
                let since = Instant::now();
                interrupted = Some(since);
                let note = "interrupted: waiting a second for batches in flight; press Ctrl-C again to exit at once";
                bar.suspend(|| output.note(note));
                stop.notify_one();
                // The next run sends again the batches that have no answer by then.
                timeout_at(since + FLIGHT_LIMIT, both).await.unwrap_or(Ok(()))
            }
        }
    };
    bar.finish_and_clear();
    if interrupted.is_some() || sent.is_err() {
        let until = interrupted.map(|since| since + INTERRUPT_LIMIT);
        return Err(stopped(&run, &flight.landed(), sent, until, output).await);
    }
    Ok(tally)
}

/// Returns the error of an incomplete run, with the part that the collection has. Waits for the daemon until `until`.
async fn stopped(
    run: &IndexRun<'_>,
    landed: &Landed,
    sent: Result,
    until: Option<Instant>,
    output: &Output,
) -> CliError {
    // The next run skips files that are stored whole, so their stale chunks are deleted now.
    if run.compare {
        let deleted = delete_stale_chunks(run.collection, &landed.files);
        let deleted = match until {
            Some(until) => timeout_at(until, deleted).await.is_ok_and(|deleted| deleted.is_ok()),
            None => deleted.await.is_ok(),
        };
        if !deleted {
            output.warn("searches may find old chunks of files that were sent, until these files change again");
        }
    }
    let chunks = format::plural(landed.chunks, "chunk");
    let files = format::plural(landed.files.len() as u64, "whole file");
    let kept =
        format!("{chunks} were sent and stay in the collection, including {files}; run the same command to resume");
    match sent {
        Err(error) => {
            if landed.chunks > 0 {
                output.note(kept);
            }
            error
        }
        Ok(()) => CliError::Interrupted(format!("interrupted: {kept}")),
    }
}

/// Batches in flight by sequence, and counts of stored chunks.
struct Flight {
    window: Semaphore,
    batches: Mutex<HashMap<u64, Batch>>,
    landed: Mutex<Landed>,
    /// True if the last batch was sent.
    complete: AtomicBool,
    bar: ProgressBar,
}

/// Chunks and files of this run that are stored.
#[derive(Clone, Debug, Default)]
struct Landed {
    chunks: u64,
    /// Path and hash of each file that is stored whole.
    files: Vec<(String, String)>,
}

impl Default for Flight {
    fn default() -> Self {
        Self {
            window: Semaphore::new(IN_FLIGHT),
            batches: Mutex::default(),
            landed: Mutex::default(),
            complete: AtomicBool::new(false),
            bar: ProgressBar::hidden(),
        }
    }
}

impl Flight {
    fn batches(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Batch>> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn landed(&self) -> Landed {
        self.landed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends a batch when the window allows it. Cancel-safe: the batch is either sent and registered, or neither.
    async fn launch(&self, sequence: u64, batch: Batch, to: &mpsc::Sender<Upsert>) {
        let (Ok(permit), Ok(slot)) = (self.window.acquire().await, to.reserve().await) else {
            // The stream broke; `consume` returns its error.
            return std::future::pending().await;
        };
        permit.forget();
        let upsert = batch.upsert.clone();
        self.batches().insert(sequence, batch);
        slot.send(upsert);
    }

    /// Removes a batch after its response.
    fn take(&self, sequence: u64) -> Option<Batch> {
        self.window.add_permits(1);
        self.batches().remove(&sequence)
    }

    fn land(&self, batch: Batch) {
        let mut landed = self.landed.lock().unwrap_or_else(PoisonError::into_inner);
        landed.chunks += batch.len() as u64;
        landed.files.extend(batch.whole);
        self.bar.inc(batch.bytes);
        self.bar.set_message(format::plural(landed.chunks, "chunk"));
    }
}

async fn produce(
    run: &IndexRun<'_>,
    walked: &Walked,
    tally: &mut Tally,
    out: Option<(mpsc::Sender<Upsert>, &Flight)>,
    bar: &ProgressBar,
    output: &Output,
) -> Result {
    let split_options = run.split_options;
    let read = |file: File| blocking(move || (read::read(&file, split_options), file));
    let mut groups =
        stream::iter(walked.files.iter().cloned()).map(read).buffered(READ_AHEAD).try_chunks(FILES_A_GROUP);
    let mut batches = Batches::default();
    let mut sequence = 0..;
    while let Some(group) = groups.next().await {
        let ready = take_prepared(group.map_err(|error| error.1)?, tally, bar, output);
        let stored = if run.compare { stored_hashes(run.collection, &ready).await? } else { HashMap::new() };
        tally.present.extend(ready.iter().map(|file| file.path.clone()));
        let (unchanged, changed): (Vec<_>, Vec<_>) = ready.into_iter().partition(|file| is_unchanged(file, &stored));
        tally.unchanged += unchanged.len() as u64;
        bar.inc(unchanged.iter().map(|file| file.size).sum());
        let outlines = outline::outlines(run.client, &changed).await?;
        let split = |(file, outline): (Prepared, Option<Vec<_>>)| {
            blocking(move || (file.pieces(outline.as_deref(), split_options.windows), file))
        };
        let split = stream::iter(changed.into_iter().zip(outlines)).map(split).buffered(SPLIT_AHEAD);
        let mut split: Vec<_> = split.try_collect().await?;
        if run.compare {
            tally.reused_chunks += reuse_vectors(run.collection, &mut split).await?;
        }
        for (mut pieces, file) in split {
            if let Some(field) = &run.text_field {
                for piece in &mut pieces {
                    piece.keep_text(field);
                }
            }
            tally.sent.push((file.path.clone(), file.hash.clone()));
            tally.chunks += pieces.len() as u64;
            tally.bytes += file.size;
            let Some((to, flight)) = &out else {
                bar.inc(file.size);
                continue;
            };
            for full in batches.add(&file, pieces) {
                flight.launch(sequence.next().unwrap_or_default(), full, to).await;
            }
        }
    }
    if let Some((to, flight)) = out {
        for rest in batches.take() {
            flight.launch(sequence.next().unwrap_or_default(), rest, &to).await;
        }
        flight.complete.store(true, Ordering::Relaxed);
    }
    Ok(())
}

/// Runs on a blocking thread.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    spawn_blocking(work).await.map_err(|error| CliError::Partial(format!("reader thread failed: {error}")))
}

/// Counts skipped files and returns the others.
fn take_prepared(group: Vec<(Outcome, File)>, tally: &mut Tally, bar: &ProgressBar, output: &Output) -> Vec<Prepared> {
    let mut ready = vec![];
    for (outcome, file) in group {
        if !matches!(outcome, Outcome::Ready(_)) {
            bar.inc(file.size);
        }
        match outcome {
            Outcome::Ready(prepared) => ready.push(prepared),
            Outcome::Empty => tally.skipped.empty += 1,
            Outcome::Removed => {}
            Outcome::Binary => {
                tally.skipped.binary += 1;
                tally.skipped_files.push(SkippedFile { path: file.path, reason: "it is binary".to_owned() });
            }
            Outcome::Undecodable(reason) => {
                tally.skipped.undecodable += 1;
                tally.skipped_files.push(SkippedFile { path: file.path, reason });
            }
            Outcome::Unreadable(why) => {
                // The file exists, so its chunks stay in the collection.
                tally.present.insert(file.path.clone());
                tally.skipped.unreadable += 1;
                bar.suspend(|| output.warn(&why));
                tally.skipped_files.push(SkippedFile { path: file.path, reason: why });
            }
        }
    }
    ready
}

/// Returns the hashes in the collection by the id of each file's first piece.
async fn stored_hashes(collection: &Collection, files: &[Prepared]) -> Result<HashMap<String, String>> {
    let firsts: Vec<_> = files.iter().map(|file| file.first_id.clone()).collect();
    if firsts.is_empty() {
        return Ok(HashMap::new());
    }
    let stored = collection.get_points(firsts, false).await?;
    let hash = |(index, payload): (usize, &accelerd_client::Payload)| match (
        stored.ids.get(index),
        payload.get("file_hash"),
    ) {
        (Some(Id::Uuid(id)), Some(Value::Text(hash))) => Some((id, hash.clone())),
        _ => None,
    };
    Ok(stored.payloads.iter().enumerate().filter_map(hash).collect())
}

async fn consume(collection: &Collection, batches: mpsc::Receiver<Upsert>, flight: &Flight) -> Result {
    let mut outcomes = collection.upsert_stream(ReceiverStream::new(batches)).await?;
    while let Some(outcome) = outcomes.next().await {
        let outcome = outcome?;
        match (outcome.result, flight.take(outcome.sequence)) {
            (Ok(_), Some(batch)) => flight.land(batch),
            (Ok(_), None) => {}
            (Err(error), Some(batch)) => {
                retry(collection, error, batch.upsert.clone()).await?;
                flight.land(batch);
            }
            (Err(error), None) => return Err(error.into()),
        }
    }
    if flight.complete.load(Ordering::Relaxed) && flight.batches().is_empty() {
        return Ok(());
    }
    Err(CliError::StreamEnded)
}

/// Retries a failed batch as a unary call, if the error is transient. If the batch is lost, all chunks of its files are deleted,
/// so that no later run takes them for whole.
async fn retry(collection: &Collection, error: Error, batch: Upsert) -> Result<(), Error> {
    let is_transient = matches!(error.code(), Code::ResourceExhausted | Code::Unavailable | Code::Aborted);
    let paths: BTreeSet<_> =
        batch.payloads.iter().filter_map(|payload| payload.get("path")?.as_str().map(str::to_owned)).collect();
    let outcome = if is_transient { collection.upsert(batch).await.map(|_| ()) } else { Err(error) };
    if outcome.is_err() {
        // The daemon may reject this too; the first error is reported.
        let _best_effort = collection.delete_points(Filter::new().any_of("path", paths)).await;
    }
    outcome
}
