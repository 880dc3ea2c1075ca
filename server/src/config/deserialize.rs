//! Deserialisation of lists, which the environment and flags give as text, and of counts that may be `"auto"`.

use std::{fmt, str::FromStr};

use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeOwned},
};

/// A list. Text, from the environment or a flag, is a TOML list, `["a", "b"]`, or comma-separated values.
pub(super) fn list<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + FromStr<Err: fmt::Display>,
{
    let parse = |part: &str| part.parse().map_err(|e| format!("{part:?}: {e}"));
    list_or_text(from, |text| text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(parse).collect())
}

/// A list of tables. Text, from the environment or a flag, is a TOML list, `[{ name = "a" }]`.
pub(super) fn tables<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    list_or_text(from, |text| match text.trim() {
        "" => Ok(vec![]),
        other => Err(format!("expected a list such as [{{ name = \"a\", path = \"b\" }}], got {other:?}")),
    })
}

/// Stands for `"auto"` until the settings are resolved.
pub(super) const AUTO_COUNT: usize = usize::MAX;

/// A number, or `"auto"`.
pub(super) fn count_or_auto<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum CountOrText {
        Count(usize),
        Text(String),
    }
    match CountOrText::deserialize(from) {
        Ok(CountOrText::Count(count)) => Ok(count),
        Ok(CountOrText::Text(text)) if text == "auto" => Ok(AUTO_COUNT),
        Ok(CountOrText::Text(text)) => text.parse().map_err(|_| de::Error::custom(NOT_A_COUNT)),
        Err(_) => Err(de::Error::custom(NOT_A_COUNT)),
    }
}

const NOT_A_COUNT: &str = "expected a number or \"auto\"";

fn list_or_text<'de, D, T>(from: D, parse_text: impl FnOnce(&str) -> Result<Vec<T>, String>) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum ListOrText<T> {
        List(Vec<T>),
        Text(String),
    }
    match ListOrText::deserialize(from)? {
        ListOrText::List(values) => Ok(values),
        ListOrText::Text(text) if text.trim_start().starts_with('[') => toml_list(&text).map_err(de::Error::custom),
        ListOrText::Text(text) => parse_text(&text).map_err(de::Error::custom),
    }
}

/// Parses a TOML list.
fn toml_list<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Document<T> {
        list: Vec<T>,
    }
    // On one line, so that the text cannot add further keys.
    let line = text.replace(['\n', '\r'], " ");
    let parsed = toml::from_str::<Document<T>>(&format!("list = {line}")).map(|document| document.list);
    parsed.map_err(|error| format!("expected a list such as [\"a\", \"b\"]: {}", error.message()))
}
