//! The HTTP port: the same answers, rights and limits as over gRPC, and clients that misbehave.

use std::time::Duration;

use accelerd::{
    auth::token::Token,
    config::{ByteSize, Config},
    serve::Drained,
};
use accelerd_proto::{
    methods::{device_service, embed_service},
    v1,
};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use prost::Message;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{
    flow_control::until,
    harness::{TestServer, f32s, texts},
};

const JSON: (&str, &str) = ("content-type", "application/json");

/// Connects to the HTTP port.
async fn socket(server: &TestServer) -> TcpStream {
    let address = server.daemon.http_addr().expect("the daemon has an HTTP port");
    TcpStream::connect(address).await.expect("the daemon accepts connections")
}

async fn connect(server: &TestServer) -> SendRequest<Full<Bytes>> {
    let handshake = http1::handshake(TokioIo::new(socket(server).await)).await;
    let (sender, connection) = handshake.expect("a connection");
    tokio::spawn(connection);
    sender
}

/// A POST request with these headers.
fn post(path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let request = Request::post(path).header("host", "localhost");
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.body(Full::new(body.into())).expect("a request")
}

/// Sends a request on a connection of its own.
async fn send(server: &TestServer, request: Request<Full<Bytes>>) -> Response<Incoming> {
    connect(server).await.send_request(request).await.expect("a response")
}

/// The status, the headers and the value of a response of JSON.
async fn call(server: &TestServer, request: Request<Full<Bytes>>) -> (StatusCode, HeaderMap, Value) {
    let (head, body) = send(server, request).await.into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    (head.status, head.headers, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

async fn answer(server: &TestServer, path: &str, body: &Value) -> Value {
    let (status, _, value) = call(server, post(path, &[JSON], body.to_string())).await;
    assert_eq!(status, StatusCode::OK, "{value}");
    value
}

/// Starts a daemon where clients that send or read nothing are cut off soon.
async fn start_impatient() -> TestServer {
    TestServer::start_with(|config| {
        config.server.stall_timeout = Duration::from_millis(200);
        config.server.stall_timeout_under_pressure = Duration::from_millis(200);
    })
    .await
}

fn bits(values: &Value) -> Vec<u32> {
    #[expect(clippy::cast_possible_truncation, reason = "a client rounds to f32 what it has read as f64")]
    let number = |value: &Value| value.as_f64().expect("a number") as f32;
    values.as_array().expect("a list").iter().map(|value| number(value).to_bits()).collect()
}

#[tokio::test]
async fn every_api_answers_with_the_bits_of_grpc() {
    let server = TestServer::start().await;
    let given = ["open a socket", "", "sort a list — quickly"];
    let response = server.embed().embed(texts(&given)).await.expect("vectors").into_inner();
    let vectors = f32s(&response.embeddings.expect("vectors"));
    let expected: Vec<Vec<u32>> = vectors
        .chunks(vectors.len() / given.len())
        .map(|row| row.iter().map(|value| value.to_bits()).collect())
        .collect();

    let tei = answer(&server, "/embed", &json!({ "inputs": given })).await;
    assert_eq!(tei.as_array().expect("rows").iter().map(bits).collect::<Vec<_>>(), expected);

    let first = [given[0], given[2]];
    let openai = answer(&server, "/v1/embeddings", &json!({ "input": first, "model": "builtin" })).await;
    let rows: Vec<_> = openai["data"].as_array().expect("rows").iter().map(|row| bits(&row["embedding"])).collect();
    assert_eq!(rows, [expected[0].clone(), expected[2].clone()]);
    assert_eq!(openai["usage"]["total_tokens"], response.token_counts[0] + response.token_counts[2]);

    let rpc = answer(&server, embed_service::EMBED.path(), &json!({ "texts": { "values": given } })).await;
    let encoded = rpc["embeddings"]["data"].as_str().expect("base64");
    let bytes: Vec<u8> = vectors.iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(encoded, base64(&bytes));
    let asked = json!({ "input": given[0], "encoding_format": "base64" });
    let openai = answer(&server, "/v1/embeddings", &asked).await;
    assert_eq!(openai["data"][0]["embedding"], base64(&bytes[..bytes.len() / given.len()]));
}

/// Encodes as the daemon should.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let encode = |group: &[u8]| -> Vec<char> {
        let bits = group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        let digit = |at: usize| DIGITS[(bits >> (18 - 6 * at)) as usize % 64];
        (0..4).map(|at| if at <= group.len() { digit(at).into() } else { '=' }).collect()
    };
    bytes.chunks(3).flat_map(encode).collect()
}

