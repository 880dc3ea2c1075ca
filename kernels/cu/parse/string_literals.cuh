// Decodes string literals, as the parser's `literals` module does, without its messages. Invalid literals, and those
// with named Unicode characters, fall back to the CPU.

#pragma once

#include "parse/tree.cuh"

// Bits of a string token's payload: `tokens::string`.
#define STRING_RAW 1u
#define STRING_BYTES 2u
#define STRING_UNICODE 4u
#define STRING_TRIPLE 8u
#define STRING_CHANGED 16u
#define STRING_SPEC 32u
#define STRING_PREFIX_SHIFT 8

// The maximum length of an escape, brace pair or newline.
#define MAX_ESCAPE 11u

enum Tag { TAG_INT = 1, TAG_FLOAT = 2, TAG_IMAGINARY = 3, TAG_STR = 4, TAG_UNICODE_STR = 5, TAG_BYTES = 6 };

// SWAR: nonzero if one of the word's four bytes equals `byte`.
__device__ __forceinline__ u32 has_byte(u32 word, u32 byte) {
    const u32 other = word ^ byte * 0x01010101u;
    return (other - 0x01010101u) & ~other & 0x80808080u;
}

// Zeroes the bytes of the word at `at` that are outside of `from..to`.
__device__ __forceinline__ u32 mask_outside(u32 word, u32 at, u32 from, u32 to) {
    if (at < from) word &= at + 4 <= from ? 0 : ~0u << (from - at) * 8;
    if (at + 4 > to) word &= at >= to ? 0 : ~0u >> (at + 4 - to) * 8;
    return word;
}

// Writes decoded bytes, or only counts them.
struct Sink {
    u8* out;  // or null
    u32 count;

    __device__ __forceinline__ void push(u32 byte) {
        if (out) out[count] = (u8)byte;
        count += 1;
    }

    __device__ __forceinline__ void push_word(u32 word) {
        if (out) {
#pragma unroll
            for (u32 i = 0; i < 4; i++) out[count + i] = (u8)(word >> (8 * i));
        }
        count += 4;
    }
};

// A part of a string value: a range of the source's text, and how to decode it.
struct StringPart {
    u32 from, to, tag;
    bool raw, bytes, braces;
    bool decoded;  // its value differs from its text
};

// Decodes a part of a string. Sources start at multiples of 32 bytes.
struct Decoder {
    const u8* text;
    StringPart part;

    __device__ __forceinline__ u32 byte(u32 at) const { return at < part.to ? text[at] : 0x100; }

    // Appends a byte that is no escape, with newlines normalised; returns the position after it.
    __device__ __forceinline__ u32 plain(u32 at, Sink& sink) const {
        const u32 own = text[at];
        if (own != '\r') {
            sink.push(own);
            return at + 1;
        }
        sink.push('\n');
        return byte(at + 1) == '\n' ? at + 2 : at + 1;
    }

    // Appends a code point as UTF-8, surrogates included; or a byte.
    __device__ __forceinline__ void code(u32 code, Sink& sink) const {
        if (part.bytes || code < 0x80) {
            sink.push(code & 0xff);
        } else if (code < 0x800) {
            sink.push(0xc0 | code >> 6);
            sink.push(0x80 | (code & 0x3f));
        } else if (code < 0x10000) {
            sink.push(0xe0 | code >> 12);
            sink.push(0x80 | (code >> 6 & 0x3f));
            sink.push(0x80 | (code & 0x3f));
        } else {
            sink.push(0xf0 | code >> 18);
            sink.push(0x80 | (code >> 12 & 0x3f));
            sink.push(0x80 | (code >> 6 & 0x3f));
            sink.push(0x80 | (code & 0x3f));
        }
    }

    __device__ __forceinline__ bool hexadecimal(u32& at, u32 digits, Sink& sink) const {
        u32 value = 0;
        at += 2;
        for (u32 digit = 0; digit < digits; digit++, at++) {
            const u32 own = byte(at), lower = own | 0x20;
            if (own >= '0' && own <= '9') value = value * 16 + own - '0';
            else if (own < 0x80 && lower >= 'a' && lower <= 'f') value = value * 16 + lower - 'a' + 10;
            else return false;
        }
        if (value > 0x10ffff) return false;
        code(value, sink);
        return true;
    }

