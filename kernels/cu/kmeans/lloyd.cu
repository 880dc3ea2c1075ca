// Lloyd's iteration after the assignment, exact assignment of ambiguous rows, and inertia.
//
// An iteration is kmeans_assign_*, count_labels, reseed_empty, scan_counts, scatter_rows, sum_segments, update_centers.
// Rows are sorted by centre with a counting sort and summed segment by segment in a fixed order without floating-point
// atomics:
// results are deterministic on a device. Every kernel of the iteration returns at once if state->done is set, so that
// the host may launch iterations ahead of reading the state.

#include "kmeans/state.cuh"

static_assert(BLOCK_THREADS == 32 * BLOCK_WARPS && SORT_THREADS == 32 * SORT_WARPS, "whole warps");

// --- Counting sort of rows by centre ---

// A warp's counters: in shared memory if they fit, else its line of `counts`.
__device__ __forceinline__ volatile u32* warp_counters(
    u32* shared, u32* counts, u32 warp, u32 clusters, u32 in_shared) {
    return in_shared ? shared + (threadIdx.x >> 5) * clusters : counts + (u64)warp * clusters;
}

// kmeans_count_labels: the number of rows per centre in each run of `run` rows, a multiple of 32.
//   counts u32[runs, clusters]; center_counts u32[clusters], zero before. One warp per run.
extern "C" __global__ void __launch_bounds__(SORT_THREADS)
kmeans_count_labels(const u32* __restrict__ labels, u32* counts, u32* center_counts, const KMeansState* state,
                    u32 count, u32 clusters, u32 run, u32 runs, u32 in_shared) {
    extern __shared__ u32 shared[];
    const u32 lane = threadIdx.x & 31, warp = blockIdx.x * SORT_WARPS + (threadIdx.x >> 5);
    if (state->done || warp >= runs) return;
    volatile u32* counters = warp_counters(shared, counts, warp, clusters, in_shared);
    for (u32 center = lane; center < clusters; center += 32) counters[center] = 0;
    __syncwarp();
    const u32 end = min((warp + 1) * run, count);
    for (u32 base = warp * run; base < end; base += 32) {
        const u32 row = base + lane, label = row < end ? labels[row] : 0xffffffffu;
        const u32 same = __match_any_sync(FULL_WARP, label);
        if (row < end && lane == (u32)__ffs(same) - 1) counters[label] = counters[label] + __popc(same);
        __syncwarp();
    }
    for (u32 center = lane; center < clusters; center += 32) {
        const u32 rows = counters[center];
        if (in_shared) counts[(u64)warp * clusters + center] = rows;
        if (rows) atomicAdd(center_counts + center, rows);
    }
}

// The squared centred distance of a row to its centre; 0 if it is at most the share `noise` of the row's squared norm,
// and so may be a rounding error.
__device__ __forceinline__ float distance(float norm, float score, float noise) {
    const float squared = norm - 2.0f * score;
    return squared > norm * noise ? squared : 0.0f;
}

