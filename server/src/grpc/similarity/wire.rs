//! Conversions between the messages of `SimilarityService` and internal types.

use accelerd_collections::{
    Collection, Description, Filter, Found, Fusion, NewPayloads, NewPoints, PayloadColumns, PointId, PromptChoice,
    Query, Snapshot, Upserted, Vectors, payload_columns,
};
use accelerd_kernels::{
    Matrix,
    ops::{cluster::Clusters, similarity::Hits},
};
use accelerd_proto::v1 as pb;
use accelerd_store::{Ids, Metric, Prompt, Storage};
use prost::Message as _;

use crate::{
    batches::Numbered,
    collections::{
        ClusterCall, ClusterInput, CreateCall, FindSimilarCall, HybridCall, ScrollCall, SearchCall, UpsertCall,
    },
    error::{ApiError, Decoded},
    grpc::convert::{self, bytes_of, matrix, tensor, tensor_of},
    status::item_error,
};

pub(super) fn upsert_response(upserted: Upserted) -> pb::UpsertResponse {
    pb::UpsertResponse { inserted_count: upserted.inserted, updated_count: upserted.updated }
}

/// The answer to a batch of a stream.
pub(super) fn upsert_stream_response((sequence, upserted): Numbered<Upserted>) -> pb::UpsertStreamResponse {
    use pb::upsert_stream_response::Result as Outcome;
    let outcome = match upserted {
        Ok(upserted) => Outcome::Upsert(upsert_response(upserted)),
        Err(error) => Outcome::Error(item_error(&error.into())),
    };
    pb::UpsertStreamResponse { sequence, result: Some(outcome) }
}

pub(super) fn find_similar_call(request: &pb::FindSimilarRequest) -> Result<FindSimilarCall, ApiError> {
    Ok(FindSimilarCall {
        queries: required("queries", request.queries.as_ref())?,
        corpus: required("corpus", request.corpus.as_ref())?,
        metric: metric(request.metric),
        k: request.k,
        score_threshold: request.score_threshold,
    })
}

fn required(field: &str, tensor: Option<&pb::Tensor>) -> Result<Matrix, ApiError> {
    matrix(field, tensor.ok_or_else(|| ApiError::invalid(field, "expected a tensor, got none"))?)
}

