//! Synchronises a collection with files on disk: walks, reads, compares, sends changed files and deletes removed ones.
//!
//! The chunks of a file carry its hash. The first chunk of a file is written last, so that its hash in the collection implies
//! that the whole file is stored; the next run, on any machine, completes an interrupted one.

mod delete;
mod follow;
mod outline;
mod pass;
mod plan;
pub mod read;
mod reuse;
mod send;
mod summary;

use std::{path::PathBuf, time::Instant};

use accelerd_client::{Client, Code, Collection, CollectionOptions, proto};
use clap::Args;

use self::{
    follow::follow,
    pass::{Indexer, Removed},
    summary::{Skipped, SkippedFile},
};
use super::prompts::CollectionPrompts;
use crate::{
    args::size,
    chunk::Windows,
    complete,
    error::{CliError, Result},
    interrupt::Interrupt,
    output::Output,
    walk::{self, Walk},
    watch::{Watch, WatchArgs},
};

/// Index files for search; only files that changed since the last run are sent.
///
/// Python, Rust, JavaScript, TypeScript, Go, Java, C and C++ are split into functions and classes, other files into windows of
/// lines. Respects .gitignore, does not follow symlinks, and skips hidden, binary and very large files. Texts are read as UTF-8,
/// UTF-16 with a byte order mark, in the encoding that they declare in one of the first two lines (`coding: latin-1`), or else as
/// Japanese or Latin-1. Changed files are replaced, and removed files are deleted from the collection. An interrupted run keeps
/// what was sent; the same command resumes it. Of a changed file, only the functions and windows whose text changed are embedded.
///
/// With --watch, it then follows changes of the files until Ctrl-C, by the same rules, and prints a line for each change. Changes
/// within 50 ms are one. It survives restarts of the daemon.
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
    #[arg(long, conflicts_with = "watch")]
    dry_run: bool,
    #[command(flatten)]
    watch: WatchArgs,
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

pub async fn run(args: IndexArgs, client: &Client, output: &Output) -> Result {
    let start = Instant::now();
    let windows = Windows::new(args.lines, args.overlap).map_err(CliError::Usage)?;
    let trees = walk::trees(&args.paths, args.name.as_deref())?;
    let walk = Walk::new(trees, &args.exclude, args.max_file_size)?;
    let trees = walk.trees.clone();
    let (watch, walked) = if args.watch.watch {
        let (watch, walked) = Watch::begin(walk, args.watch, output).await?;
        (Some(watch), walked)
    } else {
        (None, walk.all_files())
    };
    let collection = client.collection(&args.collection);
    let there = open(client, &collection, &args, output).await?;
    let interrupt = Interrupt::listen();
    let mut indexer = Indexer::new(client, &collection, &args, windows, output, &interrupt);
    indexer.compare_with(there.as_ref());
    let (summary, present) = indexer.pass(start, &walked, Removed::Trees(&trees)).await?;
    summary.name_skipped(output);
    let Some(watch) = watch else { return output.summarize(&summary) };
    output.summarize_line(&summary)?;
    follow(watch, indexer, &walked, &present).await
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
