//! A collection: validates points, sends changes to the writer, and reads points back.

use std::{
    collections::HashSet,
    hash::Hash,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use accelerd_engine::{Context, SubmitError};
use accelerd_kernels::{DeviceId, LossScope, Matrix, OpError, ops::similarity::Corpus};
use accelerd_proto::v1::{Payload, value::Kind};
use accelerd_store::{CollectionMeta, Damage, Ids, Upsert};
use prost::Message as _;
use tokio::sync::{mpsc, oneshot};

use super::{
    Env, Filter, NewPayloads, PayloadColumns,
    generation::Generation,
    not_found,
    points::Upserted,
    prompt::{PromptChoice, TextRole},
    services::TextOptions,
    shared::{Held, ModelDigest, Prepared, Shared},
    writer::{Log, View, Writer, WriterRequest},
};
use crate::error::CollectionError;

/// Capacity of the writer's queue; callers wait while it is full.
const QUEUE: usize = 64;
/// Host memory of a point besides its vector and payload: id, hash table slot, bitmap bits.
const POINT_BYTES: u64 = 64;

/// Maximum number of ids of set-aside points in a description.
const LISTED_IDS: usize = 100;

/// A collection of points.
#[derive(Debug)]
pub struct Collection {
    shared: Arc<Shared>,
    jobs: mpsc::Sender<WriterRequest>,
    /// Serialises snapshots, so that their versions follow their contents.
    pub(super) snapshots: tokio::sync::Mutex<()>,
}

/// Vectors, or texts to embed.
#[derive(Clone, Debug)]
pub enum Vectors {
    /// One vector per row.
    Rows(Matrix),
    /// Texts for the collection's model to embed, and their prompt; by default the collection's.
    Texts(Vec<String>, PromptChoice),
}

/// Points to upsert.
#[derive(Clone, Debug)]
pub struct NewPoints {
    /// One id per point.
    pub ids: Ids,
    /// One vector or text per point.
    pub vectors: Vectors,
    /// Empty, or one payload per point.
    pub payloads: NewPayloads,
}

/// Points read back.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Ids that exist, in the order requested.
    pub ids: Ids,
    /// One per point.
    pub payloads: Vec<Payload>,
    /// One row per point, if requested.
    pub vectors: Option<Matrix>,
}

/// The current state of a collection.
#[derive(Clone, Debug)]
pub struct Description {
    /// Stored metadata.
    pub meta: CollectionMeta,
    /// Number of points.
    pub points: u64,
    /// Number of deleted rows that are not compacted yet.
    pub tombstones: u64,
    /// Bytes in host memory.
    pub host_bytes: u64,
    /// Bytes in device memory.
    pub device_bytes: u64,
    /// The device that searches it.
    pub device: DeviceId,
    /// Damaged places of its files; while there are any, it takes no changes.
    pub damage: Vec<String>,
    /// Number of points that are not served, because their vectors are not finite.
    pub set_aside: u64,
    /// The first ids of those points, ascending.
    pub set_aside_ids: Ids,
}

impl Collection {
    /// Starts a collection and its writer. With damage it takes no changes.
    pub(super) fn start(env: Arc<Env>, meta: CollectionMeta, generation: Generation, log: Log, damage: Damage) -> Self {
        let held = Mutex::new(Held::empty(&env.budget));
        let runtime = env.runtime.clone();
        let generation = RwLock::new(Arc::new(generation));
        let model_digest = ModelDigest::of(&meta);
        let applying = tokio::sync::Mutex::default();
        let shared = Arc::new(Shared { env, meta, model_digest, damage, generation, applying, held });
        shared.recount();
        let (jobs, queue) = mpsc::channel(QUEUE);
        runtime.spawn(Writer::new(Arc::clone(&shared), log).run(queue));
        Self { shared, jobs, snapshots: tokio::sync::Mutex::default() }
    }

    /// The metadata as stored at the start: [`Self::describe`] has the current digest of its model.
    pub fn meta(&self) -> &CollectionMeta {
        &self.shared.meta
    }

    /// Host memory that it takes, in bytes.
    pub fn host_bytes(&self) -> u64 {
        self.shared.generation().host_bytes()
    }

    /// Describes the current state.
    pub fn describe(&self) -> Description {
        let generation = self.shared.generation();
        let (points, rows) = generation.counts();
        let set_aside = Arc::clone(&generation.read().set_aside);
        Description {
            meta: self.shared.current_meta(),
            points: points as u64,
            tombstones: (rows - points) as u64,
            host_bytes: generation.host_bytes(),
            device_bytes: generation.corpus.device_bytes(),
            device: generation.corpus.device(),
            damage: self.shared.public_damage(),
            set_aside: set_aside.len() as u64,
            set_aside_ids: set_aside.ids(LISTED_IDS),
        }
    }

