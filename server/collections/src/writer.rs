//! The writer task of a collection: orders changes, logs and applies them, and runs maintenance.

use std::{future::ready, sync::Arc, time::Instant};

use accelerd_engine::{Context, Priority};
use accelerd_kernels::{
    DeviceId, Matrix, ledger::Reservation, ops::similarity::SearchRequest, ops::similarity::Selection,
};
use accelerd_store::{CHUNK_BYTES, CollectionMeta, Ids, Journal, Manifest, Record, StoreError, Upsert};
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesOrdered};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

use super::{
    Filter, NewPayloads, Prepared,
    budget::Budget,
    generation::Generation,
    meta::{self, same_kind},
    points::Upserted,
    set_aside::SetAside,
    shared::Shared,
};
use crate::error::CollectionError;

/// Maximum number of changes being logged.
const MAX_IN_FLIGHT: usize = 1024;
/// Maximum bytes of their vectors; a single larger change is admitted alone.
const MAX_IN_FLIGHT_BYTES: usize = 64 << 20;
/// Changes of at most this many bytes are applied on the reactor.
const MAX_INLINE_BYTES: usize = 256 << 10;
/// Bytes of rows that a compaction copies at a time, payloads as encoded.
const COPY_BYTES: usize = 1 << 20;
/// Memory for these rows, their payloads decoded.
const COPY_MEMORY: u64 = 16 * COPY_BYTES as u64;
/// The device copy is updated after this many new rows.
const UNSYNCED_ROWS: usize = 4096;

/// A request to the writer.
#[derive(Debug)]
pub(super) enum WriterRequest {
    Upsert { points: Prepared, done: oneshot::Sender<Result<Upserted, CollectionError>> },
    Delete { filter: Filter, done: oneshot::Sender<Result<u64, CollectionError>> },
    View { done: oneshot::Sender<View> },
    Close { done: oneshot::Sender<()> },
}

/// The log of the changes of a collection, as it is at the start.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// `None` if the collection is not durable, or takes no changes.
    pub(super) journal: Option<Journal>,
    /// Sequence number of the last change.
    pub(super) sequence: u64,
    /// Size of the newest checkpoint; 0 for none.
    pub(super) checkpoint_bytes: u64,
}

/// A consistent view of the points: rows of a generation, which are immutable.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) generation: Arc<Generation>,
    /// Ascending.
    pub(super) rows: Vec<u32>,
    /// Points that have no row.
    pub(super) set_aside: Arc<SetAside>,
    /// Sequence number of the last change in the view.
    pub(super) sequence: u64,
}

/// A change that is being logged.
#[derive(Debug)]
enum Change {
    Upsert {
        points: Upsert,
        payloads: NewPayloads,
        reservation: Reservation,
        done: oneshot::Sender<Result<Upserted, CollectionError>>,
    },
    Delete {
        ids: Ids,
        done: oneshot::Sender<Result<u64, CollectionError>>,
    },
}

type Logged = (Change, Result<Option<u64>, StoreError>);

/// A compaction: a new generation without the deleted rows of the old one.
#[derive(Debug)]
struct Compacted {
    fresh: Generation,
    /// The view that was compacted.
    from: View,
    /// End of the rows of that view.
    end_row: u32,
    /// Memory of the new generation until it replaces the old one.
    _reservation: Reservation,
}

