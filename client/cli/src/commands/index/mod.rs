//! Keeps a collection in step with files on disk: walk, read, compare, send what changed, delete what is gone.
//!
//! A file's chunks carry its hash. The chunk that starts a file is written last, so that its hash in the collection
//! says that the whole file is there; an interrupted run is mended by the next, from whatever machine.

mod outline;
mod plan;
pub mod read;
mod send;

use std::{
    collections::BTreeSet,
    path::PathBuf,
    time::{Duration, Instant},
};

use accelerd_client::{Client, Code, Collection, CollectionOptions, Filter, SearchOptions, Value, proto};
use clap::Args;
use serde::Serialize;

use self::{read::Cutting, send::Tally};
use super::MAX_HITS;
use crate::{
    args::size,
    chunk::Windows,
    complete,
    error::{CliError, Result},
    human,
    page::{Page, Paint},
    screen::{Report, Screen},
    walk::{self, Walked},
};

/// Files whose leftovers are deleted by one call.
const FILES_A_DELETE: usize = 1_000;

/// Index files for search; only what changed since the last time is sent.
///
/// Python, Rust, JavaScript, TypeScript, Go, Java, C and C++ are cut by their functions and classes, everything else into
/// windows of lines. Respects .gitignore, follows no symlinks, and passes over hidden, binary and very large files. Files that
/// changed are replaced; files that are gone are deleted from the collection. Interrupted, it keeps what was sent, and the same
/// command goes on from there.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct IndexArgs {
    /// Files and folders to index.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// The collection; made if it does not exist.
    #[arg(long, short, add = complete::collections())]
    collection: String,
    /// The model of a collection that is made [default: builtin]. One that exists keeps its own.
    #[arg(long, value_name = "MODEL", add = complete::models())]
    model: Option<String>,
    /// Fail where the collection exists and keeps no texts. A collection that is made keeps them anyway.
    #[arg(long, hide = true)]
    hybrid: bool,
    /// Make a collection that keeps vectors only: it takes less memory, and `search` cannot find by words in it.
    #[arg(long, visible_alias = "vectors-only", conflicts_with = "hybrid")]
    no_hybrid: bool,
    /// Make the collection durable: it survives a restart or crash of a daemon that was started with --data-dir.
    #[arg(long)]
    durable: bool,
    /// Leave out what matches, as in a .gitignore; may be given several times.
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Say what would be done, and do nothing.
    #[arg(long)]
    dry_run: bool,
    /// Call the folder by this name instead of its place on this machine, so that several machines index as one.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Lines of a chunk, and of a function or class that stays whole.
    #[arg(long, default_value_t = 40, value_name = "N")]
    lines: usize,
    /// Lines that a chunk shares with the next.
    #[arg(long, default_value_t = 10, value_name = "N")]
    overlap: usize,
    /// Pass over larger files.
    #[arg(long, default_value = "1MiB", value_parser = size, value_name = "SIZE")]
    max_file_size: u64,
}

/// The model that every daemon has.
const DEFAULT_MODEL: &str = "builtin";

/// The payload field with a chunk's text, in collections that know words.
const TEXT_FIELD: &str = "text";

/// What was done.
#[derive(Debug, Serialize)]
struct Summary {
    collection: String,
    dry_run: bool,
    files: u64,
    indexed: u64,
    unchanged: u64,
    removed: u64,
    skipped: Skipped,
    chunks: u64,
    deleted_chunks: u64,
    bytes: u64,
    seconds: f64,
    chunks_per_second: f64,
}

/// Files passed over, and why.
#[derive(Clone, Debug, Default, Serialize)]
struct Skipped {
    empty: u64,
    binary: u64,
    large: u64,
    unreadable: u64,
}

impl Report for Summary {
    fn render(&self, page: &mut Page) {
        let would = if self.dry_run { "would index" } else { "indexed" };
        let collection = page.paint(Paint::Name, &self.collection);
        let figures = page.paint(Paint::Title, human::plural(self.indexed, "file"));
        if self.indexed + self.removed == 0 {
            page.line(format!("{collection} is up to date"));
        } else {
            page.line(format!("{would} {figures} into {collection}"));
        }
        let time = human::time(Duration::try_from_secs_f64(self.seconds).unwrap_or_default());
        let mut facts = vec![];
        if self.chunks > 0 {
            facts.extend([("chunks", human::count(self.chunks)), ("text", human::bytes(self.bytes))]);
        }
        if !self.dry_run {
            let rate = format!(", {} chunks/s", human::rate(self.chunks_per_second));
            facts.push(("time", if self.chunks > 0 { time + &rate } else { time }));
        }
        facts.push(("unchanged", human::plural(self.unchanged, "file")));
        facts.push(("removed", human::plural(self.removed, "file")));
        let Skipped { empty, binary, large, unreadable } = self.skipped;
        let reasons = [(empty, "empty"), (binary, "binary"), (large, "too large"), (unreadable, "unreadable")];
        let skipped: Vec<_> = reasons.iter().filter(|(n, _)| *n > 0).map(|(n, why)| format!("{n} {why}")).collect();
        if !skipped.is_empty() {
            facts.push(("skipped", skipped.join(", ")));
        }
        page.facts(facts);
    }
}

