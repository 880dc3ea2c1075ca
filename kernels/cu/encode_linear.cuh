// Linear layers by Hopper's warpgroup products. On other devices the kernels are empty.

#pragma once
#include "encode.cuh"
#include "wgmma.cuh"

// encode_linear_{format}_{wide, broad, even, middle, small}: a linear layer (see encode.cuh), f32 sums, 16-bit elements.
// A block has tiles of ROWS x COLUMNS: one warp copies steps (128 bytes of each row) to shared memory as fast as stages
// come free, on into the next tile; a warpgroup for each 64 rows multiplies. Every sum adds its products in the order of
// k, 16 at a time, whatever the tile: all kernels give the same bits. The bias is added in f32, then the activation.
//
//   wide    128 x 256, 384 threads: the most products for each byte of shared memory that is read. Blocks 2 i and 2 i + 1
//           have rows one below the other of the same columns, and each copies half of the weight to both
//   broad   128 x 192, 384 threads, for columns that 256 do not divide; not for gated layers
//   even    128 x 128, 288 threads, two blocks a multiprocessor, which fill each other's gaps
//   middle   64 x  64, 160 threads
//   small    64 x  16, 160 threads
//   dynamic shared memory: SHARED bytes
template <int ROW_GROUPS, int COLUMNS, int STAGES>
struct Tiles {
    static constexpr u32 ROWS = 64 * ROW_GROUPS, ROWS_BYTES = ROWS * 128, STAGE_BYTES = ROWS_BYTES + COLUMNS * 128;
    // Each warp brings 16 rows of 64 columns of the output together, where a tile is that wide; wide ones in turns of two.
    static constexpr u32 PANELS = COLUMNS > 128 ? 2 : COLUMNS >= 64 ? 1 : 0, PANEL_BYTES = 2048;
    static constexpr u32 SHARED = STAGES * STAGE_BYTES + 4 * ROW_GROUPS * PANELS * PANEL_BYTES + STAGES * 16;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <int ELEMENT>
struct Groups {
    typedef Bf16Group Type;
};

template <>
struct Groups<F16> {
    typedef F16Group Type;
};

// Writes 16 columns of a warp's 16 rows, two groups of 8 in registers, as 16-byte pieces `first` and the next of its panel.
template <int ELEMENT>
__device__ __forceinline__ void to_panel(u32 panel, u32 first, const float* low, const float* high) {
    const u32 lane = threadIdx.x & 31, row = lane % 16, piece = first + lane / 16;
    store_matrices(panel + row * 128 + ((piece ^ (row & 7)) << 4), pair_of<ELEMENT>(low[0], low[1]),
                   pair_of<ELEMENT>(low[2], low[3]), pair_of<ELEMENT>(high[0], high[1]), pair_of<ELEMENT>(high[2], high[3]));
}

// x Phi(x) for bfloat16: as `gelu`, with an exponent that is at most 1.4e-4 of the value off, a fourteenth of what rounding
// may take; x is finite.
__device__ __forceinline__ float gelu_bf16(float x) {
    const float h = -0.5f * fabsf(x);
    float p = fmaf(h, 0.009539950015916f, 0.08991883824f);
    p = fmaf(h, p, 0.3809879824f);
    p = fmaf(h, p, -1.858772776f);
    p = fmaf(h, p, 2.29845132f);
    return fmaf(h, exp2_fast(h * p), fmaxf(x, 0.0f));
}

template <int ELEMENT, int ACTIVATION>
__device__ __forceinline__ float activate_for(float x) {
    return ELEMENT == BF16 && ACTIVATION == GELU ? gelu_bf16(x) : activate<ACTIVATION>(x);
}

// Adds the bias and applies the activation to a thread's sums, in place; `column` is that of its first sum. Where the layer
// is gated, the first half of the sums becomes the output.
template <int ELEMENT, int ACTIVATION, bool GATED, int COUNT>
__device__ __forceinline__ void finish(float (&sums)[COUNT], const float* __restrict__ bias, u32 column) {
    if (bias) {
#pragma unroll
        for (int j = 0; j < COUNT / 4; j++) {
            const float2 b = *(const float2*)(bias + column + 8 * j);
            sums[4 * j] += b.x;
            sums[4 * j + 1] += b.y;
            sums[4 * j + 2] += b.x;
            sums[4 * j + 3] += b.y;
        }
    }
    if (GATED) {
#pragma unroll
        for (int j = 0; j < COUNT / 8; j++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                sums[4 * j + i] = activate_for<ELEMENT, ACTIVATION>(sums[8 * j + i]) * sums[8 * j + 4 + i];
            }
        }
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; i++) sums[i] = activate_for<ELEMENT, ACTIVATION>(sums[i]);
    }
}

