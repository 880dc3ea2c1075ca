//! Puts files or lines in the order in which they answer a query.

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
    page::{Page, Paint, Table},
    screen::{Report, Screen},
};

/// Put files, or the lines of standard input, in the order in which they answer a query.
///
/// By a cross-encoder that the daemon has loaded; `accelctl models` lists them.
#[derive(Debug, Args)]
pub struct RerankArgs {
    /// What the documents are to answer.
    query: String,
    /// Files, each a document; without any, or for `-`, each line of standard input is one.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Name or alias of a loaded cross-encoder.
    #[arg(long, short, add = crate::complete::models())]
    model: String,
    /// Most results; 0 is all.
    #[arg(short, long = "limit", default_value_t = 0, value_name = "N")]
    k: u32,
    /// Scores as the model's classifier gives them, unbounded.
    #[arg(long)]
    raw: bool,
    /// Most tokens of the query and a document together; 0 is the model's own limit.
    #[arg(long, default_value_t = 0, value_name = "N")]
    max_tokens: u32,
}

/// A text and what to call it.
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
    /// Its place among the documents.
    index: u32,
    token_count: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

impl Report for Answer {
    fn render(&self, page: &mut Page) {
        page.title(&self.query);
        let mut table = Table::new(["rank", "score", "tokens", "?<document"]);
        for ranked in &self.results {
            let score = page.paint(Paint::Figure, format!("{:.4}", ranked.score));
            let name = ranked.file.as_ref().map(|file| page.paint(Paint::Name, file));
            let document = name.or_else(|| ranked.text.clone()).unwrap_or_default();
            table.row([ranked.rank.to_string(), score, ranked.token_count.to_string(), document]);
        }
        page.table(&table);
    }
}

/// Reads, asks and shows.
pub async fn run(args: RerankArgs, client: &Client, screen: &Screen) -> Result {
    let documents = documents(&args.files)?;
    if documents.is_empty() {
        return Err(CliError::Usage("there is no document to put in order".to_owned()));
    }
    let options = RerankOptions { top_n: args.k, raw_scores: args.raw, max_tokens: args.max_tokens };
    let texts = documents.iter().map(|document| document.text.as_str());
    let ranked = client.rerank(args.model, args.query.as_str(), texts, &options).await?;
    let results = (1..).zip(&ranked.results).filter_map(|(rank, found)| {
        let at = usize::try_from(found.index).ok()?;
        let Document { file, text } = documents.get(at)?;
        let token_count = ranked.token_counts.get(at).copied().unwrap_or(0);
        let text = file.is_none().then(|| text.clone());
        Some(Ranked { rank, score: found.score, index: found.index, token_count, file: file.clone(), text })
    });
    screen.show(&Answer { results: results.collect(), query: args.query, model: ranked.model })
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
