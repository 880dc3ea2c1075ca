// Ping-pong GEMM for linear layers on Hopper. On other devices the kernels are empty.

#pragma once
#include "gemm/gemm_sm90.cuh"

// gemm_pingpong_{dtype}_128x192: a linear layer (see linear.cuh) that is not gated, with columns in multiples of 192. It gives
// the same bits as gemm_sm90.cuh.
// A block processes 128 x 192 tiles. The producer warp loads k tiles into shared memory; two consumer warpgroups each compute
// every second tile, so that the epilogue of one overlaps the mainloop of the other. Blocks 2 i and 2 i + 1 form a cluster with
// consecutive row tiles of the same columns; each multicasts half of the weight to both.
//   PINGPONG_THREADS threads, one block a multiprocessor, an even number of blocks; dynamic shared memory: SHARED bytes
#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Multicasts `count` rows of the weight, within one of its tiles, to both blocks.
__device__ __forceinline__ void load_weight_multicast(const LinearParams& layer, u32 to, u32 row, u32 count, u32 k_tile, u32 barrier) {
    bulk_load_multicast<2>(to, layer.weight + chunk_offset(row, 0, layer.k_tiles) + (u64)k_tile * TILE_BYTES, count * 128, barrier);
}

// The producer, one thread: loads the k tiles of all of a block's tiles. The weights of the first stages are loaded before the
// preceding grid has completed.
template <int STAGES>
__device__ __forceinline__ void pingpong_producer(const LinearParams& layer, u32 data, u32 full, u32 empty) {
    typedef PingpongSmem<STAGES> Smem;
    const TileScheduler<PINGPONG_ROWS, PINGPONG_COLUMNS, 2> tiles(layer);
    auto rows_bytes = [&](u32 row) { return row < layer.rows ? min((layer.rows - row + 7) / 8 * 8, 128) * 128 : 0; };
    auto load_weight = [&](u32 column, u32 bytes, u32 k_tile, u32 to, u32 here) {
        const u32 weight = to + Smem::A_BYTES;
        mbarrier_arrive_expect_tx(here, bytes + Smem::TILE_N * 128);
        if (blockIdx.x % 2 == 0) {
            load_weight_multicast(layer, weight, column, 64, k_tile, here);
            load_weight_multicast(layer, weight + 64 * 128, column + 64, 32, k_tile, here);
        } else {
            load_weight_multicast(layer, weight + 96 * 128, column + 96, 32, k_tile, here);
            load_weight_multicast(layer, weight + 128 * 128, column + 128, 64, k_tile, here);
        }
    };
    u32 prefetched = min(layer.k_tiles, (u32)STAGES);
    const u32 first_column = tiles.column(tiles.first()), first_bytes = rows_bytes(tiles.row(tiles.first()));
    for (u32 k_tile = 0; k_tile < prefetched; k_tile++) {
        load_weight(first_column, first_bytes, k_tile, data + k_tile * Smem::STAGE_BYTES, full + k_tile * 8);
    }
    griddepcontrol_wait();
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
            if (bytes) bulk_load(to, rows + (u64)k_tile * TILE_BYTES, bytes, here);
            pipe.advance();
        }
    }
}

// Prefetches 128 bytes into the L1 cache.
__device__ __forceinline__ void prefetch_l1(const float* from) { asm volatile("prefetch.global.L1 [%0];" ::"l"(from)); }

// The epilogue, 64 columns of a warp's 16 rows at a time.
template <int ELEMENT, int ACTIVATION>
__device__ __forceinline__ void pingpong_epilogue(float (&acc)[2][96], const LinearParams& layer, EpilogueStaging<1>& staging, u32 row, u32 column) {
    constexpr int OUT = ACTIVATION == CLAMP_F16 ? F16 : ELEMENT;
#pragma unroll
    for (int half = 0; half < 2; half++) {
#pragma unroll
        for (int subtile = 0; subtile < 3; subtile++) {
            float(&part)[32] = *(float(*)[32])(acc[half] + 32 * subtile);
            apply_epilogue<OUT, ACTIVATION, false>(part, layer.bias, column + 64 * subtile + threadIdx.x % 4 * 2);
            staging.write<OUT, 8>(part, layer, row + 64 * half, column + 64 * subtile);
        }
    }
}

