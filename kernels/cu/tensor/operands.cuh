// How results of strided operands are written. Index, State, Output and epilogue are defined before.

#pragma once
#include "tensor/offsets.cuh"

// The result of the outer position `outer`, at an offset in elements from the output's address.
__device__ __forceinline__ void write_result(const State& state, u64 outer, i64 offset, u64 output) {
    Output result;
    epilogue(state.finish(), (i64)outer, result);
    ((Output*)output)[offset] = result;
}
