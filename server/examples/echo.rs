//! Overhead of the daemon compared with a plain tonic server that decodes the same requests and responds at once:
//! `cargo run --release -p accelerd --example echo`. Both run in this process, alternating, under the same load.
#![allow(clippy::print_stdout, reason = "its output is what it is for")]

use std::{
    convert::Infallible,
    error::Error,
    future::{Ready, ready},
    net::SocketAddr,
    task::{Context, Poll},
    thread,
    time::{Duration, Instant},
};

use accelerd::{
    Config, Daemon,
    config::{ByteSize, Server as Settings},
};
use accelerd_proto::{
    methods::{embed_service, similarity_service},
    v1::{self, Dtype, Tensor, embed_request::Input},
};
use bytes::Bytes;
use clap::Parser;
use tokio::{net::TcpListener, runtime::Builder};
use tonic::{
    Request, Response, Status,
    body::Body,
    codec::CompressionEncoding,
    codegen::{BoxFuture, Service, http, http::uri::PathAndQuery},
    server::{Grpc, NamedService, UnaryService},
    transport::{Channel, Endpoint, Server, server::TcpIncoming},
};
use tonic_prost::ProstCodec;

/// As in the daemon's binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EMBED: &str = embed_service::EMBED.path();
const FIND_SIMILAR: &str = similarity_service::FIND_SIMILAR.path();
const LARGEST: usize = 1 << 30;

#[derive(Clone, Copy, Parser)]
#[command(about = "Compares the daemon with a plain tonic server under the same load")]
struct Args {
    /// Concurrent small calls.
    #[arg(long, default_value_t = 32)]
    concurrency: usize,
    /// Connections for small calls, each with its own thread.
    #[arg(long, default_value_t = 2)]
    connections: usize,
    /// Duration of each turn in seconds.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Number of turns per server.
    #[arg(long, default_value_t = 3)]
    turns: usize,
    /// Size of a large request in megabytes.
    #[arg(long, default_value_t = 64)]
    megabytes: u32,
    /// Reactor threads of the daemon; 0 means one per core.
    #[arg(long, default_value_t = 0)]
    reactors: usize,
    /// Skip large calls.
    #[arg(long)]
    small: bool,
}

/// A service that returns a response of the usual size.
#[derive(Clone, Copy)]
struct Echo<const BULK: bool>;

impl NamedService for Echo<false> {
    const NAME: &'static str = embed_service::NAME;
}

impl NamedService for Echo<true> {
    const NAME: &'static str = similarity_service::NAME;
}

struct Embed;

impl UnaryService<v1::EmbedRequest> for Embed {
    type Response = v1::EmbedResponse;
    type Future = Ready<Result<Response<v1::EmbedResponse>, Status>>;

    fn call(&mut self, _: Request<v1::EmbedRequest>) -> Self::Future {
        let embeddings = tensor(&[1, 256], vec![0; 1024].into());
        ready(Ok(Response::new(v1::EmbedResponse {
            embeddings: Some(embeddings),
            token_counts: vec![5],
            model: "builtin".to_owned(),
            scales: None,
        })))
    }
}

struct FindSimilar;

impl UnaryService<v1::FindSimilarRequest> for FindSimilar {
    type Response = v1::FindSimilarResponse;
    type Future = Ready<Result<Response<v1::FindSimilarResponse>, Status>>;

    fn call(&mut self, _: Request<v1::FindSimilarRequest>) -> Self::Future {
        ready(Ok(Response::new(v1::FindSimilarResponse::default())))
    }
}

impl<const BULK: bool> Service<http::Request<Body>> for Echo<BULK> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move {
            if BULK {
                let mut grpc = Grpc::new(ProstCodec::default()).max_decoding_message_size(LARGEST);
                Ok(grpc.unary(FindSimilar, request).await)
            } else {
                let mut grpc = Grpc::new(ProstCodec::default()).accept_compressed(CompressionEncoding::Zstd);
                Ok(grpc.unary(Embed, request).await)
            }
        })
    }
}

/// Starts the plain server on a runtime with as many threads as the daemon's. Frame and window sizes are the daemon's if
/// `tuned`, else tonic's defaults.
fn echo(tuned: bool) -> Result<SocketAddr, Box<dyn Error>> {
    let std = std::net::TcpListener::bind("127.0.0.1:0")?;
    std.set_nonblocking(true)?;
    let address = std.local_addr()?;
    thread::spawn(move || {
        let runtime = Builder::new_multi_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut server = Server::builder();
            if tuned {
                server = server
                    .max_frame_size(1 << 20)
                    .initial_stream_window_size(64 << 20)
                    .initial_connection_window_size(128 << 20);
            }
            let listener = TcpListener::from_std(std).expect("a listener");
            let router = server.add_service(Echo::<false>).add_service(Echo::<true>);
            router
                .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)))
                .await
                .expect("the echo serves");
        });
    });
    Ok(address)
}

fn tensor(shape: &[i64], data: Bytes) -> Tensor {
    Tensor { dtype: Dtype::F32.into(), shape: shape.to_vec(), data }
}

fn small() -> v1::EmbedRequest {
    let values = vec!["def parse_date(text): ...".to_owned()];
    v1::EmbedRequest { input: Some(Input::Texts(v1::TextInput { values })), ..v1::EmbedRequest::default() }
}

