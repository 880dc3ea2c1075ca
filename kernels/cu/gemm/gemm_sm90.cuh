// Persistent warp-specialised GEMM for linear layers on Hopper (wgmma). On other devices the kernels are empty.

#pragma once
#include "gemm/epilogue.cuh"
#include "gemm/mainloop_sm90.cuh"
#include "gemm/tile_scheduler.cuh"
#include "launch/gemm_sm90.cuh"

// gemm_sm90_{dtype}_{M}x{N}: a linear layer (see linear.cuh) of 16-bit elements with f32 accumulators.
// A block processes M x N tiles of the output. The producer warp copies k tiles (128 bytes of each row) into a ring of
// shared-memory stages, running ahead into the next output tile; each consumer warpgroup multiplies 64 rows. Every
// accumulator adds its products in the order of k, 16 at a time, whatever the tile: all GEMM kernels give the same bits.
// The bias is added in f32, before the activation.
//
// The tiles are listed in ops/encode/cuda/gemm.rs. Where a cluster has two blocks, 2 i and 2 i + 1, they have consecutive row tiles of the same
// columns, and each multicasts half of the weight to both. Tiles of 192 columns are not for gated layers.
//   dynamic shared memory: SHARED bytes
template <int CONSUMERS, int TILE_N, int STAGES>
struct SmemLayout {
    static constexpr u32 TILE_M = 64 * CONSUMERS, A_BYTES = TILE_M * 128, STAGE_BYTES = A_BYTES + TILE_N * 128;
    // Each warp stages 16 rows of 64 output columns, where a tile is that wide; wide tiles alternate two buffers.
    static constexpr u32 STAGING = TILE_N > 128 ? 2 : TILE_N >= 64 ? 1 : 0, STAGING_BYTES = 2048;
    static constexpr u32 SHARED = STAGES * STAGE_BYTES + 4 * CONSUMERS * STAGING * STAGING_BYTES + STAGES * 16;
    // The producer is a warp, or where consumers take its registers a warpgroup.
    static constexpr u32 THREADS = 128 * CONSUMERS + (TILE_N > 128 ? 128 : 32);
    static_assert(SHARED == gemm_sm90_shared_bytes(STAGES, TILE_M, TILE_N, STAGING), "the launch allocates another size");
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <int ELEMENT>
struct WgmmaFor {
    typedef WgmmaBf16 Type;
};

template <>
struct WgmmaFor<F16> {
    typedef WgmmaF16 Type;
};

// Stores 16 columns of a warp's 16 rows as chunks `first` and `first + 1` of its staging buffer (stmatrix).
template <int ELEMENT>
__device__ __forceinline__ void stage_columns(u32 buffer, u32 first, const float* low, const float* high) {
    const u32 lane = threadIdx.x & 31, row = lane % 16, chunk = first + lane / 16;
    stmatrix_x4(buffer + row * 128 + ((chunk ^ (row & 7)) << 4), pack2<ELEMENT>(low[0], low[1]),
                   pack2<ELEMENT>(low[2], low[3]), pack2<ELEMENT>(high[0], high[1]), pack2<ELEMENT>(high[2], high[3]));
}

// Writes a warp's 16 rows: whole tiles through its STAGING staging buffers, used in turn, and fewer columns from registers.
template <int STAGING>
struct EpilogueStaging {
    u32 first, index;

    // The next buffer, once its previous bulk store has read it.
    __device__ __forceinline__ u32 next() {
        if ((threadIdx.x & 31) == 0) bulk_store_wait_read<STAGING - 1>();
        __syncwarp();
        if (STAGING == 1) return first;
        index ^= 1;
        return first + index * 2048;
    }

    template <int ELEMENT, int GROUPS>
    __device__ __forceinline__ void write(const float* acc, const LinearParams& layer, u32 row, u32 column) {
        if constexpr (GROUPS >= 8) write_tiles<ELEMENT, GROUPS>(acc, layer, row, column);
        else store_tile_direct<ELEMENT, GROUPS>(acc, layer, row, column);
    }

    // GROUPS * 8 columns from `column` on, 64 at a time.
    template <int ELEMENT, int GROUPS>
    __device__ __forceinline__ void write_tiles(const float* acc, const LinearParams& layer, u32 row, u32 column) {
        static_assert(GROUPS % 8 == 0, "whole tiles");
#pragma unroll
        for (int subtile = 0; subtile < GROUPS / 8; subtile++) {
            if (column / 64 + subtile >= layer.out_tiles_per_row) return;
            const u32 buffer = next();
#pragma unroll
            for (int j = 0; j < 8; j += 2) {
                stage_columns<ELEMENT>(buffer, j, acc + 32 * subtile + 4 * j, acc + 32 * subtile + 4 * j + 4);
            }
            fence_proxy_async();
            __syncwarp();
            if ((threadIdx.x & 31) == 0) {
                bulk_store(layer.out + chunk_offset(row, (column / 64 + subtile) * 8, layer.out_tiles_per_row), buffer, 2048);
            }
        }
    }
};

template <>
struct EpilogueStaging<0> {
    u32 first, index;

