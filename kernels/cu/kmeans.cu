// Lloyd's iteration after the assignment: every centre to the mean of its rows. And the end.
//
// An iteration is kmeans_assign_*, count, place, offsets, scatter, sum, finish. Rows are sorted by centre and summed
// piece by piece in one order, without floating-point atomics, so that a device repeats its bits. Every kernel of the
// iteration returns at once when state->done is set, so that the host may launch ahead of what it knows.

#include "kmeans.cuh"

#define SEGMENT 64  // sorted rows that one warp sums

// --- Sorting rows by centre ---

// A warp's counters: in shared memory where they fit, else its own line of `counts`.
__device__ __forceinline__ volatile u32* counters(u32* shared, u32* counts, u32 warp, u32 clusters, u32 in_shared) {
    return in_shared ? shared + (threadIdx.x >> 5) * clusters : counts + (u64)warp * clusters;
}

// kmeans_count: how many rows of each run of `run` rows, a multiple of 32, belong to each centre.
//   counts u32[runs, clusters]; totals u32[clusters], zero before. One warp a run.
extern "C" __global__ void __launch_bounds__(128)
kmeans_count(const u32* __restrict__ labels, u32* counts, u32* totals, const State* state, u32 count, u32 clusters,
             u32 run, u32 runs, u32 in_shared) {
    extern __shared__ u32 shared[];
    const u32 lane = threadIdx.x & 31, warp = blockIdx.x * 4 + (threadIdx.x >> 5);
    if (state->done || warp >= runs) return;
    volatile u32* mine = counters(shared, counts, warp, clusters, in_shared);
    for (u32 center = lane; center < clusters; center += 32) mine[center] = 0;
    __syncwarp();
    const u32 end = min((warp + 1) * run, count);
    for (u32 base = warp * run; base < end; base += 32) {
        const u32 row = base + lane, label = row < end ? labels[row] : 0xffffffffu;
        const u32 same = __match_any_sync(FULL_WARP, label);
        if (row < end && lane == (u32)__ffs(same) - 1) mine[label] = mine[label] + __popc(same);
        __syncwarp();
    }
    for (u32 center = lane; center < clusters; center += 32) {
        const u32 rows = mine[center];
        if (in_shared) counts[(u64)warp * clusters + center] = rows;
        if (rows) atomicAdd(totals + center, rows);
    }
}

// Squared distance of a row to its centre in the frame; 0 where it cannot be told from 0, being at most the share
// `noise` of the row's squared length.
__device__ __forceinline__ float distance(float norm, float score, float noise) {
    const float squared = norm - 2.0f * score;
    return squared > norm * noise ? squared : 0.0f;
}

// kmeans_place: gives the rows farthest from their centres to centres without rows, at most 32 in an iteration and none
// that is its centre's last, ties to the lowest row; then starts u32[clusters + 1], where each centre's rows begin.
// One block of 1024.
extern "C" __global__ void __launch_bounds__(1024)
kmeans_place(u32* labels, float* scores, const float* __restrict__ norms, u32* counts, u32* totals, u32* starts,
             const State* state, u32 count, u32 clusters, u32 run, float noise) {
    __shared__ u32 sums[32], empty, farthest_row[32];
    __shared__ float farthest[32];
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (state->done) return;
    u32 next = 0;  // centres below have rows, or cannot be helped
    for (int turn = 0; turn < 32; ++turn) {
        if (threadIdx.x == 0) empty = clusters;
        __syncthreads();
        for (u32 center = next + threadIdx.x; center < clusters; center += 1024) {
            if (totals[center] == 0) {
                atomicMin(&empty, center);
                break;
            }
        }
        __syncthreads();
        const u32 needy = empty;
        if (needy == clusters) break;
        float best = 0.0f;
        u32 row = count;
        for (u32 at = threadIdx.x; at < count; at += 1024) {
            const float far = distance(norms[at], scores[at], noise);
            if (far > best && totals[labels[at]] > 1) best = far, row = at;
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
                const u32 old = labels[row], owner = row / run;
                labels[row] = needy;
                scores[row] = 0.5f * norms[row];
                totals[old] -= 1, totals[needy] = 1;
                counts[(u64)owner * clusters + old] -= 1;
                counts[(u64)owner * clusters + needy] += 1;
            }
            farthest_row[0] = row;
        }
        __syncthreads();
        const bool none = farthest_row[0] == count;
        __syncthreads();
        if (none) break;
        next = needy + 1;
    }
    // Exclusive sums of the totals, 1024 at a time.
    u32 before = 0;
    for (u32 base = 0; base < clusters; base += 1024) {
        const u32 center = base + threadIdx.x, total = center < clusters ? totals[center] : 0;
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
        if (center < clusters) starts[center] = before + lower + sum - total;
        before += all;
    }
    if (threadIdx.x == 0) starts[clusters] = before;
}

