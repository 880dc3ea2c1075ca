// From tokens and physical lines to logical lines, in this order: lex_multiline_ends, lex_logical_lines,
// lex_match_brackets, lex_min_columns, lex_indentation, lex_soft_keywords. They run after lex_tokens and read the
// counts on the device, so a grid may be too large.
//   see LexBatch

#include "parse/lex.cuh"

#define LINES_A_THREAD 4u
#define LINES_A_BLOCK (LEX_THREADS * LINES_A_THREAD)
static_assert(LINES_A_BLOCK == ROWS_PER_BLOCK && LEX_WIDE_THREADS == ROWS_PER_BLOCK, "the launch has other blocks");
// Deeper brackets fall back to the CPU, which reports CPython's limit of 200.
#define MAX_DEPTH_BEFORE 180
#define MAX_LOOKAHEAD 4096u
#define MAX_COLUMN 99u

__device__ __forceinline__ u32 global_thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

// The source of row `number` of a table, by the table's bases; sources without rows are skipped.
__device__ __forceinline__ u32 source_of(const LexBatch& b, const u32* bases, u32 number) {
    return last_at_most(bases, 0, b.sources - 1, number);
}

// SWAR: nonzero if one of the word's four bytes equals `byte`.
__device__ __forceinline__ u32 has_byte(u32 word, u32 byte) {
    const u32 x = word ^ byte * 0x01010101u;
    return (x - 0x01010101u) & ~x & 0x80808080u;
}

// Whether one of four bytes of a string, or of f-string text, may need decoding.
__device__ __forceinline__ bool changes(u32 bytes, bool middle, bool raw) {
    return (!raw && has_byte(bytes, '\\')) ||
        (middle && (has_byte(bytes, '{') || has_byte(bytes, '}') || has_byte(bytes, '\r')));
}

// Zeroes the bytes of the word at `at` that are outside of `from..end`.
__device__ __forceinline__ u32 mask_outside(u32 bytes, u32 at, u32 from, u32 end) {
    if (at < from) bytes &= at + 4 <= from ? 0 : ~0u << (from - at) * 8;
    if (at + 4 > end) bytes &= at >= end ? 0 : ~0u >> (at + 4 - end) * 8;
    return bytes;
}

// Whether any byte of a range may need decoding. One warp.
__device__ bool is_changed(const u8* text, u32 from, u32 end, bool middle, bool raw) {
    bool found = false;
#pragma unroll 4
    for (u32 at = (from & ~15u) + 16 * (threadIdx.x & 31); at < end; at += 16 * 32) {
        const uint4 x = *(const uint4*)(text + at);
        const u32 words[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
        for (u32 i = 0; i < 4; i++) found |= changes(mask_outside(words[i], at + 4 * i, from, end), middle, raw);
    }
    return __ballot_sync(FULL_WARP, found) != 0;
}

// lex_multiline_ends: sets the ends of tokens that span lines. Grid-stride: one warp per token.
extern "C" __global__ void lex_multiline_ends(LexBatch b) {
    if (is_full(b)) return;
    const u32 count = b.counts->multiline, warps = gridDim.x * blockDim.x >> 5;
    for (u32 i = global_thread() >> 5; i < count; i += warps) {
        const u32 end = b.multiline_ends[4 * i + 1], source = b.multiline_ends[4 * i + 2];
        const u32 after = b.multiline_ends[4 * i] + ((u32)b.tile_counts[b.multiline_ends[4 * i + 3]] & 0x7fffffffu);
        if (after <= b.token_bases[source]) continue;
        const u32 token = after - 1, kind = b.kinds[token];
        if (kind != T_STRING && kind != T_F_STRING_MIDDLE) continue;
        const u32 start = b.source_starts[source], payload = b.payloads[token];
        const bool changed =
            is_changed(b.text, start + b.starts[token], start + end, kind != T_STRING, payload & STRING_RAW);
        if ((threadIdx.x & 31) != 0) continue;
        b.ends[token] = end;
        if (changed) b.payloads[token] = payload | STRING_CHANGED;
    }
}

// Segmented sum of bracket depths: the sum, and above it whether a source starts.
struct AddDepths {
    __device__ u64 operator()(u64 first, u64 second) const {
        if (second >> 32) return second;
        return (first >> 32) << 32 | (u32)((u32)first + (u32)second);
    }
};

struct AddSums {
    __device__ u64 operator()(u64 first, u64 second) const { return first + second; }
};

__device__ __forceinline__ u64 own_depth(u64 line) {
    const u32 delta = (u32)(line >> 8 & 15) - (u32)(line >> 4 & 15);
    return (u64)(line & LINE_FIRST ? 1 : 0) << 32 | delta;
}

// Grid-wide exclusive scan: the combination of all values before each thread's, by decoupled look-back.
template <typename Combine>
__device__ u64 grid_exclusive_scan(u64 own, u64* tiles, u32 tile, u64* scratch, Combine combine, u64* total) {
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    u64 all = own;
#pragma unroll
    for (u32 step = 1; step < 32; step <<= 1) {
        const u64 earlier = __shfl_up_sync(FULL_WARP, all, step);
        if (lane >= step) all = combine(earlier, all);
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
            if (lane >= step) sum = combine(earlier, sum);
        }
        u64 of_warp = __shfl_up_sync(FULL_WARP, sum, 1);
        if (lane == 0) of_warp = 0;
        const u64 block = __shfl_sync(FULL_WARP, sum, 31);
        const u64 tiles_before = look_back(tiles, tile, block, 0, combine);
        if (lane < warps) scratch[lane] = combine(tiles_before, of_warp);
        if (lane == 0) scratch[32] = combine(tiles_before, block);
    }
    __syncthreads();
    before = combine(scratch[warp], before);
    *total = scratch[32];
    __syncthreads();
    return before;
}

