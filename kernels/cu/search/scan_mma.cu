// Scans for many queries on tensor cores by mma.sync, sm_80 and later; the kernels are empty on older devices. The
// defines are an instance's DTYPE (f32, f16, bf16, i8) and its SCAN_FORMAT (F32, F16, BF16, I8).

#include "gemm/mainloop_mma.cuh"
#include "search/scan_epilogue.cuh"

// search_scan_mma_{format}_q{Q}: the contract is in scan_epilogue.cuh.
// Tile shape: 128 rows by Q queries, k tiles of 128 bytes, 8 warps. A multistage pipeline of cp.async keeps three k
// tiles in dynamic shared memory (mma_shared_bytes(Q) bytes) and continues into the next tile. f32 rows are converted
// to bfloat16 in registers.
static_assert(BLOCK_THREADS == 8 * 32, "eight warps");

#if __CUDA_ARCH__ >= 800

template <int FORMAT>
struct Products {
    typedef MmaBf16 Type;
};

template <>
struct Products<F16> {
    typedef MmaF16 Type;
};

template <>
struct Products<I8> {
    typedef MmaI8 Type;
};

// The position of a block: the tile of rows and queries, and the k tile.
struct Cursor {
    u32 tile, step;
};

__device__ __forceinline__ Cursor advance(Cursor at, u32 k_tiles) {
    if (++at.step == k_tiles) {
        at.step = 0;
        at.tile += gridDim.x;
    }
    return at;
}

// f32 columns of a k tile staged in registers: 4 chunks of 8 columns.
struct StagedRows {
    float4 columns[8];
};

__device__ __forceinline__ void load_f32_rows(StagedRows& staged, const float* __restrict__ rows, u32 first,
    u32 step, u32 pitch) {
#pragma unroll
    for (u32 i = 0; i < 8; i++) {
        const u32 chunk = threadIdx.x + i / 2 * 256, column = step * 64 + chunk % 8 * 8 + i % 2 * 4;
        const float* from = rows + (u64)(first + chunk / 8) * pitch + column;
        staged.columns[i] = column < pitch ? *(const float4*)from : make_float4(0, 0, 0, 0);
    }
}

__device__ __forceinline__ void store_bf16_rows(const StagedRows& staged, u8* stage) {
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        const u32 chunk = threadIdx.x + i * BLOCK_THREADS;
        const float4 a = staged.columns[2 * i], b = staged.columns[2 * i + 1];
        *(uint4*)(stage + swizzle128(chunk / 8, chunk % 8)) = make_uint4(
            f32_to_bf16x2(a.x, a.y), f32_to_bf16x2(a.z, a.w), f32_to_bf16x2(b.x, b.y), f32_to_bf16x2(b.z, b.w));
    }
}

