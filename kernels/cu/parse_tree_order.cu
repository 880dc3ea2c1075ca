// What comes before the tables: facts of lines, the order in which they are parsed, and afterwards where their rows go.

#include "parse_tree.cuh"
#include "parse_tree_scan.cuh"

// Units of more than SHORT_TOKENS tokens are parsed before all others, the longest first.
#define LONG_KEYS 32
// The others keep near each other what is near in memory: they are sorted among so many.
#define SLICE_BITS 16
// They are told apart by how they begin, too: the threads of a warp stay together longer.
#define BEGINNINGS 4
#define SHORT_KEYS (SHORT_TOKENS * BEGINNINGS)
// Fields that may be open at once in a line.
#define MOST_FIELDS 16

// tree_sources: what the lexer left to the CPU is left to it. One thread a source.
extern "C" __global__ void tree_sources(const __grid_constant__ TreeBatch batch) {
    const u32 source = blockIdx.x * blockDim.x + threadIdx.x;
    if (source >= batch.source_count) return;
    const u32 flags = batch.flags[source];
    batch.reasons[source] = flags ? BY_LEXER | flags << LEXER_SHIFT : 0;
}

// Marks the fields of a short line whose expression ends with `=`, and notes in each which token ends its expression.
__device__ bool mark_fields(const TreeBatch& batch, u32 first, u32 end, u32 token_base) {
    u32 open[MOST_FIELDS], depth = 0;
    for (u32 at = first; at < end; at++) {
        const u32 kind = batch.kinds[at];
        if (kind < TOKEN_FIELD_OPEN || (kind > TOKEN_FIELD_BANG && kind != TOKEN_DEBUG_OPEN)) continue;
        if (kind == TOKEN_FIELD_OPEN || kind == TOKEN_DEBUG_OPEN) {
            if (depth == MOST_FIELDS) return false;
            open[depth++] = at;
            continue;
        }
        if (depth == 0) return false;
        const u32 field = open[depth - 1];
        if (field != NONE) {
            batch.payloads[field] = at - token_base;
            if (batch.kinds[at - 1] == TOKEN_EQUAL) {
                // In the specification of a field that is in one itself it has no text.
                if (depth >= 3 && open[depth - 2] == NONE && open[depth - 3] == NONE) return false;
                batch.kinds[field] = TOKEN_DEBUG_OPEN;
            }
        }
        open[depth - 1] = NONE;
        if (kind == TOKEN_FIELD_CLOSE) depth -= 1;
    }
    return true;
}

// tree_lines: source, column and first terminal of each line, its fields, and the least columns of 32 and 1024 lines.
//   writes long_lines, too. One thread a line, 1024 a block.
extern "C" __global__ void __launch_bounds__(1024) tree_lines(const __grid_constant__ TreeBatch batch) {
    __shared__ u32 least[32];
    const u32 line = blockIdx.x * 1024 + threadIdx.x;
    u32 column = 0xffff;
    if (line < lines_of(batch)) {
        const u32 source = owner_of(batch.logical_bases, batch.source_count + 1, line);
        const u32 base = batch.token_bases[source];
        uint4 facts = make_uint4(0, 0, 0, 0);
        batch.line_sources[line] = source;
        if (!batch.flags[source]) {
            facts.x = base + batch.logical_firsts[line];
            facts.y = base + batch.logical_ends[line];
            facts.z = batch.logical_columns[line];
            facts.w = batch.logical_alternates[line];
            const bool is_long = facts.y - facts.x > SHORT_TOKENS;
            if (is_long) batch.long_lines[atomicAdd(&batch.counters[COUNT_LONG], 1u)] = line;
            const bool fits = is_long || mark_fields(batch, facts.x, facts.y, base);
            if (!fits || facts.z >= 0xffff) give_up(batch, source, BY_LENGTH);
            batch.firsts[line] = batch.kinds[facts.x];
        }
        column = min(facts.z, 0xfffeu);
        batch.columns[line] = (u16)column;
        batch.lines[line] = facts;
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) column = min(column, __shfl_xor_sync(FULL_WARP, column, step));
    if ((threadIdx.x & 31) == 0) {
        batch.least[line / 32] = (u16)column;
        least[threadIdx.x / 32] = column;
    }
    __syncthreads();
    if (threadIdx.x >= 32) return;
    column = least[threadIdx.x];
#pragma unroll
    for (int step = 16; step > 0; step /= 2) column = min(column, __shfl_xor_sync(FULL_WARP, column, step));
    if (threadIdx.x == 0) batch.least_of_least[blockIdx.x] = (u16)column;
}

// Where a unit of so many tokens, from a first one on, stands in the order.
__device__ __forceinline__ u32 key_of_tokens(const TreeBatch& batch, u32 item, u32 first, u32 tokens) {
    if (tokens > SHORT_TOKENS) return LONG_KEYS - 1 - min((tokens - 1) / 32, LONG_KEYS - 1u);
    u32 beginning = 0;
    if (batch.kinds[first] == TOKEN_NAME) {
        const u32 second = tokens > 1 ? batch.kinds[first + 1] : TOKEN_NAME;
        beginning = second == TOKEN_EQUAL ? 1 : second == TOKEN_DOT ? 2 : 3;
    }
    return LONG_KEYS + (item >> SLICE_BITS) * SHORT_KEYS + (SHORT_TOKENS - tokens) * BEGINNINGS + beginning;
}