/// The writer task of a collection.
pub(super) struct Writer {
    shared: Arc<Shared>,
    journal: Option<Journal>,
    /// Sequence number of the last applied change.
    sequence: u64,
    /// The kind of the ids, set by the first points.
    kind: Option<Ids>,
    pending: FuturesOrdered<BoxFuture<'static, Logged>>,
    pending_rows: usize,
    pending_fields: usize,
    pending_bytes: usize,
    /// Memory for the table growth of pending changes.
    growth: Reservation,
    checkpoint: Option<JoinHandle<Result<Manifest, StoreError>>>,
    checkpoint_bytes: u64,
    compaction: Option<JoinHandle<Compacted>>,
    unsynced_rows: usize,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, log: Log) -> Self {
        let Log { journal, sequence, checkpoint_bytes } = log;
        let generation = shared.generation();
        let kind = generation.read().kind();
        let unsynced_rows = generation.read().rows();
        let growth = shared.env.budget.empty_reservation();
        Self {
            shared,
            journal,
            sequence,
            kind,
            pending: FuturesOrdered::new(),
            pending_rows: 0,
            pending_fields: 0,
            pending_bytes: 0,
            growth,
            checkpoint: None,
            checkpoint_bytes,
            compaction: None,
            unsynced_rows,
        }
    }

    /// Runs until a `Close` job arrives or all senders are dropped.
    pub(super) async fn run(mut self, mut jobs: mpsc::Receiver<WriterRequest>) {
        self.maintain().await;
        loop {
            tokio::select! {
                biased;
                Some(logged) = self.pending.next() => {
                    self.apply(logged).await;
                    self.maintain().await;
                }
                done = finished(&mut self.checkpoint) => self.finish_checkpoint(done),
                done = finished(&mut self.compaction) => self.finish_compaction(done).await,
                job = jobs.recv(), if self.has_room() => match job {
                    Some(WriterRequest::Close { done }) => return self.close(done).await,
                    Some(job) => self.handle(job).await,
                    None => return self.flush().await,
                },
            }
        }
    }

    fn has_room(&self) -> bool {
        self.pending.len() < MAX_IN_FLIGHT && self.pending_bytes < MAX_IN_FLIGHT_BYTES
    }

    async fn handle(&mut self, job: WriterRequest) {
        match job {
            WriterRequest::Upsert { points, done } => match self.check(&points) {
                Ok(()) => self.log_upsert(points, done),
                Err(error) => _ = done.send(Err(error)),
            },
            WriterRequest::Delete { filter, done } => {
                let ids = self.ids_to_delete(filter).await;
                self.log_delete(ids, done);
            }
            WriterRequest::View { done } => {
                self.flush().await;
                _ = done.send(self.view());
            }
            WriterRequest::Close { done } => _ = done.send(()),
        }
    }

    /// Checks the conditions that depend on earlier changes: the kind of the ids, the number of rows, and memory for table growth.
    fn check(&mut self, points: &Prepared) -> Result<(), CollectionError> {
        if self.kind.as_ref().is_some_and(|kind| !same_kind(kind, &points.ids)) {
            let (expected, got) = match &points.ids {
                Ids::Numbers(_) => ("UUIDs", "numbers"),
                Ids::Uuids(_) => ("numbers", "UUIDs"),
            };
            return Err(CollectionError::invalid("ids", format!("the collection's ids are {expected}, got {got}")));
        }
        let rows = self.shared.generation().read().rows() + self.pending_rows + points.ids.len();
        if u32::try_from(rows).is_err() {
            let reason = format!("the collection would have {rows} rows, expected at most {}", u32::MAX);
            return Err(CollectionError::Exhausted(reason));
        }
        let fields = self.pending_fields + points.payloads.field_count();
        let growth = self.shared.generation().growth_bytes(self.pending_rows + points.ids.len(), fields);
        self.growth.try_resize(growth)?;
        self.kind = Some(match &points.ids {
            Ids::Numbers(_) => Ids::Numbers(vec![]),
            Ids::Uuids(_) => Ids::Uuids(vec![]),
        });
        Ok(())
    }

    fn log_upsert(&mut self, points: Prepared, done: oneshot::Sender<Result<Upserted, CollectionError>>) {
        let Prepared { ids, vectors, payloads, reservation } = points;
        self.pending_rows += ids.len();
        self.pending_fields += payloads.field_count();
        self.pending_bytes += vectors.bytes().len();
        // Only the log needs encoded payloads.
        let encoded = if self.journal.is_some() { payloads.encoded() } else { vec![] };
        let points = Upsert { ids, dim: self.shared.meta.dim, vectors: vectors.bytes().clone(), payloads: encoded };
        let record = Record::Upsert(points);
        let logged = self.log(&record);
        let Record::Upsert(points) = record else { unreachable!("assigned above") };
        let change = Change::Upsert { points, payloads, reservation, done };
        self.pending.push_back(logged.map(|result| (change, result)).boxed());
    }

    fn log_delete(&mut self, ids: Ids, done: oneshot::Sender<Result<u64, CollectionError>>) {
        if ids.is_empty() {
            _ = done.send(Ok(0));
            return;
        }
        let record = Record::Delete(ids);
        let logged = self.log(&record);
        let Record::Delete(ids) = record else { unreachable!("assigned above") };
        self.pending.push_back(logged.map(|result| (Change::Delete { ids, done }, result)).boxed());
    }

    /// Resolves when the record is on disk, or at once without a log.
    fn log(&self, record: &Record) -> BoxFuture<'static, Result<Option<u64>, StoreError>> {
        match &self.journal {
            Some(journal) => journal.append(record).map(|done| done.map(|done| Some(done.sequence))).boxed(),
            None => ready(Ok(None)).boxed(),
        }
    }

    /// Ids of the points that match a filter once all earlier changes are applied.
    async fn ids_to_delete(&mut self, filter: Filter) -> Ids {
        if let Some(ids) = filter.only_ids() {
            return ids.clone();
        }
        self.flush().await;
        let shared = Arc::clone(&self.shared);
        let generation = self.shared.generation();
        let select = move || {
            shared.prepare(&generation, &filter);
            let points = generation.read();
            points.ids_of(&filter.rows(&points, generation.indexes()))
        };
        tokio::task::spawn_blocking(select).await.unwrap_or_else(|_| Ids::Numbers(vec![]))
    }

    async fn flush(&mut self) {
        while let Some(logged) = self.pending.next().await {
            self.apply(logged).await;
        }
    }

    /// Applies a logged change and replies to its caller.
    async fn apply(&mut self, (change, logged): Logged) {
        if let Change::Upsert { points, payloads, .. } = &change {
            self.pending_rows -= points.ids.len();
            self.pending_fields -= payloads.field_count();
            self.pending_bytes -= points.vectors.len();
        }
        match logged {
            Ok(sequence) => self.sequence = sequence.unwrap_or(self.sequence + 1),
            Err(error) => return self.fail(change, error),
        }
        let guard = self.shared.applying.lock().await;
        let generation = self.shared.generation();
        let dim = self.shared.meta.dim as usize;
        match change {
            Change::Upsert { points, payloads, mut reservation, done } => {
                self.unsynced_rows += points.ids.len();
                let large = points.vectors.len() > MAX_INLINE_BYTES || generation.text_index().is_some();
                let work = move || {
                    let vectors = Matrix::from_bytes(points.ids.len(), dim, points.vectors);
                    generation.upsert(
                        &points.ids,
                        &vectors.expect("the bytes came from a matrix of this shape"),
                        payloads.all(),
                    )
                };
                let upserted = maybe_blocking(large, work).await;
                drop(guard);
                let growth = self.shared.generation().growth_bytes(self.pending_rows, self.pending_fields);
                self.shared.recount_with([(&mut reservation, 0), (&mut self.growth, growth)]);
                _ = done.send(upserted);
            }
            Change::Delete { ids, done } => {
                let large = ids.len() > MAX_INLINE_BYTES / 16;
                let deleted = maybe_blocking(large, move || generation.delete(&ids)).await;
                drop(guard);
                _ = done.send(deleted);
            }
        }
    }

    fn fail(&mut self, change: Change, error: StoreError) {
        // If nothing was written, the next points may have ids of the other kind.
        if self.pending.is_empty() {
            self.kind = self.shared.generation().read().kind();
        }
        match change {
            Change::Upsert { done, .. } => _ = done.send(Err(error.into())),
            Change::Delete { done, .. } => _ = done.send(Err(error.into())),
        }
    }

    fn view(&self) -> View {
        let generation = self.shared.generation();
        let (rows, set_aside) = {
            let points = generation.read();
            (points.live_rows().collect(), Arc::clone(&points.set_aside))
        };
        View { generation, rows, set_aside, sequence: self.sequence }
    }

    async fn close(mut self, done: oneshot::Sender<()>) {
        self.flush().await;
        if let Some(checkpoint) = self.checkpoint.take() {
            let _ = checkpoint.await;
        }
        drop(self);
        _ = done.send(());
    }

    /// Updates the device copy, compacts and checkpoints, each when due.
    async fn maintain(&mut self) {
        if self.unsynced_rows >= UNSYNCED_ROWS {
            self.unsynced_rows = 0;
            self.sync_device(&self.shared.generation());
        }
        if self.compaction.is_none() && self.needs_compaction() {
            self.start_compaction();
        }
        let limit = self.shared.env.settings.wal_limit.max(self.checkpoint_bytes / 2);
        if self.checkpoint.is_none() && self.journal.as_ref().is_some_and(|journal| journal.bytes() > limit) {
            self.start_checkpoint().await;
        }
    }

    /// Starts a compaction if the budget has memory for the copy; otherwise the next change retries.
    fn start_compaction(&mut self) {
        let generation = self.shared.generation();
        let (points, rows) = generation.counts();
        let live = points as f64 / rows.max(1) as f64;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a fraction of a size in memory")]
        let bytes = (generation.row_bytes() as f64 * live) as u64;
        let budget = Arc::clone(&self.shared.env.budget);
        match budget.reserve(bytes + COPY_MEMORY) {
            Ok(reservation) => {
                let meta = self.shared.meta.clone();
                let from = self.view();
                let build = move || Compacted::build(&meta, from, &budget, reservation);
                self.compaction = Some(tokio::task::spawn_blocking(build));
            }
            Err(error) => tracing::debug!(collection = self.shared.meta.name, %error, "no memory to compact"),
        }
    }

    /// Updates the device copy in the background, by a search without queries.
    fn sync_device(&self, generation: &Generation) {
        let corpus = Arc::clone(&generation.corpus);
        if corpus.device() == DeviceId::Cpu {
            return;
        }
        let Ok(queries) = Matrix::from_vec(0, corpus.dim(), vec![]) else { return };
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            let request = SearchRequest { corpus, queries, k: 1, threshold: None, selection: Selection::All };
            let context = Context { priority: Priority::Low, ..Context::default() };
            if let Err(error) = shared.submit(request, context).await {
                tracing::debug!(collection = shared.meta.name, %error, "could not update the device copy");
            }
        });
    }

    fn needs_compaction(&self) -> bool {
        let (points, rows) = self.shared.generation().counts();
        let deleted = rows - points;
        let settings = &self.shared.env.settings;
        rows >= settings.compact_rows && deleted as f64 > rows as f64 * settings.compact_share
    }

    /// Applies the changes since the compaction's view and swaps the new generation in.
    async fn finish_compaction(&mut self, done: Option<Compacted>) {
        let Some(compacted) = done else { return };
        let guard = self.shared.applying.lock().await;
        let old = self.shared.generation();
        let (points, rows) = old.counts();
        let fresh = maybe_blocking(true, move || compacted.catch_up(&old)).await;
        if let Ok(fresh) = fresh {
            self.shared.swap(Arc::new(fresh));
            tracing::info!(collection = self.shared.meta.name, dropped = rows - points, "compacted");
        }
        drop(guard);
        self.shared.recount();
        self.unsynced_rows = 0;
        self.sync_device(&self.shared.generation());
    }

    /// Starts a checkpoint of every change so far; later changes go to a new log file.
    async fn start_checkpoint(&mut self) {
        self.flush().await;
        let Some(journal) = &self.journal else { return };
        if let Err(error) = journal.rotate().await {
            tracing::error!(collection = self.shared.meta.name, %error, "the log could not be rotated");
            return;
        }
        let shared = Arc::clone(&self.shared);
        let view = self.view();
        self.checkpoint = Some(tokio::spawn(async move {
            let _memory = shared.env.working_memory.chunk().await;
            let writing = Arc::clone(&shared);
            let written = tokio::task::spawn_blocking(move || write_checkpoint(&writing, &view)).await;
            written.unwrap_or(Err(StoreError::Closed))
        }));
    }

    fn finish_checkpoint(&mut self, done: Option<Result<Manifest, StoreError>>) {
        let collection = &self.shared.meta.name;
        match done {
            Some(Ok(manifest)) => self.checkpoint_bytes = manifest.size_bytes,
            Some(Err(error)) => tracing::error!(collection, %error, "a checkpoint failed; the log is kept"),
            None => tracing::error!(collection, "a checkpoint was aborted; the log is kept"),
        }
    }
}