    // Decodes the escape at a backslash and moves `at` past it. False for an error or a named character.
    __device__ __forceinline__ bool escape(u32& at, Sink& sink) const {
        const u32 next = byte(at + 1);
        u32 simple = next;
        switch (next) {
            case '\n': at += 2; return true;
            case '\r': at += byte(at + 2) == '\n' ? 3 : 2; return true;
            case '\\': case '\'': case '"': break;
            case 'n': simple = '\n'; break;
            case 't': simple = '\t'; break;
            case 'r': simple = '\r'; break;
            case 'a': simple = 7; break;
            case 'b': simple = 8; break;
            case 'f': simple = 12; break;
            case 'v': simple = 11; break;
            case 'x': return hexadecimal(at, 2, sink);
            case 'u': if (!part.bytes) return hexadecimal(at, 4, sink);
                break;
            case 'U': if (!part.bytes) return hexadecimal(at, 8, sink);
                break;
            case 'N': if (!part.bytes) return false;
                break;
            default: break;
        }
        if (next >= '0' && next <= '7') {
            u32 value = 0, digits = 0;
            for (at += 1; digits < 3 && byte(at) >= '0' && byte(at) <= '7'; digits++) value = value * 8 + byte(at++) - '0';
            code(value, sink);
            return true;
        }
        const bool known = simple != next || next == '\\' || next == '\'' || next == '"';
        sink.push(known ? simple : '\\');
        at += known ? 2 : 1;
        return true;
    }

    // Whether four bytes need no decoding.
    __device__ __forceinline__ bool is_verbatim(u32 word) const {
        return !(has_byte(word, '\r') || (!part.raw && has_byte(word, '\\')) ||
            (part.braces && (has_byte(word, '{') || has_byte(word, '}'))));
    }

    // Appends bytes that need no decoding, 16 or 4 at once; returns the first position that may need it.
    __device__ __forceinline__ u32 copy_verbatim(u32 at, u32 end, Sink& sink) const {
        while (at + 4 <= end) {
            if ((at & 15) == 0 && at + 16 <= end) {
                const uint4 words = *(const uint4*)(text + at);
                if (is_verbatim(words.x) && is_verbatim(words.y) && is_verbatim(words.z) && is_verbatim(words.w)) {
                    sink.push_word(words.x);
                    sink.push_word(words.y);
                    sink.push_word(words.z);
                    sink.push_word(words.w);
                    at += 16;
                    continue;
                }
            }
            const u32 word = *(const u32*)(text + at);
            if (!is_verbatim(word)) break;
            sink.push_word(word);
            at += 4;
        }
        return at;
    }

    // Appends the decoded bytes of `at..end`.
    __device__ __forceinline__ bool decode(u32 at, u32 end, Sink& sink) const {
        while (at < end) {
            if ((at & 3) == 0) at = copy_verbatim(at, end, sink);
            if (at >= end) break;
            const u32 own = text[at];
            if (own == '\\' && !part.raw) {
                if (!escape(at, sink)) return false;
            } else if (part.braces && (own == '{' || own == '}')) {
                sink.push(own);
                at += 2;
            } else {
                at = plain(at, sink);
            }
        }
        return true;
    }

    // The first position in `at..end` that cannot be inside of an escape or pair, because MAX_ESCAPE verbatim bytes
    // precede it; `end` if there is none.
    __device__ u32 boundary(u32 at, u32 end) const {
        u32 verbatim = 0;
        for (u32 look = at > part.from + MAX_ESCAPE ? at - MAX_ESCAPE : part.from; look < end; look++) {
            if (verbatim >= MAX_ESCAPE && look >= at) return look;
            const u32 own = text[look];
            verbatim = own == '\\' || own == '{' || own == '}' || own == '\r' ? 0 : verbatim + 1;
        }
        return end;
    }
};

// The result for an invalid escape.
#define DECODE_ERROR NONE

