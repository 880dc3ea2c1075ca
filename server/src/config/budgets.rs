//! Budgets of host memory: the values of settings that are `"auto"`.
//!
//! One limit holds for everything that the ledger counts, so the budgets of collections, models and calls may add up to more:
//! what one leaves unused, another may use. Calls keep a guaranteed part that data cannot take.

use std::thread;

use super::{
    deserialize::AUTO_COUNT,
    settings::{Config, SandboxSettings},
    size::ByteSize,
};

/// The fixed part of `memory.reserve`. On two cores 60 MiB are resident at rest: code, tables, stacks; batches of parsing and
/// embedding take about 100 more.
const BASE_RESERVE: u64 = 160 << 20;

/// The rest of it is this fraction of the memory, for what grows with use: padding of weights, fragmentation, the working
/// memory of batches.
const RESERVE_SHARE: u64 = 6;

/// Its maximum.
const MAX_RESERVE: u64 = 16 << 30;

/// The least and the most memory of a process of the sandbox.
const MIN_PROCESS_MEMORY: u64 = 64 << 20;
const MAX_PROCESS_MEMORY: u64 = 1 << 30;

/// The most memory of an instance in it.
const MAX_CASE_MEMORY: u64 = 256 << 20;

/// The guaranteed part of messages, and that of requests, in fractions of the host limit.
const GUARANTEED_SHARE: u64 = 20;

/// Values of the settings that are `"auto"`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// `memory.reserve`.
    pub reserve: u64,
    /// `memory.host_limit`.
    pub host_limit: u64,
    /// `store.memory_limit` and `models.memory_limit`.
    pub data: u64,
    /// `tensors.memory_limit`.
    pub tensors: u64,
    /// `admission.max_bytes`.
    pub admission: u64,
    /// `admission.max_message_memory`.
    pub messages: u64,
}

impl Budgets {
    /// The budgets in a process that may use `memory` bytes.
    pub fn of(memory: u64, max_message: u64) -> Self {
        let reserve = default_reserve(memory);
        Self::within(reserve, memory - reserve, max_message)
    }

    /// The budgets below a host limit: collections and models may each use all but what is guaranteed to calls; tensors half; requests
    /// and messages a quarter each, but no more than they can use. Messages get at least twice the largest message.
    fn within(reserve: u64, host_limit: u64, max_message: u64) -> Self {
        let quarter = host_limit / 4;
        let twice = max_message.saturating_mul(2);
        Self {
            reserve,
            host_limit,
            // 0 would mean no cap.
            data: host_limit.saturating_sub(2 * guarantee(host_limit)).max(1),
            tensors: host_limit / 2,
            admission: quarter.clamp(1, 2 << 30),
            messages: quarter.max(twice).min((1 << 30).max(twice)),
        }
    }
}

/// Returns the bytes that are reserved for messages below a host limit, and the same number for requests.
pub(crate) fn guarantee(host_limit: u64) -> u64 {
    host_limit / GUARANTEED_SHARE
}

/// Memory for what the ledger does not count: code, stacks, the working memory of batches and unused memory of the allocator.
fn default_reserve(memory: u64) -> u64 {
    // A process with little memory has to live with less.
    (BASE_RESERVE + memory / RESERVE_SHARE).min(memory / 2).min(MAX_RESERVE)
}

/// Replaces `"auto"` by values derived from the process's memory and cores. Returns the settings that were `"auto"`.
pub(super) fn resolve_auto(config: &mut Config) -> Vec<&'static str> {
    let mut derived = vec![];
    let mut resolve = |key, size: &mut ByteSize, value| {
        if size.is_auto() {
            *size = ByteSize::b(value);
            derived.push(key);
        }
    };
    let memory = config.process_memory.bytes;
    resolve("memory.reserve", &mut config.memory.reserve, default_reserve(memory));
    let reserve = config.memory.reserve.as_u64();
    // A reserve that leaves nothing is reported as such, not as a limit that is too small.
    resolve("memory.host_limit", &mut config.memory.host_limit, memory.saturating_sub(reserve).max(1 << 20));
    let host_limit = config.memory.host_limit.as_u64();
    let budgets = Budgets::within(reserve, host_limit, config.server.max_message_bytes.as_u64());
    resolve("store.memory_limit", &mut config.store.memory_limit, budgets.data);
    resolve("models.memory_limit", &mut config.models.memory_limit, budgets.data);
    resolve("tensors.memory_limit", &mut config.tensors.memory_limit, budgets.tensors);
    resolve("admission.max_bytes", &mut config.admission.max_bytes, budgets.admission);
    resolve("admission.max_message_memory", &mut config.admission.max_message_memory, budgets.messages);
    derived.extend(resolve_sandbox(&mut config.sandbox, host_limit));
    derived
}

/// The sandbox's part: half of the cores, and a quarter of the host limit.
fn resolve_sandbox(sandbox: &mut SandboxSettings, host_limit: u64) -> Vec<&'static str> {
    let mut derived = vec![];
    if sandbox.processes == AUTO_COUNT {
        sandbox.processes = thread::available_parallelism().map_or(1, |cores| usize::from(cores) / 2).clamp(1, 256);
        derived.push("sandbox.processes");
    }
    let share = host_limit / 4 / (sandbox.processes as u64).max(1);
    if sandbox.memory.is_auto() {
        sandbox.memory = ByteSize::b(share.clamp(MIN_PROCESS_MEMORY, MAX_PROCESS_MEMORY));
        derived.push("sandbox.memory");
    }
    if sandbox.case_memory.is_auto() {
        sandbox.case_memory = ByteSize::b((sandbox.memory.as_u64() / 2).min(MAX_CASE_MEMORY));
        derived.push("sandbox.case_memory");
    }
    derived
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_host_limit_leaves_a_reserve_and_data_leaves_the_guaranteed_parts(memory in (1u64 << 20)..(1 << 45)) {
            let Budgets { reserve, host_limit, data, tensors, admission, messages } = Budgets::of(memory, 64 << 20);
            prop_assert!(reserve + host_limit == memory && reserve <= MAX_RESERVE && host_limit >= memory / 2);
            prop_assert!(memory < 1 << 29 || reserve >= BASE_RESERVE);
            prop_assert!(data + 2 * guarantee(host_limit) <= host_limit && data >= host_limit / 10 * 9);
            prop_assert!(tensors + 2 * guarantee(host_limit) <= host_limit);
            prop_assert!(admission <= host_limit && (128 << 20..=1 << 30).contains(&messages));
        }
    }
}
