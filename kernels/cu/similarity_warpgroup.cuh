// Scans for many queries on Hopper's tensor cores. On other devices the kernels are empty.

#pragma once
#include "similarity_tile.cuh"
#include "wgmma.cuh"

// similarity_warpgroup_{format}_{Q}: see similarity_tile.cuh for what they take and give.
// A block multiplies 256 rows with Q queries at a time, 128 bytes of each per step. Of its three warpgroups the first copies
// steps to shared memory as fast as stages come free, on into the next tile; the others multiply 128 rows each. What may
// reach a floor they only list: a warp of the first looks at it while they multiply the next tile.
// similarity_warpgroup_{format}_pair: blocks 2 i and 2 i + 1 have tiles of the same rows, 128 queries each, and each copies
// half of the rows to both, so that they come from the level 2 cache once. The number of query tiles is even.
//
//   dynamic shared memory: 1024 + `stages` * (32768 + 128 Q) bytes, 2 to 16 stages; 384 threads, one block a multiprocessor
#define MOST_STAGES 16
#define PRODUCERS 128
// Sums of a tile that are listed; where there are more, those who found them look at them at once.
#define MOST_CAUGHT 256

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <int FORMAT>
struct Groups {
    typedef Bf16Group Type;
};

template <>
struct Groups<F16> {
    typedef F16Group Type;
};

template <>
struct Groups<I8> {
    typedef I8Group Type;
};

// A ring of stages: each is filled, then used, then free again; in a pair, once both blocks have used it.
struct Ring {
    u32 data, full, free, count;

    __device__ __forceinline__ u32 full_at(u32 stage) const { return full + stage * 8; }
    __device__ __forceinline__ u32 free_at(u32 stage) const { return free + stage * 8; }

    // Says that this warp has used a stage.
    template <u32 BLOCKS>
    __device__ __forceinline__ void used(u32 stage) const {
        const u32 lane = threadIdx.x & 31;
        if (BLOCKS == 1 && lane == 0) barrier_arrive(free_at(stage));
        if (BLOCKS == 2 && lane < 2) barrier_arrive_in(free_at(stage), lane);
    }
};

// A sum that may reach the floor of its query.
struct Caught {
    float sum;
    u32 row, query;
};

// Two lists that tiles fill in turn.
struct Net {
    Caught caught[2][MOST_CAUGHT];
    u32 counts[2];
};

// Fills stages; one thread.
template <int Q, u32 BLOCKS>
__device__ __forceinline__ void fill(const u8* __restrict__ corpus, const u8* __restrict__ queries, const Ring& ring,
    const Shape& shape) {
    constexpr u32 ROWS_BYTES = 2 * TILE_BYTES, QUERIES_BYTES = Q * 128;
    const u32 tiles = shape.row_tiles * shape.query_tiles;
    // A wait for the parity before the first round ends at once: all stages are free.
    Turn<> turn = {0, 1};
    for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const u64 row_tile = (u64)(tile / shape.query_tiles) * shape.apart, query_tile = tile % shape.query_tiles;
        const u8* upper = corpus + 2 * row_tile * shape.steps * TILE_BYTES;
        const u8* lower = upper + (u64)shape.steps * TILE_BYTES;
        const u8* query = queries + query_tile * shape.steps * QUERIES_BYTES;
        for (u32 step = 0; step < shape.steps; step++) {
            const u32 to = ring.data + turn.stage * (ROWS_BYTES + QUERIES_BYTES), full = ring.full_at(turn.stage);
            barrier_wait(ring.free_at(turn.stage), turn.parity);
            barrier_expect(full, ROWS_BYTES + QUERIES_BYTES);
            if (BLOCKS == 2 && blockIdx.x % 2 == 0) {
                copy_bulk_to_all<2>(to, upper + (u64)step * TILE_BYTES, TILE_BYTES, full);
            } else if (BLOCKS == 2) {
                copy_bulk_to_all<2>(to + TILE_BYTES, lower + (u64)step * TILE_BYTES, TILE_BYTES, full);
            } else {
                copy_bulk(to, upper + (u64)step * TILE_BYTES, TILE_BYTES, full);
                copy_bulk(to + TILE_BYTES, lower + (u64)step * TILE_BYTES, TILE_BYTES, full);
            }
            copy_bulk(to + ROWS_BYTES, query + (u64)step * QUERIES_BYTES, QUERIES_BYTES, full);
            turn.next(ring.count);
        }
    }
}

// Multiplies the 128 rows of one warpgroup with Q queries, step after step; a stage is given back once the products that
// read it are done, one step later.
template <typename Group, int Q, u32 BLOCKS>
__device__ __forceinline__ void multiply(
    typename Group::Sum (&sums)[2][Q / 2], const Ring& ring, Turn<>& turn, u32 group, u32 steps) {
    constexpr u32 ROWS_BYTES = 2 * TILE_BYTES, STAGE_BYTES = ROWS_BYTES + Q * 128;
    u32 before = 0;
    for (u32 step = 0; step < steps; step++) {
        barrier_wait(ring.full_at(turn.stage), turn.parity);
        const u32 stage = ring.data + turn.stage * STAGE_BYTES;
        const u64 rows = matrix_at(stage + group * TILE_BYTES), queries = matrix_at(stage + ROWS_BYTES);
        pin(sums[0]);
        pin(sums[1]);
        begin_products();
#pragma unroll
        for (u32 part = 0; part < 4; part++) {
            const u32 more = step + part != 0;
            Group::multiply(sums[0], rows + part * 2, queries + part * 2, more);
            Group::multiply(sums[1], rows + (TILE_BYTES / 2 >> 4) + part * 2, queries + part * 2, more);
        }
        commit_products();
        pin(sums[0]);
        pin(sums[1]);
        if (step > 0) {
            wait_products<1>();
            ring.used<BLOCKS>(before);
        }
        before = turn.stage;
        turn.next(ring.count);
    }
    wait_products<0>();
    pin(sums[0]);
    pin(sums[1]);
    ring.used<BLOCKS>(before);
}

