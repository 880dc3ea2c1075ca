// Elementwise, for inputs that are contiguous along another dimension than the outputs: the schedule.
//
// The last two dimensions are rows, along which these inputs are contiguous, and columns, along which the outputs are. A block stages
// square tiles of these inputs in shared memory, so that the accesses to both are coalesced. Addresses are computed once for the
// elements of a thread in a line of a tile; from one element to the next they advance by WARPS strides.
#pragma once
#include "tensor/views.cuh"

// A padded row of a tile, so that neither its rows nor its columns share a bank.
template <typename T, int EDGE>
struct TileRow {
    T v[EDGE + (sizeof(T) < 4 ? 4 / sizeof(T) : 1)];
};

constexpr int WARP = 32;
constexpr int WARPS = TILE_THREADS / WARP;

// A part of the tiled space that a tile covers, at a position with a lane and a warp added.
template <int EDGE, int RANK>
struct TileOrigin {
    Position<i64, RANK> first;
    int height, width;

    __device__ __forceinline__ TileOrigin(const Space& space, u64 nth) {
        const Position<int, RANK> tile = position_of<int, RANK>(space, (int)nth);
#pragma unroll
        for (int dim = 0; dim < RANK; ++dim) first.at[dim] = tile.at[dim];
        first.at[RANK - 2] *= EDGE;
        first.at[RANK - 1] *= EDGE;
        const i64 rows = space.rows - first.at[RANK - 2], columns = space.columns - first.at[RANK - 1];
        height = rows < EDGE ? (int)rows : EDGE;
        width = columns < EDGE ? (int)columns : EDGE;
    }

    __device__ __forceinline__ Position<i64, RANK> at(int row, int column) const {
        Position<i64, RANK> position = first;
        position.at[RANK - 2] += row;
        position.at[RANK - 1] += column;
        return position;
    }
};

// Lanes lie along the rows of the tile. All loads are issued before anything is stored.
template <int EDGE, int RANK, typename OPERANDS, typename TILE>
__device__ __forceinline__ void stage_tile(const TileOrigin<EDGE, RANK>& origin, const OPERANDS& operands, TILE& tile) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    typename OPERANDS::Staged staged[EDGE / WARP][EDGE / WARPS] = {};
#pragma unroll
    for (int s = 0; s < EDGE / WARP; ++s) {
        const int row = lane + s * WARP;
        auto source = operands.source(origin.at(row, warp));
#pragma unroll
        for (int i = 0; i < EDGE / WARPS; ++i) {
            if (row < origin.height && warp + i * WARPS < origin.width) operands.fetch(source, staged[s][i]);
            source.advance();
        }
    }
#pragma unroll
    for (int s = 0; s < EDGE / WARP; ++s) {
#pragma unroll
        for (int i = 0; i < EDGE / WARPS; ++i) operands.stage(staged[s][i], tile, warp + i * WARPS, lane + s * WARP);
    }
}

// Lanes lie along the columns of the tile.
template <int EDGE, int RANK, typename OPERANDS, typename TILE>
__device__ __forceinline__ void compute_tile(const Space& space, const TileOrigin<EDGE, RANK>& origin, const OPERANDS& operands,
                                             const TILE& tile) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
#pragma unroll
    for (int s = 0; s < EDGE / WARP; ++s) {
        const int column = lane + s * WARP;
        const Position<i64, RANK> at = origin.at(warp, column);
        auto read = operands.target(at);
        auto written = read;
        typename OPERANDS::template Inputs<1> inputs[EDGE / WARPS];
#pragma unroll
        for (int i = 0; i < EDGE / WARPS; ++i) {
            const int row = warp + i * WARPS;
            if (row < origin.height && column < origin.width) operands.load(read, tile, column, row, inputs[i]);
            read.advance();
        }
        const i64 index = offset<STRIDED, 1>(space.index_strides, at), index_step = WARPS * space.index_strides[RANK - 2];
#pragma unroll
        for (int i = 0; i < EDGE / WARPS; ++i) {
            const bool is_inside = warp + i * WARPS < origin.height && column < origin.width;
            if (is_inside) operands.store(written, index + i * index_step, inputs[i]);
            written.advance();
        }
    }
}

// The block has TILE_THREADS threads.
template <int EDGE, int RANK, typename OPERANDS>
__device__ __forceinline__ void map_tile(const Space& space, const OPERANDS& operands) {
    __shared__ typename OPERANDS::template Tile<EDGE> tile;
    for (u64 nth = blockIdx.x; nth < space.vectors; nth += gridDim.x) {
        const TileOrigin<EDGE, RANK> origin(space, nth);
        stage_tile(origin, operands, tile);
        __syncthreads();
        compute_tile(space, origin, operands, tile);
        __syncthreads();
    }
}
