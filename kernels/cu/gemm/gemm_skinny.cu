// GEMM for linear layers with few rows on Hopper. On other devices the kernels are empty.

#include "gemm/gemm_sm90.cuh"
#include "launch/gemm_skinny.cuh"

// gemm_skinny_{dtype}_{N}: a linear layer (see linear.cuh) with so few rows that latency dominates: of the weights from memory,
// and of the preceding grid. A block computes one tile of 64 rows by N columns, a divisor of the layer's
// columns; a gated layer takes no 8 or 24. A warpgroup copies all weights of its columns before it waits for the preceding grid;
// then one warp copies the rows, STAGE_K_TILES k tiles a stage, and the warpgroup multiplies stage by stage: issuing narrow
// wgmmas takes longer than computing them, so a stage issues many. Products are added in the order of the other GEMM kernels,
// 16 at a time: the bits are equal, which tests verify.
//   stages: at most MAX_STAGES
//   grid: tiles; SKINNY_THREADS threads
//   dynamic shared memory: barriers, BARRIER_BYTES; weights, k_tiles * N * 128; stages, each STAGE_K_TILES * 128 bytes of each
//   row, rows rounded up to a multiple of 8; and a tail that completes 64 rows of the last k tile
static_assert(SKINNY_ROWS == 64, "the rows of a wgmma");
static_assert(SKINNY_THREADS == 128 + 32, "a consumer warpgroup and the producer");

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// A block's tile and its shared-memory layout.
struct SkinnyTile {
    u32 row, column, stages;
    u32 full, empty, weights, rows;
    // Bytes of a k tile of the rows: in shared memory, and loaded.
    u32 stride, bytes;

    __device__ __forceinline__ SkinnyTile(const LinearParams& layer, u32 columns, u32 stages, u32 shared) : stages(stages) {
        const u32 n_tiles = layer.columns / columns;
        row = blockIdx.x / n_tiles * SKINNY_ROWS;
        column = blockIdx.x % n_tiles * columns;
        full = shared;
        empty = full + MAX_STAGES * 8;
        weights = shared + BARRIER_BYTES;
        rows = weights + skinny_weight_bytes(layer.k_tiles, columns);
        // Rows past the end are not loaded; accumulators of stale shared memory are never stored.
        stride = skinny_k_tile_bytes(min(layer.rows, SKINNY_ROWS));
        bytes = skinny_k_tile_bytes(min(layer.rows - row, SKINNY_ROWS));
    }
};

// The producer, one warp: loads the rows once the preceding grid has completed.
__device__ __forceinline__ void skinny_producer(const LinearParams& layer, const SkinnyTile& at) {
    const u8* rows = layer.x + chunk_offset(at.row, 0, layer.k_tiles);
    const u32 lane = threadIdx.x & 31, first = min(layer.k_tiles, at.stages * STAGE_K_TILES);
    auto fetch = [&](u32 k_tile, u32 stage) {
        const u32 to = at.rows + (stage * STAGE_K_TILES + k_tile % STAGE_K_TILES) * at.stride;
        bulk_load(to, rows + (u64)k_tile * TILE_BYTES, at.bytes, at.full + stage * 8);
    };
    auto expect = [&](u32 k_tile, u32 stage) {
        mbarrier_arrive_expect_tx(at.full + stage * 8, min(layer.k_tiles - k_tile, STAGE_K_TILES) * at.bytes);
    };
    for (u32 k_tile = lane * STAGE_K_TILES; k_tile < first; k_tile += 32 * STAGE_K_TILES) expect(k_tile, k_tile / STAGE_K_TILES);
    __syncwarp();
    griddepcontrol_wait();
    for (u32 k_tile = lane; k_tile < first; k_tile += 32) fetch(k_tile, k_tile / STAGE_K_TILES);
    if (lane >= STAGE_K_TILES) return;
    PipelineState<> pipe = {0, 0};
    for (u32 k_tile = first; k_tile < layer.k_tiles; k_tile += STAGE_K_TILES) {
        if (lane == 0) {
            mbarrier_wait(at.empty + pipe.stage * 8, pipe.parity);
            expect(k_tile, pipe.stage);
        }
        __syncwarp((1 << STAGE_K_TILES) - 1);
        if (k_tile + lane < layer.k_tiles) fetch(k_tile + lane, pipe.stage);
        pipe.advance(at.stages);
    }
}

// Loads all weights of a block's columns and waits for them; one warpgroup.
template <int TILE_N>
__device__ __forceinline__ void load_weights(const LinearParams& layer, const SkinnyTile& at) {
    constexpr u32 CHUNKS = TILE_N * 8;
#pragma unroll 4
    for (u32 i = threadIdx.x; i < layer.k_tiles * CHUNKS; i += 128) {
        const u32 k_tile = i / CHUNKS, chunk = i % CHUNKS, column = at.column + chunk / 8;
        const u64 from = ((u64)(column / TILE_ROWS) * layer.k_tiles + k_tile) * TILE_BYTES + column % TILE_ROWS * 128;
        cp_async(at.weights + i * 16, layer.weight + from + chunk % 8 * 16);
    }
    cp_async_commit();
    cp_async_wait<0>();
    fence_proxy_async();
    asm volatile("bar.sync 1, 128;" ::: "memory");
}

