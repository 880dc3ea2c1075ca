// Multistage GEMM for linear layers by mma.sync, from sm_80 on. On older devices the kernels are empty.

#pragma once
#include "gemm/epilogue.cuh"
#include "gemm/mainloop_mma.cuh"
#include "gemm/tile_scheduler.cuh"
#include "launch/gemm_mma.cuh"

// gemm_mma_{dtype}_{M}x{N}: a linear layer (see linear.cuh) of 16-bit elements with f32 accumulators.
// A block computes M x N tiles of the output, and each of its warps WARP_M x WARP_N of them. Copies of k tiles (128 bytes of each
// row) into a ring of STAGES shared-memory stages run ahead of the products, and into the next output tile (cp.async). Every
// accumulator adds its products in the order of k, 16 at a time, whatever the tile: the kernels of all tiles give the same bits.
// The bias is added in f32, before the activation.
//
// The tiles are listed in ops/encode/cuda/gemm_mma.rs.
//   grid: at most one block a tile; THREADS threads; dynamic shared memory: STAGES * STAGE_BYTES
template <int WARPS_M, int WARPS_N, int WARP_M, int WARP_N, int STAGE_COUNT>
struct MmaTile {
    static constexpr u32 M = WARPS_M * WARP_M, N = WARPS_N * WARP_N, THREADS = 32 * WARPS_M * WARPS_N, STAGES = STAGE_COUNT;
    static constexpr u32 STAGE_BYTES = (M + N) * 128;
    static_assert(N <= TILE_ROWS, "the columns of a block are in one tile of the weight");
    static_assert(WARP_M % 16 == 0 && WARP_N % 16 == 0, "whole fragments");
    static_assert(THREADS == gemm_mma_threads(M, N, WARP_M, WARP_N), "the launch has other threads");
    static_assert(STAGES * STAGE_BYTES == gemm_mma_shared_bytes(STAGES, M, N), "the launch allocates another size");
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

// Writes 16 rows of a warp's tile from registers: 16 bytes a lane where there are four groups of 8 columns, 4 bytes otherwise.
struct RegisterStore {
    u32 first_row, swizzle;
    u8* out;

    // The warp's rows, from `row` on, are in one tile of the output; so are its columns.
    __device__ __forceinline__ RegisterStore(const LinearParams& layer, u32 row, u32 column) : first_row(row) {
        const u32 lane = threadIdx.x & 31, chunk = column / 8 + lane % 4;
        swizzle = (chunk % 8 ^ lane / 4) << 4;
        out = layer.out + chunk_offset(row + lane / 4, chunk, layer.out_tiles_per_row) - swizzle;
    }

    template <int ELEMENT, int GROUPS>
    __device__ __forceinline__ void write(const float* acc, const LinearParams& layer, u32 row, u32 column) const {
        if constexpr (GROUPS % 4 != 0) {
            store_tile_direct<ELEMENT, GROUPS>(acc, layer, row, column);
        } else {
#pragma unroll
            for (u32 j = 0; j < GROUPS; j += 4) {
#pragma unroll
                for (u32 h = 0; h < 2; h++) {
                    u32 words[4];
#pragma unroll
                    for (u32 i = 0; i < 4; i++) words[i] = pack2<ELEMENT>(acc[4 * (j + i) + 2 * h], acc[4 * (j + i) + 2 * h + 1]);
                    transpose_quad(words);
                    u8* to = out + (row - first_row + 8 * h) * 128 + (swizzle ^ j << 4);
                    *(uint4*)to = make_uint4(words[0], words[1], words[2], words[3]);
                }
            }
        }
    }
};

// What a block copies to shared memory: the k tiles of its output tiles, one after the other. A k tile has the layout of the
// operands, so each thread copies 16 bytes as they are.
template <typename Tile>
struct MmaLoader {
    // Rows that the threads copy at once.
    static constexpr u32 COPY_ROWS = Tile::THREADS / 8, ROW_TILES = (Tile::M + TILE_ROWS - 1) / TILE_ROWS;
    static constexpr u32 ROW_COPIES = Tile::M / COPY_ROWS, COPIES = (Tile::M + Tile::N) / COPY_ROWS;
    typedef TileScheduler<Tile::M, Tile::N, 1> Tiles;

