//! One pass over files: sends the changed ones and deletes the removed ones.

use std::{collections::BTreeSet, time::Instant};

use accelerd_client::{Client, Collection, proto};
use tokio::sync::OnceCell;

use super::{
    IndexArgs, Skipped,
    delete::{delete_files, delete_removed_files, delete_stale_chunks},
    outline,
    read::SplitOptions,
    send::{self, Tally},
    summary::{Summary, skipped_by_walk},
};
use crate::{
    chunk::Windows,
    error::Result,
    interrupt::Interrupt,
    output::Output,
    walk::{Tree, Walked},
};

/// The way to find the files that the collection has and the trees have not.
#[derive(Clone, Copy)]
pub enum Removed<'a> {
    /// The collection is asked for files of these trees, all of which were walked.
    Trees(&'a [Tree]),
    /// They are among these.
    Among(&'a BTreeSet<String>),
}

/// The state that all passes of a run share.
pub struct Indexer<'a> {
    pub client: &'a Client,
    pub collection: &'a Collection,
    pub args: &'a IndexArgs,
    pub output: &'a Output,
    pub interrupt: &'a Interrupt,
    windows: Windows,
    /// True if the daemon parses Python; it is asked when the first Python file is sent.
    outlines: OnceCell<bool>,
    text_field: Option<String>,
    /// True if the collection may have some of the files.
    compare: bool,
}

impl<'a> Indexer<'a> {
    pub fn new(
        client: &'a Client,
        collection: &'a Collection,
        args: &'a IndexArgs,
        windows: Windows,
        output: &'a Output,
        interrupt: &'a Interrupt,
    ) -> Self {
        let outlines = OnceCell::new();
        Self { client, collection, args, output, interrupt, windows, outlines, text_field: None, compare: false }
    }

    /// Sets what the passes know of the collection; `None` if a dry run would create it.
    pub fn compare_with(&mut self, described: Option<&proto::Collection>) {
        self.text_field = described.map(|described| described.text_field.clone()).filter(|field| !field.is_empty());
        self.compare = described.is_some_and(|described| described.point_count > 0);
    }

    /// The next passes compare files with the collection, which has the ones of the first.
    pub fn compare(&mut self) {
        self.compare = true;
    }

    /// Sends changed files and deletes removed ones. Returns the paths of the files that belong in the collection.
    pub async fn pass(
        &self,
        start: Instant,
        walked: &Walked,
        removed: Removed<'_>,
    ) -> Result<(Summary, BTreeSet<String>)> {
        for problem in &walked.problems {
            self.output.warn(problem);
        }
        let run = send::IndexRun {
            client: self.client,
            collection: self.collection,
            split_options: self.interrupt.stops(self.split_options(walked)).await??,
            text_field: self.text_field.clone(),
            compare: self.compare,
            dry_run: self.args.dry_run,
            interrupt: self.interrupt,
        };
        let tally = Box::pin(send::send(run, walked, self.output)).await?;
        let (removed, deleted_chunks) = self.interrupt.stops(self.delete(walked, &tally, removed)).await??;
        Ok(self.summary(start, walked, tally, removed, deleted_chunks))
    }

    async fn split_options(&self, walked: &Walked) -> Result<SplitOptions> {
        let outlines = match self.outlines.get() {
            Some(outlines) => *outlines,
            None if outline::has_python(walked) => {
                *self.outlines.get_or_try_init(|| outline::are_offered(self.client, self.output)).await?
            }
            None => false,
        };
        Ok(SplitOptions { windows: self.windows, outlines })
    }

    /// Deletes the stale chunks of files that were sent, and those of removed files. Returns a lower bound of the removed files, and
    /// the chunks.
    async fn delete(&self, walked: &Walked, tally: &Tally, removed: Removed<'_>) -> Result<(u64, u64)> {
        if !self.compare {
            return Ok((0, 0));
        }
        let dry_run = self.args.dry_run;
        let stale = if dry_run { 0 } else { delete_stale_chunks(self.collection, &tally.sent).await? };
        let (files, chunks) = match removed {
            _ if !walked.complete => {
                self.output.warn("some entries could not be read, so no files are treated as removed");
                (0, 0)
            }
            Removed::Trees(trees) => delete_removed_files(self.collection, trees, &tally.present, dry_run).await?,
            Removed::Among(paths) => {
                let removed: Vec<_> = paths.difference(&tally.present).map(String::as_str).collect();
                (removed.len() as u64, delete_files(self.collection, &removed).await?)
            }
        };
        Ok((files, stale + chunks))
    }

    fn summary(
        &self,
        start: Instant,
        walked: &Walked,
        tally: Tally,
        removed: u64,
        deleted_chunks: u64,
    ) -> (Summary, BTreeSet<String>) {
        let seconds = start.elapsed().as_secs_f64();
        let skipped = Skipped {
            large: walked.large.len() as u64,
            misnamed: walked.misnamed.len() as u64,
            unreadable: tally.skipped.unreadable + walked.unreadable,
            ..tally.skipped
        };
        let summary = Summary {
            collection: self.args.collection.clone(),
            dry_run: self.args.dry_run,
            files: walked.files.len() as u64,
            indexed: tally.sent.len() as u64,
            unchanged: tally.unchanged,
            removed,
            skipped,
            skipped_files: [skipped_by_walk(walked, self.args.max_file_size), tally.skipped_files].concat(),
            chunks: tally.chunks,
            reused_chunks: tally.reused_chunks,
            deleted_chunks,
            bytes: tally.bytes,
            seconds,
            chunks_per_second: tally.chunks as f64 / seconds.max(1e-9),
        };
        (summary, tally.present)
    }
}
