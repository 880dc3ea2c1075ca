// Pooling: hidden states reduced over tokens, truncated, normalised, and converted to the output type.

#include "common/tiled.cuh"
#include "launch/pool.cuh"

// pool_{dtype}_{columns}: one block of POOL_THREADS threads per output row.
//   hidden_states: tiled, at most `columns`, `tiles_per_row` tiles a row
//   rows: per output row the tokens from .. to, the leading dimensions to keep, the byte offset in `out`, the index in `scales`
//   out: of any alignment; scales f32: one per int8 row, max |x| / 127
// Each warp reduces every fourth token in order, then the four partial results are combined, all in f32. A long range is reduced in
// spans of SPAN tokens, which bounds the rounding error. An empty range gives zeros, and zeros stay zeros.
//   dynamic shared memory: pool_shared_bytes of the columns of all tiles
static_assert(POOL_WARPS == 4 && POOL_THREADS == 32 * POOL_WARPS, "four partial results are combined");

// Tokens summed in sequence.
#define SPAN 2048u

// Reduces tokens from + warp, from + warp + 4, .. before `to`, and combines the result with the warp's partial sums in shared memory,
// which the first span initialises.
template <int ELEMENT, int CHUNKS>
__device__ __forceinline__ void accumulate(const PoolParams& params, const PooledRow& row, u32 from, u32 to, float* partial_sums) {
    typedef Chunk<ELEMENT> Element;
    constexpr u32 SIZE = Element::SIZE;
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x & 31, chunks = (row.dimensions + SIZE - 1) / SIZE;
    float sums[CHUNKS * SIZE];
#pragma unroll
    for (u32 i = 0; i < CHUNKS * SIZE; i++) sums[i] = row.reduction == MAX_POOL ? -INFINITY : 0.0f;
    auto chunk_of = [&](u32 token, u32 i) { return *(const uint4*)(params.hidden_states + chunk_offset(token, lane + 32 * i, params.tiles_per_row)); };
    auto add = [&](u32 token, u32 i, const uint4& chunk) {
        const float weight = row.reduction == WEIGHTED_MEAN_POOL ? (float)(token - row.from + 1) : 1.0f;
        float values[SIZE];
        Element::read(chunk, values);
#pragma unroll
        for (u32 e = 0; e < SIZE; e++) {
            float& sum = sums[i * SIZE + e];
            sum = row.reduction == MAX_POOL ? fmaxf(sum, values[e]) : fmaf(weight, values[e], sum);
        }
    };
    // Tokens in flight.
    constexpr u32 DEPTH = CHUNKS <= 4 ? 4 : CHUNKS <= 8 ? 2 : 1;
    u32 token = from + warp;
    for (; DEPTH > 1 && token + 4 * (DEPTH - 1) < to; token += 4 * DEPTH) {
        uint4 raw[DEPTH][CHUNKS];
#pragma unroll
        for (u32 at = 0; at < DEPTH * CHUNKS; at++) {
            if (lane + 32 * (at % CHUNKS) < chunks) raw[at / CHUNKS][at % CHUNKS] = chunk_of(token + at / CHUNKS * 4, at % CHUNKS);
        }
#pragma unroll
        for (u32 at = 0; at < DEPTH * CHUNKS; at++) {
            if (lane + 32 * (at % CHUNKS) < chunks) add(token + at / CHUNKS * 4, at % CHUNKS, raw[at / CHUNKS][at % CHUNKS]);
        }
    }
    for (; token < to; token += 4) {
#pragma unroll
        for (u32 i = 0; i < CHUNKS; i++) {
            if (lane + 32 * i < chunks) add(token, i, chunk_of(token, i));
        }
    }
    const u32 width = params.tiles_per_row * 8 * SIZE;
#pragma unroll
    for (u32 i = 0; i < CHUNKS; i++) {
        if (lane + 32 * i >= chunks) continue;
#pragma unroll
        for (u32 e = 0; e < SIZE; e++) {
            float& partial = partial_sums[warp * width + (lane + 32 * i) * SIZE + e];
            const float sum = sums[i * SIZE + e];
            partial = from == row.from ? sum : row.reduction == MAX_POOL ? fmaxf(partial, sum) : partial + sum;
        }
    }
}

// Stores the low BYTES of `bits` at any alignment.
template <int BYTES>
__device__ __forceinline__ void store_unaligned(u8* to, u32 bits) {
    if (((u64)to & (BYTES - 1)) == 0) {
        if (BYTES == 4) *(u32*)to = bits;
        else *(u16*)to = (u16)bits;
        return;
    }
#pragma unroll
    for (int i = 0; i < BYTES; i++) to[i] = (u8)(bits >> (8 * i));
}

