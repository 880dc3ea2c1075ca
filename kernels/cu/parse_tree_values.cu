// The values of constants, in the order of their rows: slices of the text, or of what is appended where they are written
// otherwise there. First each value's size is found, then what is not in the text goes behind what is before it.

#include "parse_tree_scan.cuh"
#include "parse_tree_text.cuh"

// CPython converts no decimal integer with more digits; the CPU says so.
#define MOST_DIGITS 4300
// A longer string with escapes would keep one thread too long.
#define MOST_DECODED 65536

struct Values {
    const u8* kinds;  // rows
    const u8* fields;
    const u32* parents;
    u32* row_starts;
    u32* row_ends;
    const u32* rows;     // by value: its row among all
    const u32* tokens;   // by value: its first token
    const u32* sources;  // by value
    u8* tags;
    u32* starts;
    u32* ends;
    u32* sizes;       // by value: how much it appends
    u32* bases;       // by value and behind the last: how much is appended before it
    u32* appending;   // values that append something
    u32* count;       // how many
    u8* extra;
    u32 cap;          // room for values
    u32 extra_cap;    // room for bytes
};

__device__ __forceinline__ u32 values_of(const TreeBatch& batch, u32 cap) {
    return min(batch.bases[lines_of(batch)].y, cap);
}

// One value on its way from tokens to bytes.
struct Reader {
    const TreeBatch& batch;
    const Values& values;
    u32 source, token_base, token_end;
    const u8* text;
    u32 at, end, first;  // tokens of the text, and where it ends
    bool joined;         // it is text of an f-string: other tokens stand between the pieces
    bool failed;
    u32 start, stop;     // where the pieces are

    __device__ bool string(u32 token, Piece& piece) {
        const u32 payload = batch.payloads[token], quotes = payload & STRING_TRIPLE ? 3 : 1;
        piece.from = batch.starts[token] + (payload >> STRING_PREFIX_SHIFT) + quotes;
        piece.to = batch.ends[token] - quotes;
        piece.raw = payload & STRING_RAW;
        piece.bytes = payload & STRING_BYTES;
        piece.braces = false;
        piece.tag = piece.bytes ? TAG_BYTES : payload & STRING_UNICODE ? TAG_UNICODE_STR : TAG_STR;
        const Decoder decoder{text, piece};
        piece.decoded = payload & STRING_CHANGED && decoder.contains('\r', piece.raw ? '\r' : '\\');
        if (!piece.bytes) return true;
        for (u32 at = piece.from; at < piece.to; at++) {
            if (text[at] >= 0x80) return false;
        }
        return true;
    }

    __device__ bool plain(u32 from, u32 to, Piece& piece) {
        piece = {from, to, TAG_STR, false, false, false, false};
        const Decoder decoder{text, piece};
        return !decoder.contains('#', '\r');
    }

    __device__ bool middle(u32 token, Piece& piece) {
        const u32 payload = batch.payloads[token];
        piece = {batch.starts[token], batch.ends[token], TAG_STR, (payload & STRING_RAW) != 0, false,
            !(payload & STRING_SPEC), (payload & STRING_CHANGED) != 0};
        return true;
    }

    // The next piece, if there is one.
    __device__ bool next(Piece& piece) {
        while (at < token_end && batch.ends[at] <= end) {
            const u32 kind = batch.kinds[at], from = batch.starts[at], to = batch.ends[at];
            bool right = true;
            u32 behind = to, begin = from;
            if (kind == TOKEN_STRING) {
                right = string(at++, piece) && !(joined && piece.bytes);
            } else if (!joined) {
                return false;
            } else if (kind == TOKEN_F_STRING_START || kind == TOKEN_T_STRING_START || kind == TOKEN_F_STRING_END) {
                at++;
                continue;
            } else if (kind == TOKEN_F_STRING_MIDDLE) {
                right = middle(at++, piece);
            } else if (kind == TOKEN_DEBUG_OPEN) {
                behind = batch.starts[token_base + batch.payloads[at]];
                begin = to;
                right = plain(to, behind, piece);
                at = token_end;
            } else {
                return false;
            }
            if (!right) failed = true;
            if (start == NONE) start = begin;
            stop = behind;
            return right;
        }
        return false;
    }

    __device__ void rewind() { at = first; }

