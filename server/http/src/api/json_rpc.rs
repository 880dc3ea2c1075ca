//! Every method as `POST /accelerd.v1.Service/Method`, in the JSON of Protocol Buffers. A stream of requests or of responses is lines of
//! JSON.

use std::{convert::Infallible, sync::OnceLock};

use accelerd_proto::methods::Method;
use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture, stream};
use http::{HeaderValue, StatusCode, header};
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor, MethodDescriptor, SerializeOptions,
};
use serde_json::{Deserializer, Serializer, Value, de::SliceRead};

use crate::{
    exchange::{Exchange, JSON},
    failure::{Failure, code_name},
    replies::Replies,
};

/// Bytes of values, and of their text, for each byte of a message.
const VALUES_PER_BYTE: usize = 4;

/// Lines of JSON.
pub(crate) const LINES: &str = "application/x-ndjson";

/// The descriptors of the protocol.
pub(crate) fn descriptors() -> &'static DescriptorPool {
    static POOL: OnceLock<DescriptorPool> = OnceLock::new();
    POOL.get_or_init(|| DescriptorPool::decode(accelerd_proto::DESCRIPTORS).expect("the build made the descriptors"))
}

pub(crate) fn descriptor(method: &Method) -> MethodDescriptor {
    let service = descriptors().get_service_by_name(method.service).expect("the descriptors have every service");
    service.methods().find(|one| one.name() == method.name).expect("the descriptors have every method")
}

/// A failure as `google.rpc.Status` has it.
pub(crate) fn error(failure: &Failure) -> Value {
    let mut error = serde_json::json!({ "code": code_name(failure.code), "message": failure.message });
    if let Some(reason) = &failure.reason {
        error["reason"] = serde_json::json!(reason);
    }
    if let Some(field) = &failure.field {
        error["field"] = serde_json::json!(field);
    }
    serde_json::json!({ "error": error })
}

/// Calls the method that the path names.
pub(crate) fn call(exchange: Exchange) -> BoxFuture<'static, Result<Response, Failure>> {
    call_method(exchange).boxed()
}

async fn call_method(mut exchange: Exchange) -> Result<Response, Failure> {
    let path = exchange.parts.uri.path();
    let unknown = || Failure::new(StatusCode::NOT_FOUND, format!("unknown method {path}"));
    let method = Method::of_path(path).ok_or_else(unknown)?;
    let descriptor = descriptor(method);
    let types = if method.client_streaming { &[JSON, LINES][..] } else { &[JSON] };
    let received = exchange.receive_json(types).await?;
    let requests = if method.client_streaming {
        decode_all(&descriptor.input(), &received.bytes)?
    } else {
        vec![decode(descriptor.input(), &received.bytes)?]
    };
    drop(received);
    let replies = exchange.replies(method.path, &requests).await?;
    if method.server_streaming {
        return Ok(stream_response(exchange, descriptor.output(), replies));
    }
    let message = replies.only().await?;
    let text = encode(&exchange, descriptor.output(), message, b"")?;
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
    Ok(response)
}

/// Decodes a message; no text is an empty message.
pub(crate) fn decode(descriptor: MessageDescriptor, text: &[u8]) -> Result<DynamicMessage, Failure> {
    if text.trim_ascii().is_empty() {
        return Ok(DynamicMessage::new(descriptor));
    }
    let name = descriptor.name().to_owned();
    let mut deserializer = Deserializer::from_slice(text);
    let message = next_message(descriptor, &mut deserializer)?;
    deserializer.end().map_err(|error| Failure::invalid(&name, error.to_string()))?;
    Ok(message)
}

/// Decodes the messages of a stream, one after the other.
fn decode_all(descriptor: &MessageDescriptor, text: &[u8]) -> Result<Vec<DynamicMessage>, Failure> {
    let mut deserializer = Deserializer::from_slice(text);
    let mut messages = vec![];
    while deserializer.end().is_err() {
        messages.push(next_message(descriptor.clone(), &mut deserializer)?);
    }
    Ok(messages)
}

fn next_message(
    descriptor: MessageDescriptor,
    deserializer: &mut Deserializer<SliceRead<'_>>,
) -> Result<DynamicMessage, Failure> {
    let name = descriptor.name().to_owned();
    let message = DynamicMessage::deserialize_with_options(descriptor, deserializer, &DeserializeOptions::new());
    message.map_err(|error| Failure::invalid(&name, error.to_string()))
}

/// Encodes a message. Fields with default values are written, so that programs can read them without knowing the defaults.
/// Its values are charged while it is encoded, and its text until it is sent. The end is put after it.
fn encode(exchange: &Exchange, descriptor: MessageDescriptor, message: Bytes, end: &[u8]) -> Result<Bytes, Failure> {
    let values = message.len().saturating_mul(VALUES_PER_BYTE);
    exchange.charged(values, || {
        let mut text = json(descriptor, message)?;
        text.extend_from_slice(end);
        Ok(text)
    })
}

