// Scans for one to four queries by GEMV: each row is read once, at memory bandwidth, and multiplied with all queries.

#include "search/bounds.cuh"

// search_scan_gemv_{format}_q{Q}: bounds of every row for queries first..first + Q.
//   corpus: f32[rows, pitch] for f32, else tiles, `k_tiles` per row; readable up to the next multiple of 256 rows
//   copies f32[queries, columns], or i8[queries, 2, columns] for i8; columns a multiple of 128
//   rows RowMeta[n], query_meta QueryMeta[queries], params SearchParams[queries]
//   upper_bounds f32[queries, units * 32], minus infinity for rows that do not match, units = (n + 31) / 32
//   lower_bounds, group_upper_bounds f32[queries, units]: the best lower and upper bound of each 32 rows
// A warp processes 32 rows at a time: 8 lanes per row and 8 rows per lane; for f32, 32 lanes per row and 8 rows in each
// of 4 passes, so that every memory request covers 512 contiguous bytes. Loads of the next k tile overlap the products.
// Dynamic shared memory holds the queries: Q * columns * 4 bytes, or 2 for i8. Any block size; grid sized to the
// device.
#define GEMV_PARAMS                                                                                                  \
    const u8 *__restrict__ corpus, const u8 *__restrict__ copies, const RowMeta *__restrict__ rows,                  \
        const QueryMeta *__restrict__ query_meta, const SearchParams *__restrict__ params,                           \
        const u32 *__restrict__ deleted, const u32 *__restrict__ masks, float *__restrict__ upper_bounds,            \
        float *__restrict__ lower_bounds, float *__restrict__ group_upper_bounds, u32 first, u32 count, u32 n,       \
        u32 k_tiles, u32 pitch, u32 columns, u32 mask_words
#define GEMV_ARGS                                                                                                    \
    corpus, copies, rows, query_meta, params, deleted, masks, upper_bounds, lower_bounds, group_upper_bounds, first, \
        count, n, k_tiles, pitch, columns, mask_words

// Rows in flight per lane.
#define DEPTH 8

// The position of a warp: the unit of 32 rows, the pass over them, the k tile.
struct Cursor {
    u32 unit, pass, step;
};

template <u32 PASSES>
__device__ __forceinline__ Cursor advance(Cursor at, u32 k_tiles, u32 warps) {
    if (++at.step < k_tiles) return at;
    at.step = 0;
    if (++at.pass < PASSES) return at;
    at.pass = 0;
    at.unit += warps;
    return at;
}

// A streaming load of 16 bytes, not allocated in L1.
__device__ __forceinline__ uint4 load_once(const u8* from) {
    uint4 x;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "l"(from));
    return x;
}

template <int FORMAT>
__device__ __forceinline__ void load_step(
    uint4 (&into)[DEPTH], const u8* __restrict__ corpus, const Cursor& at, u32 k_tiles, u32 pitch) {
    const u32 lane = threadIdx.x & 31;
    if (FORMAT == F32) {
        const u32 column = at.step * 128 + lane * 4;
        const u8* from = corpus + ((u64)(at.unit * 32 + at.pass * DEPTH) * pitch + column) * 4;
#pragma unroll
        for (u32 i = 0; i < DEPTH; i++) {
            into[i] = column < pitch ? load_once(from + (u64)i * pitch * 4) : make_uint4(0, 0, 0, 0);
        }
    } else {
        // Lanes 8j..8j+7 load one chunk each of row 8j + i; row & 7 is i.
        const u64 tile = (u64)(at.unit / 4) * k_tiles + at.step;
        const u8* from = corpus + tile * TILE_BYTES + (at.unit % 4 * 32 + lane / 8 * 8) * 128;
#pragma unroll
        for (u32 i = 0; i < DEPTH; i++) into[i] = load_once(from + swizzle128(i, lane % 8));
    }
}

// The two 16-bit floats of a word.
template <int FORMAT>
__device__ __forceinline__ float2 unpack2(u32 word) {
    if (FORMAT == F16) return make_float2(f16_to_f32(word & 0xffff), f16_to_f32(word >> 16));
    return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u));
}

// A lane's accumulator for one row and query, and its part of the query for one k tile.
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
                const float2 two = unpack2<FORMAT>(words[i]);
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

// Reduces 8 rows over the lanes of each row: afterwards a lane has the sum of its group's row lane % 8.
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

