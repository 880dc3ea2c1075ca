//! Damage that recovery finds: the bytes that it lists are lost, everything else is recovered.

use crate::StoreError;

/// Maximum number of damaged places that are listed and logged.
const LISTED: usize = 100;

/// The damaged places of a collection's files.
#[derive(Clone, Debug, Default)]
pub struct Damage {
    listed: Vec<StoreError>,
    count: u64,
}

impl Damage {
    /// Returns true if nothing is damaged.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Number of damaged places.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The first of them.
    pub fn listed(&self) -> &[StoreError] {
        &self.listed
    }

    /// Adds a damaged place and logs it.
    pub(crate) fn add(&mut self, error: StoreError) {
        self.count += 1;
        if self.listed.len() == LISTED {
            return;
        }
        if let StoreError::Corrupt { file, offset, reason } = &error {
            tracing::error!(file = %file.display(), offset, reason, "a collection is damaged");
        } else {
            tracing::error!(%error, offset = 0, "a collection is damaged");
        }
        self.listed.push(error);
        if self.listed.len() == LISTED {
            tracing::error!("further damage of this collection is counted and not logged");
        }
    }
}
