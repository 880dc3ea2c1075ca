// Attention of 16-bit types on tensor cores (mma.sync, from sm_80 on): the schedule of FlashAttention-2 (Dao 2023).
//
// Defined before, in addition to what tensor/attention.cuh needs: Mma, with elements of the type; pack, two f32 to a pair of them; DIM and
// VALUE_DIM, the columns of queries and keys and of values, padded with zeros to multiples of 32; TILES, 1 or 2 tiles of 16 queries for each
// of the 4 warps; and IS_PARTIAL, whether a block computes a part of the keys only. Rows of operands are aligned to 16 bytes, and at most
// 2^24 elements apart.
//
// A warp has 16 TILES queries and all keys of a tile, so that a softmax stays within 4 lanes. Keys and values have one buffer each: values are
// copied while scores are computed, and the next keys while probabilities are used.
//   dynamic shared memory: mma_shared_bytes

#pragma once
#include "attention/online_softmax.cuh"
#include "common/mma.cuh"
#include "tensor/attention_tile.cuh"

constexpr u32 THREADS = MMA_THREADS;
constexpr u32 KEYS = MMA_ROWS;
constexpr u32 QUERIES = MMA_ROWS * TILES;
constexpr u32 WARP_QUERIES = 16 * TILES;
constexpr u32 QUERY_BYTES = QUERIES * 2 * (DIM > VALUE_DIM ? DIM : VALUE_DIM);
constexpr u32 KEY_BYTES = KEYS * 2 * DIM;
static_assert(MMA_ROWS == 16 * (THREADS / 32), "a tile of 16 queries for each warp");
static_assert(QUERY_BYTES + KEY_BYTES + KEYS * 2 * VALUE_DIM == mma_shared_bytes(TILES, DIM > VALUE_DIM ? DIM : VALUE_DIM, DIM, VALUE_DIM),
              "the launch allocates another size");
static_assert(COMBINE_ROWS == THREADS / 32, "a warp combines a row");

#if __CUDA_ARCH__ >= 800

// Fragments of queries that fit the registers are read once.
constexpr bool KEEPS_QUERIES = DIM * TILES <= 128;

// The address of a fragment's chunk and row: `chunk` is even, `row` a multiple of 16, and `base` that of the lane in the first fragment of
// a tile that is aligned to 128 bytes.
template <u32 COLUMNS, u32 ROWS>
__device__ __forceinline__ u32 fragment_address(u32 base, u32 row, u32 chunk) {
    constexpr u32 WIDTH = COLUMNS % 64 == 0 ? 8 : 4;
    return (base ^ chunk % WIDTH << 4) + chunk / WIDTH * (ROWS * WIDTH * 16) + row * (WIDTH * 16);
}

// Starts to copy `rows` rows of `columns` columns, with zeros up to ROWS and COLUMNS.
template <u32 COLUMNS, u32 ROWS>
__device__ __forceinline__ void load_tile(const Element* from, int stride, int rows, u32 columns, u32 to) {
    constexpr u32 CHUNKS = COLUMNS / 8;
#pragma unroll
    for (u32 i = 0; i < ROWS * CHUNKS / THREADS; i++) {
        u32 row, chunk;
        if constexpr (THREADS % CHUNKS == 0) {
            row = threadIdx.x / CHUNKS + i * (THREADS / CHUNKS);
            chunk = threadIdx.x % CHUNKS;
        } else {
            row = (threadIdx.x + i * THREADS) / CHUNKS;
            chunk = (threadIdx.x + i * THREADS) % CHUNKS;
        }
        const bool is_inside = (int)row < rows && 8 * chunk < columns;
        const u32 bytes = is_inside ? 2 * min(columns - 8 * chunk, 8u) : 0;
        const int at = is_inside ? (int)row * stride + (int)(8 * chunk) : 0;
        cp_async_or_zero(to + tile_offset<COLUMNS, ROWS>(row, chunk), from + at, bytes);
    }
}

// The state of a warp: accumulated values, and maximum and sum of a lane's 2 TILES rows; and the fragments of its queries if they are kept.
struct MmaState {
    u32 queries[KEEPS_QUERIES ? TILES : 1][KEEPS_QUERIES ? DIM / 16 : 1][4];
    float acc[TILES][VALUE_DIM / 8][4];
    float row_max[TILES][2], row_sum[TILES][2];
};

