// lex_line_states: bitmaps over the text, where lines start, and each tile's state map.
//   see LexBatch; writes text_bits, line_bits, special_maps, tile_maps, carriage_returns, and flags of lone ones
// lex_scan_states: exclusive scan of tile_maps in place; writes counts.

#include "parse/line_states.cuh"

// Bits of a byte's class.
enum : u32 { IS_IDENTIFIER = 1, IS_STOP = 2, IS_NEWLINE = 4, IS_RETURN = 8 };

__device__ __forceinline__ u32 class_of(u32 c) {
    const bool stop = c == '\'' || c == '"' || c == '\\' || c == '\n' || c == '{' || c == '}' || c == '#';
    const u32 newline = c == '\n' ? IS_NEWLINE : c == '\r' ? IS_RETURN : 0;
    return (is_identifier_char(c) ? IS_IDENTIFIER : 0) | (stop ? IS_STOP : 0) | newline;
}

struct StateTile : Text {
    u8 classes[256];
    u32 words;  // up to the end of the last line that starts in the tile
};

// Cuts the halo after the tile's last line. One warp.
__device__ void find_end(StateTile& t) {
    const u32 lane = threadIdx.x & 31;
    u32 words = TILE_WORDS;
    if (byte_at(t, TILE - 1) != '\n') {
        bool found = false;
        for (; !found && words < SPAN_WORDS; words++)
            found = __ballot_sync(FULL_WARP, byte_at(t, words * 32 + lane) == '\n') != 0;
    }
    if (lane == 0) {
        t.words = words;
        t.identifier[words] = 0;
        t.stop[words] = t.newline[words] = ~0u;
    }
}

// Records carriage returns, and flags those without a line feed.
__device__ void note_carriage_returns(const StateTile& t, const LexBatch& b, u32 word) {
    const u32 source = source_at(t, word * 32), start = b.source_starts[source], len = b.source_lens[source];
    for (u32 at = word * 32; at < word * 32 + 32; at++) {
        if (byte_at(t, at) != '\r') continue;
        b.carriage_returns[source] = 1;
        if (byte_at(t, at + 1) != '\n' || t.number * TILE + at - start + 1 >= len) flag(b, source, FLAG_LONE_CARRIAGE_RETURN);
    }
}