fn json(descriptor: MessageDescriptor, message: Bytes) -> Result<Vec<u8>, Failure> {
    let message = DynamicMessage::decode(descriptor, message).map_err(Failure::internal)?;
    let mut text = vec![];
    let options = SerializeOptions::new().skip_default_fields(false);
    let written = message.serialize_with_options(&mut Serializer::new(&mut text), &options);
    written.map_err(Failure::internal)?;
    Ok(text)
}

/// One line for each response; a failure is the last line.
fn stream_response(exchange: Exchange, output: MessageDescriptor, replies: Replies) -> Response {
    let lines = stream::unfold(Some((exchange, output, replies)), |state| async move {
        let (exchange, output, mut replies) = state?;
        let line = match next_line(&exchange, &output, &mut replies).await {
            Ok(None) => return None,
            Ok(Some(line)) => return Some((Ok::<_, Infallible>(line), Some((exchange, output, replies)))),
            Err(failure) => Bytes::from(format!("{}\n", error(&failure))),
        };
        Some((Ok(line), None))
    });
    let mut response = Response::new(Body::from_stream(lines));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(LINES));
    response
}

async fn next_line(
    exchange: &Exchange,
    output: &MessageDescriptor,
    replies: &mut Replies,
) -> Result<Option<Bytes>, Failure> {
    let Some(message) = replies.next().await? else { return Ok(None) };
    Ok(Some(encode(exchange, output.clone(), message, b"\n")?))
}

/// Returns true if a request is gRPC-Web.
pub(crate) fn is_grpc_web(request: &http::Request<Body>) -> bool {
    let content_type = request.headers().get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    content_type.starts_with(b"application/grpc-web")
}

#[cfg(test)]
mod tests {
    use accelerd_proto::methods::METHODS;
    use prost::Message;

    use super::*;

    #[test]
    fn every_method_has_descriptors() {
        for method in METHODS {
            let found = descriptor(&method);
            assert_eq!(found.is_server_streaming(), method.server_streaming, "{}", method.path);
            assert!(decode(found.input(), b"").is_ok(), "an empty text is an empty message");
        }
    }

    #[test]
    fn a_stream_is_messages_in_a_row() {
        let request = descriptors().get_message_by_name("accelerd.v1.EmbedStreamRequest").expect("a message");
        let sequences = |text: &str| {
            let field = |message: &DynamicMessage| message.get_field_by_name("sequence")?.as_u64();
            decode_all(&request, text.as_bytes()).map(|messages| messages.iter().filter_map(field).collect::<Vec<_>>())
        };
        assert_eq!(sequences("{\"sequence\": 1}\n{\"sequence\":\n2}\n\n").expect("it is valid"), [1, 2]);
        assert_eq!(sequences(" \n").expect("it is valid"), Vec::<u64>::new());
        for (text, said) in
            [("{\"sequence\": 1}\n{\"seq\": 2}", "line 2"), ("{} x", "EmbedStreamRequest"), ("[", "EmbedStreamRequest")]
        {
            let refusal = sequences(text).expect_err("it is refused");
            assert!(refusal.message.contains(said), "{}", refusal.message);
        }
    }

    #[test]
    fn messages_are_the_json_of_protocol_buffers() {
        let request = descriptors().get_message_by_name("accelerd.v1.EmbedStreamRequest").expect("a message");
        let text = br#"{"sequence": "18446744073709551615", "embed": {"texts": {"values": ["a"]}, "pooling": "POOLING_MEAN"}}"#;
        let message = decode(request.clone(), text).expect("it is valid");
        let encoded = json(request.clone(), message.encode_to_vec().into()).expect("it is encoded");
        let value: Value = serde_json::from_slice(&encoded).expect("JSON");
        assert_eq!(value["sequence"], "18446744073709551615", "a number of 64 bits is a string");
        assert_eq!(value["embed"]["pooling"], "POOLING_MEAN");
        assert_eq!(value["embed"]["model"], "", "a default value is written");
        for (text, said) in [
            (&br#"{"sequences": 1}"#[..], "sequences"),
            (br#"{"sequence": -1}"#, "out of range"),
            (br#"{"sequence": 1} x"#, "trailing"),
            (br#"{"embed": {"pooling": "POOLING_MEDIAN"}}"#, "POOLING_MEDIAN"),
            (br"[1", "EmbedStreamRequest"),
            (b"\xff", "EmbedStreamRequest"),
        ] {
            let refusal = decode(request.clone(), text).expect_err("it is refused");
            assert!(refusal.message.contains(said), "{}", refusal.message);
            assert_eq!(refusal.status, StatusCode::BAD_REQUEST);
        }
    }
}