    template <int ELEMENT, int GROUPS>
    __device__ __forceinline__ void write(const float* acc, const LinearParams& layer, u32 row, u32 column) {
        store_tile_direct<ELEMENT, GROUPS>(acc, layer, row, column);
    }
};

// The producer, one thread: loads the k tiles of all of a block's tiles. In a cluster each block multicasts half of the weight.
// The weights of the first stages are loaded before the preceding grid has completed.
template <int CONSUMERS, int TILE_N, int STAGES, int BLOCKS>
__device__ __forceinline__ void producer(const LinearParams& layer, u32 data, u32 full, u32 empty) {
    typedef SmemLayout<CONSUMERS, TILE_N, STAGES> Smem;
    const TileScheduler<Smem::TILE_M, TILE_N, BLOCKS> tiles(layer);
    constexpr u32 CHUNK = BLOCKS == 2 ? TILE_ROWS : TILE_N < 64 ? TILE_N : 64;
    static_assert(BLOCKS == 1 || TILE_N == 2 * TILE_ROWS, "two tiles of the weight");
    // Rows past the end are not loaded; accumulators of stale shared memory are never stored.
    auto rows_bytes = [&](u32 row) { return row < layer.rows ? min((layer.rows - row + 7) / 8 * 8, Smem::TILE_M) * 128 : 0; };
    auto load_weight = [&](u32 column, u32 bytes, u32 k_tile, u32 to, u32 here) {
        mbarrier_arrive_expect_tx(here, bytes + TILE_N * 128);
#pragma unroll
        for (u32 chunk = 0; chunk < TILE_N / CHUNK; chunk++) {
            const u8* weight = layer.weight + chunk_offset(column + CHUNK * chunk, 0, layer.k_tiles) + (u64)k_tile * TILE_BYTES;
            const u32 there = to + Smem::A_BYTES + chunk * (CHUNK * 128);
            if constexpr (BLOCKS == 1) bulk_load(there, weight, CHUNK * 128, here);
            else if (chunk == blockIdx.x % 2) bulk_load_multicast<2>(there, weight, CHUNK * 128, here);
        }
    };
    u32 prefetched = min(layer.k_tiles, (u32)STAGES);
    const u32 first_column = tiles.column(tiles.first()), first_bytes = rows_bytes(tiles.row(tiles.first()));
    for (u32 k_tile = 0; k_tile < prefetched; k_tile++) {
        load_weight(first_column, first_bytes, k_tile, data + k_tile * Smem::STAGE_BYTES, full + k_tile * 8);
    }
    griddepcontrol_wait();
    // Waiting for the parity before the first round returns at once: all stages are empty.
    PipelineState<STAGES> pipe = {0, 1};
    for (u32 tile = tiles.first(); tile < tiles.count; tile += tiles.stride()) {
        const u32 row = tiles.row(tile), column = tiles.column(tile), bytes = rows_bytes(row);
        const u8* rows = layer.x + chunk_offset(row, 0, layer.k_tiles);
        for (u32 k_tile = 0; k_tile < layer.k_tiles; k_tile++) {
            const u32 to = data + pipe.stage * Smem::STAGE_BYTES, here = full + pipe.stage * 8;
            if (prefetched > 0) {
                prefetched--;
            } else {
                mbarrier_wait(empty + pipe.stage * 8, pipe.parity);
                load_weight(column, bytes, k_tile, to, here);
            }
            if (BLOCKS == 1 || bytes) bulk_load(to, rows + (u64)k_tile * TILE_BYTES, bytes, here);
            pipe.advance();
        }
    }
}

// The stages, for a consumer warpgroup.
template <int CONSUMERS, int TILE_N, int STAGES, int BLOCKS>
struct ConsumerStages {
    typedef SmemLayout<CONSUMERS, TILE_N, STAGES> Smem;
    static constexpr u32 count = STAGES;
    u32 data, full, empty, group;

