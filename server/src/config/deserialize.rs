//! Deserialisation of lists, which the environment and flags give as text, and of counts that may be `"auto"`.

use std::{fmt, marker::PhantomData, str::FromStr};

use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeOwned, IntoDeserializer, SeqAccess, Visitor, value::StrDeserializer},
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

/// One of the values of an enumeration, whose error lists them.
pub(super) fn choice<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let text = String::deserialize(from)?;
    let value: StrDeserializer<'_, de::value::Error> = text.as_str().into_deserializer();
    T::deserialize(value).map_err(|error| {
        // "unknown variant `a`, expected one of `b`, `c`", or "expected `b` or `c`".
        let message = error.to_string();
        let (_, values) = message.split_once("expected ").unwrap_or(("", &message));
        let values = values.replace('`', "").replace(" or ", ", ");
        de::Error::custom(format!("expected one of {}, got {text:?}", values.trim_start_matches("one of ")))
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
    from.deserialize_any(ListOrText { parse_text, values: PhantomData })
}

/// Visits a list, or text that is parsed.
struct ListOrText<T, F> {
    parse_text: F,
    values: PhantomData<T>,
}

impl<'de, T, F> Visitor<'de> for ListOrText<T, F>
where
    T: DeserializeOwned,
    F: FnOnce(&str) -> Result<Vec<T>, String>,
{
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<T>, E> {
        let is_list = text.trim_start().starts_with('[');
        let parsed = if is_list { toml_list(text) } else { (self.parse_text)(text) };
        parsed.map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Vec<T>, A::Error> {
        let mut values = vec![];
        // The elements pass through JSON: sources of settings convert 1.5 to 2, and 1 to "1".
        while let Some(value) = elements.next_element::<serde_json::Value>()? {
            values.push(T::deserialize(value).map_err(de::Error::custom)?);
        }
        Ok(values)
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
