//! Requests hits from the daemon: more than are shown, if some are filtered or reordered here.

use accelerd_client::{Client, Code, Collection, Error, Filter, Hit, SearchOptions, SearchResults, Value};

use super::{SearchArgs, paths::PathFilter, rerank};
use crate::{
    commands::{
        MAX_HITS,
        index::read::{IS_GENERATED, IS_TEST},
    },
    error::Result,
};

/// Candidates per hit to show, from which a penalised hit is replaced.
const CANDIDATES: u32 = 4;
/// Minimum number of candidates.
const MIN_CANDIDATES: u32 = 40;

/// Filters of --path and --exclude.
struct Paths {
    within: Option<PathFilter>,
    without: Vec<PathFilter>,
}

impl Paths {
    fn new(args: &SearchArgs) -> Result<Self> {
        let within = args.path.as_deref().map(|path| PathFilter::new("--path", path)).transpose()?;
        let without = args.exclude.iter().map(|path| PathFilter::new("--exclude", path)).collect::<Result<_>>()?;
        Ok(Self { within, without })
    }

    fn are_all(&self) -> bool {
        self.within.is_none() && self.without.is_empty()
    }

    fn have(&self, hit: &Hit) -> bool {
        let path = hit.payload.get("path").and_then(Value::as_str);
        let within = self.within.as_ref().is_none_or(|within| path.is_some_and(|path| within.matches(path)));
        within && !path.is_some_and(|path| self.without.iter().any(|without| without.matches(path)))
    }
}

/// Returns the candidates of each query, best first. The daemon filters only by whole paths, so with a path filter more hits
/// are requested until enough of them match.
pub async fn hits(client: &Client, args: &SearchArgs) -> Result<SearchResults> {
    let collection = client.collection(&args.collection);
    let paths = Paths::new(args)?;
    let wanted = match (&args.rerank, args.no_penalty) {
        (Some(_), _) => rerank::candidates(args.k),
        (None, true) => args.k,
        (None, false) => args.k.saturating_mul(CANDIDATES).max(MIN_CANDIDATES),
    };
    let wanted = wanted.min(MAX_HITS);
    let mut limit = if paths.are_all() { wanted } else { wanted.saturating_mul(8).clamp(64, MAX_HITS) };
    let mut options = options(args);
    loop {
        options.limit = limit;
        let mut results = search(&collection, args, &mut options).await?;
        if paths.are_all() {
            return Ok(results);
        }
        let mut enough = true;
        for hits in &mut results.results {
            let all_seen = hits.len() < limit as usize || limit == MAX_HITS;
            hits.retain(|hit| paths.have(hit));
            enough &= all_seen || hits.len() >= wanted as usize;
            hits.truncate(wanted as usize);
        }
        if enough {
            return Ok(results);
        }
        limit = limit.saturating_mul(8).min(MAX_HITS);
    }
}

fn options(args: &SearchArgs) -> SearchOptions {
    let mut filter = args.conditions.filter().unwrap_or_default();
    if let Some(language) = args.language {
        filter = filter.equals("language", language);
    }
    for (field, is_left_out) in [(IS_TEST, args.no_tests), (IS_GENERATED, args.no_generated)] {
        if is_left_out {
            filter = filter.none_of(field, [true]);
        }
    }
    let mut options = SearchOptions::limit(0).prompt(args.prompt.prompt());
    options.score_threshold = args.min_score;
    options.filter = (filter != Filter::new()).then_some(filter);
    if !args.no_hybrid && args.min_score.is_none() {
        options = options.fusion(args.fusion.into()).text_weight(args.text_weight);
    }
    options
}

/// Searches; by vectors only if the collection has no full-text index, unless --hybrid is set.
async fn search(collection: &Collection, args: &SearchArgs, options: &mut SearchOptions) -> Result<SearchResults> {
    let call = async |options: &SearchOptions| collection.search_text(args.queries.iter().cloned(), options).await;
    match call(options).await {
        Err(error) if options.hybrid && !args.hybrid && lacks_text_index(&error) => {
            (options.hybrid, options.text_weight) = (false, None);
            options.fusion = accelerd_client::Fusion::Unspecified;
            Ok(call(options).await?)
        }
        found => Ok(found?),
    }
}

fn lacks_text_index(error: &Error) -> bool {
    let violations = error.failure().map(|failure| failure.violations.as_slice()).unwrap_or_default();
    error.code() == Code::InvalidArgument && violations.iter().any(|violation| violation.field == "hybrid")
}
