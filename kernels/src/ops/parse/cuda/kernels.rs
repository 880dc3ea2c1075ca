//! The kernels of lexing and parsing, and their parameters. `cu/parse/` describes what each kernel does.

use crate::cuda::{COMMON, Kernel, Module, Source, cu, launch_structs};

launch_structs! {
    header LEX_LAUNCH = "launch/lex.cuh";

    /// A block lexes the lines that start in its tile of the text. It also reads the halo, the bytes after the tile.
    pub(super) const TILE: usize = 8192;
    pub(super) const HALO: usize = 2048;
    pub(super) const SPAN: usize = TILE + HALO;
    /// Special lines of a tile whose state maps are stored.
    pub(super) const MAX_SPECIAL: usize = 512;
    /// Threads of a block of most kernels.
    pub(super) const LEX_THREADS: u32 = 256;
    /// Those of the kernels that scan an array as one block, or take a line each.
    pub(super) const LEX_WIDE_THREADS: u32 = 1024;
    /// Physical lines per block of `lex_logical_lines`, words per block of `lex_name_ranks`, and logical lines per block of
    /// `lex_min_columns`.
    pub(super) const ROWS_PER_BLOCK: usize = 1024;

    /// Counts that the lexer's kernels write for a batch; zeroed.
    #[derive(PartialEq, Eq)]
    pub(super) struct LexCounts {
        unused: u32,
        pub(super) tokens: u32,
        pub(super) lines: u32,
        pub(super) comments: u32,
        pub(super) logical: u32,
        pub(super) names: u32,
        pub(super) multiline: u32,
        pub(super) soft_keywords: u32,
        /// Work tickets of blocks.
        line_ticket: u32,
        rank_ticket: u32,
        rest: [u32; 6],
    }

    /// A batch on the device. Each source starts at a multiple of 32 bytes of the text, at 32 or later. Bytes outside
    /// of sources are newlines: at least one after each source, and all up to the end of the last tile's halo.
    pub(super) struct LexBatch {
        pub(super) text: "const u8*",
        /// [sources + 1], last: the end of the last source.
        pub(super) source_starts: "const u32*",
        /// [sources].
        pub(super) source_lens: "const u32*",
        /// [tiles + 3]: the last source that starts at or before the tile's first byte, or 0.
        pub(super) tile_sources: "const u32*",
        /// [sources], zeroed.
        pub(super) flags: "u32*",
        /// [sources], zeroed: whether there is a carriage return.
        pub(super) carriage_returns: "u32*",
        pub(super) counts: "LexCounts*",
        /// [tiles]: lines, and above them the state map; replaced by their exclusive scan.
        pub(super) tile_maps: "u64*",
        /// [tiles]: tokens, and above them comments; replaced by their exclusive scan.
        pub(super) tile_counts: "u64*",
        /// Three bitmaps over the text, of tiles * TILE_WORDS words each: see Text.
        pub(super) text_bits: "u32*",
        /// Two such bitmaps.
        pub(super) line_bits: "u32*",
        /// [tiles * MAX_SPECIAL].
        pub(super) special_maps: "u32*",
        /// Per tile three bitmaps over tile and halo, SPAN_WORDS words each.
        pub(super) token_bits: "u32*",
        /// [tiles * SPAN]: per tile the marks of its tokens, in order.
        pub(super) marks: "u8*",
        /// [sources + 1]: a source's first physical line, and likewise.
        pub(super) line_bases: "u32*",
        pub(super) token_bases: "u32*",
        pub(super) comment_bases: "u32*",
        pub(super) logical_bases: "u32*",
        pub(super) name_bases: "u32*",
        /// By physical line: offset in the source.
        pub(super) line_starts: "u32*",
        /// [lines + 1]: the first token at or after the start.
        pub(super) line_tokens: "u32*",
        /// Column | alternate << 16.
        pub(super) line_columns: "u32*",
        pub(super) line_brackets: "u64*",
        /// By token.
        pub(super) kinds: "u8*",
        pub(super) starts: "u32*",
        pub(super) ends: "u32*",
        pub(super) payloads: "u32*",
        pub(super) comment_starts: "u32*",
        pub(super) comment_ends: "u32*",
        /// By logical line: tokens, numbered per source.
        pub(super) logical_firsts: "u32*",
        pub(super) logical_ends: "u32*",
        pub(super) logical_columns: "u32*",
        pub(super) logical_alternates: "u32*",
        /// Slots of the name tables, zeroed.
        pub(super) name_keys: "u64*",
        /// By slot: complement of its first token, zeroed.
        pub(super) name_firsts: "u32*",
        /// [token_cap / 32], zeroed: first occurrences of names.
        pub(super) first_bits: "u32*",
        /// [token_cap / 32].
        pub(super) first_ranks: "u32*",
        pub(super) name_starts: "u32*",
        pub(super) name_ends: "u32*",
        /// 4 words each: the tokens of a tile before a line in which the last of them ends, its end, the source, and
        /// the tile.
        pub(super) multiline_ends: "u32*",
        /// Tokens spelled `match`, `case` or `type`.
        pub(super) soft_keywords: "u32*",
        /// Look-back state of later kernels, zeroed.
        pub(super) line_sums: "u64*",
        pub(super) rank_sums: "u64*",
        /// Minimum column of 32 logical lines, and of 1,024.
        pub(super) min_columns: "u32*",
        /// By physical line: minimum bracket depth.
        pub(super) min_depths: "u32*",
        /// Their minimum for 32 physical lines, and for 1,024.
        pub(super) min_depth_blocks: "u32*",
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
}

launch_structs! {
    header TREE_LAUNCH = "launch/tree.cuh";

    /// Threads of a block of most kernels.
    pub(super) const TREE_THREADS: u32 = 256;
    /// Those of the kernels of lines and units, which take one each.
    pub(super) const LINE_THREADS: u32 = 1024;
    pub(super) const BLOCK_LINES: usize = 1024;
    /// Words of `counters`.
    pub(super) const COUNTERS: usize = 8;

    /// Node slots per token.
    pub(super) const SLOTS_PER_TOKEN: usize = 2;
    /// Longer lines are scanned by a warp, and split into units where possible.
    pub(super) const SHORT_TOKENS: usize = 64;
    /// Sort keys of longer units, which are parsed first, the longest before the others.
    pub(super) const LONG_KEYS: usize = 32;
    /// Short units are sorted by their length, and by classes of their first tokens: the threads of a warp diverge
    /// less.
    pub(super) const SHORT_KEYS: usize = SHORT_TOKENS * 4;
    /// They are sorted within slices of 2^SLICE_BITS items, to keep items together that are close in memory.
    pub(super) const SLICE_BITS: u32 = 16;
    /// Threads per block of `tree_split`.
    pub(super) const SPLIT_THREADS: u32 = 256;
    /// Threads per block of the LR parser.
    pub(super) const LR_THREADS: u32 = 384;
    /// Symbols and roots per thread in shared memory; the following ones are in local memory, and further roots in
    /// device memory. Threads of a warp are at different heights: only in shared memory does that cost nothing.
    pub(super) const SHARED_SYMBOLS: u32 = 22;
    pub(super) const SHARED_ROOTS: u32 = 14;
    pub(super) const LR_STACK_BYTES: u32 = LR_THREADS * (SHARED_SYMBOLS + SHARED_ROOTS) * 4;
    /// Lines per block of `tree_nodes`.
    pub(super) const NODES_LINES: usize = 256;
    /// Threads per block of device-wide scans.
    pub(super) const SCAN_THREADS: u32 = 256;
    /// The maximum grid size of device-wide scans.
    pub(super) const MAX_RANGES: u32 = 1024;

    /// A run of consecutive tokens of a split line in one unit, between two split points. A line's segments are stored
    /// in its order. Its units are the remainder of the line, and chunks: elements of a long bracket, from one comma to
    /// another. In the enclosing unit one placeholder token stands for a bracket's chunks; token numbers of a unit
    /// count placeholders.
    pub(super) struct Segment {
        /// First token, in the batch.
        token: u32,
        /// Tokens of the unit before the segment.
        before: u32,
        /// The unit's next segment, or NONE.
        next: u32,
        /// The unit's first segment; NONE: the entry is unused.
        unit: u32,
        /// Terminal of the placeholder before the segment or, for a chunk, of its own placeholder; else 0.
        placeholder: u32,
        /// Nodes and values of the unit before the segment.
        node: u32,
        value: u32,
        /// Nodes and values of the line before the segment.
        row: u32,
        value_row: u32,
        /// For a unit's first segment, as are the following: for a chunk the last segment before its bracket, in the
        /// enclosing unit.
        outer: u32,
        /// Tokens.
        count: u32,
        /// Tokens without placeholders.
        own: u32,
        /// The token whose node slots the unit uses.
        slots: u32,
        line: u32,
        /// Nodes and values of the unit, and its first root.
        nodes: u32,
        values: u32,
        head: u32,
        /// For a line's first segment, as are the following.
        segments: u32,
        line_nodes: u32,
        line_values: u32,
    }

    /// The sources of one launch, concatenated. The lexer's output comes first: tokens and names are numbered per
    /// source, as are tokens in the payloads of replacement fields; entry i of `*_bases` counts what precedes source i,
    /// and there is one entry past the last.
    pub(super) struct TreeBatch {
        pub(super) text: "const u8*",
        pub(super) source_starts: "const u32*",
        pub(super) source_lens: "const u32*",
        /// By source: not 0 if it falls back; its lines are then undefined.
        pub(super) flags: "const u32*",
        pub(super) token_bases: "const u32*",
        pub(super) logical_bases: "const u32*",
        pub(super) name_bases: "const u32*",
        /// By token.
        pub(super) kinds: "u8*",
        pub(super) starts: "const u32*",
        pub(super) ends: "const u32*",
        pub(super) payloads: "u32*",
        /// By line: tokens of the source.
        pub(super) logical_firsts: "const u32*",
        pub(super) logical_ends: "const u32*",
        pub(super) logical_columns: "const u32*",
        pub(super) logical_alternates: "const u32*",
        pub(super) name_starts: "const u32*",
        pub(super) name_ends: "const u32*",
        /// By source: the minor version of its grammar.
        pub(super) versions: "const u8*",
        /// By source: bits of `FallbackReason`.
        pub(super) reasons: "u32*",
        /// First token and end, in the batch; column, column with a tab counted as 1.
        pub(super) lines: "uint4*",
        /// By line: its source.
        pub(super) line_sources: "u32*",
        /// By line.
        pub(super) columns: "u16*",
        /// By 32 lines: their minimum.
        pub(super) min_columns_32: "u16*",
        /// By 1,024 lines.
        pub(super) min_columns_1024: "u16*",
        /// By line: its first terminal.
        pub(super) first_terminals: "u8*",
        /// `Record`s, SLOTS_PER_TOKEN per token: nodes of units.
        pub(super) records: "uint4*",
        /// Likewise: nodes of split lines; their parents are in `spill`.
        pub(super) merged: "uint4*",
        /// Likewise: roots spilled by the LR driver; later parents within a line, or ROOT.
        pub(super) spill: "u32*",
        /// `Outcome`s by line.
        pub(super) outcomes: "uint2*",
        /// By line, and one past the last: rows and values before it.
        pub(super) bases: "uint2*",
        /// `Nesting`s by line.
        pub(super) nestings: "uint4*",
        /// `COUNT_SEGMENTS` of them.
        pub(super) segments: "Segment*",
        /// COUNT_LONG lines of more than SHORT_TOKENS tokens.
        pub(super) long_lines: "u32*",
        /// Zeroed.
        pub(super) counters: "u32*",
        pub(super) source_count: u32,
        /// Capacity; `logical_bases` has the count.
        pub(super) line_cap: u32,
        pub(super) token_cap: u32,
        pub(super) segment_cap: u32,
        /// First number of units that are not whole lines: a multiple of 65,536.
        pub(super) segment_base: u32,
        pub(super) unused: u32,
    }

    /// The node columns of all sources, concatenated; `parents` and `aux` are numbered per source.
    pub(super) struct NodeColumns {
        pub(super) kinds: "u8*",
        pub(super) fields: "u8*",
        pub(super) parents: "u32*",
        pub(super) starts: "u32*",
        pub(super) ends: "u32*",
        pub(super) aux: "u32*",
        /// By value: its row in the batch.
        pub(super) value_rows: "u32*",
        /// By value: its first token.
        pub(super) value_tokens: "u32*",
        /// By value.
        pub(super) value_sources: "u32*",
    }

    /// The columns of literals.
    pub(super) struct Literals {
        /// By row.
        pub(super) kinds: "const u8*",
        pub(super) fields: "const u8*",
        pub(super) parents: "const u32*",
        pub(super) row_starts: "u32*",
        pub(super) row_ends: "u32*",
        /// By value: its row in the batch.
        pub(super) rows: "const u32*",
        /// By value: its first token.
        pub(super) tokens: "const u32*",
        /// By value.
        pub(super) sources: "const u32*",
        pub(super) tags: "u8*",
        pub(super) starts: "u32*",
        pub(super) ends: "u32*",
        /// By value: bytes appended to `extra`.
        pub(super) sizes: "u32*",
        /// By value, and one past the last: bytes of `extra` before it.
        pub(super) bases: "u32*",
        /// COUNT_APPENDING values that append; from the end down COUNT_LONG_APPENDING long strings that do.
        pub(super) appending: "u32*",
        /// COUNT_LONG_TEXTS values of long strings.
        pub(super) long_texts: "u32*",
        pub(super) extra: "u8*",
        /// Capacity in values.
        pub(super) cap: u32,
        /// Capacity in bytes.
        pub(super) extra_cap: u32,
    }

    /// Byte offsets of the tables. Rows are given by the offset of their first cell, except those of `lookahead_gotos`.
    #[derive(Default)]
    pub(super) struct TableOffsets {
        /// uint4 each.
        pub(super) productions: u32,
        /// u16 by row start and terminal.
        pub(super) actions: u32,
        /// u16 by row and column.
        pub(super) lookahead_gotos: u32,
        /// u16 by row start and nonterminal.
        pub(super) gotos: u32,
        /// u16 by state.
        pub(super) action_rows: u32,
        /// u16 by state.
        pub(super) goto_rows: u32,
        /// u8 by terminal.
        pub(super) lookahead_columns: u32,
        /// Kind, its field, the field of other kinds: u8 each, 4 bytes per label.
        pub(super) labels: u32,
        pub(super) bytes: u32,
        /// The end-of-line terminal.
        pub(super) end: u32,
        pub(super) lookahead_width: u32,
        pub(super) unused: u32,
    }

    /// Parameters of the LR parser.
    pub(super) struct LrParams {
        pub(super) batch: TreeBatch,
        /// The tables.
        pub(super) bytes: "const u8*",
        /// Units to parse.
        pub(super) order: "const u32*",
        /// Number of units.
        pub(super) count: "const u32*",
        /// By sort key: the end of its units in the order.
        pub(super) ends: "const u32*",
        pub(super) tables: TableOffsets,
    }
}

const LEX: &[usize] = &[size_of::<LexBatch>()];

pub(super) const LEX_LINE_STATES: Kernel = Kernel { name: "lex_line_states", params: LEX };
pub(super) const LEX_SCAN_STATES: Kernel = Kernel { name: "lex_scan_states", params: LEX };
pub(super) const LEX_LINES: Kernel = Kernel { name: "lex_lines", params: LEX };
pub(super) const LEX_TOKENS: Kernel = Kernel { name: "lex_tokens", params: LEX };
pub(super) const LEX_SCAN_COUNTS: Kernel = Kernel { name: "lex_scan_counts", params: LEX };
pub(super) const LEX_MULTILINE_ENDS: Kernel = Kernel { name: "lex_multiline_ends", params: LEX };
pub(super) const LEX_LOGICAL_LINES: Kernel = Kernel { name: "lex_logical_lines", params: LEX };
pub(super) const LEX_MATCH_BRACKETS: Kernel = Kernel { name: "lex_match_brackets", params: LEX };
pub(super) const LEX_MIN_COLUMNS: Kernel = Kernel { name: "lex_min_columns", params: LEX };
pub(super) const LEX_INDENTATION: Kernel = Kernel { name: "lex_indentation", params: LEX };
pub(super) const LEX_SOFT_KEYWORDS: Kernel = Kernel { name: "lex_soft_keywords", params: LEX };
pub(super) const LEX_FIRST_NAMES: Kernel = Kernel { name: "lex_first_names", params: LEX };
pub(super) const LEX_NAME_RANKS: Kernel = Kernel { name: "lex_name_ranks", params: LEX };
pub(super) const LEX_NUMBER_NAMES: Kernel = Kernel { name: "lex_number_names", params: LEX };

const BATCH: usize = size_of::<TreeBatch>();
const NODES: usize = size_of::<NodeColumns>();
const LITERALS: usize = size_of::<Literals>();
const LR_PARAMS: &[usize] = &[size_of::<LrParams>()];

pub(super) const TREE_SOURCES: Kernel = Kernel { name: "tree_sources", params: &[BATCH] };
pub(super) const TREE_LINES: Kernel = Kernel { name: "tree_lines", params: &[BATCH] };
pub(super) const TREE_SPLIT: Kernel = Kernel { name: "tree_split", params: &[BATCH] };
pub(super) const TREE_SORT_COUNT: Kernel = Kernel { name: "tree_sort_count", params: &[BATCH, 8] };
pub(super) const TREE_SORT_SCAN: Kernel = Kernel { name: "tree_sort_scan", params: &[8, 4] };
pub(super) const TREE_SORT_SCATTER: Kernel = Kernel { name: "tree_sort_scatter", params: &[BATCH, 8, 8] };
pub(super) const TREE_LR_SHARED: Kernel = Kernel { name: "tree_lr_shared", params: LR_PARAMS };
pub(super) const TREE_LR: Kernel = Kernel { name: "tree_lr", params: LR_PARAMS };
pub(super) const TREE_SEGMENTS: Kernel = Kernel { name: "tree_segments", params: &[BATCH] };
pub(super) const TREE_ROWS_REDUCE: Kernel = Kernel { name: "tree_rows_reduce", params: &[BATCH, 8] };
pub(super) const TREE_ROWS_SCAN: Kernel = Kernel { name: "tree_rows_scan", params: &[BATCH, 8] };
pub(super) const TREE_MERGE: Kernel = Kernel { name: "tree_merge", params: &[BATCH, 8, 8, 8] };
pub(super) const TREE_BLOCKS: Kernel = Kernel { name: "tree_blocks", params: &[BATCH] };
pub(super) const TREE_NODES: Kernel = Kernel { name: "tree_nodes", params: &[BATCH, NODES] };
pub(super) const TREE_NODES_SPLIT: Kernel = Kernel { name: "tree_nodes_split", params: &[BATCH, NODES] };
pub(super) const TREE_LITERALS: Kernel = Kernel { name: "tree_literals", params: &[BATCH, LITERALS] };
pub(super) const TREE_LONG_STRINGS: Kernel = Kernel { name: "tree_long_strings", params: &[BATCH, LITERALS] };
pub(super) const TREE_EXTRA_REDUCE: Kernel = Kernel { name: "tree_extra_reduce", params: &[BATCH, LITERALS, 8] };
pub(super) const TREE_EXTRA_SCAN: Kernel = Kernel { name: "tree_extra_scan", params: &[BATCH, LITERALS, 8] };
pub(super) const TREE_EXTRA: Kernel = Kernel { name: "tree_extra", params: &[BATCH, LITERALS] };
pub(super) const TREE_SUMMARY: Kernel = Kernel { name: "tree_summary", params: &[BATCH, LITERALS, 8] };

const LEX_BATCH: Source = cu!("parse/lex.cuh");
const LEX_TILE: Source = cu!("parse/lex_tile.cuh");
const MARKS: Source = cu!("parse/lex_marks.cuh");
const TREE: Source = cu!("parse/tree.cuh");
const TREE_ENUMS: Source = cu!("parse/tree_enums.cuh");
const SCAN: Source = cu!("parse/scan.cuh");

pub(crate) static MODULES: &[&Module] = &[
    &LINE_STATES,
    &LEXER,
    &TOKENS,
    &LOGICAL_LINES,
    &NAMES,
    &ORDER,
    &SPLIT,
    &LR,
    &MERGE,
    &BLOCKS,
    &NODE_COLUMNS,
    &LITERAL_COLUMNS,
];

static LINE_STATES: Module = Module {
    name: "parse_line_states",
    source: cu!("parse/line_states.cu"),
    headers: &[COMMON, LEX_LAUNCH, LEX_BATCH, LEX_TILE, cu!("parse/line_states.cuh")],
    defines: &[],
    kernels: &[LEX_LINE_STATES, LEX_SCAN_STATES],
};

static LEXER: Module = Module {
    name: "parse_lex",
    source: cu!("parse/lex.cu"),
    headers: &[COMMON, LEX_LAUNCH, LEX_BATCH, LEX_TILE, MARKS, cu!("parse/lex_number.cuh"), cu!("parse/lex_line.cuh")],
    defines: &[],
    kernels: &[LEX_LINES],
};

static TOKENS: Module = Module {
    name: "parse_tokens",
    source: cu!("parse/tokens.cu"),
    headers: &[COMMON, LEX_LAUNCH, LEX_BATCH, LEX_TILE, MARKS, cu!("parse/token_kinds.cuh")],
    defines: &[],
    kernels: &[LEX_TOKENS, LEX_SCAN_COUNTS],
};

static LOGICAL_LINES: Module = Module {
    name: "parse_logical_lines",
    source: cu!("parse/logical_lines.cu"),
    headers: &[COMMON, LEX_LAUNCH, LEX_BATCH],
    defines: &[],
    kernels: &[
        LEX_MULTILINE_ENDS,
        LEX_LOGICAL_LINES,
        LEX_MATCH_BRACKETS,
        LEX_MIN_COLUMNS,
        LEX_INDENTATION,
        LEX_SOFT_KEYWORDS,
    ],
};

static NAMES: Module = Module {
    name: "parse_names",
    source: cu!("parse/names.cu"),
    headers: &[COMMON, LEX_LAUNCH, LEX_BATCH],
    defines: &[],
    kernels: &[LEX_FIRST_NAMES, LEX_NAME_RANKS, LEX_NUMBER_NAMES],
};

static ORDER: Module = Module {
    name: "parse_tree_order",
    source: cu!("parse/tree_order.cu"),
    headers: &[COMMON, TREE_LAUNCH, TREE_ENUMS, TREE, SCAN],
    defines: &[],
    kernels: &[
        TREE_SOURCES,
        TREE_LINES,
        TREE_SORT_COUNT,
        TREE_SORT_SCAN,
        TREE_SORT_SCATTER,
        TREE_ROWS_REDUCE,
        TREE_ROWS_SCAN,
    ],
};

static SPLIT: Module = Module {
    name: "parse_tree_split",
    source: cu!("parse/tree_split.cu"),
    headers: &[COMMON, TREE_LAUNCH, TREE_ENUMS, TREE],
    defines: &[],
    kernels: &[TREE_SPLIT],
};

static LR: Module = Module {
    name: "parse_tree_lr",
    source: cu!("parse/tree_lr.cu"),
    headers: &[COMMON, TREE_LAUNCH, TREE_ENUMS, TREE],
    defines: &[],
    kernels: &[TREE_LR_SHARED, TREE_LR],
};

static MERGE: Module = Module {
    name: "parse_tree_merge",
    source: cu!("parse/tree_merge.cu"),
    headers: &[COMMON, TREE_LAUNCH, TREE_ENUMS, TREE],
    defines: &[],
    kernels: &[TREE_SEGMENTS, TREE_MERGE],
};

static BLOCKS: Module = Module {
    name: "parse_tree_blocks",
    source: cu!("parse/tree_blocks.cu"),
    headers: &[COMMON, TREE_LAUNCH, TREE_ENUMS, TREE],
    defines: &[],
    kernels: &[TREE_BLOCKS],
};

static NODE_COLUMNS: Module = Module {
    name: "parse_tree_nodes",
    source: cu!("parse/tree_nodes.cu"),
    headers: &[COMMON, TREE_LAUNCH, TREE_ENUMS, TREE, cu!("parse/tree_checks.cuh")],
    defines: &[],
    kernels: &[TREE_NODES, TREE_NODES_SPLIT],
};

static LITERAL_COLUMNS: Module = Module {
    name: "parse_tree_literals",
    source: cu!("parse/tree_literals.cu"),
    headers: &[COMMON, TREE_LAUNCH, TREE_ENUMS, TREE, SCAN, cu!("parse/string_literals.cuh")],
    defines: &[],
    kernels: &[TREE_LITERALS, TREE_LONG_STRINGS, TREE_EXTRA_REDUCE, TREE_EXTRA_SCAN, TREE_EXTRA, TREE_SUMMARY],
};

#[cfg(test)]
mod tests {
    use accelerd_parser::{Field, Kind, Terminal};

    /// `KIND_AUG_ASSIGN` and `AugAssign` become the same.
    fn bare(name: &str) -> String {
        name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
    }

    #[test]
    fn kernels_number_terminals_kinds_and_fields_as_the_parser_does() {
        let terminals = Terminal::ALL.map(|terminal| (bare(&format!("token{terminal:?}")), terminal as u8));
        let kinds = Kind::ALL.iter().map(|kind| (bare(&format!("kind{kind:?}")), *kind as u8));
        let fields = Field::ALL.iter().map(|field| (bare(&format!("field{field:?}")), *field as u8));
        let known: Vec<_> = terminals.into_iter().chain(kinds).chain(fields).collect();
        let lines = super::TREE_ENUMS.text.lines().filter_map(|line| line.trim().strip_suffix(',')?.split_once(" = "));
        let mut count = 0;
        for (name, number) in lines {
            let expected = known.iter().find(|(known, _)| *known == bare(name)).map(|(_, number)| number.to_string());
            assert_eq!(expected.as_deref(), Some(number), "{name}");
            count += 1;
        }
        assert!(count > 60);
    }
}
