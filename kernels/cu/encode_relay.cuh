// Linear layers by two warpgroups that relieve one another. On other devices than Hopper the kernels are empty.

#pragma once
#include "encode_linear.cuh"

// encode_linear_{format}_relay: a linear layer (see encode.cuh) that is not gated, of columns in multiples of 192; the same
// bits as encode_linear.cuh's kernels give.
// A block has tiles of 128 x 192: one warp copies steps to shared memory; two warpgroups multiply a tile each in turn, so
// that one adds the bias, applies the activation and writes while the other keeps the tensor cores busy. Blocks 2 i and
// 2 i + 1 have rows one below the other of the same columns, and each copies half of the weight to both.
//   384 threads, one block a multiprocessor, an even number of blocks; dynamic shared memory: SHARED bytes
template <int STAGES>
struct Relay {
    static constexpr u32 COLUMNS = 192, ROWS_BYTES = 128 * 128, STAGE_BYTES = ROWS_BYTES + COLUMNS * 128;
    static constexpr u32 PANELS = 8 * 2048, SHARED = STAGES * STAGE_BYTES + PANELS + STAGES * 16 + 16;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Copies `count` of the weight's rows, within one of its tiles, to both blocks.
__device__ __forceinline__ void copy_weight(const Linear& layer, u32 to, u32 row, u32 count, u32 step, u32 barrier) {
    copy_bulk_to_all<2>(to, layer.weight + place(row, 0, layer.steps) + (u64)step * TILE_BYTES, count * 128, barrier);
}

// Copies steps of all of a block's tiles to its stages; one thread. The first stages' weights do not wait for the launch
// before.
template <int STAGES>
__device__ __forceinline__ void fill_relay(const Linear& layer, u32 data, u32 full, u32 free) {
    typedef Relay<STAGES> Size;
    const BlockTiles<128, 192, 2> tiles(layer);
    auto rows_bytes = [&](u32 row) { return row < layer.rows ? min((layer.rows - row + 7) / 8 * 8, 128) * 128 : 0; };
    auto fetch_weight = [&](u32 column, u32 bytes, u32 step, u32 to, u32 here) {
        const u32 weight = to + Size::ROWS_BYTES;
        barrier_expect(here, bytes + Size::COLUMNS * 128);
        if (blockIdx.x % 2 == 0) {
            copy_weight(layer, weight, column, 64, step, here);
            copy_weight(layer, weight + 64 * 128, column + 64, 32, step, here);
        } else {
            copy_weight(layer, weight + 96 * 128, column + 96, 32, step, here);
            copy_weight(layer, weight + 128 * 128, column + 128, 64, step, here);
        }
    };
    u32 early = min(layer.steps, (u32)STAGES);
    const u32 first_column = tiles.column(tiles.first()), first_bytes = rows_bytes(tiles.row(tiles.first()));
    for (u32 step = 0; step < early; step++) {
        fetch_weight(first_column, first_bytes, step, data + step * Size::STAGE_BYTES, full + step * 8);
    }
    wait_for_launches();
    Turn<STAGES> turn = {0, 1};
    for (u32 tile = tiles.first(); tile < tiles.count; tile += tiles.apart()) {
        const u32 row = tiles.row(tile), column = tiles.column(tile), bytes = rows_bytes(row);
        const u8* rows = layer.x + place(row, 0, layer.steps);
        for (u32 step = 0; step < layer.steps; step++) {
            const u32 to = data + turn.stage * Size::STAGE_BYTES, here = full + turn.stage * 8;
            if (early > 0) {
                early--;
            } else {
                barrier_wait(free + turn.stage * 8, turn.parity);
                fetch_weight(column, bytes, step, to, here);
            }
            if (bytes) copy_bulk(to, rows + (u64)step * TILE_BYTES, bytes, here);
            turn.next();
        }
    }
}

// Asks for 128 bytes to be in the level 1 cache.
__device__ __forceinline__ void draw_near(const float* from) { asm volatile("prefetch.global.L1 [%0];" ::"l"(from)); }

// Brings 64 columns at a time of a warp's 16 rows to their place.
template <int ELEMENT, int ACTIVATION>
__device__ __forceinline__ void emit_relay(float (&sums)[2][96], const Linear& layer, Panels<1>& panels, u32 row, u32 column) {
    constexpr int OUT = ACTIVATION == HALVES ? F16 : ELEMENT;
#pragma unroll
    for (int half = 0; half < 2; half++) {
#pragma unroll
        for (int chunk = 0; chunk < 3; chunk++) {
            float(&part)[32] = *(float(*)[32])(sums[half] + 32 * chunk);
            finish<OUT, ACTIVATION, false>(part, layer.bias, column + 64 * chunk + threadIdx.x % 4 * 2);
            write<OUT, 8>(part, layer, panels, row + 64 * half, column + 64 * chunk);
        }
    }
}

template <int ELEMENT>
__device__ __forceinline__ void emit_relay_any(float (&sums)[2][96], const Linear& layer, Panels<1>& panels, u32 row,
                                               u32 column) {
    if (layer.activation == PLAIN) emit_relay<ELEMENT, PLAIN>(sums, layer, panels, row, column);
    else if (layer.activation == GELU) emit_relay<ELEMENT, GELU>(sums, layer, panels, row, column);
    else if (layer.activation == GELU_TANH) emit_relay<ELEMENT, GELU_TANH>(sums, layer, panels, row, column);
    else if (layer.activation == RELU) emit_relay<ELEMENT, RELU>(sums, layer, panels, row, column);
    else if (ELEMENT == F16 || layer.activation == SILU) emit_relay<ELEMENT, SILU>(sums, layer, panels, row, column);
    else emit_relay<ELEMENT, HALVES>(sums, layer, panels, row, column);
}

// A warpgroup's part in multiplying a block's tiles: it has every second one, and the other warpgroup the others. BLOCKS blocks
// share a stage.
template <int STAGES, int BLOCKS>
struct Shift {
    u32 data, full, free, order, parity;
    Turn<STAGES> turn;

