//! A daemon on loopback for one test, with clients for each service.

use std::path::PathBuf;

use accelerd::{
    config::{Config, HttpListen, environment, load},
    serve::Daemon,
};
use accelerd_kernels::Device;
use accelerd_proto::{
    methods::embed_service,
    v1::{
        self, Dtype, Tensor, device_service_client::DeviceServiceClient, embed_service_client::EmbedServiceClient,
        kernel_service_client::KernelServiceClient, parse_service_client::ParseServiceClient,
        similarity_service_client::SimilarityServiceClient, tensor_service_client::TensorServiceClient,
        verify_service_client::VerifyServiceClient,
    },
};
use accelerd_sandbox::Program;
use bytes::Bytes;
use http_body_util::Full;
use hyper::{body::Incoming, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tonic::{Code, Status, body::Body, transport::Channel};
use tonic_types::StatusExt;
use tower::Service;

pub(crate) const LIMIT: usize = 512 << 20;

/// A running daemon and a connection to it.
pub(crate) struct TestServer {
    pub(crate) daemon: Daemon,
    pub(crate) channel: Channel,
}

impl TestServer {
    /// Starts a daemon with the default settings, on free ports.
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// Starts a daemon with changed settings.
    pub(crate) async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = config();
        change(&mut config);
        let daemon = Daemon::start(config).await.expect("the daemon starts");
        let channel = connect(daemon.grpc_addr()).await;
        Self { daemon, channel }
    }

    pub(crate) fn embed(&self) -> EmbedServiceClient<Channel> {
        EmbedServiceClient::new(self.channel.clone())
    }

    pub(crate) fn similarity(&self) -> SimilarityServiceClient<Channel> {
        SimilarityServiceClient::new(self.channel.clone())
            .max_decoding_message_size(LIMIT)
            .max_encoding_message_size(LIMIT)
    }

    pub(crate) fn parse(&self) -> ParseServiceClient<Channel> {
        ParseServiceClient::new(self.channel.clone()).max_decoding_message_size(LIMIT)
    }

    pub(crate) fn tensor(&self) -> TensorServiceClient<Channel> {
        TensorServiceClient::new(self.channel.clone())
    }

    pub(crate) fn verify(&self) -> VerifyServiceClient<Channel> {
        VerifyServiceClient::new(self.channel.clone()).max_encoding_message_size(LIMIT)
    }

    pub(crate) fn kernels(&self) -> KernelServiceClient<Channel> {
        KernelServiceClient::new(self.channel.clone())
    }

    pub(crate) fn device(&self) -> DeviceServiceClient<Channel> {
        DeviceServiceClient::new(self.channel.clone())
    }

    /// Creates a collection of vectors.
    pub(crate) async fn collection(&self, name: &str, dimensions: u32, metric: v1::Metric) {
        let request = v1::CreateCollectionRequest {
            name: name.to_owned(),
            dimensions,
            metric: metric.into(),
            ..v1::CreateCollectionRequest::default()
        };
        self.similarity().create_collection(request).await.expect("the collection is made");
    }

    /// Returns true if the daemon has a GPU.
    pub(crate) fn has_gpu(&self) -> bool {
        self.daemon.app().engine.devices().iter().any(|(device, _)| matches!(device, Device::Cuda(_)))
    }

    /// Asserts that the daemon answers a call.
    pub(crate) async fn assert_serving(&self) {
        let request = texts(&["still here"]);
        self.embed().embed(request).await.expect("the daemon still serves");
    }
}

/// The default settings with the environment's overrides, on free loopback ports and without a drain delay.
pub(crate) fn config() -> Config {
    let mut config = load(None, environment(), &[]).expect("the settings are valid");
    let free = "127.0.0.1:0".parse().expect("an address");
    config.server.listen = free;
    config.server.admin_listen = free;
    config.server.health_listen = free;
    config.http.listen = HttpListen::At(free);
    config.drain.endpoint_delay = std::time::Duration::ZERO;
    config.sandbox.program = sandbox_process();
    config
}

/// The program of processes that run code of clients: this one has no such command. On another machine it is in this one's folder.
fn sandbox_process() -> Program {
    let built = PathBuf::from(env!("CARGO_BIN_EXE_sandbox-process"));
    let moved = std::env::current_exe().expect("Linux").with_file_name("sandbox-process");
    Program { path: if built.exists() { built } else { moved }, arguments: vec![], environment: vec![] }
}

