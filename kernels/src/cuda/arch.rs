//! GPU architectures, as `sm_90`.

use std::{fmt, str::FromStr};

/// The architecture of a GPU: its compute capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Arch {
    major: u32,
    minor: u32,
}

/// A string that is not an architecture.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not an architecture; expected one like sm_90")]
pub struct ArchError(String);

impl Arch {
    /// Architectures that the tests and the container images compile every kernel for.
    pub const SUPPORTED: [Self; 7] = [
        Self::new(7, 5),
        Self::new(8, 0),
        Self::new(8, 6),
        Self::new(8, 9),
        Self::new(9, 0),
        Self::new(10, 0),
        Self::new(12, 0),
    ];

    /// The architecture with this compute capability.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// Its compute capability.
    pub const fn capability(self) -> (u32, u32) {
        (self.major, self.minor)
    }

    /// Major and minor in one number, as NVRTC lists them: 90.
    pub(super) const fn number(self) -> u32 {
        self.major * 10 + self.minor
    }

    /// Compilation target of machine code: the architecture-specific variant (`a`) if there is one, since machine code is
    /// never moved to another architecture.
    pub(super) fn target(self) -> String {
        let variant = matches!((self.major, self.minor), (9 | 10 | 12, 0)).then_some("a").unwrap_or_default();
        format!("{self}{variant}")
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}", self.number())
    }
}

impl FromStr for Arch {
    type Err = ArchError;

    fn from_str(text: &str) -> Result<Self, ArchError> {
        let digits = text.strip_prefix("sm_").unwrap_or(text);
        match digits.parse::<u32>() {
            Ok(number @ 50..1000) if digits.len() < 4 && !digits.starts_with('+') => {
                Ok(Self::new(number / 10, number % 10))
            }
            _ => Err(ArchError(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_get_their_variant() {
        for arch in Arch::SUPPORTED {
            assert_eq!(arch.to_string().parse(), Ok(arch));
        }
        assert_eq!("90".parse(), Ok(Arch::new(9, 0)));
        assert_eq!(Arch::new(9, 0).target(), "sm_90a");
        assert_eq!(Arch::new(12, 0).target(), "sm_120a");
        assert_eq!(Arch::new(8, 9).target(), "sm_89");
        assert_eq!(Arch::new(10, 3).target(), "sm_103");
        for wrong in ["", "sm_", "sm_9", "sm_90a", "+90", "gfx90", "0090", "99999999999"] {
            assert!(wrong.parse::<Arch>().is_err(), "{wrong}");
        }
    }
}
