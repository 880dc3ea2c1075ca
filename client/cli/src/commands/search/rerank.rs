//! Reranks the hits of a search by their texts with a cross-encoder.

use std::path::Path;

use accelerd_client::{Client, Hit, RerankOptions, SearchResults, Value};

use super::snippet;
use crate::error::Result;

/// Number of hits to rerank for the hits to show.
pub fn candidates(shown: u32) -> u32 {
    shown.saturating_mul(4).max(32)
}

/// Reranks the hits of each query, best first. Hits whose text is neither in the collection nor on this machine are dropped.
pub async fn hits(
    client: &Client,
    model: &str,
    queries: &[String],
    root: &Path,
    results: &mut SearchResults,
) -> Result {
    for (query, hits) in queries.iter().zip(&mut results.results) {
        let (read, texts): (Vec<_>, Vec<_>) =
            hits.drain(..).filter_map(|hit| text_of(&hit, root).map(|text| (hit, text))).unzip();
        if read.is_empty() {
            continue;
        }
        let ranked = client.rerank(model, query, texts, &RerankOptions::default()).await?;
        let hit = |index: u32| read.get(usize::try_from(index).ok()?).cloned();
        hits.extend(ranked.results.iter().filter_map(|best| Some(Hit { score: best.score, ..hit(best.index)? })));
    }
    Ok(())
}

/// The indexed text of a hit, or the current lines of its file.
fn text_of(hit: &Hit, root: &Path) -> Option<String> {
    let text = |field: &str| hit.payload.get(field).and_then(Value::as_str);
    let line = |field: &str| hit.payload.get(field).and_then(Value::as_int);
    let from_disk = || {
        let lines = snippet::lines(&root.join(text("path")?), line("start_line")?, line("end_line")?)?;
        Some(lines.join("\n"))
    };
    text("text").map(str::to_owned).or_else(from_disk)
}
