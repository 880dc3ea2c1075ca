// Linear layers of few rows on Hopper. On other devices the kernels are empty.

#pragma once
#include "encode_linear.cuh"

// encode_few_{format}_{columns}: a linear layer (see encode.cuh) for so few rows that there is little to do but to wait: for
// weights from memory, and for the launch before. A block has one tile of 64 rows by 8, 16 or 24 columns, which divide
// those of the layer, and are 16 where it is gated. Before it waits for that launch, one warp starts to copy weights for all
// stages, and asks for the rest to come nearer. The others multiply, 16 rows each, by mma.sync, which is done sooner than a
// warpgroup's product of few columns. Four blocks of the same rows are a cluster: each copies a quarter of the rows to all
// of them. Sums have the order of all other tiles, 16 products at a time, and Hopper adds these alike in both kinds of
// instruction: they have the same bits, which tests hold them to.
//   grid: tiles, a multiple of four of the same rows one after the other; 160 threads
//   dynamic shared memory: STAGES * ((64 + columns) * 128 + 16)
#define FEW_CLUSTER 4

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <int COLUMNS, int STAGES>
struct Few {
    static constexpr u32 WEIGHTS = 64 * 128, STAGE_BYTES = WEIGHTS + COLUMNS * 128;
    u32 data, full, free;

    __device__ __forceinline__ Few(u32 shared) {
        data = shared;
        full = data + STAGES * STAGE_BYTES;
        free = full + STAGES * 8;
    }
};

// Calls visit(offset in a stage, address, bytes) for the parts of a step of the weights: two where columns are of two tiles.
template <int COLUMNS, typename Visit>
__device__ __forceinline__ void each_part(const Linear& layer, u32 column, u32 step, const Visit& visit) {
    const u8* from = layer.weight + place(column, 0, layer.steps) + (u64)step * TILE_BYTES;
    const u32 here = min(TILE_ROWS - column % TILE_ROWS, (u32)COLUMNS);
    visit(0, from, here * 128);
    if (TILE_ROWS % COLUMNS != 0 && here < COLUMNS) {
        visit(here * 128, layer.weight + place(column + here, 0, layer.steps) + (u64)step * TILE_BYTES, (COLUMNS - here) * 128);
    }
}

// A quarter of the rows that a tile has: whole groups of eight.
struct Quarter {
    u32 first, bytes, all;

    __device__ __forceinline__ Quarter(u32 rows) {
        // Rows behind the last are not read; the sums of whatever is in their place go nowhere.
        const u32 groups = min((rows + 7) / 8, 8u), each = (groups + FEW_CLUSTER - 1) / FEW_CLUSTER;
        const u32 from = min(place_in_cluster() * each, groups);
        first = from * 1024;
        bytes = min(each, groups - from) * 1024;
        all = groups * 1024;
    }
};

// Copies weights, and behind the launch before rows; one warp.
template <int COLUMNS, int STAGES>
__device__ __forceinline__ void fill_few(const Linear& layer, const Few<COLUMNS, STAGES>& at, u32 row, u32 column) {
    typedef Few<COLUMNS, STAGES> Size;
    const Quarter quarter(layer.rows - row);
    const u8* rows = layer.x + place(row, 0, layer.steps) + quarter.first;
    const u32 lane = threadIdx.x & 31, first = min(layer.steps, (u32)STAGES);
    auto fetch_weights = [&](u32 step, u32 to, u32 full) {
        barrier_expect(full, quarter.all + COLUMNS * 128);
        each_part<COLUMNS>(layer, column, step, [&](u32 offset, const u8* from, u32 bytes) {
            copy_bulk(to + Size::WEIGHTS + offset, from, bytes, full);
        });
    };
    auto fetch_rows = [&](u32 step, u32 to, u32 full) {
        if (quarter.bytes == 0) return;
        copy_bulk_to((1 << FEW_CLUSTER) - 1, to + quarter.first, rows + (u64)step * TILE_BYTES, quarter.bytes, full);
    };
    for (u32 step = lane; step < first; step += 32) fetch_weights(step, at.data + step * Size::STAGE_BYTES, at.full + step * 8);
    for (u32 step = first + lane; step < layer.steps; step += 32) {
        each_part<COLUMNS>(layer, column, step, [](u32, const u8* from, u32 bytes) { expect_bulk(from, bytes); });
    }
    // The others' barriers have begun and expect what they will get.
    __syncwarp();
    wait_for_launches();
    for (u32 step = lane; step < first; step += 32) fetch_rows(step, at.data + step * Size::STAGE_BYTES, at.full + step * 8);
    if (lane != 0) return;
    Turn<STAGES> turn = {0, 0};
    for (u32 step = first; step < layer.steps; step++) {
        const u32 to = at.data + turn.stage * Size::STAGE_BYTES, full = at.full + turn.stage * 8;
        barrier_wait(at.free + turn.stage * 8, turn.parity);
        fetch_weights(step, to, full);
        fetch_rows(step, to, full);
        turn.next();
    }
}

template <int ELEMENT>
struct Products {
    typedef Bf16Product Type;
};

