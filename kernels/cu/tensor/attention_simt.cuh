// Attention on the general-purpose cores, in exact f32: the schedule of FlashAttention (Dao et al. 2022).
//
// Defined before, in addition to what tensor/attention.cuh needs: DIM, the columns of queries, keys and values, padded with zeros to 64, 128
// or 256; QUERIES and KEYS, the rows of a block's tiles, 16 of threads by 4 rows or more each; and VEC, the elements that are read at once.

#pragma once
#include "tensor/attention.cuh"
#include "tensor/pack.cuh"

constexpr int SIDE = SIMT_SIDE;      // threads that share 4 rows of queries
constexpr int THREADS = QUERIES / 4 * SIDE;
constexpr int PITCH = DIM + 4;       // of a row in shared memory: a multiple of 16 bytes that spreads rows over the banks
constexpr int SCORE_PITCH = KEYS + 4;
constexpr int PER_ROW = KEYS / SIDE; // scores of a thread in a row
constexpr int GROUPS = DIM / (4 * SIDE);
static_assert(sizeof(float) * ((QUERIES + KEYS) * PITCH + QUERIES * SCORE_PITCH) == simt_shared_bytes(QUERIES, KEYS, DIM),
              "the launch allocates another size");

// Copies `rows` rows of `columns` columns to `to`, with zeros up to ROWS and DIM.
template <int ROWS>
__device__ __forceinline__ void stage(const Element* from, i64 stride, int rows, int columns, float* to) {
    for (int at = threadIdx.x; at < ROWS * (DIM / VEC); at += THREADS) {
        const int row = at / (DIM / VEC), column = at % (DIM / VEC) * VEC;
        Pack<Element, VEC> pack = {};
        if (row < rows && column < columns) pack = Pack<Element, VEC>::load(from + row * stride + column);
#pragma unroll
        for (int e = 0; e < VEC; e++) to[row * PITCH + column + e] = widen(pack.at[e]);
    }
}

__device__ __forceinline__ float dot4(float4 a, float4 b, float sum) {
    return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

__device__ __forceinline__ void add_scaled(float (&sum)[4], float scale, float4 x) {
    sum[0] = fmaf(scale, x.x, sum[0]);
    sum[1] = fmaf(scale, x.y, sum[1]);
    sum[2] = fmaf(scale, x.z, sum[2]);
    sum[3] = fmaf(scale, x.w, sum[3]);
}

// Rows of queries of one thread, from `first`; a row is shared by SIDE lanes.
struct SimtState {
    float acc[4][GROUPS][4], row_max[4], row_sum[4];
};

// The scores of 4 rows with every SIDE-th key.
__device__ __forceinline__ void simt_scores(const float* queries, const float* keys, int dim, float (&scores)[4][PER_ROW]) {
    const int x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
#pragma unroll 4
    for (int d = 0; d < dim; d += 4) {
        float4 key[PER_ROW];
#pragma unroll
        for (int j = 0; j < PER_ROW; j++) key[j] = *(const float4*)(keys + (x + SIDE * j) * PITCH + d);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float4 query = *(const float4*)(queries + (4 * y + i) * PITCH + d);
#pragma unroll
            for (int j = 0; j < PER_ROW; j++) scores[i][j] = dot4(query, key[j], scores[i][j]);
        }
    }
}

// Turns base-2 scores into probabilities, which go to shared memory.
__device__ __forceinline__ void simt_softmax(float (&scores)[4][PER_ROW], SimtState& state, float* probabilities) {
    const int x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float new_max = state.row_max[i];
#pragma unroll
        for (int j = 0; j < PER_ROW; j++) new_max = fmaxf(new_max, scores[i][j]);
#pragma unroll
        for (int step = SIDE / 2; step > 0; step >>= 1) new_max = fmaxf(new_max, __shfl_xor_sync(FULL_WARP, new_max, step));
        // A fully masked row has no maximum yet; any finite one serves.
        const float from = new_max == -INFINITY ? 0.0f : new_max, correction = exp2_approx(state.row_max[i] - from);
        float sum = 0.0f;
#pragma unroll
        for (int j = 0; j < PER_ROW; j++) {
            const float probability = exp2_approx(scores[i][j] - from);
            probabilities[(4 * y + i) * SCORE_PITCH + x + SIDE * j] = probability;
            sum += probability;
        }
        state.row_max[i] = new_max;
        state.row_sum[i] = fmaf(state.row_sum[i], correction, sum);
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
#pragma unroll
            for (int e = 0; e < 4; e++) state.acc[i][group][e] *= correction;
        }
    }
}

