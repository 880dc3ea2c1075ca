//! Benchmarks the lexer and the whole parser on the Python files of a folder.
//!
//! `speed FOLDER [ROUNDS]` prints the best round.

use std::hint::black_box;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use accelerd_parser::{Options, lexer, parse};

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or_else(|| io::Error::other("a folder is expected"))?;
    let rounds: u32 = arguments.next().and_then(|rounds| rounds.parse().ok()).unwrap_or(5);
    let mut sources = Vec::new();
    read(Path::new(&folder), &mut sources)?;
    let bytes: usize = sources.iter().map(String::len).sum();
    let tokens: usize = sources.iter().map(|source| lexer::lex(source).tokens.kinds.len()).sum();
    let options = Options::default();
    let lexing = best(rounds, || sources.iter().for_each(|source| drop(black_box(lexer::lex(source)))));
    let parsing =
        best(rounds, || sources.iter().for_each(|source| drop(black_box(parse(source.as_bytes(), &options)))));
    let mut output = io::stdout().lock();
    writeln!(output, "{} files, {bytes} bytes, {tokens} tokens", sources.len())?;
    for (what, took) in [("lexer", lexing), ("all", parsing)] {
        let nanoseconds = took.as_secs_f64() * 1e9;
        let speed = bytes as f64 / nanoseconds * 1e3;
        writeln!(output, "{what}: {:.1} ns a token, {speed:.0} MB/s", nanoseconds / tokens as f64)?;
    }
    Ok(())
}

fn best(rounds: u32, mut work: impl FnMut()) -> Duration {
    let mut once = || {
        let start = Instant::now();
        let used = cpu_time();
        work();
        used.and_then(|used| cpu_time()?.checked_sub(used)).unwrap_or_else(|| start.elapsed())
    };
    (0..rounds).map(|_| once()).min().unwrap_or_default()
}

/// CPU time of this thread, on Linux.
fn cpu_time() -> Option<Duration> {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    statistics.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// Reads the Python files of a folder that are UTF-8.
fn read(folder: &Path, sources: &mut Vec<String>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read(&path, sources)?;
        } else if path.extension().is_some_and(|extension| extension == "py") {
            sources.extend(std::fs::read_to_string(path).ok());
        }
    }
    Ok(())
}
