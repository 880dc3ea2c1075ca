//! Benchmarks the GPU's lexer, kernel by kernel: `parse_bench FOLDER [MEGABYTES..]` (1 10 100) lexes a folder's Python files,
//! repeated up to each size: as files, as one text, and as files of a kilobyte. `ACCELERD_CUDA_LIBRARY_PATH` names folders with
//! NVRTC.
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

use std::{env, fs, path::Path, time::Instant};

use accelerd_kernels::{
    Backend, Choice, Settings, discover,
    ops::parse::cuda::{LexerReason, Sources, host::HostTokens, lex},
};

/// Timed runs, of which the first is cold.
const RUNS: usize = 8;

fn main() {
    let mut arguments = env::args().skip(1).filter(|argument| argument != "--bench");
    let folder = arguments.next().expect("a folder");
    let mut sizes: Vec<usize> = arguments.map(|size| size.parse().expect("megabytes")).collect();
    if sizes.is_empty() {
        sizes = vec![1, 10, 100];
    }
    let mut files = vec![];
    collect(Path::new(&folder), &mut files);
    files.sort_by_key(String::len);
    let cache = env::temp_dir().join("accelerd-parse-bench");
    for megabytes in sizes {
        let bytes = megabytes * 1_000_000;
        let many: Vec<&str> = repeat(&files, bytes);
        let one = many.iter().flat_map(|text| [*text, "\n"]).collect::<String>();
        let tiny: Vec<String> = files.iter().flat_map(|text| kilobytes(text)).collect();
        measure(&format!("{megabytes} MB, files"), &many, &cache);
        measure(&format!("{megabytes} MB, one text"), &[&one], &cache);
        measure(&format!("{megabytes} MB, files of 1 KB"), &repeat(&tiny, bytes), &cache);
    }
}

/// Repeats texts up to a size, with long and short ones mixed.
fn repeat(files: &[String], bytes: usize) -> Vec<&str> {
    let mut texts = vec![];
    let mut total = 0;
    let mut index = 0;
    while total < bytes {
        index = (index + 7919) % files.len();
        total += files[index].len();
        texts.push(files[index].as_str());
    }
    texts
}

/// Splits a text before definitions into pieces of about a kilobyte.
fn kilobytes(text: &str) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for line in text.split_inclusive('\n') {
        if pieces.last().is_some_and(|last| last.len() > 1000) && line.starts_with("def ") {
            pieces.push(String::new());
        }
        if let Some(last) = pieces.last_mut() {
            last.push_str(line);
        }
    }
    pieces
}

fn measure(name: &str, texts: &[&str], cache: &Path) {
    let folders = env::var_os("ACCELERD_CUDA_LIBRARY_PATH").unwrap_or_default();
    let settings = Settings {
        choice: Choice::Cuda,
        cuda_library_paths: env::split_paths(&folders).collect(),
        kernel_cache: Some(cache.to_owned()),
        kernel_cache_bytes: 1 << 30,
        staging_bytes: 64 << 20,
        pinned_bytes: 512 << 20,
        ..Settings::default()
    };
    let found = discover(&settings).unwrap_or_else(|e| panic!("{e}"));
    let device = found.devices.first().expect("CUDA was asked for");
    let backend = device.open().expect("a worker");
    let Backend::Cuda(worker) = &backend else { panic!("a GPU's worker") };
    let sources = Sources::upload(texts, worker).unwrap_or_else(|e| panic!("{e}"));
    let mut walls = vec![];
    for run in 0..RUNS {
        worker.synchronize().unwrap_or_else(|e| panic!("{e}"));
        let start = Instant::now();
        let tokens = lex(&sources, worker).unwrap_or_else(|e| panic!("{e}"));
        walls.push(start.elapsed().as_secs_f64());
        if run == 0 {
            report(
                name,
                texts,
                &HostTokens::download(&tokens, worker).unwrap_or_else(|e| panic!("{e}")),
                sources.bytes(),
            );
            let counts = (tokens.token_count, tokens.line_count, tokens.logical_count, tokens.name_count);
            println!("  tokens, lines, logical lines, names: {counts:?}");
        }
    }
    worker.synchronize().unwrap_or_else(|e| panic!("{e}"));
    let gigabytes = sources.bytes() as f64 / 1e9;
    let mut sum = 0.0;
    for kernel in device.kernel_stats() {
        let each = kernel.nanos as f64 / kernel.calls.max(1) as f64 / 1e9;
        sum += each;
        println!("  {:14} {:9.1} us {:9.1} GB/s", kernel.name, each * 1e6, gigabytes / each);
    }
    walls.sort_by(f64::total_cmp);
    let wall = walls[RUNS / 2];
    println!("  {:14} {:9.1} us {:9.1} GB/s", "all kernels", sum * 1e6, gigabytes / sum);
    println!("  {:14} {:9.1} us {:9.1} GB/s", "call", wall * 1e6, gigabytes / wall);
}

fn report(name: &str, texts: &[&str], tokens: &HostTokens, bytes: usize) {
    let fallen_back = tokens.flags.iter().filter(|flag| **flag != 0).count();
    let mut reasons: Vec<_> = tokens.flags.iter().flat_map(|flag| LexerReason::of(*flag)).collect();
    reasons.sort_unstable();
    let counts: Vec<_> = reasons.chunk_by(|a, b| a == b).map(|same| format!("{} {}", same.len(), same[0])).collect();
    println!("{name}: {} sources, {bytes} bytes, {fallen_back} fell back: {}", texts.len(), counts.join(", "));
}

fn collect(folder: &Path, into: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, into);
        } else if path.extension().is_some_and(|end| end == "py") {
            into.extend(fs::read_to_string(&path));
        }
    }
}
