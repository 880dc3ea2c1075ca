// Reductions of an iteration space [outer, inner] with strided operands, between a prologue and an epilogue.
//
// The source that includes this file defines before:
//   INPUTS                    number of inputs
//   OUTER_RANK, INNER_RANK    numbers of dimensions, after neighbours were merged
//   THREADS                   of a block
//   LANES                     of them side by side along the dimensions that are contiguous; both are powers of two
//   VEC                       elements that a thread reads at once
//   UNROLL                    such reads in flight
//   IS_PARTIAL                whether the inner dimensions are split over blocks, and states are written instead of results
//   Index                     holds positions in the iteration space: u32 or u64
//   Value, State, Output      what is reduced, the state, an element of the result
//   load_values<N>(bases, offsets, index, step, values)
//                             the prologue for N elements along the contiguous dimension, at `offsets` (in elements) of the inputs'
//                             bases; `index + e * step` is the row-major index of element e
//   epilogue(value, index, result)
//
// The arguments are words: extents of outer and inner space; inner elements of a split, a multiple of VEC; address of the output, or of
// the states [split, outer]; addresses of the inputs; extents of the outer dimensions; their strides for each input and the output;
// extents of the inner dimensions; their strides for each input. Extents are in elements, strides in elements of their operand.
//
// Vectors lie within the last outer or inner dimension: its extent is a multiple of VEC, or it is the only inner one.

#pragma once
#include "tensor/group.cuh"
#include "tensor/operands.cuh"

constexpr int OUTER_OPERANDS = INPUTS + 1;

struct ReduceWords {
    static constexpr int INPUT = 4;
    static constexpr int OUTER_EXTENTS = INPUT + INPUTS;
    static constexpr int OUTER_STRIDES = OUTER_EXTENTS + OUTER_RANK;
    static constexpr int INNER_EXTENTS = OUTER_STRIDES + OUTER_RANK * OUTER_OPERANDS;
    static constexpr int INNER_STRIDES = INNER_EXTENTS + INNER_RANK;
};

// Elements [begin, end) of the inner space, one split of it.
struct Split {
    Index begin, end;

    __device__ __forceinline__ Split(const u64* words) {
        const u64 first = blockIdx.y * words[2], last = first + words[2];
        end = (Index)(last < words[1] ? last : words[1]);
        begin = first < end ? (Index)first : end;
    }
};

// The values of N elements from position `inner`, at the operands' offsets of an outer position, and their indices among the inner ones.
template <int N>
__device__ __forceinline__ void inner_values(const u64* words, const i64* outer_offsets, u64 outer, Index inner, Value* values,
                                             i64* indices) {
    i64 offsets[INPUTS + 1];
#pragma unroll
    for (int k = 0; k < INPUTS; k++) offsets[k] = outer_offsets[k];
    add_offsets<INNER_RANK, INPUTS>(inner, words + ReduceWords::INNER_EXTENTS, words + ReduceWords::INNER_STRIDES, offsets);
    load_values<N>(words + ReduceWords::INPUT, offsets, (i64)(outer * words[1] + inner), 1, values);
#pragma unroll
    for (int e = 0; e < N; e++) indices[e] = (i64)inner + e;
}

// A thread's part of a split: every LANES-th vector. Rounds of UNROLL vectors are folded at once.
__device__ __forceinline__ State fold_row(const u64* words, const i64* offsets, u64 row, u32 lane) {
    const Split split(words);
    const Index vectors = (split.end - split.begin) / VEC;
    State state = State::identity();
    Index vector = lane;
    for (; (u64)vector + (UNROLL - 1) * LANES < vectors; vector += UNROLL * LANES) {
        Value values[UNROLL * VEC];
        i64 indices[UNROLL * VEC];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            const Index at = split.begin + (vector + u * LANES) * VEC;
            inner_values<VEC>(words, offsets, row, at, values + u * VEC, indices + u * VEC);
        }
        state = State::merge(state, State::template of<UNROLL * VEC>(values, indices));
    }
    if (vector < vectors) {
        Value values[UNROLL][VEC];
        i64 indices[UNROLL][VEC];
        // All loads are issued, the last vector's again for those beyond it.
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            const Index own = vector + u * LANES, last = vectors - 1;
            inner_values<VEC>(words, offsets, row, split.begin + (own < last ? own : last) * VEC, values[u], indices[u]);
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            if (vector + u * LANES < vectors) state = State::merge(state, State::template of<VEC>(values[u], indices[u]));
        }
    }
    if constexpr (VEC > 1) {
        for (Index at = split.begin + vectors * VEC + lane; at < split.end; at += LANES) {
            Value value;
            i64 index;
            inner_values<1>(words, offsets, row, at, &value, &index);
            state = State::merge(state, State::template of<1>(&value, &index));
        }
    }
    return state;
}

