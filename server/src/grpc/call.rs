//! Runs calls: receives and decodes requests, calls handlers and encodes responses, all charged to transport memory.
//!
//! Long work runs off the reactor: large requests are decoded and handled, and large responses encoded, on the offload
//! threads; streams run there entirely.

use std::{
    collections::VecDeque,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
};

use accelerd_engine::{Arrival, Context};
use bytes::{BufMut, Bytes, BytesMut};
use futures::{
    StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame};
use http_body_util::{BodyExt, StreamBody};
use prost::Message;
use tokio::{runtime::Handle, sync::mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::AbortOnDropHandle;
use tonic::{Status, body::Body, codegen::StdError, server::Grpc};
use tonic_prost::ProstCodec;
use tower::service_fn;
use tracing::Instrument;

use super::{
    compression::Encoding,
    context::{context, context_of},
    cost::{Dimensions, RequestCost},
    decoded_size::decoded_size,
    encode::{ChargedBody, Encoder, trailers},
    receive::{Cardinality, MessageCharge, PREFIX, Received, Receiver, Screen},
};
use crate::{
    auth::caller::Caller,
    layers::timing,
    transport::{
        call::{Call, Charge, SMALL_CALL_BYTES},
        memory::TransportMemory,
    },
};

/// Maximum size of a response that is compressed on the reactor.
const MAX_INLINE_COMPRESSION: usize = 4 << 10;

/// Runs calls.
#[derive(Clone)]
pub(super) struct CallRunner {
    /// Maximum size of request and response messages in bytes.
    pub(super) limit: usize,
    /// Threads for long work.
    pub(super) offload: Handle,
    pub(super) dimensions: Dimensions,
    /// Refuses large requests before they are received, by the length of the message.
    pub(super) screen: Option<RequestScreen>,
}

/// Decides by the length of a request's message and its context whether it is received. What is decided is an extension of the
/// request, of type `Arc<Arrival>`.
pub(super) type RequestScreen = Arc<dyn Fn(u64, &Context) -> Result<Arrival, Status> + Send + Sync>;

/// The call of a request; a new one without memory limit if there is no connection, as in tests.
pub(super) fn call_of<B>(request: &Request<B>) -> Arc<Call> {
    let found = request.extensions().get::<Arc<Call>>().map(Arc::clone);
    found.unwrap_or_else(|| Call::new(TransportMemory::new(u64::MAX)))
}

/// The codecs that the headers of a request select.
struct Codecs {
    request_encoding: Option<Encoding>,
    encoder: Encoder,
}

/// A stream of requests that a task receives until it is dropped.
struct ReceivedStream<Q> {
    caller: Caller,
    context: Context,
    requests: mpsc::Receiver<Result<ChargedRequest<Q>, Status>>,
    encoder: Encoder,
    receiving: AbortOnDropHandle<()>,
}

impl CallRunner {
    /// Response bytes to charge before computing it; 0 for a response above the limit, which the handler refuses with a
    /// field violation.
    fn estimated_response(&self, request: &impl RequestCost) -> usize {
        Some(request.response_bytes(&self.dimensions)).filter(|bytes| *bytes <= self.limit).unwrap_or(0)
    }

    fn codecs<B>(&self, request: &Request<B>) -> Result<Codecs, Status> {
        let encoding = Encoding::of_response(request.headers());
        let encoder = Encoder { call: call_of(request), encoding, limit: self.limit };
        Ok(Codecs { request_encoding: Encoding::of_request(request.headers())?, encoder })
    }

    fn receiver<B>(&self, body: B, caller: Caller, codecs: &Codecs, cardinality: Cardinality) -> Receiver<B>
    where
        B: HttpBody<Data = Bytes, Error: Into<StdError>>,
    {
        Receiver::new(
            body,
            Arc::clone(&codecs.encoder.call),
            caller,
            cardinality,
            codecs.request_encoding,
            self.limit,
            self.offload.clone(),
        )
    }

    /// Runs a unary call.
    pub(super) async fn unary<B, Q, R, F>(
        self,
        request: Request<B>,
        handler: impl FnOnce(tonic::Request<Q>) -> F + Send + 'static,
    ) -> Response<Body>
    where
        B: HttpBody<Data = Bytes, Error: Into<StdError>>,
        Q: Message + Default + RequestCost + 'static,
        R: Message + 'static,
        F: Future<Output = Result<tonic::Response<R>, Status>> + Send + 'static,
    {
        self.try_unary(request, handler).await.unwrap_or_else(Status::into_http)
    }

    async fn try_unary<B, Q, R, F>(
        &self,
        request: Request<B>,
        handler: impl FnOnce(tonic::Request<Q>) -> F + Send + 'static,
    ) -> Result<Response<Body>, Status>
    where
        B: HttpBody<Data = Bytes, Error: Into<StdError>>,
        Q: Message + Default + RequestCost + 'static,
        R: Message + 'static,
        F: Future<Output = Result<tonic::Response<R>, Status>> + Send + 'static,
    {
        let codecs = self.codecs(&request)?;
        let (mut parts, body) = request.into_parts();
        let caller = Caller::of(&parts.extensions);
        let screen = self.screen.clone().map(|screen| -> Screen {
            let context = context_of(&parts.extensions, &parts.headers);
            Box::new(move |length| screen(length, &context))
        });
        let receiver = self.receiver(body, caller, &codecs, Cardinality::Unary).with_screen(screen);
        let mut received = receiver.unary().await?;
        if let Some(arrival) = received.arrival.take() {
            parts.extensions.insert(Arc::new(arrival));
        }
        let encoder = codecs.encoder;
        // Estimating the decoded size of a large message takes long, too.
        let is_small = received.message.len() as u64 <= SMALL_CALL_BYTES;
        let decoded_bytes = if is_small { charge_decoded(parts.uri.path(), &mut received)? } else { 0 };
        if !is_small || decoded_bytes > SMALL_CALL_BYTES {
            let runner = self.clone();
            let work = async move {
                if !is_small {
                    charge_decoded(parts.uri.path(), &mut received)?;
                }
                let (message, charge) = decode::<Q>(received)?;
                let response_charge = encoder.charge(runner.estimated_response(&message))?;
                let request = Request::from_parts(parts, message);
                let response = run_handler(handler(tonic::Request::from_http(request)), charge).await?;
                encoder.respond(response, response_charge)
            };
            return timing::spawn_on(&self.offload, work).await;
        }
        let (message, charge) = decode::<Q>(received)?;
        let response_charge = encoder.charge(self.estimated_response(&message))?;
        let is_cheap = message.is_cheap();
        let handling = run_handler(handler(tonic::Request::from_http(Request::from_parts(parts, message))), charge);
        if !is_cheap {
            let work = async move { encoder.respond(handling.await?, response_charge) };
            return timing::spawn_on(&self.offload, work).await;
        }
        let response = handling.await?;
        let inline = if encoder.encoding.is_some() { MAX_INLINE_COMPRESSION } else { to_usize(SMALL_CALL_BYTES) };
        let length = response.get_ref().encoded_len();
        // Charged before it queues for a thread: the number of queued responses is not bounded.
        let response_charge = encoder.resize(response_charge, length)?;
        if length <= inline {
            return encoder.respond(response, response_charge);
        }
        timing::spawn_on(&self.offload, async move { encoder.respond(response, response_charge) }).await
    }

    /// Runs a bidirectional stream.
    pub(super) fn stream<B, Q, R>(
        self,
        request: Request<B>,
        handler: impl FnOnce(Caller, Context, Requests<Q>) -> Responses<R> + Send + 'static,
    ) -> Response<Body>
    where
        B: HttpBody<Data = Bytes, Error: Into<StdError>> + Send + 'static,
        Q: Message + Default + RequestCost + 'static,
        R: Message + 'static,
    {
        let ReceivedStream { caller, context, requests, encoder, receiving } = match self.received_stream(request) {
            Ok(received) => received,
            Err(status) => return status.into_http(),
        };
        let (sender, messages) = mpsc::channel(1);
        let responder = encoder.clone();
        let run = async move {
            let _receiving = receiving;
            let pending = Arc::new(PendingCharges::default());
            let mut responses = handler(caller, context, pending.requests(requests));
            while let Some(response) = responses.next().await {
                let charge = pending.pop();
                let encoded = response.and_then(|response| encoder.encode(response, charge));
                let is_last = encoded.is_err();
                if sender.send(encoded).await.is_err() || is_last {
                    return;
                }
            }
        };
        let task = AbortOnDropHandle::new(self.offload.spawn(run.in_current_span()));
        responder.respond_with(messages, task)
    }

    /// Runs a call with a stream of requests and one response. Each request comes with its charge.
    pub(super) async fn client_stream<B, Q, R, F>(
        self,
        request: Request<B>,
        handler: impl FnOnce(Caller, Context, ChargedRequests<Q>) -> F + Send + 'static,
    ) -> Response<Body>
    where
        B: HttpBody<Data = Bytes, Error: Into<StdError>> + Send + 'static,
        Q: Message + Default + RequestCost + 'static,
        R: Message + 'static,
        F: Future<Output = Result<tonic::Response<R>, Status>> + Send + 'static,
    {
        let ReceivedStream { caller, context, requests, encoder, receiving } = match self.received_stream(request) {
            Ok(received) => received,
            Err(status) => return status.into_http(),
        };
        let run = async move {
            let _receiving = receiving;
            let requests = ReceiverStream::new(requests).map(|received| {
                let (request, charge, _response): ChargedRequest<Q> = received?;
                Ok((request, charge))
            });
            let response = handler(caller, context, requests.boxed()).await?;
            encoder.respond(response, encoder.charge(0)?)
        };
        timing::spawn_on(&self.offload, run).await.unwrap_or_else(Status::into_http)
    }

    /// Starts the task that receives a stream of requests. It is a task of its own, so that a slow handler does not make the
    /// client look stalled.
    fn received_stream<B, Q>(&self, request: Request<B>) -> Result<ReceivedStream<Q>, Status>
    where
        B: HttpBody<Data = Bytes, Error: Into<StdError>> + Send + 'static,
        Q: Message + Default + RequestCost + 'static,
    {
        let codecs = self.codecs(&request)?;
        let path = request.uri().path().to_owned();
        let (parts, body) = request.into_parts();
        let caller = Caller::of(&parts.extensions);
        let context = context(&tonic::Request::from_http(Request::from_parts(parts, ())));
        let receiver = self.receiver(body, caller.clone(), &codecs, Cardinality::Stream);
        let (sender, requests) = mpsc::channel(1);
        let receive = receive(path, receiver, self.clone(), codecs.encoder.clone(), sender).in_current_span();
        let receiving = AbortOnDropHandle::new(self.offload.spawn(receive));
        Ok(ReceivedStream { caller, context, requests, encoder: codecs.encoder, receiving })
    }

    /// Runs a call with one small request on the offload threads. Neither its decoding nor its response is charged in advance.
    pub(super) async fn small<B>(self, request: Request<B>, serve: Serve) -> Response<Body>
    where
        B: HttpBody<Data = Bytes, Error: Into<StdError>>,
    {
        let codecs = match self.codecs(&request) {
            Ok(codecs) => codecs,
            Err(status) => return status.into_http(),
        };
        let (mut parts, body) = request.into_parts();
        let receiver = self.receiver(body, Caller::of(&parts.extensions), &codecs, Cardinality::Unary);
        let Received { message, charge, .. } = match receiver.unary().await {
            Ok(received) => received,
            Err(status) => return status.into_http(),
        };
        parts.headers.remove("grpc-encoding");
        let call = codecs.encoder.call;
        let offload = self.offload.clone();
        let work = async move {
            let response = serve(Request::from_parts(parts, unary_body(message))).await;
            drop(charge);
            response.map(|body| poll_on(&offload, ChargedBody { body, call }))
        };
        timing::spawn_on(&self.offload, work).await
    }
}

/// Runs a handler and releases the request's charge when it completes.
async fn run_handler<R>(
    handler: impl Future<Output = Result<tonic::Response<R>, Status>>,
    charge: MessageCharge,
) -> Result<tonic::Response<R>, Status> {
    let response = handler.await;
    drop(charge);
    response
}

/// Charges what decoding the request of a method allocates. Returns the bytes.
fn charge_decoded(path: &str, received: &mut Received) -> Result<u64, Status> {
    let bytes = decoded_size(path, &received.message);
    received.charge.grow(bytes)?;
    Ok(bytes)
}

/// Decodes a request whose decoded size is already charged.
fn decode<Q: Message + Default>(received: Received) -> Result<(Q, MessageCharge), Status> {
    let request = Q::decode(received.message).map_err(|error| Status::internal(error.to_string()))?;
    Ok((request, received.charge))
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// A request body of one uncompressed message.
fn unary_body(message: Bytes) -> Body {
    let mut prefix = BytesMut::with_capacity(PREFIX);
    prefix.put_u8(0);
    prefix
        .put_u32(u32::try_from(message.len()).expect("a message has at most max_message_bytes, which is below 4 GiB"));
    let frames = [Ok::<_, Status>(Frame::data(prefix.freeze())), Ok(Frame::data(message))];
    Body::new(StreamBody::new(stream::iter(frames)))
}

/// Responds to a call whose body is one uncompressed message.
pub(super) type Serve = Box<dyn FnOnce(Request<Body>) -> BoxFuture<'static, Response<Body>> + Send>;

/// Serves a unary method. `limit` is the maximum size of its messages.
pub(super) fn serve_unary<Q, R, F>(limit: usize, handler: impl Fn(tonic::Request<Q>) -> F + Send + 'static) -> Serve
where
    Q: Message + Default + 'static,
    R: Message + 'static,
    F: Future<Output = Result<tonic::Response<R>, Status>> + Send + 'static,
{
    Box::new(move |request| Box::pin(async move { grpc(limit).unary(service_fn(handler), request).await }))
}

/// Serves a method with a stream of responses. `limit` is the maximum size of its messages.
pub(super) fn serve_server_stream<Q, R, F>(
    limit: usize,
    handler: impl Fn(tonic::Request<Q>) -> F + Send + 'static,
) -> Serve
where
    Q: Message + Default + 'static,
    R: Message + 'static,
    F: Future<Output = Result<tonic::Response<Responses<R>>, Status>> + Send + 'static,
{
    Box::new(move |request| Box::pin(async move { grpc(limit).server_streaming(service_fn(handler), request).await }))
}

fn grpc<Q, R>(limit: usize) -> Grpc<ProstCodec<R, Q>>
where
    Q: Message + Default + 'static,
    R: Message + 'static,
{
    Grpc::new(ProstCodec::default()).apply_max_message_size_config(Some(limit), Some(limit))
}

/// The requests of a stream.
pub(super) type Requests<Q> = BoxStream<'static, Result<Q, Status>>;

/// The responses of a stream.
pub(super) type Responses<R> = BoxStream<'static, Result<R, Status>>;

/// The requests of a stream with their charges, which are dropped once a request is handled.
pub(super) type ChargedRequests<Q> = BoxStream<'static, Result<(Q, MessageCharge), Status>>;

/// A request of a stream, its charge, and the charge of its response.
type ChargedRequest<Q> = (Q, MessageCharge, Charge);

/// The charges of a stream's requests without a response and of their responses, oldest first. Each response releases the
/// oldest, even if responses are sent in another order.
#[derive(Debug, Default)]
struct PendingCharges(Mutex<VecDeque<(MessageCharge, Charge)>>);

impl PendingCharges {
    /// The requests as they are received; keeps their charges.
    fn requests<Q: Send + 'static>(
        self: &Arc<Self>,
        received: mpsc::Receiver<Result<ChargedRequest<Q>, Status>>,
    ) -> BoxStream<'static, Result<Q, Status>> {
        let pending = Arc::clone(self);
        let requests = ReceiverStream::new(received).map(move |received| {
            let (request, charge, response) = received?;
            pending.0.lock().unwrap_or_else(PoisonError::into_inner).push_back((charge, response));
            Ok(request)
        });
        requests.boxed()
    }

    /// Releases the oldest request's charge and returns that of its response.
    fn pop(&self) -> Option<Charge> {
        let (_request, response) = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()?;
        Some(response)
    }
}

/// Receives and decodes the requests of a stream until the first error.
async fn receive<B, Q>(
    path: String,
    mut receiver: Receiver<B>,
    runner: CallRunner,
    encoder: Encoder,
    requests: mpsc::Sender<Result<ChargedRequest<Q>, Status>>,
) where
    B: HttpBody<Data = Bytes, Error: Into<StdError>>,
    Q: Message + Default + RequestCost,
{
    let charge_and_decode = async |mut received: Received| {
        charge_decoded(&path, &mut received)?;
        let (request, charge) = decode::<Q>(received)?;
        let response = encoder.charge_or_wait(runner.estimated_response(&request)).await?;
        Ok((request, charge, response))
    };
    loop {
        let request = match receiver.next().await {
            Ok(None) => return,
            Ok(Some(received)) => charge_and_decode(received).await,
            Err(status) => Err(status),
        };
        let is_last = request.is_err();
        if requests.send(request).await.is_err() || is_last {
            return;
        }
    }
}

/// Polls a body on another runtime.
fn poll_on(handle: &Handle, mut body: ChargedBody) -> Body {
    let (sender, frames) = mpsc::channel::<Result<Frame<Bytes>, Status>>(1);
    let pump = async move {
        while let Some(frame) = body.frame().await {
            let frame = frame.or_else(|status| trailers(&status));
            if sender.send(frame).await.is_err() {
                return;
            }
        }
    };
    let task = AbortOnDropHandle::new(handle.spawn(pump.in_current_span()));
    let frames = stream::unfold((frames, task), |(mut frames, task)| async move {
        let frame = frames.recv().await?;
        Some((frame, (frames, task)))
    });
    Body::new(StreamBody::new(frames))
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicBool, Ordering::Relaxed},
        thread,
    };

    use accelerd_proto::{methods::embed_service, v1 as pb};
    use tonic::Code;

    use super::*;
    use crate::transport::{memory::MemoryKind, offload::Offload};

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
        CallRunner { limit: 1 << 24, offload: offload.handle().clone(), dimensions: Arc::new(|_| 256), screen: None }
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
            let (handled_offloaded, encoded_offloaded) =
                (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
            let (handled, response) = (
                Arc::clone(&handled_offloaded),
                RecordingResponse { bytes, encoded_offloaded: Arc::clone(&encoded_offloaded) },
            );
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
            let (held, ran) = (Arc::clone(&memory), Arc::clone(&handled));
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
}
