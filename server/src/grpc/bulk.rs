//! Calls whose request carries a large tensor: received into one buffer that is placed so that the tensor's numbers are
//! aligned in it, and decoded from there without a copy.
//!
//! The generated path collects frames at whatever address comes, where numbers sent by a caller are aligned only by
//! chance; computing on them would then cost a copy of all of them.

use std::{future::Future, pin::pin};

use accelerd_proto::v1::{
    self as pb, similarity_service_server::SimilarityService, similarity_service_server::SimilarityServiceServer,
};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response, header::CONTENT_TYPE};
use http_body::Body as HttpBody;
use http_body_util::BodyExt;
use prost::Message;
use tokio::runtime::Handle;
use tonic::{
    Status,
    body::Body,
    codec::{EncodeBody, SingleMessageCompressionOverride},
    codegen::{BoxFuture, StdError},
    server::NamedService,
};
use tonic_prost::ProstEncoder;

use crate::{
    grpc::{similarity::Similarity, status},
    layers::timing,
};

/// Bytes before each message: a compression flag and the length, big-endian.
const PREFIX: usize = 5;

/// What vector instructions and cache lines like.
const ALIGNMENT: usize = 64;

/// Where the numbers begin must show within this much of a message, or they are taken as they come.
const LONGEST_HEAD: usize = 4 << 20;

/// Requests of more bytes than this take long to check, for a reactor.
const LONG: usize = 1 << 20;

/// The methods whose requests carry large tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    FindSimilar,
    Upsert,
    Cluster,
}

impl Method {
    /// The method of a path, if it is one of these and the request is not compressed.
    pub(super) fn of<B>(request: &Request<B>) -> Option<Self> {
        let name = SimilarityServiceServer::<Similarity>::NAME;
        let method = request.uri().path().strip_prefix('/')?.strip_prefix(name)?;
        let method = match method {
            "/FindSimilar" => Self::FindSimilar,
            "/Upsert" => Self::Upsert,
            "/Cluster" => Self::Cluster,
            _ => return None,
        };
        let encoding = request.headers().get("grpc-encoding");
        encoding.is_none_or(|encoding| encoding == "identity").then_some(method)
    }

    /// Answers a call of this method.
    pub(super) fn call<B>(
        self,
        served: &Served,
        request: Request<B>,
    ) -> BoxFuture<Response<Body>, std::convert::Infallible>
    where
        B: HttpBody<Data = Bytes, Error: Into<StdError> + Send> + Send + 'static,
    {
        let (served, service) = (served.clone(), served.service.clone());
        Box::pin(async move {
            Ok(match self {
                Self::FindSimilar => {
                    let handler = |request| async move { service.find_similar(request).await };
                    served.unary::<_, pb::FindSimilarRequest, _, _>(request, handler).await
                }
                Self::Upsert => {
                    let handler = |request| async move { service.upsert(request).await };
                    served.unary::<_, pb::UpsertRequest, _, _>(request, handler).await
                }
                Self::Cluster => {
                    let handler = |request| async move { service.cluster(request).await };
                    served.unary::<_, pb::ClusterRequest, _, _>(request, handler).await
                }
            })
        })
    }
}

/// What the methods are served with.
#[derive(Clone, Debug)]
pub(super) struct Served {
    pub(super) service: Similarity,
    /// Largest message, in and out.
    pub(super) limit: usize,
    /// Where long work is done: a reactor has other calls to serve.
    pub(super) control: Handle,
}

impl Served {
    /// Receives a request, has it handled, and answers.
    async fn unary<B, Q, R, F>(
        &self,
        request: Request<B>,
        handler: impl FnOnce(tonic::Request<Q>) -> F,
    ) -> Response<Body>
    where
        B: HttpBody<Data = Bytes, Error: Into<StdError>>,
        Q: Message + Default,
        R: Message + 'static,
        F: Future<Output = Result<tonic::Response<R>, Status>> + Send + 'static,
    {
        let (parts, body) = request.into_parts();
        let answered = async {
            let message = receive(body, self.limit).await?;
            let is_long = message.len() > LONG;
            let message = Q::decode(message).map_err(|error| Status::internal(error.to_string()))?;
            let handled = handler(tonic::Request::from_http(Request::from_parts(parts, message)));
            if is_long { timing::apart(&self.control, handled).await } else { handled.await }
        };
        match answered.await {
            Ok(response) => respond(response, self.limit),
            Err(status) => status.into_http(),
        }
    }
}

