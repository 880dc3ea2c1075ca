//! Calls with one small request, which tonic decodes and answers on the offload threads.

use std::{future::Future, marker::PhantomData};

use bytes::{BufMut, Bytes, BytesMut};
use futures::{future::BoxFuture, stream};
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame};
use http_body_util::{BodyExt, StreamBody};
use prost::Message;
use tokio::{runtime::Handle, sync::mpsc};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tonic::{
    Status,
    body::Body,
    codec::{Codec, DecodeBuf, Decoder},
    codegen::StdError,
    server::Grpc,
};
use tonic_prost::ProstEncoder;
use tower::service_fn;
use tracing::Instrument;

use super::{CallRunner, Responses};
use crate::{
    auth::caller::Caller,
    grpc::{
        encode::{ChargedBody, trailers},
        receive::{Cardinality, PREFIX, Received},
    },
    layers::timing,
    status,
};

/// Responds to a call whose body is one uncompressed message.
pub(in crate::grpc) type Serve = Box<dyn FnOnce(Request<Body>) -> BoxFuture<'static, Response<Body>> + Send>;

impl CallRunner {
    /// Runs a call with one small request on the offload threads. Neither its decoding nor its response is charged in advance.
    pub(in crate::grpc) async fn small<B>(self, request: Request<B>, serve: Serve) -> Response<Body>
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
        let end = self.stream_ends.timeout.clone();
        let work = async move {
            let response = serve(Request::from_parts(parts, unary_body(message))).await;
            drop(charge);
            response.map(|body| poll_on(&offload, ChargedBody { body, call }, end))
        };
        timing::spawn_on(&self.offload, work).await
    }
}

/// Serves a unary method. `limit` is the maximum size of its messages.
pub(in crate::grpc) fn serve_unary<Q, R, F>(
    limit: usize,
    handler: impl Fn(tonic::Request<Q>) -> F + Send + 'static,
) -> Serve
where
    Q: Message + Default + 'static,
    R: Message + 'static,
    F: Future<Output = Result<tonic::Response<R>, Status>> + Send + 'static,
{
    Box::new(move |request| Box::pin(async move { grpc(limit).unary(service_fn(handler), request).await }))
}

/// Serves a method with a stream of responses. `limit` is the maximum size of its messages.
pub(in crate::grpc) fn serve_server_stream<Q, R, F>(
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

fn grpc<Q, R>(limit: usize) -> Grpc<MessageCodec<Q, R>>
where
    Q: Message + Default + 'static,
    R: Message + 'static,
{
    Grpc::new(MessageCodec(PhantomData)).apply_max_message_size_config(Some(limit), Some(limit))
}

/// Encodes as prost does; a request that it cannot decode is the client's mistake.
struct MessageCodec<Q, R>(PhantomData<fn(Q) -> R>);

/// Decodes requests.
struct MessageDecoder<Q>(PhantomData<fn() -> Q>);

impl<Q, R> Codec for MessageCodec<Q, R>
where
    Q: Message + Default + 'static,
    R: Message + 'static,
{
    type Encode = R;
    type Decode = Q;
    type Encoder = ProstEncoder<R>;
    type Decoder = MessageDecoder<Q>;

    fn encoder(&mut self) -> ProstEncoder<R> {
        ProstEncoder::default()
    }

    fn decoder(&mut self) -> MessageDecoder<Q> {
        MessageDecoder(PhantomData)
    }
}

impl<Q: Message + Default> Decoder for MessageDecoder<Q> {
    type Item = Q;
    type Error = Status;

    fn decode(&mut self, message: &mut DecodeBuf<'_>) -> Result<Option<Q>, Status> {
        Q::decode(message).map(Some).map_err(|error| status::malformed_message(&error.to_string()))
    }
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

/// Polls a body on another runtime. One that is not complete at `end` ends with UNAVAILABLE.
fn poll_on(handle: &Handle, mut body: ChargedBody, end: CancellationToken) -> Body {
    let (sender, frames) = mpsc::channel::<Result<Frame<Bytes>, Status>>(1);
    let pump = async move {
        loop {
            let (frame, is_last) = tokio::select! {
                biased;
                frame = body.frame() => match frame {
                    Some(frame) => (frame.or_else(|status| trailers(&status)), false),
                    None => return,
                },
                () = end.cancelled() => (trailers(&status::draining()), true),
            };
            if sender.send(frame).await.is_err() || is_last {
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
