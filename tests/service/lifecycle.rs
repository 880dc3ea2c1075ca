//! Health, drain, sockets, reflection.

use std::time::Duration;

use accelerd_client::Client;
use accelerd_proto::{
    methods::{device_service, embed_service, similarity_service},
    v1,
};
use prost::Message;
use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};

use super::harness::{TestServer, assert_refused, connect, texts};

async fn status(channel: tonic::transport::Channel, service: &str) -> ServingStatus {
    let request = HealthCheckRequest { service: service.to_owned() };
    HealthClient::new(channel).check(request).await.expect("health answers").into_inner().status()
}

#[tokio::test]
async fn health_answers_on_both_ports_for_every_service() {
    let server = TestServer::start().await;
    let health = connect(server.daemon.health_addr()).await;
    let services = ["", "liveness", "readiness", embed_service::NAME, similarity_service::NAME];
    for service in services {
        assert_eq!(status(server.channel.clone(), service).await, ServingStatus::Serving, "{service}");
        assert_eq!(status(health.clone(), service).await, ServingStatus::Serving, "{service}");
    }
    let unknown = HealthCheckRequest { service: "nobody".into() };
    let refused = HealthClient::new(health).check(unknown).await.expect_err("an unknown service");
    assert_eq!(refused.code(), Code::NotFound);
}

#[tokio::test]
async fn a_drained_daemon_refuses_work_and_is_not_ready() {
    let server = TestServer::start_with(|config| config.drain.allow_rpc = true).await;
    let health = connect(server.daemon.health_addr()).await;
    let watch = HealthCheckRequest { service: "readiness".into() };
    let mut watch = HealthClient::new(health.clone()).watch(watch).await.expect("watches").into_inner();
    assert_eq!(watch.message().await.expect("first").expect("first").status(), ServingStatus::Serving);

    let drained = server.device().drain(v1::DrainRequest { timeout: None }).await.expect("drains").into_inner();
    assert!(drained.complete && drained.remaining_count == 0, "{drained:?}");
    assert_eq!(watch.message().await.expect("second").expect("second").status(), ServingStatus::NotServing);
    assert_eq!(status(health.clone(), "liveness").await, ServingStatus::NotServing, "nothing is left for it to do");
    assert_refused(server.embed().embed(texts(&["late"])).await, Code::Unavailable, "draining");
    let stats = server.device().get_stats(v1::GetStatsRequest {}).await.expect("still answers").into_inner();
    assert!(stats.draining);

    let resumed = server.device().resume(v1::ResumeRequest {}).await.expect("resumes").into_inner();
    assert!(resumed.resumed);
    assert_eq!(watch.message().await.expect("third").expect("third").status(), ServingStatus::Serving);
    assert_eq!(status(health, "liveness").await, ServingStatus::Serving);
    server.assert_serving().await;
    let again = server.device().resume(v1::ResumeRequest {}).await.expect("nothing to do").into_inner();
    assert!(!again.resumed);
}

#[tokio::test]
async fn callers_cannot_drain_a_daemon_unless_the_settings_allow_it() {
    let server = TestServer::start().await;
    let health = connect(server.daemon.health_addr()).await;
    let drain = server.device().drain(v1::DrainRequest { timeout: None }).await;
    assert_refused(drain, Code::PermissionDenied, "drain.allow_rpc");
    assert_refused(server.device().resume(v1::ResumeRequest {}).await, Code::PermissionDenied, "drain.allow_rpc");
    for service in ["liveness", "readiness"] {
        assert_eq!(status(health.clone(), service).await, ServingStatus::Serving, "{service}");
    }
    server.assert_serving().await;
}

#[tokio::test]
async fn liveness_stays_true_while_a_drain_can_be_resumed() {
    let server = TestServer::start_with(|config| {
        config.drain.allow_rpc = true;
        config.drain.liveness_grace = Duration::from_secs(3600);
    })
    .await;
    let health = connect(server.daemon.health_addr()).await;
    server.device().drain(v1::DrainRequest { timeout: None }).await.expect("drains");
    assert_eq!(status(health.clone(), "readiness").await, ServingStatus::NotServing);
    assert_eq!(status(health, "liveness").await, ServingStatus::Serving);
    assert_refused(server.embed().embed(texts(&["late"])).await, Code::Unavailable, "draining");
}

