// Epilogues of the tiled scans: filter, sample or store the bounds of a tile of rows by queries.

#pragma once
#include "search/bounds.cuh"

// Parameters of the tiled scans.
//   corpus: tiles, `k_tiles` per row, or f32[rows, pitch]; readable up to the next multiple of 256 rows, as are rows
//     and tile_max
//   queries: tiles of as many queries as the kernel's name says;
//     query_meta QueryMeta[all tiles]; params SearchParams[queries]
//   STORE: upper_bounds f32[queries, stride], stride = rows rounded up to 32, minus infinity for rows that do not match
//   STORE, SAMPLE: lower_bounds f32[queries, row_groups], the best lower bound of each group
//   FILTER: candidates (row, upper bound)[queries, capacity] that reach the threshold; candidate_counts u32[queries]
//   tile_max (error, norm)[rows / 128]: the maxima over each 128 rows
//   deleted and masks may be null
// Persistent blocks take tiles round-robin, the query tiles of a row tile together: rows are read from memory once.
#define SCAN_PARAMS                                                                                                  \
    const u8 *__restrict__ corpus, const u8 *__restrict__ queries, const RowMeta *__restrict__ rows,                 \
        const float2 *__restrict__ tile_max, const QueryMeta *__restrict__ query_meta,                               \
        const SearchParams *__restrict__ params, const u32 *__restrict__ deleted, const u32 *__restrict__ masks,     \
        float *__restrict__ upper_bounds, float *__restrict__ lower_bounds, u32 *__restrict__ candidate_counts,      \
        uint2 *__restrict__ candidates, ScanShape shape
#define SCAN_ARGS                                                                                                    \
    corpus, queries, rows, tile_max, query_meta, params, deleted, masks, upper_bounds, lower_bounds,                 \
        candidate_counts, candidates, shape

// The origin of a thread's accumulator fragment: `sums[i][4 j + 2 h + b]` is of row `row + ROW_STRIDE i + 8 h` and
// query `query + 8 j + b`. `sampled` is the index of `row` among the scanned rows.
struct FragmentOrigin {
    u32 row, sampled, query;
};

// Appends a row to a query's candidates if its own upper bound reaches the pruning threshold.
__device__ __forceinline__ void append_candidate(float sum, u32 row, u32 query, const RowMeta* __restrict__ rows,
    const QueryMeta* __restrict__ query_meta, const SearchParams* __restrict__ params, const u32* __restrict__ deleted,
    const u32* __restrict__ masks, u32* __restrict__ candidate_counts, uint2* __restrict__ candidates,
    const ScanShape& shape) {
    if (row >= shape.rows || query >= shape.queries) return;
    const QueryMeta q = query_meta[query];
    const float upper = upper_bound(sum, q, rows[row]);
    if (upper < q.pruning_threshold || !row_matches(row, params[query].mask, deleted, masks, shape.mask_words)) return;
    const u32 to = atomicAdd(candidate_counts + query, 1);
    if (to < shape.capacity) candidates[(u64)query * shape.capacity + to] = make_uint2(row, __float_as_uint(upper));
}

// The scales and shifts of a thread's rows, unless `unscaled`.
template <int I>
struct RowScales {
    float scale[2 * I], shift[2 * I];
};

template <int I, u32 ROW_STRIDE>
__device__ __forceinline__ RowScales<I> load_row_scales(const FragmentOrigin& at, const RowMeta* __restrict__ rows,
    const ScanShape& shape) {
    RowScales<I> of = {};
    if (shape.unscaled) return of;
#pragma unroll
    for (int r = 0; r < 2 * I; r++) {
        const RowMeta x = rows[at.row + r / 2 * ROW_STRIDE + r % 2 * 8];
        of.scale[r] = x.scale;
        of.shift[r] = x.shift * (1.0f - SHIFT_SLACK);
    }
    return of;
}