// kmeans_reseed_empty: moves the rows farthest from their centres to empty clusters, at most 32 per iteration and never
// the last row of a cluster, ties to the lowest row; then writes center_offsets u32[clusters + 1], the prefix sums of
// center_counts. One block of WIDE_THREADS.
extern "C" __global__ void __launch_bounds__(WIDE_THREADS)
kmeans_reseed_empty(u32* labels, float* scores, const float* __restrict__ norms, u32* counts, u32* center_counts,
                    u32* center_offsets, const KMeansState* state, u32 count, u32 clusters, u32 run, float noise) {
    __shared__ u32 sums[32], empty, farthest_row[32];
    __shared__ float farthest[32];
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (state->done) return;
    u32 next = 0;  // centres before this one have rows
    for (int round = 0; round < 32; ++round) {
        if (threadIdx.x == 0) empty = clusters;
        __syncthreads();
        for (u32 center = next + threadIdx.x; center < clusters; center += WIDE_THREADS) {
            if (center_counts[center] == 0) {
                atomicMin(&empty, center);
                break;
            }
        }
        __syncthreads();
        const u32 target = empty;
        if (target == clusters) break;
        float best = 0.0f;
        u32 row = count;
        for (u32 at = threadIdx.x; at < count; at += WIDE_THREADS) {
            const float far = distance(norms[at], scores[at], noise);
            if (far > best && center_counts[labels[at]] > 1) best = far, row = at;
        }
#pragma unroll
        for (int step = 16; step > 0; step >>= 1) {
            const float far = __shfl_xor_sync(FULL_WARP, best, step);
            const u32 other = __shfl_xor_sync(FULL_WARP, row, step);
            if (far > best || (far == best && other < row)) best = far, row = other;
        }
        if (lane == 0) farthest[warp] = best, farthest_row[warp] = row;
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int i = 1; i < 32; ++i) {
                const float far = farthest[i];
                if (far > best || (far == best && farthest_row[i] < row)) best = far, row = farthest_row[i];
            }
            if (row < count) {
                const u32 old = labels[row], of_run = row / run;
                labels[row] = target;
                scores[row] = 0.5f * norms[row];
                center_counts[old] -= 1, center_counts[target] = 1;
                counts[(u64)of_run * clusters + old] -= 1;
                counts[(u64)of_run * clusters + target] += 1;
            }
            farthest_row[0] = row;
        }
        __syncthreads();
        const bool none = farthest_row[0] == count;
        __syncthreads();
        if (none) break;
        next = target + 1;
    }
    // Exclusive prefix sums of center_counts, WIDE_THREADS at a time.
    u32 before = 0;
    for (u32 base = 0; base < clusters; base += WIDE_THREADS) {
        const u32 center = base + threadIdx.x, total = center < clusters ? center_counts[center] : 0;
        u32 sum = total;
#pragma unroll
        for (int step = 1; step < 32; step <<= 1) {
            const u32 left = __shfl_up_sync(FULL_WARP, sum, step);
            if (lane >= step) sum += left;
        }
        __syncthreads();
        if (lane == 31) sums[warp] = sum;
        __syncthreads();
        u32 lower = 0, all = 0;
        for (int i = 0; i < 32; ++i) {
            if (i < warp) lower += sums[i];
            all += sums[i];
        }
        if (center < clusters) center_offsets[center] = before + lower + sum - total;
        before += all;
    }
    if (threadIdx.x == 0) center_offsets[clusters] = before;
}

// kmeans_scan_counts: exclusive scan of counts over the runs, giving the sorted position of each run's rows of each
// centre. A block of 32 warps takes 32 centres, a warp a share of the runs.
extern "C" __global__ void __launch_bounds__(WIDE_THREADS)
kmeans_scan_counts(u32* counts, const u32* __restrict__ center_offsets, const KMeansState* state, u32 clusters,
                   u32 runs) {
    __shared__ u32 sums[32][33];
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5, center = blockIdx.x * 32 + lane;
    if (state->done) return;
    const u32 share = (runs + 31) / 32, first = min(warp * share, runs), end = min(first + share, runs);
    u32 sum = 0;
    if (center < clusters) {
#pragma unroll 8
        for (u32 at = first; at < end; ++at) sum += counts[(u64)at * clusters + center];
    }
    sums[warp][lane] = sum;
    __syncthreads();
    if (center >= clusters) return;
    u32 position = center_offsets[center];
    for (u32 i = 0; i < warp; ++i) position += sums[i][lane];
#pragma unroll 8
    for (u32 at = first; at < end; ++at) {
        const u32 rows = counts[(u64)at * clusters + center];
        counts[(u64)at * clusters + center] = position;
        position += rows;
    }
}

// kmeans_scatter_rows: writes the rows sorted by centre, ascending within a centre, to order u32[count].
extern "C" __global__ void __launch_bounds__(SORT_THREADS)
kmeans_scatter_rows(const u32* __restrict__ labels, u32* counts, u32* __restrict__ order, const KMeansState* state,
                    u32 count, u32 clusters, u32 run, u32 runs, u32 in_shared) {
    extern __shared__ u32 shared[];
    const u32 lane = threadIdx.x & 31, warp = blockIdx.x * SORT_WARPS + (threadIdx.x >> 5);
    if (state->done || warp >= runs) return;
    volatile u32* counters = warp_counters(shared, counts, warp, clusters, in_shared);
    if (in_shared) {
        for (u32 center = lane; center < clusters; center += 32) {
            counters[center] = counts[(u64)warp * clusters + center];
        }
    }
    __syncwarp();
    const u32 end = min((warp + 1) * run, count);
    for (u32 base = warp * run; base < end; base += 32) {
        const u32 row = base + lane, label = row < end ? labels[row] : 0xffffffffu;
        const u32 same = __match_any_sync(FULL_WARP, label);
        const u32 position = row < end ? counters[label] : 0;
        const u32 rank = __popc(same & ((1u << lane) - 1));
        __syncwarp();
        if (row < end && rank == 0) counters[label] = position + __popc(same);
        if (row < end) order[position + rank] = row;
        __syncwarp();
    }
}

