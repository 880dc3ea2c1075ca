//! Named collections: ids and payloads over a resident corpus, kept on disk when durable.
//!
//! The crate searches through the engine and writes through the store. It depends neither on gRPC nor on the daemon's
//! settings: payloads and filters are the protocol's messages, and [`Services`] provides its other dependencies.
//!
//! # Order and visibility
//!
//! Each collection has one writer task. It takes changes in the order of arrival, logs them if the collection is
//! durable, applies them in log order once they are on disk, and then replies: a search that starts after the reply
//! sees the change.
//!
//! A search does not block the writer. It sees each point in some state between its start and its end: of a point
//! replaced concurrently, it returns the old row or the new one, never neither and never both. Rows are appended before
//! those they replace are deleted, and a row never changes its point within a generation, so two anomalies remain: a
//! search sees both rows, or its filter was evaluated before the replacement and the corpus searched after it. Both are
//! detected afterwards, and the search runs once more while the writer is excluded.
//!
//! When too many rows are deleted, a new generation is built next to the old one and swapped in; running searches
//! finish on the generation they started with.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockWriteGuard},
};

use accelerd_kernels::{DeviceId, ledger::Ledger};
use accelerd_store::{CollectionMeta, Damage, Fsync, Metric, Prompts, Storage, Store, StoreError};
use futures::{StreamExt as _, stream};
use tokio::runtime::Handle;

mod budget;
mod cluster;
mod collection;
mod columns;
mod error;
mod filter;
mod generation;
mod hybrid;
mod ids;
mod index;
mod meta;
mod new_payloads;
mod order;
mod payload;
mod points;
mod prompt;
mod recovery;
mod row_sink;
mod scroll;
mod search;
mod services;
mod set_aside;
mod shared;
mod snapshot;
#[cfg(test)]
mod tests;
mod text_index;
mod working_memory;
mod writer;

pub use cluster::check_clusters;
pub use collection::{Collection, Description, Fetched, NewPoints, Vectors};
pub use columns::{PayloadColumns, payload_columns};
pub use error::{BoxError, CollectionError, CollectionRefusal};
pub use filter::Filter;
pub use hybrid::{Fusion, Hybrid};
pub use ids::{PointId, parse_ids};
pub use new_payloads::NewPayloads;
pub use points::Upserted;
pub use prompt::PromptChoice;
pub use recovery::RecoveryProgress;
pub use scroll::{MAX_PAGE, Page, PageSpec};
pub use search::{Found, Query, SearchSpec};
pub use services::{Services, TextEmbedder, TextOptions};
pub use shared::Prepared;
pub use snapshot::{OpenSnapshot, Snapshot};

use budget::Budget;
use text_index::{TextIndex, TextIndexError};
use working_memory::WorkingMemory;
use writer::Log;

/// Number of collections closed concurrently.
const CLOSING: usize = 64;

/// Settings of the collections.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Folder of durable collections; with `None`, collections are in memory only.
    pub data_dir: Option<PathBuf>,
    /// When a durable write is acknowledged.
    pub fsync: Fsync,
    /// A log of at least this size is folded into a checkpoint.
    pub wal_limit: u64,
    /// Threads that write logs.
    pub writer_threads: usize,
    /// Maximum number of open log files.
    pub open_logs: usize,
    /// Counts and limits the memory of all collections.
    pub ledger: Arc<Ledger>,
    /// Maximum host memory of all rows in bytes; 0 means no limit but those of the ledger.
    pub memory_limit: u64,
    /// Default folder of snapshots in an object store; empty for none.
    pub snapshot_url: String,
    /// Further folders that callers may use for snapshots, including their subfolders.
    pub snapshot_folders: Vec<String>,
    /// Options of the object store, as in `aws_region`.
    pub object_options: Vec<(String, String)>,
    /// Maximum dimensions of a vector.
    pub max_dimensions: u32,
    /// Maximum bytes of an encoded payload.
    pub max_payload_bytes: usize,
    /// Maximum total bytes of an upsert's payloads, encoded as messages.
    pub max_upsert_bytes: usize,
    /// Maximum number of collections.
    pub max_collections: usize,
    /// A collection is compacted when more than this fraction of its rows is deleted.
    pub compact_share: f64,
    /// Minimum number of rows for a compaction.
    pub compact_rows: usize,
    /// Maximum number of threads of the recovery; 0 for one for each CPU core.
    pub recovery_threads: usize,
    /// Shows the progress of the recovery.
    pub recovery_progress: Arc<RecoveryProgress>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            data_dir: None,
            fsync: Fsync::Always,
            wal_limit: 256 << 20,
            writer_threads: 8,
            open_logs: 256,
            ledger: Ledger::new(),
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
            recovery_threads: 0,
            recovery_progress: Arc::default(),
        }
    }
}

