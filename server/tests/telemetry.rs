//! Traces and metrics as a collector receives them.

use std::process::{Child, Command, Stdio};

use accelerd_proto::{
    methods::embed_service,
    v1::{self, embed_request::Input, embed_service_client::EmbedServiceClient},
};
use opentelemetry_proto::tonic::collector::{
    metrics::v1::{
        ExportMetricsServiceRequest, ExportMetricsServiceResponse,
        metrics_service_server::{MetricsService, MetricsServiceServer},
    },
    trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
};
use opentelemetry_proto::tonic::{common::v1::any_value, trace::v1::Span};
use tokio::{
    net::TcpListener,
    sync::mpsc::{UnboundedSender, unbounded_channel},
};
use tonic::{
    Request, Response, Status,
    transport::{Server, server::TcpIncoming},
};

/// A collector that forwards what it receives to the test.
struct Collector<T>(UnboundedSender<T>);

#[tonic::async_trait]
impl TraceService for Collector<ExportTraceServiceRequest> {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        // The test may have ended.
        let _over = self.0.send(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Collector<ExportMetricsServiceRequest> {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        let _over = self.0.send(request.into_inner());
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

/// A daemon in a separate process, since the tracer is process-wide. It serves a Unix socket at a known path.
struct Running(Child);

impl Running {
    fn start(socket: &std::path::Path, collector: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_accelerd"));
        for (key, value) in [
            ("SERVER__LISTEN", "127.0.0.1:0"),
            ("SERVER__ADMIN_LISTEN", "127.0.0.1:0"),
            ("SERVER__HEALTH_LISTEN", "127.0.0.1:0"),
            ("HTTP__LISTEN", "127.0.0.1:0"),
            ("SERVER__UDS_PATH", socket.to_str().expect("a path")),
            ("BACKEND__KIND", "cpu"),
            ("DRAIN__ENDPOINT_DELAY", "0s"),
            ("TELEMETRY__OTLP_ENDPOINT", collector),
        ] {
            command.env(format!("ACCELERD__{key}"), value);
        }
        Self(command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts"))
    }

    /// Shuts the daemon down gracefully, which exports pending telemetry.
    fn shut_down(&mut self) {
        let sent = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status().expect("kill runs");
        assert!(sent.success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

fn one_text() -> v1::EmbedRequest {
    let values = vec!["def parse(text): ...".to_owned()];
    v1::EmbedRequest { input: Some(Input::Texts(v1::TextInput { values })), ..v1::EmbedRequest::default() }
}

/// Connects once the socket exists.
async fn connect(socket: &std::path::Path) -> EmbedServiceClient<tonic::transport::Channel> {
    let url = format!("unix://{}", socket.display());
    loop {
        if let Ok(client) = EmbedServiceClient::connect(url.clone()).await {
            return client;
        }
        tokio::task::yield_now().await;
    }
}

/// The string value of an attribute.
fn text_of(span: &Span, key: &str) -> Option<String> {
    let attribute = span.attributes.iter().find(|attribute| attribute.key == key)?;
    let value = attribute.value.as_ref()?.value.as_ref()?;
    if let any_value::Value::StringValue(text) = value { Some(text.clone()) } else { Some(format!("{value:?}")) }
}

/// The spans that a daemon exports while `calls` run.
async fn spans_of<F: Future<Output = ()>>(
    calls: impl FnOnce(EmbedServiceClient<tonic::transport::Channel>) -> F,
) -> Vec<Span> {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let collector = format!("http://{}", listener.local_addr().expect("an address"));
    let (sender, mut traces) = unbounded_channel();
    let services = Server::builder().add_service(TraceServiceServer::new(Collector(sender)));
    tokio::spawn(services.serve_with_incoming(TcpIncoming::from(listener)));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = folder.path().join("accelerd.sock");
    let mut running = Running::start(&socket, &collector);
    calls(connect(&socket).await).await;
    running.shut_down();
    // The shutdown has exported pending spans.
    assert!(running.0.wait().expect("it ends").success());
    let mut spans = vec![];
    while let Ok(export) = traces.try_recv() {
        let export: ExportTraceServiceRequest = export;
        let scopes = export.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
        spans.extend(scopes.flat_map(|scope| scope.spans));
    }
    spans
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_contains_its_queue_batches_and_kernels_and_is_linked_with_the_batches() {
    let spans = spans_of(|mut embed| async move {
        let batch = |sequence| v1::EmbedStreamRequest { sequence, embed: Some(one_text()) };
        let batches = tokio_stream::iter((1..=3).map(batch));
        let mut answers = embed.embed_stream(batches).await.expect("a stream").into_inner();
        while answers.message().await.expect("an answer").is_some() {}
        let nothing = v1::EmbedRequest { input: None, ..v1::EmbedRequest::default() };
        embed.embed(nothing).await.expect_err("a request without input");
    })
    .await;
    let named = |name: &str| spans.iter().filter(|span| span.name == name).collect::<Vec<_>>();
    let [stream] = named(&embed_service::EMBED_STREAM.path()[1..])[..] else { panic!("one call, not {spans:?}") };
    let links_to = |span: &Span, other: &Span| span.links.iter().any(|link| link.span_id == other.span_id);
    let of_call = |name: &str| {
        let children = named(name).into_iter().filter(|span| span.parent_span_id == stream.span_id);
        children.inspect(|span| assert_eq!(span.trace_id, stream.trace_id)).collect::<Vec<_>>()
    };
    // A batch serves many calls: it has a trace of its own, which is linked with that of the call in both directions.
    let batches: Vec<_> = named("batch").into_iter().filter(|span| span.parent_span_id.is_empty()).collect();
    assert!(!batches.is_empty() && batches.iter().all(|batch| links_to(batch, stream)), "{batches:?}");
    let links: usize = batches.iter().map(|batch| batch.links.len()).sum();
    assert_eq!(links, 3, "every batch of the stream is linked once");
    let (queued, in_batches) = (of_call("queue"), of_call("batch"));
    assert_eq!((queued.len(), in_batches.len()), (3, 3), "{spans:?}");
    for in_batch in &in_batches {
        assert!(batches.iter().any(|batch| links_to(in_batch, batch)), "{in_batch:?}");
        let kernel = |span: &&&Span| span.parent_span_id == in_batch.span_id;
        assert_eq!(named("embed_pool").iter().filter(kernel).count(), 1, "{spans:?}");
    }
    let kernels = named("embed_pool");
    assert_eq!(kernels.len(), batches.len() + in_batches.len());
    for kernel in kernels {
        let parents = batches.iter().chain(&in_batches);
        assert!(parents.clone().any(|batch| batch.span_id == kernel.parent_span_id), "{kernel:?}");
        assert_eq!(text_of(kernel, "device").as_deref(), Some("cpu"));
    }
    // An error of the client is not an error of the server.
    let [refused] = named(&embed_service::EMBED.path()[1..])[..] else { panic!("one call, not {spans:?}") };
    assert_eq!(text_of(refused, "rpc.response.status_code").as_deref(), Some("INVALID_ARGUMENT"));
    assert!(text_of(refused, "error.type").is_none() && refused.status.as_ref().is_none_or(|status| status.code == 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_receives_the_clients_trace_and_metrics() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let collector = format!("http://{}", listener.local_addr().expect("an address"));
    let (trace_sender, mut traces) = unbounded_channel();
    let (metric_sender, mut metrics) = unbounded_channel();
    let services = Server::builder()
        .add_service(TraceServiceServer::new(Collector(trace_sender)))
        .add_service(MetricsServiceServer::new(Collector(metric_sender)));
    tokio::spawn(services.serve_with_incoming(TcpIncoming::from(listener)));

    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = folder.path().join("accelerd.sock");
    let mut running = Running::start(&socket, &collector);
    let mut request = Request::new(one_text());
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    request.metadata_mut().insert("traceparent", parent.parse().expect("metadata"));
    connect(&socket).await.embed(request).await.expect("an answer");
    running.shut_down();

    let span = loop {
        let export: ExportTraceServiceRequest = traces.recv().await.expect("spans come");
        let spans = export.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
        let mut spans = spans.flat_map(|scope| scope.spans);
        if let Some(span) = spans.find(|span| span.name == embed_service::EMBED.path()[1..]) {
            break span;
        }
    };
    assert_eq!(span.trace_id, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes());
    assert_eq!(span.parent_span_id, 0xb7ad_6b71_6920_3331_u64.to_be_bytes());
    for (key, value) in [
        ("rpc.system.name", "grpc"),
        ("rpc.method", &embed_service::EMBED.path()[1..]),
        ("rpc.service", embed_service::NAME),
        ("rpc.response.status_code", "OK"),
    ] {
        assert_eq!(text_of(&span, key).as_deref(), Some(value), "{key} of {span:?}");
    }
    assert!(text_of(&span, "error.type").is_none(), "{span:?}");
    loop {
        let export: ExportMetricsServiceRequest = metrics.recv().await.expect("metrics come");
        let scopes = export.resource_metrics.into_iter().flat_map(|resource| resource.scope_metrics);
        let names: Vec<_> = scopes.flat_map(|scope| scope.metrics).map(|metric| metric.name).collect();
        let wanted = ["rpc.server.call.duration", "accelerd_queue_wait_seconds", "accelerd_build_info"];
        if wanted.iter().all(|wanted| names.iter().any(|name| name == wanted)) {
            break;
        }
    }
}
