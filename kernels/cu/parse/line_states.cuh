// The state transition of a line, without lexing it. Replacement fields are taken for text here; if that is wrong,
// lexing the line detects it.

#pragma once

#include "parse/lex_tile.cuh"

// The end of a string whose body continues at `at`; 0 if it does not end on the line. `escaped`: whether a backslash
// escapes the line's end.
__device__ inline u32 string_end(const Text& t, u32 at, u32 newline, u32 quote, bool triple, bool* escaped) {
    *escaped = false;
    for (;;) {
        at = next_set(t.stop, at);
        if (at >= newline) return 0;
        const u32 c = byte_at(t, at);
        if (c == '\\') {
            if (ends_line(t, at + 1, newline)) {
                *escaped = true;
                return 0;
            }
            at += 2;
        } else if (c == quote && !triple) {
            return at + 1;
        } else if (c == quote && byte_at(t, at + 1) == quote && byte_at(t, at + 2) == quote) {
            return at + 3;
        } else {
            at++;
        }
    }
}

__device__ inline u32 literal_kind_before(const Text& t, u32 quote_at) {
    u32 length = 0;
    while (length < 3 && is_identifier_char(byte_at(t, quote_at - 1 - length))) length++;
    if (length == 0 || length == 3) return LITERAL_PLAIN;
    const Prefix p = prefix_of(byte_at(t, quote_at - length), byte_at(t, quote_at - 1), length);
    if (!p.valid || !p.fields) return LITERAL_PLAIN;
    return p.flags & STRING_RAW ? LITERAL_RAW_FORMATTED : LITERAL_FORMATTED;
}

// The state after a line, from a position in code on.
__device__ inline u32 walk_code(const Text& t, u32 at, u32 newline) {
    for (;;) {
        at = next_set(t.stop, at);
        if (at >= newline) return STATE_CODE;
        const u32 c = byte_at(t, at);
        if (c == '#') return STATE_CODE;
        if (c != '"' && c != '\'') {
            at++;
            continue;
        }
        const bool triple = byte_at(t, at + 1) == c && byte_at(t, at + 2) == c;
        bool escaped;
        const u32 end = string_end(t, at + (triple ? 3 : 1), newline, c, triple, &escaped);
        if (end == 0) return triple || escaped ? state_of(literal_kind_before(t, at), triple, c) : STATE_CODE;
        at = end;
    }
}

// The state after a line that starts in a state of class `of`.
__device__ inline u32 walk_line(const Text& t, u32 at, u32 of) {
    const u32 newline = next_set(t.newline, at);
    if (of == 0) return walk_code(t, at, newline);
    const bool triple = of <= 2;
    bool escaped;
    const u32 end = string_end(t, at, newline, of & 1 ? '\'' : '"', triple, &escaped);
    if (end == 0) return triple || escaped ? STATE_UNCHANGED : STATE_CODE;
    return walk_code(t, end, newline);
}
