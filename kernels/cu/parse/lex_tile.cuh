// One tile of text in shared memory: its bytes, bitmaps over them with rank and select, and the states of lines.

#pragma once

#include "parse/lex.cuh"

#define MAX_MULTILINE 512u
#define FRONT 16u

// The bytes of a tile, from FRONT bytes before it to HALO bytes after it.
struct Bytes {
    __align__(16) u8 text[FRONT + SPAN + 16];
    u32 number, first_source;
    u16 source[TILE_WORDS];  // by word: source, counted from the tile's first
};

// The bytes, and bitmaps over them.
struct Text : Bytes {
    u32 identifier[SPAN_WORDS + 1]; // letters, digits, underscores
    u32 stop[SPAN_WORDS + 1];       // quotes, backslashes, newlines, braces, `#`
    u32 newline[SPAN_WORDS + 1];
    u32 line[TILE_WORDS];           // first bytes of lines
    u32 special[TILE_WORDS];        // first bytes of special lines: those that may change the state
    u16 line_ranks[TILE_WORDS], special_ranks[TILE_WORDS];
    u32 map[MAX_SPECIAL];
    u32 scratch[33];
    u32 lines, specials;
};

__device__ __forceinline__ u32 byte_at(const Bytes& t, u32 at) { return t.text[FRONT + at]; }

__device__ __forceinline__ bool is_digit(u32 c) { return c - '0' < 10u; }

__device__ __forceinline__ bool is_identifier_char(u32 c) {
    return (c | 0x20) - 'a' < 26u || c - '0' < 10u || c == '_';
}

// Loads the bytes. Blocks of LEX_THREADS threads.
__device__ inline void load_bytes(Bytes& t, const LexBatch& b) {
    const u32 tile = blockIdx.x, skipped = tile ? 0 : FRONT / 16;
    const uint4* from = (const uint4*)(b.text + (u64)tile * TILE) - FRONT / 16;
    uint4* to = (uint4*)t.text;
    const uint4 newlines = make_uint4(0x0a0a0a0au, 0x0a0a0a0au, 0x0a0a0a0au, 0x0a0a0a0au);
    if (threadIdx.x < skipped) to[threadIdx.x] = newlines;
    if (threadIdx.x == 0) to[(FRONT + SPAN) / 16] = newlines;
    for (u32 i = threadIdx.x + skipped; i < (FRONT + SPAN) / 16; i += LEX_THREADS) to[i] = from[i];
    const u32 first = b.tile_sources[tile], last = b.tile_sources[tile + 2];
    for (u32 word = threadIdx.x; word < TILE_WORDS; word += LEX_THREADS)
        t.source[word] = (u16)(last_at_most(b.source_starts, first, last, tile * TILE + word * 32) - first);
    if (threadIdx.x == 0) {
        t.number = tile;
        t.first_source = first;
    }
}

// The source at a position; a line that extends into the halo is of the source that the tile ends in.
__device__ __forceinline__ u32 source_at(const Bytes& t, u32 at) {
    return t.first_source + t.source[min(at >> 5, TILE_WORDS - 1)];
}

__device__ __forceinline__ bool starts_source(const Bytes& t, const LexBatch& b, u32 at) {
    return b.source_starts[source_at(t, at)] == t.number * TILE + at;
}

// The first set bit from `at` on. A word of ones terminates the bitmap.
__device__ __forceinline__ u32 next_set(const u32* bits, u32 at) {
    u32 word = at >> 5, left = bits[word] & (~0u << (at & 31));
    while (left == 0) left = bits[++word];
    return word * 32 + (u32)__ffs(left) - 1;
}

// The first clear bit from `at` on. A word of zeros terminates the bitmap.
__device__ __forceinline__ u32 next_clear(const u32* bits, u32 at) {
    u32 word = at >> 5, left = ~bits[word] & (~0u << (at & 31));
    while (left == 0) left = ~bits[++word];
    return word * 32 + (u32)__ffs(left) - 1;
}

__device__ __forceinline__ u32 below(u32 at) { return (1u << (at & 31)) - 1; }

// The number of set bits before `at`.
__device__ __forceinline__ u32 rank(const u32* bits, const u16* before, u32 at) {
    return before[at >> 5] + (u32)__popc(bits[at >> 5] & below(at));
}

// The position of set bit `number`.
__device__ __forceinline__ u32 select(const u32* bits, const u16* before, u32 words, u32 number) {
    u32 low = 0, high = words - 1;
    while (low < high) {
        const u32 middle = (low + high + 1) / 2;
        if (before[middle] <= number) low = middle;
        else high = middle - 1;
    }
    u32 left = bits[low], skip = number - before[low], at = low * 32;
#pragma unroll
    for (u32 half = 16; half > 0; half >>= 1) {
        const u32 count = (u32)__popc(left & ((1u << half) - 1));
        if (skip >= count) {
            skip -= count;
            left >>= half;
            at += half;
        }
    }
    return at;
}

