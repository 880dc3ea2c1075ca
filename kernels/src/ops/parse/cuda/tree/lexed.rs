//! Sources taken apart, on the device: what the lexer hands to the kernels that make trees.

use crate::cuda::DevicePtr;

/// Tokens and lines of many sources, one behind the other; mirrors the head of `TreeBatch` in `cu/parse_tree.cuh`.
///
/// Tokens and names are numbered in each source, as are the tokens in the payloads of fields. The columns `*_bases` have an
/// entry a source and one behind the last: how many there are before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lexed {
    /// The sources as UTF-8.
    pub(crate) text: DevicePtr<u8>,
    pub(crate) source_starts: DevicePtr<u32>,
    pub(crate) source_lens: DevicePtr<u32>,
    /// By source: not 0 where the CPU takes it. Its lines may then be anything.
    pub(crate) flags: DevicePtr<u32>,
    pub(crate) token_bases: DevicePtr<u32>,
    pub(crate) logical_bases: DevicePtr<u32>,
    pub(crate) name_bases: DevicePtr<u32>,
    pub(crate) kinds: DevicePtr<u8>,
    pub(crate) starts: DevicePtr<u32>,
    pub(crate) ends: DevicePtr<u32>,
    pub(crate) payloads: DevicePtr<u32>,
    pub(crate) logical_firsts: DevicePtr<u32>,
    pub(crate) logical_ends: DevicePtr<u32>,
    pub(crate) logical_columns: DevicePtr<u32>,
    pub(crate) logical_alternates: DevicePtr<u32>,
    pub(crate) name_starts: DevicePtr<u32>,
    pub(crate) name_ends: DevicePtr<u32>,
    /// How many sources there are.
    pub(crate) sources: usize,
    /// At least as many as there are of each; how many there are is known on the device.
    pub(crate) text_cap: usize,
    pub(crate) token_cap: usize,
    pub(crate) logical_cap: usize,
}
