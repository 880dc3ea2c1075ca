//! Changes of the points of a collection: upserts, at once or in a stream, and deletions.

use std::sync::Arc;

use accelerd_collections::{Collection, CollectionError, Filter, NewPoints, Prepared, Upserted};
use accelerd_engine::Context;
use futures::{Stream, StreamExt as _, stream::BoxStream};

use super::service::CollectionService;
use crate::{
    auth::caller::Caller,
    batches::{CONCURRENT, Numbered, answers_then_error},
    error::{ApiError, Decoded},
};

/// Points to insert or replace.
pub(crate) struct UpsertCall {
    /// Name of the collection.
    pub(crate) collection: String,
    /// Size of the request, for which the owner's quota must have room.
    pub(crate) bytes: u64,
    pub(crate) points: Decoded<NewPoints>,
}

/// Points that are ready to be written to their collection.
type PreparedPoints = (Arc<Collection>, Prepared);

impl CollectionService {
    /// Inserts points, or replaces those whose ids exist.
    pub(crate) async fn upsert(
        &self,
        caller: &Caller,
        call: UpsertCall,
        context: Context,
    ) -> Result<Upserted, ApiError> {
        let (collection, points) = self.prepare(caller, call, false, context).await?;
        Ok(collection.enqueue(points).await?.await?)
    }

    /// Upserts the batches of a stream. They are prepared concurrently, enqueued in order, and acknowledged as they complete.
    pub(crate) fn upsert_stream<E: From<ApiError> + Send + 'static>(
        self: &Arc<Self>,
        caller: Caller,
        context: Context,
        batches: impl Stream<Item = Result<Numbered<UpsertCall>, E>> + Send + 'static,
    ) -> BoxStream<'static, Result<Numbered<Upserted>, E>> {
        let service = Arc::clone(self);
        let prepare = move |batch| prepare_batch(Arc::clone(&service), batch, caller.clone(), context.clone());
        answers_then_error(batches, |batches| {
            let queued = batches.map(prepare).buffered(CONCURRENT).then(enqueue_batch);
            queued.map(await_batch).buffer_unordered(CONCURRENT)
        })
    }

    /// Deletes the points that match a filter. Returns their number.
    pub(crate) async fn delete_points(
        &self,
        caller: &Caller,
        name: &str,
        filter: Decoded<Filter>,
    ) -> Result<u64, ApiError> {
        let collection = self.collection(caller, name)?;
        Ok(collection.delete(filter?).await?)
    }

    /// Checks points, and embeds texts.
    async fn prepare(
        &self,
        caller: &Caller,
        call: UpsertCall,
        waits: bool,
        context: Context,
    ) -> Result<PreparedPoints, ApiError> {
        let UpsertCall { collection, bytes, points } = call;
        let collection = self.collection(caller, &collection)?;
        self.check_quota(caller, &collection.meta().owner, bytes)?;
        let prepared = collection.prepare(points?, waits, context).await?;
        Ok((collection, prepared))
    }
}

async fn prepare_batch(
    service: Arc<CollectionService>,
    (sequence, call): Numbered<UpsertCall>,
    caller: Caller,
    context: Context,
) -> Numbered<PreparedPoints> {
    let prepared = match call {
        // Streams have their own backpressure.
        Ok(call) => service.prepare(&caller, call, true, context).await,
        Err(error) => Err(error),
    };
    (sequence, prepared)
}

async fn enqueue_batch(
    (sequence, prepared): Numbered<PreparedPoints>,
) -> Numbered<impl Future<Output = Result<Upserted, CollectionError>> + Send> {
    let queued = match prepared {
        Ok((collection, points)) => collection.enqueue(points).await.map_err(ApiError::from),
        Err(error) => Err(error),
    };
    (sequence, queued)
}

async fn await_batch(
    (sequence, queued): Numbered<impl Future<Output = Result<Upserted, CollectionError>> + Send>,
) -> Numbered<Upserted> {
    let upserted = match queued {
        Ok(queued) => queued.await.map_err(ApiError::from),
        Err(error) => Err(error),
    };
    (sequence, upserted)
}
