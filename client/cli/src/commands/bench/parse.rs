//! Benchmark of parsing files.

use std::{fs, path::PathBuf, sync::Arc};

use accelerd_client::{ParseOptions, proto::ParseOutput};
use bytes::Bytes;
use clap::Args;

use super::{Calls, Load};
use crate::{
    error::{CliError, Result},
    format,
    walk::{self, Walk},
};

/// Larger files are skipped.
const MAX_FILE: u64 = 8 << 20;

#[derive(Debug, Args)]
pub(super) struct ParseBench {
    #[command(flatten)]
    pub(super) load: Load,
    /// Folders to search for Python files until there are enough lines.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Minimum lines per call.
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    lines: usize,
    /// Request diagnostics only, no trees.
    #[arg(long)]
    verdict: bool,
}

impl ParseBench {
    /// Returns a description of the input, its number of lines and the calls.
    pub(super) fn calls(&self) -> Result<(String, u32, Calls)> {
        let (sources, lines) = self.sources()?;
        let bytes: usize = sources.iter().map(Bytes::len).sum();
        let files = format::plural(sources.len() as u64, "file");
        let size = format::bytes(bytes as u64);
        let what = if self.verdict { "verdicts" } else { "trees" };
        let input = format!("{what} of {} lines, {size} in {files}", format::count(lines as u64));
        let output = if self.verdict { ParseOutput::LineStarts } else { ParseOutput::Tree };
        let options = ParseOptions::of([output]);
        let calls: Calls = Arc::new(move |client| {
            let client = client.clone();
            let sources = sources.clone();
            let options = options.clone();
            Arc::new(move |_| {
                let client = client.clone();
                let sources = sources.clone();
                let options = options.clone();
                Box::pin(async move { client.parse(sources, &options).await.map(|_| ()) })
            })
        });
        Ok((input, u32::try_from(lines).unwrap_or(u32::MAX), calls))
    }

    fn sources(&self) -> Result<(Vec<Bytes>, usize)> {
        let walked = Walk::new(walk::trees_as_given(&self.paths)?, &[], MAX_FILE)?.all_files();
        let mut sources = vec![];
        let mut lines = 0;
        for file in walked.files.iter().filter(|file| file.disk.extension().is_some_and(|extension| extension == "py"))
        {
            if lines >= self.lines {
                break;
            }
            let Ok(source) = fs::read(&file.disk) else { continue };
            lines += source.split(|&byte| byte == b'\n').count() - 1;
            sources.push(source.into());
        }
        if lines < self.lines {
            let line_count = format::count(lines as u64);
            return Err(CliError::Usage(format!(
                "{line_count} lines of Python were found, --lines wants {}",
                self.lines
            )));
        }
        Ok((sources, lines))
    }
}
