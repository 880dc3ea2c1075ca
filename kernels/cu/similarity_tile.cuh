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
//   dead and masks may be null
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

// Adds a row to a query's candidates where its own upper bound reaches the floor.
__device__ __forceinline__ void keep_candidate(float sum, u32 row, u32 query, const Row* __restrict__ rows,
    const Query* __restrict__ known, const Wish* __restrict__ wishes, const u32* __restrict__ dead,
    const u32* __restrict__ masks, u32* __restrict__ found, uint2* __restrict__ candidates, const Shape& shape) {
    if (row >= shape.n || query >= shape.queries) return;
    const Query q = known[query];
    const float upper = upper_bound(sum, q, rows[row]);
    if (upper < q.floor || !counts_for(row, wishes[query].mask, dead, masks, shape.mask_words)) return;
    const u32 to = atomicAdd(found + query, 1);
    if (to < shape.room) candidates[(u64)query * shape.room + to] = make_uint2(row, __float_as_uint(upper));
}

// Scale and shift of a thread's rows, where they are not plain.
template <int I>
struct Scales {
    float scale[2 * I], shift[2 * I];
};

template <int I, u32 APART>
__device__ __forceinline__ Scales<I> scales_of(const Place& at, const Row* __restrict__ rows, const Shape& shape) {
    Scales<I> of = {};
    if (shape.plain) return of;
#pragma unroll
    for (int r = 0; r < 2 * I; r++) {
        const Row x = rows[at.row + r / 2 * APART + r % 2 * 8];
        of.scale[r] = x.scale;
        of.shift[r] = x.shift * (1.0f - SHIFT_SLACK);
    }
    return of;
}

// Calls `keep` with each sum, its row and its query, that may reach the floor of its query, as far as `peak` tells.
// Nearly none does, so that a thread first only notes which eight columns have one.
template <int I, int J, u32 APART, bool PLAIN, typename Sum, typename Keep>
__device__ __forceinline__ void filter_sums(const Sum (&sums)[I][4 * J], const Place& at, float2 peak,
    const Scales<I>& of, const Query* __restrict__ known, const Keep& keep) {
    // No sum below this can reach the floor, whatever its row's own error. Sums that are no number pass.
    auto least = [&](const Query& q) { return q.floor - fmaf(q.per_error, peak.x, q.per_norm * peak.y); };
    auto approx = [&](Sum sum, const Query& q, int r) {
        return PLAIN ? (float)sum : fmaf((float)sum, q.scale * of.scale[r], of.shift[r]);
    };
    u32 hot = 0;
#pragma unroll
    for (int j = 0; j < J; j++) {
        const Query q0 = known[at.query + 8 * j], q1 = known[at.query + 8 * j + 1];
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
        const Query q0 = known[query], q1 = known[query + 1];
        const float low0 = least(q0), low1 = least(q1);
        Sum mine[4 * I];
        u32 reach = 0;
#pragma unroll
        for (int e = 0; e < 4 * I; e++) {
            mine[e] = 0;
#pragma unroll
            for (int j = 0; j < J; j++) mine[e] = column == j ? sums[e / 4][4 * j + e % 4] : mine[e];
            reach |= approx(mine[e], e % 2 ? q1 : q0, e / 2) < (e % 2 ? low1 : low0) ? 0 : 1u << e;
        }
#pragma unroll 1
        for (; reach != 0; reach &= reach - 1) {
            const u32 e = __ffs(reach) - 1;
            Sum sum = 0;
#pragma unroll
            for (u32 s = 0; s < 4 * I; s++) sum = s == e ? mine[s] : sum;
            keep((float)sum, at.row + e / 4 * APART + e / 2 % 2 * 8, query + e % 2);
        }
    }
}

template <int I, int J, u32 APART, typename Sum, typename Keep>
__device__ __forceinline__ void filter_tile(const Sum (&sums)[I][4 * J], const Place& at, float2 peak,
    const Scales<I>& of, const Query* __restrict__ known, const Shape& shape, const Keep& keep) {
    // Told apart once: a branch for each column would wait for each column's query.
    if (shape.plain) filter_sums<I, J, APART, true>(sums, at, peak, of, known, keep);
    else filter_sums<I, J, APART, false>(sums, at, peak, of, known, keep);
}

