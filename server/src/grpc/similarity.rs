//! `SimilarityService`: exact neighbours, resident collections, clusters.

use std::sync::Arc;

use accelerd_engine::{Context, Engine, Lane};
use accelerd_kernels::{
    Matrix,
    ops::{
        cluster::{self as kmeans, Rows},
        similarity::{self as search, MAX_K},
    },
};
use accelerd_proto::v1::{
    self as pb,
    similarity_service_server::{SimilarityService, SimilarityServiceServer},
};
use accelerd_store::{Metric, Storage, StoreError};
use futures::{StreamExt as _, stream::BoxStream};
use tonic::{Request, Response, Status, Streaming};

use crate::{
    collections::{
        Collection, Collections, Description, Filter, Found, NewCollection, NewPoints, PointId, Prepared, Query,
        SearchSpec, Settings, Upserted, Vectors, check_clusters,
    },
    config::{Config, Fsync},
    embedder::Embedder,
    error::ApiError,
    grpc::{
        context,
        convert::{self, bytes_of, matrix, tensor, tensor_of},
    },
    layers::timing,
};

/// Steps of one bulk upsert that are decoded and embedded at once, and as many again that are being written.
const WINDOW: usize = 8;
/// Most iterations and starts of a clustering: far beyond use, and still an end.
const MAX_ITERATIONS: u32 = 100_000;
const MAX_STARTS: u32 = 1_000;

/// What the service computes with.
#[derive(Clone)]
pub struct State {
    /// The collections.
    pub collections: Arc<Collections>,
    /// Queue of inline searches.
    pub find_similar: Lane<search::FindSimilar>,
    /// Queue of clusterings.
    pub cluster: Lane<kmeans::Cluster>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("collections", &self.collections).finish_non_exhaustive()
    }
}

/// The service.
#[derive(Clone, Debug)]
pub struct Similarity(State);

/// The service over a daemon's collections and lanes.
pub fn service(state: &State) -> SimilarityServiceServer<Similarity> {
    SimilarityServiceServer::new(Similarity(state.clone()))
}

impl State {
    /// Opens the lanes and reads the collections back. Blocking, and within a runtime.
    pub fn start(config: &Config, engine: &Engine, embedder: Embedder) -> Result<Self, StoreError> {
        let lanes = &config.lanes;
        let devices = engine.devices().into_iter().map(|(device, _)| device.id()).collect();
        let lane = engine.lane(lanes.lane(&lanes.search));
        Ok(Self {
            collections: Collections::open(Settings::from(config), devices, lane, embedder)?,
            find_similar: engine.lane(lanes.lane(&lanes.find_similar)),
            cluster: engine.lane(lanes.lane(&lanes.cluster)),
        })
    }
}

impl From<&Config> for Settings {
    fn from(config: &Config) -> Self {
        let (store, limits) = (&config.store, &config.limits);
        Self {
            data_dir: store.folder().map(Into::into),
            fsync: match store.fsync {
                Fsync::Always => accelerd_store::Fsync::Always,
                Fsync::Never => accelerd_store::Fsync::Never,
            },
            wal_limit: store.wal_limit.as_u64(),
            memory_limit: store.memory_limit.as_u64(),
            snapshot_url: store.snapshot_url.clone(),
            object_options: object_options(std::env::vars_os()),
            max_dimensions: limits.max_dimensions,
            max_payload_bytes: crate::config::to_usize(limits.max_payload_bytes),
            max_collections: limits.max_collections,
            ..Self::default()
        }
    }
}

/// The object stores' usual variables: credentials, regions, endpoints.
fn object_options(vars: impl Iterator<Item = (std::ffi::OsString, std::ffi::OsString)>) -> Vec<(String, String)> {
    let known = |name: &str| ["AWS_", "GOOGLE_", "AZURE_"].iter().any(|prefix| name.starts_with(prefix));
    let vars = vars.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    vars.filter(|(name, _)| known(name)).map(|(name, value)| (name.to_ascii_lowercase(), value)).collect()
}

#[tonic::async_trait]
impl SimilarityService for Similarity {
    type UpsertStreamStream = BoxStream<'static, Result<pb::UpsertStreamResponse, Status>>;

