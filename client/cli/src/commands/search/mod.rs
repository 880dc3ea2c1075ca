//! Searches an indexed collection and shows the hits with snippets of their files.

mod find;
pub mod paths;
mod penalty;
mod rerank;
mod snippet;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use accelerd_client::{Client, Fusion, Hit, Timings, Value};
use clap::{Args, ValueEnum};
use serde::{Serialize, Serializer};

use self::{
    paths::shortest,
    snippet::{Snippet, Words},
};
use super::{conditions::FilterArgs, prompts::QueryPrompt};
use crate::{
    complete,
    error::{CliError, Result},
    format, language,
    output::{Output, Report},
    renderer::{Renderer, Style},
};

/// Search an indexed collection by vectors and full text.
///
/// Exits with 1 if there are no results. Tests and generated files rank lower than other files, unless the query asks for
/// tests.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct SearchArgs {
    /// Queries, in natural language or code; several queries are sent in one call.
    #[arg(required = true, value_name = "QUERY")]
    queries: Vec<String>,
    /// The collection.
    #[arg(long, short, add = complete::collections())]
    collection: String,
    #[command(flatten)]
    prompt: QueryPrompt,
    /// Hits per query.
    #[arg(short, long = "limit", default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16_384))]
    k: u32,
    /// Only files below this path, with these consecutive path components, or matching this glob.
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Exclude files that `--path` would select; can be repeated.
    #[arg(long, value_name = "PATH")]
    exclude: Vec<String>,
    /// Only files of this language, such as `py` or `python`.
    #[arg(long, value_name = "LANGUAGE", value_parser = language::of_word)]
    language: Option<&'static str>,
    #[command(flatten)]
    conditions: FilterArgs,
    /// Exclude tests.
    #[arg(long)]
    no_tests: bool,
    /// Exclude generated files.
    #[arg(long)]
    no_generated: bool,
    /// Rank tests and generated files like all other files.
    #[arg(long)]
    no_penalty: bool,
    /// Fail if the collection has no full-text index, instead of searching by vectors only.
    #[arg(long)]
    hybrid: bool,
    /// Search by vectors only.
    #[arg(long, visible_alias = "vectors-only", conflicts_with = "hybrid")]
    no_hybrid: bool,
    /// Weight of the full-text ranking, from 0 to 1; the vector ranking has the rest.
    #[arg(long, value_name = "WEIGHT", default_value_t = 0.3, conflicts_with = "no_hybrid", value_parser = weight)]
    text_weight: f32,
    /// Fusion of the full-text ranking and the vector ranking.
    #[arg(long, value_name = "HOW", default_value = "relative-score", conflicts_with = "no_hybrid")]
    fusion: FusionArg,
    /// Rerank more hits with this loaded cross-encoder.
    #[arg(long, value_name = "MODEL", add = complete::models())]
    rerank: Option<String>,
    /// Omit hits with a lower score; implies a search by vectors only, whose scores are comparable.
    #[arg(long, value_name = "SCORE", conflicts_with_all = ["hybrid", "rerank"])]
    min_score: Option<f32>,
    /// Lines of each hit to show; 0 shows none.
    #[arg(long, default_value_t = 4, value_name = "N")]
    context: usize,
    /// Folder of the files that were indexed with --name.
    #[arg(long, default_value = ".", value_name = "FOLDER")]
    root: PathBuf,
    /// Show the daemon's timings.
    #[arg(long)]
    timing: bool,
}

/// Fusion of two rankings.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum FusionArg {
    /// Weighted sum of scaled scores.
    RelativeScore,
    /// Reciprocal rank fusion.
    ReciprocalRank,
}

impl From<FusionArg> for Fusion {
    fn from(fusion: FusionArg) -> Self {
        match fusion {
            FusionArg::RelativeScore => Self::RelativeScore,
            FusionArg::ReciprocalRank => Self::ReciprocalRank,
        }
    }
}

fn weight(text: &str) -> std::result::Result<f32, String> {
    let weight = text.parse().ok().filter(|weight| (0.0..=1.0).contains(weight));
    weight.ok_or_else(|| "expected a number from 0 to 1".to_owned())
}

impl SearchArgs {
    /// Returns true if timings are requested.
    pub fn timing(&self) -> bool {
        self.timing
    }
}

#[derive(Serialize)]
struct Results {
    collection: String,
    exact: bool,
    seconds: f64,
    #[serde(skip_serializing_if = "no_timings", serialize_with = "milliseconds")]
    timings_ms: Timings,
    queries: Vec<Answer>,
    #[serde(skip)]
    timing: bool,
}

#[derive(Serialize)]
struct Answer {
    query: String,
    hits: Vec<Shown>,
}