// Calls `keep` with each sum that may reach its query's threshold, its row and its query; `largest` bounds the error
// and the norm of all rows. Almost no sum does, so a thread first only records which groups of eight columns have one.
template <int I, int J, u32 ROW_STRIDE, bool UNSCALED, typename Sum, typename Keep>
__device__ __forceinline__ void filter_fragment(const Sum (&sums)[I][4 * J], const FragmentOrigin& at, float2 largest,
    const RowScales<I>& of, const QueryMeta* __restrict__ query_meta, const Keep& keep) {
    // No approximation below this can reach the threshold, whatever its row's own error. NaNs pass.
    auto least = [&](const QueryMeta& q) { return q.pruning_threshold - fmaf(q.per_error, largest.x,
        q.per_norm * largest.y); };
    auto approx = [&](Sum sum, const QueryMeta& q, int r) {
        return UNSCALED ? (float)sum : fmaf((float)sum, q.scale * of.scale[r], of.shift[r]);
    };
    u32 hot = 0;
#pragma unroll
    for (int j = 0; j < J; j++) {
        const QueryMeta q0 = query_meta[at.query + 8 * j], q1 = query_meta[at.query + 8 * j + 1];
        const float low0 = least(q0), low1 = least(q1);
        bool any = false;
#pragma unroll
        for (int r = 0; r < 2 * I; r++) {
            const Sum* two = &sums[r / 2][4 * j + r % 2 * 2];
            any |= !(approx(two[0], q0, r) < low0) | !(approx(two[1], q1, r) < low1);
        }
        hot |= any ? 1u << j : 0u;
    }
    for (; hot != 0; hot &= hot - 1) {
        const u32 column = __ffs(hot) - 1, query = at.query + 8 * column;
        const QueryMeta q0 = query_meta[query], q1 = query_meta[query + 1];
        const float low0 = least(q0), low1 = least(q1);
        Sum column_sums[4 * I];
        u32 reach = 0;
#pragma unroll
        for (int e = 0; e < 4 * I; e++) {
            column_sums[e] = 0;
#pragma unroll
            for (int j = 0; j < J; j++) column_sums[e] = column == j ? sums[e / 4][4 * j + e % 4] : column_sums[e];
            reach |= approx(column_sums[e], e % 2 ? q1 : q0, e / 2) < (e % 2 ? low1 : low0) ? 0 : 1u << e;
        }
#pragma unroll 1
        for (; reach != 0; reach &= reach - 1) {
            const u32 e = __ffs(reach) - 1;
            Sum sum = 0;
#pragma unroll
            for (u32 s = 0; s < 4 * I; s++) sum = s == e ? column_sums[s] : sum;
            keep((float)sum, at.row + e / 4 * ROW_STRIDE + e / 2 % 2 * 8, query + e % 2);
        }
    }
}

template <int I, int J, u32 ROW_STRIDE, typename Sum, typename Keep>
__device__ __forceinline__ void filter_tile(const Sum (&sums)[I][4 * J], const FragmentOrigin& at, float2 largest,
    const RowScales<I>& of, const QueryMeta* __restrict__ query_meta, const ScanShape& shape, const Keep& keep) {
    // One branch per tile: a branch per column would wait for each column's query.
    if (shape.unscaled) filter_fragment<I, J, ROW_STRIDE, true>(sums, at, largest, of, query_meta, keep);
    else filter_fragment<I, J, ROW_STRIDE, false>(sums, at, largest, of, query_meta, keep);
}

// Maxima of COUNT numbers, a power of two up to 8, over the lanes with equal lane % 4: afterwards a lane has the
// maximum of number lane * COUNT / 32.
template <u32 COUNT>
__device__ __forceinline__ float spread_max(float (&x)[COUNT]) {
    const u32 lane = threadIdx.x & 31;
#pragma unroll
    for (u32 step = 16, half = COUNT / 2; step >= 4; step /= 2, half /= 2) {
        const bool high = lane & step;
#pragma unroll
        for (u32 i = 0; i < half; i++) {
            const float sent = high ? x[i] : x[i + half], kept = high ? x[i + half] : x[i];
            x[i] = fmaxf(kept, __shfl_xor_sync(FULL_WARP, sent, step));
        }
        if (half == 0) x[0] = fmaxf(x[0], __shfl_xor_sync(FULL_WARP, x[0], step));
    }
    return x[0];
}

// Writes the best lower bound of each group of 16 rows; the bits of a group are in one word of a mask.
template <int I, int J, u32 ROW_STRIDE, bool MASKED, typename Sum>
__device__ __forceinline__ void sample_fragment(const Sum (&sums)[I][4 * J], const FragmentOrigin& at,
    const RowMeta* __restrict__ rows, const QueryMeta* __restrict__ query_meta, const SearchParams* __restrict__ params,
    const u32* __restrict__ deleted, const u32* __restrict__ masks, float* __restrict__ lower_bounds,
    const ScanShape& shape) {
    constexpr u32 TOGETHER = J < 4 ? 2 * J : 8;
    RowMeta x[2 * I];
#pragma unroll
    for (int r = 0; r < 2 * I; r++) {
        const u32 row = at.row + r / 2 * ROW_STRIDE + r % 2 * 8;
        x[r] = rows[row];
        x[r].shift *= 1.0f + SHIFT_SLACK;
        // Rows that do not match raise no threshold.
        if (row >= shape.rows || (deleted && deleted[row >> 5] >> (row & 31) & 1)) x[r].norm = INFINITY;
    }
#pragma unroll
    for (int first = 0; first < 2 * J; first += TOGETHER) {
        float low[I][TOGETHER];
#pragma unroll
        for (int c = 0; c < TOGETHER; c++) {
            const int column = first + c;
            const u32 query = at.query + column / 2 * 8 + column % 2;
            const QueryMeta q = query_meta[query];
            const u32 mask = MASKED && query < shape.queries ? params[query].mask : NO_MASK;
#pragma unroll
            for (int i = 0; i < I; i++) {
                float two[2];
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const RowMeta& meta = x[2 * i + h];
                    const float sum = (float)sums[i][column / 2 * 4 + h * 2 + column % 2];
                    two[h] = fmaf(sum, q.scale * meta.scale, meta.shift) - error_bound(q, meta);
                }
                if (MASKED && mask != NO_MASK) {
                    const u32 row = at.row + i * ROW_STRIDE, word = min(row >> 5, shape.mask_words - 1);
                    const u32 bits = masks[(u64)mask * shape.mask_words + word] >> (row & 31);
                    two[0] = bits & 1 ? two[0] : -INFINITY;
                    two[1] = bits & 256 ? two[1] : -INFINITY;
                }
                // A NaN is no bound.
                low[i][c] = fmaxf(fmaxf(two[0], two[1]), -INFINITY);
            }
        }
        const u32 column = first + (threadIdx.x & 31) * TOGETHER / 32, query = at.query + column / 2 * 8 + column % 2;
#pragma unroll
        for (int i = 0; i < I; i++) {
            const float best = spread_max(low[i]);
            if (query < shape.queries) {
                lower_bounds[(u64)query * shape.row_groups + (at.sampled + i * ROW_STRIDE) / 16] = best;
            }
        }
    }
}