// Whether a physical line starts a logical one; flags the line's errors.
__device__ bool opens_logical_line(const LexBatch& b, u32 line, u32 lines, u64 bits, i64 depth) {
    const bool joined = !(bits & LINE_FIRST) && b.line_brackets[line - 1] & LINE_JOINS;
    const i64 least = depth - (i64)(bits >> 4 & 15), after = least + (i64)(bits >> 8 & 15);
    const bool last = line + 1 == lines || b.line_brackets[line + 1] & LINE_FIRST;
    const bool starts = bits & LINE_CODE && !joined && depth == 0;
    u32 wrong = 0;
    if (least < 0 || (last && after != 0)) wrong |= FLAG_BRACKETS;
    if (depth > MAX_DEPTH_BEFORE) wrong |= FLAG_NESTING;
    if (starts && bits & LINE_BACKSLASH) wrong |= FLAG_INDENT_BACKSLASH;
    if (wrong) flag(b, source_of(b, b.line_bases, line), wrong);
    return starts && b.line_tokens[line + 1] > b.line_tokens[line];
}

// Writes the minimum depth of each 32 lines and of the block's lines.
__device__ void write_min_depths(const LexBatch& b, u32 tile, u32 least, u32* block_min_depth) {
#pragma unroll
    for (u32 step = 1; step < 32 / LINES_A_THREAD; step <<= 1)
        least = min(least, __shfl_xor_sync(FULL_WARP, least, step));
    __syncthreads();
    if (threadIdx.x % (32 / LINES_A_THREAD) == 0) {
        b.min_depth_blocks[(tile * LINES_A_BLOCK + threadIdx.x * LINES_A_THREAD) / 32] = least;
        atomicMin(block_min_depth, least);
    }
    __syncthreads();
    if (threadIdx.x == 0) b.min_depth_blocks[b.line_cap / 32 + 1 + tile] = *block_min_depth;
}

