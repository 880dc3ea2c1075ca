//! Measures parsing of 1 to 1,000 MB of Python, inside the library (bytes to columns, on each device) and through gRPC.
//!
//! `cargo run --release -p accelerd-tests --example parse_sizes -- FOLDER...` prints one table. Settings come from the
//! environment, like the daemon's.
#![allow(clippy::print_stdout, reason = "a command for people")]

use std::{env, error::Error, fs, net::SocketAddr, path::Path, sync::Arc, time::Instant};

use accelerd::{
    Config, Daemon,
    config::{ByteSize, HttpListen, load},
};
use accelerd_kernels::{
    Backend, Op, discover,
    ops::parse::{Options, Outputs, Parse, ParseRequest},
};
use accelerd_proto::v1::{self, parse_service_client::ParseServiceClient};
use bytes::Bytes;
use clap::Parser;
use futures::{StreamExt, TryStreamExt, stream};
use tokio::runtime::Builder;
use tonic::transport::{Channel, Endpoint};

/// The allocator of the daemon.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const LARGEST: usize = 1 << 30;

#[derive(Parser)]
#[command(about = "Measures parsing by input size, inside the library and through gRPC")]
struct Args {
    /// Folders of Python files; files are repeated up to the size.
    #[arg(required = true)]
    folders: Vec<String>,
    /// Sizes in megabytes, one row each.
    #[arg(long, value_delimiter = ',', default_value = "1,10,100,1000")]
    sizes: Vec<usize>,
    /// Seconds for each figure, within three to fifty runs.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Size of a gRPC call in megabytes.
    #[arg(long, default_value_t = 4)]
    call: usize,
    /// Calls in flight.
    #[arg(long, default_value_t = 8)]
    in_flight: usize,
    /// Connections, used in rotation.
    #[arg(long, default_value_t = 4)]
    connections: usize,
}

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    let args = Args::parse();
    let mut files = vec![];
    for folder in &args.folders {
        collect(Path::new(folder), &mut files)?;
    }
    if files.iter().all(Bytes::is_empty) {
        return Err("no Python was found there".into());
    }
    let sources: Vec<Vec<Bytes>> = args.sizes.iter().map(|size| repeat(&files, size * 1_000_000)).collect();
    let config = settings()?;
    let mut columns = library(&args, &config, &sources)?;
    columns.push(grpc(&args, config, &sources)?);
    print(&args, &columns);
    Ok(())
}

/// A column of the table: its name and the seconds of each run, by size.
struct Column {
    name: String,
    runs: Vec<Vec<f64>>,
}

fn settings() -> Result<Config, Failure> {
    let mut config = load(None, env::vars(), &[])?;
    let free: SocketAddr = "127.0.0.1:0".parse()?;
    (config.server.listen, config.server.admin_listen, config.server.health_listen) = (free, free, free);
    config.http.listen = HttpListen::Off;
    config.server.max_message_bytes = config.server.max_message_bytes.max(ByteSize::mib(256));
    Ok(config)
}

/// The Python files of a folder, in an order that mixes long and short files.
fn collect(folder: &Path, into: &mut Vec<Bytes>) -> std::io::Result<()> {
    let mut entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    entries.sort();
    for entry in entries {
        if entry.is_dir() && !entry.is_symlink() {
            collect(&entry, into)?;
        } else if entry.extension().is_some_and(|extension| extension == "py") {
            into.push(fs::read(&entry)?.into());
        }
    }
    Ok(())
}

/// Repeats files up to a size; skips a file if a smaller one comes closer.
fn repeat(files: &[Bytes], bytes: usize) -> Vec<Bytes> {
    let mut sources = vec![];
    let mut total = 0;
    let mut index = 0;
    while total < bytes {
        index = (index + 7919) % files.len();
        total += files[index].len();
        sources.push(files[index].clone());
    }
    sources
}

/// Requests on each device.
fn library(args: &Args, config: &Config, sources: &[Vec<Bytes>]) -> Result<Vec<Column>, Failure> {
    let mut columns = vec![];
    for device in discover(&config.devices())?.devices {
        let mut backend = device.open()?;
        let mut run = |sources: &Vec<Bytes>| {
            let outputs = Outputs { tree: true, ..Outputs::default() };
            let options = Options::version(14);
            let request = ParseRequest::new(sources.clone(), options, outputs);
            measure(args.seconds, || parsed(&request, &mut backend))
        };
        let runs = sources.iter().map(&mut run).collect::<Result<_, _>>()?;
        columns.push(Column { name: format!("library, {}", device.id()), runs });
    }
    Ok(columns)
}

