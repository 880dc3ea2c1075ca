// The values of constants, in the order of their rows: slices of the text, or of what is appended where they are written
// otherwise there. First each value's size is found, then what is not in the text goes behind what is before it.

#include "parse_tree_scan.cuh"
#include "parse_tree_text.cuh"

// CPython converts no decimal integer with more digits; the CPU says so.
#define MOST_DIGITS 4300
// A longer string with escapes would keep a warp too long.
#define MOST_DECODED (1u << 18)
// A warp reads text of more bytes.
#define SHORT_TEXT 192u
// So many strings or more that touch each other are read a lane each.
#define MANY 4u

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
    u32* appending;   // COUNT_APPENDING values that append something; from the end on COUNT_LONG_APPENDING with long texts
    u32* long_texts;  // COUNT_LONG_TEXTS values with long texts
    u8* extra;
    u32 cap;          // room for values
    u32 extra_cap;    // room for bytes
};

__device__ __forceinline__ u32 values_of(const TreeBatch& batch, u32 cap) {
    return min(batch.bases[lines_of(batch)].y, cap);
}

// One value on its way from tokens to bytes.
template <bool WARP>
struct Reader {
    const TreeBatch& batch;
    const Values& values;
    u32 source, token_base, token_end;
    const u8* text;
    u32 at, end, first;  // tokens of the text, and where it ends
    bool joined;         // it is text of an f-string: other tokens stand between the pieces
    bool failed;
    u32 start, stop;     // where the pieces are
    Team<WARP> team;
    bool in_spec;        // it is text of a format specification

    __device__ __noinline__ bool string(u32 token, Piece& piece) const {
        const u32 payload = batch.payloads[token], quotes = payload & STRING_TRIPLE ? 3 : 1;
        piece.from = batch.starts[token] + (payload >> STRING_PREFIX_SHIFT) + quotes;
        piece.to = batch.ends[token] - quotes;
        piece.raw = payload & STRING_RAW;
        piece.bytes = payload & STRING_BYTES;
        piece.braces = false;
        piece.tag = piece.bytes ? TAG_BYTES : payload & STRING_UNICODE ? TAG_UNICODE_STR : TAG_STR;
        const u32 other = piece.raw ? '\r' : '\\';
        piece.decoded = payload & STRING_CHANGED && team.contains(text, piece.from, piece.to, '\r', other);
        return !piece.bytes || team.is_ascii(text, piece.from, piece.to);
    }

    __device__ bool plain(u32 from, u32 to, Piece& piece) {
        piece = {from, to, TAG_STR, false, false, false, false};
        // What the parser does about these is left to it.
        return !team.contains(text, from, to, '#', '\r') && !team.contains(text, from, to, '!', '\\');
    }

    // Text that goes on in nothing but escaped newlines behind a doubled brace: it ends at the brace.
    __device__ bool ends_early(u32 from, u32 to) const {
        u32 end = to;
        while (end >= from + 2 && (text[end - 1] == '\n' || text[end - 1] == '\r')) {
            const u32 newline = end >= from + 3 && text[end - 1] == '\n' && text[end - 2] == '\r' ? 2 : 1;
            if (text[end - newline - 1] != '\\') break;
            end -= newline + 1;
        }
        return end != to && end >= from + 2 && text[end - 1] == text[end - 2] && (text[end - 1] == '{' || text[end - 1] == '}');
    }

