//! Compares the trees that the GPU parses from the CPU's tokens with the CPU's trees, and times the kernels.
//!
//! `parse_trees LIBRARIES VERSION REPEATS PATH...`: paths are folders of Python files, or files of sources, each after its length
//! as four little-endian bytes. LIBRARIES is the folder of NVRTC; the variable KERNEL_CACHE names a folder for compiled kernels.

#![allow(clippy::print_stdout, reason = "it is what the program is for")]

use std::{collections::BTreeMap, error::Error, fs, path::Path, sync::Barrier, time::Instant};

use accelerd_kernels::{
    Backend, Choice, Op, OpError, Settings,
    cpu::Pool,
    cuda::{self, Worker},
    discover,
    ops::{
        self,
        parse::{
            Outputs, Parse, ParseRequest,
            cuda::host::{HostLexed, HostTrees},
        },
    },
};
use accelerd_parser::{Columns, Options, parse};
use bytes::Bytes;

/// The daemon's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let [libraries, version, repeats, paths @ ..] = &args[..] else {
        return Err("LIBRARIES VERSION REPEATS PATH...".into());
    };
    let version: u8 = version.parse()?;
    let mut sources = Vec::new();
    for path in paths {
        collect(Path::new(path), &mut sources)?;
    }
    let cache = std::env::var_os("KERNEL_CACHE").map(Into::into);
    let settings = Settings {
        cuda_library_paths: vec![libraries.into()],
        kernel_cache: cache,
        kernel_cache_bytes: 64 << 20,
        pinned_bytes: 2 << 30,
        ..Settings::default()
    };
    let device = cuda::discover(&settings, &ops::modules(), &Pool::start(0)?)?.remove(0);
    let worker = Worker::open(device)?;
    let sources: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
    let bytes: usize = sources.iter().map(|source| source.len()).sum();
    let lexed = HostLexed::new(&sources);
    println!("{} sources, {bytes} bytes, {} tokens, {} lines", sources.len(), lexed.tokens(), lexed.lines());
    let on_device = lexed.upload(&worker)?;
    let trees = on_device.trees(version, &worker)?;
    compare(&sources, Options::version(version), &trees);
    let repeats = repeats.parse()?;
    time(&worker, repeats, bytes, || on_device.run(version, &worker).map_err(Into::into))?;
    drop(on_device);
    whole(worker, repeats, &sources, Options::version(version))
}

/// Compares and times the whole operation, from sources to columns on the host.
fn whole(worker: Worker, repeats: usize, sources: &[&[u8]], options: Options) -> Result<(), Box<dyn Error>> {
    let all = Outputs { tree: true, tokens: true, comments: true, outline: true, line_starts: true };
    let bytes_of = |source: &&[u8]| Bytes::copy_from_slice(source);
    let request = |outputs| ParseRequest::new(sources.iter().map(bytes_of).collect(), options, outputs);
    let bytes: usize = sources.iter().map(|source| source.len()).sum();
    let device = worker.device().clone();
    let mut gpu = Backend::Cuda(worker);
    let one = request(all);
    let got = Parse::run(&[&one], &mut gpu)?.remove(0);
    let settings = Settings { choice: Choice::Cpu, ..Settings::default() };
    let mut cpu = discover(&settings)?.devices.remove(0).open()?;
    let expected = Parse::run(&[&one], &mut cpu)?.remove(0);
    let wrong = expected.results.iter().zip(&got.results).filter(|(expected, got)| expected != got).count();
    println!("whole operation: {wrong} results differ, columns are equal: {}", expected.columns == got.columns);
    let tree = request(Outputs { tree: true, ..Outputs::default() });
    let clock = |what: &str, backend: &mut Backend| -> Result<(), Box<dyn Error>> {
        for _ in 0..repeats.min(4) {
            let start = Instant::now();
            let got = Parse::run(&[&tree], backend)?;
            let seconds = start.elapsed().as_secs_f64();
            drop(got);
            println!("{what}: {:.2} ms, {:.2} GB/s", seconds * 1e3, bytes as f64 / seconds / 1e9);
        }
        Ok(())
    };
    clock("whole operation on the CPU", &mut cpu)?;
    clock("whole operation on the GPU", &mut gpu)?;
    for workers in [2, 4].into_iter().filter(|_| repeats > 0) {
        let warm = Barrier::new(workers + 1);
        let all = &tree;
        let run = || -> Result<(), OpError> {
            let warmed = Worker::open(device.clone()).map(Backend::Cuda).and_then(|mut backend| {
                drop(Parse::run(&[all], &mut backend)?);
                Ok(backend)
            });
            warm.wait();
            let mut backend = warmed?;
            (0..repeats).try_for_each(|_| Parse::run(&[all], &mut backend).map(drop))
        };
        let seconds = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..workers).map(|_| scope.spawn(run)).collect();
            warm.wait();
            let start = Instant::now();
            threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))?;
            Ok::<_, OpError>(start.elapsed().as_secs_f64())
        })?;
        let rate = (bytes * repeats * workers) as f64 / seconds / 1e9;
        println!("whole operation by {workers} workers: {rate:.2} GB/s");
    }
    Ok(())
}

