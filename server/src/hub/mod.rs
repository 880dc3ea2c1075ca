//! Downloads models from a hub by `hf://owner/name[@revision]`: selects the files that the loader reads and stores them in the
//! cache.

use std::{collections::BTreeSet, path::PathBuf};

use accelerd_models::hf::OPTIONAL_FILES;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    config::{self, Allow},
    error::ApiError,
};

mod cache;
mod client;
mod repo;

pub use cache::Snapshot;
use cache::{ModelCache, cache_error, directory_bytes};
use client::{HubClient, RepoFile, RepoInfo};
pub use repo::Repo;
use repo::{is_commit, is_component};

const CONFIG: &str = "config.json";
const MODULES: &str = "modules.json";
const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// Maximum number of files of a model.
const MAX_FILES: usize = 1_024;

/// Who requests a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requester {
    /// The daemon's settings.
    Settings,
    /// A client.
    Client,
}

/// A hub and its cache.
#[derive(Debug)]
pub struct Hub {
    settings: config::HubSettings,
    client: Option<HubClient>,
}

/// A resolved model, before its missing files are downloaded.
#[derive(Debug)]
pub struct Resolved(Source);

#[derive(Debug)]
enum Source {
    Cached(Snapshot),
    Remote(Download),
}

/// A commit whose files are to be downloaded.
#[derive(Debug)]
struct Download {
    cache: ModelCache,
    repo: Repo,
    commit: String,
    files: Vec<RepoFile>,
}

impl Resolved {
    /// Size of the weights to be downloaded in bytes, as far as the hub reports it.
    pub fn weight_bytes(&self) -> u64 {
        let Source::Remote(download) = &self.0 else { return 0 };
        let weights = download.files.iter().filter(|file| file.path.ends_with(".safetensors"));
        weights.filter_map(|file| file.size).fold(0, u64::saturating_add)
    }
}

impl Hub {
    /// A hub with an optional access token.
    pub fn new(settings: &config::HubSettings, token: Option<String>) -> Self {
        let client = HubClient::new(&settings.endpoint, settings.timeout, token);
        Self { settings: settings.clone(), client }
    }

    /// Checks that the settings allow the model.
    pub fn check_allowed(&self, repo: &Repo, requester: Requester) -> Result<(), ApiError> {
        let config::HubSettings { allow, owners, .. } = &self.settings;
        let is_allowed = match requester {
            Requester::Settings => *allow != Allow::Off,
            Requester::Client => *allow == Allow::Callers,
        };
        if !is_allowed {
            let advice = "start the daemon with `--model hf://owner/name`, set models.hub.allow = \"callers\", or give the path \
                          of a directory instead";
            return Err(ApiError::Denied(format!(
                "path: models.hub.allow is \"{allow}\", so {repo} cannot be downloaded: {advice}"
            )));
        }
        if owners.is_empty() || owners.contains(&repo.owner) {
            return Ok(());
        }
        Err(ApiError::Denied(format!(
            "path: the owner of {repo} is not one of models.hub.owners: {}",
            owners.join(", ")
        )))
    }

    /// Resolves a model to a commit. Blocks, as does [`Self::fetch`].
    ///
    /// A pinned commit in the cache needs no request. If the hub is not available, or in offline mode, a branch or tag
    /// resolves to its last known commit.
    pub fn resolve(&self, repo: &Repo, cancel: &CancellationToken) -> Result<Resolved, ApiError> {
        let cache = ModelCache::open(&self.settings.cache, repo, cancel)?;
        let is_pinned = is_commit(&repo.revision);
        let last = if is_pinned { Some(repo.revision.clone()) } else { cache.resolved(repo) };
        let cached = last.filter(|commit| cache.contains(commit));
        match cached {
            Some(commit) if is_pinned || self.settings.offline => Ok(Source::Cached(cache.snapshot(&commit))),
            None if self.settings.offline => {
                let reason = format!("{repo} is not in models.hub.cache, and models.hub.offline is true");
                Err(ApiError::Unavailable(reason))
            }
            cached => match (self.client()?.info(repo), cached) {
                (Ok(info), _) => self.plan(cache, repo, info, cancel),
                (Err(ApiError::Unavailable(reason)), Some(commit)) => {
                    tracing::warn!(model = %repo, commit, reason, "hub not available: using the cached model");
                    Ok(Source::Cached(cache.snapshot(&commit)))
                }
                (Err(error), _) => Err(error),
            },
        }
        .map(Resolved)
    }

