// The values of constants, in row order: slices of the source, or of `extra` where the value differs from its text. The
// first pass finds sizes, the second appends to `extra`.

#include "parse/scan.cuh"
#include "parse/string_literals.cuh"

// CPython rejects decimal integers with more digits (sys.int_info.default_max_str_digits); the CPU reports it.
#define MAX_DIGITS 4300
// A longer string with escapes would occupy a warp for too long.
#define MAX_DECODED (1u << 18)
// A longer string is read by a warp.
#define SHORT_TEXT 192u
// From this number of adjacent strings on, each lane reads one.
#define MIN_CONCATENATED 4u

__device__ __forceinline__ u32 literal_count(const TreeBatch& batch, u32 cap) {
    return min(batch.bases[lines_of(batch)].y, cap);
}

// Reads one string value from its tokens.
template <bool WARP>
struct Reader {
    const TreeBatch& batch;
    const Literals& literals;
    u32 source, token_base, token_end;
    const u8* text;
    u32 at, end, first; // current token, end of the text, first token
    bool joined;        // it is text of an f-string: other tokens are between the parts
    bool failed;
    u32 start, stop;    // range of the parts
    Team<WARP> team;
    bool in_spec;       // it is text of a format specification

    __device__ __noinline__ bool string(u32 token, StringPart& part) const {
        const u32 payload = batch.payloads[token], quotes = payload & STRING_TRIPLE ? 3 : 1;
        part.from = batch.starts[token] + (payload >> STRING_PREFIX_SHIFT) + quotes;
        part.to = batch.ends[token] - quotes;
        part.raw = payload & STRING_RAW;
        part.bytes = payload & STRING_BYTES;
        part.braces = false;
        part.tag = part.bytes ? TAG_BYTES : payload & STRING_UNICODE ? TAG_UNICODE_STR : TAG_STR;
        const u32 other = part.raw ? '\r' : '\\';
        part.decoded = payload & STRING_CHANGED && team.contains(text, part.from, part.to, '\r', other);
        return !part.bytes || team.is_ascii(text, part.from, part.to);
    }

    __device__ bool plain(u32 from, u32 to, StringPart& part) {
        part = {from, to, TAG_STR, false, false, false, false};
        // These fall back to the CPU.
        return !team.contains(text, from, to, '#', '\r') && !team.contains(text, from, to, '!', '\\');
    }

    // Text with nothing but escaped newlines after a doubled brace: CPython ends it at the brace.
    __device__ bool ends_early(u32 from, u32 to) const {
        u32 end = to;
        while (end >= from + 2 && (text[end - 1] == '\n' || text[end - 1] == '\r')) {
            const u32 newline = end >= from + 3 && text[end - 1] == '\n' && text[end - 2] == '\r' ? 2 : 1;
            if (text[end - newline - 1] != '\\') break;
            end -= newline + 1;
        }
        return end != to && end >= from + 2 && text[end - 1] == text[end - 2] && (text[end - 1] == '{' || text[end - 1] == '}');
    }

    __device__ bool middle(u32 token, StringPart& part) {
        const u32 payload = batch.payloads[token];
        part = {batch.starts[token], batch.ends[token], TAG_STR, (payload & STRING_RAW) != 0, false,
            !(payload & STRING_SPEC), (payload & STRING_CHANGED) != 0};
        // 3.12 and 3.13 decode escapes in a raw string's format specification: falls back.
        const u32 minor = batch.versions[source];
        const bool escapes = in_spec && part.raw && (minor == 12 || minor == 13);
        if (escapes && team.contains(text, part.from, part.to, '\\', '\\')) return false;
        return !part.decoded || part.raw || !part.braces || !ends_early(part.from, part.to);
    }

