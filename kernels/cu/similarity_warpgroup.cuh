// Scans for many queries on Hopper's tensor cores. On other devices the kernels are empty.

#pragma once
#include "similarity_tile.cuh"
#include "wgmma.cuh"

// similarity_warpgroup_{format}_{Q}: see similarity_tile.cuh for what they take and give.
// A block multiplies 256 rows with Q queries at a time, 128 bytes of each per step. Of its three warpgroups the first copies
// steps to shared memory as fast as stages come free, on into the next tile; the others multiply 128 rows each.
//   dynamic shared memory: 1024 + `stages` * (32768 + 128 Q) bytes, 2 to 16 stages; 384 threads, one block a multiprocessor
#define MOST_STAGES 16
#define PRODUCERS 128

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

// A ring of stages: each is filled, then used, then free again.
struct Ring {
    u32 data, full, free, count;

    __device__ __forceinline__ u32 full_at(u32 stage) const { return full + stage * 8; }
    __device__ __forceinline__ u32 free_at(u32 stage) const { return free + stage * 8; }
};

// A stage and the parity of its current round.
struct Turn {
    u32 stage, parity;

    __device__ __forceinline__ void next(u32 count) {
        if (++stage == count) {
            stage = 0;
            parity ^= 1;
        }
    }
};

// Fills stages; one thread.
template <int Q>
__device__ __forceinline__ void fill(const u8* __restrict__ corpus, const u8* __restrict__ queries, const Ring& ring,
    const Shape& shape) {
    constexpr u32 ROWS_BYTES = 2 * TILE_BYTES, QUERIES_BYTES = Q * 128;
    const u32 tiles = shape.row_tiles * shape.query_tiles;
    // A wait for the parity before the first round ends at once: all stages are free.
    Turn turn = {0, 1};
    for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const u64 row_tile = (u64)(tile / shape.query_tiles) * shape.apart, query_tile = tile % shape.query_tiles;
        const u8* upper = corpus + 2 * row_tile * shape.steps * TILE_BYTES;
        const u8* lower = upper + (u64)shape.steps * TILE_BYTES;
        const u8* query = queries + query_tile * shape.steps * QUERIES_BYTES;
        for (u32 step = 0; step < shape.steps; step++) {
            const u32 to = ring.data + turn.stage * (ROWS_BYTES + QUERIES_BYTES), full = ring.full_at(turn.stage);
            barrier_wait(ring.free_at(turn.stage), turn.parity);
            barrier_expect(full, ROWS_BYTES + QUERIES_BYTES);
            copy_bulk(to, upper + (u64)step * TILE_BYTES, TILE_BYTES, full);
            copy_bulk(to + TILE_BYTES, lower + (u64)step * TILE_BYTES, TILE_BYTES, full);
            copy_bulk(to + ROWS_BYTES, query + (u64)step * QUERIES_BYTES, QUERIES_BYTES, full);
            turn.next(ring.count);
        }
    }
}

// Multiplies the 128 rows of one warpgroup with Q queries, step after step; a stage is given back once the products that
// read it are done, one step later.
template <typename Group, int Q>
__device__ __forceinline__ void multiply(
    typename Group::Sum (&sums)[2][Q / 2], const Ring& ring, Turn& turn, u32 group, u32 steps) {
    constexpr u32 ROWS_BYTES = 2 * TILE_BYTES, STAGE_BYTES = ROWS_BYTES + Q * 128;
    const bool speaks = (threadIdx.x & 31) == 0;
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
            if (speaks) barrier_arrive(ring.free_at(before));
        }
        before = turn.stage;
        turn.next(ring.count);
    }
    wait_products<0>();
    pin(sums[0]);
    pin(sums[1]);
    if (speaks) barrier_arrive(ring.free_at(before));
}

template <int FORMAT, int Q>
__device__ __forceinline__ void scan_groups(SCAN_PARAMS, u32 stages) {
    typedef typename Groups<FORMAT>::Type Group;
    extern __shared__ u8 unaligned[];
    __shared__ __align__(8) u64 barriers[2 * MOST_STAGES];

    const u32 data = (shared_address(unaligned) + 1023) & ~1023u, full = shared_address(barriers);
    const Ring ring = {data, full, full + MOST_STAGES * 8, stages};
    if (threadIdx.x == 0) {
        for (u32 stage = 0; stage < stages; stage++) {
            barrier_begin(ring.full_at(stage), 1);
            // One arrival of each warp that multiplies.
            barrier_begin(ring.free_at(stage), 8);
        }
        barriers_begun();
    }
    __syncthreads();

    if (threadIdx.x < PRODUCERS) {
        shrink_registers<40>();
        if (threadIdx.x == 0) fill<Q>(corpus, queries, ring, shape);
    } else {
        grow_registers<232>();
        const u32 group = threadIdx.x / 128 - 1, warp = threadIdx.x / 32 % 4, lane = threadIdx.x & 31;
        const u32 down = group * 128 + warp * 16 + lane / 4;
        Turn turn = {0, 0};
        typename Group::Sum sums[2][Q / 2];
        for (u32 tile = blockIdx.x; tile < shape.row_tiles * shape.query_tiles; tile += gridDim.x) {
            multiply<Group, Q>(sums, ring, turn, group, shape.steps);
            const u32 row_tile = tile / shape.query_tiles, query_tile = tile % shape.query_tiles;
            const Place place = {row_tile * shape.apart * 256 + down, row_tile * 256 + down, query_tile * Q + lane % 4 * 2};
            if (shape.mode == FILTER) {
                filter_tile<2, Q / 8, 64>(sums, place, rows, peaks, known, wishes, dead, masks, found, candidates, shape);
                __syncwarp();
            } else {
                bound_tile<2, Q / 8, 64>(sums, place, rows, known, wishes, dead, masks, uppers, lows, shape);
            }
        }
    }
}

#else

template <int FORMAT, int Q>
__device__ __forceinline__ void scan_groups(SCAN_PARAMS, u32 stages) {}

#endif
