// From bounds to results: pruning thresholds, candidates, rescoring and sorting. The scans are in scan_gemv.cu,
// scan_mma.cu and scan_wgmma.cu, the proof is in bounds.cuh.

#include "search/bounds.cuh"
#include "search/topk.cuh"

// search_raise_threshold: raises each query's pruning threshold to the k-th best lower bound of its groups of rows.
//   lower_bounds f32[queries, groups], the best lower bound of each group, minus infinity if it has no matching row
// One block per query. The selection is approximate: up to k/8 + 2 more groups than k reach the threshold.
extern "C" __global__ void __launch_bounds__(SELECT_THREADS) search_raise_threshold(const float* __restrict__ lower_bounds,
    const SearchParams* __restrict__ params, const SearchStatus* __restrict__ status,
    QueryMeta* __restrict__ query_meta, u32 groups, u32 metric) {
    __shared__ u32 counters[32];
    const u32 query = blockIdx.x, k = params[query].k;
    const float* group_bounds = lower_bounds + (u64)query * groups;
    BlockKeys<KEYS_PER_THREAD> keys;
    load_keys(keys, groups, [&](u32 at) {
        const float low = group_bounds[at];
        return low > -INFINITY ? sortable(low) : 0;
    });
    const u32 kth = select_threshold(keys, k, k / 8 + 2, counters);
    if (threadIdx.x != 0 || kth == 0) return;
    const double squared_norm = metric == SQUARED_L2 ? status[query].squared_norm : 0.0;
    query_meta[query].pruning_threshold =
        fmaxf(query_meta[query].pruning_threshold, lower_for_ties(from_sortable(kth), squared_norm));
}

// search_compact_candidates: stream compaction of the rows whose upper bound reaches the pruning threshold.
//   upper_bounds f32[queries, stride], minus infinity for rows that do not match; stride a multiple of 4
//   candidates (row, upper bound)[queries, capacity]; candidate_counts u32[queries] includes those beyond the capacity
// Four rows per thread, COMPACT_ROWS per block; blockIdx.y is the query.
extern "C" __global__ void __launch_bounds__(BLOCK_THREADS) search_compact_candidates(const float* __restrict__ upper_bounds,
    const QueryMeta* __restrict__ query_meta, u32* __restrict__ candidate_counts, uint2* __restrict__ candidates,
    u32 stride, u32 capacity) {
    const u32 query = blockIdx.y, first = (blockIdx.x * BLOCK_THREADS + threadIdx.x) * 4;
    static_assert(COMPACT_ROWS == 4 * BLOCK_THREADS, "the launch has other blocks");
    const float threshold = query_meta[query].pruning_threshold;
    float4 four = make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
    if (first < stride) four = *(const float4*)(upper_bounds + (u64)query * stride + first);
    const float values[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        const bool keep = values[i] > -INFINITY && values[i] >= threshold;
        const u32 lanes = __ballot_sync(FULL_WARP, keep);
        if (lanes == 0) continue;
        const u32 lane = threadIdx.x & 31;
        u32 at = 0;
        if (lane == 0) at = atomicAdd(candidate_counts + query, __popc(lanes));
        at = __shfl_sync(FULL_WARP, at, 0) + __popc(lanes & ((1u << lane) - 1));
        if (keep && at < capacity) {
            candidates[(u64)query * capacity + at] = make_uint2(first + i, __float_as_uint(values[i]));
        }
    }
}