    const u8* rows[ROW_TILES];
    const u8* weight;
    u32 tile, k_tiles;
    // Rows from the thread's first one to the end. Sums of rows past the end are never stored; a small tile does not load these rows.
    u32 row_count;
    // Bytes of a copy: none after the last tile.
    u32 bytes;

    __device__ __forceinline__ MmaLoader(const LinearParams& layer, const Tiles& tiles) : tile(tiles.first()) { start_tile(layer, tiles); }

    __device__ __forceinline__ void start_tile(const LinearParams& layer, const Tiles& tiles) {
        k_tiles = layer.k_tiles;
        bytes = tile < tiles.count ? 16 : 0;
        if (bytes == 0) return;
        const u32 row = tiles.row(tile), last = (layer.rows - 1) / TILE_ROWS * TILE_ROWS;
        row_count = (layer.rows - row + 7) / 8 * 8 - threadIdx.x / 8;
        weight = layer.weight + chunk_offset(tiles.column(tile), 0, layer.k_tiles) + threadIdx.x * 16;
        rows[0] = layer.x + chunk_offset(row, 0, layer.k_tiles) + threadIdx.x * 16;
        // A tile past the end is the last one again.
#pragma unroll
        for (u32 i = 1; i < ROW_TILES; i++) rows[i] = layer.x + chunk_offset(min(row + i * TILE_ROWS, last), 0, layer.k_tiles) + threadIdx.x * 16;
    }

    __device__ __forceinline__ void load_rows(u32 i, u32 to) const {
        const u32 row = i * COPY_ROWS;
        const bool is_inside = Tile::M >= TILE_ROWS || (int)row < (int)row_count;
        cp_async_or_zero(to + row * 128, rows[row / TILE_ROWS] + row % TILE_ROWS * 128, is_inside ? bytes : 0);
    }

    __device__ __forceinline__ void load_weight(u32 i, u32 to) const {
        const u32 row = (i - ROW_COPIES) * COPY_ROWS;
        cp_async_or_zero(to + (Tile::M + row) * 128, weight + row * 128, bytes);
    }

    // A part of the copies of a k tile.
    template <int PARTS>
    __device__ __forceinline__ void load(u32 part, u32 stage) const {
        const u32 to = stage + threadIdx.x * 16;
#pragma unroll
        for (u32 i = COPIES * part / PARTS; i < COPIES * (part + 1) / PARTS; i++) {
            if (i < ROW_COPIES) load_rows(i, to);
            else load_weight(i, to);
        }
    }

