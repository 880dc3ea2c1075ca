// Quantised copies of rows and queries for the scans, with the quantisation error measured per row. The error bound
// that these measurements enter is derived in bounds.cuh.

#include "search/bounds.cuh"

// Eight quantised columns of a vector.
struct PackedColumns {
    uint4 words;
    // Squared norms of the quantisation error and of the quantised columns, without the scale.
    double error2, squared_norm;
};

__device__ __forceinline__ u16 encode(double x, int format) {
    return format == F16 ? f32_to_f16((float)x) : f32_to_bf16((float)x);
}

__device__ __forceinline__ double decode(u16 bits, int format) {
    return format == F16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

__device__ __forceinline__ int to_i8(double x) { return max(-127, min(127, __double2int_rn(x))); }

// Quantises columns, already multiplied by the factor of `encode_factor`, to 16-bit floats or int8.
__device__ __forceinline__ PackedColumns pack(const double (&x)[8], int format) {
    PackedColumns packed = {};
    u32* words = &packed.words.x;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int code = format == I8 ? to_i8(x[i]) : encode(x[i], format);
        const double value = format == I8 ? (double)code : decode((u16)code, format);
        if (format == I8) words[i / 4] |= (u32)(code & 0xff) << (8 * (i % 4));
        else words[i / 2] |= (u32)code << (16 * (i % 2));
        packed.error2 += (x[i] - value) * (x[i] - value);
        packed.squared_norm += value * value;
    }
    return packed;
}

