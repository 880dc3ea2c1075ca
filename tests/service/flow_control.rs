//! Peers that read no responses, send half a message, or send ahead of the reader: their memory is charged and bounded,
//! other calls are served, and stalled calls end.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use accelerd::{
    config::{ByteSize, Config},
    transport::memory::MemoryKind,
};
use accelerd_proto::{
    methods::{device_service, embed_service, parse_service, similarity_service},
    v1::{self, embed_service_client::EmbedServiceClient},
};
use bytes::Bytes;
use futures::StreamExt;
use h2::{
    Reason, RecvStream, SendStream,
    client::{self, Connection, ResponseFuture, SendRequest},
};
use http::Request;
use prost::Message;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::{mpsc, watch},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, codec::CompressionEncoding};

use super::harness::{TestServer, connect, f32s, numbers, tensor, texts};

const EMBED: &str = embed_service::EMBED.path();
const EMBED_STREAM: &str = embed_service::EMBED_STREAM.path();

/// A budget that a few messages exhaust.
const LIMIT: ByteSize = ByteSize::mib(64);

pub(crate) fn scarce(config: &mut Config) {
    config.admission.max_message_memory = LIMIT;
    config.server.max_message_bytes = ByteSize::mib(16);
    config.server.stall_timeout = Duration::from_secs(600);
    config.server.stall_timeout_under_pressure = Duration::from_secs(600);
}

pub(crate) fn scarce_and_strict(config: &mut Config) {
    scarce(config);
    config.server.stall_timeout = Duration::from_millis(200);
    config.server.stall_timeout_under_pressure = Duration::from_millis(200);
}

/// An `h2` connection with a given window for each response.
pub(crate) async fn raw(server: &TestServer, window: u32) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(server.daemon.grpc_addr()).await.expect("the daemon accepts connections");
    let (sender, connection) = handshake(stream, window).await;
    tokio::spawn(connection);
    sender.ready().await.expect("it takes calls")
}

async fn handshake<Io: AsyncRead + AsyncWrite + Unpin>(
    io: Io,
    window: u32,
) -> (SendRequest<Bytes>, Connection<Io, Bytes>) {
    client::Builder::new()
        .initial_window_size(window)
        .max_send_buffer_size(1 << 30)
        .handshake(io)
        .await
        .expect("the daemon speaks HTTP/2")
}

fn head(path: &str) -> http::request::Builder {
    Request::post(format!("http://daemon{path}")).header("content-type", "application/grpc").header("te", "trailers")
}

/// Opens a call.
pub(crate) async fn open(sender: &mut SendRequest<Bytes>, path: &str) -> (ResponseFuture, SendStream<Bytes>) {
    poll_fn(|cx| sender.poll_ready(cx)).await.expect("it takes calls");
    sender.send_request(head(path).body(()).expect("a request"), false).expect("the call is sent")
}

/// A length-prefixed gRPC message.
pub(crate) fn framed(message: &impl Message) -> Bytes {
    let length = u32::try_from(message.encoded_len()).expect("a short message").to_be_bytes();
    [&[0], &length[..], &message.encode_to_vec()].concat().into()
}

fn letters(count: usize) -> v1::EmbedRequest {
    texts(&vec!["a"; count])
}

pub(crate) fn held(server: &TestServer, kind: MemoryKind) -> u64 {
    let memory = &server.daemon.app().transport_memory;
    assert!(memory.used() <= memory.limit(), "{} of {} bytes are held", memory.used(), memory.limit());
    memory.used_by(kind)
}

pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.unwrap_or_else(|_| panic!("{what}"));
}

pub(crate) fn metric(server: &TestServer, name: &str) -> u64 {
    let text = server.daemon.app().metrics.text();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name} is in {text}"));
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
}

/// The status of a response without a message.
pub(crate) async fn refusal(response: ResponseFuture) -> Status {
    let response = response.await.expect("an answer");
    Status::from_header_map(response.headers()).expect("a status without a message")
}