    // The next k tile.
    __device__ __forceinline__ void advance(const LinearParams& layer, const Tiles& tiles) {
#pragma unroll
        for (u32 i = 0; i < ROW_TILES; i++) rows[i] += TILE_BYTES;
        weight += TILE_BYTES;
        if (--k_tiles > 0) return;
        tile += tiles.stride();
        start_tile(layer, tiles);
    }
};

// Starts the copies of the first stages. Those of the weights start before the preceding grid has completed.
template <typename Tile>
__device__ __forceinline__ void start_copies(MmaLoader<Tile>& loader, const LinearParams& layer, const typename MmaLoader<Tile>::Tiles& tiles,
                                             u32 data) {
    MmaLoader<Tile> weights = loader;
    const u32 to = data + threadIdx.x * 16;
#pragma unroll
    for (u32 stage = 0; stage < Tile::STAGES; stage++) {
#pragma unroll
        for (u32 i = weights.ROW_COPIES; i < weights.COPIES; i++) weights.load_weight(i, to + stage * Tile::STAGE_BYTES);
        weights.advance(layer, tiles);
    }
    griddepcontrol_wait();
#pragma unroll
    for (u32 stage = 0; stage < Tile::STAGES; stage++) {
#pragma unroll
        for (u32 i = 0; i < loader.ROW_COPIES; i++) loader.load_rows(i, to + stage * Tile::STAGE_BYTES);
        cp_async_commit();
        loader.advance(layer, tiles);
    }
}

// The epilogue of a warp's tile. The bias is loaded once for all rows.
template <int ELEMENT, int WARP_M, int WARP_N>
__device__ __forceinline__ void finish_tile(float (&acc)[WARP_M / 16][WARP_N / 2], const LinearParams& layer, u32 row, u32 column) {
    const u32 out_column = layer.gated ? column / 2 : column;
    if (row >= layer.rows || out_column >= layer.out_tiles_per_row * 64) return;
    if (layer.bias) {
        float2 bias[WARP_N / 8];
#pragma unroll
        for (u32 j = 0; j < WARP_N / 8; j++) bias[j] = *(const float2*)(layer.bias + column + 8 * j + threadIdx.x % 4 * 2);
#pragma unroll
        for (u32 m = 0; m < WARP_M / 16; m++) {
#pragma unroll
            for (u32 i = 0; i < WARP_N / 2; i++) acc[m][i] += i % 2 ? bias[i / 4].y : bias[i / 4].x;
        }
    }
    LinearParams unbiased = layer;
    unbiased.bias = nullptr;
    RegisterStore store(layer, row, out_column);
    dispatch_epilogue<ELEMENT, WARP_N>(acc, unbiased, store, row, column);
}

template <int ELEMENT, int WARPS_M, int WARPS_N, int WARP_M, int WARP_N, int STAGES>
__device__ __forceinline__ void gemm_mma(const LinearParams& layer) {
    typedef MmaTile<WARPS_M, WARPS_N, WARP_M, WARP_N, STAGES> Tile;
    typedef Fragments<typename MmaFor<ELEMENT>::Type, WARP_M, WARP_N> WarpFragments;
    extern __shared__ __align__(1024) u8 shared[];
    griddepcontrol_launch_dependents();
    const typename MmaLoader<Tile>::Tiles tiles(layer);
    const u32 data = smem_address(shared);
    MmaLoader<Tile> loader(layer, tiles);
    start_copies(loader, layer, tiles, data);

    const u32 warp = threadIdx.x / 32, warp_row = warp / WARPS_N * WARP_M, warp_column = warp % WARPS_N * WARP_N;
    const u32 from_a = WarpFragments::address_a(data, warp_row), from_b = WarpFragments::address_b(data + Tile::M * 128, warp_column);
    WarpFragments fragments[2];
    cp_async_wait<STAGES - 1>();
    __syncthreads();
    fragments[0].load(from_a, from_b, 0);
    float acc[WARP_M / 16][WARP_N / 2] = {};
    u32 stage = 0;
    for (u32 tile = tiles.first(); tile < tiles.count; tile += tiles.stride()) {
        for (u32 k_tile = 0; k_tile < layer.k_tiles; k_tile++) {
            const u32 next = stage + 1 == STAGES ? 0 : stage + 1;
#pragma unroll
            for (u32 step = 0; step < 4; step++) {
                // The operands of a step are loaded during the step before it.
                const bool is_last = step == 3;
                if (is_last) {
                    cp_async_wait<STAGES - 2>();
                    // The next k tile is there, and all warps have read this one, whose stage is loaded next.
                    __syncthreads();
                }
                const u32 from = (is_last ? next : stage) * Tile::STAGE_BYTES;
                fragments[(step + 1) % 2].load(from_a + from, from_b + from, (step + 1) % 4);
                fragments[step % 2].mma(acc, [&](u32 part) {
                    if (is_last) loader.template load<WARP_M / 16>(part, data + stage * Tile::STAGE_BYTES);
                });
            }
            cp_async_commit();
            loader.advance(layer, tiles);
            stage = next;
        }
        finish_tile<ELEMENT, WARP_M, WARP_N>(acc, layer, tiles.row(tile) + warp_row, tiles.column(tile) + warp_column);
#pragma unroll
        for (u32 m = 0; m < WARP_M / 16; m++) {
#pragma unroll
            for (u32 i = 0; i < WARP_N / 2; i++) acc[m][i] = 0.0f;
        }
    }
    cp_async_wait<0>();
}

#else

template <int ELEMENT, int WARPS_M, int WARPS_N, int WARP_M, int WARP_N, int STAGES>
__device__ __forceinline__ void gemm_mma(const LinearParams& layer) {}

#endif
