//! Synchronises a collection with files on disk: walks, reads, compares, sends changed files and deletes removed ones.
//!
//! The chunks of a file carry its hash. The first chunk of a file is written last, so that its hash in the collection implies
//! that the whole file is stored; the next run, on any machine, completes an interrupted one.

mod outline;
mod plan;
pub mod read;
mod send;

use std::{
    collections::BTreeSet,
    path::PathBuf,
    time::{Duration, Instant},
};

use accelerd_client::{Client, Code, Collection, CollectionOptions, Filter, Prompt, SearchOptions, Value, proto};
use clap::Args;
use serde::Serialize;

use self::{read::SplitOptions, send::Tally};
use super::{MAX_HITS, prompts::CollectionPrompts};
use crate::{
    args::size,
    chunk::Windows,
    complete,
    error::{CliError, Result},
    format,
    output::{Output, Report},
    renderer::{Renderer, Style},
    walk::{self, Walked},
};

/// Skipped files that notes name.
const MAX_NAMED: usize = 20;

/// Files per call that deletes stale chunks.
const FILES_A_DELETE: usize = 1_000;

/// Index files for search; only files that changed since the last run are sent.
///
/// Python, Rust, JavaScript, TypeScript, Go, Java, C and C++ are split into functions and classes, other files into windows of
/// lines. Respects .gitignore, does not follow symlinks, and skips hidden, binary and very large files. Texts are read as UTF-8,
/// UTF-16 with a byte order mark, in the encoding that they declare in one of the first two lines (`coding: latin-1`), or else as
/// Japanese or Latin-1. Changed files are replaced, and removed files are deleted from the collection. An interrupted run keeps
/// what was sent; the same command resumes it.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct IndexArgs {
    /// Files and folders to index.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// The collection; created if it does not exist.
    #[arg(long, short, add = complete::collections())]
    collection: String,
    /// Model of a new collection [default: builtin].
    #[arg(long, value_name = "MODEL", add = complete::models())]
    model: Option<String>,
    #[command(flatten)]
    prompts: CollectionPrompts,
    /// Fail if the collection exists without a full-text index. A new collection has one by default.
    #[arg(long, hide = true)]
    hybrid: bool,
    /// Create the collection without a full-text index, which saves memory; `search` then uses vectors only.
    #[arg(long, visible_alias = "vectors-only", conflicts_with = "hybrid")]
    no_hybrid: bool,
    /// Create a durable collection, which survives a restart or crash; fails if the daemon has no --data-dir. With one,
    /// collections are durable by default.
    #[arg(long)]
    durable: bool,
    /// Create a collection in memory only, which a restart discards.
    #[arg(long, conflicts_with = "durable")]
    in_memory: bool,
    /// Exclude files that match, as in a .gitignore; can be repeated.
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Show what would be done without changing anything.
    #[arg(long)]
    dry_run: bool,
    /// Use this name instead of the absolute path of the folder, so that several machines can share a collection.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Lines per window, and maximum lines of a function or class that is not split.
    #[arg(long, default_value_t = 40, value_name = "N")]
    lines: usize,
    /// Lines that consecutive windows share.
    #[arg(long, default_value_t = 10, value_name = "N")]
    overlap: usize,
    /// Skip larger files.
    #[arg(long, default_value = "1MiB", value_parser = size, value_name = "SIZE")]
    max_file_size: u64,
}

/// The built-in model.
const DEFAULT_MODEL: &str = "builtin";

/// Payload field of a chunk's text, in collections with a full-text index.
const TEXT_FIELD: &str = "text";

#[derive(Debug, Serialize)]
struct Summary {
    collection: String,
    dry_run: bool,
    files: u64,
    indexed: u64,
    unchanged: u64,
    removed: u64,
    skipped: Skipped,
    skipped_files: Vec<SkippedFile>,
    chunks: u64,
    deleted_chunks: u64,
    bytes: u64,
    seconds: f64,
    chunks_per_second: f64,
}

/// Skipped files by reason.
#[derive(Clone, Debug, Default, Serialize)]
struct Skipped {
    empty: u64,
    binary: u64,
    large: u64,
    unreadable: u64,
    /// Of an unknown encoding, or not valid in their own.
    undecodable: u64,
    /// Named in other bytes than UTF-8.
    misnamed: u64,
}

/// A file that is not in the collection.
#[derive(Clone, Debug, Serialize)]
struct SkippedFile {
    path: String,
    reason: String,
}

