//! The setting `server.reflection`: a switch, or `"auto"`.

use std::{fmt, str::FromStr};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, Visitor},
};

/// When to serve reflection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reflection {
    /// Unless callers need credentials: reflection answers without any.
    Auto,
    /// In any case.
    Always,
    /// Never.
    Never,
}

impl FromStr for Reflection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "true" => Ok(Self::Always),
            "false" => Ok(Self::Never),
            _ => Err(format!("expected true, false or \"auto\", got {text:?}")),
        }
    }
}

impl<'de> Deserialize<'de> for Reflection {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct BoolOrText;

        impl Visitor<'_> for BoolOrText {
            type Value = Reflection;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false or \"auto\"")
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Reflection, E> {
                Ok(if value { Reflection::Always } else { Reflection::Never })
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Reflection, E> {
                text.parse().map_err(E::custom)
            }
        }

        from.deserialize_any(BoolOrText)
    }
}

impl Serialize for Reflection {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => to.serialize_str("auto"),
            Self::Always => to.serialize_bool(true),
            Self::Never => to.serialize_bool(false),
        }
    }
}