    async fn find_similar(
        &self,
        request: Request<pb::FindSimilarRequest>,
    ) -> Result<Response<pb::FindSimilarResponse>, Status> {
        let context = context(&request);
        let request = find_similar(&request.into_inner())?;
        let k = request.k;
        if request.queries.rows() == 0 {
            return Ok(Response::new(ranking(&search::Hits { lists: vec![] }, k)));
        }
        let done = self.0.find_similar.submit(request, context).await.map_err(ApiError::from)?;
        timing::record(&done);
        Ok(Response::new(ranking(&done.response, k)))
    }

    async fn create_collection(
        &self,
        request: Request<pb::CreateCollectionRequest>,
    ) -> Result<Response<pb::CreateCollectionResponse>, Status> {
        let collection = self.0.collections.create(new_collection(request.into_inner())?).await?;
        Ok(Response::new(pb::CreateCollectionResponse { collection: Some(describe(&collection)) }))
    }

    async fn get_collection(
        &self,
        request: Request<pb::GetCollectionRequest>,
    ) -> Result<Response<pb::GetCollectionResponse>, Status> {
        let collection = self.0.collections.get(&request.into_inner().name)?;
        Ok(Response::new(pb::GetCollectionResponse { collection: Some(describe(&collection)) }))
    }

    async fn list_collections(
        &self,
        _: Request<pb::ListCollectionsRequest>,
    ) -> Result<Response<pb::ListCollectionsResponse>, Status> {
        let collections = self.0.collections.list().iter().map(|collection| describe(collection)).collect();
        Ok(Response::new(pb::ListCollectionsResponse { collections }))
    }

    async fn delete_collection(
        &self,
        request: Request<pb::DeleteCollectionRequest>,
    ) -> Result<Response<pb::DeleteCollectionResponse>, Status> {
        self.0.collections.delete(&request.into_inner().name).await?;
        Ok(Response::new(pb::DeleteCollectionResponse {}))
    }

    async fn upsert(&self, request: Request<pb::UpsertRequest>) -> Result<Response<pb::UpsertResponse>, Status> {
        let context = context(&request);
        let (collection, points) = self.0.prepare(request.into_inner(), context).await?;
        let upserted = collection.enqueue(points).await?.await?;
        Ok(Response::new(upsert_response(upserted)))
    }

    async fn upsert_stream(
        &self,
        request: Request<Streaming<pb::UpsertStreamRequest>>,
    ) -> Result<Response<Self::UpsertStreamStream>, Status> {
        let (state, context) = (self.0.clone(), context(&request));
        let prepared = request.into_inner().map(move |step| state.clone().prepare_step(step, context.clone()));
        // Steps are prepared side by side, handed to the writer in order, and answered as they are done.
        let queued = prepared.buffered(WINDOW).then(enqueue_step);
        Ok(Response::new(queued.map(answer_step).buffer_unordered(WINDOW).boxed()))
    }

    async fn delete_points(
        &self,
        request: Request<pb::DeletePointsRequest>,
    ) -> Result<Response<pb::DeletePointsResponse>, Status> {
        let pb::DeletePointsRequest { collection, filter } = request.into_inner();
        let filter = Filter::parse("filter", &filter.unwrap_or_default())?;
        let deleted_count = self.0.collections.get(&collection)?.delete(filter).await?;
        Ok(Response::new(pb::DeletePointsResponse { deleted_count }))
    }

    async fn search(&self, request: Request<pb::SearchRequest>) -> Result<Response<pb::SearchResponse>, Status> {
        let context = context(&request);
        let request = request.into_inner();
        let collection = self.0.collections.get(&request.collection)?;
        let found = collection.search(search_spec(request)?, context).await?;
        let result = |found: Vec<Found>| pb::SearchResult { hits: found.into_iter().map(hit).collect() };
        Ok(Response::new(pb::SearchResponse { results: found.into_iter().map(result).collect(), exact: true }))
    }

    async fn get_points(
        &self,
        request: Request<pb::GetPointsRequest>,
    ) -> Result<Response<pb::GetPointsResponse>, Status> {
        let pb::GetPointsRequest { collection, ids, include_vectors } = request.into_inner();
        let ids = convert::ids("ids", &ids.unwrap_or_default())?;
        let fetched = self.0.collections.get(&collection)?.fetch(&ids, include_vectors);
        Ok(Response::new(pb::GetPointsResponse {
            ids: Some(convert::point_ids(fetched.ids)),
            payloads: fetched.payloads,
            vectors: fetched.vectors.as_ref().map(tensor),
        }))
    }

