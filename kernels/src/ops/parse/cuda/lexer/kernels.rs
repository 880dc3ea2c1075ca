//! The kernels of the lexer, and what they take: one struct that says where everything lies.

use bytemuck::{Pod, Zeroable};

use crate::cuda::{Kernel, Module, modules::COMMON};

const BATCH: &[usize] = &[size_of::<Batch>()];

pub(crate) const LEX: Kernel = Kernel { name: "parse_lex", params: BATCH };
pub(crate) const STATES: Kernel = Kernel { name: "parse_states", params: BATCH };
pub(crate) const JOIN_STATES: Kernel = Kernel { name: "parse_join_states", params: BATCH };
pub(crate) const WRITE: Kernel = Kernel { name: "parse_write", params: BATCH };
pub(crate) const JOIN_COUNTS: Kernel = Kernel { name: "parse_join_counts", params: BATCH };
pub(crate) const CLOSE: Kernel = Kernel { name: "parse_close", params: BATCH };
pub(crate) const LINES: Kernel = Kernel { name: "parse_lines", params: BATCH };
pub(crate) const MATCH: Kernel = Kernel { name: "parse_match", params: BATCH };
pub(crate) const MINIMA: Kernel = Kernel { name: "parse_minima", params: BATCH };
pub(crate) const CHECK: Kernel = Kernel { name: "parse_check", params: BATCH };
pub(crate) const RULES: Kernel = Kernel { name: "parse_rules", params: BATCH };
pub(crate) const FIRSTS: Kernel = Kernel { name: "parse_firsts", params: BATCH };
pub(crate) const RANKS: Kernel = Kernel { name: "parse_ranks", params: BATCH };
pub(crate) const NUMBER: Kernel = Kernel { name: "parse_number", params: BATCH };

const SHARED: (&str, &str) = ("parse_lex.cuh", include_str!("../../../../../cu/parse_lex.cuh"));

const TILE: (&str, &str) = ("parse_lex_tile.cuh", include_str!("../../../../../cu/parse_lex_tile.cuh"));
const MARKS: (&str, &str) = ("parse_lex_marks.cuh", include_str!("../../../../../cu/parse_lex_marks.cuh"));

/// Text to the states of lines.
pub(crate) static LINE_STATES: Module = Module {
    name: "parse_states",
    source: include_str!("../../../../../cu/parse_states.cu"),
    headers: &[COMMON, SHARED, TILE, ("parse_lex_states.cuh", include_str!("../../../../../cu/parse_lex_states.cuh"))],
    kernels: &[STATES, JOIN_STATES],
};

/// Lines to the places of tokens.
pub(crate) static LEXER: Module = Module {
    name: "parse_lex",
    source: include_str!("../../../../../cu/parse_lex.cu"),
    headers: &[
        COMMON,
        SHARED,
        TILE,
        MARKS,
        ("parse_lex_number.cuh", include_str!("../../../../../cu/parse_lex_number.cuh")),
        ("parse_lex_line.cuh", include_str!("../../../../../cu/parse_lex_line.cuh")),
    ],
    kernels: &[LEX],
};

/// Places to tokens.
pub(crate) static WRITER: Module = Module {
    name: "parse_write",
    source: include_str!("../../../../../cu/parse_write.cu"),
    headers: &[
        COMMON,
        SHARED,
        TILE,
        MARKS,
        ("parse_lex_words.cuh", include_str!("../../../../../cu/parse_lex_words.cuh")),
    ],
    kernels: &[WRITE, JOIN_COUNTS],
};

/// Tokens to logical lines.
pub(crate) static STRUCTURE: Module = Module {
    name: "parse_lines",
    source: include_str!("../../../../../cu/parse_lines.cu"),
    headers: &[COMMON, SHARED],
    kernels: &[CLOSE, LINES, MATCH, MINIMA, CHECK, RULES],
};

/// The numbers of names.
pub(crate) static NAMES: Module = Module {
    name: "parse_names",
    source: include_str!("../../../../../cu/parse_names.cu"),
    headers: &[COMMON, SHARED],
    kernels: &[FIRSTS, RANKS, NUMBER],
};

/// Mirrors `LexBatch` in `cu/parse_lex.cuh`: addresses, then sizes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(super) struct Batch {
    pub(super) text: u64,
    pub(super) source_starts: u64,
    pub(super) source_lens: u64,
    pub(super) tile_sources: u64,
    pub(super) flags: u64,
    pub(super) returns: u64,
    pub(super) counts: u64,
    pub(super) tile_maps: u64,
    pub(super) tile_counts: u64,
    pub(super) text_bits: u64,
    pub(super) line_bits: u64,
    pub(super) special_maps: u64,
    pub(super) token_bits: u64,
    pub(super) marks: u64,
    pub(super) line_bases: u64,
    pub(super) token_bases: u64,
    pub(super) comment_bases: u64,
    pub(super) logical_bases: u64,
    pub(super) name_bases: u64,
    pub(super) line_starts: u64,
    pub(super) line_tokens: u64,
    pub(super) line_columns: u64,
    pub(super) line_brackets: u64,
    pub(super) kinds: u64,
    pub(super) starts: u64,
    pub(super) ends: u64,
    pub(super) payloads: u64,
    pub(super) comment_starts: u64,
    pub(super) comment_ends: u64,
    pub(super) logical_firsts: u64,
    pub(super) logical_ends: u64,
    pub(super) logical_columns: u64,
    pub(super) logical_alternates: u64,
    pub(super) name_keys: u64,
    pub(super) name_firsts: u64,
    pub(super) first_bits: u64,
    pub(super) first_ranks: u64,
    pub(super) name_starts: u64,
    pub(super) name_ends: u64,
    pub(super) closers: u64,
    pub(super) soft: u64,
    pub(super) line_sums: u64,
    pub(super) rank_sums: u64,
    pub(super) line_minima: u64,
    pub(super) line_leasts: u64,
    pub(super) least_minima: u64,
    pub(super) seed: u64,
    pub(super) sources: u32,
    pub(super) tiles: u32,
    pub(super) token_cap: u32,
    pub(super) line_cap: u32,
    pub(super) comment_cap: u32,
    pub(super) list_cap: u32,
    pub(super) name_cap: u32,
    pub(super) logical_cap: u32,
}

/// Mirrors the counters of a batch in `cu/parse_lex.cuh`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable, PartialEq, Eq)]
pub(super) struct Counts {
    ticket: u32,
    pub(super) tokens: u32,
    pub(super) lines: u32,
    pub(super) comments: u32,
    pub(super) logical: u32,
    pub(super) names: u32,
    pub(super) closers: u32,
    pub(super) soft: u32,
    rest: [u32; 8],
}
