// Where numbers end, and what must not stand right behind them.

#pragma once

#include "parse_lex_tile.cuh"

#define NO_NUMBER 0xffffffffu

__device__ __forceinline__ bool is_digit_of(u32 c, u32 base) {
    if (base == 16) return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
    return c - '0' < base;
}

// Behind digits, of which there is at least one, and the single underscores between them.
__device__ inline u32 behind_digits(const Bytes& t, u32 at) {
    for (;;) {
        while (is_digit(byte_at(t, at))) at++;
        if (byte_at(t, at) != '_') return at;
        at++;
        if (!is_digit(byte_at(t, at))) return NO_NUMBER;
    }
}

__device__ inline bool reads(const Bytes& t, u32 at, const char* word, bool whole) {
    for (; *word; word++, at++)
        if (byte_at(t, at) != (u32)*word) return false;
    const u32 next = byte_at(t, at);
    return !whole || !(is_part(next) || next >= 128);
}

// Refuses a number with a name right behind it, but for the keywords that CPython still lets pass.
__device__ inline u32 checked_end(const Bytes& t, u32 at) {
    if (!is_part(byte_at(t, at))) return at;
    const bool keyword = reads(t, at, "if", false) || reads(t, at, "in", false) || reads(t, at, "is", false) ||
        reads(t, at, "and", true) || reads(t, at, "else", true) || reads(t, at, "for", true) ||
        reads(t, at, "or", true) || reads(t, at, "not", true);
    return keyword ? at : NO_NUMBER;
}

__device__ inline u32 behind_based(const Bytes& t, u32 at, u32 base) {
    do {
        if (byte_at(t, at) == '_') at++;
        if (!is_digit_of(byte_at(t, at), base)) return NO_NUMBER;
        while (is_digit_of(byte_at(t, at), base)) at++;
    } while (byte_at(t, at) == '_');
    if (is_digit(byte_at(t, at))) return NO_NUMBER;
    return checked_end(t, at);
}

__device__ inline u32 behind_exponent(const Bytes& t, u32 at) {
    if ((byte_at(t, at) | 0x20) == 'e') {
        const u32 sign = byte_at(t, at + 1) == '+' || byte_at(t, at + 1) == '-';
        const u32 first = at + 1 + sign;
        if (is_digit(byte_at(t, first))) {
            at = behind_digits(t, first);
            if (at == NO_NUMBER) return NO_NUMBER;
        } else {
            // No exponent, then: the `e` may begin a keyword.
            return sign ? NO_NUMBER : checked_end(t, at);
        }
    }
    return checked_end(t, at + ((byte_at(t, at) | 0x20) == 'j'));
}

__device__ inline u32 behind_fraction(const Bytes& t, u32 at) {
    if (byte_at(t, at) == '.') {
        at++;
        if (is_digit(byte_at(t, at))) at = behind_digits(t, at);
        if (at == NO_NUMBER) return NO_NUMBER;
    }
    return behind_exponent(t, at);
}

// A decimal number that starts with a zero: other digits may follow only if it turns out not to be an integer.
__device__ inline u32 behind_zero(const Bytes& t, u32 at) {
    at++;
    for (;;) {
        if (byte_at(t, at) == '_') {
            at++;
            if (!is_digit(byte_at(t, at))) return NO_NUMBER;
        }
        if (byte_at(t, at) != '0') break;
        at++;
    }
    const bool nonzero = is_digit(byte_at(t, at));
    if (nonzero) at = behind_digits(t, at);
    if (at == NO_NUMBER) return NO_NUMBER;
    const u32 c = byte_at(t, at);
    if (c == '.') return behind_fraction(t, at);
    if ((c | 0x20) == 'e' || (c | 0x20) == 'j') return behind_exponent(t, at);
    return nonzero ? NO_NUMBER : checked_end(t, at);
}

__device__ __noinline__ u32 behind_any_number(const Bytes& t, u32 at) {
    const u32 c = byte_at(t, at);
    if (c == '0') {
        const u32 base = byte_at(t, at + 1) | 0x20;
        if (base == 'x') return behind_based(t, at + 2, 16);
        if (base == 'o') return behind_based(t, at + 2, 8);
        if (base == 'b') return behind_based(t, at + 2, 2);
        return behind_zero(t, at);
    }
    if (c != '.') at = behind_digits(t, at);
    return at == NO_NUMBER ? at : behind_fraction(t, at);
}

// Behind a number that starts with a digit, or with a dot and a digit; NO_NUMBER if it is none.
__device__ __forceinline__ u32 behind_number(const Bytes& t, u32 at) {
    // Most numbers are one or two digits and nothing behind them that could belong to them.
    u32 end = at;
    if (byte_at(t, at) == '0') end++;
    else
        while (is_digit(byte_at(t, end))) end++;
    const u32 next = byte_at(t, end);
    return end > at && next != '.' && !is_part(next) ? end : behind_any_number(t, at);
}
