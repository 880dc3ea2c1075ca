//! Collections of points in memory, searched with filters.

use std::collections::BTreeMap;

use accelerd_proto::v1::{
    self as proto, condition::Test, hit::Id, search_request::Query, similarity_service_server::SimilarityService,
    upsert_request::Points,
};
use bytes::Bytes;
use futures::StreamExt;
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_types::{ErrorDetails, StatusExt};

use super::{DIM, FakeDaemon, Replies, Reply, ints, rows, tensor, toy_vector};

#[derive(Debug)]
pub(super) struct Collection {
    described: proto::Collection,
    points: BTreeMap<String, Point>,
}

#[derive(Debug)]
struct Point {
    vector: Vec<f32>,
    payload: proto::Payload,
}

#[tonic::async_trait]
impl SimilarityService for FakeDaemon {
    async fn find_similar(&self, request: Request<proto::FindSimilarRequest>) -> Reply<proto::FindSimilarResponse> {
        self.enter("FindSimilar").await?;
        let request = request.into_inner();
        let queries = rows(&request.queries.unwrap_or_default());
        let corpus = rows(&request.corpus.unwrap_or_default());
        let shape = vec![i64::try_from(queries.len()).unwrap_or(0), i64::from(request.k)];
        let (mut indices, mut scores) = (vec![], vec![]);
        for query in &queries {
            let dot = |row: &Vec<f32>| row.iter().zip(query).map(|(a, b)| a * b).sum::<f32>();
            let mut scored: Vec<_> = corpus.iter().map(dot).zip(0..).collect();
            scored.sort_by(|a, b| b.0.total_cmp(&a.0));
            scored.truncate(request.k as usize);
            indices.extend(scored.iter().map(|s| s.1));
            scores.push(scored.iter().map(|s| s.0).collect());
        }
        let scores = Some(tensor(&scores));
        Ok(Response::new(proto::FindSimilarResponse { indices: Some(ints(indices, shape)), scores }))
    }

    async fn create_collection(
        &self,
        request: Request<proto::CreateCollectionRequest>,
    ) -> Reply<proto::CreateCollectionResponse> {
        self.enter("CreateCollection").await?;
        let request = request.into_inner();
        if self.state().collections.contains_key(&request.name) {
            return Err(Status::already_exists(format!("collection {:?} exists", request.name)));
        }
        let durable = request.durable || request.durability() == proto::Durability::Log;
        // The words of a prompt with a name are its name.
        let words = |name: &str, prompt: Option<String>| prompt.or((!name.is_empty()).then(|| format!("{name}: ")));
        let described = proto::Collection {
            name: request.name.clone(),
            dimensions: if request.dimensions == 0 { u32::try_from(DIM).unwrap_or(0) } else { request.dimensions },
            metric: request.metric.max(proto::Metric::Cosine.into()),
            storage: proto::Dtype::Bf16.into(),
            model: request.model,
            document_prompt: words(&request.document_prompt_name, request.document_prompt),
            document_prompt_name: request.document_prompt_name,
            query_prompt: words(&request.query_prompt_name, request.query_prompt),
            query_prompt_name: request.query_prompt_name,
            text_field: request.text_field,
            durable,
            device: "cpu".into(),
            ..Default::default()
        };
        let collection = Collection { described: described.clone(), points: BTreeMap::new() };
        self.state().collections.insert(request.name, collection);
        Ok(Response::new(proto::CreateCollectionResponse { collection: Some(described) }))
    }

    async fn get_collection(
        &self,
        request: Request<proto::GetCollectionRequest>,
    ) -> Reply<proto::GetCollectionResponse> {
        self.enter("GetCollection").await?;
        let state = self.state();
        let collection = state.collections.get(&request.into_inner().name).ok_or_else(missing)?;
        Ok(Response::new(proto::GetCollectionResponse { collection: Some(collection.described.clone()) }))
    }

    async fn list_collections(
        &self,
        _request: Request<proto::ListCollectionsRequest>,
    ) -> Reply<proto::ListCollectionsResponse> {
        self.enter("ListCollections").await?;
        let collections = self.state().collections.values().map(|c| c.described.clone()).collect();
        Ok(Response::new(proto::ListCollectionsResponse { collections }))
    }

    async fn delete_collection(
        &self,
        request: Request<proto::DeleteCollectionRequest>,
    ) -> Reply<proto::DeleteCollectionResponse> {
        self.enter("DeleteCollection").await?;
        self.state().collections.remove(&request.into_inner().name).ok_or_else(missing)?;
        Ok(Response::new(proto::DeleteCollectionResponse {}))
    }

