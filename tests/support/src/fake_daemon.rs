//! An in-memory fake of the daemon: collections with filters, toy models, and failures on demand.

mod embed;
mod kernel;
mod parse;
mod tensor;
mod verify;

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use accelerd_proto::v1::{
    self as proto, condition::Test, device_service_server as device, embed_service_server::EmbedServiceServer, hit::Id,
    kernel_service_server::KernelServiceServer, parse_service_server::ParseServiceServer, search_request::Query,
    similarity_service_server as similarity, tensor_service_server::TensorServiceServer, upsert_request::Points,
    verify_service_server::VerifyServiceServer,
};
use bytes::Bytes;
use futures::{Stream, StreamExt};
use tokio::net::{TcpListener, UnixListener};
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tonic::{
    Code, Request, Response, Status, Streaming,
    service::{Interceptor, InterceptorLayer},
    transport::{Certificate, Identity, Server, ServerTlsConfig},
};
use tonic_types::{ErrorDetails, StatusExt};

use crate::Certificates;

/// Dimensions of the toy model.
pub const DIM: usize = 64;

/// What ExportReport returns.
pub const REPORT: &str = r#"{"version": "0.1.0", "uptime_seconds": 3700.0,
    "devices": [{"name": "cpu", "product": "Toy CPU", "compute_units": 2, "memory_bytes": 1024, "lost": null}],
    "kernels": [{"name": "pool_rows", "device": "cpu", "calls": 7, "total_seconds": 0.021, "moved_bytes": 10500000}],
    "lanes": [{"name": "embed", "requests": 3, "wait_micros": {"p50": 250}}],
    "memory": [{"place": "host", "held_bytes": 2048, "limit_bytes": 4096, "accounts": []}]}"#;

/// The daemon; clones share its state.
#[derive(Clone, Default, Debug)]
pub struct FakeDaemon(Arc<Mutex<State>>);

/// What tests prepare and inspect.
#[derive(Default, Debug)]
pub struct State {
    /// Statuses that the next calls fail with.
    pub failures: VecDeque<Status>,
    /// Statuses that the next calls of a name fail with.
    pub failures_of: BTreeMap<&'static str, VecDeque<Status>>,
    /// Priority metadata of the received calls of Embed, in order.
    pub priorities: Vec<Option<String>>,
    /// Names of the received calls, in order.
    pub calls: Vec<&'static str>,
    /// Peer addresses of the calls that list models, in order.
    pub peers: Vec<Option<SocketAddr>>,
    /// Ids and texts of upserted points, in order.
    pub upserts: Vec<(String, String)>,
    /// Whether the next unary call hangs.
    pub hang: bool,
    /// The batch of the next UpsertStream that fails.
    pub failing_step: Option<u64>,
    /// Streams of upserts wait at this step until the channel's value is true.
    pub held: Option<(u64, tokio::sync::watch::Receiver<bool>)>,
    /// Responses to requests with a single source, by source.
    pub answers: BTreeMap<Bytes, proto::ParseResponse>,
    /// The number of parsed sources.
    pub parsed: usize,
    /// The bearer token of every call; calls without it fail with UNAUTHENTICATED.
    pub token: Option<&'static str>,
    /// Requests of BenchmarkOp, in order.
    pub benchmarks: Vec<proto::BenchmarkOpRequest>,
    /// The resident tensors, oldest first.
    pub tensors: Vec<(proto::ResidentTensor, proto::Tensor)>,
    /// The compiled kernels with their sources, the most recently used first.
    pub kernels: Vec<(proto::Kernel, String)>,
    /// Requests of Launch, in order.
    pub launches: Vec<proto::LaunchRequest>,
    /// Benchmarks of kernels, in order.
    pub kernel_benchmarks: Vec<proto::BenchmarkRequest>,
    /// Evaluations of CUDA C++, in order.
    pub evaluations: Vec<proto::EvaluateRequest>,
    /// The received messages of Verify, in order.
    pub verifications: Vec<proto::VerifyRequest>,
    made_tensors: u64,
    collections: BTreeMap<String, Collection>,
}

#[derive(Debug)]
struct Collection {
    described: proto::Collection,
    points: BTreeMap<String, Point>,
}

#[derive(Debug)]
struct Point {
    vector: Vec<f32>,
    payload: proto::Payload,
}

type Reply<T> = Result<Response<T>, Status>;
type Replies<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// RESOURCE_EXHAUSTED with RetryInfo.
pub fn busy(retry_after: Option<Duration>) -> Status {
    let mut details = ErrorDetails::new();
    if retry_after.is_some() {
        details.set_retry_info(retry_after);
    }
    Status::with_error_details(Code::ResourceExhausted, "lane is full", details)
}

/// Whether a server verifies its clients' certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// It asks for none.
    Ignored,
    /// It refuses clients without a certificate of its authority.
    Required,
}

/// Refuses calls without the token of the state.
#[derive(Clone)]
struct Authorize(FakeDaemon);

