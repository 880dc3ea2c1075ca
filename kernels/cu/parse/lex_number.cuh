// Finds the end of numbers and rejects what must not directly follow them.

#pragma once

#include "parse/lex_tile.cuh"

#define INVALID_NUMBER 0xffffffffu

__device__ __forceinline__ bool is_digit_of(u32 c, u32 base) {
    if (base == 16) return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
    return c - '0' < base;
}

// The end of at least one digit, with single underscores between digits.
__device__ inline u32 digits_end(const Bytes& t, u32 at) {
    for (;;) {
        while (is_digit(byte_at(t, at))) at++;
        if (byte_at(t, at) != '_') return at;
        at++;
        if (!is_digit(byte_at(t, at))) return INVALID_NUMBER;
    }
}

__device__ inline bool matches(const Bytes& t, u32 at, const char* word, bool whole) {
    for (; *word; word++, at++)
        if (byte_at(t, at) != (u32)*word) return false;
    const u32 next = byte_at(t, at);
    return !whole || !(is_identifier_char(next) || next >= 128);
}

// Rejects a number directly followed by a name, except for the keywords that CPython accepts.
__device__ inline u32 end_before_keyword(const Bytes& t, u32 at) {
    if (!is_identifier_char(byte_at(t, at))) return at;
    const bool keyword = matches(t, at, "if", false) || matches(t, at, "in", false) || matches(t, at, "is", false) ||
        matches(t, at, "and", true) || matches(t, at, "else", true) || matches(t, at, "for", true) ||
        matches(t, at, "or", true) || matches(t, at, "not", true);
    return keyword ? at : INVALID_NUMBER;
}

__device__ inline u32 based_end(const Bytes& t, u32 at, u32 base) {
    do {
        if (byte_at(t, at) == '_') at++;
        if (!is_digit_of(byte_at(t, at), base)) return INVALID_NUMBER;
        while (is_digit_of(byte_at(t, at), base)) at++;
    } while (byte_at(t, at) == '_');
    if (is_digit(byte_at(t, at))) return INVALID_NUMBER;
    return end_before_keyword(t, at);
}

__device__ inline u32 exponent_end(const Bytes& t, u32 at) {
    if ((byte_at(t, at) | 0x20) == 'e') {
        const u32 sign = byte_at(t, at + 1) == '+' || byte_at(t, at + 1) == '-';
        const u32 first = at + 1 + sign;
        if (is_digit(byte_at(t, first))) {
            at = digits_end(t, first);
            if (at == INVALID_NUMBER) return INVALID_NUMBER;
        } else {
            // Not an exponent: the `e` may start a keyword.
            return sign ? INVALID_NUMBER : end_before_keyword(t, at);
        }
    }
    return end_before_keyword(t, at + ((byte_at(t, at) | 0x20) == 'j'));
}

__device__ inline u32 fraction_end(const Bytes& t, u32 at) {
    if (byte_at(t, at) == '.') {
        at++;
        if (is_digit(byte_at(t, at))) at = digits_end(t, at);
        if (at == INVALID_NUMBER) return INVALID_NUMBER;
    }
    return exponent_end(t, at);
}

// A decimal number with a leading zero: nonzero digits may follow only if it is not an integer.
__device__ inline u32 leading_zero_end(const Bytes& t, u32 at) {
    at++;
    for (;;) {
        if (byte_at(t, at) == '_') {
            at++;
            if (!is_digit(byte_at(t, at))) return INVALID_NUMBER;
        }
        if (byte_at(t, at) != '0') break;
        at++;
    }
    const bool nonzero = is_digit(byte_at(t, at));
    if (nonzero) at = digits_end(t, at);
    if (at == INVALID_NUMBER) return INVALID_NUMBER;
    const u32 c = byte_at(t, at);
    if (c == '.') return fraction_end(t, at);
    if ((c | 0x20) == 'e' || (c | 0x20) == 'j') return exponent_end(t, at);
    return nonzero ? INVALID_NUMBER : end_before_keyword(t, at);
}

__device__ __noinline__ u32 number_end_slow(const Bytes& t, u32 at) {
    const u32 c = byte_at(t, at);
    if (c == '0') {
        const u32 base = byte_at(t, at + 1) | 0x20;
        if (base == 'x') return based_end(t, at + 2, 16);
        if (base == 'o') return based_end(t, at + 2, 8);
        if (base == 'b') return based_end(t, at + 2, 2);
        return leading_zero_end(t, at);
    }
    if (c != '.') at = digits_end(t, at);
    return at == INVALID_NUMBER ? at : fraction_end(t, at);
}

// The end of a number that starts with a digit, or with a dot and a digit; INVALID_NUMBER if it is none.
__device__ __forceinline__ u32 number_end(const Bytes& t, u32 at) {
    // Fast path: digits, without a dot or letter after them.
    u32 end = at;
    if (byte_at(t, at) == '0') end++;
    else
        while (is_digit(byte_at(t, end))) end++;
    const u32 next = byte_at(t, end);
    return end > at && next != '.' && !is_identifier_char(next) ? end : number_end_slow(t, at);
}
