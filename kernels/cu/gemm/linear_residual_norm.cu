// Linear layer, residual addition and norm in one kernel on Hopper. On other devices the kernels are empty.

#include "gemm/gemm_pingpong.cuh"
#include "launch/linear_residual_norm.cuh"
#include "norm/norm.cuh"

// linear_residual_norm_{dtype}_{384, 768}: out = norm(residual + linear(x)), where the layer has that many columns and no
// activation. It gives the bits of gemm and residual_norm in sequence, but the layer's output never reaches memory. out may alias
// residual.
// Blocks work as in gemm_pingpong.cuh, but the BLOCKS = columns / 192 blocks of a cluster share their rows: each multicasts a
// slice of the rows and computes always the same three subtiles of 64 columns. The blocks exchange their row sums through
// distributed shared memory, first of the values, then of the squared deviations. Each warp exchanges with the warps of the same
// index only, so that no other waits, and what it waits for also protects what others still read:
//   - A warp's staging buffers hold the residual first, then the output. The warp that has drained them, of either warpgroup,
//     loads the residual of the block's next tile.
//   - A warp publishes sums of squares only after it has read all sums of values, and starts a tile only after its counterpart in
//     the other warpgroup has read all sums of squares of the preceding tile. So one slot suffices for each.
//   PINGPONG_THREADS threads, one block a multiprocessor, at most BLOCKS times as many blocks as clusters fit at once; dynamic shared memory:
//   SHARED bytes

template <int STAGES>
struct ResidualNormSmem {
    // Per warp, for its 32 rows.
    static constexpr u32 STAGING = 6 * 2048, SUMS = 2 * 4 * 32 * 4;
    static constexpr u32 STAGING_AT = STAGES * PingpongSmem<STAGES>::STAGE_BYTES, SUMS_AT = STAGING_AT + 4 * STAGING;
    static constexpr u32 FACTORS_AT = SUMS_AT + 4 * SUMS, BARRIERS_AT = FACTORS_AT + 3 * 192 * 4;
    // Barriers: full, empty and order; then per warp and half one for each kind of sum, and one for each warpgroup's residual.
    static constexpr u32 SUM_BARRIERS_AT = BARRIERS_AT + (2 * STAGES + 2) * 8, RESIDUAL_BARRIERS_AT = SUM_BARRIERS_AT + 128,
                         SHARED = RESIDUAL_BARRIERS_AT + 128;
    static_assert(SHARED == residual_norm_shared_bytes(STAGES), "the launch allocates another size");
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// The column tile of a block's subtile 0, 1 or 2: the tiles of one quarter of norm.cuh, or with two blocks of two quarters.
template <int BLOCKS>
__device__ __forceinline__ u32 column_tile(u32 subtile) {
    const u32 block = blockIdx.x % BLOCKS;
    if (BLOCKS == 4) return block + 4 * subtile;
    return block + (8 >> subtile) % 8;
}

// The persistent scheduler of a cluster, over row tiles.
template <int BLOCKS>
struct ClusterTileScheduler {
    u32 count, reverse;

