//! `SimilarityService`: exact nearest neighbours, collections, clustering.

use std::sync::Arc;

use accelerd_collections::{Filter, Found};
use accelerd_engine::Context;
use accelerd_proto::v1 as pb;
use futures::{StreamExt as _, TryStreamExt as _};
use tonic::{Request, Response, Status};

use crate::{
    app::App,
    auth::caller::Caller,
    collections::{CollectionService, FetchCall},
    error::ApiError,
    grpc::{
        call::{Requests, Responses},
        context::context,
        convert::{self, tensor},
        handlers::SimilarityService,
    },
};

mod wire;

use wire::{
    cluster_call, cluster_response, create_call, describe, find_similar_call, hit, hit_columns, listed, ranking,
    scroll_call, search_call, snapshot, upsert_call, upsert_response, upsert_stream_response,
};

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
        let call = find_similar_call(&request.into_inner())?;
        let k = call.k as usize;
        let hits = self.0.find_similar(call, context).await?;
        Ok(Response::new(ranking(&hits, k)))
    }

    async fn create_collection(
        &self,
        request: Request<pb::CreateCollectionRequest>,
    ) -> Result<Response<pb::CreateCollectionResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let collection = self.0.create(&caller, create_call(request.into_inner())).await?;
        Ok(Response::new(pb::CreateCollectionResponse { collection: Some(describe(&collection)) }))
    }

    async fn get_collection(
        &self,
        request: Request<pb::GetCollectionRequest>,
    ) -> Result<Response<pb::GetCollectionResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let collection = self.0.collection(&caller, &request.into_inner().name)?;
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
        let upserted = self.0.upsert(&caller, upsert_call(request.into_inner()), context).await?;
        Ok(Response::new(upsert_response(upserted)))
    }

    fn upsert_stream(
        &self,
        caller: Caller,
        context: Context,
        batches: Requests<pb::UpsertStreamRequest>,
    ) -> Responses<pb::UpsertStreamResponse> {
        let batches = batches.map_ok(|pb::UpsertStreamRequest { sequence, upsert }| {
            let missing = || ApiError::invalid("upsert", "expected points, got none");
            (sequence, upsert.map(upsert_call).ok_or_else(missing))
        });
        self.0.upsert_stream(caller, context, batches).map_ok(upsert_stream_response).boxed()
    }

    async fn delete_points(
        &self,
        request: Request<pb::DeletePointsRequest>,
    ) -> Result<Response<pb::DeletePointsResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let pb::DeletePointsRequest { collection, filter } = request.into_inner();
        let filter = Filter::parse("filter", &filter.unwrap_or_default()).map_err(ApiError::from);
        let deleted_count = self.0.delete_points(&caller, &collection, filter).await?;
        Ok(Response::new(pb::DeletePointsResponse { deleted_count }))
    }

    async fn search(&self, request: Request<pb::SearchRequest>) -> Result<Response<pb::SearchResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let context = context(&request);
        let request = request.into_inner();
        let as_columns = request.columns;
        let with_payload = request.include_payload;
        let results = self.0.search(&caller, search_call(request), context).await?;
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
        let ids = convert::ids("ids", &ids.unwrap_or_default());
        let fetched = self.0.fetch(&caller, FetchCall { collection, ids, with_vectors: include_vectors, set_aside })?;
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
        let as_columns = request.columns;
        let with_payload = request.include_payload;
        let (page, next_cursor) = self.0.scroll(&caller, scroll_call(request)).await?;
        let listed = listed(page.ids, with_payload.then_some(page.payloads), as_columns)?;
        Ok(Response::new(pb::ScrollPointsResponse {
            ids: Some(listed.ids),
            payloads: listed.payloads,
            vectors: page.vectors.as_ref().map(tensor),
            payload_columns: listed.payload_columns,
            next_cursor,
        }))
    }

    async fn count_points(
        &self,
        request: Request<pb::CountPointsRequest>,
    ) -> Result<Response<pb::CountPointsResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let pb::CountPointsRequest { collection, filter } = request.into_inner();
        let point_count = self.0.count(&caller, &collection, wire::filter(filter)).await?;
        Ok(Response::new(pb::CountPointsResponse { point_count, exact: true }))
    }

    async fn create_snapshot(
        &self,
        request: Request<pb::CreateSnapshotRequest>,
    ) -> Result<Response<pb::CreateSnapshotResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let pb::CreateSnapshotRequest { collection, url } = request.into_inner();
        let written = self.0.snapshot(&caller, &collection, &url).await?;
        Ok(Response::new(pb::CreateSnapshotResponse { snapshot: Some(snapshot(written)) }))
    }

    async fn list_snapshots(
        &self,
        request: Request<pb::ListSnapshotsRequest>,
    ) -> Result<Response<pb::ListSnapshotsResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let pb::ListSnapshotsRequest { collection, url } = request.into_inner();
        let listed = self.0.snapshots(&caller, &collection, &url).await?;
        Ok(Response::new(pb::ListSnapshotsResponse { snapshots: listed.into_iter().map(snapshot).collect() }))
    }

    async fn prune_snapshots(
        &self,
        request: Request<pb::PruneSnapshotsRequest>,
    ) -> Result<Response<pb::PruneSnapshotsResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let pb::PruneSnapshotsRequest { collection, url, keep_count } = request.into_inner();
        let deleted = self.0.prune_snapshots(&caller, &collection, &url, keep_count as usize).await?;
        Ok(Response::new(pb::PruneSnapshotsResponse { deleted: deleted.into_iter().map(snapshot).collect() }))
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
        let (clusters, ids) = self.0.cluster(&caller, cluster_call(request.into_inner()), context).await?;
        Ok(Response::new(cluster_response(clusters, ids.map(convert::point_ids))))
    }
}
