// Linear layers of few rows on Hopper. On other devices the kernels are empty.

#pragma once
#include "encode_linear.cuh"

// encode_few_{format}_{columns}: a linear layer (see encode.cuh) for so few rows that there is little to do but to wait: for
// weights from memory, and for the launch before. A block has one tile of 64 rows by 8, 16, 24, 32 or 48 columns, which
// divide those of the layer; where it is gated, not by 8 or 24. Before it waits for that launch, a warpgroup copies all
// weights of its columns; behind it, one warp copies the rows that there are, four steps (of 128 bytes of each row) into a
// stage as stages come free, and the warpgroup multiplies stage by stage: to begin products of few columns takes longer than
// to compute them, so many are begun at once. Sums have the order of all other tiles, 16 products at a time: they have the
// same bits, which tests hold them to.
//   stages: how many there are, at most FEW_STAGES
//   grid: tiles; 160 threads
//   dynamic shared memory: barriers, FEW_ROOM; weights, `steps` * columns * 128; stages, each FEW_STEPS * 128 bytes of each
//   row, whose count is rounded up to eights; and as much behind them as makes 64 rows of the last step
#define FEW_STEPS 4
#define FEW_STAGES 64
#define FEW_ROOM (2 * FEW_STAGES * 8)

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// A block's tile, and where things are in shared memory.
struct Few {
    u32 row, column, stages;
    u32 full, free, weights, rows;
    // Of a step of the rows: as many as there is room for, and as many as there are.
    u32 room, bytes;

    __device__ __forceinline__ Few(const Linear& layer, u32 columns, u32 stages, u32 shared) : stages(stages) {
        const u32 across = layer.columns / columns;
        row = blockIdx.x / across * 64;
        column = blockIdx.x % across * columns;
        full = shared;
        free = full + FEW_STAGES * 8;
        weights = shared + FEW_ROOM;
        rows = weights + layer.steps * columns * 128;
        // Rows behind the last are not read; the sums of whatever is in their place go nowhere.
        room = (min(layer.rows, 64u) + 7) / 8 * 1024;
        bytes = (min(layer.rows - row, 64u) + 7) / 8 * 1024;
    }
};

// Copies rows, behind the launch before; one warp.
__device__ __forceinline__ void fill_few(const Linear& layer, const Few& at) {
    const u8* rows = layer.x + place(at.row, 0, layer.steps);
    const u32 lane = threadIdx.x & 31, first = min(layer.steps, at.stages * FEW_STEPS);
    auto fetch = [&](u32 step, u32 stage) {
        const u32 to = at.rows + (stage * FEW_STEPS + step % FEW_STEPS) * at.room;
        copy_bulk(to, rows + (u64)step * TILE_BYTES, at.bytes, at.full + stage * 8);
    };
    auto expect = [&](u32 step, u32 stage) {
        barrier_expect(at.full + stage * 8, min(layer.steps - step, FEW_STEPS) * at.bytes);
    };
    for (u32 step = lane * FEW_STEPS; step < first; step += 32 * FEW_STEPS) expect(step, step / FEW_STEPS);
    __syncwarp();
    wait_for_launches();
    for (u32 step = lane; step < first; step += 32) fetch(step, step / FEW_STEPS);
    if (lane >= FEW_STEPS) return;
    Turn<> turn = {0, 0};
    for (u32 step = first; step < layer.steps; step += FEW_STEPS) {
        if (lane == 0) {
            barrier_wait(at.free + turn.stage * 8, turn.parity);
            expect(step, turn.stage);
        }
        __syncwarp((1 << FEW_STEPS) - 1);
        if (step + lane < layer.steps) fetch(step + lane, turn.stage);
        turn.next(at.stages);
    }
}

// Copies all weights of a block's columns, and waits for them; one warpgroup.
template <int COLUMNS>
__device__ __forceinline__ void fetch_weights(const Linear& layer, const Few& at) {
    constexpr u32 PIECES = COLUMNS * 8;
#pragma unroll 4
    for (u32 i = threadIdx.x; i < layer.steps * PIECES; i += 128) {
        const u32 step = i / PIECES, piece = i % PIECES, column = at.column + piece / 8;
        const u64 from = ((u64)(column / TILE_ROWS) * layer.steps + step) * TILE_BYTES + column % TILE_ROWS * 128;
        copy_async(at.weights + i * 16, layer.weight + from + piece % 8 * 16);
    }
    commit_copies();
    wait_copies<0>();
    show_copies();
    asm volatile("bar.sync 1, 128;" ::: "memory");
}