// Where a warp brings rows together: PANELS panels in turn.
template <int PANELS>
struct Panels {
    u32 first, turn;

    // The next panel, once the store that read it before is done.
    __device__ __forceinline__ u32 next() {
        if ((threadIdx.x & 31) == 0) wait_stores_read<PANELS - 1>();
        __syncwarp();
        if (PANELS == 1) return first;
        turn ^= 1;
        return first + turn * 2048;
    }
};

template <>
struct Panels<0> {
    u32 first, turn;
};

// Writes a warp's 16 rows of GROUPS * 8 columns from `column` on, 64 columns at a time.
template <int ELEMENT, int GROUPS, int PANELS>
__device__ __forceinline__ void write(const float* sums, const Linear& layer, Panels<PANELS>& panels, u32 row, u32 column) {
    static_assert(GROUPS % 8 == 0, "whole tiles");
#pragma unroll
    for (int chunk = 0; chunk < GROUPS / 8; chunk++) {
        if (column / 64 + chunk >= layer.out_steps) return;
        const u32 panel = panels.next();
#pragma unroll
        for (int j = 0; j < 8; j += 2) {
            to_panel<ELEMENT>(panel, j, sums + 32 * chunk + 4 * j, sums + 32 * chunk + 4 * j + 4);
        }
        show_copies();
        __syncwarp();
        if ((threadIdx.x & 31) == 0) {
            store_bulk(layer.out + place(row, (column / 64 + chunk) * 8, layer.out_steps), panel, 2048);
        }
    }
}

// The same for less than 64 columns, directly.
template <int ELEMENT, int GROUPS>
__device__ __forceinline__ void write_few(const float* sums, const Linear& layer, u32 row, u32 column) {
    const u32 lane = threadIdx.x & 31;
#pragma unroll
    for (int j = 0; j < GROUPS; j++) {
        if (column / 8 + j >= layer.out_steps * 8) return;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            u8* to = layer.out + place(row + lane / 4 + 8 * h, column / 8 + j, layer.out_steps) + lane % 4 * 4;
            *(u32*)to = pair_of<ELEMENT>(sums[4 * j + 2 * h], sums[4 * j + 2 * h + 1]);
        }
    }
}

// Brings a tile of sums to its place in the output.
template <int ELEMENT, int ACTIVATION, bool GATED, int COLUMNS, int PANELS>
__device__ __forceinline__ void emit(float (&sums)[COLUMNS / 2], const Linear& layer, Panels<PANELS>& panels, u32 row,
                                     u32 column) {
    constexpr int GROUPS = GATED ? COLUMNS / 16 : COLUMNS / 8, OUT = ACTIVATION == HALVES ? F16 : ELEMENT;
    finish<OUT, ACTIVATION, GATED>(sums, layer.bias, column + threadIdx.x % 4 * 2);
    const u32 to = GATED ? column / 2 : column;
    if constexpr (GROUPS >= 8) write<OUT, GROUPS>(sums, layer, panels, row, to);
    else write_few<OUT, GROUPS>(sums, layer, row, to);
}

template <int ELEMENT, int COLUMNS, int PANELS>
__device__ __forceinline__ void emit_any(float (&sums)[COLUMNS / 2], const Linear& layer, Panels<PANELS>& panels, u32 row,
                                         u32 column) {
    if constexpr (COLUMNS != 192) {
        if (layer.gated) {
            if (layer.activation == SILU) emit<ELEMENT, SILU, true, COLUMNS>(sums, layer, panels, row, column);
            else if (layer.activation == GELU) emit<ELEMENT, GELU, true, COLUMNS>(sums, layer, panels, row, column);
            else if (layer.activation == GELU_TANH) emit<ELEMENT, GELU_TANH, true, COLUMNS>(sums, layer, panels, row, column);
            else emit<ELEMENT, RELU, true, COLUMNS>(sums, layer, panels, row, column);
            return;
        }
    }
    if (layer.activation == PLAIN) emit<ELEMENT, PLAIN, false, COLUMNS>(sums, layer, panels, row, column);
    else if (layer.activation == GELU) emit<ELEMENT, GELU, false, COLUMNS>(sums, layer, panels, row, column);
    else if (layer.activation == GELU_TANH) emit<ELEMENT, GELU_TANH, false, COLUMNS>(sums, layer, panels, row, column);
    else if (layer.activation == RELU) emit<ELEMENT, RELU, false, COLUMNS>(sums, layer, panels, row, column);
    else if (ELEMENT == F16 || layer.activation == SILU) emit<ELEMENT, SILU, false, COLUMNS>(sums, layer, panels, row, column);
    else emit<ELEMENT, HALVES, false, COLUMNS>(sums, layer, panels, row, column);
}

