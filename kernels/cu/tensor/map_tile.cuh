// Elementwise, for inputs that are contiguous along another dimension than the outputs: the schedule.
//
// The last two dimensions are rows, along which these inputs are contiguous, and columns, along which the outputs are. A block stages
// square tiles of these inputs in shared memory, so that the accesses to both are coalesced.
#pragma once
#include "tensor/views.cuh"

// A padded row of a tile, so that neither its rows nor its columns share a bank.
template <typename T, int EDGE>
struct TileRow {
    T v[EDGE + (sizeof(T) < 4 ? 4 / sizeof(T) : 1)];
};

constexpr int WARP = 32;
constexpr int WARPS = 8;

// The block has WARP * WARPS threads.
template <int EDGE, int RANK, typename OPERANDS>
__device__ __forceinline__ void map_tile(const Space& space, const OPERANDS& operands) {
    __shared__ typename OPERANDS::template Tile<EDGE> tile;
    const i64 rows = space.rows, columns = space.columns;
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    for (u64 nth = blockIdx.x; nth < space.vectors; nth += gridDim.x) {
        const Position<int, RANK> of_tile = position_of<int, RANK>(space, (int)nth);
        Position<i64, RANK> at;
#pragma unroll
        for (int dim = 0; dim < RANK; ++dim) at.at[dim] = of_tile.at[dim];
        const i64 first_row = at.at[RANK - 2] * EDGE, first_column = at.at[RANK - 1] * EDGE;
#pragma unroll
        for (int x = lane; x < EDGE; x += WARP) {
#pragma unroll
            for (int y = warp; y < EDGE; y += WARPS) {
                at.at[RANK - 2] = first_row + x;
                at.at[RANK - 1] = first_column + y;
                const bool is_inside = at.at[RANK - 2] < rows && at.at[RANK - 1] < columns;
                if (is_inside) operands.stage(at, tile, y, x);
            }
        }
        __syncthreads();
#pragma unroll
        for (int x = lane; x < EDGE; x += WARP) {
            typename OPERANDS::template Inputs<1> inputs[EDGE / WARPS];
            at.at[RANK - 1] = first_column + x;
#pragma unroll
            for (int i = 0; i < EDGE / WARPS; ++i) {
                const int y = warp + i * WARPS;
                at.at[RANK - 2] = first_row + y;
                const bool is_inside = at.at[RANK - 2] < rows && at.at[RANK - 1] < columns;
                if (is_inside) operands.load(at, tile, x, y, inputs[i]);
            }
#pragma unroll
            for (int i = 0; i < EDGE / WARPS; ++i) {
                at.at[RANK - 2] = first_row + warp + i * WARPS;
                const bool is_inside = at.at[RANK - 2] < rows && at.at[RANK - 1] < columns;
                if (is_inside) operands.store(at, offset<STRIDED, 1>(space.index_strides, at), inputs[i]);
            }
        }
        __syncthreads();
    }
}
