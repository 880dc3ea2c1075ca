//! The report of a run.

use std::time::Duration;

use serde::Serialize;

use crate::{
    format,
    output::{Output, Report},
    renderer::{Renderer, Style},
    walk::Walked,
};

/// Skipped files that notes name.
const MAX_NAMED: usize = 20;

#[derive(Debug, Serialize)]
pub struct Summary {
    pub collection: String,
    pub dry_run: bool,
    pub files: u64,
    pub indexed: u64,
    pub unchanged: u64,
    pub removed: u64,
    pub skipped: Skipped,
    pub skipped_files: Vec<SkippedFile>,
    pub chunks: u64,
    /// Chunks whose text the collection had, and which were not embedded again.
    pub reused_chunks: u64,
    pub deleted_chunks: u64,
    pub bytes: u64,
    pub seconds: f64,
    pub chunks_per_second: f64,
}

/// Skipped files by reason.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Skipped {
    pub empty: u64,
    pub binary: u64,
    pub large: u64,
    pub unreadable: u64,
    /// Of an unknown encoding, or not valid in their own.
    pub undecodable: u64,
    /// Named in other bytes than UTF-8.
    pub misnamed: u64,
}

/// A file that is not in the collection.
#[derive(Clone, Debug, Serialize)]
pub struct SkippedFile {
    pub path: String,
    pub reason: String,
}

/// The files that the walk skipped.
pub fn skipped_by_walk(walked: &Walked, max_size: u64) -> Vec<SkippedFile> {
    let max_size = format::bytes(max_size);
    let large = |(path, size): &(String, u64)| {
        let reason = format!("its {} are more than --max-file-size {max_size}", format::bytes(*size));
        SkippedFile { path: path.clone(), reason }
    };
    let misnamed = |path: &String| SkippedFile { path: path.clone(), reason: "its name is not UTF-8".to_owned() };
    walked.large.iter().map(large).chain(walked.misnamed.iter().map(misnamed)).collect()
}

impl Summary {
    /// Names the first skipped files. Empty files need no attention.
    pub fn name_skipped(&self, output: &Output) {
        for SkippedFile { path, reason } in self.skipped_files.iter().take(MAX_NAMED) {
            output.note(format!("skipped {path}: {reason}"));
        }
        if let Some(more) = self.skipped_files.len().checked_sub(MAX_NAMED).filter(|more| *more > 0) {
            output.note(format!("skipped {more} more files; --json names all"));
        }
    }
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
        if self.reused_chunks > 0 {
            facts
                .push(("reused", format!("{} whose text did not change", format::plural(self.reused_chunks, "chunk"))));
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
