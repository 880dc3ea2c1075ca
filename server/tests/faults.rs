//! Callers that misbehave: what they do stays theirs, and the daemon serves on.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use accelerd::{Config, Daemon, config::ByteSize, transport::memory::Kind};
use accelerd_proto::v1::{self, embed_request::Input, embed_service_client::EmbedServiceClient};
use tonic::{Code, codec::CompressionEncoding, transport::Channel};

/// What a connection of HTTP/2 with prior knowledge opens with, and empty settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

async fn daemon(change: impl FnOnce(&mut Config)) -> Daemon {
    let mut config = Config::loopback();
    change(&mut config);
    Daemon::start(config).await.expect("it starts")
}

async fn client(daemon: &Daemon) -> EmbedServiceClient<Channel> {
    EmbedServiceClient::connect(format!("http://{}", daemon.grpc_addr())).await.expect("it accepts connections")
}

fn texts(text: &str) -> v1::EmbedRequest {
    let values = vec![text.to_owned()];
    v1::EmbedRequest { input: Some(Input::Texts(v1::TextInput { values })), ..v1::EmbedRequest::default() }
}

async fn assert_serving(daemon: &Daemon) {
    client(daemon).await.embed(texts("still here")).await.expect("the daemon serves on");
}

/// Says something and reads what comes until the daemon closes the connection.
async fn until_closed(address: SocketAddr, say: Vec<u8>) -> Vec<u8> {
    let talk = move || {
        let mut stream = TcpStream::connect(address).expect("connects");
        // A connection that is closed meanwhile refuses the rest of a long speech.
        let _closed = stream.write_all(&say);
        let mut heard = vec![];
        match stream.read_to_end(&mut heard) {
            Ok(_) => heard,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => heard,
            Err(error) => panic!("{error}"),
        }
    };
    tokio::task::spawn_blocking(talk).await.expect("no panic")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_says_nothing_or_half_a_preface_is_closed() {
    let daemon = daemon(|config| config.server.handshake_timeout = Duration::from_millis(50)).await;
    for say in [&b""[..], &PREFACE[..10]] {
        assert_eq!(until_closed(daemon.grpc_addr(), say.to_vec()).await, b"");
    }
    assert_serving(&daemon).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_http2_is_closed() {
    let daemon = daemon(|_| {}).await;
    let request = b"GET / HTTP/1.1\r\nhost: nobody\r\n\r\n".to_vec();
    until_closed(daemon.grpc_addr(), request).await;
    assert_serving(&daemon).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_over_the_cap_are_closed_where_none_is_idle_and_the_others_serve_on() {
    let daemon = daemon(|config| config.server.max_connections = 2).await;
    let (mut first, mut second) = (client(&daemon).await, client(&daemon).await);
    let mut open = vec![];
    for client in [&mut first, &mut second] {
        open.push(client.embed_stream(tokio_stream::pending()).await.expect("within the cap"));
    }
    assert_eq!(until_closed(daemon.grpc_addr(), PREFACE.to_vec()).await, b"");
    first.embed(texts("three")).await.expect("the others serve on");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_connection_is_asked_to_leave() {
    let short = Duration::from_millis(50);
    let daemon = daemon(|config| {
        config.server.max_connection_age = short;
        // This peer answers no pings, and a peer's answer says that it has seen GOAWAY.
        (config.server.keepalive_interval, config.server.keepalive_timeout) = (short, short);
    })
    .await;
    let heard = until_closed(daemon.grpc_addr(), PREFACE.to_vec()).await;
    assert!(frame_types(&heard).contains(&GOAWAY), "{heard:?}");
    assert_serving(&daemon).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_reset_as_soon_as_they_are_made_end_their_connection() {
    let daemon = daemon(|_| {}).await;
    // :method POST, :scheme http, :path / by HPACK's static table, then RST_STREAM with CANCEL.
    let begin_and_reset = |stream: u32| {
        let id = stream.to_be_bytes();
        let headers = [&[0, 0, 3, 1, 5], &id[..], &[0x83, 0x86, 0x84]].concat();
        [headers, [&[0, 0, 4, 3, 0], &id[..], &8_u32.to_be_bytes()].concat()].concat()
    };
    let say = [PREFACE.to_vec(), (0..10_000).flat_map(|i| begin_and_reset(2 * i + 1)).collect()].concat();
    let heard = until_closed(daemon.grpc_addr(), say).await;
    // The reset of the connection may have swept GOAWAY away; that it was closed is what counts.
    assert!(heard.is_empty() || frame_types(&heard).iter().all(|kind| *kind != DATA));
    assert_serving(&daemon).await;
}

#[tokio::test]
async fn a_decompression_bomb_is_refused_at_the_message_limit() {
    let daemon = daemon(|config| config.server.max_message_bytes = ByteSize::mib(1)).await;
    for encoding in [CompressionEncoding::Gzip, CompressionEncoding::Zstd] {
        let bomb = texts(&"a".repeat(16 << 20));
        let status = client(&daemon).await.send_compressed(encoding).embed(bomb).await.expect_err("refused");
        assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
        let small = texts(&"a".repeat(1000));
        client(&daemon).await.send_compressed(encoding).embed(small).await.expect("compression is understood");
    }
    // A call ends a moment after its caller has the answer.
    while daemon.app().messages.held_by(Kind::Request) > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_message_over_the_limit_is_refused_with_the_figures() {
    let daemon = daemon(|config| config.server.max_message_bytes = ByteSize::kib(64)).await;
    let status = client(&daemon).await.embed(texts(&"a".repeat(100_000))).await.expect_err("refused");
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert!(status.message().contains("65536"), "{status:?}");
    assert_serving(&daemon).await;
}

const DATA: u8 = 0;
const GOAWAY: u8 = 7;

/// The types of the HTTP/2 frames heard.
fn frame_types(mut heard: &[u8]) -> Vec<u8> {
    let mut types = vec![];
    while let [a, b, c, kind, rest @ ..] = heard {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        types.push(*kind);
        heard = rest.get(5 + length..).unwrap_or_default();
    }
    types
}
