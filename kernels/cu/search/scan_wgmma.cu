// Scans for many queries on Hopper by wgmma; the kernels are empty on other devices. The defines are an instance's
// DTYPE (f16, bf16, i8) and its SCAN_FORMAT (F16, BF16, I8).

#include "search/scan_epilogue.cuh"
#include "gemm/mainloop_sm90.cuh"

// search_scan_wgmma_{format}_q{Q}: the contract is in scan_epilogue.cuh.
// Tile shape: 256 rows by Q queries, k tiles of 128 bytes. Warp-specialised and persistent: the producer warpgroup
// fills the stages of the pipeline by bulk copies, on into the next tile, and two consumer warpgroups multiply 128 rows
// each. In FILTER mode consumers only buffer the sums that may reach a threshold; a warp of the producer warpgroup
// evaluates them during the mainloop of the next tile.
// search_scan_wgmma_{format}_q128_cluster2: a cluster of two blocks has tiles of the same rows and 128 queries each.
// Each block multicasts half of the rows to both, so that rows are read from L2 once. The number of query tiles must be
// even.
//
//   dynamic shared memory: STAGE_ALIGNMENT + `stages` * wgmma_stage_bytes(Q) bytes, 2 to MAX_STAGES stages; WGMMA_THREADS threads, one block
//   per SM
#define PRODUCER_THREADS 128
static_assert(WGMMA_THREADS == PRODUCER_THREADS + 2 * 128, "two consumer warpgroups");
// Capacity of the candidate buffer per tile; consumers evaluate the excess themselves.
#define BUFFER_CAPACITY 256

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <int FORMAT>
struct Groups {
    typedef WgmmaBf16 Type;
};

template <>
struct Groups<F16> {
    typedef WgmmaF16 Type;
};

template <>
struct Groups<I8> {
    typedef WgmmaI8 Type;
};

// A pipeline of stages with full and empty barriers; in a cluster, a stage is empty once both blocks have released it.
struct Pipeline {
    u32 data, full, empty, count;

    __device__ __forceinline__ u32 full_at(u32 stage) const { return full + stage * 8; }
    __device__ __forceinline__ u32 empty_at(u32 stage) const { return empty + stage * 8; }
};

// A sum that may reach its query's threshold.
struct Candidate {
    float sum;
    u32 row, query;
};

// A double buffer of candidates; tiles alternate between the two.
struct CandidateBuffer {
    Candidate candidates[2][BUFFER_CAPACITY];
    u32 counts[2];
};

// The producer: fills stages by bulk copies; one thread.
template <int Q, u32 BLOCKS>
__device__ __forceinline__ void produce(const u8* __restrict__ corpus, const u8* __restrict__ queries,
    const Pipeline& pipeline, const ScanShape& shape) {
    constexpr u32 ROWS_BYTES = 2 * TILE_BYTES, QUERIES_BYTES = Q * 128;
    const u32 tiles = shape.row_tiles * shape.query_tiles;
    // All stages are empty: a wait for the parity preceding the first phase returns at once.
    PipelineState<> state = {0, 1};
    for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const u64 row_tile = (u64)(tile / shape.query_tiles) * shape.tile_stride, query_tile = tile % shape.query_tiles;
        const u8* upper = corpus + 2 * row_tile * shape.k_tiles * TILE_BYTES;
        const u8* lower = upper + (u64)shape.k_tiles * TILE_BYTES;
        const u8* query = queries + query_tile * shape.k_tiles * QUERIES_BYTES;
        for (u32 step = 0; step < shape.k_tiles; step++) {
            const u32 to = pipeline.data + state.stage * (ROWS_BYTES + QUERIES_BYTES),
                full = pipeline.full_at(state.stage);
            mbarrier_wait(pipeline.empty_at(state.stage), state.parity);
            mbarrier_arrive_expect_tx(full, ROWS_BYTES + QUERIES_BYTES);
            if (BLOCKS == 2 && blockIdx.x % 2 == 0) {
                bulk_load_multicast<2>(to, upper + (u64)step * TILE_BYTES, TILE_BYTES, full);
            } else if (BLOCKS == 2) {
                bulk_load_multicast<2>(to + TILE_BYTES, lower + (u64)step * TILE_BYTES, TILE_BYTES, full);
            } else {
                bulk_load(to, upper + (u64)step * TILE_BYTES, TILE_BYTES, full);
                bulk_load(to + TILE_BYTES, lower + (u64)step * TILE_BYTES, TILE_BYTES, full);
            }
            bulk_load(to + ROWS_BYTES, query + (u64)step * QUERIES_BYTES, QUERIES_BYTES, full);
            state.advance(pipeline.count);
        }
    }
}

