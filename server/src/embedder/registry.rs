//! The loaded models by name and alias, within the memory limit.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Deref,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use accelerd_engine::Lane;
use accelerd_kernels::{
    ledger::{self, Account, Kind, Ledger, Limit, Place},
    ops::encode::{Encode, Precision},
};
use accelerd_models::{self as models, BUILTIN, Model, hf};

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
    /// The path that a caller loaded it from; `None` for models of the settings, which stay loaded.
    caller_path: Option<String>,
    /// When it was last used, as a number that grows with time.
    last_use: AtomicU64,
    /// Declared after `model` and therefore dropped after it.
    _trim: Option<TrimOnDrop>,
    /// The memory of the weights.
    _memory: Option<ledger::Reservation>,
}

impl LoadedModel {
    /// A model without aliases and of default precision.
    pub(super) fn new(model: Arc<Model>) -> Self {
        Self {
            model,
            aliases: vec![],
            precision: Precision::default(),
            caller_path: None,
            last_use: AtomicU64::new(0),
            _trim: None,
            _memory: None,
        }
    }

    /// Lets it be evicted while it is idle: a caller loaded it from this path and can load it again.
    pub(super) fn evictable(self, path: &str) -> Self {
        Self { caller_path: Some(path.to_owned()), ..self }
    }

    /// Records a use.
    fn record_use(&self) {
        static CLOCK: AtomicU64 = AtomicU64::new(1);
        self.last_use.store(CLOCK.fetch_add(1, Relaxed), Relaxed);
    }

    /// Drops the CPU's copy of the weights if no batch is using it. Returns its bytes.
    fn evict_cpu_copies(&self) -> u64 {
        match self.kind() {
            models::Kind::Encoder(model) => model.encoder.evict_cpu_copies(),
            models::Kind::Table(_) => 0,
        }
    }