// Calls `keep` with all that was caught in one tile after the other; one warp.
template <typename Keep>
__device__ __forceinline__ void settle(Net& net, const Ring& lists, const Shape& shape, const Keep& keep) {
    const u32 lane = threadIdx.x & 31;
    Turn<> turn = {0, 0};
    for (u32 tile = blockIdx.x; tile < shape.row_tiles * shape.query_tiles; tile += gridDim.x) {
        barrier_wait(lists.full_at(turn.stage), turn.parity);
        const u32 count = min(net.counts[turn.stage], MOST_CAUGHT);
        for (u32 at = lane; at < count; at += 32) {
            const Caught one = net.caught[turn.stage][at];
            keep(one.sum, one.row, one.query);
        }
        __syncwarp();
        if (lane == 0) net.counts[turn.stage] = 0;
        barrier_arrive(lists.free_at(turn.stage));
        turn.next(2);
    }
}

template <int FORMAT, int Q, u32 BLOCKS>
__device__ __forceinline__ void scan_groups(SCAN_PARAMS, u32 stages) {
    typedef typename Groups<FORMAT>::Type Group;
    extern __shared__ u8 unaligned[];
    __shared__ __align__(8) u64 barriers[2 * MOST_STAGES + 4];
    __shared__ Net net;

    const u32 data = (shared_address(unaligned) + 1023) & ~1023u, full = shared_address(barriers);
    const Ring ring = {data, full, full + MOST_STAGES * 8, stages};
    const Ring lists = {0, full + 2 * MOST_STAGES * 8, full + (2 * MOST_STAGES + 2) * 8, 2};
    if (threadIdx.x == 0) {
        for (u32 list = 0; list < 2; list++) {
            net.counts[list] = 0;
            // One arrival of each thread that fills them, or empties them.
            barrier_begin(lists.full_at(list), 256);
            barrier_begin(lists.free_at(list), 32);
        }
        for (u32 stage = 0; stage < stages; stage++) {
            barrier_begin(ring.full_at(stage), 1);
            // One arrival of each warp that multiplies.
            barrier_begin(ring.free_at(stage), 8 * BLOCKS);
        }
        barriers_begun();
    }
    if (BLOCKS == 2) sync_cluster();
    else __syncthreads();

    auto keep = [&](float sum, u32 row, u32 query) {
        keep_candidate(sum, row, query, rows, known, wishes, dead, masks, found, candidates, shape);
    };
    if (threadIdx.x < PRODUCERS) {
        shrink_registers<40>();
        if (threadIdx.x == 0) fill<Q, BLOCKS>(corpus, queries, ring, shape);
        if (threadIdx.x / 32 == 1 && shape.mode == FILTER) settle(net, lists, shape, keep);
    } else {
        grow_registers<232>();
        const u32 group = threadIdx.x / 128 - 1, warp = threadIdx.x / 32 % 4, lane = threadIdx.x & 31;
        const u32 down = group * 128 + warp * 16 + lane / 4;
        Turn<> turn = {0, 0}, list = {0, 1};
        typename Group::Sum sums[2][Q / 2];
        for (u32 tile = blockIdx.x; tile < shape.row_tiles * shape.query_tiles; tile += gridDim.x) {
            const u32 row_tile = tile / shape.query_tiles, query_tile = tile % shape.query_tiles;
            const Place place = {row_tile * shape.apart * 256 + down, row_tile * 256 + down, query_tile * Q + lane % 4 * 2};
            // These come while the products are computed.
            const float2 peak = peaks[place.row / TILE_ROWS];
            const Scales<2> scales = scales_of<2, 64>(place, rows, shape);
            multiply<Group, Q, BLOCKS>(sums, ring, turn, group, shape.steps);
            if (shape.mode == FILTER) {
                barrier_wait(lists.free_at(list.stage), list.parity);
                auto list_or_keep = [&](float sum, u32 row, u32 query) {
                    const u32 to = atomicAdd(&net.counts[list.stage], 1);
                    if (to < MOST_CAUGHT) net.caught[list.stage][to] = {sum, row, query};
                    else keep(sum, row, query);
                };
                filter_tile<2, Q / 8, 64>(sums, place, peak, scales, known, shape, list_or_keep);
                __syncwarp();
                barrier_arrive(lists.full_at(list.stage));
                list.next(2);
            } else if (shape.mode == SAMPLE) {
                sample_tile<2, Q / 8, 64>(sums, place, rows, known, wishes, dead, masks, lows, shape);
            } else {
                store_tile<2, Q / 8, 64>(sums, place, rows, known, wishes, dead, masks, uppers, lows, shape);
            }
        }
    }
    if (BLOCKS == 1) return;
    // Until the end, the other block may arrive at barriers of this one.
    __syncwarp();
    sync_cluster();
}

#define PAIRED __cluster_dims__(2, 1, 1)

#else

#define PAIRED

template <int FORMAT, int Q, u32 BLOCKS>
__device__ __forceinline__ void scan_groups(SCAN_PARAMS, u32 stages) {}

#endif
