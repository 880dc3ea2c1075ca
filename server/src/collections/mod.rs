//! Named collections: ids and payloads over a resident corpus, kept on disk when durable.
//!
//! # Order and visibility
//!
//! Each collection has one writer task. Changes reach it in the order of arrival, are logged (durable ones), applied in
//! log order once they are on disk, and answered after that: a search that starts after the answer sees the change.
//!
//! A search does not stop writers. It sees some state between its start and its end, point by point: of a point that is
//! replaced meanwhile the old row or the new one, never neither and never both. Rows are appended before those they
//! replace are killed, and which point a row is never changes within a generation, so the one doubtful case is seeing
//! both, or a filter that was evaluated before the replacement and searched after it. Both are noticed afterwards, and
//! the search runs once more while the writer waits.
//!
//! When too many rows are dead, a new generation is built beside the old one and swapped in; searches under way finish
//! on the generation they started with.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockWriteGuard},
    thread,
    time::{Duration, Instant},
};

use accelerd_engine::Lane;
use accelerd_kernels::{DeviceId, ops::similarity::Search};
use accelerd_store::{CollectionMeta, Fsync, Metric, Record, Recovered, Storage, Store, StoreError};
use futures::{StreamExt as _, stream};
use tokio::runtime::Handle;

use crate::{embedder::Embedder, error::ApiError};

mod budget;
mod cluster;
mod collection;
pub(crate) mod columns;
mod filter;
mod given;
mod hybrid;
mod index;
mod meta;
mod order;
mod payload;
mod points;
mod scroll;
mod search;
mod snapshot;
#[cfg(test)]
mod tests;
mod words;
mod writer;

pub(crate) use cluster::check_clusters;
pub use collection::{Collection, Description, Fetched, NewPoints, Prepared, Vectors};
pub use columns::PayloadColumns;
pub use filter::Filter;
pub use given::NewPayloads;
pub use hybrid::{Fusion, Hybrid};
pub use points::{PointId, Upserted};
pub(crate) use scroll::MAX_PAGE;
pub use scroll::{Page, PageSpec};
pub use search::{Found, Query, SearchSpec};
pub use snapshot::Snapshot;

use budget::Budget;
use collection::Shared;
use words::WordsError;

/// Most threads that read collections back. They wait for the disk more than they compute.
const RECOVERY_THREADS: usize = 8;
/// Collections that are closed at once.
const CLOSING: usize = 64;
/// Bytes read back between two looks at the memory that is left.
const RECOVERY_STEP: usize = 1 << 20;

/// Settings of the collections.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Folder of durable collections; `None` keeps all in memory only.
    pub data_dir: Option<PathBuf>,
    /// When a durable write is answered.
    pub fsync: Fsync,
    /// A log of at least this size is folded into a checkpoint.
    pub wal_limit: u64,
    /// Threads that write logs.
    pub writer_threads: usize,
    /// Log files that are kept open.
    pub open_logs: usize,
    /// Most host memory for all collections; 0 means no cap.
    pub memory_limit: u64,
    /// Folder in an object store for snapshots that name none; empty for none.
    pub snapshot_url: String,
    /// Folders that callers may name for snapshots, with all below them, besides that one.
    pub snapshot_folders: Vec<String>,
    /// Options of the object store, as in `aws_region`.
    pub object_options: Vec<(String, String)>,
    /// Most dimensions of a vector.
    pub max_dimensions: u32,
    /// Most bytes of one payload, encoded.
    pub max_payload_bytes: usize,
    /// Most bytes of an upsert's payloads together, encoded as messages.
    pub max_upsert_bytes: usize,
    /// Most collections at once.
    pub max_collections: usize,
    /// Compacts where more than this share of the rows is dead.
    pub compact_share: f64,
    /// Never compacts fewer rows than this.
    pub compact_rows: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            data_dir: None,
            fsync: Fsync::Always,
            wal_limit: 256 << 20,
            writer_threads: 8,
            open_logs: 256,
            memory_limit: 0,
            snapshot_url: String::new(),
            snapshot_folders: vec![],
            object_options: vec![],
            max_dimensions: 8192,
            max_payload_bytes: 64 << 10,
            max_upsert_bytes: 64 << 20,
            max_collections: 1024,
            compact_share: 0.3,
            compact_rows: 4096,
        }
    }
}