// A block's tiles: every `apart`th from `first` on, of BLOCKS blocks that have rows one below the other, in the order of rows
// or against it.
template <int ROWS, int COLUMNS, int BLOCKS>
struct BlockTiles {
    u32 across, count, backwards;

    __device__ __forceinline__ BlockTiles(const Linear& layer) {
        across = (layer.columns + COLUMNS - 1) / COLUMNS;
        count = (layer.rows + ROWS * BLOCKS - 1) / (ROWS * BLOCKS) * across;
        backwards = layer.backwards;
    }
    static __device__ __forceinline__ u32 first() { return blockIdx.x / BLOCKS; }
    static __device__ __forceinline__ u32 apart() { return gridDim.x / BLOCKS; }
    __device__ __forceinline__ u32 at(u32 tile) const { return backwards ? count - 1 - tile : tile; }
    // Of this block; in a pair it may be behind the last row.
    __device__ __forceinline__ u32 row(u32 tile) const {
        return (at(tile) / across * BLOCKS + blockIdx.x % BLOCKS) * ROWS;
    }
    __device__ __forceinline__ u32 column(u32 tile) const { return at(tile) % across * COLUMNS; }
};

// Copies steps of all of a block's tiles to its stages; one thread. In a pair, each block brings half of the weight to both.
// The first stages' weights do not wait for the launch before.
template <int ROW_GROUPS, int COLUMNS, int STAGES, int BLOCKS>
__device__ __forceinline__ void fill(const Linear& layer, u32 data, u32 full, u32 free) {
    typedef Tiles<ROW_GROUPS, COLUMNS, STAGES> Size;
    const BlockTiles<Size::ROWS, COLUMNS, BLOCKS> tiles(layer);
    constexpr u32 PIECE = BLOCKS == 2 ? TILE_ROWS : COLUMNS < 64 ? COLUMNS : 64;
    static_assert(BLOCKS == 1 || COLUMNS == 2 * TILE_ROWS, "two tiles of the weight");
    // Rows behind the last are not read; the sums of whatever is in their place go nowhere.
    auto rows_bytes = [&](u32 row) { return row < layer.rows ? min((layer.rows - row + 7) / 8 * 8, Size::ROWS) * 128 : 0; };
    auto fetch_weight = [&](u32 column, u32 bytes, u32 step, u32 to, u32 here) {
        barrier_expect(here, bytes + COLUMNS * 128);
#pragma unroll
        for (u32 piece = 0; piece < COLUMNS / PIECE; piece++) {
            const u8* weight = layer.weight + place(column + PIECE * piece, 0, layer.steps) + (u64)step * TILE_BYTES;
            const u32 there = to + Size::ROWS_BYTES + piece * (PIECE * 128);
            if constexpr (BLOCKS == 1) copy_bulk(there, weight, PIECE * 128, here);
            else if (piece == blockIdx.x % 2) copy_bulk_to_all<2>(there, weight, PIECE * 128, here);
        }
    };
    u32 early = min(layer.steps, (u32)STAGES);
    const u32 first_column = tiles.column(tiles.first()), first_bytes = rows_bytes(tiles.row(tiles.first()));
    for (u32 step = 0; step < early; step++) {
        fetch_weight(first_column, first_bytes, step, data + step * Size::STAGE_BYTES, full + step * 8);
    }
    wait_for_launches();
    // A wait for the parity before the first round ends at once: all stages are free.
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
            if (BLOCKS == 1 || bytes) copy_bulk(to, rows + (u64)step * TILE_BYTES, bytes, here);
            turn.next();
        }
    }
}