    __device__ bool middle(u32 token, Piece& piece) {
        const u32 payload = batch.payloads[token];
        piece = {batch.starts[token], batch.ends[token], TAG_STR, (payload & STRING_RAW) != 0, false,
            !(payload & STRING_SPEC), (payload & STRING_CHANGED) != 0};
        // Two versions decode escapes of a raw string's format specification; the CPU does.
        const u32 minor = batch.versions[source];
        const bool escapes = in_spec && piece.raw && (minor == 12 || minor == 13);
        if (escapes && team.contains(text, piece.from, piece.to, '\\', '\\')) return false;
        return !piece.decoded || piece.raw || !piece.braces || !ends_early(piece.from, piece.to);
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
                // Behind another field CPython shows more or less than this one's expression, as the CPU does.
                const bool in_run = in_spec && at > token_base && batch.kinds[at - 1] == TOKEN_FIELD_CLOSE;
                right = !in_run && plain(to, behind, piece);
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

    // How many strings touch each other here.
    __device__ u32 run() const {
        for (u32 count = 0;; count += 32) {
            const u32 token = at + count + team.lane();
            const bool more = token < token_end && batch.kinds[token] == TOKEN_STRING && batch.ends[token] <= end;
            const u32 all = __ballot_sync(FULL_WARP, more);
            if (all != FULL_WARP) return count + __ffs(~all) - 1;
        }
    }

    // The same as `read` for many short strings, each read by one lane.
    __device__ uint2 read_many(u32 count, Sink& sink, u32 base, u32& tag, bool& decodes) {
        const Reader<false> alone = {batch, values, source, token_base, token_end, text};
        u32 parts = 0, written = 0, bytes = 0, decoded = 0, all = 0;
        uint2 place = make_uint2(base, base), whole = place;
        for (u32 group = 0; group < count; group += 32) {
            Piece piece;
            u32 length = 0;
            bool right = true;
            const bool mine = group + team.lane() < count;
            if (mine) right = alone.string(first + group + team.lane(), piece) && alone.length_of(piece, length);
            const bool own = mine && piece.decoded;
            failed |= team.any(!right);
            bytes += __popc(__ballot_sync(FULL_WARP, mine && piece.bytes));
            const u32 filled = __ballot_sync(FULL_WARP, length > 0);
            written += __popc(__ballot_sync(FULL_WARP, own && length > 0));
            decodes |= team.any(own);
            if (group == 0) {
                tag = __shfl_sync(FULL_WARP, piece.tag, 0);
                whole = piece_at(piece, own, base, 0);
            }
            if (filled && parts == 0) place = piece_at(piece, own, base, __ffs(filled) - 1);
            parts += __popc(filled);
            decoded += warp_sum(own ? length : 0);
            all += warp_sum(length);
        }
        if (bytes != 0 && bytes != count) failed = true;
        const bool apart = parts > 1 && parts != written;
        if (failed) return whole;
        if (sink.out) write_many(alone, count, sink.out + sink.count, apart ? sink.out + sink.count + decoded : nullptr);
        const u32 before = base + sink.count;
        sink.count += decoded + (apart ? all : 0);
        if (apart) {
            decodes = true;
            return make_uint2(before + decoded, before + decoded + all);
        }
        if (parts == 0) return whole;
        return written ? make_uint2(before, before + decoded) : place;
    }

    // Where a lane's piece lies; if it is decoded, at `base`.
    __device__ uint2 piece_at(const Piece& piece, bool decoded, u32 base, u32 lane) const {
        const u32 from = decoded ? base : piece.from, to = decoded ? base : piece.to;
        return make_uint2(__shfl_sync(FULL_WARP, from, lane), __shfl_sync(FULL_WARP, to, lane));
    }

    // Writes decoded pieces to `out`, and all pieces to `joined` unless that is null.
    __device__ void write_many(const Reader<false>& alone, u32 count, u8* out, u8* joined) {
        for (u32 group = 0; group < count; group += 32) {
            Piece piece;
            u32 length = 0;
            const bool mine = group + team.lane() < count;
            if (mine) {
                alone.string(first + group + team.lane(), piece);
                alone.length_of(piece, length);
            }
            const bool own = mine && piece.decoded;
            u32 decoded = 0, all = 0;
            const u32 before = team.before(own ? length : 0, decoded), place = team.before(length, all);
            if (mine) {
                if (own) alone.write(piece, out + before);
                if (joined) alone.write(piece, joined + place);
            }
            out += decoded;
            if (joined) joined += all;
        }
    }

    __device__ bool length_of(const Piece& piece, u32& length) const {
        length = piece.to - piece.from;
        if (!piece.decoded) return true;
        Sink sink = {nullptr, 0};
        const bool right = length <= MOST_DECODED && team.decode(Decoder{text, piece}, sink);
        length = sink.count;
        return right;
    }

    __device__ void write(const Piece& piece, u8* out) const {
        Sink sink = {out, 0};
        if (piece.decoded) team.decode(Decoder{text, piece}, sink);
        else team.copy(text, piece.from, piece.to, sink);
    }

    // Appends to the sink what of the value is not in the text, and says where it is. `base`: where the sink starts.
    // Whether there is anything to it is left in `decodes`.
    __device__ uint2 read(Sink& sink, u32 base, u32& tag, bool& decodes) {
        Piece piece;
        u32 parts = 0, written = 0, bytes = NONE;
        uint2 place = make_uint2(NONE, NONE), whole = place;
        decodes = false;
        if (WARP && !joined) {
            const u32 count = run();
            if (count >= MANY) return read_many(count, sink, base, tag, decodes);
        }
        while (next(piece)) {
            const u32 before = sink.count;
            if (piece.decoded) {
                decodes = true;
                const Decoder decoder{text, piece};
                if (piece.to - piece.from > MOST_DECODED || !team.decode(decoder, sink)) failed = true;
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
            if (piece.decoded) team.decode(Decoder{text, piece}, sink);
            else team.copy(text, piece.from, piece.to, sink);
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
template <bool WARP>
__device__ Reader<WARP> reader_of(const TreeBatch& batch, const Values& values, u32 value) {
    const u32 source = values.sources[value], token = values.tokens[value], row = values.rows[value];
    Reader<WARP> reader{batch, values, source};
    reader.token_base = batch.token_bases[source];
    reader.token_end = batch.token_bases[source + 1];
    reader.text = batch.text + batch.source_starts[source];
    reader.at = reader.first = token;
    reader.start = NONE;
    reader.failed = reader.in_spec = false;
    reader.joined = batch.kinds[token] != TOKEN_STRING;
    reader.end = values.row_ends[row];
    if (values.fields[row] == FIELD_VALUES && values.parents[row] != NONE) {
        const u32 parent = batch.bases[batch.logical_bases[source]].x + values.parents[row];
        const u32 kind = values.kinds[parent];
        reader.joined = kind == KIND_JOINED_STR || kind == KIND_TEMPLATE_STR;
        if (reader.joined) reader.end = values.row_ends[parent];
        reader.in_spec = values.fields[parent] == FIELD_FORMAT_SPEC;
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
    if (Team<false>().contains(text, start, stop, '#', '\r') || Team<false>().contains(text, start, stop, '!', '!')) return false;
    while (end > start && is_space(text[end - 1])) end -= 1;
    values.row_starts[row] = start;
    values.row_ends[row] = stop;
    values.tags[value] = TAG_STR;
    values.starts[value] = start;
    values.ends[value] = end;
    return true;
}

// Finds a value that is no text.
__device__ bool find(const TreeBatch& batch, const Values& values, u32 value, u32 token) {
    if (batch.kinds[token] != TOKEN_NUMBER) return expression(batch, values, value);
    const u32 start = batch.starts[token], end = batch.ends[token];
    const Number number = number_of(batch.text + batch.source_starts[values.sources[value]], start, end);
    values.tags[value] = (u8)number.tag;
    values.starts[value] = start;
    values.ends[value] = end;
    return number.right;
}

// Finds a text, or how much it appends.
template <bool WARP>
__device__ bool measure(const TreeBatch& batch, const Values& values, u32 value) {
    Reader<WARP> reader = reader_of<WARP>(batch, values, value);
    Sink sink = {nullptr, 0};
    u32 tag = TAG_STR;
    bool decodes;
    const uint2 place = reader.read(sink, 1u << 31, tag, decodes);
    // Text without characters leaves no row: the CPU takes it out.
    if (reader.failed || (reader.joined && place.x == place.y)) return false;
    if (reader.team.lane() != 0) return true;
    if (reader.joined) {
        const u32 row = values.rows[value];
        values.row_starts[row] = reader.start;
        values.row_ends[row] = reader.stop;
    }
    values.tags[value] = (u8)tag;
    values.starts[value] = place.x;
    values.ends[value] = place.y;
    values.sizes[value] = sink.count;
    if (!decodes) return true;
    if (WARP) values.appending[values.cap - 1 - atomicAdd(&batch.counters[COUNT_LONG_APPENDING], 1u)] = value;
    else values.appending[atomicAdd(&batch.counters[COUNT_APPENDING], 1u)] = value;
    return true;
}

// Appends a text.
template <bool WARP>
__device__ void append(const TreeBatch& batch, const Values& values, u32 value) {
    const u32 source = values.sources[value], own = values.bases[value];
    Reader<WARP> reader = reader_of<WARP>(batch, values, value);
    if ((u64)own + values.sizes[value] > values.extra_cap) {
        give_up(batch, source, BY_VALUE);
        return;
    }
    const u32 first = batch.bases[batch.logical_bases[source]].y;
    Sink sink = {values.extra + own, 0};
    u32 tag = TAG_STR;
    bool decodes;
    const uint2 place = reader.read(sink, batch.source_lens[source] + own - values.bases[first], tag, decodes);
    if (reader.team.lane() != 0) return;
    values.starts[value] = place.x;
    values.ends[value] = place.y;
}

// Whether a warp takes a text, by its bytes from start to end, more or less.
__device__ __forceinline__ bool is_long(const Values& values, u32 value) {
    const u32 row = values.rows[value];
    return values.row_ends[row] - values.row_starts[row] > SHORT_TEXT;
}

// The next of so many long texts for this warp.
__device__ __forceinline__ u32 next_text(const TreeBatch& batch, Counter shares) {
    return __shfl_sync(FULL_WARP, (threadIdx.x & 31) == 0 ? atomicAdd(&batch.counters[shares], 1u) : 0, 0);
}

// tree_values: types and places of values, of those that are written otherwise the size; but of long texts only a list.
// One thread a value, in turns.
extern "C" __global__ void __launch_bounds__(256)
    tree_values(const __grid_constant__ TreeBatch batch, const __grid_constant__ Values values) {
    const u32 count = values_of(batch, values.cap);
    for (u32 value = blockIdx.x * blockDim.x + threadIdx.x; value < count; value += gridDim.x * blockDim.x) {
        values.sizes[value] = 0;
        const u32 token = values.tokens[value], source = values.sources[value];
        bool right = true;
        if (batch.kinds[token] == TOKEN_NUMBER || values.fields[values.rows[value]] == FIELD_STR) {
            right = find(batch, values, value, token);
        } else if (batch.reasons[source] == 0) {
            if (is_long(values, value)) values.long_texts[atomicAdd(&batch.counters[COUNT_LONG_TEXTS], 1u)] = value;
            else right = measure<false>(batch, values, value);
        }
        if (!right) give_up(batch, source, BY_VALUE);
    }
}

// tree_texts: the same for long texts. A warp a text, in turns.
extern "C" __global__ void __launch_bounds__(256)
    tree_texts(const __grid_constant__ TreeBatch batch, const __grid_constant__ Values values) {
    const u32 count = batch.counters[COUNT_LONG_TEXTS];
    for (u32 at; (at = next_text(batch, COUNT_TEXT_SHARES)) < count;) {
        const u32 value = values.long_texts[at];
        if (!measure<true>(batch, values, value)) give_up(batch, values.sources[value], BY_VALUE);
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

// tree_extra: appends what values have that the text has not. First a warp a long text, then one thread a value.
extern "C" __global__ void __launch_bounds__(256)
    tree_extra(const __grid_constant__ TreeBatch batch, const __grid_constant__ Values values) {
    const u32 longs = batch.counters[COUNT_LONG_APPENDING], count = batch.counters[COUNT_APPENDING];
    for (u32 at; (at = next_text(batch, COUNT_EXTRA_SHARES)) < longs;) {
        append<true>(batch, values, values.appending[values.cap - 1 - at]);
    }
    // What lies together, as similar texts do, goes to different warps.
    const u32 warps = gridDim.x * blockDim.x / 32, warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    for (u32 at = (threadIdx.x & 31) * warps + warp; at < count; at += gridDim.x * blockDim.x) {
        append<false>(batch, values, values.appending[at]);
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