// 16 queries of a warp and 16 of their columns.
__device__ __forceinline__ void load_query_fragment(u32 (&to)[4], u32 queries, u32 tile, u32 k) {
    ldmatrix_x4(to, fragment_address<DIM, QUERIES>(queries, 16 * tile, 2 * k));
}

__device__ __forceinline__ void keep_queries(MmaState& state, u32 queries) {
    if constexpr (KEEPS_QUERIES) {
#pragma unroll
        for (u32 m = 0; m < TILES; m++) {
#pragma unroll
            for (u32 k = 0; k < DIM / 16; k++) load_query_fragment(state.queries[m][k], queries, m, k);
        }
    }
}

// Products of queries and keys.
__device__ __forceinline__ void multiply_keys(float (&scores)[TILES][KEYS / 8][4], const MmaState& state, u32 queries, u32 keys) {
#pragma unroll
    for (u32 k = 0; k < DIM / 16; k++) {
        u32 a[TILES][4];
#pragma unroll
        for (u32 m = 0; m < TILES; m++) {
            if constexpr (KEEPS_QUERIES) {
#pragma unroll
                for (u32 i = 0; i < 4; i++) a[m][i] = state.queries[m][k][i];
            } else {
                load_query_fragment(a[m], queries, m, k);
            }
        }
#pragma unroll
        for (u32 n = 0; n < KEYS / 16; n++) {
            u32 b[4];
            ldmatrix_x4(b, fragment_address<DIM, KEYS>(keys, 16 * n, 2 * k));
#pragma unroll
            for (u32 m = 0; m < TILES; m++) {
                Mma::mma(scores[m][2 * n], a[m], b[0], b[1]);
                Mma::mma(scores[m][2 * n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

// Adds the values, weighted by the probabilities.
__device__ __forceinline__ void multiply_values(MmaState& state, const float (&probabilities)[TILES][KEYS / 8][4], u32 values) {
#pragma unroll
    for (u32 n = 0; n < KEYS / 16; n++) {
        u32 a[TILES][4];
#pragma unroll
        for (u32 m = 0; m < TILES; m++) {
#pragma unroll
            for (u32 i = 0; i < 4; i++) {
                const float* pair = &probabilities[m][2 * n + i / 2][i % 2 * 2];
                a[m][i] = pack(pair[0], pair[1]);
            }
        }
#pragma unroll
        for (u32 i = 0; i < VALUE_DIM / 16; i++) {
            u32 b[4];
            ldmatrix_x4_trans(b, fragment_address<VALUE_DIM, KEYS>(values, 16 * n, 2 * i));
#pragma unroll
            for (u32 m = 0; m < TILES; m++) {
                Mma::mma(state.acc[m][2 * i], a[m], b[0], b[1]);
                Mma::mma(state.acc[m][2 * i + 1], a[m], b[2], b[3]);
            }
        }
    }
}

// Turns products of keys from `key` with queries from `query`, those of the warp's tiles, into probabilities.
__device__ __forceinline__ void mma_softmax(float (&scores)[TILES][KEYS / 8][4], MmaState& state, const Attention& attention, const Head& head,
                                            int query, int key, float scale) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (u32 m = 0; m < TILES; m++) {
        const int first = query + 16 * (int)m;
        // A maximum of products is one of scores only if the scale is positive.
        const bool is_plain = MASK == NO_MASK && scale > 0.0f && key + (int)KEYS <= end_of_keys(head, first + 1);
        if (!is_plain) {
#pragma unroll
            for (int j = 0; j < KEYS / 8; j++) {
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const int of_query = first + lane / 4 + 8 * (e / 2), of_key = key + 8 * j + lane % 4 * 2 + e % 2;
                    scores[m][j][e] = masked(attention, head, of_query, of_key, scores[m][j][e] * scale);
                }
            }
        }
        online_softmax(scores[m], state.acc[m], state.row_max[m], state.row_sum[m], is_plain ? scale : 1.0f);
    }
}

// Writes the results of a warp: whole chunks by way of shared memory, which no warp reads any more.
__device__ __forceinline__ void store_results(const MmaState& state, const Attention& attention, const Head& head, int query, u32 staging) {
    constexpr u32 CHUNKS = VALUE_DIM / 8;
    const u32 lane = threadIdx.x % 32, row = threadIdx.x / 32 * WARP_QUERIES;
#pragma unroll
    for (u32 m = 0; m < TILES; m++) {
#pragma unroll
        for (u32 h = 0; h < 2; h++) {
            const float factor = row_factor(state.row_sum[m][h]);
#pragma unroll
            for (u32 i = 0; i < CHUNKS; i++) {
                const u32 to = staging + tile_offset<VALUE_DIM, QUERIES>(row + 16 * m + lane / 4 + 8 * h, i) + lane % 4 * 4;
                store_shared(to, pack(state.acc[m][i][2 * h] * factor, state.acc[m][i][2 * h + 1] * factor));
            }
        }
    }
    __syncwarp();
    write_rows<VALUE_DIM, QUERIES>(attention, head, query, WARP_QUERIES, staging, row);
}

// Writes what a part of the keys contributes to the rows of a warp: accumulated values, and maximum and sum of each row.
__device__ __forceinline__ void store_part(const MmaState& state, const Attention& attention, const Head& head, int query, int part,
                                           u64 workspace) {
    const u32 lane = threadIdx.x % 32;
    const i64 rows = attention.rows;
#pragma unroll
    for (u32 m = 0; m < TILES; m++) {
#pragma unroll
        for (u32 h = 0; h < 2; h++) {
            const int of_query = query + (int)(16 * m + lane / 4 + 8 * h);
            if (of_query >= attention.queries) continue;
            const i64 row = (i64)part * rows + head.row + of_query;
            float* to = (float*)workspace + row * VALUE_DIM + lane % 4 * 2;
#pragma unroll
            for (u32 i = 0; i < VALUE_DIM / 8; i++) *(float2*)(to + 8 * i) = make_float2(state.acc[m][i][2 * h], state.acc[m][i][2 * h + 1]);
            float2* states = (float2*)((float*)workspace + attention.parts * rows * VALUE_DIM);
            if (lane % 4 == 0) states[row] = make_float2(state.row_max[m][h], state.row_sum[m][h]);
        }
    }
}

// Block (head, part, tile) of the grid, tiles varying first: QUERIES queries and `part_keys` keys of a head.
__device__ __forceinline__ void attention_mma(const Attention& attention, u64 workspace) {
    extern __shared__ __align__(128) u8 shared[];
    const u32 queries = smem_address(shared), keys = queries + QUERY_BYTES, values = keys + KEY_BYTES;
    const u32 tiles = ((u32)attention.queries + QUERIES - 1) / QUERIES, parts = IS_PARTIAL ? (u32)attention.parts : 1;
    const u32 tile = blockIdx.x % tiles, part = blockIdx.x / tiles % parts, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const Head head = head_of(attention, blockIdx.x / tiles / parts);
    // The longest rows of causal attention first.
    const int first = (int)((tiles - 1 - tile) * QUERIES), query = first + (int)(warp * WARP_QUERIES);
    const int start = IS_PARTIAL ? (int)part * (int)attention.part_keys : 0;
    int end = end_of_keys(head, first + QUERIES);
    if (IS_PARTIAL) end = min(end, start + (int)attention.part_keys);
    // A lane's addresses in the first fragments.
    const u32 lane_queries = queries + tile_offset<DIM, QUERIES>(warp * WARP_QUERIES + lane % 16, lane / 16);
    const u32 lane_keys = keys + tile_offset<DIM, KEYS>(lane / 16 * 8 + lane % 8, lane / 8 % 2);
    const u32 lane_values = values + tile_offset<VALUE_DIM, KEYS>(lane % 16, lane / 16);
    const float scale = base2_scale(attention);
    MmaState state;
#pragma unroll
    for (u32 m = 0; m < TILES; m++) {
#pragma unroll
        for (u32 h = 0; h < 2; h++) {
            state.row_max[m][h] = -INFINITY;
            state.row_sum[m][h] = 0.0f;
        }
#pragma unroll
        for (u32 i = 0; i < VALUE_DIM / 8; i++) {
#pragma unroll
            for (u32 e = 0; e < 4; e++) state.acc[m][i][e] = 0.0f;
        }
    }
    const u32 dim = (u32)attention.dim, value_dim = (u32)attention.value_dim;
    const int key_stride = (int)attention.key_strides[2], value_stride = (int)attention.value_strides[2];
    const Element* key_tile = head.key + (i64)start * key_stride;
    const Element* value_tile = head.value + (i64)start * value_stride;
    if (start < end) {
        const int stride = (int)attention.query_strides[2];
        load_tile<DIM, QUERIES>(head.query + (i64)first * stride, stride, (int)attention.queries - first, dim, queries);
        load_tile<DIM, KEYS>(key_tile, key_stride, head.keys - start, dim, keys);
        cp_async_commit();
    }
    for (int key = start; key < end; key += KEYS) {
        cp_async_wait<0>();
        __syncthreads();
        load_tile<VALUE_DIM, KEYS>(value_tile, value_stride, head.keys - key, value_dim, values);
        cp_async_commit();
        value_tile += (int)KEYS * value_stride;
        if (key == start) keep_queries(state, lane_queries);
        // In causal attention the last tiles may come after all queries of a warp.
        const bool is_visible = key < end_of_keys(head, query + (int)WARP_QUERIES);
        float scores[TILES][KEYS / 8][4] = {};
        if (is_visible) multiply_keys(scores, state, lane_queries, lane_keys);
        cp_async_wait<0>();
        __syncthreads();
        key_tile += (int)KEYS * key_stride;
        if (key + (int)KEYS < end) {
            load_tile<DIM, KEYS>(key_tile, key_stride, head.keys - key - (int)KEYS, dim, keys);
            cp_async_commit();
        }
        if (!is_visible) continue;
        mma_softmax(scores, state, attention, head, query, key, scale);
        multiply_values(state, scores, lane_values);
    }
#pragma unroll
    for (u32 m = 0; m < TILES; m++) {
#pragma unroll
        for (u32 h = 0; h < 2; h++) {
            float& row_sum = state.row_sum[m][h];
            row_sum += __shfl_xor_sync(FULL_WARP, row_sum, 1);
            row_sum += __shfl_xor_sync(FULL_WARP, row_sum, 2);
        }
    }
    if constexpr (IS_PARTIAL) {
        store_part(state, attention, head, query, (int)part, workspace);
    } else {
        __syncthreads();
        store_results(state, attention, head, query, queries);
    }
}

// Combines the parts of a row: a warp each.
__device__ __forceinline__ void attention_combine(const Attention& attention, u64 workspace) {
    const u32 lane = threadIdx.x % 32;
    const i64 rows = attention.rows, row = (i64)blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    if (row >= rows) return;
    const float* values = (const float*)workspace;
    const float2* states = (const float2*)(values + attention.parts * rows * VALUE_DIM);
    // At most as many parts as lanes.
    const float2 state = lane < attention.parts ? states[lane * rows + row] : make_float2(-INFINITY, 0.0f);
    const float row_max = warp_max(state.x);
    const float weight = state.x == -INFINITY ? 0.0f : exp2_approx(state.x - row_max);
    const float factor = row_factor(warp_sum(weight * state.y));
    Element* to = (Element*)attention.output + row * attention.value_dim;
    for (u32 base = 0; base < (u32)attention.value_dim; base += 32) {
        const u32 column = base + lane;
        float sum = 0.0f;
        for (u32 part = 0; part < attention.parts; part++) {
            const float part_weight = __shfl_sync(FULL_WARP, weight, part);
            sum = fmaf(part_weight, values[(part * rows + row) * VALUE_DIM + column], sum);
        }
        if (column < attention.value_dim) to[column] = narrow(sum * factor);
    }
}

#else

// Older devices run tensor/attention_simt.cuh.
__device__ __forceinline__ void attention_mma(const Attention&, u64) {}
__device__ __forceinline__ void attention_combine(const Attention&, u64) {}

#endif
