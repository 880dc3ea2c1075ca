//! Finds the most similar rows of two matrices or two lists of texts.

use std::path::Path;

use accelerd_client::{Client, Error, Matrix, SimilarOptions};
use clap::Args;
use serde::Serialize;

use super::embed::{ModelArgs, lines};
use crate::{
    error::{CliError, Result},
    npy,
    output::{Output, Report},
    renderer::{Renderer, Style, Table},
};

/// Texts per call.
const BATCH: usize = 512;

/// Find the most similar rows of a corpus for each query.
///
/// Takes .npy files of vectors, or with --text files with one text per line.
#[derive(Debug, Args)]
pub struct SimilarArgs {
    /// The queries: a .npy file; with --text a file of texts, `-` for standard input, or a text.
    queries: String,
    /// The corpus: a .npy file; with --text a file of texts.
    corpus: String,
    /// Embed texts instead of reading vectors.
    #[arg(long)]
    text: bool,
    /// Rows per query.
    #[arg(short, long = "limit", default_value_t = 10, value_name = "N")]
    k: u32,
    /// Metric.
    #[arg(long, value_enum, default_value_t = Metric::Cosine)]
    metric: Metric,
    #[command(flatten)]
    model: ModelArgs,
}

/// Metric.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Metric {
    /// Cosine similarity.
    Cosine,
    /// Inner product.
    Dot,
    /// Squared Euclidean distance.
    L2,
}

impl From<Metric> for accelerd_client::Metric {
    fn from(metric: Metric) -> Self {
        match metric {
            Metric::Cosine => Self::Cosine,
            Metric::Dot => Self::Dot,
            Metric::L2 => Self::SquaredL2,
        }
    }
}

#[derive(Serialize)]
struct Results {
    queries: Vec<Answer>,
}

#[derive(Serialize)]
struct Answer {
    query: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    matches: Vec<Match>,
}

#[derive(Serialize)]
struct Match {
    row: usize,
    score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

impl Report for Results {
    fn render(&self, renderer: &mut Renderer) {
        for answer in &self.queries {
            renderer.title(answer.text.clone().unwrap_or_else(|| format!("query {}", answer.query)));
            let mut table = Table::new(["row", "score", "?<text"]);
            for hit in &answer.matches {
                let score = renderer.style(Style::Figure, format!("{:.4}", hit.score));
                table.row([hit.row.to_string(), score, hit.text.clone().unwrap_or_default()]);
            }
            renderer.table(&table);
        }
    }
}

/// Vectors and their texts.
struct Side {
    vectors: Matrix,
    texts: Option<Vec<String>>,
}

impl Side {
    fn text(&self, row: usize) -> Option<String> {
        self.texts.as_ref().and_then(|texts| texts.get(row)).cloned()
    }
}

pub async fn run(args: SimilarArgs, client: &Client, output: &Output) -> Result {
    let queries = side(&args.queries, &args, client).await?;
    let corpus = side(&args.corpus, &args, client).await?;
    let k = args.k.min(u32::try_from(corpus.vectors.rows()).unwrap_or(u32::MAX));
    let options = SimilarOptions { metric: args.metric.into(), k, score_threshold: None };
    let similar = client.find_similar(&queries.vectors, &corpus.vectors, &options).await?;
    let answers = similar.indices.iter().zip(similar.scores.iter()).enumerate().map(|(query, (indices, scores))| {
        let rows = indices.iter().zip(scores).filter_map(|(row, score)| Some((usize::try_from(*row).ok()?, *score)));
        let matches = rows.map(|(row, score)| Match { row, score, text: corpus.text(row) }).collect();
        Answer { query, text: queries.text(query), matches }
    });
    output.show(&Results { queries: answers.collect() })
}

async fn side(given: &str, args: &SimilarArgs, client: &Client) -> Result<Side> {
    if !args.text {
        return Ok(Side { vectors: npy::read(Path::new(given))?, texts: None });
    }
    let is_file = given == "-" || Path::new(given).is_file();
    let texts = if is_file { lines(Path::new(given))? } else { vec![given.to_owned()] };
    if texts.is_empty() {
        return Err(CliError::Usage(format!("{given} contains no texts")));
    }
    let mut numbers = vec![];
    let mut dim = 0;
    for batch in texts.chunks(BATCH) {
        let embeddings = client.embed_with(batch.iter().cloned(), &args.model.options()).await?;
        dim = embeddings.vectors.dim();
        numbers.extend_from_slice(embeddings.vectors.as_slice());
    }
    Ok(Side { vectors: Matrix::new(numbers, dim).map_err(Error::from)?, texts: Some(texts) })
}
