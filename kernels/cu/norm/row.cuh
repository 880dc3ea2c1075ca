// A row of a tiled matrix in registers, and its norm. One warp per row, or one block for wide rows.

#include "norm/norm.cuh"

// A row in the registers of WARPS warps, 1 or all of a block: a thread holds chunk own + 32 WARPS i in values[SIZE i ..]. Chunks past
// `chunks` are zeros.
template <int ELEMENT, int CHUNKS, int WARPS>
struct RowFragment {
    static constexpr int SIZE = Chunk<ELEMENT>::SIZE;
    float values[CHUNKS * SIZE];
};

// Calls visit(i, chunk) for each chunk of this thread.
template <int CHUNKS, int WARPS, typename Visit>
__device__ __forceinline__ void each_chunk(u32 chunks, const Visit& visit) {
#pragma unroll
    for (int i = 0; i < CHUNKS; i++) {
        const u32 chunk = threadIdx.x % (32 * WARPS) + 32 * WARPS * i;
        if (chunk < chunks) visit(i, chunk);
    }
}

// The sum of a row in each of its threads, where pairs[q] is a thread's sum of columns 2 q and 2 q + 1 of its chunks. Each call of a
// block needs its own `scratch`. For a row of 16-bit elements in one warp, the order is the one that norm.cuh defines.
template <int PAIRS, int WARPS>
__device__ __forceinline__ float row_sum(const float (&pairs)[PAIRS], float* scratch) {
    if constexpr (WARPS > 1 || PAIRS != 4) {
        float sum = pairs[0];
#pragma unroll
        for (int q = 1; q < PAIRS; q++) sum += pairs[q];
        if constexpr (WARPS > 1) return block_sum(sum, scratch);
        else return warp_sum(sum);
    } else {
        const bool upper = threadIdx.x & 4, odd = threadIdx.x & 2;
        float even_pair = upper ? pairs[2] : pairs[0], odd_pair = upper ? pairs[3] : pairs[1];
        // Each of the eight lanes of a tile ends up with one pair of all eight chunks.
        even_pair += __shfl_xor_sync(FULL_WARP, upper ? pairs[0] : pairs[2], 4);
        odd_pair += __shfl_xor_sync(FULL_WARP, upper ? pairs[1] : pairs[3], 4);
        float sum = odd ? odd_pair : even_pair;
        sum += __shfl_xor_sync(FULL_WARP, odd ? even_pair : odd_pair, 2);
        sum += __shfl_xor_sync(FULL_WARP, sum, 1);
        sum += __shfl_xor_sync(FULL_WARP, sum, 2);
        sum += __shfl_xor_sync(FULL_WARP, sum, 4);
        sum += __shfl_xor_sync(FULL_WARP, sum, 16);
        return sum + __shfl_xor_sync(FULL_WARP, sum, 8);
    }
}

// The norm's weight and bias. PRELOAD keeps them in registers, loaded before the preceding grid has completed; otherwise they are
// loaded at use, which saves registers and is faster with many rows.
template <int ELEMENT, int CHUNKS, int WARPS, bool PRELOAD>
struct NormWeights {
    __device__ __forceinline__ NormWeights(const NormParams& norm, u32 chunks) {}
    static __device__ __forceinline__ float4 bias(const NormParams& norm, u32 at) {
        return norm.bias ? *(const float4*)(norm.bias + at) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
    __device__ __forceinline__ float4 scale_of(const NormParams& norm, int, u32 at) const { return *(const float4*)(norm.weight + at); }
    __device__ __forceinline__ float4 bias_of(const NormParams& norm, int, u32 at) const { return bias(norm, at); }
};

template <int ELEMENT, int CHUNKS, int WARPS>
struct NormWeights<ELEMENT, CHUNKS, WARPS, true> {
    static constexpr int SIZE = Chunk<ELEMENT>::SIZE;
    float4 scales[CHUNKS * SIZE / 4], biases[CHUNKS * SIZE / 4];

