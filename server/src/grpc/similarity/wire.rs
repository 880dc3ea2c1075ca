//! Conversions between the messages of `SimilarityService` and internal types.

use accelerd_collections::{
    Collection, Description, Filter, Found, Fusion, Hybrid, MAX_PAGE, NewCollection, NewPayloads, NewPoints, PageSpec,
    PayloadColumns, PointId, Query, SearchSpec, Upserted, Vectors, payload_columns,
};
use accelerd_kernels::{
    Matrix,
    ops::{
        cluster::{self as kmeans, Rows},
        similarity::{self as search, MAX_K},
    },
};
use accelerd_proto::v1 as pb;
use accelerd_store::{Ids, Metric, Storage};
use bytes::Bytes;

use crate::{
    error::ApiError,
    grpc::convert::{self, bytes_of, matrix, tensor, tensor_of},
};

/// Upper bounds of a clustering's parameters, far above practical values.
const MAX_ITERATIONS: u32 = 100_000;
const MAX_INITS: u32 = 1_000;
/// Default weight of the text score in a hybrid search.
const DEFAULT_TEXT_WEIGHT: f64 = 0.5;

pub(super) fn upsert_response(upserted: Upserted) -> pb::UpsertResponse {
    pb::UpsertResponse { inserted_count: upserted.inserted, updated_count: upserted.updated }
}

pub(super) fn find_similar(request: &pb::FindSimilarRequest) -> Result<search::FindSimilarRequest, ApiError> {
    let queries = required("queries", request.queries.as_ref())?;
    let corpus = required("corpus", request.corpus.as_ref())?;
    if queries.cols() != corpus.cols() {
        let reason = format!("expected {} columns like the queries, got {}", queries.cols(), corpus.cols());
        return Err(ApiError::invalid("corpus.shape", reason));
    }
    let k = request.k as usize;
    let max = corpus.rows().min(MAX_K);
    if k == 0 || k > max {
        let what = if max == MAX_K { "the largest k" } else { "the corpus's rows" };
        return Err(ApiError::invalid("k", format!("expected 1 to {max}, {what}, got {k}")));
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

/// Lists of hits as tensors of indices and scores with k columns, padded with -1 and NaN.
pub(super) fn ranking(hits: &search::Hits, k: usize) -> pb::FindSimilarResponse {
    let count = hits.lists.len() * k;
    let mut indices = Vec::with_capacity(count);
    let mut scores = Vec::with_capacity(count);
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
        Ok(_) | Err(_) => {
            Err(ApiError::invalid("storage", format!("expected f32, f16, bf16 or i8, got dtype {dtype}")))
        }
    }
}

pub(super) fn new_collection(request: pb::CreateCollectionRequest, owner: &str) -> Result<NewCollection, ApiError> {
    Ok(NewCollection {
        metric: metric(request.metric)?,
        storage: storage(request.storage)?,
        name: request.name,
        dimensions: request.dimensions,
        model: request.model,
        text_field: request.text_field,
        owner: owner.to_owned(),
        durable: durability(request.durability, request.durable)?,
    })
}

/// Returns true if a collection is durable; `None` leaves it to the daemon.
fn durability(durability: i32, durable: bool) -> Result<Option<bool>, ApiError> {
    let is_durable = match pb::Durability::try_from(durability) {
        Ok(pb::Durability::Unspecified) => durable.then_some(true),
        Ok(pb::Durability::Log) => Some(true),
        Ok(pb::Durability::Memory) if durable => {
            return Err(ApiError::invalid("durability", "expected LOG or none with durable, got MEMORY"));
        }
        Ok(pb::Durability::Memory) => Some(false),
        Err(_) => {
            return Err(ApiError::invalid("durability", format!("expected a known durability, got {durability}")));
        }
    };
    Ok(is_durable)
}

pub(super) fn describe(collection: &Collection) -> pb::Collection {
    let Description { meta, points, tombstones, host_bytes, device_bytes, device, damage, set_aside, set_aside_ids } =
        collection.describe();
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
        model_digest: meta.model_digest,
        text_field: meta.text_field,
        durable: meta.durable,
        point_count: points,
        tombstone_count: tombstones,
        host_memory_bytes: host_bytes,
        device_memory_bytes: device_bytes,
        device: device.to_string(),
        create_time: Some(convert::timestamp(meta.create_time_ms)),
        read_only: !damage.is_empty(),
        damage,
        set_aside_count: set_aside,
        set_aside_ids: (set_aside > 0).then(|| convert::point_ids(set_aside_ids)),
    }
}

