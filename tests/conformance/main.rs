//! Each backend on a corpus, with all feature versions in one batch, against the CPU on each version alone: diagnostics,
//! outlines and every column, bit for bit. The scripts in this folder compare the CPU's columns with CPython.
//!
//! `ACCELERD_CORPORA` names folders of Python files, and decompressed files of `pack.py`; the default is this workspace's own
//! Python. Lists `sources::backend`, as parity tests do.

#![expect(clippy::print_stdout, reason = "prints statistics of the corpora")]

use std::{collections::BTreeMap, env, fs, path::Path};

use accelerd_kernels::{
    Backend, Device,
    ops::parse::{Options, Outputs, Parse, ParseRequest, ParseResponse},
};
use accelerd_parity::{columns::differences, device, open, run_batch};
use bytes::Bytes;
use libtest_mimic::{Arguments, Failed, Trial};

const ALL: Outputs = Outputs { tree: true, tokens: true, comments: true, outline: true, line_starts: true };
const VERSIONS: std::ops::RangeInclusive<u8> = 8..=14;
/// Bytes of source per batch.
const SLICE_BYTES: usize = 16 << 20;
/// Differences to print.
const MAX_SHOWN: usize = 20;
/// Bytes of a source to print.
const MAX_BYTES_SHOWN: usize = 400;

/// Named sources.
struct Corpus {
    name: String,
    sources: Vec<Bytes>,
}

fn main() {
    let trial = |(name, cuda): (&str, bool)| {
        let run = move || verify(device(cuda).ok_or("there is no such device")?).map_err(Failed::from);
        Trial::test(format!("sources::{name}"), run).with_ignored_flag(device(cuda).is_none())
    };
    libtest_mimic::run(&Arguments::from_args(), [("cpu", false), ("cuda", true)].map(trial).into()).exit();
}

/// Compares all corpora and prints statistics.
fn verify(subject: &Device) -> Result<(), String> {
    let mut cpu = open(device(false).ok_or("there is no CPU")?)?;
    let mut backend = open(subject)?;
    let before = fallbacks(subject);
    let mut sum = Sum::default();
    for corpus in corpora()? {
        let sum_before = sum;
        for slice in slices(&corpus.sources) {
            sum.add(&corpus.name, slice, &mut cpu, &mut backend)?;
        }
        let Sum { sources, bytes, different } = sum.since(sum_before);
        println!("{}: {sources} sources, {bytes} bytes, {different} different", corpus.name);
    }
    let fallback_counts: BTreeMap<_, _> = fallbacks(subject)
        .into_iter()
        .map(|(reason, count)| (reason, count - before.get(reason).copied().unwrap_or_default()))
        .filter(|(_, count)| *count > 0)
        .collect();
    let by_reason: Vec<_> = fallback_counts.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    let all = fallback_counts.values().sum::<u64>();
    let by_reason = by_reason.join(", ");
    let Sum { sources, bytes, different } = sum;
    println!("{sources} sources, {bytes} bytes, {different} different, {all} fell back to the CPU ({by_reason})");
    if sources == 0 {
        return Err("the corpora have no sources".into());
    }
    if different > 0 { Err(format!("{different} sources differ")) } else { Ok(()) }
}

/// Sources of a device that fell back to the CPU so far, by reason.
fn fallbacks(device: &Device) -> BTreeMap<&'static str, u64> {
    device.fallback_stats().into_iter().map(|stats| (stats.reason, stats.items)).collect()
}

/// Counts of comparisons; a source counts once per version.
#[derive(Clone, Copy, Default)]
struct Sum {
    sources: usize,
    bytes: usize,
    different: usize,
}

impl Sum {
    fn since(self, before: Self) -> Self {
        let Self { sources, bytes, different } = before;
        Self { sources: self.sources - sources, bytes: self.bytes - bytes, different: self.different - different }
    }

