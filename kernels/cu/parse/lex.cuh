// What the lexer's kernels share besides the batch they work on: the reasons for falling back to the CPU, terminals,
// and scans.

#pragma once

#include "launch/lex.cuh"

// Words of bitmaps over the text that a block sees, and over its tile.
#define SPAN_WORDS (SPAN / 32)
#define TILE_WORDS (TILE / 32)

// Why a source falls back to the CPU; mirrors `LexerReason`.
enum : u32 {
    FLAG_LEXICAL = 1,               // a lexical error
    FLAG_NON_ASCII = 2,             // a non-ASCII name
    FLAG_LONG_LINE = 4,             // a physical line extends beyond the halo
    FLAG_MULTILINE_FIELD = 8,       // a replacement field spans lines
    FLAG_NESTING = 16,              // fields, strings or brackets nest too deep
    FLAG_LINE_STATE = 32,           // a line's predicted start state was wrong, or the text ends inside a string
    FLAG_LONE_CARRIAGE_RETURN = 64, // a carriage return without a line feed
    FLAG_INDENTATION = 128,         // invalid or too deep indentation
    FLAG_BRACKETS = 256,            // brackets do not match
    FLAG_NAME_TABLE = 512,          // the name table is full, or two names share a hash
    FLAG_LOOKAHEAD = 1024,          // a `with (` needs too much lookahead
    FLAG_INDENT_BACKSLASH = 2048,   // a backslash in an indentation
};

// Bits of `line_brackets`: properties of a physical line, then its unmatched brackets.
#define LINE_CODE 1u      // starts outside of strings
#define LINE_JOINS 2u     // a backslash joins the next line
#define LINE_FIRST 4u     // first line of its source
#define LINE_BACKSLASH 8u // only a backslash before its end
#define MAX_OPEN 13u

// Mirrors `Terminal`; a test compares them.
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

// Index of the last of the ascending `starts[low..=high]` that is <= `at`; `low` if none is.
__device__ __forceinline__ u32 last_at_most(const u32* starts, u32 low, u32 high, u32 at) {
    while (low < high) {
        const u32 middle = (low + high + 1) / 2;
        if (starts[middle] <= at) low = middle;
        else high = middle - 1;
    }
    return low;
}

// Whether a table overflowed: kernels after lex_tokens then do nothing, and the host retries with larger tables.
__device__ __forceinline__ bool is_full(const LexBatch& b) {
    return b.counts->tokens > b.token_cap || b.counts->lines >= b.line_cap ||
        b.counts->comments > b.comment_cap ||
        max(b.counts->multiline, b.counts->soft_keywords) > b.list_cap;
}

__device__ __forceinline__ void flag(const LexBatch& b, u32 source, u32 reason) { atomicOr(&b.flags[source], reason); }

// Exclusive sum over the block in thread order, and the total; `scratch` holds 33 words. Two 16-bit halves may be
// summed at once. All threads call it.
__device__ __forceinline__ u32 block_exclusive_scan(u32 x, u32* scratch, u32* total) {
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

// Exclusive scan of an array in place, by an associative `combine(earlier, later)` with identity `none`; returns the
// total. One block of LEX_WIDE_THREADS threads; `scratch` holds 33 values.
template <typename Combine>
__device__ u64 array_exclusive_scan(u64* values, u32 count, u64 none, u64* scratch, Combine combine) {
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5, share = (count + LEX_WIDE_THREADS - 1) / LEX_WIDE_THREADS;
    const u32 from = min(threadIdx.x * share, count), end = min(from + share, count);
    u64 own = none;
    for (u32 i = from; i < end; i++) own = combine(own, values[i]);
    u64 all = own;
#pragma unroll
    for (u32 step = 1; step < 32; step <<= 1) {
        const u64 earlier = __shfl_up_sync(FULL_WARP, all, step);
        if (lane >= step) all = combine(earlier, all);
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
            if (lane >= step) sum = combine(earlier, sum);
        }
        const u64 of_warp = __shfl_up_sync(FULL_WARP, sum, 1);
        scratch[lane] = lane ? of_warp : none;
        if (lane == 31) scratch[32] = sum;
    }
    __syncthreads();
    before = combine(scratch[warp], before);
    for (u32 i = from; i < end; i++) {
        const u64 value = values[i];
        values[i] = before;
        before = combine(before, value);
    }
    return scratch[32];
}

// Decoupled look-back (Merrill and Garland): one word per tile, whose top bits say whether it holds the tile's
// aggregate or its inclusive prefix. Value and state are one word, so no fence is needed.
#define TILE_AGGREGATE (1ull << 62)
#define TILE_PREFIX (2ull << 62)
#define TILE_VALUE ((1ull << 62) - 1)

__device__ __forceinline__ u64 load_volatile(const u64* at) { return *(const volatile u64*)at; }
__device__ __forceinline__ void store_volatile(u64* at, u64 value) { *(volatile u64*)at = value; }

// The exclusive prefix of `tile`, by an associative `combine(earlier, later)` with identity `none`; publishes the
// tile's own value. One whole warp calls it, in ticket order.
template <typename Combine>
__device__ u64 look_back(u64* tiles, u32 tile, u64 own, u64 none, Combine combine) {
    const u32 lane = threadIdx.x & 31;
    if (lane == 0) store_volatile(&tiles[tile], own | (tile == 0 ? TILE_PREFIX : TILE_AGGREGATE));
    u64 before = none;
    for (u32 end = tile; end > 0;) {
        u64 seen = TILE_PREFIX | none;
        if (lane < end) {
            do seen = load_volatile(&tiles[end - 1 - lane]);
            while (seen < TILE_AGGREGATE);
        }
        const u32 whole = __ballot_sync(FULL_WARP, seen >= TILE_PREFIX);
        const u32 nearest = whole ? (u32)__ffs(whole) - 1 : 32;
        u64 value = lane <= nearest ? seen & TILE_VALUE : none;
#pragma unroll
        for (u32 step = 1; step < 32; step <<= 1) {
            const u64 earlier = __shfl_down_sync(FULL_WARP, value, step);
            if (lane + step < 32) value = combine(earlier, value);
        }
        before = combine(__shfl_sync(FULL_WARP, value, 0), before);
        if (whole) break;
        end -= 32;
    }
    if (lane == 0 && tile > 0) store_volatile(&tiles[tile], combine(before, own) | TILE_PREFIX);
    return before;
}