pub(super) fn new_points(request: pb::UpsertRequest) -> Result<NewPoints, ApiError> {
    let pb::UpsertRequest { ids, points, payloads, payload_columns, .. } = request;
    let ids = convert::ids("ids", &ids.unwrap_or_default())?;
    let vectors = match points {
        Some(pb::upsert_request::Points::Vectors(vectors)) => Vectors::Rows(matrix("vectors", &vectors)?),
        Some(pb::upsert_request::Points::Texts(texts)) => Vectors::Texts(texts.values),
        None => return Err(ApiError::invalid("points", "expected vectors or texts, got neither")),
    };
    let payloads = match payload_columns {
        None => NewPayloads::Messages(payloads),
        Some(_) if !payloads.is_empty() => {
            return Err(ApiError::invalid("payload_columns", "expected payloads or payload_columns, got both"));
        }
        Some(columns) => NewPayloads::Columns(PayloadColumns::parse("payload_columns", &columns, ids.len())?),
    };
    Ok(NewPoints { ids, vectors, payloads })
}

/// The parameters of a hybrid search, if requested.
fn hybrid(is_hybrid: bool, fusion: i32, text_weight: Option<f32>) -> Result<Option<Hybrid>, ApiError> {
    if !is_hybrid {
        let field = if text_weight.is_some() { "text_weight" } else { "fusion" };
        let alone = text_weight.is_some() || fusion != 0;
        return if alone { Err(ApiError::invalid(field, "expected none without hybrid")) } else { Ok(None) };
    }
    let text_weight = match text_weight {
        Some(weight) if !(0.0..=1.0).contains(&weight) => {
            return Err(ApiError::invalid("text_weight", format!("expected a number from 0 to 1, got {weight}")));
        }
        weight => weight.map_or(DEFAULT_TEXT_WEIGHT, f64::from),
    };
    let fusion = match pb::Fusion::try_from(fusion) {
        Ok(pb::Fusion::Unspecified | pb::Fusion::RelativeScore) => Fusion::RelativeScore,
        Ok(pb::Fusion::ReciprocalRank) => Fusion::ReciprocalRank,
        Err(_) => return Err(ApiError::invalid("fusion", format!("expected a known fusion, got {fusion}"))),
    };
    Ok(Some(Hybrid { fusion, text_weight }))
}

pub(super) fn search_spec(request: pb::SearchRequest) -> Result<SearchSpec, ApiError> {
    let query = match request.query {
        Some(pb::search_request::Query::Vectors(vectors)) => {
            Query::Vectors(Vectors::Rows(matrix("vectors", &vectors)?))
        }
        Some(pb::search_request::Query::Texts(texts)) => Query::Vectors(Vectors::Texts(texts.values)),
        Some(pb::search_request::Query::Ids(ids)) => Query::Ids(convert::ids("ids", &ids)?),
        None => return Err(ApiError::invalid("query", "expected vectors, texts or ids, got none")),
    };
    Ok(SearchSpec {
        query,
        offset: request.offset as usize,
        limit: request.limit as usize,
        threshold: threshold(request.score_threshold)?,
        filter: filter(request.filter)?,
        with_payload: request.include_payload,
        hybrid: hybrid(request.hybrid, request.fusion, request.text_weight)?,
    })
}

