//! Sizes with units, as in `64MiB`.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A number of bytes. Parses any usual unit; displays exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(u64);

/// Display units, largest first.
const UNITS: [(&str, u64); 5] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// The largest size that parses, far from overflow in sums.
const MAX: u64 = 1 << 60;

impl ByteSize {
    /// Stands for `"auto"` until the settings are resolved.
    pub(crate) const AUTO: Self = Self(u64::MAX);

    /// Returns true if the size is `"auto"`, to be derived from the process's memory.
    pub(crate) const fn is_auto(self) -> bool {
        self.0 == Self::AUTO.0
    }

    /// Bytes.
    pub const fn b(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Kibibytes.
    pub const fn kib(count: u64) -> Self {
        Self(count << 10)
    }

    /// Mebibytes.
    pub const fn mib(count: u64) -> Self {
        Self(count << 20)
    }

    /// The bytes.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let divides = |(_, unit): &&(&str, u64)| self.0 != 0 && self.0.is_multiple_of(*unit);
        let (name, unit) = UNITS.iter().find(divides).unwrap_or(&("B", 1));
        write!(f, "{}{name}", self.0 / unit)
    }
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim().parse::<f64>().is_ok() {
            return Err(format!("expected a size with a unit, such as \"64MiB\", got {text:?}"));
        }
        let parsed = text.parse::<bytesize::ByteSize>().map(|size| size.as_u64());
        match parsed {
            Ok(bytes) if bytes <= MAX => Ok(Self(bytes)),
            Ok(_) => Err(format!("expected at most {}, got {text:?}", Self(MAX))),
            Err(_) => Err(format!("expected a size such as \"64MiB\", got {text:?}")),
        }
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

/// A size, or `"auto"`.
pub(super) fn size_or_auto<'de, D: Deserializer<'de>>(from: D) -> Result<ByteSize, D::Error> {
    let text = String::deserialize(from)?;
    if text == "auto" {
        return Ok(ByteSize::AUTO);
    }
    text.parse().map_err(|error: String| {
        let (expected, got) = error.rsplit_once(", got ").unwrap_or((&error, &text));
        de::Error::custom(format!("{expected}, or \"auto\", got {got}"))
    })
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_round_trip() {
        for bytes in [0, 1, 1000, 1023, 1024, 1536, 65_535, 1 << 20, 3 << 30, (1 << 40) + 1] {
            let size = ByteSize::b(bytes);
            assert_eq!(size.to_string().parse(), Ok(size));
        }
        assert_eq!(ByteSize::mib(64).to_string(), "64MiB");
    }

    #[test]
    fn units_are_required() {
        assert_eq!("4KB".parse(), Ok(ByteSize::b(4000)));
        assert_eq!("1.5 GiB".parse(), Ok(ByteSize::mib(1536)));
        for wrong in ["", "64", "MiB", "-1MiB", "64XB", "1e3"] {
            assert!(wrong.parse::<ByteSize>().is_err(), "{wrong:?}");
        }
    }
}
