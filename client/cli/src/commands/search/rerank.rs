//! The hits of a search in the order that a cross-encoder gives them, by their texts.

use std::path::Path;

use accelerd_client::{Client, Found, Hit, RerankOptions, Value};

use super::snippet;
use crate::error::Result;

/// Hits to read for so many to show: a cross-encoder is asked because the best may stand further down.
pub fn candidates(shown: u32) -> u32 {
    shown.saturating_mul(4).max(32)
}

/// Puts the hits of each query in order, best first, each with the score of its text. Hits whose text is neither in the
/// collection nor on this machine are left out.
pub async fn hits(client: &Client, model: &str, queries: &[String], root: &Path, found: &mut Found) -> Result {
    for (query, hits) in queries.iter().zip(&mut found.results) {
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

/// As it was indexed with words, or as the file has it now.
fn text_of(hit: &Hit, root: &Path) -> Option<String> {
    let text = |field: &str| hit.payload.get(field).and_then(Value::as_str);
    let line = |field: &str| hit.payload.get(field).and_then(Value::as_int);
    let from_disk = || {
        let lines = snippet::lines(&root.join(text("path")?), line("start_line")?, line("end_line")?)?;
        Some(lines.join("\n"))
    };
    text("text").map(str::to_owned).or_else(from_disk)
}
