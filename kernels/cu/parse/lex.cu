// lex_lines: where tokens and comments start and end, and properties of each physical line.
//   see LexBatch; writes token_bits, marks, tile_counts, line_starts, line_columns, line_brackets, multiline_ends
// One block per tile, one thread per line, from the start state that lex_line_states predicted. The state after each
// line is compared with the next one's: a wrong prediction flags the source.

#include "parse/lex_line.cuh"

// A warp takes new lines when at least this many of its threads are idle.
#define ENOUGH_IDLE 8u

// Loads the bitmaps of lex_line_states, and clears those of tokens.
__device__ void load(Tile& t, const LexBatch& b) {
    load_bytes(t, b);
    const u32 words = b.tiles * TILE_WORDS, first = blockIdx.x * TILE_WORDS;
    for (u32 i = threadIdx.x; i < SPAN_WORDS; i += LEX_THREADS) {
        const bool there = first + i < words;
        t.identifier[i] = there ? b.text_bits[first + i] : 0;
        t.stop[i] = there ? b.text_bits[words + first + i] : ~0u;
        t.newline[i] = there ? b.text_bits[2 * words + first + i] : ~0u;
        t.start[i] = t.last[i] = t.comment[i] = 0;
    }
    t.line[threadIdx.x] = b.line_bits[first + threadIdx.x];
    t.special[threadIdx.x] = b.line_bits[words + first + threadIdx.x];
    for (u32 i = threadIdx.x; i < SPAN / 16; i += LEX_THREADS) ((uint4*)t.marks)[i] = make_uint4(0, 0, 0, 0);
    if (threadIdx.x == 0) {
        t.identifier[SPAN_WORDS] = 0;
        t.stop[SPAN_WORDS] = t.newline[SPAN_WORDS] = ~0u;
        t.multiline_count = t.taken = 0;
    }
}

// Scans the state maps: states after special lines. One warp.
__device__ void follow_states(Tile& t, const LexBatch& b) {
    const u32 lane = threadIdx.x & 31, share = (t.specials + 31) / 32;
    const u32 from = min(lane * share, t.specials), end = min(from + share, t.specials);
    u32 all = MAP_IDENTITY;
    for (u32 i = from; i < end; i++) {
        t.map[i] = b.special_maps[t.number * MAX_SPECIAL + i];
        all = compose_maps(all, t.map[i]);
    }
#pragma unroll
    for (u32 step = 1; step < 32; step <<= 1) {
        const u32 earlier = __shfl_up_sync(FULL_WARP, all, step);
        if (lane >= step) all = compose_maps(earlier, all);
    }
    const u32 previous = __shfl_up_sync(FULL_WARP, all, 1);
    const u64 before = b.tile_maps[t.number];
    const u32 first = apply_map((u32)(before >> 32), STATE_CODE);
    u32 state = lane == 0 ? first : apply_map(previous, first);
    for (u32 i = from; i < end; i++) {
        state = apply_map(t.map[i], state);
        t.state[i] = (u8)state;
    }
    if (lane == 0) {
        t.before = first;
        t.line_base = (u32)before;
    }
}

// The state at the start of a line, or after the tile's last.
__device__ __forceinline__ u32 state_at(const Tile& t, u32 at) {
    u32 before = at < TILE ? rank(t.special, t.special_ranks, at) : t.specials;
    before = min(before, t.specials);
    return before ? t.state[before - 1] : t.before;
}

struct Indentation {
    u32 column, alternate, end;
};

__device__ __forceinline__ Indentation indentation(const Tile& t, u32 at) {
    Indentation c = {0, 0, at};
    for (;; c.end++) {
        const u32 byte = byte_at(t, c.end);
        if (byte == ' ') c.column++, c.alternate++;
        else if (byte == '\t') c.column = (c.column / 8 + 1) * 8, c.alternate++;
        else if (byte == '\f') c.column = c.alternate = 0;
        else return c;
    }
}

// A thread's current line.
struct CurrentLine {
    u32 number;  // number in the tile
    u32 columns;
    u64 flags;
    enum : u32 { NONE, OPEN, ENDED } is;
};

// Starts a line: its indentation, or the rest of a string.
__device__ void begin_line(Tile& t, const LexBatch& b, Lexer& lexer, CurrentLine& now) {
    const u32 at = select(t.line, t.line_ranks, TILE_WORDS, now.number), source = source_at(t, at);
    const u32 len = b.source_lens[source], place = t.number * TILE + at - b.source_starts[source];
    now.flags = place == 0 ? LINE_FIRST : 0;
    now.columns = 0;
    now.is = CurrentLine::ENDED;
    // A line without text ends where it starts.
    lexer.begin(at, at);
    if (place >= len) {
        now.flags |= LINE_CODE;
        return;
    }
    const u32 newline = next_set(t.newline, at);
    if (newline >= SPAN) return (void)lexer.fail(FLAG_LONG_LINE);
    lexer.newline = newline;
    const u32 state = place == 0 ? STATE_CODE : state_at(t, at);
    if (state != STATE_CODE) {
        if (lexer.resume(state)) now.is = CurrentLine::OPEN;
        return;
    }
    if (place == 0 && byte_at(t, at) == 0xef && byte_at(t, at + 1) == 0xbb && byte_at(t, at + 2) == 0xbf) lexer.at += 3;
    const Indentation c = indentation(t, lexer.at);
    lexer.at = c.end;
    now.columns = c.column | c.alternate << 16;
    now.flags |= LINE_CODE | (byte_at(t, c.end) == '\\' ? LINE_BACKSLASH : 0);
    now.is = CurrentLine::OPEN;
    if (c.column > 0xffff) lexer.fail(FLAG_INDENTATION);
}