// The largest of 32 / COUNT lanes' x, for each of COUNT numbers, a power of two up to 8: afterwards a lane has that of
// number lane * COUNT / 32, over the lanes that have the same lane % 4.
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

// Writes the best lower bound of each group of 16 rows, which lie in one word of the bits.
template <int I, int J, u32 APART, bool MASKED, typename Sum>
__device__ __forceinline__ void sample_sums(const Sum (&sums)[I][4 * J], const Place& at, const Row* __restrict__ rows,
    const Query* __restrict__ known, const Wish* __restrict__ wishes, const u32* __restrict__ dead,
    const u32* __restrict__ masks, float* __restrict__ lows, const Shape& shape) {
    constexpr u32 TOGETHER = J < 4 ? 2 * J : 8;
    Row x[2 * I];
#pragma unroll
    for (int r = 0; r < 2 * I; r++) {
        const u32 row = at.row + r / 2 * APART + r % 2 * 8;
        x[r] = rows[row];
        x[r].shift *= 1.0f + SHIFT_SLACK;
        // What does not count raises no floor.
        if (row >= shape.n || (dead && dead[row >> 5] >> (row & 31) & 1)) x[r].norm = INFINITE;
    }
#pragma unroll
    for (int first = 0; first < 2 * J; first += TOGETHER) {
        float low[I][TOGETHER];
#pragma unroll
        for (int c = 0; c < TOGETHER; c++) {
            const int column = first + c;
            const u32 query = at.query + column / 2 * 8 + column % 2;
            const Query q = known[query];
            const u32 mask = MASKED && query < shape.queries ? wishes[query].mask : NO_MASK;
#pragma unroll
            for (int i = 0; i < I; i++) {
                float two[2];
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const Row& mine = x[2 * i + h];
                    const float sum = (float)sums[i][column / 2 * 4 + h * 2 + column % 2];
                    two[h] = fmaf(sum, q.scale * mine.scale, mine.shift) - bound(q, mine);
                }
                if (MASKED && mask != NO_MASK) {
                    const u32 row = at.row + i * APART, word = min(row >> 5, shape.mask_words - 1);
                    const u32 bits = masks[(u64)mask * shape.mask_words + word] >> (row & 31);
                    two[0] = bits & 1 ? two[0] : -INFINITE;
                    two[1] = bits & 256 ? two[1] : -INFINITE;
                }
                // A bound that is no number is none.
                low[i][c] = fmaxf(fmaxf(two[0], two[1]), -INFINITE);
            }
        }
        const u32 column = first + (threadIdx.x & 31) * TOGETHER / 32, query = at.query + column / 2 * 8 + column % 2;
#pragma unroll
        for (int i = 0; i < I; i++) {
            const float best = spread_max(low[i]);
            if (query < shape.queries) lows[(u64)query * shape.groups + (at.sampled + i * APART) / 16] = best;
        }
    }
}

template <int I, int J, u32 APART, typename Sum>
__device__ __forceinline__ void sample_tile(const Sum (&sums)[I][4 * J], const Place& at, const Row* __restrict__ rows,
    const Query* __restrict__ known, const Wish* __restrict__ wishes, const u32* __restrict__ dead,
    const u32* __restrict__ masks, float* __restrict__ lows, const Shape& shape) {
    if (masks) sample_sums<I, J, APART, true>(sums, at, rows, known, wishes, dead, masks, lows, shape);
    else sample_sums<I, J, APART, false>(sums, at, rows, known, wishes, dead, masks, lows, shape);
}

// Writes all upper bounds, and the best lower bound of each group.
template <int I, int J, u32 APART, typename Sum>
__device__ __forceinline__ void store_tile(const Sum (&sums)[I][4 * J], const Place& at, const Row* __restrict__ rows,
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
            if (real) {
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
