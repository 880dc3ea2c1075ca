//! Measures accelerd's parser, ruff's, tree-sitter's and CPython's on the same files in the same run, on one core and on all.
//!
//! ```text
//! cargo run --release --manifest-path tests/bench/parse/Cargo.toml -- FOLDER [ROUNDS] [PYTHON] > baseline_parse.jsonl
//! ```
//!
//! Prints one JSON line for each parser: what it reports for each file, and the time to build and drop the result. On one core
//! that is the CPU time of the thread, which other processes do not affect; on all cores it is wall time. Rounds of the parsers
//! alternate. All allocate with mimalloc, except CPython, whose time includes the Python objects of the tree, as `ast.parse`
//! creates them, and which runs one process for each core.

use std::{
    fs,
    hint::black_box,
    io::{self, Write},
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Instant,
};

use accelerd_parser::Options;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures `ast.parse` like the other parsers, on `cores` cores; prints the number of accepted files and the seconds, one
/// line for each round.
const CPYTHON: &str = r#"
import ast, multiprocessing, sys, time, warnings
warnings.simplefilter("ignore")
sources = [open(path, "rb").read() for path in sys.stdin.read().split("\n") if path]
def accepts(source):
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True
def accepts_number(at):
    return accepts(sources[at])
rounds, cores = map(int, sys.argv[1:])
if cores == 1:
    for _ in range(rounds):
        start = time.thread_time()
        accepted = sum(map(accepts, sources))
        print(accepted, time.thread_time() - start)
else:
    with multiprocessing.get_context("fork").Pool(cores) as pool:
        for _ in range(rounds):
            start = time.perf_counter()
            accepted = sum(pool.imap_unordered(accepts_number, range(len(sources)), 8))
            print(accepted, time.perf_counter() - start)
"#;

/// A parser and its seconds in each round.
struct Peer<'a> {
    name: &'static str,
    accepts: Box<dyn FnMut(&str) -> bool + 'a>,
    seconds: Vec<f64>,
    accepted: usize,
}

impl<'a> Peer<'a> {
    fn new(name: &'static str, accepts: impl FnMut(&str) -> bool + 'a) -> Self {
        Self { name, accepts: Box::new(accepts), seconds: Vec::new(), accepted: 0 }
    }
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or_else(|| io::Error::other("a folder is expected"))?;
    let rounds = arguments.next().map_or(Ok(7), |rounds| rounds.parse()).map_err(io::Error::other)?;
    let python = arguments.next().unwrap_or_else(|| "python3".into());
    let mut files = Vec::new();
    read(Path::new(&folder), &mut files)?;
    files.sort();

    let mut peers = peers()?;
    // One warm-up round, then the measured ones.
    for round in 0..=rounds {
        for peer in &mut peers {
            let start = processor_seconds();
            let accepted = files.iter().filter(|(_, text)| (peer.accepts)(text)).count();
            let took = processor_seconds() - start;
            if round > 0 {
                peer.seconds.push(took);
                peer.accepted = accepted;
            }
        }
    }
    let mut out = io::stdout().lock();
    for peer in &mut peers {
        say(&mut out, peer.name, 1, &files, peer.accepted, &mut peer.seconds)?;
    }
    let (version, accepted, mut seconds) = cpython(&python, rounds, 1, &files)?;
    say(&mut out, &version, 1, &files, accepted, &mut seconds)?;

    let cores = thread::available_parallelism()?.get();
    let mut taken = vec![(0, vec![]); peers.len()];
    for round in 0..=rounds {
        for (index, (accepted, seconds)) in taken.iter_mut().enumerate() {
            let start = Instant::now();
            *accepted = on_all(cores, index, &files);
            if round > 0 {
                seconds.push(start.elapsed().as_secs_f64());
            }
        }
    }
    for (peer, (accepted, seconds)) in peers.iter().zip(&mut taken) {
        say(&mut out, peer.name, cores, &files, *accepted, seconds)?;
    }
    let (version, accepted, mut seconds) = cpython(&python, rounds, cores, &files)?;
    say(&mut out, &version, cores, &files, accepted, &mut seconds)
}

