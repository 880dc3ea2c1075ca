//! Conditions on payload fields, as several commands take them.

use accelerd_client::{Filter, Value};
use clap::Args;

/// Filter of points.
#[derive(Debug, Args)]
pub struct FilterArgs {
    /// Only points whose payload field equals a value, as in --where language=go or --where start_line=1; can be repeated. A
    /// quoted value is a text.
    #[arg(long = "where", value_name = "FIELD=VALUE", value_parser = condition)]
    conditions: Vec<(String, Value)>,
}

impl FilterArgs {
    /// The filter; `None` for all points.
    pub fn filter(&self) -> Option<Filter> {
        let add = |filter: Filter, (field, value): &(String, Value)| filter.equals(field, value.clone());
        (!self.conditions.is_empty()).then(|| self.conditions.iter().fold(Filter::new(), add))
    }
}

/// Parses a field and its value: an integer, a number, `true`, `false`, or else a text.
fn condition(text: &str) -> std::result::Result<(String, Value), String> {
    let (field, value) = text.split_once('=').filter(|(field, _)| !field.is_empty()).ok_or("expected FIELD=VALUE")?;
    let digits = value.strip_prefix(['-', '+']).unwrap_or(value);
    let is_integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_integer && value.parse::<i64>().is_err() {
        return Err(format!("expected an integer from -2^63 to 2^63 - 1, or a quoted text, got {value}"));
    }
    let number = || value.parse().ok().filter(|number: &f64| number.is_finite()).map(Value::Double);
    let flag = || value.parse().ok().map(Value::Bool);
    let quoted = || value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    let plain = value.parse().ok().map(Value::Int).or_else(flag).or_else(number);
    Ok((field.to_owned(), plain.unwrap_or_else(|| Value::from(quoted().unwrap_or(value)))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_conditions_are_typed_by_their_syntax() {
        let value = |text: &str| condition(text).map(|(_, value)| value);
        assert_eq!(value("a=7"), Ok(Value::Int(7)));
        assert_eq!(value("a=0.5"), Ok(Value::Double(0.5)));
        assert_eq!(value("a=true"), Ok(Value::Bool(true)));
        assert_eq!(value("a=b=c"), Ok(Value::from("b=c")));
        assert_eq!((value("a=\"7\""), value("a="), value("a=nan")), (Ok("7".into()), Ok("".into()), Ok("nan".into())));
        assert!(condition("a").is_err() && condition("=a").is_err());
        assert_eq!(value("a=9007199254740993"), Ok(Value::Int(9_007_199_254_740_993)));
        assert_eq!(value("a=-9223372036854775808"), Ok(Value::Int(i64::MIN)));
        assert!(value("a=9223372036854775808").is_err(), "a double would round it");
    }
}
