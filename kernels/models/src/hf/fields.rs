//! Typed access to config.json.

use serde_json::{Map, Value};

use super::error::LoadError;

/// A JSON object. Accessors try several names in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(pub(super) &'a Map<String, Value>);

impl<'a> Fields<'a> {
    fn find(self, names: &[&str]) -> Option<&'a Value> {
        names.iter().find_map(|name| self.0.get(*name)).filter(|value| !value.is_null())
    }

    fn parse<T>(
        self,
        names: &[&str],
        kind: &str,
        parse: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, LoadError> {
        let wrong = |value: &Value| LoadError::Config(format!("{} is expected to be {kind}, got {value}", names[0]));
        self.find(names).map(|value| parse(value).ok_or_else(|| wrong(value))).transpose()
    }

    /// A count.
    pub(super) fn count(self, names: &[&str]) -> Result<usize, LoadError> {
        self.count_or_none(names)?.ok_or_else(|| LoadError::Config(format!("{} is missing", names[0])))
    }

    /// A count, if it exists.
    pub(super) fn count_or_none(self, names: &[&str]) -> Result<Option<usize>, LoadError> {
        self.parse(names, "a count", |value| usize::try_from(value.as_u64()?).ok())
    }

    /// A number, or its default.
    pub(super) fn number(self, names: &[&str], otherwise: f64) -> Result<f64, LoadError> {
        Ok(self.parse(names, "a number", Value::as_f64)?.unwrap_or(otherwise))
    }

    /// A boolean, or its default.
    pub(super) fn flag(self, names: &[&str], otherwise: bool) -> Result<bool, LoadError> {
        Ok(self.parse(names, "true or false", Value::as_bool)?.unwrap_or(otherwise))
    }

    /// A string, or its default.
    pub(super) fn text(self, names: &[&str], otherwise: &'a str) -> Result<&'a str, LoadError> {
        Ok(self.parse(names, "a text", Value::as_str)?.unwrap_or(otherwise))
    }

    /// A list of strings, if it exists.
    pub(super) fn texts(self, names: &[&str]) -> Result<Option<Vec<&'a str>>, LoadError> {
        self.parse(names, "a list of texts", |value| value.as_array()?.iter().map(Value::as_str).collect())
    }

    /// An object, if it exists.
    pub(super) fn object(self, name: &str) -> Result<Option<Fields<'a>>, LoadError> {
        self.parse(&[name], "an object", |value| value.as_object().map(Fields))
    }
}