    __device__ __forceinline__ ClusterTileScheduler(const LinearParams& layer) : count((layer.rows + PINGPONG_ROWS - 1) / PINGPONG_ROWS), reverse(layer.reverse) {}
    static __device__ __forceinline__ u32 first() { return blockIdx.x / BLOCKS; }
    static __device__ __forceinline__ u32 stride() { return gridDim.x / BLOCKS; }
    __device__ __forceinline__ u32 row(u32 tile) const { return (reverse ? count - 1 - tile : tile) * PINGPONG_ROWS; }
};

// The producer, one thread: loads the k tiles of all of a block's tiles. The weights of the first stages are loaded before the
// preceding grid has completed.
template <int STAGES, int BLOCKS>
__device__ __forceinline__ void residual_norm_producer(const LinearParams& layer, u32 data, u32 full, u32 empty) {
    typedef PingpongSmem<STAGES> Smem;
    constexpr u32 SLICE_BYTES = Smem::A_BYTES / BLOCKS;
    const ClusterTileScheduler<BLOCKS> tiles(layer);
    const u32 slice = blockIdx.x % BLOCKS * SLICE_BYTES;
    auto rows_bytes = [&](u32 row) { return min((layer.rows - row + 7) / 8 * 8, 128) * 128; };
    auto load_weight = [&](u32 bytes, u32 k_tile, u32 to, u32 here) {
        mbarrier_arrive_expect_tx(here, bytes + Smem::TILE_N * 128);
#pragma unroll
        for (u32 subtile = 0; subtile < 3; subtile++) {
            const u8* weight = layer.weight + chunk_offset(column_tile<BLOCKS>(subtile) * 64, 0, layer.k_tiles) + (u64)k_tile * TILE_BYTES;
            bulk_load(to + Smem::A_BYTES + subtile * 8192, weight, 8192, here);
        }
    };
    u32 prefetched = min(layer.k_tiles, (u32)STAGES);
    const u32 first_bytes = rows_bytes(tiles.row(tiles.first()));
    for (u32 k_tile = 0; k_tile < prefetched; k_tile++) {
        load_weight(first_bytes, k_tile, data + k_tile * Smem::STAGE_BYTES, full + k_tile * 8);
    }
    griddepcontrol_wait();
    PipelineState<STAGES> pipe = {0, 1};
    for (u32 tile = tiles.first(); tile < tiles.count; tile += tiles.stride()) {
        const u32 row = tiles.row(tile), bytes = rows_bytes(row), mine = bytes > slice ? min(bytes - slice, SLICE_BYTES) : 0;
        const u8* rows = layer.x + chunk_offset(row, 0, layer.k_tiles) + slice;
        for (u32 k_tile = 0; k_tile < layer.k_tiles; k_tile++) {
            const u32 to = data + pipe.stage * Smem::STAGE_BYTES, here = full + pipe.stage * 8;
            if (prefetched > 0) {
                prefetched--;
            } else {
                mbarrier_wait(empty + pipe.stage * 8, pipe.parity);
                load_weight(bytes, k_tile, to, here);
            }
            if (mine) bulk_load_multicast<BLOCKS>(to + slice, rows + (u64)k_tile * TILE_BYTES, mine, here);
            pipe.advance();
        }
    }
}

__device__ __forceinline__ float2 load_pair(u32 shared) {
    float2 pair;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(pair.x), "=f"(pair.y) : "r"(shared) : "memory");
    return pair;
}

__device__ __forceinline__ float load_number(u32 shared) {
    float x;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(shared) : "memory");
    return x;
}

// The epilogue of a warp, for its 16 rows of one half of a tile at a time. A lane holds 48 values of each of two rows: value
// 4 p + 2 r + b of subtile c belongs to row lane / 4 + 8 r and column 8 p + 2 (lane % 4) + b of the subtile.
template <int ELEMENT, int STAGES, int BLOCKS>
struct NormEpilogue {
    typedef ResidualNormSmem<STAGES> Smem;
    static constexpr float INVERSE_COLUMNS = 1.0f / (192 * BLOCKS);

    const LinearResidualNormParams& params;
    u32 data, lane;
    u32 buffer;   // this lane's address in the first chunks of the warp's staging, for ldmatrix and stmatrix
    u32 factors; // of this lane's first columns: the layer's bias, then the norm's weight and bias

    __device__ __forceinline__ NormEpilogue(const LinearResidualNormParams& params, u32 data) : params(params), data(data), lane(threadIdx.x & 31) {
        buffer = staging() + lane % 16 * 128 + ((lane / 16 ^ (lane & 7)) << 4);
        factors = data + Smem::FACTORS_AT + lane % 4 * 8;
    }

    static __device__ __forceinline__ u32 warp() { return threadIdx.x / 32 % 4; }
    // The barrier of the residual of one half of a warpgroup's tile.
    __device__ __forceinline__ u32 residual_barrier(u32 group, u32 half) const {
        return data + Smem::RESIDUAL_BARRIERS_AT + (group * 8 + half * 4 + warp()) * 8;
    }
    // The barrier of a half's row sums, of values or of squares.
    __device__ __forceinline__ u32 sum_barrier(u32 half, u32 squares) const {
        return data + Smem::SUM_BARRIERS_AT + (warp() * 4 + half * 2 + squares) * 8;
    }
    __device__ __forceinline__ u32 staging() const { return data + Smem::STAGING_AT + warp() * Smem::STAGING; }
    __device__ __forceinline__ u32 in_buffer(u32 half, u32 subtile, u32 chunk) const {
        return (buffer ^ chunk << 4) + (half * 3 + subtile) * 2048;
    }

