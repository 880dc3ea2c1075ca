//! The size of statuses, whatever the requests say: clients report trailers beyond their limit as RESOURCE_EXHAUSTED, and retry.
#![expect(clippy::wildcard_enum_match_arm, reason = "other kinds of fields are treated alike")]

use std::collections::HashMap;

use accelerd_proto::methods::embed_service;
use bytes::Bytes;
use http::HeaderMap;
use http_body_util::{BodyExt, Full};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value};
use tonic::{Code, Status, body::Body};
use tower::Service;

use super::harness::{TestServer, bare};

/// The most bytes of a status as it is sent.
const MAX_STATUS_BYTES: usize = 4096;

/// The depth to which messages are filled.
const DEPTH: usize = 5;

fn scalar(kind: &Kind, text: &str) -> Option<Value> {
    Some(match kind {
        Kind::String => Value::String(text.to_owned()),
        Kind::Bytes => Value::Bytes(Bytes::from_static(b"abcd")),
        Kind::Bool => Value::Bool(true),
        Kind::Double => Value::F64(1.0),
        Kind::Float => Value::F32(1.0),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(-1),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(-1),
        Kind::Uint32 | Kind::Fixed32 => Value::U32(1),
        Kind::Uint64 | Kind::Fixed64 => Value::U64(1),
        Kind::Enum(_) => Value::EnumNumber(1),
        Kind::Message(_) => return None,
    })
}

fn value(field: &FieldDescriptor, text: &str, choice: usize, depth: usize) -> Option<Value> {
    let kind = field.kind();
    if field.is_map() {
        let entry = kind.as_message()?.map_entry_value_field();
        let key = MapKey::String(text.to_owned());
        return Some(Value::Map(HashMap::from([(key, value(&entry, text, choice, depth)?)])));
    }
    let one = match &kind {
        Kind::Message(of) if depth > 0 => Value::Message(filled(of, text, choice, depth - 1)),
        kind => scalar(kind, text)?,
    };
    let count = match kind {
        Kind::String => 20,
        Kind::Message(_) => 1,
        _ => 2_000,
    };
    Some(if field.is_list() { Value::List(vec![one; count]) } else { one })
}

/// A message with a long text in every string, and long lists. `choice` selects the fields of its unions.
fn filled(of: &MessageDescriptor, text: &str, choice: usize, depth: usize) -> DynamicMessage {
    let mut message = DynamicMessage::new(of.clone());
    for field in of.fields() {
        let chosen = field.containing_oneof().is_none_or(|oneof| {
            let fields: Vec<_> = oneof.fields().collect();
            fields[choice % fields.len()] == field
        });
        if chosen && let Some(value) = value(&field, text, choice, depth) {
            message.set_field(&field, value);
        }
    }
    message
}

/// The headers or trailers with the status of a call.
async fn status_of(server: &TestServer, path: &str, message: &DynamicMessage) -> HeaderMap {
    let length = u32::try_from(message.encoded_len()).expect("a short message").to_be_bytes();
    let frame = [&[0], length.as_slice(), &message.encode_to_vec()].concat();
    let request = http::Request::post(format!("http://{}{path}", server.daemon.grpc_addr()))
        .header("content-type", "application/grpc")
        .header("grpc-timeout", "2S")
        .header("te", "trailers")
        .body(Body::new(Full::new(Bytes::from(frame))))
        .expect("a request");
    let response = bare(server).await.call(request).await.expect("an answer");
    if response.headers().contains_key("grpc-status") {
        return response.headers().clone();
    }
    let body = response.into_body().collect().await.expect("a whole response");
    body.trailers().expect("trailers").clone()
}

fn status_bytes(headers: &HeaderMap) -> usize {
    let parts = ["grpc-message", "grpc-status-details-bin"];
    parts.iter().filter_map(|name| headers.get(*name)).map(http::HeaderValue::len).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_makes_a_status_that_clients_do_not_accept() {
    let server = TestServer::start().await;
    let pool = DescriptorPool::decode(accelerd_proto::DESCRIPTORS).expect("the descriptors");
    let methods: Vec<_> = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>()).collect();
    assert!(methods.len() > 30, "{} methods", methods.len());
    let mut refused = 0;
    let mut cut = 0;
    for method in methods {
        let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
        for (choice, text) in ["x".repeat(3000), "\u{20ac}\n\"".repeat(1000), "a/../%".repeat(700)].iter().enumerate() {
            let headers = status_of(&server, &path, &filled(&method.input(), text, choice, DEPTH)).await;
            let bytes = status_bytes(&headers);
            let status = Status::from_header_map(&headers).expect("a status");
            assert!(bytes <= MAX_STATUS_BYTES, "{path}: {bytes} bytes: {status:?}");
            refused += usize::from(status.code() != Code::Ok);
            cut += usize::from(status.message().contains("_bytes_left_out]"));
        }
    }
    assert!(refused > 60 && cut > 3, "{refused} calls were refused, and {cut} messages cut");
    server.assert_serving().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_method_and_an_unknown_service_of_health_are_named_within_the_bound() {
    let server = TestServer::start().await;
    let pool = DescriptorPool::decode(accelerd_proto::DESCRIPTORS).expect("the descriptors");
    let empty = DynamicMessage::new(pool.services().next().expect("one").methods().next().expect("one").input());
    for path in [&*format!("/{}/NoMethod", embed_service::NAME), "/no.Service/Method"] {
        let headers = status_of(&server, path, &empty).await;
        let status = Status::from_header_map(&headers).expect("a status");
        assert_eq!(status.code(), Code::Unimplemented);
        assert!(status.message().contains(path), "{status:?}");
    }
    let long = status_of(&server, &format!("/no.Service/{}", "x".repeat(6000)), &empty).await;
    assert!(status_bytes(&long) <= MAX_STATUS_BYTES, "{} bytes", status_bytes(&long));
    let mut health = tonic_health::pb::health_client::HealthClient::new(server.channel.clone());
    let service = "\u{20ac}".repeat(1300);
    let status = health.check(tonic_health::pb::HealthCheckRequest { service }).await.expect_err("unknown");
    assert_eq!(status.code(), Code::NotFound, "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_content_types_than_those_of_grpc_are_unsupported() {
    let server = TestServer::start().await;
    let path = embed_service::LIST_MODELS.path();
    for (content_type, expected) in [
        ("text/plain", 415),
        ("application/grpc-web", 415),
        ("application/json", 415),
        ("application/grpc", 200),
        ("application/grpc+proto", 200),
    ] {
        let request = http::Request::post(format!("http://{}{path}", server.daemon.grpc_addr()))
            .header("content-type", content_type)
            .body(Body::new(Full::new(Bytes::from_static(&[0; 5]))))
            .expect("a request");
        let response = bare(&server).await.call(request).await.expect("an answer");
        assert_eq!(response.status().as_u16(), expected, "{content_type}");
    }
}
