// What strings stand for: the parser's `values` module, without its messages. What is in error, or needs the names of
// Unicode's characters, makes the CPU parse the source.

#pragma once

#include "parse_tree.cuh"

// Bits of a string token's payload: `tokens::string`.
#define STRING_RAW 1u
#define STRING_BYTES 2u
#define STRING_UNICODE 4u
#define STRING_TRIPLE 8u
#define STRING_CHANGED 16u
#define STRING_SPEC 32u
#define STRING_PREFIX_SHIFT 8

// Nothing that stands for something else is longer.
#define CALM 11u

enum Tag { TAG_INT = 1, TAG_FLOAT = 2, TAG_IMAGINARY = 3, TAG_STR = 4, TAG_UNICODE_STR = 5, TAG_BYTES = 6 };

// Whether a word of text has a byte.
__device__ __forceinline__ u32 has(u32 word, u32 byte) {
    const u32 other = word ^ byte * 0x01010101u;
    return (other - 0x01010101u) & ~other & 0x80808080u;
}

// Four bytes from a place on; what lies outside of a range is zero.
__device__ __forceinline__ u32 within(u32 word, u32 at, u32 from, u32 to) {
    if (at < from) word &= at + 4 <= from ? 0 : ~0u << (from - at) * 8;
    if (at + 4 > to) word &= at >= to ? 0 : ~0u >> (at + 4 - to) * 8;
    return word;
}

// Takes decoded bytes, or only counts them.
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

// Part of a value: bytes of a source's text, and how to read them.
struct Piece {
    u32 from, to, tag;
    bool raw, bytes, braces;
    bool decoded;  // it means something else than is written
};

// Sources start where addresses are multiples of 32.
struct Decoder {
    const u8* text;
    Piece piece;

    __device__ __forceinline__ u32 byte(u32 at) const { return at < piece.to ? text[at] : 0x100; }

    // A byte that is no escape; both kinds of newline become one. Gives the byte behind it.
    __device__ __forceinline__ u32 plain(u32 at, Sink& sink) const {
        const u32 own = text[at];
        if (own != '\r') {
            sink.push(own);
            return at + 1;
        }
        sink.push('\n');
        return byte(at + 1) == '\n' ? at + 2 : at + 1;
    }

