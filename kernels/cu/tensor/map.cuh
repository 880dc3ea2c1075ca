// Elementwise: the schedule. OPERANDS, generated, loads the inputs of a vector of elements, computes, and stores the outputs.
//
// A thread loads all inputs of its UNROLL vectors before it stores any output, and no other thread touches these elements, so an
// output may overwrite an input of the same layout.
#pragma once
#include "tensor/views.cuh"

template <int UNROLL, int LANES, typename INDEX, int RANK, typename OPERANDS>
__device__ __forceinline__ void map(const Space& space, const OPERANDS& operands) {
    const u64 block = (u64)blockDim.x * UNROLL;
    for (u64 first = blockIdx.x * block + threadIdx.x; first < space.vectors; first += gridDim.x * block) {
        typename OPERANDS::template Inputs<LANES> inputs[UNROLL];
        Position<INDEX, RANK> positions[UNROLL];
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            const u64 nth = first + i * blockDim.x;
            if (nth < space.vectors) {
                positions[i] = position_of<INDEX, RANK>(space, (INDEX)nth);
                operands.load(positions[i], inputs[i]);
            }
        }
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            const u64 nth = first + i * blockDim.x;
            if (nth < space.vectors) operands.store(positions[i], (i64)nth * LANES, inputs[i]);
        }
    }
    // A flat space may end with less than a vector.
    if constexpr (RANK == 1 && LANES > 1) {
        const u64 nth = space.vectors * LANES + threadIdx.x;
        if (blockIdx.x == 0 && nth < space.elements) {
            typename OPERANDS::template Inputs<1> inputs;
            const Position<INDEX, RANK> position = {{(INDEX)nth}};
            operands.load(position, inputs);
            operands.store(position, (i64)nth, inputs);
        }
    }
}
