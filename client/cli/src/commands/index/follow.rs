//! Follows changes of the files after the first pass.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::{Duration, Instant},
};

use accelerd_client::{Code, Error};
use serde::Serialize;

use super::{
    open,
    pass::{Indexer, Removed},
    summary::{Skipped, Summary},
};
use crate::{
    error::{CliError, Result},
    format,
    output::Report,
    renderer::{Renderer, Style},
    walk::{Scope, Walked},
    watch::Watch,
};

/// The paths of files that the collection may have, by where the files are.
type KnownFiles = BTreeMap<PathBuf, String>;

/// A change that was processed.
#[derive(Debug, Serialize)]
struct Change<'a> {
    collection: &'a str,
    /// The file, if only one changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
    indexed: u64,
    removed: u64,
    unchanged: u64,
    skipped: &'a Skipped,
    chunks: u64,
    reused_chunks: u64,
    deleted_chunks: u64,
    seconds: f64,
}

impl Report for Change<'_> {
    fn render(&self, renderer: &mut Renderer) {
        let files = |count: u64| match self.path {
            Some(path) => renderer.style(Style::Name, path),
            None => format::plural(count, "file"),
        };
        let mut parts = vec![];
        if self.indexed > 0 {
            let embedded = format::plural(self.chunks - self.reused_chunks, "chunk");
            parts.push(format!("indexed {}, {embedded} embedded", files(self.indexed)));
        }
        if self.removed > 0 {
            parts.push(format!("removed {}", files(self.removed)));
        }
        let time = format::time(Duration::try_from_secs_f64(self.seconds).unwrap_or_default());
        let time = renderer.style(Style::Dim, time);
        renderer.line(format!("{}  {time}", parts.join("; ")));
    }
}

/// Follows changes until Ctrl-C, which is an error.
pub async fn follow(mut watch: Watch, mut indexer: Indexer<'_>, walked: &Walked, present: &BTreeSet<String>) -> Result {
    let mut known = KnownFiles::new();
    learn(&mut known, walked);
    known.retain(|_, path| present.contains(path));
    indexer.compare();
    let output = indexer.output;
    output.note("watching for changes; press Ctrl-C to stop");
    let mut failing = false;
    loop {
        let (scope, walked) = indexer.interrupt.stops(watch.next()).await??;
        match update(&indexer, &scope, &walked, &mut known).await {
            Ok(()) if failing => {
                output.note("the collection is up to date again");
                failing = false;
            }
            Ok(()) => {}
            // Without a data folder, a daemon that restarts has no collection.
            Err(CliError::Call(error)) if is_missing_collection(&error) => {
                output.warn(format!("{error}: indexing all files"));
                let opened = Box::pin(open(indexer.client, indexer.collection, indexer.args, output));
                match indexer.interrupt.stops(opened).await? {
                    Ok(described) => indexer.compare_with(described.as_ref()),
                    Err(error) if error.is_transient() => {}
                    Err(error) => return Err(error),
                }
                indexer.compare();
                indexer.interrupt.stops(watch.put_back(&Scope::all())).await?;
            }
            Err(error) if error.is_transient() => {
                output.warn(format!("{error}: changes are kept and sent again"));
                failing = true;
                indexer.interrupt.stops(watch.put_back(&scope)).await?;
            }
            Err(error) => return Err(error),
        }
    }
}

fn is_missing_collection(error: &Error) -> bool {
    let resource = error.failure().and_then(|failure| failure.resource.as_ref());
    error.code() == Code::NotFound && resource.is_some_and(|(kind, _)| kind == "collection")
}

/// Brings the files of a scope up to date. After an error, `known` has all files that may have been sent.
async fn update(indexer: &Indexer<'_>, scope: &Scope, walked: &Walked, known: &mut KnownFiles) -> Result {
    let start = Instant::now();
    let before = scope.part_of(known);
    learn(known, walked);
    let before_paths = before.values().cloned().collect();
    if walked.files.is_empty() && before.is_empty() {
        return Ok(());
    }
    let (summary, present) = indexer.pass(start, walked, Removed::Among(&before_paths)).await?;
    let mut now = before;
    learn(&mut now, walked);
    for (disk, path) in &now {
        if walked.complete && !present.contains(path) {
            known.remove(disk);
        }
    }
    report(indexer, &summary, &now)
}

fn report(indexer: &Indexer<'_>, summary: &Summary, files: &KnownFiles) -> Result {
    if summary.indexed + summary.removed == 0 {
        return Ok(());
    }
    indexer.output.summarize_line(&Change {
        collection: &summary.collection,
        path: files.values().next().filter(|_| files.len() == 1).map(String::as_str),
        indexed: summary.indexed,
        removed: summary.removed,
        unchanged: summary.unchanged,
        skipped: &summary.skipped,
        chunks: summary.chunks,
        reused_chunks: summary.reused_chunks,
        deleted_chunks: summary.deleted_chunks,
        seconds: summary.seconds,
    })
}

fn learn(known: &mut KnownFiles, walked: &Walked) {
    known.extend(walked.files.iter().map(|file| (file.disk.clone(), file.path.clone())));
}