// --- Means ---

// kmeans_sum_segments_*: segmented sums of the f32 rows in sorted order: one per centre in each segment of SEGMENT
// rows.
//   Sums are multiplied by state->scale to stay in range.
//   segment_sums f32[segments + clusters, dim]: the sum of segment s and centre c is at index s + c, which is unique
//     since
//   both ascend in the sorted order. One warp per segment and 32 * V columns; 8 warps per block.
template <int V>
__device__ __forceinline__ void sum_segment(const float* __restrict__ rows, const u32* __restrict__ order,
                                            const u32* __restrict__ labels, float* __restrict__ segment_sums,
                                            const KMeansState* state, u32 count, u32 dim) {
    const u32 lane = threadIdx.x & 31, segment = blockIdx.x * BLOCK_WARPS + (threadIdx.x >> 5);
    const u32 first = segment * SEGMENT, column = (blockIdx.y * 32 + lane) * V;
    if (state->done || first >= count) return;
    const u32 len = min(count - first, (u32)SEGMENT);
    const bool inside = column < dim;
    const float scale = state->scale;
    float sum[V] = {};
    u32 current = labels[order[first]];
    auto flush = [&](u32 center) {
        if (!inside) return;
        float* to = segment_sums + ((u64)segment + center) * dim + column;
        if constexpr (V == 4) *(float4*)to = make_float4(sum[0], sum[1], sum[2], sum[3]);
        else *to = sum[0];
    };
    for (u32 base = 0; base < len; base += 8) {
        const u32 at = min(base + (lane & 7), len - 1), row_id = order[first + at], label = labels[row_id];
        float x[8][V];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const u64 row = __shfl_sync(FULL_WARP, row_id, i);
            const float* from = rows + row * dim + column;
            if constexpr (V == 4) {
                const float4 four = inside ? __ldg((const float4*)from) : make_float4(0, 0, 0, 0);
                x[i][0] = four.x, x[i][1] = four.y, x[i][2] = four.z, x[i][3] = four.w;
            } else {
                x[i][0] = inside ? __ldg(from) : 0.0f;
            }
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const u32 center = __shfl_sync(FULL_WARP, label, i);
            if (base + i >= len) break;
            if (center != current) {
                flush(current);
                current = center;
#pragma unroll
                for (int v = 0; v < V; ++v) sum[v] = 0;
            }
#pragma unroll
            for (int v = 0; v < V; ++v) sum[v] = fmaf(x[i][v], scale, sum[v]);
        }
    }
    flush(current);
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS)
kmeans_sum_segments_f32(const float* rows, const u32* order, const u32* labels, float* segment_sums,
                        const KMeansState* state, u32 count, u32 dim) {
    sum_segment<1>(rows, order, labels, segment_sums, state, count, dim);
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS)
kmeans_sum_segments_f32x4(const float* rows, const u32* order, const u32* labels, float* segment_sums,
                          const KMeansState* state, u32 count, u32 dim) {
    sum_segment<4>(rows, order, labels, segment_sums, state, count, dim);
}

// Writes a centre's centred coordinates and half norm, from the f32 numbers that the block has written. CENTER_THREADS threads.
__device__ __forceinline__ void store_center(const CenterBuffers& to, u32 center, float scale, double* scratch) {
    double squares = 0;
    for (u32 column = threadIdx.x; column < to.dim; column += CENTER_THREADS) {
        const float x = centered(to.exact[(u64)center * to.dim + column], to.mean[column], scale);
        const u64 at = (u64)center * to.pitch + column;
        store_centered(to.centered + at, to.low ? to.low + at : nullptr, x);
        squares += (double)x * (double)x;
    }
    squares = block_sum(squares, scratch);
    if (threadIdx.x == 0) to.half_norms[center] = (float)(0.5 * squares);
}

