//! State shared by a collection and its writer, and the points that the collection sends to the writer.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use accelerd_engine::Context;
use accelerd_kernels::{
    Matrix,
    ledger::Reservation,
    ops::similarity::{Hits, SearchRequest},
};
use accelerd_store::{CollectionMeta, Damage, Ids, StoreError};

use super::{Env, blocking, budget::Budget, filter::Filter, generation::Generation, new_payloads::NewPayloads};
use crate::error::{CollectionError, CollectionRefusal};

/// Maximum number of damaged places in a description.
const LISTED_DAMAGE: usize = 10;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) env: Arc<Env>,
    /// As stored at the start.
    pub(super) meta: CollectionMeta,
    pub(super) model_digest: ModelDigest,
    /// Damage of its files: while there is any, the collection takes no changes.
    pub(super) damage: Damage,
    pub(super) generation: RwLock<Arc<Generation>>,
    /// Held while a change is applied, and by a search that must exclude changes.
    pub(super) applying: tokio::sync::Mutex<()>,
    pub(super) held: Mutex<Held>,
}

/// The digest of the model that embeds a collection's texts, which a collection of an earlier version lacks at first.
#[derive(Debug, Default)]
pub(super) struct ModelDigest {
    known: OnceLock<String>,
    /// Held while the first digest is recorded.
    recording: tokio::sync::Mutex<()>,
}

impl ModelDigest {
    pub(super) fn of(meta: &CollectionMeta) -> Self {
        let known = OnceLock::new();
        if !meta.model_digest.is_empty() {
            known.get_or_init(|| meta.model_digest.clone());
        }
        Self { known, ..Self::default() }
    }
}

/// The memory reserved for a collection.
#[derive(Debug)]
pub(super) struct Held {
    rows: Reservation,
    indexes: Reservation,
}

impl Held {
    /// Nothing yet.
    pub(super) fn empty(budget: &Budget) -> Self {
        Self { rows: budget.empty_reservation(), indexes: budget.empty_index_reservation() }
    }
}

/// Validated and embedded points with a memory reservation.
#[derive(Debug)]
pub struct Prepared {
    pub(super) ids: Ids,
    pub(super) vectors: Matrix,
    pub(super) payloads: NewPayloads,
    pub(super) reservation: Reservation,
}

impl Shared {
    /// The current generation.
    pub(super) fn generation(&self) -> Arc<Generation> {
        Arc::clone(&self.generation.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the generation with its compaction.
    pub(super) fn swap(&self, generation: Arc<Generation>) {
        *self.generation.write().unwrap_or_else(PoisonError::into_inner) = generation;
    }

    /// The stored metadata with the values that were recorded since the start.
    pub(super) fn current_meta(&self) -> CollectionMeta {
        let model_digest = self.model_digest.known.get().cloned().unwrap_or_default();
        CollectionMeta { model_digest, ..self.meta.clone() }
    }

    /// Fails if the collection takes no changes.
    pub(super) fn check_writable(&self) -> Result<(), CollectionError> {
        match self.damage.listed().first() {
            None => Ok(()),
            Some(first) => {
                let collection = self.meta.name.clone();
                let damage = first.public();
                Err(CollectionRefusal::ReadOnly { collection, damage }.into())
            }
        }
    }

    /// The damage of its files as callers may see it.
    pub(super) fn public_damage(&self) -> Vec<String> {
        let mut listed: Vec<_> = self.damage.listed().iter().take(LISTED_DAMAGE).map(StoreError::public).collect();
        let more = self.damage.count() - listed.len() as u64;
        listed.extend((more > 0).then(|| format!("and {more} more")));
        listed
    }

    /// Fails if vectors of a model with this digest may not be compared with the collection's.
    pub(super) fn check_digest(&self, digest: &str) -> Result<(), CollectionError> {
        match self.model_digest.known.get() {
            Some(stored) if stored != digest => Err(CollectionRefusal::ModelChanged {
                collection: self.meta.name.clone(),
                model: self.meta.model.clone(),
                stored: stored.clone(),
                loaded: digest.to_owned(),
            }
            .into()),
            Some(_) | None => Ok(()),
        }
    }

    /// As [`Self::check_digest`]; a collection without a digest takes this one, and stores it.
    pub(super) async fn adopt_digest(self: &Arc<Self>, digest: String) -> Result<(), CollectionError> {
        if self.model_digest.known.get().is_none() {
            let _one_at_a_time = self.model_digest.recording.lock().await;
            if self.model_digest.known.get().is_none() {
                self.record_digest(digest.clone()).await?;
            }
        }
        self.check_digest(&digest)
    }

    async fn record_digest(self: &Arc<Self>, digest: String) -> Result<(), CollectionError> {
        let meta = CollectionMeta { model_digest: digest.clone(), ..self.meta.clone() };
        let this = Arc::clone(self);
        blocking(move || match &this.env.store {
            Some(store) if meta.durable && this.damage.is_empty() => Ok(store.record_model_digest(&meta)?),
            Some(_) | None => Ok(()),
        })
        .await?;
        let CollectionMeta { name, model, .. } = &self.meta;
        tracing::info!(
            collection = name,
            model,
            digest,
            "the collection had no digest of its model and takes this one"
        );
        self.model_digest.known.get_or_init(|| digest);
        Ok(())
    }

    /// Builds the indexes that a filter needs and accounts for their memory.
    pub(super) fn prepare(&self, generation: &Generation, filter: &Filter) {
        if generation.prepare(filter, &self.env.budget) {
            self.recount();
        }
    }

    /// Updates the memory reservation to the actual use.
    pub(super) fn recount(&self) {
        self.recount_with([]);
    }

    /// As [`Self::recount`]. In the same step, the reservations for what is in use now change to the given bytes.
    pub(super) fn recount_with<const N: usize>(&self, reserved: [(&mut Reservation, u64); N]) {
        let generation = self.generation();
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let Held { rows, indexes } = &mut *held;
        let used = [(rows, generation.row_bytes()), (indexes, generation.index_bytes())];
        Reservation::record_all(used.into_iter().chain(reserved));
    }

    /// Drops the indexes that requests build again. Returns their bytes.
    pub(super) fn evict_indexes(&self) -> u64 {
        let generation = self.generation();
        let before = generation.index_bytes();
        generation.evict_indexes();
        self.recount();
        before.saturating_sub(generation.index_bytes())
    }

    /// Searches a corpus on its device, or on the CPU if that device is lost.
    pub(super) async fn submit(&self, request: SearchRequest, context: Context) -> Result<Hits, CollectionError> {
        let corpus = Arc::clone(&request.corpus);
        let device = corpus.device();
        let done = match self.env.services.search.submit(request.clone(), context.clone()).await {
            Err(error) if self.env.fall_back_if_lost(&corpus, device, &error) => {
                self.env.services.search.submit(request, context).await?
            }
            done => done?,
        };
        self.env.services.record(&done);
        Ok(done.response)
    }
}