    fn add(&mut self, name: &str, sources: &[Bytes], cpu: &mut Backend, backend: &mut Backend) -> Result<(), String> {
        let request = |feature_version| ParseRequest::new(sources.to_vec(), Options::version(feature_version), ALL);
        let requests: Vec<_> = VERSIONS.map(request).collect();
        let responses = run_batch::<Parse>(&requests, backend).map_err(|error| error.to_string())?;
        for (request, got) in requests.iter().zip(&responses) {
            let alone = run_batch::<Parse>(std::slice::from_ref(request), cpu).map_err(|error| error.to_string())?;
            self.compare(name, request, &alone[0], got);
        }
        Ok(())
    }

    fn compare(&mut self, name: &str, request: &ParseRequest, expected: &ParseResponse, got: &ParseResponse) {
        let found = differences(expected, got);
        for (index, what) in found.iter().take(MAX_SHOWN.saturating_sub(self.different)) {
            let source = request.sources.get(*index).map(|source| source.slice(..source.len().min(MAX_BYTES_SHOWN)));
            let version = request.options.feature_version;
            println!("{name}, source {index}, 3.{version}: {what} differs: {:?}", source.unwrap_or_default());
        }
        self.sources += request.sources.len();
        self.bytes += request.sources.iter().map(Bytes::len).sum::<usize>();
        self.different += found.len();
    }
}

/// Divides sources into batches of at most `SLICE_BYTES`, with at least one source each.
fn slices(sources: &[Bytes]) -> Vec<&[Bytes]> {
    let mut slices = vec![];
    let mut rest = sources;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |source: &&Bytes| {
            bytes += source.len();
            bytes <= SLICE_BYTES
        };
        let (slice, after) = rest.split_at(rest.iter().take_while(fits).count().max(1));
        slices.push(slice);
        rest = after;
    }
    slices
}

fn corpora() -> Result<Vec<Corpus>, String> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("tests lie in the workspace")?;
    let Some(paths) = env::var_os("ACCELERD_CORPORA") else { return Ok(vec![folder(own)?]) };
    let mut corpora = vec![];
    for path in env::split_paths(&paths) {
        if path.is_dir() {
            corpora.push(folder(&path)?);
        } else {
            let packed = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            unpack(&packed.into(), &mut corpora).ok_or_else(|| format!("{}: it is truncated", path.display()))?;
        }
    }
    Ok(corpora)
}

/// The Python files of a folder, except for build outputs.
fn folder(path: &Path) -> Result<Corpus, String> {
    let mut sources = vec![];
    collect(path, &mut sources).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Corpus { name: path.display().to_string(), sources })
}

fn collect(folder: &Path, into: &mut Vec<Bytes>) -> std::io::Result<()> {
    let mut entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    entries.sort();
    for entry in entries {
        if entry.is_dir() && !entry.is_symlink() {
            if entry.file_name().is_none_or(|name| name != "target" && name != ".git") {
                collect(&entry, into)?;
            }
        } else if entry.extension().is_some_and(|extension| extension == "py") {
            into.push(fs::read(&entry)?.into());
        }
    }
    Ok(())
}

/// The corpora of a packed file; none if it is truncated.
fn unpack(packed: &Bytes, corpora: &mut Vec<Corpus>) -> Option<()> {
    let mut rest = packed.clone();
    while !rest.is_empty() {
        let name = String::from_utf8_lossy(&block(&mut rest)?).into_owned();
        let count = u32::from_le_bytes(block(&mut rest)?.as_ref().try_into().ok()?);
        let sources = (0..count).map(|_| block(&mut rest)).collect::<Option<_>>()?;
        corpora.push(Corpus { name, sources });
    }
    Some(())
}

/// Takes a length-prefixed block.
fn block(rest: &mut Bytes) -> Option<Bytes> {
    let length = u32::from_le_bytes(*rest.first_chunk()?) as usize;
    let end = length.checked_add(4).filter(|&end| end <= rest.len())?;
    Some(rest.split_to(end).slice(4..))
}
