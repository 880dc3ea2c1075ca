//! sentence_bert_config.json: what sentence-transformers changes in the configuration, the tokeniser and their use.

use std::path::Path;

use serde_json::{Map, Value};

use super::{error::LoadError, fields::Fields, files::optional_object};

/// The names of the file; the first that exists counts.
pub(super) const FILES: [&str; 7] = [
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
];

/// Options of loading a model that do not change its vectors, beyond rounding.
const NEUTRAL_MODEL_OPTIONS: [&str; 12] = [
    "add_pooling_layer",
    "attn_implementation",
    "device_map",
    "dtype",
    "low_cpu_mem_usage",
    "revision",
    "torch_dtype",
    "trust_remote_code",
    "unpad_inputs",
    "use_cache",
    "use_memory_efficient_attention",
    "use_safetensors",
];

/// The settings of the file; the default ones without it.
#[derive(Debug, Default)]
pub(super) struct SentenceSettings {
    /// Maximum of tokens.
    pub(super) max_tokens: Option<usize>,
    /// True if texts are lower-cased before the tokeniser's own normalisation.
    pub(super) lowercase: bool,
    /// Values that replace those of config.json.
    pub(super) config: Map<String, Value>,
    /// Values that replace those of tokenizer_config.json.
    pub(super) tokenizer: Map<String, Value>,
}

impl SentenceSettings {
    /// Reads the file, if it exists.
    pub(super) fn read(folder: &Path) -> Result<Self, LoadError> {
        for name in FILES {
            if let Some(object) = optional_object(&folder.join(name))? {
                return Self::of(Fields::new(name, &object));
            }
        }
        Ok(Self::default())
    }

    fn of(fields: Fields<'_>) -> Result<Self, LoadError> {
        fields.refuse_values(&["processing_kwargs", "query_length", "document_length", "query_expansion"])?;
        let task = fields.text(&["transformer_task"], "feature-extraction")?;
        if !["feature-extraction", "sequence-classification"].contains(&task) {
            return Err(LoadError::Unsupported(format!("transformer_task \"{task}\"")));
        }
        check_output(fields)?;
        if let Some(options) = fields.object(&["model_args", "model_kwargs"])? {
            let changes = |(name, value): &(&str, &Value)| !NEUTRAL_MODEL_OPTIONS.contains(name) && !value.is_null();
            if let Some((name, _)) = options.entries().find(changes) {
                return Err(LoadError::Unsupported(format!("option {name} of model_args")));
            }
        }
        let values = |names: &[&str]| {
            let entries = fields.object(names)?.into_iter().flat_map(Fields::entries);
            Ok::<_, LoadError>(entries.map(|(name, value)| (name.to_owned(), value.clone())).collect::<Map<_, _>>())
        };
        let tokenizer = values(&["tokenizer_args", "processor_kwargs"])?;
        let max_tokens = fields.count_or_none(&["max_seq_length"])?;
        Ok(Self {
            // The tokeniser's own option wins.
            max_tokens: max_tokens.filter(|_| !tokenizer.contains_key("model_max_length")),
            lowercase: fields.flag(&["do_lower_case"], false)?,
            config: values(&["config_args", "config_kwargs"])?,
            tokenizer,
        })
    }
}

/// Only hidden states are pooled and only logits are scores.
fn check_output(fields: Fields<'_>) -> Result<(), LoadError> {
    let Some(modalities) = fields.object(&["modality_config"])? else { return Ok(()) };
    let Some(text) = modalities.object(&["text"])? else {
        return Err(LoadError::Unsupported("modality_config without text".to_owned()));
    };
    let method = text.text(&["method"], "forward")?;
    let output = text.text(&["method_output_name"], "last_hidden_state")?;
    if method == "forward" && matches!(output, "last_hidden_state" | "logits") {
        return Ok(());
    }
    Err(LoadError::Unsupported(format!("{output} of {method} (modality_config)")))
}