    // Starts to load the residual of half a tile; one lane.
    __device__ __forceinline__ void load_residual(u32 row, u32 group, u32 half) const {
        const u8* from = params.residual + chunk_offset(row + half * 64 + warp() * 16, 0, params.layer.out_tiles_per_row);
        const u32 to = staging() + half * (3 * 2048), here = residual_barrier(group, half);
        mbarrier_arrive_expect_tx(here, 3 * 2048);
#pragma unroll
        for (u32 subtile = 0; subtile < 3; subtile++) {
            bulk_load(to + subtile * 2048, from + column_tile<BLOCKS>(subtile) * TILE_BYTES, 2048, here);
        }
    }

    __device__ __forceinline__ float2 factor(u32 which, u32 subtile, u32 chunk) const {
        return load_pair(factors + (which * 192 + subtile * 64 + chunk * 8) * 4);
    }

    // Adds the layer's bias, rounds as the GEMM's output would be, and adds the residual.
    __device__ __forceinline__ void add_residual(float (&x)[96], u32 half) const {
#pragma unroll
        for (int subtile = 0; subtile < 3; subtile++) {
#pragma unroll
            for (int p = 0; p < 8; p += 2) {
                u32 residual[4];
                ldmatrix_x4(residual, in_buffer(half, subtile, p));
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    float* to = x + subtile * 32 + (p + i / 2) * 4 + i % 2 * 2;
                    const float2 bias = factor(0, subtile, p + i / 2);
                    const u32 delta = pack2<ELEMENT>(to[0] + bias.x, to[1] + bias.y);
                    to[0] = to_f32<ELEMENT>((u16)residual[i]) + to_f32<ELEMENT>((u16)delta);
                    to[1] = to_f32<ELEMENT>((u16)(residual[i] >> 16)) + to_f32<ELEMENT>((u16)(delta >> 16));
                }
            }
        }
    }

    // The sum of this lane's pairs of one row, over subtiles FROM .. TO.
    template <bool SQUARED, int FROM, int TO>
    __device__ __forceinline__ static float lane_sum(const float (&x)[96], int row) {
        auto chunk = [&](int p) {
            float sum = 0.0f;
#pragma unroll
            for (int i = 2 * FROM; i < 2 * TO; i++) {
                const float number = x[i / 2 * 32 + p * 4 + row * 2 + i % 2];
                sum = SQUARED ? fmaf(number, number, sum) : sum + number;
            }
            return sum;
        };
        return ((chunk(0) + chunk(4)) + (chunk(2) + chunk(6))) + ((chunk(1) + chunk(5)) + (chunk(3) + chunk(7)));
    }

    // The address of a quarter's sum for this lane's row, which is row lane % 2 of the quad's two.
    __device__ __forceinline__ u32 sum_at(u32 half, u32 squares, u32 quarter) const {
        const u32 row = lane % 2 * 8 + lane / 4;
        return data + Smem::SUMS_AT + (((warp() * 2 + half) * 2 + squares) * 64 + quarter * 16 + row) * 4;
    }

    // Publishes the sums of a quarter to all blocks. Two lanes of a quad hold the same sum and serve half of the blocks each.
    template <bool SQUARED, int FROM, int TO>
    __device__ __forceinline__ void broadcast_sum(const float (&x)[96], u32 half, u32 quarter) const {
        const float first = lane_sum<SQUARED, FROM, TO>(x, 0), second = lane_sum<SQUARED, FROM, TO>(x, 1);
        float sum = lane & 1 ? second : first;
        sum += __shfl_xor_sync(FULL_WARP, lane & 1 ? first : second, 1);
        sum += __shfl_xor_sync(FULL_WARP, sum, 2);
#pragma unroll
        for (u32 block = 0; block < BLOCKS; block += 2) {
            store_async_cluster(sum_at(half, SQUARED, quarter), sum, sum_barrier(half, SQUARED), block + lane / 2 % 2);
        }
    }

    // Publishes the sums of a half to all blocks.
    template <bool SQUARED>
    __device__ __forceinline__ void broadcast_sums(const float (&x)[96], u32 half) const {
        const u32 block = blockIdx.x % BLOCKS;
        if (BLOCKS == 4) {
            broadcast_sum<SQUARED, 0, 3>(x, half, block);
        } else {
            broadcast_sum<SQUARED, 0, 2>(x, half, block);
            broadcast_sum<SQUARED, 2, 3>(x, half, block + 2);
        }
    }

    // The sum over this lane's whole row, of values or of squares, once all blocks have published.
    __device__ __forceinline__ float row_sum(u32 half, u32 squares, u32 parity) const {
        if (lane == 0) mbarrier_arrive_expect_tx(sum_barrier(half, squares), 4 * 16 * 4);
        __syncwarp();
        mbarrier_wait(sum_barrier(half, squares), parity);
        float quarters[4];
#pragma unroll
        for (u32 quarter = 0; quarter < 4; quarter++) quarters[quarter] = load_number(sum_at(half, squares, quarter));
        return (quarters[0] + quarters[2]) + (quarters[1] + quarters[3]);
    }

    // The value of the lane of the quad that owns this row.
    __device__ __forceinline__ float from_row_lane(float x, u32 row) const { return __shfl_sync(FULL_WARP, x, (lane & ~3u) | row); }

    // Subtracts the mean.
    __device__ __forceinline__ void subtract_mean(float (&x)[96], float sum) const {
        const float mean = params.norm.kind == LAYER_NORM ? norm_mean(sum, INVERSE_COLUMNS) : 0.0f;
#pragma unroll
        for (int row = 0; row < 2; row++) {
            const float of = from_row_lane(mean, row);
#pragma unroll
            for (int i = 0; i < 48; i++) x[i / 2 * 4 + row * 2 + i % 2] -= of;
        }
    }

    // Scales by 1 / sqrt(variance + epsilon), applies the norm's weight and bias, and stores.
    __device__ __forceinline__ void normalize_and_store(float (&x)[96], float squares, u32 row, u32 half) const {
        const float scale = norm_scale(squares, INVERSE_COLUMNS, params.norm.epsilon);
        const float scales[2] = {from_row_lane(scale, 0), from_row_lane(scale, 1)};
#pragma unroll
        for (int p = 0; p < 8; p += 2) {
#pragma unroll
            for (int subtile = 0; subtile < 3; subtile++) {
                u32 words[4];
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const float* from = x + subtile * 32 + (p + i / 2) * 4 + i % 2 * 2;
                    const float2 weight = factor(1, subtile, p + i / 2), bias = factor(2, subtile, p + i / 2);
                    words[i] = pack2<ELEMENT>(fmaf(from[0] * scales[i % 2], weight.x, bias.x),
                                                fmaf(from[1] * scales[i % 2], weight.y, bias.y));
                }
                stmatrix_x4(in_buffer(half, subtile, p), words[0], words[1], words[2], words[3]);
            }
        }
        fence_proxy_async();
        __syncwarp();
        if (lane > 0) return;
        u8* to = params.layer.out + chunk_offset(row + half * 64 + warp() * 16, 0, params.layer.out_tiles_per_row);
        const u32 from = staging() + half * (3 * 2048);
