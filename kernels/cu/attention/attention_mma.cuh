// Attention on tensor cores (mma.sync, from sm_80 on). On older devices the kernels are empty.

#pragma once
#include "attention/attention.cuh"
#include "attention/online_softmax.cuh"
#include "common/mma.cuh"

// attention_mma_{D}, attention_mma_{D}_long: attention (see attention.cuh) for heads padded to D = 32, 64 or 128 columns, of
// sequences of at most 64 tokens and of longer ones. Queries, keys, values and probabilities are binary16 even in bfloat16 models:
// they fit its range, and its three extra bits matter where scores amplify rounding errors. The output is bfloat16 with
// `out_bf16`.
// A block processes a work item and head, or for short sequences an item and 2 or 4 heads; a warp has 16 or 32
// queries. Keys and values are in shared memory, 64 rows at a time; those of longer sequences are loaded two steps ahead. Scores
// and accumulators are f32, with online softmax.
//   MMA_THREADS threads; dynamic shared memory: mma_kv_bytes(D), and MMA_KV_STAGES times as much for longer sequences
static_assert(MMA_THREADS == 128, "four warps, of 16 or 32 queries each");
static_assert(WHOLE_SEQUENCE == 64 && LONG_QUERIES % (2 * 64) == 0, "keys and values of 64 rows at a time");

#if __CUDA_ARCH__ >= 800

// The swizzled shared-memory offset of a 16-byte chunk of one of 64 rows: free of bank conflicts for 8 consecutive rows.
template <int D>
__device__ __forceinline__ u32 smem_offset(u32 row, u32 chunk) {
    if (D == 32) return row * 64 + ((chunk ^ (row / 2 & 3)) << 4);
    return chunk / 8 * 8192 + row * 128 + ((chunk % 8 ^ (row & 7)) << 4);
}

// A warp's tile: 16 M queries of a head, and the first row of its keys among the 64 in shared memory.
struct QueryTile {
    u32 start, length; // of the text
    u32 head, query, first_row;
};

// Starts to load keys and values of a short sequence: the rows of 4 / W heads from `head`. Rows past the end repeat the last row.
template <int D, int W>
__device__ __forceinline__ void load_short_kv(const AttentionParams& params, const QueryTile& tile, u32 head, u32 keys, u32 values) {
    constexpr u32 CHUNKS = D / 8, SIZE = 16 * W;
#pragma unroll
    for (u32 at = threadIdx.x; at < 64 * CHUNKS; at += MMA_THREADS) {
        const u32 row = at / CHUNKS, chunk = at % CHUNKS;
        const u32 mine = W == 4 ? head : min(head + row / SIZE, params.heads - 1);
        const u32 token = min(row % SIZE, tile.length - 1);
        const u32 column = (params.heads + mine / params.group_size) * CHUNKS + chunk;
        const u32 to = smem_offset<D>(row, chunk);
        cp_async(keys + to, params.qkv + chunk_offset(tile.start + token, column, params.tiles_per_row));
        cp_async(values + to, params.qkv + chunk_offset(tile.start + token, column + params.kv_heads * CHUNKS, params.tiles_per_row));
    }
    cp_async_commit();
}

// A thread's copies of a sequence's rows to shared memory, 16 bytes each. The rows of all copies are equal modulo 8, and so is their
// swizzle.
template <int D>
struct RowCopies {
    // Rows that the threads copy at once.
    static constexpr u32 CHUNKS = D / 8, ROWS = MMA_THREADS / CHUNKS;
    const u8* qkv;
    u64 row_tile_bytes;
    u32 start, length, first_row, chunk, to;

    __device__ __forceinline__ RowCopies(const AttentionParams& params, u32 start, u32 length)
        : qkv(params.qkv), row_tile_bytes((u64)params.tiles_per_row * TILE_BYTES), start(start), length(length),
          first_row(threadIdx.x / CHUNKS), chunk(threadIdx.x % CHUNKS), to(smem_offset<D>(first_row, chunk)) {}