    // The first group's turn comes at once.
    __device__ __forceinline__ Shift(u32 steps, u32 data, u32 full, u32 free, u32 order)
        : data(data), full(full), free(free), order(order), parity(group() ^ 1), turn{0, 0} {
        if (group()) turn.skip(steps);
    }

    static __device__ __forceinline__ u32 group() { return threadIdx.x / 128; }

    // Lets a stage be written again.
    __device__ __forceinline__ void used(u32 stage) const {
        const u32 lane = threadIdx.x & 31;
        if (lane < BLOCKS) barrier_arrive_in(free + stage * 8, lane);
    }

    // Multiplies the next of this warpgroup's tiles, and leaves the stages of the tile behind it to the other group.
    template <typename Group>
    __device__ __forceinline__ void multiply(float (&sums)[2][96], u32 steps) {
        typedef Relay<STAGES> Size;
        u32 before = 0;
        // Stages are told apart by the parity of their round: nobody may wait for one before the round before it has come.
        barrier_wait(order + group() * 8, parity);
        parity ^= 1;
        for (u32 step = 0; step < steps; step++) {
            barrier_wait(full + turn.stage * 8, turn.parity);
            const u32 stage = data + turn.stage * Size::STAGE_BYTES;
            const u64 rows = matrix_at(stage), weight = matrix_at(stage + Size::ROWS_BYTES);
            pin(sums[0]);
            pin(sums[1]);
            begin_products();
#pragma unroll
            for (u32 part = 0; part < 4; part++) {
                const u32 more = step + part != 0;
                Group::multiply(sums[0], rows + part * 2, weight + part * 2, more);
                Group::multiply(sums[1], rows + (8192 >> 4) + part * 2, weight + part * 2, more);
            }
            commit_products();
            pin(sums[0]);
            pin(sums[1]);
            if (step > 0) {
                wait_products<1>();
                used(before);
            }
            before = turn.stage;
            turn.next();
        }
        if ((threadIdx.x & 31) == 0) barrier_arrive(order + (group() ^ 1) * 8);
        wait_products<0>();
        pin(sums[0]);
        pin(sums[1]);
        used(before);
        turn.skip(steps);
    }
};

// Multiplies and writes every second of a block's tiles.
template <int ELEMENT, int STAGES>
__device__ __forceinline__ void multiply_relay(const Linear& layer, u32 data, u32 full, u32 free, u32 order, u32 panel) {
    typedef Relay<STAGES> Size;
    typedef typename Groups<ELEMENT>::Type Group;
    const u32 warp = threadIdx.x / 32 % 4;
    const BlockTiles<128, 192, 2> tiles(layer);
    Panels<1> panels = {panel, 0};
    Shift<STAGES, 2> shift(layer.steps, data, full, free, order);
    float sums[2][96];
    for (u32 tile = tiles.first() + shift.group() * tiles.apart(); tile < tiles.count; tile += 2 * tiles.apart()) {
        // There are no registers to keep the bias in, but it comes nearer until it is read.
        if (layer.bias && threadIdx.x % 128 < Size::COLUMNS / 32) draw_near(layer.bias + tiles.column(tile) + threadIdx.x % 128 * 32);
        shift.template multiply<Group>(sums, layer.steps);
        const u32 row = tiles.row(tile);
        if (row < layer.rows) emit_relay_any<ELEMENT>(sums, layer, panels, row + warp * 16, tiles.column(tile));
    }
    if ((threadIdx.x & 31) == 0) wait_stores_read<0>();
}

template <int ELEMENT, int STAGES>
__device__ __forceinline__ void linear_relay(const Linear& layer) {
    typedef Relay<STAGES> Size;
    extern __shared__ __align__(1024) u8 shared[];
    start_next_launch();
    const u32 data = shared_address(shared), panels = data + STAGES * Size::STAGE_BYTES;
    const u32 full = panels + Size::PANELS, free = full + STAGES * 8, order = free + STAGES * 8, warp = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        for (u32 stage = 0; stage < STAGES; stage++) {
            barrier_begin(full + stage * 8, 1);
            // One arrival of each warp of both blocks that multiplies.
            barrier_begin(free + stage * 8, 8);
        }
        barrier_begin(order, 4);
        barrier_begin(order + 8, 4);
        barriers_begun();
    }
    sync_cluster();
    if (warp >= 8) {
        shrink_registers<24>();
        if (threadIdx.x == 256) fill_relay<STAGES>(layer, data, full, free);
    } else {
        grow_registers<240>();
        multiply_relay<ELEMENT, STAGES>(layer, data, full, free, order, panels + warp * 2048);
    }
    // Until the end, the other block may arrive at barriers of this one.
    __syncwarp();
    sync_cluster();
}

#else

template <int ELEMENT, int STAGES>
__device__ __forceinline__ void linear_relay(const Linear& layer) {}

#endif
