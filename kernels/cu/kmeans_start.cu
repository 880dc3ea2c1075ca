// k-means before its iteration: rows to unit length, the frame they are compared in, and greedy k-means++.
//
// Greedy k-means++: Arthur and Vassilvitskii, "k-means++: the advantages of careful seeding", SODA 2007, of whose
// candidates each step tries several and keeps the one that leaves the least potential.

#include "kmeans.cuh"

#define TRIALS 8  // candidates that one pass over the rows measures

// kmeans_unit: rows f32[count, dim] to unit length, their lengths in f64; a row of zeros stays. A warp a row.
extern "C" __global__ void __launch_bounds__(256)
kmeans_unit(float* rows, u32 count, u32 dim) {
    const u32 lane = threadIdx.x & 31, row = blockIdx.x * 8 + (threadIdx.x >> 5);
    if (row >= count) return;
    float* x = rows + (u64)row * dim;
    double squares = 0;
    for (u32 column = lane; column < dim; column += 32) squares += (double)x[column] * (double)x[column];
    const double length = sqrt(warp_sum(squares));
    if (!(length > 0)) return;
    for (u32 column = lane; column < dim; column += 32) x[column] = (float)((double)x[column] / length);
}

// kmeans_columns: sums of the columns over a block's share of the rows, and the largest magnitude there.
//   sums f64[gridDim.x, dim], largest f32[gridDim.x]. Blocks of 256.
extern "C" __global__ void __launch_bounds__(256)
kmeans_columns(const float* __restrict__ rows, double* __restrict__ sums, float* __restrict__ largest, u32 count,
               u32 dim, u32 share) {
    __shared__ double partial[256];
    __shared__ float widest[8];
    const u32 first = min(blockIdx.x * share, count), end = min(first + share, count);
    // Threads side by side take columns; where the row is short, several groups of them take every so many-th row.
    const u32 width = min(256u, dim), groups = 256 / width, group = threadIdx.x / width, own = threadIdx.x % width;
    float most = 0;
    for (u32 base = 0; base < dim; base += width) {
        const u32 column = base + own;
        double sum = 0;
        if (group < groups && column < dim) {
#pragma unroll 4
            for (u32 row = first + group; row < end; row += groups) {
                const float x = rows[(u64)row * dim + column];
                sum += (double)x;
                most = fmaxf(most, fabsf(x));
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
    most = warp_max(most);
    if ((threadIdx.x & 31) == 0) widest[threadIdx.x >> 5] = most;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < 8; ++i) most = fmaxf(most, widest[i]);
        largest[blockIdx.x] = most;
    }
}

// kmeans_frame: mean f32[dim] and state->scale from the blocks' shares. One block of 1024.
extern "C" __global__ void __launch_bounds__(1024)
kmeans_frame(const double* __restrict__ sums, const float* __restrict__ largest, float* mean, State* state, u32 count,
             u32 dim, u32 shares) {
    for (u32 column = threadIdx.x; column < dim; column += 1024) {
        double sum = 0;
#pragma unroll 8
        for (u32 at = 0; at < shares; ++at) sum += sums[(u64)at * dim + column];
        mean[column] = (float)(sum / (double)count);
    }
    if (threadIdx.x >= 32) return;
    float most = 0;
    for (u32 at = threadIdx.x; at < shares; at += 32) most = fmaxf(most, largest[at]);
    most = warp_max(most);
    if (threadIdx.x != 0) return;
    // |x - mean| <= 2 * most < 2^(exponent + 1), which is brought below 2^15; the scale stays a finite, normal power.
    int exponent = 0;
    frexpf(most, &exponent);
    const int power = most > 0 ? min(max(14 - exponent, -126), 126) : 0;
    state->scale = __int_as_float((127 + power) << 23);
}

// kmeans_convert: the rows in the frame, high and maybe low f16[count, pitch] (zero past dim, and so from before), and
// their squared lengths norms f32[count]; parts f64[gridDim.x] are summed into state->squares by the last block.
// A warp a row, in turn; a block is 8 warps.
extern "C" __global__ void __launch_bounds__(256)
kmeans_convert(const float* __restrict__ rows, const float* __restrict__ mean, u16* __restrict__ high,
               u16* __restrict__ low, float* __restrict__ norms, double* parts, State* state, u32 count, u32 dim,
               u32 pitch) {
    __shared__ double scratch[32];
    __shared__ u32 last;
    const u32 lane = threadIdx.x & 31, warp = blockIdx.x * 8 + (threadIdx.x >> 5);
    const float scale = state->scale;
    double total = 0;
    for (u32 row = warp; row < count; row += gridDim.x * 8) {
        double squares = 0;
        // Two columns at a time: rows of the frame start at multiples of 64 bytes.
        for (u32 column = 2 * lane; column < pitch; column += 64) {
            float x[2];
            u16 bits[2], rest[2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const bool inside = column + i < dim;
                x[i] = inside ? framed(rows[(u64)row * dim + column + i], mean[column + i], scale) : 0.0f;
                squares += (double)x[i] * (double)x[i];
                put_framed(bits + i, rest + i, x[i]);
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
        parts[blockIdx.x] = total;
        __threadfence();
        last = atomicAdd(&state->ticket, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    total = 0;
    for (u32 at = threadIdx.x; at < gridDim.x; at += 256) total += __ldcg(parts + at);
    __syncthreads();
    total = block_sum(total, scratch);
    if (threadIdx.x == 0) state->squares = total, state->ticket = 0;
}

// kmeans_rest: sets the run back to its beginning. `tolerance` is the squared movement, as a share of the mean variance
// of the columns, at which centres rest. One thread.
extern "C" __global__ void kmeans_rest(State* state, double tolerance, u32 count, u32 dim) {
    const double scale = state->scale;
    state->rest = tolerance * (state->squares / scale / scale) / ((double)count * (double)dim);
    state->done = state->iterations = state->ticket = state->ambiguous = state->best = 0;
    state->potential = state->inertia = 0;
}

// kmeans_distances: what is left of every row's distance if a candidate became a centre.
//   rows f16[count, pitch]; candidates u32[trials]: rows, up to TRIALS of them from blockIdx.y * TRIALS on
//   nearest f32[trials, stride]: line state->best has the squared distances to the nearest centre so far; null: none yet
//   left f32[trials, stride]: for each candidate the lesser of that and the distance to it; stride is a multiple of 128
//   parts f64[trials, gridDim.x]: their sums over the block's share of the rows, a multiple of 128
// Differences are taken in f32, so equal rows are at distance 0. 8 lanes share 4 rows at a time; a block is 8 warps.
extern "C" __global__ void __launch_bounds__(256)
kmeans_distances(const u16* __restrict__ rows, const u32* __restrict__ candidates, const float* __restrict__ nearest,
                 float* __restrict__ left, double* __restrict__ parts, const State* state, u32 count, u32 stride,
                 u32 pitch, u32 share, u32 trials) {
    constexpr u32 COLUMNS = 128;
    __shared__ float table[TRIALS][COLUMNS];
    __shared__ double sums[TRIALS][33];
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5, sub = lane & 7, quarter = lane >> 3;
    const u32 base_trial = blockIdx.y * TRIALS, trial = base_trial + sub;
    const u32 start = blockIdx.x * share, end = min(start + share, count);
    const float* before = nearest ? nearest + (u64)state->best * stride : nullptr;
    double sum = 0;
    for (u32 tile = start; tile < end; tile += 128) {
        const u32 first = tile + warp * 16 + quarter * 4;
        float squares[4][TRIALS] = {};
        for (u32 base = 0; base < pitch; base += COLUMNS) {
            // One slab of the candidates stays where it is; more are loaded anew for every 128 rows.
            if (tile == start || pitch > COLUMNS) {
                __syncthreads();
                for (u32 at = threadIdx.x; at < TRIALS * COLUMNS; at += 256) {
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
        // Sums over the 8 lanes, by halves: in the end a lane has the sum of the candidate of its own number.
        float mine[4];
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
            mine[i] = squares[i][0];
        }
        if (trial < trials && first < end) {
            float4 known = make_float4(INFINITE, INFINITE, INFINITE, INFINITE);
            if (before) known = *(const float4*)(before + first);
            const float4 now = make_float4(fminf(known.x, mine[0]), fminf(known.y, mine[1]), fminf(known.z, mine[2]),
                                           fminf(known.w, mine[3]));
            *(float4*)(left + (u64)trial * stride + first) = now;
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
        parts[(u64)(base_trial + threadIdx.x) * gridDim.x + blockIdx.x] = total;
    }
}

// Inclusive sum over the warp, in lane order.
__device__ __forceinline__ double warp_scan(double x) {
    const u32 lane = threadIdx.x & 31;
#pragma unroll
    for (int step = 1; step < 32; step <<= 1) {
        const double before = __shfl_up_sync(FULL_WARP, x, step);
        if (lane >= step) x += before;
    }
    return x;
}

// The first of `many` numbers, none negative, with which the running sum passes `target`; then `target` is what it is
// above the sum before. Else the last number above 0, or 0. `at` says the i-th number. A warp together, 256 at a time.
template <typename At>
__device__ u32 find(u32 many, double& target, At at) {
    constexpr int EACH = 8;
    const u32 lane = threadIdx.x & 31;
    double before = 0;
    u32 fallback = 0;
    for (u32 base = 0; base < many; base += 32 * EACH) {
        const u32 own = base + EACH * lane;
        double x[EACH], sum = 0;
#pragma unroll
        for (int i = 0; i < EACH; ++i) x[i] = own + i < many ? at(own + i) : 0.0;
#pragma unroll
        for (int i = 0; i < EACH; ++i) sum += x[i];
        const double end = before + warp_scan(sum);
        const u32 passed = __ballot_sync(FULL_WARP, end > target && sum > 0);
        const u32 holder = passed ? __ffs(passed) - 1 : 31;
        // Every lane looks among its own numbers as if it were the holder: the last above 0, or the one that passes.
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
    target = INFINITE;
    return fallback;
}

// kmeans_choose: of the last candidates, the one that leaves the least, ties to the first, becomes a centre; the next
// candidates are drawn, each row as likely as what is left of its distance.
//   left, parts: of kmeans_distances, whose blocks took `share` rows each; uniform f64[next]: one number a draw
//   candidates u32[trials]: the last ones, then the next; chosen u32[step + 1]: the centres' rows
// One block of 256.
extern "C" __global__ void __launch_bounds__(256)
kmeans_choose(const float* __restrict__ left, const double* __restrict__ parts, const double* __restrict__ uniform,
              u32* candidates, u32* chosen, State* state, u32 count, u32 stride, u32 share, u32 blocks, u32 trials,
              u32 next, u32 step) {
    __shared__ double totals[64];
    __shared__ u32 best;
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (u32 trial = warp; trial < trials; trial += 8) {
        double sum = 0;
        for (u32 at = lane; at < blocks; at += 32) sum += parts[(u64)trial * blocks + at];
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
    for (u32 draw = warp; draw < next; draw += 8) {
        const double u = uniform[draw];
        u32 row = min((u32)(u * (double)count), count - 1);
        if (total > 0) {
            double target = u * total;
            const double* sums = parts + (u64)winner * blocks;
            const u32 block = find(blocks, target, [&](u32 at) { return sums[at]; });
            const float* line = left + (u64)winner * stride + (u64)block * share;
            const u32 many = min(share, count - block * share);
            row = block * share + find(many, target, [&](u32 at) { return (double)line[at]; });
        }
        if (lane == 0) candidates[draw] = row;
    }
}