#[tokio::test]
async fn failures_have_the_status_and_the_form_of_the_api() {
    let server = TestServer::start_with(|config| config.limits.max_texts = 2).await;
    let code = async |path: &str, headers: &[(&str, &str)], body: Value| {
        let (status, _, value) = call(&server, post(path, headers, body.to_string())).await;
        (status.as_u16(), value)
    };
    let text = json!({ "input": "a", "model": "builtin" });
    let (status, value) = code("/v1/embeddings", &[JSON, ("accelerd-timeout", "0s")], text.clone()).await;
    assert_eq!((status, &value["error"]["type"]), (504, &json!("server_error")));
    let (status, value) = code("/v1/embeddings", &[JSON, ("accelerd-timeout", "soon")], text.clone()).await;
    assert_eq!((status, &value["error"]["param"]), (400, &json!("accelerd-timeout")));
    let (status, value) = code("/v1/embeddings", &[JSON], json!({ "input": "a", "model": "none" })).await;
    assert_eq!((status, &value["error"]["code"]), (404, &json!("model_not_found")));
    let (status, value) = code("/v1/embeddings", &[JSON], json!({ "input": ["a", "b", "c"] })).await;
    assert_eq!((status, &value["error"]["type"]), (400, &json!("invalid_request_error")));
    let (status, value) = code("/v1/embeddings", &[JSON], json!({ "input": "a", "dimensions": 7 })).await;
    assert_eq!((status, &value["error"]["param"]), (400, &json!("dimensions")));
    let (status, value) = code("/embed", &[JSON], json!({ "input": "a" })).await;
    assert_eq!((status, &value["error_type"]), (400, &json!("Validation")));
    let (status, value) = code("/v2/rerank", &[JSON], json!({ "query": "a", "documents": ["b"] })).await;
    assert_eq!(status, 404, "{value}");
    assert!(value["message"].as_str().is_some_and(|message| message.contains("no reranker")), "{value}");
    let (status, value) = code(embed_service::EMBED.path(), &[JSON], json!({ "texts": { "value": [] } })).await;
    assert_eq!((status, &value["error"]["code"]), (400, &json!("INVALID_ARGUMENT")));
    assert_eq!(code(&format!("{}s", embed_service::EMBED.path()), &[JSON], json!({})).await.0, 404);
    assert_eq!(code("/embed", &[("content-type", "text/plain")], json!({ "inputs": "a" })).await.0, 415);
}