__device__ __forceinline__ void write_row(const PoolParams& params, const PooledRow& row, const float* x, float* scratch) {
    u8* out = params.out + row.offset;
    if (row.output == OUTPUT_BINARY) {
        for (u32 byte = threadIdx.x; byte < (row.dimensions + 7) / 8; byte += blockDim.x) {
            u32 bits = 0;
            for (u32 i = 0; i < 8; i++) bits |= (8 * byte + i < row.dimensions && x[8 * byte + i] > 0.0f ? 128u : 0u) >> i;
            out[byte] = (u8)bits;
        }
        return;
    }
    if (row.output == OUTPUT_INT8) {
        float max_abs = 0.0f;
        for (u32 i = threadIdx.x; i < row.dimensions; i += blockDim.x) max_abs = fmaxf(max_abs, fabsf(x[i]));
        max_abs = warp_max(max_abs);
        __syncthreads();
        if ((threadIdx.x & 31) == 0) scratch[threadIdx.x / 32] = max_abs;
        __syncthreads();
        const float scale = fmaxf(fmaxf(scratch[0], scratch[1]), fmaxf(scratch[2], scratch[3])) / 127.0f;
        for (u32 i = threadIdx.x; i < row.dimensions; i += blockDim.x) {
            const float q = scale > 0.0f ? rintf(x[i] / scale) : 0.0f;
            out[i] = (u8)(i8)fminf(fmaxf(q, -127.0f), 127.0f);
        }
        if (threadIdx.x == 0) params.scales[row.scale_index] = scale;
        return;
    }
    for (u32 i = threadIdx.x; i < row.dimensions; i += blockDim.x) {
        if (row.output == OUTPUT_F32) store_unaligned<4>(out + 4 * i, __float_as_uint(x[i]));
        else if (row.output == OUTPUT_F16) store_unaligned<2>(out + 2 * i, f32_to_f16(x[i]));
        else store_unaligned<2>(out + 2 * i, f32_to_bf16(x[i]));
    }
}

template <int ELEMENT, int VALUES>
__device__ __forceinline__ void pool_row(const PoolParams& params) {
    extern __shared__ float partial_sums[];
    __shared__ float scratch[32];
    griddepcontrol_launch_dependents();
    // Uploaded before the first launch of the pass.
    const PooledRow row = params.rows[blockIdx.x];
    griddepcontrol_wait();
    const u32 width = params.tiles_per_row * 8 * Chunk<ELEMENT>::SIZE, count = row.to - row.from;
    u32 from = row.from;
    do {
        const u32 to = min(row.to - from, SPAN) + from;
        accumulate<ELEMENT, VALUES / Chunk<ELEMENT>::SIZE>(params, row, from, to, partial_sums);
        from = to;
    } while (from < row.to);
    __syncthreads();
    const float tokens = (float)count;
    // The sum of 1 to count.
    const float total_weight = row.reduction == WEIGHTED_MEAN_POOL ? 0.5f * tokens * (tokens + 1.0f) : tokens;
    float squares = 0.0f;
    for (u32 i = threadIdx.x; i < row.dimensions; i += blockDim.x) {
        const float a = partial_sums[i], b = partial_sums[width + i], c = partial_sums[2 * width + i], d = partial_sums[3 * width + i];
        float x = row.reduction == MAX_POOL ? fmaxf(fmaxf(a, b), fmaxf(c, d)) : ((a + b) + (c + d)) / total_weight;
        if (count == 0) x = 0.0f;
        partial_sums[i] = x;
        squares = fmaf(x, x, squares);
    }
    if (row.normalize) {
        const float length = sqrtf(block_sum(squares, scratch));
        for (u32 i = threadIdx.x; i < row.dimensions; i += blockDim.x) partial_sums[i] = length > 0.0f ? partial_sums[i] / length : 0.0f;
    }
    __syncthreads();
    write_row(params, row, partial_sums, scratch);
}

extern "C" __global__ void __launch_bounds__(POOL_THREADS) pool_f32_1024(const __grid_constant__ PoolParams params) {
    pool_row<F32, 32>(params);
}

extern "C" __global__ void __launch_bounds__(POOL_THREADS) pool_f32_4096(const __grid_constant__ PoolParams params) {
    pool_row<F32, 128>(params);
}

extern "C" __global__ void __launch_bounds__(POOL_THREADS) pool_f16_1024(const __grid_constant__ PoolParams params) {
    pool_row<F16, 32>(params);
}

extern "C" __global__ void __launch_bounds__(POOL_THREADS) pool_f16_4096(const __grid_constant__ PoolParams params) {
    pool_row<F16, 128>(params);
}

extern "C" __global__ void __launch_bounds__(POOL_THREADS) pool_bf16_1024(const __grid_constant__ PoolParams params) {
    pool_row<BF16, 32>(params);
}

extern "C" __global__ void __launch_bounds__(POOL_THREADS) pool_bf16_4096(const __grid_constant__ PoolParams params) {
    pool_row<BF16, 128>(params);
}