#[derive(Serialize)]
struct Shown {
    rank: usize,
    score: f32,
    id: String,
    path: Option<String>,
    start_line: Option<i64>,
    end_line: Option<i64>,
    language: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip)]
    tree: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    snippet: Option<Snippet>,
}

impl Report for Results {
    fn render(&self, renderer: &mut Renderer) {
        for (index, answer) in self.queries.iter().enumerate() {
            if index > 0 {
                renderer.gap();
            }
            renderer.title(&answer.query);
            if answer.hits.is_empty() {
                renderer.line(renderer.style(Style::Dim, "  no results"));
            }
            let words = Words::of(&answer.query);
            answer.hits.iter().for_each(|hit| hit.render(renderer, &words));
        }
        if self.timing {
            let stages = self.timings_ms.0.iter().map(|stage| (stage.name.as_str(), format::time(stage.duration)));
            let round_trip = Duration::try_from_secs_f64(self.seconds).unwrap_or_default();
            renderer.gap();
            renderer.facts(stages.chain([("round trip", format::time(round_trip))]));
        }
    }
}

fn no_timings(timings: &Timings) -> bool {
    timings.0.is_empty()
}

/// Serializes the stages of a call as an object of milliseconds.
fn milliseconds<S: Serializer>(timings: &Timings, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(timings.0.iter().map(|stage| (&stage.name, stage.duration.as_secs_f64() * 1e3)))
}

impl Shown {
    fn render(&self, renderer: &mut Renderer, words: &Words) {
        let score = renderer.style(Style::Figure, format!("{:.3}", self.score));
        let lines = match (self.start_line, self.end_line) {
            (Some(start), Some(end)) => format!(":{start}-{end}"),
            _ => String::new(),
        };
        let name = self.path.as_deref().map_or_else(
            || renderer.style(Style::Name, &self.id),
            |path| {
                let max_width =
                    renderer.width().saturating_sub(30 + self.name.as_deref().map_or(0, |name| name.len() + 4)).max(30);
                let (folder, rest) = shortest(path, self.tree.as_deref(), max_width);
                renderer.style(Style::Dim, folder) + &renderer.style(Style::Name, rest)
            },
        );
        let language = renderer.style(Style::Dim, self.language.as_deref().unwrap_or_default());
        let qualified = self.name.as_ref().map(|name| renderer.style(Style::Title, name) + "  ").unwrap_or_default();
        let lines = renderer.style(Style::Dim, lines);
        renderer.line(format!("{:>3}  {score}  {name}{lines}  {qualified}{language}", self.rank));
        for (number, line) in self.snippet.iter().flat_map(Snippet::numbered) {
            let line = words.mark(line, |word| renderer.style(Style::Warn, word));
            renderer.line(format!("     {} {line}", renderer.style(Style::Dim, format!("{number:>5} │"))));
        }
    }
}

pub async fn run(args: SearchArgs, client: &Client, output: &Output) -> Result {
    let start = Instant::now();
    let mut results = find::hits(client, &args).await?;
    if let Some(model) = &args.rerank {
        rerank::hits(client, model, &args.queries, &args.root, &mut results).await?;
    }
    for (query, hits) in args.queries.iter().zip(&mut results.results) {
        if !args.no_penalty {
            penalty::apply(query, hits);
        }
        hits.truncate(args.k as usize);
    }
    let seconds = start.elapsed().as_secs_f64();
    let nothing = results.results.iter().all(Vec::is_empty);
    let answer = |(query, hits): (&String, Vec<Hit>)| {
        let words = Words::of(query);
        Answer {
            query: query.clone(),
            hits: (1..).zip(hits).map(|(rank, hit)| shown(rank, &hit, &words, &args)).collect(),
        }
    };
    output.show(&Results {
        exact: results.exact,
        seconds,
        timings_ms: results.timings,
        queries: args.queries.iter().zip(results.results).map(answer).collect(),
        timing: args.timing,
        collection: args.collection,
    })?;
    if nothing { Err(CliError::NothingFound) } else { Ok(()) }
}

fn shown(rank: usize, hit: &Hit, words: &Words, args: &SearchArgs) -> Shown {
    let text = |field: &str| hit.payload.get(field).and_then(Value::as_str).map(str::to_owned);
    let line = |field: &str| hit.payload.get(field).and_then(Value::as_int);
    let path = text("path");
    let start_line = line("start_line");
    let end_line = line("end_line");
    let snippet = match (&path, start_line, end_line) {
        (Some(path), Some(start), Some(end)) if args.context > 0 => {
            snippet::read(&args.root.join(path), start, end, args.context, words)
        }
        _ => None,
    };
    Shown {
        rank,
        score: hit.score,
        id: hit.id.to_string(),
        path,
        start_line,
        end_line,
        language: text("language"),
        name: text("name"),
        tree: text("tree"),
        snippet,
    }
}
