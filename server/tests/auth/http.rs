//! The rights of callers of the HTTP port, which are those of gRPC's.

use accelerd::{Config, Daemon, StartError, auth::AuthError, config::HttpListen};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};

use crate::harness::{Authority, Files, Identity, Validity, principal, tls_stream, token};

/// Sends a request and returns the whole response.
async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
    );
    stream.write_all(head.as_bytes()).await.expect("written");
    stream.write_all(body.as_bytes()).await.expect("written");
    let mut response = String::new();
    stream.read_to_string(&mut response).await.expect("a response");
    response
}

async fn connect(daemon: &Daemon) -> TcpStream {
    TcpStream::connect(daemon.http_addr().expect("there is an HTTP port")).await.expect("it accepts connections")
}

const EMBED: &str = r#"{"input": "a", "model": "builtin"}"#;

#[tokio::test(flavor = "multi_thread")]
async fn tokens_roles_and_quotas_hold_over_http() {
    let files = Files::new();
    let (reader, limited) = (token(), token());
    let file =
        principal("reader", "read", &reader, "") + &principal("limited", "read", &limited, "requests_per_second = 1\n");
    let mut config = Config::loopback();
    config.auth.principals = files.write("principals.toml", &file);
    let daemon = Daemon::start(config).await.expect("the daemon starts");
    let call = async |path: &str, authorization: &str| {
        let headers =
            if authorization.is_empty() { String::new() } else { format!("authorization: {authorization}\r\n") };
        exchange(connect(&daemon).await, path, &headers, EMBED).await
    };
    let bearer = |token: &accelerd::auth::token::Token| format!("Bearer {}", token.reveal());
    let answered = call("/v1/embeddings", &bearer(&reader)).await;
    assert!(answered.starts_with("HTTP/1.1 200"), "{answered}");
    for wrong in ["", "Bearer acd_wrong", "Basic YTpi"] {
        let refused = call("/v1/embeddings", wrong).await;
        assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
        assert!(refused.contains("www-authenticate: Bearer") && refused.contains("invalid_api_key"), "{refused}");
    }
    let path = accelerd_proto::methods::embed_service::LOAD_MODEL.path();
    let refused =
        exchange(connect(&daemon).await, path, &format!("authorization: {}\r\n", bearer(&reader)), "{}").await;
    assert!(refused.starts_with("HTTP/1.1 403") && refused.contains("PERMISSION_DENIED"), "{refused}");
    let mut last = String::new();
    for _ in 0..20 {
        last = call("/v1/embeddings", &bearer(&limited)).await;
    }
    assert!(
        last.starts_with("HTTP/1.1 429") && last.contains("retry-after: ") && last.contains("rate_limit_error"),
        "{last}"
    );
    daemon.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_certificates_hold_over_http() {
    let files = Files::new();
    let authority = Authority::new();
    let mut config = Config::loopback();
    files.write_identity(&authority.sign("localhost", Validity::Now), &mut config);
    config.tls.client_ca = files.write("ca.crt", &authority.pem());
    let file =
        "[[principal]]\nname = \"pipeline\"\nrole = \"read\"\ncertificate_names = [\"spiffe://cluster/pipeline\"]\n";
    config.auth.principals = files.write("principals.toml", file);
    let daemon = Daemon::start(config).await.expect("the daemon starts");
    let address = daemon.http_addr().expect("there is an HTTP port");
    let identity: Identity = authority.sign("spiffe://cluster/pipeline", Validity::Now);
    let stream = tls_stream(address, &authority, Some(&identity), b"http/1.1").await.expect("a handshake");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    let answered = exchange(stream, "/v1/embeddings", "", EMBED).await;
    assert!(answered.starts_with("HTTP/1.1 200"), "{answered}");
    let other = authority.sign("spiffe://cluster/other", Validity::Now);
    let stream = tls_stream(address, &authority, Some(&other), b"http/1.1").await.expect("a handshake");
    let refused = exchange(stream, "/v1/embeddings", "", EMBED).await;
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    daemon.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unprotected_http_port_starts_only_if_that_is_accepted() {
    let mut config = Config::loopback();
    config.http.listen = HttpListen::At("0.0.0.0:0".parse().expect("an address"));
    let error = Daemon::start(config.clone()).await.map(drop).expect_err("everybody could call it");
    assert!(matches!(error, StartError::Auth(AuthError::Unprotected { key: "http.listen", .. })), "{error}");
    config.auth.insecure = true;
    Daemon::start(config).await.expect("it is accepted").shutdown().await;
}
