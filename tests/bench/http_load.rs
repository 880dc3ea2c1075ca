//! Puts load on an HTTP server: `cargo run --release -p accelerd-tests --example http_load -- http://127.0.0.1:7436/v1/embeddings`.
//!
//! `--bare ADDRESS` serves a handler of axum that answers at once instead, to compare with: it decodes a body as the daemon does, and
//! answers with as many numbers.
#![allow(clippy::print_stdout, reason = "its output is what it is for")]

use std::{
    error::Error,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{Json, Router, routing::post};
use bytes::Bytes;
use clap::Parser;
use http::{Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Parser)]
#[command(about = "Puts load on an HTTP server and prints throughput and latencies")]
struct Args {
    /// The URL to call.
    url: Option<Uri>,
    /// The body of each request, in which `{}` is replaced by a number.
    #[arg(long, default_value = r#"{"model": "builtin", "input": "def parse_{}(value): return json(value)"}"#)]
    body: String,
    /// Connections, each with one request at a time.
    #[arg(long, default_value_t = 32)]
    concurrency: usize,
    /// Seconds to run.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Serves a bare handler at this address instead.
    #[arg(long)]
    bare: Option<SocketAddr>,
}

fn main() -> Outcome<()> {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match (args.bare, args.url.clone()) {
        (Some(address), _) => runtime.block_on(serve_bare(address)),
        (None, Some(url)) => runtime.block_on(put_load(&args, url)),
        (None, None) => Err("expected a URL, or --bare".into()),
    }
}

/// A handler that embeds nothing.
async fn serve_bare(address: SocketAddr) -> Outcome<()> {
    let vector: Arc<Vec<f32>> = Arc::new((0..=u8::MAX).map(|n| f32::from(n) / 1234.5).collect());
    let handler = move |Json(request): Json<Value>| async move {
        let data = json!([{ "object": "embedding", "index": 0, "embedding": *vector }]);
        Json(json!({ "object": "list", "data": data, "model": request["model"] }))
    };
    let listener = tokio::net::TcpListener::bind(address).await?;
    Ok(axum::serve(listener, Router::new().route("/v1/embeddings", post(handler))).await?)
}

async fn put_load(args: &Args, url: Uri) -> Outcome<()> {
    let end = Instant::now() + Duration::from_secs_f64(args.seconds);
    let callers =
        (0..args.concurrency).map(|number| tokio::spawn(call_until(end, url.clone(), args.body.clone(), number)));
    let mut latencies = vec![];
    for caller in callers.collect::<Vec<_>>() {
        latencies.extend(caller.await??);
    }
    latencies.sort_unstable();
    let at = |share: f64| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index below the length")]
        let index = (share * (latencies.len() - 1) as f64) as usize;
        latencies[index].as_secs_f64() * 1e3
    };
    let rate = latencies.len() as f64 / args.seconds;
    println!(
        "{rate:.0} requests/s; ms: p50 {:.3}, p90 {:.3}, p99 {:.3}, max {:.3}",
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    );
    Ok(())
}

/// Calls on one connection until the end. Returns the latencies.
async fn call_until(end: Instant, url: Uri, body: String, number: usize) -> Outcome<Vec<Duration>> {
    let authority = url.authority().ok_or("the URL has no host")?.clone();
    let stream = TcpStream::connect(authority.as_str()).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let mut latencies = vec![];
    while Instant::now() < end {
        let text = body.replace("{}", &format!("{number}_{}", latencies.len()));
        let request =
            Request::post(url.path()).header("host", authority.as_str()).header("content-type", "application/json");
        let begin = Instant::now();
        let response = sender.send_request(request.body(Full::new(Bytes::from(text)))?).await?;
        let status = response.status();
        let answer = response.into_body().collect().await?.to_bytes();
        if !status.is_success() {
            return Err(format!("{status}: {}", String::from_utf8_lossy(&answer)).into());
        }
        latencies.push(begin.elapsed());
    }
    Ok(latencies)
}
