//! The pipeline: files are read ahead on other threads, compared in groups, and sent as a bounded stream of batches.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use accelerd_client::{Client, Code, Collection, Error, Filter, Id, Upsert, Value};
use futures::{StreamExt, TryStreamExt, stream};
use indicatif::ProgressBar;
use tokio::{
    sync::{Notify, Semaphore, mpsc},
    task::spawn_blocking,
};
use tokio_stream::wrappers::ReceiverStream;

use super::{
    Skipped, outline,
    plan::{Batch, Batches, is_unchanged},
    read::{self, Cutting, Outcome, Prepared},
};
use crate::{
    error::{self, CliError, Result},
    human,
    screen::{BYTES_BAR, Screen},
    walk::{File, Walked},
};

/// Files read at once and ahead.
const READ_AHEAD: usize = 16;
/// Files cut at once and ahead.
const CUT_AHEAD: usize = 4;
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
///
/// Told to stop by Ctrl-C, it waits for what was sent to land, and fails with [`CliError::Interrupted`].
pub async fn send(job: Job<'_>, walked: &Walked, screen: &Screen) -> Result<Tally> {
    let total = walked.files.iter().map(|file| file.size).sum();
    let bar = screen.bar(total, BYTES_BAR, "indexing");
    let mut tally = Tally::default();
    if job.dry_run {
        produce(&job, walked, &mut tally, None, &bar, screen).await?;
        bar.finish_and_clear();
        return Ok(tally);
    }
    let (batches, received) = mpsc::channel(1);
    let flight = Flight { bar: bar.clone(), ..Flight::default() };
    let (mut interrupted, stop) = (false, Notify::new());
    let sent = {
        let produced = async {
            tokio::select! {
                produced = produce(&job, walked, &mut tally, Some((batches, &flight)), &bar, screen) => produced,
                () = stop.notified() => {
                    flight.complete.store(true, Ordering::Relaxed);
                    Ok(())
                }
            }
        };
        let both = async { futures::try_join!(produced, consume(job.collection, received, &flight)).map(|_| ()) };
        let mut both = std::pin::pin!(both);
        tokio::select! {
            sent = &mut both => sent,
            () = interrupt() => {
                interrupted = true;
                let note = "interrupted: waiting for what was sent to land; Ctrl-C again leaves at once";
                bar.suspend(|| screen.note(note));
                stop.notify_one();
                both.await
            }
        }
    };
    bar.finish_and_clear();
    if interrupted || sent.is_err() {
        return Err(stopped(&job, &flight.landed(), sent, screen).await);
    }
    Ok(tally)
}

/// What a run that did not get to its end has to say: what the collection has of it.
async fn stopped(job: &Job<'_>, landed: &Landed, sent: Result, screen: &Screen) -> CliError {
    // Files that landed whole are not looked at by the next run, so what they had before goes now.
    if job.compare {
        let _best_effort = super::delete_leftovers(job.collection, &landed.files).await;
    }
    let chunks = human::plural(landed.chunks, "chunk");
    let files = human::plural(landed.files.len() as u64, "whole file");
    let kept = format!(
        "{chunks} were sent and stay in the collection, among them {files}; the same command goes on from there"
    );
    match sent {
        Err(error) => {
            if landed.chunks > 0 {
                screen.note(kept);
            }
            error
        }
        Ok(()) => CliError::Interrupted(format!("interrupted: {kept}")),
    }
}

/// Ends with the first Ctrl-C; from then on the next one ends the program.
async fn interrupt() {
    if tokio::signal::ctrl_c().await.is_err() {
        return std::future::pending().await;
    }
    tokio::spawn(async {
        if tokio::signal::ctrl_c().await.is_ok() {
            std::process::exit(error::INTERRUPTED.into());
        }
    });
}

/// Batches sent and not answered, by number, and what has landed.
struct Flight {
    window: Semaphore,
    batches: Mutex<HashMap<u64, Batch>>,
    landed: Mutex<Landed>,
    /// Whether everything was sent, or all that will be.
    complete: AtomicBool,
    bar: ProgressBar,
}

/// What the collection has of this run.
#[derive(Clone, Debug, Default)]
struct Landed {
    chunks: u64,
    /// Path and hash of each file that is there whole.
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

    /// Sends a batch once there is room. Cancelled, it has sent it or has not.
    async fn launch(&self, sequence: u64, batch: Batch, to: &mpsc::Sender<Upsert>) {
        let (Ok(permit), Ok(slot)) = (self.window.acquire().await, to.reserve().await) else {
            // The stream broke, and `consume` is about to end all this by saying why.
            return std::future::pending().await;
        };
        permit.forget();
        let upsert = batch.upsert.clone();
        self.batches().insert(sequence, batch);
        slot.send(upsert);
    }

    /// A batch was answered, well or not.
    fn take(&self, sequence: u64) -> Option<Batch> {
        self.window.add_permits(1);
        self.batches().remove(&sequence)
    }

    fn land(&self, batch: Batch) {
        let mut landed = self.landed.lock().unwrap_or_else(PoisonError::into_inner);
        landed.chunks += batch.len() as u64;
        landed.files.extend(batch.whole);
        self.bar.inc(batch.bytes);
        self.bar.set_message(human::plural(landed.chunks, "chunk"));
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
    let read = |file: File| blocking(move || (read::read(&file, cutting), file));
    let mut groups =
        stream::iter(walked.files.iter().cloned()).map(read).buffered(READ_AHEAD).try_chunks(FILES_A_GROUP);
    let (mut batches, mut sequence) = (Batches::default(), 0..);
    while let Some(group) = groups.next().await {
        let ready = sort_out(group.map_err(|error| error.1)?, tally, bar, screen);
        let stored = if job.compare { stored_hashes(job.collection, &ready).await? } else { HashMap::new() };
        tally.present.extend(ready.iter().map(|file| file.path.clone()));
        let (unchanged, changed): (Vec<_>, Vec<_>) = ready.into_iter().partition(|file| is_unchanged(file, &stored));
        tally.unchanged += unchanged.len() as u64;
        bar.inc(unchanged.iter().map(|file| file.size).sum());
        let outlines = outline::outlines(job.client, &changed).await?;
        let cut = |(file, outline): (Prepared, Option<Vec<_>>)| {
            blocking(move || (file.pieces(outline.as_deref(), cutting.windows), file))
        };
        let mut cut = stream::iter(changed.into_iter().zip(outlines)).map(cut).buffered(CUT_AHEAD);
        while let Some(one) = cut.next().await {
            let (mut pieces, file) = one?;
            if let Some(field) = &job.text_field {
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
    if let (Some((to, flight)), Some(rest)) = (&out, batches.take()) {
        flight.launch(sequence.next().unwrap_or_default(), rest, to).await;
    }
    if let Some((_, flight)) = out {
        flight.complete.store(true, Ordering::Relaxed);
    }
    Ok(())
}

/// Runs on a thread that may block.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    spawn_blocking(work).await.map_err(|error| CliError::Partial(format!("a reader failed: {error}")))
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
        match (outcome.result, flight.take(outcome.sequence)) {
            (Ok(_), Some(batch)) => flight.land(batch),
            (Ok(_), None) => {}
            (Err(error), Some(batch)) => {
                again(collection, error, batch.upsert.clone()).await?;
                flight.land(batch);
            }
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