    /// Its name and its aliases.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name()).chain(self.aliases.iter().map(String::as_str))
    }

    /// The architecture of an encoder, or `table`.
    pub fn architecture(&self) -> &str {
        match self.kind() {
            models::Kind::Encoder(encoder) => &encoder.architecture,
            models::Kind::Table(_) => "table",
        }
    }

    /// The names of its prompts.
    pub fn prompt_names(&self) -> impl Iterator<Item = &String> {
        let prompts = match self.kind() {
            models::Kind::Encoder(encoder) => Some(&encoder.prompts),
            models::Kind::Table(_) => None,
        };
        prompts.into_iter().flat_map(|prompts| prompts.keys())
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
#[derive(Debug)]
pub(super) struct Registry {
    folders: Vec<PathBuf>,
    /// Where weights are charged, as their files hold them.
    weights: Account,
    /// Where the CPU's copies of weights are charged.
    cpu_copies: Account,
    models: Mutex<Models>,
}

#[derive(Debug, Default)]
struct Models {
    loaded: BTreeMap<String, Arc<LoadedModel>>,
    /// Names and aliases, including those of models being loaded.
    names: BTreeSet<String>,
}

impl Registry {
    pub(super) fn new(models: Vec<Arc<Model>>, settings: &config::ModelSettings, ledger: &Ledger) -> Self {
        let limit = settings.memory_limit.as_u64();
        if limit > 0 {
            let cap = Limit { bytes: limit, setting: "models.memory_limit" };
            ledger.cap(Place::Host, Kind::Models, cap);
        }
        let model = models.into_iter().map(|model| {
            let model = LoadedModel::new(model);
            (model.name().to_owned(), Arc::new(model))
        });
        let loaded: BTreeMap<_, _> = model.collect();
        let names = loaded.keys().cloned().collect();
        Self {
            folders: settings.folders.clone(),
            weights: ledger.account(Place::Host, Kind::Models),
            cpu_copies: ledger.account(Place::Host, Kind::Copies),
            models: Mutex::new(Models { loaded, names }),
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
        let model = models.loaded.get(name).or_else(by_alias).map(Arc::clone);
        model.inspect(|model| model.record_use())
    }

    /// Drops the CPU's copies of weights that no batch is using, those of the least recently used models first, until
    /// `bytes` are dropped. Returns how many were.
    pub(super) fn evict_cpu_copies(&self, bytes: u64) -> u64 {
        let mut models = self.all();
        models.sort_by_cached_key(|model| model.last_use.load(Relaxed));
        let mut evicted = 0;
        for model in models {
            if evicted < bytes {
                evicted += model.evict_cpu_copies();
            }
        }
        evicted
    }

    /// Unloads idle models, the least recently used first, until `bytes` of weights are dropped. Idle is a model that a
    /// caller loaded and can load again, that no call is using, and that `is_needed` does not name. Returns the bytes.
    pub(super) fn evict_idle(&self, bytes: u64, is_needed: &dyn Fn(&str) -> bool) -> u64 {
        let mut candidates: Vec<_> = self
            .all()
            .into_iter()
            .filter(|model| self.can_be_loaded_again(model) && !is_used(model, is_needed))
            .collect();
        candidates.sort_by_cached_key(|model| model.last_use.load(Relaxed));
        let mut evicted = 0;
        for model in candidates {
            if evicted >= bytes {
                break;
            }
            let name = model.name().to_owned();
            drop(model);
            if let Some(model) = self.remove_idle(&name) {
                tracing::warn!(model = name, bytes = model.bytes(), "idle model unloaded: its memory is needed");
                evicted += model.bytes();
            }
        }
        evicted
    }

    /// Returns true if a caller loaded it and could again.
    fn can_be_loaded_again(&self, model: &LoadedModel) -> bool {
        let Some(path) = &model.caller_path else { return false };
        path.starts_with("hf://") || self.resolve_allowed(path).is_ok()
    }

    /// Removes a model that no call is using.
    fn remove_idle(&self, name: &str) -> Option<Arc<LoadedModel>> {
        let mut models = self.models();
        // Calls clone the reference under the lock.
        if models.loaded.get(name).is_none_or(|model| Arc::strong_count(model) > 1) {
            return None;
        }
        models.take(name)
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
        Ok(Reservation { registry: Arc::clone(self), names, memory: self.weights.empty() })
    }

    /// Removes a model by name or alias. Returns its name.
    pub(super) fn remove(&self, name: &str) -> Result<String, ApiError> {
        let missing = || ApiError::NotFound { kind: "model", name: name.to_owned() };
        let name = self.find(name).ok_or_else(missing)?.name().to_owned();
        if name == BUILTIN {
            return Err(ApiError::invalid("name", "the built-in model cannot be unloaded"));
        }
        self.models().take(&name).ok_or_else(missing)?;
        Ok(name)
    }
}

impl Models {
    /// Removes a model with its names.
    fn take(&mut self, name: &str) -> Option<Arc<LoadedModel>> {
        let model = self.loaded.remove(name)?;
        self.names.remove(name);
        for alias in &model.aliases {
            self.names.remove(alias);
        }
        Some(model)
    }
}

/// Returns true if a model is needed by its name or an alias.
fn is_used(model: &LoadedModel, is_needed: &dyn Fn(&str) -> bool) -> bool {
    is_needed(model.name()) || model.aliases.iter().any(|alias| is_needed(alias))
}

/// The names and memory of a model being loaded, released on drop.
#[derive(Debug)]
pub(super) struct Reservation {
    registry: Arc<Registry>,
    names: Vec<String>,
    memory: ledger::Reservation,
}

impl Reservation {
    /// Reserves memory for the model's weights, replacing an earlier reservation.
    pub(super) fn reserve_bytes(&mut self, bytes: u64) -> Result<(), ApiError> {
        let name = &self.names[0];
        let context = || format!("model {name:?} with {bytes} bytes of weights does not fit: ");
        let full = |refusal| ApiError::MemoryLimit { context: context(), refusal: Box::new(refusal) };
        self.memory.try_resize(bytes).map_err(full)
    }

    /// Charges a model that was loaded to the ledger: its weights, and the CPU's copies of them.
    pub(super) fn charge(&mut self, model: LoadedModel) -> LoadedModel {
        if let models::Kind::Encoder(encoder) = model.kind() {
            encoder.encoder.charge_cpu_copies_to(self.registry.cpu_copies.clone());
        }
        let mut memory = std::mem::replace(&mut self.memory, self.registry.weights.empty());
        // The estimate included file headers, which are not weights.
        memory.record(model.bytes());
        LoadedModel { _memory: Some(memory), ..model }
    }

    /// Adds the loaded model to the registry.
    pub(super) fn commit(mut self, model: Arc<LoadedModel>) {
        model.record_use();
        self.registry.models().loaded.insert(model.name().to_owned(), model);
        self.names.clear();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut models = self.registry.models();
        for name in &self.names {
            models.names.remove(name);
        }
    }
}

/// Returns true if all symbolic links below a directory stay within allowed directories. False for directories with too many entries.
fn stays_within(folder: &Path, is_allowed: &impl Fn(&Path) -> bool) -> bool {
    let mut folders = vec![folder.to_owned()];
    let mut seen = BTreeSet::new();
    let mut entry_count = 0;
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

    /// A registry that callers may load into from a folder.
    fn registry(folder: &Path) -> Arc<Registry> {
        let settings = config::ModelSettings { folders: vec![folder.to_owned()], ..config::Config::default().models };
        Arc::new(Registry::new(vec![Model::builtin()], &settings, &Ledger::new()))
    }

    /// A copy of the built-in model under another name.
    fn table(name: &str) -> Model {
        Model::parse(name, include_bytes!("../../../kernels/models/builtin/table.bin")).expect("a table")
    }

    /// Such a copy, loaded from `path` by a caller if there is one.
    fn load(registry: &Arc<Registry>, name: &str, path: Option<&Path>) {
        let source =
            ModelSource { name: name.to_owned(), aliases: vec![format!("{name}-alias")], ..ModelSource::default() };
        let mut reservation = registry.reserve(&source).expect("the names are free");
        reservation.reserve_bytes(1 << 30).expect("no limit");
        let model = LoadedModel { aliases: source.aliases, ..LoadedModel::new(Arc::new(table(name))) };
        let model = reservation.charge(model);
        let model = match path {
            Some(path) => model.evictable(path.to_str().expect("text")),
            None => model,
        };
        reservation.commit(Arc::new(model));
    }

    fn names(registry: &Registry) -> Vec<String> {
        registry.all().iter().map(|model| model.name().to_owned()).collect()
    }

    #[test]
    fn idle_models_are_evicted_least_recently_used_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let registry = registry(folder.path());
        for name in ["a", "b", "c", "d"] {
            load(&registry, name, Some(folder.path()));
        }
        load(&registry, "preloaded", None);
        load(&registry, "gone", Some(&folder.path().join("deleted")));
        let bytes = Model::builtin().bytes();
        assert_eq!(registry.weights.usage().0, 6 * bytes, "the estimate is replaced");
        let (in_use, _) = (registry.find("b"), registry.find("a-alias"));
        assert_eq!(registry.evict_idle(1, &|name| name == "c-alias"), bytes);
        assert_eq!(
            names(&registry),
            ["a", "b", "builtin", "c", "gone", "preloaded"],
            "c is needed, b in use, d the oldest"
        );
        assert_eq!(registry.evict_idle(u64::MAX, &|_| false), 2 * bytes);
        assert_eq!(names(&registry), ["b", "builtin", "gone", "preloaded"]);
        assert_eq!(registry.weights.usage().0, 3 * bytes);
        drop(in_use);
        assert_eq!(registry.evict_idle(u64::MAX, &|_| false), bytes);
        load(&registry, "a", Some(folder.path()));
    }

    #[test]
    fn weights_are_refused_above_the_limit_with_the_name_of_the_model() {
        let ledger = Ledger::new();
        ledger.limit(Place::Host, Limit { bytes: 1000, setting: "memory.host_limit" });
        let settings =
            config::ModelSettings { memory_limit: config::ByteSize::b(0), ..config::Config::default().models };
        let registry = Arc::new(Registry::new(vec![], &settings, &ledger));
        let source = ModelSource { name: "a".to_owned(), ..ModelSource::default() };
        let mut reservation = registry.reserve(&source).expect("the name is free");
        let refused = reservation.reserve_bytes(1001).expect_err("1000 are left");
        let text = refused.to_string();
        assert!(
            text.starts_with("model \"a\" with 1001 bytes of weights does not fit: memory limit reached"),
            "{text}"
        );
        reservation.reserve_bytes(1000).expect("all of it");
        drop(reservation);
        assert_eq!(registry.weights.usage().0, 0);
    }

    #[test]
    fn symbolic_links_do_not_lead_clients_outside_of_the_allowed_directories() {
        let inside = tempfile::tempdir().expect("a folder");
        let outside = tempfile::tempdir().expect("a folder");
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
        let registry = registry(inside.path());
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
