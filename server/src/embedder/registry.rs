//! The loaded models by name and alias, within the memory limit.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Deref,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use accelerd_engine::Lane;
use accelerd_kernels::ops::encode::{Encode, Precision};
use accelerd_models::{BUILTIN, Model, hf};

use crate::{config, error::ApiError};

/// Maximum number of aliases of a model.
const MAX_ALIASES: usize = 64;

/// Maximum number of entries in a model directory that a client names.
const MAX_ENTRIES: usize = 10_000;

/// Maximum length of a name or alias.
const MAX_NAME_BYTES: usize = 128;

/// A loaded model with its aliases and number type.
#[derive(Debug)]
pub struct LoadedModel {
    model: Arc<Model>,
    /// Aliases, sorted.
    pub aliases: Vec<String>,
    /// Number type of the computation.
    pub precision: Precision,
    /// Declared after `model` and therefore dropped after it.
    _trim: Option<TrimOnDrop>,
}

impl LoadedModel {
    /// A model without aliases and of default precision.
    pub(super) fn new(model: Arc<Model>) -> Self {
        Self { model, aliases: vec![], precision: Precision::default(), _trim: None }
    }

    /// Its name and its aliases.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name()).chain(self.aliases.iter().map(String::as_str))
    }

    /// Trims device memory when the model is dropped.
    pub(super) fn trim_on_drop(self, lane: &Lane<Encode>) -> Self {
        Self { _trim: Some(TrimOnDrop(lane.clone())), ..self }
    }
}

/// Trims the memory of the lane's devices on drop.
#[derive(Debug)]
struct TrimOnDrop(Lane<Encode>);

impl Drop for TrimOnDrop {
    fn drop(&mut self) {
        // The call requests the trim; its future only waits for completion.
        drop(self.0.trim());
    }
}

impl Deref for LoadedModel {
    type Target = Model;

    fn deref(&self) -> &Model {
        &self.model
    }
}

/// A model to load.
#[derive(Clone, Debug, Default)]
pub struct ModelSource {
    /// Name in requests.
    pub name: String,
    /// Directory or file, or `hf://owner/name[@revision]`.
    pub path: String,
    /// Aliases.
    pub aliases: Vec<String>,
    /// Number type of the computation.
    pub precision: Precision,
}

impl From<&config::Preload> for ModelSource {
    fn from(preload: &config::Preload) -> Self {
        let config::Preload { name, path, aliases, precision } = preload.clone();
        let precision = match precision {
            config::Precision::Auto => Precision::Auto,
            config::Precision::Bf16 => Precision::Bf16,
            config::Precision::F16 => Precision::F16,
            config::Precision::F32 => Precision::F32,
        };
        Self { name, path, aliases, precision }
    }
}

/// The loaded models.
#[derive(Debug, Default)]
pub(super) struct Registry {
    folders: Vec<PathBuf>,
    memory_limit: u64,
    models: Mutex<Models>,
}

#[derive(Debug, Default)]
struct Models {
    loaded: BTreeMap<String, Arc<LoadedModel>>,
    /// Names and aliases, including those of models being loaded.
    names: BTreeSet<String>,
    /// Size of the weights in bytes, including models being loaded.
    bytes: u64,
}

impl Registry {
    pub(super) fn new(models: Vec<Arc<Model>>, settings: &config::ModelSettings) -> Self {
        let model = models.into_iter().map(|model| {
            let model = LoadedModel::new(model);
            (model.name().to_owned(), Arc::new(model))
        });
        let loaded: BTreeMap<_, _> = model.collect();
        let names = loaded.keys().cloned().collect();
        Self {
            folders: settings.folders.clone(),
            memory_limit: settings.memory_limit.as_u64(),
            models: Mutex::new(Models { loaded, names, bytes: 0 }),
        }
    }

    fn models(&self) -> MutexGuard<'_, Models> {
        self.models.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All models, sorted by name.
    pub(super) fn all(&self) -> Vec<Arc<LoadedModel>> {
        self.models().loaded.values().cloned().collect()
    }

    /// The model of this name or alias.
    pub(super) fn find(&self, name: &str) -> Option<Arc<LoadedModel>> {
        let models = self.models();
        let by_alias = || models.loaded.values().find(|model| model.aliases.iter().any(|alias| alias == name));
        models.loaded.get(name).or_else(by_alias).map(Arc::clone)
    }

    /// The canonical path, if clients may load from it.
    pub(super) fn resolve_allowed(&self, path: &str) -> Result<PathBuf, ApiError> {
        let denied = || {
            let reason = "is not in a directory of the setting models.folders: start the daemon with `--model PATH`, or add \
                          the directory to models.folders";
            ApiError::Denied(format!("path: {path} {reason}"))
        };
        // The same error for missing and forbidden paths.
        let absolute = Path::new(path).canonicalize().map_err(|_| denied())?;
        let folders: Vec<_> = self.folders.iter().filter_map(|folder| folder.canonicalize().ok()).collect();
        let is_allowed = |path: &Path| folders.iter().any(|folder| path.starts_with(folder));
        if is_allowed(&absolute) && stays_within(&absolute, &is_allowed) { Ok(absolute) } else { Err(denied()) }
    }

