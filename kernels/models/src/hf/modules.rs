//! modules.json of sentence-transformers: which module computes token vectors, and how they become one vector. Prompts.

use std::{
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
};

use accelerd_kernels::ops::encode::Pooling;
use serde_json::{Map, Value};

use super::{
    error::LoadError,
    fields::Fields,
    files::{json_if_there, optional_object},
};

/// The list of modules.
pub(super) const MODULES: &str = "modules.json";
/// The model's configuration of sentence-transformers.
pub(super) const SETTINGS: &str = "config_sentence_transformers.json";

/// The settings of modules.json.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Modules {
    /// The folder of the first module: of its configuration, weights and tokeniser.
    pub(super) folder: PathBuf,
    /// True if the first module is a table of word embeddings.
    pub(super) is_static: bool,
    pub(super) pooling: Pooling,
    /// True if there is a pooling module.
    pub(super) pools: bool,
    pub(super) normalize: bool,
}

/// A module of the list.
struct Module {
    /// The class without its package.
    class: String,
    path: Option<String>,
}

/// The modules in order, if the file exists.
fn list(folder: &Path) -> Result<Option<Vec<Module>>, LoadError> {
    let path = folder.join(MODULES);
    let Some(list) = json_if_there(&path)? else { return Ok(None) };
    let list = list.as_array().ok_or_else(|| LoadError::format(&path, "is not a list"))?;
    let module = |module: &Value| {
        let empty = Map::new();
        let fields = Fields::new(MODULES, module.as_object().unwrap_or(&empty));
        let class = fields.text(&["type"], "")?.rsplit('.').next().unwrap_or_default().to_owned();
        let path = fields.text_or_none(&["path"])?.map(str::to_owned);
        Ok(Module { class, path })
    };
    list.iter().map(module).collect::<Result<_, _>>().map(Some)
}

/// Reads modules.json, if it exists.
pub(super) fn modules(folder: &Path) -> Result<Option<Modules>, LoadError> {
    let Some(list) = list(folder)? else { return Ok(None) };
    let mut modules =
        Modules { folder: folder.to_owned(), is_static: false, pooling: Pooling::Mean, pools: false, normalize: false };
    for (index, Module { class, path }) in list.iter().enumerate() {
        match class.as_str() {
            "Transformer" | "StaticEmbedding" if index == 0 => {
                modules.folder = subfolder(folder, path.as_deref().unwrap_or_default())?;
                modules.is_static = class == "StaticEmbedding";
            }
            "Pooling" if !modules.pools && !modules.normalize && !modules.is_static => {
                modules.pooling = pooling(&pooling_folder(folder, path.as_deref())?)?;
                modules.pools = true;
            }
            "Normalize" => modules.normalize = true,
            "Dropout" => {}
            "Transformer" | "StaticEmbedding" | "Pooling" => {
                let position = format!("module \"{class}\" at position {index} of modules.json");
                return Err(LoadError::Unsupported(position));
            }
            other => return Err(LoadError::Unsupported(format!("module \"{other}\" of modules.json"))),
        }
    }
    Ok(Some(modules))
}

/// The folder of the first module: the model's own if modules.json does not exist or is invalid.
pub(super) fn first_folder(folder: &Path) -> Result<PathBuf, LoadError> {
    let modules = list(folder).ok().flatten().unwrap_or_default();
    let first = modules.first().filter(|module| ["Transformer", "StaticEmbedding"].contains(&module.class.as_str()));
    subfolder(folder, first.and_then(|module| module.path.as_deref()).unwrap_or_default())
}

/// The name of the pooling module's file, as modules.json has it.
pub(super) fn pooling_file(folder: &Path) -> Result<Option<String>, LoadError> {
    let modules = list(folder)?.unwrap_or_default();
    let pooling = modules.into_iter().find(|module| module.class == "Pooling");
    Ok(pooling.map(|module| format!("{}/config.json", module.path.as_deref().unwrap_or(POOLING))))
}

const POOLING: &str = "1_Pooling";