/// Lists of hits as tensors of indices and scores with k columns, padded with -1 and NaN.
pub(super) fn ranking(hits: &Hits, k: usize) -> pb::FindSimilarResponse {
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

fn metric(metric: i32) -> Decoded<Option<Metric>> {
    match pb::Metric::try_from(metric) {
        Ok(pb::Metric::Unspecified) => Ok(None),
        Ok(pb::Metric::Cosine) => Ok(Some(Metric::Cosine)),
        Ok(pb::Metric::Dot) => Ok(Some(Metric::Dot)),
        Ok(pb::Metric::SquaredL2) => Ok(Some(Metric::SquaredL2)),
        Err(_) => Err(ApiError::invalid("metric", format!("expected a known metric, got {metric}"))),
    }
}

fn storage(dtype: i32) -> Decoded<Option<Storage>> {
    match pb::Dtype::try_from(dtype) {
        Ok(pb::Dtype::Unspecified) => Ok(None),
        Ok(pb::Dtype::F32) => Ok(Some(Storage::F32)),
        Ok(pb::Dtype::F16) => Ok(Some(Storage::F16)),
        Ok(pb::Dtype::Bf16) => Ok(Some(Storage::Bf16)),
        Ok(pb::Dtype::I8) => Ok(Some(Storage::I8)),
        Ok(_) | Err(_) => {
            Err(ApiError::invalid("storage", format!("expected f32, f16, bf16 or i8, got dtype {dtype}")))
        }
    }
}

pub(super) fn create_call(request: pb::CreateCollectionRequest) -> CreateCall {
    CreateCall {
        document_prompt: convert::prompt("document_prompt", request.document_prompt_name, request.document_prompt),
        query_prompt: convert::prompt("query_prompt", request.query_prompt_name, request.query_prompt),
        metric: metric(request.metric),
        storage: storage(request.storage),
        durable: durability(request.durability, request.durable),
        name: request.name,
        dimensions: request.dimensions,
        model: request.model,
        text_field: request.text_field,
    }
}

/// Fails if a request without texts asks for a prompt.
fn no_prompt(prompt: Decoded<PromptChoice>, what: &str) -> Result<(), ApiError> {
    let field = match prompt? {
        PromptChoice::Default => return Ok(()),
        PromptChoice::Named(_) => "prompt_name",
        PromptChoice::Text(_) => "prompt",
    };
    Err(ApiError::invalid(field, format!("expected none with {what}")))
}

/// Returns true if a collection is durable; `None` leaves it to the daemon.
fn durability(durability: i32, durable: bool) -> Decoded<Option<bool>> {
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
    let described = |prompt: Prompt| (prompt.name, Some(prompt.text));
    let (document, query) = meta.prompts.map(|prompts| (prompts.document, prompts.query)).unzip();
    let (document_prompt_name, document_prompt) = document.map(described).unwrap_or_default();
    let (query_prompt_name, query_prompt) = query.map(described).unwrap_or_default();
    pb::Collection {
        name: meta.name,
        dimensions: meta.dim,
        metric: metric.into(),
        storage: storage.into(),
        model: meta.model,
        model_digest: meta.model_digest,
        document_prompt_name,
        document_prompt,
        query_prompt_name,
        query_prompt,
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

pub(super) fn upsert_call(mut request: pb::UpsertRequest) -> UpsertCall {
    UpsertCall {
        bytes: request.encoded_len() as u64,
        collection: std::mem::take(&mut request.collection),
        points: new_points(request),
    }
}

fn new_points(request: pb::UpsertRequest) -> Decoded<NewPoints> {
    let pb::UpsertRequest { ids, points, payloads, payload_columns, prompt_name, prompt, .. } = request;
    let prompt = convert::prompt("prompt", prompt_name, prompt);
    let ids = convert::ids("ids", &ids.unwrap_or_default())?;
    let vectors = match points {
        Some(pb::upsert_request::Points::Vectors(vectors)) => {
            no_prompt(prompt, "vectors")?;
            Vectors::Rows(matrix("vectors", &vectors)?)
        }
        Some(pb::upsert_request::Points::Texts(texts)) => Vectors::Texts(texts.values, prompt?),
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

fn fusion(fusion: i32) -> Decoded<Option<Fusion>> {
    match pb::Fusion::try_from(fusion) {
        Ok(pb::Fusion::Unspecified) => Ok(None),
        Ok(pb::Fusion::RelativeScore) => Ok(Some(Fusion::RelativeScore)),
        Ok(pb::Fusion::ReciprocalRank) => Ok(Some(Fusion::ReciprocalRank)),
        Err(_) => Err(ApiError::invalid("fusion", format!("expected a known fusion, got {fusion}"))),
    }
}

pub(super) fn search_call(request: pb::SearchRequest) -> SearchCall {
    SearchCall {
        collection: request.collection,
        query: query(request.query, convert::prompt("prompt", request.prompt_name, request.prompt)),
        offset: request.offset,
        limit: request.limit,
        score_threshold: request.score_threshold,
        filter: filter(request.filter),
        with_payload: request.include_payload,
        hybrid: HybridCall {
            is_hybrid: request.hybrid,
            fusion: fusion(request.fusion),
            text_weight: request.text_weight,
        },
    }
}

fn query(query: Option<pb::search_request::Query>, prompt: Decoded<PromptChoice>) -> Decoded<Query> {
    match query {
        Some(pb::search_request::Query::Vectors(vectors)) => {
            no_prompt(prompt, "vectors")?;
            Ok(Query::Vectors(Vectors::Rows(matrix("vectors", &vectors)?)))
        }
        Some(pb::search_request::Query::Texts(texts)) => Ok(Query::Vectors(Vectors::Texts(texts.values, prompt?))),
        Some(pb::search_request::Query::Ids(ids)) => {
            no_prompt(prompt, "ids")?;
            Ok(Query::Ids(convert::ids("ids", &ids)?))
        }
        None => Err(ApiError::invalid("query", "expected vectors, texts or ids, got none")),
    }
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

pub(super) fn scroll_call(request: pb::ScrollPointsRequest) -> ScrollCall {
    ScrollCall {
        collection: request.collection,
        filter: filter(request.filter),
        cursor: request.cursor,
        limit: request.limit,
        with_payload: request.include_payload,
        with_vectors: request.include_vectors,
    }
}

pub(super) fn filter(filter: Option<pb::Filter>) -> Decoded<Option<Filter>> {
    Ok(filter.map(|filter| Filter::parse("filter", &filter)).transpose()?)
}

pub(super) fn snapshot(written: Snapshot) -> pb::Snapshot {
    pb::Snapshot {
        url: written.url,
        version: written.version,
        point_count: written.points,
        size_bytes: written.bytes,
        create_time: Some(convert::timestamp(written.create_time_ms)),
    }
}

pub(super) fn cluster_call(request: pb::ClusterRequest) -> ClusterCall {
    let input = match request.input {
        Some(pb::cluster_request::Input::Vectors(vectors)) => Ok(ClusterInput::Rows(matrix("vectors", &vectors))),
        Some(pb::cluster_request::Input::Collection(name)) => Ok(ClusterInput::Collection(name)),
        None => Err(ApiError::invalid("input", "expected vectors or a collection, got neither")),
    };
    ClusterCall {
        input,
        cluster_count: request.cluster_count,
        max_iterations: request.max_iterations,
        tolerance: request.tolerance,
        init_count: request.init_count,
        spherical: request.spherical,
        seed: request.seed,
    }
}

pub(super) fn cluster_response(clusters: Clusters, ids: Option<pb::PointIds>) -> pb::ClusterResponse {
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

    #[test]
    fn invalid_tensors_of_a_search_name_the_field() {
        let request = pb::FindSimilarRequest {
            queries: Some(f32s([1, 2], &[1.0, 2.0])),
            corpus: Some(f32s([3, 2], &[1.0, 1.0, 1.0, f32::INFINITY, 1.0, 1.0])),
            ..pb::FindSimilarRequest::default()
        };
        let refused = |request: &pb::FindSimilarRequest| {
            find_similar_call(request).map(|_| ()).expect_err("it must be refused").to_string()
        };
        let infinite = refused(&request);
        assert!(infinite.starts_with("corpus.data: ") && infinite.ends_with("row 1, column 1"), "{infinite}");
        let missing = pb::FindSimilarRequest { queries: None, ..request };
        assert_eq!(refused(&missing), "queries: expected a tensor, got none");
    }

    #[test]
    fn unknown_values_of_enums_name_the_field_and_unspecified_ones_are_none() {
        let text = |error: ApiError| error.to_string();
        assert_eq!(metric(99).map_err(text), Err("metric: expected a known metric, got 99".to_owned()));
        assert_eq!(storage(99).map_err(text), Err("storage: expected f32, f16, bf16 or i8, got dtype 99".to_owned()));
        assert_eq!(fusion(99).map_err(text), Err("fusion: expected a known fusion, got 99".to_owned()));
        assert_eq!(metric(0).map_err(text), Ok(None));
        assert_eq!(storage(0).map_err(text), Ok(None));
        assert_eq!(fusion(0).map_err(text), Ok(None));
    }

    #[test]
    fn short_lists_are_padded_with_minus_one_and_nan() {
        let hit = |row, score| Hit { row, score };
        let hits = Hits { lists: vec![vec![hit(7, 0.5)], vec![], vec![hit(1, 2.0), hit(0, 1.0)]] };
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
}