impl View {
    /// Splits the rows into chunks of about `bytes`, payloads included.
    pub(super) fn chunks(&self, bytes: usize) -> impl Iterator<Item = &[u32]> {
        let mut rest = &self.rows[..];
        std::iter::from_fn(move || {
            let count = self.generation.chunk_len(rest, bytes);
            let chunk;
            (chunk, rest) = rest.split_at(count);
            (!chunk.is_empty()).then_some(chunk)
        })
    }
}

impl Compacted {
    fn build(meta: &CollectionMeta, from: View, budget: &Budget, reservation: Reservation) -> Self {
        let fresh = meta::new_generation(meta, from.generation.corpus.device(), budget);
        let end_row = from.rows.last().map_or(0, |row| row + 1);
        for rows in from.chunks(COPY_BYTES) {
            fresh.add(&from.generation, rows);
        }
        Self { fresh, from, end_row, _reservation: reservation }
    }

    /// Applies the deletions and insertions since the compaction's view.
    fn catch_up(self, old: &Generation) -> Generation {
        let Self { fresh, from, end_row, .. } = self;
        let (deleted, new) = {
            let points = old.read();
            let deleted: Vec<_> = from.rows.iter().copied().filter(|row| !points.is_live(*row)).collect();
            let new: Vec<_> = points.live_rows().skip_while(|row| *row < end_row).collect();
            (points.ids_of(&deleted), new)
        };
        fresh.delete(&deleted);
        for rows in (View { rows: new, ..from }).chunks(COPY_BYTES) {
            fresh.add(old, rows);
        }
        fresh.share_set_aside(old);
        fresh
    }
}