fn parsed(request: &ParseRequest, backend: &mut Backend) -> Result<usize, Failure> {
    Ok(Parse::run(&[request], backend)?.iter().map(|response| response.columns.kinds.len()).sum())
}

/// Concurrent calls of a few megabytes against a daemon in this process.
fn grpc(args: &Args, config: Config, sources: &[Vec<Bytes>]) -> Result<Column, Failure> {
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let (daemon, clients) = runtime.block_on(async {
        let daemon = Daemon::start(config).await?;
        let mut clients = vec![];
        for _ in 0..args.connections.max(1) {
            clients.push(connect(daemon.grpc_addr()).await?);
        }
        Ok::<_, Failure>((daemon, clients))
    })?;
    let mut run = |sources: &Vec<Bytes>| {
        let requests = calls(sources, args.call * 1_000_000);
        measure(args.seconds, || runtime.block_on(all(&clients, &requests, args.in_flight)))
    };
    let runs = sources.iter().map(&mut run).collect::<Result<_, _>>()?;
    drop(clients);
    runtime.block_on(daemon.shutdown());
    Ok(Column { name: format!("gRPC, calls of {} MB, {} in flight", args.call, args.in_flight), runs })
}

async fn connect(address: SocketAddr) -> Result<ParseServiceClient<Channel>, tonic::transport::Error> {
    let endpoint = Endpoint::try_from(format!("http://{address}"))?
        .initial_stream_window_size(64 << 20)
        .initial_connection_window_size(128 << 20);
    let client = ParseServiceClient::new(endpoint.connect().await?);
    Ok(client.max_decoding_message_size(LARGEST).max_encoding_message_size(LARGEST))
}

/// Groups sources into requests of about `bytes` bytes, with at least one source each.
fn calls(sources: &[Bytes], bytes: usize) -> Arc<[v1::ParseRequest]> {
    let mut parts: Vec<Vec<Bytes>> = vec![];
    let mut room = 0;
    for source in sources {
        match parts.last_mut() {
            Some(part) if source.len() <= room => part.push(source.clone()),
            _ => {
                parts.push(vec![source.clone()]);
                room = bytes;
            }
        }
        room = room.saturating_sub(source.len());
    }
    parts.into_iter().map(|sources| v1::ParseRequest { sources, ..v1::ParseRequest::default() }).collect()
}

/// Makes all calls and counts the returned nodes.
async fn all(
    clients: &[ParseServiceClient<Channel>],
    requests: &Arc<[v1::ParseRequest]>,
    in_flight: usize,
) -> Result<usize, Failure> {
    let call = |at: usize| {
        let mut client = clients[at % clients.len()].clone();
        let requests = Arc::clone(requests);
        // One task for each call, so that responses are decoded on several threads.
        tokio::spawn(async move { client.parse(requests[at].clone()).await })
    };
    let answers = stream::iter(0..requests.len()).map(call).buffer_unordered(in_flight.max(1));
    let nodes = answers.map_err(Failure::from).and_then(async |answer| {
        let nodes = answer?.into_inner().nodes.map_or(0, |nodes| nodes.kinds.len());
        Ok(nodes)
    });
    nodes.try_fold(0, async |sum, nodes| Ok(sum + nodes)).await
}

/// The seconds of each run after a warm-up; every run must return the same number of nodes.
fn measure(seconds: f64, mut run: impl FnMut() -> Result<usize, Failure>) -> Result<Vec<f64>, Failure> {
    let nodes = run()?;
    let mut runs = vec![];
    let begin = Instant::now();
    while runs.len() < 3 || (runs.len() < 50 && begin.elapsed().as_secs_f64() < seconds) {
        let start = Instant::now();
        let got = run()?;
        runs.push(start.elapsed().as_secs_f64());
        if got != nodes {
            return Err(format!("{nodes} nodes expected, got {got}").into());
        }
    }
    runs.sort_by(f64::total_cmp);
    Ok(runs)
}

fn print(args: &Args, columns: &[Column]) {
    let names: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
    println!("| source | {} |\n|---|{}", names.join(" | "), "---|".repeat(names.len()));
    for (index, size) in args.sizes.iter().enumerate() {
        let cells: Vec<_> = columns.iter().map(|column| cell(*size, &column.runs[index])).collect();
        println!("| {size} MB | {} |", cells.join(" | "));
    }
}

/// The median, the 10th and 90th percentile (of few runs: minimum and maximum), and the rate of the median.
fn cell(megabytes: usize, runs: &[f64]) -> String {
    let last = runs.len() - 1;
    let [low, median, high] = [last / 10, last / 2, (last * 9).div_ceil(10)].map(|index| runs[index] * 1e3);
    format!("{median:.2} ms ({low:.2} to {high:.2}), {:.2} GB/s", megabytes as f64 / median)
}