// kmeans_offsets: turns counts into where each run's rows of each centre begin in the sorted order. A block of 32 warps
// takes 32 centres; a warp a share of the runs.
extern "C" __global__ void __launch_bounds__(1024)
kmeans_offsets(u32* counts, const u32* __restrict__ starts, const State* state, u32 clusters, u32 runs) {
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
    u32 place = starts[center];
    for (u32 i = 0; i < warp; ++i) place += sums[i][lane];
#pragma unroll 8
    for (u32 at = first; at < end; ++at) {
        const u32 rows = counts[(u64)at * clusters + center];
        counts[(u64)at * clusters + center] = place;
        place += rows;
    }
}

// kmeans_scatter: writes the rows sorted by centre, and in ascending order within one, to order u32[count].
extern "C" __global__ void __launch_bounds__(128)
kmeans_scatter(const u32* __restrict__ labels, u32* counts, u32* __restrict__ order, const State* state, u32 count,
               u32 clusters, u32 run, u32 runs, u32 in_shared) {
    extern __shared__ u32 shared[];
    const u32 lane = threadIdx.x & 31, warp = blockIdx.x * 4 + (threadIdx.x >> 5);
    if (state->done || warp >= runs) return;
    volatile u32* mine = counters(shared, counts, warp, clusters, in_shared);
    if (in_shared) {
        for (u32 center = lane; center < clusters; center += 32) mine[center] = counts[(u64)warp * clusters + center];
    }
    __syncwarp();
    const u32 end = min((warp + 1) * run, count);
    for (u32 base = warp * run; base < end; base += 32) {
        const u32 row = base + lane, label = row < end ? labels[row] : 0xffffffffu;
        const u32 same = __match_any_sync(FULL_WARP, label);
        const u32 place = row < end ? mine[label] : 0;
        const u32 rank = __popc(same & ((1u << lane) - 1));
        __syncwarp();
        if (row < end && rank == 0) mine[label] = place + __popc(same);
        if (row < end) order[place + rank] = row;
        __syncwarp();
    }
}

// --- Means ---

