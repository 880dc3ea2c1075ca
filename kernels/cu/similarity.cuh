// What the kernels of similarity search share: how rows and queries lie in memory, and the bound that proves an answer.
//
// Every score is written as a rank, higher is nearer: the cosine, the inner product, or q.x - |x|^2/2 for the squared
// distance, which is |q|^2 - 2 rank. A scan does not compute ranks but
//
//   approx(q, x) = q.scale * x.scale * (q_s . x_s) + x.shift
//
// from copies q_s, x_s in few bits (for the cosine, of the normalised vectors). With q', x' the exact vectors (normalised
// for the cosine), and q_s, x_s now with their scales:
//
//   q'.x' - q_s.x_s = q_s.(x' - x_s) + (q' - q_s).x'
//   |approx - rank| <= |q_s| |x' - x_s| + |q' - q_s| |x'| + sum + rounding
//
// by Cauchy-Schwarz. |x' - x_s| is measured when a row is copied (`Row::error`, in f64, rounded up), not assumed.
// `sum` is what adding K products in f32 loses: at most (K/4 + 16) 2^-24 |q_s||x_s| for the vector kernels (K/8 or fewer
// fused additions a lane, then a tree), and at most K 2^-22 |q_s||x_s| on tensor cores: products of 16-bit numbers are exact
// there, and even if each of the 17 addends of every 16 columns were cut off at 2^-23 of the largest, that would be
// (17/16) K 2^-23. Integer sums are exact. `rounding` covers the few f32 operations around it, 16 units in the last place
// of every term. All of it is kept as |approx - rank| <= q.per_error * x.error + q.per_norm * x.norm + 2^-20 |x.shift|.
//
// Where a norm is so large or small that f32 might overflow or underflow on the way, `norm` or `per_norm` is infinite: then
// the bound is infinite or NaN, the row is a candidate always, and raises no floor.
//
// A floor of a query is a number that the ranks of at least k rows that count reach: the k-th best lower bound of any
// subset of the rows. Rows whose upper bound is below it cannot be in the answer. Floors are lowered (`lowered`) by more
// than what rounding a score to f32 can hide, so that ties in rounded scores stay candidates.

#pragma once
#include "common.cuh"

// Formats of scan copies.
#define F32 0
#define F16 1
#define BF16 2
#define I8 3

#define COSINE 0
#define DOT 1
#define SQUARED_L2 2

// What a scan does with its bounds: writes all upper bounds and the best lower bound of each group of rows; only the
// latter; or keeps the rows whose upper bound reaches their query's floor.
#define STORE 0
#define SAMPLE 1
#define FILTER 2

#define NO_MASK 0xffffffffu
#define SMALL 1e-18
#define LARGE 1e18
#define SHIFT_SLACK 9.5367431640625e-7f /* 2^-20 */

// One corpus row.
struct __align__(16) Row {
    float scale, shift, error, norm;
};

// One query.
struct __align__(16) Query {
    float scale, per_error, per_norm, floor;
};

// What a caller asks of one query: its k, its mask's slot or NO_MASK, and the worst score to tell (where `bounded`).
struct __align__(16) Wish {
    u32 k, mask;
    float threshold;
    u32 bounded;
};

// What is told of one query: candidates rescored, or OVERFLOW; the floor they had to reach; |q|^2.
struct __align__(16) Status {
    u32 kept;
    float floor;
    double norm2;
};
#define OVERFLOW 0xffffffffu

// How a query is copied: as rows are (tiles), or for the vector kernels as f32, or as pairs of int8 (a coarse and a fine
// part, the fine in steps of 1/256); or not at all.
#define VECTOR 4
#define PAIR 5
#define NOTHING 6

// Scan copies are tiles of 128 rows by 128 bytes of each row (64 columns of 16 bits, 128 of 8), tiles of the same rows one
// after the other. Inside, the 16-byte chunk c of row r lies at r * 128 + ((c ^ (r & 7)) << 4): the layout that shared
// memory wants to serve tensor cores without bank conflicts (the 128-byte swizzle), so that tiles are copied as they are.
#define TILE_ROWS 128u
#define TILE_BYTES 16384u

__device__ __forceinline__ u32 swizzled(u32 row, u32 chunk) { return row * 128 + ((chunk ^ (row & 7)) << 4); }

// Where a 16-byte chunk of a row's scan copy lies: `chunk` counts from the row's start, `steps` tiles make a row.
__device__ __forceinline__ u64 chunk_at(u32 row, u32 chunk, u32 steps, u32 rows_a_tile) {
    const u64 tile = (u64)(row / rows_a_tile) * steps + chunk / 8;
    return tile * (rows_a_tile * 128) + swizzled(row % rows_a_tile, chunk % 8);
}

__device__ __forceinline__ float bound(const Query& q, const Row& x) {
    return fmaf(q.per_error, x.error, q.per_norm * x.norm);
}

// The least that the rank cannot exceed; infinite where nothing is known.
__device__ __forceinline__ float upper_bound(float sum, const Query& q, const Row& x) {
    const float upper = fmaf(sum, q.scale * x.scale, x.shift * (1.0f - SHIFT_SLACK)) + bound(q, x);
    return upper < INFINITE ? upper : INFINITE;
}

// The most that the rank cannot fall below; minus infinity where nothing is known.
__device__ __forceinline__ float lower_bound(float sum, const Query& q, const Row& x) {
    const float lower = fmaf(sum, q.scale * x.scale, x.shift * (1.0f + SHIFT_SLACK)) - bound(q, x);
    return fmaxf(lower, -INFINITE);
}

// A lower bound that `upper_bound` came with.
__device__ __forceinline__ float lower_from_upper(float upper, const Query& q, const Row& x) {
    const float lower = upper - 2.0f * (bound(q, x) - SHIFT_SLACK * x.shift);
    return upper < INFINITE ? fmaxf(lower, -INFINITE) : -INFINITE;
}

// A floor lowered below whatever ties with it once scores are rounded. `norm2` is |q|^2 for the squared distance, else 0.
__device__ __forceinline__ float lowered(double floor, double norm2) {
    if (!(fabs(floor) < (double)INFINITE)) return (float)floor;
    return __double2float_rd(floor - (9.5367431640625e-7 * fabs(floor) + 4.76837158203125e-7 * norm2 + 1e-30));
}

// Whether a row counts for a query. Masks are `mask_words` long, a bit a row; `dead` may be null.
__device__ __forceinline__ bool counts_for(u32 row, u32 mask, const u32* dead, const u32* masks, u32 mask_words) {
    const u32 word = row >> 5, bit = 1u << (row & 31);
    if (dead && (dead[word] & bit)) return false;
    return mask == NO_MASK || (masks[(u64)mask * mask_words + word] & bit);
}
