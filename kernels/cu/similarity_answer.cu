// From bounds to answers: floors, candidates, exact scores, sorting. The scans before are in similarity_vector.cu,
// similarity_tiles.cuh and similarity_warpgroup.cuh; what all of it proves is in similarity.cuh.

#include "similarity.cuh"
#include "topk.cuh"

// similarity_floor: raises each query's floor to what k groups of rows reach.
//   lows f32[queries, groups], the best lower bound of each group, minus infinity for none
// One block per query. Leaves the floor lower than it could be where that saves time: at most k/8 + 2 groups more reach it.
extern "C" __global__ void __launch_bounds__(1024) similarity_floor(const float* __restrict__ lows,
    const Wish* __restrict__ wishes, const Status* __restrict__ status, Query* __restrict__ known, u32 groups,
    u32 metric) {
    __shared__ u32 counters[32];
    const u32 query = blockIdx.x, k = wishes[query].k;
    const float* mine = lows + (u64)query * groups;
    Images<HELD> images;
    hold_images(images, groups, [&](u32 at) {
        const float low = mine[at];
        return low > -INFINITE ? ordered(low) : 0;
    });
    const u32 bar = bar_of(images, k, k / 8 + 2, counters);
    if (threadIdx.x != 0 || bar == 0) return;
    const double norm2 = metric == SQUARED_L2 ? status[query].norm2 : 0.0;
    known[query].floor = fmaxf(known[query].floor, lowered(from_ordered(bar), norm2));
}

// similarity_collect: keeps the rows whose upper bound reaches the floor.
//   uppers f32[queries, stride], minus infinity for rows that do not count; stride a multiple of 4
//   candidates (row, upper bound)[queries, room]; found u32[queries] counts them, those without room too
// Four rows a thread, 1024 a block; y is the query.
extern "C" __global__ void __launch_bounds__(256) similarity_collect(const float* __restrict__ uppers,
    const Query* __restrict__ known, u32* __restrict__ found, uint2* __restrict__ candidates, u32 stride, u32 room) {
    const u32 query = blockIdx.y, first = (blockIdx.x * 256 + threadIdx.x) * 4;
    const float floor = known[query].floor;
    float4 four = make_float4(-INFINITE, -INFINITE, -INFINITE, -INFINITE);
    if (first < stride) four = *(const float4*)(uppers + (u64)query * stride + first);
    const float values[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        const bool keep = values[i] > -INFINITE && values[i] >= floor;
        const u32 lanes = __ballot_sync(FULL_WARP, keep);
        if (lanes == 0) continue;
        const u32 lane = threadIdx.x & 31;
        u32 at = 0;
        if (lane == 0) at = atomicAdd(found + query, __popc(lanes));
        at = __shfl_sync(FULL_WARP, at, 0) + __popc(lanes & ((1u << lane) - 1));
        if (keep && at < room) candidates[(u64)query * room + at] = make_uint2(first + i, __float_as_uint(values[i]));
    }
}