    // Appends to the sink what of the value is not in the text, and says where it is. `base`: where the sink starts.
    // Whether there is anything to it is left in `decodes`.
    __device__ uint2 read(Sink& sink, u32 base, u32& tag, bool& decodes) {
        Piece piece;
        u32 parts = 0, written = 0, bytes = NONE;
        uint2 place = make_uint2(NONE, NONE), whole = place;
        decodes = false;
        while (next(piece)) {
            const u32 before = sink.count;
            if (piece.decoded) {
                decodes = true;
                const Decoder decoder{text, piece};
                if (piece.to - piece.from > MOST_DECODED || !decoder.decode(sink)) failed = true;
            }
            const uint2 own = piece.decoded ? make_uint2(base + before, base + sink.count) : make_uint2(piece.from, piece.to);
            if (bytes == NONE) {
                bytes = piece.bytes;
                tag = piece.tag;
                whole = own;
            }
            if (bytes != (u32)piece.bytes) failed = true;
            if (own.x == own.y) {
                // What stands for nothing has no place among the pieces of an f-string, which the CPU sees to.
                if (joined && piece.decoded) failed = true;
                continue;
            }
            if (parts == 0) place = own;
            parts += 1;
            written += piece.decoded;
            if (piece.decoded) place.y = own.y;
        }
        if (failed || parts == 0) return whole;
        if (parts == 1 || parts == written) return place;
        const u32 before = sink.count;
        decodes = true;
        for (rewind(); next(piece);) {
            const Decoder decoder{text, piece};
            if (piece.decoded) decoder.decode(sink);
            else decoder.copy(sink);
        }
        return make_uint2(base + before, base + sink.count);
    }
};

__device__ __forceinline__ bool is_space(u32 byte) { return byte == ' ' || (byte >= 9 && byte <= 13); }

struct Number {
    u32 tag;
    bool right;
};

__device__ Number number_of(const u8* text, u32 start, u32 end) {
    const u32 letter = end - start > 1 ? text[start + 1] | 0x20 : 0;
    const bool based = letter == 'x' || letter == 'o' || letter == 'b';
    if ((text[end - 1] | 0x20) == 'j') return {TAG_IMAGINARY, true};
    if (based) return {TAG_INT, true};
    for (u32 at = start; at < end; at++) {
        if (text[at] == '.' || (text[at] | 0x20) == 'e') return {TAG_FLOAT, true};
    }
    return {TAG_INT, end - start <= MOST_DIGITS};
}

// A value of some text.
__device__ Reader reader_of(const TreeBatch& batch, const Values& values, u32 value) {
    const u32 source = values.sources[value], token = values.tokens[value], row = values.rows[value];
    Reader reader{batch, values, source};
    reader.token_base = batch.token_bases[source];
    reader.token_end = batch.token_bases[source + 1];
    reader.text = batch.text + batch.source_starts[source];
    reader.at = reader.first = token;
    reader.start = NONE;
    reader.failed = false;
    reader.joined = batch.kinds[token] != TOKEN_STRING;
    reader.end = values.row_ends[row];
    if (values.fields[row] == FIELD_VALUES && values.parents[row] != NONE) {
        const u32 parent = batch.bases[batch.logical_bases[source]].x + values.parents[row];
        const u32 kind = values.kinds[parent];
        reader.joined = kind == KIND_JOINED_STR || kind == KIND_TEMPLATE_STR;
        if (reader.joined) reader.end = values.row_ends[parent];
    }
    return reader;
}

// What an Interpolation remembers of its expression.
__device__ bool expression(const TreeBatch& batch, const Values& values, u32 value) {
    const u32 source = values.sources[value], token = values.tokens[value], row = values.rows[value];
    const u8* text = batch.text + batch.source_starts[source];
    u32 behind = batch.token_bases[source] + batch.payloads[token];
    if (batch.kinds[token] == TOKEN_DEBUG_OPEN) behind -= 1;
    const u32 start = batch.ends[token], stop = batch.starts[behind];
    u32 end = stop;
    const Decoder decoder{text, Piece{start, stop, TAG_STR, false, false, false, false}};
    if (decoder.contains('#', '\r')) return false;
    while (end > start && is_space(text[end - 1])) end -= 1;
    values.row_starts[row] = start;
    values.row_ends[row] = stop;
    values.tags[value] = TAG_STR;
    values.starts[value] = start;
    values.ends[value] = end;
    return true;
}