fn collect(path: &Path, sources: &mut Vec<Vec<u8>>) -> Result<(), Box<dyn Error>> {
    if path.is_dir() {
        let mut entries: Vec<_> =
            fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
        entries.sort();
        for entry in entries {
            if entry.is_dir() || entry.extension().is_some_and(|extension| extension == "py") {
                collect(&entry, sources)?;
            }
        }
        return Ok(());
    }
    let content = fs::read(path)?;
    if path.extension().is_some_and(|extension| extension == "py") {
        sources.push(content);
        return Ok(());
    }
    let mut rest = &content[..];
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let (source, next) = after.split_at(u32::from_le_bytes(*length) as usize);
        sources.push(source.to_vec());
        rest = next;
    }
    Ok(())
}

/// Prints how many sources are equal, and why others fall back.
fn compare(sources: &[&[u8]], options: Options, trees: &HostTrees) {
    let mut equal = 0;
    let mut wrong = 0;
    let mut fallen_back: BTreeMap<(u32, bool), (usize, usize)> = BTreeMap::new();
    for (number, source) in sources.iter().enumerate() {
        let parsed = parse(source, &options);
        let reasons = trees.summary[number][3];
        if reasons != 0 {
            let entry = fallen_back.entry((reasons, parsed.outcome.is_ok())).or_default();
            (entry.0, entry.1) = (entry.0 + 1, entry.1 + source.len());
            continue;
        }
        match parsed.outcome.map(|columns| difference(&columns, trees, number)) {
            Ok(None) => equal += 1,
            Ok(Some(what)) => {
                wrong += 1;
                if wrong < 10 {
                    println!("source {number}: {what}");
                }
            }
            Err(error) => {
                wrong += 1;
                if wrong < 10 {
                    println!("source {number}: accepted despite {error} at {}", error.start);
                }
            }
        }
    }
    println!("{equal} equal, {wrong} different");
    for ((reasons, right), (count, bytes)) in fallen_back {
        println!("fell back for {reasons:#b}: {count} sources, {bytes} bytes, valid: {right}");
    }
}

fn difference(columns: &Columns, trees: &HostTrees, number: usize) -> Option<String> {
    let [from, to] = [trees.summary[number], trees.summary[number + 1]];
    let part = |index: usize| from[index] as usize..to[index] as usize;
    let nodes = part(0);
    let values = part(1);
    let words = |name, expected: &[u32], got: &[u32]| first_difference(name, expected, got);
    let bytes = |name, expected: &[u8], got: &[u8]| first_difference(name, expected, got);
    bytes("kinds", bytemuck::cast_slice(&columns.kinds), &trees.kinds[nodes.clone()])
        .or_else(|| bytes("fields", bytemuck::cast_slice(&columns.fields), &trees.fields[nodes.clone()]))
        .or_else(|| words("parents", &columns.parents, &trees.parents[nodes.clone()]))
        .or_else(|| words("starts", &columns.starts, &trees.starts[nodes.clone()]))
        .or_else(|| words("ends", &columns.ends, &trees.ends[nodes.clone()]))
        .or_else(|| words("aux", &columns.aux, &trees.aux[nodes]))
        .or_else(|| bytes("tags", bytemuck::cast_slice(&columns.value_tags), &trees.value_tags[values.clone()]))
        .or_else(|| words("value starts", &columns.value_starts, &trees.value_starts[values.clone()]))
        .or_else(|| words("value ends", &columns.value_ends, &trees.value_ends[values]))
        .or_else(|| bytes("extra", &columns.extra, &trees.extra[part(2)]))
}

fn first_difference<T: PartialEq + std::fmt::Debug>(name: &str, expected: &[T], got: &[T]) -> Option<String> {
    let pairs = || expected.iter().zip(got);
    if let Some(index) = pairs().position(|(expected, got)| expected != got) {
        return Some(format!("{name} {index}: {:?} expected, got {:?}", expected[index], got[index]));
    }
    (expected.len() != got.len()).then(|| format!("{} {name} expected, got {}", expected.len(), got.len()))
}

fn time(
    worker: &Worker,
    repeats: usize,
    bytes: usize,
    mut run: impl FnMut() -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    if repeats == 0 {
        return Ok(());
    }
    let before: BTreeMap<_, _> =
        worker.device().kernel_stats().into_iter().map(|stats| (stats.name, (stats.calls, stats.nanos))).collect();
    let start = Instant::now();
    for _ in 0..repeats {
        run()?;
    }
    let seconds = start.elapsed().as_secs_f64() / repeats as f64;
    println!("{:.3} ms per run on the host's clock, {:.1} GB/s", seconds * 1e3, bytes as f64 / seconds / 1e9);
    let mut all = 0.0;
    for stats in worker.device().kernel_stats() {
        let (calls, nanos) = before.get(stats.name).copied().unwrap_or_default();
        if stats.calls > calls {
            let each = (stats.nanos - nanos) as f64 / (stats.calls - calls) as f64;
            all += each;
            println!("{:24} {:9.1} us {:8.1} GB/s", stats.name, each / 1e3, bytes as f64 / each);
        }
    }
    println!("{:24} {:9.1} us {:8.1} GB/s", "all", all / 1e3, bytes as f64 / all);
    Ok(())
}
