//! Benchmarks the lexer alone: `lex_speed FOLDER...` lexes all Python files in the folders ten times.
//!
//! Measures the thread's CPU time on Linux, which a busy machine disturbs less, and wall-clock time elsewhere.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use accelerd_parser::lexer::lex;

fn collect(folder: &Path, texts: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, texts);
        } else if path.extension().is_some_and(|extension| extension == "py") {
            texts.extend(std::fs::read_to_string(&path));
        }
    }
}

/// CPU seconds of this thread.
fn seconds(start: Instant) -> f64 {
    let scheduled = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let ran = scheduled.and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    ran.map_or_else(|| start.elapsed().as_secs_f64(), |nanoseconds| nanoseconds as f64 / 1e9)
}

fn main() {
    let mut texts = Vec::new();
    for folder in std::env::args().skip(1) {
        collect(Path::new(&folder), &mut texts);
    }
    let bytes: usize = texts.iter().map(String::len).sum();
    let start = Instant::now();
    let mut times: Vec<f64> = (0..10)
        .map(|_| {
            let before = seconds(start);
            let tokens: usize = texts.iter().map(|text| black_box(lex(text)).tokens.kinds.len()).sum();
            black_box(tokens);
            seconds(start) - before
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let tokens: usize = texts.iter().map(|text| lex(text).tokens.kinds.len()).sum();
    let best = times[0];
    let median = times[times.len() / 2];
    eprintln!(
        "{} files, {:.1} MB, {tokens} tokens: median {:.0} MB/s, {:.1} ns a token; best {:.0} MB/s",
        texts.len(),
        bytes as f64 / 1e6,
        bytes as f64 / median / 1e6,
        median * 1e9 / tokens as f64,
        bytes as f64 / best / 1e6
    );
}