/// One query against a corpus of about `bytes`.
fn large(bytes: u32) -> v1::FindSimilarRequest {
    let rows = bytes / (256 * 4);
    let numbers: Vec<u8> = (0..rows * 256).flat_map(|i| ((i % 251) as f32 - 125.0).to_le_bytes()).collect();
    let corpus = tensor(&[rows.into(), 256], numbers.into());
    let queries = tensor(&[1, 256], corpus.data.slice(..1024));
    v1::FindSimilarRequest { queries: Some(queries), corpus: Some(corpus), k: 1, ..v1::FindSimilarRequest::default() }
}

async fn connect(address: SocketAddr) -> Result<Channel, tonic::transport::Error> {
    let endpoint = Endpoint::try_from(format!("http://{address}"))?;
    endpoint.initial_stream_window_size(64 << 20).initial_connection_window_size(128 << 20).connect().await
}

async fn call<Q, R>(channel: Channel, path: &'static str, message: Q) -> Result<R, Status>
where
    Q: prost::Message + Send + Sync + 'static,
    R: prost::Message + Default + Send + Sync + 'static,
{
    let mut grpc = tonic::client::Grpc::new(channel).max_decoding_message_size(LARGEST);
    grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let path = PathAndQuery::from_static(path);
    Ok(grpc.unary(Request::new(message), path, ProstCodec::default()).await?.into_inner())
}

/// Makes calls for `time` with `in_flight` concurrent ones on one connection. Returns the latency of each.
fn one_connection(address: SocketAddr, in_flight: usize, time: Duration) -> Vec<Duration> {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let channel = connect(address).await.expect("a connection");
        let end = Instant::now() + time;
        let calls = (0..in_flight).map(|_| {
            let channel = channel.clone();
            async move {
                let mut times = vec![];
                while Instant::now() < end {
                    let begin = Instant::now();
                    let _: v1::EmbedResponse = call(channel.clone(), EMBED, small()).await.expect("an answer");
                    times.push(begin.elapsed());
                }
                times
            }
        });
        futures::future::join_all(calls).await.into_iter().flatten().collect()
    })
}

/// Calls per second, and median and 99th percentile latency.
fn small_calls(address: SocketAddr, concurrency: usize, connections: usize, time: Duration) -> [f64; 3] {
    let each = concurrency.div_ceil(connections);
    let threads: Vec<_> =
        (0..connections).map(|_| thread::spawn(move || one_connection(address, each, time))).collect();
    let mut times: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect();
    times.sort_unstable();
    let micros = |percent: usize| times[times.len() * percent / 100].as_secs_f64() * 1e6;
    [times.len() as f64 / time.as_secs_f64(), micros(50), micros(99)]
}

/// Throughput of sequential large calls in megabytes per second.
fn large_calls(address: SocketAddr, bytes: u32, time: Duration) -> [f64; 3] {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let calls = runtime.block_on(async {
        let channel = connect(address).await.expect("a connection");
        let message = large(bytes);
        let begin = Instant::now();
        let mut calls = 0.0;
        while begin.elapsed() < time {
            let _: v1::FindSimilarResponse =
                call(channel.clone(), FIND_SIMILAR, message.clone()).await.expect("an answer");
            calls += 1.0;
        }
        calls / begin.elapsed().as_secs_f64()
    });
    [calls * f64::from(bytes) / 1e6, 1e6 / calls, 0.0]
}

/// The median of each value over the turns.
fn medians(mut turns: Vec<[f64; 3]>) -> [f64; 3] {
    [0, 1, 2].map(|i| {
        turns.sort_by(|a, b| a[i].total_cmp(&b[i]));
        turns[turns.len() / 2][i]
    })
}

fn compare(name: &str, unit: &str, servers: &[(&str, SocketAddr)], turns: usize, run: impl Fn(SocketAddr) -> [f64; 3]) {
    let mut figures = vec![vec![]; servers.len()];
    for _ in 0..turns {
        for (figures, (_, address)) in figures.iter_mut().zip(servers) {
            figures.push(run(*address));
        }
    }
    let figures: Vec<_> = figures.into_iter().map(medians).collect();
    let best_echo = figures[..2].iter().map(|figure| figure[0]).fold(0.0, f64::max);
    println!("{name}");
    for ((server, _), [rate, p50, p99]) in servers.iter().zip(&figures) {
        let share = 100.0 * rate / best_echo;
        println!(
            "  {server:<13} {rate:>9.0} {unit:<8} p50 {p50:>9.0} us  p99 {p99:>9.0} us  {share:>4.0}% of the better echo"
        );
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let mut config = Config::loopback();
    let Settings { max_message_bytes, reactor_threads, .. } = &mut config.server;
    *max_message_bytes = ByteSize::mib(u64::from(args.megabytes) + 1);
    *reactor_threads = args.reactors;
    let control = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let daemon = control.block_on(Daemon::start(config))?;
    let servers = [("echo, default", echo(false)?), ("echo, tuned", echo(true)?), ("accelerd", daemon.grpc_addr())];
    let time = Duration::from_secs_f64(args.seconds);
    let Args { concurrency, connections, turns, .. } = args;
    let name = format!("embed one short text, {concurrency} in flight on {connections} connections");
    compare(&name, "calls/s", &servers, turns, |address| small_calls(address, concurrency, connections, time));
    compare("embed one short text, one at a time", "calls/s", &servers, turns, |address| {
        small_calls(address, 1, 1, time)
    });
    if !args.small {
        let name = format!("find_similar, {} MB, k = 1", args.megabytes);
        compare(&name, "MB/s", &servers, turns, |address| large_calls(address, args.megabytes << 20, time));
    }
    control.block_on(daemon.shutdown());
    Ok(())
}
