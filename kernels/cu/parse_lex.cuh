// What the kernels of the lexer share: the batch that they work on, reasons to leave a source to the CPU, the numbers
// of terminals, and sums over all blocks in order.

#pragma once

#include "common.cuh"

// A block takes the lines that start in its tile of the text, and sees so many bytes beyond it.
#define TILE 8192u
#define HALO 2048u
#define SPAN (TILE + HALO)
#define WORDS (SPAN / 32)
#define TILE_WORDS (TILE / 32)

// Why the CPU has to take a source; mirrors `Reason` on the host.
enum : u32 {
    FLAG_LEXICAL = 1,        // the lexer finds an error, or a token that no grammar has
    FLAG_WIDE = 2,           // a name beyond ASCII
    FLAG_LONG_LINE = 4,      // a line does not fit the halo
    FLAG_FIELD_LINES = 8,    // a replacement field goes over several lines
    FLAG_NESTING = 16,       // fields, strings or brackets nest deeper than is kept here
    FLAG_STATE = 32,         // lines do not follow one another as was foreseen, or the text ends inside a string
    FLAG_LONE_RETURN = 64,   // a carriage return alone
    FLAG_INDENTATION = 128,  // indentation that is an error, or beyond what is looked at
    FLAG_BRACKETS = 256,     // brackets do not match
    FLAG_NAMES = 512,        // the table of names is full, or two names have one hash
    FLAG_RULES = 1024,       // a token rule would have to look too far
    FLAG_BLANK_BACKSLASH = 2048,  // a backslash in an indentation
};

// Counters of a batch; mirrors `Counts` on the host.
enum : u32 { COUNT_UNUSED, COUNT_TOKENS, COUNT_LINES, COUNT_COMMENTS, COUNT_LOGICAL, COUNT_NAMES, COUNT_CLOSERS,
    COUNT_SOFT, COUNT_TICKET_LINES, COUNT_TICKET_RANKS, COUNTS = 16 };

// A batch on the device; mirrors `Batch` in ops/parse/cuda. Each source starts at a multiple of 32 bytes of the text,
// at 32 or later; bytes that belong to no source are newlines: at least one behind each source, and all up to the end
// of the last tile's halo.
struct LexBatch {
    const u8* text;
    const u32* source_starts;  // [sources + 1], last: behind the last source
    const u32* source_lens;    // [sources]
    const u32* tile_sources;   // [tiles + 3]: the last source that starts at or before the tile's first byte, or 0
    u32* flags;                // [sources], zero
    u32* returns;              // [sources], zero: there is a carriage return
    u32* counts;               // [COUNTS]
    u64* tile_maps;            // [tiles]: lines, and above them the map of states; then those of the tiles before
    u64* tile_counts;          // [tiles]: tokens, and above them comments; then those of the tiles before
    u32* text_bits;            // three bitmaps over the text, of tiles * TILE_WORDS words each: see Text
    u32* line_bits;            // two such bitmaps
    u32* special_maps;         // [tiles * MOST_SPECIAL]
    u32* token_bits;           // three bitmaps over tile and halo, WORDS words each, for each tile
    u8* marks;                 // [tiles * SPAN]: of each tile's tokens in their order
    u32* line_bases;           // [sources + 1]: a source's first physical line, and so on
    u32* token_bases;
    u32* comment_bases;
    u32* logical_bases;
    u32* name_bases;
    u32* line_starts;   // physical lines: place in the source
    u32* line_tokens;   // [lines + 1]: first token at or behind the start
    u32* line_columns;  // column | alternate << 16
    u64* line_brackets;
    u8* kinds;  // tokens
    u32* starts;
    u32* ends;
    u32* payloads;
    u32* comment_starts;
    u32* comment_ends;
    u32* logical_firsts;  // logical lines: tokens of the source
    u32* logical_ends;
    u32* logical_columns;
    u32* logical_alternates;
    u64* name_keys;    // slots of the tables of names, zero
    u32* name_firsts;  // of each slot the complement of its first token, zero
    u32* first_bits;   // [token_cap / 32], zero: tokens that are the first of their name
    u32* first_ranks;  // [token_cap / 32]
    u32* name_starts;
    u32* name_ends;
    u32* closers;  // fours: a tile's tokens before a line, where the last of them ends in it, the source, and the tile
    u32* soft;     // tokens that read `match`, `case` or `type`
    u64* line_sums;  // look-back of later kernels, zero
    u64* rank_sums;
    u32* line_minima;   // least column of 32 logical lines, and of 1,024
    u32* line_leasts;   // of each physical line, the least depth of brackets in it
    u32* least_minima;  // of 32 physical lines, and of 1,024
    u64 seed;
    u32 sources, tiles, token_cap, line_cap, comment_cap, list_cap, name_cap, logical_cap;
};