/// All collections of the daemon.
#[derive(Debug)]
pub struct Collections {
    env: Arc<Env>,
    slots: RwLock<BTreeMap<String, Slot>>,
}

/// The state of a collection name.
#[derive(Clone, Debug)]
enum Slot {
    /// Being created, restored or deleted.
    Busy,
    /// Serving.
    Ready(Arc<Collection>),
    /// Recovery failed, for this reason.
    Damaged(String),
    /// Recovery exceeded the memory limit; the collection stays on disk.
    TooLarge(String),
}

/// Parameters of a new collection.
#[derive(Clone, Debug)]
pub struct NewCollection {
    /// Unique name.
    pub name: String,
    /// Dimensions; 0 takes the model's.
    pub dimensions: u32,
    /// The similarity metric.
    pub metric: Metric,
    /// Precision of the scanned copy.
    pub storage: Storage,
    /// Model that embeds texts; empty for none.
    pub model: String,
    /// Prompt of the texts of points; by default the model's for documents.
    pub document_prompt: PromptChoice,
    /// Prompt of the texts of queries; by default the model's for queries.
    pub query_prompt: PromptChoice,
    /// Payload field with a text index; empty for none.
    pub text_field: String,
    /// Principal that creates it; empty for none.
    pub owner: String,
    /// True if changes are logged to disk; `None` means that they are if there is a data folder.
    pub durable: Option<bool>,
}

/// The environment shared by all collections.
struct Env {
    settings: Settings,
    services: Services,
    budget: Arc<Budget>,
    working_memory: WorkingMemory,
    lost: Mutex<Vec<DeviceId>>,
    store: Option<Store>,
    /// Runs the writers, which outlive the call that created them.
    runtime: Handle,
}

impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Env")
            .field("settings", &self.settings)
            .field("services", &self.services)
            .finish_non_exhaustive()
    }
}

impl Collections {
    /// Opens the data folder and recovers its collections. Blocking; must be called within a runtime, which runs the
    /// writers.
    pub fn open(settings: Settings, services: Services) -> Result<Arc<Self>, StoreError> {
        let (store, found) = match &settings.data_dir {
            Some(dir) => Store::open(dir, settings.store_options()).map(|(store, found)| (Some(store), found))?,
            None => (None, vec![]),
        };
        let budget = Budget::new(&settings.ledger, settings.memory_limit);
        let working_memory = WorkingMemory::new(budget.writers().clone());
        let lost = Mutex::default();
        let runtime = Handle::current();
        let env = Arc::new(Env { settings, services, budget, working_memory, lost, store, runtime });
        let this = Arc::new(Self { env, slots: RwLock::default() });
        recovery::recover_all(&this, found);
        if let Some(store) = &this.env.store {
            store.record_durable_offsets();
        }
        Ok(this)
    }