fn respond<R: Message + 'static>(response: tonic::Response<R>, limit: usize) -> Response<Body> {
    let (metadata, message, _) = response.into_parts();
    let body = EncodeBody::new_server(
        ProstEncoder::default(),
        tokio_stream::once(Ok(message)),
        None,
        SingleMessageCompressionOverride::default(),
        Some(limit),
    );
    let mut response = Response::new(Body::new(body));
    let mut headers: HeaderMap = metadata.into_headers();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    *response.headers_mut() = headers;
    response
}

/// The one message of a body.
async fn receive<B>(body: B, limit: usize) -> Result<Bytes, Status>
where
    B: HttpBody<Data = Bytes, Error: Into<StdError>>,
{
    let mut body = pin!(body);
    let mut head = BytesMut::new();
    while head.len() < PREFIX {
        head.extend_from_slice(&next(body.as_mut()).await?.ok_or_else(too_short)?);
    }
    let length = length(&mut head, limit)?;
    let mut offset = None;
    while head.len() < length.min(LONGEST_HEAD) && offset.is_none() {
        offset = numbers_at(&head, length);
        if offset.is_none() {
            head.extend_from_slice(&next(body.as_mut()).await?.ok_or_else(too_short)?);
        }
    }
    let mut message = if head.len() < length { placed(&head, length, offset.unwrap_or(0)) } else { Placed::from(head) };
    while message.len() < length {
        let data = next(body.as_mut()).await?.ok_or_else(too_short)?;
        message.buffer.extend_from_slice(&data);
    }
    if message.len() > length || next(body.as_mut()).await?.is_some() {
        return Err(Status::internal("expected one request message, got more"));
    }
    Ok(message.freeze())
}

/// The next data of a body; its trailers say nothing to us.
async fn next<B>(mut body: std::pin::Pin<&mut B>) -> Result<Option<Bytes>, Status>
where
    B: HttpBody<Data = Bytes, Error: Into<StdError>>,
{
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Status::from_error(error.into()))?;
        match frame.into_data() {
            Ok(data) if data.is_empty() => {}
            Ok(data) => return Ok(Some(data)),
            Err(_trailers) => return Ok(None),
        }
    }
    Ok(None)
}

fn too_short() -> Status {
    Status::internal("the request ended before its message did")
}

/// Takes the prefix off and checks the length it tells.
fn length(head: &mut BytesMut, limit: usize) -> Result<usize, Status> {
    if head.get_u8() != 0 {
        return Err(Status::internal("the message is marked as compressed, and no grpc-encoding is given"));
    }
    let length = head.get_u32() as usize;
    if length > limit { Err(status::message_too_large(length as u64, limit as u64)) } else { Ok(length) }
}

/// A message in a buffer, after some bytes that only place it.
struct Placed {
    buffer: BytesMut,
    before: usize,
}

impl From<BytesMut> for Placed {
    fn from(buffer: BytesMut) -> Self {
        Self { buffer, before: 0 }
    }
}

impl Placed {
    fn len(&self) -> usize {
        self.buffer.len() - self.before
    }

    fn freeze(mut self) -> Bytes {
        self.buffer.advance(self.before);
        self.buffer.freeze()
    }
}

/// A buffer for a message of this length that begins with `head`, where what is at `offset` is aligned.
fn placed(head: &[u8], length: usize, offset: usize) -> Placed {
    let mut buffer = BytesMut::with_capacity(length + ALIGNMENT);
    let misaligned = (buffer.as_ptr().addr() + offset) % ALIGNMENT;
    let before = (ALIGNMENT - misaligned) % ALIGNMENT;
    buffer.put_bytes(0, before);
    buffer.extend_from_slice(head);
    Placed { buffer, before }
}

/// Where the bytes begin that make up most of a message: those of a tensor, two levels down. None as long as that does
/// not show in `head`.
fn numbers_at(head: &[u8], length: usize) -> Option<usize> {
    let (tensor, _) = unfinished(head, 0)?;
    let (data, bytes) = unfinished(head, tensor)?;
    (bytes >= length / 2).then_some(data)
}