    // Sets the next part; false at the end.
    __device__ bool next(StringPart& part) {
        while (at < token_end && batch.ends[at] <= end) {
            const u32 kind = batch.kinds[at], from = batch.starts[at], to = batch.ends[at];
            bool valid = true;
            u32 next = to, begin = from;
            if (kind == TOKEN_STRING) {
                valid = string(at++, part) && !(joined && part.bytes);
            } else if (!joined) {
                return false;
            } else if (kind == TOKEN_F_STRING_START || kind == TOKEN_T_STRING_START || kind == TOKEN_F_STRING_END) {
                at++;
                continue;
            } else if (kind == TOKEN_F_STRING_MIDDLE) {
                valid = middle(at++, part);
            } else if (kind == TOKEN_DEBUG_OPEN) {
                next = batch.starts[token_base + batch.payloads[at]];
                begin = to;
                // After another field, CPython's text differs from this field's expression: falls back.
                const bool after_field = in_spec && at > token_base && batch.kinds[at - 1] == TOKEN_FIELD_CLOSE;
                valid = !after_field && plain(to, next, part);
                at = token_end;
            } else {
                return false;
            }
            if (!valid) failed = true;
            if (start == NONE) start = begin;
            stop = next;
            return valid;
        }
        return false;
    }

    __device__ void rewind() { at = first; }

    // The number of adjacent string tokens.
    __device__ u32 adjacent_strings() const {
        for (u32 count = 0;; count += 32) {
            const u32 token = at + count + team.lane();
            const bool more = token < token_end && batch.kinds[token] == TOKEN_STRING && batch.ends[token] <= end;
            const u32 all = __ballot_sync(FULL_WARP, more);
            if (all != FULL_WARP) return count + __ffs(~all) - 1;
        }
    }

    // As `read`, for many adjacent strings: one per lane.
    __device__ uint2 read_concatenated(u32 count, Sink& sink, u32 base, u32& tag, bool& decodes) {
        const Reader<false> alone = {batch, literals, source, token_base, token_end, text};
        u32 parts = 0, written = 0, bytes = 0, decoded = 0, all = 0;
        uint2 place = make_uint2(base, base), whole = place;
        for (u32 group = 0; group < count; group += 32) {
            StringPart part;
            u32 length = 0;
            bool valid = true;
            const bool mine = group + team.lane() < count;
            if (mine) valid = alone.string(first + group + team.lane(), part) && alone.length_of(part, length);
            const bool own = mine && part.decoded;
            failed |= team.any(!valid);
            bytes += __popc(__ballot_sync(FULL_WARP, mine && part.bytes));
            const u32 filled = __ballot_sync(FULL_WARP, length > 0);
            written += __popc(__ballot_sync(FULL_WARP, own && length > 0));
            decodes |= team.any(own);
            if (group == 0) {
                tag = __shfl_sync(FULL_WARP, part.tag, 0);
                whole = part_at(part, own, base, 0);
            }
            if (filled && parts == 0) place = part_at(part, own, base, __ffs(filled) - 1);
            parts += __popc(filled);
            decoded += warp_sum(own ? length : 0);
            all += warp_sum(length);
        }
        if (bytes != 0 && bytes != count) failed = true;
        const bool mixed = parts > 1 && parts != written;
        if (failed) return whole;
        if (sink.out) write_concatenated(alone, count, sink.out + sink.count, mixed ? sink.out + sink.count + decoded : nullptr);
        const u32 before = base + sink.count;
        sink.count += decoded + (mixed ? all : 0);
        if (mixed) {
            decodes = true;
            return make_uint2(before + decoded, before + decoded + all);
        }
        if (parts == 0) return whole;
        return written ? make_uint2(before, before + decoded) : place;
    }

    // The range of a lane's part: in the source, or at `base` if it is decoded.
    __device__ uint2 part_at(const StringPart& part, bool decoded, u32 base, u32 lane) const {
        const u32 from = decoded ? base : part.from, to = decoded ? base : part.to;
        return make_uint2(__shfl_sync(FULL_WARP, from, lane), __shfl_sync(FULL_WARP, to, lane));
    }

    // Writes decoded parts to `out`, and all parts to `joined` unless that is null.
    __device__ void write_concatenated(const Reader<false>& alone, u32 count, u8* out, u8* joined) {
        for (u32 group = 0; group < count; group += 32) {
            StringPart part;
            u32 length = 0;
            const bool mine = group + team.lane() < count;
            if (mine) {
                alone.string(first + group + team.lane(), part);
                alone.length_of(part, length);
            }
            const bool own = mine && part.decoded;
            u32 decoded = 0, all = 0;
            const u32 before = team.before(own ? length : 0, decoded), place = team.before(length, all);
            if (mine) {
                if (own) alone.write(part, out + before);
                if (joined) alone.write(part, joined + place);
            }
            out += decoded;
            if (joined) joined += all;
        }
    }

