// Exact nearest-neighbour search: memory layouts of rows and queries, and the error bound that certifies a result.
//
// Every score is expressed as a rank, higher is nearer: the cosine, the inner product, or q.x - |x|^2/2 for the squared
// distance, which is |q|^2 - 2 rank. A scan does not compute ranks but the approximation
//
//   approx(q, x) = q.scale * x.scale * (q_s . x_s) + x.shift
//
// from quantised copies q_s, x_s (for the cosine, of the normalised vectors). With q', x' the exact vectors (normalised
// for the cosine), and q_s, x_s now including their scales:
//
//   q'.x' - q_s.x_s = q_s.(x' - x_s) + (q' - q_s).x'
//   |approx - rank| <= |q_s| |x' - x_s| + |q' - q_s| |x'| + sum + rounding
//
// by Cauchy-Schwarz. |x' - x_s| is not assumed but measured when a row is quantised (`RowMeta::error`, f64, rounded up).
// `sum` is the error of accumulating K products in f32. For the GEMV kernels it is at most (K/4 + 16) 2^-24 |q_s||x_s|:
// K/8 or fewer fused multiply-adds per lane, then a tree. On tensor cores it is at most K 2^-22 |q_s||x_s|: products of
// 16-bit numbers are exact, and even if each of the 17 addends of every 16 columns were truncated at 2^-23 of the
// largest, the error would be (17/16) K 2^-23. Integer sums are exact. `rounding` covers the f32 operations around the
// sum, 16 units in the last place of every term. Together:
//
//   |approx - rank| <= q.per_error * x.error + q.per_norm * x.norm + 2^-20 |x.shift|
//
// If a norm is so large or small that f32 might overflow or underflow, `norm` or `per_norm` is infinite. The bound is
// then infinite or NaN: the row is always a candidate and raises no threshold.
//
// A pruning threshold of a query is a number that the ranks of at least k matching rows reach: the k-th best lower
// bound of any subset of the rows. Rows whose upper bound is below it cannot be in the result. Thresholds are lowered
// (`lower_for_ties`) by more than rounding a score to f32 can hide, so that ties of rounded scores remain candidates.

#pragma once
#include "launch/search.cuh"

#define MIN_NORM 1e-18
#define MAX_NORM 1e18
#define SHIFT_SLACK 9.5367431640625e-7f /* 2^-20 */

// The scanned copy consists of tiles of 128 rows by 128 bytes of each row (64 columns of 16 bits, 128 of 8), the k
// tiles of the same rows contiguous. Within a tile, the 16-byte chunk c of row r is at r * 128 + ((c ^ (r & 7)) << 4):
// the 128-byte swizzle of shared memory, free of bank conflicts, so that tiles are loaded as they are.
__device__ __forceinline__ u32 swizzle128(u32 row, u32 chunk) { return row * 128 + ((chunk ^ (row & 7)) << 4); }

// The offset of a 16-byte chunk in tiled memory: `chunk` counts from the row's start, a row has `k_tiles` tiles.
__device__ __forceinline__ u64 scan_chunk_offset(u32 row, u32 chunk, u32 k_tiles, u32 tile_rows) {
    const u64 tile = (u64)(row / tile_rows) * k_tiles + chunk / 8;
    return tile * (tile_rows * 128) + swizzle128(row % tile_rows, chunk % 8);
}

__device__ __forceinline__ float error_bound(const QueryMeta& q, const RowMeta& x) {
    return fmaf(q.per_error, x.error, q.per_norm * x.norm);
}

// An upper bound of the rank; infinite if nothing is known.
__device__ __forceinline__ float upper_bound(float sum, const QueryMeta& q, const RowMeta& x) {
    const float upper = fmaf(sum, q.scale * x.scale, x.shift * (1.0f - SHIFT_SLACK)) + error_bound(q, x);
    return upper < INFINITY ? upper : INFINITY;
}

// A lower bound of the rank; minus infinity if nothing is known.
__device__ __forceinline__ float lower_bound(float sum, const QueryMeta& q, const RowMeta& x) {
    const float lower = fmaf(sum, q.scale * x.scale, x.shift * (1.0f + SHIFT_SLACK)) - error_bound(q, x);
    return fmaxf(lower, -INFINITY);
}

// The lower bound that belongs to an upper bound.
__device__ __forceinline__ float lower_from_upper(float upper, const QueryMeta& q, const RowMeta& x) {
    const float lower = upper - 2.0f * (error_bound(q, x) - SHIFT_SLACK * x.shift);
    return upper < INFINITY ? fmaxf(lower, -INFINITY) : -INFINITY;
}

// Lowers a threshold below all ranks that tie with it in rounded scores. `squared_norm` is |q|^2 for the squared
// distance, else 0.
__device__ __forceinline__ float lower_for_ties(double threshold, double squared_norm) {
    if (!(fabs(threshold) < (double)INFINITY)) return (float)threshold;
    return __double2float_rd(
        threshold - (9.5367431640625e-7 * fabs(threshold) + 4.76837158203125e-7 * squared_norm + 1e-30));
}

// Whether a row is live and selected by a query's mask. Masks have `mask_words` words, one bit per row; `deleted` may
// be null.
__device__ __forceinline__ bool row_matches(u32 row, u32 mask, const u32* deleted, const u32* masks, u32 mask_words) {
    const u32 word = row >> 5, bit = 1u << (row & 31);
    if (deleted && (deleted[word] & bit)) return false;
    return mask == NO_MASK || (masks[(u64)mask * mask_words + word] & bit);
}