/// The reset reason of a body that is never read.
pub(crate) async fn end(mut body: RecvStream) -> Option<Reason> {
    loop {
        match body.data().await {
            None => return None,
            Some(Ok(_)) => {}
            Some(Err(error)) => return error.reason(),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_responses_stay_charged_and_other_calls_are_served() {
    let server = TestServer::start_with(scarce).await;
    let mut sender = raw(&server, 0).await;
    let message = framed(&letters(4096));
    let mut calls = vec![];
    for _ in 0..40 {
        let (response, mut body) = open(&mut sender, EMBED).await;
        body.send_data(message.clone(), true).expect("the request is sent");
        calls.push(tokio::spawn(response));
    }
    let mut answered = vec![];
    let mut refused = 0;
    for call in calls {
        let response = call.await.expect("no panic").expect("an answer");
        match Status::from_header_map(response.headers()) {
            Some(status) => {
                assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
                refused += 1;
            }
            None => answered.push(response),
        }
        held(&server, MemoryKind::Response);
    }
    // 4 MiB each; five eighths of the limit are for responses.
    assert_eq!((answered.len(), refused), (9, 31));
    until("what is not sent is charged", || held(&server, MemoryKind::Response) >= 9 * (4 << 20)).await;
    for _ in 0..100 {
        let answer = server.embed().embed(texts(&["small"])).await.expect("small answers pass").into_inner();
        assert_eq!(f32s(&answer.embeddings.expect("vectors")).len(), 256);
    }
    drop((answered, sender));
    until("nothing is held once the caller is gone", || held(&server, MemoryKind::Response) == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unread_response_is_reset() {
    let server = TestServer::start_with(scarce_and_strict).await;
    let mut sender = raw(&server, 0).await;
    let (response, mut body) = open(&mut sender, EMBED).await;
    body.send_data(framed(&letters(4096)), true).expect("the request is sent");
    let response = response.await.expect("headers need no window");
    assert_eq!(end(response.into_body()).await, Some(Reason::ENHANCE_YOUR_CALM));
    until("nothing is held", || held(&server, MemoryKind::Response) == 0).await;
    assert!(metric(&server, "accelerd_calls_stalled_total") >= 1);
    server.assert_serving().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_read_byte_by_byte_is_reset() {
    let server = TestServer::start_with(scarce_and_strict).await;
    let mut sender = raw(&server, 1).await;
    let (response, mut body) = open(&mut sender, EMBED).await;
    body.send_data(framed(&letters(4096)), true).expect("the request is sent");
    let mut answer = response.await.expect("an answer").into_body();
    let reason = loop {
        match answer.data().await.expect("it does not end by itself") {
            Ok(data) => answer.flow_control().release_capacity(data.len()).expect("it was taken"),
            Err(error) => break error.reason(),
        }
    };
    assert_eq!(reason, Some(Reason::ENHANCE_YOUR_CALM));
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_responses_of_every_service_are_charged_and_reset() {
    use tonic_reflection::pb::v1::{ServerReflectionRequest, server_reflection_request::MessageRequest};
    let server = TestServer::start_with(scarce_and_strict).await;
    server.collection("c", 3, v1::Metric::Cosine).await;
    let upsert = v1::UpsertRequest {
        collection: "c".to_owned(),
        ids: Some(numbers([1, 2])),
        points: Some(v1::upsert_request::Points::Vectors(tensor(&[2, 3], &[1.0; 6]))),
        ..v1::UpsertRequest::default()
    };
    server.similarity().upsert(upsert).await.expect("upserts");
    let parse = v1::ParseRequest { sources: vec![Bytes::from_static(b"x = 1\n")], ..v1::ParseRequest::default() };
    let search = v1::SearchRequest {
        collection: "c".to_owned(),
        query: Some(v1::search_request::Query::Vectors(tensor(&[1, 3], &[1.0; 3]))),
        limit: 2,
        ..v1::SearchRequest::default()
    };
    let points = v1::GetPointsRequest {
        collection: "c".to_owned(),
        ids: Some(numbers([1])),
        include_vectors: true,
        ..v1::GetPointsRequest::default()
    };
    let list = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let cases = [
        (EMBED, framed(&letters(1))),
        (EMBED_STREAM, framed(&v1::EmbedStreamRequest { sequence: 1, embed: Some(letters(1)) })),
        (embed_service::LIST_MODELS.path(), framed(&v1::ListModelsRequest {})),
        (parse_service::PARSE.path(), framed(&parse)),
        (
            parse_service::PARSE_STREAM.path(),
            framed(&v1::ParseStreamRequest { sequence: 1, parse: Some(parse.clone()) }),
        ),
        (similarity_service::SEARCH.path(), framed(&search)),
        (similarity_service::GET_POINTS.path(), framed(&points)),
        (similarity_service::LIST_COLLECTIONS.path(), framed(&v1::ListCollectionsRequest {})),
        (device_service::GET_STATS.path(), framed(&v1::GetStatsRequest {})),
        (device_service::WATCH.path(), framed(&v1::WatchRequest::default())),
        ("/grpc.health.v1.Health/Check", framed(&())),
        ("/grpc.health.v1.Health/Watch", framed(&())),
        ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", framed(&list)),
    ];
    for (path, message) in cases {
        let mut sender = raw(&server, 0).await;
        let (response, mut body) = open(&mut sender, path).await;
        body.send_data(message, !path.ends_with("Stream")).expect("the request is sent");
        let response = response.await.expect("headers need no window");
        assert!(Status::from_header_map(response.headers()).is_none(), "{path} is answered: {:?}", response.headers());
        until(path, || held(&server, MemoryKind::Response) > 0).await;
        assert_eq!(end(response.into_body()).await, Some(Reason::ENHANCE_YOUR_CALM), "{path}");
        until(path, || held(&server, MemoryKind::Response) == 0 && held(&server, MemoryKind::Request) == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_with_unread_responses_holds_a_bounded_number_and_ends() {
    let server = TestServer::start_with(scarce_and_strict).await;
    let mut sender = raw(&server, 0).await;
    let message = |sequence| framed(&v1::EmbedStreamRequest { sequence, embed: Some(letters(4096)) });
    // Made before the first is sent: the stream may end while the others are still made.
    let messages: Vec<_> = (0..64).map(message).collect();
    let (response, mut body) = open(&mut sender, EMBED_STREAM).await;
    for message in messages {
        body.send_data(message, false).expect("the request is sent");
    }
    let answer = response.await.expect("headers need no window").into_body();
    let mut most_held = 0;
    let ended = end(answer);
    tokio::pin!(ended);
    let reason = loop {
        most_held = most_held.max(held(&server, MemoryKind::Response));
        if let std::task::Poll::Ready(reason) = futures::poll!(&mut ended) {
            break reason;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(reason, Some(Reason::ENHANCE_YOUR_CALM));
    // 4 MiB each: eight are computed concurrently, one is queued, one waits to be sent.
    assert!((4 << 20..=41 << 20).contains(&most_held), "{most_held} bytes of answers were held");
    until("nothing is held", || held(&server, MemoryKind::Response) == 0 && held(&server, MemoryKind::Request) == 0)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn data_sent_ahead_of_the_reader_is_bounded_by_the_memory_budget() {
    let server = TestServer::start_with(scarce).await;
    let message = framed(&v1::EmbedStreamRequest { sequence: 1, embed: Some(letters(4096)) });
    // An 8 MiB message without its last byte: it needs the largest window.
    let large = framed(&v1::EmbedStreamRequest { sequence: 2, embed: Some(texts(&["x".repeat(8 << 20).as_str()])) });
    let mut streams = vec![];
    for _ in 0..30 {
        let mut sender = raw(&server, 0).await;
        for path in [EMBED_STREAM, similarity_service::UPSERT_STREAM.path()] {
            let (response, mut body) = open(&mut sender, path).await;
            (0..16).for_each(|_| body.send_data(message.clone(), false).expect("the request is sent"));
            body.send_data(large.slice(..large.len() - 1), false).expect("the request is sent");
            streams.push((response, body));
        }
    }
    // The daemon charges every byte that it receives; `held` fails above the limit.
    until("some of it is taken", || held(&server, MemoryKind::Request) > 1 << 20).await;
    assert!(held(&server, MemoryKind::Connection) <= LIMIT.as_u64() / 8 * 3);
    for _ in 0..50 {
        server.embed().embed(texts(&["small"])).await.expect("small requests pass");
        held(&server, MemoryKind::Request);
    }
    drop(streams);
    until("nothing is held once the callers are gone", || held(&server, MemoryKind::Request) == 0).await;
}

/// Opens a parse with the prefix of a message of `length` bytes.
async fn announce_parse(sender: &mut SendRequest<Bytes>, length: u32) -> (ResponseFuture, SendStream<Bytes>) {
    let (response, mut body) = open(sender, parse_service::PARSE.path()).await;
    let prefix = [&[0][..], &length.to_be_bytes()].concat();
    body.send_data(prefix.into(), false).expect("the prefix is sent");
    (response, body)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parse_that_will_be_refused_is_not_received() {
    // A byte of source counts eight times.
    let server = TestServer::start_with(|config| config.admission.max_bytes = ByteSize::mib(10)).await;
    let mut sender = raw(&server, 65_535).await;
    let (response, _body) = announce_parse(&mut sender, 4 << 20).await;
    let refused = refusal(response).await;
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    let (first, mut first_body) = announce_parse(&mut sender, 1 << 20).await;
    until("the first is received", || server.daemon.app().engine.stats().admission.bytes > 8 << 20).await;
    let (second, _body) = announce_parse(&mut sender, 1 << 20).await;
    let refused = refusal(second).await;
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    // A client that is slow gives its place up, and may still go on.
    until("the place is free", || server.daemon.app().engine.stats().admission.bytes == 0).await;
    let source = "x = 1\n".repeat((1 << 20) / 6).into_bytes();
    let mut message = v1::ParseRequest { sources: vec![source.into()], ..v1::ParseRequest::default() };
    let missing = (1 << 20) - message.encoded_len();
    message.sources[0] = [&message.sources[0][..], &b"\n".repeat(missing)].concat().into();
    assert_eq!(message.encoded_len(), 1 << 20);
    first_body.send_data(framed(&message).slice(5..), true).expect("the rest is sent");
    let answer = first.await.expect("an answer");
    assert!(Status::from_header_map(answer.headers()).is_none(), "{:?}", answer.headers());
}

#[tokio::test(flavor = "multi_thread")]
async fn announced_message_lengths_do_not_block_other_calls() {
    let server = TestServer::start_with(scarce).await;
    let mut sender = raw(&server, 65_535).await;
    let mut announced = vec![];
    for path in [EMBED, EMBED_STREAM, similarity_service::FIND_SIMILAR.path()].iter().cycle().take(60) {
        let (response, mut body) = open(&mut sender, path).await;
        let prefix = [&[0][..], &(16_u32 << 20).to_be_bytes()].concat();
        body.send_data(prefix.into(), false).expect("the prefix is sent");
        announced.push((response, body));
    }
    until("every call is open", || held(&server, MemoryKind::Request) > 60 * 8 * 1024).await;
    let rows = 4 << 10;
    let corpus = tensor(&[rows, 256], &vec![0.5; 256 << 12]);
    for _ in 0..10 {
        server.embed().embed(texts(&["small"])).await.expect("small requests pass");
        let request = v1::FindSimilarRequest {
            queries: Some(tensor(&[1, 256], &[0.5; 256])),
            corpus: Some(corpus.clone()),
            k: 1,
            ..v1::FindSimilarRequest::default()
        };
        server.similarity().find_similar(request).await.expect("large requests pass");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incomplete_message_ends_its_call_and_an_idle_stream_continues() {
    let server = TestServer::start_with(scarce_and_strict).await;
    let (requests, stream) = mpsc::channel(1);
    let mut answers = server.embed().embed_stream(ReceiverStream::new(stream)).await.expect("a stream").into_inner();
    let step = |sequence| v1::EmbedStreamRequest { sequence, embed: Some(texts(&["a"])) };
    requests.send(step(1)).await.expect("it is taken");
    assert_eq!(answers.next().await.expect("an answer").expect("no status").sequence, 1);

    let mut sender = raw(&server, 65_535).await;
    let message = framed(&letters(100));
    for sent in [0, 3, 5, 6, message.len() - 1, message.len()] {
        let (response, mut body) = open(&mut sender, EMBED).await;
        body.send_data(message.slice(..sent), false).expect("a part of it is sent");
        let status = refusal(response).await;
        assert_eq!(status.code(), Code::ResourceExhausted, "{sent} bytes: {status:?}");
        assert!(status.message().contains("the call stalled"), "{status:?}");
    }
    let (response, mut body) = open(&mut sender, EMBED_STREAM).await;
    body.send_data(message.slice(..6), false).expect("a part of it is sent");
    assert_eq!(end(response.await.expect("headers").into_body()).await, Some(Reason::ENHANCE_YOUR_CALM));

    requests.send(step(2)).await.expect("it is taken");
    assert_eq!(answers.next().await.expect("an answer").expect("no status").sequence, 2);
    drop(requests);
    assert!(answers.next().await.is_none(), "the stream ends as its caller wants");
    until("nothing is held", || held(&server, MemoryKind::Request) == 0).await;
}

#[tokio::test]
async fn responses_are_compressed_only_on_request() {
    let server = TestServer::start().await;
    let mut sender = raw(&server, 1 << 20).await;
    let mut call = async |asked: Option<&'static str>| {
        let mut request = head(EMBED).header("grpc-accept-encoding", "identity, deflate, gzip, zstd");
        if let Some(asked) = asked {
            request = request.header("accelerd-compression", asked);
        }
        poll_fn(|cx| sender.poll_ready(cx)).await.expect("it takes calls");
        let request = request.body(()).expect("a request");
        let (response, mut body) = sender.send_request(request, false).expect("the call is sent");
        body.send_data(framed(&letters(64)), true).expect("the request is sent");
        let response = response.await.expect("an answer");
        let encoding = response.headers().get("grpc-encoding").map(|value| value.to_str().expect("text").to_owned());
        let first = response.into_body().data().await.expect("a message").expect("data");
        (encoding, first[0])
    };
    assert_eq!(call(None).await, (None, 0), "an offer alone is not asked for");
    assert_eq!(call(Some("gzip")).await, (Some("gzip".to_owned()), 1));
    assert_eq!(call(Some("zstd")).await, (Some("zstd".to_owned()), 1));
    assert_eq!(call(Some("lz4")).await, (None, 0), "what is not known is not used");
}

#[tokio::test]
async fn compressed_calls_get_the_responses_of_uncompressed_ones() {
    let server = TestServer::start().await;
    let plain = server.embed().embed(letters(1000)).await.expect("embeds").into_inner();
    for encoding in [CompressionEncoding::Gzip, CompressionEncoding::Zstd] {
        let mut client =
            EmbedServiceClient::new(server.channel.clone()).send_compressed(encoding).accept_compressed(encoding);
        let mut request = tonic::Request::new(letters(1000));
        let name = if encoding == CompressionEncoding::Gzip { "gzip" } else { "zstd" };
        request.metadata_mut().insert("accelerd-compression", name.parse().expect("a value"));
        assert_eq!(client.embed(request).await.expect("embeds").into_inner(), plain, "{name}");
        let steps = (0..3).map(|sequence| v1::EmbedStreamRequest { sequence, embed: Some(letters(1000)) });
        let mut request = tonic::Request::new(tokio_stream::iter(steps));
        request.metadata_mut().insert("accelerd-compression", name.parse().expect("a value"));
        let answers: Vec<_> = client
            .embed_stream(request)
            .await
            .expect("a stream")
            .into_inner()
            .map(|answer| answer.expect("no status").result.expect("a result"))
            .collect()
            .await;
        let expected = v1::embed_stream_response::Result::Embed(plain.clone());
        assert_eq!(answers, vec![expected; 3], "{name}");
    }
}

#[tokio::test]
async fn metadata_above_the_limit_gets_a_grpc_status() {
    let server = TestServer::start().await;
    for length in [17_000, 40_000, 60_000] {
        let mut request = tonic::Request::new(texts(&["a"]));
        request.metadata_mut().insert("x-large", "v".repeat(length).parse().expect("a value"));
        let status = server.embed().embed(request).await.expect_err("it is refused");
        assert_eq!(status.code(), Code::ResourceExhausted, "{length}: {status:?}");
        assert!(status.message().contains("expected at most 16384"), "{status:?}");
    }
    let mut request = tonic::Request::new(texts(&["a"]));
    request.metadata_mut().insert("x-large", "v".repeat(15_000).parse().expect("a value"));
    server.embed().embed(request).await.expect("what is within the limit passes");
}

/// A connection whose client does not see the daemon's frames for a while.
struct Late {
    stream: TcpStream,
    may_read: watch::Receiver<bool>,
    /// Bytes that the client has written.
    written: Arc<AtomicUsize>,
}

impl AsyncRead for Late {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if *self.may_read.borrow() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let mut may_read = self.may_read.clone();
        let waker = cx.waker().clone();
        tokio::spawn(async move {
            let _dropped = may_read.wait_for(|may_read| *may_read).await;
            waker.wake();
        });
        Poll::Pending
    }
}

impl AsyncWrite for Late {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        if let Poll::Ready(Ok(bytes)) = &written {
            self.written.fetch_add(*bytes, Relaxed);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Returns true if the daemon answers on a connection.
async fn is_served(sender: &mut SendRequest<Bytes>) -> bool {
    if poll_fn(|cx| sender.poll_ready(cx)).await.is_err() {
        return false;
    }
    let Ok((response, mut body)) = sender.send_request(head(EMBED).body(()).expect("a request"), false) else {
        return false;
    };
    let _gone = body.send_data(framed(&texts(&["a"])), true);
    response.await.is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_connection_idle_for_longest_is_closed_at_the_limit() {
    let server = TestServer::start_with(|config| config.server.max_connections = 3).await;
    server.assert_serving().await;
    let (requests, stream) = mpsc::channel(1);
    let mut busy = server.embed().embed_stream(ReceiverStream::new(stream)).await.expect("a stream").into_inner();
    let mut first = raw(&server, 65_535).await;
    assert!(is_served(&mut first).await);
    let mut second = raw(&server, 65_535).await;
    assert!(is_served(&mut second).await);
    // The harness's connection is the oldest and has a call; of the others, the first has been idle for longest.
    let mut third = raw(&server, 65_535).await;
    assert!(is_served(&mut third).await);
    until("the longest idle one is closed", || metric(&server, "accelerd_connections_evicted_total") == 1).await;
    // The client learns of it with the next frame that it reads.
    while is_served(&mut first).await {}
    assert!(is_served(&mut second).await && is_served(&mut third).await);
    let step = v1::EmbedStreamRequest { sequence: 1, embed: Some(texts(&["a"])) };
    requests.send(step).await.expect("it is taken");
    busy.next().await.expect("an answer").expect("a call in progress goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_on_its_way_to_a_connection_that_is_closed_at_the_limit_is_served() {
    let server = TestServer::start_with(|config| config.server.max_connections = 2).await;
    server.assert_serving().await;
    let (requests, stream) = mpsc::channel(1);
    let _busy = server.embed().embed_stream(ReceiverStream::new(stream)).await.expect("a stream");
    let stream = TcpStream::connect(server.daemon.grpc_addr()).await.expect("the daemon accepts connections");
    let (reads, may_read) = watch::channel(true);
    let written = Arc::new(AtomicUsize::new(0));
    let late = Late { stream, may_read, written: Arc::clone(&written) };
    let (mut first, connection) = handshake(late, 65_535).await;
    tokio::spawn(connection);
    assert!(is_served(&mut first).await);
    // Frames that the daemon sends from now on reach the client after its next call is sent.
    reads.send(false).expect("it is open");
    let mut second = raw(&server, 65_535).await;
    assert!(is_served(&mut second).await);
    assert_eq!(metric(&server, "accelerd_connections_evicted_total"), 1);
    let before = written.load(Relaxed);
    let (response, mut body) = open(&mut first, EMBED).await;
    body.send_data(framed(&texts(&["a"])), true).expect("the request is sent");
    until("the call is written", || written.load(Relaxed) > before).await;
    reads.send(true).expect("it is open");
    assert_eq!(response.await.expect("an answer").status(), 200);
    drop(requests);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_with_a_call_is_not_closed_at_the_limit() {
    let server = TestServer::start_with(|config| config.server.max_connections = 2).await;
    let mut other = raw(&server, 65_535).await;
    let _open = [open(&mut other, EMBED_STREAM).await];
    let (_requests, stream) = mpsc::channel::<v1::EmbedStreamRequest>(1);
    let _busy = server.embed().embed_stream(ReceiverStream::new(stream)).await.expect("a stream");
    until("both calls are open", || held(&server, MemoryKind::Request) > 2 * 8 * 1024).await;
    let mut refused = TcpStream::connect(server.daemon.grpc_addr()).await.expect("a backlog");
    let end = tokio::io::AsyncReadExt::read(&mut refused, &mut [0]).await;
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    assert_eq!(metric(&server, "accelerd_connections_refused_total"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_are_closed_at_the_limit() {
    let server = TestServer::start_with(|config| config.server.max_connections = 4).await;
    let mut silent = vec![];
    for _ in 0..40 {
        silent.push(TcpStream::connect(server.daemon.grpc_addr()).await.expect("a backlog"));
    }
    let channel = connect(server.daemon.grpc_addr()).await;
    EmbedServiceClient::new(channel).embed(texts(&["a"])).await.expect("a new caller is served");
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_connections_do_not_exhaust_the_admin_port() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let server = TestServer::start().await;
    let mut slow = vec![];
    for _ in 0..200 {
        let mut stream = TcpStream::connect(server.daemon.admin_addr()).await.expect("a backlog");
        stream.write_all(b"GET /healthz HT").await.expect("half a request");
        slow.push(stream);
    }
    let mut stream = TcpStream::connect(server.daemon.admin_addr()).await.expect("a backlog");
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn a_message_above_the_budget_is_refused() {
    let server = TestServer::start_with(|config| {
        config.admission.max_message_memory = ByteSize::mib(16);
        config.server.max_message_bytes = ByteSize::mib(16);
    })
    .await;
    let status = server.embed().embed(texts(&["a".repeat(11 << 20).as_str()])).await.expect_err("it is refused");
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().contains("expected at most 10485760"), "{status:?}");
}

/// Each call sends its message in a frame without END_STREAM, as hyper's clients do.
#[tokio::test]
async fn a_connection_may_start_its_maximum_of_concurrent_calls_at_once() {
    let server = TestServer::start().await;
    let mut sender = raw(&server, 1 << 16).await;
    let message = framed(&letters(1));
    let mut answers = vec![];
    for _ in 0..server.daemon.app().config.server.max_streams {
        let (response, mut body) = open(&mut sender, embed_service::EMBED.path()).await;
        body.send_data(message.clone(), false).expect("the message is sent");
        body.send_data(Bytes::new(), true).expect("the end is sent");
        answers.push(response);
    }
    for answer in futures::future::join_all(answers).await {
        assert_eq!(answer.expect("the connection goes on").status(), http::StatusCode::OK);
    }
}

#[tokio::test]
async fn an_error_is_sent_as_headers_with_end_stream() {
    let server = TestServer::start().await;
    let mut sender = raw(&server, 1 << 16).await;
    let unknown = v1::GetCollectionRequest { name: "nowhere".to_owned() };
    for (path, message) in [
        (similarity_service::GET_COLLECTION.path(), framed(&unknown)),
        (similarity_service::SEARCH.path(), framed(&v1::SearchRequest::default())),
        (embed_service::LOAD_MODEL.path(), framed(&v1::LoadModelRequest::default())),
        (&*format!("/{}/None", embed_service::NAME), framed(&unknown)),
        ("/grpc.health.v1.Health/None", framed(&unknown)),
    ] {
        let (response, mut body) = open(&mut sender, path).await;
        body.send_data(message, true).expect("the message is sent");
        let response = response.await.expect("an answer");
        assert!(response.headers().contains_key("grpc-status"), "{path}");
        assert!(response.body().is_end_stream(), "{path}");
    }
}
