// Classifies tokens by their bytes: keywords, operators, and the name tables.

#pragma once

#include "parse/lex_tile.cuh"

#define NO_SLOT 0xffffffffu
#define MAX_PROBES 64u
// Tags the keys of long names: 0xff is no byte of UTF-8, so no key of a short name has it.
#define LONG_NAME (0xffull << 56)

constexpr u32 KEYWORD_SLOTS = 64;

// A perfect hash of the keywords, found by search.
__host__ __device__ constexpr u32 keyword_hash(u64 word) {
    return ((u32)word + (u32)(word >> 32) * 0x7301614du) * 0xe72d144fu >> 26;
}

__host__ __device__ constexpr u64 pack_word(const char* text) {
    u64 word = 0;
    for (u32 at = 0; text[at]; at++) word |= (u64)(u8)text[at] << (8 * at);
    return word;
}

constexpr u64 KEYWORD_MATCH = pack_word("match"), KEYWORD_CASE = pack_word("case"), KEYWORD_TYPE = pack_word("type");

struct Keywords {
    u64 words[KEYWORD_SLOTS];
    u8 kinds[KEYWORD_SLOTS];
};

__host__ __device__ constexpr Keywords keywords() {
    const char* texts[35] = {"None", "True", "False", "and", "as", "assert", "async", "await", "break", "class",
        "continue", "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in",
        "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield"};
    Keywords table = {};
    for (u32 i = 0; i < 35; i++) {
        const u64 word = pack_word(texts[i]);
        table.words[keyword_hash(word)] = word;
        table.kinds[keyword_hash(word)] = (u8)(T_NONE + i);
    }
    return table;
}

__device__ const Keywords KEYWORDS = keywords();

// Operators by form and first byte: kind | operator << 8.
enum : u32 { FORM_SINGLE, FORM_WITH_EQUAL, FORM_PAIR, FORM_LONG, FORMS };

struct Operators {
    u16 of[FORMS][128];
};

__host__ __device__ constexpr Operators operators() {
    Operators t = {};
    const char* singles = ";,:@=+-*/|&^~.()[]{}";
    const u8 kinds[20] = {T_SEMICOLON, T_COMMA, T_COLON, T_AT, T_EQUAL, T_PLUS, T_MINUS, T_STAR, T_SLASH, T_BAR,
        T_AMPERSAND, T_CARET, T_TILDE, T_DOT, T_LEFT_PAREN, T_RIGHT_PAREN, T_LEFT_BRACKET, T_RIGHT_BRACKET,
        T_LEFT_BRACE, T_RIGHT_BRACE};
    for (u32 i = 0; i < 20; i++) t.of[FORM_SINGLE][(u32)singles[i]] = kinds[i];
    t.of[FORM_SINGLE]['%'] = T_MULTIPLICATIVE | 8 << 8;
    t.of[FORM_SINGLE]['<'] = T_COMPARISON | 22 << 8;
    t.of[FORM_SINGLE]['>'] = T_COMPARISON | 24 << 8;
    const char* augmented = "+-*@/%|^&";
    const u8 operators[9] = {3, 4, 5, 6, 7, 8, 12, 13, 14};
    for (u32 i = 0; i < 9; i++) t.of[FORM_WITH_EQUAL][(u32)augmented[i]] = (u16)(T_AUGMENTED | operators[i] << 8);
    t.of[FORM_WITH_EQUAL]['='] = T_COMPARISON | 20 << 8;
    t.of[FORM_WITH_EQUAL]['!'] = T_COMPARISON | 21 << 8;
    t.of[FORM_WITH_EQUAL]['<'] = T_COMPARISON | 23 << 8;
    t.of[FORM_WITH_EQUAL]['>'] = T_COMPARISON | 25 << 8;
    t.of[FORM_WITH_EQUAL][':'] = T_WALRUS;
    t.of[FORM_PAIR]['*'] = T_DOUBLE_STAR;
    t.of[FORM_PAIR]['-'] = T_ARROW;
    t.of[FORM_PAIR]['/'] = T_MULTIPLICATIVE | 15 << 8;
    t.of[FORM_PAIR]['<'] = T_SHIFT | 10 << 8;
    t.of[FORM_PAIR]['>'] = T_SHIFT | 11 << 8;
    t.of[FORM_LONG]['.'] = T_ELLIPSIS;
    t.of[FORM_LONG]['*'] = T_AUGMENTED | 9 << 8;
    t.of[FORM_LONG]['/'] = T_AUGMENTED | 15 << 8;
    t.of[FORM_LONG]['<'] = T_AUGMENTED | 10 << 8;
    t.of[FORM_LONG]['>'] = T_AUGMENTED | 11 << 8;
    return t;
}

__device__ const Operators OPERATORS = operators();

// Kind and operator of the symbol of `length` bytes at `at`.
__device__ __forceinline__ u32 operator_of(const Bytes& t, u32 at, u32 length) {
    const u32 pair = byte_at(t, at + 1) == '=' ? FORM_WITH_EQUAL : FORM_PAIR;
    const u32 form = length == 1 ? FORM_SINGLE : length == 3 ? FORM_LONG : pair;
    return OPERATORS.of[form][byte_at(t, at) & 127];
}

__device__ __forceinline__ u64 mix(u64 x) {
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ull;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ull;
    return x ^ x >> 32;
}

// The key of a name: its bytes, or a hash of more than eight.
__device__ __forceinline__ u64 name_key(const Bytes& t, u32 at, u32 length, u64 seed) {
    if (length <= 8) return load_8_bytes(t, at) & (~0ull >> (64 - 8 * length));
    u64 key = seed + length;
    for (u32 done = 8; done < length; done += 8) key = mix(key ^ load_8_bytes(t, at + done - 8));
    return mix(key ^ load_8_bytes(t, at + length - 8)) >> 8 | LONG_NAME;
}

// The slot of a name in its source's open-addressing table; NO_SLOT after MAX_PROBES.
__device__ inline u32 name_slot(const LexBatch& b, u32 source, u64 key) {
    const u32 start = b.source_starts[source], size = (b.source_starts[source + 1] - start) / 8 + 32;
    const u32 first = start / 8 + 32 * source;
    u32 at = (u32)((mix(key ^ b.seed) >> 32) * size >> 32);
    for (u32 probe = 0; probe < MAX_PROBES; probe++) {
        u64 seen = b.name_keys[first + at];
        if (seen == 0) seen = atomicCAS(&b.name_keys[first + at], 0ull, key);
        if (seen == 0 || seen == key) return first + at;
        at = at + 1 == size ? 0 : at + 1;
    }
    return NO_SLOT;
}
