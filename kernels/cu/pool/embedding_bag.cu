// Static embeddings: the mean of a sequence's rows of an int8 table, truncated and optionally normalised.

#include "launch/embed.cuh"

// Adds 4 adjacent columns of a row; each product is rounded before it is added. PACKED loads them as one word, which requires
// 4-byte alignment.
template <bool PACKED>
__device__ __forceinline__ void add_row(float (&sums)[4], const i8* row, float scale, u32 column, u32 dimensions) {
    if (PACKED) {
        const u32 word = *(const u32*)(row + column);
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[i] = __fadd_rn(sums[i], __fmul_rn(scale, (float)(i8)(word >> (8 * i))));
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (column + i < dimensions) sums[i] = __fadd_rn(sums[i], __fmul_rn(scale, (float)row[column + i]));
        }
    }
}

// The squared length in f64, in the order of the CPU: 16 strided lanes, then the lanes in order.
__device__ double squared_length(const float* vector, u32 dimensions, double* lanes) {
    if (threadIdx.x < 16) {
        double sum = 0;
        for (u32 column = threadIdx.x; column < dimensions; column += 16) {
            const double x = vector[column];
            sum = __dadd_rn(sum, __dmul_rn(x, x));
        }
        lanes[threadIdx.x] = sum;
    }
    __syncthreads();
    double total = 0;
    for (int lane = 0; lane < 16; ++lane) total = __dadd_rn(total, lanes[lane]);
    return total;
}

// embed_pool_i8, embed_pool_i8x4: one vector per sequence.
//   values i8[V, dim] row-major, scales f32[V]: a row of the table is scale * values
//   ids u32[tokens], each below V
//   sequences u32[n, 4]: first token, end, dimensions (at most dim), flags (NORMALIZE: to unit length)
//   offsets u64[n]: the start of each vector in out
//   out f32: `dimensions` numbers per sequence
// One block of EMBED_THREADS threads per sequence; a thread sums 4 adjacent columns at a time. Sums are f32 in the order of the tokens, with
// each product and each sum rounded, then divided by the number of tokens; the length is summed in f64 in the CPU's order. All
// bits equal the CPU's. A sequence without tokens gives zeros, and zeros stay zeros. The x4 kernel needs a dim that is a multiple
// of 4; it may read, but never writes, columns past `dimensions`.
template <bool PACKED>
__device__ __forceinline__ void pool(const i8* __restrict__ values, const float* __restrict__ scales,
                                     const u32* __restrict__ ids, const u32* __restrict__ sequences,
                                     const u64* __restrict__ offsets, float* out, u32 dim) {
    __shared__ double lanes[16];
    const u32* sequence = sequences + 4 * (u64)blockIdx.x;
    const u32 first = sequence[0], end = sequence[1], dimensions = sequence[2];
    float* vector = out + offsets[blockIdx.x];
    const float tokens = (float)(end - first);
    for (u32 column = 4 * threadIdx.x; column < dimensions; column += 4 * blockDim.x) {
        float sums[4] = {};
#pragma unroll 4
        for (u32 at = first; at < end; ++at) {
            const u32 id = ids[at];
            add_row<PACKED>(sums, values + (u64)id * dim, scales[id], column, dimensions);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (column + i < dimensions) vector[column + i] = end > first ? __fdiv_rn(sums[i], tokens) : 0.0f;
        }
    }
    if (!(sequence[3] & NORMALIZE)) return;
    __syncthreads();
    const double length = __dsqrt_rn(squared_length(vector, dimensions, lanes));
    if (!(length > 0)) return;
    const double reciprocal = __drcp_rn(length);
    for (u32 column = threadIdx.x; column < dimensions; column += blockDim.x) {
        vector[column] = __double2float_rn(__dmul_rn(vector[column], reciprocal));
    }
}

extern "C" __global__ void __launch_bounds__(EMBED_THREADS)
embed_pool_i8(const i8* __restrict__ values, const float* __restrict__ scales, const u32* __restrict__ ids,
              const u32* __restrict__ sequences, const u64* __restrict__ offsets, float* out, u32 dim) {
    pool<false>(values, scales, ids, sequences, offsets, out, dim);
}

extern "C" __global__ void __launch_bounds__(EMBED_THREADS)
embed_pool_i8x4(const i8* __restrict__ values, const float* __restrict__ scales, const u32* __restrict__ ids,
                const u32* __restrict__ sequences, const u64* __restrict__ offsets, float* out, u32 dim) {
    pool<true>(values, scales, ids, sequences, offsets, out, dim);
}
