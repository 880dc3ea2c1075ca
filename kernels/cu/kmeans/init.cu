// Initialisation of k-means: normalisation and centring of rows, and greedy k-means++.
//
// Greedy k-means++ (Arthur and Vassilvitskii, "k-means++: the advantages of careful seeding", SODA 2007) samples
// several candidates per step and keeps the one with the least remaining potential.

#include "kmeans/state.cuh"

static_assert(BLOCK_THREADS == 32 * BLOCK_WARPS, "whole warps");

// kmeans_normalise_rows: scales rows f32[count, dim] to unit length, with norms in f64; zero rows stay. One warp per
// row.
extern "C" __global__ void __launch_bounds__(BLOCK_THREADS)
kmeans_normalise_rows(float* rows, u32 count, u32 dim) {
    const u32 lane = threadIdx.x & 31, row = blockIdx.x * BLOCK_WARPS + (threadIdx.x >> 5);
    if (row >= count) return;
    float* x = rows + (u64)row * dim;
    double squares = 0;
    for (u32 column = lane; column < dim; column += 32) squares += (double)x[column] * (double)x[column];
    const double length = sqrt(warp_sum(squares));
    if (!(length > 0)) return;
    for (u32 column = lane; column < dim; column += 32) x[column] = (float)((double)x[column] / length);
}

// kmeans_column_sums: column sums over a block's share of the rows, and their largest magnitude.
//   sums f64[gridDim.x, dim], maxima f32[gridDim.x]. Blocks of BLOCK_THREADS.
extern "C" __global__ void __launch_bounds__(BLOCK_THREADS)
kmeans_column_sums(const float* __restrict__ rows, double* __restrict__ sums, float* __restrict__ maxima, u32 count,
                   u32 dim, u32 share) {
    __shared__ double partial[BLOCK_THREADS];
    __shared__ float warp_maxima[BLOCK_WARPS];
    const u32 first = min(blockIdx.x * share, count), end = min(first + share, count);
    // Consecutive threads take consecutive columns; if rows are short, groups of threads take interleaved rows.
    const u32 width = min(BLOCK_THREADS, dim), groups = BLOCK_THREADS / width, group = threadIdx.x / width, own = threadIdx.x % width;
    float largest = 0;
    for (u32 base = 0; base < dim; base += width) {
        const u32 column = base + own;
        double sum = 0;
        if (group < groups && column < dim) {
#pragma unroll 4
            for (u32 row = first + group; row < end; row += groups) {
                const float x = rows[(u64)row * dim + column];
                sum += (double)x;
                largest = fmaxf(largest, fabsf(x));
            }
        }
        __syncthreads();
        partial[threadIdx.x] = sum;
        __syncthreads();
        if (group == 0 && column < dim) {
            for (u32 other = 1; other < groups; ++other) sum += partial[other * width + own];
            sums[(u64)blockIdx.x * dim + column] = sum;
        }
    }
    largest = warp_max(largest);
    if ((threadIdx.x & 31) == 0) warp_maxima[threadIdx.x >> 5] = largest;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < BLOCK_WARPS; ++i) largest = fmaxf(largest, warp_maxima[i]);
        maxima[blockIdx.x] = largest;
    }
}

// kmeans_mean_and_scale: mean f32[dim] and state->scale, from the results of kmeans_column_sums. One block of WIDE_THREADS.
extern "C" __global__ void __launch_bounds__(WIDE_THREADS)
kmeans_mean_and_scale(const double* __restrict__ sums, const float* __restrict__ maxima, float* mean,
                      KMeansState* state, u32 count, u32 dim, u32 shares) {
    for (u32 column = threadIdx.x; column < dim; column += WIDE_THREADS) {
        double sum = 0;
#pragma unroll 8
        for (u32 at = 0; at < shares; ++at) sum += sums[(u64)at * dim + column];
        mean[column] = (float)(sum / (double)count);
    }
    if (threadIdx.x >= 32) return;
    float largest = 0;
    for (u32 at = threadIdx.x; at < shares; at += 32) largest = fmaxf(largest, maxima[at]);
    largest = warp_max(largest);
    if (threadIdx.x != 0) return;
    // |x - mean| <= 2 * largest < 2^(exponent + 1), scaled to less than 2^15; the scale is a finite, normal power of
    // two.
    int exponent = 0;
    frexpf(largest, &exponent);
    const int power = largest > 0 ? min(max(14 - exponent, -126), 126) : 0;
    state->scale = __int_as_float((127 + power) << 23);
}

