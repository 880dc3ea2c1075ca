//! Traces and metrics as a collector receives them.

use std::process::{Child, Command, Stdio};

use accelerd_proto::v1::{self, embed_request::Input, embed_service_client::EmbedServiceClient};
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
use tokio::{
    net::TcpListener,
    sync::mpsc::{UnboundedSender, unbounded_channel},
};
use tonic::{
    Request, Response, Status,
    transport::{Server, server::TcpIncoming},
};

/// Passes on what it receives.
struct Collector<T>(UnboundedSender<T>);

#[tonic::async_trait]
impl TraceService for Collector<ExportTraceServiceRequest> {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        // The test may have seen enough.
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

/// A daemon in a process of its own, since traces belong to a process. It serves a Unix socket, whose path is known.
struct Running(Child);

impl Running {
    fn start(socket: &std::path::Path, collector: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_accelerd"));
        for (key, value) in [
            ("SERVER__LISTEN", "127.0.0.1:0"),
            ("SERVER__ADMIN_LISTEN", "127.0.0.1:0"),
            ("SERVER__HEALTH_LISTEN", "127.0.0.1:0"),
            ("SERVER__UDS_PATH", socket.to_str().expect("a path")),
            ("BACKEND__KIND", "cpu"),
            ("DRAIN__ENDPOINT_DELAY", "0s"),
            ("TELEMETRY__OTLP_ENDPOINT", collector),
        ] {
            command.env(format!("ACCELERD__{key}"), value);
        }
        Self(command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts"))
    }

    /// Ends it gracefully, which sends what was not sent yet.
    fn end(&mut self) {
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

/// Connects as soon as the socket is there.
async fn connect(socket: &std::path::Path) -> EmbedServiceClient<tonic::transport::Channel> {
    let url = format!("unix://{}", socket.display());
    loop {
        if let Ok(client) = EmbedServiceClient::connect(url.clone()).await {
            return client;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_gets_the_callers_trace_and_the_metrics() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let collector = format!("http://{}", listener.local_addr().expect("an address"));
    let ((trace_sender, mut traces), (metric_sender, mut metrics)) = (unbounded_channel(), unbounded_channel());
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
    running.end();

    let span = loop {
        let export: ExportTraceServiceRequest = traces.recv().await.expect("spans come");
        let spans = export.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
        let mut spans = spans.flat_map(|scope| scope.spans);
        if let Some(span) = spans.find(|span| span.name == "accelerd.v1.EmbedService/Embed") {
            break span;
        }
    };
    assert_eq!(span.trace_id, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes());
    assert_eq!(span.parent_span_id, 0xb7ad_6b71_6920_3331_u64.to_be_bytes());
    assert!(span.attributes.iter().any(|attribute| attribute.key == "code"), "{span:?}");
    loop {
        let export: ExportMetricsServiceRequest = metrics.recv().await.expect("metrics come");
        let scopes = export.resource_metrics.into_iter().flat_map(|resource| resource.scope_metrics);
        let names: Vec<_> = scopes.flat_map(|scope| scope.metrics).map(|metric| metric.name).collect();
        let wanted = ["accelerd_request_duration_seconds", "accelerd_queue_wait_seconds", "accelerd_build_info"];
        if wanted.iter().all(|wanted| names.iter().any(|name| name == wanted)) {
            break;
        }
    }
}
