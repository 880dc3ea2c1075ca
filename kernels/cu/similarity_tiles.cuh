// Scans for many queries on tensor cores, by mma.sync: sm_80 and later. On older devices the kernels are empty.

#pragma once
#include "mma.cuh"
#include "similarity_tile.cuh"

// similarity_tiles_{format}_{Q}: see similarity_tile.cuh for what they take and give.
// A block of 8 warps multiplies 128 rows with Q queries at a time, 128 bytes of each per step; three steps are in shared
// memory (3 * (16384 + 128 Q) bytes, dynamic), copied while others are multiplied, on into the next tile. f32 rows become
// bfloat16 on the way.
#define STAGES 3

#if __CUDA_ARCH__ >= 800

template <int FORMAT>
struct Products {
    typedef Bf16Product Type;
};

template <>
struct Products<F16> {
    typedef F16Product Type;
};

template <>
struct Products<I8> {
    typedef I8Product Type;
};

// Where a block is: which tile of rows and queries, and which step along it.
struct Cursor {
    u32 tile, step;
};

__device__ __forceinline__ Cursor after(Cursor at, u32 steps) {
    if (++at.step == steps) {
        at.step = 0;
        at.tile += gridDim.x;
    }
    return at;
}

// f32 columns of a step, on their way through registers: 4 chunks of 8 columns.
struct Passing {
    float4 columns[8];
};

__device__ __forceinline__ void pass_in(Passing& passing, const float* __restrict__ rows, u32 first, u32 step, u32 pitch) {
#pragma unroll
    for (u32 i = 0; i < 8; i++) {
        const u32 chunk = threadIdx.x + i / 2 * 256, column = step * 64 + chunk % 8 * 8 + i % 2 * 4;
        const float* from = rows + (u64)(first + chunk / 8) * pitch + column;
        passing.columns[i] = column < pitch ? *(const float4*)from : make_float4(0, 0, 0, 0);
    }
}

__device__ __forceinline__ void pass_out(const Passing& passing, u8* stage) {
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        const u32 chunk = threadIdx.x + i * 256;
        const float4 a = passing.columns[2 * i], b = passing.columns[2 * i + 1];
        *(uint4*)(stage + swizzled(chunk / 8, chunk % 8)) = make_uint4(
            f32_to_bf16x2(a.x, a.y), f32_to_bf16x2(a.z, a.w), f32_to_bf16x2(b.x, b.y), f32_to_bf16x2(b.z, b.w));
    }
}

