// Scans for one to four queries: each row is read once, at the speed of memory, and multiplied with all of them.

#include "similarity.cuh"

// similarity_vector_{format}_{Q}: bounds of every row for queries first..first + Q.
//   corpus: f32[rows, pitch] for f32, else tiles, `steps` a row; readable up to the next multiple of 256 rows
//   copies f32[queries, columns], or i8[queries, 2, columns] for i8; columns a multiple of 128
//   rows Row[n], known Query[queries], wishes Wish[queries]
//   uppers f32[queries, units * 32], minus infinity for rows that do not count, units = (n + 31) / 32
//   lows, highs f32[queries, units]: the best lower and upper bound of each 32 rows
// A warp takes 32 rows at a time: 8 lanes a row and 8 rows a lane; for f32, 32 lanes a row and 8 rows in each of 4
// passes, so that every request of memory is of 512 bytes in a row. While one step is multiplied, the next is under way.
// Queries are in dynamic shared memory: Q * columns * 4 bytes, or 2 for i8. Blocks of any size, as many as fit.
#define VECTOR_PARAMS                                                                                                 \
    const u8 *__restrict__ corpus, const u8 *__restrict__ copies, const Row *__restrict__ rows,                       \
        const Query *__restrict__ known, const Wish *__restrict__ wishes, const u32 *__restrict__ dead,               \
        const u32 *__restrict__ masks, float *__restrict__ uppers, float *__restrict__ lows,                          \
        float *__restrict__ highs, u32 first, u32 count, u32 n, u32 steps, u32 pitch, u32 columns, u32 mask_words
#define VECTOR_ARGS                                                                                                \
    corpus, copies, rows, known, wishes, dead, masks, uppers, lows, highs, first, count, n, steps, pitch, columns, mask_words

// Rows a lane has under way.
#define DEPTH 8

// Where a warp is: which 32 rows, which pass over them, which step along them.
struct Cursor {
    u32 unit, pass, step;
};

template <u32 PASSES>
__device__ __forceinline__ Cursor after(Cursor at, u32 steps, u32 warps) {
    if (++at.step < steps) return at;
    at.step = 0;
    if (++at.pass < PASSES) return at;
    at.pass = 0;
    at.unit += warps;
    return at;
}

// 16 bytes that will not be read again.
__device__ __forceinline__ uint4 load_once(const u8* from) {
    uint4 x;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "l"(from));
    return x;
}

template <int FORMAT>
__device__ __forceinline__ void load_step(
    uint4 (&into)[DEPTH], const u8* __restrict__ corpus, const Cursor& at, u32 steps, u32 pitch) {
    const u32 lane = threadIdx.x & 31;
    if (FORMAT == F32) {
        const u32 column = at.step * 128 + lane * 4;
        const u8* from = corpus + ((u64)(at.unit * 32 + at.pass * DEPTH) * pitch + column) * 4;
#pragma unroll
        for (u32 i = 0; i < DEPTH; i++) {
            into[i] = column < pitch ? load_once(from + (u64)i * pitch * 4) : make_uint4(0, 0, 0, 0);
        }
    } else {
        // Lanes 8j..8j+7 take rows 8j + i, a chunk each; row & 7 is i.
        const u64 tile = (u64)(at.unit / 4) * steps + at.step;
        const u8* from = corpus + tile * TILE_BYTES + (at.unit % 4 * 32 + lane / 8 * 8) * 128;
#pragma unroll
        for (u32 i = 0; i < DEPTH; i++) into[i] = load_once(from + swizzled(i, lane % 8));
    }
}

// Two 16-bit numbers of a word.
template <int FORMAT>
__device__ __forceinline__ float2 halves(u32 word) {
    if (FORMAT == F16) return make_float2(f16_to_f32(word & 0xffff), f16_to_f32(word >> 16));
    return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u));
}

// What a lane adds up for one row and query, and what of the query it multiplies in a step.
template <int FORMAT>
struct Product {
    typedef float Sum;
    float part[FORMAT == F32 ? 4 : 8];

    __device__ __forceinline__ void load(const uint4* queries, u32 query, u32 columns, u32 step) {
        const u32 lane = threadIdx.x & 31;
        const u32 at = query * columns / 4 + (FORMAT == F32 ? step * 32 + lane : step * 16 + lane % 8 * 2);
#pragma unroll
        for (int i = 0; i < (FORMAT == F32 ? 1 : 2); i++) {
            const uint4 four = queries[at + i];
            part[4 * i] = __uint_as_float(four.x);
            part[4 * i + 1] = __uint_as_float(four.y);
            part[4 * i + 2] = __uint_as_float(four.z);
            part[4 * i + 3] = __uint_as_float(four.w);
        }
    }

