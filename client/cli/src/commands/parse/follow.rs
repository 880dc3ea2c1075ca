//! Parses files that change after the first pass.

use std::{
    collections::{BTreeMap, HashSet},
    path::PathBuf,
    time::{Duration, Instant},
};

use accelerd_client::{Client, Parsed};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{ParseArgs, Summary, parse, show::Problem, show_summary, sources, warn_of};
use crate::{
    error::{CliError, Result},
    format,
    interrupt::Interrupt,
    output::{Output, Report, write_json_lines},
    renderer::{Renderer, Style},
    walk::{Scope, Walked},
    watch::Watch,
};

/// The sources by name.
type KnownSources = BTreeMap<String, KnownSource>;

/// A source that was found, and the result of its last parse.
#[derive(Debug)]
struct KnownSource {
    disk: PathBuf,
    /// Of its content, once it was parsed.
    hash: Option<[u8; 32]>,
    is_valid: bool,
}

/// A change that was parsed.
#[derive(Debug, Serialize)]
struct Change {
    files: u64,
    error_count: u64,
    errors: Vec<Problem>,
    /// Sources that have no error any more.
    fixed: Vec<String>,
    /// Sources that were removed.
    removed: Vec<String>,
    seconds: f64,
}

impl Report for Change {
    fn render(&self, renderer: &mut Renderer) {
        for problem in &self.errors {
            renderer.whole_line(problem.line(renderer));
        }
        for path in &self.fixed {
            let fixed = renderer.style(Style::Good, "no errors any more");
            renderer.whole_line(format!("{}: {fixed}", renderer.style(Style::Name, path)));
        }
    }
}

/// Parses all sources, and then those that change until Ctrl-C, which is an error.
pub async fn run(args: &ParseArgs, client: &Client, output: &Output) -> Result {
    let start = Instant::now();
    let interrupt = Interrupt::listen();
    let (walk, stdin) = sources::walk(args)?;
    if stdin {
        return Err(CliError::Usage("standard input cannot be watched".into()));
    }
    let (mut watch, walked) = interrupt.stops(Watch::begin(walk, args.watch, output)).await??;
    let mut known = KnownSources::new();
    let (summary, _) = interrupt.stops(update(args, client, output, start, &mut known, walked)).await??;
    if output.json() && !args.show.anything() {
        write_json_lines([&summary])?;
    } else {
        show_summary(&summary, args.show, output)?;
    }
    output.note("watching for changes; press Ctrl-C to stop");
    let mut removed = vec![];
    loop {
        let (scope, walked) = interrupt.stops(watch.next()).await??;
        let start = Instant::now();
        removed.extend(forget_removed(&mut known, &scope, &walked));
        match interrupt.stops(update(args, client, output, start, &mut known, walked)).await? {
            Ok((summary, fixed)) => show_change(args, output, summary, fixed, std::mem::take(&mut removed))?,
            Err(error) if error.is_transient() => {
                output.warn(format!("{error}: changes are kept and parsed again"));
                interrupt.stops(watch.put_back(&scope)).await?;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Parses the sources of a walk whose content is new. Returns the names of those that have no error any more, too.
async fn update(
    args: &ParseArgs,
    client: &Client,
    output: &Output,
    start: Instant,
    known: &mut KnownSources,
    walked: Walked,
) -> Result<(Summary, Vec<String>)> {
    let sources = sources::sources(args, walked);
    for source in &sources.files {
        let disk = source.disk.clone().unwrap_or_default();
        known.entry(source.name.clone()).or_insert(KnownSource { disk, hash: None, is_valid: true });
    }
    // After an error, all are parsed again.
    let mut parsed_sources = vec![];
    let is_new = |path: &str, parsed: Parsed<'_>| {
        let hash = Some(Sha256::digest(parsed.text()).into());
        let is_new = known.get(path).is_some_and(|source| source.hash != hash);
        parsed_sources.push((path.to_owned(), hash, parsed.is_valid()));
        is_new
    };
    let summary = parse(args, client, output, start, sources, is_new).await?;
    let mut fixed = vec![];
    for (path, hash, is_valid) in parsed_sources {
        let Some(source) = known.get_mut(&path) else { continue };
        source.hash = hash;
        if !std::mem::replace(&mut source.is_valid, is_valid) && is_valid {
            fixed.push(path);
        }
    }
    Ok((summary, fixed))
}

/// Removes the sources of a scope that do not exist any more. Returns their names.
fn forget_removed(known: &mut KnownSources, scope: &Scope, walked: &Walked) -> Vec<String> {
    if !walked.complete {
        return vec![];
    }
    let names: HashSet<_> = walked.files.iter().map(|file| &file.path).collect();
    let is_removed = |name: &String, source: &mut KnownSource| scope.contains(&source.disk) && !names.contains(name);
    known.extract_if(.., is_removed).map(|(name, _)| name).collect()
}

fn show_change(
    args: &ParseArgs,
    output: &Output,
    summary: Summary,
    fixed: Vec<String>,
    removed: Vec<String>,
) -> Result {
    if summary.files == 0 && removed.is_empty() {
        return Ok(());
    }
    if args.show.anything() {
        warn_of(&summary.errors, output);
        return Ok(());
    }
    let Summary { files, error_count, errors, seconds, .. } = summary;
    let change = Change { files, error_count, errors, fixed, removed, seconds };
    if output.json() {
        return write_json_lines([change]);
    }
    output.show(&change)?;
    let parsed = format::plural(files, "file");
    let errors = format::plural(error_count, "error");
    let removed = match change.removed.len() {
        0 => String::new(),
        count => format!(", {} removed", format::plural(count as u64, "file")),
    };
    let time = format::time(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    output.note(format!("{parsed} parsed, {errors}{removed}, {time}"));
    Ok(())
}