/// All collections of the daemon.
#[derive(Debug)]
pub struct Collections {
    env: Arc<Env>,
    slots: RwLock<BTreeMap<String, Slot>>,
}

/// What stands under a name.
#[derive(Clone, Debug)]
enum Slot {
    /// Being made or dropped.
    Busy,
    /// Serving.
    Ready(Arc<Collection>),
    /// Not to be read back, and why.
    Damaged(String),
    /// Kept on disk, since there is no memory for it.
    TooLarge(String),
}

/// Why a collection was not read back.
#[derive(Debug, thiserror::Error)]
enum Unread {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Full(ApiError),
}

impl From<Unread> for Slot {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Store(error) => Self::Damaged(error.public()),
            Unread::Full(error) => Self::TooLarge(format!("the collection was not read back from disk: {error}")),
        }
    }
}

/// A collection to make.
#[derive(Clone, Debug)]
pub struct NewCollection {
    /// Its name.
    pub name: String,
    /// Dimensions; 0 takes the model's.
    pub dimensions: u32,
    /// How rows are compared.
    pub metric: Metric,
    /// Precision of the scanned copy.
    pub storage: Storage,
    /// Model that embeds texts for it; empty for none.
    pub model: String,
    /// Payload field whose words are searched, too; empty for none.
    pub text_field: String,
    /// Whether it has a log.
    pub durable: bool,
}

/// What every collection needs.
struct Env {
    settings: Settings,
    search: Lane<Search>,
    embedder: Embedder,
    budget: Arc<Budget>,
    devices: Vec<DeviceId>,
    lost: Mutex<Vec<DeviceId>>,
    store: Option<Store>,
    /// Writers outlive the connection that made their collection.
    runtime: Handle,
}

impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Env").field("settings", &self.settings).field("devices", &self.devices).finish_non_exhaustive()
    }
}

impl Collections {
    /// Opens the data folder and reads back what is in it. Blocking, and within a runtime, which gets the writers.
    pub fn open(
        settings: Settings,
        devices: Vec<DeviceId>,
        search: Lane<Search>,
        embedder: Embedder,
    ) -> Result<Arc<Self>, StoreError> {
        let (store, found) = match &settings.data_dir {
            Some(dir) => Store::open(dir, settings.store_options()).map(|(store, found)| (Some(store), found))?,
            None => (None, vec![]),
        };
        let budget = Budget::new(settings.memory_limit);
        let (lost, runtime) = (Mutex::default(), Handle::current());
        let env = Arc::new(Env { settings, search, embedder, budget, devices, lost, store, runtime });
        let this = Arc::new(Self { env, slots: RwLock::default() });
        this.recover_all(found);
        if let Some(store) = &this.env.store {
            store.record_ends();
        }
        Ok(this)
    }