    // The thread's part of a head, which is at `column` chunks of a row.
    __device__ __forceinline__ const u8* head(u32 column) const {
        const u32 at = column + chunk;
        return qkv + (u64)(at / 8) * TILE_BYTES + ((at % 8 ^ (start + first_row & 7)) << 4);
    }

    // Starts to load 64 rows from `token`, a multiple of 8, of HEADS heads; rows past the end are zeros.
    template <int HEADS>
    __device__ __forceinline__ void load(const u8* const (&heads)[HEADS], u32 token, const u32 (&shared)[HEADS]) const {
        constexpr u32 COPY_BYTES = ROWS * (D == 32 ? 64 : 128);
#pragma unroll
        for (u32 i = 0; i < 64 / ROWS; i++) {
            const u32 mine = token + first_row + i * ROWS, row = start + mine;
            const u64 offset = row / TILE_ROWS * row_tile_bytes + row % TILE_ROWS * 128;
#pragma unroll
            for (u32 h = 0; h < HEADS; h++) cp_async_or_zero(shared[h] + to + i * COPY_BYTES, heads[h] + offset, mine < length ? 16 : 0);
        }
    }
};

// The state of a warp with 16 M queries: query fragments, output accumulators, and running maximum and sum of a lane's 2 M rows.
template <int D, int M>
struct MmaState {
    u32 queries[M][D / 16][4];
    float acc[M][D / 8][4];
    float row_max[M][2], row_sum[M][2];
};

template <int D, int M>
__device__ __forceinline__ void init(MmaState<D, M>& state) {
#pragma unroll
    for (u32 m = 0; m < M; m++) {
#pragma unroll
        for (u32 h = 0; h < 2; h++) {
            state.row_max[m][h] = -INFINITY;
            state.row_sum[m][h] = 0.0f;
        }
#pragma unroll
        for (u32 i = 0; i < D / 8; i++) {
#pragma unroll
            for (u32 e = 0; e < 4; e++) state.acc[m][i][e] = 0.0f;
        }
    }
}

// Loads the queries of a short sequence; rows past the end repeat the last row.
template <int D>
__device__ __forceinline__ void load_short_queries(MmaState<D, 1>& state, const AttentionParams& params, const QueryTile& tile) {
    const u32 lane = threadIdx.x & 31;
#pragma unroll
    for (u32 h = 0; h < 2; h++) {
        const u32 row = tile.start + min(tile.query + lane / 4 + 8 * h, tile.length - 1);
#pragma unroll
        for (u32 k = 0; k < D / 16; k++) {
#pragma unroll
            for (u32 half = 0; half < 2; half++) {
                const u64 at = chunk_offset(row, tile.head * (D / 8) + 2 * k + half, params.tiles_per_row) + lane % 4 * 4;
                state.queries[0][k][2 * half + h] = *(const u32*)(params.qkv + at);
            }
        }
    }
}

// Whether all of 16 queries from `query` attend to all of `count` keys from `key`.
__device__ __forceinline__ bool all_visible(const AttentionParams& params, const QueryTile& tile, u32 query, u32 key, u32 count) {
    const u32 last = key + count - 1;
    return last < tile.length && (!params.causal || last <= query) &&
           (params.window == NO_WINDOW || (query + 15 <= key + params.window && last <= query + params.window));
}

// Turns products of 16 queries and keys into base-2 scores: scaled, biased, and minus infinity where masked.
template <int TILES>
__device__ __forceinline__ void bias_and_mask(float (&scores)[TILES][4], const AttentionParams& params, const QueryTile& tile, u32 query, u32 key) {
    const u32 lane = threadIdx.x & 31;
    const float scale = params.scale * LOG2_E;
    const bool biased = params.slopes || params.relative_bias;
    if (!biased && !params.causal && params.window == NO_WINDOW) {
        // Only the end of the sequence masks keys.
        const int left = (int)(tile.length - key) - (int)(lane % 4 * 2);
#pragma unroll
        for (int j = 0; j < TILES; j++) {
#pragma unroll
            for (int e = 0; e < 4; e++) scores[j][e] = 8 * j + e % 2 < left ? scores[j][e] * scale : -INFINITY;
        }
        return;
    }
#pragma unroll
    for (u32 j = 0; j < TILES; j++) {
#pragma unroll
        for (u32 e = 0; e < 4; e++) {
            float& score = scores[j][e];
            const u32 from = query + lane / 4 + 8 * (e / 2), to = key + 8 * j + lane % 4 * 2 + e % 2;
            score *= scale;
            if (!is_visible(params, from, to, tile.length)) score = -INFINITY;
            else if (biased && from < tile.length) score = fmaf(attention_bias(params, tile.head, from, to), LOG2_E, score);
        }
    }
}

