//! How calls run: received under the memory of the transport, decoded, handled, and encoded under it again.
//!
//! Whatever takes long happens off the reactor: a large message is decoded, handled and encoded on the offload threads, a
//! large answer is encoded there, and a stream runs there altogether.

use std::{
    collections::VecDeque,
    convert::Infallible,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
};

use accelerd_engine::Context;
use bytes::{BufMut, Bytes, BytesMut};
use futures::{StreamExt, stream, stream::BoxStream};
use http::{HeaderMap, Request, Response};
use http_body::{Body as HttpBody, Frame};
use http_body_util::{BodyExt, StreamBody};
use prost::Message;
use tokio::{runtime::Handle, sync::mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::AbortOnDropHandle;
use tonic::{Status, body::Body, codegen::StdError};
use tower::Service;
use tracing::Instrument;

use super::{
    answer::{Charged, Encoder},
    compression::Encoding,
    context,
    decoded_size::decoded_size,
    receive::{PREFIX, Received, Receiver, Shape},
    weigh::{Dimensions, Weigh},
};
use crate::{
    layers::timing,
    transport::{
        call::{Call, Charge, SMALL},
        memory::Memory,
    },
};

/// Answers that are compressed on the reactor have at most this many bytes.
const INLINE_COMPRESSION: usize = 4 << 10;

/// What calls are run with.
#[derive(Clone)]
pub(super) struct Calls {
    /// Largest message, in and out.
    pub(super) limit: usize,
    /// Where what takes long is done.
    pub(super) offload: Handle,
    pub(super) dimensions: Dimensions,
}

/// The memory account of a call. Tests call services without a connection; they have one of their own.
pub(super) fn account<B>(request: &Request<B>) -> Arc<Call> {
    let found = request.extensions().get::<Arc<Call>>().map(Arc::clone);
    found.unwrap_or_else(|| Call::new(Memory::new(u64::MAX), None))
}

/// What the headers of a request say of its messages and answers.
struct Wire {
    request: Option<Encoding>,
    encoder: Encoder,
}

impl Calls {
    /// Bytes of an answer to charge before it is computed. What no message could carry, the handler refuses by its field.
    fn foretold(&self, request: &impl Weigh) -> usize {
        Some(request.answer_bytes(&self.dimensions)).filter(|bytes| *bytes <= self.limit).unwrap_or(0)
    }

    fn wire<B>(&self, request: &Request<B>) -> Result<Wire, Status> {
        let encoding = Encoding::of_answer(request.headers());
        let encoder = Encoder { call: account(request), encoding, limit: self.limit };
        Ok(Wire { request: Encoding::of_request(request.headers())?, encoder })
    }

    fn receiver<B>(&self, body: B, wire: &Wire, shape: Shape) -> Receiver<B>
    where
        B: HttpBody<Data = Bytes, Error: Into<StdError>>,
    {
        Receiver::new(body, Arc::clone(&wire.encoder.call), shape, wire.request, self.limit, self.offload.clone())
    }

    /// Runs a call of one message each way.
    pub(super) async fn unary<B, Q, R, F>(
        self,
        request: Request<B>,
        handler: impl FnOnce(tonic::Request<Q>) -> F + Send + 'static,
    ) -> Response<Body>
    where
        B: HttpBody<Data = Bytes, Error: Into<StdError>>,
        Q: Message + Default + Weigh + 'static,
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
        Q: Message + Default + Weigh + 'static,
        R: Message + 'static,
        F: Future<Output = Result<tonic::Response<R>, Status>> + Send + 'static,
    {
        let wire = self.wire(&request)?;
        let (parts, body) = request.into_parts();
        let mut received = self.receiver(body, &wire, Shape::Unary).only().await?;
        let encoder = wire.encoder;
        // To tell what a large message decodes to takes long, too.
        let is_short = received.message.len() as u64 <= SMALL;
        let decoded_bytes = if is_short { charge_decoded(parts.uri.path(), &mut received)? } else { 0 };
        if !is_short || decoded_bytes > SMALL {
            let calls = self.clone();
            let work = async move {
                if !is_short {
                    charge_decoded(parts.uri.path(), &mut received)?;
                }
                let (message, charge) = decode::<Q>(received)?;
                let answer = encoder.charge(calls.foretold(&message))?;
                let request = Request::from_parts(parts, message);
                let response = handled(handler(tonic::Request::from_http(request)), charge).await?;
                encoder.respond(response, answer)
            };
            return timing::apart(&self.offload, work).await;
        }
        let (message, charge) = decode::<Q>(received)?;
        let answer = encoder.charge(self.foretold(&message))?;
        let is_light = message.is_light();
        let handling = handled(handler(tonic::Request::from_http(Request::from_parts(parts, message))), charge);
        if !is_light {
            let work = async move { encoder.respond(handling.await?, answer) };
            return timing::apart(&self.offload, work).await;
        }
        let response = handling.await?;
        let inline = if encoder.encoding.is_some() { INLINE_COMPRESSION } else { to_usize(SMALL) };
        let length = response.get_ref().encoded_len();
        // Charged before it waits for a thread: any number of answers may.
        let answer = encoder.fit(answer, length)?;
        if length <= inline {
            return encoder.respond(response, answer);
        }
        timing::apart(&self.offload, async move { encoder.respond(response, answer) }).await
    }

    /// Runs a stream of messages each way.
    pub(super) fn stream<B, Q, R>(
        self,
        request: Request<B>,
        handler: impl FnOnce(Context, BoxStream<'static, Result<Q, Status>>) -> BoxStream<'static, Result<R, Status>>
        + Send
        + 'static,
    ) -> Response<Body>
    where
        B: HttpBody<Data = Bytes, Error: Into<StdError>> + Send + 'static,
        Q: Message + Default + Weigh + 'static,
        R: Message + 'static,
    {
        let wire = match self.wire(&request) {
            Ok(wire) => wire,
            Err(status) => return status.into_http(),
        };
        let path = request.uri().path().to_owned();
        let (parts, body) = request.into_parts();
        let context = context(&tonic::Request::from_http(Request::from_parts(parts, ())));
        let receiver = self.receiver(body, &wire, Shape::Stream);
        let (sender, answers) = mpsc::channel(1);
        let encoder = wire.encoder.clone();
        // Received by a task of its own: one that is held up elsewhere would not see that its caller does send.
        let (received, requests) = mpsc::channel(1);
        let receive = receive(path, receiver, self.clone(), encoder.clone(), received).in_current_span();
        let offload = self.offload.clone();
        let run = async move {
            let _receiving = AbortOnDropHandle::new(offload.spawn(receive));
            let unanswered = Arc::new(Unanswered::default());
            let mut answers = handler(context, unanswered.requests(requests));
            while let Some(answer) = answers.next().await {
                let charge = unanswered.answered();
                let encoded = answer.and_then(|answer| encoder.encode(answer, charge));
                let is_last = encoded.is_err();
                if sender.send(encoded).await.is_err() || is_last {
                    return;
                }
            }
        };
        let task = AbortOnDropHandle::new(self.offload.spawn(run.in_current_span()));
        wire.encoder.respond_with(answers, task)
    }

    /// Runs a call of one request message by a generated service, whose answers are encoded off the reactor, too.
    pub(super) async fn generated<B, S>(self, request: Request<B>, mut service: S) -> Response<Body>
    where
        B: HttpBody<Data = Bytes, Error: Into<StdError>>,
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send> + Send + 'static,
    {
        let wire = match self.wire(&request) {
            Ok(wire) => wire,
            Err(status) => return status.into_http(),
        };
        let (mut parts, body) = request.into_parts();
        let Received { message, charge } = match self.receiver(body, &wire, Shape::Unary).only().await {
            Ok(received) => received,
            Err(status) => return status.into_http(),
        };
        parts.headers.remove("grpc-encoding");
        let call = wire.encoder.call;
        let offload = self.offload.clone();
        let work = async move {
            let Ok(response) = service.call(Request::from_parts(parts, plain(message))).await;
            drop(charge);
            response.map(|body| pumped(&offload, Charged { body, call }))
        };
        timing::apart(&self.offload, work).await
    }
}

/// Handles a request, which is charged until it is handled.
async fn handled<R>(
    handling: impl Future<Output = Result<tonic::Response<R>, Status>>,
    charge: Charge,
) -> Result<tonic::Response<R>, Status> {
    let response = handling.await;
    drop(charge);
    response
}

/// Charges what the request of a method will hold once it is decoded, and says how much that is.
fn charge_decoded(path: &str, received: &mut Received) -> Result<u64, Status> {
    let bytes = decoded_size(path, &received.message);
    received.charge.grow(bytes)?;
    Ok(bytes)
}

/// Decodes a request, whose decoded form is charged.
fn decode<Q: Message + Default>(received: Received) -> Result<(Q, Charge), Status> {
    let request = Q::decode(received.message).map_err(|error| Status::internal(error.to_string()))?;
    Ok((request, received.charge))
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// A request body of one message, as generated services read it.
fn plain(message: Bytes) -> Body {
    let mut prefix = BytesMut::with_capacity(PREFIX);
    prefix.put_u8(0);
    prefix
        .put_u32(u32::try_from(message.len()).expect("a message has at most max_message_bytes, which is below 4 GiB"));
    let frames = [Ok::<_, Status>(Frame::data(prefix.freeze())), Ok(Frame::data(message))];
    Body::new(StreamBody::new(stream::iter(frames)))
}

/// A request of a stream, what it holds, and what is charged for its answer.
type Asked<Q> = (Q, Charge, Charge);

/// What the messages of a stream that are not answered yet hold, and what is charged for their answers, oldest first. Answers
/// may come in another order; as many messages as there are answers are done with.
#[derive(Debug, Default)]
struct Unanswered(Mutex<VecDeque<(Charge, Charge)>>);

impl Unanswered {
    /// The messages as they are received; each is charged until it is answered.
    fn requests<Q: Send + 'static>(
        self: &Arc<Self>,
        received: mpsc::Receiver<Result<Asked<Q>, Status>>,
    ) -> BoxStream<'static, Result<Q, Status>> {
        let unanswered = Arc::clone(self);
        let requests = ReceiverStream::new(received).map(move |received| {
            let (request, charge, answer) = received?;
            unanswered.0.lock().unwrap_or_else(PoisonError::into_inner).push_back((charge, answer));
            Ok(request)
        });
        requests.boxed()
    }

    /// One message is answered: what is charged for its answer.
    fn answered(&self) -> Option<Charge> {
        let (_request, answer) = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()?;
        Some(answer)
    }
}

/// Receives the messages of a stream and decodes them. An error ends them.
async fn receive<B, Q>(
    path: String,
    mut receiver: Receiver<B>,
    calls: Calls,
    encoder: Encoder,
    requests: mpsc::Sender<Result<Asked<Q>, Status>>,
) where
    B: HttpBody<Data = Bytes, Error: Into<StdError>>,
    Q: Message + Default + Weigh,
{
    let ask = async |mut received: Received| {
        charge_decoded(&path, &mut received)?;
        let (request, charge) = decode::<Q>(received)?;
        let answer = encoder.charge_patiently(calls.foretold(&request)).await?;
        Ok((request, charge, answer))
    };
    loop {
        let request = match receiver.next().await {
            Ok(None) => return,
            Ok(Some(received)) => ask(received).await,
            Err(status) => Err(status),
        };
        let is_last = request.is_err();
        if requests.send(request).await.is_err() || is_last {
            return;
        }
    }
}

/// A body that is polled on other threads.
fn pumped(on: &Handle, mut body: Charged) -> Body {
    let (sender, frames) = mpsc::channel::<Result<Frame<Bytes>, Status>>(1);
    let pump = async move {
        while let Some(frame) = body.frame().await {
            let frame = frame.or_else(|status| trailers(&status));
            if sender.send(frame).await.is_err() {
                return;
            }
        }
    };
    let task = AbortOnDropHandle::new(on.spawn(pump.in_current_span()));
    let frames = stream::unfold((frames, task), |(mut frames, task)| async move {
        let frame = frames.recv().await?;
        Some((frame, (frames, task)))
    });
    Body::new(StreamBody::new(frames))
}

fn trailers(status: &Status) -> Result<Frame<Bytes>, Status> {
    let mut trailers = HeaderMap::new();
    status.add_header(&mut trailers)?;
    Ok(Frame::trailers(trailers))
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicBool, Ordering::Relaxed},
        thread,
    };

    use accelerd_proto::v1 as pb;
    use tonic::Code;

    use super::*;
    use crate::transport::{memory::Kind, offload::Offload};

    /// An answer that notes whether the thread that encodes it is one for long work.
    #[derive(Clone, Debug, Default)]
    struct Noting {
        bytes: usize,
        encoded_aside: Arc<AtomicBool>,
    }

    impl Message for Noting {
        fn encode_raw(&self, buf: &mut impl BufMut) {
            self.encoded_aside.store(is_aside(), Relaxed);
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

    fn is_aside() -> bool {
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
        let request = Request::post("/accelerd.v1.EmbedService/Embed").extension(Arc::clone(call));
        request.body(body).expect("a request")
    }

    fn calls(offload: &Offload) -> Calls {
        Calls { limit: 1 << 24, offload: offload.handle().clone(), dimensions: Arc::new(|_| 256) }
    }

    fn code(response: &Response<Body>) -> Code {
        Status::from_header_map(response.headers()).map_or(Code::Ok, |status| status.code())
    }

    #[tokio::test]
    async fn what_takes_long_is_done_off_the_reactor() {
        let offload = Offload::start().expect("threads");
        let calls = calls(&offload);
        let cases = [
            ("little of everything", embed(1, 10), 100, [false, false]),
            ("a large request", embed(1, 100_000), 100, [true, true]),
            ("many texts", embed(1000, 1), 100, [true, true]),
            ("a large answer", embed(1, 10), 100_000, [false, true]),
        ];
        for (what, message, bytes, expected) in cases {
            let memory = Memory::new(1 << 26);
            let call = Call::new(Arc::clone(&memory), None);
            let (handled_aside, encoded_aside) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
            let (handled, answer) =
                (Arc::clone(&handled_aside), Noting { bytes, encoded_aside: Arc::clone(&encoded_aside) });
            let handler = move |_: tonic::Request<pb::EmbedRequest>| async move {
                handled.store(is_aside(), Relaxed);
                Ok(tonic::Response::new(answer))
            };
            let response = calls.clone().unary(request(&[message], &call), handler).await;
            assert_eq!(code(&response), Code::Ok, "{what}");
            assert_eq!([handled_aside.load(Relaxed), encoded_aside.load(Relaxed)], expected, "{what}");
            assert_eq!(memory.held_by(Kind::Request), 0, "{what}");
            assert_eq!(memory.held_by(Kind::Answer), (bytes + PREFIX) as u64, "{what}");
            drop(response);
            assert_eq!(memory.held(), 0, "{what}");
        }
    }

    #[tokio::test]
    async fn an_answer_without_memory_is_refused() {
        let offload = Offload::start().expect("threads");
        let calls = calls(&offload);
        let memory = Memory::new(1 << 20);
        for (bytes, expected) in [(1000, Code::Ok), (600 << 10, Code::Ok), (700 << 10, Code::ResourceExhausted)] {
            let call = Call::new(Arc::clone(&memory), None);
            let answer = Noting { bytes, ..Noting::default() };
            let handler = move |_: tonic::Request<pb::EmbedRequest>| async move { Ok(tonic::Response::new(answer)) };
            let response = calls.clone().unary(request(&[embed(1, 1)], &call), handler).await;
            assert_eq!(code(&response), expected, "{bytes} bytes");
            drop(response);
            assert_eq!(memory.held(), 0, "{bytes} bytes");
        }
    }

    #[tokio::test]
    async fn an_answer_without_memory_is_refused_before_it_is_computed() {
        let offload = Offload::start().expect("threads");
        let memory = Memory::new(1 << 20);
        // Of 256 dimensions each, in four bytes: 600 KiB fit into the share of answers, 700 KiB do not.
        for (texts, expected) in [(600, Code::Ok), (700, Code::ResourceExhausted)] {
            let call = Call::new(Arc::clone(&memory), None);
            let handled = Arc::new(AtomicBool::new(false));
            let (held, ran) = (Arc::clone(&memory), Arc::clone(&handled));
            let handler = move |_: tonic::Request<pb::EmbedRequest>| async move {
                ran.store(true, Relaxed);
                assert_eq!(held.held_by(Kind::Answer), (texts * 1024 + PREFIX) as u64);
                Ok(tonic::Response::new(Noting { bytes: 9, ..Noting::default() }))
            };
            let response = calls(&offload).unary(request(&[embed(texts, 1)], &call), handler).await;
            assert_eq!(code(&response), expected, "{texts} texts");
            assert_eq!(handled.load(Relaxed), expected == Code::Ok, "{texts} texts");
            let held = if expected == Code::Ok { 9 + PREFIX as u64 } else { 0 };
            assert_eq!(memory.held_by(Kind::Answer), held, "the charge is that of the answer's bytes");
            drop(response);
            assert_eq!(memory.held(), 0, "{texts} texts");
        }
    }

    #[tokio::test]
    async fn a_request_that_decodes_to_more_than_there_is_memory_for_is_refused() {
        let offload = Offload::start().expect("threads");
        let calls = calls(&offload);
        let memory = Memory::new(8 << 20);
        let call = Call::new(Arc::clone(&memory), None);
        let handler = |_: tonic::Request<pb::EmbedRequest>| async { Ok(tonic::Response::new(Noting::default())) };
        // 400 KB on the wire, and 5 MB as strings.
        let response = calls.unary(request(&[embed(200_000, 0)], &call), handler).await;
        assert_eq!(code(&response), Code::ResourceExhausted);
        assert_eq!(memory.held(), 0);
    }

    #[tokio::test]
    async fn the_messages_of_a_stream_are_charged_until_they_are_answered() {
        let offload = Offload::start().expect("threads");
        let calls = calls(&offload);
        let memory = Memory::new(1 << 26);
        let call = Call::new(Arc::clone(&memory), None);
        let held = Arc::clone(&memory);
        let handler = move |_, requests: BoxStream<'static, Result<pb::EmbedRequest, Status>>| {
            let answer = move |request: Result<pb::EmbedRequest, Status>| {
                let bytes = usize::try_from(held.held_by(Kind::Request)).expect("a count");
                request.map(|_| Noting { bytes, ..Noting::default() })
            };
            requests.map(answer).boxed()
        };
        let response = calls.stream(request(&[embed(1, 5000), embed(1, 6000), embed(1, 7000)], &call), handler);
        let body = response.into_body().collect().await.expect("a body");
        let status = Status::from_header_map(body.trailers().expect("trailers")).expect("a status");
        assert_eq!(status.code(), Code::Ok);
        let answers = body.to_bytes();
        assert!(
            answers.len() > 18_000 + 3 * PREFIX,
            "each message was charged while it was handled: {}",
            answers.len()
        );
        drop(answers);
        assert_eq!(memory.held(), 0);
    }
}