// search_prune_candidates: raises the pruning threshold to the k-th best lower bound of the candidates themselves, and
// lists the candidates that still reach it.
//   candidates, candidate_counts as search_compact_candidates writes them; rows RowMeta[N]
//   survivors u32[queries, survivor_capacity]
//   status: the number of survivors and the threshold, or OVERFLOWED if either list exceeded its capacity
// One block per query.
extern "C" __global__ void __launch_bounds__(SELECT_THREADS) search_prune_candidates(const uint2* __restrict__ candidates,
    const u32* __restrict__ candidate_counts, const RowMeta* __restrict__ rows,
    const QueryMeta* __restrict__ query_meta, const SearchParams* __restrict__ params,
    SearchStatus* __restrict__ status, u32* __restrict__ survivors, u32 capacity, u32 survivor_capacity, u32 metric) {
    __shared__ u32 counters[32];
    __shared__ u32 listed;
    const u32 query = blockIdx.x, count = candidate_counts[query], k = params[query].k;
    if (threadIdx.x == 0) listed = 0;
    if (count > capacity) {
        if (threadIdx.x == 0) status[query].candidates = OVERFLOWED;
        return;
    }
    const uint2* entries = candidates + (u64)query * capacity;
    const QueryMeta q = query_meta[query];
    float threshold = q.pruning_threshold;
    if (count > k) {
        BlockKeys<KEYS_PER_THREAD> keys;
        load_keys(keys, count, [&](u32 at) {
            const float low = lower_from_upper(__uint_as_float(entries[at].y), q, rows[entries[at].x]);
            return low > -INFINITY ? sortable(low) : 0;
        });
        const u32 kth = select_threshold(keys, k, k / 16, counters);
        const double squared_norm = metric == SQUARED_L2 ? status[query].squared_norm : 0.0;
        if (kth != 0) threshold = fmaxf(threshold, lower_for_ties(from_sortable(kth), squared_norm));
    }
    __syncthreads();
    for (u32 at = threadIdx.x; at < count; at += blockDim.x) {
        const uint2 one = entries[at];
        if (__uint_as_float(one.y) < threshold) continue;
        const u32 to = atomicAdd(&listed, 1);
        if (to < survivor_capacity) survivors[(u64)query * survivor_capacity + to] = one.x;
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    status[query].candidates = listed <= survivor_capacity ? listed : OVERFLOWED;
    status[query].pruning_threshold = threshold;
}

// The score of one row in f64, by one warp. The order of the sum is fixed.
__device__ __forceinline__ float exact_score(
    const float* __restrict__ query, const float* __restrict__ row, u32 pitch, double squared_norm, u32 metric) {
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
        const double norms = squared_norm * warp_sum(row2);
        sum = norms > 0 ? sum / sqrt(norms) : 0.0;
    }
    return (float)sum + 0.0f;
}

// A sort key: the better score has the larger key, ties to the lower row; 0 if the score misses the query's threshold.
__device__ __forceinline__ u64 score_key(float score, u32 row, const SearchParams& query_params, u32 metric) {
    const bool lower = metric == SQUARED_L2;
    if (query_params.has_threshold && (lower ? score > query_params.threshold : score < query_params.threshold)) {
        return 0;
    }
    return (u64)sortable(lower ? -score + 0.0f : score) << 32 | ~row;
}

// search_rescore: f64 scores of candidates as sort keys, 0 for a row that does not match or misses the query's
// threshold.
//   originals f32[n, pitch], queries f32[queries, pitch]
//   listed u32[queries or 1, listed_stride], or null for all rows; `count` of them, or as in `status` for NO_COUNT
//   checked: nonzero if rows must be looked up in `deleted` and `masks`
//   keys u64[queries, stride]
// One warp per row, BLOCK_ROWS warps per block; blockIdx.y is the query.
extern "C" __global__ void __launch_bounds__(BLOCK_THREADS) search_rescore(const float* __restrict__ originals,
    const float* __restrict__ queries, const SearchParams* __restrict__ params, const SearchStatus* __restrict__ status,
    const u32* __restrict__ deleted, const u32* __restrict__ masks, const u32* __restrict__ listed,
    u64* __restrict__ keys, u64 listed_stride, u64 stride, u32 n, u32 pitch, u32 count, u32 mask_words, u32 checked,
    u32 metric) {
    const u32 query = blockIdx.y, lane = threadIdx.x & 31;
    const SearchParams query_params = params[query];
    const double squared_norm = status[query].squared_norm;
    u32 rows = count;
    if (count == NO_COUNT) rows = status[query].candidates == OVERFLOWED ? 0 : status[query].candidates;
    for (u32 at = blockIdx.x * BLOCK_ROWS + threadIdx.x / 32; at < rows; at += gridDim.x * BLOCK_ROWS) {
        const u32 row = listed ? listed[query * listed_stride + at] : at;
        u64 key = 0;
        if (row < n && (!checked || row_matches(row, query_params.mask, deleted, masks, mask_words))) {
            const float* vector = queries + (u64)query * pitch;
            const float score = exact_score(vector, originals + (u64)row * pitch, pitch, squared_norm, metric);
            key = score_key(score, row, query_params, metric);
        }
        if (lane == 0) keys[query * stride + at] = key;
    }
}

// The part of `bitonic_sort_descending` within one chunk of global memory, through shared memory: all steps of the
// sizes up to SORTED if `from` is 2, else the steps below SORTED of size `from`.
__device__ __forceinline__ void sort_chunk(u64* chunk, u64* shared, u32 first, u32 from) {
    for (u32 i = threadIdx.x; i < SORTED; i += blockDim.x) shared[i] = chunk[i];
    if (from == 2) {
        bitonic_sort_descending(shared, SORTED, first);
    } else {
        __syncthreads();
        for (u32 step = SORTED / 2; step > 0; step /= 2) bitonic_exchange(shared, SORTED, first, from, step);
    }
    for (u32 i = threadIdx.x; i < SORTED; i += blockDim.x) chunk[i] = shared[i];
    __syncthreads();
}