// kmeans_update_centers: moves every centre to the mean of its rows, normalised if `spherical`; an empty cluster keeps
// its centre. Increments the iterations, sets done if the squared movement is at most state->tolerance, zeros
// center_counts.
//   movements f64[clusters]: squared movements. One block of CENTER_THREADS per centre.
extern "C" __global__ void __launch_bounds__(CENTER_THREADS)
kmeans_update_centers(CenterBuffers to, const float* __restrict__ segment_sums, const u32* __restrict__ center_offsets,
                      u32* center_counts, double* movements, KMeansState* state, u32 spherical) {
    __shared__ double scratch[32];
    __shared__ u32 last;
    if (state->done) return;
    const u32 center = blockIdx.x, begin = center_offsets[center], end = center_offsets[center + 1];
    double movement = 0;
    if (begin < end) {
        const u32 first = begin / SEGMENT, stop = (end - 1) / SEGMENT + 1;
        double length = 0;
        if (spherical) {
            double squares = 0;
            for (u32 column = threadIdx.x; column < to.dim; column += CENTER_THREADS) {
                double sum = 0;
                for (u32 s = first; s < stop; ++s) sum += (double)segment_sums[((u64)s + center) * to.dim + column];
                squares += sum * sum;
            }
            length = sqrt(block_sum(squares, scratch));
            __syncthreads();
        }
        const double divisor = spherical ? length : (double)(end - begin) * (double)state->scale;
        if (divisor > 0) {
            for (u32 column = threadIdx.x; column < to.dim; column += CENTER_THREADS) {
                double sum = 0;
#pragma unroll 8
                for (u32 s = first; s < stop; ++s) sum += (double)segment_sums[((u64)s + center) * to.dim + column];
                float* position = to.exact + (u64)center * to.dim + column;
                const float now = (float)(sum / divisor);
                const double step = (double)now - (double)*position;
                *position = now;
                movement += step * step;
            }
        }
        movement = block_sum(movement, scratch);
        __syncthreads();
        store_center(to, center, state->scale, scratch);
    }
    if (threadIdx.x == 0) {
        movements[center] = movement;
        center_counts[center] = 0;
        __threadfence();
        last = atomicAdd(&state->ticket, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    double total = 0;
    float max_norm = 0;
    for (u32 c = threadIdx.x; c < to.clusters; c += CENTER_THREADS) {
        total += __ldcg(movements + c);
        max_norm = fmaxf(max_norm, __ldcg(to.half_norms + c));
    }
    __syncthreads();
    total = block_sum(total, scratch);
    max_norm = warp_max(max_norm);
    __shared__ float warp_max_norms[4];
    if ((threadIdx.x & 31) == 0) warp_max_norms[threadIdx.x >> 5] = max_norm;
    __syncthreads();
    if (threadIdx.x != 0) return;
    state->max_center_norm = sqrtf(
        2.0f * fmaxf(fmaxf(warp_max_norms[0], warp_max_norms[1]), fmaxf(warp_max_norms[2], warp_max_norms[3])));
    state->ticket = 0;
    state->iterations += 1;
    if (total <= state->tolerance) state->done = 1;
}

// kmeans_set_centers: the initial centres, which are the rows chosen u32[clusters]. One block of CENTER_THREADS per centre.
extern "C" __global__ void __launch_bounds__(CENTER_THREADS)
kmeans_set_centers(CenterBuffers to, const float* __restrict__ rows, const u32* __restrict__ chosen,
                   const KMeansState* state) {
    __shared__ double scratch[32];
    const u64 row = chosen[blockIdx.x];
    for (u32 column = threadIdx.x; column < to.dim; column += CENTER_THREADS) {
        to.exact[(u64)blockIdx.x * to.dim + column] = rows[row * to.dim + column];
    }
    store_center(to, blockIdx.x, state->scale, scratch);
}

// --- Exact assignment and inertia ---

// kmeans_assign_exact: assigns the listed rows in f64 from the f32 numbers, ties to the lowest centre. A block takes
// 8 rows, a thread every BLOCK_THREADS-th centre.
extern "C" __global__ void __launch_bounds__(BLOCK_THREADS)
kmeans_assign_exact(const float* __restrict__ rows, const float* __restrict__ centers, const u32* __restrict__ list,
                    u32* labels, const KMeansState* state, u32 clusters, u32 dim) {
    constexpr int ROWS = 8, COLUMNS = 64;
    __shared__ float x[ROWS][COLUMNS];
    __shared__ double distances[ROWS][BLOCK_WARPS];
    __shared__ u32 indices[ROWS][BLOCK_WARPS];
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5, len = state->ambiguous;
    for (u32 base = blockIdx.x * ROWS; base < len; base += gridDim.x * ROWS) {
        double best[ROWS];
        u32 index[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; ++r) best[r] = __longlong_as_double(0x7ff0000000000000ll), index[r] = 0xffffffffu;
        for (u32 tile = 0; tile < clusters; tile += BLOCK_THREADS) {
            const u32 center = tile + threadIdx.x;
            const float* from = centers + (u64)min(center, clusters - 1) * dim;
            double sum[ROWS] = {};
            for (u32 column = 0; column < dim; column += COLUMNS) {
                const u32 width = min(dim - column, (u32)COLUMNS);
                __syncthreads();
                for (u32 at = threadIdx.x; at < ROWS * COLUMNS; at += BLOCK_THREADS) {
                    const u32 r = at / COLUMNS, c = at % COLUMNS;
                    const u64 row = list[min(base + r, len - 1)];
                    x[r][c] = c < width ? rows[row * dim + column + c] : 0.0f;
                }
                __syncthreads();
                for (u32 c = 0; c < width; ++c) {
                    const double value = (double)__ldg(from + column + c);
#pragma unroll
                    for (int r = 0; r < ROWS; ++r) {
                        const double difference = (double)x[r][c] - value;
                        sum[r] = fma(difference, difference, sum[r]);
                    }
                }
            }
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                if (center < clusters && sum[r] < best[r]) best[r] = sum[r], index[r] = center;
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
#pragma unroll
            for (int step = 16; step > 0; step >>= 1) {
                const double other = __shfl_xor_sync(FULL_WARP, best[r], step);
                const u32 its = __shfl_xor_sync(FULL_WARP, index[r], step);
                if (other < best[r] || (other == best[r] && its < index[r])) best[r] = other, index[r] = its;
            }
            if (lane == 0) distances[r][warp] = best[r], indices[r][warp] = index[r];
        }
        __syncthreads();
        if (threadIdx.x < ROWS && base + threadIdx.x < len) {
            const u32 r = threadIdx.x;
            double least = distances[r][0];
            u32 found = indices[r][0];
            for (int w = 1; w < BLOCK_WARPS; ++w) {
                const double other = distances[r][w];
                if (other < least || (other == least && indices[r][w] < found)) least = other, found = indices[r][w];
            }
            if (found < clusters) labels[list[base + r]] = found;
        }
        __syncthreads();
    }
}

// kmeans_inertia: the sum of squared distances of all rows to their centres in f64; the last block adds
// partial_sums f64[gridDim.x] in order. One warp per row, grid-stride; 8 warps per block.
extern "C" __global__ void __launch_bounds__(BLOCK_THREADS)
kmeans_inertia(const float* __restrict__ rows, const float* __restrict__ centers, const u32* __restrict__ labels,
               double* partial_sums, KMeansState* state, u32 count, u32 dim) {
    __shared__ double scratch[32];
    __shared__ u32 last;
    const u32 lane = threadIdx.x & 31, warp = blockIdx.x * BLOCK_WARPS + (threadIdx.x >> 5);
    double sum = 0;
    for (u32 row = warp; row < count; row += gridDim.x * BLOCK_WARPS) {
        const float* x = rows + (u64)row * dim;
        const float* c = centers + (u64)labels[row] * dim;
        for (u32 column = lane; column < dim; column += 32) {
            const double difference = (double)x[column] - (double)c[column];
            sum = fma(difference, difference, sum);
        }
    }
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0) {
        partial_sums[blockIdx.x] = sum;
        __threadfence();
        last = atomicAdd(&state->ticket, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    double total = 0;
    for (u32 at = threadIdx.x; at < gridDim.x; at += BLOCK_THREADS) total += __ldcg(partial_sums + at);
    __syncthreads();
    total = block_sum(total, scratch);
    if (threadIdx.x == 0) state->inertia = total, state->ticket = 0;
}