template <int ELEMENT>
__device__ __forceinline__ void dispatch_pingpong_epilogue(float (&acc)[2][96], const LinearParams& layer, EpilogueStaging<1>& staging, u32 row,
                                               u32 column) {
    if (layer.activation == PLAIN) pingpong_epilogue<ELEMENT, PLAIN>(acc, layer, staging, row, column);
    else if (layer.activation == GELU) pingpong_epilogue<ELEMENT, GELU>(acc, layer, staging, row, column);
    else if (layer.activation == GELU_TANH) pingpong_epilogue<ELEMENT, GELU_TANH>(acc, layer, staging, row, column);
    else if (layer.activation == RELU) pingpong_epilogue<ELEMENT, RELU>(acc, layer, staging, row, column);
    else if (ELEMENT == F16 || layer.activation == SILU) pingpong_epilogue<ELEMENT, SILU>(acc, layer, staging, row, column);
    else pingpong_epilogue<ELEMENT, CLAMP_F16>(acc, layer, staging, row, column);
}

// A consumer warpgroup: mainloop and epilogue of every second tile.
template <int ELEMENT, int STAGES>
__device__ __forceinline__ void pingpong_consumer(const LinearParams& layer, u32 data, u32 full, u32 empty, u32 order, u32 buffer) {
    typedef PingpongSmem<STAGES> Smem;
    typedef typename WgmmaFor<ELEMENT>::Type Wgmma;
    const u32 warp = threadIdx.x / 32 % 4;
    const TileScheduler<PINGPONG_ROWS, PINGPONG_COLUMNS, 2> tiles(layer);
    EpilogueStaging<1> staging = {buffer, 0};
    PingpongMainloop<STAGES, 2> mainloop(layer.k_tiles, data, full, empty, order);
    float acc[2][96];
    for (u32 tile = tiles.first() + mainloop.group() * tiles.stride(); tile < tiles.count; tile += 2 * tiles.stride()) {
        // No registers are left to hold the bias; the prefetch hides its latency.
        if (layer.bias && threadIdx.x % 128 < Smem::TILE_N / 32) prefetch_l1(layer.bias + tiles.column(tile) + threadIdx.x % 128 * 32);
        mainloop.template run<Wgmma>(acc, layer.k_tiles);
        const u32 row = tiles.row(tile);
        if (row < layer.rows) dispatch_pingpong_epilogue<ELEMENT>(acc, layer, staging, row + warp * 16, tiles.column(tile));
    }
    if ((threadIdx.x & 31) == 0) bulk_store_wait_read<0>();
}

template <int ELEMENT, int STAGES>
__device__ __forceinline__ void gemm_pingpong(const LinearParams& layer) {
    typedef PingpongSmem<STAGES> Smem;
    extern __shared__ __align__(1024) u8 shared[];
    griddepcontrol_launch_dependents();
    const u32 data = smem_address(shared), staging = data + STAGES * Smem::STAGE_BYTES;
    const u32 full = staging + Smem::STAGING, empty = full + STAGES * 8, order = empty + STAGES * 8, warp = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        init_pingpong_barriers<STAGES, 2>(full, empty, order);
        fence_mbarrier_init();
    }
    cluster_sync();
    if (warp >= 8) {
        setmaxnreg_dec<24>();
        if (threadIdx.x == 256) pingpong_producer<STAGES>(layer, data, full, empty);
    } else {
        setmaxnreg_inc<240>();
        pingpong_consumer<ELEMENT, STAGES>(layer, data, full, empty, order, staging + warp * 2048);
    }
    // The other block of the cluster may arrive at this one's barriers until it ends.
    __syncwarp();
    cluster_sync();
}

#else

template <int ELEMENT, int STAGES>
__device__ __forceinline__ void gemm_pingpong(const LinearParams& layer) {}

#endif
