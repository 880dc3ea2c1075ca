//! Calls with messages of a test: the threads they run on, and their charges.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use accelerd_proto::{methods::embed_service, v1 as pb};
use bytes::BufMut;
use futures::StreamExt;
use http::Response;
use http_body_util::BodyExt;
use tonic::{Code, body::Body};

use super::*;
use crate::{
    grpc::receive::PREFIX,
    transport::{memory::MemoryKind, offload::Offload},
};

/// A response that records whether it is encoded on an offload thread.
#[derive(Clone, Debug, Default)]
struct RecordingResponse {
    bytes: usize,
    encoded_offloaded: Arc<AtomicBool>,
}

impl Message for RecordingResponse {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        self.encoded_offloaded.store(is_offloaded(), Relaxed);
        buf.put_bytes(0, self.bytes);
    }

    fn encoded_len(&self) -> usize {
        self.bytes
    }

    fn merge_field(
        &mut self,
        _: u32,
        _: prost::encoding::WireType,
        _: &mut impl bytes::Buf,
        _: prost::encoding::DecodeContext,
    ) -> Result<(), prost::DecodeError> {
        Ok(())
    }

    fn clear(&mut self) {}
}

fn is_offloaded() -> bool {
    thread::current().name() == Some("offload")
}

fn embed(texts: usize, bytes: usize) -> pb::EmbedRequest {
    let values = vec!["a".repeat(bytes); texts];
    let input = pb::embed_request::Input::Texts(pb::TextInput { values });
    pb::EmbedRequest { input: Some(input), ..pb::EmbedRequest::default() }
}

fn request(messages: &[impl Message], call: &Arc<Call>) -> Request<Body> {
    let frames = messages.iter().flat_map(|message| {
        let message = message.encode_to_vec();
        let length = u32::try_from(message.len()).expect("a short message").to_be_bytes();
        [&[0], &length[..], &message].concat()
    });
    let body = Body::new(http_body_util::Full::from(frames.collect::<Vec<u8>>()));
    let request = Request::post(embed_service::EMBED.path()).extension(Arc::clone(call));
    request.body(body).expect("a request")
}

fn calls(offload: &Offload) -> CallRunner {
    CallRunner {
        limit: 1 << 24,
        offload: offload.handle().clone(),
        dimensions: Arc::new(|_| 256),
        screen: None,
        stream_ends: StreamEnds::default(),
    }
}

fn code(response: &Response<Body>) -> Code {
    Status::from_header_map(response.headers()).map_or(Code::Ok, |status| status.code())
}

#[tokio::test]
async fn long_work_runs_off_the_reactor() {
    let offload = Offload::start().expect("threads");
    let calls = calls(&offload);
    let cases = [
        ("a small call", embed(1, 10), 100, [false, false]),
        ("a large request", embed(1, 100_000), 100, [true, true]),
        ("many texts", embed(1000, 1), 100, [true, true]),
        ("a large response", embed(1, 10), 100_000, [false, true]),
    ];
    for (what, message, bytes, expected) in cases {
        let memory = TransportMemory::new(1 << 26);
        let call = Call::new(Arc::clone(&memory));
        let handled_offloaded = Arc::new(AtomicBool::new(false));
        let encoded_offloaded = Arc::new(AtomicBool::new(false));
        let handled = Arc::clone(&handled_offloaded);
        let response = RecordingResponse { bytes, encoded_offloaded: Arc::clone(&encoded_offloaded) };
        let handler = move |_: tonic::Request<pb::EmbedRequest>| async move {
            handled.store(is_offloaded(), Relaxed);
            Ok(tonic::Response::new(response))
        };
        let response = calls.clone().unary(request(&[message], &call), handler).await;
        assert_eq!(code(&response), Code::Ok, "{what}");
        assert_eq!([handled_offloaded.load(Relaxed), encoded_offloaded.load(Relaxed)], expected, "{what}");
        assert_eq!(memory.used_by(MemoryKind::Request), 0, "{what}");
        assert_eq!(memory.used_by(MemoryKind::Response), (bytes + PREFIX) as u64, "{what}");
        drop(response);
        assert_eq!(memory.used(), 0, "{what}");
    }
}