__device__ __forceinline__ void sort_chunks(u64* keys, u64* shared, u32 count) {
    for (u32 first = 0; first < count; first += SORTED) sort_chunk(keys + first, shared, first, 2);
    for (u32 size = 2 * SORTED; size <= count; size *= 2) {
        for (u32 step = size / 2; step >= SORTED; step /= 2) bitonic_exchange(keys, count, 0, size, step);
        for (u32 first = 0; first < count; first += SORTED) sort_chunk(keys + first, shared, first, size);
    }
}

// search_top_k: the best `keep` keys of each chunk of every query's list, in descending order.
//   keys u64[queries, stride]; `count` of them, or as in `status` for NO_COUNT, reduced by `rounds` previous launches
//   best u64[queries, best_stride]: `keep` keys of each chunk, padded with zeros, chunk after chunk
//   work u64[queries, chunks, chunk]: used only if `chunk`, a power of two, exceeds SORTED
// One block per chunk; blockIdx.y is the query.
extern "C" __global__ void __launch_bounds__(SORT_THREADS) search_top_k(const u64* __restrict__ keys,
    const SearchStatus* __restrict__ status, u64* __restrict__ work, u64* __restrict__ best, u64 stride,
    u64 best_stride, u32 count, u32 chunk, u32 keep, u32 rounds) {
    __shared__ u64 shared[SORTED];
    const u32 query = blockIdx.y;
    u32 left = count;
    if (count == NO_COUNT) left = status[query].candidates == OVERFLOWED ? 0 : status[query].candidates;
    for (u32 round = 0; round < rounds; round++) left = (left + chunk - 1) / chunk * keep;
    const u32 first = blockIdx.x * chunk;
    if (first >= left && blockIdx.x != 0) return;
    const u32 len = min(chunk, left - first);
    u32 size = 2;
    while (size < len) size *= 2;
    const u64* from = keys + query * stride + first;
    u64* sorted = size <= SORTED ? shared : work + ((u64)query * gridDim.x + blockIdx.x) * chunk;
    for (u32 i = threadIdx.x; i < size; i += blockDim.x) sorted[i] = i < len ? from[i] : 0;
    if (size <= SORTED) {
        bitonic_sort_descending(sorted, size, 0);
    } else {
        __syncthreads();
        sort_chunks(sorted, shared, size);
    }
    u64* to = best + query * best_stride + (u64)blockIdx.x * keep;
    for (u32 i = threadIdx.x; i < keep; i += blockDim.x) to[i] = i < len ? sorted[i] : 0;
}

// Capacities of search_refine: groups that reach the threshold, and candidates.
#define MAX_GROUPS 2048u
#define MAX_CANDIDATES (4 * SELECT_THREADS)

// Warp-aggregated append: an index for each thread with `appends` set; the whole warp must call.
__device__ __forceinline__ u32 warp_append(bool appends, u32* count) {
    const u32 lanes = __ballot_sync(FULL_WARP, appends), lane = threadIdx.x & 31;
    u32 first = 0;
    if (lane == 0 && lanes) first = atomicAdd(count, __popc(lanes));
    return __shfl_sync(FULL_WARP, first, 0) + __popc(lanes & ((1u << lane) - 1));
}