template <>
struct Products<F16> {
    typedef F16Product Type;
};

// A step of a warp's 16 rows and of the weights, in registers.
template <int COLUMNS>
struct Step {
    u32 rows[4][4], weights[COLUMNS / 8][2][4];

    __device__ __forceinline__ void load(u32 stage) {
        const u32 lane = threadIdx.x & 31, row = threadIdx.x / 32 * 16 + lane % 16;
#pragma unroll
        for (u32 part = 0; part < 4; part++) {
            load_matrices(rows[part], stage + row * 128 + ((2 * part + lane / 16 ^ (row & 7)) << 4));
        }
#pragma unroll
        for (u32 j = 0; j < COLUMNS / 8; j++) {
#pragma unroll
            for (u32 half = 0; half < 2; half++) {
                const u32 at = stage + 64 * 128 + j * 1024 + lane % 8 * 128;
                load_matrices(weights[j][half], at + ((4 * half + lane / 8 ^ (lane & 7)) << 4));
            }
        }
    }

    template <int ELEMENT>
    __device__ __forceinline__ void multiply(float (&sums)[COLUMNS / 2]) const {
#pragma unroll
        for (u32 part = 0; part < 4; part++) {
#pragma unroll
            for (u32 j = 0; j < COLUMNS / 8; j++) {
                const u32* b = weights[j][part / 2] + part % 2 * 2;
                Products<ELEMENT>::Type::add(sums + 4 * j, rows[part], b[0], b[1]);
            }
        }
    }
};

// Multiplies; the warps that have rows. A launch before may still read what is written here, but until it is over there is
// nothing to multiply.
template <int ELEMENT, int COLUMNS, int STAGES>
__device__ __forceinline__ void multiply_few(const Linear& layer, const Few<COLUMNS, STAGES>& at, u32 row, u32 column) {
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    // Part of the weights: read while there is nothing to add it to.
    float2 bias[COLUMNS / 8] = {};
    if (layer.bias) {
#pragma unroll
        for (int j = 0; j < COLUMNS / 8; j++) bias[j] = *(const float2*)(layer.bias + column + lane % 4 * 2 + 8 * j);
    }
    Turn<STAGES> turn = {0, 0};
    auto take = [&](Step<COLUMNS>& to, u32 step) {
        barrier_wait(at.full + turn.stage * 8, turn.parity);
        to.load(at.data + turn.stage * Few<COLUMNS, STAGES>::STAGE_BYTES);
        __syncwarp();
        // The stage is free here, for what any block of the cluster brings. Nobody waits for the last ones, and the others may
        // be gone.
        if (lane < FEW_CLUSTER && step + STAGES < layer.steps) barrier_arrive_in(at.free + turn.stage * 8, lane);
        turn.next();
    };
    // One step is taken while the one before is multiplied.
    float sums[COLUMNS / 2] = {};
    Step<COLUMNS> even, odd;
    take(even, 0);
    for (u32 step = 0; step < layer.steps; step += 2) {
        if (step + 1 < layer.steps) take(odd, step + 1);
        even.template multiply<ELEMENT>(sums);
        if (step + 1 >= layer.steps) break;
        if (step + 2 < layer.steps) take(even, step + 2);
        odd.template multiply<ELEMENT>(sums);
    }
#pragma unroll
    for (int i = 0; i < COLUMNS / 2; i++) sums[i] += i % 2 ? bias[i / 4].y : bias[i / 4].x;
    Linear unbiased = layer;
    unbiased.bias = nullptr;
    Panels<0> none = {};
    emit_any<ELEMENT, COLUMNS>(sums, unbiased, none, row + warp * 16, column);
}

template <int ELEMENT, int COLUMNS, int STAGES>
__device__ __forceinline__ void few(const Linear& layer) {
    extern __shared__ __align__(1024) u8 shared[];
    start_next_launch();
    const Few<COLUMNS, STAGES> at(shared_address(shared));
    const u32 across = layer.columns / COLUMNS, row = blockIdx.x / across * 64, column = blockIdx.x % across * COLUMNS;
    const u32 warps = min((layer.rows - row + 15) / 16, 4u);
    if (threadIdx.x == 128) {
        for (u32 stage = 0; stage < STAGES; stage++) {
            barrier_begin(at.full + stage * 8, 1);
            // One arrival of each warp that multiplies, in all blocks.
            barrier_begin(at.free + stage * 8, warps * FEW_CLUSTER);
        }
        barriers_begun();
    }
    // No block copies to another before its barriers have begun.
    sync_pair();
    if (threadIdx.x < 32 * warps) multiply_few<ELEMENT, COLUMNS, STAGES>(layer, at, row, column);
    else if (threadIdx.x >= 128) fill_few<COLUMNS, STAGES>(layer, at, row, column);
}

#define CLUSTERED __cluster_dims__(FEW_CLUSTER, 1, 1)

#else

#define CLUSTERED

template <int ELEMENT, int COLUMNS, int STAGES>
__device__ __forceinline__ void few(const Linear& layer) {}

#endif