template <int FORMAT, int Q>
__device__ __forceinline__ void scan_tiles(SCAN_PARAMS) {
    typedef typename Products<FORMAT>::Type Product;
    typedef typename Product::Sum Sum;
    // Warps stand in WARPS_DOWN x WARPS_ALONG; each has I times 16 rows and J times 8 queries.
    constexpr u32 WARPS_DOWN = Q == 16 ? 8 : 4, WARPS_ALONG = 8 / WARPS_DOWN;
    constexpr int I = 8 / WARPS_DOWN, J = Q / WARPS_ALONG / 8;
    constexpr u32 STAGE_BYTES = TILE_BYTES + Q * 128;
    extern __shared__ __align__(1024) u8 stages[];

    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const u32 down = warp % WARPS_DOWN * (16 * I), along = warp / WARPS_DOWN * (8 * J);
    const u32 tiles = shape.row_tiles * shape.query_tiles;
    Passing passing;

    auto start_copies = [&](Cursor at, u32 stage) {
        if (at.tile >= tiles) return;
        const u32 to = shared_address(stages + stage * STAGE_BYTES);
        const u32 row_tile = at.tile / shape.query_tiles * shape.apart, query_tile = at.tile % shape.query_tiles;
        if (FORMAT == F32) {
            pass_in(passing, (const float*)corpus, row_tile * TILE_ROWS, at.step, shape.pitch);
        } else {
            const u8* from = corpus + ((u64)row_tile * shape.steps + at.step) * TILE_BYTES;
#pragma unroll
            for (u32 i = 0; i < TILE_BYTES / 16; i += 256) copy_async(to + (i + threadIdx.x) * 16, from + (i + threadIdx.x) * 16);
        }
        const u8* from = queries + ((u64)query_tile * shape.steps + at.step) * (Q * 128);
#pragma unroll
        for (u32 i = 0; i < Q * 8; i += 256) {
            if (i + threadIdx.x < Q * 8) copy_async(to + TILE_BYTES + (i + threadIdx.x) * 16, from + (i + threadIdx.x) * 16);
        }
    };
    auto end_copies = [&](Cursor at, u32 stage) {
        if (FORMAT == F32 && at.tile < tiles) pass_out(passing, stages + stage * STAGE_BYTES);
    };

    Sum sums[I][4 * J] = {};
    Cursor at = {blockIdx.x, 0}, ahead = at;
#pragma unroll
    for (u32 stage = 0; stage < STAGES - 1; stage++) {
        start_copies(ahead, stage);
        end_copies(ahead, stage);
        commit_copies();
        ahead = after(ahead, shape.steps);
    }
    for (u32 stage = 0; at.tile < tiles; at = after(at, shape.steps), stage = (stage + 1) % STAGES) {
        // This step has arrived for all, and all are done with the one before, whose stage is filled next.
        wait_copies<STAGES - 2>();
        __syncthreads();
        const u32 filled = (stage + STAGES - 1) % STAGES;
        start_copies(ahead, filled);
        commit_copies();

        const u32 rows_at = shared_address(stages + stage * STAGE_BYTES), queries_at = rows_at + TILE_BYTES;
#pragma unroll
        for (u32 chunk = 0; chunk < 8; chunk += 2) {
            u32 a[I][4], b[J / 2][4];
#pragma unroll
            for (u32 i = 0; i < I; i++) {
                load_matrices(a[i], rows_at + swizzled(down + i * 16 + lane % 16, chunk + lane / 16));
            }
#pragma unroll
            for (u32 j = 0; j < J / 2; j++) {
                const u32 row = along + j * 16 + lane / 16 * 8 + lane % 8;
                load_matrices(b[j], queries_at + swizzled(row, chunk + lane / 8 % 2));
            }
#pragma unroll
            for (u32 i = 0; i < I; i++) {
#pragma unroll
                for (u32 j = 0; j < J; j++) Product::add(&sums[i][4 * j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
            }
        }
        end_copies(ahead, filled);
        ahead = after(ahead, shape.steps);
        if (at.step + 1 < shape.steps) continue;

        const u32 row_tile = at.tile / shape.query_tiles, query_tile = at.tile % shape.query_tiles;
        const Place place = {row_tile * shape.apart * TILE_ROWS + down + lane / 4, row_tile * TILE_ROWS + down + lane / 4,
            query_tile * Q + along + lane % 4 * 2};
        if (shape.mode == FILTER) {
            auto keep = [&](float sum, u32 row, u32 query) {
                keep_candidate(sum, row, query, rows, known, wishes, dead, masks, found, candidates, shape);
            };
            const Scales<I> scales = scales_of<I, 16>(place, rows, shape);
            filter_tile<I, J, 16>(sums, place, peaks[place.row / TILE_ROWS], scales, known, shape, keep);
            __syncwarp();
        } else if (shape.mode == SAMPLE) {
            sample_tile<I, J, 16>(sums, place, rows, known, wishes, dead, masks, lows, shape);
        } else {
            store_tile<I, J, 16>(sums, place, rows, known, wishes, dead, masks, uppers, lows, shape);
        }
#pragma unroll
        for (int i = 0; i < I; i++) {
#pragma unroll
            for (int s = 0; s < 4 * J; s++) sums[i][s] = 0;
        }
    }
}

#else

template <int FORMAT, int Q>
__device__ __forceinline__ void scan_tiles(SCAN_PARAMS) {}

#endif