    /// Reads all collections back, some at a time. Blocking.
    fn recover_all(&self, found: Vec<Recovered>) {
        let threads = RECOVERY_THREADS.min(found.len());
        let queue = Mutex::new(found.into_iter());
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(|| std::iter::from_fn(next).for_each(|found| self.recover_slot(found)));
            }
            std::iter::from_fn(next).for_each(|found| self.recover_slot(found));
        });
    }

    fn recover_slot(&self, found: Recovered) {
        let name = found.name.clone();
        let slot = match self.recover(found) {
            Ok(collection) => Slot::Ready(Arc::new(collection)),
            Err(error) => {
                tracing::error!(collection = name, %error, "a collection cannot be read back; it is kept as it is");
                error.into()
            }
        };
        self.write().insert(name, slot);
    }

    /// Points, and bytes in host memory and on devices, of all collections.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for collection in self.list() {
            let collection = collection.describe();
            totals.collections += 1;
            totals.points += collection.points;
            totals.host_bytes += collection.host_bytes;
            totals.device_bytes += collection.device_bytes;
        }
        (totals.held_bytes, totals.limit_bytes) = self.env.budget.now();
        totals
    }

    /// The collection of this name.
    pub fn get(&self, name: &str) -> Result<Arc<Collection>, ApiError> {
        match self.slots.read().unwrap_or_else(PoisonError::into_inner).get(name) {
            Some(Slot::Ready(collection)) => Ok(Arc::clone(collection)),
            Some(Slot::Damaged(reason)) => Err(ApiError::DataLoss(reason.clone())),
            Some(Slot::TooLarge(reason)) => Err(ApiError::Exhausted(reason.clone())),
            Some(Slot::Busy) | None => Err(not_found(name)),
        }
    }

    /// Every collection that serves, by name.
    pub fn list(&self) -> Vec<Arc<Collection>> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        let ready = |slot: &Slot| match slot {
            Slot::Ready(collection) => Some(Arc::clone(collection)),
            Slot::Busy | Slot::Damaged(_) | Slot::TooLarge(_) => None,
        };
        slots.values().filter_map(ready).collect()
    }

    /// Makes an empty collection.
    pub async fn create(self: &Arc<Self>, spec: NewCollection) -> Result<Arc<Collection>, ApiError> {
        let meta = self.env.check_new(spec)?;
        let reserved = self.reserve(&meta.name)?;
        let home = self.pick_home();
        let env = Arc::clone(&self.env);
        // Finished even where the caller goes away, so that disk and memory agree.
        let made = self.env.runtime.spawn_blocking(move || {
            let journal = match &env.store {
                Some(store) if meta.durable => Some(store.create(&meta)?),
                Some(_) | None => None,
            };
            let generation = meta::generation(&meta, home);
            Ok(reserved.fill(Collection::start(env, meta, generation, journal, 0, 0)))
        });
        made.await.unwrap_or_else(|error| Err(stopped(&error)))
    }

    /// Drops a collection with all that is kept of it here; snapshots in object stores stay.
    pub async fn delete(self: &Arc<Self>, name: &str) -> Result<(), ApiError> {
        let old = {
            let mut slots = self.write();
            match slots.get_mut(name) {
                None | Some(Slot::Busy) => return Err(not_found(name)),
                Some(slot) => std::mem::replace(slot, Slot::Busy),
            }
        };
        let reserved = Reserved { collections: Arc::clone(self), name: name.to_owned(), back: Some(old.clone()) };
        let env = Arc::clone(&self.env);
        let dropped = self.env.runtime.spawn(async move {
            let durable = match &old {
                Slot::Ready(collection) => {
                    collection.close().await;
                    collection.meta().durable
                }
                Slot::Damaged(_) | Slot::TooLarge(_) | Slot::Busy => true,
            };
            blocking(move || reserved.drop_from(&env, durable)).await
        });
        dropped.await.unwrap_or_else(|error| Err(stopped(&error)))
    }

    /// Finishes what was handed to the writers, ends them, and lets go of the data folder. The last step of a drain.
    pub async fn close(&self) {
        let slots = std::mem::take(&mut *self.write());
        let ready = slots.into_values().filter_map(|slot| match slot {
            Slot::Ready(collection) => Some(collection),
            Slot::Busy | Slot::Damaged(_) | Slot::TooLarge(_) => None,
        });
        stream::iter(ready).for_each_concurrent(CLOSING, |collection| async move { collection.close().await }).await;
        if let Some(store) = &self.env.store {
            store.release();
        }
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Slot>> {
        self.slots.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a name, so that only one call makes a collection under it.
    fn reserve(self: &Arc<Self>, name: &str) -> Result<Reserved, ApiError> {
        let mut slots = self.write();
        if slots.contains_key(name) {
            return Err(ApiError::AlreadyExists { kind: "collection", name: name.to_owned() });
        }
        let most = self.env.settings.max_collections;
        if slots.len() >= most {
            return Err(ApiError::Exhausted(format!("there are {} collections, at most {most} may be", slots.len())));
        }
        slots.insert(name.to_owned(), Slot::Busy);
        Ok(Reserved { collections: Arc::clone(self), name: name.to_owned(), back: None })
    }

    /// The GPU with the fewest bytes of collections, or the CPU.
    fn pick_home(&self) -> DeviceId {
        let lost = self.env.lost.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let usable = |id: &&DeviceId| matches!(id, DeviceId::Cuda(_)) && !lost.contains(id);
        let collections = self.list();
        let held = |id: &DeviceId| -> u64 {
            let there = collections.iter().filter(|collection| collection.home() == *id);
            there.map(|collection| collection.vector_bytes()).sum()
        };
        let gpus = self.env.devices.iter().filter(usable);
        gpus.min_by_key(|id| held(id)).copied().unwrap_or(DeviceId::Cpu)
    }

    /// Reads one collection back from disk. Blocking.
    fn recover(&self, found: Recovered) -> Result<Collection, Unread> {
        let meta = found.meta.clone()?;
        let generation = meta::generation(&meta, self.pick_home());
        let (started, mut logged, mut records) = (Instant::now(), Instant::now(), 0u64);
        let (mut held, mut unseen) = (self.env.budget.share(), 0);
        let replayed = found.replay(|record| {
            if let Record::Upsert(points) = &record {
                unseen += points.vectors.len() + points.payloads.iter().map(bytes::Bytes::len).sum::<usize>();
                if unseen > RECOVERY_STEP {
                    unseen = 0;
                    held.try_resize(snapshot::need(&generation, points)).map_err(Unread::Full)?;
                }
            }
            generation.replay(&meta, &record)?;
            records += 1;
            if logged.elapsed() > Duration::from_secs(5) {
                logged = Instant::now();
                tracing::info!(collection = meta.name, records, points = generation.read().count(), "reading back");
            }
            Ok::<_, Unread>(())
        })?;
        held.try_resize(generation.host_bytes()).map_err(Unread::Full)?;
        let points = generation.read().count();
        tracing::info!(collection = meta.name, points, records, elapsed = ?started.elapsed(), "read back");
        let (sequence, bytes) = (replayed.sequence, replayed.checkpoint_bytes);
        let env = Arc::clone(&self.env);
        let started = Collection::start(env, meta, generation, Some(replayed.journal), sequence, bytes);
        drop(held);
        Ok(started)
    }
}

/// What all collections hold together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// How many there are.
    pub(crate) collections: u64,
    /// Their points.
    pub(crate) points: u64,
    /// Bytes in host memory.
    pub(crate) host_bytes: u64,
    /// Bytes on devices.
    pub(crate) device_bytes: u64,
    /// Bytes of the budget in use, those of writes under way included.
    pub(crate) held_bytes: u64,
    /// Most bytes of it; 0 means no cap.
    pub(crate) limit_bytes: u64,
}