// Where a line, or a unit of one that was cut, stands in the order, or NONE if it is not parsed.
__device__ __forceinline__ u32 key_of(const TreeBatch& batch, u32 item) {
    if (item >= batch.piece_base) {
        const u32 number = item - batch.piece_base;
        if (number >= min(batch.counters[COUNT_PIECES], batch.piece_cap)) return NONE;
        const Stretch& piece = batch.pieces[number];
        if (piece.unit != number || batch.reasons[batch.line_sources[piece.line]]) return NONE;
        return key_of_tokens(batch, item, piece.token, max(piece.count, 1u));
    }
    if (item >= lines_of(batch) || batch.reasons[batch.line_sources[item]]) return NONE;
    const uint4 facts = batch.lines[item];
    const u32 tokens = facts.y - facts.x;
    if (tokens > SHORT_TOKENS && batch.outcomes[item].y & LINE_CUT) return NONE;
    return key_of_tokens(batch, item, facts.x, tokens);
}

// The key among those of the block, whose lines are all of one slice.
__device__ __forceinline__ u32 local_key(u32 key) {
    return key < LONG_KEYS ? key : LONG_KEYS + (key - LONG_KEYS) % SHORT_KEYS;
}

__device__ __forceinline__ u32 global_key(u32 local) {
    const u32 slice = (blockIdx.x * 1024) >> SLICE_BITS;
    return local < LONG_KEYS ? local : local + slice * SHORT_KEYS;
}

// tree_count: how many lines and units each key has, added to zeros. One thread a line or piece, 1024 a block.
extern "C" __global__ void __launch_bounds__(1024) tree_count(const __grid_constant__ TreeBatch batch, u32* counts) {
    __shared__ u32 local[LONG_KEYS + SHORT_KEYS];
    for (u32 at = threadIdx.x; at < LONG_KEYS + SHORT_KEYS; at += blockDim.x) local[at] = 0;
    __syncthreads();
    const u32 key = key_of(batch, blockIdx.x * 1024 + threadIdx.x);
    if (key != NONE) atomicAdd(&local[local_key(key)], 1u);
    __syncthreads();
    for (u32 at = threadIdx.x; at < LONG_KEYS + SHORT_KEYS; at += blockDim.x) {
        if (local[at]) atomicAdd(&counts[global_key(at)], local[at]);
    }
}

// tree_starts: turns the counts of keys into where they start; the total goes behind them. One block.
extern "C" __global__ void __launch_bounds__(1024) tree_starts(u32* counts, u32 keys) {
    __shared__ u64 scratch[33];
    u64 before = 0, total;
    for (u32 tile = 0; tile < keys; tile += blockDim.x) {
        const u32 at = tile + threadIdx.x;
        const u32 count = at < keys ? counts[at] : 0;
        const u64 start = before + scan_block(count, scratch, total);
        if (at < keys) counts[at] = (u32)start;
        before += total;
    }
    if (threadIdx.x == 0) counts[keys] = (u32)before;
}

// tree_order: the lines and units by key. The order inside a key is any. One thread a line or piece, 1024 a block.
extern "C" __global__ void __launch_bounds__(1024) tree_order(const __grid_constant__ TreeBatch batch, u32* starts, u32* order) {
    __shared__ u32 local[LONG_KEYS + SHORT_KEYS];
    for (u32 at = threadIdx.x; at < LONG_KEYS + SHORT_KEYS; at += blockDim.x) local[at] = 0;
    __syncthreads();
    const u32 line = blockIdx.x * 1024 + threadIdx.x;
    const u32 key = key_of(batch, line);
    const u32 rank = key == NONE ? 0 : atomicAdd(&local[local_key(key)], 1u);
    __syncthreads();
    for (u32 at = threadIdx.x; at < LONG_KEYS + SHORT_KEYS; at += blockDim.x) {
        if (local[at]) local[at] = atomicAdd(&starts[global_key(at)], local[at]);
    }
    __syncthreads();
    if (key != NONE) order[local[local_key(key)] + rank] = line;
}

// Rows and values of a line; none where the CPU parses the source.
__device__ __forceinline__ u64 nodes_and_values(const TreeBatch& batch, u32 line) {
    if (batch.reasons[batch.line_sources[line]]) return 0;
    const Sizes sizes = sizes_of(batch, batch.outcomes[line]);
    return sizes.nodes | (u64)sizes.values << 32;
}

// tree_rows_sum, tree_rows_spread: how many rows and values stand before each line and behind the last.
//   writes bases
extern "C" __global__ void __launch_bounds__(SCAN_THREADS) tree_rows_sum(const __grid_constant__ TreeBatch batch, u64* sums) {
    sum_range(lines_of(batch), sums, [&](u32 line) { return nodes_and_values(batch, line); });
}

extern "C" __global__ void __launch_bounds__(SCAN_THREADS)
    tree_rows_spread(const __grid_constant__ TreeBatch batch, const u64* sums) {
    spread_range(
        lines_of(batch), sums, [&](u32 line) { return nodes_and_values(batch, line); },
        [&](u32 line, u64 before) { batch.bases[line] = make_uint2((u32)before, (u32)(before >> 32)); });
}
