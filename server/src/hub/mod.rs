//! Models of a hub, by `hf://owner/name[@revision]`: which of their files are needed, fetched to a folder that the loader
//! reads like any other. Who may ask for it, the settings say.

use std::{collections::BTreeSet, path::PathBuf};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    config::{self, Allow},
    error::ApiError,
};

mod folder;
mod repo;
mod wire;

pub use folder::Fetched;
use folder::{Shelf, bytes_below, disk};
pub use repo::Repo;
use repo::{is_commit, is_plain};
use wire::{Listed, Listing, Wire};

const CONFIG: &str = "config.json";
const MODULES: &str = "modules.json";
const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// What is read beside weights and modules, where it is there.
const SETTINGS: [&str; 5] = [
    CONFIG,
    "tokenizer.json",
    "tokenizer_config.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
];

/// Most files of a model.
const MOST_FILES: usize = 1_024;

/// Who asks for a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// The daemon's own settings.
    Settings,
    /// A caller.
    Caller,
}

/// The hub of the settings.
#[derive(Debug)]
pub struct Hub {
    settings: config::Hub,
    wire: Option<Wire>,
}

/// A model as it is on the hub or in the cache, before its files are fetched.
#[derive(Debug)]
pub struct Found(State);

#[derive(Debug)]
enum State {
    Here(Fetched),
    There(Coming),
}

/// A commit whose files are to come.
#[derive(Debug)]
struct Coming {
    shelf: Shelf,
    repo: Repo,
    commit: String,
    files: Vec<Listed>,
}

impl Found {
    /// Bytes of the weights that are still to come, as far as the hub says.
    pub fn weight_bytes(&self) -> u64 {
        let State::There(coming) = &self.0 else { return 0 };
        let weights = coming.files.iter().filter(|file| file.path.ends_with(".safetensors"));
        weights.filter_map(|file| file.size).fold(0, u64::saturating_add)
    }
}

impl Hub {
    /// The hub of the settings, with the token of the daemon's environment.
    pub fn new(settings: &config::Hub, token: Option<String>) -> Self {
        let wire = Wire::new(&settings.endpoint, settings.timeout, token);
        Self { settings: settings.clone(), wire }
    }

    /// Refuses what the settings do not allow.
    pub fn check(&self, repo: &Repo, asker: Asker) -> Result<(), ApiError> {
        let config::Hub { allow, owners, .. } = &self.settings;
        let is_allowed = match asker {
            Asker::Settings => *allow != Allow::Off,
            Asker::Caller => *allow == Allow::Callers,
        };
        if !is_allowed {
            let advice = "start the daemon with `--model hf://owner/name`, set models.hub.allow = \"callers\", or give the path \
                          of a folder instead";
            return Err(ApiError::Denied(format!(
                "path: models.hub.allow is \"{allow}\", so {repo} is not fetched: {advice}"
            )));
        }
        if owners.is_empty() || owners.contains(&repo.owner) {
            return Ok(());
        }
        Err(ApiError::Denied(format!("path: {repo} is of none of models.hub.owners: {}", owners.join(", "))))
    }

    /// Looks a model up. Blocking, as is [`Self::fetch`].
    ///
    /// A commit that is in the cache is not asked for. What a branch was when it was last fetched serves where the hub does
    /// not answer, and always where the settings say to be offline.
    pub fn find(&self, repo: &Repo, gone: &CancellationToken) -> Result<Found, ApiError> {
        let shelf = Shelf::open(&self.settings.cache, repo, gone)?;
        let is_pinned = is_commit(&repo.revision);
        let last = if is_pinned { Some(repo.revision.clone()) } else { shelf.last(repo) };
        let here = last.filter(|commit| shelf.holds(commit));
        match here {
            Some(commit) if is_pinned || self.settings.offline => Ok(shelf.take(&commit)),
            None if self.settings.offline => {
                let reason = format!("{repo} is not in models.hub.cache, and models.hub.offline is true");
                Err(ApiError::Unavailable(reason))
            }
            here => match (self.wire()?.list(repo), here) {
                (Ok(listing), _) => self.compare(shelf, repo, listing, gone),
                (Err(ApiError::Unavailable(reason)), Some(commit)) => {
                    tracing::warn!(model = %repo, commit, reason, "the model is taken from the cache");
                    Ok(shelf.take(&commit))
                }
                (Err(error), _) => Err(error),
            },
        }
        .map(Found)
    }

    fn wire(&self) -> Result<&Wire, ApiError> {
        self.wire.as_ref().ok_or_else(|| ApiError::Unavailable("models.hub.endpoint is no address".to_owned()))
    }

    /// What is still to come of a commit that the hub named.
    fn compare(
        &self,
        shelf: Shelf,
        repo: &Repo,
        listing: Listing,
        gone: &CancellationToken,
    ) -> Result<State, ApiError> {
        let Listing { sha: commit, siblings } = listing;
        if !is_commit(&commit) {
            return Err(ApiError::Unavailable(format!("the hub names no commit of {repo}")));
        }
        if shelf.holds(&commit) {
            shelf.remember(repo, &commit)?;
            return Ok(shelf.take(&commit));
        }
        let mut coming = Coming { shelf, repo: repo.clone(), commit, files: vec![] };
        coming.files = needed(repo, &siblings, |file| self.parsed(&coming, file, gone))?;
        self.check_room(&coming)?;
        Ok(State::There(coming))
    }