// Checks the next line's predicted state, and stores the line's properties.
__device__ void end_line(Tile& t, const LexBatch& b, Lexer& lexer, const CurrentLine& now) {
    const u32 at = lexer.line, source = source_at(t, at), start = b.source_starts[source];
    const u32 place = t.number * TILE + at - start, to = t.line_base + now.number;
    const u64 brackets = lexer.end();
    const bool ends = lexer.newline + 1 - at + place >= b.source_lens[source];
    if (ends && lexer.out.joins) lexer.fail(FLAG_LEXICAL);
    if (lexer.out.state != (ends ? STATE_CODE : state_at(t, lexer.newline + 1))) lexer.fail(FLAG_LINE_STATE);
    if (lexer.out.flags) flag(b, source, lexer.out.flags);
    if (to >= b.line_cap) return;
    b.line_starts[to] = place;
    b.line_columns[to] = now.columns;
    b.line_brackets[to] = now.flags | (lexer.out.joins ? LINE_JOINS : 0) | brackets;
}

// Lexes the lines: idle threads of a warp take new ones together, because lines differ in length.
__device__ void lex_lines(Tile& t, const LexBatch& b) {
    const u32 lane = threadIdx.x & 31;
    Lexer lexer(t);
    CurrentLine now = {0, 0, 0, CurrentLine::NONE};
    bool left = true;
    for (;;) {
        const u32 idle = __ballot_sync(FULL_WARP, now.is != CurrentLine::OPEN);
        if (idle == FULL_WARP || (left && (u32)__popc(idle) >= ENOUGH_IDLE)) {
            if (now.is == CurrentLine::ENDED) end_line(t, b, lexer, now);
            if (now.is != CurrentLine::OPEN) now.is = CurrentLine::NONE;
            if (!left) {
                if (idle == FULL_WARP) return;
                continue;
            }
            u32 first = lane == 0 ? atomicAdd(&t.taken, (u32)__popc(idle)) : 0;
            first = __shfl_sync(FULL_WARP, first, 0);
            left = first + (u32)__popc(idle) < t.lines;
            now.number = now.is == CurrentLine::NONE ? first + (u32)__popc(idle & ((1u << lane) - 1)) : now.number;
            if (now.is == CurrentLine::NONE && now.number < t.lines) begin_line(t, b, lexer, now);
        }
        if (now.is == CurrentLine::OPEN && !(lexer.at < lexer.newline && lexer.step())) now.is = CurrentLine::ENDED;
    }
}

// Writes the bitmaps of tokens and comments, and the tokens' marks in order.
__device__ void write_tokens(Tile& t, const LexBatch& b) {
    const u32 word = 2 * threadIdx.x, bits = t.number * 3 * SPAN_WORDS;
    u32 first = 0, second = 0, total;
    if (word < SPAN_WORDS) {
        first = (u32)__popc(t.start[word]) | (u32)__popc(t.comment[word]) << 16;
        second = (u32)__popc(t.start[word + 1]) | (u32)__popc(t.comment[word + 1]) << 16;
    }
    const u32 before = block_exclusive_scan(first + second, t.scratch, &total);
    if (threadIdx.x == 0) b.tile_counts[t.number] = (total & 0xffff) | (u64)(total >> 16) << 31;
    for (u32 i = threadIdx.x; i < SPAN_WORDS; i += LEX_THREADS) {
        b.token_bits[bits + i] = t.start[i];
        b.token_bits[bits + SPAN_WORDS + i] = t.last[i];
        b.token_bits[bits + 2 * SPAN_WORDS + i] = t.comment[i];
    }
    if (word >= SPAN_WORDS) return;
    u8* to = b.marks + (u64)t.number * SPAN + (before & 0xffff);
    t.start_ranks[word] = (u16)before;
    t.start_ranks[word + 1] = (u16)(before + first);
    for (u32 i = word; i < word + 2; i++)
        for (u32 left = t.start[i]; left; left &= left - 1) *to++ = t.marks[i * 32 + (u32)__ffs(left) - 1];
}

// Writes the ends of tokens that began on earlier lines.
__device__ void write_multiline_ends(const Tile& t, const LexBatch& b) {
    for (u32 i = threadIdx.x; i < min(t.multiline_count, MAX_MULTILINE); i += LEX_THREADS) {
        const u32 at = t.multiline_ends[i] & 0xffff, end = at + (t.multiline_ends[i] >> 16), source = source_at(t, at);
        const u32 to = atomicAdd(&b.counts->multiline, 1);
        if (to >= b.list_cap) break;
        b.multiline_ends[4 * to] = rank(t.start, t.start_ranks, at);
        b.multiline_ends[4 * to + 1] = t.number * TILE + end - b.source_starts[source];
        b.multiline_ends[4 * to + 2] = source;
        b.multiline_ends[4 * to + 3] = t.number;
    }
}

extern "C" __global__ void __launch_bounds__(LEX_THREADS, 6) lex_lines(LexBatch b) {
    __shared__ Tile t;
    load(t, b);
    __syncthreads();
    count_lines(t);
    if (threadIdx.x < 32) follow_states(t, b);
    __syncthreads();
    lex_lines(t, b);
    __syncthreads();
    write_tokens(t, b);
    __syncthreads();
    write_multiline_ends(t, b);
}
