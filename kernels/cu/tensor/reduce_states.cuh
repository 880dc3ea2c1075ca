// Merges the states that the splits of a reduction wrote, in their order, and writes the results.
//
// Defined before, as for tensor/reduce.cuh: OUTER_RANK, THREADS, LANES, Index, State, Output, epilogue.
// The arguments are words: extent of the outer space; number of splits; address of the states [split, outer]; address of the output;
// extents of the outer dimensions; the output's strides.

#pragma once
#include "tensor/group.cuh"
#include "tensor/operands.cuh"

// LANES threads for each outer position.
__device__ __forceinline__ void reduce_states(const u64* words) {
    __shared__ State scratch[32];
    const u32 lane = threadIdx.x % LANES;
    const u64 outer = (u64)blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES;
    const bool is_outer = outer < words[0];
    const State* states = (const State*)words[2] + outer;
    State state = State::identity();
    if (is_outer) {
#pragma unroll 4
        for (u64 split = lane; split < words[1]; split += LANES) state = State::merge(state, states[split * words[0]]);
    }
    state = merge_to_first<LANES, THREADS>(state, scratch);
    if (!is_outer || lane != 0) return;
    i64 offset = 0;
    add_offsets<OUTER_RANK, 1>((Index)outer, words + 4, words + 4 + OUTER_RANK, &offset);
    write_result(state, outer, offset, words[3]);
}
