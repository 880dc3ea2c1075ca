//! The models that are loaded, by name and alias; loading and unloading them within a bound of memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Deref,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use accelerd_engine::Lane;
use accelerd_kernels::ops::encode::{Encode, Precision};
use accelerd_models::{Model, hf};

use super::BUILTIN;
use crate::{config, error::ApiError};

/// Most aliases of a model.
const MOST_ALIASES: usize = 64;

/// Most files and folders below the folder of a model that a caller names.
const MOST_FILES: usize = 10_000;

/// Longest name or alias.
const MOST_NAME_BYTES: usize = 128;

/// A loaded model, and how it is served.
#[derive(Debug)]
pub struct Served {
    model: Arc<Model>,
    /// Other names, in order.
    pub aliases: Vec<String>,
    /// What it is computed in.
    pub precision: Precision,
    /// Dropped behind the model.
    _last: Option<Last>,
}

impl Served {
    /// By its own name alone.
    pub(super) fn plain(model: Arc<Model>) -> Self {
        Self { model, aliases: vec![], precision: Precision::default(), _last: None }
    }

    /// Whose memory on devices comes back as soon as nobody uses it any more.
    pub(super) fn on(self, lane: &Lane<Encode>) -> Self {
        Self { _last: Some(Last(lane.clone())), ..self }
    }
}

/// Has devices give back what they hold of a model when the last who used it is gone.
#[derive(Debug)]
struct Last(Lane<Encode>);

impl Drop for Last {
    fn drop(&mut self) {
        // Told by the call; nobody waits for it here.
        drop(self.0.tidy());
    }
}

impl Deref for Served {
    type Target = Model;

    fn deref(&self) -> &Model {
        &self.model
    }
}

/// What is to be loaded.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// Its name in requests.
    pub name: String,
    /// A folder or file, or `hf://owner/name[@revision]`.
    pub path: String,
    /// Other names.
    pub aliases: Vec<String>,
    /// What it is computed in.
    pub precision: Precision,
}

/// The models.
#[derive(Debug, Default)]
pub(super) struct Registry {
    folders: Vec<PathBuf>,
    memory_limit: u64,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    models: BTreeMap<String, Arc<Served>>,
    /// Names and aliases of models, and of those that are being loaded.
    names: BTreeSet<String>,
    /// Bytes of the weights of both.
    bytes: u64,
}

impl Registry {
    pub(super) fn new(models: Vec<Arc<Model>>, settings: &config::Models) -> Self {
        let served = models.into_iter().map(|model| {
            let served = Served::plain(model);
            (served.name().to_owned(), Arc::new(served))
        });
        let models: BTreeMap<_, _> = served.collect();
        let names = models.keys().cloned().collect();
        Self {
            folders: settings.folders.clone(),
            memory_limit: settings.memory_limit.as_u64(),
            held: Mutex::new(Held { models, names, bytes: 0 }),
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By name, in order.
    pub(super) fn all(&self) -> Vec<Arc<Served>> {
        self.held().models.values().cloned().collect()
    }

    /// By name or alias.
    pub(super) fn find(&self, name: &str) -> Option<Arc<Served>> {
        let held = self.held();
        let by_alias = || held.models.values().find(|served| served.aliases.iter().any(|alias| alias == name));
        held.models.get(name).or_else(by_alias).map(Arc::clone)
    }

    /// The path of a source, if callers may load from there.
    pub(super) fn allowed(&self, path: &str) -> Result<PathBuf, ApiError> {
        let denied = || {
            let reason = "is not below one of the folders of models.folders of the daemon's settings: start it with \
                          `--model FOLDER`, or add the folder to models.folders";
            ApiError::Denied(format!("path: {path} {reason}"))
        };
        // What does not exist and what may not be seen look alike.
        let whole = Path::new(path).canonicalize().map_err(|_| denied())?;
        let folders: Vec<_> = self.folders.iter().filter_map(|folder| folder.canonicalize().ok()).collect();
        let is_allowed = |path: &Path| folders.iter().any(|folder| path.starts_with(folder));
        if is_allowed(&whole) && stays_within(&whole, &is_allowed) { Ok(whole) } else { Err(denied()) }
    }

    /// Takes the names for a model that is to be loaded.
    pub(super) fn reserve(self: &Arc<Self>, source: &Source) -> Result<Reserved, ApiError> {
        let aliases = source.aliases.len();
        if aliases > MOST_ALIASES {
            return Err(ApiError::invalid("aliases", format!("expected at most {MOST_ALIASES}, got {aliases}")));
        }
        let names: Vec<_> = std::iter::once(&source.name).chain(&source.aliases).cloned().collect();
        for (at, name) in names.iter().enumerate() {
            let field = if at == 0 { "name".to_owned() } else { format!("aliases[{}]", at - 1) };
            check_name(&field, name)?;
        }
        let mut held = self.held();
        let twice = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)).map(|(_, name)| name);
        if let Some(name) = twice.or_else(|| names.iter().find(|name| held.names.contains(*name))) {
            return Err(ApiError::AlreadyExists { kind: "model", name: name.clone() });
        }
        held.names.extend(names.iter().cloned());
        Ok(Reserved { registry: Arc::clone(self), names, bytes: 0 })
    }