template <int I, int J, u32 ROW_STRIDE, typename Sum>
__device__ __forceinline__ void sample_tile(const Sum (&sums)[I][4 * J], const FragmentOrigin& at,
    const RowMeta* __restrict__ rows, const QueryMeta* __restrict__ query_meta, const SearchParams* __restrict__ params,
    const u32* __restrict__ deleted, const u32* __restrict__ masks, float* __restrict__ lower_bounds,
    const ScanShape& shape) {
    if (masks) {
        sample_fragment<I, J, ROW_STRIDE, true>(
            sums, at, rows, query_meta, params, deleted, masks, lower_bounds, shape);
    } else {
        sample_fragment<I, J, ROW_STRIDE, false>(
            sums, at, rows, query_meta, params, deleted, masks, lower_bounds, shape);
    }
}

// Writes all upper bounds, and the best lower bound of each group.
template <int I, int J, u32 ROW_STRIDE, typename Sum>
__device__ __forceinline__ void store_tile(const Sum (&sums)[I][4 * J], const FragmentOrigin& at,
    const RowMeta* __restrict__ rows, const QueryMeta* __restrict__ query_meta, const SearchParams* __restrict__ params,
    const u32* __restrict__ deleted, const u32* __restrict__ masks, float* __restrict__ upper_bounds,
    float* __restrict__ lower_bounds, const ScanShape& shape) {
    const u32 lane = threadIdx.x & 31;
    RowMeta x[2 * I];
    u32 alive[I];
#pragma unroll
    for (int i = 0; i < I; i++) {
        const u32 row = at.row + i * ROW_STRIDE, two = (row < shape.rows) + 256 * (row + 8 < shape.rows);
        x[2 * i] = rows[row];
        x[2 * i + 1] = rows[row + 8];
        alive[i] = two == 0 ? 0 : (deleted ? ~deleted[row >> 5] >> (row & 31) : ~0u) & two;
    }
#pragma unroll
    for (int c = 0; c < 2 * J; c++) {
        const u32 query = at.query + c / 2 * 8 + c % 2;
        const bool real = query < shape.queries;
        const QueryMeta q = query_meta[query];
        const u32 mask = real ? params[query].mask : NO_MASK;
#pragma unroll
        for (int i = 0; i < I; i++) {
            const u32 row = at.row + i * ROW_STRIDE;
            u32 counts = alive[i];
            if (mask != NO_MASK && counts) counts &= masks[(u64)mask * shape.mask_words + (row >> 5)] >> (row & 31);
            const float sum0 = (float)sums[i][c / 2 * 4 + c % 2], sum1 = (float)sums[i][c / 2 * 4 + 2 + c % 2];
            if (real) {
                float* out = upper_bounds + (u64)query * shape.stride + row;
                if (row < shape.stride) out[0] = counts & 1 ? upper_bound(sum0, q, x[2 * i]) : -INFINITY;
                if (row + 8 < shape.stride) out[8] = counts & 256 ? upper_bound(sum1, q, x[2 * i + 1]) : -INFINITY;
            }
            float low = fmaxf(counts & 1 ? lower_bound(sum0, q, x[2 * i]) : -INFINITY,
                counts & 256 ? lower_bound(sum1, q, x[2 * i + 1]) : -INFINITY);
            // Lanes 4 g + t have rows g and g + 8 of a group.
#pragma unroll
            for (int step = 4; step < 32; step *= 2) low = fmaxf(low, __shfl_xor_sync(FULL_WARP, low, step));
            if (lane < 4 && real) lower_bounds[(u64)query * shape.row_groups + (at.sampled + i * ROW_STRIDE) / 16]
                = low;
        }
    }
}