// kmeans_center_rows: centres rows to high f16[count, pitch] and, unless null, low f16[count, pitch], zeros past dim.
//   norms f32[count]: squared centred norms; state->sum_squares: their sum
//   partial_sums f64[gridDim.x]: added by the last block
// One warp per row, grid-stride; 8 warps per block.
extern "C" __global__ void __launch_bounds__(BLOCK_THREADS)
kmeans_center_rows(const float* __restrict__ rows, const float* __restrict__ mean, u16* __restrict__ high,
                   u16* __restrict__ low, float* __restrict__ norms, double* partial_sums, KMeansState* state,
                   u32 count, u32 dim, u32 pitch) {
    __shared__ double scratch[32];
    __shared__ u32 last;
    const u32 lane = threadIdx.x & 31, warp = blockIdx.x * BLOCK_WARPS + (threadIdx.x >> 5);
    const float scale = state->scale;
    double total = 0;
    for (u32 row = warp; row < count; row += gridDim.x * BLOCK_WARPS) {
        double squares = 0;
        // Two columns at a time: centred rows are aligned to 64 bytes.
        for (u32 column = 2 * lane; column < pitch; column += 64) {
            float x[2];
            u16 bits[2], rest[2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const bool inside = column + i < dim;
                x[i] = inside ? centered(rows[(u64)row * dim + column + i], mean[column + i], scale) : 0.0f;
                squares += (double)x[i] * (double)x[i];
                store_centered(bits + i, rest + i, x[i]);
            }
            const u64 at = ((u64)row * pitch + column) / 2;
            ((u32*)high)[at] = bits[0] | (u32)bits[1] << 16;
            if (low) ((u32*)low)[at] = rest[0] | (u32)rest[1] << 16;
        }
        squares = warp_sum(squares);
        if (lane == 0) norms[row] = (float)squares;
        total += lane == 0 ? squares : 0.0;
    }
    total = block_sum(total, scratch);
    if (threadIdx.x == 0) {
        partial_sums[blockIdx.x] = total;
        __threadfence();
        last = atomicAdd(&state->ticket, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    total = 0;
    for (u32 at = threadIdx.x; at < gridDim.x; at += BLOCK_THREADS) total += __ldcg(partial_sums + at);
    __syncthreads();
    total = block_sum(total, scratch);
    if (threadIdx.x == 0) state->sum_squares = total, state->ticket = 0;
}

// kmeans_reset: resets the state for another initialisation. `tolerance` is the squared movement at convergence
// relative to the mean variance of the columns. One thread.
extern "C" __global__ void kmeans_reset(KMeansState* state, double tolerance, u32 count, u32 dim) {
    const double scale = state->scale;
    state->tolerance = tolerance * (state->sum_squares / scale / scale) / ((double)count * (double)dim);
    state->done = state->iterations = state->ticket = state->ambiguous = state->best = 0;
    state->potential = state->inertia = 0;
}

// kmeans_init_distances: for each candidate, every row's squared distance to the nearest centre if it became a centre.
//   rows f16[count, pitch]; candidates u32[trials]: row indices; a block takes TRIALS of them from blockIdx.y * TRIALS
//     on
//   nearest f32[trials, stride]: line state->best has the squared distances to the nearest centre so far; null if none
//   remaining f32[trials, stride]: the minimum of that and the distance to the candidate; stride is a multiple of 128
//   partial_sums f64[trials, gridDim.x]: sums over the block's share of the rows, a multiple of 128
// Differences are computed in f32, so equal rows have distance 0. 8 lanes share 4 rows at a time; 8 warps per block.
extern "C" __global__ void __launch_bounds__(BLOCK_THREADS)
kmeans_init_distances(const u16* __restrict__ rows, const u32* __restrict__ candidates,
                      const float* __restrict__ nearest, float* __restrict__ remaining,
                      double* __restrict__ partial_sums, const KMeansState* state, u32 count, u32 stride, u32 pitch,
                      u32 share, u32 trials) {
    constexpr u32 COLUMNS = 128;
    static_assert(SHARE_STEP == 16 * BLOCK_WARPS && TRIALS == 8, "16 rows of each warp, and a lane for each candidate");
    __shared__ float table[TRIALS][COLUMNS];
    __shared__ double sums[TRIALS][33];
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5, sub = lane & 7, quarter = lane >> 3;
    const u32 base_trial = blockIdx.y * TRIALS, trial = base_trial + sub;
    const u32 start = blockIdx.x * share, end = min(start + share, count);
    const float* before = nearest ? nearest + (u64)state->best * stride : nullptr;
    double sum = 0;
    for (u32 tile = start; tile < end; tile += SHARE_STEP) {
        const u32 first = tile + warp * 16 + quarter * 4;
        float squares[4][TRIALS] = {};
        for (u32 base = 0; base < pitch; base += COLUMNS) {
            // A single slab of the candidates stays in shared memory; several are reloaded for every 128 rows.
            if (tile == start || pitch > COLUMNS) {
                __syncthreads();
                for (u32 at = threadIdx.x; at < TRIALS * COLUMNS; at += BLOCK_THREADS) {
                    const u32 t = base_trial + at / COLUMNS, column = base + at % COLUMNS;
                    const bool inside = t < trials && column < pitch;
                    table[at / COLUMNS][at % COLUMNS] =
                        inside ? f16_to_f32(rows[(u64)candidates[t] * pitch + column]) : 0.0f;
                }
                __syncthreads();
            }
#pragma unroll
            for (int part = 0; part < 2; ++part) {
                const u32 column = 64 * part + 8 * sub;
                if (base + column < pitch) {
                    float x[4][8];
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const u64 row = min(first + i, count - 1);
                        const uint4 words = __ldg((const uint4*)(rows + row * pitch + base + column));
                        const u32 word[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
                        for (int j = 0; j < 4; ++j) {
                            x[i][2 * j] = f16_to_f32((u16)word[j]);
                            x[i][2 * j + 1] = f16_to_f32((u16)(word[j] >> 16));
                        }
                    }
#pragma unroll
                    for (int t = 0; t < TRIALS; ++t) {
                        const float4* from = (const float4*)&table[t][column];
                        const float4 one = from[0], two = from[1];
                        const float c[8] = {one.x, one.y, one.z, one.w, two.x, two.y, two.z, two.w};
#pragma unroll
                        for (int i = 0; i < 4; ++i) {
#pragma unroll
                            for (int j = 0; j < 8; ++j) {
                                const float difference = x[i][j] - c[j];
                                squares[i][t] = fmaf(difference, difference, squares[i][t]);
                            }
                        }
                    }
                }
            }
        }
        // Butterfly reduction over the 8 lanes: afterwards lane i has the sum of candidate i.
        float distances[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int half = TRIALS / 2; half > 0; half >>= 1) {
                const bool upper = sub & half;
#pragma unroll
                for (int t = 0; t < half; ++t) {
                    const float give = upper ? squares[i][t] : squares[i][t + half];
                    const float keep = upper ? squares[i][t + half] : squares[i][t];
                    squares[i][t] = keep + __shfl_xor_sync(FULL_WARP, give, half);
                }
            }
            distances[i] = squares[i][0];
        }
        if (trial < trials && first < end) {
            float4 known = make_float4(INFINITY, INFINITY, INFINITY, INFINITY);
            if (before) known = *(const float4*)(before + first);
            const float4 now = make_float4(fminf(known.x, distances[0]), fminf(known.y, distances[1]),
                                           fminf(known.z, distances[2]), fminf(known.w, distances[3]));
            *(float4*)(remaining + (u64)trial * stride + first) = now;
            sum += (double)now.x;
            if (first + 1 < end) sum += (double)now.y;
            if (first + 2 < end) sum += (double)now.z;
            if (first + 3 < end) sum += (double)now.w;
        }
    }
    sums[sub][warp * 4 + quarter] = sum;
    __syncthreads();
    if (threadIdx.x < TRIALS && base_trial + threadIdx.x < trials) {
        double total = 0;
        for (int i = 0; i < 32; ++i) total += sums[threadIdx.x][i];
        partial_sums[(u64)(base_trial + threadIdx.x) * gridDim.x + blockIdx.x] = total;
    }
}

// Inclusive prefix sum over the warp.
__device__ __forceinline__ double warp_scan(double x) {
    const u32 lane = threadIdx.x & 31;
#pragma unroll
    for (int step = 1; step < 32; step <<= 1) {
        const double before = __shfl_up_sync(FULL_WARP, x, step);
        if (lane >= step) x += before;
    }
    return x;
}

// Inverse transform sampling: the index of the first of `len` nonnegative numbers at which the prefix sum exceeds
// `target`, which is reduced by the sum before it. If none does, the index of the last positive number, or 0. `at`
// returns the i-th number. The whole warp calls, 256 numbers per step.
template <typename At>
__device__ u32 sample_index(u32 len, double& target, At at) {
    constexpr int EACH = 8;
    const u32 lane = threadIdx.x & 31;
    double before = 0;
    u32 fallback = 0;
    for (u32 base = 0; base < len; base += 32 * EACH) {
        const u32 own = base + EACH * lane;
        double x[EACH], sum = 0;
#pragma unroll
        for (int i = 0; i < EACH; ++i) x[i] = own + i < len ? at(own + i) : 0.0;
#pragma unroll
        for (int i = 0; i < EACH; ++i) sum += x[i];
        const double end = before + warp_scan(sum);
        const u32 passed = __ballot_sync(FULL_WARP, end > target && sum > 0);
        const u32 holder = passed ? __ffs(passed) - 1 : 31;
        // Every lane searches its own numbers as if it were the holder: for the last positive one, or the one that
        // passes.
        double running = end - sum, rest = 0;
        int index = -1;
        bool found = false;
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            if (found || !(x[i] > 0)) continue;
            index = i;
            rest = target - running;
            found = running + x[i] > target;
            running += x[i];
        }
        if (passed) {
            target = __shfl_sync(FULL_WARP, rest, holder);
            return base + EACH * holder + __shfl_sync(FULL_WARP, index, holder);
        }
        const u32 positive = __ballot_sync(FULL_WARP, index >= 0);
        if (positive) {
            const u32 last = 31 - __clz(positive);
            fallback = base + EACH * last + __shfl_sync(FULL_WARP, index, last);
        }
        before = __shfl_sync(FULL_WARP, end, 31);
    }
    target = INFINITY;
    return fallback;
}