// Loads eight columns from `at` on times `factor`, zeros past `pitch`.
__device__ __forceinline__ void load_columns(double (&x)[8], const float* row, u32 at, u32 pitch, double factor) {
    const float4 zero = make_float4(0, 0, 0, 0);
    const float4 a = at < pitch ? *(const float4*)(row + at) : zero;
    const float4 b = at + 4 < pitch ? *(const float4*)(row + at + 4) : zero;
    const float values[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
    for (int i = 0; i < 8; i++) x[i] = values[i] * factor;
}

// The factor by which a vector with the largest magnitude `largest` is multiplied before quantisation; `scale` is its
// exact inverse.
__device__ __forceinline__ double encode_factor(double largest, int format, float& scale) {
    scale = 1.0f;
    if (format == F16 && largest > 0) {
        // A power of two that brings the largest column to 2^13..2^14, far from both ends of the range.
        const int exponent = max(-120, min(120, 1036 - ((__double2hiint(largest) >> 20) & 0x7ff)));
        scale = __int_as_float((127 - exponent) << 23);
        return __hiloint2double((1023 + exponent) << 20, 0);
    }
    if (format != I8) return 1.0;
    scale = (float)(largest / 127.0);
    if (scale > 1e-37f) return 1.0 / (double)scale;
    scale = 0.0f;
    return 0.0;
}

// f64 to f32, rounded up, with slack for preceding roundings.
__device__ __forceinline__ float round_up(double x) { return __double2float_ru(x * (1.0 + 1e-9)); }

// Whether products of vectors of this norm neither overflow nor underflow in f32.
__device__ __forceinline__ bool is_in_range(double norm) {
    return norm == 0.0 || (norm >= MIN_NORM && norm <= MAX_NORM);
}

// Quantises one row, by one warp. F32 writes no copy, but measures the error of bfloat16.
__device__ __forceinline__ void quantise(const float* __restrict__ originals, u8* __restrict__ scan,
    RowMeta* __restrict__ rows, u32* __restrict__ tile_max, u32 row, u32 k_tiles, u32 pitch, u32 metric, int format) {
    const u32 lane = threadIdx.x & 31;
    const float* from = originals + (u64)row * pitch;
    double squared_norm = 0, x[8];
    float largest = 0;
    for (u32 at = lane * 8; at < pitch; at += 256) {
        load_columns(x, from, at, pitch, 1.0);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            squared_norm += x[i] * x[i];
            largest = fmaxf(largest, fabsf((float)x[i]));
        }
    }
    const double norm = sqrt(warp_sum(squared_norm));
    largest = warp_max(largest);

    // The cosine's copy is of the normalised row; F32 normalises after the product instead.
    const bool normalised = metric == COSINE;
    const double factor = normalised && norm > 0 ? 1.0 / norm : 1.0;
    const double before = format == F32 ? 1.0 : factor;
    float scale;
    const double up = encode_factor(largest * before, format == F32 ? BF16 : format, scale);
    double error2 = 0;
    const u32 chunks = format == F32 ? (pitch + 7) / 8 : k_tiles * (format == I8 ? 16 : 8);
    for (u32 chunk = lane; chunk < chunks; chunk += 32) {
        load_columns(x, from, chunk * 8, pitch, before * up);
        const PackedColumns packed = pack(x, format == F32 ? BF16 : format);
        if (format == I8) {
            u8* to = scan + scan_chunk_offset(row, chunk / 2, k_tiles, TILE_ROWS) + chunk % 2 * 8;
            *(uint2*)to = make_uint2(packed.words.x, packed.words.y);
        } else if (format != F32) {
            *(uint4*)(scan + scan_chunk_offset(row, chunk, k_tiles, TILE_ROWS)) = packed.words;
        }
        error2 += packed.error2;
    }
    // If the scale is 0, the copy is zero and the error is the norm.
    const double unit = normalised ? (norm > 0) : norm;
    double error = scale > 0 ? sqrt(warp_sum(error2)) * scale : unit;
    if (format == F32 && normalised) {
        // Rounding the scale to f32 adds an error of 2^-24.
        scale = norm > 0 ? (float)factor : 0.0f;
        error = error * factor + 1e-7 * unit;
    }
    if (lane != 0) return;
    const bool in_range = is_in_range(format == F32 || !normalised ? norm : unit);
    const RowMeta out = {scale, metric == SQUARED_L2 ? (float)(-0.5 * norm * norm) : 0.0f, round_up(error),
        in_range ? round_up(unit) : INFINITY};
    rows[row] = out;
    // Neither is negative, so their bit patterns are ordered as the numbers.
    atomicMax(tile_max + row / TILE_ROWS * 2, __float_as_uint(out.error));
    atomicMax(tile_max + row / TILE_ROWS * 2 + 1, __float_as_uint(out.norm));
}

// search_quantise_rows_{format}: quantises rows first..first + count and measures the error of each.
//   originals f32[rows, pitch], zeros past the dimension, pitch a multiple of 4
//   scan: tiles (bounds.cuh), `k_tiles` per row; not written for f32
//   rows RowMeta[rows]
//   tile_max f32[rows / 128, 2]: the largest error and norm of each 128 rows; must be zeroed before their first row
// One warp per row, 8 warps per block.
#define QUANTISE_PARAMS                                                                                              \
    const float *__restrict__ originals, u8 *__restrict__ scan, RowMeta *__restrict__ rows,                          \
        u32 *__restrict__ tile_max, u32 first, u32 count, u32 k_tiles, u32 pitch, u32 metric
#define QUANTISE_ARGS originals, scan, rows, tile_max, first, count, k_tiles, pitch, metric

template <int FORMAT>
__device__ __forceinline__ void quantise_rows(QUANTISE_PARAMS) {
    const u32 at = blockIdx.x * BLOCK_ROWS + threadIdx.x / 32;
    if (at < count) quantise(originals, scan, rows, tile_max, first + at, k_tiles, pitch, metric, FORMAT);
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS) search_quantise_rows_f32(QUANTISE_PARAMS) {
    quantise_rows<F32>(QUANTISE_ARGS);
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS) search_quantise_rows_f16(QUANTISE_PARAMS) {
    quantise_rows<F16>(QUANTISE_ARGS);
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS) search_quantise_rows_bf16(QUANTISE_PARAMS) {
    quantise_rows<BF16>(QUANTISE_ARGS);
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS) search_quantise_rows_i8(QUANTISE_PARAMS) {
    quantise_rows<I8>(QUANTISE_ARGS);
}