/// Parses all files with parser number `which` on several threads, each of which takes the next file; returns how many it accepts.
fn on_all(cores: usize, which: usize, files: &[(PathBuf, String)]) -> usize {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut peer = peers().expect("they were made before").swap_remove(which);
        let mut accepted = 0;
        while let Some((_, text)) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            accepted += usize::from((peer.accepts)(text));
        }
        accepted
    };
    thread::scope(|threads| {
        let threads: Vec<_> = (0..cores).map(|_| threads.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no parser panics")).sum()
    })
}

fn peers<'a>() -> io::Result<Vec<Peer<'a>>> {
    let options = Options::default();
    let mut tree_sitter = tree_sitter::Parser::new();
    tree_sitter.set_language(&tree_sitter_python::LANGUAGE.into()).map_err(io::Error::other)?;
    Ok(vec![
        Peer::new("accelerd", move |text| black_box(accelerd_parser::parse(text.as_bytes(), &options)).outcome.is_ok()),
        Peer::new("ruff_python_parser", |text| black_box(ruff_python_parser::parse_module(text)).is_ok()),
        Peer::new("tree-sitter-python", move |text| {
            black_box(tree_sitter.parse(text, None)).is_some_and(|tree| !tree.root_node().has_error())
        }),
    ])
}

/// The CPU time of this thread if the system reports it, else wall time.
fn processor_seconds() -> f64 {
    thread_local!(static START: Instant = Instant::now());
    let said = fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = said.and_then(|said| said.split_whitespace().next()?.parse::<f64>().ok());
    nanoseconds.map_or_else(|| START.with(|start| start.elapsed().as_secs_f64()), |said| said / 1e9)
}

fn cpython(
    python: &str,
    rounds: usize,
    cores: usize,
    files: &[(PathBuf, String)],
) -> io::Result<(String, usize, Vec<f64>)> {
    let run = |arguments: &[&str]| {
        let mut child = Command::new(python)
            .args(arguments)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()?;
        let mut input = child.stdin.take().expect("its input is a pipe");
        for (path, _) in files {
            writeln!(input, "{}", path.display())?;
        }
        drop(input);
        Ok::<_, io::Error>(String::from_utf8_lossy(&child.wait_with_output()?.stdout).into_owned())
    };
    let version = run(&["-c", "import sys, platform; sys.stdin.read(); print('CPython', platform.python_version())"])?;
    let said = run(&["-c", CPYTHON, &(rounds + 1).to_string(), &cores.to_string()])?;
    let numbers: Vec<f64> = said.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    let accepted = numbers.first().map_or(0, |accepted| *accepted as usize);
    Ok((version.trim().to_owned(), accepted, numbers.chunks_exact(2).skip(1).map(|round| round[1]).collect()))
}

fn say(
    out: &mut impl Write,
    peer: &str,
    cores: usize,
    files: &[(PathBuf, String)],
    accepted: usize,
    seconds: &mut [f64],
) -> io::Result<()> {
    seconds.sort_by(f64::total_cmp);
    let Some((median, best)) = seconds.get(seconds.len() / 2).zip(seconds.first()) else {
        return Err(io::Error::other(format!("{peer} did not answer")));
    };
    let bytes: usize = files.iter().map(|(_, text)| text.len()).sum();
    let speed = bytes as f64 / median / 1e6;
    let files = files.len();
    writeln!(
        out,
        r#"{{"op": "parse", "baseline": "{peer}", "cores": {cores}, "files": {files}, "bytes": {bytes}, "accepted": {accepted}, "median_s": {median:.4}, "min_s": {best:.4}, "mb_per_s": {speed:.1}}}"#
    )
}

/// The Python files of a folder that are UTF-8.
fn read(folder: &Path, files: &mut Vec<(PathBuf, String)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() {
            read(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "py")
            && let Ok(text) = fs::read_to_string(&path)
        {
            files.push((path, text));
        }
    }
    Ok(())
}