// Bits of `line_brackets`: what a physical line is, then its brackets that stay open on either side.
#define LINE_CODE 1u      // it starts outside of strings
#define LINE_JOINS 2u     // a backslash joins the next line
#define LINE_FIRST 4u     // first of its source
#define LINE_BACKSLASH 8u // nothing but a backslash in front of its end
#define MOST_OPEN 13u

// The numbers of `Terminal`; a test compares them.
enum : u32 {
    T_NAME = 0, T_NUMBER = 1, T_STRING = 2, T_F_STRING_START = 3, T_T_STRING_START = 4, T_F_STRING_MIDDLE = 5,
    T_F_STRING_END = 6, T_FIELD_OPEN = 7, T_FIELD_CLOSE = 8, T_FIELD_COLON = 9, T_FIELD_BANG = 10, T_AUGMENTED = 11,
    T_COMPARISON = 12, T_SHIFT = 13, T_MULTIPLICATIVE = 14, T_DOUBLE_STAR = 15, T_ARROW = 16, T_WALRUS = 17,
    T_ELLIPSIS = 18, T_NONE = 19, T_TRUE = 20, T_FALSE = 21, T_AND = 22, T_AS = 23, T_ASSERT = 24, T_ASYNC = 25,
    T_AWAIT = 26, T_BREAK = 27, T_CLASS = 28, T_CONTINUE = 29, T_DEF = 30, T_DEL = 31, T_ELIF = 32, T_ELSE = 33,
    T_EXCEPT = 34, T_FINALLY = 35, T_FOR = 36, T_FROM = 37, T_GLOBAL = 38, T_IF = 39, T_IMPORT = 40, T_IN = 41,
    T_IS = 42, T_LAMBDA = 43, T_NONLOCAL = 44, T_NOT = 45, T_OR = 46, T_PASS = 47, T_RAISE = 48, T_RETURN = 49,
    T_TRY = 50, T_WHILE = 51, T_WITH = 52, T_YIELD = 53, T_MATCH = 54, T_CASE = 55, T_TYPE = 56, T_WITH_PAREN = 57,
    T_LEFT_PAREN = 58, T_RIGHT_PAREN = 59, T_LEFT_BRACKET = 60, T_RIGHT_BRACKET = 61, T_LEFT_BRACE = 62,
    T_RIGHT_BRACE = 63, T_COMMA = 64, T_COLON = 65, T_SEMICOLON = 66, T_DOT = 67, T_AT = 68, T_EQUAL = 69, T_PLUS = 70,
    T_MINUS = 71, T_STAR = 72, T_SLASH = 73, T_BAR = 74, T_AMPERSAND = 75, T_CARET = 76, T_TILDE = 77,
};

// Bits of a string token's payload, as in `tokens::string`.
enum : u32 { STRING_RAW = 1, STRING_BYTES = 2, STRING_UNICODE = 4, STRING_TRIPLE = 8, STRING_CHANGED = 16,
    STRING_SPEC = 32, STRING_PREFIX_SHIFT = 8 };

// The last of `starts[low..=high]`, ascending, that is at most `at`; `low` if none is.
__device__ __forceinline__ u32 last_at_most(const u32* starts, u32 low, u32 high, u32 at) {
    while (low < high) {
        const u32 middle = (low + high + 1) / 2;
        if (starts[middle] <= at) low = middle;
        else high = middle - 1;
    }
    return low;
}

// Whether a table had too little room: kernels behind parse_write do nothing then, for the host tries again.
__device__ __forceinline__ bool is_full(const LexBatch& b) {
    return b.counts[COUNT_TOKENS] > b.token_cap || b.counts[COUNT_LINES] >= b.line_cap ||
        b.counts[COUNT_COMMENTS] > b.comment_cap || max(b.counts[COUNT_CLOSERS], b.counts[COUNT_SOFT]) > b.list_cap;
}

__device__ __forceinline__ void flag(const LexBatch& b, u32 source, u32 reason) { atomicOr(&b.flags[source], reason); }

