//! A connection that sends messages as bytes, and leaves deadlines to the daemon.

use std::{
    net::SocketAddr,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Buf, BufMut, Bytes};
use http::{Request as HttpRequest, Response as HttpResponse, Uri};
use hyper::{
    body::Incoming,
    client::conn::http2::{self, SendRequest},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tonic::{
    Request, Status,
    body::Body,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

/// The most bytes of a response.
const MAX_RESPONSE_BYTES: usize = 1 << 30;

/// A connection to a daemon.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    sender: SendRequest<Body>,
    origin: Uri,
}

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> Self {
        let stream = tokio::net::TcpStream::connect(address).await.expect("the daemon accepts connections");
        // A call is several small frames: with Nagle's algorithm each call waits for a delayed acknowledgement.
        stream.set_nodelay(true).expect("an open connection");
        let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (sender, connection) = handshake.expect("the daemon speaks HTTP/2");
        tokio::spawn(connection);
        Self { sender, origin: format!("http://{address}").parse().expect("an address is a URI") }
    }

    /// Sends messages, reads all responses, and returns the last of them and how the call ended.
    pub(super) async fn call(&self, path: &str, messages: Vec<Vec<u8>>, deadline: Duration) -> (Bytes, Status) {
        let mut request = Request::new(tokio_stream::iter(messages));
        request.set_timeout(deadline);
        let mut client =
            Grpc::with_origin(self.clone(), self.origin.clone()).max_decoding_message_size(MAX_RESPONSE_BYTES);
        let path = path.parse().expect("a path");
        let mut last = Bytes::new();
        let mut responses = match client.streaming(request, path, RawCodec).await {
            Ok(responses) => responses.into_inner(),
            Err(status) => return (last, status),
        };
        loop {
            match responses.message().await {
                Ok(Some(message)) => last = message,
                Ok(None) => return (last, Status::ok("")),
                Err(status) => return (last, status),
            }
        }
    }
}

impl tower::Service<HttpRequest<Body>> for Connection {
    type Response = HttpResponse<Incoming>;
    type Error = hyper::Error;
    type Future = futures::future::BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.sender.poll_ready(cx)
    }

    fn call(&mut self, request: HttpRequest<Body>) -> Self::Future {
        Box::pin(self.sender.send_request(request))
    }
}

/// Messages as bytes.
struct RawCodec;

impl Codec for RawCodec {
    type Encode = Vec<u8>;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for RawCodec {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(&message);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}
