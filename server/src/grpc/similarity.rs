//! `SimilarityService`: exact nearest neighbours, collections, clustering.

use std::sync::Arc;

use accelerd_collections::{Collection, CollectionError, Filter, Found, Prepared, Upserted};
use accelerd_engine::Context;
use accelerd_proto::v1 as pb;
use futures::StreamExt as _;
use prost::Message as _;
use tonic::{Request, Response, Status};

use crate::{
    app::App,
    auth::caller::Caller,
    collections::CollectionService,
    error::ApiError,
    grpc::{
        call::{Requests, Responses},
        context::context,
        convert::{self, matrix, tensor},
        handlers::SimilarityService,
    },
    status::item_error,
};

mod wire;

use wire::{
    cluster_response, clustering, cursor, describe, find_similar, hit, hit_columns, listed, new_collection, new_points,
    page_spec, ranking, search_spec, upsert_response,
};

/// Batches of an upsert stream that are prepared concurrently; as many again may be waiting to be written.
const WINDOW: usize = 8;

/// The service.
#[derive(Clone)]
pub struct Similarity(Arc<CollectionService>);

impl Similarity {
    pub(super) fn new(app: &Arc<App>) -> Self {
        Self(Arc::new(CollectionService::new(app)))
    }
}

impl SimilarityService for Similarity {
    async fn find_similar(
        &self,
        request: Request<pb::FindSimilarRequest>,
    ) -> Result<Response<pb::FindSimilarResponse>, Status> {
        let context = context(&request);
        let request = find_similar(&request.into_inner())?;
        let k = request.k;
        let hits = self.0.find_similar(request, context).await?;
        Ok(Response::new(ranking(&hits, k)))
    }

