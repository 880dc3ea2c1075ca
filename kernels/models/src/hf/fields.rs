//! Typed access to the JSON files of a folder.

use std::fmt::Display;

use serde_json::{Map, Value};

use super::error::LoadError;

/// The object of a JSON file. Accessors try several names in order; null is as good as missing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a> {
    /// The file's name, for errors.
    file: &'a str,
    object: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(file: &'a str, object: &'a Map<String, Value>) -> Self {
        Self { file, object }
    }

    fn find(self, names: &[&str]) -> Option<&'a Value> {
        names.iter().find_map(|name| self.object.get(*name)).filter(|value| !value.is_null())
    }

    /// All keys and values.
    pub(super) fn entries(self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.object.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Returns true if there is a value, be it null.
    pub(super) fn has(self, name: &str) -> bool {
        self.object.contains_key(name)
    }

    /// A value of any kind, if it exists.
    pub(super) fn value(self, name: &str) -> Option<&'a Value> {
        self.find(&[name])
    }

    /// The values of a list or an object; none if it does not exist.
    pub(super) fn list(self, name: &str) -> Result<Vec<&'a Value>, LoadError> {
        let list = self.parse(&[name], "a list", |value| match value {
            Value::Array(list) => Some(list.iter().collect()),
            Value::Object(object) => Some(object.values().collect()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        })?;
        Ok(list.unwrap_or_default())
    }

    /// An error about a value of this file.
    pub(super) fn wrong(self, reason: impl Display) -> LoadError {
        LoadError::format(self.file, reason)
    }

    fn parse<T>(
        self,
        names: &[&str],
        kind: &str,
        parse: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, LoadError> {
        let wrong = |value: &Value| self.wrong(format!("{} is expected to be {kind}, got {value}", names[0]));
        self.find(names).map(|value| parse(value).ok_or_else(|| wrong(value))).transpose()
    }

    /// A count.
    pub(super) fn count(self, names: &[&str]) -> Result<usize, LoadError> {
        self.count_or_none(names)?.ok_or_else(|| self.wrong(format!("{} is missing", names[0])))
    }

    /// A count, if it exists.
    pub(super) fn count_or_none(self, names: &[&str]) -> Result<Option<usize>, LoadError> {
        self.parse(names, "a count", |value| usize::try_from(value.as_u64()?).ok())
    }

    /// A number, or its default.
    pub(super) fn number(self, names: &[&str], otherwise: f64) -> Result<f64, LoadError> {
        Ok(self.number_or_none(names)?.unwrap_or(otherwise))
    }

    /// A number, if it exists.
    pub(super) fn number_or_none(self, names: &[&str]) -> Result<Option<f64>, LoadError> {
        self.parse(names, "a number", Value::as_f64)
    }

    /// A boolean, or its default.
    pub(super) fn flag(self, names: &[&str], otherwise: bool) -> Result<bool, LoadError> {
        Ok(self.flag_or_none(names)?.unwrap_or(otherwise))
    }

    /// A boolean, if it exists.
    pub(super) fn flag_or_none(self, names: &[&str]) -> Result<Option<bool>, LoadError> {
        self.parse(names, "true or false", Value::as_bool)
    }

    /// A string, or its default.
    pub(super) fn text(self, names: &[&str], otherwise: &'a str) -> Result<&'a str, LoadError> {
        Ok(self.text_or_none(names)?.unwrap_or(otherwise))
    }

    /// A string, if it exists.
    pub(super) fn text_or_none(self, names: &[&str]) -> Result<Option<&'a str>, LoadError> {
        self.parse(names, "a text", Value::as_str)
    }

    /// A list of strings, if it exists.
    pub(super) fn texts(self, names: &[&str]) -> Result<Option<Vec<&'a str>>, LoadError> {
        self.parse(names, "a list of texts", |value| value.as_array()?.iter().map(Value::as_str).collect())
    }

    /// A string or a list of strings, if it exists.
    pub(super) fn one_or_more_texts(self, name: &str) -> Result<Option<Vec<&'a str>>, LoadError> {
        self.parse(&[name], "a text or a list of texts", |value| match value.as_array() {
            Some(texts) => texts.iter().map(Value::as_str).collect(),
            None => value.as_str().map(|text| vec![text]),
        })
    }

    /// An object, if it exists.
    pub(super) fn object(self, names: &[&str]) -> Result<Option<Fields<'a>>, LoadError> {
        self.parse(names, "an object", |value| value.as_object().map(|object| Fields { file: self.file, object }))
    }

    /// Values that must not be set: no objects, texts and lists but empty ones, no other values but false, zero and null.
    pub(super) fn refuse_values(self, names: &[&str]) -> Result<(), LoadError> {
        let is_set = |value: &Value| match value {
            Value::Null => false,
            Value::Bool(flag) => *flag,
            Value::Number(number) => number.as_f64() != Some(0.0),
            Value::String(text) => !text.is_empty(),
            Value::Array(list) => !list.is_empty(),
            Value::Object(object) => !object.is_empty(),
        };
        let found = names.iter().find(|name| self.object.get(**name).is_some_and(is_set));
        found.map_or(Ok(()), |name| Err(LoadError::Unsupported(format!("{name} of {}", self.file))))
    }
}
