// parse_lex: where tokens and comments start and end, and what each physical line is.
//   see LexBatch; writes token_bits, marks, tile_counts, line_starts, line_columns, line_brackets, closers
// One block a tile. Each line is lexed by one thread, from the state that parse_states foresaw, and checked against the
// next one's: what was foreseen wrong shows, and its source is flagged.

#include "parse_lex_line.cuh"

// A warp takes lines when so many of its threads have none.
#define ENOUGH_IDLE 8u

// Brings in what parse_states left, and clears what is collected.
__device__ void load(Tile& t, const LexBatch& b) {
    load_bytes(t, b);
    const u32 words = b.tiles * TILE_WORDS, first = blockIdx.x * TILE_WORDS;
    for (u32 i = threadIdx.x; i < WORDS; i += THREADS) {
        const bool there = first + i < words;
        t.part[i] = there ? b.text_bits[first + i] : 0;
        t.stop[i] = there ? b.text_bits[words + first + i] : ~0u;
        t.newline[i] = there ? b.text_bits[2 * words + first + i] : ~0u;
        t.start[i] = t.last[i] = t.comment[i] = 0;
    }
    t.line[threadIdx.x] = b.line_bits[first + threadIdx.x];
    t.special[threadIdx.x] = b.line_bits[words + first + threadIdx.x];
    for (u32 i = threadIdx.x; i < SPAN / 16; i += THREADS) ((uint4*)t.marks)[i] = make_uint4(0, 0, 0, 0);
    if (threadIdx.x == 0) {
        t.part[WORDS] = 0;
        t.stop[WORDS] = t.newline[WORDS] = ~0u;
        t.closed = t.taken = 0;
    }
}

// States behind special lines. One warp.
__device__ void follow_states(Tile& t, const LexBatch& b) {
    const u32 lane = threadIdx.x & 31, share = (t.specials + 31) / 32;
    const u32 from = min(lane * share, t.specials), end = min(from + share, t.specials);
    u32 all = MAP_STAYS;
    for (u32 i = from; i < end; i++) {
        t.map[i] = b.special_maps[t.number * MOST_SPECIAL + i];
        all = join_maps(all, t.map[i]);
    }
#pragma unroll
    for (u32 step = 1; step < 32; step <<= 1) {
        const u32 earlier = __shfl_up_sync(FULL_WARP, all, step);
        if (lane >= step) all = join_maps(earlier, all);
    }
    const u32 previous = __shfl_up_sync(FULL_WARP, all, 1);
    const u64 before = b.tile_maps[t.number];
    const u32 first = map_state((u32)(before >> 32), STATE_CODE);
    u32 state = lane == 0 ? first : map_state(previous, first);
    for (u32 i = from; i < end; i++) {
        state = map_state(t.map[i], state);
        t.state[i] = (u8)state;
    }
    if (lane == 0) {
        t.before = first;
        t.line_base = (u32)before;
    }
}

// The state at the start of a line, or behind the tile's last one.
__device__ __forceinline__ u32 state_at(const Tile& t, u32 at) {
    u32 before = at < TILE ? rank(t.special, t.special_before, at) : t.specials;
    before = min(before, t.specials);
    return before ? t.state[before - 1] : t.before;
}

struct Columns {
    u32 column, alternate, behind;
};

__device__ __forceinline__ Columns indentation(const Tile& t, u32 at) {
    Columns c = {0, 0, at};
    for (;; c.behind++) {
        const u32 byte = byte_at(t, c.behind);
        if (byte == ' ') c.column++, c.alternate++;
        else if (byte == '\t') c.column = (c.column / 8 + 1) * 8, c.alternate++;
        else if (byte == '\f') c.column = c.alternate = 0;
        else return c;
    }
}

// The line that a thread is at.
struct Current {
    u32 number;  // in the tile
    u32 columns;
    u64 kept;
    enum : u32 { NONE, OPEN, ENDED } is;
};

// Takes a line up: its indentation, or the rest of a string.
__device__ void begin_line(Tile& t, const LexBatch& b, Lexer& lexer, Current& now) {
    const u32 at = pick(t.line, t.line_before, TILE_WORDS, now.number), source = source_at(t, at);
    const u32 len = b.source_lens[source], place = t.number * TILE + at - b.source_starts[source];
    now.kept = place == 0 ? LINE_FIRST : 0;
    now.columns = 0;
    now.is = Current::ENDED;
    // Without a text of its own, its end is where it starts.
    lexer.begin(at, at);
    if (place >= len) {
        now.kept |= LINE_CODE;
        return;
    }
    const u32 newline = next_set(t.newline, at);
    if (newline >= SPAN) return (void)lexer.fail(FLAG_LONG_LINE);
    lexer.newline = newline;
    const u32 state = place == 0 ? STATE_CODE : state_at(t, at);
    if (state != STATE_CODE) {
        if (lexer.resume(state)) now.is = Current::OPEN;
        return;
    }
    if (place == 0 && byte_at(t, at) == 0xef && byte_at(t, at + 1) == 0xbb && byte_at(t, at + 2) == 0xbf) lexer.at += 3;
    const Columns c = indentation(t, lexer.at);
    lexer.at = c.behind;
    now.columns = c.column | c.alternate << 16;
    now.kept |= LINE_CODE | (byte_at(t, c.behind) == '\\' ? LINE_BACKSLASH : 0);
    now.is = Current::OPEN;
    if (c.column > 0xffff) lexer.fail(FLAG_INDENTATION);
}