#[tokio::test]
async fn accepted_calls_are_answered_when_the_daemon_shuts_down() {
    let server = TestServer::start().await;
    let mut embed = server.embed();
    embed.embed(texts(&["connect"])).await.expect("connects");
    let long = "a long text ".repeat(50_000);
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let mut embed = server.embed();
            let long = long.clone();
            tokio::spawn(async move { embed.embed(texts(&[&long])).await })
        })
        .collect();
    tokio::task::yield_now().await;
    server.daemon.shutdown().await;
    for call in calls {
        // Each call is answered, or refused as draining or unconnected; none is lost.
        if let Err(status) = call.await.expect("the call ends") {
            assert_eq!(status.code(), Code::Unavailable, "{status:?}");
        }
    }
}

#[tokio::test]
async fn calls_of_a_client_survive_a_restart_of_the_daemon() {
    let server = TestServer::start().await;
    let address = server.daemon.grpc_addr();
    let client = Client::connect(format!("http://{address}")).await.expect("the daemon listens");
    let before = client.embed(["open a socket"]).await.expect("it answers").vectors;
    server.daemon.shutdown().await;

    let away = client.clone();
    let call = tokio::spawn(async move { away.embed(["open a socket"]).await });
    let error = client.with_deadline(Duration::from_millis(300)).models().await.expect_err("nobody listens");
    assert!(matches!(error.code(), Code::Unavailable | Code::DeadlineExceeded), "{error}");
    assert!(!call.is_finished(), "it waits for the daemon");
    let _again = TestServer::start_with(|config| config.server.listen = address).await;
    let after = call.await.expect("the call ends").expect("the daemon is back").vectors;
    assert_eq!(after, before);
}

#[tokio::test]
async fn a_unix_socket_serves_the_same_services_services() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("accelerd.sock");
    let server = TestServer::start_with(|config| config.server.uds_path = path.clone()).await;
    let channel = tonic::transport::Endpoint::from_shared(format!("unix://{}", path.display()))
        .expect("a path is a URI")
        .connect()
        .await
        .expect("the socket accepts connections");
    let mut embed = v1::embed_service_client::EmbedServiceClient::new(channel);
    let by_socket = embed.embed(texts(&["same"])).await.expect("embeds").into_inner();
    assert_eq!(by_socket, server.embed().embed(texts(&["same"])).await.expect("embeds").into_inner());
}

#[tokio::test]
async fn reflection_lists_the_services() {
    use tonic_reflection::pb::v1::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
        server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
    };
    let server = TestServer::start().await;
    let list = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut answers = ServerReflectionClient::new(server.channel.clone())
        .server_reflection_info(tokio_stream::iter([list]))
        .await
        .expect("reflection answers")
        .into_inner();
    let answer = answers.message().await.expect("one").expect("one").message_response;
    let Some(MessageResponse::ListServicesResponse(list)) = answer else { panic!("{answer:?}") };
    let names: Vec<_> = list.service.into_iter().map(|service| service.name).collect();
    for name in [device_service::NAME, embed_service::NAME, similarity_service::NAME] {
        assert!(names.iter().any(|n| n == name), "{name} is not among {names:?}");
    }
    // Tools that show error details look these types up by name.
    for detail in
        ["Status", "BadRequest", "ErrorInfo", "RetryInfo", "ResourceInfo", "QuotaFailure", "PreconditionFailure"]
    {
        let symbol = format!("google.rpc.{detail}");
        let ask = ServerReflectionRequest {
            host: String::new(),
            message_request: Some(MessageRequest::FileContainingSymbol(symbol.clone())),
        };
        let mut answers = ServerReflectionClient::new(server.channel.clone())
            .server_reflection_info(tokio_stream::iter([ask]))
            .await
            .expect("reflection answers")
            .into_inner();
        let answer = answers.message().await.expect("one").expect("one").message_response;
        let Some(MessageResponse::FileDescriptorResponse(files)) = answer else { panic!("{symbol}: {answer:?}") };
        let decode = |file: &Vec<u8>| prost_types::FileDescriptorProto::decode(file.as_slice()).expect("a descriptor");
        let messages = files.file_descriptor_proto.iter().map(decode).flat_map(|file| file.message_type);
        assert!(messages.into_iter().any(|message| message.name() == detail), "{symbol} is not described");
    }
}
