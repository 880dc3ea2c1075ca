//! Finds indexed chunks by meaning and shows them where they stand on disk.

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
use crate::{
    complete,
    error::{CliError, Result},
    human, language,
    page::{Page, Paint},
    screen::{Report, Screen},
};

/// Search an indexed collection by meaning and by words.
///
/// Exits with 1 where nothing is found. Tests and generated files rank lower than other files, unless the query asks for
/// tests.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct SearchArgs {
    /// What to look for, in words or code; several queries are one call.
    #[arg(required = true, value_name = "QUERY")]
    queries: Vec<String>,
    /// The collection.
    #[arg(long, short, add = complete::collections())]
    collection: String,
    /// Hits a query.
    #[arg(short, long = "limit", default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16_384))]
    k: u32,
    /// Only files below this path, or with these path components in a row, or that match this glob.
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Leave out files that `--path` would mean; may be given several times.
    #[arg(long, value_name = "PATH")]
    exclude: Vec<String>,
    /// Only files of this language: `py` or `python`.
    #[arg(long, value_name = "LANGUAGE", value_parser = language::of_word)]
    language: Option<&'static str>,
    /// Leave out tests.
    #[arg(long)]
    no_tests: bool,
    /// Leave out generated files.
    #[arg(long)]
    no_generated: bool,
    /// Rank tests and generated files like all other files.
    #[arg(long)]
    no_penalty: bool,
    /// Fail where the collection keeps no texts to find words in, instead of searching by meaning alone.
    #[arg(long)]
    hybrid: bool,
    /// Search by meaning alone.
    #[arg(long, visible_alias = "vectors-only", conflicts_with = "hybrid")]
    no_hybrid: bool,
    /// What words weigh, from 0 to 1; meaning weighs the rest.
    #[arg(long, value_name = "WEIGHT", default_value_t = 0.3, conflicts_with = "no_hybrid", value_parser = weight)]
    word_weight: f32,
    /// How the rankings by words and by meaning become one.
    #[arg(long, value_name = "HOW", default_value = "relative-score", conflicts_with = "no_hybrid")]
    fusion: FusionArg,
    /// Search for more, and put them in the order that this loaded cross-encoder gives their texts.
    #[arg(long, value_name = "MODEL", add = complete::models())]
    rerank: Option<String>,
    /// Leave out hits with a lower score; searches by meaning alone, whose scores can be compared.
    #[arg(long, value_name = "SCORE", conflicts_with_all = ["hybrid", "rerank"])]
    min_score: Option<f32>,
    /// Lines of each hit to show; 0 shows none.
    #[arg(long, default_value_t = 4, value_name = "N")]
    context: usize,
    /// Where files indexed with --name are on this machine.
    #[arg(long, default_value = ".", value_name = "FOLDER")]
    root: PathBuf,
    /// Show where the daemon spent the time.
    #[arg(long)]
    timing: bool,
}

/// How two rankings become one.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum FusionArg {
    /// By where scores lie between the worst and the best.
    RelativeScore,
    /// By one over the rank.
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
    /// Whether the daemon should say where it spent the time.
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
    fn render(&self, page: &mut Page) {
        for (at, answer) in self.queries.iter().enumerate() {
            if at > 0 {
                page.gap();
            }
            page.title(&answer.query);
            if answer.hits.is_empty() {
                page.line(page.paint(Paint::Dim, "  nothing found"));
            }
            let words = Words::of(&answer.query);
            answer.hits.iter().for_each(|hit| hit.render(page, &words));
        }
        if self.timing {
            let stages = self.timings_ms.0.iter().map(|stage| (stage.name.as_str(), human::time(stage.duration)));
            let round_trip = Duration::try_from_secs_f64(self.seconds).unwrap_or_default();
            page.gap();
            page.facts(stages.chain([("round trip", human::time(round_trip))]));
        }
    }
}

fn no_timings(timings: &Timings) -> bool {
    timings.0.is_empty()
}

/// Stages of a call as an object of milliseconds.
fn milliseconds<S: Serializer>(timings: &Timings, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(timings.0.iter().map(|stage| (&stage.name, stage.duration.as_secs_f64() * 1e3)))
}

impl Shown {
    fn render(&self, page: &mut Page, words: &Words) {
        let score = page.paint(Paint::Figure, format!("{:.3}", self.score));
        let lines = match (self.start_line, self.end_line) {
            (Some(start), Some(end)) => format!(":{start}-{end}"),
            _ => String::new(),
        };
        let name = self.path.as_deref().map_or_else(
            || page.paint(Paint::Name, &self.id),
            |path| {
                let most =
                    page.width().saturating_sub(30 + self.name.as_deref().map_or(0, |name| name.len() + 4)).max(30);
                let (folder, rest) = shortest(path, self.tree.as_deref(), most);
                page.paint(Paint::Dim, folder) + &page.paint(Paint::Name, rest)
            },
        );
        let language = page.paint(Paint::Dim, self.language.as_deref().unwrap_or_default());
        let qualified = self.name.as_ref().map(|name| page.paint(Paint::Title, name) + "  ").unwrap_or_default();
        let lines = page.paint(Paint::Dim, lines);
        page.line(format!("{:>3}  {score}  {name}{lines}  {qualified}{language}", self.rank));
        for (number, line) in self.snippet.iter().flat_map(Snippet::numbered) {
            let line = words.mark(line, |word| page.paint(Paint::Warn, word));
            page.line(format!("     {} {line}", page.paint(Paint::Dim, format!("{number:>5} │"))));
        }
    }
}

/// Searches and shows.
pub async fn run(args: SearchArgs, client: &Client, screen: &Screen) -> Result {
    let start = Instant::now();
    let mut found = find::hits(client, &args).await?;
    if let Some(model) = &args.rerank {
        rerank::hits(client, model, &args.queries, &args.root, &mut found).await?;
    }
    for (query, hits) in args.queries.iter().zip(&mut found.results) {
        if !args.no_penalty {
            penalty::apply(query, hits);
        }
        hits.truncate(args.k as usize);
    }
    let seconds = start.elapsed().as_secs_f64();
    let nothing = found.results.iter().all(Vec::is_empty);
    let answer = |(query, hits): (&String, Vec<Hit>)| {
        let words = Words::of(query);
        Answer {
            query: query.clone(),
            hits: (1..).zip(hits).map(|(rank, hit)| shown(rank, &hit, &words, &args)).collect(),
        }
    };
    screen.show(&Results {
        exact: found.exact,
        seconds,
        timings_ms: found.timings,
        queries: args.queries.iter().zip(found.results).map(answer).collect(),
        timing: args.timing,
        collection: args.collection,
    })?;
    if nothing { Err(CliError::NothingFound) } else { Ok(()) }
}

fn shown(rank: usize, hit: &Hit, words: &Words, args: &SearchArgs) -> Shown {
    let text = |field: &str| hit.payload.get(field).and_then(Value::as_str).map(str::to_owned);
    let line = |field: &str| hit.payload.get(field).and_then(Value::as_int);
    let (path, start_line, end_line) = (text("path"), line("start_line"), line("end_line"));
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