// Checks that the next line starts in the state that this one leaves, and keeps what is known of it.
__device__ void end_line(Tile& t, const LexBatch& b, Lexer& lexer, const Current& now) {
    const u32 at = lexer.line, source = source_at(t, at), start = b.source_starts[source];
    const u32 place = t.number * TILE + at - start, to = t.line_base + now.number;
    const u64 brackets = lexer.end();
    const bool ends = lexer.newline + 1 - at + place >= b.source_lens[source];
    if (ends && lexer.out.joins) lexer.fail(FLAG_LEXICAL);
    if (lexer.out.state != (ends ? STATE_CODE : state_at(t, lexer.newline + 1))) lexer.fail(FLAG_STATE);
    if (lexer.out.flags) flag(b, source, lexer.out.flags);
    if (to >= b.line_cap) return;
    b.line_starts[to] = place;
    b.line_columns[to] = now.columns;
    b.line_brackets[to] = now.kept | (lexer.out.joins ? LINE_JOINS : 0) | brackets;
}

// Lexes the lines: threads take one after the other, several of a warp at once, for lines have few tokens or many.
__device__ void lex_lines(Tile& t, const LexBatch& b) {
    const u32 lane = threadIdx.x & 31;
    Lexer lexer(t);
    Current now = {0, 0, 0, Current::NONE};
    bool left = true;
    for (;;) {
        const u32 idle = __ballot_sync(FULL_WARP, now.is != Current::OPEN);
        if (idle == FULL_WARP || (left && (u32)__popc(idle) >= ENOUGH_IDLE)) {
            if (now.is == Current::ENDED) end_line(t, b, lexer, now);
            if (now.is != Current::OPEN) now.is = Current::NONE;
            if (!left) {
                if (idle == FULL_WARP) return;
                continue;
            }
            u32 first = lane == 0 ? atomicAdd(&t.taken, (u32)__popc(idle)) : 0;
            first = __shfl_sync(FULL_WARP, first, 0);
            left = first + (u32)__popc(idle) < t.lines;
            now.number = now.is == Current::NONE ? first + (u32)__popc(idle & ((1u << lane) - 1)) : now.number;
            if (now.is == Current::NONE && now.number < t.lines) begin_line(t, b, lexer, now);
        }
        if (now.is == Current::OPEN && !(lexer.at < lexer.newline && lexer.step())) now.is = Current::ENDED;
    }
}

// Tokens and comments, and the marks of the tokens in their order.
__device__ void write_tokens(Tile& t, const LexBatch& b) {
    const u32 word = 2 * threadIdx.x, bits = t.number * 3 * WORDS;
    u32 first = 0, second = 0, total;
    if (word < WORDS) {
        first = (u32)__popc(t.start[word]) | (u32)__popc(t.comment[word]) << 16;
        second = (u32)__popc(t.start[word + 1]) | (u32)__popc(t.comment[word + 1]) << 16;
    }
    const u32 before = block_before(first + second, t.scratch, &total);
    if (threadIdx.x == 0) b.tile_counts[t.number] = (total & 0xffff) | (u64)(total >> 16) << 31;
    for (u32 i = threadIdx.x; i < WORDS; i += THREADS) {
        b.token_bits[bits + i] = t.start[i];
        b.token_bits[bits + WORDS + i] = t.last[i];
        b.token_bits[bits + 2 * WORDS + i] = t.comment[i];
    }
    if (word >= WORDS) return;
    u8* to = b.marks + (u64)t.number * SPAN + (before & 0xffff);
    t.start_before[word] = (u16)before;
    t.start_before[word + 1] = (u16)(before + first);
    for (u32 i = word; i < word + 2; i++)
        for (u32 left = t.start[i]; left; left &= left - 1) *to++ = t.marks[i * 32 + (u32)__ffs(left) - 1];
}

// Ends that lines gave to earlier tokens.
__device__ void write_closers(const Tile& t, const LexBatch& b) {
    for (u32 i = threadIdx.x; i < min(t.closed, MOST_CLOSERS); i += THREADS) {
        const u32 at = t.closers[i] & 0xffff, behind = at + (t.closers[i] >> 16), source = source_at(t, at);
        const u32 to = atomicAdd(&b.counts[COUNT_CLOSERS], 1);
        if (to >= b.list_cap) break;
        b.closers[4 * to] = rank(t.start, t.start_before, at);
        b.closers[4 * to + 1] = t.number * TILE + behind - b.source_starts[source];
        b.closers[4 * to + 2] = source;
        b.closers[4 * to + 3] = t.number;
    }
}

extern "C" __global__ void __launch_bounds__(256, 6) parse_lex(LexBatch b) {
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
    write_closers(t, b);
}