    __device__ __forceinline__ NormWeights(const NormParams& norm, u32 chunks) {
        if (!norm.kind) return;
        each_chunk<CHUNKS, WARPS>(chunks, [&](int i, u32 chunk) {
#pragma unroll
            for (int e = 0; e < SIZE; e += 4) {
                scales[(i * SIZE + e) / 4] = *(const float4*)(norm.weight + chunk * SIZE + e);
                biases[(i * SIZE + e) / 4] = NormWeights<ELEMENT, CHUNKS, WARPS, false>::bias(norm, chunk * SIZE + e);
            }
        });
    }
    __device__ __forceinline__ float4 scale_of(const NormParams&, int i, u32) const { return scales[i / 4]; }
    __device__ __forceinline__ float4 bias_of(const NormParams&, int i, u32) const { return biases[i / 4]; }
};

// Normalises the first `width` values of a row and zeroes the rest. The variance is computed from deviations, in two passes; sums are
// f32 in a fixed tree.
template <int ELEMENT, int CHUNKS, int WARPS, bool PRELOAD>
__device__ __forceinline__ void normalize(RowFragment<ELEMENT, CHUNKS, WARPS>& row, const NormParams& norm, u32 width, u32 chunks,
                                          const NormWeights<ELEMENT, CHUNKS, WARPS, PRELOAD>& weights) {
    constexpr int SIZE = Chunk<ELEMENT>::SIZE;
    __shared__ float scratch[2][32];
    const float inverse_width = 1.0f / (float)width;
    float mean = 0.0f;
    if (norm.kind == LAYER_NORM) {
        float sums[SIZE / 2] = {};
#pragma unroll
        for (int i = 0; i < CHUNKS * SIZE; i++) sums[i % SIZE / 2] += row.values[i];
        mean = norm_mean(row_sum<SIZE / 2, WARPS>(sums, scratch[0]), inverse_width);
    }
    float squares[SIZE / 2] = {};
    each_chunk<CHUNKS, WARPS>(chunks, [&](int i, u32 chunk) {
#pragma unroll
        for (int e = 0; e < SIZE; e++) {
            float& x = row.values[i * SIZE + e];
            x = chunk * SIZE + e < width ? x - mean : 0.0f;
            squares[e / 2] = fmaf(x, x, squares[e / 2]);
        }
    });
    const float scale = norm_scale(row_sum<SIZE / 2, WARPS>(squares, scratch[1]), inverse_width, norm.epsilon);
    each_chunk<CHUNKS, WARPS>(chunks, [&](int i, u32 chunk) {
#pragma unroll
        for (int e = 0; e < SIZE; e += 4) {
            float* x = row.values + i * SIZE + e;
            const float4 w = weights.scale_of(norm, i * SIZE + e, chunk * SIZE + e);
            const float4 b = weights.bias_of(norm, i * SIZE + e, chunk * SIZE + e);
            x[0] = fmaf(x[0] * scale, w.x, b.x);
            x[1] = fmaf(x[1] * scale, w.y, b.y);
            x[2] = fmaf(x[2] * scale, w.z, b.z);
            x[3] = fmaf(x[3] * scale, w.w, b.w);
        }
    });
}

// A chunk of 8 values in f32 tiles: two chunks of 16 bytes.
__device__ __forceinline__ void load_f32_chunk(const u8* from, u32 row, u32 chunk, u32 tiles_per_row, float* to) {
    Chunk<F32>::read(*(const uint4*)(from + chunk_offset(row, 2 * chunk, 2 * tiles_per_row)), to);
    Chunk<F32>::read(*(const uint4*)(from + chunk_offset(row, 2 * chunk + 1, 2 * tiles_per_row)), to + 4);
}

__device__ __forceinline__ void store_f32_chunk(u8* out, u32 row, u32 chunk, u32 tiles_per_row, const float* from) {
    *(uint4*)(out + chunk_offset(row, 2 * chunk, 2 * tiles_per_row)) = Chunk<F32>::write(from);
    *(uint4*)(out + chunk_offset(row, 2 * chunk + 1, 2 * tiles_per_row)) = Chunk<F32>::write(from + 4);
}
