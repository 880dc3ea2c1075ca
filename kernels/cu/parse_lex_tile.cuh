// One tile of text in shared memory: its bytes, bitmaps over them, and the steps from bit to bit that lexing is made
// of.

#pragma once

#include "parse_lex.cuh"

#define MOST_SPECIAL 512u
#define MOST_CLOSERS 512u
#define FRONT 16u

// The bytes of a tile, from FRONT bytes before it to HALO bytes behind.
struct Bytes {
    __align__(16) u8 text[FRONT + SPAN + 16];
    u32 number, first_source;
    u16 source[TILE_WORDS];  // of each word, from the tile's first one
};

// The bytes, and bitmaps over them.
struct Text : Bytes {
    u32 part[WORDS + 1];  // letters, digits, underscores
    u32 stop[WORDS + 1];  // quotes, backslashes, newlines, braces, hashes
    u32 newline[WORDS + 1];
    u32 line[TILE_WORDS];     // first bytes of lines
    u32 special[TILE_WORDS];  // of lines that may change the state
    u16 line_before[TILE_WORDS], special_before[TILE_WORDS];
    u32 map[MOST_SPECIAL];
    u32 scratch[33];
    u32 lines, specials;
};

__device__ __forceinline__ u32 byte_at(const Bytes& t, u32 at) { return t.text[FRONT + at]; }

__device__ __forceinline__ bool is_digit(u32 c) { return c - '0' < 10u; }

__device__ __forceinline__ bool is_part(u32 c) {
    return (c | 0x20) - 'a' < 26u || c - '0' < 10u || c == '_';
}

// Brings the bytes in. Blocks of THREADS threads.
#define THREADS 256u
__device__ inline void load_bytes(Bytes& t, const LexBatch& b) {
    const u32 tile = blockIdx.x, skipped = tile ? 0 : FRONT / 16;
    const uint4* from = (const uint4*)(b.text + (u64)tile * TILE) - FRONT / 16;
    uint4* to = (uint4*)t.text;
    const uint4 newlines = make_uint4(0x0a0a0a0au, 0x0a0a0a0au, 0x0a0a0a0au, 0x0a0a0a0au);
    if (threadIdx.x < skipped) to[threadIdx.x] = newlines;
    if (threadIdx.x == 0) to[(FRONT + SPAN) / 16] = newlines;
    for (u32 i = threadIdx.x + skipped; i < (FRONT + SPAN) / 16; i += THREADS) to[i] = from[i];
    const u32 first = b.tile_sources[tile], last = b.tile_sources[tile + 2];
    for (u32 word = threadIdx.x; word < TILE_WORDS; word += THREADS)
        t.source[word] = (u16)(last_at_most(b.source_starts, first, last, tile * TILE + word * 32) - first);
    if (threadIdx.x == 0) {
        t.number = tile;
        t.first_source = first;
    }
}

// The source that a place is in; a line that goes on into the halo is of the source that the tile ends in.
__device__ __forceinline__ u32 source_at(const Bytes& t, u32 at) {
    return t.first_source + t.source[min(at >> 5, TILE_WORDS - 1)];
}

__device__ __forceinline__ bool starts_source(const Bytes& t, const LexBatch& b, u32 at) {
    return b.source_starts[source_at(t, at)] == t.number * TILE + at;
}

// The first set bit from `at` on. The bitmap ends with a word of ones.
__device__ __forceinline__ u32 next_set(const u32* bits, u32 at) {
    u32 word = at >> 5, left = bits[word] & (~0u << (at & 31));
    while (left == 0) left = bits[++word];
    return word * 32 + (u32)__ffs(left) - 1;
}

// The first clear bit. The bitmap ends with a word of zeros.
__device__ __forceinline__ u32 next_clear(const u32* bits, u32 at) {
    u32 word = at >> 5, left = ~bits[word] & (~0u << (at & 31));
    while (left == 0) left = ~bits[++word];
    return word * 32 + (u32)__ffs(left) - 1;
}

__device__ __forceinline__ u32 below(u32 at) { return (1u << (at & 31)) - 1; }

// How many set bits stand before `at`.
__device__ __forceinline__ u32 rank(const u32* bits, const u16* before, u32 at) {
    return before[at >> 5] + (u32)__popc(bits[at >> 5] & below(at));
}

// The set bit of a number.
__device__ __forceinline__ u32 pick(const u32* bits, const u16* before, u32 words, u32 number) {
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

// Eight bytes from a place on, the first one lowest.
__device__ __forceinline__ u64 eight_at(const Bytes& t, u32 at) {
    const u32* words = (const u32*)t.text;
    const u32 first = (FRONT + at) >> 2, shift = (at & 3) * 8;
    const u32 low = __funnelshift_r(words[first], words[first + 1], shift);
    const u32 high = __funnelshift_r(words[first + 1], words[first + 2], shift);
    return (u64)high << 32 | low;
}

// States at the start of a line: 0 is code; else 1 + flavour * 4 + place of the quotes in QUOTES.
enum : u32 { FLAVOUR_PLAIN = 0, FLAVOUR_FIELDS = 1, FLAVOUR_RAW_FIELDS = 2 };
#define STATE_CODE 0u
#define STATE_STAYS 15u
__device__ __forceinline__ u32 state_of(u32 flavour, bool triple, u32 quote) {
    return 1 + flavour * 4 + (triple ? 0 : 2) + (quote == '"');
}
// 0: code; 1, 2: in triple quotes; 3, 4: in single ones behind a backslash.
__device__ __forceinline__ u32 state_class(u32 state) { return state == 0 ? 0 : ((state - 1) & 3) + 1; }

// A map of states takes each class to a state, or leaves it: four bits a class.
#define MAP_STAYS 0xffff0u
#define MAP_CLASSES 5u
__device__ __forceinline__ u32 map_state(u32 map, u32 state) {
    const u32 to = map >> (4 * state_class(state)) & 15;
    return to == STATE_STAYS ? state : to;
}
__device__ __forceinline__ u32 join_maps(u32 first, u32 second) {
    u32 joined = 0;
#pragma unroll
    for (u32 i = 0; i < MAP_CLASSES; i++) {
        const u32 to = first >> (4 * i) & 15, own = second >> (4 * i) & 15;
        joined |= (to == STATE_STAYS ? own : map_state(second, to)) << (4 * i);
    }
    return joined;
}

// Numbers lines and those that may change the state, in their order. Blocks of TILE_WORDS threads.
__device__ inline void count_lines(Text& t) {
    const u32 word = threadIdx.x;
    const u32 own = (u32)__popc(t.line[word]) | (u32)__popc(t.special[word]) << 16;
    u32 total;
    const u32 before = block_before(own, t.scratch, &total);
    t.line_before[word] = (u16)before;
    t.special_before[word] = (u16)(before >> 16);
    if (word == 0) {
        t.lines = total & 0xffff;
        t.specials = min(total >> 16, MOST_SPECIAL);
    }
    __syncthreads();
}

// Whether a line feed or carriage return and line feed follow, where `newline` is the line's line feed.
__device__ __forceinline__ bool ends_line(const Bytes& t, u32 at, u32 newline) {
    return at == newline || (at + 1 == newline && byte_at(t, at) == '\r');
}

// A string's prefix: the bits of its payload, with the length; whether it has fields, and is a t-string.
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