    /// Forgets a model; its name.
    pub(super) fn remove(&self, name: &str) -> Result<String, ApiError> {
        let missing = || ApiError::NotFound { kind: "model", name: name.to_owned() };
        let name = self.find(name).ok_or_else(missing)?.name().to_owned();
        if name == BUILTIN {
            return Err(ApiError::invalid("name", "the built-in model is part of the daemon and stays"));
        }
        let mut held = self.held();
        let served = held.models.remove(&name).ok_or_else(missing)?;
        held.names.remove(&name);
        for alias in &served.aliases {
            held.names.remove(alias);
        }
        held.bytes = held.bytes.saturating_sub(served.bytes());
        Ok(name)
    }
}

/// Names and memory of a model that is being loaded; given back where it is dropped.
#[derive(Debug)]
pub(super) struct Reserved {
    registry: Arc<Registry>,
    names: Vec<String>,
    bytes: u64,
}

impl Reserved {
    /// Takes the memory for the model's weights, in place of what was taken for them before.
    pub(super) fn take(&mut self, bytes: u64) -> Result<(), ApiError> {
        let limit = self.registry.memory_limit;
        let mut held = self.registry.held();
        let others = held.bytes.saturating_sub(self.bytes);
        let all = others.saturating_add(bytes);
        if limit > 0 && all > limit {
            let name = &self.names[0];
            let reason = format!(
                "model {name:?} has {bytes} bytes of weights; the others hold {others} of at most {limit} \
                 (models.memory_limit)"
            );
            return Err(ApiError::Exhausted(reason));
        }
        held.bytes = all;
        self.bytes = bytes;
        Ok(())
    }

    /// Lets the loaded model be found.
    pub(super) fn fill(mut self, served: Arc<Served>) {
        let registry = Arc::clone(&self.registry);
        let mut held = registry.held();
        // The header of a file is not part of the weights.
        held.bytes = held.bytes.saturating_sub(self.bytes).saturating_add(served.bytes());
        held.models.insert(served.name().to_owned(), served);
        self.names.clear();
        self.bytes = 0;
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let mut held = self.registry.held();
        held.bytes = held.bytes.saturating_sub(self.bytes);
        for name in &self.names {
            held.names.remove(name);
        }
    }
}

/// Whether no symbolic link in a folder, or below it, leads to where callers may not load from. A folder with more than a
/// model's files is not looked through to its end, and is none.
fn stays_within(folder: &Path, is_allowed: &impl Fn(&Path) -> bool) -> bool {
    let (mut folders, mut seen, mut looks) = (vec![folder.to_owned()], BTreeSet::new(), 0);
    while let Some(folder) = folders.pop() {
        // What is no folder or cannot be read is for the loader to report.
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.filter_map(Result::ok) {
            looks += 1;
            // A link that leads nowhere is a missing file.
            let Ok(real) = entry.path().canonicalize() else { continue };
            if looks > MOST_FILES || !is_allowed(&real) {
                return false;
            }
            if real.is_dir() && seen.insert(real.clone()) {
                folders.push(real);
            }
        }
    }
    true
}

/// Reads the files of a source, which lie at `path`.
pub(super) fn load(path: &Path, source: &Source) -> Result<Served, hf::LoadError> {
    let model = Arc::new(Model::load(source.name.as_str(), path)?);
    let mut aliases = source.aliases.clone();
    aliases.sort_unstable();
    Ok(Served { aliases, precision: source.precision, ..Served::plain(model) })
}

/// Names that need no quoting anywhere and look like no path upwards.
fn check_name(field: &str, name: &str) -> Result<(), ApiError> {
    let fits = |at: usize, c: char| c.is_ascii_alphanumeric() || (at > 0 && "-_./".contains(c));
    let is_fit = !name.is_empty() && name.len() <= MOST_NAME_BYTES && name.char_indices().all(|(at, c)| fits(at, c));
    if is_fit {
        return Ok(());
    }
    let reason = format!("expected 1 to {MOST_NAME_BYTES} letters, digits and, after the first, -_./, got {name:?}");
    Err(ApiError::invalid(field, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_reach_no_file_outside_of_the_folders_by_a_symbolic_link() {
        let (inside, outside) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let link = |to: &Path, from: &str| {
            let from = inside.path().join(from);
            std::fs::create_dir_all(from.parent().expect("a folder")).expect("it can be made");
            std::os::unix::fs::symlink(to, from).expect("it can be made");
        };
        let secret = outside.path().join("secret.json");
        std::fs::write(&secret, "{}").expect("written");
        std::fs::create_dir_all(inside.path().join("plain/1_Pooling")).expect("made");
        std::fs::write(inside.path().join("plain/config.json"), "{}").expect("written");
        link(&secret, "file/config.json");
        link(outside.path(), "folder/1_Pooling");
        link(outside.path(), "whole");
        link(&inside.path().join("file"), "twice/step");
        link(&inside.path().join("plain/config.json"), "links_within/config.json");
        link(&inside.path().join("loop"), "loop/again");
        let registry = Registry { folders: vec![inside.path().to_owned()], ..Registry::default() };
        let allowed = |name: &str| registry.allowed(inside.path().join(name).to_str().expect("text")).is_ok();
        for name in ["plain", "plain/config.json", "links_within", "loop"] {
            assert!(allowed(name), "{name}");
        }
        for name in
            ["file", "file/config.json", "folder", "folder/1_Pooling", "whole", "twice", "whole/secret.json", ".."]
        {
            assert!(!allowed(name), "{name}");
        }
    }

    #[test]
    fn names_are_plain() {
        for name in ["minilm", "BAAI/bge-small-en-v1.5", "a_b"] {
            assert!(check_name("name", name).is_ok(), "{name}");
        }
        for name in ["", "-a", ".", "a b", "ä", "a\n", &"a".repeat(129)] {
            assert!(check_name("name", name).is_err(), "{name:?}");
        }
    }
}
