// A product on Hopper whose operands are loaded by tensor maps: the mainloop of gemm/mainloop_sm90.cuh, and what a problem adds.
//
// PROBLEM is a matrix product of tiles of 128 rows by 192 columns. The two blocks of a cluster have a tile each of a pair, which share one
// operand. It has STAGES of k tiles and BUFFERS for results of each warp, of 2 KiB; k_tiles and pairs, their numbers; Wgmma; start(pair), which the
// producer calls before it loads the k tiles of a pair; load(to, k_tile, barrier), which starts to load STAGE_BYTES to this block, some of them by
// way of the other block's multicasts; and write(sums, pair, buffers), the epilogue of a warpgroup.
//   384 threads, one block a multiprocessor, an even number of blocks; dynamic shared memory: SHARED bytes of PingpongSmem
#pragma once
#include "common/tma.cuh"
#include "gemm/mainloop_sm90.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// The address of 16 bytes of a staging buffer of 16 rows.
__device__ __forceinline__ u32 staged(u32 buffer, u32 row, u32 chunk) { return buffer + row * 128 + ((chunk ^ row % 8) << 4); }

// The staging buffers of a warp, used in turn.
template <int BUFFERS>
struct ResultStaging {
    u32 first, index;

    // Stages 64 columns of the warp's 16 rows once an earlier bulk store has read the buffer, which it returns. `finish(at, right, half)` is the
    // pair of 16-bit elements, the first in the low half, of sums `at` and the next: columns `right` and the next of row lane / 4 + 8 half.
    template <typename FINISH>
    __device__ __forceinline__ u32 stage(const FINISH& finish) {
        const u32 lane = threadIdx.x % 32, buffer = first + index * 2048;
        if (BUFFERS > 1) index ^= 1;
        if (lane == 0) bulk_store_wait_read<BUFFERS - 1>();
        __syncwarp();
#pragma unroll
        for (u32 j = 0; j < 8; j += 2) {
            u32 words[4];
#pragma unroll
            for (u32 i = 0; i < 4; i++) words[i] = finish(4 * j + 2 * i, 8 * (j + i / 2) + lane % 4 * 2, i % 2);
            stmatrix_x4(staged(buffer, lane % 16, j + lane / 16), words[0], words[1], words[2], words[3]);
        }
        return buffer;
    }
};

// The producer, one thread.
template <typename PROBLEM>
__device__ __forceinline__ void pingpong_produce(PROBLEM& problem, u32 data, u32 full, u32 empty) {
    constexpr int STAGES = PROBLEM::STAGES;
    typedef PingpongSmem<STAGES> Smem;
    // Waiting for the parity before the first round returns at once: all stages are empty.
    PipelineState<STAGES> pipe = {0, 1};
    for (u32 pair = blockIdx.x / 2; pair < problem.pairs; pair += gridDim.x / 2) {
        problem.start(pair);
        for (u32 k_tile = 0; k_tile < problem.k_tiles; k_tile++) {
            const u32 here = full + pipe.stage * 8;
            mbarrier_wait(empty + pipe.stage * 8, pipe.parity);
            mbarrier_arrive_expect_tx(here, Smem::STAGE_BYTES);
            problem.load(data + pipe.stage * Smem::STAGE_BYTES, k_tile, here);
            pipe.advance();
        }
    }
}

template <typename PROBLEM>
__device__ __forceinline__ void pingpong_consume(PROBLEM& problem, u32 data, u32 full, u32 empty, u32 order, u32 buffers) {
    PingpongMainloop<PROBLEM::STAGES, 2> mainloop(problem.k_tiles, data, full, empty, order);
    const u32 stride = gridDim.x / 2;
    float sums[2][96];
    ResultStaging<PROBLEM::BUFFERS> staging = {buffers, 0};
    for (u32 pair = blockIdx.x / 2 + mainloop.group() * stride; pair < problem.pairs; pair += 2 * stride) {
        mainloop.template run<typename PROBLEM::Wgmma>(sums, problem.k_tiles);
        problem.write(sums, pair, staging);
    }
    if (threadIdx.x % 32 == 0) bulk_store_wait_read<0>();
}

template <typename PROBLEM>
__device__ __forceinline__ void pingpong(PROBLEM problem) {
    constexpr int STAGES = PROBLEM::STAGES;
    typedef PingpongSmem<STAGES, PROBLEM::BUFFERS> Smem;
    extern __shared__ __align__(1024) u8 shared[];
    const u32 data = smem_address(shared), staging = data + STAGES * Smem::STAGE_BYTES;
    const u32 full = staging + Smem::STAGING, empty = full + STAGES * 8, order = empty + STAGES * 8;
    const u32 warp = threadIdx.x / 32;
    griddepcontrol_launch_dependents();
    if (threadIdx.x == 0) {
        init_pingpong_barriers<STAGES, 2>(full, empty, order);
        fence_mbarrier_init();
    }
    cluster_sync();
    griddepcontrol_wait();
    if (warp >= 8) {
        setmaxnreg_dec<24>();
        if (threadIdx.x == 256) pingpong_produce(problem, data, full, empty);
    } else {
        setmaxnreg_inc<240>();
        pingpong_consume(problem, data, full, empty, order, staging + warp * (PROBLEM::BUFFERS * 2048));
    }
    // The other block of the cluster may arrive at this one's barriers until it ends.
    __syncwarp();
    cluster_sync();
}

// A sum as an element in memory, as OPERANDS stores it at an index.
template <typename OPERANDS>
__device__ __forceinline__ u32 stored(float sum, i64 index) {
    typename OPERANDS::Element element;
    OPERANDS::store(OPERANDS::narrow(sum), index, element);
    return element;
}

#endif