    /// Validates points, reserves memory and embeds texts. If the embedder's queue is full, texts wait with `may_wait`
    /// and fail otherwise.
    pub async fn prepare(
        &self,
        points: NewPoints,
        may_wait: bool,
        context: Context,
    ) -> Result<Prepared, CollectionError> {
        self.shared.check_writable()?;
        let NewPoints { ids, vectors, payloads } = points;
        let count = match &vectors {
            Vectors::Rows(rows) => rows.rows(),
            Vectors::Texts(texts, _) => texts.len(),
        };
        check_ids(&ids, count)?;
        let payload_bytes = self.check_payloads(&payloads, count)?;
        // The log gets the payloads in an encoding of its own.
        let copies = if self.meta().durable { 2 } else { 1 };
        let bytes = count as u64 * (u64::from(self.meta().dim) * 4 + POINT_BYTES) + copies * payload_bytes;
        let reservation = self.shared.env.budget.reserve_for(context.principal, bytes)?;
        let vectors = self.vectors(TextRole::Document, vectors, may_wait, context).await?;
        Ok(Prepared { ids, vectors, payloads, reservation })
    }

    /// Sends points to the writer, which applies them in the order of calls. The returned future resolves when they are
    /// applied and, in a durable collection, on disk. Dropping it does not cancel the write.
    pub async fn enqueue(
        &self,
        points: Prepared,
    ) -> Result<impl Future<Output = Result<Upserted, CollectionError>> + Send + use<>, CollectionError> {
        let (done, answer) = oneshot::channel();
        self.send(WriterRequest::Upsert { points, done }).await?;
        let name = self.meta().name.clone();
        Ok(async move { answer.await.unwrap_or_else(|_| Err(not_found(&name))) })
    }

    /// Inserts points, or replaces those whose ids exist.
    pub async fn upsert(&self, points: NewPoints, context: Context) -> Result<Upserted, CollectionError> {
        let prepared = self.prepare(points, false, context).await?;
        self.enqueue(prepared).await?.await
    }

    /// Deletes the points that match a filter and returns their number.
    pub async fn delete(&self, filter: Filter) -> Result<u64, CollectionError> {
        self.shared.check_writable()?;
        if filter.is_empty() {
            return Err(CollectionError::invalid("filter", "expected ids or conditions, got an empty filter"));
        }
        self.ask(|done| WriterRequest::Delete { filter, done }).await?
    }

    /// Reads points back by id.
    pub fn fetch(&self, ids: &Ids, with_vectors: bool) -> Fetched {
        let generation = self.shared.generation();
        let (ids, payloads, rows) = {
            let points = generation.read();
            let rows: Vec<_> = points.find(ids).into_iter().map(|(_, row)| row).collect();
            let payloads = rows.iter().map(|row| points.payloads().get(*row)).collect();
            (points.ids_of(&rows), payloads, rows)
        };
        let vectors = with_vectors.then(|| generation.corpus.gather(&rows));
        Fetched { ids, payloads, vectors }
    }

    /// Reads points back that are set aside, as they were written.
    pub fn fetch_set_aside(&self, ids: &Ids, with_vectors: bool) -> Fetched {
        let set_aside = Arc::clone(&self.shared.generation().read().set_aside);
        let Upsert { ids, dim, vectors, payloads } = set_aside.get(ids, self.meta().dim);
        let vectors = Matrix::from_bytes(ids.len(), dim as usize, vectors).expect("they have the collection's dim");
        let decode = |payload: bytes::Bytes| Payload::decode(payload).expect("recovery has decoded it");
        let payloads = payloads.into_iter().map(decode).collect();
        Fetched { ids, payloads, vectors: with_vectors.then_some(vectors) }
    }

    /// The device that searches it.
    pub(super) fn device(&self) -> DeviceId {
        self.shared.generation().corpus.device()
    }

