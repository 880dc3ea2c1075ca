//! Large parse requests that would miss their deadline are refused before their message is received, and the connection that
//! carries them serves on.

use std::{
    future::poll_fn,
    time::{Duration, Instant},
};

use accelerd::transport::memory::MemoryKind;
use accelerd_proto::v1;
use bytes::Bytes;
use h2::{
    SendStream,
    client::{ResponseFuture, SendRequest},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::{
    flow_control::{framed, head, held, raw, refusal, until},
    harness::TestServer,
};

const PARSE: &str = "/accelerd.v1.ParseService/Parse";

/// Attempts to be refused. One may fail: its deadline passes first, or it is to show whether such a request still takes as long.
const ATTEMPTS: usize = 100;

/// About a mebibyte of source, whose response is small.
fn large() -> v1::ParseRequest {
    let source = "value = function(argument, 1 + 2)\n".repeat(32_000);
    let outputs = vec![v1::ParseOutput::Comments.into()];
    v1::ParseRequest { sources: vec![source.into()], outputs, ..v1::ParseRequest::default() }
}

/// Has the daemon learn how long the request takes. Returns a deadline that is too short for it.
async fn short_deadline(server: &TestServer) -> Duration {
    let mut shortest = Duration::MAX;
    for _ in 0..4 {
        let start = Instant::now();
        server.parse().parse(large()).await.expect("it has no deadline");
        shortest = shortest.min(start.elapsed());
    }
    shortest / 4
}

fn reason(status: &Status) -> String {
    status.get_details_error_info().map(|info| info.reason).unwrap_or_default()
}

fn refused_by_engine(server: &TestServer) -> u64 {
    server.daemon.app().engine.stats().admission.refused_time
}

/// Opens a call and sends a part of its message.
async fn send_part(
    sender: &mut SendRequest<Bytes>,
    deadline: Duration,
    part: &Bytes,
) -> (ResponseFuture, SendStream<Bytes>) {
    poll_fn(|cx| sender.poll_ready(cx)).await.expect("it takes calls");
    let request = head(PARSE).header("grpc-timeout", format!("{}u", deadline.as_micros()));
    let request = request.body(()).expect("a request");
    let (response, mut body) = sender.send_request(request, false).expect("the call is sent");
    body.send_data(part.clone(), false).expect("a part of it is sent");
    (response, body)
}

/// Sends a part of a request until it is refused.
async fn refused_part(server: &TestServer, sender: &mut SendRequest<Bytes>, part: &Bytes) -> Status {
    let mut deadline = short_deadline(server).await;
    for _ in 0..ATTEMPTS {
        let (response, _body) = send_part(sender, deadline, part).await;
        let status = refusal(response).await;
        if reason(&status) == "WOULD_MISS_DEADLINE" {
            return status;
        }
        assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
        deadline = short_deadline(server).await;
    }
    panic!("it is never refused");
}

/// Sends the request on a connection, and asserts that it is answered.
async fn assert_answered(sender: &mut SendRequest<Bytes>) {
    poll_fn(|cx| sender.poll_ready(cx)).await.expect("it takes calls");
    let request = head(PARSE).body(()).expect("a request");
    let (response, mut body) = sender.send_request(request, false).expect("the call is sent");
    body.send_data(framed(&large()), true).expect("the request is sent");
    let response = response.await.expect("an answer");
    assert!(Status::from_header_map(response.headers()).is_none(), "{:?}", response.headers());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_parse_that_would_miss_its_deadline_is_refused_at_the_prefix_of_its_message() {
    let server = TestServer::start().await;
    let mut sender = raw(&server, 1 << 20).await;
    let (message, before) = (framed(&large()), refused_by_engine(&server));
    let status = refused_part(&server, &mut sender, &message.slice(..5)).await;
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert!(status.get_details_retry_info().is_some_and(|retry| retry.retry_delay.is_some()), "{status:?}");
    assert_eq!(refused_by_engine(&server), before + 1, "it is counted once");
    until("nothing is held", || held(&server, MemoryKind::Request) == 0).await;
    assert_answered(&mut sender).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_whose_calls_are_refused_early_keeps_its_window_and_serves_on() {
    const ROUNDS: usize = 4;
    const CALLS: usize = 100;
    let server = TestServer::start().await;
    let mut sender = raw(&server, 1 << 20).await;
    let message = framed(&large());
    // All but the last byte: together far more than the connection's window.
    let (part, mut refused) = (message.slice(..message.len() - 1), 0);
    for _ in 0..ROUNDS {
        let deadline = short_deadline(&server).await;
        let mut calls = vec![];
        for _ in 0..CALLS {
            calls.push(send_part(&mut sender, deadline, &part).await);
        }
        for (response, _body) in calls {
            let status = refusal(response).await;
            assert!(matches!(status.code(), Code::ResourceExhausted | Code::DeadlineExceeded), "{status:?}");
            refused += usize::from(reason(&status) == "WOULD_MISS_DEADLINE");
        }
    }
    assert!(refused > 0, "none was refused");
    until("nothing is held", || held(&server, MemoryKind::Request) == 0).await;
    assert_answered(&mut sender).await;
}

/// A connection whose frames the test writes itself.
struct RawConnection(TcpStream);

/// Types and flags of frames.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

impl RawConnection {
    async fn open(server: &TestServer) -> Self {
        let stream = TcpStream::connect(server.daemon.grpc_addr()).await.expect("the daemon accepts connections");
        stream.set_nodelay(true).expect("a socket");
        let mut connection = Self(stream);
        connection.0.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.expect("written");
        connection.send(SETTINGS, 0, 0, &[]).await;
        connection
    }

    async fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
        let frame = [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat();
        self.0.write_all(&frame).await.expect("the connection is open");
    }

    /// Opens a parse with a timeout in microseconds.
    async fn call(&mut self, stream: u32, timeout: &str) {
        let fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", PARSE),
            (":authority", "daemon"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
            ("grpc-timeout", timeout),
        ];
        let literal = |text: &str| [&[u8::try_from(text.len()).expect("short")], text.as_bytes()].concat();
        let block: Vec<_> = fields.iter().flat_map(|(name, value)| [vec![0], literal(name), literal(value)]).collect();
        self.send(HEADERS, END_HEADERS, stream, &block.concat()).await;
    }

    /// Reads until a frame of this type on this stream.
    async fn wait_for(&mut self, kind: u8, stream: u32) {
        loop {
            let mut head = [0; 9];
            self.0.read_exact(&mut head).await.expect("the connection is open");
            let [_, _, _, found, _, id @ ..] = head;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            self.0.read_exact(&mut vec![0; length]).await.expect("the connection is open");
            if (found, u32::from_be_bytes(id)) == (kind, stream) {
                return;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn data_that_arrives_on_refused_streams_is_no_error() {
    /// More than the errors for which a connection is closed.
    const CALLS: u32 = 1500;
    let server = TestServer::start().await;
    let mut connection = RawConnection::open(&server).await;
    let (message, rest) = (framed(&large()).slice(..1000), [b'x'; 1000]);
    let mut timeout = String::new();
    for stream in (1..).step_by(2).take(CALLS as usize) {
        if timeout.is_empty() {
            timeout = format!("{}u", short_deadline(&server).await.as_micros());
        }
        let before = refused_by_engine(&server);
        connection.call(stream, &timeout).await;
        connection.send(DATA, 0, stream, &message).await;
        connection.wait_for(HEADERS, stream).await;
        connection.send(DATA, 0, stream, &rest).await;
        if refused_by_engine(&server) == before {
            timeout.clear();
        }
    }
    assert!(refused_by_engine(&server) > u64::from(CALLS) / 2, "most are refused");
    let small = v1::ParseRequest { sources: vec![Bytes::from_static(b"x = 1\n")], ..v1::ParseRequest::default() };
    let last = 2 * CALLS + 1;
    connection.call(last, "1M").await;
    connection.send(DATA, END_STREAM, last, &framed(&small)).await;
    connection.wait_for(DATA, last).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_still_sending_gets_the_refusal() {
    let server = TestServer::start().await;
    let mut deadline = short_deadline(&server).await;
    for _ in 0..ATTEMPTS {
        let mut request = tonic::Request::new(large());
        request.set_timeout(deadline);
        let status = server.parse().parse(request).await.expect_err("the deadline is too short");
        if status.code() == Code::ResourceExhausted {
            assert_eq!(reason(&status), "WOULD_MISS_DEADLINE", "{status:?}");
            return server.assert_serving().await;
        }
        deadline = short_deadline(&server).await;
    }
    panic!("it is never refused");
}