    __device__ bool length_of(const StringPart& part, u32& length) const {
        length = part.to - part.from;
        if (!part.decoded) return true;
        Sink sink = {nullptr, 0};
        const bool valid = length <= MAX_DECODED && team.decode(Decoder{text, part}, sink);
        length = sink.count;
        return valid;
    }

    __device__ void write(const StringPart& part, u8* out) const {
        Sink sink = {out, 0};
        if (part.decoded) team.decode(Decoder{text, part}, sink);
        else team.copy(text, part.from, part.to, sink);
    }

    // Appends the value to the sink unless it is a slice of the source; returns its range. `base`: the offset of the
    // sink's start. `decodes`: whether anything was appended.
    __device__ uint2 read(Sink& sink, u32 base, u32& tag, bool& decodes) {
        StringPart part;
        u32 parts = 0, written = 0, bytes = NONE;
        uint2 place = make_uint2(NONE, NONE), whole = place;
        decodes = false;
        if (WARP && !joined) {
            const u32 count = adjacent_strings();
            if (count >= MIN_CONCATENATED) return read_concatenated(count, sink, base, tag, decodes);
        }
        while (next(part)) {
            const u32 before = sink.count;
            if (part.decoded) {
                decodes = true;
                const Decoder decoder{text, part};
                if (part.to - part.from > MAX_DECODED || !team.decode(decoder, sink)) failed = true;
            }
            const uint2 own = part.decoded ? make_uint2(base + before, base + sink.count) : make_uint2(part.from, part.to);
            if (bytes == NONE) {
                bytes = part.bytes;
                tag = part.tag;
                whole = own;
            }
            if (bytes != (u32)part.bytes) failed = true;
            if (own.x == own.y) {
                // An empty decoded part of an f-string falls back.
                if (joined && part.decoded) failed = true;
                continue;
            }
            if (parts == 0) place = own;
            parts += 1;
            written += part.decoded;
            if (part.decoded) place.y = own.y;
        }
        if (failed || parts == 0) return whole;
        if (parts == 1 || parts == written) return place;
        const u32 before = sink.count;
        decodes = true;
        for (rewind(); next(part);) {
            if (part.decoded) team.decode(Decoder{text, part}, sink);
            else team.copy(text, part.from, part.to, sink);
        }
        return make_uint2(base + before, base + sink.count);
    }
};

__device__ __forceinline__ bool is_space(u32 byte) { return byte == ' ' || (byte >= 9 && byte <= 13); }

struct NumberLiteral {
    u32 tag;
    bool valid;
};

__device__ NumberLiteral classify_number(const u8* text, u32 start, u32 end) {
    const u32 letter = end - start > 1 ? text[start + 1] | 0x20 : 0;
    const bool based = letter == 'x' || letter == 'o' || letter == 'b';
    if ((text[end - 1] | 0x20) == 'j') return {TAG_IMAGINARY, true};
    if (based) return {TAG_INT, true};
    for (u32 at = start; at < end; at++) {
        if (text[at] == '.' || (text[at] | 0x20) == 'e') return {TAG_FLOAT, true};
    }
    return {TAG_INT, end - start <= MAX_DIGITS};
}

// The reader of a string value.
template <bool WARP>
__device__ Reader<WARP> reader_of(const TreeBatch& batch, const Literals& literals, u32 value) {
    const u32 source = literals.sources[value], token = literals.tokens[value], row = literals.rows[value];
    Reader<WARP> reader{batch, literals, source};
    reader.token_base = batch.token_bases[source];
    reader.token_end = batch.token_bases[source + 1];
    reader.text = batch.text + batch.source_starts[source];
    reader.at = reader.first = token;
    reader.start = NONE;
    reader.failed = reader.in_spec = false;
    reader.joined = batch.kinds[token] != TOKEN_STRING;
    reader.end = literals.row_ends[row];
    if (literals.fields[row] == FIELD_VALUES && literals.parents[row] != NONE) {
        const u32 parent = batch.bases[batch.logical_bases[source]].x + literals.parents[row];
        const u32 kind = literals.kinds[parent];
        reader.joined = kind == KIND_JOINED_STR || kind == KIND_TEMPLATE_STR;
        if (reader.joined) reader.end = literals.row_ends[parent];
        reader.in_spec = literals.fields[parent] == FIELD_FORMAT_SPEC;
    }
    return reader;
}