    __device__ __forceinline__ void add(Sum& sum, const uint4& x) const {
        const u32 words[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (FORMAT == F32) {
                sum = fmaf(__uint_as_float(words[i]), part[i], sum);
            } else {
                const float2 two = halves<FORMAT>(words[i]);
                sum = fmaf(two.x, part[(2 * i) % 8], sum);
                sum = fmaf(two.y, part[(2 * i + 1) % 8], sum);
            }
        }
    }
};

struct Sums {
    int coarse, fine;
};

template <>
struct Product<I8> {
    typedef Sums Sum;
    uint4 coarse, fine;

    __device__ __forceinline__ void load(const uint4* queries, u32 query, u32 columns, u32 step) {
        const u32 at = query * 2 * (columns / 16) + step * 8 + threadIdx.x % 8;
        coarse = queries[at];
        fine = queries[at + columns / 16];
    }

    __device__ __forceinline__ void add(Sum& sum, const uint4& x) const {
        sum.coarse = __dp4a((int)x.x, (int)coarse.x, sum.coarse);
        sum.coarse = __dp4a((int)x.y, (int)coarse.y, sum.coarse);
        sum.coarse = __dp4a((int)x.z, (int)coarse.z, sum.coarse);
        sum.coarse = __dp4a((int)x.w, (int)coarse.w, sum.coarse);
        sum.fine = __dp4a((int)x.x, (int)fine.x, sum.fine);
        sum.fine = __dp4a((int)x.y, (int)fine.y, sum.fine);
        sum.fine = __dp4a((int)x.z, (int)fine.z, sum.fine);
        sum.fine = __dp4a((int)x.w, (int)fine.w, sum.fine);
    }
};

// Adds up 8 rows over the lanes of each row: afterwards a lane has the sum of its group's row lane % 8.
template <typename T>
__device__ __forceinline__ T spread_sums(T (&x)[DEPTH], bool whole_warp) {
    const u32 lane = threadIdx.x & 31;
#pragma unroll
    for (u32 half = DEPTH / 2; half > 0; half /= 2) {
        const bool high = lane & half;
#pragma unroll
        for (u32 i = 0; i < half; i++) {
            const T sent = high ? x[i] : x[i + half], kept = high ? x[i + half] : x[i];
            x[i] = kept + __shfl_xor_sync(FULL_WARP, sent, half);
        }
    }
    if (whole_warp) {
        x[0] += __shfl_xor_sync(FULL_WARP, x[0], 8);
        x[0] += __shfl_xor_sync(FULL_WARP, x[0], 16);
    }
    return x[0];
}

__device__ __forceinline__ float reduced(float (&sums)[DEPTH], bool whole_warp) { return spread_sums(sums, whole_warp); }

__device__ __forceinline__ float reduced(Sums (&sums)[DEPTH], bool whole_warp) {
    int coarse[DEPTH], fine[DEPTH];
#pragma unroll
    for (int i = 0; i < DEPTH; i++) {
        coarse[i] = sums[i].coarse;
        fine[i] = sums[i].fine;
    }
    const int coarse_sum = spread_sums(coarse, whole_warp), fine_sum = spread_sums(fine, whole_warp);
    return fmaf((float)fine_sum, 1.0f / 256.0f, (float)coarse_sum);
}

// Writes the bounds of 32 rows, one a lane.
template <int Q>
__device__ __forceinline__ void write_bounds(const float (&sums)[Q], const Row* __restrict__ rows,
    const Query* __restrict__ known, const Wish* __restrict__ wishes, const u32* __restrict__ dead,
    const u32* __restrict__ masks, float* __restrict__ uppers, float* __restrict__ lows, float* __restrict__ highs, u32 first,
    u32 count, u32 n, u32 mask_words, u32 unit) {
    const u32 lane = threadIdx.x & 31, row = unit * 32 + lane, units = (n + 31) / 32;
    const Row x = row < n ? rows[row] : Row{0, 0, 0, 0};
#pragma unroll
    for (u32 i = 0; i < Q; i++) {
        if (i >= count) return;
        const u32 query = first + i;
        const Query q = known[query];
        const bool counts = row < n && counts_for(row, wishes[query].mask, dead, masks, mask_words);
        const float upper = counts ? upper_bound(sums[i], q, x) : -INFINITE;
        uppers[((u64)query * units + unit) * 32 + lane] = upper;
        const float high = warp_max(upper), low = warp_max(counts ? lower_bound(sums[i], q, x) : -INFINITE);
        if (lane == 0) {
            highs[(u64)query * units + unit] = high;
            lows[(u64)query * units + unit] = low;
        }
    }
}