#pragma unroll
        for (u32 subtile = 0; subtile < 3; subtile++) bulk_store(to + column_tile<BLOCKS>(subtile) * TILE_BYTES, from + subtile * 2048, 2048);
    }
};

// A consumer warpgroup: mainloop and epilogue of every second tile. The exchange of one half's sums overlaps work on the other
// half.
template <int ELEMENT, int STAGES, int BLOCKS>
__device__ __forceinline__ void residual_norm_consumer(const LinearResidualNormParams& params, u32 data, u32 full, u32 empty, u32 order) {
    typedef typename WgmmaFor<ELEMENT>::Type Wgmma;
    const ClusterTileScheduler<BLOCKS> tiles(params.layer);
    PingpongMainloop<STAGES, BLOCKS> mainloop(params.layer.k_tiles, data, full, empty, order);
    const NormEpilogue<ELEMENT, STAGES, BLOCKS> epilogue(params, data);
    const u32 group = mainloop.group();
    if (group == 0 && epilogue.lane == 0) {
        griddepcontrol_wait();
        for (u32 half = 0; half < 2; half++) epilogue.load_residual(tiles.row(tiles.first()), 0, half);
    }
    u32 parity = 0;
    for (u32 tile = tiles.first() + group * tiles.stride(); tile < tiles.count; tile += 2 * tiles.stride()) {
        float x[2][96];
        mainloop.template run<Wgmma>(x, params.layer.k_tiles);
#pragma unroll
        for (u32 half = 0; half < 2; half++) {
            mbarrier_wait(epilogue.residual_barrier(group, half), parity);
            epilogue.add_residual(x[half], half);
            epilogue.template broadcast_sums<false>(x[half], half);
        }
        parity ^= 1;
        // This order avoids register spills.
#pragma unroll
        for (int half = 1; half >= 0; half--) {
            epilogue.subtract_mean(x[half], epilogue.row_sum(half, 0, group));
            epilogue.template broadcast_sums<true>(x[half], half);
        }
#pragma unroll
        for (int half = 1; half >= 0; half--) epilogue.normalize_and_store(x[half], epilogue.row_sum(half, 1, group), tiles.row(tile), half);
        if (epilogue.lane == 0 && tile + tiles.stride() < tiles.count) {
            bulk_store_wait_read<3>();
            epilogue.load_residual(tiles.row(tile + tiles.stride()), group ^ 1, 1);
            bulk_store_wait_read<0>();
            epilogue.load_residual(tiles.row(tile + tiles.stride()), group ^ 1, 0);
        }
        __syncwarp();
    }
    if (epilogue.lane == 0) bulk_store_wait_read<0>();
}