// kmeans_init_choose: makes the candidate with the least remaining potential a centre, ties to the first, and samples
// the next candidates with probability proportional to their remaining squared distance.
//   remaining, partial_sums: of kmeans_init_distances with `share` rows per block; uniform f64[next]: one number per
//     sample
//   candidates u32[trials]: the last candidates, replaced by the next; chosen u32[step + 1]: the centres' rows
// One block of BLOCK_THREADS.
extern "C" __global__ void __launch_bounds__(BLOCK_THREADS)
kmeans_init_choose(const float* __restrict__ remaining, const double* __restrict__ partial_sums,
                   const double* __restrict__ uniform, u32* candidates, u32* chosen, KMeansState* state, u32 count,
                   u32 stride, u32 share, u32 blocks, u32 trials, u32 next, u32 step) {
    __shared__ double totals[MAX_TRIALS];
    __shared__ u32 best;
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (u32 trial = warp; trial < trials; trial += BLOCK_WARPS) {
        double sum = 0;
        for (u32 at = lane; at < blocks; at += 32) sum += partial_sums[(u64)trial * blocks + at];
        sum = warp_sum(sum);
        if (lane == 0) totals[trial] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 least = 0;
        for (u32 trial = 1; trial < trials; ++trial) least = totals[trial] < totals[least] ? trial : least;
        best = least;
        state->best = least;
        state->potential = totals[least];
        chosen[step] = candidates[least];
    }
    __syncthreads();
    const u32 winner = best;
    const double total = totals[winner];
    for (u32 draw = warp; draw < next; draw += BLOCK_WARPS) {
        const double u = uniform[draw];
        u32 row = min((u32)(u * (double)count), count - 1);
        if (total > 0) {
            double target = u * total;
            const double* sums = partial_sums + (u64)winner * blocks;
            const u32 block = sample_index(blocks, target, [&](u32 at) { return sums[at]; });
            const float* line = remaining + (u64)winner * stride + (u64)block * share;
            const u32 len = min(share, count - block * share);
            row = block * share + sample_index(len, target, [&](u32 at) { return (double)line[at]; });
        }
        if (lane == 0) candidates[draw] = row;
    }
}