impl Settings {
    fn store_options(&self) -> accelerd_store::Options {
        let Self { fsync, writer_threads, open_logs, .. } = *self;
        accelerd_store::Options { fsync, writer_threads, open_logs }
    }
}

/// A name that is taken until its collection is there. Dropped before that, what stood there before comes back.
struct Reserved {
    collections: Arc<Collections>,
    name: String,
    back: Option<Slot>,
}

impl Reserved {
    /// Puts the collection in its place.
    fn fill(mut self, collection: Collection) -> Arc<Collection> {
        let collection = Arc::new(collection);
        self.back = Some(Slot::Ready(Arc::clone(&collection)));
        collection
    }

    /// Drops what is on disk, and then the name. Blocking.
    fn drop_from(mut self, env: &Env, durable: bool) -> Result<(), ApiError> {
        let reopened = self.back.take();
        if let (Some(store), true) = (&env.store, durable)
            && let Err(error) = store.delete(&self.name)
        {
            // Its writer is gone; it stays visible as what it is, and can be deleted again.
            let reason = format!("it could not be dropped: {}", error.public());
            self.back = reopened.map(|_| Slot::Damaged(reason));
            return Err(error.into());
        }
        Ok(())
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let mut slots = self.collections.write();
        match self.back.take() {
            Some(slot) => _ = slots.insert(self.name.clone(), slot),
            None => _ = slots.remove(&self.name),
        }
    }
}

