//! Collections as callers use them: their rights and quotas, and the audit log of their changes.

use std::sync::Arc;

use accelerd_collections::{Collection, Collections, NewCollection, Snapshot, check_clusters};
use accelerd_engine::{Context, Lane};
use accelerd_kernels::{
    Matrix,
    ops::{
        cluster::{Cluster, ClusterRequest, Clusters, Rows},
        similarity::{FindSimilar, FindSimilarRequest, Hits},
    },
};
use accelerd_store::Ids;

use crate::{
    app::App,
    auth::{Auth, caller::Caller, refusal::Refusal},
    embedder::Embedder,
    error::ApiError,
    layers::timing,
    tensors::table::TensorTable,
};

/// The collections, and the lanes that search and cluster rows of requests.
pub(crate) struct CollectionService {
    collections: Arc<Collections>,
    tensors: Arc<TensorTable>,
    embedder: Embedder,
    auth: Arc<Auth>,
    find_similar: Lane<FindSimilar>,
    cluster: Lane<Cluster>,
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

    /// Finds the rows of a corpus that are most similar to each query.
    pub(crate) async fn find_similar(&self, request: FindSimilarRequest, context: Context) -> Result<Hits, ApiError> {
        if request.queries.rows() == 0 {
            return Ok(Hits { lists: vec![] });
        }
        let done = self.find_similar.submit(request, context).await?;
        timing::record(&done);
        Ok(done.response)
    }

    /// Returns the collection of this name, if the caller may use it.
    pub(crate) fn get(&self, caller: &Caller, name: &str) -> Result<Arc<Collection>, ApiError> {
        caller.check_collection(name)?;
        Ok(self.collections.get(name)?)
    }

    /// Returns the collection of this name, if the caller may use it and its owner's quota has room for as many bytes.
    pub(crate) fn get_to_write(&self, caller: &Caller, name: &str, bytes: u64) -> Result<Arc<Collection>, ApiError> {
        let collection = self.get(caller, name)?;
        self.check_quota(caller, &collection.meta().owner, bytes)?;
        Ok(collection)
    }

    /// Returns the collections that the caller may use.
    pub(crate) fn list(&self, caller: &Caller) -> Vec<Arc<Collection>> {
        let mut collections = self.collections.list();
        collections.retain(|collection| caller.sees_collection(&collection.meta().name));
        collections
    }

    /// Checks that the caller may create a collection with a model, which is empty for one without.
    pub(crate) fn check_create(&self, caller: &Caller, name: &str, model: &str) -> Result<(), ApiError> {
        caller.check_collection(name)?;
        if !model.is_empty() {
            self.embedder.model_for(caller, model)?;
        }
        self.check_quota(caller, caller.owner(), 0)
    }

    /// Creates a collection that the caller may create: see [`Self::check_create`].
    pub(crate) async fn create(&self, caller: &Caller, new: NewCollection) -> Result<Arc<Collection>, ApiError> {
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

    /// Clusters rows of a request by the parameters of `template`.
    pub(crate) async fn cluster_rows(
        &self,
        rows: Matrix,
        template: ClusterRequest,
        context: Context,
    ) -> Result<Clusters, ApiError> {
        check_clusters(template.clusters, rows.rows())?;
        let request = ClusterRequest { rows: Rows::Inline(rows), ..template };
        let done = self.cluster.submit(request, context).await?;
        timing::record(&done);
        Ok(done.response)
    }

    /// Clusters the points of a collection by the parameters of `template`. Returns their ids, too.
    pub(crate) async fn cluster_collection(
        &self,
        caller: &Caller,
        name: &str,
        template: ClusterRequest,
        context: Context,
    ) -> Result<(Clusters, Ids), ApiError> {
        let collection = self.get(caller, name)?;
        let request = |rows| ClusterRequest { rows, ..template.clone() };
        Ok(collection.cluster(&self.cluster, request, context).await?)
    }

    /// Refuses a write that would exceed the quota of an owner. Concurrent writes are not counted against each other, so that they
    /// may exceed it by the bytes that they add.
    fn check_quota(&self, caller: &Caller, owner: &str, asked: u64) -> Result<(), ApiError> {
        let Some(limit) = self.auth.resident_limit(owner) else { return Ok(()) };
        let used = self.collections.owned_bytes(owner).saturating_add(self.tensors.owned_bytes(owner));
        let fits = used < limit && asked <= limit - used;
        if fits { Ok(()) } else { Err(caller.refuse(Refusal::ResidentBytes { used, limit, asked }).into()) }
    }
}