#[tokio::test]
async fn pages_of_other_sites_reach_nothing() {
    let server = TestServer::start_with(|config| config.http.origins = vec!["https://app.example".to_owned()]).await;
    let status = async |headers: &[(&str, &str)]| {
        let body = json!({ "inputs": "a" }).to_string();
        let mut request = post("/embed", headers, body);
        if let Some((_, host)) = headers.iter().find(|(name, _)| *name == "host") {
            request.headers_mut().insert("host", host.parse().expect("a value"));
        }
        call(&server, request).await.0
    };
    assert_eq!(status(&[JSON, ("host", "rebound.example")]).await, StatusCode::MISDIRECTED_REQUEST);
    assert_eq!(status(&[JSON, ("origin", "https://evil.example")]).await, StatusCode::FORBIDDEN);
    assert_eq!(status(&[JSON, ("origin", "null")]).await, StatusCode::FORBIDDEN);
    assert_eq!(status(&[JSON, ("sec-fetch-site", "cross-site")]).await, StatusCode::FORBIDDEN);
    assert_eq!(status(&[JSON, ("origin", "https://app.example")]).await, StatusCode::OK);
    let preflight = Request::options("/embed")
        .header("host", "localhost")
        .header("origin", "https://app.example")
        .header("access-control-request-headers", "authorization,content-type")
        .body(Full::default())
        .expect("a request");
    let (code, headers, _) = call(&server, preflight).await;
    assert_eq!(code, StatusCode::NO_CONTENT);
    assert_eq!(headers["access-control-allow-origin"], "https://app.example");
    assert_eq!(headers["access-control-allow-headers"], "authorization,content-type");
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_and_charges_nothing() {
    let server = TestServer::start_with(|config: &mut Config| {
        config.server.max_message_bytes = ByteSize::kib(64);
    })
    .await;
    let body = json!({ "inputs": "a".repeat(100_000) }).to_string();
    let (status, _, value) = call(&server, post("/embed", &[JSON], body)).await;
    assert_eq!((status, &value["error_type"]), (StatusCode::PAYLOAD_TOO_LARGE, &json!("Validation")));
    let mut socket = socket(&server).await;
    let part =
        format!("POST /embed HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n", 100_000);
    socket.write_all(part.as_bytes()).await.expect("written");
    // The daemon may close the connection before it has read everything.
    let _closed = socket.write_all(&vec![b' '; 100_000]).await;
    let mut line = [0; 12];
    socket.read_exact(&mut line).await.expect("a response");
    assert_eq!(&line, b"HTTP/1.1 413");
    drop(socket);
    until("the memory is free", || server.daemon.app().metrics.in_flight() == 0).await;
    server.assert_serving().await;
}

#[tokio::test]
async fn refusals_before_a_method_is_called_are_counted_by_status_and_reason() {
    let server = TestServer::start_with(|config| config.server.max_message_bytes = ByteSize::kib(64)).await;
    let long = "a".repeat(100_000);
    let mut rebound = post("/embed", &[JSON], "{}");
    rebound.headers_mut().insert("host", "rebound.example".parse().expect("a value"));
    for request in [
        post("/embed", &[("content-type", "text/plain")], "{}"),
        post("/embed", &[JSON], json!({ "inputs": long }).to_string()),
        post("/embed", &[JSON, ("x-long", &long[..20_000])], "{}"),
        post("/embed", &[JSON], "{"),
        post("/none", &[JSON], "{}"),
        post("/health", &[JSON], "{}"),
        rebound,
        // These two call a method, whose own metric counts them.
        post("/embed", &[JSON], r#"{"inputs": "a"}"#),
        post("/embed", &[JSON], r#"{"inputs": "a", "model": "none"}"#),
    ] {
        send(&server, request).await.into_body().collect().await.expect("a body");
    }
    let metrics = server.daemon.app().metrics.text();
    let refused = metrics.lines().filter_map(|line| line.strip_prefix("accelerd_http_requests_refused_total"));
    let expected = [
        ("BAD_REQUEST", 400),
        ("METHOD_NOT_ALLOWED", 405),
        ("MISDIRECTED_REQUEST", 421),
        ("NOT_FOUND", 404),
        ("PAYLOAD_TOO_LARGE", 413),
        ("REQUEST_HEADER_FIELDS_TOO_LARGE", 431),
        ("UNSUPPORTED_MEDIA_TYPE", 415),
    ];
    let expected = expected.map(|(reason, status)| format!("{{reason=\"{reason}\",status=\"{status}\"}} 1"));
    assert_eq!(refused.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_client_that_stops_sending_is_answered_and_cut_off() {
    let server = start_impatient().await;
    let mut socket = socket(&server).await;
    let head = "POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n{";
    socket.write_all(head.as_bytes()).await.expect("written");
    let mut response = String::new();
    socket.read_to_string(&mut response).await.expect("the daemon closes the connection");
    assert!(response.starts_with("HTTP/1.1 408"), "{response}");
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_cut_off_and_holds_no_memory() {
    let server = start_impatient().await;
    let mut socket = socket(&server).await;
    // Some 50 megabytes of numbers, beyond what the sockets buffer.
    let body = json!({ "inputs": vec!["def add(a, b): return a + b"; 16_000] }).to_string();
    let head = format!("POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", body.len());
    socket.write_all(head.as_bytes()).await.expect("written");
    socket.write_all(body.as_bytes()).await.expect("written");
    socket.readable().await.expect("the response begins");
    let memory = &server.daemon.app().transport_memory;
    assert!(memory.used() > 10 << 20, "{}", memory.used());
    until("the response is dropped", || memory.used() < 1 << 20).await;
    server.assert_serving().await;
}

#[tokio::test]
async fn a_stream_is_lines_of_json_and_ends_with_its_client() {
    let server = TestServer::start().await;
    let body = json!({ "interval": "0.1s" }).to_string();
    let mut response = send(&server, post(device_service::WATCH.path(), &[JSON], body)).await;
    assert_eq!(response.headers()["content-type"], "application/x-ndjson");
    for _ in 0..2 {
        let frame = response.frame().await.expect("a line").expect("no error").into_data().expect("data");
        assert_eq!(frame.last(), Some(&b'\n'));
        let line: Value = serde_json::from_slice(&frame).expect("JSON");
        assert!(line.is_object(), "{line}");
    }
    let metrics = &server.daemon.app().metrics;
    assert_eq!(metrics.in_flight(), 1);
    drop(response);
    until("the call has ended", || metrics.in_flight() == 0).await;
}

#[tokio::test]
async fn a_failed_stream_ends_with_a_line_that_says_why() {
    let server = TestServer::start().await;
    let body = json!({ "interval": "0.001s" }).to_string();
    let (status, _, value) = call(&server, post(device_service::WATCH.path(), &[JSON], body)).await;
    assert_eq!((status, &value["error"]["code"]), (StatusCode::BAD_REQUEST, &json!("INVALID_ARGUMENT")));
}

#[tokio::test]
async fn grpc_web_is_served_on_the_same_paths() {
    let server = TestServer::start().await;
    let message = texts(&["open a socket"]).encode_to_vec();
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).expect("small"));
    frame.put(&message[..]);
    let headers = [("content-type", "application/grpc-web+proto"), ("x-grpc-web", "1")];
    let response = send(&server, post(embed_service::EMBED.path(), &headers, frame.freeze())).await;
    assert_eq!(response.headers()["content-type"], "application/grpc-web+proto");
    let mut body = response.into_body().collect().await.expect("a body").to_bytes();
    assert_eq!(body.get_u8(), 0, "a message");
    let length = body.get_u32() as usize;
    let vectors = v1::EmbedResponse::decode(body.split_to(length)).expect("a message");
    let grpc = server.embed().embed(texts(&["open a socket"])).await.expect("vectors").into_inner();
    assert_eq!(vectors.embeddings, grpc.embeddings);
    assert_eq!(body.get_u8(), 0x80, "trailers");
    assert!(String::from_utf8_lossy(&body[4..]).contains("grpc-status:0"), "{body:?}");
}

#[tokio::test]
async fn idle_connections_end_with_the_daemon_and_open_requests_are_answered() {
    let server = TestServer::start().await;
    let mut idle = connect(&server).await;
    let first = idle.send_request(post("/embed", &[JSON], r#"{"inputs": "a"}"#)).await.expect("a response");
    first.into_body().collect().await.expect("a body");
    let _unused = socket(&server).await;
    let mut busy = connect(&server).await;
    let texts = json!({ "inputs": vec!["def add(a, b): return a + b"; 2000] }).to_string();
    let open = tokio::spawn(busy.send_request(post("/embed", &[JSON], texts)));
    let app = std::sync::Arc::clone(server.daemon.app());
    until("the request has begun", || app.metrics.in_flight() == 1).await;
    drop(app);
    let drained = tokio::spawn(server.daemon.shutdown());
    let answered = open.await.expect("no panic").expect("it is answered");
    assert_eq!(answered.status(), StatusCode::OK);
    answered.into_body().collect().await.expect("the whole body");
    let expected = Drained { complete: true, aborted_connections: 0, aborted_calls: 0, hung: vec![] };
    assert_eq!(drained.await.expect("no panic"), expected);
    assert!(idle.ready().await.is_err(), "the connection is closed");
}

#[tokio::test]
async fn headers_over_the_limit_are_refused() {
    let server = TestServer::start().await;
    let long = "a".repeat(20_000);
    let (status, ..) = call(&server, post("/embed", &[JSON, ("x-long", &long)], "{}")).await;
    assert_eq!(status, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
}

#[tokio::test]
async fn a_daemon_without_an_http_port_serves_grpc() {
    let server = TestServer::start_with(|config| config.http.listen = accelerd::config::HttpListen::Off).await;
    assert_eq!(server.daemon.http_addr(), None);
    server.assert_serving().await;
}

#[tokio::test]
async fn a_stream_of_requests_is_lines_of_json() {
    let server = TestServer::start().await;
    let lines = "{\"sequence\": 7, \"embed\": {\"texts\": {\"values\": [\"a\"]}}}\n{\"sequence\": 8, \"embed\": {}}\n";
    for content_type in [JSON.1, "application/x-ndjson"] {
        let request = post(embed_service::EMBED_STREAM.path(), &[("content-type", content_type)], lines);
        let body = send(&server, request).await.collect().await.expect("a body").to_bytes();
        let lines = std::str::from_utf8(&body).expect("UTF-8").lines();
        let mut answers: Vec<Value> = lines.map(|line| serde_json::from_str(line).expect("JSON")).collect();
        answers.sort_by_key(|answer| answer["sequence"].to_string());
        assert_eq!(answers.len(), 2, "{answers:?}");
        assert_eq!((&answers[0]["sequence"], &answers[1]["sequence"]), (&json!("7"), &json!("8")));
        assert_eq!(answers[0]["embed"]["embeddings"]["shape"][0], "1");
        assert_eq!(answers[1]["error"]["code"], 3, "{}", answers[1]);
    }
    // One request is no stream.
    let request = post(embed_service::EMBED.path(), &[("content-type", "application/x-ndjson")], "{}");
    assert_eq!(call(&server, request).await.0, StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

/// A GET request with these headers.
fn get(path: &str, headers: &[(&str, &str)]) -> Request<Full<Bytes>> {
    let mut request = post(path, headers, "");
    *request.method_mut() = http::Method::GET;
    request
}

#[tokio::test]
async fn the_console_is_served_with_headers_that_protect_it() {
    let server = TestServer::start().await;
    for (path, content_type) in [
        ("/console", "text/html; charset=utf-8"),
        ("/console/", "text/html; charset=utf-8"),
        ("/console/console.js", "text/javascript; charset=utf-8"),
        ("/console/console.css", "text/css; charset=utf-8"),
        ("/console/icon.svg", "image/svg+xml"),
    ] {
        let response = send(&server, get(path, &[])).await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        let headers = response.headers().clone();
        assert_eq!(headers["content-type"], content_type, "{path}");
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert_eq!(headers["referrer-policy"], "no-referrer");
        assert_eq!(headers["cache-control"], "no-cache");
        let policy = headers["content-security-policy"].to_str().expect("text");
        for directive in ["default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"] {
            assert!(policy.split("; ").any(|one| one == directive), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        let body = response.collect().await.expect("a body").to_bytes();
        assert_eq!(headers["content-length"], body.len().to_string());

        // A copy is used again, and a compressed one is the same file.
        let etag = headers["etag"].to_str().expect("text");
        let known = format!("\"other\", {etag}");
        let cached = send(&server, get(path, &[("if-none-match", known.as_str())])).await;
        assert_eq!((cached.status(), &cached.headers()["etag"]), (StatusCode::NOT_MODIFIED, &headers["etag"]));
        assert!(cached.headers().contains_key("content-security-policy"));
        let compressed =
            send(&server, get(path, &[("accept-encoding", "br, gzip"), ("if-none-match", "\"other\"")])).await;
        assert_eq!(compressed.headers()["content-encoding"], "gzip");
        assert_eq!(compressed.headers()["etag"], headers["etag"]);
    }
}

#[tokio::test]
async fn the_console_has_no_other_files_hosts_or_methods() {
    let server = TestServer::start().await;
    for path in ["/console/none.js", "/console/index.html", "/console/..%2fconsole.js", "/console/a/b"] {
        let (status, headers, value) = call(&server, get(path, &[])).await;
        assert_eq!((status, &value["error"]["code"]), (StatusCode::NOT_FOUND, &json!("NOT_FOUND")), "{path}");
        assert_eq!(headers["content-type"], "application/json");
    }
    for path in ["/console", "/console/console.js"] {
        let mut rebound = get(path, &[]);
        rebound.headers_mut().insert("host", "rebound.example".parse().expect("a value"));
        assert_eq!(send(&server, rebound).await.status(), StatusCode::MISDIRECTED_REQUEST, "{path}");
        let framed = get(path, &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")]);
        assert_eq!(send(&server, framed).await.status(), StatusCode::FORBIDDEN, "{path}");
    }
    assert_eq!(send(&server, post("/console", &[], "")).await.status(), StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn the_console_needs_no_token_and_can_be_switched_off() {
    let docs = async |server: &TestServer| {
        let page = send(server, get("/docs", &[])).await.collect().await.expect("a body").to_bytes();
        String::from_utf8(page.to_vec()).expect("UTF-8").contains("href=\"console\"")
    };
    let folder = tempfile::tempdir().expect("a folder");
    let principals = folder.path().join("principals.toml");
    let hash = Token::random().expect("random bytes").hash();
    let text = format!("[[principal]]\nname = \"reader\"\ntokens = [\"{hash}\"]\nrole = \"read\"\n");
    std::fs::write(&principals, text).expect("written");
    let guarded = TestServer::start_with(|config| config.auth.principals = principals).await;
    assert_eq!(send(&guarded, get("/console", &[])).await.status(), StatusCode::OK);
    let listed = call(&guarded, post(device_service::LIST_DEVICES.path(), &[JSON], "{}")).await;
    assert_eq!(listed.0, StatusCode::UNAUTHORIZED, "{}", listed.2);
    assert!(docs(&guarded).await);

    let without = TestServer::start_with(|config| config.http.console = false).await;
    assert_eq!(send(&without, get("/console", &[])).await.status(), StatusCode::NOT_FOUND);
    // A path of two parts is that of a method, which takes POST.
    assert_eq!(send(&without, get("/console/console.js", &[])).await.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert!(!docs(&without).await);
}