/// Brings the collection in step.
pub async fn run(args: IndexArgs, client: &Client, screen: &Screen) -> Result {
    let start = Instant::now();
    let windows = Windows::new(args.lines, args.overlap).map_err(CliError::Usage)?;
    let trees = walk::trees(&args.paths, args.name.as_deref())?;
    let walked = walk::walk(trees, &args.exclude, args.max_file_size)?;
    for problem in &walked.problems {
        screen.warn(problem);
    }
    let collection = client.collection(&args.collection);
    let there = open(client, &collection, &args, screen).await?;
    let has_points = there.as_ref().is_some_and(|described| described.point_count > 0);

    let cutting = Cutting { windows, outlines: outline::are_offered(client, &walked, screen).await? };
    let text_field = there.map(|described| described.text_field).filter(|field| !field.is_empty());
    let job =
        send::Job { client, collection: &collection, cutting, text_field, compare: has_points, dry_run: args.dry_run };
    let tally = send::send(job, &walked, screen).await?;
    let leftovers = if has_points && !args.dry_run { delete_leftovers(&collection, &tally.sent).await? } else { 0 };
    let (removed, gone) =
        if has_points { remove_gone(&collection, &walked, &tally, args.dry_run, screen).await? } else { (0, 0) };

    let seconds = start.elapsed().as_secs_f64();
    screen.show(&Summary {
        collection: args.collection,
        dry_run: args.dry_run,
        files: walked.files.len() as u64,
        indexed: tally.sent.len() as u64,
        unchanged: tally.unchanged,
        removed,
        skipped: Skipped {
            large: walked.large,
            unreadable: tally.skipped.unreadable + walked.unreadable,
            ..tally.skipped
        },
        chunks: tally.chunks,
        deleted_chunks: leftovers + gone,
        bytes: tally.bytes,
        seconds,
        chunks_per_second: tally.chunks as f64 / seconds.max(1e-9),
    })
}

/// The collection as it is, made if need be; `None` where a dry run would make it.
async fn open(
    client: &Client,
    collection: &Collection,
    args: &IndexArgs,
    screen: &Screen,
) -> Result<Option<proto::Collection>> {
    let there = match collection.get().await {
        Err(error) if error.is_not_found() => None,
        found => Some(found?),
    };
    match there {
        None if args.dry_run => Ok(None),
        None => {
            let text_field = if args.no_hybrid { String::new() } else { TEXT_FIELD.to_owned() };
            let (model, durable) = (args.model.clone().unwrap_or_else(|| DEFAULT_MODEL.to_owned()), args.durable);
            let options = CollectionOptions { model, durable, text_field, ..Default::default() };
            match collection.create(&options).await {
                // Someone else was faster.
                Err(error) if error.code() == Code::AlreadyExists => Ok(Some(collection.get().await?)),
                made => Ok(Some(made?)),
            }
        }
        Some(described) if described.model.is_empty() => {
            Err(CliError::Usage(format!("collection {} has no model: it takes vectors, not texts", described.name)))
        }
        Some(described) if args.hybrid && described.text_field.is_empty() => {
            let name = described.name;
            Err(CliError::Usage(format!("collection {name} keeps no texts: delete it, and index again")))
        }
        Some(described) => {
            same_model(client, &described, args.model.as_deref()).await?;
            if args.durable && !described.durable {
                screen.warn(format!("collection {} exists and is not durable", described.name));
            }
            Ok(Some(described))
        }
    }
}

/// Refuses a model that is not the collection's. Either may be an alias.
async fn same_model(client: &Client, collection: &proto::Collection, asked: Option<&str>) -> Result {
    let (Some(asked), has) = (asked, collection.model.as_str()) else { return Ok(()) };
    if asked == has {
        return Ok(());
    }
    let models = client.models().await?;
    let is_it =
        |model: &proto::Model, name: &str| model.name == name || model.aliases.iter().any(|alias| alias == name);
    if models.iter().any(|model| is_it(model, asked) && is_it(model, has)) {
        return Ok(());
    }
    let name = &collection.name;
    Err(CliError::Usage(format!(
        "collection {name} was made with the model {has:?}, not {asked:?}: leave out --model, or choose another collection"
    )))
}

/// Deletes the chunks that files sent now had before. Hashes cover paths, so no other file's chunks have one of them.
async fn delete_leftovers(collection: &Collection, sent: &[(String, String)]) -> Result<u64> {
    let mut deleted = 0;
    for files in sent.chunks(FILES_A_DELETE) {
        let paths = files.iter().map(|(path, _)| path.as_str());
        let hashes = files.iter().map(|(_, hash)| hash.as_str());
        deleted += collection.delete_points(Filter::new().any_of("path", paths).none_of("file_hash", hashes)).await?;
    }
    Ok(deleted)
}

/// Deletes the chunks of files that are in the walked trees no more. Returns files (at least) and chunks.
async fn remove_gone(
    collection: &Collection,
    walked: &Walked,
    tally: &Tally,
    dry_run: bool,
    screen: &Screen,
) -> Result<(u64, u64)> {
    if !walked.complete {
        screen.warn("not everything could be read, so nothing is taken for removed");
        return Ok((0, 0));
    }
    let trees = walked.trees.iter().map(|tree| tree.name.as_str());
    let filter = Filter::new().any_of("tree", trees);
    let filter = if tally.present.is_empty() {
        filter
    } else {
        filter.none_of("path", tally.present.iter().map(String::as_str))
    };
    // The empty text is as near to everything as to anything: its hits are whatever passes the filter.
    let found = collection.search_text([""], &SearchOptions::limit(MAX_HITS).filter(filter.clone())).await?;
    let hits = found.results.into_iter().flatten();
    let paths: BTreeSet<_> =
        hits.filter_map(|hit| hit.payload.get("path").and_then(Value::as_str).map(str::to_owned)).collect();
    let chunks = if paths.is_empty() || dry_run { 0 } else { collection.delete_points(filter).await? };
    Ok((paths.len() as u64, chunks))
}