    async fn create_snapshot(
        &self,
        request: Request<pb::CreateSnapshotRequest>,
    ) -> Result<Response<pb::CreateSnapshotResponse>, Status> {
        let pb::CreateSnapshotRequest { collection, url } = request.into_inner();
        let written = self.0.collections.snapshot(&collection, &url).await?;
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
        let pb::RestoreCollectionRequest { url, name } = request.into_inner();
        let collection = self.0.collections.restore(&url, &name).await?;
        Ok(Response::new(pb::RestoreCollectionResponse { collection: Some(describe(&collection)) }))
    }

    async fn cluster(&self, request: Request<pb::ClusterRequest>) -> Result<Response<pb::ClusterResponse>, Status> {
        let context = context(&request);
        let mut request = request.into_inner();
        let input = request.input.take();
        let input = input.ok_or_else(|| ApiError::invalid("input", "expected vectors or a collection, got neither"))?;
        let template = clustering(&request)?;
        let make = |rows| kmeans::ClusterRequest { rows, ..template.clone() };
        match input {
            pb::cluster_request::Input::Vectors(vectors) => {
                let rows = matrix("vectors", &vectors)?;
                check_clusters(template.clusters, rows.rows())?;
                let done = self.0.cluster.submit(make(Rows::Inline(rows)), context).await.map_err(ApiError::from)?;
                timing::record(&done);
                Ok(Response::new(cluster_response(done.response, None)))
            }
            pb::cluster_request::Input::Collection(name) => {
                let collection = self.0.collections.get(&name)?;
                let (clusters, ids) = collection.cluster(&self.0.cluster, make, context).await?;
                Ok(Response::new(cluster_response(clusters, Some(convert::point_ids(ids)))))
            }
        }
    }
}

type Step<T> = Result<(u64, Result<T, ApiError>), Status>;

impl State {
    /// Decodes and checks points, and embeds texts.
    async fn prepare(
        &self,
        request: pb::UpsertRequest,
        context: Context,
    ) -> Result<(Arc<Collection>, Prepared), ApiError> {
        let collection = self.collections.get(&request.collection)?;
        let prepared = collection.prepare(new_points(request)?, context).await?;
        Ok((collection, prepared))
    }

    async fn prepare_step(
        self,
        step: Result<pb::UpsertStreamRequest, Status>,
        context: Context,
    ) -> Step<(Arc<Collection>, Prepared)> {
        let pb::UpsertStreamRequest { sequence, upsert } = step?;
        let prepared = match upsert {
            Some(upsert) => self.prepare(upsert, context).await,
            None => Err(ApiError::invalid("upsert", "expected points, got none")),
        };
        Ok((sequence, prepared))
    }
}

async fn enqueue_step(
    step: Step<(Arc<Collection>, Prepared)>,
) -> Step<impl Future<Output = Result<Upserted, ApiError>> + Send> {
    let (sequence, prepared) = step?;
    let queued = match prepared {
        Ok((collection, points)) => collection.enqueue(points).await,
        Err(error) => Err(error),
    };
    Ok((sequence, queued))
}

async fn answer_step(
    step: Step<impl Future<Output = Result<Upserted, ApiError>> + Send>,
) -> Result<pb::UpsertStreamResponse, Status> {
    let (sequence, queued) = step?;
    let outcome = match queued {
        Ok(queued) => queued.await,
        Err(error) => Err(error),
    };
    let result = match outcome {
        Ok(upserted) => pb::upsert_stream_response::Result::Upsert(upsert_response(upserted)),
        Err(error) => pb::upsert_stream_response::Result::Error(item_error(error)),
    };
    Ok(pb::UpsertStreamResponse { sequence, result: Some(result) })
}

fn item_error(error: ApiError) -> pb::ItemError {
    let status = Status::from(error);
    pb::ItemError { code: status.code().into(), message: status.message().to_owned() }
}

fn upsert_response(upserted: Upserted) -> pb::UpsertResponse {
    pb::UpsertResponse { inserted_count: upserted.inserted, updated_count: upserted.updated }
}

