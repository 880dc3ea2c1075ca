//! One collection: checks what comes in, hands changes to its writer, and reads points back.

use std::{
    collections::HashSet,
    hash::Hash,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use accelerd_engine::{Context, SubmitError};
use accelerd_kernels::{
    DeviceId, Matrix, OpError,
    ops::similarity::{Corpus, Hits, SearchRequest},
};
use accelerd_proto::v1::{Payload, value::Kind};
use accelerd_store::{CollectionMeta, Ids, Journal};
use prost::Message as _;
use tokio::sync::{mpsc, oneshot};

use super::{
    Env, Filter, NewPayloads, PayloadColumns,
    budget::Share,
    not_found,
    points::{Generation, Upserted},
    writer::{Job, View, Writer},
};
use crate::{
    embedder::{Input, Options, Served},
    error::ApiError,
    layers::timing,
};

/// Changes that may wait for the writer before callers have to.
const QUEUE: usize = 64;
/// Host memory of a point beside its vector and payload: id, its place in the table, bits.
const POINT_BYTES: u64 = 64;

/// One collection.
#[derive(Debug)]
pub struct Collection {
    shared: Arc<Shared>,
    jobs: mpsc::Sender<Job>,
    /// Snapshots are written one after the other, so that their versions follow their contents.
    pub(super) snapshots: tokio::sync::Mutex<()>,
}

/// What a collection and its writer share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) env: Arc<Env>,
    pub(super) meta: CollectionMeta,
    generation: RwLock<Arc<Generation>>,
    /// Held while a change is applied, and by a search that must not see one.
    pub(super) applying: tokio::sync::Mutex<()>,
    held: Mutex<Share>,
}

/// Vectors, or the texts to make them from.
#[derive(Clone, Debug)]
pub enum Vectors {
    /// As they are.
    Rows(Matrix),
    /// To be embedded by the collection's model.
    Texts(Vec<String>),
}

/// Points to write.
#[derive(Clone, Debug)]
pub struct NewPoints {
    /// One id a point.
    pub ids: Ids,
    /// One vector or text a point.
    pub vectors: Vectors,
    /// None, or one a point.
    pub payloads: NewPayloads,
}

/// Points that were checked and embedded, and whose memory is reserved.
#[derive(Debug)]
pub struct Prepared {
    pub(super) ids: Ids,
    pub(super) vectors: Matrix,
    pub(super) payloads: NewPayloads,
    pub(super) share: Share,
}

/// Points read back.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Those that are there, in the order asked for.
    pub ids: Ids,
    /// One a point.
    pub payloads: Vec<Payload>,
    /// One row a point, when asked for.
    pub vectors: Option<Matrix>,
}

/// A collection as it is now.
#[derive(Clone, Debug)]
pub struct Description {
    /// What is written down about it.
    pub meta: CollectionMeta,
    /// Points in it.
    pub points: u64,
    /// Dead rows that are not compacted yet.
    pub tombstones: u64,
    /// Bytes in host memory.
    pub host_bytes: u64,
    /// Bytes on its device.
    pub device_bytes: u64,
    /// Where it is searched.
    pub device: DeviceId,
}

impl Collection {
    /// Starts the writer of a collection.
    pub(super) fn start(
        env: Arc<Env>,
        meta: CollectionMeta,
        generation: Generation,
        journal: Option<Journal>,
        sequence: u64,
        checkpoint_bytes: u64,
    ) -> Self {
        let held = Mutex::new(env.budget.share());
        let runtime = env.runtime.clone();
        let generation = RwLock::new(Arc::new(generation));
        let shared = Arc::new(Shared { env, meta, generation, applying: tokio::sync::Mutex::default(), held });
        shared.recount();
        let (jobs, queue) = mpsc::channel(QUEUE);
        runtime.spawn(Writer::new(Arc::clone(&shared), journal, sequence, checkpoint_bytes).run(queue));
        Self { shared, jobs, snapshots: tokio::sync::Mutex::default() }
    }

    /// What is written down about it.
    pub fn meta(&self) -> &CollectionMeta {
        &self.shared.meta
    }

    /// It as it is now.
    pub fn describe(&self) -> Description {
        let generation = self.shared.generation();
        let (points, rows) = generation.counts();
        Description {
            meta: self.shared.meta.clone(),
            points: points as u64,
            tombstones: (rows - points) as u64,
            host_bytes: generation.host_bytes(),
            device_bytes: generation.corpus.device_bytes(),
            device: generation.corpus.home(),
        }
    }

