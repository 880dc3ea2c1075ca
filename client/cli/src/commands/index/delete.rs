//! Deletes chunks of files that changed or were removed.

use std::collections::BTreeSet;

use accelerd_client::{Collection, Filter, Prompt, SearchOptions, Value};

use crate::{commands::MAX_HITS, error::Result, walk::Tree};

/// Files per call that deletes chunks.
const FILES_A_DELETE: usize = 1_000;

/// Deletes stale chunks of the files that were sent. Hashes cover paths, so no chunk of another file has one of these hashes.
pub async fn delete_stale_chunks(collection: &Collection, sent: &[(String, String)]) -> Result<u64> {
    let mut deleted = 0;
    for files in sent.chunks(FILES_A_DELETE) {
        let paths = files.iter().map(|(path, _)| path.as_str());
        let hashes = files.iter().map(|(_, hash)| hash.as_str());
        deleted += collection.delete_points(Filter::new().any_of("path", paths).none_of("file_hash", hashes)).await?;
    }
    Ok(deleted)
}

/// Deletes all chunks of files. Returns their number.
pub async fn delete_files(collection: &Collection, paths: &[&str]) -> Result<u64> {
    let mut deleted = 0;
    for paths in paths.chunks(FILES_A_DELETE) {
        deleted += collection.delete_points(Filter::new().any_of("path", paths.iter().copied())).await?;
    }
    Ok(deleted)
}

/// Deletes the chunks of files that were removed from the walked trees. Returns a lower bound of the files, and the chunks.
pub async fn delete_removed_files(
    collection: &Collection,
    trees: &[Tree],
    present: &BTreeSet<String>,
    dry_run: bool,
) -> Result<(u64, u64)> {
    let filter = Filter::new().any_of("tree", trees.iter().map(|tree| tree.name.as_str()));
    let filter = if present.is_empty() { filter } else { filter.none_of("path", present.iter().map(String::as_str)) };
    // The hits of the empty text are any points that match the filter.
    let options = SearchOptions::limit(MAX_HITS).filter(filter.clone()).prompt(Prompt::none());
    let answers = collection.search_text([""], &options).await?;
    let hits = answers.results.into_iter().flatten();
    let paths: BTreeSet<_> =
        hits.filter_map(|hit| hit.payload.get("path").and_then(Value::as_str).map(str::to_owned)).collect();
    let chunks = if paths.is_empty() || dry_run { 0 } else { collection.delete_points(filter).await? };
    Ok((paths.len() as u64, chunks))
}