    async fn create_collection(
        &self,
        request: Request<pb::CreateCollectionRequest>,
    ) -> Result<Response<pb::CreateCollectionResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        self.0.check_create(&caller, &request.name, &request.model)?;
        let collection = self.0.create(&caller, new_collection(request, caller.owner())?).await?;
        Ok(Response::new(pb::CreateCollectionResponse { collection: Some(describe(&collection)) }))
    }

    async fn get_collection(
        &self,
        request: Request<pb::GetCollectionRequest>,
    ) -> Result<Response<pb::GetCollectionResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let collection = self.0.get(&caller, &request.into_inner().name)?;
        Ok(Response::new(pb::GetCollectionResponse { collection: Some(describe(&collection)) }))
    }

    async fn list_collections(
        &self,
        request: Request<pb::ListCollectionsRequest>,
    ) -> Result<Response<pb::ListCollectionsResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let collections = self.0.list(&caller).iter().map(|collection| describe(collection)).collect();
        Ok(Response::new(pb::ListCollectionsResponse { collections }))
    }

    async fn delete_collection(
        &self,
        request: Request<pb::DeleteCollectionRequest>,
    ) -> Result<Response<pb::DeleteCollectionResponse>, Status> {
        let caller = Caller::of(request.extensions());
        self.0.delete(&caller, &request.into_inner().name).await?;
        Ok(Response::new(pb::DeleteCollectionResponse {}))
    }

    async fn upsert(&self, request: Request<pb::UpsertRequest>) -> Result<Response<pb::UpsertResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let context = context(&request);
        let (collection, points) = prepare(&self.0, request.into_inner(), false, &caller, context).await?;
        let upserted = collection.enqueue(points).await.map_err(ApiError::from)?.await.map_err(ApiError::from)?;
        Ok(Response::new(upsert_response(upserted)))
    }

    fn upsert_stream(
        &self,
        caller: Caller,
        context: Context,
        batches: Requests<pb::UpsertStreamRequest>,
    ) -> Responses<pb::UpsertStreamResponse> {
        let service = Arc::clone(&self.0);
        let prepared =
            batches.map(move |step| prepare_step(Arc::clone(&service), step, caller.clone(), context.clone()));
        // Batches are prepared concurrently, enqueued in order, and acknowledged as they complete.
        let queued = prepared.buffered(WINDOW).then(enqueue_step);
        queued.map(await_step).buffer_unordered(WINDOW).boxed()
    }

    async fn delete_points(
        &self,
        request: Request<pb::DeletePointsRequest>,
    ) -> Result<Response<pb::DeletePointsResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let pb::DeletePointsRequest { collection, filter } = request.into_inner();
        let collection = self.0.get(&caller, &collection)?;
        let filter = Filter::parse("filter", &filter.unwrap_or_default()).map_err(ApiError::from)?;
        let deleted_count = collection.delete(filter).await.map_err(ApiError::from)?;
        Ok(Response::new(pb::DeletePointsResponse { deleted_count }))
    }

    async fn search(&self, request: Request<pb::SearchRequest>) -> Result<Response<pb::SearchResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let context = context(&request);
        let request = request.into_inner();
        let collection = self.0.get(&caller, &request.collection)?;
        let as_columns = request.columns;
        let with_payload = request.include_payload;
        let results = collection.search(search_spec(request)?, context).await.map_err(ApiError::from)?;
        if as_columns {
            let columns = Some(hit_columns(results, with_payload)?);
            return Ok(Response::new(pb::SearchResponse { results: vec![], exact: true, columns }));
        }
        let result = |hits: Vec<Found>| pb::SearchResult { hits: hits.into_iter().map(hit).collect() };
        let results = results.into_iter().map(result).collect();
        Ok(Response::new(pb::SearchResponse { results, exact: true, columns: None }))
    }

    async fn get_points(
        &self,
        request: Request<pb::GetPointsRequest>,
    ) -> Result<Response<pb::GetPointsResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let pb::GetPointsRequest { collection, ids, include_vectors, columns, set_aside } = request.into_inner();
        let collection = self.0.get(&caller, &collection)?;
        let ids = convert::ids("ids", &ids.unwrap_or_default())?;
        let fetched = if set_aside {
            collection.fetch_set_aside(&ids, include_vectors)
        } else {
            collection.fetch(&ids, include_vectors)
        };
        let listed = listed(fetched.ids, Some(fetched.payloads), columns)?;
        Ok(Response::new(pb::GetPointsResponse {
            ids: Some(listed.ids),
            payloads: listed.payloads,
            vectors: fetched.vectors.as_ref().map(tensor),
            payload_columns: listed.payload_columns,
        }))
    }

    async fn scroll_points(
        &self,
        request: Request<pb::ScrollPointsRequest>,
    ) -> Result<Response<pb::ScrollPointsResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        let collection = self.0.get(&caller, &request.collection)?;
        let as_columns = request.columns;
        let with_payload = request.include_payload;
        let page = collection.scroll(page_spec(request)?).await.map_err(ApiError::from)?;
        let listed = listed(page.ids, with_payload.then_some(page.payloads), as_columns)?;
        Ok(Response::new(pb::ScrollPointsResponse {
            ids: Some(listed.ids),
            payloads: listed.payloads,
            vectors: page.vectors.as_ref().map(tensor),
            payload_columns: listed.payload_columns,
            next_cursor: cursor(page.next),
        }))
    }

    async fn count_points(
        &self,
        request: Request<pb::CountPointsRequest>,
    ) -> Result<Response<pb::CountPointsResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let pb::CountPointsRequest { collection, filter } = request.into_inner();
        let collection = self.0.get(&caller, &collection)?;
        let point_count = collection.count(wire::filter(filter)?).await.map_err(ApiError::from)?;
        Ok(Response::new(pb::CountPointsResponse { point_count, exact: true }))
    }

    async fn create_snapshot(
        &self,
        request: Request<pb::CreateSnapshotRequest>,
    ) -> Result<Response<pb::CreateSnapshotResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let pb::CreateSnapshotRequest { collection, url } = request.into_inner();
        let written = self.0.snapshot(&caller, &collection, &url).await?;
        let snapshot = pb::Snapshot {
            url: written.url,
            version: written.version,
            point_count: written.points,
            size_bytes: written.bytes,
            create_time: Some(convert::timestamp(written.create_time_ms)),
        };
        Ok(Response::new(pb::CreateSnapshotResponse { snapshot: Some(snapshot) }))
    }

    async fn restore_collection(
        &self,
        request: Request<pb::RestoreCollectionRequest>,
    ) -> Result<Response<pb::RestoreCollectionResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let pb::RestoreCollectionRequest { url, name } = request.into_inner();
        let collection = self.0.restore(&caller, &url, &name).await?;
        Ok(Response::new(pb::RestoreCollectionResponse { collection: Some(describe(&collection)) }))
    }

    async fn cluster(&self, request: Request<pb::ClusterRequest>) -> Result<Response<pb::ClusterResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let context = context(&request);
        let mut request = request.into_inner();
        let input = request.input.take();
        let input = input.ok_or_else(|| ApiError::invalid("input", "expected vectors or a collection, got neither"))?;
        let template = clustering(&request)?;
        match input {
            pb::cluster_request::Input::Vectors(vectors) => {
                let rows = matrix("vectors", &vectors)?;
                let clusters = self.0.cluster_rows(rows, template, context).await?;
                Ok(Response::new(cluster_response(clusters, None)))
            }
            pb::cluster_request::Input::Collection(name) => {
                let (clusters, ids) = self.0.cluster_collection(&caller, &name, template, context).await?;
                Ok(Response::new(cluster_response(clusters, Some(convert::point_ids(ids)))))
            }
        }
    }
}