// search_refine: threshold, compaction, pruning, rescoring and sorting fused, for small k.
//   lower_bounds, group_upper_bounds f32[queries, groups], upper_bounds f32[queries, groups * 32], as
//     search_scan_gemv_* writes them
//   originals f32[n, pitch], rows RowMeta[n], queries f32[queries, pitch]
//   best u64[queries, keep]: the best keys in descending order, padded with zeros
//   status: the number of rescored candidates and the threshold, or OVERFLOWED if a capacity was exceeded
// One block of SELECT_THREADS threads per query.
extern "C" __global__ void __launch_bounds__(SELECT_THREADS) search_refine(const float* __restrict__ lower_bounds,
    const float* __restrict__ group_upper_bounds, const float* __restrict__ upper_bounds,
    const float* __restrict__ originals, const RowMeta* __restrict__ rows, const float* __restrict__ queries,
    const QueryMeta* __restrict__ query_meta, const SearchParams* __restrict__ params,
    SearchStatus* __restrict__ status, u64* __restrict__ best, u32 groups, u32 pitch, u32 keep, u32 metric) {
    __shared__ u64 list[MAX_CANDIDATES];
    __shared__ u32 reached[MAX_GROUPS];
    __shared__ u32 counters[2][32];
    __shared__ u32 counts[3];
    const u32 query = blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    const SearchParams query_params = params[query];
    const QueryMeta q = query_meta[query];
    const double squared_norm = status[query].squared_norm, distance_norm = metric == SQUARED_L2 ? squared_norm : 0.0;
    const float *low = lower_bounds + (u64)query * groups, *high = group_upper_bounds + (u64)query * groups;
    if (threadIdx.x < 3) counts[threadIdx.x] = 0;

    float threshold = q.pruning_threshold;
    {
        BlockKeys<KEYS_PER_THREAD> keys;
        load_keys(keys, groups, [&](u32 at) { return low[at] > -INFINITY ? sortable(low[at]) : 0; });
        const u32 kth = select_threshold(keys, query_params.k, query_params.k / 8 + 2, counters[0]);
        if (kth != 0) threshold = fmaxf(threshold, lower_for_ties(from_sortable(kth), distance_norm));
    }

    // The groups that reach the threshold, then the rows of these groups that do.
    for (u32 first = threadIdx.x; first - threadIdx.x < groups; first += 8 * blockDim.x) {
        float bounds[8];
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            const u32 group = first + i * blockDim.x;
            bounds[i] = group < groups ? high[group] : -INFINITY;
        }
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            const bool reaches = bounds[i] > -INFINITY && bounds[i] >= threshold;
            const u32 at = warp_append(reaches, &counts[0]);
            if (reaches && at < MAX_GROUPS) reached[at] = first + i * blockDim.x;
        }
    }
    __syncthreads();
    for (u32 i = warp; i < min(counts[0], MAX_GROUPS); i += SELECT_THREADS / 32) {
        const u32 row = reached[i] * 32 + lane;
        const float bound = upper_bounds[(u64)query * groups * 32 + row];
        const bool reaches = bound > -INFINITY && bound >= threshold;
        const u32 at = warp_append(reaches, &counts[1]);
        if (reaches && at < MAX_CANDIDATES) list[at] = (u64)__float_as_uint(bound) << 32 | row;
    }
    __syncthreads();
    const u32 count = counts[1];
    if (counts[0] > MAX_GROUPS || count > MAX_CANDIDATES) {
        if (threadIdx.x == 0) status[query].candidates = OVERFLOWED;
        return;
    }

    // Each thread takes its candidates out of the list, and puts back those that reach the raised threshold.
    u64 entries[MAX_CANDIDATES / SELECT_THREADS];
#pragma unroll
    for (u32 i = 0; i < MAX_CANDIDATES / SELECT_THREADS; i++) {
        const u32 at = i * blockDim.x + threadIdx.x;
        entries[i] = at < count ? list[at] : 0;
    }
    if (count > query_params.k) {
        BlockKeys<MAX_CANDIDATES / SELECT_THREADS> keys;
        load_keys(keys, count, [&](u32 at) {
            const float bound = lower_from_upper(__uint_as_float((u32)(list[at] >> 32)), q, rows[(u32)list[at]]);
            return bound > -INFINITY ? sortable(bound) : 0;
        });
        const u32 kth = select_threshold(keys, query_params.k, 0, counters[1]);
        if (kth != 0) threshold = fmaxf(threshold, lower_for_ties(from_sortable(kth), distance_norm));
    }
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < MAX_CANDIDATES / SELECT_THREADS; i++) {
        const bool reaches =
            i * blockDim.x + threadIdx.x < count && __uint_as_float((u32)(entries[i] >> 32)) >= threshold;
        const u32 at = warp_append(reaches, &counts[2]);
        if (reaches) list[at] = (u32)entries[i];
    }
    __syncthreads();
    const u32 kept = counts[2];
    for (u32 i = warp; i < kept; i += SELECT_THREADS / 32) {
        const u32 row = (u32)list[i];
        const float score =
            exact_score(queries + (u64)query * pitch, originals + (u64)row * pitch, pitch, squared_norm, metric);
        __syncwarp();
        if (lane == 0) list[i] = score_key(score, row, query_params, metric);
    }
    u32 size = 2;
    while (size < kept) size *= 2;
    for (u32 i = kept + threadIdx.x; i < size; i += blockDim.x) list[i] = 0;
    bitonic_sort_descending(list, size, 0);
    for (u32 i = threadIdx.x; i < keep; i += blockDim.x) best[(u64)query * keep + i] = i < kept ? list[i] : 0;
    if (threadIdx.x != 0) return;
    status[query].candidates = kept;
    status[query].pruning_threshold = threshold;
}
