//! Calls that are cancelled before the daemon has taken them, as by a caller with short deadlines.

use accelerd::config::Config;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::harness::TestServer;

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;
const CANCEL: u32 = 8;
const ENHANCE_YOUR_CALM: u32 = 11;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The headers of a call, without compression (RFC 7541): POST, http, / and an authority.
const CALL: [u8; 6] = [0x83, 0x86, 0x84, 0x41, 1, b'a'];

/// Sends calls, each with its cancellation, in one write, and then a ping. Returns the reason for which the connection ends, or `None` if the
/// ping is answered.
async fn cancel_at_once(server: &TestServer, calls: u32) -> Option<u32> {
    let mut stream = TcpStream::connect(server.daemon.grpc_addr()).await.expect("the daemon accepts connections");
    let mut sent = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(SETTINGS, 0, 0, &[])[..]].concat();
    for id in (1..).step_by(2).take(calls as usize) {
        sent.extend(frame(HEADERS, END_HEADERS, id, &CALL));
        sent.extend(frame(RST_STREAM, 0, id, &CANCEL.to_be_bytes()));
    }
    sent.extend(frame(PING, 0, 0, b"complete"));
    stream.write_all(&sent).await.expect("the daemon reads");
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.expect("a ping is answered, or the reason follows");
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload).await.expect("a whole frame");
        match (head[3], head[4]) {
            (PING, ACK) if payload == b"complete" => return None,
            (GOAWAY, _) => return Some(u32::from_be_bytes(payload[4..8].try_into().expect("a reason"))),
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_may_cancel_all_the_calls_that_it_may_have_open() {
    let server = TestServer::start_with(|_: &mut Config| {}).await;
    assert_eq!(cancel_at_once(&server, 1000).await, None);
    server.assert_serving().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_resets_more_streams_than_it_may_is_disconnected() {
    let server = TestServer::start_with(|config: &mut Config| config.server.max_pending_resets = 20).await;
    assert_eq!(cancel_at_once(&server, 1000).await, Some(ENHANCE_YOUR_CALM));
    server.assert_serving().await;
}