impl Generation {
    /// Copies rows from another generation.
    fn add(&self, from: &Self, rows: &[u32]) {
        let (ids, vectors, payloads) = from.copy(rows);
        self.upsert(&ids, &vectors, &payloads);
    }
}

fn write_checkpoint(shared: &Shared, view: &View) -> Result<Manifest, StoreError> {
    let store = shared.env.store.as_ref().ok_or(StoreError::Closed)?;
    let started = Instant::now();
    let mut writer = store.checkpoint(&shared.current_meta(), view.sequence)?;
    for rows in view.chunks(CHUNK_BYTES) {
        writer.push(&view.generation.export(rows))?;
    }
    // Recovery sets them aside again.
    for points in view.set_aside.chunks(shared.meta.dim, CHUNK_BYTES) {
        writer.push(&points)?;
    }
    let manifest = writer.finish()?;
    store.retire(&manifest)?;
    let points = manifest.point_count;
    let bytes = manifest.size_bytes;
    tracing::info!(collection = shared.meta.name, points, bytes, elapsed = ?started.elapsed(), "checkpoint written");
    Ok(manifest)
}

/// Awaits the task in a slot and clears the slot; never resolves if the slot is empty. `None` if the task failed.
async fn finished<T>(slot: &mut Option<JoinHandle<T>>) -> Option<T> {
    let Some(task) = slot else { return std::future::pending().await };
    let result = task.await.ok();
    *slot = None;
    result
}