pub(super) fn hit(found: Found) -> pb::Hit {
    let id = match found.id {
        PointId::Number(number) => pb::hit::Id::Number(number),
        PointId::Uuid(uuid) => pb::hit::Id::Uuid(convert::uuid_text(uuid)),
    };
    pb::Hit { id: Some(id), score: found.score, payload: found.payload }
}

/// All hits as columns, with payloads if requested.
pub(super) fn hit_columns(results: Vec<Vec<Found>>, with_payload: bool) -> Result<pb::HitColumns, ApiError> {
    let mut end = 0;
    let ends = results.iter().map(|found| {
        end += found.len();
        u32::try_from(end).unwrap_or(u32::MAX).to_le()
    });
    let offsets: Vec<u32> = std::iter::once(0).chain(ends).collect();
    let hits: Vec<Found> = results.into_iter().flatten().collect();
    let payload = |found: &Found| found.payload.clone().unwrap_or_default();
    let payloads: Vec<_> = if with_payload { hits.iter().map(payload).collect() } else { vec![] };
    Ok(pb::HitColumns {
        offsets: bytes_of(offsets),
        ids: Some(convert::packed_ids(ids_of(&hits))),
        scores: bytes_of(hits.iter().map(|found| f32::from_bits(found.score.to_bits().to_le())).collect()),
        payloads: with_payload.then(|| payload_columns(payloads.iter())).transpose()?,
    })
}

/// Ids of hits; a collection's ids are all of one kind.
fn ids_of(hits: &[Found]) -> Ids {
    let uuids: Vec<_> = hits.iter().filter_map(|found| uuid(found.id)).collect();
    if uuids.is_empty() {
        Ids::Numbers(hits.iter().filter_map(|found| number(found.id)).collect())
    } else {
        Ids::Uuids(uuids)
    }
}

fn number(id: PointId) -> Option<u64> {
    match id {
        PointId::Number(number) => Some(number),
        PointId::Uuid(_) => None,
    }
}

fn uuid(id: PointId) -> Option<[u8; 16]> {
    match id {
        PointId::Uuid(uuid) => Some(uuid),
        PointId::Number(_) => None,
    }
}

/// Ids and payloads of points, as messages or as columns.
pub(super) struct Listed {
    pub(super) ids: pb::PointIds,
    pub(super) payloads: Vec<pb::Payload>,
    pub(super) payload_columns: Option<pb::PayloadColumns>,
}

/// Lists points; `payloads`, if requested, has one per point.
pub(super) fn listed(ids: Ids, payloads: Option<Vec<pb::Payload>>, as_columns: bool) -> Result<Listed, ApiError> {
    if !as_columns {
        let payloads = payloads.unwrap_or_default();
        return Ok(Listed { ids: convert::point_ids(ids), payloads, payload_columns: None });
    }
    let payload_columns = payloads.map(|payloads| payload_columns(payloads.iter())).transpose()?;
    Ok(Listed { ids: convert::packed_ids(ids), payloads: vec![], payload_columns })
}

/// Default page size.
const DEFAULT_PAGE: usize = 1_000;
/// Tags of the id in a cursor.
const NUMBER: u8 = 1;
const UUID: u8 = 2;

pub(super) fn page_spec(request: pb::ScrollPointsRequest) -> Result<PageSpec, ApiError> {
    let limit = match request.limit as usize {
        0 => DEFAULT_PAGE,
        limit @ 1..=MAX_PAGE => limit,
        limit => return Err(ApiError::invalid("limit", format!("expected at most {MAX_PAGE}, got {limit}"))),
    };
    Ok(PageSpec {
        filter: filter(request.filter)?,
        after: after(&request.cursor)?,
        limit,
        with_payload: request.include_payload,
        with_vectors: request.include_vectors,
    })
}

/// The filter, unless it is empty.
pub(super) fn filter(filter: Option<pb::Filter>) -> Result<Option<Filter>, ApiError> {
    let filter = filter.map(|filter| Filter::parse("filter", &filter)).transpose()?;
    Ok(filter.filter(|filter| !filter.is_empty()))
}

