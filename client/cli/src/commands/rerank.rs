//! Ranks files or lines by their relevance to a query.

use std::{
    fs,
    path::{Path, PathBuf},
};

use accelerd_client::{Client, RerankOptions};
use clap::Args;
use serde::Serialize;

use super::embed::lines;
use crate::{
    error::{CliError, Result},
    output::{Output, Report},
    renderer::{Renderer, Style, Table},
};

/// Rank files, or lines of standard input, by their relevance to a query.
///
/// Requires a loaded cross-encoder; `accelctl models` lists the models.
#[derive(Debug, Args)]
pub struct RerankArgs {
    /// The query.
    query: String,
    /// Files, each of which is a document; `-`, the default, reads one document per line of standard input.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Name or alias of a loaded cross-encoder.
    #[arg(long, short, add = crate::complete::models())]
    model: String,
    /// Maximum number of results; 0 means all.
    #[arg(short, long = "limit", default_value_t = 0, value_name = "N")]
    k: u32,
    /// Print the classifier's logits instead of activated scores.
    #[arg(long)]
    raw: bool,
    /// Maximum tokens of the query and a document together; 0 means the model's limit.
    #[arg(long, default_value_t = 0, value_name = "N")]
    max_tokens: u32,
}

/// A document; `file` is none for a line of standard input.
struct Document {
    file: Option<String>,
    text: String,
}

#[derive(Serialize)]
struct Answer {
    query: String,
    model: String,
    results: Vec<Ranked>,
}

#[derive(Serialize)]
struct Ranked {
    rank: usize,
    score: f32,
    /// Index of the document.
    index: u32,
    token_count: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

impl Report for Answer {
    fn render(&self, renderer: &mut Renderer) {
        renderer.title(&self.query);
        let mut table = Table::new(["rank", "score", "tokens", "?<document"]);
        for ranked in &self.results {
            let score = renderer.style(Style::Figure, format!("{:.4}", ranked.score));
            let name = ranked.file.as_ref().map(|file| renderer.style(Style::Name, file));
            let document = name.or_else(|| ranked.text.clone()).unwrap_or_default();
            table.row([ranked.rank.to_string(), score, ranked.token_count.to_string(), document]);
        }
        renderer.table(&table);
    }
}

pub async fn run(args: RerankArgs, client: &Client, output: &Output) -> Result {
    let documents = documents(&args.files)?;
    if documents.is_empty() {
        return Err(CliError::Usage("no documents to rank".to_owned()));
    }
    let options = RerankOptions { top_n: args.k, raw_scores: args.raw, max_tokens: args.max_tokens };
    let texts = documents.iter().map(|document| document.text.as_str());
    let ranked = client.rerank(args.model, args.query.as_str(), texts, &options).await?;
    let results = (1..).zip(&ranked.results).filter_map(|(rank, result)| {
        let index = usize::try_from(result.index).ok()?;
        let Document { file, text } = documents.get(index)?;
        let token_count = ranked.token_counts.get(index).copied().unwrap_or(0);
        let text = file.is_none().then(|| text.clone());
        Some(Ranked { rank, score: result.score, index: result.index, token_count, file: file.clone(), text })
    });
    output.show(&Answer { results: results.collect(), query: args.query, model: ranked.model })
}

fn documents(files: &[PathBuf]) -> Result<Vec<Document>> {
    let stdin = [PathBuf::from("-")];
    let mut documents = vec![];
    for path in if files.is_empty() { &stdin } else { files } {
        if path == Path::new("-") {
            documents.extend(lines(path)?.into_iter().map(|text| Document { file: None, text }));
        } else {
            let bytes = fs::read(path).map_err(CliError::file(path))?;
            let file = Some(path.to_string_lossy().into_owned());
            documents.push(Document { file, text: String::from_utf8_lossy(&bytes).into_owned() });
        }
    }
    Ok(documents)
}
