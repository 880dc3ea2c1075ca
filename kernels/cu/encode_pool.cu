// The rows of an answer: states reduced, cut, scaled to unit length and written in the numbers asked for.

#include "encode.cuh"

// Over what a row is taken.
#define MEAN 0
#define WEIGHTED_MEAN 1
#define LARGEST 2

// In what numbers a row is written, after F32, F16 and BF16.
#define INT8 3
#define BITS 4

// One row of the answer: tokens from .. to, its leading dimensions, where its bytes begin, and its place among the scales.
struct Answer {
    u32 from;
    u32 to;
    u32 dimensions;
    u32 scale;
    u64 start;
    u32 reduce;
    u32 output;
    u32 normalize;
    u32 unused;
};

// encode_pool_{format}_{columns}: one block of 128 threads a row of the answer.
//   states: tiled, at most `columns`, `steps` tiles a row
//   out: at any alignment; scales f32: one for each row written as int8, max |x| / 127
// Each warp reduces every fourth token of the range in order, then the four are reduced; all in f32. Of a long range each
// SPAN is reduced by itself before it is added to those before, or rounding would grow with the length of the range. An
// empty range is zeros, and zeros stay zeros.
//   dynamic shared memory: 4 * `steps` * (columns of a tile) f32
struct Pool {
    const u8* states;
    const Answer* answers;
    u8* out;
    float* scales;
    u32 steps;
    u32 unused;
};

// Tokens that are added up one after the other.
#define SPAN 2048u

// Adds up tokens from + warp, from + warp + 4, .. before `to`, and adds the sums to the warp's in shared memory, which the
// first span begins.
template <int ELEMENT, int PIECES>
__device__ __forceinline__ void gather(const Pool& pool, const Answer& row, u32 from, u32 to, float* parts) {
    typedef Elements<ELEMENT> Element;
    constexpr u32 EACH = Element::EACH;
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x & 31, pieces = (row.dimensions + EACH - 1) / EACH;
    float sums[PIECES * EACH];
#pragma unroll
    for (u32 i = 0; i < PIECES * EACH; i++) sums[i] = row.reduce == LARGEST ? -INFINITE : 0.0f;
    auto piece_of = [&](u32 token, u32 i) { return *(const uint4*)(pool.states + place(token, lane + 32 * i, pool.steps)); };
    auto add = [&](u32 token, u32 i, const uint4& piece) {
        const float weight = row.reduce == WEIGHTED_MEAN ? (float)(token - row.from + 1) : 1.0f;
        float more[EACH];
        Element::read(piece, more);
#pragma unroll
        for (u32 e = 0; e < EACH; e++) {
            float& sum = sums[i * EACH + e];
            sum = row.reduce == LARGEST ? fmaxf(sum, more[e]) : fmaf(weight, more[e], sum);
        }
    };
    // So many tokens are on their way at once.
    constexpr u32 DEPTH = PIECES <= 4 ? 4 : PIECES <= 8 ? 2 : 1;
    u32 token = from + warp;
    for (; DEPTH > 1 && token + 4 * (DEPTH - 1) < to; token += 4 * DEPTH) {
        uint4 raw[DEPTH][PIECES];
#pragma unroll
        for (u32 at = 0; at < DEPTH * PIECES; at++) {
            if (lane + 32 * (at % PIECES) < pieces) raw[at / PIECES][at % PIECES] = piece_of(token + at / PIECES * 4, at % PIECES);
        }
#pragma unroll
        for (u32 at = 0; at < DEPTH * PIECES; at++) {
            if (lane + 32 * (at % PIECES) < pieces) add(token + at / PIECES * 4, at % PIECES, raw[at / PIECES][at % PIECES]);
        }
    }
    for (; token < to; token += 4) {
#pragma unroll
        for (u32 i = 0; i < PIECES; i++) {
            if (lane + 32 * i < pieces) add(token, i, piece_of(token, i));
        }
    }
    const u32 width = pool.steps * 8 * EACH;
#pragma unroll
    for (u32 i = 0; i < PIECES; i++) {
        if (lane + 32 * i >= pieces) continue;
#pragma unroll
        for (u32 e = 0; e < EACH; e++) {
            float& part = parts[warp * width + (lane + 32 * i) * EACH + e];
            const float sum = sums[i * EACH + e];
            part = from == row.from ? sum : row.reduce == LARGEST ? fmaxf(part, sum) : part + sum;
        }
    }
}

// Writes the bytes of a number to where they may not be aligned.
template <int BYTES>
__device__ __forceinline__ void write_bytes(u8* to, u32 bits) {
    if (((u64)to & (BYTES - 1)) == 0) {
        if (BYTES == 4) *(u32*)to = bits;
        else *(u16*)to = (u16)bits;
        return;
    }
#pragma unroll
    for (int i = 0; i < BYTES; i++) to[i] = (u8)(bits >> (8 * i));
}