    fn client(&self) -> Result<&HubClient, ApiError> {
        self.client.as_ref().ok_or_else(|| ApiError::Unavailable("models.hub.endpoint is not a valid URL".to_owned()))
    }

    /// Selects the files of a commit to download.
    fn plan(
        &self,
        cache: ModelCache,
        repo: &Repo,
        info: RepoInfo,
        cancel: &CancellationToken,
    ) -> Result<Source, ApiError> {
        let RepoInfo { sha: commit, siblings } = info;
        if !is_commit(&commit) {
            return Err(ApiError::Unavailable(format!("the hub returned no commit for {repo}")));
        }
        if cache.contains(&commit) {
            cache.record_resolved(repo, &commit)?;
            return Ok(Source::Cached(cache.snapshot(&commit)));
        }
        let mut download = Download { cache, repo: repo.clone(), commit, files: vec![] };
        download.files = required_files(repo, &siblings, |file| self.fetch_json(&download, file, cancel))?;
        self.check_cache_limit(&download)?;
        Ok(Source::Remote(download))
    }

    /// Checks the cache limit, as far as the hub reports file sizes.
    fn check_cache_limit(&self, download: &Download) -> Result<(), ApiError> {
        let config::HubSettings { cache, cache_limit, .. } = &self.settings;
        let limit = cache_limit.as_u64();
        if limit == 0 || cache.as_os_str().is_empty() {
            return Ok(());
        }
        let folder = download.cache.incomplete(&download.commit)?;
        let missing = download.files.iter().filter(|file| !folder.join(&file.path).exists());
        let need = missing.filter_map(|file| file.size).fold(0, u64::saturating_add);
        let held = directory_bytes(cache).map_err(|error| cache_error(cache, &error))?;
        if held.saturating_add(need) <= limit {
            return Ok(());
        }
        let repo = &download.repo;
        let reason = format!("the model cache has {held} of at most {limit} bytes (models.hub.cache_limit)");
        Err(ApiError::Exhausted(format!("{reason}; {repo} needs {need} more")))
    }

    /// Downloads and parses a JSON file.
    fn fetch_json(&self, download: &Download, file: &RepoFile, cancel: &CancellationToken) -> Result<Value, ApiError> {
        let path = self.fetch_file(download, file, cancel)?;
        let text = std::fs::read(&path).map_err(|error| cache_error(&path, &error))?;
        serde_json::from_slice(&text).map_err(|error| {
            let repo = &download.repo;
            let path = &file.path;
            ApiError::invalid("path", format!("{path} of {repo}: {error}"))
        })
    }

    /// Downloads the missing files. A failed download keeps the files that are complete for the next attempt.
    pub fn fetch(&self, resolved: Resolved, cancel: &CancellationToken) -> Result<Snapshot, ApiError> {
        match resolved.0 {
            Source::Cached(snapshot) => Ok(snapshot),
            Source::Remote(download) => {
                let Download { repo, commit, files, .. } = &download;
                tracing::info!(model = %repo, commit, files = files.len(), "downloading a model from the hub");
                for file in files {
                    self.fetch_file(&download, file, cancel)?;
                }
                let Download { cache, repo, commit, .. } = download;
                cache.publish(&repo, &commit)
            }
        }
    }