// similarity_narrow: raises the floor by the candidates' own lower bounds, and lists those that still reach it.
//   found, candidates as collected; rows Row[N]; kept u32[queries, kept_room]; status gets count and floor, or OVERFLOW
//   where either list had no room
// One block per query.
extern "C" __global__ void __launch_bounds__(1024) similarity_narrow(const uint2* __restrict__ candidates,
    const u32* __restrict__ found, const Row* __restrict__ rows, const Query* __restrict__ known,
    const Wish* __restrict__ wishes, Status* __restrict__ status, u32* __restrict__ kept, u32 room, u32 kept_room,
    u32 metric) {
    __shared__ u32 counters[32];
    __shared__ u32 listed;
    const u32 query = blockIdx.x, count = found[query], k = wishes[query].k;
    if (threadIdx.x == 0) listed = 0;
    if (count > room) {
        if (threadIdx.x == 0) status[query].kept = OVERFLOW;
        return;
    }
    const uint2* mine = candidates + (u64)query * room;
    const Query q = known[query];
    float floor = q.floor;
    if (count > k) {
        Images<HELD> images;
        hold_images(images, count, [&](u32 at) {
            const float low = lower_from_upper(__uint_as_float(mine[at].y), q, rows[mine[at].x]);
            return low > -INFINITE ? ordered(low) : 0;
        });
        const u32 bar = bar_of(images, k, k / 16, counters);
        const double norm2 = metric == SQUARED_L2 ? status[query].norm2 : 0.0;
        if (bar != 0) floor = fmaxf(floor, lowered(from_ordered(bar), norm2));
    }
    __syncthreads();
    for (u32 at = threadIdx.x; at < count; at += blockDim.x) {
        const uint2 one = mine[at];
        if (__uint_as_float(one.y) < floor) continue;
        const u32 to = atomicAdd(&listed, 1);
        if (to < kept_room) kept[(u64)query * kept_room + to] = one.x;
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    status[query].kept = listed <= kept_room ? listed : OVERFLOW;
    status[query].floor = floor;
}

// The exact score of one row, by one warp: f64 sums of f32 numbers, in one order whatever else is computed.
__device__ __forceinline__ float exact_score(
    const float* __restrict__ query, const float* __restrict__ row, u32 pitch, double norm2, u32 metric) {
    double sum = 0, row2 = 0;
#pragma unroll 4
    for (u32 at = (threadIdx.x & 31) * 4; at < pitch; at += 128) {
        const float4 q = *(const float4*)(query + at), x = *(const float4*)(row + at);
        const float qs[4] = {q.x, q.y, q.z, q.w}, xs[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const double a = qs[i], b = xs[i];
            sum = metric == SQUARED_L2 ? fma(a - b, a - b, sum) : fma(a, b, sum);
            if (metric == COSINE) row2 = fma(b, b, row2);
        }
    }
    sum = warp_sum(sum);
    if (metric == COSINE) {
        const double norms = norm2 * warp_sum(row2);
        sum = norms > 0 ? sum / sqrt(norms) : 0.0;
    }
    return (float)sum + 0.0f;
}

// A score as a sort key: the better score has the larger key, then the lower row; 0 where it misses the threshold.
__device__ __forceinline__ u64 key_of(float score, u32 row, const Wish& wish, u32 metric) {
    const bool lower = metric == SQUARED_L2;
    if (wish.bounded && (lower ? score > wish.threshold : score < wish.threshold)) return 0;
    return (u64)ordered(lower ? -score + 0.0f : score) << 32 | ~row;
}

// similarity_rescore: exact scores as sort keys, 0 for a row that does not count or misses the threshold.
//   originals f32[n, pitch], queries f32[queries, pitch]
//   listed u32[queries or 1, listed_stride], or null for all rows; `count` of them, or as `status` says for NO_COUNT
//   checked: whether rows must still be looked up in dead and masks
//   keys u64[queries, stride]
// One warp per row, 8 a block; y is the query.
#define NO_COUNT 0xffffffffu
extern "C" __global__ void __launch_bounds__(256) similarity_rescore(const float* __restrict__ originals,
    const float* __restrict__ queries, const Wish* __restrict__ wishes, const Status* __restrict__ status,
    const u32* __restrict__ dead, const u32* __restrict__ masks, const u32* __restrict__ listed, u64* __restrict__ keys,
    u64 listed_stride, u64 stride, u32 n, u32 pitch, u32 count, u32 mask_words, u32 checked, u32 metric) {
    const u32 query = blockIdx.y, lane = threadIdx.x & 31;
    const Wish wish = wishes[query];
    const double norm2 = status[query].norm2;
    u32 rows = count;
    if (count == NO_COUNT) rows = status[query].kept == OVERFLOW ? 0 : status[query].kept;
    for (u32 at = blockIdx.x * 8 + threadIdx.x / 32; at < rows; at += gridDim.x * 8) {
        const u32 row = listed ? listed[query * listed_stride + at] : at;
        u64 key = 0;
        if (row < n && (!checked || counts_for(row, wish.mask, dead, masks, mask_words))) {
            const float* mine = queries + (u64)query * pitch;
            key = key_of(exact_score(mine, originals + (u64)row * pitch, pitch, norm2, metric), row, wish, metric);
        }
        if (lane == 0) keys[query * stride + at] = key;
    }
}

// Keys that shared memory sorts.
#define SORTED 4096u

// Sorts one piece of global memory as `sort_descending` would the whole, whose part it is, through shared memory: all
// steps of the sizes up to SORTED (`from` = 2), or those of `from` below SORTED.
__device__ __forceinline__ void sort_piece(u64* piece, u64* shared, u32 first, u32 from) {
    for (u32 i = threadIdx.x; i < SORTED; i += blockDim.x) shared[i] = piece[i];
    if (from == 2) {
        sort_descending(shared, SORTED, first);
    } else {
        __syncthreads();
        for (u32 step = SORTED / 2; step > 0; step /= 2) exchange(shared, SORTED, first, from, step);
    }
    for (u32 i = threadIdx.x; i < SORTED; i += blockDim.x) piece[i] = shared[i];
    __syncthreads();
}

__device__ __forceinline__ void sort_in_pieces(u64* keys, u64* shared, u32 count) {
    for (u32 first = 0; first < count; first += SORTED) sort_piece(keys + first, shared, first, 2);
    for (u32 size = 2 * SORTED; size <= count; size *= 2) {
        for (u32 step = size / 2; step >= SORTED; step /= 2) exchange(keys, count, 0, size, step);
        for (u32 first = 0; first < count; first += SORTED) sort_piece(keys + first, shared, first, size);
    }
}

// similarity_sort: the best keys of each piece of every query's list, in descending order.
//   keys u64[queries, stride]; `count` of them, or as `status` says for NO_COUNT, after `rounds` such reductions before
//   best u64[queries, best_stride]: `keep` of each piece, piece after piece, zeros where there are fewer
//   work u64[queries, pieces, piece]: only used where `piece`, a power of two, is more than 4096
// One block per piece; y is the query.
extern "C" __global__ void __launch_bounds__(512) similarity_sort(const u64* __restrict__ keys,
    const Status* __restrict__ status, u64* __restrict__ work, u64* __restrict__ best, u64 stride, u64 best_stride,
    u32 count, u32 piece, u32 keep, u32 rounds) {
    __shared__ u64 shared[SORTED];
    const u32 query = blockIdx.y;
    u32 left = count;
    if (count == NO_COUNT) left = status[query].kept == OVERFLOW ? 0 : status[query].kept;
    for (u32 round = 0; round < rounds; round++) left = (left + piece - 1) / piece * keep;
    const u32 first = blockIdx.x * piece;
    if (first >= left && blockIdx.x != 0) return;
    const u32 mine = min(piece, left - first);
    u32 size = 2;
    while (size < mine) size *= 2;
    const u64* from = keys + query * stride + first;
    u64* sorted = size <= SORTED ? shared : work + ((u64)query * gridDim.x + blockIdx.x) * piece;
    for (u32 i = threadIdx.x; i < size; i += blockDim.x) sorted[i] = i < mine ? from[i] : 0;
    if (size <= SORTED) {
        sort_descending(sorted, size, 0);
    } else {
        __syncthreads();
        sort_in_pieces(sorted, shared, size);
    }
    u64* to = best + query * best_stride + (u64)blockIdx.x * keep;
    for (u32 i = threadIdx.x; i < keep; i += blockDim.x) to[i] = i < mine ? sorted[i] : 0;
}

// Groups of rows, and rows, that `similarity_finish` has room for.
#define FINISHED_GROUPS 2048u
#define FINISHED (4 * 1024u)

// Takes the next place for each thread that has something; the whole warp calls.
__device__ __forceinline__ u32 next_place(bool mine, u32* count) {
    const u32 lanes = __ballot_sync(FULL_WARP, mine), lane = threadIdx.x & 31;
    u32 first = 0;
    if (lane == 0 && lanes) first = atomicAdd(count, __popc(lanes));
    return __shfl_sync(FULL_WARP, first, 0) + __popc(lanes & ((1u << lane) - 1));
}

// similarity_finish: floor, candidates, narrowing, exact scores and sorting at once, for few candidates.
//   lows, highs f32[queries, groups], uppers f32[queries, groups * 32] as the vector kernels write them
//   originals f32[n, pitch], rows Row[n], queries f32[queries, pitch]
//   best u64[queries, keep]: the best keys in descending order, zeros where there are fewer
//   status gets count and floor, or OVERFLOW where there was no room
// One block of 1024 threads per query.
extern "C" __global__ void __launch_bounds__(1024) similarity_finish(const float* __restrict__ lows,
    const float* __restrict__ highs, const float* __restrict__ uppers, const float* __restrict__ originals,
    const Row* __restrict__ rows, const float* __restrict__ queries, const Query* __restrict__ known,
    const Wish* __restrict__ wishes, Status* __restrict__ status, u64* __restrict__ best, u32 groups, u32 pitch,
    u32 keep, u32 metric) {
    __shared__ u64 list[FINISHED];
    __shared__ u32 reached[FINISHED_GROUPS];
    __shared__ u32 counters[2][32];
    __shared__ u32 counts[3];
    const u32 query = blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    const Wish wish = wishes[query];
    const Query q = known[query];
    const double norm2 = status[query].norm2, distance2 = metric == SQUARED_L2 ? norm2 : 0.0;
    const float *low = lows + (u64)query * groups, *high = highs + (u64)query * groups;
    if (threadIdx.x < 3) counts[threadIdx.x] = 0;

    float floor = q.floor;
    {
        Images<HELD> images;
        hold_images(images, groups, [&](u32 at) { return low[at] > -INFINITE ? ordered(low[at]) : 0; });
        const u32 bar = bar_of(images, wish.k, wish.k / 8 + 2, counters[0]);
        if (bar != 0) floor = fmaxf(floor, lowered(from_ordered(bar), distance2));
    }

    // Groups that reach the floor, then their rows that do.
    for (u32 first = threadIdx.x; first - threadIdx.x < groups; first += 8 * blockDim.x) {
        float bounds[8];
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            const u32 group = first + i * blockDim.x;
            bounds[i] = group < groups ? high[group] : -INFINITE;
        }
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            const bool reaches = bounds[i] > -INFINITE && bounds[i] >= floor;
            const u32 at = next_place(reaches, &counts[0]);
            if (reaches && at < FINISHED_GROUPS) reached[at] = first + i * blockDim.x;
        }
    }
    __syncthreads();
    for (u32 i = warp; i < min(counts[0], FINISHED_GROUPS); i += 32) {
        const u32 row = reached[i] * 32 + lane;
        const float bound = uppers[(u64)query * groups * 32 + row];
        const bool reaches = bound > -INFINITE && bound >= floor;
        const u32 at = next_place(reaches, &counts[1]);
        if (reaches && at < FINISHED) list[at] = (u64)__float_as_uint(bound) << 32 | row;
    }
    __syncthreads();
    const u32 count = counts[1];
    if (counts[0] > FINISHED_GROUPS || count > FINISHED) {
        if (threadIdx.x == 0) status[query].kept = OVERFLOW;
        return;
    }

    // Every thread takes its rows out, and puts back those that reach the floor of all candidates.
    u64 mine[FINISHED / 1024];
