// The output tiles of a linear layer and the blocks that compute them.
#pragma once
#include "gemm/linear.cuh"

// Static persistent scheduler: a block takes every `stride`th tile from `first`, in order of rows or in reverse. The BLOCKS
// blocks of a cluster take consecutive row tiles of the same columns.
template <int TILE_M, int TILE_N, int BLOCKS>
struct TileScheduler {
    u32 n_tiles, count, reverse;

    __device__ __forceinline__ TileScheduler(const LinearParams& layer) {
        n_tiles = (layer.columns + TILE_N - 1) / TILE_N;
        count = (layer.rows + TILE_M * BLOCKS - 1) / (TILE_M * BLOCKS) * n_tiles;
        reverse = layer.reverse;
    }
    static __device__ __forceinline__ u32 first() { return blockIdx.x / BLOCKS; }
    static __device__ __forceinline__ u32 stride() { return gridDim.x / BLOCKS; }
    __device__ __forceinline__ u32 at(u32 tile) const { return reverse ? count - 1 - tile : tile; }
    // The first row of this block's tile; in a cluster it may be past the end.
    __device__ __forceinline__ u32 row(u32 tile) const {
        return (at(tile) / n_tiles * BLOCKS + blockIdx.x % BLOCKS) * TILE_M;
    }
    __device__ __forceinline__ u32 column(u32 tile) const { return at(tile) % n_tiles * TILE_N; }
};