impl Interceptor for Authorize {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let expected = self.0.state().token.map(|token| format!("Bearer {token}"));
        let given = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
        match expected {
            Some(expected) if given != Some(&expected) => Err(Status::unauthenticated("unknown token")),
            _ => Ok(request),
        }
    }
}

type Router = tonic::transport::server::Router<
    tower::layer::util::Stack<InterceptorLayer<Authorize>, tower::layer::util::Identity>,
>;

impl FakeDaemon {
    /// Serves on a free loopback port until the runtime ends.
    pub async fn listen(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        tokio::spawn(self.router().serve_with_incoming(TcpListenerStream::new(listener)));
        address
    }

    /// Serves on a Unix socket.
    pub fn listen_unix(&self, path: &std::path::Path) {
        let listener = UnixListener::bind(path).expect("a free path");
        tokio::spawn(self.router().serve_with_incoming(UnixListenerStream::new(listener)));
    }

    /// Serves over TLS on a free loopback port.
    pub async fn listen_tls(&self, certificates: &Certificates, client_certificates: ClientCertificates) -> SocketAddr {
        let identity = Identity::from_pem(&certificates.server.certificate, &certificates.server.private_key);
        let tls = ServerTlsConfig::new().identity(identity);
        let tls = match client_certificates {
            ClientCertificates::Ignored => tls,
            ClientCertificates::Required => tls.client_ca_root(Certificate::from_pem(&certificates.ca)),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let router = self.router_of(Server::builder().tls_config(tls).expect("the certificates are valid"));
        tokio::spawn(router.serve_with_incoming(TcpListenerStream::new(listener)));
        address
    }

    fn router(&self) -> Router {
        self.router_of(Server::builder())
    }

    fn router_of(&self, server: Server) -> Router {
        let (_, health) = tonic_health::server::health_reporter();
        let fake = self.clone();
        server
            .layer(InterceptorLayer::new(Authorize(fake)))
            .add_service(health)
            .add_service(similarity::SimilarityServiceServer::new(self.clone()))
            .add_service(EmbedServiceServer::new(self.clone()))
            .add_service(ParseServiceServer::new(self.clone()))
            .add_service(TensorServiceServer::new(self.clone()))
            .add_service(VerifyServiceServer::new(self.clone()))
            .add_service(KernelServiceServer::new(self.clone()))
            .add_service(device::DeviceServiceServer::new(self.clone()))
    }

    /// The state, locked.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no test panics while it holds the state")
    }

    /// Fails the next calls with these statuses, in order.
    pub fn fail_next(&self, failures: impl IntoIterator<Item = Status>) {
        self.state().failures.extend(failures);
    }

    /// Fails the next calls of a name with these statuses, in order.
    pub fn fail_next_of(&self, call: &'static str, failures: impl IntoIterator<Item = Status>) {
        self.state().failures_of.entry(call).or_default().extend(failures);
    }

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