async fn maybe_blocking<T: Send + 'static>(
    large: bool,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, CollectionError> {
    if large { super::blocking(move || Ok(work())).await } else { Ok(work()) }
}

#[cfg(test)]
mod tests {
    use accelerd_store::{Metric, Storage};
    use proptest::prelude::*;

    use super::{
        super::generation::tests::{contents, generation, write},
        *,
    };

    fn meta() -> CollectionMeta {
        CollectionMeta {
            format: CollectionMeta::FORMAT,
            name: "c".into(),
            dim: 2,
            metric: Metric::Dot,
            storage: Storage::F32,
            model: String::new(),
            model_digest: String::new(),
            prompts: None,
            text_field: String::new(),
            owner: String::new(),
            durable: false,
            create_time_ms: 0,
        }
    }

    fn change(generation: &Generation, ids: &[u64], stamp: i64) {
        if stamp % 4 == 0 {
            generation.delete(&Ids::Numbers(ids.to_vec()));
        } else {
            write(generation, ids, stamp);
        }
    }

    fn sorted(mut contents: Vec<(u64, i64)>) -> Vec<(u64, i64)> {
        contents.sort_unstable();
        contents
    }

    proptest! {
        #[test]
        fn compaction_keeps_every_point_under_concurrent_writes(
            before in proptest::collection::vec(proptest::collection::btree_set(0..12u64, 1..5), 1..12),
            during in proptest::collection::vec(proptest::collection::btree_set(0..12u64, 1..5), 0..8),
        ) {
            let old = Arc::new(generation());
            let apply = |list: &[std::collections::BTreeSet<u64>], first: i64| {
                for (stamp, ids) in (first..).zip(list) {
                    change(&old, &ids.iter().copied().collect::<Vec<_>>(), stamp);
                }
            };
            apply(&before, 1);
            let rows: Vec<_> = old.read().live_rows().collect();
            let order = contents(&old);
            let view = View { generation: Arc::clone(&old), rows, set_aside: Arc::default(), sequence: 0 };
            let budget = Budget::standalone(0);
            let compacted = Compacted::build(&meta(), view, &budget, budget.empty_reservation());
            prop_assert_eq!(&contents(&compacted.fresh), &order, "compaction keeps the order of the rows");
            apply(&during, 100);
            let fresh = compacted.catch_up(&old);
            prop_assert_eq!(sorted(contents(&fresh)), sorted(contents(&old)));
            prop_assert_eq!(fresh.read().live_rows().map(|row| fresh.read().id(row)).collect::<Vec<_>>(),
                old.read().live_rows().map(|row| old.read().id(row)).collect::<Vec<_>>());
        }
    }
}
