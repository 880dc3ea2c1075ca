// Runs before the LR driver: facts of lines and the order in which units are parsed, by a counting sort; and afterwards
// the offsets of each line's rows.

#include "parse/tree.cuh"
#include "parse/scan.cuh"

// Classes of the first tokens of short units.
#define PREFIX_CLASSES (SHORT_KEYS / SHORT_TOKENS)
// The maximum of open replacement fields in a short line.
#define MAX_FIELDS 16

// tree_sources: initialises the fallback reasons from the lexer's flags. One thread per source.
extern "C" __global__ void tree_sources(const __grid_constant__ TreeBatch batch) {
    const u32 source = blockIdx.x * blockDim.x + threadIdx.x;
    if (source >= batch.source_count) return;
    const u32 flags = batch.flags[source];
    batch.reasons[source] = flags ? REASON_LEXER | flags << LEXER_SHIFT : 0;
}

// Stores in each replacement field of a short line the token that ends its expression, and marks those that end with
// `=`.
__device__ bool mark_fields(const TreeBatch& batch, u32 first, u32 end, u32 token_base) {
    u32 open[MAX_FIELDS], depth = 0;
    for (u32 at = first; at < end; at++) {
        const u32 kind = batch.kinds[at];
        if (kind < TOKEN_FIELD_OPEN || (kind > TOKEN_FIELD_BANG && kind != TOKEN_DEBUG_OPEN)) continue;
        if (kind == TOKEN_FIELD_OPEN || kind == TOKEN_DEBUG_OPEN) {
            if (depth == MAX_FIELDS) return false;
            open[depth++] = at;
            continue;
        }
        if (depth == 0) return false;
        const u32 field = open[depth - 1];
        if (field != NONE) {
            batch.payloads[field] = at - token_base;
            if (batch.kinds[at - 1] == TOKEN_EQUAL) {
                // `=` in a field nested in a format specification of a nested field has no text.
                if (depth >= 3 && open[depth - 2] == NONE && open[depth - 3] == NONE) return false;
                batch.kinds[field] = TOKEN_DEBUG_OPEN;
            }
        }
        open[depth - 1] = NONE;
        if (kind == TOKEN_FIELD_CLOSE) depth -= 1;
    }
    return true;
}

// tree_lines: source, column and first terminal of each line, its replacement fields, and the minimum columns of 32 and
// 1,024 lines.
//   also writes long_lines. One thread per line, 1,024 per block.
extern "C" __global__ void __launch_bounds__(LINE_THREADS) tree_lines(const __grid_constant__ TreeBatch batch) {
    __shared__ u32 least[32];
    const u32 line = blockIdx.x * BLOCK_LINES + threadIdx.x;
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
            if (!fits || facts.z >= 0xffff) fall_back(batch, source, REASON_LIMIT);
            batch.first_terminals[line] = batch.kinds[facts.x];
        }
        column = min(facts.z, 0xfffeu);
        batch.columns[line] = (u16)column;
        batch.lines[line] = facts;
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) column = min(column, __shfl_xor_sync(FULL_WARP, column, step));
    if ((threadIdx.x & 31) == 0) {
        batch.min_columns_32[line / 32] = (u16)column;
        least[threadIdx.x / 32] = column;
    }
    __syncthreads();
    if (threadIdx.x >= 32) return;
    column = least[threadIdx.x];
#pragma unroll
    for (int step = 16; step > 0; step /= 2) column = min(column, __shfl_xor_sync(FULL_WARP, column, step));
    if (threadIdx.x == 0) batch.min_columns_1024[blockIdx.x] = (u16)column;
}

// The sort key of a unit by its first tokens and their number.
__device__ __forceinline__ u32 unit_key(const TreeBatch& batch, u32 item, u32 first, u32 tokens) {
    if (tokens > SHORT_TOKENS) return LONG_KEYS - 1 - min((tokens - 1) / 32, LONG_KEYS - 1u);
    u32 prefix_class = 0;
    if (batch.kinds[first] == TOKEN_NAME) {
        const u32 second = tokens > 1 ? batch.kinds[first + 1] : TOKEN_NAME;
        prefix_class = second == TOKEN_EQUAL ? 1 : second == TOKEN_DOT ? 2 : 3;
    }
    return LONG_KEYS + (item >> SLICE_BITS) * SHORT_KEYS + (SHORT_TOKENS - tokens) * PREFIX_CLASSES + prefix_class;
}

