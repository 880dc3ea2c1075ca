//! An in-memory fake of the daemon: collections with filters, toy models, and failures on demand.

mod device;
mod embed;
mod kernel;
mod memory;
mod parse;
mod similarity;
mod tensor;
mod verify;

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use accelerd_proto::v1::{
    self as proto, device_service_server::DeviceServiceServer, embed_service_server::EmbedServiceServer,
    kernel_service_server::KernelServiceServer, parse_service_server::ParseServiceServer,
    similarity_service_server::SimilarityServiceServer, tensor_service_server::TensorServiceServer,
    verify_service_server::VerifyServiceServer,
};
use bytes::Bytes;
use tokio::net::{TcpListener, UnixListener};
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tonic::{
    Code, Request, Response, Status,
    codegen::BoxStream,
    service::{Interceptor, InterceptorLayer},
    transport::{Certificate, Identity, Server, ServerTlsConfig},
};
use tonic_types::{ErrorDetails, StatusExt};

pub use self::device::REPORT;
use self::similarity::Collection;
use crate::Certificates;

/// Dimensions of the toy model.
pub const DIM: usize = 64;

/// The daemon; clones share its state.
#[derive(Clone, Default, Debug)]
pub struct FakeDaemon(Arc<Mutex<FakeDaemonState>>);

/// State that tests prepare and inspect.
#[derive(Default, Debug)]
pub struct FakeDaemonState {
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
    /// Names and words of the prompts of upserts and searches, in order.
    pub prompts: Vec<(String, Option<String>)>,
    /// True if the next unary call hangs.
    pub hang: bool,
    /// The batch of the next UpsertStream that fails.
    pub failing_step: Option<u64>,
    /// Indices before which the next streams of pairs end, as on a drain.
    pub drained_pairs: VecDeque<u64>,
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

type Reply<T> = Result<Response<T>, Status>;
type Replies<T> = BoxStream<T>;

/// RESOURCE_EXHAUSTED with RetryInfo.
pub fn busy(retry_after: Option<Duration>) -> Status {
    let mut details = ErrorDetails::new();
    if retry_after.is_some() {
        details.set_retry_info(retry_after);
    }
    Status::with_error_details(Code::ResourceExhausted, "lane is full", details)
}

/// Verification of clients' certificates by a server.
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
            .add_service(SimilarityServiceServer::new(self.clone()))
            .add_service(EmbedServiceServer::new(self.clone()))
            .add_service(ParseServiceServer::new(self.clone()))
            .add_service(TensorServiceServer::new(self.clone()))
            .add_service(VerifyServiceServer::new(self.clone()))
            .add_service(KernelServiceServer::new(self.clone()))
            .add_service(DeviceServiceServer::new(self.clone()))
    }

    /// The state, locked.
    pub fn state(&self) -> MutexGuard<'_, FakeDaemonState> {
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