// search_pad_rows: pads rows of `dim` columns with zeros to `pitch` columns.
//   packed f32[count, dim], padded f32[count, pitch]
// One thread per column written.
extern "C" __global__ void __launch_bounds__(BLOCK_THREADS) search_pad_rows(
    const float* __restrict__ packed, float* __restrict__ padded, u64 count, u32 dim, u32 pitch) {
    const u64 at = (u64)blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (at >= count * pitch) return;
    const u32 column = at % pitch;
    padded[at] = column < dim ? packed[at / pitch * dim + column] : 0.0f;
}

// The maximum over the block, in every thread; `scratch` has 32 entries.
__device__ __forceinline__ float block_max(float x, float* scratch) {
    x = warp_max(x);
    if ((threadIdx.x & 31) == 0) scratch[threadIdx.x >> 5] = x;
    __syncthreads();
    return warp_max((threadIdx.x & 31) < (blockDim.x >> 5) ? scratch[threadIdx.x & 31] : 0.0f);
}

// The fine part of eight columns: the remainder of the coarse part in k_tiles of 1/256.
__device__ __forceinline__ uint2 fine_part(const double (&x)[8], double& error2, double& squared_norm) {
    u32 words[2] = {0, 0};
    error2 = squared_norm = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int coarse = to_i8(x[i]), fine = to_i8((x[i] - coarse) * 256.0);
        const double value = coarse + fine / 256.0;
        words[i / 4] |= (u32)(fine & 0xff) << (8 * (i % 4));
        error2 += (x[i] - value) * (x[i] - value);
        squared_norm += value * value;
    }
    return make_uint2(words[0], words[1]);
}

// Quantises and writes eight columns of a query, already multiplied by the factor of `encode_factor`.
__device__ __forceinline__ void copy_columns(u8* copies, const double (&x)[8], u32 query, u32 chunk, u32 columns,
    u32 k_tiles, u32 tile, u32 format, double& error2, double& squared_norm) {
    PackedColumns packed = pack(x, format == F16 ? F16 : format == BF16 ? BF16 : I8);
    if (format == QUERY_F32) {
        float* to = (float*)copies + (u64)query * columns + chunk * 8;
        packed.error2 = packed.squared_norm = 0;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            to[i] = (float)x[i];
            packed.error2 += (x[i] - to[i]) * (x[i] - to[i]);
            packed.squared_norm += (double)to[i] * to[i];
        }
    } else if (format == QUERY_I8X2) {
        u8* to = copies + (u64)query * 2 * columns + chunk * 8;
        *(uint2*)to = make_uint2(packed.words.x, packed.words.y);
        *(uint2*)(to + columns) = fine_part(x, packed.error2, packed.squared_norm);
    } else if (format == I8) {
        u8* to = copies + scan_chunk_offset(query, chunk / 2, k_tiles, tile) + chunk % 2 * 8;
        *(uint2*)to = make_uint2(packed.words.x, packed.words.y);
    } else {
        *(uint4*)(copies + scan_chunk_offset(query, chunk, k_tiles, tile)) = packed.words;
    }
    error2 += packed.error2;
    squared_norm += packed.squared_norm;
}

// A query's factors of the error bound: `norm` is of its copy, `lost` its quantisation error, `sum` the relative error
// of accumulation.
__device__ __forceinline__ QueryMeta make_query_meta(
    float scale, double norm, double lost, double sum, bool rows_are_exact) {
    const double rounding = 1.9073486328125e-6; // 2^-19
    const double per_error = rows_are_exact ? 0.0 : norm * (1.0 + sum + rounding);
    const double per_norm = lost + norm * (sum + rounding);
    if (!is_in_range(norm)) return {scale, INFINITY, INFINITY, -INFINITY};
    return {scale, round_up(per_error * 1.0001), round_up(per_norm * 1.0001), -INFINITY};
}

