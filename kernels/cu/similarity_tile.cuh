// What becomes of the products of a tile of rows and queries, however they were computed.

#pragma once
#include "similarity.cuh"

// The sizes of a scan by tiles. `row_tiles` tiles of rows are scanned, every `apart`-th from the first on; `groups` are 16
// rows of a scanned tile each; `stride` separates the queries of uppers, `room` those of candidates. `plain` says that
// scales are 1 and shifts 0, so that a sum is an approximation as it is.
struct Shape {
    u32 n, queries, query_tiles, row_tiles, apart, steps, pitch, groups, stride, room, mask_words, mode, plain;
};

// What both kinds of tile kernels take.
//   corpus: tiles, `steps` a row, or f32[rows, pitch]; readable up to the next multiple of 256 rows, as rows and peaks are
//   queries: tiles as many queries high as the kernel's name says; known Query[all tiles]; wishes Wish[queries]
//   STORE: uppers f32[queries, stride], stride = n rounded up to 32, minus infinity for rows that do not count
//   STORE, SAMPLE: lows f32[queries, groups], the best lower bound of each group
//   FILTER: candidates (row, upper bound)[queries, room] whose upper bound reaches the floor; found u32[queries] counts them
//   peaks (error, norm)[rows / 128]: no row of the 128 has more
// Blocks take tiles in turn, the queries of one tile of rows together, so that its rows are read from memory once.
#define SCAN_PARAMS                                                                                                   \
    const u8 *__restrict__ corpus, const u8 *__restrict__ queries, const Row *__restrict__ rows,                      \
        const float2 *__restrict__ peaks, const Query *__restrict__ known, const Wish *__restrict__ wishes,           \
        const u32 *__restrict__ dead, const u32 *__restrict__ masks, float *__restrict__ uppers,                      \
        float *__restrict__ lows, u32 *__restrict__ found, uint2 *__restrict__ candidates, Shape shape
#define SCAN_ARGS \
    corpus, queries, rows, peaks, known, wishes, dead, masks, uppers, lows, found, candidates, shape

// A thread's part of a tile: `sums[i][4 j + 2 h + b]` is of row `row + APART i + 8 h` and query `query + 8 j + b`.
// `sampled` is where `row` stands among the rows scanned.
struct Place {
    u32 row, sampled, query;
};

// Keeps what reaches the floors. Nearly no sum does, so that a thread first only notes which eight columns have one.
template <int I, int J, u32 APART, typename Sum>
__device__ __forceinline__ void filter_tile(const Sum (&sums)[I][4 * J], const Place& at, const Row* __restrict__ rows,
    const float2* __restrict__ peaks, const Query* __restrict__ known, const Wish* __restrict__ wishes,
    const u32* __restrict__ dead, const u32* __restrict__ masks, u32* __restrict__ found, uint2* __restrict__ candidates,
    const Shape& shape) {
    const float2 peak = peaks[at.row / TILE_ROWS];
    float scale[2 * I], shift[2 * I];
    if (!shape.plain) {
#pragma unroll
        for (int r = 0; r < 2 * I; r++) {
            const Row x = rows[at.row + r / 2 * APART + r % 2 * 8];
            scale[r] = x.scale;
            shift[r] = x.shift * (1.0f - SHIFT_SLACK);
        }
    }
    u32 hot = 0;
#pragma unroll
    for (int j = 0; j < J; j++) {
        const Query q0 = known[at.query + 8 * j], q1 = known[at.query + 8 * j + 1];
        // No sum below these can reach the floor, whatever its row's own error. Sums that are no number pass.
        const float low0 = q0.floor - fmaf(q0.per_error, peak.x, q0.per_norm * peak.y);
        const float low1 = q1.floor - fmaf(q1.per_error, peak.x, q1.per_norm * peak.y);
        bool any = false;
        if (shape.plain) {
#pragma unroll
            for (int r = 0; r < 2 * I; r++) {
                const Sum* two = &sums[r / 2][4 * j + r % 2 * 2];
                any |= !((float)two[0] < low0) | !((float)two[1] < low1);
            }
        } else {
#pragma unroll
            for (int r = 0; r < 2 * I; r++) {
                const Sum* two = &sums[r / 2][4 * j + r % 2 * 2];
                any |= !(fmaf((float)two[0], q0.scale * scale[r], shift[r]) < low0);
                any |= !(fmaf((float)two[1], q1.scale * scale[r], shift[r]) < low1);
            }
        }
        hot |= any ? 1u << j : 0u;
    }
    for (; hot != 0; hot &= hot - 1) {
        const u32 column = __ffs(hot) - 1;
        Sum mine[4 * I];
#pragma unroll
        for (int e = 0; e < 4 * I; e++) {
            mine[e] = 0;
#pragma unroll
            for (int j = 0; j < J; j++) mine[e] = column == j ? sums[e / 4][4 * j + e % 4] : mine[e];
        }
#pragma unroll 1
        for (u32 e = 0; e < 4 * I; e++) {
            Sum sum = 0;
#pragma unroll
            for (u32 s = 0; s < 4 * I; s++) sum = s == e ? mine[s] : sum;
            const u32 row = at.row + e / 4 * APART + e / 2 % 2 * 8, query = at.query + 8 * column + e % 2;
            if (row >= shape.n || query >= shape.queries) continue;
            const Query q = known[query];
            const float upper = upper_bound((float)sum, q, rows[row]);
            if (upper < q.floor || !counts_for(row, wishes[query].mask, dead, masks, shape.mask_words)) continue;
            const u32 to = atomicAdd(found + query, 1);
            if (to < shape.room) candidates[(u64)query * shape.room + to] = make_uint2(row, __float_as_uint(upper));
        }
    }
}