    async fn enter(&self, call: &'static str) -> Result<(), Status> {
        let hang = {
            let mut state = self.state();
            state.calls.push(call);
            let of_this_name = state.failures_of.get_mut(call).and_then(VecDeque::pop_front);
            if let Some(failure) = of_this_name.or_else(|| state.failures.pop_front()) {
                return Err(failure);
            }
            std::mem::take(&mut state.hang)
        };
        if hang { std::future::pending().await } else { Ok(()) }
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

fn rows(tensor: &proto::Tensor) -> Vec<Vec<f32>> {
    let dim = usize::try_from(tensor.shape[1]).unwrap_or(1);
    let number = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("four bytes"));
    tensor.data.chunks_exact(4 * dim).map(|row| row.chunks_exact(4).map(number).collect()).collect()
}

/// An f32 tensor of these rows.
pub fn tensor(rows: &[Vec<f32>]) -> proto::Tensor {
    let dim = rows.first().map_or(0, Vec::len);
    let data: Vec<u8> = rows.iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
    proto::Tensor {
        dtype: proto::Dtype::F32.into(),
        shape: vec![i64::try_from(rows.len()).unwrap_or(0), i64::try_from(dim).unwrap_or(0)],
        data: Bytes::from(data),
    }
}

fn ints(numbers: Vec<i32>, shape: Vec<i64>) -> proto::Tensor {
    let data: Vec<u8> = numbers.into_iter().flat_map(i32::to_le_bytes).collect();
    proto::Tensor { dtype: proto::Dtype::I32.into(), shape, data: Bytes::from(data) }
}

/// A bag of hashed words, normalised.
pub(super) fn toy_vector(text: &str) -> Vec<f32> {
    let mut vector = vec![0.0_f32; DIM];
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()) {
        let hash = word.bytes().fold(17_usize, |h, b| h.wrapping_mul(31).wrapping_add(b.to_ascii_lowercase() as usize));
        vector[hash % DIM] += 1.0;
    }
    let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    vector.into_iter().map(|x| x / norm.max(1e-9)).collect()
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

#[tonic::async_trait]
impl similarity::SimilarityService for FakeDaemon {
    async fn find_similar(&self, request: Request<proto::FindSimilarRequest>) -> Reply<proto::FindSimilarResponse> {
        self.enter("FindSimilar").await?;
        let request = request.into_inner();
        let (queries, corpus) = (rows(&request.queries.unwrap_or_default()), rows(&request.corpus.unwrap_or_default()));
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
        let durable = request.durable || request.durability() == proto::Durability::Log;
        let described = proto::Collection {
            name: request.name.clone(),
            dimensions: u32::try_from(DIM).unwrap_or(0),
            metric: proto::Metric::Cosine.into(),
            storage: proto::Dtype::Bf16.into(),
            model: request.model,
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

    type UpsertStreamStream = Pin<Box<dyn Stream<Item = Result<proto::UpsertStreamResponse, Status>> + Send>>;

    async fn upsert_stream(
        &self,
        request: Request<Streaming<proto::UpsertStreamRequest>>,
    ) -> Reply<Self::UpsertStreamStream> {
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
        let state = self.state();
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

fn stats(batch_count: u64) -> proto::GetStatsResponse {
    let millis = |ms| Some(prost_types::Duration { seconds: 0, nanos: ms * 1_000_000 });
    let latency = proto::LatencyStats { mean: millis(1), p50: millis(1), p99: millis(4), max: millis(9) };
    let lane = proto::LaneStats {
        name: "embed".into(),
        batch_count,
        request_count: batch_count * 3,
        item_count: batch_count * 12,
        wait: Some(latency),
        execute: Some(latency),
        mean_batch_requests: 3.0,
        ..Default::default()
    };
    let kernel = proto::KernelStats {
        name: "pool_rows".into(),
        call_count: 7,
        total: millis(21),
        device: "cpu".into(),
        moved_bytes: 42_000_000,
    };
    proto::GetStatsResponse {
        version: "0.1.0".into(),
        uptime: Some(prost_types::Duration { seconds: 3700, nanos: 0 }),
        lanes: vec![lane],
        devices: vec![toy_device()],
        kernels: vec![kernel],
        admission: Some(proto::AdmissionStats { item_limit: 100, limit_bytes: 1 << 30, ..Default::default() }),
        draining: false,
        sample_time: None,
        memory: vec![proto::MemoryPlace {
            name: "host".to_owned(),
            held_bytes: 3 << 20,
            limit_bytes: 1 << 30,
            accounts: vec![proto::MemoryAccount {
                kind: "collections".to_owned(),
                held_bytes: 3 << 20,
                limit_bytes: 0,
                refused_count: 1,
                evicted_bytes: 0,
            }],
        }],
        cpu_fallbacks: vec![proto::CpuFallback {
            lane: "search".to_owned(),
            device: "cuda:0".to_owned(),
            reason: "out_of_memory".to_owned(),
            request_count: 3,
            item_count: 5,
            size_bytes: 7 << 10,
        }],
    }
}

fn toy_device() -> proto::Device {
    proto::Device {
        name: "cpu".into(),
        kind: proto::DeviceKind::Cpu.into(),
        product: "Toy CPU".into(),
        state: proto::DeviceState::Ready.into(),
        compute_unit_count: 2,
        memory_bytes: 8 << 30,
        ..Default::default()
    }
}

#[tonic::async_trait]
impl device::DeviceService for FakeDaemon {
    async fn list_devices(&self, _request: Request<proto::ListDevicesRequest>) -> Reply<proto::ListDevicesResponse> {
        self.enter("ListDevices").await?;
        let fallback_reason = "no driver: libcuda.so.1 was not found".into();
        Ok(Response::new(proto::ListDevicesResponse { devices: vec![toy_device()], fallback_reason }))
    }

    async fn get_stats(&self, _request: Request<proto::GetStatsRequest>) -> Reply<proto::GetStatsResponse> {
        self.enter("GetStats").await?;
        let calls = self.state().calls.len() as u64;
        Ok(Response::new(stats(calls)))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<proto::WatchResponse, Status>> + Send>>;

    /// Sends two samples.
    async fn watch(&self, _request: Request<proto::WatchRequest>) -> Reply<Self::WatchStream> {
        self.enter("Watch").await?;
        let samples = [1, 2].map(|n| Ok(proto::WatchResponse { stats: Some(stats(n)) }));
        Ok(Response::new(Box::pin(futures::stream::iter(samples))))
    }

    async fn export_report(&self, _request: Request<proto::ExportReportRequest>) -> Reply<proto::ExportReportResponse> {
        self.enter("ExportReport").await?;
        Ok(Response::new(proto::ExportReportResponse { json: REPORT.into() }))
    }

    async fn drain(&self, _request: Request<proto::DrainRequest>) -> Reply<proto::DrainResponse> {
        self.enter("Drain").await?;
        Ok(Response::new(proto::DrainResponse { complete: true, remaining_count: 0 }))
    }

    async fn resume(&self, _request: Request<proto::ResumeRequest>) -> Reply<proto::ResumeResponse> {
        self.enter("Resume").await?;
        Ok(Response::new(proto::ResumeResponse { resumed: true }))
    }
}
