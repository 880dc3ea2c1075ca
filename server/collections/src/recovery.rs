//! Recovery of the durable collections at the start: several at once, and each on several threads.

use std::{
    cell::Cell,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use accelerd_store::{CollectionMeta, Damage, Helper, Progress, Recovered, ReplayHooks, StoreError};

use super::{
    Collection, Collections, Slot,
    generation::Generation,
    meta::{self, Decoded},
    row_sink::RowQueue,
    snapshot::required_bytes,
    working_memory::ChunkMemory,
    writer::Log,
};
use crate::error::CollectionError;

/// Maximum number of collections that are recovered at once.
const AT_ONCE: usize = 8;
/// Bytes recovered between two checks of the memory limit.
const STEP_BYTES: usize = 1 << 20;
/// Time between two log lines of a recovery.
const LOG_INTERVAL: Duration = Duration::from_secs(5);

/// The progress of a recovery.
#[derive(Debug, Default)]
pub struct RecoveryProgress {
    done_bytes: AtomicU64,
    total_bytes: AtomicU64,
    points: AtomicU64,
}

impl RecoveryProgress {
    /// Bytes of checkpoints and logs that were replayed.
    pub fn done_bytes(&self) -> u64 {
        self.done_bytes.load(Relaxed)
    }

    /// Bytes of all checkpoints and logs.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes.load(Relaxed)
    }

    /// Points that were replayed, replaced ones included.
    pub fn points(&self) -> u64 {
        self.points.load(Relaxed)
    }
}

/// An error of recovery.
#[derive(Debug, thiserror::Error)]
enum RecoveryError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Full(CollectionError),
}

impl From<RecoveryError> for Slot {
    fn from(error: RecoveryError) -> Self {
        match error {
            RecoveryError::Store(error) => Self::Damaged(error.public()),
            RecoveryError::Full(error) => Self::TooLarge(format!("the collection was not recovered: {error}")),
        }
    }
}

/// Threads that may help to recover collections.
#[derive(Debug)]
struct Helpers(Arc<AtomicUsize>);

/// A thread that helps, and its memory.
struct Helping {
    left: Arc<AtomicUsize>,
    _memory: ChunkMemory,
}

impl Drop for Helping {
    fn drop(&mut self) {
        self.left.fetch_add(1, Relaxed);
    }
}

impl Helpers {
    fn new(threads: usize) -> Self {
        let cores = || thread::available_parallelism().map_or(1, usize::from);
        let threads = if threads == 0 { cores() } else { threads };
        Self(Arc::new(AtomicUsize::new(threads - 1)))
    }

    /// One more thread, if there is one and memory for it.
    fn take(&self, collections: &Collections) -> Option<Helper> {
        self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).ok()?;
        let Some(memory) = collections.env.working_memory.try_more() else {
            self.0.fetch_add(1, Relaxed);
            return None;
        };
        Some(Box::new(Helping { left: Arc::clone(&self.0), _memory: memory }))
    }
}

/// Recovers all collections, in parallel as far as there is memory. Blocking.
pub(super) fn recover_all(collections: &Collections, mut found: Vec<Recovered>) {
    // The largest first, so that the last thread does not begin with it.
    found.sort_by_cached_key(Recovered::size_bytes);
    let progress = &collections.env.settings.recovery_progress;
    progress.total_bytes.store(found.iter().map(Recovered::size_bytes).sum(), Relaxed);
    let more = || collections.env.working_memory.try_more();
    let memory: Vec<_> = (1..AT_ONCE.min(found.len())).map_while(|_| more()).collect();
    let helpers = Helpers::new(collections.env.settings.recovery_threads);
    let queue = Mutex::new(found);
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let recover = || std::iter::from_fn(next).for_each(|found| recover_slot(collections, &helpers, found));
    thread::scope(|scope| {
        for _ in &memory {
            scope.spawn(recover);
        }
        recover();
    });
    // Not all of the bytes are read: a log may have a torn tail, a collection may be too large.
    progress.done_bytes.store(progress.total_bytes(), Relaxed);
}