__device__ __forceinline__ void set_bit(u32* bits, u32 at) { atomicOr(&bits[at >> 5], 1u << (at & 31)); }

__device__ __forceinline__ bool has_bit(const u32* bits, u32 at) { return bits[at >> 5] >> (at & 31) & 1; }

// Eight bytes from `at` on, little-endian.
__device__ __forceinline__ u64 load_8_bytes(const Bytes& t, u32 at) {
    const u32* words = (const u32*)t.text;
    const u32 first = (FRONT + at) >> 2, shift = (at & 3) * 8;
    const u32 low = __funnelshift_r(words[first], words[first + 1], shift);
    const u32 high = __funnelshift_r(words[first + 1], words[first + 2], shift);
    return (u64)high << 32 | low;
}

// States at the start of a line: 0 is code; else 1 + literal kind * 4 + (triple ? 0 : 2) + (quote == '"').
enum : u32 { LITERAL_PLAIN = 0, LITERAL_FORMATTED = 1, LITERAL_RAW_FORMATTED = 2 };
#define STATE_CODE 0u
#define STATE_UNCHANGED 15u
__device__ __forceinline__ u32 state_of(u32 literal_kind, bool triple, u32 quote) {
    return 1 + literal_kind * 4 + (triple ? 0 : 2) + (quote == '"');
}
// 0: code; 1, 2: in triple quotes; 3, 4: in single quotes after a backslash.
__device__ __forceinline__ u32 state_class(u32 state) { return state == 0 ? 0 : ((state - 1) & 3) + 1; }

// A state map takes each class to a state, or leaves the state unchanged: four bits per class. Maps compose
// associatively, so that a scan finds the start state of each line.
#define MAP_IDENTITY 0xffff0u
#define MAP_CLASSES 5u
__device__ __forceinline__ u32 apply_map(u32 map, u32 state) {
    const u32 to = map >> (4 * state_class(state)) & 15;
    return to == STATE_UNCHANGED ? state : to;
}
__device__ __forceinline__ u32 compose_maps(u32 first, u32 second) {
    u32 joined = 0;
#pragma unroll
    for (u32 i = 0; i < MAP_CLASSES; i++) {
        const u32 to = first >> (4 * i) & 15, own = second >> (4 * i) & 15;
        joined |= (to == STATE_UNCHANGED ? own : apply_map(second, to)) << (4 * i);
    }
    return joined;
}

// Counts lines and special lines, for rank and select. Blocks of TILE_WORDS threads.
__device__ inline void count_lines(Text& t) {
    const u32 word = threadIdx.x;
    const u32 own = (u32)__popc(t.line[word]) | (u32)__popc(t.special[word]) << 16;
    u32 total;
    const u32 before = block_exclusive_scan(own, t.scratch, &total);
    t.line_ranks[word] = (u16)before;
    t.special_ranks[word] = (u16)(before >> 16);
    if (word == 0) {
        t.lines = total & 0xffff;
        t.specials = min(total >> 16, MAX_SPECIAL);
    }
    __syncthreads();
}

// Whether the line ends at `at`, with its line feed or carriage return; `newline` is its line feed.
__device__ __forceinline__ bool ends_line(const Bytes& t, u32 at, u32 newline) {
    return at == newline || (at + 1 == newline && byte_at(t, at) == '\r');
}

// A string's prefix: the payload bits with its length; whether it has replacement fields, and is a t-string.
struct Prefix {
    bool valid, fields, is_t;
    u32 flags;
};

__device__ __forceinline__ Prefix prefix_of(u32 first, u32 second, u32 length) {
    Prefix p = {true, false, false, length << STRING_PREFIX_SHIFT};
    if (length == 0) return p;
    const u32 a = first | 0x20, b = length == 2 ? second | 0x20 : 0;
    const bool raw = a == 'r' || b == 'r';
    const u32 other = a == 'r' ? b : a;
    if (raw) p.flags |= STRING_RAW;
    p.fields = other == 'f' || other == 't';
    p.is_t = other == 't';
    if (other == 'b') p.flags |= STRING_BYTES;
    if (first == 'u' && length == 1) p.flags |= STRING_UNICODE;
    if (length == 1) p.valid = raw || p.fields || other == 'b' || other == 'u';
    else p.valid = raw && (p.fields || other == 'b');
    return p;
}
