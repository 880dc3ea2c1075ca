//! Attributes of operations, from the command line and from graph files.

use accelerd_client::proto::{self, TensorIntegers, tensor_attribute::Value};
use serde::Deserialize;

/// An attribute in a graph file.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(untagged, expecting = "expected true, false, an integer, a number, a text or a list of integers")]
pub(in crate::commands) enum Attribute {
    Boolean(bool),
    Integer(i64),
    Number(f64),
    Text(String),
    Integers(Vec<i64>),
}

impl From<Attribute> for proto::TensorAttribute {
    fn from(attribute: Attribute) -> Self {
        let value = match attribute {
            Attribute::Boolean(value) => Value::Boolean(value),
            Attribute::Integer(value) => Value::Integer(value),
            Attribute::Number(value) => Value::Number(value),
            Attribute::Text(value) => Value::Text(value),
            Attribute::Integers(values) => Value::Integers(TensorIntegers { values }),
        };
        Self { value: Some(value) }
    }
}

/// Parses a name and its value: `true`, `false`, an integer, a number, a list of integers as `2,3` or `[2]`, or else a text.
pub(in crate::commands) fn parse(text: &str) -> Result<(String, Attribute), String> {
    let (name, value) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value_of(value)))
}

fn value_of(value: &str) -> Attribute {
    let quoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    if let Some(text) = quoted {
        return Attribute::Text(text.to_owned());
    }
    let boolean = || value.parse().ok().map(Attribute::Boolean);
    let integer = || value.parse().ok().map(Attribute::Integer);
    let number = || value.parse().ok().map(Attribute::Number);
    let list = || integers(value).map(Attribute::Integers);
    boolean().or_else(integer).or_else(number).or_else(list).unwrap_or_else(|| Attribute::Text(value.to_owned()))
}

fn integers(value: &str) -> Option<Vec<i64>> {
    let inner = value
        .strip_prefix('[')
        .and_then(|value| value.strip_suffix(']'))
        .or_else(|| value.contains(',').then_some(value))?;
    if inner.trim().is_empty() {
        return Some(vec![]);
    }
    inner.split(',').map(|number| number.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_have_the_type_that_their_text_has() {
        let parsed = |text: &str| parse(text).unwrap().1;
        assert_eq!(parse("dim=-1"), Ok(("dim".to_owned(), Attribute::Integer(-1))));
        assert_eq!((parsed("keepdim=true"), parsed("eps=1e-5")), (Attribute::Boolean(true), Attribute::Number(1e-5)));
        let list = |values: &[i64]| Attribute::Integers(values.to_vec());
        assert_eq!(
            (parsed("shape=2,-3"), parsed("dim=[1]"), parsed("shape=[]")),
            (list(&[2, -3]), list(&[1]), list(&[]))
        );
        let word = |text: &str| Attribute::Text(text.to_owned());
        assert_eq!(
            (parsed("approximate=tanh"), parsed("x=\"1\""), parsed("x=a=b")),
            (word("tanh"), word("1"), word("a=b"))
        );
        assert!(parse("dim").is_err() && parse("=1").is_err());
    }
}
