//! The prompts of a model: by name, and by what texts are embedded for.

use accelerd_collections::PromptChoice;
use accelerd_models::{Kind, Model};
use accelerd_store::{Prompt, Prompts};

use crate::error::ApiError;

/// Names of prompts for documents, in the order of preference: those that `encode_document` of sentence-transformers takes,
/// and that of Nomic's models.
const DOCUMENT: [&str; 4] = ["document", "passage", "corpus", "search_document"];

/// Names of prompts for queries, as `encode_query` and Nomic's models have them.
const QUERY: [&str; 2] = ["query", "search_query"];

/// The model's prompt of this name, which `field` of the request has.
pub(super) fn named<'a>(model: &'a Model, name: &str, field: &str) -> Result<&'a str, ApiError> {
    let refused = |reason| Err(ApiError::invalid(field, reason));
    let Kind::Encoder(encoder) = model.kind() else {
        return refused(format!("{:?} has no prompts, got {name:?}", model.name()));
    };
    match encoder.prompts.get(name) {
        Some(prompt) => Ok(prompt),
        None if encoder.prompts.is_empty() => refused(format!("{:?} has no prompts, got {name:?}", model.name())),
        None => {
            let known = encoder.prompts.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            refused(format!("{:?} has no prompt {name:?}, expected one of: {known}", model.name()))
        }
    }
}

/// The prompt of texts for which a request asks for none in particular.
pub(super) fn default(model: &Model) -> Prompt {
    let Kind::Encoder(encoder) = model.kind() else { return Prompt::default() };
    let entry = encoder.default_prompt.as_ref().and_then(|name| encoder.prompts.get_key_value(name));
    entry.map(|(name, text)| Prompt { name: name.clone(), text: text.clone() }).unwrap_or_default()
}

/// The prompts of a new collection; `None` if there are none and the model has no default prompt.
pub(crate) fn of_collection(
    model: &Model,
    document: PromptChoice,
    query: PromptChoice,
) -> Result<Option<Prompts>, ApiError> {
    let prompts = Prompts {
        document: chosen(model, document, &DOCUMENT, "document_prompt_name")?,
        query: chosen(model, query, &QUERY, "query_prompt_name")?,
    };
    let all = [&prompts.document, &prompts.query, &default(model)];
    let is_empty = all.iter().all(|prompt| prompt.text.is_empty());
    Ok((!is_empty).then_some(prompts))
}

/// The prompt that a caller chose; by default the first of the names that the model has, or its default prompt.
fn chosen(model: &Model, choice: PromptChoice, names: &[&str], field: &str) -> Result<Prompt, ApiError> {
    match choice {
        PromptChoice::Text(text) => Ok(Prompt { name: String::new(), text }),
        PromptChoice::Named(name) => {
            let text = named(model, &name, field)?.to_owned();
            Ok(Prompt { name, text })
        }
        PromptChoice::Default => {
            let Kind::Encoder(encoder) = model.kind() else { return Ok(Prompt::default()) };
            let entry = names.iter().find_map(|name| encoder.prompts.get_key_value(*name));
            Ok(entry.map_or_else(|| default(model), |(name, text)| Prompt { name: name.clone(), text: text.clone() }))
        }
    }
}