    /// Totals over all collections.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for collection in self.list() {
            let generation = collection.shared().generation();
            totals.text_postponed += u64::from(generation.text_index().is_some_and(TextIndex::is_postponed));
            let collection = collection.describe();
            totals.collections += 1;
            totals.points += collection.points;
            totals.host_bytes += collection.host_bytes;
            totals.device_bytes += collection.device_bytes;
            totals.read_only += u64::from(!collection.damage.is_empty());
            totals.set_aside += collection.set_aside;
        }
        (totals.held_bytes, totals.limit_bytes) = self.env.budget.usage();
        totals
    }

    /// Host memory in bytes of the collections that a principal created.
    pub fn owned_bytes(&self, owner: &str) -> u64 {
        let collections = self.list();
        let owned = collections.iter().filter(|collection| collection.meta().owner == owner);
        owned.map(|collection| collection.host_bytes()).sum()
    }

    /// Drops indexes of filters and orders of ids, the largest first, until `bytes` are dropped. Returns how many were.
    pub fn evict_indexes(&self, bytes: u64) -> u64 {
        let mut collections = self.list();
        collections.sort_by_cached_key(|collection| Reverse(collection.shared().generation().index_bytes()));
        evict_until(bytes, collections.iter().map(|collection| collection.shared().evict_indexes()))
    }

    /// Drops copies of collections on a device that no search is using, the least recently used first, until `bytes` are
    /// dropped. Returns how many were. The next search of such a collection copies it again.
    pub fn evict_device_copies(&self, device: DeviceId, bytes: u64) -> u64 {
        let mut corpora: Vec<_> =
            self.list().iter().map(|collection| Arc::clone(&collection.shared().generation().corpus)).collect();
        corpora.retain(|corpus| corpus.device() == device);
        corpora.sort_by_cached_key(|corpus| corpus.last_search());
        evict_until(bytes, corpora.iter().map(|corpus| corpus.evict_device_copy()))
    }

    /// Bytes of the copies of collections on a device.
    pub fn device_bytes(&self, device: DeviceId) -> u64 {
        let collections = self.list();
        let corpora = collections.iter().map(|collection| Arc::clone(&collection.shared().generation().corpus));
        corpora.filter(|corpus| corpus.device() == device).map(|corpus| corpus.device_bytes()).sum()
    }

    /// Returns a collection by name.
    pub fn get(&self, name: &str) -> Result<Arc<Collection>, CollectionError> {
        match self.slots.read().unwrap_or_else(PoisonError::into_inner).get(name) {
            Some(Slot::Ready(collection)) => Ok(Arc::clone(collection)),
            Some(Slot::Damaged(reason)) => Err(CollectionError::DataLoss(reason.clone())),
            Some(Slot::TooLarge(reason)) => Err(CollectionError::Exhausted(reason.clone())),
            Some(Slot::Busy) | None => Err(not_found(name)),
        }
    }

    /// All collections that are ready, ordered by name.
    pub fn list(&self) -> Vec<Arc<Collection>> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        let ready = |slot: &Slot| match slot {
            Slot::Ready(collection) => Some(Arc::clone(collection)),
            Slot::Busy | Slot::Damaged(_) | Slot::TooLarge(_) => None,
        };
        slots.values().filter_map(ready).collect()
    }

    /// Creates an empty collection.
    pub async fn create(self: &Arc<Self>, spec: NewCollection) -> Result<Arc<Collection>, CollectionError> {
        let meta = self.env.check_new(spec)?;
        let reserved = self.reserve(&meta.name)?;
        let device = self.pick_device();
        let env = Arc::clone(&self.env);
        // A task of its own finishes even if the caller is cancelled, so that disk and memory agree.
        let made = self.env.runtime.spawn_blocking(move || {
            let journal = match &env.store {
                Some(store) if meta.durable => Some(store.create(&meta)?),
                Some(_) | None => None,
            };
            let generation = meta::new_generation(&meta, device, &env.budget);
            let log = Log { journal, ..Log::default() };
            Ok(reserved.fill(Collection::start(env, meta, generation, log, Damage::default())))
        });
        made.await.unwrap_or_else(|error| Err(stopped(&error)))
    }

    /// Deletes a collection and its files; snapshots in object stores are kept.
    pub async fn delete(self: &Arc<Self>, name: &str) -> Result<(), CollectionError> {
        let old = {
            let mut slots = self.write();
            match slots.get_mut(name) {
                None | Some(Slot::Busy) => return Err(not_found(name)),
                Some(slot) => std::mem::replace(slot, Slot::Busy),
            }
        };
        let reserved =
            NameReservation { collections: Arc::clone(self), name: name.to_owned(), slot: Some(old.clone()) };
        let env = Arc::clone(&self.env);
        let dropped = self.env.runtime.spawn(async move {
            let durable = match &old {
                Slot::Ready(collection) => {
                    collection.close().await;
                    collection.meta().durable
                }
                Slot::Damaged(_) | Slot::TooLarge(_) | Slot::Busy => true,
            };
            blocking(move || reserved.delete_files(&env, durable)).await
        });
        dropped.await.unwrap_or_else(|error| Err(stopped(&error)))
    }

    /// Finishes queued changes, stops the writers and releases the data folder. The last step of a drain.
    pub async fn close(&self) {
        let slots = std::mem::take(&mut *self.write());
        let ready = slots.into_values().filter_map(|slot| match slot {
            Slot::Ready(collection) => Some(collection),
            Slot::Busy | Slot::Damaged(_) | Slot::TooLarge(_) => None,
        });
        let ready: Vec<_> = ready.collect();
        warn_of_discarded(&ready);
        stream::iter(ready).for_each_concurrent(CLOSING, |collection| async move { collection.close().await }).await;
        if let Some(store) = &self.env.store {
            store.release();
        }
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Slot>> {
        self.slots.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves a name, so that only one call creates a collection of that name.
    fn reserve(self: &Arc<Self>, name: &str) -> Result<NameReservation, CollectionError> {
        let mut slots = self.write();
        if slots.contains_key(name) {
            return Err(CollectionError::AlreadyExists { kind: "collection", name: name.to_owned() });
        }
        let max_collections = self.env.settings.max_collections;
        if slots.len() >= max_collections {
            return Err(CollectionError::Exhausted(format!(
                "there are {} collections, expected at most {max_collections}",
                slots.len()
            )));
        }
        slots.insert(name.to_owned(), Slot::Busy);
        Ok(NameReservation { collections: Arc::clone(self), name: name.to_owned(), slot: None })
    }

    /// The GPU with the fewest bytes of vectors, or the CPU.
    fn pick_device(&self) -> DeviceId {
        let lost = self.env.lost.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let usable = |id: &&DeviceId| matches!(id, DeviceId::Cuda(_)) && !lost.contains(id);
        let collections = self.list();
        let held = |id: &DeviceId| -> u64 {
            let there = collections.iter().filter(|collection| collection.device() == *id);
            there.map(|collection| collection.vector_bytes()).sum()
        };
        let gpus = self.env.services.devices.iter().filter(usable);
        gpus.min_by_key(|id| held(id)).copied().unwrap_or(DeviceId::Cpu)
    }
}

/// Logs the points that end with the process.
fn warn_of_discarded(collections: &[Arc<Collection>]) {
    let in_memory = collections.iter().filter(|collection| !collection.meta().durable);
    let points: Vec<_> =
        in_memory.map(|collection| collection.describe().points).filter(|points| *points > 0).collect();
    if !points.is_empty() {
        let collections = points.len();
        let points = points.iter().sum::<u64>();
        tracing::warn!(collections, points, "collections in memory are discarded");
    }
}

/// Evicts one by one until `bytes` are evicted. Returns how many were.
fn evict_until(bytes: u64, mut evictions: impl Iterator<Item = u64>) -> u64 {
    let mut evicted = 0;
    while evicted < bytes
        && let Some(more) = evictions.next()
    {
        evicted += more;
    }
    evicted
}

/// Totals over all collections.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Number of collections.
    pub collections: u64,
    /// Number of points.
    pub points: u64,
    /// Number of collections that take no changes, because their files are damaged.
    pub read_only: u64,
    /// Number of points that are not served, because their vectors are not finite.
    pub set_aside: u64,
    /// Number of collections with rows that their text index could not commit yet; searches find these rows.
    pub text_postponed: u64,
    /// Bytes in host memory.
    pub host_bytes: u64,
    /// Bytes on devices.
    pub device_bytes: u64,
    /// Reserved bytes of the memory limit, including those of pending writes.
    pub held_bytes: u64,
    /// The memory limit in bytes; 0 means no limit.
    pub limit_bytes: u64,
}