/// Names the first skipped files. Empty files need no attention.
fn name_skipped(skipped: &[SkippedFile], output: &Output) {
    for SkippedFile { path, reason } in skipped.iter().take(MAX_NAMED) {
        output.note(format!("skipped {path}: {reason}"));
    }
    if let Some(more) = skipped.len().checked_sub(MAX_NAMED).filter(|more| *more > 0) {
        output.note(format!("skipped {more} more files; --json names all"));
    }
}

/// The files that the walk skipped.
fn skipped_by_walk(walked: &Walked, max_size: u64) -> Vec<SkippedFile> {
    let max_size = format::bytes(max_size);
    let large = |(path, size): &(String, u64)| {
        let reason = format!("its {} are more than --max-file-size {max_size}", format::bytes(*size));
        SkippedFile { path: path.clone(), reason }
    };
    let misnamed = |path: &String| SkippedFile { path: path.clone(), reason: "its name is not UTF-8".to_owned() };
    walked.large.iter().map(large).chain(walked.misnamed.iter().map(misnamed)).collect()
}

impl Report for Summary {
    fn render(&self, renderer: &mut Renderer) {
        let would = if self.dry_run { "would index" } else { "indexed" };
        let collection = renderer.style(Style::Name, &self.collection);
        let figures = renderer.style(Style::Title, format::plural(self.indexed, "file"));
        if self.indexed + self.removed == 0 {
            renderer.line(format!("{collection} is up to date"));
        } else {
            renderer.line(format!("{would} {figures} into {collection}"));
        }
        let time = format::time(Duration::try_from_secs_f64(self.seconds).unwrap_or_default());
        let mut facts = vec![];
        if self.chunks > 0 {
            facts.extend([("chunks", format::count(self.chunks)), ("text", format::bytes(self.bytes))]);
        }
        if !self.dry_run {
            let rate = format!(", {} chunks/s", format::rate(self.chunks_per_second));
            facts.push(("time", if self.chunks > 0 { time + &rate } else { time }));
        }
        facts.push(("unchanged", format::plural(self.unchanged, "file")));
        facts.push(("removed", format::plural(self.removed, "file")));
        let Skipped { empty, binary, large, unreadable, undecodable, misnamed } = self.skipped;
        let skipped_by = [
            (empty, "empty"),
            (binary, "binary"),
            (large, "too large"),
            (unreadable, "unreadable"),
            (undecodable, "of an unknown encoding"),
            (misnamed, "with a name that is not UTF-8"),
        ];
        let skipped: Vec<_> = skipped_by.iter().filter(|(n, _)| *n > 0).map(|(n, why)| format!("{n} {why}")).collect();
        if !skipped.is_empty() {
            facts.push(("skipped", skipped.join(", ")));
        }
        renderer.facts(facts);
    }
}

pub async fn run(args: IndexArgs, client: &Client, output: &Output) -> Result {
    let start = Instant::now();
    let windows = Windows::new(args.lines, args.overlap).map_err(CliError::Usage)?;
    let trees = walk::trees(&args.paths, args.name.as_deref())?;
    let walked = walk::walk(trees, &args.exclude, args.max_file_size)?;
    for problem in &walked.problems {
        output.warn(problem);
    }
    let collection = client.collection(&args.collection);
    let there = open(client, &collection, &args, output).await?;
    let has_points = there.as_ref().is_some_and(|described| described.point_count > 0);

    let split_options = SplitOptions { windows, outlines: outline::are_offered(client, &walked, output).await? };
    let text_field = there.map(|described| described.text_field).filter(|field| !field.is_empty());
    let run = send::IndexRun {
        client,
        collection: &collection,
        split_options,
        text_field,
        compare: has_points,
        dry_run: args.dry_run,
    };
    let mut tally = Box::pin(send::send(run, &walked, output)).await?;
    let mut skipped_files = skipped_by_walk(&walked, args.max_file_size);
    skipped_files.append(&mut tally.skipped_files);
    name_skipped(&skipped_files, output);
    let leftovers = if has_points && !args.dry_run { delete_stale_chunks(&collection, &tally.sent).await? } else { 0 };
    let (removed, gone) = if has_points {
        delete_removed_files(&collection, &walked, &tally, args.dry_run, output).await?
    } else {
        (0, 0)
    };

    let seconds = start.elapsed().as_secs_f64();
    output.summarize(&Summary {
        collection: args.collection,
        dry_run: args.dry_run,
        files: walked.files.len() as u64,
        indexed: tally.sent.len() as u64,
        unchanged: tally.unchanged,
        removed,
        skipped: Skipped {
            large: walked.large.len() as u64,
            misnamed: walked.misnamed.len() as u64,
            unreadable: tally.skipped.unreadable + walked.unreadable,
            ..tally.skipped
        },
        skipped_files,
        chunks: tally.chunks,
        deleted_chunks: leftovers + gone,
        bytes: tally.bytes,
        seconds,
        chunks_per_second: tally.chunks as f64 / seconds.max(1e-9),
    })
}