template <int FORMAT, int Q>
__device__ __forceinline__ void scan_vector(VECTOR_PARAMS) {
    extern __shared__ uint4 queries[];
    const u32 query_words = columns * (FORMAT == I8 ? 2 : 4) / 16;
    const uint4* from = (const uint4*)copies + (u64)first * query_words;
    for (u32 i = threadIdx.x; i < Q * query_words; i += blockDim.x) queries[i] = from[i];
    __syncthreads();

    constexpr u32 PASSES = FORMAT == F32 ? 4 : 1;
    typedef typename Product<FORMAT>::Sum Sum;
    const u32 lane = threadIdx.x & 31, units = (n + 31) / 32, warps = gridDim.x * (blockDim.x / 32);
    Cursor at = {blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, 0, 0};
    if (at.unit >= units) return;
    uint4 now[DEPTH], next[DEPTH] = {};
    Sum sums[Q][DEPTH] = {};
    float mine[Q];
    load_step<FORMAT>(now, corpus, at, steps, pitch);
    while (at.unit < units) {
        const Cursor then = after<PASSES>(at, steps, warps);
        if (then.unit < units) load_step<FORMAT>(next, corpus, then, steps, pitch);
        Product<FORMAT> product[Q];
#pragma unroll
        for (u32 i = 0; i < Q; i++) product[i].load(queries, i, columns, at.step);
#pragma unroll
        for (u32 row = 0; row < DEPTH; row++) {
#pragma unroll
            for (u32 i = 0; i < Q; i++) product[i].add(sums[i][row], now[row]);
        }
        if (then.step == 0) {
#pragma unroll
            for (u32 i = 0; i < Q; i++) {
                const float sum = reduced(sums[i], PASSES > 1);
                if (PASSES == 1 || lane / 8 == at.pass) mine[i] = sum;
#pragma unroll
                for (u32 row = 0; row < DEPTH; row++) sums[i][row] = Sum{};
            }
            if (then.pass == 0) {
                write_bounds<Q>(
                    mine, rows, known, wishes, dead, masks, uppers, lows, highs, first, count, n, mask_words, at.unit);
            }
        }
        at = then;
#pragma unroll
        for (u32 row = 0; row < DEPTH; row++) now[row] = next[row];
    }
}

extern "C" __global__ void __launch_bounds__(256, 2) similarity_vector_f32_1(VECTOR_PARAMS) {
    scan_vector<F32, 1>(VECTOR_ARGS);
}

extern "C" __global__ void __launch_bounds__(256, 2) similarity_vector_f32_2(VECTOR_PARAMS) {
    scan_vector<F32, 2>(VECTOR_ARGS);
}

extern "C" __global__ void __launch_bounds__(256, 1) similarity_vector_f32_4(VECTOR_PARAMS) {
    scan_vector<F32, 4>(VECTOR_ARGS);
}

extern "C" __global__ void __launch_bounds__(256, 2) similarity_vector_f16_1(VECTOR_PARAMS) {
    scan_vector<F16, 1>(VECTOR_ARGS);
}

extern "C" __global__ void __launch_bounds__(256, 2) similarity_vector_f16_2(VECTOR_PARAMS) {
    scan_vector<F16, 2>(VECTOR_ARGS);
}

extern "C" __global__ void __launch_bounds__(256, 1) similarity_vector_f16_4(VECTOR_PARAMS) {
    scan_vector<F16, 4>(VECTOR_ARGS);
}

extern "C" __global__ void __launch_bounds__(256, 2) similarity_vector_bf16_1(VECTOR_PARAMS) {
    scan_vector<BF16, 1>(VECTOR_ARGS);
}

extern "C" __global__ void __launch_bounds__(256, 2) similarity_vector_bf16_2(VECTOR_PARAMS) {
    scan_vector<BF16, 2>(VECTOR_ARGS);
}

extern "C" __global__ void __launch_bounds__(256, 1) similarity_vector_bf16_4(VECTOR_PARAMS) {
    scan_vector<BF16, 4>(VECTOR_ARGS);
}

extern "C" __global__ void __launch_bounds__(256, 2) similarity_vector_i8_1(VECTOR_PARAMS) {
    scan_vector<I8, 1>(VECTOR_ARGS);
}

extern "C" __global__ void __launch_bounds__(256, 2) similarity_vector_i8_2(VECTOR_PARAMS) {
    scan_vector<I8, 2>(VECTOR_ARGS);
}

extern "C" __global__ void __launch_bounds__(256, 1) similarity_vector_i8_4(VECTOR_PARAMS) {
    scan_vector<I8, 4>(VECTOR_ARGS);
}
