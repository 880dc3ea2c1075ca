//! Values as they are written in a file, the environment or a flag: whether one has the kind of its setting, and how errors
//! show it.

use config::{Value, ValueKind};

use super::redact::without_credentials;

const WHOLE_NUMBER: &str = "expected a whole number of at least 0";

/// Returns what the setting expects, by its default, if a value has another kind; `None` if its kind fits.
///
/// The deserialiser would convert some of them: `"yes"` and 1 to true, 1.6 to 2, and 5 to the text "5".
pub(super) fn mismatch(default: &ValueKind, value: &ValueKind) -> Option<String> {
    let text = if let ValueKind::String(text) = value { Some(text.as_str()) } else { None };
    let is_integer = matches!(value, ValueKind::I64(_) | ValueKind::I128(_) | ValueKind::U64(_) | ValueKind::U128(_));
    let is_whole = matches!(value, ValueKind::Float(number) if number.fract() == 0.0);
    let (fits, expected) = match default {
        ValueKind::Boolean(_) => {
            let is_word = text.is_some_and(|text| ["true", "false"].iter().any(|word| text.eq_ignore_ascii_case(word)));
            (is_word || matches!(value, ValueKind::Boolean(_)), "expected true or false".to_owned())
        }
        ValueKind::I64(_) | ValueKind::I128(_) | ValueKind::U64(_) | ValueKind::U128(_) => {
            let is_text = text.is_some_and(|text| text.trim().parse::<u64>().is_ok());
            (is_integer || is_whole || is_text, WHOLE_NUMBER.to_owned())
        }
        ValueKind::Float(_) => {
            let is_text = text.is_some_and(|text| text.trim().parse::<f64>().is_ok());
            (is_integer || matches!(value, ValueKind::Float(_)) || is_text, "expected a number".to_owned())
        }
        // "auto" stands for a number, or for true or false.
        ValueKind::String(default) if default == "auto" => {
            (!matches!(value, ValueKind::Nil | ValueKind::Array(_) | ValueKind::Table(_)), "expected text".to_owned())
        }
        ValueKind::String(default) if default.is_empty() => (text.is_some(), "expected text".to_owned()),
        ValueKind::String(default) => (text.is_some(), format!("expected text such as {default:?}")),
        ValueKind::Array(_) => (text.is_some() || matches!(value, ValueKind::Array(_)), "expected a list".to_owned()),
        ValueKind::Nil | ValueKind::Table(_) => (true, String::new()),
    };
    (!fits).then_some(expected)
}

/// Returns what a deserialiser expects, in words of TOML instead of types of Rust, and without the value.
pub(super) fn expected(error: &str) -> String {
    let text = error.split(" for key `").next().unwrap_or(error);
    if text.starts_with("unknown field") {
        return text.to_owned();
    }
    if text == "invalid socket address syntax" {
        return "expected an address such as 127.0.0.1:7433".to_owned();
    }
    let Some((_, expected)) = text.split_once("expected ") else { return text.to_owned() };
    let expected = expected.rsplit_once(", got ").map_or(expected, |(expected, _)| expected);
    let what = match expected {
        "a boolean" | "bool" => "true or false",
        "a duration" => "a duration with a unit, such as \"30s\"",
        "f32" | "f64" | "floating point number" | "a floating point number" | "a float" => "a number",
        number if is_integer_type(number) => return WHOLE_NUMBER.to_owned(),
        other => other,
    };
    format!("expected {what}")
}

/// Returns true for the names of integers in errors of serde and of the `config` crate.
fn is_integer_type(text: &str) -> bool {
    let is_primitive = text.strip_prefix(['u', 'i']).is_some_and(|size| size == "size" || size.parse::<u8>().is_ok());
    is_primitive || text.ends_with("integer")
}