// Finds one value, or how much it appends.
__device__ bool measure(const TreeBatch& batch, const Values& values, u32 value) {
    const u32 source = values.sources[value], token = values.tokens[value], row = values.rows[value];
    if (batch.kinds[token] == TOKEN_NUMBER) {
        const u32 start = batch.starts[token], end = batch.ends[token];
        const Number number = number_of(batch.text + batch.source_starts[source], start, end);
        values.tags[value] = (u8)number.tag;
        values.starts[value] = start;
        values.ends[value] = end;
        return number.right;
    }
    if (values.fields[row] == FIELD_STR) return expression(batch, values, value);
    Reader reader = reader_of(batch, values, value);
    Sink sink = {nullptr, 0};
    u32 tag = TAG_STR;
    bool decodes;
    const uint2 place = reader.read(sink, 1u << 31, tag, decodes);
    // Text without characters leaves no row: the CPU takes it out.
    if (reader.failed || (reader.joined && place.x == place.y)) return false;
    if (reader.joined) {
        values.row_starts[row] = reader.start;
        values.row_ends[row] = reader.stop;
    }
    values.tags[value] = (u8)tag;
    values.starts[value] = place.x;
    values.ends[value] = place.y;
    values.sizes[value] = sink.count;
    if (decodes) values.appending[atomicAdd(values.count, 1u)] = value;
    return true;
}

// tree_values: types and places of values, of those that are written otherwise the size. `count` starts at 0.
// One thread a value, in turns.
extern "C" __global__ void __launch_bounds__(256)
    tree_values(const __grid_constant__ TreeBatch batch, const __grid_constant__ Values values) {
    const u32 count = values_of(batch, values.cap);
    for (u32 value = blockIdx.x * blockDim.x + threadIdx.x; value < count; value += gridDim.x * blockDim.x) {
        values.sizes[value] = 0;
        if (batch.reasons[values.sources[value]]) continue;
        if (!measure(batch, values, value)) {
            values.sizes[value] = 0;
            give_up(batch, values.sources[value], BY_VALUE);
        }
    }
}

// tree_extra_sum, tree_extra_spread: how much is appended before each value and behind the last.
extern "C" __global__ void __launch_bounds__(SCAN_THREADS)
    tree_extra_sum(const __grid_constant__ TreeBatch batch, const __grid_constant__ Values values, u64* sums) {
    sum_range(values_of(batch, values.cap), sums, [&](u32 value) { return (u64)values.sizes[value]; });
}

extern "C" __global__ void __launch_bounds__(SCAN_THREADS)
    tree_extra_spread(const __grid_constant__ TreeBatch batch, const __grid_constant__ Values values, const u64* sums) {
    spread_range(
        values_of(batch, values.cap), sums, [&](u32 value) { return (u64)values.sizes[value]; },
        [&](u32 value, u64 before) { values.bases[value] = (u32)before; });
}

// tree_extra: appends, and places rows of text. One thread a value that appends, in turns.
extern "C" __global__ void __launch_bounds__(256)
    tree_extra(const __grid_constant__ TreeBatch batch, const __grid_constant__ Values values) {
    const u32 count = *values.count;
    for (u32 at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += gridDim.x * blockDim.x) {
        const u32 value = values.appending[at], source = values.sources[value];
        const u32 own = values.bases[value];
        if ((u64)own + values.sizes[value] > values.extra_cap) {
            give_up(batch, source, BY_VALUE);
            continue;
        }
        const u32 first = batch.bases[batch.logical_bases[source]].y;
        Reader reader = reader_of(batch, values, value);
        Sink sink = {values.extra + own, 0};
        u32 tag = TAG_STR;
        bool decodes;
        const uint2 place = reader.read(sink, batch.source_lens[source] + own - values.bases[first], tag, decodes);
        values.starts[value] = place.x;
        values.ends[value] = place.y;
    }
}

// tree_summary: by source and behind the last: rows, values and appended bytes before it, and why the CPU parses it anew.
// One thread a source.
extern "C" __global__ void __launch_bounds__(256)
    tree_summary(const __grid_constant__ TreeBatch batch, const __grid_constant__ Values values, uint4* summary) {
    const u32 source = blockIdx.x * blockDim.x + threadIdx.x;
    if (source > batch.source_count) return;
    const u32 line = min(batch.logical_bases[source], lines_of(batch));
    const uint2 before = batch.bases[line];
    const u32 reasons = source < batch.source_count ? batch.reasons[source] : 0;
    summary[source] = make_uint4(before.x, before.y, values.bases[min(before.y, values.cap)], reasons);
}
