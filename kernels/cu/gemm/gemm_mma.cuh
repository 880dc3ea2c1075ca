// Multistage GEMM for linear layers by mma.sync, from sm_80 on. On older devices the kernels are empty.

#pragma once
#include "gemm/epilogue.cuh"
#include "gemm/mainloop_mma.cuh"

// gemm_mma_{dtype}_{M}x{N}: a linear layer (see linear.cuh) of 16-bit elements with f32 accumulators.
// A block computes one M x N tile of the output, and each of its warps WARP_M x WARP_N of that. Copies of k tiles (128 bytes of
// each row) into a ring of STAGES shared-memory stages run ahead of the products (cp.async). Every accumulator adds its
// products in the order of k, 16 at a time, whatever the tile: the kernels of all tiles give the same bits. The bias is added in
// f32, before the activation.
//
//   256x128  256 threads, 64 x 64 a warp: highest arithmetic intensity in shared memory
//   128x128  128 threads, 64 x 64 a warp
//   64x64    128 threads, 32 x 32 a warp: for hundreds of rows
//   64x16    128 threads, 16 x 16 a warp: for so few rows that reading the weights dominates
//   grid: tiles; dynamic shared memory: STAGES * (M + N) * 128 bytes
template <int WARPS_M, int WARPS_N, int WARP_M, int WARP_N, int STAGES>
struct MmaTile {
    static constexpr u32 M = WARPS_M * WARP_M, N = WARPS_N * WARP_N, THREADS = 32 * WARPS_M * WARPS_N;
    static constexpr u32 STAGE_BYTES = (M + N) * 128;
    static_assert(N <= TILE_ROWS, "the columns of a block are in one tile of the weight");
    static_assert(WARP_M % 16 == 0 && WARP_N % 16 == 0, "whole fragments");
};

#if __CUDA_ARCH__ >= 800

template <int ELEMENT>
struct MmaFor {
    typedef MmaBf16 Type;
};

template <>
struct MmaFor<F16> {
    typedef MmaF16 Type;
};

// Transposes 4 x 4 words over four consecutive lanes: word i of lane q becomes word q of lane i.
__device__ __forceinline__ void transpose_quad(u32 (&words)[4]) {
    const u32 lane = threadIdx.x & 31;
#pragma unroll
    for (u32 step = 1; step <= 2; step *= 2) {
        const bool upper = lane & step;
#pragma unroll
        for (u32 pair = 0; pair < 2; pair++) {
            const u32 low = step == 1 ? 2 * pair : pair, high = low + step;
            const u32 received = __shfl_xor_sync(FULL_WARP, upper ? words[low] : words[high], step);
            if (upper) words[low] = received;
            else words[high] = received;
        }
    }
}

// Writes a warp's 16 rows from registers: 16 bytes a lane where there are four groups of 8 columns, 4 bytes otherwise.
struct RegisterStore {
    template <int ELEMENT, int GROUPS>
    __device__ __forceinline__ void write(const float* acc, const LinearParams& layer, u32 row, u32 column) {
        if constexpr (GROUPS % 4 != 0) {
            store_tile_direct<ELEMENT, GROUPS>(acc, layer, row, column);
        } else {
            const u32 lane = threadIdx.x & 31;
#pragma unroll
            for (int j = 0; j < GROUPS; j += 4) {
                const u32 chunk = column / 8 + j + lane % 4;
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    u32 words[4];
#pragma unroll
                    for (int i = 0; i < 4; i++) words[i] = pack2<ELEMENT>(acc[4 * (j + i) + 2 * h], acc[4 * (j + i) + 2 * h + 1]);
                    transpose_quad(words);
                    if (chunk >= layer.out_tiles_per_row * 8) continue;
                    u8* to = layer.out + chunk_offset(row + lane / 4 + 8 * h, chunk, layer.out_tiles_per_row);
                    *(uint4*)to = make_uint4(words[0], words[1], words[2], words[3]);
                }
            }
        }
    }
};

// A block's tile and its copies. A k tile has the layout of the operands, so each thread copies 16 bytes as they are.
template <typename Tile>
struct MmaLoader {
    const u8* rows;
    const u8* weight;
    // Rows of the tile that exist, in whole groups of 8: the others are not loaded, and their sums are never used.
    u32 row_count;
    u64 row_tile_bytes;