type Step<T> = Result<(u64, Result<T, ApiError>), Status>;

/// Decodes and checks points, and embeds texts.
async fn prepare(
    service: &CollectionService,
    request: pb::UpsertRequest,
    waits: bool,
    caller: &Caller,
    context: Context,
) -> Result<(Arc<Collection>, Prepared), ApiError> {
    let collection = service.get_to_write(caller, &request.collection, request.encoded_len() as u64)?;
    let prepared = collection.prepare(new_points(request)?, waits, context).await?;
    Ok((collection, prepared))
}

async fn prepare_step(
    service: Arc<CollectionService>,
    step: Result<pb::UpsertStreamRequest, Status>,
    caller: Caller,
    context: Context,
) -> Step<(Arc<Collection>, Prepared)> {
    let pb::UpsertStreamRequest { sequence, upsert } = step?;
    let prepared = match upsert {
        // Streams have their own backpressure.
        Some(upsert) => prepare(&service, upsert, true, &caller, context).await,
        None => Err(ApiError::invalid("upsert", "expected points, got none")),
    };
    Ok((sequence, prepared))
}

async fn enqueue_step(
    step: Step<(Arc<Collection>, Prepared)>,
) -> Step<impl Future<Output = Result<Upserted, CollectionError>> + Send> {
    let (sequence, prepared) = step?;
    let queued = match prepared {
        Ok((collection, points)) => collection.enqueue(points).await.map_err(ApiError::from),
        Err(error) => Err(error),
    };
    Ok((sequence, queued))
}

async fn await_step(
    step: Step<impl Future<Output = Result<Upserted, CollectionError>> + Send>,
) -> Result<pb::UpsertStreamResponse, Status> {
    let (sequence, queued) = step?;
    let outcome = match queued {
        Ok(queued) => queued.await.map_err(ApiError::from),
        Err(error) => Err(error),
    };
    let result = match outcome {
        Ok(upserted) => pb::upsert_stream_response::Result::Upsert(upsert_response(upserted)),
        Err(error) => pb::upsert_stream_response::Result::Error(item_error(&error.into())),
    };
    Ok(pb::UpsertStreamResponse { sequence, result: Some(result) })
}