// The `str` of an Interpolation: the source of its expression.
__device__ bool expression(const TreeBatch& batch, const Literals& literals, u32 value) {
    const u32 source = literals.sources[value], token = literals.tokens[value], row = literals.rows[value];
    const u8* text = batch.text + batch.source_starts[source];
    u32 next = batch.token_bases[source] + batch.payloads[token];
    if (batch.kinds[token] == TOKEN_DEBUG_OPEN) next -= 1;
    const u32 start = batch.ends[token], stop = batch.starts[next];
    u32 end = stop;
    if (Team<false>().contains(text, start, stop, '#', '\r') || Team<false>().contains(text, start, stop, '!', '!')) return false;
    while (end > start && is_space(text[end - 1])) end -= 1;
    literals.row_starts[row] = start;
    literals.row_ends[row] = stop;
    literals.tags[value] = TAG_STR;
    literals.starts[value] = start;
    literals.ends[value] = end;
    return true;
}

// Locates the value of a number or an Interpolation's `str`.
__device__ bool locate(const TreeBatch& batch, const Literals& literals, u32 value, u32 token) {
    if (batch.kinds[token] != TOKEN_NUMBER) return expression(batch, literals, value);
    const u32 start = batch.starts[token], end = batch.ends[token];
    const NumberLiteral number = classify_number(batch.text + batch.source_starts[literals.sources[value]], start, end);
    literals.tags[value] = (u8)number.tag;
    literals.starts[value] = start;
    literals.ends[value] = end;
    return number.valid;
}

// Locates a string value and counts the bytes it appends.
template <bool WARP>
__device__ bool measure_string(const TreeBatch& batch, const Literals& literals, u32 value) {
    Reader<WARP> reader = reader_of<WARP>(batch, literals, value);
    Sink sink = {nullptr, 0};
    u32 tag = TAG_STR;
    bool decodes;
    const uint2 place = reader.read(sink, 1u << 31, tag, decodes);
    // Empty text of an f-string has no row: falls back.
    if (reader.failed || (reader.joined && place.x == place.y)) return false;
    if (reader.team.lane() != 0) return true;
    if (reader.joined) {
        const u32 row = literals.rows[value];
        literals.row_starts[row] = reader.start;
        literals.row_ends[row] = reader.stop;
    }
    literals.tags[value] = (u8)tag;
    literals.starts[value] = place.x;
    literals.ends[value] = place.y;
    literals.sizes[value] = sink.count;
    if (!decodes) return true;
    if (WARP) literals.appending[literals.cap - 1 - atomicAdd(&batch.counters[COUNT_LONG_APPENDING], 1u)] = value;
    else literals.appending[atomicAdd(&batch.counters[COUNT_APPENDING], 1u)] = value;
    return true;
}

// Appends a string value to `extra`.
template <bool WARP>
__device__ void append_string(const TreeBatch& batch, const Literals& literals, u32 value) {
    const u32 source = literals.sources[value], own = literals.bases[value];
    Reader<WARP> reader = reader_of<WARP>(batch, literals, value);
    if ((u64)own + literals.sizes[value] > literals.extra_cap) {
        fall_back(batch, source, REASON_LITERAL);
        return;
    }
    const u32 first = batch.bases[batch.logical_bases[source]].y;
    Sink sink = {literals.extra + own, 0};
    u32 tag = TAG_STR;
    bool decodes;
    const uint2 place = reader.read(sink, batch.source_lens[source] + own - literals.bases[first], tag, decodes);
    if (reader.team.lane() != 0) return;
    literals.starts[value] = place.x;
    literals.ends[value] = place.y;
}

// Whether a warp reads the string, by the extent of its row.
__device__ __forceinline__ bool is_long_string(const Literals& literals, u32 value) {
    const u32 row = literals.rows[value];
    return literals.row_ends[row] - literals.row_starts[row] > SHORT_TEXT;
}

// The warp's next ticket for a long string.
__device__ __forceinline__ u32 take_long_string(const TreeBatch& batch, Counter shares) {
    return __shfl_sync(FULL_WARP, (threadIdx.x & 31) == 0 ? atomicAdd(&batch.counters[shares], 1u) : 0, 0);
}

