//! The cost of hostile peers: for each attack, a new daemon, its peak memory, and the latency of a well-behaved caller.
//!
//! `cargo run --release -p accelerd-tests --example attacks -- --daemon target/release/accelerd`.
#![allow(clippy::print_stdout, reason = "a command for people")]

use std::{
    error::Error,
    fs,
    future::poll_fn,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use accelerd_proto::{
    methods::{embed_service, similarity_service},
    v1::{
        self, Dtype, Tensor, embed_service_client::EmbedServiceClient,
        similarity_service_client::SimilarityServiceClient,
    },
};
use bytes::Bytes;
use clap::{Parser, ValueEnum};
use h2::client::{self, SendRequest};
use http::Request;
use prost::Message;
use serde_json::Value;
use tokio::{net::TcpStream, task::JoinSet, time::sleep};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const EMBED: &str = embed_service::EMBED.path();

#[derive(Parser)]
#[command(about = "Measures the cost of hostile peers")]
struct Args {
    /// Path of the daemon.
    #[arg(long)]
    daemon: PathBuf,
    /// Duration of each attack in seconds.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Settings of the daemon, as in `admission.max_message_memory=256MiB`.
    #[arg(long)]
    set: Vec<String>,
    /// A cgroup v1 folder whose memory limit applies to the daemon.
    #[arg(long)]
    cgroup: Option<PathBuf>,
    /// Attacks to run; the default is all.
    #[arg(long, value_enum)]
    attack: Vec<Attack>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Attack {
    /// No attack.
    None,
    /// Unread responses of 16 MiB, with windows of 0.
    Answers,
    /// Streams that send ahead of the reader.
    Ahead,
    /// Length prefixes that announce 64 MiB without data.
    Prefixes,
    /// Searches with 128,000 hits.
    Wide,
    /// Idle connections up to the limit.
    Idle,
}

struct Daemon {
    child: Child,
    grpc: SocketAddr,
}

impl Daemon {
    fn start(args: &Args) -> Outcome<Self> {
        let mut command = Command::new(&args.daemon);
        command.args(["serve", "--set", "server.listen=127.0.0.1:0", "--set", "server.admin_listen=127.0.0.1:0"]);
        command.args([
            "--set",
            "server.health_listen=127.0.0.1:0",
            "--set",
            "http.listen=",
            "--set",
            "telemetry.log_format=json",
        ]);
        args.set.iter().for_each(|set| {
            command.args(["--set", set]);
        });
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        if let Some(cgroup) = &args.cgroup {
            fs::write(cgroup.join("cgroup.procs"), child.id().to_string())?;
        }
        let mut lines = BufReader::new(child.stderr.take().ok_or("it has a log")?).lines();
        let grpc = loop {
            let line = lines.next().ok_or("the daemon ended")??;
            let line: Value = serde_json::from_str(&line).unwrap_or_default();
            if let Some(address) = line["grpc"].as_str() {
                break address.parse()?;
            }
        };
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Self { child, grpc })
    }

    /// Peak and current resident memory in MiB, unless the daemon has exited.
    fn memory(&self) -> Option<[u64; 2]> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let of = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib >> 10)
        };
        Some([of("VmHWM")?, of("VmRSS")?])
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn texts(count: usize) -> v1::EmbedRequest {
    let values = vec!["a".to_owned(); count];
    let input = v1::embed_request::Input::Texts(v1::TextInput { values });
    v1::EmbedRequest { input: Some(input), ..v1::EmbedRequest::default() }
}

fn framed(message: &impl Message) -> Bytes {
    let length = u32::try_from(message.encoded_len()).expect("a short message").to_be_bytes();
    [&[0], &length[..], &message.encode_to_vec()].concat().into()
}

async fn raw(address: SocketAddr) -> Outcome<SendRequest<Bytes>> {
    let stream = TcpStream::connect(address).await?;
    let mut builder = client::Builder::new();
    let (sender, connection) = builder.initial_window_size(0).max_send_buffer_size(1 << 28).handshake(stream).await?;
    tokio::spawn(connection);
    Ok(sender.ready().await?)
}