#pragma unroll
    for (u32 i = 0; i < FINISHED / 1024; i++) {
        const u32 at = i * blockDim.x + threadIdx.x;
        mine[i] = at < count ? list[at] : 0;
    }
    if (count > wish.k) {
        Images<FINISHED / 1024> images;
        hold_images(images, count, [&](u32 at) {
            const float bound = lower_from_upper(__uint_as_float((u32)(list[at] >> 32)), q, rows[(u32)list[at]]);
            return bound > -INFINITE ? ordered(bound) : 0;
        });
        const u32 bar = bar_of(images, wish.k, 0, counters[1]);
        if (bar != 0) floor = fmaxf(floor, lowered(from_ordered(bar), distance2));
    }
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < FINISHED / 1024; i++) {
        const bool reaches =
            i * blockDim.x + threadIdx.x < count && __uint_as_float((u32)(mine[i] >> 32)) >= floor;
        const u32 at = next_place(reaches, &counts[2]);
        if (reaches) list[at] = (u32)mine[i];
    }
    __syncthreads();
    const u32 kept = counts[2];
    for (u32 i = warp; i < kept; i += 32) {
        const u32 row = (u32)list[i];
        const float score =
            exact_score(queries + (u64)query * pitch, originals + (u64)row * pitch, pitch, norm2, metric);
        __syncwarp();
        if (lane == 0) list[i] = key_of(score, row, wish, metric);
    }
    u32 size = 2;
    while (size < kept) size *= 2;
    for (u32 i = kept + threadIdx.x; i < size; i += blockDim.x) list[i] = 0;
    sort_descending(list, size, 0);
    for (u32 i = threadIdx.x; i < keep; i += blockDim.x) best[(u64)query * keep + i] = i < kept ? list[i] : 0;
    if (threadIdx.x != 0) return;
    status[query].kept = kept;
    status[query].floor = floor;
}