// lex_logical_lines: bracket depths and logical lines, without their ends.
extern "C" __global__ void __launch_bounds__(LEX_THREADS) lex_logical_lines(LexBatch b) {
    if (is_full(b)) return;
    __shared__ u64 scratch[33];
    __shared__ u32 ticket, block_min_depth;
    const u32 lines = b.counts->lines, tiles = (lines + LINES_A_BLOCK - 1) / LINES_A_BLOCK;
    if (threadIdx.x == 0) ticket = atomicAdd(&b.counts->line_ticket, 1);
    __syncthreads();
    const u32 tile = ticket, first = tile * LINES_A_BLOCK + threadIdx.x * LINES_A_THREAD;
    if (tile >= tiles) return;
    u64 bits[LINES_A_THREAD], own = 0, total;
#pragma unroll
    for (u32 i = 0; i < LINES_A_THREAD; i++) {
        bits[i] = first + i < lines ? b.line_brackets[first + i] : 0;
        own = AddDepths()(own, own_depth(bits[i]));
    }
    u64 depth = grid_exclusive_scan(own, b.line_sums, tile, scratch, AddDepths(), &total);
    if (threadIdx.x == 0) block_min_depth = ~0u;
    u32 open = 0, least = ~0u;
#pragma unroll
    for (u32 i = 0; i < LINES_A_THREAD; i++) {
        const i64 before = bits[i] & LINE_FIRST ? 0 : (i64)(int)(u32)depth;
        if (first + i < lines) {
            if (opens_logical_line(b, first + i, lines, bits[i], before)) open |= 1u << i;
            const u32 own = (u32)max((int)before - (int)(bits[i] >> 4 & 15), 0);
            b.min_depths[first + i] = own;
            least = min(least, own);
        }
        depth = AddDepths()(depth, own_depth(bits[i]));
    }
    write_min_depths(b, tile, least, &block_min_depth);
    u64* counts = b.line_sums + b.line_cap / LINES_A_BLOCK + 1;
    u32 to = (u32)grid_exclusive_scan((u64)__popc(open), counts, tile, scratch, AddSums(), &total);
    if (tile + 1 == tiles && threadIdx.x == 0) b.counts->logical = b.logical_bases[b.sources] = (u32)total;
    u32 source = first < lines ? source_of(b, b.line_bases, first) : 0;
    for (u32 i = 0; i < LINES_A_THREAD && first + i < lines; i++) {
        if (bits[i] & LINE_FIRST) {
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

// The last line in `base..line` with a value <= `most`. `minima` has the minima of 32 values, and `thousands` those of
// 1,024.
__device__ u32 last_before(const u32* values, const u32* minima, const u32* thousands, u32 line, u32 base, i64 most) {
    u32 at = line;
    while (at > base) {
        if ((at & 1023) == 0 && at - base >= 1024 && (i64)thousands[(at >> 10) - 1] > most) at -= 1024;
        else if ((at & 31) == 0 && at - base >= 32 && (i64)minima[(at >> 5) - 1] > most) at -= 32;
        else if ((i64)values[--at] <= most) return at;
    }
    return NO_LINE;
}

// lex_match_brackets: checks that brackets closed on another line match. The opening bracket of a depth is on the last
// line before that is not deeper. Grid-stride: one thread per physical line.
extern "C" __global__ void lex_match_brackets(LexBatch b) {
    if (is_full(b)) return;
    const u32 lines = b.counts->lines;
    const u32* thousands = b.min_depth_blocks + b.line_cap / 32 + 1;
    for (u32 line = global_thread(); line < lines; line += gridDim.x * blockDim.x) {
        const u64 bits = b.line_brackets[line];
        const u32 closes = (u32)(bits >> 4 & 15), depth = b.min_depths[line] + closes;
        u32 kinds = (u32)(bits >> 12) & 0x3ffffff, other = line;
        bool wrong = false;
        for (u32 i = 1; i <= closes && !wrong; i++, kinds >>= 2) {
            if (other == line || b.min_depths[other] > depth - i)
                other = last_before(b.min_depths, b.min_depth_blocks, thousands, other, 0, (i64)(depth - i));
            if (other == NO_LINE) break;
            const u64 opening = b.line_brackets[other];
            const u32 at = depth - i - b.min_depths[other];
            wrong = at >= (u32)(opening >> 8 & 15) || (opening >> (38 + 2 * at) & 3) != (kinds & 3);
        }
        if (wrong || other == NO_LINE) flag(b, source_of(b, b.line_bases, line), FLAG_BRACKETS);
    }
}

// lex_min_columns: minimum column of 32 logical lines, and of 1,024. Blocks of LEX_WIDE_THREADS threads.
extern "C" __global__ void __launch_bounds__(LEX_WIDE_THREADS) lex_min_columns(LexBatch b) {
    if (is_full(b)) return;
    __shared__ u32 least[32];
    const u32 lines = b.counts->logical, line = global_thread();
    if (blockIdx.x * ROWS_PER_BLOCK >= lines) return;
    u32 column = line < lines ? b.logical_columns[line] : ~0u;
#pragma unroll
    for (u32 step = 16; step > 0; step >>= 1) column = min(column, __shfl_xor_sync(FULL_WARP, column, step));
    if ((threadIdx.x & 31) == 0) {
        b.min_columns[line >> 5] = column;
        least[threadIdx.x >> 5] = column;
    }
    __syncthreads();
    if (threadIdx.x >= 32) return;
    column = least[threadIdx.x];
#pragma unroll
    for (u32 step = 16; step > 0; step >>= 1) column = min(column, __shfl_xor_sync(FULL_WARP, column, step));
    if (threadIdx.x == 0) b.min_columns[b.logical_cap / 32 + 1 + blockIdx.x] = column;
}

// The last line of the source before `line` with a column <= `most`.
__device__ u32 enclosing_line(const LexBatch& b, u32 line, u32 base, i64 most) {
    return last_before(b.logical_columns, b.min_columns, b.min_columns + b.logical_cap / 32 + 1, line, base, most);
}

// Whether CPython's tokenizer accepts a line's indentation after the preceding ones.
__device__ bool has_valid_indentation(const LexBatch& b, u32 line, u32 base) {
    const u32 column = b.logical_columns[line], alternate = b.logical_alternates[line];
    const bool first = line == base;
    const u32 before = first ? 0 : b.logical_columns[line - 1], other = first ? 0 : b.logical_alternates[line - 1];
    if (column > before) return alternate > other && column <= MAX_COLUMN;
    if (column == before) return alternate == other;
    const u32 level = enclosing_line(b, line - 1, base, column);
    if (level == NO_LINE) return column == 0 && alternate == 0;
    return b.logical_columns[level] == column && b.logical_alternates[level] == alternate;
}

// Marks `(` after `with` as T_WITH_PAREN if `:` follows its match: it then encloses the items. False: too many tokens
// to look at.
__device__ bool mark_with_paren(u8* kinds, u32 count) {
    u32 at = kinds[0] == T_ASYNC ? 1 : 0;
    if (at + 1 >= count || kinds[at] != T_WITH || kinds[at + 1] != T_LEFT_PAREN) return true;
    const u32 open = at + 1;
    u32 depth = 0;
    for (at = open; at < count; at++) {
        const u32 kind = kinds[at];
        if (at - open == MAX_LOOKAHEAD) return false;
        if (kind == T_LEFT_PAREN || kind == T_LEFT_BRACKET || kind == T_LEFT_BRACE || kind == T_FIELD_OPEN) depth++;
        else if (kind == T_RIGHT_PAREN || kind == T_RIGHT_BRACKET || kind == T_RIGHT_BRACE || kind == T_FIELD_CLOSE) {
            if (--depth == 0) break;
        }
    }
    if (at + 1 < count && kinds[at + 1] == T_COLON) kinds[open] = T_WITH_PAREN;
    return true;
}

// lex_indentation: ends of logical lines, checks of their indentation, and `with (`. Grid-stride: one thread per line.
extern "C" __global__ void lex_indentation(LexBatch b) {
    if (is_full(b)) return;
    const u32 lines = b.counts->logical;
    for (u32 line = global_thread(); line < lines; line += gridDim.x * blockDim.x) {
        const u32 source = source_of(b, b.logical_bases, line), base = b.logical_bases[source];
        const u32 tokens = b.token_bases[source], first = b.logical_firsts[line];
        const bool last = line + 1 == b.logical_bases[source + 1];
        const u32 end = last ? b.token_bases[source + 1] - tokens : b.logical_firsts[line + 1];
        b.logical_ends[line] = end;
        if (!has_valid_indentation(b, line, base)) flag(b, source, FLAG_INDENTATION);
        if (!mark_with_paren(b.kinds + tokens + first, end - first)) flag(b, source, FLAG_LOOKAHEAD);
    }
}

// Whether the line is a match statement if its first token is spelled `match`.
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

// The terminal of a possible soft keyword, or T_NAME.
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
    const u32 parent = enclosing_line(b, line, base, (i64)b.logical_columns[line] - 1);
    if (parent == NO_LINE || !opens_match(b, parent, tokens)) return T_NAME;
    return reads_match(b, tokens + b.logical_firsts[parent], start) ? T_CASE : T_NAME;
}

// lex_soft_keywords: sets `match`, `case` and `type` where they are keywords. Grid-stride.
extern "C" __global__ void lex_soft_keywords(LexBatch b) {
    if (is_full(b)) return;
    const u32 count = b.counts->soft_keywords;
    for (u32 i = global_thread(); i < count; i += gridDim.x * blockDim.x) {
        const u32 token = b.soft_keywords[i];
        const u32 source = source_of(b, b.token_bases, token);
        // Tokens of a source that falls back need not form lines.
        if (b.flags[source] || b.logical_bases[source] == b.logical_bases[source + 1]) continue;
        const u32 kind = soft_kind(b, token, source);
        if (kind != T_NAME) b.kinds[token] = (u8)kind;
    }
}