/// Sends a body as far as flow control allows, and keeps the call open.
async fn hold(mut sender: SendRequest<Bytes>, path: &'static str, body: Bytes, end: bool) -> Outcome<()> {
    poll_fn(|cx| sender.poll_ready(cx)).await?;
    let request = Request::post(format!("http://daemon{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())?;
    let (response, mut stream) = sender.send_request(request, false)?;
    stream.send_data(body, end)?;
    let response = response.await?;
    let mut body = response.into_body();
    while body.data().await.transpose()?.is_some() {}
    Ok(())
}

/// Repeats calls that are refused or reset.
async fn insist(address: SocketAddr, path: &'static str, body: Bytes, end: bool, calls: usize) {
    let mut all = JoinSet::new();
    let Ok(sender) = raw(address).await else { return };
    for _ in 0..calls {
        let sender = sender.clone();
        let body = body.clone();
        all.spawn(async move {
            loop {
                let _refused = hold(sender.clone(), path, body.clone(), end).await;
                sleep(Duration::from_millis(100)).await;
            }
        });
    }
    while all.join_next().await.is_some() {}
}

async fn attack(which: Attack, address: SocketAddr) -> Outcome<()> {
    let mut all = JoinSet::new();
    match which {
        Attack::None => {}
        Attack::Answers => {
            let body = framed(&texts(16_384));
            (0..4).for_each(|_| drop(all.spawn(insist(address, EMBED, body.clone(), true, 64))));
        }
        Attack::Ahead => {
            let step = v1::EmbedStreamRequest { sequence: 1, embed: Some(texts(16_384)) };
            let body: Bytes = framed(&step).repeat((126 << 20) / framed(&step).len()).into();
            for path in [embed_service::EMBED_STREAM.path(), similarity_service::UPSERT_STREAM.path()] {
                (0..15).for_each(|_| drop(all.spawn(insist(address, path, body.clone(), false, 1))));
            }
        }
        Attack::Prefixes => {
            let prefix: Bytes = [&[0][..], &(64_u32 << 20).to_be_bytes()].concat().into();
            drop(all.spawn(insist(address, EMBED, prefix, false, 64)));
        }
        Attack::Wide => {
            let mut client = SimilarityServiceClient::connect(format!("http://{address}")).await?;
            let rows = 20_000_u64;
            let queries = 8;
            let vectors = |rows: u64| Tensor {
                dtype: Dtype::F32.into(),
                shape: vec![i64::try_from(rows).expect("a count"), 16],
                data: (0..rows * 16).flat_map(|index| ((index * 7919 % 1009) as f32).to_le_bytes()).collect(),
            };
            let name = || "wide".to_owned();
            let create = v1::CreateCollectionRequest { name: name(), dimensions: 16, ..Default::default() };
            client.create_collection(create).await?;
            let ids = v1::PointIds { numbers: (0..rows).collect(), ..v1::PointIds::default() };
            let points = v1::upsert_request::Points::Vectors(vectors(rows));
            let upsert =
                v1::UpsertRequest { collection: name(), ids: Some(ids), points: Some(points), ..Default::default() };
            client.upsert(upsert).await?;
            let query = Some(v1::search_request::Query::Vectors(vectors(queries)));
            let search = v1::SearchRequest { collection: name(), query, limit: 16_000, ..Default::default() };
            for _ in 0..100 {
                let search = search.clone();
                let address = format!("http://{address}");
                all.spawn(async move {
                    let Ok(client) = SimilarityServiceClient::connect(address).await else { return };
                    let mut client = client.max_decoding_message_size(1 << 30);
                    loop {
                        if client.search(search.clone()).await.is_err() {
                            sleep(Duration::from_millis(100)).await;
                        }
                    }
                });
            }
        }
        Attack::Idle => {
            let mut streams = vec![];
            for _ in 0..4200 {
                streams.push(raw(address).await);
            }
            std::future::pending::<()>().await;
        }
    }
    while all.join_next().await.is_some() {}
    Ok(())
}

/// Calls until the time is up, sometimes on a new connection; returns the refused calls and the time of each call.
async fn polite(address: SocketAddr, time: Duration) -> (usize, Vec<Duration>) {
    let mut refused = 0;
    let mut times = vec![];
    let begin = Instant::now();
    let mut client = None;
    while begin.elapsed() < time {
        if times.len() % 100 == 0 {
            client = None;
        }
        let started = Instant::now();
        let connected = match client.take() {
            Some(client) => Ok(client),
            None => EmbedServiceClient::connect(format!("http://{address}")).await,
        };
        let Ok(mut embed) = connected else {
            refused += 1;
            sleep(Duration::from_millis(5)).await;
            continue;
        };
        refused += usize::from(embed.embed(texts(1)).await.is_err());
        times.push(started.elapsed());
        client = Some(embed);
        sleep(Duration::from_millis(2)).await;
    }
    times.sort_unstable();
    (refused, times)
}

fn main() -> Outcome<()> {
    let args = Args::parse();
    let attacks = if args.attack.is_empty() { Attack::value_variants() } else { &args.attack };
    for &which in attacks {
        let daemon = Daemon::start(&args)?;
        let address = daemon.grpc;
        let attacker = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        attacker.spawn(async move {
            if let Err(error) = attack(which, address).await {
                println!("the attack failed: {error}");
            }
        });
        let caller = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (refused, times) = caller.block_on(polite(address, Duration::from_secs_f64(args.seconds)));
        let millis =
            |percent: usize| times.get(times.len() * percent / 100).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3);
        let memory = daemon
            .memory()
            .map_or("the daemon has ended".to_owned(), |[peak, now]| format!("peak {peak:>5} MiB, now {now:>5} MiB"));
        println!(
            "{which:<10?} {memory}; a polite caller: {:>5} calls, {refused} refused, p50 {:.2} ms, p99 {:.2} ms, longest {:.1} ms",
            times.len(),
            millis(50),
            millis(99),
            times.last().map_or(f64::NAN, |time| time.as_secs_f64() * 1e3),
        );
        attacker.shutdown_background();
    }
    Ok(())
}