    /// Checks points, embeds texts, and reserves memory. Texts are refused where the queue has no room for them, or wait.
    pub async fn prepare(&self, points: NewPoints, waits: bool, context: Context) -> Result<Prepared, ApiError> {
        let NewPoints { ids, vectors, payloads } = points;
        let count = match &vectors {
            Vectors::Rows(rows) => rows.rows(),
            Vectors::Texts(texts) => texts.len(),
        };
        check_ids(&ids, count)?;
        let payload_bytes = self.check_payloads(&payloads, count)?;
        let bytes = count as u64 * (u64::from(self.meta().dim) * 4 + POINT_BYTES) + payload_bytes;
        let share = self.shared.env.budget.reserve(bytes)?;
        let vectors = self.vectors("vectors", vectors, waits, context).await?;
        Ok(Prepared { ids, vectors, payloads, share })
    }

    /// Hands points to the writer; the order of calls is the order of application. What comes back is ready when they
    /// are applied, and on disk where the collection is durable. Dropping it does not take them back.
    pub async fn enqueue(
        &self,
        points: Prepared,
    ) -> Result<impl Future<Output = Result<Upserted, ApiError>> + Send + use<>, ApiError> {
        let (done, answer) = oneshot::channel();
        self.send(Job::Upsert { points, done }).await?;
        let name = self.meta().name.clone();
        Ok(async move { answer.await.unwrap_or_else(|_| Err(not_found(&name))) })
    }

    /// Inserts points, or replaces those whose id is there.
    pub async fn upsert(&self, points: NewPoints, context: Context) -> Result<Upserted, ApiError> {
        let prepared = self.prepare(points, false, context).await?;
        self.enqueue(prepared).await?.await
    }