fn find_similar(request: &pb::FindSimilarRequest) -> Result<search::FindSimilarRequest, ApiError> {
    let queries = required("queries", request.queries.as_ref())?;
    let corpus = required("corpus", request.corpus.as_ref())?;
    if queries.cols() != corpus.cols() {
        let reason = format!("expected rows of dim {}, which the queries have, got {}", queries.cols(), corpus.cols());
        return Err(ApiError::invalid("corpus.shape", reason));
    }
    let (k, most) = (request.k as usize, corpus.rows().min(MAX_K));
    if k == 0 || k > most {
        let what = if most == MAX_K { "the largest k" } else { "the corpus's rows" };
        return Err(ApiError::invalid("k", format!("expected 1 to {most}, {what}, got {k}")));
    }
    let metric = match metric(request.metric)? {
        Metric::Cosine => search::Metric::Cosine,
        Metric::Dot => search::Metric::Dot,
        Metric::SquaredL2 => search::Metric::SquaredL2,
    };
    Ok(search::FindSimilarRequest { queries, corpus, metric, k, threshold: threshold(request.score_threshold)? })
}

fn required(field: &str, tensor: Option<&pb::Tensor>) -> Result<Matrix, ApiError> {
    matrix(field, tensor.ok_or_else(|| ApiError::invalid(field, "expected a tensor, got none"))?)
}

fn threshold(threshold: Option<f32>) -> Result<Option<f32>, ApiError> {
    match threshold {
        Some(threshold) if threshold.is_nan() => {
            Err(ApiError::invalid("score_threshold", "expected a number, got NaN"))
        }
        threshold => Ok(threshold),
    }
}

/// Lists of hits as two tensors of k columns.
fn ranking(hits: &search::Hits, k: usize) -> pb::FindSimilarResponse {
    let count = hits.lists.len() * k;
    let (mut indices, mut scores) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for (i, list) in hits.lists.iter().enumerate() {
        indices.extend(list.iter().map(|hit| hit.row.cast_signed()));
        scores.extend(list.iter().map(|hit| hit.score));
        indices.resize((i + 1) * k, -1);
        scores.resize((i + 1) * k, f32::NAN);
    }
    let shape = [hits.lists.len(), k];
    pb::FindSimilarResponse {
        indices: Some(tensor_of(pb::Dtype::I32, &shape, bytes_of(indices))),
        scores: Some(tensor_of(pb::Dtype::F32, &shape, bytes_of(scores))),
    }
}

fn metric(metric: i32) -> Result<Metric, ApiError> {
    match pb::Metric::try_from(metric) {
        Ok(pb::Metric::Unspecified | pb::Metric::Cosine) => Ok(Metric::Cosine),
        Ok(pb::Metric::Dot) => Ok(Metric::Dot),
        Ok(pb::Metric::SquaredL2) => Ok(Metric::SquaredL2),
        Err(_) => Err(ApiError::invalid("metric", format!("expected a known metric, got {metric}"))),
    }
}

fn storage(dtype: i32) -> Result<Storage, ApiError> {
    match pb::Dtype::try_from(dtype) {
        Ok(pb::Dtype::F32) => Ok(Storage::F32),
        Ok(pb::Dtype::F16) => Ok(Storage::F16),
        Ok(pb::Dtype::Unspecified | pb::Dtype::Bf16) => Ok(Storage::Bf16),
        Ok(pb::Dtype::I8) => Ok(Storage::I8),
        Ok(pb::Dtype::F64 | pb::Dtype::I32 | pb::Dtype::I64 | pb::Dtype::U8) | Err(_) => {
            Err(ApiError::invalid("storage", format!("expected f32, f16, bf16 or i8, got dtype {dtype}")))
        }
    }
}

fn new_collection(request: pb::CreateCollectionRequest) -> Result<NewCollection, ApiError> {
    Ok(NewCollection {
        metric: metric(request.metric)?,
        storage: storage(request.storage)?,
        name: request.name,
        dimensions: request.dimensions,
        model: request.model,
        durable: request.durable,
    })
}

fn describe(collection: &Collection) -> pb::Collection {
    let Description { meta, points, tombstones, host_bytes, device_bytes, device } = collection.describe();
    let metric = match meta.metric {
        Metric::Cosine => pb::Metric::Cosine,
        Metric::Dot => pb::Metric::Dot,
        Metric::SquaredL2 => pb::Metric::SquaredL2,
    };
    let storage = match meta.storage {
        Storage::F32 => pb::Dtype::F32,
        Storage::F16 => pb::Dtype::F16,
        Storage::Bf16 => pb::Dtype::Bf16,
        Storage::I8 => pb::Dtype::I8,
    };
    pb::Collection {
        name: meta.name,
        dimensions: meta.dim,
        metric: metric.into(),
        storage: storage.into(),
        model: meta.model,
        durable: meta.durable,
        point_count: points,
        tombstone_count: tombstones,
        host_bytes,
        device_bytes,
        device: device.to_string(),
        create_time: Some(convert::timestamp(meta.create_time_ms)),
    }
}