pub(crate) async fn connect(address: std::net::SocketAddr) -> Channel {
    tonic::transport::Endpoint::from_shared(format!("http://{address}"))
        .expect("an address is a URI")
        .connect()
        .await
        .expect("the daemon accepts connections")
}

/// An HTTP/2 connection that leaves calls unchanged.
pub(crate) async fn bare(
    server: &TestServer,
) -> impl Service<http::Request<Body>, Response = http::Response<Incoming>, Error = hyper::Error, Future: Send> + Clone
{
    let stream =
        tokio::net::TcpStream::connect(server.daemon.grpc_addr()).await.expect("the daemon accepts connections");
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (sender, connection) = handshake.expect("the daemon speaks HTTP/2");
    tokio::spawn(connection);
    tower::service_fn(move |request| sender.clone().send_request(request))
}

/// Loads a model over a connection that leaves the deadline to the daemon, and returns the code.
pub(crate) async fn load_within(server: &TestServer, timeout: &str, request: &v1::LoadModelRequest) -> Code {
    code_within(server, embed_service::LOAD_MODEL.path(), timeout, request).await
}

/// Makes a call over a connection that leaves the deadline to the daemon, and returns the code with which it is refused.
pub(crate) async fn code_within(server: &TestServer, path: &str, timeout: &str, message: &impl Message) -> Code {
    status_within(server, path, timeout, message).await.code()
}

/// As [`code_within`], with the whole status.
pub(crate) async fn status_within(server: &TestServer, path: &str, timeout: &str, message: &impl Message) -> Status {
    let length = u32::try_from(message.encoded_len()).expect("a short message").to_be_bytes();
    let frame = [&[0], length.as_slice(), &message.encode_to_vec()].concat();
    let request = http::Request::post(format!("http://{}{path}", server.daemon.grpc_addr()))
        .header("content-type", "application/grpc")
        .header("grpc-timeout", timeout)
        .header("te", "trailers")
        .body(Body::new(Full::new(Bytes::from(frame))))
        .expect("a request");
    let response = bare(server).await.call(request).await.expect("an answer");
    Status::from_header_map(response.headers()).expect("a refusal without a message")
}

pub(crate) fn texts(values: &[&str]) -> v1::EmbedRequest {
    let values = values.iter().map(|&s| s.to_owned()).collect();
    v1::EmbedRequest {
        input: Some(v1::embed_request::Input::Texts(v1::TextInput { values })),
        ..v1::EmbedRequest::default()
    }
}

pub(crate) fn tensor(shape: &[i64], values: &[f32]) -> Tensor {
    let data = Bytes::copy_from_slice(bytemuck::cast_slice(values));
    Tensor { dtype: Dtype::F32.into(), shape: shape.to_vec(), data }
}

pub(crate) fn f32s(tensor: &Tensor) -> Vec<f32> {
    bytemuck::pod_collect_to_vec(&tensor.data)
}

pub(crate) fn i32s(tensor: &Tensor) -> Vec<i32> {
    bytemuck::pod_collect_to_vec(&tensor.data)
}

pub(crate) fn numbers(values: impl IntoIterator<Item = u64>) -> v1::PointIds {
    v1::PointIds { numbers: values.into_iter().collect(), ..Default::default() }
}

pub(crate) fn text(value: &str) -> v1::Value {
    v1::Value { kind: Some(v1::value::Kind::StringValue(value.to_owned())) }
}

pub(crate) fn int(value: i64) -> v1::Value {
    v1::Value { kind: Some(v1::value::Kind::IntValue(value)) }
}

pub(crate) fn payload<const N: usize>(fields: [(&str, v1::Value); N]) -> v1::Payload {
    v1::Payload { fields: fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect() }
}

/// Asserts an error with this code whose field violation or message contains `names`.
pub(crate) fn assert_refused<T: std::fmt::Debug>(result: Result<T, Status>, code: Code, names: &str) {
    let status = result.expect_err("the call is refused");
    assert_eq!(status.code(), code, "{status:?}");
    let field = status
        .get_details_bad_request()
        .and_then(|bad| bad.field_violations.into_iter().next())
        .map(|violation| violation.field)
        .unwrap_or_default();
    assert!(
        status.message().contains(names) || field.contains(names),
        "{names:?} is named by neither {:?} nor {field:?}",
        status.message()
    );
    if code == Code::InvalidArgument {
        assert!(!field.is_empty(), "INVALID_ARGUMENT comes with BadRequest: {status:?}");
    }
}
