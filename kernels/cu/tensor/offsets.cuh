// Where the elements of strided operands lie. Index is defined before.

#pragma once
#include "common/common.cuh"

// Adds the offsets of position `at`, row-major in a space, to those of its operands.
template <int RANK, int OPERANDS>
__device__ __forceinline__ void add_offsets(Index at, const u64* extents, const u64* strides, i64* offsets) {
#pragma unroll
    for (int dim = RANK - 1; dim >= 0; dim--) {
        Index index = at;
        if (dim > 0) {
            const Index extent = (Index)extents[dim];
            at /= extent;
            index -= at * extent;
        }
#pragma unroll
        for (int k = 0; k < OPERANDS; k++) offsets[k] += (i64)((u64)index * strides[k * RANK + dim]);
    }
}
