//! The files of sentence-transformers: pooling, prompts, maximum length.

use std::{
    collections::BTreeMap,
    path::{Component, Path},
};

use accelerd_kernels::ops::encode::Pooling;
use serde_json::Value;

use super::{
    error::LoadError,
    fields::Fields,
    files::{json_if_there, optional_object},
};

/// The settings of modules.json.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Modules {
    pub(super) pooling: Pooling,
    /// True if there is a pooling module.
    pub(super) pools: bool,
    pub(super) normalize: bool,
}

/// Reads modules.json, if it exists.
pub(super) fn modules(folder: &Path) -> Result<Option<Modules>, LoadError> {
    let path = folder.join("modules.json");
    let Some(list) = json_if_there(&path)? else { return Ok(None) };
    let list = list.as_array().ok_or_else(|| LoadError::format(&path, "is not a list"))?;
    let mut modules = Modules { pooling: Pooling::Mean, pools: false, normalize: false };
    for module in list {
        let text = |name: &str| module.get(name).and_then(Value::as_str);
        let kind = text("type").and_then(|kind| kind.rsplit('.').next()).unwrap_or_default();
        match kind {
            "Transformer" => {}
            "Pooling" => {
                modules.pooling = pooling(folder, text("path").unwrap_or("1_Pooling"))?;
                modules.pools = true;
            }
            "Normalize" => modules.normalize = true,
            other => return Err(LoadError::Unsupported(format!("module \"{other}\" of modules.json"))),
        }
    }
    Ok(Some(modules))
}

/// The name of the pooling module's file, as modules.json has it.
pub(super) fn pooling_file(folder: &Path) -> Result<Option<String>, LoadError> {
    let Some(Value::Array(list)) = json_if_there(&folder.join("modules.json"))? else { return Ok(None) };
    let text = |module: &Value, name: &str| module.get(name).and_then(Value::as_str).map(str::to_owned);
    let pooling = list.iter().find(|module| text(module, "type").is_some_and(|kind| kind.ends_with("Pooling")));
    let name = pooling.map(|module| text(module, "path").unwrap_or_else(|| "1_Pooling".to_owned()));
    Ok(name.map(|name| format!("{name}/config.json")))
}

fn pooling(folder: &Path, name: &str) -> Result<Pooling, LoadError> {
    let inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    let path = folder.join(name).join("config.json");
    if !inside {
        return Err(LoadError::format(&path, "is outside the model's folder"));
    }
    let object = optional_object(&path)?.ok_or_else(|| LoadError::format(&path, "is missing"))?;
    let fields = Fields(&object);
    if !fields.flag(&["include_prompt"], true)? {
        return Err(LoadError::Unsupported("pooling without the prompt (include_prompt)".to_owned()));
    }
    let kinds = [
        ("pooling_mode_cls_token", "cls", Pooling::Cls),
        ("pooling_mode_mean_tokens", "mean", Pooling::Mean),
        ("pooling_mode_max_tokens", "max", Pooling::Max),
        ("pooling_mode_weightedmean_tokens", "weightedmean", Pooling::WeightedMean),
        ("pooling_mode_lasttoken", "lasttoken", Pooling::Last),
    ];
    let named = fields.text(&["pooling_mode"], "").unwrap_or_default();
    let chosen: Vec<_> = kinds
        .iter()
        .filter(|(flag, name, _)| object.get(*flag).and_then(Value::as_bool).unwrap_or(*name == named))
        .collect();
    let root = object.get("pooling_mode_mean_sqrt_len_tokens").and_then(Value::as_bool).unwrap_or(false);
    match chosen.as_slice() {
        [(_, _, pooling)] if !root => Ok(*pooling),
        _ => Err(LoadError::Unsupported(format!("the pooling of {}", path.display()))),
    }
}

/// The model's configuration of sentence-transformers.
pub(super) const SETTINGS: &str = "config_sentence_transformers.json";

/// Returns true if its model type is a cross-encoder.
pub(super) fn is_cross_encoder(folder: &Path) -> Result<bool, LoadError> {
    let settings = optional_object(&folder.join(SETTINGS))?.unwrap_or_default();
    Ok(Fields(&settings).text(&["model_type"], "")? == "CrossEncoder")
}

/// Prompts by name, and the name of the default one.
pub(super) fn prompts(folder: &Path) -> Result<(BTreeMap<String, String>, Option<String>), LoadError> {
    let path = folder.join(SETTINGS);
    let Some(object) = optional_object(&path)? else {
        return Ok(Default::default());
    };
    let fields = Fields(&object);
    let prompts: Option<BTreeMap<_, _>> = fields.object("prompts")?.map(|prompts| {
        let texts = prompts.0.iter().filter_map(|(name, text)| Some((name.clone(), text.as_str()?.to_owned())));
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

/// The default maximum of tokens: by sentence_bert_config.json or tokenizer_config.json, at most `maximum`.
pub(super) fn limit(folder: &Path, maximum: usize) -> Result<usize, LoadError> {
    let sentences = optional_object(&folder.join("sentence_bert_config.json"))?.unwrap_or_default();
    if let Some(limit) = Fields(&sentences).count_or_none(&["max_seq_length"])? {
        return Ok(limit.min(maximum));
    }
    let Some(object) = optional_object(&folder.join("tokenizer_config.json"))? else { return Ok(maximum) };
    // Some files have 1e30 for no limit.
    let limit = object.get("model_max_length").and_then(Value::as_u64);
    Ok(limit.and_then(|limit| usize::try_from(limit).ok()).map_or(maximum, |limit| limit.min(maximum)))
}
