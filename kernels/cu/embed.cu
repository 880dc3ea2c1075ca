// Embedding by table: the mean of a text's rows, cut, and scaled to unit length where asked.

#include "common.cuh"

// Adds 4 neighbouring columns of a row, each product rounded before it is added. PACKED reads them as one word, for
// which rows must start at multiples of 4 bytes.
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

// Squared length in f64 as the CPU sums it: in 16 lanes of every 16th column, then lane after lane.
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

// embed_pool_i8, embed_pool_i8x4: one vector for each text.
//   values i8[V, dim] row-major, scales f32[V]: a row of the table is scale * values
//   ids u32[tokens], each below V
//   texts u32[texts, 4]: first token, end, dimensions (at most dim), flags (bit 0: to unit length)
//   starts u64[texts]: where a text's vector begins in out
//   out f32: dimensions numbers a text
// One block of 64 threads a text; a thread sums 4 neighbouring columns, and takes turns beyond 256. Sums are in f32, in
// the order of the tokens, each product rounded and then each sum, and divided by the number of tokens; the length is
// summed in f64 in the CPU's order. So all bits are those of the CPU. A text without tokens is zeros, and a vector of
// zeros stays. The x4 form needs a dim that is a multiple of 4; it may read, and never writes, columns past dimensions.
template <bool PACKED>
__device__ __forceinline__ void pool(const i8* __restrict__ values, const float* __restrict__ scales,
                                     const u32* __restrict__ ids, const u32* __restrict__ texts,
                                     const u64* __restrict__ starts, float* out, u32 dim) {
    __shared__ double lanes[16];
    const u32* text = texts + 4 * (u64)blockIdx.x;
    const u32 first = text[0], end = text[1], dimensions = text[2];
    float* vector = out + starts[blockIdx.x];
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
    if (!(text[3] & 1)) return;
    __syncthreads();
    const double length = __dsqrt_rn(squared_length(vector, dimensions, lanes));
    if (!(length > 0)) return;
    const double reciprocal = __drcp_rn(length);
    for (u32 column = threadIdx.x; column < dimensions; column += blockDim.x) {
        vector[column] = __double2float_rn(__dmul_rn(vector[column], reciprocal));
    }
}

extern "C" __global__ void __launch_bounds__(64)
embed_pool_i8(const i8* __restrict__ values, const float* __restrict__ scales, const u32* __restrict__ ids,
              const u32* __restrict__ texts, const u64* __restrict__ starts, float* out, u32 dim) {
    pool<false>(values, scales, ids, texts, starts, out, dim);
}

extern "C" __global__ void __launch_bounds__(64)
embed_pool_i8x4(const i8* __restrict__ values, const float* __restrict__ scales, const u32* __restrict__ ids,
                const u32* __restrict__ texts, const u64* __restrict__ starts, float* out, u32 dim) {
    pool<true>(values, scales, ids, texts, starts, out, dim);
}