/// The last id of the previous page.
fn after(cursor: &[u8]) -> Result<Option<PointId>, ApiError> {
    let bad = || ApiError::invalid("cursor", "expected next_cursor of a page, or none");
    match cursor {
        [] => Ok(None),
        [NUMBER, id @ ..] => {
            let id = id.try_into().map_err(|_| bad())?;
            Ok(Some(PointId::Number(u64::from_be_bytes(id))))
        }
        [UUID, id @ ..] => Ok(Some(PointId::Uuid(id.try_into().map_err(|_| bad())?))),
        _ => Err(bad()),
    }
}

/// The cursor of the next page; empty after the last.
pub(super) fn cursor(next: Option<PointId>) -> Bytes {
    match next {
        None => Bytes::new(),
        Some(PointId::Number(number)) => [&[NUMBER][..], &number.to_be_bytes()].concat().into(),
        Some(PointId::Uuid(uuid)) => [&[UUID][..], &uuid].concat().into(),
    }
}

/// A clustering request without rows.
pub(super) fn clustering(request: &pb::ClusterRequest) -> Result<kmeans::ClusterRequest, ApiError> {
    let tolerance = request.tolerance.unwrap_or(1e-4);
    if !tolerance.is_finite() || tolerance < 0.0 {
        return Err(ApiError::invalid("tolerance", format!("expected a finite number of at least 0, got {tolerance}")));
    }
    let max_iterations = at_most("max_iterations", request.max_iterations, 100, MAX_ITERATIONS)?;
    let init_count = at_most("init_count", request.init_count, 1, MAX_INITS)?;
    let nothing = Matrix::from_vec(0, 0, vec![]).map_err(|e| ApiError::invalid("vectors", e.to_string()))?;
    Ok(kmeans::ClusterRequest {
        rows: Rows::Inline(nothing),
        clusters: request.cluster_count as usize,
        max_iterations,
        tolerance,
        init_count,
        spherical: request.spherical,
        seed: request.seed,
    })
}

fn at_most(field: &str, got: u32, default: usize, max: u32) -> Result<usize, ApiError> {
    match got {
        0 => Ok(default),
        got if got <= max => Ok(got as usize),
        got => Err(ApiError::invalid(field, format!("expected at most {max}, got {got}"))),
    }
}

pub(super) fn cluster_response(clusters: kmeans::Clusters, ids: Option<pb::PointIds>) -> pb::ClusterResponse {
    let rows = clusters.assignments.len();
    pb::ClusterResponse {
        centers: Some(tensor(&clusters.centers)),
        // Fits i32: there are fewer clusters than rows, and fewer rows than i32::MAX in a message.
        assignments: Some(tensor_of(pb::Dtype::I32, &[rows], bytes_of(clusters.assignments))),
        inertia: clusters.inertia,
        iteration_count: u32::try_from(clusters.iterations).unwrap_or(u32::MAX),
        converged: clusters.converged,
        ids,
    }
}

#[cfg(test)]
mod tests {
    use accelerd_kernels::ops::similarity::Hit;

    use super::*;

    fn f32s(shape: [i64; 2], numbers: &[f32]) -> pb::Tensor {
        pb::Tensor { dtype: pb::Dtype::F32.into(), shape: shape.to_vec(), data: bytes_of(numbers.to_vec()) }
    }

    fn request() -> pb::FindSimilarRequest {
        pb::FindSimilarRequest {
            queries: Some(f32s([1, 2], &[1.0, 2.0])),
            corpus: Some(f32s([3, 2], &[1.0; 6])),
            k: 3,
            ..pb::FindSimilarRequest::default()
        }
    }

    fn refused(request: &pb::FindSimilarRequest) -> String {
        find_similar(request).expect_err("it must be refused").to_string()
    }

    #[test]
    fn the_metric_defaults_to_cosine() {
        let taken = find_similar(&request()).expect("it is good");
        assert_eq!((taken.k, taken.metric, taken.threshold), (3, search::Metric::Cosine, None));
    }