    async fn upsert(&self, request: Request<proto::UpsertRequest>) -> Reply<proto::UpsertResponse> {
        self.enter("Upsert").await?;
        self.write(request.into_inner()).map(Response::new)
    }

    async fn upsert_stream(
        &self,
        request: Request<Streaming<proto::UpsertStreamRequest>>,
    ) -> Reply<Replies<proto::UpsertStreamResponse>> {
        self.enter("UpsertStream").await?;
        let fake = self.clone();
        let failing = self.state().failing_step.take();
        let held = self.state().held.clone();
        let steps = request.into_inner().then(move |step| {
            let held = held.clone();
            async move {
                if let (Ok(step), Some((from, mut open))) = (&step, held)
                    && step.sequence >= from
                {
                    // The sender was dropped: continue.
                    let _gone = open.wait_for(|open| *open).await;
                }
                step
            }
        });
        let answers = steps.map(move |step| {
            use proto::upsert_stream_response::Result as Step;
            let step = step?;
            let done = if failing == Some(step.sequence) {
                Err(Status::resource_exhausted("disk is full"))
            } else {
                fake.write(step.upsert.unwrap_or_default())
            };
            let result = done.map_or_else(
                |status| Step::Error(proto::ItemError { code: status.code().into(), message: status.message().into() }),
                Step::Upsert,
            );
            Ok(proto::UpsertStreamResponse { sequence: step.sequence, result: Some(result) })
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn delete_points(&self, request: Request<proto::DeletePointsRequest>) -> Reply<proto::DeletePointsResponse> {
        self.enter("DeletePoints").await?;
        let request = request.into_inner();
        let filter = request.filter.unwrap_or_default();
        let mut state = self.state();
        let collection = state.collections.get_mut(&request.collection).ok_or_else(missing)?;
        let before = collection.points.len();
        collection.points.retain(|_, point| !passes(&point.payload, &filter));
        collection.described.point_count = collection.points.len() as u64;
        let deleted_count = (before - collection.points.len()) as u64;
        Ok(Response::new(proto::DeletePointsResponse { deleted_count }))
    }

    async fn search(&self, request: Request<proto::SearchRequest>) -> Reply<proto::SearchResponse> {
        self.enter("Search").await?;
        let timed = request.metadata().get("accelerd-timing").is_some();
        let request = request.into_inner();
        let queries = match request.query.clone() {
            Some(Query::Texts(texts)) => texts.values.iter().map(|t| toy_vector(t)).collect(),
            Some(Query::Vectors(tensor)) => rows(&tensor),
            Some(Query::Ids(_)) | None => return Err(Status::invalid_argument("no query")),
        };
        let mut state = self.state();
        state.prompts.push((request.prompt_name.clone(), request.prompt.clone()));
        let collection = state.collections.get(&request.collection).ok_or_else(missing)?;
        if request.hybrid && collection.described.text_field.is_empty() {
            let reason = "this collection has no text field";
            let details = ErrorDetails::with_bad_request_violation("hybrid", reason);
            return Err(Status::with_error_details(Code::InvalidArgument, format!("hybrid: {reason}"), details));
        }
        let results = queries.iter().map(|q| proto::SearchResult { hits: toy_hits(collection, q, &request) }).collect();
        let mut response = Response::new(proto::SearchResponse { results, exact: true, ..Default::default() });
        if timed {
            response.metadata_mut().insert("server-timing", "queue;dur=0.25,execute;dur=1.5".parse().expect("ASCII"));
        }
        Ok(response)
    }

    async fn get_points(&self, request: Request<proto::GetPointsRequest>) -> Reply<proto::GetPointsResponse> {
        self.enter("GetPoints").await?;
        let request = request.into_inner();
        let state = self.state();
        let collection = state.collections.get(&request.collection).ok_or_else(missing)?;
        let asked = id_strings(&request.ids.unwrap_or_default());
        let there: Vec<_> = asked.into_iter().filter_map(|id| Some((collection.points.get(&id)?, id))).collect();
        let vectors: Vec<_> = there.iter().map(|(point, _)| point.vector.clone()).collect();
        let payloads = there.iter().map(|(point, _)| point.payload.clone()).collect();
        let uuids = there.into_iter().map(|(_, id)| id).collect();
        Ok(Response::new(proto::GetPointsResponse {
            ids: Some(proto::PointIds { uuids, ..Default::default() }),
            payloads,
            vectors: request.include_vectors.then(|| tensor(&vectors)),
            ..Default::default()
        }))
    }

    async fn scroll_points(&self, request: Request<proto::ScrollPointsRequest>) -> Reply<proto::ScrollPointsResponse> {
        self.enter("ScrollPoints").await?;
        let request = request.into_inner();
        let state = self.state();
        let collection = state.collections.get(&request.collection).ok_or_else(missing)?;
        let filter = request.filter.unwrap_or_default();
        let limit = if request.limit == 0 { 1000 } else { request.limit as usize };
        let after = String::from_utf8_lossy(&request.cursor).into_owned();
        let there = |(id, point): &(&String, &Point)| **id > after && passes(&point.payload, &filter);
        let mut page: Vec<_> = collection.points.iter().filter(there).take(limit + 1).collect();
        let next_cursor = if page.len() > limit { page[limit - 1].0.clone().into() } else { Bytes::new() };
        page.truncate(limit);
        let vectors: Vec<_> = page.iter().map(|(_, point)| point.vector.clone()).collect();
        let payloads = page.iter().filter(|_| request.include_payload).map(|(_, point)| point.payload.clone());
        Ok(Response::new(proto::ScrollPointsResponse {
            payloads: payloads.collect(),
            ids: Some(proto::PointIds {
                uuids: page.iter().map(|(id, _)| (*id).clone()).collect(),
                ..Default::default()
            }),
            vectors: request.include_vectors.then(|| tensor(&vectors)),
            next_cursor,
            ..Default::default()
        }))
    }

    async fn count_points(&self, request: Request<proto::CountPointsRequest>) -> Reply<proto::CountPointsResponse> {
        self.enter("CountPoints").await?;
        let request = request.into_inner();
        let state = self.state();
        let collection = state.collections.get(&request.collection).ok_or_else(missing)?;
        let filter = request.filter.unwrap_or_default();
        let point_count = collection.points.values().filter(|point| passes(&point.payload, &filter)).count() as u64;
        Ok(Response::new(proto::CountPointsResponse { point_count, exact: true }))
    }

    async fn create_snapshot(
        &self,
        request: Request<proto::CreateSnapshotRequest>,
    ) -> Reply<proto::CreateSnapshotResponse> {
        self.enter("CreateSnapshot").await?;
        let url = format!("{}/{}", request.get_ref().url, request.get_ref().collection);
        let snapshot = proto::Snapshot { url, version: 1, point_count: 3, size_bytes: 4096, create_time: None };
        Ok(Response::new(proto::CreateSnapshotResponse { snapshot: Some(snapshot) }))
    }

    /// Lists three snapshots.
    async fn list_snapshots(
        &self,
        request: Request<proto::ListSnapshotsRequest>,
    ) -> Reply<proto::ListSnapshotsResponse> {
        self.enter("ListSnapshots").await?;
        Ok(Response::new(proto::ListSnapshotsResponse { snapshots: toy_snapshots(&request.get_ref().collection) }))
    }

    async fn prune_snapshots(
        &self,
        request: Request<proto::PruneSnapshotsRequest>,
    ) -> Reply<proto::PruneSnapshotsResponse> {
        self.enter("PruneSnapshots").await?;
        let mut deleted = toy_snapshots(&request.get_ref().collection);
        deleted.truncate(deleted.len().saturating_sub(request.get_ref().keep_count as usize));
        Ok(Response::new(proto::PruneSnapshotsResponse { deleted }))
    }

    async fn restore_collection(
        &self,
        _request: Request<proto::RestoreCollectionRequest>,
    ) -> Reply<proto::RestoreCollectionResponse> {
        self.enter("RestoreCollection").await?;
        Err(Status::data_loss("checksum of segment 3 does not match"))
    }

    /// Assigns row i to cluster i modulo the count.
    async fn cluster(&self, request: Request<proto::ClusterRequest>) -> Reply<proto::ClusterResponse> {
        self.enter("Cluster").await?;
        let request = request.into_inner();
        let (vectors, ids) = match request.input {
            Some(proto::cluster_request::Input::Vectors(tensor)) => (rows(&tensor), None),
            Some(proto::cluster_request::Input::Collection(name)) => {
                let state = self.state();
                let points = &state.collections.get(&name).ok_or_else(missing)?.points;
                let uuids = points.keys().cloned().collect();
                let ids = proto::PointIds { uuids, ..Default::default() };
                (points.values().map(|p| p.vector.clone()).collect(), Some(ids))
            }
            None => return Err(Status::invalid_argument("no input")),
        };
        let count = i32::try_from(request.cluster_count).unwrap_or(1).max(1);
        let assignments = (0..).take(vectors.len()).map(|row| row % count).collect();
        let centers = vectors.iter().take(request.cluster_count as usize).cloned().collect::<Vec<_>>();
        Ok(Response::new(proto::ClusterResponse {
            centers: Some(tensor(&centers)),
            assignments: Some(ints(assignments, vec![i64::try_from(vectors.len()).unwrap_or(0)])),
            inertia: 1.5,
            iteration_count: 4,
            converged: true,
            ids,
        }))
    }
}

impl FakeDaemon {
    /// Ids of a collection with their payload's `path` and `start_line`.
    pub fn points(&self, collection: &str) -> Vec<(String, i64)> {
        let state = self.state();
        let points = state.collections.get(collection).map(|c| c.points.values()).into_iter().flatten();
        let mut points: Vec<_> = points.map(|p| (text(&p.payload, "path"), int(&p.payload, "start_line"))).collect();
        points.sort();
        points
    }

    /// A text field of a collection's points, for those that have it.
    pub fn texts(&self, collection: &str, field: &str) -> Vec<String> {
        let state = self.state();
        let points = state.collections.get(collection).map(|c| c.points.values()).into_iter().flatten();
        points.map(|point| text(&point.payload, field)).filter(|text| !text.is_empty()).collect()
    }

    fn write(&self, request: proto::UpsertRequest) -> Result<proto::UpsertResponse, Status> {
        let ids = id_strings(&request.ids.unwrap_or_default());
        let (vectors, texts) = match request.points {
            Some(Points::Vectors(tensor)) => (rows(&tensor), vec![String::new(); ids.len()]),
            Some(Points::Texts(texts)) => (texts.values.iter().map(|t| toy_vector(t)).collect(), texts.values),
            None => return Err(Status::invalid_argument("no points")),
        };
        let mut state = self.state();
        state.upserts.extend(ids.iter().cloned().zip(texts));
        state.prompts.push((request.prompt_name, request.prompt));
        let collection = state.collections.get_mut(&request.collection).ok_or_else(missing)?;
        let mut done = proto::UpsertResponse::default();
        for (at, (id, vector)) in ids.into_iter().zip(vectors).enumerate() {
            let payload = request.payloads.get(at).cloned().unwrap_or_default();
            match collection.points.insert(id, Point { vector, payload }) {
                Some(_) => done.updated_count += 1,
                None => done.inserted_count += 1,
            }
        }
        collection.described.point_count = collection.points.len() as u64;
        Ok(done)
    }
}

fn missing() -> Status {
    let details = ErrorDetails::with_resource_info("collection", "it", "", "");
    Status::with_error_details(Code::NotFound, "collection \"it\" does not exist", details)
}

fn text(payload: &proto::Payload, field: &str) -> String {
    match payload.fields.get(field).and_then(|v| v.kind.as_ref()) {
        Some(proto::value::Kind::StringValue(text)) => text.clone(),
        _ => String::new(),
    }
}

fn int(payload: &proto::Payload, field: &str) -> i64 {
    match payload.fields.get(field).and_then(|v| v.kind.as_ref()) {
        Some(proto::value::Kind::IntValue(int)) => *int,
        _ => -1,
    }
}

fn id_strings(ids: &proto::PointIds) -> Vec<String> {
    let numbers = ids.numbers.iter().map(|n| format!("#{n}"));
    numbers.chain(ids.uuids.iter().cloned()).collect()
}

fn passes(payload: &proto::Payload, filter: &proto::Filter) -> bool {
    let holds = |condition: &proto::Condition| {
        let Some(value) = payload.fields.get(&condition.field) else { return false };
        match condition.test.as_ref() {
            Some(Test::Equals(wanted)) => value == wanted,
            Some(Test::AnyOf(set)) => set.values.contains(value),
            _ => false,
        }
    };
    filter.must.iter().all(holds) && !filter.must_not.iter().any(holds)
}

fn toy_hits(collection: &Collection, query: &[f32], request: &proto::SearchRequest) -> Vec<proto::Hit> {
    let filter = request.filter.clone().unwrap_or_default();
    let mut scored: Vec<_> = collection
        .points
        .iter()
        .filter(|(_, point)| passes(&point.payload, &filter))
        .map(|(id, point)| (point.vector.iter().zip(query).map(|(a, b)| a * b).sum::<f32>(), id, point))
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    let hits = scored.into_iter().skip(request.offset as usize).take(request.limit as usize);
    hits.map(|(score, id, point)| proto::Hit {
        id: Some(Id::Uuid(id.clone())),
        score: request.text_weight.map_or(score, |weight| weight + request.fusion as f32),
        payload: request.include_payload.then(|| point.payload.clone()),
    })
    .collect()
}

fn toy_snapshots(collection: &str) -> Vec<proto::Snapshot> {
    let snapshot = |version| proto::Snapshot {
        url: format!("file:///snapshots/{collection}/v{version:010}"),
        version,
        point_count: 3 * version,
        size_bytes: 4096,
        create_time: Some(prost_types::Timestamp { seconds: 1_700_000_000, nanos: 0 }),
    };
    (1..=3).map(snapshot).collect()
}