/// Returns the collection, created if necessary; `None` if a dry run would create it.
async fn open(
    client: &Client,
    collection: &Collection,
    args: &IndexArgs,
    output: &Output,
) -> Result<Option<proto::Collection>> {
    let there = match collection.get().await {
        Err(error) if error.is_not_found() => None,
        found => Some(found?),
    };
    match there {
        None if args.dry_run => Ok(None),
        None => {
            let text_field = if args.no_hybrid { String::new() } else { TEXT_FIELD.to_owned() };
            let model = args.model.clone().unwrap_or_else(|| DEFAULT_MODEL.to_owned());
            let durable = (args.durable || args.in_memory).then_some(args.durable);
            let options = CollectionOptions {
                model,
                document_prompt: args.prompts.document(),
                query_prompt: args.prompts.query(),
                durable,
                text_field,
                ..Default::default()
            };
            match collection.create(&options).await {
                // A concurrent run created it.
                Err(error) if error.code() == Code::AlreadyExists => Ok(Some(collection.get().await?)),
                made => {
                    let made = made?;
                    if !made.durable && !args.in_memory {
                        let name = &made.name;
                        output.warn(format!("collection {name} lives in memory: the daemon has no --data-dir"));
                    }
                    Ok(Some(made))
                }
            }
        }
        Some(described) if described.model.is_empty() => {
            Err(CliError::Usage(format!("collection {} has no model and accepts only vectors", described.name)))
        }
        Some(described) if args.hybrid && described.text_field.is_empty() => {
            let name = described.name;
            Err(CliError::Usage(format!("collection {name} has no full-text index: delete it and index again")))
        }
        Some(described) => {
            check_model(client, &described, args.model.as_deref()).await?;
            args.prompts.check(&described)?;
            if args.durable && !described.durable {
                output.warn(format!("collection {} exists and is not durable", described.name));
            }
            Ok(Some(described))
        }
    }
}

/// Checks that a requested model is the collection's. Either name may be an alias.
async fn check_model(client: &Client, collection: &proto::Collection, requested: Option<&str>) -> Result {
    let (Some(requested), actual) = (requested, collection.model.as_str()) else { return Ok(()) };
    if requested == actual {
        return Ok(());
    }
    let models = client.models().await?;
    let is_it =
        |model: &proto::Model, name: &str| model.name == name || model.aliases.iter().any(|alias| alias == name);
    if models.iter().any(|model| is_it(model, requested) && is_it(model, actual)) {
        return Ok(());
    }
    let name = &collection.name;
    Err(CliError::Usage(format!(
        "collection {name} has the model {actual:?}, not {requested:?}: omit --model, or choose another collection"
    )))
}

/// Deletes stale chunks of the files that were sent. Hashes cover paths, so no chunk of another file has one of these hashes.
async fn delete_stale_chunks(collection: &Collection, sent: &[(String, String)]) -> Result<u64> {
    let mut deleted = 0;
    for files in sent.chunks(FILES_A_DELETE) {
        let paths = files.iter().map(|(path, _)| path.as_str());
        let hashes = files.iter().map(|(_, hash)| hash.as_str());
        deleted += collection.delete_points(Filter::new().any_of("path", paths).none_of("file_hash", hashes)).await?;
    }
    Ok(deleted)
}

/// Deletes the chunks of files that were removed from the walked trees. Returns a lower bound of the files, and the chunks.
async fn delete_removed_files(
    collection: &Collection,
    walked: &Walked,
    tally: &Tally,
    dry_run: bool,
    output: &Output,
) -> Result<(u64, u64)> {
    if !walked.complete {
        output.warn("some entries could not be read, so no files are treated as removed");
        return Ok((0, 0));
    }
    let trees = walked.trees.iter().map(|tree| tree.name.as_str());
    let filter = Filter::new().any_of("tree", trees);
    let filter = if tally.present.is_empty() {
        filter
    } else {
        filter.none_of("path", tally.present.iter().map(String::as_str))
    };
    // The hits of the empty text are any points that match the filter.
    let options = SearchOptions::limit(MAX_HITS).filter(filter.clone()).prompt(Prompt::none());
    let answers = collection.search_text([""], &options).await?;
    let hits = answers.results.into_iter().flatten();
    let paths: BTreeSet<_> =
        hits.filter_map(|hit| hit.payload.get("path").and_then(Value::as_str).map(str::to_owned)).collect();
    let chunks = if paths.is_empty() || dry_run { 0 } else { collection.delete_points(filter).await? };
    Ok((paths.len() as u64, chunks))
}