impl Settings {
    fn store_options(&self) -> accelerd_store::Options {
        let Self { fsync, writer_threads, open_logs, .. } = *self;
        accelerd_store::Options { fsync, writer_threads, open_logs }
    }
}

/// A reserved name. On drop, the name gets `slot`, or becomes free with `None`.
struct NameReservation {
    collections: Arc<Collections>,
    name: String,
    slot: Option<Slot>,
}

impl NameReservation {
    /// Publishes the collection under the name.
    fn fill(mut self, collection: Collection) -> Arc<Collection> {
        let collection = Arc::new(collection);
        self.slot = Some(Slot::Ready(Arc::clone(&collection)));
        collection
    }

    /// Deletes the files, then frees the name. Blocking.
    fn delete_files(mut self, env: &Env, durable: bool) -> Result<(), CollectionError> {
        let reopened = self.slot.take();
        if let (Some(store), true) = (&env.store, durable)
            && let Err(error) = store.delete(&self.name)
        {
            // The writer has stopped; the collection stays visible as damaged, and deleting it can be retried.
            let reason = format!("it could not be deleted: {}", error.public());
            self.slot = reopened.map(|_| Slot::Damaged(reason));
            return Err(error.into());
        }
        Ok(())
    }
}

impl Drop for NameReservation {
    fn drop(&mut self) {
        let mut slots = self.collections.write();
        match self.slot.take() {
            Some(slot) => _ = slots.insert(self.name.clone(), slot),
            None => _ = slots.remove(&self.name),
        }
    }
}