impl Env {
    /// Checks a new collection and fills in what it leaves open.
    fn check_new(&self, spec: NewCollection) -> Result<CollectionMeta, ApiError> {
        let NewCollection { name, dimensions, metric, storage, model, text_field, durable } = spec;
        accelerd_store::check_name(&name)?;
        if durable && self.store.is_none() {
            return Err(ApiError::invalid("durable", "this daemon keeps nothing on disk: store.data_dir is not set"));
        }
        let dim = if model.is_empty() { dimensions } else { self.model_dimensions(&model, dimensions)? };
        let most = self.settings.max_dimensions;
        if dim == 0 || dim > most {
            return Err(ApiError::invalid("dimensions", format!("expected 1 to {most}, got {dim}")));
        }
        let format = CollectionMeta::FORMAT;
        let create_time_ms = meta::now_ms();
        Ok(CollectionMeta { format, name, dim, metric, storage, model, text_field, durable, create_time_ms })
    }

    fn model_dimensions(&self, model: &str, asked: u32) -> Result<u32, ApiError> {
        let model = self.embedder.embedding_model(model)?;
        let offered = model.offered_dimensions();
        match offered.first() {
            Some(all) if asked == 0 => Ok(*all),
            _ if model.offers(asked) => Ok(asked),
            _ => {
                let reason = format!("model {:?} offers {offered:?}, got {asked}", model.name());
                Err(ApiError::invalid("dimensions", reason))
            }
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let message = error.public();
        if error.is_internal() {
            tracing::warn!(%error, "the store failed a call");
        }
        match error {
            StoreError::Io { .. } if error.is_full() => Self::Exhausted(message),
            StoreError::Io { .. } | StoreError::Object { .. } | StoreError::InUse(_) | StoreError::Closed => {
                Self::Unavailable(message)
            }
            StoreError::Corrupt { .. } | StoreError::Damaged { .. } | StoreError::Format { .. } => {
                Self::DataLoss(message)
            }
            StoreError::Exists(name) => Self::AlreadyExists { kind: "collection", name },
            StoreError::Name(_) => Self::invalid("name", message),
            StoreError::TooLarge { .. } => Self::invalid("points", message),
            StoreError::Url { .. } | StoreError::Scheme { .. } | StoreError::OtherCollection { .. } => {
                Self::invalid("url", message)
            }
            StoreError::Outside(_) => Self::Denied(format!("url: {message}")),
            StoreError::NoSnapshot(name) => Self::NotFound { kind: "snapshot", name },
        }
    }
}

impl From<WordsError> for ApiError {
    fn from(error: WordsError) -> Self {
        Self::Words(error.to_string())
    }
}

fn not_found(name: &str) -> ApiError {
    ApiError::NotFound { kind: "collection", name: name.to_owned() }
}

fn stopped(error: &tokio::task::JoinError) -> ApiError {
    ApiError::Unavailable(format!("it was stopped halfway: {error}"))
}

/// Runs what may take long off the reactor.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(stopped(&error)))
}
