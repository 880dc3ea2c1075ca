// Copies of rows and queries in few bits, for the scans of similarity search, and what each copy loses. similarity.cuh says
// what that proves.

#include "similarity.cuh"

// Eight columns of a vector in few bits.
struct Packed {
    uint4 words;
    // Squared norm of what was lost, and of what is left, without the scale.
    double error2, norm2;
};

__device__ __forceinline__ u16 encode(double x, int format) {
    return format == F16 ? f32_to_f16((float)x) : f32_to_bf16((float)x);
}

__device__ __forceinline__ double decode(u16 bits, int format) {
    return format == F16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

__device__ __forceinline__ int to_i8(double x) { return max(-127, min(127, __double2int_rn(x))); }

// Encodes columns that were multiplied by `up` for it, as 16-bit floats or int8.
__device__ __forceinline__ Packed pack(const double (&x)[8], int format) {
    Packed packed = {};
    u32* words = &packed.words.x;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int code = format == I8 ? to_i8(x[i]) : encode(x[i], format);
        const double value = format == I8 ? (double)code : decode((u16)code, format);
        if (format == I8) words[i / 4] |= (u32)(code & 0xff) << (8 * (i % 4));
        else words[i / 2] |= (u32)code << (16 * (i % 2));
        packed.error2 += (x[i] - value) * (x[i] - value);
        packed.norm2 += value * value;
    }
    return packed;
}