// The stages, for a consumer warpgroup: 128 rows by Q queries.
template <int Q, u32 BLOCKS>
struct ConsumerStages {
    static constexpr u32 ROWS_BYTES = 2 * TILE_BYTES, STAGE_BYTES = ROWS_BYTES + Q * 128;
    static_assert(STAGE_BYTES == wgmma_stage_bytes(Q), "the launch allocates another size");
    const Pipeline& pipeline;
    u32 count, group;

    __device__ __forceinline__ void wait(const PipelineState<>& state) const { mbarrier_wait(pipeline.full_at(state.stage), state.parity); }
    __device__ __forceinline__ u32 rows(u32 stage) const { return pipeline.data + stage * STAGE_BYTES + group * TILE_BYTES; }
    __device__ __forceinline__ u32 columns(u32 stage) const { return pipeline.data + stage * STAGE_BYTES + ROWS_BYTES; }
    __device__ __forceinline__ void release(u32 stage) const { release_stage<BLOCKS>(pipeline.empty_at(stage)); }
};

// Calls `keep` with the buffered candidates, tile after tile; one warp.
template <typename Keep>
__device__ __forceinline__ void drain_candidates(
    CandidateBuffer& buffer, const Pipeline& lists, const ScanShape& shape, const Keep& keep) {
    const u32 lane = threadIdx.x & 31;
    PipelineState<> state = {0, 0};
    for (u32 tile = blockIdx.x; tile < shape.row_tiles * shape.query_tiles; tile += gridDim.x) {
        mbarrier_wait(lists.full_at(state.stage), state.parity);
        const u32 count = min(buffer.counts[state.stage], BUFFER_CAPACITY);
        for (u32 at = lane; at < count; at += 32) {
            const Candidate one = buffer.candidates[state.stage][at];
            keep(one.sum, one.row, one.query);
        }
        __syncwarp();
        if (lane == 0) buffer.counts[state.stage] = 0;
        mbarrier_arrive(lists.empty_at(state.stage));
        state.advance(2);
    }
}

