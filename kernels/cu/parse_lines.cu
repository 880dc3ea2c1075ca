// parse_close, parse_lines, parse_match, parse_minima, parse_check, parse_rules: from tokens and physical lines to
// logical lines, with what only they tell. They run in this order, after parse_write, and read the counts on the
// device, so a grid may be too large.
//   see LexBatch

#include "parse_lex.cuh"

#define THREADS 256u
#define LINES_A_THREAD 4u
#define LINES_A_BLOCK (THREADS * LINES_A_THREAD)
// Deeper brackets are left to the CPU, which knows the limit of 200 and its message.
#define MOST_DEPTH_BEFORE 180
#define MOST_WALK 4096u
#define MOST_COLUMN 99u

__device__ __forceinline__ u32 threads_before() { return blockIdx.x * blockDim.x + threadIdx.x; }

// The source of a numbered thing, by the numbers that sources begin with: a source without any has the next one's.
__device__ __forceinline__ u32 source_of(const LexBatch& b, const u32* bases, u32 number) {
    return last_at_most(bases, 0, b.sources - 1, number);
}

// Whether a word of text has a byte.
__device__ __forceinline__ u32 has(u32 word, u32 byte) {
    const u32 x = word ^ byte * 0x01010101u;
    return (x - 0x01010101u) & ~x & 0x80808080u;
}

// Whether four bytes say that text of a string, or between fields, may mean something else than is written.
__device__ __forceinline__ bool changes(u32 bytes, bool middle, bool raw) {
    return (!raw && has(bytes, '\\')) || (middle && (has(bytes, '{') || has(bytes, '}') || has(bytes, '\r')));
}

// Four bytes from a place on; what lies outside of a range is zero.
__device__ __forceinline__ u32 within(u32 bytes, u32 at, u32 from, u32 end) {
    if (at < from) bytes &= at + 4 <= from ? 0 : ~0u << (from - at) * 8;
    if (at + 4 > end) bytes &= at >= end ? 0 : ~0u >> (at + 4 - end) * 8;
    return bytes;
}