    // A code point in UTF-8, a surrogate as if it were one; or a byte.
    __device__ __forceinline__ void code(u32 code, Sink& sink) const {
        if (piece.bytes || code < 0x80) {
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

    // The escape at a backslash; `at` goes behind it. False for an error, or a name.
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
            case 'u': if (!piece.bytes) return hexadecimal(at, 4, sink);
                break;
            case 'U': if (!piece.bytes) return hexadecimal(at, 8, sink);
                break;
            case 'N': if (!piece.bytes) return false;
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

    // Whether four bytes stand for themselves.
    __device__ __forceinline__ bool is_calm(u32 word) const {
        return !(has(word, '\r') || (!piece.raw && has(word, '\\')) || (piece.braces && (has(word, '{') || has(word, '}'))));
    }

    // Appends bytes that stand for themselves, 16 or 4 at once; says where others may come.
    __device__ __forceinline__ u32 pass_calm(u32 at, u32 end, Sink& sink) const {
        while (at + 4 <= end) {
            if ((at & 15) == 0 && at + 16 <= end) {
                const uint4 words = *(const uint4*)(text + at);
                if (is_calm(words.x) && is_calm(words.y) && is_calm(words.z) && is_calm(words.w)) {
                    sink.push_word(words.x);
                    sink.push_word(words.y);
                    sink.push_word(words.z);
                    sink.push_word(words.w);
                    at += 16;
                    continue;
                }
            }
            const u32 word = *(const u32*)(text + at);
            if (!is_calm(word)) break;
            sink.push_word(word);
            at += 4;
        }
        return at;
    }

    // Appends what the bytes from `at` up to `end` stand for.
    __device__ __forceinline__ bool decode(u32 at, u32 end, Sink& sink) const {
        while (at < end) {
            if ((at & 3) == 0) at = pass_calm(at, end, sink);
            if (at >= end) break;
            const u32 own = text[at];
            if (own == '\\' && !piece.raw) {
                if (!escape(at, sink)) return false;
            } else if (piece.braces && (own == '{' || own == '}')) {
                sink.push(own);
                at += 2;
            } else {
                at = plain(at, sink);
            }
        }
        return true;
    }

    // The first place from `at` up to `end` that surely is not inside of an escape or pair: behind so many calm bytes that
    // nothing reaches over them. `end` if there is none.
    __device__ u32 boundary(u32 at, u32 end) const {
        u32 calm = 0;
        for (u32 look = at > piece.from + CALM ? at - CALM : piece.from; look < end; look++) {
            if (calm >= CALM && look >= at) return look;
            const u32 own = text[look];
            calm = own == '\\' || own == '{' || own == '}' || own == '\r' ? 0 : calm + 1;
        }
        return end;
    }
};

// What `decode` cannot decode.
#define NOT_DECODED NONE

// Decodes part of a piece, or only counts if `out` is null; gives how many bytes come out of it. By value, so that all of
// it stays in registers.
__device__ __noinline__ u32 decode_part(const u8* text, u32 to, u32 how, u32 at, u32 end, u8* out) {
    const Decoder decoder = {text, {0, to, 0, (how & 1) != 0, (how & 2) != 0, (how & 4) != 0, true}};
    Sink sink = {out, 0};
    return decoder.decode(at, end, sink) ? sink.count : NOT_DECODED;
}

__device__ __forceinline__ u32 decode_part(const Decoder& decoder, u32 at, u32 end, u8* out) {
    const Piece& piece = decoder.piece;
    return decode_part(decoder.text, piece.to, (piece.raw ? 1 : 0) | (piece.bytes ? 2 : 0) | (piece.braces ? 4 : 0), at, end, out);
}

// One thread, or a warp whose lanes all do the same, and share what goes by bytes.
template <bool WARP>
struct Team {
    __device__ __forceinline__ u32 lane() const { return WARP ? threadIdx.x & 31 : 0; }
    __device__ __forceinline__ u32 size() const { return WARP ? 32 : 1; }
    __device__ __forceinline__ bool any(bool mine) const { return WARP ? __ballot_sync(FULL_WARP, mine) != 0 : mine; }

    // The sum over the lanes before, and over all.
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

    // Whether one of the words of a range passes a test, which zeros do not.
    template <class Test>
    __device__ __forceinline__ bool some(const u8* text, u32 from, u32 to, Test test) const {
        bool found = false;
        for (u32 at = (from & ~15u) + 16 * lane(); at < to && !found; at += 16 * size()) {
            const uint4 words = *(const uint4*)(text + at);
            found = test(within(words.x, at, from, to)) || test(within(words.y, at + 4, from, to)) ||
                test(within(words.z, at + 8, from, to)) || test(within(words.w, at + 12, from, to));
        }
        return any(found);
    }

    __device__ bool contains(const u8* text, u32 from, u32 to, u32 one, u32 other) const {
        return some(text, from, to, [=](u32 word) { return (has(word, one) | has(word, other)) != 0; });
    }

    __device__ bool is_ascii(const u8* text, u32 from, u32 to) const {
        return !some(text, from, to, [](u32 word) { return (word & 0x80808080u) != 0; });
    }

    __device__ void copy(const u8* text, u32 from, u32 to, Sink& sink) const {
        if (sink.out) {
            for (u32 at = from + lane(); at < to; at += size()) sink.out[sink.count + at - from] = text[at];
        }
        sink.count += to - from;
    }

    // Appends what a piece stands for. Each lane decodes a part of it: once to count, and again once it knows where to.
    __device__ __noinline__ bool decode(const Decoder& decoder, Sink& sink) const {
        const u32 from = decoder.piece.from, to = decoder.piece.to;
        if (!WARP) {
            const u32 own = decode_part(decoder, from, to, sink.out ? sink.out + sink.count : nullptr);
            sink.count += own == NOT_DECODED ? 0 : own;
            return own != NOT_DECODED;
        }
        const u32 each = (to - from + 31) / 32, first = min(from + lane() * each, to), behind = min(first + each, to);
        const u32 start = lane() == 0 ? from : decoder.boundary(first, behind);
        const bool starts = lane() == 0 || start < behind;
        const u32 later = __ballot_sync(FULL_WARP, starts) & ~((2u << lane()) - 1);
        const u32 next = __shfl_sync(FULL_WARP, start, later ? __ffs(later) - 1 : 0);
        const u32 end = starts ? (later ? next : to) : start;
        const u32 own = starts ? decode_part(decoder, start, end, nullptr) : 0;
        if (any(own == NOT_DECODED)) return false;
        u32 total = 0;
        const u32 place = before(own, total);
        if (sink.out && starts) decode_part(decoder, start, end, sink.out + sink.count + place);
        sink.count += total;
        return true;
    }
};