template <int FORMAT, int Q, u32 BLOCKS>
__device__ __forceinline__ void scan_wgmma(SCAN_PARAMS, u32 stages) {
    typedef typename Groups<FORMAT>::Type Group;
    extern __shared__ u8 unaligned[];
    __shared__ __align__(8) u64 barriers[2 * MAX_STAGES + 4];
    __shared__ CandidateBuffer buffer;
    static_assert(sizeof(barriers) + sizeof(buffer) <= BUFFER_BYTES, "the launch leaves less");

    const u32 data = (smem_address(unaligned) + STAGE_ALIGNMENT - 1) & ~(STAGE_ALIGNMENT - 1), full = smem_address(barriers);
    const Pipeline pipeline = {data, full, full + MAX_STAGES * 8, stages};
    const Pipeline lists = {0, full + 2 * MAX_STAGES * 8, full + (2 * MAX_STAGES + 2) * 8, 2};
    if (threadIdx.x == 0) {
        for (u32 list = 0; list < 2; list++) {
            buffer.counts[list] = 0;
            // One arrival per consumer thread, and per thread of the draining warp.
            mbarrier_init(lists.full_at(list), 256);
            mbarrier_init(lists.empty_at(list), 32);
        }
        for (u32 stage = 0; stage < stages; stage++) {
            mbarrier_init(pipeline.full_at(stage), 1);
            // One arrival per consumer warp.
            mbarrier_init(pipeline.empty_at(stage), 8 * BLOCKS);
        }
        fence_mbarrier_init();
    }
    if (BLOCKS == 2) cluster_sync();
    else __syncthreads();

    auto keep = [&](float sum, u32 row, u32 query) {
        append_candidate(sum, row, query, rows, query_meta, params, deleted, masks, candidate_counts, candidates,
            shape);
    };
    if (threadIdx.x < PRODUCER_THREADS) {
        setmaxnreg_dec<40>();
        if (threadIdx.x == 0) produce<Q, BLOCKS>(corpus, queries, pipeline, shape);
        if (threadIdx.x / 32 == 1 && shape.mode == FILTER) drain_candidates(buffer, lists, shape, keep);
    } else {
        setmaxnreg_inc<232>();
        const u32 group = threadIdx.x / 128 - 1, warp = threadIdx.x / 32 % 4, lane = threadIdx.x & 31;
        const u32 down = group * 128 + warp * 16 + lane / 4;
        PipelineState<> state = {0, 0}, list = {0, 1};
        const ConsumerStages<Q, BLOCKS> consumed = {pipeline, stages, group};
        typename Group::Sum sums[2][Q / 2];
        for (u32 tile = blockIdx.x; tile < shape.row_tiles * shape.query_tiles; tile += gridDim.x) {
            const u32 row_tile = tile / shape.query_tiles, query_tile = tile % shape.query_tiles;
            const FragmentOrigin origin = {row_tile * shape.tile_stride * 256 + down, row_tile * 256 + down,
                query_tile * Q + lane % 4 * 2};
            // These loads overlap the mainloop.
            const float2 largest = tile_max[origin.row / TILE_ROWS];
            const RowScales<2> scales = load_row_scales<2, 64>(origin, rows, shape);
            mainloop<Group>(sums, state, shape.k_tiles, consumed, [] {});
            if (shape.mode == FILTER) {
                mbarrier_wait(lists.empty_at(list.stage), list.parity);
                auto list_or_keep = [&](float sum, u32 row, u32 query) {
                    const u32 to = atomicAdd(&buffer.counts[list.stage], 1);
                    if (to < BUFFER_CAPACITY) buffer.candidates[list.stage][to] = {sum, row, query};
                    else keep(sum, row, query);
                };
                filter_tile<2, Q / 8, 64>(sums, origin, largest, scales, query_meta, shape, list_or_keep);
                __syncwarp();
                mbarrier_arrive(lists.full_at(list.stage));
                list.advance(2);
            } else if (shape.mode == SAMPLE) {
                sample_tile<2, Q / 8, 64>(sums, origin, rows, query_meta, params, deleted, masks, lower_bounds, shape);
            } else {
                store_tile<2, Q / 8, 64>(sums, origin, rows, query_meta, params, deleted, masks, upper_bounds,
                    lower_bounds, shape);
            }
        }
    }
    if (BLOCKS == 1) return;
    // The other block may arrive at this block's barriers until both are done.
    __syncwarp();
    cluster_sync();
}

#else

template <int FORMAT, int Q, u32 BLOCKS>
__device__ __forceinline__ void scan_wgmma(SCAN_PARAMS, u32 stages) {}

#endif

extern "C" __global__ void __launch_bounds__(WGMMA_THREADS, 1)
    KERNEL_NAME(search_scan_wgmma_, DTYPE, _q16)(SCAN_PARAMS, u32 stages) {
    scan_wgmma<SCAN_FORMAT, 16, 1>(SCAN_ARGS, stages);
}

extern "C" __global__ void __launch_bounds__(WGMMA_THREADS, 1)
    KERNEL_NAME(search_scan_wgmma_, DTYPE, _q128)(SCAN_PARAMS, u32 stages) {
    scan_wgmma<SCAN_FORMAT, 128, 1>(SCAN_ARGS, stages);
}

extern "C" __global__ void CLUSTER_OF(2) __launch_bounds__(WGMMA_THREADS, 1)
    KERNEL_NAME(search_scan_wgmma_, DTYPE, _q128_cluster2)(SCAN_PARAMS, u32 stages) {
    scan_wgmma<SCAN_FORMAT, 128, 2>(SCAN_ARGS, stages);
}