// kmeans_sum_*: sums the f32 rows of each segment of the sorted order, centre by centre.
//   Sums are scaled as the frame is, so that they stay in range.
//   pieces f32[segments + clusters, dim]: the piece of a segment and a centre stands at their sum, which no other pair
//   of neighbours in the order has. One warp a segment and 32 * V columns; a block is 8 warps.
template <int V>
__device__ __forceinline__ void sum_segment(const float* __restrict__ rows, const u32* __restrict__ order,
                                            const u32* __restrict__ labels, float* __restrict__ pieces,
                                            const State* state, u32 count, u32 dim) {
    const u32 lane = threadIdx.x & 31, segment = blockIdx.x * 8 + (threadIdx.x >> 5);
    const u32 first = segment * SEGMENT, column = (blockIdx.y * 32 + lane) * V;
    if (state->done || first >= count) return;
    const u32 many = min(count - first, (u32)SEGMENT);
    const bool inside = column < dim;
    const float scale = state->scale;
    float sum[V] = {};
    u32 current = labels[order[first]];
    auto flush = [&](u32 center) {
        if (!inside) return;
        float* to = pieces + ((u64)segment + center) * dim + column;
        if constexpr (V == 4) *(float4*)to = make_float4(sum[0], sum[1], sum[2], sum[3]);
        else *to = sum[0];
    };
    for (u32 base = 0; base < many; base += 8) {
        const u32 at = min(base + (lane & 7), many - 1), mine = order[first + at], label = labels[mine];
        float x[8][V];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const u64 row = __shfl_sync(FULL_WARP, mine, i);
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
            if (base + i >= many) break;
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

extern "C" __global__ void __launch_bounds__(256)
kmeans_sum_f32(const float* rows, const u32* order, const u32* labels, float* pieces, const State* state, u32 count,
               u32 dim) {
    sum_segment<1>(rows, order, labels, pieces, state, count, dim);
}

extern "C" __global__ void __launch_bounds__(256)
kmeans_sum_f32x4(const float* rows, const u32* order, const u32* labels, float* pieces, const State* state, u32 count,
                 u32 dim) {
    sum_segment<4>(rows, order, labels, pieces, state, count, dim);
}

struct Centers {
    float* exact;        // f32[clusters, dim]
    u16 *framed, *low;   // f16[padded, pitch]; low may be null
    float* halves;       // f32[padded]
    const float* mean;   // f32[dim]
    u32 clusters, dim, pitch;
};

// Writes a centre's frame and half, from its f32 numbers, which the block has written. 128 threads.
__device__ __forceinline__ void put_center(const Centers& to, u32 center, float scale, double* scratch) {
    double squares = 0;
    for (u32 column = threadIdx.x; column < to.dim; column += 128) {
        const float x = framed(to.exact[(u64)center * to.dim + column], to.mean[column], scale);
        const u64 at = (u64)center * to.pitch + column;
        put_framed(to.framed + at, to.low ? to.low + at : nullptr, x);
        squares += (double)x * (double)x;
    }
    squares = block_sum(squares, scratch);
    if (threadIdx.x == 0) to.halves[center] = (float)(0.5 * squares);
}

// kmeans_finish: every centre to the mean of its rows, to unit length if `spherical`; one without rows stays. Counts the
// iteration, sums the squared movement, sets done where that is at most state->rest, and zeros the totals.
//   moved f64[clusters]. One block of 128 a centre.
extern "C" __global__ void __launch_bounds__(128)
kmeans_finish(Centers to, const float* __restrict__ pieces, const u32* __restrict__ starts, u32* totals, double* moved,
              State* state, u32 spherical) {
    __shared__ double scratch[32];
    __shared__ u32 last;
    if (state->done) return;
    const u32 center = blockIdx.x, begin = starts[center], end = starts[center + 1];
    double movement = 0;
    if (begin < end) {
        const u32 first = begin / SEGMENT, stop = (end - 1) / SEGMENT + 1;
        double length = 0;
        if (spherical) {
            double squares = 0;
            for (u32 column = threadIdx.x; column < to.dim; column += 128) {
                double sum = 0;
                for (u32 s = first; s < stop; ++s) sum += (double)pieces[((u64)s + center) * to.dim + column];
                squares += sum * sum;
            }
            length = sqrt(block_sum(squares, scratch));
            __syncthreads();
        }
        const double divisor = spherical ? length : (double)(end - begin) * (double)state->scale;
        if (divisor > 0) {
            for (u32 column = threadIdx.x; column < to.dim; column += 128) {
                double sum = 0;
#pragma unroll 8
                for (u32 s = first; s < stop; ++s) sum += (double)pieces[((u64)s + center) * to.dim + column];
                float* place = to.exact + (u64)center * to.dim + column;
                const float now = (float)(sum / divisor);
                const double step = (double)now - (double)*place;
                *place = now;
                movement += step * step;
            }
        }
        movement = block_sum(movement, scratch);
        __syncthreads();
        put_center(to, center, state->scale, scratch);
    }
    if (threadIdx.x == 0) {
        moved[center] = movement;
        totals[center] = 0;
        __threadfence();
        last = atomicAdd(&state->ticket, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    double total = 0;
    float widest = 0;
    for (u32 c = threadIdx.x; c < to.clusters; c += 128) {
        total += __ldcg(moved + c);
        widest = fmaxf(widest, __ldcg(to.halves + c));
    }
    __syncthreads();
    total = block_sum(total, scratch);
    widest = warp_max(widest);
    __shared__ float widths[4];
    if ((threadIdx.x & 31) == 0) widths[threadIdx.x >> 5] = widest;
    __syncthreads();
    if (threadIdx.x != 0) return;
    state->widest = sqrtf(2.0f * fmaxf(fmaxf(widths[0], widths[1]), fmaxf(widths[2], widths[3])));
    state->ticket = 0;
    state->iterations += 1;
    if (total <= state->rest) state->done = 1;
}

// kmeans_seed: the first centres are rows. chosen u32[clusters]. One block of 128 a centre.
extern "C" __global__ void __launch_bounds__(128)
kmeans_seed(Centers to, const float* __restrict__ rows, const u32* __restrict__ chosen, const State* state) {
    __shared__ double scratch[32];
    const u64 row = chosen[blockIdx.x];
    for (u32 column = threadIdx.x; column < to.dim; column += 128) {
        to.exact[(u64)blockIdx.x * to.dim + column] = rows[row * to.dim + column];
    }
    put_center(to, blockIdx.x, state->scale, scratch);
}

// --- The end ---

// kmeans_refine: decides the listed rows in f64, by the f32 numbers; ties to the lowest centre. A block of 256 takes 8
// rows, a thread every 256th centre.
extern "C" __global__ void __launch_bounds__(256)
kmeans_refine(const float* __restrict__ rows, const float* __restrict__ centers, const u32* __restrict__ list,
              u32* labels, const State* state, u32 clusters, u32 dim) {
    constexpr int ROWS = 8, COLUMNS = 64;
    __shared__ float x[ROWS][COLUMNS];
    __shared__ double distances[ROWS][8];
    __shared__ u32 indices[ROWS][8];
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5, many = state->ambiguous;
    for (u32 base = blockIdx.x * ROWS; base < many; base += gridDim.x * ROWS) {
        double best[ROWS];
        u32 index[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; ++r) best[r] = __longlong_as_double(0x7ff0000000000000ll), index[r] = 0xffffffffu;
        for (u32 tile = 0; tile < clusters; tile += 256) {
            const u32 center = tile + threadIdx.x;
            const float* from = centers + (u64)min(center, clusters - 1) * dim;
            double sum[ROWS] = {};
            for (u32 column = 0; column < dim; column += COLUMNS) {
                const u32 width = min(dim - column, (u32)COLUMNS);
                __syncthreads();
                for (u32 at = threadIdx.x; at < ROWS * COLUMNS; at += 256) {
                    const u32 r = at / COLUMNS, c = at % COLUMNS;
                    const u64 row = list[min(base + r, many - 1)];
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
        if (threadIdx.x < ROWS && base + threadIdx.x < many) {
            const u32 r = threadIdx.x;
            double least = distances[r][0];
            u32 found = indices[r][0];
            for (int w = 1; w < 8; ++w) {
                const double other = distances[r][w];
                if (other < least || (other == least && indices[r][w] < found)) least = other, found = indices[r][w];
            }
            if (found < clusters) labels[list[base + r]] = found;
        }
        __syncthreads();
    }
}

// kmeans_inertia: sums the squared distances of all rows to their centres in f64; the last block adds the blocks' sums
// in order. parts f64[gridDim.x]. A warp a row, in turn; a block is 8 warps.
extern "C" __global__ void __launch_bounds__(256)
kmeans_inertia(const float* __restrict__ rows, const float* __restrict__ centers, const u32* __restrict__ labels,
               double* parts, State* state, u32 count, u32 dim) {
    __shared__ double scratch[32];
    __shared__ u32 last;
    const u32 lane = threadIdx.x & 31, warp = blockIdx.x * 8 + (threadIdx.x >> 5);
    double sum = 0;
    for (u32 row = warp; row < count; row += gridDim.x * 8) {
        const float* x = rows + (u64)row * dim;
        const float* c = centers + (u64)labels[row] * dim;
        for (u32 column = lane; column < dim; column += 32) {
            const double difference = (double)x[column] - (double)c[column];
            sum = fma(difference, difference, sum);
        }
    }
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = sum;
        __threadfence();
        last = atomicAdd(&state->ticket, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    double total = 0;
    for (u32 at = threadIdx.x; at < gridDim.x; at += 256) total += __ldcg(parts + at);
    __syncthreads();
    total = block_sum(total, scratch);
    if (threadIdx.x == 0) state->inertia = total, state->ticket = 0;
}