fn pooling_folder(folder: &Path, path: Option<&str>) -> Result<PathBuf, LoadError> {
    subfolder(folder, path.unwrap_or(POOLING))
}

/// A folder inside the model's: no path of a file leads out of it.
fn subfolder(folder: &Path, name: &str) -> Result<PathBuf, LoadError> {
    let mut inside = folder.to_owned();
    for part in Path::new(name).components() {
        match part {
            Component::Normal(part) => inside.push(part),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::ParentDir => {
                return Err(LoadError::format(folder.join(name), "is outside the model's folder"));
            }
        }
    }
    Ok(inside)
}

/// The modes of pooling: their flag, their name and what they are; what is none is not supported.
const MODES: [(&str, &str, Option<Pooling>); 6] = [
    ("pooling_mode_cls_token", "cls", Some(Pooling::Cls)),
    ("pooling_mode_mean_tokens", "mean", Some(Pooling::Mean)),
    ("pooling_mode_max_tokens", "max", Some(Pooling::Max)),
    ("pooling_mode_weightedmean_tokens", "weightedmean", Some(Pooling::WeightedMean)),
    ("pooling_mode_lasttoken", "lasttoken", Some(Pooling::Last)),
    ("pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", None),
];

/// Reads the configuration of a pooling module. As in sentence-transformers, a name wins over flags, and without any it is the
/// mean.
fn pooling(folder: &Path) -> Result<Pooling, LoadError> {
    let path = folder.join("config.json");
    let object = optional_object(&path)?.ok_or_else(|| LoadError::format(&path, "is missing"))?;
    let name = path.display().to_string();
    let fields = Fields::new(&name, &object);
    if !fields.flag(&["include_prompt"], true)? {
        return Err(LoadError::Unsupported("pooling without the prompt (include_prompt)".to_owned()));
    }
    let names = if let Some(names) = fields.one_or_more_texts("pooling_mode")? {
        names
    } else {
        let is_set = |(flag, name, _): &(&str, &'static str, _)| {
            fields.flag(&[*flag], false).map(|is_set| is_set.then_some(*name))
        };
        MODES.iter().map(is_set).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect()
    };
    match names.as_slice() {
        [] => Ok(Pooling::Mean),
        [name] => {
            let known = MODES.iter().find(|(_, known, _)| known == name).and_then(|(_, _, pooling)| *pooling);
            known.ok_or_else(|| LoadError::Unsupported(format!("pooling_mode \"{name}\" of {}", path.display())))
        }
        several => {
            let names = several.join(" and ");
            Err(LoadError::Unsupported(format!("the concatenation of pooling modes {names} of {}", path.display())))
        }
    }
}

/// Returns true if its model type is a cross-encoder.
pub(super) fn is_cross_encoder(folder: &Path) -> Result<bool, LoadError> {
    let settings = optional_object(&folder.join(SETTINGS))?.unwrap_or_default();
    Ok(Fields::new(SETTINGS, &settings).text(&["model_type"], "")? == "CrossEncoder")
}

/// Prompts by name, and the name of the default one.
pub(super) fn prompts(folder: &Path) -> Result<(BTreeMap<String, String>, Option<String>), LoadError> {
    let path = folder.join(SETTINGS);
    let Some(object) = optional_object(&path)? else {
        return Ok(Default::default());
    };
    let fields = Fields::new(SETTINGS, &object);
    let prompts: Option<BTreeMap<_, _>> = fields.object(&["prompts"])?.map(|prompts| {
        let texts = prompts.entries().filter_map(|(name, text)| Some((name.to_owned(), text.as_str()?.to_owned())));
        texts.collect()
    });
    let prompts = prompts.unwrap_or_default();
    let default = fields.text(&["default_prompt_name"], "")?;
    if !default.is_empty() && !prompts.contains_key(default) {
        let known = prompts.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let reason = format!("has default_prompt_name {default:?}, and these prompts: {known}");
        return Err(LoadError::format(path, reason));
    }
    Ok((prompts, Some(default.to_owned()).filter(|name| !name.is_empty())))
}