    /// Deletes the points that pass a filter; how many there were.
    pub async fn delete(&self, filter: Filter) -> Result<u64, ApiError> {
        if filter.is_empty() {
            return Err(ApiError::invalid("filter", "expected ids or conditions, got an empty filter"));
        }
        self.ask(|done| Job::Delete { filter, done }).await?
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

    /// Where it is searched.
    pub(super) fn home(&self) -> DeviceId {
        self.shared.generation().corpus.home()
    }

    /// Bytes of vectors in host memory.
    pub(super) fn vector_bytes(&self) -> u64 {
        self.shared.generation().corpus.host_bytes()
    }

    /// What the writer shares.
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The points as of now, after every change before.
    pub(super) async fn view(&self) -> Result<View, ApiError> {
        self.ask(|done| Job::View { done }).await
    }

    /// Finishes what was handed to the writer, and ends it. Later changes find no collection.
    pub(super) async fn close(&self) {
        let _ = self.ask(|done| Job::Close { done }).await;
    }

    /// Vectors of the right dim, finite.
    pub(super) async fn vectors(
        &self,
        field: &str,
        vectors: Vectors,
        waits: bool,
        context: Context,
    ) -> Result<Matrix, ApiError> {
        let dim = self.meta().dim;
        match vectors {
            Vectors::Rows(rows) if rows.cols() == dim as usize => Ok(rows),
            Vectors::Rows(rows) => {
                Err(ApiError::invalid(field, format!("expected vectors of dim {dim}, got {}", rows.cols())))
            }
            Vectors::Texts(texts) => {
                let (embedder, options) = (&self.shared.env.embedder, Options { waits, ..Options::unit(dim) });
                embedder.embed(&self.model()?, Input::Texts(texts), &options, context).await?.matrix()
            }
        }
    }

    fn model(&self) -> Result<Arc<Served>, ApiError> {
        if self.meta().model.is_empty() {
            let reason = format!("collection {:?} has no model, so it takes vectors only", self.meta().name);
            return Err(ApiError::invalid("texts", reason));
        }
        self.shared.env.embedder.model(&self.meta().model)
    }

    /// Bytes of the payloads.
    fn check_payloads(&self, payloads: &NewPayloads, count: usize) -> Result<u64, ApiError> {
        let most = self.shared.env.settings.max_payload_bytes;
        let payloads = match payloads {
            NewPayloads::Messages(payloads) => payloads,
            NewPayloads::Columns(columns) => {
                return check_columns(columns, most, self.shared.env.settings.max_upsert_bytes);
            }
        };
        if !payloads.is_empty() && payloads.len() != count {
            let reason = format!("expected none or one a point, which is {count}, got {}", payloads.len());
            return Err(ApiError::invalid("payloads", reason));
        }
        payloads.iter().enumerate().map(|(i, payload)| check_payload(i, payload, most)).sum()
    }

    async fn ask<T>(&self, job: impl FnOnce(oneshot::Sender<T>) -> Job) -> Result<T, ApiError> {
        let (done, answer) = oneshot::channel();
        self.send(job(done)).await?;
        answer.await.map_err(|_| not_found(&self.meta().name))
    }

    async fn send(&self, job: Job) -> Result<(), ApiError> {
        self.jobs.send(job).await.map_err(|_| not_found(&self.meta().name))
    }
}

impl Shared {
    /// The rows as of now.
    pub(super) fn generation(&self) -> Arc<Generation> {
        Arc::clone(&self.generation.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts compacted rows in the place of the old ones.
    pub(super) fn swap(&self, generation: Arc<Generation>) {
        *self.generation.write().unwrap_or_else(PoisonError::into_inner) = generation;
    }

    /// Makes the indexes that a filter needs, and counts them.
    pub(super) fn prepare(&self, generation: &Generation, filter: &Filter) {
        if generation.prepare(filter, &self.env.budget) {
            self.recount();
        }
    }

    /// Says how much memory is held.
    pub(super) fn recount(&self) {
        let bytes = self.generation().host_bytes();
        self.held.lock().unwrap_or_else(PoisonError::into_inner).resize(bytes);
    }

    /// Searches a corpus where it lives; where that device is lost, on the CPU.
    pub(super) async fn submit(&self, request: SearchRequest, context: Context) -> Result<Hits, ApiError> {
        let corpus = Arc::clone(&request.corpus);
        let home = corpus.home();
        let done = match self.env.search.submit(request.clone(), context.clone()).await {
            Err(error) if self.env.is_lost(&corpus, home, &error) => self.env.search.submit(request, context).await?,
            done => done?,
        };
        timing::record(&done);
        Ok(done.response)
    }
}

impl Env {
    /// Whether a GPU is gone; if so, its corpus moves to the CPU.
    pub(super) fn is_lost(&self, corpus: &Corpus, home: DeviceId, error: &SubmitError) -> bool {
        if !matches!(error, SubmitError::Op(OpError::DeviceLost { .. })) || home == DeviceId::Cpu {
            return false;
        }
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        if !lost.contains(&home) {
            tracing::error!(device = %home, %error, "a device is lost; its collections move to the CPU");
            lost.push(home);
        }
        if corpus.home() == home {
            corpus.set_home(DeviceId::Cpu);
        }
        true
    }
}

fn check_ids(ids: &Ids, count: usize) -> Result<(), ApiError> {
    if ids.len() != count {
        return Err(ApiError::invalid("ids", format!("expected one a point, which is {count}, got {}", ids.len())));
    }
    if ids.is_empty() {
        return Err(ApiError::invalid("ids", "expected at least one point, got none"));
    }
    let twice = match ids {
        Ids::Numbers(ids) => first_twice(ids).map(|at| format!("numbers[{at}]")),
        Ids::Uuids(ids) => first_twice(ids).map(|at| format!("uuids[{at}]")),
    };
    match twice {
        Some(at) => Err(ApiError::invalid(format!("ids.{at}"), "expected ids that differ, got one a second time")),
        None => Ok(()),
    }
}

fn first_twice<K: Copy + Eq + Hash>(ids: &[K]) -> Option<usize> {
    let mut seen = HashSet::with_capacity(ids.len());
    ids.iter().position(|id| !seen.insert(*id))
}

/// The same of columns, whose texts may be a dictionary and stand for more bytes than they have.
fn check_columns(columns: &PayloadColumns, most: usize, most_together: usize) -> Result<u64, ApiError> {
    let mut sum = 0_usize;
    for point in 0..columns.len() {
        let bytes = columns.encoded_len(point);
        if bytes > most {
            let reason = format!("expected at most {most} bytes a point, got {bytes} of point {point}");
            return Err(ApiError::invalid("payload_columns", reason));
        }
        sum += bytes;
    }
    if sum > most_together {
        let reason =
            format!("expected payloads of at most {most_together} bytes together, got {sum} without a dictionary");
        return Err(ApiError::invalid("payload_columns", reason));
    }
    Ok(sum as u64)
}

fn check_payload(i: usize, payload: &Payload, most: usize) -> Result<u64, ApiError> {
    let bytes = payload.encoded_len();
    if bytes > most {
        return Err(ApiError::invalid(format!("payloads[{i}]"), format!("expected at most {most} bytes, got {bytes}")));
    }
    for (name, value) in &payload.fields {
        let at = || format!("payloads[{i}].fields[{name:?}]");
        match &value.kind {
            None => return Err(ApiError::invalid(at(), "expected a value, got none")),
            Some(Kind::DoubleValue(x)) if !x.is_finite() => {
                return Err(ApiError::invalid(at(), format!("expected a finite number, got {x}")));
            }
            Some(_) if name.is_empty() => return Err(ApiError::invalid(at(), "expected a name, got none")),
            Some(_) => {}
        }
    }
    Ok(bytes as u64)
}