__device__ __forceinline__ void write_state(const u64* words, const State& state, u64 outer, i64 offset) {
    if constexpr (IS_PARTIAL) ((State*)words[3])[blockIdx.y * words[0] + outer] = state;
    else write_result(state, outer, offset, words[3]);
}

// LANES threads for each outer position, side by side along the inner dimensions. Block (x, y): THREADS / LANES positions, one split.
__device__ __forceinline__ void reduce_rows(const u64* words) {
    __shared__ State scratch[32];
    const u32 lane = threadIdx.x % LANES;
    const u64 row = (u64)blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES;
    const bool is_row = row < words[0];
    i64 offsets[OUTER_OPERANDS] = {};
    State state = State::identity();
    if (is_row) {
        add_offsets<OUTER_RANK, OUTER_OPERANDS>((Index)row, words + ReduceWords::OUTER_EXTENTS, words + ReduceWords::OUTER_STRIDES, offsets);
        state = fold_row(words, offsets, row, lane);
    }
    state = merge_to_first<LANES, THREADS>(state, scratch);
    if (is_row && lane == 0) write_state(words, state, row, offsets[INPUTS]);
}

// A thread's part of VEC columns of a split: every `step`-th row from its own.
__device__ __forceinline__ void fold_columns(const u64* words, const i64* offsets, u64 column, u32 own, State* states) {
    constexpr int STEP = THREADS / LANES;
    const Split split(words);
    for (Index row = split.begin + own; row < split.end; row += UNROLL * STEP) {
        Value values[UNROLL][VEC];
        Index at[UNROLL];
        // All loads are issued, the last row's again for those beyond it.
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            const Index last = split.end - 1;
            at[u] = last - row < u * STEP ? last : row + u * STEP;
            i64 moved[INPUTS + 1];
#pragma unroll
            for (int k = 0; k < INPUTS; k++) moved[k] = offsets[k];
            add_offsets<INNER_RANK, INPUTS>(at[u], words + ReduceWords::INNER_EXTENTS, words + ReduceWords::INNER_STRIDES, moved);
            load_values<VEC>(words + ReduceWords::INPUT, moved, (i64)(column * words[1] + at[u]), (i64)words[1], values[u]);
        }
        const bool is_whole = split.end - row > (UNROLL - 1) * STEP;
#pragma unroll
        for (int e = 0; e < VEC; e++) {
            Value column_values[UNROLL];
            i64 indices[UNROLL];
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                column_values[u] = values[u][e];
                indices[u] = (i64)at[u];
            }
            if (is_whole) {
                states[e] = State::merge(states[e], State::template of<UNROLL>(column_values, indices));
            } else {
#pragma unroll
                for (int u = 0; u < UNROLL; u++) {
                    const State one = State::template of<1>(column_values + u, indices + u);
                    if (split.end - row > u * STEP) states[e] = State::merge(states[e], one);
                }
            }
        }
    }
}

// VEC adjacent outer positions for each of LANES threads, side by side; the other threads share the inner positions.
__device__ __forceinline__ void reduce_columns(const u64* words) {
    constexpr int ROWS = THREADS / LANES;
    __shared__ State scratch[ROWS][LANES * VEC];
    const u32 lane = threadIdx.x % LANES, own = threadIdx.x / LANES;
    const u64 column = ((u64)blockIdx.x * LANES + lane) * VEC;
    const bool is_column = column < words[0];
    i64 offsets[OUTER_OPERANDS] = {};
    State states[VEC];
#pragma unroll
    for (int e = 0; e < VEC; e++) states[e] = State::identity();
    if (is_column) {
        add_offsets<OUTER_RANK, OUTER_OPERANDS>((Index)column, words + ReduceWords::OUTER_EXTENTS, words + ReduceWords::OUTER_STRIDES,
                                                offsets);
        fold_columns(words, offsets, column, own, states);
    }
#pragma unroll
    for (int e = 0; e < VEC; e++) scratch[own][e * LANES + lane] = states[e];
    for (u32 step = ROWS / 2; step > 0; step /= 2) {
        __syncthreads();
        if (own >= step) continue;
#pragma unroll
        for (int e = 0; e < VEC; e++) {
            const u32 at = e * LANES + lane;
            scratch[own][at] = State::merge(scratch[own][at], scratch[own + step][at]);
        }
    }
    if (!is_column || own != 0) return;
    // The output's stride of the last outer dimension.
    const u64 stride = OUTER_RANK > 0 ? words[ReduceWords::OUTER_STRIDES + (INPUTS + 1) * OUTER_RANK - 1] : 0;
#pragma unroll
    for (int e = 0; e < VEC; e++) write_state(words, scratch[0][e * LANES + lane], column + e, offsets[INPUTS] + (i64)(e * stride));
}