// Classifies bytes into bitmaps, 32 per thread.
__device__ void classify(StateTile& t, const LexBatch& b) {
    for (u32 word = threadIdx.x; word < t.words; word += LEX_THREADS) {
        const uint4* from = (const uint4*)(t.text + FRONT) + 2 * word;
        const uint4 low = from[0], high = from[1];
        const u32 bytes[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        u32 part = 0, stop = 0, newline = 0, any = 0;
#pragma unroll
        for (u32 i = 0; i < 32; i++) {
            const u32 of = t.classes[bytes[i / 4] >> (8 * (i % 4)) & 255];
            part = __funnelshift_r(part, of, 1);
            stop = __funnelshift_r(stop, of >> 1, 1);
            newline = __funnelshift_r(newline, of >> 2, 1);
            any |= of;
        }
        t.identifier[word] = part;
        t.stop[word] = stop;
        t.newline[word] = newline;
        if (any & IS_RETURN && word < TILE_WORDS) note_carriage_returns(t, b, word);
    }
}

// Finds where lines start; a text that ends with a newline has an empty last line.
__device__ void find_lines(StateTile& t, const LexBatch& b) {
    const u32 word = threadIdx.x, source = source_at(t, word * 32), start = b.source_starts[source];
    const u32 place = t.number * TILE + word * 32, end = b.source_lens[source] + 1;
    const u8* front = t.text + FRONT;
    const u32 carry = word ? t.newline[word - 1] >> 31 : front[-1] == '\n';
    u32 mask = 0;
    if (place >= start && place - start < end) {
        const u32 left = end - (place - start);
        mask = left >= 32 ? ~0u : (1u << left) - 1;
    }
    const u32 first = place == start, lines = ((t.newline[word] << 1 | carry) & mask) | first;
    const bool joined = front[-2] == '\\' || (front[-2] == '\r' && front[-3] == '\\');
    t.line[word] = lines;
    t.special[word] = first | (word == 0 && carry && joined ? lines & 1 : 0);
}

// Marks the line of a position as special, if it starts in the tile.
__device__ void mark_line_of(StateTile& t, u32 at) {
    for (u32 word = min(at >> 5, TILE_WORDS - 1) + 1; word-- > 0;) {
        u32 lines = t.line[word];
        if (word == at >> 5) lines &= below(at) << 1 | 1;
        if (lines == 0) continue;
        atomicOr(&t.special[word], 1u << (31 - __clz(lines)));
        return;
    }
}

// Finds special lines: those with three quotes, or a backslash before the newline.
__device__ void find_special(StateTile& t) {
    for (u32 word = threadIdx.x; word < t.words; word += LEX_THREADS) {
        const u32 stop = t.stop[word] & ~t.newline[word], next_stop = t.stop[word + 1], next = t.newline[word + 1];
        const u32 newline = t.newline[word];
        const u32 triple = stop & __funnelshift_r(stop, next_stop, 1) & __funnelshift_r(stop, next_stop, 2);
        const u32 ends = stop & (__funnelshift_r(newline, next, 1) | __funnelshift_r(newline, next, 2));
        for (u32 left = triple | ends; left; left &= left - 1) {
            const u32 at = word * 32 + (u32)__ffs(left) - 1, c = byte_at(t, at), other = byte_at(t, at + 1);
            if (c == '\\' ? !(other == '\n' || (other == '\r' && byte_at(t, at + 2) == '\n'))
                          : !((c == '"' || c == '\'') && c == other && c == byte_at(t, at + 2)))
                continue;
            mark_line_of(t, at);
            if (c != '\\') continue;
            const u32 end = at + 2 + (other == '\r');
            if (end < TILE && has_bit(t.line, end)) set_bit(t.special, end);
        }
    }
}

// The state map of each special line; that of a source's first line is constant.
__device__ void map_special(StateTile& t, const LexBatch& b) {
    for (u32 i = threadIdx.x; i < t.specials * MAP_CLASSES; i += LEX_THREADS) {
        const u32 number = i / MAP_CLASSES, of = i % MAP_CLASSES;
        const u32 at = select(t.special, t.special_ranks, TILE_WORDS, number);
        const bool first = (at & 31) == 0 && starts_source(t, b, at);
        if (!first) atomicOr(&t.map[number], walk_line(t, at, of) << (4 * of));
        else if (of == 0) atomicOr(&t.map[number], walk_line(t, at, 0) * 0x11111u);
    }
}

// The state map of the whole tile. One warp.
__device__ u32 whole_map(const StateTile& t) {
    const u32 lane = threadIdx.x & 31, share = (t.specials + 31) / 32;
    const u32 from = min(lane * share, t.specials), end = min(from + share, t.specials);
    u32 all = MAP_IDENTITY;
    for (u32 i = from; i < end; i++) all = compose_maps(all, t.map[i]);
#pragma unroll
    for (u32 step = 1; step < 32; step <<= 1) {
        const u32 earlier = __shfl_up_sync(FULL_WARP, all, step);
        if (lane >= step) all = compose_maps(earlier, all);
    }
    return __shfl_sync(FULL_WARP, all, 31);
}

__device__ void write_bits(const StateTile& t, const LexBatch& b) {
    const u32 words = b.tiles * TILE_WORDS, word = threadIdx.x, to = t.number * TILE_WORDS + word;
    b.text_bits[to] = t.identifier[word];
    b.text_bits[words + to] = t.stop[word];
    b.text_bits[2 * words + to] = t.newline[word];
    b.line_bits[to] = t.line[word];
    b.line_bits[words + to] = t.special[word];
    for (u32 i = threadIdx.x; i < t.specials; i += LEX_THREADS) b.special_maps[t.number * MAX_SPECIAL + i] = t.map[i];
}

extern "C" __global__ void __launch_bounds__(LEX_THREADS) lex_line_states(LexBatch b) {
    __shared__ StateTile t;
    load_bytes(t, b);
    t.classes[threadIdx.x] = (u8)class_of(threadIdx.x);
    for (u32 i = threadIdx.x; i < MAX_SPECIAL; i += LEX_THREADS) t.map[i] = 0;
    __syncthreads();
    if (threadIdx.x < 32) find_end(t);
    __syncthreads();
    classify(t, b);
    __syncthreads();
    find_lines(t, b);
    __syncthreads();
    find_special(t);
    __syncthreads();
    count_lines(t);
    map_special(t, b);
    __syncthreads();
    write_bits(t, b);
    if (threadIdx.x >= 32) return;
    const u32 map = whole_map(t);
    if (threadIdx.x == 0) b.tile_maps[t.number] = t.lines | (u64)map << 32;
}

struct ComposeTiles {
    __device__ u64 operator()(u64 first, u64 second) const {
        const u32 lines = (u32)first + (u32)second;
        return lines | (u64)compose_maps((u32)(first >> 32), (u32)(second >> 32)) << 32;
    }
};

extern "C" __global__ void __launch_bounds__(LEX_WIDE_THREADS) lex_scan_states(LexBatch b) {
    __shared__ u64 scratch[33];
    const u64 total = array_exclusive_scan(b.tile_maps, b.tiles, (u64)MAP_IDENTITY << 32, scratch, ComposeTiles());
    if (threadIdx.x == 0) b.counts->lines = b.line_bases[b.sources] = (u32)total;
}
