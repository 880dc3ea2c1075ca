//! The stored description of a collection.

use serde::{Deserialize, Serialize};

use crate::StoreError;

/// Metric by which rows are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Cosine.
    Cosine,
    /// Inner product.
    Dot,
    /// Squared Euclidean distance.
    SquaredL2,
}

/// Precision of the device copy that searches scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Storage {
    /// binary32.
    F32,
    /// binary16.
    F16,
    /// bfloat16.
    Bf16,
    /// int8 with one scale per row.
    I8,
}

/// What a collection's model reads before the texts of points and before those of queries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompts {
    /// Before the texts of points.
    pub document: Prompt,
    /// Before the texts of queries.
    pub query: Prompt,
}

/// A text that is prepended to others before they are embedded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompt {
    /// The name that the model's files give to it; empty for a prompt of a caller's own words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The text; empty for none.
    pub text: String,
}

/// The stored description of a collection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectionMeta {
    /// Format version of this description and of the log.
    pub format: u32,
    /// Its name.
    pub name: String,
    /// Dimensions of its vectors.
    pub dim: u32,
    /// Metric by which rows are compared.
    pub metric: Metric,
    /// Precision of the scanned copy.
    pub storage: Storage,
    /// Model that embeds texts for it; empty for none.
    pub model: String,
    /// Digest of the model that embedded its texts; empty without a model, or before a collection of an earlier version
    /// embeds its first texts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model_digest: String,
    /// Prompts of its texts. `None` if the model had no prompts when the collection was created, or if an earlier version
    /// created it: its texts have the model's default prompt, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts: Option<Prompts>,
    /// Payload field with a full-text index; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text_field: String,
    /// Principal that created it, whose quota it counts against; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub owner: String,
    /// True if it has a log.
    pub durable: bool,
    /// Creation time, in milliseconds since 1970.
    pub create_time_ms: u64,
}

impl CollectionMeta {
    /// The newest format, which descriptions with prompts have. Those with no more than the digest of a model have format
    /// 2 and those without one format 1, so that earlier versions can read them.
    pub const FORMAT: u32 = 3;

    /// The description with the oldest format that has all of its fields.
    pub(crate) fn with_oldest_format(&self) -> Self {
        let format = match (&self.prompts, self.model_digest.as_str()) {
            (Some(_), _) => 3,
            (None, "") => 1,
            (None, _) => 2,
        };
        Self { format, ..self.clone() }
    }

    /// Returns true if both describe one collection. The digest of its model may be recorded after a checkpoint.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Self { format: other.format, model_digest: other.model_digest.clone(), ..self.clone() } == *other
    }
}

/// Rejects content of an unsupported format. Content without a format is damaged, which its reader finds.
pub(crate) fn check_format(file: &str, content: &serde_json::Value, known: u32) -> Result<(), StoreError> {
    match content.get("format").and_then(serde_json::Value::as_u64) {
        Some(got) if !(1..=u64::from(known)).contains(&got) => {
            let got = u32::try_from(got).unwrap_or(u32::MAX);
            Err(StoreError::Format { file: file.into(), got, known })
        }
        Some(_) | None => Ok(()),
    }
}

/// Checks that a collection may have this name. Such a name is also safe as the name of a folder.
pub fn check_name(name: &str) -> Result<(), StoreError> {
    let starts_well = name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    let is_plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    if starts_well && is_plain && name.len() <= 128 { Ok(()) } else { Err(StoreError::Name(name.into())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_escape_the_folder_are_rejected() {
        for name in ["", ".", "..", "../a", "a/b", ".hidden", "-a", "a b", "ä", "a\0", &"a".repeat(129)] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        for name in ["a", "7", "a.b-c_d", "A..", &"a".repeat(128)] {
            assert!(check_name(name).is_ok(), "{name:?}");
        }
    }
}