// The sort key of a line or segment; NONE if it is no unit, or its source falls back.
__device__ __forceinline__ u32 sort_key(const TreeBatch& batch, u32 item) {
    if (item >= batch.segment_base) {
        const u32 number = item - batch.segment_base;
        if (number >= min(batch.counters[COUNT_SEGMENTS], batch.segment_cap)) return NONE;
        const Segment& segment = batch.segments[number];
        if (segment.unit != number || batch.reasons[batch.line_sources[segment.line]]) return NONE;
        return unit_key(batch, item, segment.token, max(segment.count, 1u));
    }
    if (item >= lines_of(batch) || batch.reasons[batch.line_sources[item]]) return NONE;
    const uint4 facts = batch.lines[item];
    const u32 tokens = facts.y - facts.x;
    if (tokens > SHORT_TOKENS && batch.outcomes[item].y & LINE_SPLIT) return NONE;
    return unit_key(batch, item, facts.x, tokens);
}

// Maps a key to the block's histogram: all items of a block are in one slice.
__device__ __forceinline__ u32 local_key(u32 key) {
    return key < LONG_KEYS ? key : LONG_KEYS + (key - LONG_KEYS) % SHORT_KEYS;
}

__device__ __forceinline__ u32 global_key(u32 local) {
    const u32 slice = (blockIdx.x * BLOCK_LINES) >> SLICE_BITS;
    return local < LONG_KEYS ? local : local + slice * SHORT_KEYS;
}

// tree_sort_count: histogram of keys, added to zeros. One thread per line or segment, 1,024 per block.
extern "C" __global__ void __launch_bounds__(LINE_THREADS) tree_sort_count(const __grid_constant__ TreeBatch batch, u32* counts) {
    __shared__ u32 local[LONG_KEYS + SHORT_KEYS];
    for (u32 at = threadIdx.x; at < LONG_KEYS + SHORT_KEYS; at += blockDim.x) local[at] = 0;
    __syncthreads();
    const u32 key = sort_key(batch, blockIdx.x * BLOCK_LINES + threadIdx.x);
    if (key != NONE) atomicAdd(&local[local_key(key)], 1u);
    __syncthreads();
    for (u32 at = threadIdx.x; at < LONG_KEYS + SHORT_KEYS; at += blockDim.x) {
        if (local[at]) atomicAdd(&counts[global_key(at)], local[at]);
    }
}

// tree_sort_scan: exclusive scan of the histogram in place; the total follows. One block.
extern "C" __global__ void __launch_bounds__(LINE_THREADS) tree_sort_scan(u32* counts, u32 keys) {
    __shared__ u64 scratch[33];
    u64 before = 0, total;
    for (u32 tile = 0; tile < keys; tile += blockDim.x) {
        const u32 at = tile + threadIdx.x;
        const u32 count = at < keys ? counts[at] : 0;
        const u64 start = before + block_exclusive_scan(count, scratch, total);
        if (at < keys) counts[at] = (u32)start;
        before += total;
    }
    if (threadIdx.x == 0) counts[keys] = (u32)before;
}

// tree_sort_scatter: the units by key, unordered within a key. One thread per line or segment, 1,024 per block.
extern "C" __global__ void __launch_bounds__(LINE_THREADS)
    tree_sort_scatter(const __grid_constant__ TreeBatch batch, u32* starts, u32* order) {
    __shared__ u32 local[LONG_KEYS + SHORT_KEYS];
    for (u32 at = threadIdx.x; at < LONG_KEYS + SHORT_KEYS; at += blockDim.x) local[at] = 0;
    __syncthreads();
    const u32 line = blockIdx.x * BLOCK_LINES + threadIdx.x;
    const u32 key = sort_key(batch, line);
    const u32 rank = key == NONE ? 0 : atomicAdd(&local[local_key(key)], 1u);
    __syncthreads();
    for (u32 at = threadIdx.x; at < LONG_KEYS + SHORT_KEYS; at += blockDim.x) {
        if (local[at]) local[at] = atomicAdd(&starts[global_key(at)], local[at]);
    }
    __syncthreads();
    if (key != NONE) order[local[local_key(key)] + rank] = line;
}

// Rows and values of a line; none if its source falls back.
__device__ __forceinline__ u64 line_sizes(const TreeBatch& batch, u32 line) {
    if (batch.reasons[batch.line_sources[line]]) return 0;
    const Sizes sizes = sizes_of(batch, batch.outcomes[line]);
    return sizes.nodes | (u64)sizes.values << 32;
}

// tree_rows_reduce, tree_rows_scan: rows and values before each line, and one past the last.
//   writes bases
extern "C" __global__ void __launch_bounds__(SCAN_THREADS)
    tree_rows_reduce(const __grid_constant__ TreeBatch batch, u64* sums) {
    reduce_range(lines_of(batch), sums, [&](u32 line) { return line_sizes(batch, line); });
}

extern "C" __global__ void __launch_bounds__(SCAN_THREADS)
    tree_rows_scan(const __grid_constant__ TreeBatch batch, const u64* sums) {
    scan_range(
        lines_of(batch), sums, [&](u32 line) { return line_sizes(batch, line); },
        [&](u32 line, u64 before) { batch.bases[line] = make_uint2((u32)before, (u32)(before >> 32)); });
}