#[tokio::test]
async fn a_response_without_memory_is_refused() {
    let offload = Offload::start().expect("threads");
    let calls = calls(&offload);
    let memory = TransportMemory::new(1 << 20);
    for (bytes, expected) in [(1000, Code::Ok), (600 << 10, Code::Ok), (700 << 10, Code::ResourceExhausted)] {
        let call = Call::new(Arc::clone(&memory));
        let response = RecordingResponse { bytes, ..RecordingResponse::default() };
        let handler = move |_: tonic::Request<pb::EmbedRequest>| async move { Ok(tonic::Response::new(response)) };
        let response = calls.clone().unary(request(&[embed(1, 1)], &call), handler).await;
        assert_eq!(code(&response), expected, "{bytes} bytes");
        drop(response);
        assert_eq!(memory.used(), 0, "{bytes} bytes");
    }
}

#[tokio::test]
async fn a_response_without_memory_is_refused_before_it_is_computed() {
    let offload = Offload::start().expect("threads");
    let memory = TransportMemory::new(1 << 20);
    // 256 dimensions of four bytes each: 600 KiB fit into the share of responses, 700 KiB do not.
    for (texts, expected) in [(600, Code::Ok), (700, Code::ResourceExhausted)] {
        let call = Call::new(Arc::clone(&memory));
        let handled = Arc::new(AtomicBool::new(false));
        let held = Arc::clone(&memory);
        let ran = Arc::clone(&handled);
        let handler = move |_: tonic::Request<pb::EmbedRequest>| async move {
            ran.store(true, Relaxed);
            assert_eq!(held.used_by(MemoryKind::Response), (texts * 1024 + PREFIX) as u64);
            Ok(tonic::Response::new(RecordingResponse { bytes: 9, ..RecordingResponse::default() }))
        };
        let response = calls(&offload).unary(request(&[embed(texts, 1)], &call), handler).await;
        assert_eq!(code(&response), expected, "{texts} texts");
        assert_eq!(handled.load(Relaxed), expected == Code::Ok, "{texts} texts");
        let held = if expected == Code::Ok { 9 + PREFIX as u64 } else { 0 };
        assert_eq!(memory.used_by(MemoryKind::Response), held, "the charge is resized to the encoded response");
        drop(response);
        assert_eq!(memory.used(), 0, "{texts} texts");
    }
}

#[tokio::test]
async fn a_request_whose_decoded_size_exceeds_memory_is_refused() {
    let offload = Offload::start().expect("threads");
    let calls = calls(&offload);
    let memory = TransportMemory::new(8 << 20);
    let call = Call::new(Arc::clone(&memory));
    let handler =
        |_: tonic::Request<pb::EmbedRequest>| async { Ok(tonic::Response::new(RecordingResponse::default())) };
    // 400 KB on the wire, and 5 MB as strings.
    let response = calls.unary(request(&[embed(200_000, 0)], &call), handler).await;
    assert_eq!(code(&response), Code::ResourceExhausted);
    assert_eq!(memory.used(), 0);
}

#[tokio::test]
async fn requests_of_a_stream_are_charged_until_their_response() {
    let offload = Offload::start().expect("threads");
    let calls = calls(&offload);
    let memory = TransportMemory::new(1 << 26);
    let call = Call::new(Arc::clone(&memory));
    let held = Arc::clone(&memory);
    let handler = move |_, _, requests: Requests<pb::EmbedRequest>| {
        let response = move |request: Result<pb::EmbedRequest, Status>| {
            let bytes = usize::try_from(held.used_by(MemoryKind::Request)).expect("a count");
            request.map(|_| RecordingResponse { bytes, ..RecordingResponse::default() })
        };
        requests.map(response).boxed()
    };
    let response = calls.stream(request(&[embed(1, 5000), embed(1, 6000), embed(1, 7000)], &call), handler);
    let body = response.into_body().collect().await.expect("a body");
    let status = Status::from_header_map(body.trailers().expect("trailers")).expect("a status");
    assert_eq!(status.code(), Code::Ok);
    let responses = body.to_bytes();
    assert!(
        responses.len() > 18_000 + 3 * PREFIX,
        "each message was charged while it was handled: {}",
        responses.len()
    );
    drop(responses);
    assert_eq!(memory.used(), 0);
}