// Exclusive sum over the block in thread order, and the total; `scratch` holds 33 words. Two halves of a word may be
// summed at once. All threads call it.
__device__ __forceinline__ u32 block_before(u32 x, u32* scratch, u32* total) {
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    u32 sum = x;
#pragma unroll
    for (u32 step = 1; step < 32; step <<= 1) {
        const u32 other = __shfl_up_sync(FULL_WARP, sum, step);
        if (lane >= step) sum += other;
    }
    if (lane == 31) scratch[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        const u32 own = lane < warps ? scratch[lane] : 0;
        u32 all = own;
#pragma unroll
        for (u32 step = 1; step < 32; step <<= 1) {
            const u32 other = __shfl_up_sync(FULL_WARP, all, step);
            if (lane >= step) all += other;
        }
        if (lane < warps) scratch[lane] = all - own;
        if (lane == 31) scratch[32] = all;
    }
    __syncthreads();
    *total = scratch[32];
    const u32 before = scratch[warp] + sum - x;
    __syncthreads();
    return before;
}

// Puts in the place of each value what all values before it come to, by an associative `join(earlier, later)` whose
// neutral value is `none`; gives what all come to. One block of 1,024 threads; `scratch` holds 33 values.
template <typename Join>
__device__ u64 join_before(u64* values, u32 count, u64 none, u64* scratch, Join join) {
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5, share = (count + 1023) / 1024;
    const u32 from = min(threadIdx.x * share, count), end = min(from + share, count);
    u64 own = none;
    for (u32 i = from; i < end; i++) own = join(own, values[i]);
    u64 all = own;
#pragma unroll
    for (u32 step = 1; step < 32; step <<= 1) {
        const u64 earlier = __shfl_up_sync(FULL_WARP, all, step);
        if (lane >= step) all = join(earlier, all);
    }
    u64 before = __shfl_up_sync(FULL_WARP, all, 1);
    if (lane == 0) before = none;
    if (lane == 31) scratch[warp] = all;
    __syncthreads();
    if (warp == 0) {
        u64 sum = scratch[lane];
#pragma unroll
        for (u32 step = 1; step < 32; step <<= 1) {
            const u64 earlier = __shfl_up_sync(FULL_WARP, sum, step);
            if (lane >= step) sum = join(earlier, sum);
        }
        const u64 of_warp = __shfl_up_sync(FULL_WARP, sum, 1);
        scratch[lane] = lane ? of_warp : none;
        if (lane == 31) scratch[32] = sum;
    }
    __syncthreads();
    before = join(scratch[warp], before);
    for (u32 i = from; i < end; i++) {
        const u64 value = values[i];
        values[i] = before;
        before = join(before, value);
    }
    return scratch[32];
}

// Look-back over tiles: a word a tile, whose top bits say whether it holds the tile's own value or that of all tiles up
// to it. Value and state are one word, so no fence is needed.
#define TILE_OWN (1ull << 62)
#define TILE_ALL (2ull << 62)
#define TILE_VALUE ((1ull << 62) - 1)

__device__ __forceinline__ u64 peek(const u64* at) { return *(const volatile u64*)at; }
__device__ __forceinline__ void post(u64* at, u64 value) { *(volatile u64*)at = value; }

// What all tiles before `tile` come to, by an associative `join(earlier, later)` whose neutral value is `none`; posts
// the tile's value for those behind it. One whole warp calls it, in the order of tickets.
template <typename Join>
__device__ u64 look_back(u64* tiles, u32 tile, u64 own, u64 none, Join join) {
    const u32 lane = threadIdx.x & 31;
    if (lane == 0) post(&tiles[tile], own | (tile == 0 ? TILE_ALL : TILE_OWN));
    u64 before = none;
    for (u32 end = tile; end > 0;) {
        u64 seen = TILE_ALL | none;
        if (lane < end) {
            do seen = peek(&tiles[end - 1 - lane]);
            while (seen < TILE_OWN);
        }
        const u32 whole = __ballot_sync(FULL_WARP, seen >= TILE_ALL);
        const u32 nearest = whole ? (u32)__ffs(whole) - 1 : 32;
        u64 value = lane <= nearest ? seen & TILE_VALUE : none;
#pragma unroll
        for (u32 step = 1; step < 32; step <<= 1) {
            const u64 earlier = __shfl_down_sync(FULL_WARP, value, step);
            if (lane + step < 32) value = join(earlier, value);
        }
        before = join(__shfl_sync(FULL_WARP, value, 0), before);
        if (whole) break;
        end -= 32;
    }
    if (lane == 0 && tile > 0) post(&tiles[tile], join(before, own) | TILE_ALL);
    return before;
}
