// Softmax and its logarithm of contiguous rows [rows, columns]. As in PyTorch, a row with NaN or +inf, or of -inf alone, becomes NaN.
//
// Defined before: what tensor/row.cuh needs, and IS_LOG.

#pragma once
#include "tensor/row.cuh"

typedef LogSumExpState<Compute> RowState;

// The sum, or NaN where PyTorch's is.
__device__ __forceinline__ Compute softmax_sum(const RowState& state) {
    return state.greatest - state.greatest == Compute(0) ? state.sum : state.greatest - state.greatest;
}

// One launch reads a row once: it stays in registers.
__device__ __forceinline__ void softmax_rows(const Element* x, Element* y, u64 rows, u64 columns) {
    __shared__ RowState scratch[32];
    const RowPlace place;
    const u32 vectors = place.row < rows ? (u32)(columns / VEC) : 0;
    RowValues values;
    values.load(x + place.row * columns, place, vectors, -(Compute)INFINITY);
    Compute greatest = values.at[0];
#pragma unroll
    for (int e = 1; e < ITEMS * VEC; e++) greatest = largest(greatest, values.at[e]);
    // Without a number the thread adds nothing, or NaN.
    const bool is_number = greatest > -(Compute)INFINITY;
    const Compute reference = is_number ? greatest : Compute(0);
    Compute sums[4] = {};
#pragma unroll
    for (int e = 0; e < ITEMS * VEC; e++) {
        const Compute weight = exponential(values.at[e] - reference);
        sums[e % 4] += weight;
        if constexpr (!IS_LOG) values.at[e] = weight;
    }
    const RowState own = {is_number ? greatest : -(Compute)INFINITY, (sums[0] + sums[1]) + (sums[2] + sums[3])};
    const RowState state = group_merge<LANES>(own, scratch);
    const Compute sum = softmax_sum(state);
    const Compute scale = IS_LOG ? logarithm(sum) : exponential(own.greatest - state.greatest) / sum;
    values.each(place, vectors, [&](Compute* at, u64 column) {
#pragma unroll
        for (int e = 0; e < VEC; e++) at[e] = IS_LOG ? at[e] - state.greatest - scale : at[e] * scale;
        store_vector(y + place.row * columns + column, at);
    });
}

__device__ __forceinline__ RowState softmax_state(const RowPart& part, const Element* row, RowState* scratch) {
    return part.fold<RowState>(row, [](Compute value) { return value; }, scratch);
}

__device__ __forceinline__ void softmax_map(const RowPart& part, const RowState& state, const Element* from, Element* to) {
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
__device__ __forceinline__ void softmax_long(const Element* x, Element* y, u64 columns) {
    __shared__ RowState scratch[32];
    const u64 row = blockIdx.x * columns;
    const RowPart part(columns, columns);
    softmax_map(part, softmax_state(part, x + row, scratch), x + row, y + row);
}

// Two launches read a row twice. Block (row, part) writes the state of a part of `part` columns to states[row, part].
__device__ __forceinline__ void softmax_parts(const Element* x, RowState* states, u64 columns, u64 part) {
    __shared__ RowState scratch[32];
    const RowState state = softmax_state(RowPart(columns, part), x + blockIdx.x * columns, scratch);
    if (threadIdx.x == 0) states[(u64)blockIdx.x * gridDim.y + blockIdx.y] = state;
}

// The second: the same grid.
__device__ __forceinline__ void softmax_scale(const Element* x, Element* y, const RowState* states, u64 columns, u64 part) {
    __shared__ RowState scratch[32];
    const u64 row = blockIdx.x * columns;
    softmax_map(RowPart(columns, part), merge_parts(states, gridDim.y, scratch), x + row, y + row);
}