    /// Bytes of vectors in host memory.
    pub(super) fn vector_bytes(&self) -> u64 {
        self.shared.generation().corpus.host_bytes()
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// A view of the points after all changes sent before.
    pub(super) async fn view(&self) -> Result<View, CollectionError> {
        self.ask(|done| WriterRequest::View { done }).await
    }

    /// Finishes queued changes and stops the writer. Later changes fail with `NotFound`.
    pub(super) async fn close(&self) {
        let _ = self.ask(|done| WriterRequest::Close { done }).await;
    }

    /// Checks the dim of vectors, or embeds texts.
    pub(super) async fn vectors(
        &self,
        role: TextRole,
        vectors: Vectors,
        may_wait: bool,
        context: Context,
    ) -> Result<Matrix, CollectionError> {
        let dim = self.meta().dim;
        match vectors {
            Vectors::Rows(rows) if rows.cols() == dim as usize => Ok(rows),
            Vectors::Rows(rows) => {
                Err(CollectionError::invalid("vectors", format!("expected vectors of dim {dim}, got {}", rows.cols())))
            }
            Vectors::Texts(texts, prompt) => {
                let model = &self.meta().model;
                if model.is_empty() {
                    let reason = format!("collection {:?} has no model, so it takes vectors only", self.meta().name);
                    return Err(CollectionError::invalid("texts", reason));
                }
                let embedder = &self.shared.env.services.embedder;
                self.shared.check_digest(&embedder.digest(model).map_err(CollectionError::Embedder)?)?;
                let options = TextOptions { dimensions: dim, prompt: prompt.or_of(self.meta(), role), may_wait };
                let embedded = embedder.embed(model, texts, options, context).await;
                let (vectors, digest) = embedded.map_err(CollectionError::Embedder)?;
                // Another model may have been loaded under this name since the check.
                self.shared.adopt_digest(digest).await?;
                Ok(vectors)
            }
        }
    }

    /// Checks payloads and returns their encoded size in bytes.
    fn check_payloads(&self, payloads: &NewPayloads, count: usize) -> Result<u64, CollectionError> {
        let max_bytes = self.shared.env.settings.max_payload_bytes;
        let payloads = match payloads {
            NewPayloads::Messages(payloads) => payloads,
            NewPayloads::Columns(columns) => {
                return check_columns(columns, max_bytes, self.shared.env.settings.max_upsert_bytes);
            }
        };
        if !payloads.is_empty() && payloads.len() != count {
            let reason = format!("expected none or one per point, which is {count}, got {}", payloads.len());
            return Err(CollectionError::invalid("payloads", reason));
        }
        payloads.iter().enumerate().map(|(i, payload)| check_payload(i, payload, max_bytes)).sum()
    }

    async fn ask<T>(&self, job: impl FnOnce(oneshot::Sender<T>) -> WriterRequest) -> Result<T, CollectionError> {
        let (done, answer) = oneshot::channel();
        self.send(job(done)).await?;
        answer.await.map_err(|_| not_found(&self.meta().name))
    }

    async fn send(&self, job: WriterRequest) -> Result<(), CollectionError> {
        self.jobs.send(job).await.map_err(|_| not_found(&self.meta().name))
    }
}

impl Env {
    /// Returns whether a GPU was lost; if so, moves its corpus to the CPU. New collections avoid what was lost with it.
    pub(super) fn fall_back_if_lost(&self, corpus: &Corpus, device: DeviceId, error: &SubmitError) -> bool {
        let SubmitError::Op(OpError::DeviceLost { scope, .. }) = error else { return false };
        if device == DeviceId::Cpu {
            return false;
        }
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        if !lost.contains(&device) {
            tracing::error!(%device, %error, "device lost; its collections move to the CPU");
            match scope {
                LossScope::Device => lost.push(device),
                LossScope::Cuda => lost.extend(self.services.devices.iter().filter(|id| **id != DeviceId::Cpu)),
            }
        }
        if corpus.device() == device {
            corpus.set_device(DeviceId::Cpu);
        }
        true
    }
}

fn check_ids(ids: &Ids, count: usize) -> Result<(), CollectionError> {
    if ids.len() != count {
        return Err(CollectionError::invalid(
            "ids",
            format!("expected one per point, which is {count}, got {}", ids.len()),
        ));
    }
    if ids.is_empty() {
        return Err(CollectionError::invalid("ids", "expected at least one point, got none"));
    }
    let twice = match ids {
        Ids::Numbers(ids) => first_twice(ids).map(|at| format!("numbers[{at}]")),
        Ids::Uuids(ids) => first_twice(ids).map(|at| format!("uuids[{at}]")),
    };
    match twice {
        Some(at) => Err(CollectionError::invalid(format!("ids.{at}"), "expected distinct ids, got a duplicate")),
        None => Ok(()),
    }
}

fn first_twice<K: Copy + Eq + Hash>(ids: &[K]) -> Option<usize> {
    let mut seen = HashSet::with_capacity(ids.len());
    ids.iter().position(|id| !seen.insert(*id))
}

/// Checks the encoded size of columnar payloads, which a dictionary can make larger than the columns.
fn check_columns(columns: &PayloadColumns, max_bytes: usize, max_total_bytes: usize) -> Result<u64, CollectionError> {
    let mut sum = 0_usize;
    for point in 0..columns.len() {
        let bytes = columns.encoded_len(point);
        if bytes > max_bytes {
            let reason = format!("expected at most {max_bytes} bytes per point, got {bytes} for point {point}");
            return Err(CollectionError::invalid("payload_columns", reason));
        }
        sum += bytes;
    }
    if sum > max_total_bytes {
        let reason =
            format!("expected payloads of at most {max_total_bytes} bytes in total, got {sum} without a dictionary");
        return Err(CollectionError::invalid("payload_columns", reason));
    }
    Ok(sum as u64)
}

fn check_payload(i: usize, payload: &Payload, max_bytes: usize) -> Result<u64, CollectionError> {
    let bytes = payload.encoded_len();
    if bytes > max_bytes {
        return Err(CollectionError::invalid(
            format!("payloads[{i}]"),
            format!("expected at most {max_bytes} bytes, got {bytes}"),
        ));
    }
    for (name, value) in &payload.fields {
        let at = || format!("payloads[{i}].fields[{name:?}]");
        match &value.kind {
            None => return Err(CollectionError::invalid(at(), "expected a value, got none")),
            Some(Kind::DoubleValue(x)) if !x.is_finite() => {
                return Err(CollectionError::invalid(at(), format!("expected a finite number, got {x}")));
            }
            Some(_) if name.is_empty() => return Err(CollectionError::invalid(at(), "expected a name, got none")),
            Some(_) => {}
        }
    }
    Ok(bytes as u64)
}