__device__ __forceinline__ void simt_values(const float* probabilities, const float* values, SimtState& state) {
    const int x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
#pragma unroll 2
    for (int key = 0; key < KEYS; key += 4) {
        float4 rows[4];
#pragma unroll
        for (int i = 0; i < 4; i++) rows[i] = *(const float4*)(probabilities + (4 * y + i) * SCORE_PITCH + key);
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
            const float* from = values + key * PITCH + 4 * (x + SIDE * group);
            const float4 value[4] = {*(const float4*)from, *(const float4*)(from + PITCH), *(const float4*)(from + 2 * PITCH),
                                     *(const float4*)(from + 3 * PITCH)};
#pragma unroll
            for (int i = 0; i < 4; i++) {
                add_scaled(state.acc[i][group], rows[i].x, value[0]);
                add_scaled(state.acc[i][group], rows[i].y, value[1]);
                add_scaled(state.acc[i][group], rows[i].z, value[2]);
                add_scaled(state.acc[i][group], rows[i].w, value[3]);
            }
        }
    }
}

__device__ __forceinline__ void simt_store(const Attention& attention, const Head& head, int first, const SimtState& state) {
    const int x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float row_sum = state.row_sum[i];
#pragma unroll
        for (int step = SIDE / 2; step > 0; step >>= 1) row_sum += __shfl_xor_sync(FULL_WARP, row_sum, step);
        const float factor = row_factor(row_sum);
        const int query = first + 4 * y + i;
        if (query >= attention.queries) continue;
        Element* to = (Element*)attention.output + (head.row + query) * attention.value_dim;
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int column = 4 * (x + SIDE * group) + e;
                if (column < attention.value_dim) to[column] = narrow(state.acc[i][group][e] * factor);
            }
        }
    }
}

// Block (nth, tile) of the grid, tiles varying first: QUERIES queries of a head.
__device__ __forceinline__ void attention_simt(const Attention& attention) {
    extern __shared__ __align__(16) float shared[];
    float *queries = shared, *rows = queries + QUERIES * PITCH, *probabilities = rows + KEYS * PITCH;
    const u32 tiles = ((u32)attention.queries + QUERIES - 1) / QUERIES;
    const Head head = head_of(attention, blockIdx.x / tiles);
    // The longest rows of causal attention first.
    const int first = (int)(tiles - 1 - blockIdx.x % tiles) * QUERIES, end = end_of_keys(head, first + QUERIES);
    stage<QUERIES>(head.query + first * attention.query_strides[2], attention.query_strides[2], (int)attention.queries - first,
                   (int)attention.dim, queries);
    SimtState state = {};
#pragma unroll
    for (int i = 0; i < 4; i++) state.row_max[i] = -INFINITY;
    const float scale = base2_scale(attention);
    for (int from = 0; from < end; from += KEYS) {
        __syncthreads();
        stage<KEYS>(head.key + from * attention.key_strides[2], attention.key_strides[2], head.keys - from, (int)attention.dim, rows);
        __syncthreads();
        float scores[4][PER_ROW] = {};
        simt_scores(queries, rows, (int)attention.dim, scores);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int query = first + 4 * (int)(threadIdx.x / SIDE) + i;
#pragma unroll
            for (int j = 0; j < PER_ROW; j++) {
                const int key = from + (int)(threadIdx.x % SIDE) + SIDE * j;
                scores[i][j] = masked(attention, head, query, key, scores[i][j] * scale);
            }
        }
        simt_softmax(scores, state, probabilities);
        __syncthreads();
        stage<KEYS>(head.value + from * attention.value_strides[2], attention.value_strides[2], head.keys - from, (int)attention.value_dim,
                    rows);
        __syncthreads();
        simt_values(probabilities, rows, state);
    }
    simt_store(attention, head, first, state);
}