// Loads a block's column factors. A layer without a bias adds -0, which preserves even the sign of a zero.
template <int BLOCKS>
__device__ __forceinline__ void load_factors(const LinearResidualNormParams& params, float* to) {
    for (u32 at = threadIdx.x; at < 192; at += blockDim.x) {
        const u32 column = column_tile<BLOCKS>(at / 64) * 64 + at % 64;
        to[at] = params.layer.bias ? params.layer.bias[column] : -0.0f;
        to[192 + at] = params.norm.weight[column];
        to[384 + at] = params.norm.bias ? params.norm.bias[column] : 0.0f;
    }
}

template <int ELEMENT, int STAGES, int BLOCKS>
__device__ __forceinline__ void linear_residual_norm(const LinearResidualNormParams& params) {
    typedef ResidualNormSmem<STAGES> Smem;
    extern __shared__ __align__(1024) u8 shared[];
    griddepcontrol_launch_dependents();
    const u32 data = smem_address(shared), full = data + Smem::BARRIERS_AT, empty = full + STAGES * 8;
    const u32 order = empty + STAGES * 8;
    if (threadIdx.x == 0) {
        init_pingpong_barriers<STAGES, BLOCKS>(full, empty, order);
        for (u32 one = 2; one < 34; one++) mbarrier_init(order + one * 8, 1);
        fence_mbarrier_init();
    }
    load_factors<BLOCKS>(params, (float*)(shared + Smem::FACTORS_AT));
    cluster_sync();
    if (threadIdx.x >= 256) {
        setmaxnreg_dec<24>();
        if (threadIdx.x == 256) residual_norm_producer<STAGES, BLOCKS>(params.layer, data, full, empty);
    } else {
        setmaxnreg_inc<240>();
        residual_norm_consumer<ELEMENT, STAGES, BLOCKS>(params, data, full, empty, order);
    }
    // The other blocks of the cluster may arrive at this one's barriers until they end.
    __syncwarp();
    cluster_sync();
}

#else

template <int ELEMENT, int STAGES, int BLOCKS>
__device__ __forceinline__ void linear_residual_norm(const LinearResidualNormParams& params) {}

#endif

#define FUSED(width, field) LINEAR_RESIDUAL_NORM_##width##_##field
#define LINEAR_RESIDUAL_NORM_INSTANCE(width)                                                                                               \
    static_assert(FUSED(width, columns) == PINGPONG_COLUMNS * FUSED(width, cluster), "a block for each tile of columns");                  \
    extern "C" __global__ void CLUSTER_OF(FUSED(width, cluster)) __launch_bounds__(PINGPONG_THREADS, 1)                                    \
    INSTANCE(linear_residual_norm, width)(const __grid_constant__ LinearResidualNormParams params) {                                       \
        linear_residual_norm<ELEMENT_TYPE, RESIDUAL_NORM_STAGES, FUSED(width, cluster)>(params);                                           \
    }

LINEAR_RESIDUAL_NORM(LINEAR_RESIDUAL_NORM_INSTANCE)