// Whether any of a range does. One warp.
__device__ bool is_changed(const u8* text, u32 from, u32 end, bool middle, bool raw) {
    bool found = false;
#pragma unroll 4
    for (u32 at = (from & ~15u) + 16 * (threadIdx.x & 31); at < end; at += 16 * 32) {
        const uint4 x = *(const uint4*)(text + at);
        const u32 words[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
        for (u32 i = 0; i < 4; i++) found |= changes(within(words[i], at + 4 * i, from, end), middle, raw);
    }
    return __ballot_sync(FULL_WARP, found) != 0;
}

// Gives tokens that go over several lines their ends. A warp each.
extern "C" __global__ void parse_close(LexBatch b) {
    if (is_full(b)) return;
    const u32 count = b.counts[COUNT_CLOSERS], warps = gridDim.x * blockDim.x >> 5;
    for (u32 i = threads_before() >> 5; i < count; i += warps) {
        const u32 end = b.closers[4 * i + 1], source = b.closers[4 * i + 2];
        const u32 behind = b.closers[4 * i] + ((u32)b.tile_counts[b.closers[4 * i + 3]] & 0x7fffffffu);
        if (behind <= b.token_bases[source]) continue;
        const u32 token = behind - 1, kind = b.kinds[token];
        if (kind != T_STRING && kind != T_F_STRING_MIDDLE) continue;
        const u32 start = b.source_starts[source], payload = b.payloads[token];
        const bool changed =
            is_changed(b.text, start + b.starts[token], start + end, kind != T_STRING, payload & STRING_RAW);
        if ((threadIdx.x & 31) != 0) continue;
        b.ends[token] = end;
        if (changed) b.payloads[token] = payload | STRING_CHANGED;
    }
}

// Sums of depth that begin anew at each source: the sum, and above it whether one begins.
struct JoinDepths {
    __device__ u64 operator()(u64 first, u64 second) const {
        if (second >> 32) return second;
        return (first >> 32) << 32 | (u32)((u32)first + (u32)second);
    }
};

struct JoinSums {
    __device__ u64 operator()(u64 first, u64 second) const { return first + second; }
};

__device__ __forceinline__ u64 own_depth(u64 line) {
    const u32 delta = (u32)(line >> 8 & 15) - (u32)(line >> 4 & 15);
    return (u64)(line & LINE_FIRST ? 1 : 0) << 32 | delta;
}

// What comes before each thread's value, by the whole block and the tiles before.
template <typename Join>
__device__ u64 sum_before(u64 own, u64* tiles, u32 tile, u64* scratch, Join join, u64* total) {
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    u64 all = own;
#pragma unroll
    for (u32 step = 1; step < 32; step <<= 1) {
        const u64 earlier = __shfl_up_sync(FULL_WARP, all, step);
        if (lane >= step) all = join(earlier, all);
    }
    u64 before = __shfl_up_sync(FULL_WARP, all, 1);
    if (lane == 0) before = 0;
    if (lane == 31) scratch[warp] = all;
    __syncthreads();
    if (warp == 0) {
        u64 sum = lane < warps ? scratch[lane] : 0;
#pragma unroll
        for (u32 step = 1; step < 32; step <<= 1) {
            const u64 earlier = __shfl_up_sync(FULL_WARP, sum, step);
            if (lane >= step) sum = join(earlier, sum);
        }
        u64 of_warp = __shfl_up_sync(FULL_WARP, sum, 1);
        if (lane == 0) of_warp = 0;
        const u64 block = __shfl_sync(FULL_WARP, sum, 31);
        const u64 tiles_before = look_back(tiles, tile, block, 0, join);
        if (lane < warps) scratch[lane] = join(tiles_before, of_warp);
        if (lane == 0) scratch[32] = join(tiles_before, block);
    }
    __syncthreads();
    before = join(scratch[warp], before);
    *total = scratch[32];
    __syncthreads();
    return before;
}

// Whether a physical line opens a logical one, and what it shows to be wrong.
__device__ bool opens(const LexBatch& b, u32 line, u32 lines, u64 kept, i64 depth) {
    const bool joined = !(kept & LINE_FIRST) && b.line_brackets[line - 1] & LINE_JOINS;
    const i64 least = depth - (i64)(kept >> 4 & 15), behind = least + (i64)(kept >> 8 & 15);
    const bool last = line + 1 == lines || b.line_brackets[line + 1] & LINE_FIRST;
    const bool starts = kept & LINE_CODE && !joined && depth == 0;
    u32 wrong = 0;
    if (least < 0 || (last && behind != 0)) wrong |= FLAG_BRACKETS;
    if (depth > MOST_DEPTH_BEFORE) wrong |= FLAG_NESTING;
    if (starts && kept & LINE_BACKSLASH) wrong |= FLAG_BLANK_BACKSLASH;
    if (wrong) flag(b, source_of(b, b.line_bases, line), wrong);
    return starts && b.line_tokens[line + 1] > b.line_tokens[line];
}

// The least depth of 32 lines, and of the block's, from that of each thread.
__device__ void write_leasts(const LexBatch& b, u32 tile, u32 least, u32* least_here) {
#pragma unroll
    for (u32 step = 1; step < 32 / LINES_A_THREAD; step <<= 1)
        least = min(least, __shfl_xor_sync(FULL_WARP, least, step));
    __syncthreads();
    if (threadIdx.x % (32 / LINES_A_THREAD) == 0) {
        b.least_minima[(tile * LINES_A_BLOCK + threadIdx.x * LINES_A_THREAD) / 32] = least;
        atomicMin(least_here, least);
    }
    __syncthreads();
    if (threadIdx.x == 0) b.least_minima[b.line_cap / 32 + 1 + tile] = *least_here;
}

// Logical lines; their ends follow in parse_check.
extern "C" __global__ void __launch_bounds__(256) parse_lines(LexBatch b) {
    if (is_full(b)) return;
    __shared__ u64 scratch[33];
    __shared__ u32 ticket, least_here;
    const u32 lines = b.counts[COUNT_LINES], tiles = (lines + LINES_A_BLOCK - 1) / LINES_A_BLOCK;
    if (threadIdx.x == 0) ticket = atomicAdd(&b.counts[COUNT_TICKET_LINES], 1);
    __syncthreads();
    const u32 tile = ticket, first = tile * LINES_A_BLOCK + threadIdx.x * LINES_A_THREAD;
    if (tile >= tiles) return;
    u64 kept[LINES_A_THREAD], own = 0, total;
#pragma unroll
    for (u32 i = 0; i < LINES_A_THREAD; i++) {
        kept[i] = first + i < lines ? b.line_brackets[first + i] : 0;
        own = JoinDepths()(own, own_depth(kept[i]));
    }
    u64 depth = sum_before(own, b.line_sums, tile, scratch, JoinDepths(), &total);
    if (threadIdx.x == 0) least_here = ~0u;
    u32 open = 0, least = ~0u;
#pragma unroll
    for (u32 i = 0; i < LINES_A_THREAD; i++) {
        const i64 before = kept[i] & LINE_FIRST ? 0 : (i64)(int)(u32)depth;
        if (first + i < lines) {
            if (opens(b, first + i, lines, kept[i], before)) open |= 1u << i;
            const u32 own = (u32)max((int)before - (int)(kept[i] >> 4 & 15), 0);
            b.line_leasts[first + i] = own;
            least = min(least, own);
        }
        depth = JoinDepths()(depth, own_depth(kept[i]));
    }
    write_leasts(b, tile, least, &least_here);
    u64* counts = b.line_sums + b.line_cap / LINES_A_BLOCK + 1;
    u32 to = (u32)sum_before((u64)__popc(open), counts, tile, scratch, JoinSums(), &total);
    if (tile + 1 == tiles && threadIdx.x == 0) b.counts[COUNT_LOGICAL] = b.logical_bases[b.sources] = (u32)total;
    u32 source = first < lines ? source_of(b, b.line_bases, first) : 0;
    for (u32 i = 0; i < LINES_A_THREAD && first + i < lines; i++) {
        if (kept[i] & LINE_FIRST) {
            if (b.line_bases[source] != first + i) source++;
            b.logical_bases[source] = to;
        }
        if (!(open >> i & 1)) continue;
        const u32 columns = b.line_columns[first + i];
        b.logical_firsts[to] = b.line_tokens[first + i] - b.token_bases[source];
        b.logical_columns[to] = columns & 0xffff;
        b.logical_alternates[to++] = columns >> 16;
    }
}

#define NO_LINE 0xffffffffu

// The last line before one, and not before `base`, whose value is at most `most`. `minima` has the least of each 32
// values, and from `thousands` on of each 1,024.
__device__ u32 last_before(const u32* values, const u32* minima, const u32* thousands, u32 line, u32 base, i64 most) {
    u32 at = line;
    while (at > base) {
        if ((at & 1023) == 0 && at - base >= 1024 && (i64)thousands[(at >> 10) - 1] > most) at -= 1024;
        else if ((at & 31) == 0 && at - base >= 32 && (i64)minima[(at >> 5) - 1] > most) at -= 32;
        else if ((i64)values[--at] <= most) return at;
    }
    return NO_LINE;
}

// Whether brackets that close on another line are of the kind that they close: what opened at a depth is on the last
// line before that is no deeper. A thread a physical line.
extern "C" __global__ void parse_match(LexBatch b) {
    if (is_full(b)) return;
    const u32 lines = b.counts[COUNT_LINES];
    const u32* thousands = b.least_minima + b.line_cap / 32 + 1;
    for (u32 line = threads_before(); line < lines; line += gridDim.x * blockDim.x) {
        const u64 kept = b.line_brackets[line];
        const u32 closes = (u32)(kept >> 4 & 15), depth = b.line_leasts[line] + closes;
        u32 kinds = (u32)(kept >> 12) & 0x3ffffff, other = line;
        bool wrong = false;
        for (u32 i = 1; i <= closes && !wrong; i++, kinds >>= 2) {
            if (other == line || b.line_leasts[other] > depth - i)
                other = last_before(b.line_leasts, b.least_minima, thousands, other, 0, (i64)(depth - i));
            if (other == NO_LINE) break;
            const u64 opening = b.line_brackets[other];
            const u32 at = depth - i - b.line_leasts[other];
            wrong = at >= (u32)(opening >> 8 & 15) || (opening >> (38 + 2 * at) & 3) != (kinds & 3);
        }
        if (wrong || other == NO_LINE) flag(b, source_of(b, b.line_bases, line), FLAG_BRACKETS);
    }
}

// The least column of 32 lines, and of 1,024. Blocks of 1,024 threads.
extern "C" __global__ void __launch_bounds__(1024) parse_minima(LexBatch b) {
    if (is_full(b)) return;
    __shared__ u32 least[32];
    const u32 lines = b.counts[COUNT_LOGICAL], line = threads_before();
    if (blockIdx.x * 1024 >= lines) return;
    u32 column = line < lines ? b.logical_columns[line] : ~0u;
#pragma unroll
    for (u32 step = 16; step > 0; step >>= 1) column = min(column, __shfl_xor_sync(FULL_WARP, column, step));
    if ((threadIdx.x & 31) == 0) {
        b.line_minima[line >> 5] = column;
        least[threadIdx.x >> 5] = column;
    }
    __syncthreads();
    if (threadIdx.x >= 32) return;
    column = least[threadIdx.x];
#pragma unroll
    for (u32 step = 16; step > 0; step >>= 1) column = min(column, __shfl_xor_sync(FULL_WARP, column, step));
    if (threadIdx.x == 0) b.line_minima[b.logical_cap / 32 + 1 + blockIdx.x] = column;
}

// The last line before one, of its source, whose column is at most `most`.
__device__ u32 line_before(const LexBatch& b, u32 line, u32 base, i64 most) {
    return last_before(b.logical_columns, b.line_minima, b.line_minima + b.logical_cap / 32 + 1, line, base, most);
}

// Whether a line's indentation follows from those before, as CPython's lexer has it.
__device__ bool is_indented_well(const LexBatch& b, u32 line, u32 base) {
    const u32 column = b.logical_columns[line], alternate = b.logical_alternates[line];
    const bool first = line == base;
    const u32 before = first ? 0 : b.logical_columns[line - 1], other = first ? 0 : b.logical_alternates[line - 1];
    if (column > before) return alternate > other && column <= MOST_COLUMN;
    if (column == before) return alternate == other;
    const u32 level = line_before(b, line - 1, base, column);
    if (level == NO_LINE) return column == 0 && alternate == 0;
    return b.logical_columns[level] == column && b.logical_alternates[level] == alternate;
}

// `(` behind `with` whose match is followed by `:` encloses the items of the statement. False: too long to tell.
__device__ bool mark_with_paren(u8* kinds, u32 count) {
    u32 at = kinds[0] == T_ASYNC ? 1 : 0;
    if (at + 1 >= count || kinds[at] != T_WITH || kinds[at + 1] != T_LEFT_PAREN) return true;
    const u32 open = at + 1;
    u32 depth = 0;
    for (at = open; at < count; at++) {
        const u32 kind = kinds[at];
        if (at - open == MOST_WALK) return false;
        if (kind == T_LEFT_PAREN || kind == T_LEFT_BRACKET || kind == T_LEFT_BRACE || kind == T_FIELD_OPEN) depth++;
        else if (kind == T_RIGHT_PAREN || kind == T_RIGHT_BRACKET || kind == T_RIGHT_BRACE || kind == T_FIELD_CLOSE) {
            if (--depth == 0) break;
        }
    }
    if (at + 1 < count && kinds[at + 1] == T_COLON) kinds[open] = T_WITH_PAREN;
    return true;
}

// Ends of logical lines, their indentation, and `with (`.
extern "C" __global__ void parse_check(LexBatch b) {
    if (is_full(b)) return;
    const u32 lines = b.counts[COUNT_LOGICAL];
    for (u32 line = threads_before(); line < lines; line += gridDim.x * blockDim.x) {
        const u32 source = source_of(b, b.logical_bases, line), base = b.logical_bases[source];
        const u32 tokens = b.token_bases[source], first = b.logical_firsts[line];
        const bool last = line + 1 == b.logical_bases[source + 1];
        const u32 end = last ? b.token_bases[source + 1] - tokens : b.logical_firsts[line + 1];
        b.logical_ends[line] = end;
        if (!is_indented_well(b, line, base)) flag(b, source, FLAG_INDENTATION);
        if (!mark_with_paren(b.kinds + tokens + first, end - first)) flag(b, source, FLAG_RULES);
    }
}

// The line opens a match statement, if its first token reads so.
__device__ bool opens_match(const LexBatch& b, u32 line, u32 tokens) {
    const u32 first = tokens + b.logical_firsts[line], end = tokens + b.logical_ends[line];
    return end - first > 2 && b.kinds[end - 1] == T_COLON;
}

__device__ bool reads_match(const LexBatch& b, u32 token, u32 start) {
    const u32 kind = b.kinds[token], at = b.starts[token];
    const u8* text = b.text + start + at;
    return (kind == T_NAME || kind == T_MATCH) && b.ends[token] - at == 5 && text[0] == 'm' && text[1] == 'a' &&
        text[2] == 't' && text[3] == 'c' && text[4] == 'h';
}

// Whether a name that may be a keyword is one, and which; else T_NAME.
__device__ u32 soft_kind(const LexBatch& b, u32 token, u32 source) {
    const u32 tokens = b.token_bases[source], own = token - tokens, base = b.logical_bases[source];
    const u32 line = base + last_at_most(b.logical_firsts + base, 0, b.logical_bases[source + 1] - base - 1, own);
    const u32 first = b.logical_firsts[line], start = b.source_starts[source];
    const u32 letter = b.text[start + b.starts[token]];
    if (letter == 't') {
        if (own + 1 >= b.logical_ends[line] || b.kinds[token + 1] != T_NAME) return T_NAME;
        return own == first || b.kinds[token - 1] == T_SEMICOLON || b.kinds[token - 1] == T_COLON ? T_TYPE : T_NAME;
    }
    if (own != first) return T_NAME;
    if (letter == 'm') return opens_match(b, line, tokens) ? T_MATCH : T_NAME;
    const u32 parent = line_before(b, line, base, (i64)b.logical_columns[line] - 1);
    if (parent == NO_LINE || !opens_match(b, parent, tokens)) return T_NAME;
    return reads_match(b, tokens + b.logical_firsts[parent], start) ? T_CASE : T_NAME;
}

// `match`, `case` and `type` where they are keywords.
extern "C" __global__ void parse_rules(LexBatch b) {
    if (is_full(b)) return;
    const u32 count = b.counts[COUNT_SOFT];
    for (u32 i = threads_before(); i < count; i += gridDim.x * blockDim.x) {
        const u32 token = b.soft[i];
        const u32 source = source_of(b, b.token_bases, token);
        // Tokens of a source that the CPU takes need not form lines.
        if (b.flags[source] || b.logical_bases[source] == b.logical_bases[source + 1]) continue;
        const u32 kind = soft_kind(b, token, source);
        if (kind != T_NAME) b.kinds[token] = (u8)kind;
    }
}
