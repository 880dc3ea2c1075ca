// Softmax and its logarithm of rows [rows, columns]. As in PyTorch, a row with NaN or +inf, or of -inf alone, becomes NaN.
//
// Defined before: what tensor/row.cuh needs, and IS_LOG.

#pragma once
#include "tensor/row.cuh"

typedef LogSumExpState<Compute> RowState;

// The sum, or NaN where PyTorch's is.
__device__ __forceinline__ Compute softmax_sum(const RowState& state) {
    return state.greatest - state.greatest == Compute(0) ? state.sum : state.greatest - state.greatest;
}

// One launch reads a row once: it stays in registers. Weights are of the row's greatest value from the start, since merging states with greatest
// values of their own would take more exponentials than the row has.
__device__ __forceinline__ void softmax_rows(const Source& x, Element* y, u64 rows, u64 columns) {
    typedef MaxState<Compute> Max;
    typedef SumState<Compute> Sum;
    __shared__ Max greatest_scratch[32];
    __shared__ Sum sum_scratch[32];
    const RowPlace place;
    const u32 vectors = place.row < rows ? (u32)(columns / VEC) : 0;
    RowValues values;
    values.load(x.row(place.row * columns), place, vectors, -(Compute)INFINITY);
    const Compute greatest = group_merge<LANES>(Max::of<ITEMS * VEC>(values.at, nullptr), greatest_scratch).value;
    Compute sums[4] = {};
#pragma unroll
    for (int e = 0; e < ITEMS * VEC; e++) {
        const Compute weight = exponential(values.at[e] - greatest);
        sums[e % 4] += weight;
        if constexpr (!IS_LOG) values.at[e] = weight;
    }
    const Compute sum = group_merge<LANES>(Sum{(sums[0] + sums[1]) + (sums[2] + sums[3])}, sum_scratch).value;
    const Compute scale = IS_LOG ? logarithm(sum) : Compute(1) / sum;
    values.each(place, vectors, [&](Compute* at, u64 column) {
#pragma unroll
        for (int e = 0; e < VEC; e++) at[e] = IS_LOG ? at[e] - greatest - scale : at[e] * scale;
        store_vector(y + place.row * columns + column, at);
    });
}

__device__ __forceinline__ RowState softmax_state(const RowPart& part, const Source& row, RowState* scratch) {
    return part.fold<RowState>(row, [](Compute value) { return value; }, scratch);
}

__device__ __forceinline__ void softmax_map(const RowPart& part, const RowState& state, const Source& from, Element* to) {
    const Compute sum = softmax_sum(state), scale = IS_LOG ? logarithm(sum) : Compute(1) / sum;
    part.map(from, to, [&](Compute* at, u64) {
#pragma unroll
        for (int e = 0; e < VEC; e++) {
            const Compute below = at[e] - state.greatest;
            at[e] = IS_LOG ? below - scale : exponential(below) * scale;
        }
    });
}

// One launch reads a row twice. A block for each row.
__device__ __forceinline__ void softmax_long(const Source& x, Element* y, u64 columns) {
    __shared__ RowState scratch[32];
    const u64 row = blockIdx.x * columns;
    const RowPart part(columns, columns);
    softmax_map(part, softmax_state(part, x.row(row), scratch), x.row(row), y + row);
}

// Two launches read a row twice. Block (row, part) writes the state of a part of `part` columns to states[row, part].
__device__ __forceinline__ void softmax_parts(const Source& x, RowState* states, u64 columns, u64 part) {
    __shared__ RowState scratch[32];
    const RowState state = softmax_state(RowPart(columns, part), x.row(blockIdx.x * columns), scratch);
    if (threadIdx.x == 0) states[(u64)blockIdx.x * gridDim.y + blockIdx.y] = state;
}

// The second: the same grid.
__device__ __forceinline__ void softmax_scale(const Source& x, Element* y, const RowState* states, u64 columns, u64 part) {
    __shared__ RowState scratch[32];
    const u64 row = blockIdx.x * columns;
    softmax_map(RowPart(columns, part), merge_parts(states, gridDim.y, scratch), x.row(row), y + row);
}