__device__ __forceinline__ void write_row(const Pool& pool, const Answer& row, const float* x, float* scratch) {
    u8* out = pool.out + row.start;
    if (row.output == BITS) {
        for (u32 byte = threadIdx.x; byte < (row.dimensions + 7) / 8; byte += blockDim.x) {
            u32 bits = 0;
            for (u32 i = 0; i < 8; i++) bits |= (8 * byte + i < row.dimensions && x[8 * byte + i] > 0.0f ? 128u : 0u) >> i;
            out[byte] = (u8)bits;
        }
        return;
    }
    if (row.output == INT8) {
        float most = 0.0f;
        for (u32 i = threadIdx.x; i < row.dimensions; i += blockDim.x) most = fmaxf(most, fabsf(x[i]));
        most = warp_max(most);
        __syncthreads();
        if ((threadIdx.x & 31) == 0) scratch[threadIdx.x / 32] = most;
        __syncthreads();
        const float scale = fmaxf(fmaxf(scratch[0], scratch[1]), fmaxf(scratch[2], scratch[3])) / 127.0f;
        for (u32 i = threadIdx.x; i < row.dimensions; i += blockDim.x) {
            const float q = scale > 0.0f ? rintf(x[i] / scale) : 0.0f;
            out[i] = (u8)(i8)fminf(fmaxf(q, -127.0f), 127.0f);
        }
        if (threadIdx.x == 0) pool.scales[row.scale] = scale;
        return;
    }
    for (u32 i = threadIdx.x; i < row.dimensions; i += blockDim.x) {
        if (row.output == F32) write_bytes<4>(out + 4 * i, __float_as_uint(x[i]));
        else if (row.output == F16) write_bytes<2>(out + 2 * i, f32_to_f16(x[i]));
        else write_bytes<2>(out + 2 * i, f32_to_bf16(x[i]));
    }
}

template <int ELEMENT, int NUMBERS>
__device__ __forceinline__ void pool_row(const Pool& pool) {
    extern __shared__ float parts[];
    __shared__ float scratch[32];
    start_next_launch();
    // Uploaded, so there before any launch that may still run.
    const Answer row = pool.answers[blockIdx.x];
    wait_for_launches();
    const u32 width = pool.steps * 8 * Elements<ELEMENT>::EACH, count = row.to - row.from;
    u32 from = row.from;
    do {
        const u32 to = min(row.to - from, SPAN) + from;
        gather<ELEMENT, NUMBERS / Elements<ELEMENT>::EACH>(pool, row, from, to, parts);
        from = to;
    } while (from < row.to);
    __syncthreads();
    const float tokens = (float)count;
    // The sum of 1 to count.
    const float weights = row.reduce == WEIGHTED_MEAN ? 0.5f * tokens * (tokens + 1.0f) : tokens;
    float squares = 0.0f;
    for (u32 i = threadIdx.x; i < row.dimensions; i += blockDim.x) {
        const float a = parts[i], b = parts[width + i], c = parts[2 * width + i], d = parts[3 * width + i];
        float x = row.reduce == LARGEST ? fmaxf(fmaxf(a, b), fmaxf(c, d)) : ((a + b) + (c + d)) / weights;
        if (count == 0) x = 0.0f;
        parts[i] = x;
        squares = fmaf(x, x, squares);
    }
    if (row.normalize) {
        const float length = sqrtf(block_sum(squares, scratch));
        for (u32 i = threadIdx.x; i < row.dimensions; i += blockDim.x) parts[i] = length > 0.0f ? parts[i] / length : 0.0f;
    }
    __syncthreads();
    write_row(pool, row, parts, scratch);
}

extern "C" __global__ void __launch_bounds__(128) encode_pool_f32_1024(const __grid_constant__ Pool pool) {
    pool_row<F32, 32>(pool);
}

extern "C" __global__ void __launch_bounds__(128) encode_pool_f32_4096(const __grid_constant__ Pool pool) {
    pool_row<F32, 128>(pool);
}

extern "C" __global__ void __launch_bounds__(128) encode_pool_f16_1024(const __grid_constant__ Pool pool) {
    pool_row<F16, 32>(pool);
}

extern "C" __global__ void __launch_bounds__(128) encode_pool_f16_4096(const __grid_constant__ Pool pool) {
    pool_row<F16, 128>(pool);
}

extern "C" __global__ void __launch_bounds__(128) encode_pool_bf16_1024(const __grid_constant__ Pool pool) {
    pool_row<BF16, 32>(pool);
}

extern "C" __global__ void __launch_bounds__(128) encode_pool_bf16_4096(const __grid_constant__ Pool pool) {
    pool_row<BF16, 128>(pool);
}