// Writes bounds. The 16 rows of a group lie in one word of the bits.
template <int I, int J, u32 APART, typename Sum>
__device__ __forceinline__ void bound_tile(const Sum (&sums)[I][4 * J], const Place& at, const Row* __restrict__ rows,
    const Query* __restrict__ known, const Wish* __restrict__ wishes, const u32* __restrict__ dead,
    const u32* __restrict__ masks, float* __restrict__ uppers, float* __restrict__ lows, const Shape& shape) {
    const u32 lane = threadIdx.x & 31;
    Row x[2 * I];
    u32 alive[I];
#pragma unroll
    for (int i = 0; i < I; i++) {
        const u32 row = at.row + i * APART, two = (row < shape.n) + 256 * (row + 8 < shape.n);
        x[2 * i] = rows[row];
        x[2 * i + 1] = rows[row + 8];
        alive[i] = two == 0 ? 0 : (dead ? ~dead[row >> 5] >> (row & 31) : ~0u) & two;
    }
#pragma unroll
    for (int c = 0; c < 2 * J; c++) {
        const u32 query = at.query + c / 2 * 8 + c % 2;
        const bool real = query < shape.queries;
        const Query q = known[query];
        const u32 mask = real ? wishes[query].mask : NO_MASK;
#pragma unroll
        for (int i = 0; i < I; i++) {
            const u32 row = at.row + i * APART;
            u32 counts = alive[i];
            if (mask != NO_MASK && counts) counts &= masks[(u64)mask * shape.mask_words + (row >> 5)] >> (row & 31);
            const float sum0 = (float)sums[i][c / 2 * 4 + c % 2], sum1 = (float)sums[i][c / 2 * 4 + 2 + c % 2];
            if (shape.mode == STORE && real) {
                float* mine = uppers + (u64)query * shape.stride + row;
                if (row < shape.stride) mine[0] = counts & 1 ? upper_bound(sum0, q, x[2 * i]) : -INFINITE;
                if (row + 8 < shape.stride) mine[8] = counts & 256 ? upper_bound(sum1, q, x[2 * i + 1]) : -INFINITE;
            }
            float low = fmaxf(counts & 1 ? lower_bound(sum0, q, x[2 * i]) : -INFINITE,
                counts & 256 ? lower_bound(sum1, q, x[2 * i + 1]) : -INFINITE);
            // Lanes 4 g + t have rows g and g + 8 of one group.
#pragma unroll
            for (int step = 4; step < 32; step *= 2) low = fmaxf(low, __shfl_xor_sync(FULL_WARP, low, step));
            if (lane < 4 && real) lows[(u64)query * shape.groups + (at.sampled + i * APART) / 16] = low;
        }
    }
}