// Decodes a range of a string part, or only counts if `out` is null; returns the number of decoded bytes. Passed by
// value, to keep everything in registers.
__device__ __noinline__ u32 decode_part(const u8* text, u32 to, u32 options, u32 at, u32 end, u8* out) {
    const Decoder decoder = {text, {0, to, 0, (options & 1) != 0, (options & 2) != 0, (options & 4) != 0, true}};
    Sink sink = {out, 0};
    return decoder.decode(at, end, sink) ? sink.count : DECODE_ERROR;
}

__device__ __forceinline__ u32 decode_part(const Decoder& decoder, u32 at, u32 end, u8* out) {
    const StringPart& part = decoder.part;
    return decode_part(decoder.text, part.to, (part.raw ? 1 : 0) | (part.bytes ? 2 : 0) | (part.braces ? 4 : 0), at, end, out);
}

// One thread, or a warp with uniform lanes that share loops over bytes.
template <bool WARP>
struct Team {
    __device__ __forceinline__ u32 lane() const { return WARP ? threadIdx.x & 31 : 0; }
    __device__ __forceinline__ u32 size() const { return WARP ? 32 : 1; }
    __device__ __forceinline__ bool any(bool mine) const { return WARP ? __ballot_sync(FULL_WARP, mine) != 0 : mine; }

    // Exclusive sum over the lanes, and the total.
    __device__ u32 before(u32 mine, u32& total) const {
        u32 sum = mine;
#pragma unroll
        for (int step = 1; step < 32; step *= 2) {
            const u32 other = __shfl_up_sync(FULL_WARP, sum, step);
            if (lane() >= step) sum += other;
        }
        total = __shfl_sync(FULL_WARP, sum, 31);
        return sum - mine;
    }

    // Whether a word of the range passes `test`, which zeros do not.
    template <class Test>
    __device__ __forceinline__ bool any_word(const u8* text, u32 from, u32 to, Test test) const {
        bool found = false;
        for (u32 at = (from & ~15u) + 16 * lane(); at < to && !found; at += 16 * size()) {
            const uint4 words = *(const uint4*)(text + at);
            found = test(mask_outside(words.x, at, from, to)) || test(mask_outside(words.y, at + 4, from, to)) ||
                test(mask_outside(words.z, at + 8, from, to)) || test(mask_outside(words.w, at + 12, from, to));
        }
        return any(found);
    }

    __device__ bool contains(const u8* text, u32 from, u32 to, u32 one, u32 other) const {
        return any_word(text, from, to, [=](u32 word) { return (has_byte(word, one) | has_byte(word, other)) != 0; });
    }

    __device__ bool is_ascii(const u8* text, u32 from, u32 to) const {
        return !any_word(text, from, to, [](u32 word) { return (word & 0x80808080u) != 0; });
    }

    __device__ void copy(const u8* text, u32 from, u32 to, Sink& sink) const {
        if (sink.out) {
            for (u32 at = from + lane(); at < to; at += size()) sink.out[sink.count + at - from] = text[at];
        }
        sink.count += to - from;
    }

    // Appends the decoded part. Each lane decodes a range of it: once to count, and again once its offset is known.
    __device__ __noinline__ bool decode(const Decoder& decoder, Sink& sink) const {
        const u32 from = decoder.part.from, to = decoder.part.to;
        if (!WARP) {
            const u32 own = decode_part(decoder, from, to, sink.out ? sink.out + sink.count : nullptr);
            sink.count += own == DECODE_ERROR ? 0 : own;
            return own != DECODE_ERROR;
        }
        const u32 each = (to - from + 31) / 32, first = min(from + lane() * each, to), limit = min(first + each, to);
        const u32 start = lane() == 0 ? from : decoder.boundary(first, limit);
        const bool starts = lane() == 0 || start < limit;
        const u32 later = __ballot_sync(FULL_WARP, starts) & ~((2u << lane()) - 1);
        const u32 next = __shfl_sync(FULL_WARP, start, later ? __ffs(later) - 1 : 0);
        const u32 end = starts ? (later ? next : to) : start;
        const u32 own = starts ? decode_part(decoder, start, end, nullptr) : 0;
        if (any(own == DECODE_ERROR)) return false;
        u32 total = 0;
        const u32 place = before(own, total);
        if (sink.out && starts) decode_part(decoder, start, end, sink.out + sink.count + place);
        sink.count += total;
        return true;
    }
};