// The mainloop of the consumer warpgroup.
template <int ELEMENT, int TILE_N>
__device__ __forceinline__ void skinny_mainloop(float (&acc)[TILE_N / 2], const LinearParams& layer, const SkinnyTile& at) {
    u64 weights = smem_descriptor(at.weights);
    // Multiplies the k tile at offset `k_tile`.
    auto multiply_k_tile = [&](u64 rows, u32 k_tile) {
        const u64 from = rows + k_tile * (at.stride >> 4), by = weights + k_tile * (TILE_N * 8);
#pragma unroll
        for (u32 part = 0; part < 4; part++) WgmmaFor<ELEMENT>::Type::mma(acc, from + part * 2, by + part * 2, 1);
    };
    PipelineState<> pipe = {0, 0};
    auto wait_full = [&] {
        mbarrier_wait(at.full + pipe.stage * 8, pipe.parity);
        return smem_descriptor(at.rows + pipe.stage * STAGE_K_TILES * at.stride);
    };
    u32 previous = 0;
    for (u32 k_tile = 0; k_tile + STAGE_K_TILES <= layer.k_tiles; k_tile += STAGE_K_TILES) {
        const u64 rows = wait_full();
        fence_accumulators(acc);
        wgmma_fence();
#pragma unroll
        for (u32 i = 0; i < STAGE_K_TILES; i++) multiply_k_tile(rows, i);
        wgmma_commit();
        fence_accumulators(acc);
        wgmma_wait<1>();
        if (k_tile > 0 && threadIdx.x % 32 == 0) mbarrier_arrive(at.empty + previous * 8);
        weights += STAGE_K_TILES * TILE_N * 8;
        previous = pipe.stage;
        pipe.advance(at.stages);
    }
    wgmma_wait<0>();
    fence_accumulators(acc);
    if (layer.k_tiles % STAGE_K_TILES == 0) return;
    // The last stage is partial.
    const u64 rows = wait_full();
#pragma unroll 1
    for (u32 i = 0; i < layer.k_tiles % STAGE_K_TILES; i++) {
        wgmma_fence();
        multiply_k_tile(rows, i);
        wgmma_commit();
        wgmma_wait<0>();
        fence_accumulators(acc);
    }
}

// The consumer warpgroup. A preceding grid may still read `out`; the rows arrive only once it has completed, so the epilogue
// needs no further wait.
template <int ELEMENT, int TILE_N>
__device__ __forceinline__ void skinny_consumer(const LinearParams& layer, const SkinnyTile& at) {
    // The bias belongs to the weights: it is loaded before the rows arrive.
    float2 bias[TILE_N / 8] = {};
    if (layer.bias) {
#pragma unroll
        for (int j = 0; j < TILE_N / 8; j++) {
            bias[j] = *(const float2*)(layer.bias + at.column + threadIdx.x % 4 * 2 + 8 * j);
        }
    }
    load_weights<TILE_N>(layer, at);
    float sums[1][TILE_N / 2] = {};
    float(&acc)[TILE_N / 2] = sums[0];
    skinny_mainloop<ELEMENT, TILE_N>(acc, layer, at);
    const u32 row = at.row + threadIdx.x / 32 * 16;
    if (row >= layer.rows) return;
#pragma unroll
    for (int i = 0; i < TILE_N / 2; i++) acc[i] += i % 2 ? bias[i / 4].y : bias[i / 4].x;
    LinearParams unbiased = layer;
    unbiased.bias = nullptr;
    EpilogueStaging<0> none = {};
    dispatch_epilogue<ELEMENT, TILE_N>(sums, unbiased, none, row, at.column);
}

template <int ELEMENT, int TILE_N>
__device__ __forceinline__ void gemm_skinny(const LinearParams& layer, u32 stages) {
    extern __shared__ __align__(1024) u8 shared[];
    griddepcontrol_launch_dependents();
    const SkinnyTile at(layer, TILE_N, stages, smem_address(shared));
    if (threadIdx.x == 128) {
        for (u32 stage = 0; stage < stages; stage++) {
            mbarrier_init(at.full + stage * 8, 1);
            // One arrival per consumer warp.
            mbarrier_init(at.empty + stage * 8, 4);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x < 128) skinny_consumer<ELEMENT, TILE_N>(layer, at);
    else skinny_producer(layer, at);
}

#else

template <int ELEMENT, int TILE_N>
__device__ __forceinline__ void gemm_skinny(const LinearParams& layer, u32 stages) {}

#endif

#define GEMM_SKINNY_INSTANCE(shape)                                                                                                        \
    extern "C" __global__ void __launch_bounds__(SKINNY_THREADS)                                                                           \
    INSTANCE(gemm_skinny, shape)(const __grid_constant__ LinearParams layer, u32 stages) {                                                 \
        gemm_skinny<ELEMENT_TYPE, GEMM_SKINNY_##shape##_columns>(layer, stages);                                                           \
    }

GEMM_SKINNY(GEMM_SKINNY_INSTANCE)