impl Env {
    /// Validates a new collection and fills in defaults.
    fn check_new(&self, spec: NewCollection) -> Result<CollectionMeta, CollectionError> {
        let NewCollection { name, dimensions, metric, storage, model, text_field, owner, durable, .. } = spec;
        let NewCollection { document_prompt, query_prompt, .. } = spec;
        accelerd_store::check_name(&name)?;
        let durable = durable.unwrap_or(self.store.is_some());
        if durable && self.store.is_none() {
            return Err(CollectionError::invalid(
                "durable",
                "this daemon keeps nothing on disk: store.data_dir is not set",
            ));
        }
        let of_model = || self.services.embedder.dimensions(&model, dimensions).map_err(CollectionError::Embedder);
        let dim = if model.is_empty() { dimensions } else { of_model()? };
        let digest = || self.services.embedder.digest(&model).map_err(CollectionError::Embedder);
        let model_digest = if model.is_empty() { String::new() } else { digest()? };
        let prompts = self.prompts(&model, document_prompt, query_prompt)?;
        let max_dimensions = self.settings.max_dimensions;
        if dim == 0 || dim > max_dimensions {
            return Err(CollectionError::invalid("dimensions", format!("expected 1 to {max_dimensions}, got {dim}")));
        }
        let format = CollectionMeta::FORMAT;
        let create_time_ms = meta::now_ms();
        Ok(CollectionMeta {
            format,
            name,
            dim,
            metric,
            storage,
            model,
            model_digest,
            prompts,
            text_field,
            owner,
            durable,
            create_time_ms,
        })
    }

    /// The prompts of a new collection.
    fn prompts(
        &self,
        model: &str,
        document: PromptChoice,
        query: PromptChoice,
    ) -> Result<Option<Prompts>, CollectionError> {
        if model.is_empty() {
            document.check_absent("document_prompt")?;
            query.check_absent("query_prompt")?;
            return Ok(None);
        }
        let prompts = self.services.embedder.prompts(model, document, query).map_err(CollectionError::Embedder)?;
        prompts.iter().try_for_each(prompt::check_length)?;
        Ok(prompts)
    }
}

impl From<TextIndexError> for CollectionError {
    fn from(error: TextIndexError) -> Self {
        Self::TextIndex(error.to_string())
    }
}

fn not_found(name: &str) -> CollectionError {
    CollectionError::NotFound { kind: "collection", name: name.to_owned() }
}

fn stopped(error: &tokio::task::JoinError) -> CollectionError {
    CollectionError::Unavailable(format!("the task was aborted: {error}"))
}

/// Runs blocking work off the reactor.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CollectionError> + Send + 'static,
) -> Result<T, CollectionError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(stopped(&error)))
}
