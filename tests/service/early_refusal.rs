//! Parse requests that would miss their deadline are refused before all of their message has arrived, and the connection that
//! carries them serves on.

use std::{
    future::poll_fn,
    time::{Duration, Instant},
};

use accelerd::transport::memory::MemoryKind;
use accelerd_proto::v1;
use bytes::Bytes;
use h2::client::SendRequest;
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

/// Sends a part of a request until it is refused.
async fn refused_part(server: &TestServer, sender: &mut SendRequest<Bytes>, part: &Bytes) -> Status {
    let mut deadline = short_deadline(server).await;
    for _ in 0..ATTEMPTS {
        poll_fn(|cx| sender.poll_ready(cx)).await.expect("it takes calls");
        let request = head(PARSE).header("grpc-timeout", format!("{}u", deadline.as_micros()));
        let (response, mut body) =
            sender.send_request(request.body(()).expect("a request"), false).expect("it is sent");
        body.send_data(part.clone(), false).expect("a part of it is sent");
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
async fn a_parse_that_would_miss_its_deadline_is_refused_while_most_of_it_is_unsent() {
    let server = TestServer::start().await;
    let mut sender = raw(&server, 1 << 20).await;
    let (message, before) = (framed(&large()), refused_by_engine(&server));
    let status = refused_part(&server, &mut sender, &message.slice(..20_000)).await;
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert!(status.get_details_retry_info().is_some_and(|retry| retry.retry_delay.is_some()), "{status:?}");
    assert_eq!(refused_by_engine(&server), before + 1, "it is counted once");
    until("nothing is held", || held(&server, MemoryKind::Request) == 0).await;
    assert_answered(&mut sender).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_whose_calls_are_refused_early_keeps_its_window_and_serves_on() {
    const CALLS: usize = 200;
    let server = TestServer::start().await;
    let mut sender = raw(&server, 1 << 20).await;
    let message = framed(&large());
    // All but the last byte: together far more than the connection's window.
    let (part, mut refused) = (message.slice(..message.len() - 1), 0);
    while refused < CALLS {
        let deadline = short_deadline(&server).await;
        let mut calls = vec![];
        for _ in 0..50 {
            poll_fn(|cx| sender.poll_ready(cx)).await.expect("it takes calls");
            let request = head(PARSE).header("grpc-timeout", format!("{}u", deadline.as_micros()));
            let request = request.body(()).expect("a request");
            let (response, mut body) = sender.send_request(request, false).expect("the call is sent");
            body.send_data(part.clone(), false).expect("a part of it is sent");
            calls.push((response, body));
        }
        for (response, _body) in calls {
            let status = refusal(response).await;
            refused += usize::from(reason(&status) == "WOULD_MISS_DEADLINE");
        }
    }
    until("nothing is held", || held(&server, MemoryKind::Request) == 0).await;
    assert_answered(&mut sender).await;
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