/// Start and length of the first field after `at` that goes beyond the end of `message`.
fn unfinished(message: &[u8], at: usize) -> Option<(usize, usize)> {
    let mut rest = message.get(at..)?;
    while rest.has_remaining() {
        let tag = prost::encoding::decode_varint(&mut rest).ok()?;
        let skipped = match tag & 7 {
            0 => {
                prost::encoding::decode_varint(&mut rest).ok()?;
                0
            }
            1 => 8,
            2 => usize::try_from(prost::encoding::decode_varint(&mut rest).ok()?).ok()?,
            5 => 4,
            _ => return None,
        };
        if skipped > rest.len() {
            return Some((message.len() - rest.len(), skipped));
        }
        rest.advance(skipped);
    }
    None
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use tonic::Code;

    use super::*;
    use crate::grpc::convert::tensor_of;

    const LIMIT: usize = 1 << 30;

    fn request(queries: usize, corpus: usize) -> pb::FindSimilarRequest {
        let tensor = |rows: usize| {
            let data: Vec<u8> = (0..=250).cycle().take(rows * 16).collect();
            tensor_of(pb::Dtype::F32, &[rows, 4], data.into())
        };
        pb::FindSimilarRequest {
            queries: Some(tensor(queries)),
            corpus: Some(tensor(corpus)),
            k: 3,
            ..pb::FindSimilarRequest::default()
        }
    }

    fn encoded(message: &impl Message) -> Vec<u8> {
        let length = u32::try_from(message.encoded_len()).expect("a short message");
        [&[0], &length.to_be_bytes()[..], &message.encode_to_vec()].concat()
    }

    async fn received(wire: &[u8], frame: usize, limit: usize) -> Result<Bytes, Status> {
        let frames: Vec<_> =
            wire.chunks(frame).map(|part| Ok::<_, Status>(Frame::data(Bytes::copy_from_slice(part)))).collect();
        receive(StreamBody::new(stream::iter(frames)), limit).await
    }

    #[tokio::test]
    async fn messages_arrive_whole_however_they_are_cut() {
        for message in [request(0, 0), request(1, 1), request(3, 40)] {
            let wire = encoded(&message);
            for frame in 1..=wire.len() {
                let bytes = received(&wire, frame, LIMIT).await.expect("received");
                assert_eq!(pb::FindSimilarRequest::decode(bytes).expect("decoded"), message, "frames of {frame}");
            }
        }
    }

    #[tokio::test]
    async fn the_larger_tensor_is_aligned_in_the_buffer_it_came_into() {
        for (queries, corpus) in [(1, 70_000), (2_000, 70_000), (70_000, 1)] {
            let message = request(queries, corpus);
            let bytes = received(&encoded(&message), 16_384, LIMIT).await.expect("received");
            let decoded = pb::FindSimilarRequest::decode(bytes.clone()).expect("decoded");
            let larger = if queries > corpus { decoded.queries } else { decoded.corpus };
            let data = larger.expect("a tensor").data;
            assert_eq!(data.as_ptr().addr() % ALIGNMENT, 0, "{queries} and {corpus} rows");
            assert!(bytes.as_ptr_range().contains(&data.as_ptr()), "nothing was copied");
        }
    }

    #[tokio::test]
    async fn what_is_not_one_plain_message_is_refused() {
        let wire = encoded(&request(1, 100));
        let code = async |wire: &[u8], limit| received(wire, 64, limit).await.expect_err("refused").code();
        assert_eq!(code(&wire[..wire.len() - 1], LIMIT).await, Code::Internal);
        assert_eq!(code(&wire[..3], LIMIT).await, Code::Internal);
        assert_eq!(code(&[], LIMIT).await, Code::Internal);
        assert_eq!(code(&[&wire[..], &wire[..]].concat(), LIMIT).await, Code::Internal);
        assert_eq!(code(&[&[1], &wire[1..]].concat(), LIMIT).await, Code::Internal);
        assert_eq!(code(&wire, 100).await, Code::ResourceExhausted);
    }

    #[test]
    fn made_up_bytes_have_no_numbers() {
        for bytes in [&[][..], &[0xff; 40], &[0x0a], &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]] {
            assert_eq!(numbers_at(bytes, 1 << 20), None, "{bytes:?}");
        }
    }

    #[test]
    fn only_plain_requests_of_bulk_methods_are_taken() {
        let of = |path: &str, encoding: &str| {
            Method::of(&Request::builder().uri(path).header("grpc-encoding", encoding).body(()).expect("a request"))
        };
        let path = "/accelerd.v1.SimilarityService/Upsert";
        assert_eq!(of(path, "identity"), Some(Method::Upsert));
        assert_eq!(of(path, "zstd"), None);
        assert_eq!(of("/accelerd.v1.SimilarityService/Search", "identity"), None);
        assert_eq!(of("/accelerd.v1.SimilarityServiceX/Upsert", "identity"), None);
    }
}