    /// Refuses what the cache has no room for, as far as the hub says how large it is.
    fn check_room(&self, coming: &Coming) -> Result<(), ApiError> {
        let config::Hub { cache, cache_limit, .. } = &self.settings;
        let limit = cache_limit.as_u64();
        if limit == 0 || cache.as_os_str().is_empty() {
            return Ok(());
        }
        let folder = coming.shelf.coming(&coming.commit)?;
        let missing = coming.files.iter().filter(|file| !folder.join(&file.path).exists());
        let need = missing.filter_map(|file| file.size).fold(0, u64::saturating_add);
        let held = bytes_below(cache).map_err(|error| disk(cache, &error))?;
        if held.saturating_add(need) <= limit {
            return Ok(());
        }
        let repo = &coming.repo;
        let reason = format!("models.hub.cache holds {held} bytes of at most {limit} (models.hub.cache_limit)");
        Err(ApiError::Exhausted(format!("{reason}, and {repo} has {need} more")))
    }

    /// A file of JSON, fetched at once.
    fn parsed(&self, coming: &Coming, file: &Listed, gone: &CancellationToken) -> Result<Value, ApiError> {
        let path = self.bring(coming, file, gone)?;
        let text = std::fs::read(&path).map_err(|error| disk(&path, &error))?;
        serde_json::from_slice(&text).map_err(|error| {
            let (repo, path) = (&coming.repo, &file.path);
            ApiError::invalid("path", format!("{path} of {repo}: {error}"))
        })
    }

    /// Fetches what is still to come. Only a whole model gets the name by which it is found later; files that came before a
    /// fetch broke off are not fetched again by the next.
    pub fn fetch(&self, found: Found, gone: &CancellationToken) -> Result<Fetched, ApiError> {
        match found.0 {
            State::Here(fetched) => Ok(fetched),
            State::There(coming) => {
                let Coming { repo, commit, files, .. } = &coming;
                tracing::info!(model = %repo, commit, files = files.len(), "a model is fetched from the hub");
                for file in files {
                    self.bring(&coming, file, gone)?;
                }
                let Coming { shelf, repo, commit, .. } = coming;
                shelf.finish(&repo, &commit)
            }
        }
    }

    /// Fetches a file, if it is not here yet: under another name until it is whole.
    fn bring(&self, coming: &Coming, file: &Listed, gone: &CancellationToken) -> Result<PathBuf, ApiError> {
        let path = coming.shelf.coming(&coming.commit)?.join(&file.path);
        let length = std::fs::metadata(&path).ok().map(|data| data.len());
        if length.is_some_and(|length| file.size.is_none_or(|size| size == length)) {
            return Ok(path);
        }
        let folder = path.parent().unwrap_or(&path);
        std::fs::create_dir_all(folder).map_err(|error| disk(folder, &error))?;
        let part = coming.shelf.coming(&coming.commit)?.join("part");
        self.wire()?.download(&coming.repo, &coming.commit, file, &part, gone)?;
        std::fs::rename(&part, &path).map_err(|error| disk(&path, &error))?;
        Ok(path)
    }
}

/// The files that the loader reads, of all that a model has. `parsed` gives what is in one that names others.
fn needed(
    repo: &Repo,
    all: &[Listed],
    parsed: impl Fn(&Listed) -> Result<Value, ApiError>,
) -> Result<Vec<Listed>, ApiError> {
    let unfit = |reason: String| ApiError::invalid("path", format!("{repo} {reason}"));
    let find = |path: &str| all.iter().find(|file| file.path == path);
    let must = |path: &str| find(path).ok_or_else(|| unfit(format!("has no {path}")));
    must(CONFIG)?;
    let mut needed: Vec<_> = SETTINGS.iter().filter_map(|path| find(path)).collect();
    if let Some(modules) = find(MODULES) {
        needed.push(modules);
        needed.extend(poolings(&parsed(modules)?).iter().filter_map(|path| find(path)));
    }
    if let Some(weights) = find(WEIGHTS) {
        needed.push(weights);
    } else if let Some(index) = find(INDEX) {
        needed.push(index);
        for name in shards(&parsed(index)?) {
            if !is_plain(&name) {
                return Err(unfit(format!("names {name:?} in {INDEX}, which is no file's name")));
            }
            needed.push(must(&name)?);
        }
    } else {
        let hint =
            if find("pytorch_model.bin").is_some() { ", but pytorch_model.bin: a pickle is a program" } else { "" };
        return Err(unfit(format!("has neither {WEIGHTS} nor {INDEX}{hint}")));
    }
    if needed.len() > MOST_FILES {
        return Err(unfit(format!("has {} files, expected at most {MOST_FILES}", needed.len())));
    }
    Ok(needed.into_iter().cloned().collect())
}

/// The files that say how modules pool.
fn poolings(modules: &Value) -> Vec<String> {
    let modules = modules.as_array().into_iter().flatten();
    let folders = modules.filter_map(|module| module.get("path")?.as_str()).filter(|folder| is_plain(folder));
    folders.map(|folder| format!("{folder}/{CONFIG}")).collect()
}

/// The files that an index parts weights into.
fn shards(index: &Value) -> BTreeSet<String> {
    let names = index.get("weight_map").and_then(Value::as_object).into_iter().flat_map(|map| map.values());
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}