    #[test]
    fn invalid_requests_name_the_field() {
        assert_eq!(
            refused(&pb::FindSimilarRequest { k: 4, ..request() }),
            "k: expected 1 to 3, the corpus's rows, got 4"
        );
        assert!(refused(&pb::FindSimilarRequest { k: 0, ..request() }).starts_with("k: "));
        assert_eq!(
            refused(&pb::FindSimilarRequest { queries: None, ..request() }),
            "queries: expected a tensor, got none"
        );
        let nan = f32s([3, 2], &[1.0, 1.0, 1.0, f32::INFINITY, 1.0, 1.0]);
        let nan = refused(&pb::FindSimilarRequest { corpus: Some(nan), ..request() });
        assert!(nan.starts_with("corpus.data: ") && nan.ends_with("row 1, column 1"), "{nan}");
        let other = Some(f32s([2, 3], &[1.0; 6]));
        assert!(refused(&pb::FindSimilarRequest { corpus: other, ..request() }).starts_with("corpus.shape: "));
        assert!(refused(&pb::FindSimilarRequest { metric: 99, ..request() }).starts_with("metric: "));
        let nan = pb::FindSimilarRequest { score_threshold: Some(f32::NAN), ..request() };
        assert!(refused(&nan).starts_with("score_threshold: "));
    }

    #[test]
    fn short_lists_are_padded_with_minus_one_and_nan() {
        let hit = |row, score| Hit { row, score };
        let hits = search::Hits { lists: vec![vec![hit(7, 0.5)], vec![], vec![hit(1, 2.0), hit(0, 1.0)]] };
        let response = ranking(&hits, 2);
        let indices = response.indices.expect("it is always set");
        assert_eq!((indices.shape, indices.dtype), (vec![3, 2], pb::Dtype::I32.into()));
        let rows: Vec<_> = indices.data.as_chunks::<4>().0.iter().map(|row| i32::from_le_bytes(*row)).collect();
        assert_eq!(rows, [7, -1, -1, -1, 1, 0]);
        let scores = response.scores.expect("it is always set").data;
        let scores: Vec<_> = scores.as_chunks::<4>().0.iter().map(|score| f32::from_le_bytes(*score)).collect();
        assert_eq!((scores[0], scores[4]), (0.5, 2.0));
        assert!(scores[1..4].iter().all(|score| score.is_nan()));
    }

    #[test]
    fn durability_has_three_values_and_may_not_contradict_durable() {
        let of = |value: pb::Durability, durable| durability(value.into(), durable).map_err(|error| error.to_string());
        assert_eq!(of(pb::Durability::Unspecified, false), Ok(None));
        assert_eq!(of(pb::Durability::Unspecified, true), Ok(Some(true)));
        assert_eq!(of(pb::Durability::Log, false), Ok(Some(true)));
        assert_eq!(of(pb::Durability::Memory, false), Ok(Some(false)));
        assert!(of(pb::Durability::Memory, true).is_err_and(|message| message.starts_with("durability: ")));
        assert!(durability(99, false).is_err());
    }

    #[test]
    fn clustering_parameters_have_defaults_and_bounds() {
        let taken = clustering(&pb::ClusterRequest { cluster_count: 5, ..pb::ClusterRequest::default() });
        let taken = taken.expect("it is good");
        assert_eq!((taken.max_iterations, taken.init_count, taken.tolerance), (100, 1, 1e-4));
        let refused = |request| clustering(&request).expect_err("it must be refused").to_string();
        let tolerance = pb::ClusterRequest { tolerance: Some(-1.0), ..pb::ClusterRequest::default() };
        assert!(refused(tolerance).starts_with("tolerance: "));
        let inits = pb::ClusterRequest { init_count: u32::MAX, ..pb::ClusterRequest::default() };
        assert!(refused(inits).starts_with("init_count: "));
    }
}
