//! The prompt of texts: what a call asks for, else the collection's, else the model's default.

use accelerd_store::{CollectionMeta, Prompts};

use crate::error::CollectionError;

/// Maximum bytes of a collection's prompt, far above those of models.
const MAX_BYTES: usize = 16 << 10;

/// A prompt that a caller asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PromptChoice {
    /// None in particular.
    #[default]
    Default,
    /// The model's prompt of this name.
    Named(String),
    /// These words; empty for no prompt.
    Text(String),
}

/// What texts are embedded for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextRole {
    /// To be found.
    Document,
    /// To find others.
    Query,
}

impl PromptChoice {
    /// The prompt of texts of a collection.
    pub(super) fn or_of(self, meta: &CollectionMeta, role: TextRole) -> Self {
        match (self, &meta.prompts) {
            (Self::Default, Some(prompts)) => Self::Text(match role {
                TextRole::Document => prompts.document.text.clone(),
                TextRole::Query => prompts.query.text.clone(),
            }),
            (asked, _) => asked,
        }
    }

    /// Fails if it is asked of a collection without a model. `field` is that of a prompt in the request.
    pub(super) fn check_absent(&self, field: &str) -> Result<(), CollectionError> {
        let field = match self {
            Self::Default => return Ok(()),
            Self::Named(_) => format!("{field}_name"),
            Self::Text(_) => field.to_owned(),
        };
        Err(CollectionError::invalid(field, "expected none in a collection without a model"))
    }
}

/// Limits what a description of a collection holds in memory.
pub(super) fn check_length(prompts: &Prompts) -> Result<(), CollectionError> {
    for (field, prompt) in [("document_prompt", &prompts.document), ("query_prompt", &prompts.query)] {
        let got = prompt.text.len();
        if got > MAX_BYTES {
            return Err(CollectionError::invalid(field, format!("expected at most {MAX_BYTES} bytes, got {got}")));
        }
    }
    Ok(())
}