// search_quantise_queries: quantises queries for a scan and initialises their state.
//   queries f32[count, pitch], zeros past the dimension
//   params SearchParams[count]
//   copies: f32[count, columns] for QUERY_F32, i8[count, 2, columns] for QUERY_I8X2, else tiles of `tile` queries with
//     `k_tiles` per query
//   query_meta QueryMeta[gridDim.x], status SearchStatus[count], candidate_counts u32[count], set to 0
// One block per query; blocks past `count` write padding queries without matches, which fill the last tile.
extern "C" __global__ void __launch_bounds__(QUERY_THREADS) search_quantise_queries(const float* __restrict__ queries,
    const SearchParams* __restrict__ params, u8* __restrict__ copies, QueryMeta* __restrict__ query_meta,
    SearchStatus* __restrict__ status, u32* __restrict__ candidate_counts, u32 count, u32 pitch, u32 columns,
    u32 k_tiles, u32 tile, u32 format, u32 metric, u32 rows_are_exact) {
    __shared__ double sums[3][32];
    __shared__ float maxima[32];
    const u32 query = blockIdx.x;
    const bool real = query < count;
    const float* from = queries + (u64)query * pitch;
    const u32 past = real ? pitch : 0;
    double x[8], squared_norm = 0;
    float largest = 0;
    for (u32 at = threadIdx.x * 8; at < past; at += 1024) {
        load_columns(x, from, at, past, 1.0);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            squared_norm += x[i] * x[i];
            largest = fmaxf(largest, fabsf((float)x[i]));
        }
    }
    squared_norm = block_sum(squared_norm, sums[0]);
    largest = block_max(largest, maxima);
    const double factor = metric == COSINE && squared_norm > 0 ? 1.0 / sqrt(squared_norm) : 1.0;

    float scale = 1.0f;
    double error2 = 0, copied2 = 0;
    if (format != QUERY_NONE) {
        const double up = encode_factor(largest * factor, format == QUERY_I8X2 ? I8 : format, scale);
        for (u32 chunk = threadIdx.x; chunk < columns / 8; chunk += 128) {
            load_columns(x, from, chunk * 8, past, factor * up);
            copy_columns(copies, x, query, chunk, columns, k_tiles, tile, format, error2, copied2);
        }
    }
    error2 = block_sum(error2, sums[1]);
    copied2 = block_sum(copied2, sums[2]);
    if (threadIdx.x != 0) return;

    const bool encoded = scale > 0;
    const double unit = metric == COSINE ? (squared_norm > 0) : sqrt(squared_norm);
    const double sum = format == QUERY_F32 ? (columns / 4 + 16) * 5.9604644775390625e-8
        : format == F16 || format == BF16 ? columns * 2.384185791015625e-7 : 0.0;
    QueryMeta q = make_query_meta(scale, sqrt(copied2) * scale, encoded ? sqrt(error2) * scale : unit, sum,
        rows_are_exact);
    if (!is_in_range(unit)) q.per_error = q.per_norm = INFINITY;
    if (!real) {
        q.pruning_threshold = INFINITY;
        query_meta[query] = q;
        return;
    }
    const SearchParams own = params[query];
    const double distance_norm = metric == SQUARED_L2 ? squared_norm : 0.0;
    const double worst_rank = metric == SQUARED_L2 ? 0.5 * (squared_norm - own.threshold) : (double)own.threshold;
    q.pruning_threshold = own.has_threshold ? lower_for_ties(worst_rank, distance_norm) : -INFINITY;
    query_meta[query] = q;
    status[query] = {0, q.pruning_threshold, squared_norm};
    candidate_counts[query] = 0;
}