    __device__ __forceinline__ void wait(const PipelineState<STAGES>& state) const { mbarrier_wait(full + state.stage * 8, state.parity); }
    __device__ __forceinline__ u32 rows(u32 stage) const { return data + stage * Smem::STAGE_BYTES + group * (64 * 128); }
    __device__ __forceinline__ u32 columns(u32 stage) const { return data + stage * Smem::STAGE_BYTES + Smem::A_BYTES; }
    __device__ __forceinline__ void release(u32 stage) const { release_stage<BLOCKS>(empty + stage * 8); }
};

// The consumers: mainloop and epilogue of all of a block's tiles. Where registers suffice, the bias is loaded before the
// mainloop, which hides its latency.
template <int ELEMENT, int CONSUMERS, int TILE_N, int STAGES, int BLOCKS>
__device__ __forceinline__ void consumer(const LinearParams& layer, u32 data, u32 full, u32 empty, u32 buffer) {
    typedef SmemLayout<CONSUMERS, TILE_N, STAGES> Smem;
    const TileScheduler<Smem::TILE_M, TILE_N, BLOCKS> tiles(layer);
    typedef typename WgmmaFor<ELEMENT>::Type Wgmma;
    constexpr bool PRELOAD_BIAS = TILE_N > 128;
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    const ConsumerStages<CONSUMERS, TILE_N, STAGES, BLOCKS> stages = {data, full, empty, warp / 4};
    LinearParams unbiased = layer;
    if (PRELOAD_BIAS) unbiased.bias = nullptr;
    EpilogueStaging<Smem::STAGING> staging = {buffer, 0};
    PipelineState<STAGES> pipe = {0, 0};
    float sums[1][TILE_N / 2];
    float(&acc)[TILE_N / 2] = sums[0];
    for (u32 tile = tiles.first(); tile < tiles.count; tile += tiles.stride()) {
        float2 bias[PRELOAD_BIAS ? TILE_N / 8 : 1];
        if (PRELOAD_BIAS && layer.bias) {
            const float* from = layer.bias + tiles.column(tile) + lane % 4 * 2;
#pragma unroll
            for (u32 j = 0; j < TILE_N / 8; j++) bias[j] = *(const float2*)(from + 8 * j);
        }
        mainloop<Wgmma>(sums, pipe, layer.k_tiles, stages, [] {});
        const u32 row = tiles.row(tile);
        if (BLOCKS == 2 && row >= layer.rows) continue;
        if (PRELOAD_BIAS && layer.bias) {
#pragma unroll
            for (u32 i = 0; i < TILE_N / 2; i++) acc[i] += i % 2 ? bias[i / 4].y : bias[i / 4].x;
        }
        dispatch_epilogue<ELEMENT, TILE_N>(sums, unbiased, staging, row + warp * 16, tiles.column(tile));
    }
    if (lane == 0) bulk_store_wait_read<0>();
}

template <int ELEMENT, int CONSUMERS, int TILE_N, int STAGES, int BLOCKS = 1>
__device__ __forceinline__ void gemm_sm90(const LinearParams& layer) {
    typedef SmemLayout<CONSUMERS, TILE_N, STAGES> Smem;
    extern __shared__ __align__(1024) u8 shared[];
    griddepcontrol_launch_dependents();
    const u32 data = smem_address(shared), staging = data + STAGES * Smem::STAGE_BYTES;
    const u32 full = staging + 4 * CONSUMERS * Smem::STAGING * Smem::STAGING_BYTES, empty = full + STAGES * 8;
    if (threadIdx.x == 0) {
        for (u32 stage = 0; stage < STAGES; stage++) {
            mbarrier_init(full + stage * 8, 1);
            // One arrival per consumer warp.
            mbarrier_init(empty + stage * 8, 4 * CONSUMERS * BLOCKS);
        }
        fence_mbarrier_init();
    }
    if (BLOCKS == 2) cluster_sync();
    else __syncthreads();

    const u32 warp = threadIdx.x / 32, buffer = staging + warp * Smem::STAGING * Smem::STAGING_BYTES;
    if (warp >= 4 * CONSUMERS) {
        if (TILE_N > 128) setmaxnreg_dec<40>();
        if (threadIdx.x == 128 * CONSUMERS) producer<CONSUMERS, TILE_N, STAGES, BLOCKS>(layer, data, full, empty);
    } else {
        if (TILE_N > 128) setmaxnreg_inc<232>();
        consumer<ELEMENT, CONSUMERS, TILE_N, STAGES, BLOCKS>(layer, data, full, empty, buffer);
    }
    if (BLOCKS == 1) return;
    // The other block of the cluster may arrive at this one's barriers until it ends.
    __syncwarp();
    cluster_sync();
}

#else

template <int ELEMENT, int CONSUMERS, int TILE_N, int STAGES, int BLOCKS = 1>
__device__ __forceinline__ void gemm_sm90(const LinearParams& layer) {}

#endif
