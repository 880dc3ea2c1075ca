//! Requests outlines of changed Python files, by which they are split.

use accelerd_client::{Client, Code, OutlineItem, ParseOptions, proto::ParseOutput};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};

use super::read::{Prepared, SplitBy};
use crate::{
    decode,
    error::{CliError, Result},
    language,
    output::Output,
    walk::Walked,
};

/// Maximum bytes per call.
const CALL_BYTES: usize = 1 << 20;
/// Maximum calls in flight.
const IN_FLIGHT: usize = 4;

/// Returns true if any of the files is Python.
pub fn has_python(walked: &Walked) -> bool {
    let is_python = |path: &str| language::of_file(path.rsplit('/').next().unwrap_or_default()) == "python";
    walked.files.iter().any(|file| is_python(&file.below))
}

/// Returns true if the daemon parses Python. This is determined before hashing, because hashes include how a file is split.
pub async fn are_offered(client: &Client, output: &Output) -> Result<bool> {
    match client.parse(["pass"], &options()).await {
        Err(error) if error.code() == Code::Unimplemented => {
            output.note("the daemon does not parse Python; Python files are split into windows of lines");
            Ok(false)
        }
        parsed => Ok(parsed.map(|_| true)?),
    }
}

/// Returns an outline for each file that is split by one; none for invalid Python.
pub async fn outlines(client: &Client, files: &[Prepared]) -> Result<Vec<Option<Vec<OutlineItem>>>> {
    let outlined: Vec<_> = (0..files.len()).filter(|index| files[*index].by == SplitBy::Outline).collect();
    let calls = stream::iter(calls(&outlined, files)).map(|call| async move {
        // The text is sent as UTF-8, whatever encoding the file declares.
        let text = |index: &usize| decode::without_declaration(&files[*index].text).into_owned();
        let sources = call.iter().map(|index| Bytes::from(text(index)));
        let parsed = client.parse(sources, &options()).await?;
        let outlines = parsed.iter().map(|parsed| parsed.is_valid().then(|| parsed.outline().to_vec()));
        Ok::<_, CliError>(call.iter().copied().zip(outlines).collect::<Vec<_>>())
    });
    let parsed: Vec<_> = calls.buffer_unordered(IN_FLIGHT).try_collect().await?;
    let mut outlines = vec![None; files.len()];
    for (index, outline) in parsed.into_iter().flatten() {
        outlines[index] = outline;
    }
    Ok(outlines)
}

fn options() -> ParseOptions {
    ParseOptions::of([ParseOutput::Outline])
}

/// Distributes files over calls.
fn calls(wanted: &[usize], files: &[Prepared]) -> Vec<Vec<usize>> {
    let mut calls: Vec<Vec<usize>> = vec![];
    let mut room = 0;
    for index in wanted {
        let size = files[*index].text.len();
        match calls.last_mut() {
            Some(call) if size <= room => {
                room -= size;
                call.push(*index);
            }
            _ => {
                room = CALL_BYTES.saturating_sub(size);
                calls.push(vec![*index]);
            }
        }
    }
    calls
}