fn new_points(request: pb::UpsertRequest) -> Result<NewPoints, ApiError> {
    let pb::UpsertRequest { ids, points, payloads, .. } = request;
    let vectors = match points {
        Some(pb::upsert_request::Points::Vectors(vectors)) => Vectors::Rows(matrix("vectors", &vectors)?),
        Some(pb::upsert_request::Points::Texts(texts)) => Vectors::Texts(texts.values),
        None => return Err(ApiError::invalid("points", "expected vectors or texts, got neither")),
    };
    Ok(NewPoints { ids: convert::ids("ids", &ids.unwrap_or_default())?, vectors, payloads })
}

fn search_spec(request: pb::SearchRequest) -> Result<SearchSpec, ApiError> {
    let query = match request.query {
        Some(pb::search_request::Query::Vectors(vectors)) => {
            Query::Vectors(Vectors::Rows(matrix("vectors", &vectors)?))
        }
        Some(pb::search_request::Query::Texts(texts)) => Query::Vectors(Vectors::Texts(texts.values)),
        Some(pb::search_request::Query::Ids(ids)) => Query::Ids(convert::ids("ids", &ids)?),
        None => return Err(ApiError::invalid("query", "expected vectors, texts or ids, got none")),
    };
    let filter = request.filter.map(|filter| Filter::parse("filter", &filter)).transpose()?;
    Ok(SearchSpec {
        query,
        offset: request.offset as usize,
        limit: request.limit as usize,
        threshold: threshold(request.score_threshold)?,
        filter: filter.filter(|filter| !filter.is_empty()),
        with_payload: request.include_payload,
    })
}

fn hit(found: Found) -> pb::Hit {
    let id = match found.id {
        PointId::Number(number) => pb::hit::Id::Number(number),
        PointId::Uuid(uuid) => pb::hit::Id::Uuid(convert::uuid_text(uuid)),
    };
    pb::Hit { id: Some(id), score: found.score, payload: found.payload }
}

/// A clustering without its rows, checked as far as that goes.
fn clustering(request: &pb::ClusterRequest) -> Result<kmeans::ClusterRequest, ApiError> {
    let tolerance = request.tolerance.unwrap_or(1e-4);
    if !tolerance.is_finite() || tolerance < 0.0 {
        return Err(ApiError::invalid("tolerance", format!("expected a finite number of at least 0, got {tolerance}")));
    }
    let max_iterations = at_most("max_iterations", request.max_iterations, 100, MAX_ITERATIONS)?;
    let starts = at_most("start_count", request.start_count, 1, MAX_STARTS)?;
    let nothing = Matrix::from_vec(0, 0, vec![]).map_err(|e| ApiError::invalid("vectors", e.to_string()))?;
    Ok(kmeans::ClusterRequest {
        rows: Rows::Inline(nothing),
        clusters: request.cluster_count as usize,
        max_iterations,
        tolerance,
        starts,
        spherical: request.spherical,
        seed: request.seed,
    })
}

fn at_most(field: &str, got: u32, default: usize, most: u32) -> Result<usize, ApiError> {
    match got {
        0 => Ok(default),
        got if got <= most => Ok(got as usize),
        got => Err(ApiError::invalid(field, format!("expected at most {most}, got {got}"))),
    }
}

fn cluster_response(clusters: kmeans::Clusters, ids: Option<pb::PointIds>) -> pb::ClusterResponse {
    let rows = clusters.assignments.len();
    pb::ClusterResponse {
        centers: Some(tensor(&clusters.centers)),
        // Clusters are fewer than rows, and rows fewer than i32 can count where they fit a message.
        assignments: Some(tensor_of(pb::Dtype::I32, &[rows], bytes_of(clusters.assignments))),
        inertia: clusters.inertia,
        iteration_count: u32::try_from(clusters.iterations).unwrap_or(u32::MAX),
        converged: clusters.converged,
        ids,
    }
}