    /// Reserves the names of a model to be loaded.
    pub(super) fn reserve(self: &Arc<Self>, source: &ModelSource) -> Result<Reservation, ApiError> {
        let aliases = source.aliases.len();
        if aliases > MAX_ALIASES {
            return Err(ApiError::invalid("aliases", format!("expected at most {MAX_ALIASES}, got {aliases}")));
        }
        let names: Vec<_> = std::iter::once(&source.name).chain(&source.aliases).cloned().collect();
        for (at, name) in names.iter().enumerate() {
            let field = if at == 0 { "name".to_owned() } else { format!("aliases[{}]", at - 1) };
            check_name(&field, name)?;
        }
        let mut models = self.models();
        let duplicate = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)).map(|(_, name)| name);
        if let Some(name) = duplicate.or_else(|| names.iter().find(|name| models.names.contains(*name))) {
            return Err(ApiError::AlreadyExists { kind: "model", name: name.clone() });
        }
        models.names.extend(names.iter().cloned());
        Ok(Reservation { registry: Arc::clone(self), names, bytes: 0 })
    }

    /// Removes a model by name or alias. Returns its name.
    pub(super) fn remove(&self, name: &str) -> Result<String, ApiError> {
        let missing = || ApiError::NotFound { kind: "model", name: name.to_owned() };
        let name = self.find(name).ok_or_else(missing)?.name().to_owned();
        if name == BUILTIN {
            return Err(ApiError::invalid("name", "the built-in model cannot be unloaded"));
        }
        let mut models = self.models();
        let model = models.loaded.remove(&name).ok_or_else(missing)?;
        models.names.remove(&name);
        for alias in &model.aliases {
            models.names.remove(alias);
        }
        models.bytes = models.bytes.saturating_sub(model.bytes());
        Ok(name)
    }
}

/// The names and memory of a model being loaded, released on drop.
#[derive(Debug)]
pub(super) struct Reservation {
    registry: Arc<Registry>,
    names: Vec<String>,
    bytes: u64,
}

impl Reservation {
    /// Reserves memory for the model's weights, replacing an earlier reservation.
    pub(super) fn reserve_bytes(&mut self, bytes: u64) -> Result<(), ApiError> {
        let limit = self.registry.memory_limit;
        let mut models = self.registry.models();
        let others = models.bytes.saturating_sub(self.bytes);
        let all = others.saturating_add(bytes);
        if limit > 0 && all > limit {
            let name = &self.names[0];
            let reason = format!(
                "model {name:?} needs {bytes} bytes for its weights; {others} of {limit} are in use \
                 (models.memory_limit)"
            );
            return Err(ApiError::Exhausted(reason));
        }
        models.bytes = all;
        self.bytes = bytes;
        Ok(())
    }

    /// Adds the loaded model to the registry.
    pub(super) fn commit(mut self, model: Arc<LoadedModel>) {
        let registry = Arc::clone(&self.registry);
        let mut models = registry.models();
        // The estimate included file headers, which are not weights.
        models.bytes = models.bytes.saturating_sub(self.bytes).saturating_add(model.bytes());
        models.loaded.insert(model.name().to_owned(), model);
        self.names.clear();
        self.bytes = 0;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut models = self.registry.models();
        models.bytes = models.bytes.saturating_sub(self.bytes);
        for name in &self.names {
            models.names.remove(name);
        }
    }
}

/// Whether all symbolic links below a directory stay within allowed directories. False for directories with too many entries.
fn stays_within(folder: &Path, is_allowed: &impl Fn(&Path) -> bool) -> bool {
    let (mut folders, mut seen, mut entry_count) = (vec![folder.to_owned()], BTreeSet::new(), 0);
    while let Some(folder) = folders.pop() {
        // The loader reports unreadable directories.
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.filter_map(Result::ok) {
            entry_count += 1;
            // A dangling link is a missing file.
            let Ok(real) = entry.path().canonicalize() else { continue };
            if entry_count > MAX_ENTRIES || !is_allowed(&real) {
                return false;
            }
            if real.is_dir() && seen.insert(real.clone()) {
                folders.push(real);
            }
        }
    }
    true
}

/// Loads the model of a source from `path`.
pub(super) fn load(path: &Path, source: &ModelSource) -> Result<LoadedModel, hf::LoadError> {
    let model = Arc::new(Model::load(source.name.as_str(), path)?);
    let mut aliases = source.aliases.clone();
    aliases.sort_unstable();
    Ok(LoadedModel { aliases, precision: source.precision, ..LoadedModel::new(model) })
}

/// Checks that a name needs no quoting and cannot be a path to a parent.
fn check_name(field: &str, name: &str) -> Result<(), ApiError> {
    let fits = |at: usize, c: char| c.is_ascii_alphanumeric() || (at > 0 && "-_./".contains(c));
    let is_fit = !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.char_indices().all(|(at, c)| fits(at, c));
    if is_fit {
        return Ok(());
    }
    let reason = format!("expected 1 to {MAX_NAME_BYTES} letters, digits and, after the first, -_./, got {name:?}");
    Err(ApiError::invalid(field, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbolic_links_do_not_lead_clients_outside_of_the_allowed_directories() {
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
        let allowed = |name: &str| registry.resolve_allowed(inside.path().join(name).to_str().expect("text")).is_ok();
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
    fn names_are_validated() {
        for name in ["minilm", "BAAI/bge-small-en-v1.5", "a_b"] {
            assert!(check_name("name", name).is_ok(), "{name}");
        }
        for name in ["", "-a", ".", "a b", "ä", "a\n", &"a".repeat(129)] {
            assert!(check_name("name", name).is_err(), "{name:?}");
        }
    }
}