    __device__ __forceinline__ MmaLoader(const LinearParams& layer, u32 row, u32 column)
        : rows(layer.x + chunk_offset(row, 0, layer.k_tiles)),
          weight(layer.weight + chunk_offset(column, 0, layer.k_tiles)),
          row_count((layer.rows - row + 7) / 8 * 8),
          row_tile_bytes((u64)layer.k_tiles * TILE_BYTES) {}

    __device__ __forceinline__ void load_weight(u32 k_tile, u32 stage) const {
        const u8* from = weight + (u64)k_tile * TILE_BYTES;
#pragma unroll
        for (u32 at = threadIdx.x; at < Tile::N * 8; at += Tile::THREADS) cp_async(stage + Tile::M * 128 + at * 16, from + at * 16);
    }

    __device__ __forceinline__ void load_rows(u32 k_tile, u32 stage) const {
        const u8* from = rows + (u64)k_tile * TILE_BYTES;
#pragma unroll
        for (u32 at = threadIdx.x; at < Tile::M * 8; at += Tile::THREADS) {
            // A tile of more than TILE_ROWS rows has several tiles of the operand.
            const u32 row = at / 8;
            if (row < row_count) cp_async(stage + at * 16, from + row / TILE_ROWS * row_tile_bytes + row % TILE_ROWS * 128 + at % 8 * 16);
        }
    }
};

template <int ELEMENT, int WARPS_M, int WARPS_N, int WARP_M, int WARP_N, int STAGES>
__device__ __forceinline__ void gemm_mma(const LinearParams& layer) {
    typedef MmaTile<WARPS_M, WARPS_N, WARP_M, WARP_N, STAGES> Tile;
    extern __shared__ __align__(1024) u8 shared[];
    griddepcontrol_launch_dependents();
    const u32 n_tiles = (layer.columns + Tile::N - 1) / Tile::N, tile = layer.reverse ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
    const u32 row = tile / n_tiles * Tile::M, column = tile % n_tiles * Tile::N, data = smem_address(shared);
    const MmaLoader<Tile> loader(layer, row, column);
    // The weights of the first stages are loaded before the preceding grid has completed.
#pragma unroll
    for (u32 stage = 0; stage < STAGES - 1; stage++) {
        if (stage < layer.k_tiles) loader.load_weight(stage, data + stage * Tile::STAGE_BYTES);
    }
    griddepcontrol_wait();
#pragma unroll
    for (u32 stage = 0; stage < STAGES - 1; stage++) {
        if (stage < layer.k_tiles) loader.load_rows(stage, data + stage * Tile::STAGE_BYTES);
        cp_async_commit();
    }
    const u32 warp = threadIdx.x / 32, warp_row = warp / WARPS_N * WARP_M, warp_column = warp % WARPS_N * WARP_N;
    float acc[WARP_M / 16][WARP_N / 2] = {};
    u32 stage = 0;
    for (u32 k_tile = 0; k_tile < layer.k_tiles; k_tile++) {
        cp_async_wait<STAGES - 2>();
        // The stage is loaded, and all warps have read the one before it, which is loaded next.
        __syncthreads();
        const u32 next = k_tile + STAGES - 1, to = data + (stage == 0 ? STAGES - 1 : stage - 1) * Tile::STAGE_BYTES;
        if (next < layer.k_tiles) {
            loader.load_weight(next, to);
            loader.load_rows(next, to);
        }
        cp_async_commit();
        const u32 rows = data + stage * Tile::STAGE_BYTES;
        multiply_k_tile<typename MmaFor<ELEMENT>::Type, WARP_M, WARP_N>(acc, rows, rows + Tile::M * 128, warp_row, warp_column);
        stage = stage + 1 == STAGES ? 0 : stage + 1;
    }
    RegisterStore store;
#pragma unroll
    for (u32 m = 0; m < WARP_M / 16; m++) {
        const u32 at = row + warp_row + 16 * m;
        if (at < layer.rows) dispatch_epilogue<ELEMENT, WARP_N>(acc[m], layer, store, at, column + warp_column);
    }
}

#else

template <int ELEMENT, int WARPS_M, int WARPS_N, int WARP_M, int WARP_N, int STAGES>
__device__ __forceinline__ void gemm_mma(const LinearParams& layer) {}

#endif