template <int FORMAT, int Q>
__device__ __forceinline__ void scan_mma(SCAN_PARAMS) {
    typedef typename Products<FORMAT>::Type Product;
    typedef typename Product::Sum Sum;
    // WARPS_DOWN x WARPS_ALONG warps with I x J instruction tiles of 16 rows by 8 queries each.
    constexpr u32 WARPS_DOWN = Q == 16 ? 8 : 4, WARPS_ALONG = 8 / WARPS_DOWN;
    constexpr int I = 8 / WARPS_DOWN, J = Q / WARPS_ALONG / 8;
    constexpr u32 STAGE_BYTES = TILE_BYTES + Q * 128;
    static_assert(MMA_STAGES * STAGE_BYTES == mma_shared_bytes(Q), "the launch allocates another size");
    extern __shared__ __align__(1024) u8 stages[];

    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const u32 down = warp % WARPS_DOWN * (16 * I), along = warp / WARPS_DOWN * (8 * J);
    const u32 tiles = shape.row_tiles * shape.query_tiles;
    StagedRows staged;

    auto issue_loads = [&](Cursor at, u32 stage) {
        if (at.tile >= tiles) return;
        const u32 to = smem_address(stages + stage * STAGE_BYTES);
        const u32 row_tile = at.tile / shape.query_tiles * shape.tile_stride, query_tile = at.tile % shape.query_tiles;
        if (FORMAT == F32) {
            load_f32_rows(staged, (const float*)corpus, row_tile * TILE_ROWS, at.step, shape.pitch);
        } else {
            const u8* from = corpus + ((u64)row_tile * shape.k_tiles + at.step) * TILE_BYTES;
#pragma unroll
            for (u32 i = 0; i < TILE_BYTES / 16; i += BLOCK_THREADS) {
                cp_async(to + (i + threadIdx.x) * 16, from + (i + threadIdx.x) * 16);
            }
        }
        const u8* from = queries + ((u64)query_tile * shape.k_tiles + at.step) * (Q * 128);
#pragma unroll
        for (u32 i = 0; i < Q * 8; i += BLOCK_THREADS) {
            if (i + threadIdx.x < Q * 8) {
                cp_async(to + TILE_BYTES + (i + threadIdx.x) * 16, from + (i + threadIdx.x) * 16);
            }
        }
    };
    auto finish_loads = [&](Cursor at, u32 stage) {
        if (FORMAT == F32 && at.tile < tiles) store_bf16_rows(staged, stages + stage * STAGE_BYTES);
    };

    Sum sums[I][4 * J] = {};
    Cursor at = {blockIdx.x, 0}, ahead = at;
#pragma unroll
    for (u32 stage = 0; stage < MMA_STAGES - 1; stage++) {
        issue_loads(ahead, stage);
        finish_loads(ahead, stage);
        cp_async_commit();
        ahead = advance(ahead, shape.k_tiles);
    }
    for (u32 stage = 0; at.tile < tiles; at = advance(at, shape.k_tiles), stage = (stage + 1) % MMA_STAGES) {
        // This k tile has arrived, and all warps have read the previous one, whose stage is filled next.
        cp_async_wait<MMA_STAGES - 2>();
        __syncthreads();
        const u32 filled = (stage + MMA_STAGES - 1) % MMA_STAGES;
        issue_loads(ahead, filled);
        cp_async_commit();

        const u32 rows_at = smem_address(stages + stage * STAGE_BYTES), queries_at = rows_at + TILE_BYTES;
        multiply_k_tile<Product, 16 * I, 8 * J>(sums, rows_at, queries_at, down, along);
        finish_loads(ahead, filled);
        ahead = advance(ahead, shape.k_tiles);
        if (at.step + 1 < shape.k_tiles) continue;

        const u32 row_tile = at.tile / shape.query_tiles, query_tile = at.tile % shape.query_tiles;
        const FragmentOrigin origin = {row_tile * shape.tile_stride * TILE_ROWS + down + lane / 4,
            row_tile * TILE_ROWS + down + lane / 4, query_tile * Q + along + lane % 4 * 2};
        if (shape.mode == FILTER) {
            auto keep = [&](float sum, u32 row, u32 query) {
                append_candidate(sum, row, query, rows, query_meta, params, deleted, masks, candidate_counts,
                    candidates, shape);
            };
            const RowScales<I> scales = load_row_scales<I, 16>(origin, rows, shape);
            filter_tile<I, J, 16>(sums, origin, tile_max[origin.row / TILE_ROWS], scales, query_meta, shape, keep);
            __syncwarp();
        } else if (shape.mode == SAMPLE) {
            sample_tile<I, J, 16>(sums, origin, rows, query_meta, params, deleted, masks, lower_bounds, shape);
        } else {
            store_tile<I, J, 16>(sums, origin, rows, query_meta, params, deleted, masks, upper_bounds, lower_bounds,
                shape);
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
__device__ __forceinline__ void scan_mma(SCAN_PARAMS) {}

#endif

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 2) KERNEL_NAME(search_scan_mma_, DTYPE, _q16)(SCAN_PARAMS) {
    scan_mma<SCAN_FORMAT, 16>(SCAN_ARGS);
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 1) KERNEL_NAME(search_scan_mma_, DTYPE, _q128)(SCAN_PARAMS) {
    scan_mma<SCAN_FORMAT, 128>(SCAN_ARGS);
}