// Eight columns from `at` on, zero past `pitch`, times `factor`.
__device__ __forceinline__ void load_columns(double (&x)[8], const float* row, u32 at, u32 pitch, double factor) {
    const float4 zero = make_float4(0, 0, 0, 0);
    const float4 a = at < pitch ? *(const float4*)(row + at) : zero;
    const float4 b = at + 4 < pitch ? *(const float4*)(row + at + 4) : zero;
    const float values[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
    for (int i = 0; i < 8; i++) x[i] = values[i] * factor;
}

// By what a vector whose largest column is `largest` is multiplied before it is encoded; `scale` undoes it exactly.
__device__ __forceinline__ double encoding(double largest, int format, float& scale) {
    scale = 1.0f;
    if (format == F16 && largest > 0) {
        // A power of two that brings the largest column to 2^13..2^14: neither end of the range is near.
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

// f64 to f32, never smaller, with room for the roundings before.
__device__ __forceinline__ float rounded_up(double x) { return __double2float_ru(x * (1.0 + 1e-9)); }

// Whether f32 can take products of a vector of this norm with others.
__device__ __forceinline__ bool is_tame(double norm) { return norm == 0.0 || (norm >= SMALL && norm <= LARGE); }

// Copies one row, by one warp. `format` is of the scan copy; F32 has none, but measures what bfloat16 would lose.
__device__ __forceinline__ void quantise(const float* __restrict__ originals, u8* __restrict__ scan,
    Row* __restrict__ rows, u32* __restrict__ peaks, u32 row, u32 steps, u32 pitch, u32 metric, int format) {
    const u32 lane = threadIdx.x & 31;
    const float* from = originals + (u64)row * pitch;
    double norm2 = 0, x[8];
    float largest = 0;
    for (u32 at = lane * 8; at < pitch; at += 256) {
        load_columns(x, from, at, pitch, 1.0);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            norm2 += x[i] * x[i];
            largest = fmaxf(largest, fabsf((float)x[i]));
        }
    }
    const double norm = sqrt(warp_sum(norm2));
    largest = warp_max(largest);

    // What is copied is the row, or for the cosine the normalised row; F32 normalises after the product instead.
    const bool normalised = metric == COSINE;
    const double factor = normalised && norm > 0 ? 1.0 / norm : 1.0;
    const double before = format == F32 ? 1.0 : factor;
    float scale;
    const double up = encoding(largest * before, format == F32 ? BF16 : format, scale);
    double error2 = 0;
    const u32 pieces = format == F32 ? (pitch + 7) / 8 : steps * (format == I8 ? 16 : 8);
    for (u32 piece = lane; piece < pieces; piece += 32) {
        load_columns(x, from, piece * 8, pitch, before * up);
        const Packed packed = pack(x, format == F32 ? BF16 : format);
        if (format == I8) {
            u8* to = scan + chunk_at(row, piece / 2, steps, TILE_ROWS) + piece % 2 * 8;
            *(uint2*)to = make_uint2(packed.words.x, packed.words.y);
        } else if (format != F32) {
            *(uint4*)(scan + chunk_at(row, piece, steps, TILE_ROWS)) = packed.words;
        }
        error2 += packed.error2;
    }
    // Where nothing could be encoded (scale 0), everything is lost.
    const double unit = normalised ? (norm > 0) : norm;
    double error = scale > 0 ? sqrt(warp_sum(error2)) * scale : unit;
    if (format == F32 && normalised) {
        // A scale rounded to f32 moves the copy by another 2^-24.
        scale = norm > 0 ? (float)factor : 0.0f;
        error = error * factor + 1e-7 * unit;
    }
    if (lane != 0) return;
    const bool tame = is_tame(format == F32 || !normalised ? norm : unit);
    const Row out = {scale, metric == SQUARED_L2 ? (float)(-0.5 * norm * norm) : 0.0f, rounded_up(error),
        tame ? rounded_up(unit) : INFINITE};
    rows[row] = out;
    // Neither is negative, so that their bits are in their order.
    atomicMax(peaks + row / TILE_ROWS * 2, __float_as_uint(out.error));
    atomicMax(peaks + row / TILE_ROWS * 2 + 1, __float_as_uint(out.norm));
}

// similarity_quantise_*: copies rows first..first + count for scanning, and measures what each copy loses.
//   originals f32[rows, pitch], columns past the dimension zero, pitch a multiple of 4
//   scan: tiles (similarity.cuh), `steps` a row; not written for f32
//   rows Row[rows]; peaks f32[rows / 128, 2], the largest error and norm of each 128 rows, zero before their first row
// One warp per row, 8 a block.
#define QUANTISE_PARAMS                                                                                          \
    const float *__restrict__ originals, u8 *__restrict__ scan, Row *__restrict__ rows, u32 *__restrict__ peaks, \
        u32 first, u32 count, u32 steps, u32 pitch, u32 metric
#define QUANTISE_ARGS originals, scan, rows, peaks, first, count, steps, pitch, metric

template <int FORMAT>
__device__ __forceinline__ void quantise_rows(QUANTISE_PARAMS) {
    const u32 at = blockIdx.x * 8 + threadIdx.x / 32;
    if (at < count) quantise(originals, scan, rows, peaks, first + at, steps, pitch, metric, FORMAT);
}

extern "C" __global__ void __launch_bounds__(256) similarity_quantise_f32(QUANTISE_PARAMS) {
    quantise_rows<F32>(QUANTISE_ARGS);
}

extern "C" __global__ void __launch_bounds__(256) similarity_quantise_f16(QUANTISE_PARAMS) {
    quantise_rows<F16>(QUANTISE_ARGS);
}

extern "C" __global__ void __launch_bounds__(256) similarity_quantise_bf16(QUANTISE_PARAMS) {
    quantise_rows<BF16>(QUANTISE_ARGS);
}

extern "C" __global__ void __launch_bounds__(256) similarity_quantise_i8(QUANTISE_PARAMS) {
    quantise_rows<I8>(QUANTISE_ARGS);
}

// similarity_spread: rows of `dim` columns to rows of `pitch`, zeros between.
//   packed f32[count, dim], spread f32[count, pitch]
// One thread per column written.
extern "C" __global__ void __launch_bounds__(256) similarity_spread(
    const float* __restrict__ packed, float* __restrict__ spread, u64 count, u32 dim, u32 pitch) {
    const u64 at = (u64)blockIdx.x * 256 + threadIdx.x;
    if (at >= count * pitch) return;
    const u32 column = at % pitch;
    spread[at] = column < dim ? packed[at / pitch * dim + column] : 0.0f;
}

// Largest of the block, in every thread; `scratch` holds 32.
__device__ __forceinline__ float block_max(float x, float* scratch) {
    x = warp_max(x);
    if ((threadIdx.x & 31) == 0) scratch[threadIdx.x >> 5] = x;
    __syncthreads();
    return warp_max((threadIdx.x & 31) < (blockDim.x >> 5) ? scratch[threadIdx.x & 31] : 0.0f);
}

// Columns of the fine part of a pair: what the coarse part `codes` left of `x`, in steps of 1/256.
__device__ __forceinline__ uint2 fine_part(const double (&x)[8], double& error2, double& norm2) {
    u32 words[2] = {0, 0};
    error2 = norm2 = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int coarse = to_i8(x[i]), fine = to_i8((x[i] - coarse) * 256.0);
        const double value = coarse + fine / 256.0;
        words[i / 4] |= (u32)(fine & 0xff) << (8 * (i % 4));
        error2 += (x[i] - value) * (x[i] - value);
        norm2 += value * value;
    }
    return make_uint2(words[0], words[1]);
}

// Copies eight columns of a query, of which `x` was multiplied for its format.
__device__ __forceinline__ void copy_columns(u8* copies, const double (&x)[8], u32 query, u32 piece, u32 columns,
    u32 steps, u32 tile, u32 format, double& error2, double& norm2) {
    Packed packed = pack(x, format == F16 ? F16 : format == BF16 ? BF16 : I8);
    if (format == VECTOR) {
        float* to = (float*)copies + (u64)query * columns + piece * 8;
        packed.error2 = packed.norm2 = 0;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            to[i] = (float)x[i];
            packed.error2 += (x[i] - to[i]) * (x[i] - to[i]);
            packed.norm2 += (double)to[i] * to[i];
        }
    } else if (format == PAIR) {
        u8* to = copies + (u64)query * 2 * columns + piece * 8;
        *(uint2*)to = make_uint2(packed.words.x, packed.words.y);
        *(uint2*)(to + columns) = fine_part(x, packed.error2, packed.norm2);
    } else if (format == I8) {
        u8* to = copies + chunk_at(query, piece / 2, steps, tile) + piece % 2 * 8;
        *(uint2*)to = make_uint2(packed.words.x, packed.words.y);
    } else {
        *(uint4*)(copies + chunk_at(query, piece, steps, tile)) = packed.words;
    }
    error2 += packed.error2;
    norm2 += packed.norm2;
}