// Multiplies and writes all of a block's tiles; the warps of the first ROW_GROUPS warpgroups. Where registers allow it, the bias
// is read before the products and not behind them, when nothing else is left to do while it comes.
template <int ELEMENT, int ROW_GROUPS, int COLUMNS, int STAGES, int BLOCKS>
__device__ __forceinline__ void multiply(const Linear& layer, u32 data, u32 full, u32 free, u32 panel) {
    typedef Tiles<ROW_GROUPS, COLUMNS, STAGES> Size;
    const BlockTiles<Size::ROWS, COLUMNS, BLOCKS> tiles(layer);
    typedef typename Groups<ELEMENT>::Type Group;
    constexpr bool EARLY_BIAS = COLUMNS > 128;
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x & 31, group = warp / 4;
    Linear unbiased = layer;
    if (EARLY_BIAS) unbiased.bias = nullptr;
    Panels<Size::PANELS> panels = {panel, 0};
    Turn<STAGES> turn = {0, 0};
    float sums[COLUMNS / 2];
    auto used = [&](u32 stage) {
        if (BLOCKS == 1 && lane == 0) barrier_arrive(free + stage * 8);
        if (BLOCKS == 2 && lane < 2) barrier_arrive_in(free + stage * 8, lane);
    };
    for (u32 tile = tiles.first(); tile < tiles.count; tile += tiles.apart()) {
        u32 before = 0;
        float2 bias[EARLY_BIAS ? COLUMNS / 8 : 1];
        if (EARLY_BIAS && layer.bias) {
            const float* from = layer.bias + tiles.column(tile) + lane % 4 * 2;
#pragma unroll
            for (u32 j = 0; j < COLUMNS / 8; j++) bias[j] = *(const float2*)(from + 8 * j);
        }
        for (u32 step = 0; step < layer.steps; step++) {
            barrier_wait(full + turn.stage * 8, turn.parity);
            const u32 stage = data + turn.stage * Size::STAGE_BYTES;
            const u64 rows = matrix_at(stage + group * 8192), weight = matrix_at(stage + Size::ROWS_BYTES);
            pin(sums);
            begin_products();
#pragma unroll
            for (u32 part = 0; part < 4; part++) {
                Group::multiply(sums, rows + part * 2, weight + part * 2, step + part != 0);
            }
            commit_products();
            pin(sums);
            if (step > 0) {
                wait_products<1>();
                used(before);
            }
            before = turn.stage;
            turn.next();
        }
        wait_products<0>();
        pin(sums);
        used(before);
        const u32 row = tiles.row(tile);
        if (BLOCKS == 2 && row >= layer.rows) continue;
        if (EARLY_BIAS && layer.bias) {
#pragma unroll
            for (u32 i = 0; i < COLUMNS / 2; i++) sums[i] += i % 2 ? bias[i / 4].y : bias[i / 4].x;
        }
        emit_any<ELEMENT, COLUMNS>(sums, unbiased, panels, row + warp * 16, tiles.column(tile));
    }
    if (lane == 0) wait_stores_read<0>();
}

template <int ELEMENT, int ROW_GROUPS, int COLUMNS, int STAGES, int BLOCKS = 1>
__device__ __forceinline__ void linear(const Linear& layer) {
    typedef Tiles<ROW_GROUPS, COLUMNS, STAGES> Size;
    extern __shared__ __align__(1024) u8 shared[];
    start_next_launch();
    const u32 data = shared_address(shared), panels = data + STAGES * Size::STAGE_BYTES;
    const u32 full = panels + 4 * ROW_GROUPS * Size::PANELS * Size::PANEL_BYTES, free = full + STAGES * 8;
    if (threadIdx.x == 0) {
        for (u32 stage = 0; stage < STAGES; stage++) {
            barrier_begin(full + stage * 8, 1);
            // One arrival of each warp that multiplies.
            barrier_begin(free + stage * 8, 4 * ROW_GROUPS * BLOCKS);
        }
        barriers_begun();
    }
    if (BLOCKS == 2) sync_cluster();
    else __syncthreads();

    const u32 warp = threadIdx.x / 32, panel = panels + warp * Size::PANELS * Size::PANEL_BYTES;
    if (warp >= 4 * ROW_GROUPS) {
        if (COLUMNS > 128) shrink_registers<40>();
        if (threadIdx.x == 128 * ROW_GROUPS) fill<ROW_GROUPS, COLUMNS, STAGES, BLOCKS>(layer, data, full, free);
    } else {
        if (COLUMNS > 128) grow_registers<232>();
        multiply<ELEMENT, ROW_GROUPS, COLUMNS, STAGES, BLOCKS>(layer, data, full, free, panel);
    }
    if (BLOCKS == 1) return;
    // Until the end, the other block may arrive at barriers of this one.
    __syncwarp();
    sync_cluster();
}

#define PAIRED __cluster_dims__(2, 1, 1)

#else

#define PAIRED

template <int ELEMENT, int ROW_GROUPS, int COLUMNS, int STAGES, int BLOCKS = 1>
__device__ __forceinline__ void linear(const Linear& layer) {}

#endif
