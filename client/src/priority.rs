//! Priority of calls, as metadata.

use std::{fmt, str::FromStr};

use tonic::metadata::{MetadataMap, MetadataValue};

/// Metadata key of a call's priority.
const KEY: &str = "accelerd-priority";

/// Priority of a call in the daemon's queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Bulk work that may wait.
    Low,
    /// The default.
    #[default]
    Normal,
    /// Work that a person waits for.
    High,
}

impl Priority {
    /// All priorities, the highest first.
    pub const ALL: [Self; 3] = [Self::High, Self::Normal, Self::Low];

    /// `low`, `normal` or `high`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Normal => "normal",
            Self::High => "high",
        }
    }

    /// Adds the metadata. Without metadata the daemon assumes normal priority.
    pub(crate) fn insert(self, metadata: &mut MetadataMap) {
        if self != Self::Normal {
            metadata.insert(KEY, MetadataValue::from_static(self.name()));
        }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for Priority {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let priority = Self::ALL.into_iter().find(|priority| priority.name() == text);
        priority.ok_or_else(|| format!("expected low, normal or high, got {text:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_are_refused() {
        for priority in Priority::ALL {
            assert_eq!(priority.name().parse(), Ok(priority));
        }
        for bad in ["", "High", "urgent"] {
            assert!(bad.parse::<Priority>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn only_a_priority_other_than_the_default_is_sent() {
        for (priority, sent) in [(Priority::Low, Some("low")), (Priority::Normal, None), (Priority::High, Some("high"))]
        {
            let mut metadata = MetadataMap::new();
            priority.insert(&mut metadata);
            assert_eq!(metadata.get(KEY).map(|value| value.to_str().expect("ascii")), sent);
        }
    }
}