// The factors of a query's bound: `norm` of its copy, `lost` by copying, `sum` the relative error of the products' sum.
__device__ __forceinline__ Query query_of(float scale, double norm, double lost, double sum, bool rows_are_exact) {
    const double rounding = 1.9073486328125e-6; // 2^-19
    const double per_error = rows_are_exact ? 0.0 : norm * (1.0 + sum + rounding);
    const double per_norm = lost + norm * (sum + rounding);
    if (!is_tame(norm)) return {scale, INFINITE, INFINITE, -INFINITE};
    return {scale, rounded_up(per_error * 1.0001), rounded_up(per_norm * 1.0001), -INFINITE};
}

// similarity_prepare: copies queries for a scan, and begins what is known of each.
//   queries f32[count, pitch], columns past the dimension zero
//   wishes Wish[count]
//   copies: f32[count, columns] for VECTOR, i8[count, 2, columns] for PAIR, else tiles of `tile` queries, `steps` a query
//   known Query[blocks], status Status[count], found u32[count], which becomes zero
// One block per query; blocks past `count` make queries that find nothing, to fill the last tile.
extern "C" __global__ void __launch_bounds__(128) similarity_prepare(const float* __restrict__ queries,
    const Wish* __restrict__ wishes, u8* __restrict__ copies, Query* __restrict__ known, Status* __restrict__ status,
    u32* __restrict__ found, u32 count, u32 pitch, u32 columns, u32 steps, u32 tile, u32 format, u32 metric,
    u32 rows_are_exact) {
    __shared__ double sums[3][32];
    __shared__ float maxima[32];
    const u32 query = blockIdx.x;
    const bool real = query < count;
    const float* from = queries + (u64)query * pitch;
    const u32 past = real ? pitch : 0;
    double x[8], norm2 = 0;
    float largest = 0;
    for (u32 at = threadIdx.x * 8; at < past; at += 1024) {
        load_columns(x, from, at, past, 1.0);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            norm2 += x[i] * x[i];
            largest = fmaxf(largest, fabsf((float)x[i]));
        }
    }
    norm2 = block_sum(norm2, sums[0]);
    largest = block_max(largest, maxima);
    const double factor = metric == COSINE && norm2 > 0 ? 1.0 / sqrt(norm2) : 1.0;

    float scale = 1.0f;
    double error2 = 0, copied2 = 0;
    if (format != NOTHING) {
        const double up = encoding(largest * factor, format == PAIR ? I8 : format, scale);
        for (u32 piece = threadIdx.x; piece < columns / 8; piece += 128) {
            load_columns(x, from, piece * 8, past, factor * up);
            copy_columns(copies, x, query, piece, columns, steps, tile, format, error2, copied2);
        }
    }
    error2 = block_sum(error2, sums[1]);
    copied2 = block_sum(copied2, sums[2]);
    if (threadIdx.x != 0) return;

    const bool coded = scale > 0;
    const double unit = metric == COSINE ? (norm2 > 0) : sqrt(norm2);
    const double sum = format == VECTOR ? (columns / 4 + 16) * 5.9604644775390625e-8
        : format == F16 || format == BF16 ? columns * 2.384185791015625e-7 : 0.0;
    Query q = query_of(scale, sqrt(copied2) * scale, coded ? sqrt(error2) * scale : unit, sum, rows_are_exact);
    if (!is_tame(unit)) q.per_error = q.per_norm = INFINITE;
    if (!real) {
        q.floor = INFINITE;
        known[query] = q;
        return;
    }
    const Wish wish = wishes[query];
    const double distance2 = metric == SQUARED_L2 ? norm2 : 0.0;
    const double bar = metric == SQUARED_L2 ? 0.5 * (norm2 - wish.threshold) : (double)wish.threshold;
    q.floor = wish.bounded ? lowered(bar, distance2) : -INFINITE;
    known[query] = q;
    status[query] = {0, q.floor, norm2};
    found[query] = 0;
}
