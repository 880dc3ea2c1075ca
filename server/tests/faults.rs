//! Misbehaving clients do not affect others.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use accelerd::{Config, Daemon, config::ByteSize, transport::memory::MemoryKind};
use accelerd_proto::v1::{self, embed_request::Input, embed_service_client::EmbedServiceClient};
use tonic::{Code, codec::CompressionEncoding, transport::Channel};

/// The HTTP/2 client connection preface and an empty SETTINGS frame.
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

/// Sends bytes and reads until the daemon closes the connection.
async fn until_closed(address: SocketAddr, sent: Vec<u8>) -> Vec<u8> {
    let talk = move || {
        let mut stream = TcpStream::connect(address).expect("connects");
        // Fails if the daemon closes the connection first.
        let _closed = stream.write_all(&sent);
        let mut received = vec![];
        match stream.read_to_end(&mut received) {
            Ok(_) => received,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => received,
            Err(error) => panic!("{error}"),
        }
    };
    tokio::task::spawn_blocking(talk).await.expect("no panic")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_without_a_complete_preface_is_closed() {
    let daemon = daemon(|config| config.server.handshake_timeout = Duration::from_millis(50)).await;
    for sent in [&b""[..], &PREFACE[..10]] {
        assert_eq!(until_closed(daemon.grpc_addr(), sent.to_vec()).await, b"");
    }
    assert_serving(&daemon).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_not_http2_is_closed() {
    let daemon = daemon(|_| {}).await;
    let request = b"GET / HTTP/1.1\r\nhost: nobody\r\n\r\n".to_vec();
    until_closed(daemon.grpc_addr(), request).await;
    assert_serving(&daemon).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_above_the_limit_are_closed_if_none_is_idle() {
    let daemon = daemon(|config| config.server.max_connections = 2).await;
    let mut first = client(&daemon).await;
    let mut second = client(&daemon).await;
    let mut open = vec![];
    for client in [&mut first, &mut second] {
        open.push(client.embed_stream(tokio_stream::pending()).await.expect("within the cap"));
    }
    assert_eq!(until_closed(daemon.grpc_addr(), PREFACE.to_vec()).await, b"");
    first.embed(texts("three")).await.expect("the others serve on");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_connection_gets_goaway() {
    let short = Duration::from_millis(50);
    let daemon = daemon(|config| {
        config.server.max_connection_age = short;
        // This peer does not answer the ping by which GOAWAY is acknowledged.
        (config.server.keepalive_interval, config.server.keepalive_timeout) = (short, short);
    })
    .await;
    let received = until_closed(daemon.grpc_addr(), PREFACE.to_vec()).await;
    assert!(frame_types(&received).contains(&GOAWAY), "{received:?}");
    assert_serving(&daemon).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rapid_resets_close_the_connection() {
    let daemon = daemon(|_| {}).await;
    // :method POST, :scheme http, :path / from HPACK's static table, then RST_STREAM with CANCEL.
    let begin_and_reset = |stream: u32| {
        let id = stream.to_be_bytes();
        let headers = [&[0, 0, 3, 1, 5], &id[..], &[0x83, 0x86, 0x84]].concat();
        [headers, [&[0, 0, 4, 3, 0], &id[..], &8_u32.to_be_bytes()].concat()].concat()
    };
    let sent = [PREFACE.to_vec(), (0..10_000).flat_map(|i| begin_and_reset(2 * i + 1)).collect()].concat();
    let received = until_closed(daemon.grpc_addr(), sent).await;
    // A TCP reset may discard GOAWAY; it suffices that the connection is closed.
    assert!(received.is_empty() || frame_types(&received).iter().all(|kind| *kind != DATA));
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
    // A call ends shortly after its client has the response.
    while daemon.app().transport_memory.used_by(MemoryKind::Request) > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_message_above_the_limit_is_refused_with_the_limit() {
    let daemon = daemon(|config| config.server.max_message_bytes = ByteSize::kib(64)).await;
    let status = client(&daemon).await.embed(texts(&"a".repeat(100_000))).await.expect_err("refused");
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert!(status.message().contains("65536"), "{status:?}");
    assert_serving(&daemon).await;
}

const DATA: u8 = 0;
const GOAWAY: u8 = 7;

/// The types of the received HTTP/2 frames.
fn frame_types(mut received: &[u8]) -> Vec<u8> {
    let mut types = vec![];
    while let [a, b, c, kind, rest @ ..] = received {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        types.push(*kind);
        received = rest.get(5 + length..).unwrap_or_default();
    }
    types
}
