//! Budgets of host memory: shares of the process's memory for settings that are `"auto"`.
//!
//! The shares add up to less than the whole, so that a daemon whose budgets are exhausted refuses work instead of being
//! killed by the kernel.

use super::{settings::Config, size::ByteSize};

/// Values of the settings that are `"auto"`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// `store.memory_limit`.
    pub store: u64,
    /// `models.memory_limit`.
    pub models: u64,
    /// `admission.max_bytes`.
    pub admission: u64,
    /// `admission.max_message_memory`.
    pub messages: u64,
}

impl Shares {
    /// Shares of `memory` bytes: 40% for collections, 20% for models, 10% each for admitted work and messages. The remaining
    /// fifth is for what no budget covers: code, stacks, caches, heap fragmentation and the working memory of batches.
    /// Messages get at least twice the largest message, taken from the share of collections. Admitted work and messages are
    /// capped at what they can use.
    pub fn of(memory: u64, max_message: u64) -> Self {
        let share = |percent: u64| memory / 100 * percent;
        let twice = max_message.saturating_mul(2);
        let messages = share(10).max(twice).min((1 << 30).max(twice));
        Self {
            // At least a tenth: 0 would mean no cap.
            store: share(50).saturating_sub(messages.max(share(10))).max(share(10)),
            models: share(20),
            admission: share(10).min(2 << 30),
            messages,
        }
    }
}

/// Settings that may be `"auto"`.
const KEYS: [&str; 4] =
    ["store.memory_limit", "models.memory_limit", "admission.max_bytes", "admission.max_message_memory"];

/// Replaces `"auto"` by shares of the process's memory. Returns the settings that were `"auto"`.
pub(super) fn resolve_auto(config: &mut Config) -> Vec<&'static str> {
    let shares = Shares::of(config.memory.bytes, config.server.max_message_bytes.as_u64());
    let fields = [
        (&mut config.store.memory_limit, shares.store),
        (&mut config.models.memory_limit, shares.models),
        (&mut config.admission.max_bytes, shares.admission),
        (&mut config.admission.max_message_memory, shares.messages),
    ];
    let mut derived = vec![];
    for (key, (size, share)) in KEYS.into_iter().zip(fields) {
        if size.is_auto() {
            *size = ByteSize::b(share);
            derived.push(key);
        }
    }
    derived
}

impl Config {
    /// Sum of the budgets of host memory in bytes; `None` if one has no cap.
    pub fn total_budget(&self) -> Option<u64> {
        let cap = |size: ByteSize| Some(size.as_u64()).filter(|bytes| *bytes > 0);
        let (store, models) = (cap(self.store.memory_limit)?, cap(self.models.memory_limit)?);
        let admission = &self.admission;
        let calls = admission.max_bytes.as_u64().saturating_add(admission.max_message_memory.as_u64());
        Some(store.saturating_add(models).saturating_add(calls))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn shares_leave_a_fifth_of_the_memory_free(memory in (1u64 << 30)..(1 << 45)) {
            let Shares { store, models, admission, messages } = Shares::of(memory, 64 << 20);
            prop_assert!(store + models + admission + messages <= memory / 5 * 4);
            prop_assert!(messages >= 128 << 20);
        }
    }
}