fn recover_slot(collections: &Collections, helpers: &Helpers, found: Recovered) {
    let name = found.name.clone();
    let slot = match recover(collections, helpers, found) {
        Ok(collection) => Slot::Ready(Arc::new(collection)),
        Err(error) => {
            tracing::error!(collection = name, %error, "recovery of a collection failed; its files are unchanged");
            error.into()
        }
    };
    collections.write().insert(name, slot);
}

/// Recovers a collection from disk. Blocking.
fn recover(collections: &Collections, helpers: &Helpers, found: Recovered) -> Result<Collection, RecoveryError> {
    let env = &collections.env;
    let meta = found.meta.clone()?;
    let generation = meta::new_generation(&meta, collections.pick_device(), &env.budget);
    let started = Instant::now();
    let mut held = env.budget.empty_reservation();
    let mut unseen = 0;
    let watch = Watch::new(&meta, &generation, &env.settings.recovery_progress);
    let hooks = ReplayHooks { helper: &|| helpers.take(collections), progress: &|now| watch.advance(now) };
    let decode = |record| meta::decode(&meta, record);
    // Rows are appended on one thread while this one indexes their ids.
    let replayed = thread::scope(|scope| {
        let (rows, changes) = RowQueue::new();
        let corpus = &generation.corpus;
        scope.spawn(move || changes.apply(corpus));
        found.replay(hooks, decode, |record| {
            if let Decoded::Upsert { points, .. } = &record {
                env.settings.recovery_progress.points.fetch_add(points.ids.len() as u64, Relaxed);
                unseen += points.vectors.len() + points.payloads.iter().map(bytes::Bytes::len).sum::<usize>();
                if unseen > STEP_BYTES {
                    unseen = 0;
                    let required = required_bytes(&generation, points);
                    held.try_resize(required).map_err(|refusal| RecoveryError::Full(refusal.into()))?;
                }
            }
            let damaged = |reason| StoreError::Damaged { file: format!("the log of {:?}", meta.name), reason };
            Ok::<_, RecoveryError>(generation.replay(&rows, record).map_err(damaged)?)
        })
    })?;
    held.try_resize(generation.row_bytes()).map_err(|refusal| RecoveryError::Full(refusal.into()))?;
    log_outcome(&meta, &generation, &replayed.damage, started.elapsed());
    let log =
        Log { journal: replayed.journal, sequence: replayed.sequence, checkpoint_bytes: replayed.checkpoint_bytes };
    let recovered = Collection::start(Arc::clone(env), meta, generation, log, replayed.damage);
    drop(held);
    Ok(recovered)
}

/// Follows the recovery of a collection.
struct Watch<'a> {
    meta: &'a CollectionMeta,
    generation: &'a Generation,
    total: &'a RecoveryProgress,
    before: Cell<Progress>,
    logged: Cell<Instant>,
}

impl<'a> Watch<'a> {
    fn new(meta: &'a CollectionMeta, generation: &'a Generation, total: &'a RecoveryProgress) -> Self {
        Self { meta, generation, total, before: Cell::default(), logged: Cell::new(Instant::now()) }
    }

    fn advance(&self, now: Progress) {
        let before = self.before.replace(now);
        self.total.done_bytes.fetch_add(now.done_bytes - before.done_bytes, Relaxed);
        if self.logged.get().elapsed() > LOG_INTERVAL {
            self.logged.set(Instant::now());
            let Progress { done_bytes, total_bytes } = now;
            let points = self.generation.read().count();
            tracing::info!(collection = self.meta.name, points, done_bytes, total_bytes, "recovering");
        }
    }
}

fn log_outcome(meta: &CollectionMeta, generation: &Generation, damage: &Damage, elapsed: Duration) {
    let collection = &meta.name;
    let points = generation.read().count();
    tracing::info!(collection, points, ?elapsed, "recovered");
    if !damage.is_empty() {
        let places = damage.count();
        tracing::error!(collection, points, places, "files of the collection are damaged: it is read-only");
    }
    let set_aside = Arc::clone(&generation.read().set_aside);
    if !set_aside.is_empty() {
        let points = set_aside.len();
        let ids = set_aside.ids(10);
        tracing::warn!(collection, points, ?ids, "points whose vectors have NaN or infinity are set aside");
    }
}