// Attends to 16 W keys and values from `key`.
template <int D, int W, int M>
__device__ __forceinline__ void attend_kv(MmaState<D, M>& state, const AttentionParams& params, const QueryTile& tile, u32 key, u32 keys, u32 values) {
    const u32 lane = threadIdx.x & 31;
    float scores[M][2 * W][4] = {};
#pragma unroll
    for (u32 k = 0; k < D / 16; k++) {
#pragma unroll
        for (u32 n = 0; n < W; n++) {
            u32 b[4];
            ldmatrix_x4(b, keys + smem_offset<D>(tile.first_row + 16 * n + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
#pragma unroll
            for (u32 m = 0; m < M; m++) {
                MmaF16::mma(scores[m][2 * n], state.queries[m][k], b[0], b[1]);
                MmaF16::mma(scores[m][2 * n + 1], state.queries[m][k], b[2], b[3]);
            }
        }
    }
#pragma unroll
    for (u32 m = 0; m < M; m++) {
        const u32 query = tile.query + 16 * m;
        const bool plain = !params.slopes && !params.relative_bias && all_visible(params, tile, query, key, 16 * W);
        if (!plain) bias_and_mask<2 * W>(scores[m], params, tile, query, key);
        online_softmax(scores[m], state.acc[m], state.row_max[m], state.row_sum[m], plain ? params.scale * LOG2_E : 1.0f);
    }
#pragma unroll
    for (u32 n = 0; n < W; n++) {
        u32 a[M][4];
#pragma unroll
        for (u32 m = 0; m < M; m++) {
#pragma unroll
            for (u32 i = 0; i < 4; i++) {
                const float* pair = &scores[m][2 * n + i / 2][i % 2 * 2];
                a[m][i] = f32_to_f16x2(pair[0], pair[1]);
            }
        }
#pragma unroll
        for (u32 i = 0; i < D / 16; i++) {
            u32 b[4];
            ldmatrix_x4_trans(b, values + smem_offset<D>(tile.first_row + 16 * n + lane % 16, 2 * i + lane / 16));
#pragma unroll
            for (u32 m = 0; m < M; m++) {
                MmaF16::mma(state.acc[m][2 * i], a[m], b[0], b[1]);
                MmaF16::mma(state.acc[m][2 * i + 1], a[m], b[2], b[3]);
            }
        }
    }
}

// Writes 16 bytes a lane.
template <int D, int M>
__device__ __forceinline__ void store_output(const MmaState<D, M>& state, const AttentionParams& params, const QueryTile& tile) {
    const u32 lane = threadIdx.x & 31;
#pragma unroll
    for (u32 m = 0; m < M; m++) {
#pragma unroll
        for (u32 h = 0; h < 2; h++) {
            float row_sum = state.row_sum[m][h];
            row_sum += __shfl_xor_sync(FULL_WARP, row_sum, 1);
            row_sum += __shfl_xor_sync(FULL_WARP, row_sum, 2);
            const u32 query = tile.query + 16 * m + lane / 4 + 8 * h;
            const float factor = 1.0f / row_sum;
#pragma unroll
            for (u32 i = 0; i < D / 8; i += 4) {
                u32 words[4];
#pragma unroll
                for (u32 j = 0; j < 4; j++) {
                    const float low = state.acc[m][i + j][2 * h] * factor, high = state.acc[m][i + j][2 * h + 1] * factor;
                    words[j] = params.out_bf16 ? f32_to_bf16x2(low, high) : f32_to_f16x2(low, high);
                }
                transpose_quad(words);
                if (query >= tile.length) continue;
                u8* to = params.out + chunk_offset(tile.start + query, tile.head * (D / 8) + i + lane % 4, params.out_tiles_per_row);
                *(uint4*)to = make_uint4(words[0], words[1], words[2], words[3]);
            }
        }
    }
}

// The logical index of a block.
__device__ __forceinline__ u32 block_index(const AttentionParams& params) {
    return params.reverse ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
}

// A sequence of at most 16 W tokens, 4 / W heads from `head`.
template <int D, int W>
__device__ __forceinline__ void attend_short_sequence(const AttentionParams& params, u32 text, u32 head, u32 keys, u32 values) {
    const u32 warp = threadIdx.x / 32, start = params.cu_seqlens[text];
    const QueryTile tile = {start, params.cu_seqlens[text + 1] - start, head + warp / W, warp % W * 16, warp / W * 16 * W};
    griddepcontrol_wait();
    load_short_kv<D, W>(params, tile, head, keys, values);
    const bool some = tile.head < params.heads && tile.query < tile.length;
    MmaState<D, 1> state;
    init(state);
    if (some) load_short_queries(state, params, tile);
    cp_async_wait<0>();
    __syncthreads();
    if (!some) return;
    attend_kv<D, W, 1>(state, params, tile, 0, keys, values);
    store_output(state, params, tile);
}

// The keys that some of `count` queries from `query` attend to: from a multiple of 64 to before the second.
__device__ __forceinline__ uint2 visible_keys(const AttentionParams& params, u32 query, u32 count, u32 length) {
    u32 first = 0, last = length;
    if (params.window != NO_WINDOW) {
        first = query > params.window ? (query - params.window) / 64 * 64 : 0;
        last = min(last, min(query + count - 1, length) + min(params.window, length) + 1);
    }
    if (params.causal) last = min(last, query + count);
    return make_uint2(first, last);
}

// The queries of a warp, whose rows start at `row` of the tiles of 64 in shared memory.
template <int D, int M>
__device__ __forceinline__ void read_queries(MmaState<D, M>& state, u32 queries, u32 row) {
    const u32 lane = threadIdx.x & 31;
#pragma unroll
    for (u32 m = 0; m < M; m++) {
        const u32 mine = row + 16 * m + lane % 16, tile = queries + mine / 64 * (128 * D);
#pragma unroll
        for (u32 k = 0; k < D / 16; k++) ldmatrix_x4(state.queries[m][k], tile + smem_offset<D>(mine % 64, 2 * k + lane / 16));
    }
}

// Keys and values of a head in stages of shared memory.
template <int D>
struct KvStages {
    static constexpr u32 COUNT = MMA_KV_STAGES, BYTES = 128 * D;
    static_assert(2 * BYTES == mma_kv_bytes(D), "the launch allocates another size");
    const RowCopies<D>& copies;
    const u8* heads[2];
    u32 shared, last_key;

    __device__ __forceinline__ u32 keys(u32 stage) const { return shared + stage * (2 * BYTES); }
    __device__ __forceinline__ u32 values(u32 stage) const { return keys(stage) + BYTES; }

    // Starts to load 64 keys from `key`, if there are any.
    __device__ __forceinline__ void load(u32 key, u32 stage) const {
        const u32 to[2] = {keys(stage), values(stage)};
        if (key < last_key) copies.load(heads, key, to);
        cp_async_commit();
    }
};

// 64 M queries of a sequence and head, from `query`. The queries are loaded to the last stage, which is the last to be filled.
template <int D, int M>
__device__ __forceinline__ void attend_query_tile(const AttentionParams& params, u32 start, u32 length, u32 query, u32 head, u32 shared) {
    constexpr u32 CHUNKS = D / 8, STAGES = KvStages<D>::COUNT;
    const RowCopies<D> copies(params, start, length);
    const u32 key_column = (params.heads + head / params.group_size) * CHUNKS;
    const uint2 keys = visible_keys(params, query, 64 * M, length);
    const KvStages<D> stages = {copies, {copies.head(key_column), copies.head(key_column + params.kv_heads * CHUNKS)}, shared, keys.y};
    const u32 queries = stages.keys(STAGES - 1);
    const u8* const query_head[1] = {copies.head(head * CHUNKS)};
#pragma unroll
    for (u32 part = 0; part < M; part++) {
        const u32 to[1] = {queries + part * (128 * D)};
        copies.load(query_head, query + 64 * part, to);
    }
    stages.load(keys.x, 0);
    stages.load(keys.x + 64, 1);
    cp_async_wait<1>();
    __syncthreads();
    const u32 warp_row = threadIdx.x / 32 * (16 * M);
    const QueryTile tile = {start, length, head, query + warp_row, 0};
    MmaState<D, M> state;
    init(state);
    read_queries(state, queries, warp_row);
    u32 stage = 0;
    for (u32 key = keys.x; key < keys.y; key += 64) {
        cp_async_wait<1>();
        // The stage is loaded, and all warps have read the one before it, or the queries: it is loaded next.
        __syncthreads();
        stages.load(key + 128, stage == 0 ? STAGES - 1 : stage - 1);
        if (tile.query < length) attend_kv<D, 4, M>(state, params, tile, key, stages.keys(stage), stages.values(stage));
        stage = stage + 1 == STAGES ? 0 : stage + 1;
    }
    if (tile.query < length) store_output(state, params, tile);
    // The next queries are loaded over the keys and values.
    cp_async_wait<0>();
    __syncthreads();
}

// Sequences of more than 64 tokens. Where registers allow it, a warp has two tiles of queries and so uses each load of keys and
// values twice.
template <int D>
__device__ __forceinline__ void attention_mma_long(const AttentionParams& params) {
    griddepcontrol_launch_and_wait();
    extern __shared__ __align__(128) u8 shared[];
    const u32 block = block_index(params), head = block % params.heads;
    const uint2 item = params.work_items[block / params.heads];
    const u32 start = params.cu_seqlens[item.x], length = params.cu_seqlens[item.x + 1] - start;
    constexpr u32 TILES = D < 128 ? 2 : 1;
#pragma unroll 1
    for (u32 query = item.y; query < min(item.y + LONG_QUERIES, length); query += 64 * TILES) {
        attend_query_tile<D, TILES>(params, start, length, query, head, smem_address(shared));
    }
}

// Sequences of at most 64 tokens. The batch is uploaded before the first launch of a pass; only the output of preceding grids is
// waited for.
template <int D>
__device__ __forceinline__ void attention_mma(const AttentionParams& params) {
    griddepcontrol_launch_dependents();
    extern __shared__ __align__(128) u8 shared[];
    const u32 keys = smem_address(shared), values = keys + KvStages<D>::BYTES;
    const u32 pairs = (params.heads + 1) / 2, fours = (params.heads + 3) / 4;
    const uint2* items = params.work_items + params.long_items;
    u32 block = block_index(params);
    if (block < params.whole_items * params.heads) {
        attend_short_sequence<D, WHOLE_SEQUENCE / 16>(params, items[block / params.heads].x, block % params.heads, keys, values);
        return;
    }
    block -= params.whole_items * params.heads;
    items += params.whole_items;
    if (block < params.middle_items * pairs) {
        attend_short_sequence<D, MIDDLE_SEQUENCE / 16>(params, items[block / pairs].x, block % pairs * 2, keys, values);
        return;
    }
    block -= params.middle_items * pairs;
    items += params.middle_items;
    attend_short_sequence<D, SHORT_SEQUENCE / 16>(params, items[block / fours].x, block % fours * 4, keys, values);
}

#else

template <int D>
__device__ __forceinline__ void attention_mma_long(const AttentionParams& params) {}

template <int D>
__device__ __forceinline__ void attention_mma(const AttentionParams& params) {}

#endif