    /// Downloads a file unless it is present, under another name until it is complete.
    fn fetch_file(
        &self,
        download: &Download,
        file: &RepoFile,
        cancel: &CancellationToken,
    ) -> Result<PathBuf, ApiError> {
        let path = download.cache.incomplete(&download.commit)?.join(&file.path);
        let length = std::fs::metadata(&path).ok().map(|data| data.len());
        if length.is_some_and(|length| file.size.is_none_or(|size| size == length)) {
            return Ok(path);
        }
        let folder = path.parent().unwrap_or(&path);
        std::fs::create_dir_all(folder).map_err(|error| cache_error(folder, &error))?;
        let part = download.cache.incomplete(&download.commit)?.join("part");
        self.client()?.download(&download.repo, &download.commit, file, &part, cancel)?;
        std::fs::rename(&part, &path).map_err(|error| cache_error(&path, &error))?;
        Ok(path)
    }
}

/// Selects the files that the loader reads. `fetch_json` reads those that name others.
fn required_files(
    repo: &Repo,
    all: &[RepoFile],
    fetch_json: impl Fn(&RepoFile) -> Result<Value, ApiError>,
) -> Result<Vec<RepoFile>, ApiError> {
    let unfit = |reason: String| ApiError::invalid("path", format!("{repo} {reason}"));
    let find = |path: &str| all.iter().find(|file| file.path == path);
    let require = |path: &str| find(path).ok_or_else(|| unfit(format!("has no {path}")));
    let modules = find(MODULES).map(&fetch_json).transpose()?.unwrap_or_default();
    let first = FirstModule::of(&modules);
    let inner = |name: &str| format!("{}{name}", first.folder);
    let mut required: Vec<_> = OPTIONAL_FILES.iter().filter_map(|path| find(path)).collect();
    if !first.folder.is_empty() {
        required.extend(OPTIONAL_FILES.iter().filter_map(|path| find(&inner(path))));
    }
    if !first.is_static {
        require(&inner(CONFIG))?;
    }
    required
        .extend(pooling_configs(&modules).iter().filter(|path| **path != inner(CONFIG)).filter_map(|path| find(path)));
    if let Some(weights) = find(&inner(WEIGHTS)) {
        required.push(weights);
    } else if let Some(index) = find(&inner(INDEX)) {
        required.push(index);
        for name in shards(&fetch_json(index)?) {
            if !is_component(&name) {
                return Err(unfit(format!("names {name:?} in {INDEX}, which is not a valid file name")));
            }
            required.push(require(&inner(&name))?);
        }
    } else {
        let hint = if find(&inner("pytorch_model.bin")).is_some() {
            "; pytorch_model.bin is not loaded because a pickle can execute code"
        } else {
            ""
        };
        return Err(unfit(format!("has neither {WEIGHTS} nor {INDEX}{hint}")));
    }
    if required.len() > MAX_FILES {
        return Err(unfit(format!("has {} files, expected at most {MAX_FILES}", required.len())));
    }
    Ok(required.into_iter().cloned().collect())
}

/// The first module of a sentence-transformers model.
#[derive(Debug, Default, PartialEq, Eq)]
struct FirstModule {
    /// The folder of its files, with a slash; empty for the repository's own.
    folder: String,
    /// True if it is a table of word embeddings, which needs no configuration.
    is_static: bool,
}

impl FirstModule {
    fn of(modules: &Value) -> Self {
        let text = |name: &str| modules.get(0).and_then(|module| module.get(name)).and_then(Value::as_str);
        let class = text("type").and_then(|class| class.rsplit('.').next()).unwrap_or_default();
        if !["Transformer", "StaticEmbedding"].contains(&class) {
            return Self::default();
        }
        // The loader refuses folders that are none of the repository.
        let folder = text("path").filter(|path| is_component(path)).map(|path| format!("{path}/"));
        Self { folder: folder.unwrap_or_default(), is_static: class == "StaticEmbedding" }
    }
}

/// The pooling configurations of a sentence-transformers model.
fn pooling_configs(modules: &Value) -> Vec<String> {
    let modules = modules.as_array().into_iter().flatten();
    let folders = modules.filter_map(|module| module.get("path")?.as_str()).filter(|folder| is_component(folder));
    folders.map(|folder| format!("{folder}/{CONFIG}")).collect()
}

/// The shards named by a safetensors index.
fn shards(index: &Value) -> BTreeSet<String> {
    let names = index.get("weight_map").and_then(Value::as_object).into_iter().flat_map(|map| map.values());
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}
