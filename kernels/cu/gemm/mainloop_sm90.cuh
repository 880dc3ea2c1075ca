// The mainloop of products on Hopper: a consumer warpgroup multiplies k tiles, 128 bytes of each row and column, as they arrive in the stages of
// a pipeline. Linear layers, search, and products and convolutions of Tensor share it.
//
// STAGES_OF says where the stages are: `count`, how many; wait(state), until one has arrived; rows(stage) and columns(stage), the shared memory
// of the warpgroup's rows, GROUPS times 64, and of the columns; and release(stage), which lets the producer fill it again.
#pragma once
#include "common/wgmma.cuh"
#include "launch/pingpong.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// sums = rows * columns^T over all k tiles. Every sum adds its products in the order of k, a wgmma at a time. A stage is released one k tile
// later, once the wgmma that read it has completed. `issued` is called when all products have been issued.
template <typename Wgmma, int GROUPS, int COUNT, u32 STAGES, typename STAGES_OF, typename ISSUED>
__device__ __forceinline__ void mainloop(typename Wgmma::Sum (&sums)[GROUPS][COUNT], PipelineState<STAGES>& state, u32 k_tiles,
                                         const STAGES_OF& stages, const ISSUED& issued) {
    auto fence = [&]() {
#pragma unroll
        for (int group = 0; group < GROUPS; group++) fence_accumulators(sums[group]);
    };
    u32 previous = 0;
    for (u32 k_tile = 0; k_tile < k_tiles; k_tile++) {
        stages.wait(state);
        const u64 rows = smem_descriptor(stages.rows(state.stage)), columns = smem_descriptor(stages.columns(state.stage));
        fence();
        wgmma_fence();
#pragma unroll
        for (u32 part = 0; part < 4; part++) {
#pragma unroll
            for (int group = 0; group < GROUPS; group++) {
                Wgmma::mma(sums[group], rows + group * (64 * 128 >> 4) + part * 2, columns + part * 2, k_tile + part != 0);
            }
        }
        wgmma_commit();
        fence();
        if (k_tile > 0) {
            wgmma_wait<1>();
            stages.release(previous);
        }
        previous = state.stage;
        state.advance(stages.count);
    }
    issued();
    wgmma_wait<0>();
    fence();
    stages.release(previous);
}

// Releases a stage that BLOCKS blocks of a cluster fill; one lane of a warp for each.
template <u32 BLOCKS>
__device__ __forceinline__ void release_stage(u32 empty) {
    const u32 lane = threadIdx.x & 31;
    if (BLOCKS == 1 && lane == 0) mbarrier_arrive(empty);
    if (BLOCKS > 1 && lane < BLOCKS) mbarrier_arrive_cluster(empty, lane);
}

#endif

// Ping-pong: two consumer warpgroups alternate, as in CUTLASS's KernelTmaWarpSpecializedPingpong. Each computes every second tile, of 128 rows and
// 192 columns, so that the epilogue of one overlaps the mainloop of the other.
static_assert(PINGPONG_ROWS == 128 && PINGPONG_COLUMNS == 192, "the accumulators of a warpgroup, and the halves that blocks of a cluster load");
static_assert(PINGPONG_TERMS * 2 == 128, "128 bytes of each row and column");
static_assert(PINGPONG_THREADS == 3 * 128, "two consumer warpgroups and the producer's");

template <int STAGES, int BUFFERS = 1>
struct PingpongSmem {
    static constexpr u32 TILE_N = PINGPONG_COLUMNS, A_BYTES = PINGPONG_ROWS * 128, STAGE_BYTES = A_BYTES + TILE_N * 128;
    // Buffers of 16 rows of 128 bytes for each consumer warp.
    static constexpr u32 STAGING = 8 * BUFFERS * 2048, SHARED = STAGES * STAGE_BYTES + STAGING + STAGES * 16 + 16;
    static_assert(SHARED == pingpong_shared_bytes(STAGES, BUFFERS), "the launch allocates another size");
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Initialises the barriers, one thread: of STAGES stages that BLOCKS blocks share, and of the order of the warpgroups.
template <int STAGES, int BLOCKS>
__device__ __forceinline__ void init_pingpong_barriers(u32 full, u32 empty, u32 order) {
    for (u32 stage = 0; stage < STAGES; stage++) {
        mbarrier_init(full + stage * 8, 1);
        // One arrival per consumer warp of one warpgroup of all blocks.
        mbarrier_init(empty + stage * 8, 4 * BLOCKS);
    }
    mbarrier_init(order, 4);
    mbarrier_init(order + 8, 4);
}

// A consumer warpgroup's part. `order` holds one barrier per warpgroup that admits it to the mainloop. BLOCKS blocks share a stage.
template <int STAGES, int BLOCKS>
struct PingpongMainloop {
    typedef PingpongSmem<STAGES> Smem;
    static constexpr u32 count = STAGES;
    u32 data, full, empty, order, parity;
    PipelineState<STAGES> pipe;

    // The first warpgroup starts without waiting.
    __device__ __forceinline__ PingpongMainloop(u32 k_tiles, u32 data, u32 full, u32 empty, u32 order)
        : data(data), full(full), empty(empty), order(order), parity(group() ^ 1), pipe{0, 0} {
        if (group()) pipe.advance_by(k_tiles);
    }

    static __device__ __forceinline__ u32 group() { return threadIdx.x / 128; }

    __device__ __forceinline__ void wait(const PipelineState<STAGES>& state) const { mbarrier_wait(full + state.stage * 8, state.parity); }
    __device__ __forceinline__ u32 rows(u32 stage) const { return data + stage * Smem::STAGE_BYTES; }
    __device__ __forceinline__ u32 columns(u32 stage) const { return rows(stage) + Smem::A_BYTES; }
    __device__ __forceinline__ void release(u32 stage) const { release_stage<BLOCKS>(empty + stage * 8); }

    // Computes this warpgroup's next tile, then skips the stages of the other warpgroup's tile.
    template <typename Wgmma>
    __device__ __forceinline__ void run(float (&acc)[2][96], u32 k_tiles) {
        // A parity distinguishes only two rounds of a stage: no wait may start before the preceding round has arrived.
        mbarrier_wait(order + group() * 8, parity);
        parity ^= 1;
        mainloop<Wgmma>(acc, pipe, k_tiles, *this, [&]() {
            if ((threadIdx.x & 31) == 0) mbarrier_arrive(order + (group() ^ 1) * 8);
        });
        pipe.advance_by(k_tiles);
    }
};

#endif