// tree_literals: type and range of each value, and its size in `extra`; long strings are only listed. Grid-stride: one
// thread per value.
extern "C" __global__ void __launch_bounds__(TREE_THREADS)
    tree_literals(const __grid_constant__ TreeBatch batch, const __grid_constant__ Literals literals) {
    const u32 count = literal_count(batch, literals.cap);
    for (u32 value = blockIdx.x * blockDim.x + threadIdx.x; value < count; value += gridDim.x * blockDim.x) {
        literals.sizes[value] = 0;
        const u32 token = literals.tokens[value], source = literals.sources[value];
        bool valid = true;
        if (batch.kinds[token] == TOKEN_NUMBER || literals.fields[literals.rows[value]] == FIELD_STR) {
            valid = locate(batch, literals, value, token);
        } else if (batch.reasons[source] == 0) {
            if (is_long_string(literals, value)) literals.long_texts[atomicAdd(&batch.counters[COUNT_LONG_TEXTS], 1u)] = value;
            else valid = measure_string<false>(batch, literals, value);
        }
        if (!valid) fall_back(batch, source, REASON_LITERAL);
    }
}

// tree_long_strings: the same for long strings. One warp per string, by tickets.
extern "C" __global__ void __launch_bounds__(TREE_THREADS)
    tree_long_strings(const __grid_constant__ TreeBatch batch, const __grid_constant__ Literals literals) {
    const u32 count = batch.counters[COUNT_LONG_TEXTS];
    for (u32 at; (at = take_long_string(batch, COUNT_TEXT_SHARES)) < count;) {
        const u32 value = literals.long_texts[at];
        if (!measure_string<true>(batch, literals, value)) fall_back(batch, literals.sources[value], REASON_LITERAL);
    }
}

// tree_extra_reduce, tree_extra_scan: bytes appended before each value, and one past the last.
extern "C" __global__ void __launch_bounds__(SCAN_THREADS)
    tree_extra_reduce(const __grid_constant__ TreeBatch batch, const __grid_constant__ Literals literals, u64* sums) {
    reduce_range(literal_count(batch, literals.cap), sums, [&](u32 value) { return (u64)literals.sizes[value]; });
}

extern "C" __global__ void __launch_bounds__(SCAN_THREADS)
    tree_extra_scan(const __grid_constant__ TreeBatch batch, const __grid_constant__ Literals literals, const u64* sums) {
    scan_range(
        literal_count(batch, literals.cap), sums, [&](u32 value) { return (u64)literals.sizes[value]; },
        [&](u32 value, u64 before) { literals.bases[value] = (u32)before; });
}

// tree_extra: appends values to `extra`. First one warp per long string, then one thread per value.
extern "C" __global__ void __launch_bounds__(TREE_THREADS)
    tree_extra(const __grid_constant__ TreeBatch batch, const __grid_constant__ Literals literals) {
    const u32 longs = batch.counters[COUNT_LONG_APPENDING], count = batch.counters[COUNT_APPENDING];
    for (u32 at; (at = take_long_string(batch, COUNT_EXTRA_SHARES)) < longs;) {
        append_string<true>(batch, literals, literals.appending[literals.cap - 1 - at]);
    }
    // Neighbours, which tend to be alike, go to different warps.
    const u32 warps = gridDim.x * blockDim.x / 32, warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    for (u32 at = (threadIdx.x & 31) * warps + warp; at < count; at += gridDim.x * blockDim.x) {
        append_string<false>(batch, literals, literals.appending[at]);
    }
}

// tree_summary: by source, and one past the last: rows, values and bytes of `extra` before it, and its fallback
// reasons. One thread per source.
extern "C" __global__ void __launch_bounds__(TREE_THREADS)
    tree_summary(const __grid_constant__ TreeBatch batch, const __grid_constant__ Literals literals, uint4* summary) {
    const u32 source = blockIdx.x * blockDim.x + threadIdx.x;
    if (source > batch.source_count) return;
    const u32 line = min(batch.logical_bases[source], lines_of(batch));
    const uint2 before = batch.bases[line];
    const u32 reasons = source < batch.source_count ? batch.reasons[source] : 0;
    summary[source] = make_uint4(before.x, before.y, literals.bases[min(before.y, literals.cap)], reasons);
}
