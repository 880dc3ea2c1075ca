//! The pipeline: reads files ahead on blocking threads, packs them into batches and parses several batches concurrently.

use accelerd_client::{Client, Code, Error, ParseOptions, Parsed, ParsedBatch};
use bytes::Bytes;
use futures::{FutureExt, StreamExt, TryStreamExt, future::BoxFuture, stream};
use tokio::task::spawn_blocking;

use super::sources::{Source, Sources};
use crate::{
    error::{CliError, Result},
    output::{BYTES_BAR, Output},
};

/// Maximum bytes per batch.
const BATCH_BYTES: u64 = 2 << 20;
/// Maximum sources per batch.
const BATCH_SOURCES: usize = 256;
/// Maximum batches in flight.
const IN_FLIGHT: usize = 6;

/// Names of sources and their results.
type Parts = Vec<(Vec<String>, ParsedBatch)>;

/// Sources that were parsed by one call, or by several if the response would be too large.
pub struct Batch {
    parts: Parts,
    pub unreadable: u64,
    size: u64,
}

/// A batch of file contents.
#[derive(Default)]
struct Read {
    names: Vec<String>,
    contents: Vec<Bytes>,
    problems: Vec<String>,
    size: u64,
}

impl Batch {
    /// Names and results, in order.
    pub fn sources(&self) -> impl Iterator<Item = (&str, Parsed<'_>)> {
        self.parts.iter().flat_map(|(names, parsed)| names.iter().map(String::as_str).zip(parsed.iter()))
    }
}

/// Parses all sources. Calls `note` for each batch, in order.
pub async fn each_batch(
    client: &Client,
    sources: Sources,
    options: &ParseOptions,
    output: &Output,
    mut note: impl FnMut(&Batch) -> Result,
) -> Result {
    let bar = output.bar(sources.files.iter().map(|source| source.size).sum(), BYTES_BAR, "parsing");
    let mut batches = stream::iter(packed(sources.files))
        .map(|sources| async {
            let read = spawn_blocking(move || read(&sources))
                .await
                .map_err(|error| CliError::Partial(format!("reader thread failed: {error}")))?;
            for problem in &read.problems {
                bar.suspend(|| output.warn(problem));
            }
            let unreadable = read.problems.len() as u64;
            let size = read.size;
            let parts = parse(client, read.names, read.contents, options).await?;
            Ok::<_, CliError>(Batch { parts, unreadable, size })
        })
        .buffered(IN_FLIGHT);
    while let Some(batch) = batches.try_next().await? {
        bar.inc(batch.size);
        bar.suspend(|| note(&batch))?;
    }
    bar.finish_and_clear();
    Ok(())
}

/// Packs sources into batches by the sizes found in the walk.
fn packed(sources: Vec<Source>) -> Vec<Vec<Source>> {
    let mut batches: Vec<Vec<Source>> = vec![];
    let mut room = 0;
    for source in sources {
        match batches.last_mut() {
            Some(batch) if source.size <= room && batch.len() < BATCH_SOURCES => {
                room -= source.size;
                batch.push(source);
            }
            _ => {
                room = BATCH_BYTES.saturating_sub(source.size);
                batches.push(vec![source]);
            }
        }
    }
    batches
}

fn read(sources: &[Source]) -> Read {
    let mut read = Read { size: sources.iter().map(|source| source.size).sum(), ..Default::default() };
    for source in sources {
        match source.read() {
            Ok(content) => {
                read.names.push(source.name.clone());
                read.contents.push(content.into());
            }
            Err(problem) => read.problems.push(problem),
        }
    }
    read
}

/// Parses sources; in halves if the response would exceed the maximum message size.
fn parse<'a>(
    client: &'a Client,
    mut names: Vec<String>,
    mut contents: Vec<Bytes>,
    options: &'a ParseOptions,
) -> BoxFuture<'a, Result<Parts>> {
    async move {
        if names.is_empty() {
            return Ok(vec![]);
        }
        match client.parse(contents.iter().cloned(), options).await {
            Err(error) if names.len() > 1 && is_too_large(&error) => {
                let half = names.len() / 2;
                let more_names = names.split_off(half);
                let more = contents.split_off(half);
                let mut parts = parse(client, names, contents, options).await?;
                parts.extend(parse(client, more_names, more, options).await?);
                Ok(parts)
            }
            parsed => Ok(vec![(names, parsed?)]),
        }
    }
    .boxed()
}

/// Returns true if fewer sources may succeed. A full lane sends RetryInfo, a message that is too large does not.
fn is_too_large(error: &Error) -> bool {
    matches!(error.code(), Code::ResourceExhausted | Code::OutOfRange) && error.retry_after().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_bounded_by_bytes_and_by_sources() {
        let of = |sizes: &[u64]| -> Vec<usize> {
            packed(sizes.iter().map(|size| Source::of_size(*size)).collect()).iter().map(Vec::len).collect()
        };
        assert_eq!(of(&[]), [0; 0]);
        assert_eq!(of(&[BATCH_BYTES / 2, BATCH_BYTES / 2, 1]), [2, 1]);
        assert_eq!(of(&[9 * BATCH_BYTES, 1, 1]), [1, 2]);
        assert_eq!(of(&[0; 600]), [256, 256, 88]);
    }
}