// Sums of all steps; one warpgroup.
template <int ELEMENT, int COLUMNS>
__device__ __forceinline__ void sum_few(float (&sums)[COLUMNS / 2], const Linear& layer, const Few& at) {
    u64 weights = matrix_at(at.weights);
    // A step, from one `step` steps behind these on.
    auto multiply = [&](u64 rows, u32 step) {
        const u64 from = rows + step * (at.room >> 4), by = weights + step * (COLUMNS * 8);
#pragma unroll
        for (u32 part = 0; part < 4; part++) Groups<ELEMENT>::Type::multiply(sums, from + part * 2, by + part * 2, 1);
    };
    Turn<> turn = {0, 0};
    auto arrived = [&] {
        barrier_wait(at.full + turn.stage * 8, turn.parity);
        return matrix_at(at.rows + turn.stage * FEW_STEPS * at.room);
    };
    u32 before = 0;
    for (u32 step = 0; step + FEW_STEPS <= layer.steps; step += FEW_STEPS) {
        const u64 rows = arrived();
        pin(sums);
        begin_products();
#pragma unroll
        for (u32 i = 0; i < FEW_STEPS; i++) multiply(rows, i);
        commit_products();
        pin(sums);
        wait_products<1>();
        if (step > 0 && threadIdx.x % 32 == 0) barrier_arrive(at.free + before * 8);
        weights += FEW_STEPS * COLUMNS * 8;
        before = turn.stage;
        turn.next(at.stages);
    }
    wait_products<0>();
    pin(sums);
    if (layer.steps % FEW_STEPS == 0) return;
    // The last stage is not full.
    const u64 rows = arrived();
#pragma unroll 1
    for (u32 i = 0; i < layer.steps % FEW_STEPS; i++) {
        begin_products();
        multiply(rows, i);
        commit_products();
        wait_products<0>();
        pin(sums);
    }
}

// Multiplies; one warpgroup. A launch before may still read what is written here, but until it is over there is nothing to
// multiply.
template <int ELEMENT, int COLUMNS>
__device__ __forceinline__ void multiply_few(const Linear& layer, const Few& at) {
    // Part of the weights: read while there is nothing to add it to.
    float2 bias[COLUMNS / 8] = {};
    if (layer.bias) {
#pragma unroll
        for (int j = 0; j < COLUMNS / 8; j++) {
            bias[j] = *(const float2*)(layer.bias + at.column + threadIdx.x % 4 * 2 + 8 * j);
        }
    }
    fetch_weights<COLUMNS>(layer, at);
    float sums[COLUMNS / 2] = {};
    sum_few<ELEMENT, COLUMNS>(sums, layer, at);
    const u32 row = at.row + threadIdx.x / 32 * 16;
    if (row >= layer.rows) return;
#pragma unroll
    for (int i = 0; i < COLUMNS / 2; i++) sums[i] += i % 2 ? bias[i / 4].y : bias[i / 4].x;
    Linear unbiased = layer;
    unbiased.bias = nullptr;
    Panels<0> none = {};
    emit_any<ELEMENT, COLUMNS>(sums, unbiased, none, row, at.column);
}

template <int ELEMENT, int COLUMNS>
__device__ __forceinline__ void few(const Linear& layer, u32 stages) {
    extern __shared__ __align__(1024) u8 shared[];
    start_next_launch();
    const Few at(layer, COLUMNS, stages, shared_address(shared));
    if (threadIdx.x == 128) {
        for (u32 stage = 0; stage < stages; stage++) {
            barrier_begin(at.full + stage * 8, 1);
            // One arrival of each warp that multiplies.
            barrier_begin(at.free + stage * 8, 4);
        }
        barriers_begun();
    }
    __syncthreads();
    if (threadIdx.x < 128) multiply_few<ELEMENT, COLUMNS>(layer, at);
    else fill_few(layer, at);
}

#else

template <int ELEMENT, int COLUMNS>
__device__ __forceinline__ void few(const Linear& layer, u32 stages) {}

#endif
