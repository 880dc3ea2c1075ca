// Attention of any type, extents and alignment: a block computes up to ROW_COLUMNS columns of one row.

#pragma once
#include "tensor/attention.cuh"

constexpr int THREADS = ROW_THREADS;
constexpr int ROW_ITEMS = ROW_COLUMNS / THREADS;
static_assert(ROW_ITEMS * THREADS == ROW_COLUMNS, "a thread has whole columns");

// The largest or the sum of all threads, in all of them.
template <bool IS_MAX>
__device__ __forceinline__ Compute block_reduce(Compute x, Compute* scratch) {
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) {
        const Compute other = __shfl_xor_sync(FULL_WARP, x, step);
        x = !IS_MAX ? x + other : x > other ? x : other;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
    __syncthreads();
    x = scratch[0];
#pragma unroll
    for (int warp = 1; warp < THREADS / 32; warp++) x = !IS_MAX ? x + scratch[warp] : x > scratch[warp] ? x : scratch[warp];
    return x;
}

// The grid is all rows by the parts of their columns.
__device__ __forceinline__ void attention_rows(const Attention& attention) {
    __shared__ Compute probabilities[THREADS], scratch[THREADS / 32];
    const int query = (int)(blockIdx.x % (u32)attention.queries);
    const Head head = head_of(attention, blockIdx.x / (u32)attention.queries);
    const Element* row = head.query + query * attention.query_strides[2];
    const i64 first = (i64)blockIdx.y * (int)ROW_COLUMNS;
    const int end = end_of_keys(head, query + 1);
    const Compute scale = base2_scale(attention);
    Compute acc[ROW_ITEMS] = {}, row_max = -INFINITY, row_sum = 0;
    for (int from = 0; from < end; from += THREADS) {
        const int key = from + (int)threadIdx.x;
        Compute score = -INFINITY;
        if (key < end) {
            const Element* other = head.key + key * attention.key_strides[2];
            Compute sum = 0;
            for (i64 d = 0; d < attention.dim; d++) sum = fma(widen(row[d]), widen(other[d]), sum);
            score = masked(attention, head, query, key, sum * scale);
        }
        // A comparison with NaN is false, so that the maximum is a number; NaN comes back with its exponential.
        const Compute largest = block_reduce<true>(score == score ? score : (Compute)-INFINITY, scratch);
        const Compute new_max = largest > row_max ? largest : row_max;
        const Compute reference = new_max == (Compute)-INFINITY ? Compute(0) : new_max;
        const Compute correction = exp2_of(row_max - reference), probability = exp2_of(score - reference);
        row_max = new_max;
        row_sum = row_sum * correction + block_reduce<false>(probability, scratch);
        probabilities[threadIdx.x] = probability;
        __syncthreads();
        const int count = min(end - from, THREADS);
#pragma unroll
        for (int item = 0; item < ROW_ITEMS; item++) {
            const i64 column = first + item * THREADS + threadIdx.x;
            if (column >= attention.value_dim) break;
            Compute sum = acc[item] * correction;
            for (int k = 0; k < count; k++) {
                sum = fma(probabilities[k], widen(head.value[(i64)(from + k) * attention.value_strides[2] + column]), sum);
            }
            acc[item] = sum;
        }
        __syncthreads();
    }
    const Compute factor = row_factor(row_sum);
#pragma unroll
    for (int item = 0; item < ROW_ITEMS; item++) {
        const i64 column = first + item * THREADS + threadIdx.x;
        if (column >= attention.value_dim) break;
        ((Element*)attention.output)[(head.row + query) * attention.value_dim + column] = narrow(acc[item] * factor);
    }
}
