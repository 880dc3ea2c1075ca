//! Collections as callers use them: their rights and quotas, and the audit log of their changes.

use std::sync::Arc;

use accelerd_collections::{Collection, Collections, NewCollection, PromptChoice, Snapshot};
use accelerd_engine::Lane;
use accelerd_kernels::ops::{cluster::Cluster, similarity::FindSimilar};
use accelerd_store::{Metric, Storage};

use crate::{
    app::App,
    auth::{Auth, caller::Caller, refusal::Refusal},
    embedder::Embedder,
    error::{ApiError, Decoded},
    tensors::table::TensorTable,
};

/// The metric of a search or a collection if a request does not say which.
pub(super) const DEFAULT_METRIC: Metric = Metric::Cosine;

/// The precision of a collection's scanned copy if a request does not say which.
const DEFAULT_STORAGE: Storage = Storage::Bf16;

/// A collection to create.
pub(crate) struct CreateCall {
    pub(crate) name: String,
    /// 0 takes the model's.
    pub(crate) dimensions: u32,
    pub(crate) metric: Decoded<Option<Metric>>,
    pub(crate) storage: Decoded<Option<Storage>>,
    /// Model that embeds texts; empty for none.
    pub(crate) model: String,
    pub(crate) document_prompt: Decoded<PromptChoice>,
    pub(crate) query_prompt: Decoded<PromptChoice>,
    /// Payload field with a text index; empty for none.
    pub(crate) text_field: String,
    /// `None` leaves it to the daemon.
    pub(crate) durable: Decoded<Option<bool>>,
}

/// The collections, and the lanes that search and cluster rows of requests.
pub(crate) struct CollectionService {
    collections: Arc<Collections>,
    tensors: Arc<TensorTable>,
    embedder: Embedder,
    auth: Arc<Auth>,
    pub(super) find_similar: Lane<FindSimilar>,
    pub(super) cluster: Lane<Cluster>,
}

impl CollectionService {
    pub(crate) fn new(app: &App) -> Self {
        Self {
            collections: Arc::clone(&app.collections),
            tensors: Arc::clone(&app.tensors.table),
            embedder: app.embedder.clone(),
            auth: Arc::clone(&app.auth),
            find_similar: app.find_similar.clone(),
            cluster: app.cluster.clone(),
        }
    }

    /// Returns the collection of this name, if the caller may use it.
    pub(crate) fn collection(&self, caller: &Caller, name: &str) -> Result<Arc<Collection>, ApiError> {
        caller.check_collection(name)?;
        Ok(self.collections.get(name)?)
    }

    /// Returns the collections that the caller may use.
    pub(crate) fn list(&self, caller: &Caller) -> Vec<Arc<Collection>> {
        let mut collections = self.collections.list();
        collections.retain(|collection| caller.sees_collection(&collection.meta().name));
        collections
    }

    /// Creates a collection, which belongs to the caller.
    pub(crate) async fn create(&self, caller: &Caller, call: CreateCall) -> Result<Arc<Collection>, ApiError> {
        let CreateCall { name, dimensions, metric, storage, model, document_prompt, query_prompt, text_field, durable } =
            call;
        caller.check_collection(&name)?;
        if !model.is_empty() {
            self.embedder.model_for(caller, &model)?;
        }
        self.check_quota(caller, caller.owner(), 0)?;
        let new = NewCollection {
            metric: metric?.unwrap_or(DEFAULT_METRIC),
            storage: storage?.unwrap_or(DEFAULT_STORAGE),
            durable: durable?,
            document_prompt: document_prompt?,
            query_prompt: query_prompt?,
            name,
            dimensions,
            model,
            text_field,
            owner: caller.owner().to_owned(),
        };
        let collection = self.collections.create(new).await?;
        caller.record_change(&collection.meta().name);
        Ok(collection)
    }

    /// Deletes a collection.
    pub(crate) async fn delete(&self, caller: &Caller, name: &str) -> Result<(), ApiError> {
        caller.check_collection(name)?;
        self.collections.delete(name).await?;
        caller.record_change(name);
        Ok(())
    }

    /// Writes a snapshot of a collection to a folder.
    pub(crate) async fn snapshot(&self, caller: &Caller, name: &str, url: &str) -> Result<Snapshot, ApiError> {
        caller.check_collection(name)?;
        let snapshot = self.collections.snapshot(name, url).await?;
        caller.record_change(name);
        Ok(snapshot)
    }

    /// The snapshots of a collection in a folder, oldest first.
    pub(crate) async fn snapshots(&self, caller: &Caller, name: &str, url: &str) -> Result<Vec<Snapshot>, ApiError> {
        caller.check_collection(name)?;
        Ok(self.collections.snapshots(name, url).await?)
    }

    /// Deletes the snapshots of a collection but for the newest ones. Returns those that were deleted.
    pub(crate) async fn prune_snapshots(
        &self,
        caller: &Caller,
        name: &str,
        url: &str,
        keep: usize,
    ) -> Result<Vec<Snapshot>, ApiError> {
        caller.check_collection(name)?;
        let deleted = self.collections.prune_snapshots(name, url, keep).await?;
        caller.record_change(name);
        Ok(deleted)
    }

    /// Restores a collection from a snapshot, under another name if `name` is not empty.
    pub(crate) async fn restore(&self, caller: &Caller, url: &str, name: &str) -> Result<Arc<Collection>, ApiError> {
        if !name.is_empty() {
            caller.check_collection(name)?;
        }
        let snapshot = self.collections.open_snapshot(url).await?;
        // The points come from a collection that the caller may not read.
        caller.check_collection(snapshot.collection())?;
        self.check_quota(caller, caller.owner(), snapshot.bytes())?;
        let collection = self.collections.restore_opened(snapshot, name, caller.owner()).await?;
        caller.record_change(&collection.meta().name);
        Ok(collection)
    }

    /// Refuses a write that would exceed the quota of an owner. Concurrent writes are not counted against each other, so that they
    /// may exceed it by the bytes that they add.
    pub(super) fn check_quota(&self, caller: &Caller, owner: &str, asked: u64) -> Result<(), ApiError> {
        let Some(limit) = self.auth.resident_limit(owner) else { return Ok(()) };
        let used = self.collections.owned_bytes(owner).saturating_add(self.tensors.owned_bytes(owner));
        let fits = used < limit && asked <= limit - used;
        if fits { Ok(()) } else { Err(caller.refuse(Refusal::ResidentBytes { used, limit, asked }).into()) }
    }
}