__device__ __forceinline__ float reduced(float (&sums)[DEPTH], bool whole_warp) {
    return spread_sums(sums, whole_warp);
}

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

// Writes the bounds of 32 rows, one per lane.
template <int Q>
__device__ __forceinline__ void write_bounds(const float (&sums)[Q], const RowMeta* __restrict__ rows,
    const QueryMeta* __restrict__ query_meta, const SearchParams* __restrict__ params, const u32* __restrict__ deleted,
    const u32* __restrict__ masks, float* __restrict__ upper_bounds, float* __restrict__ lower_bounds,
    float* __restrict__ group_upper_bounds, u32 first, u32 count, u32 n, u32 mask_words, u32 unit) {
    const u32 lane = threadIdx.x & 31, row = unit * 32 + lane, units = (n + 31) / 32;
    const RowMeta x = row < n ? rows[row] : RowMeta{0, 0, 0, 0};
#pragma unroll
    for (u32 i = 0; i < Q; i++) {
        if (i >= count) return;
        const u32 query = first + i;
        const QueryMeta q = query_meta[query];
        const bool counts = row < n && row_matches(row, params[query].mask, deleted, masks, mask_words);
        const float upper = counts ? upper_bound(sums[i], q, x) : -INFINITY;
        upper_bounds[((u64)query * units + unit) * 32 + lane] = upper;
        const float high = warp_max(upper), low = warp_max(counts ? lower_bound(sums[i], q, x) : -INFINITY);
        if (lane == 0) {
            group_upper_bounds[(u64)query * units + unit] = high;
            lower_bounds[(u64)query * units + unit] = low;
        }
    }
}

template <int FORMAT, int Q>
__device__ __forceinline__ void scan_gemv(GEMV_PARAMS) {
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
    float lane_sums[Q];
    load_step<FORMAT>(now, corpus, at, k_tiles, pitch);
    while (at.unit < units) {
        const Cursor then = advance<PASSES>(at, k_tiles, warps);
        if (then.unit < units) load_step<FORMAT>(next, corpus, then, k_tiles, pitch);
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
                if (PASSES == 1 || lane / 8 == at.pass) lane_sums[i] = sum;
#pragma unroll
                for (u32 row = 0; row < DEPTH; row++) sums[i][row] = Sum{};
            }
            if (then.pass == 0) {
                write_bounds<Q>(
                    lane_sums, rows, query_meta, params, deleted, masks, upper_bounds, lower_bounds, group_upper_bounds,
                        first, count, n, mask_words, at.unit);
            }
        }
        at = then;
#pragma unroll
        for (u32 row = 0; row < DEPTH; row++) now[row] = next[row];
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 2) search_scan_gemv_f32_q1(GEMV_PARAMS) {
    scan_gemv<F32, 1>(GEMV_ARGS);
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 2) search_scan_gemv_f32_q2(GEMV_PARAMS) {
    scan_gemv<F32, 2>(GEMV_ARGS);
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 1) search_scan_gemv_f32_q4(GEMV_PARAMS) {
    scan_gemv<F32, 4>(GEMV_ARGS);
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 2) search_scan_gemv_f16_q1(GEMV_PARAMS) {
    scan_gemv<F16, 1>(GEMV_ARGS);
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 2) search_scan_gemv_f16_q2(GEMV_PARAMS) {
    scan_gemv<F16, 2>(GEMV_ARGS);
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 1) search_scan_gemv_f16_q4(GEMV_PARAMS) {
    scan_gemv<F16, 4>(GEMV_ARGS);
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 2) search_scan_gemv_bf16_q1(GEMV_PARAMS) {
    scan_gemv<BF16, 1>(GEMV_ARGS);
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 2) search_scan_gemv_bf16_q2(GEMV_PARAMS) {
    scan_gemv<BF16, 2>(GEMV_ARGS);
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 1) search_scan_gemv_bf16_q4(GEMV_PARAMS) {
    scan_gemv<BF16, 4>(GEMV_ARGS);
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 2) search_scan_gemv_i8_q1(GEMV_PARAMS) {
    scan_gemv<I8, 1>(GEMV_ARGS);
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 2) search_scan_gemv_i8_q2(GEMV_PARAMS) {
    scan_gemv<I8, 2>(GEMV_ARGS);
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 1) search_scan_gemv_i8_q4(GEMV_PARAMS) {
    scan_gemv<I8, 4>(GEMV_ARGS);
}