/// A value as its author wrote it. Text is quoted unless it comes from the environment or a flag and is a number.
pub(super) fn shown(value: &Value) -> String {
    match &value.kind {
        ValueKind::Nil => "nothing".to_owned(),
        ValueKind::Boolean(value) => value.to_string(),
        ValueKind::I64(value) => value.to_string(),
        ValueKind::I128(value) => value.to_string(),
        ValueKind::U64(value) => value.to_string(),
        ValueKind::U128(value) => value.to_string(),
        ValueKind::Float(value) => format!("{value:?}"),
        ValueKind::String(text) => {
            let is_plain = is_of_text(value) && text.parse::<f64>().is_ok();
            if is_plain { text.clone() } else { format!("{:?}", without_credentials(text)) }
        }
        ValueKind::Table(fields) => {
            // In the order of their names: a source keeps no other.
            let fields: std::collections::BTreeMap<_, _> = fields.iter().collect();
            let shown: Vec<_> = fields.into_iter().map(|(name, value)| format!("{name} = {}", shown(value))).collect();
            format!("{{ {} }}", shown.join(", "))
        }
        ValueKind::Array(values) => format!("[{}]", values.iter().map(shown).collect::<Vec<_>>().join(", ")),
    }
}

/// The environment, in which all values are text.
pub(super) const ENVIRONMENT: &str = "the environment";
/// Flags, in which all values are text.
pub(super) const FLAG: &str = "flag";

fn is_of_text(value: &Value) -> bool {
    matches!(value.origin(), Some(ENVIRONMENT | FLAG))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> ValueKind {
        let document = config::Config::builder()
            .add_source(config::File::from_str(&format!("x = {text}"), config::FileFormat::Toml))
            .build()
            .expect("TOML");
        document.get::<Value>("x").expect("there").kind
    }

    #[test]
    fn a_value_of_another_kind_is_not_converted() {
        for (default, value, reason) in [
            ("false", "\"yes\"", "expected true or false"),
            ("false", "\"on\"", "expected true or false"),
            ("false", "1", "expected true or false"),
            ("true", "0.0", "expected true or false"),
            ("2", "1.6", "expected a whole number of at least 0"),
            ("2", "\"1.6\"", "expected a whole number of at least 0"),
            ("2", "\"-1\"", "expected a whole number of at least 0"),
            ("2", "true", "expected a whole number of at least 0"),
            ("0.5", "true", "expected a number"),
            ("0.5", "\"half\"", "expected a number"),
            ("\"\"", "5", "expected text"),
            ("\"30s\"", "30", "expected text such as \"30s\""),
            ("\"auto\"", "[]", "expected text"),
            ("[]", "1", "expected a list"),
        ] {
            assert_eq!(mismatch(&kind(default), &kind(value)).as_deref(), Some(reason), "{default}: {value}");
        }
        for (default, value) in [
            ("false", "true"),
            ("false", "\"TRUE\""),
            ("2", "3"),
            // As templates write large numbers.
            ("2", "2e6"),
            ("2", "\"3\""),
            ("0.5", "1"),
            ("0.5", "\"0.25\""),
            ("\"auto\"", "2"),
            ("\"auto\"", "true"),
            ("\"30s\"", "\"1m\""),
            ("[]", "\"a,b\""),
        ] {
            assert_eq!(mismatch(&kind(default), &kind(value)), None, "{default}: {value}");
        }
    }

    #[test]
    fn types_of_rust_are_not_shown() {
        for (error, reason) in [
            ("invalid type: string \"-1\", expected an integer for key `a`", WHOLE_NUMBER),
            ("invalid type: 64-bit integer `-1`, expected an unsigned 64 bit or less integer", WHOLE_NUMBER),
            ("invalid type: floating point `1.5`, expected u32", WHOLE_NUMBER),
            ("invalid type: string \"x\", expected a boolean", "expected true or false"),
            ("invalid value: string \"30\", expected a duration", "expected a duration with a unit, such as \"30s\""),
            ("expected one of auto, cpu, cuda", "expected one of auto, cpu, cuda"),
            ("unknown field `a`, expected one of `b`", "unknown field `a`, expected one of `b`"),
        ] {
            assert_eq!(expected(error), reason);
        }
    }
}
