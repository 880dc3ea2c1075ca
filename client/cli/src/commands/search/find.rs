//! Asks the daemon for hits, more of them where some will be left out or change their places here.

use accelerd_client::{Client, Code, Collection, Error, Filter, Found, Hit, SearchOptions, Value};

use super::{SearchArgs, paths::PathFilter, rerank};
use crate::{
    commands::{
        MAX_HITS,
        index::read::{IS_GENERATED, IS_TEST},
    },
    error::Result,
};

/// Hits to look at for each to show, so that one that a penalty puts down makes room for another.
const CANDIDATES: u32 = 4;
/// The same for few.
const MIN_CANDIDATES: u32 = 40;

/// Which paths count.
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

/// The best hits of each query, best first: as many as there are to show, or to choose from. The daemon compares paths only as
/// a whole, so where paths are chosen more hits are asked for until enough are left.
pub async fn hits(client: &Client, args: &SearchArgs) -> Result<Found> {
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
        let mut found = ask(&collection, args, &mut options).await?;
        if paths.are_all() {
            return Ok(found);
        }
        let mut enough = true;
        for hits in &mut found.results {
            let all_seen = hits.len() < limit as usize || limit == MAX_HITS;
            hits.retain(|hit| paths.have(hit));
            enough &= all_seen || hits.len() >= wanted as usize;
            hits.truncate(wanted as usize);
        }
        if enough {
            return Ok(found);
        }
        limit = limit.saturating_mul(8).min(MAX_HITS);
    }
}

fn options(args: &SearchArgs) -> SearchOptions {
    let mut filter = Filter::new();
    if let Some(language) = args.language {
        filter = filter.equals("language", language);
    }
    for (field, is_left_out) in [(IS_TEST, args.no_tests), (IS_GENERATED, args.no_generated)] {
        if is_left_out {
            filter = filter.none_of(field, [true]);
        }
    }
    let mut options = SearchOptions::limit(0);
    options.score_threshold = args.min_score;
    options.filter = (filter != Filter::new()).then_some(filter);
    if !args.no_hybrid && args.min_score.is_none() {
        options = options.fusion(args.fusion.into()).word_weight(args.word_weight);
    }
    options
}

/// Searches. A collection that keeps no texts is searched by vectors alone, unless words were asked for.
async fn ask(collection: &Collection, args: &SearchArgs, options: &mut SearchOptions) -> Result<Found> {
    let search = async |options: &SearchOptions| collection.search_text(args.queries.iter().cloned(), options).await;
    match search(options).await {
        Err(error) if options.hybrid && !args.hybrid && has_no_words(&error) => {
            (options.hybrid, options.word_weight) = (false, None);
            options.fusion = accelerd_client::Fusion::Unspecified;
            Ok(search(options).await?)
        }
        found => Ok(found?),
    }
}

fn has_no_words(error: &Error) -> bool {
    let violations = error.failure().map(|failure| failure.violations.as_slice()).unwrap_or_default();
    error.code() == Code::InvalidArgument && violations.iter().any(|violation| violation.field == "hybrid")
}
