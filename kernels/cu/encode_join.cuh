// A linear layer, the residual and the norm behind it, in one. On other devices than Hopper the kernels are empty.

#pragma once
#include "encode_relay.cuh"

// encode_join_{format}_{384, 768}: out = norm(residual + layer), where the layer has that many columns and no activation; the
// same bits as its linear layer and its norm in turn give, but what the layer gives is never written. out may be residual.
// Blocks are those of encode_relay.cuh, but BLOCKS = columns / 192 of them in a cluster have the same rows: each copies its
// share of the rows to all, and has three tiles of columns of its own, whose weights stay the same. They tell each other the
// sums of their rows, first of the numbers, then of the squares of what is left without the mean. A warp does that with the
// warps in its place, so that no other waits; what it waits for also keeps it from writing where others still read:
//   - a warp's panels hold the residual first, then the output. The warp that has emptied them, of either group, asks for
//     the residual of the block's next tile.
//   - a warp tells sums of squares once it has read all sums of numbers, and begins a tile once the one in its place in the
//     other group has read all sums of squares of the tile before. So one place is enough for each.
//   384 threads, one block a multiprocessor, BLOCKS times at most as many blocks as there are clusters at once; dynamic shared
//   memory: SHARED bytes
struct Join {
    Linear layer;
    const u8* residual; // tiled as out
    Norm norm;
};

template <int STAGES>
struct Joint {
    // Of each warp's 32 rows.
    static constexpr u32 PANELS = 6 * 2048, SUMS = 2 * 4 * 32 * 4;
    static constexpr u32 PANELS_AT = STAGES * Relay<STAGES>::STAGE_BYTES, SUMS_AT = PANELS_AT + 4 * PANELS;
    static constexpr u32 FACTORS_AT = SUMS_AT + 4 * SUMS, BARRIERS_AT = FACTORS_AT + 3 * 192 * 4;
    // Full, free and order; then of each warp and half one for each kind of sums, and one for the residual of each group.
    static constexpr u32 TOLD_AT = BARRIERS_AT + (2 * STAGES + 2) * 8, FETCHED_AT = TOLD_AT + 128,
                         SHARED = FETCHED_AT + 128;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Which tile of columns is chunk 0, 1 or 2 of a block: those of a quarter of encode.cuh, or for two blocks of two quarters.
template <int BLOCKS>
__device__ __forceinline__ u32 tile_of(u32 chunk) {
    const u32 block = blockIdx.x % BLOCKS;
    if (BLOCKS == 4) return block + 4 * chunk;
    return block + (8 >> chunk) % 8;
}

// The rows that a cluster has in turn.
template <int BLOCKS>
struct ClusterTiles {
    u32 count, backwards;

    __device__ __forceinline__ ClusterTiles(const Linear& layer) : count((layer.rows + 127) / 128), backwards(layer.backwards) {}
    static __device__ __forceinline__ u32 first() { return blockIdx.x / BLOCKS; }
    static __device__ __forceinline__ u32 apart() { return gridDim.x / BLOCKS; }
    __device__ __forceinline__ u32 row(u32 tile) const { return (backwards ? count - 1 - tile : tile) * 128; }
};

// Copies steps of all of a block's tiles to its stages; one thread. The first stages' weights do not wait for the launch
// before.
template <int STAGES, int BLOCKS>
__device__ __forceinline__ void fill_join(const Linear& layer, u32 data, u32 full, u32 free) {
    typedef Relay<STAGES> Size;
    constexpr u32 SHARE = Size::ROWS_BYTES / BLOCKS;
    const ClusterTiles<BLOCKS> tiles(layer);
    const u32 share = blockIdx.x % BLOCKS * SHARE;
    auto rows_bytes = [&](u32 row) { return min((layer.rows - row + 7) / 8 * 8, 128) * 128; };
    auto fetch_weight = [&](u32 bytes, u32 step, u32 to, u32 here) {
        barrier_expect(here, bytes + Size::COLUMNS * 128);
#pragma unroll
        for (u32 chunk = 0; chunk < 3; chunk++) {
            const u8* weight = layer.weight + place(tile_of<BLOCKS>(chunk) * 64, 0, layer.steps) + (u64)step * TILE_BYTES;
            copy_bulk(to + Size::ROWS_BYTES + chunk * 8192, weight, 8192, here);
        }
    };
    u32 early = min(layer.steps, (u32)STAGES);
    const u32 first_bytes = rows_bytes(tiles.row(tiles.first()));
    for (u32 step = 0; step < early; step++) {
        fetch_weight(first_bytes, step, data + step * Size::STAGE_BYTES, full + step * 8);
    }
    wait_for_launches();
    Turn<STAGES> turn = {0, 1};
    for (u32 tile = tiles.first(); tile < tiles.count; tile += tiles.apart()) {
        const u32 row = tiles.row(tile), bytes = rows_bytes(row), mine = bytes > share ? min(bytes - share, SHARE) : 0;
        const u8* rows = layer.x + place(row, 0, layer.steps) + share;
        for (u32 step = 0; step < layer.steps; step++) {
            const u32 to = data + turn.stage * Size::STAGE_BYTES, here = full + turn.stage * 8;
            if (early > 0) {
                early--;
            } else {
                barrier_wait(free + turn.stage * 8, turn.parity);
                fetch_weight(bytes, step, to, here);
            }
            if (mine) copy_bulk_to_all<BLOCKS>(to + share, rows + (u64)step * TILE_BYTES, mine, here);
            turn.next();
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

// One warp's part in what follows the products, for its 16 rows of one half of a tile at a time. A lane has 48 numbers of two
// rows there: number 4 p + 2 r + b of chunk c is that of row lane / 4 + 8 r and column 8 p + 2 (lane % 4) + b of the chunk.
template <int ELEMENT, int STAGES, int BLOCKS>
struct Joiner {
    typedef Joint<STAGES> Size;
    static constexpr float SHARE = 1.0f / (192 * BLOCKS);

    const Join& join;
    u32 data, lane;
    u32 panel;   // where a lane's part of the first pieces of this warp's panels begins, for loads and stores of matrices
    u32 factors; // of this lane's first columns: the layer's bias; the norm's weight and bias lie behind

    __device__ __forceinline__ Joiner(const Join& join, u32 data) : join(join), data(data), lane(threadIdx.x & 31) {
        panel = panels() + lane % 16 * 128 + ((lane / 16 ^ (lane & 7)) << 4);
        factors = data + Size::FACTORS_AT + lane % 4 * 8;
    }

    static __device__ __forceinline__ u32 warp() { return threadIdx.x / 32 % 4; }
    // The barrier of the residual of a half of a group's tile.
    __device__ __forceinline__ u32 fetched(u32 group, u32 half) const {
        return data + Size::FETCHED_AT + (group * 8 + half * 4 + warp()) * 8;
    }
    // The barrier of a half's sums, of numbers or of squares.
    __device__ __forceinline__ u32 told(u32 half, u32 squares) const {
        return data + Size::TOLD_AT + (warp() * 4 + half * 2 + squares) * 8;
    }
    __device__ __forceinline__ u32 panels() const { return data + Size::PANELS_AT + warp() * Size::PANELS; }
    __device__ __forceinline__ u32 in_panel(u32 half, u32 chunk, u32 piece) const {
        return (panel ^ piece << 4) + (half * 3 + chunk) * 2048;
    }

    // Asks for the residual of half a tile; one lane.
    __device__ __forceinline__ void fetch(u32 row, u32 group, u32 half) const {
        const u8* from = join.residual + place(row + half * 64 + warp() * 16, 0, join.layer.out_steps);
        const u32 to = panels() + half * (3 * 2048), here = fetched(group, half);
        barrier_expect(here, 3 * 2048);
#pragma unroll
        for (u32 chunk = 0; chunk < 3; chunk++) {
            copy_bulk(to + chunk * 2048, from + tile_of<BLOCKS>(chunk) * TILE_BYTES, 2048, here);
        }
    }

    __device__ __forceinline__ float2 factor(u32 which, u32 chunk, u32 piece) const {
        return load_pair(factors + (which * 192 + chunk * 64 + piece * 8) * 4);
    }

    // Adds the layer's bias, rounds, and adds the residual.
    __device__ __forceinline__ void add(float (&x)[96], u32 half) const {
#pragma unroll
        for (int chunk = 0; chunk < 3; chunk++) {
#pragma unroll
            for (int p = 0; p < 8; p += 2) {
                u32 residual[4];
                load_matrices(residual, in_panel(half, chunk, p));
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    float* to = x + chunk * 32 + (p + i / 2) * 4 + i % 2 * 2;
                    const float2 bias = factor(0, chunk, p + i / 2);
                    const u32 delta = pair_of<ELEMENT>(to[0] + bias.x, to[1] + bias.y);
                    to[0] = number_of<ELEMENT>((u16)residual[i]) + number_of<ELEMENT>((u16)delta);
                    to[1] = number_of<ELEMENT>((u16)(residual[i] >> 16)) + number_of<ELEMENT>((u16)(delta >> 16));
                }
            }
        }
    }

    // The sum over chunks FROM .. TO of one of the rows, of this lane's pairs.
    template <bool SQUARED, int FROM, int TO>
    __device__ __forceinline__ static float row_part(const float (&x)[96], int row) {
        auto piece = [&](int p) {
            float sum = 0.0f;
#pragma unroll
            for (int i = 2 * FROM; i < 2 * TO; i++) {
                const float number = x[i / 2 * 32 + p * 4 + row * 2 + i % 2];
                sum = SQUARED ? fmaf(number, number, sum) : sum + number;
            }
            return sum;
        };
        return ((piece(0) + piece(4)) + (piece(2) + piece(6))) + ((piece(1) + piece(5)) + (piece(3) + piece(7)));
    }

    // Where the sum over a quarter of a lane's own row lies, that is row lane % 2 of the quad's two.
    __device__ __forceinline__ u32 sum_at(u32 half, u32 squares, u32 quarter) const {
        const u32 row = lane % 2 * 8 + lane / 4;
        return data + Size::SUMS_AT + (((warp() * 2 + half) * 2 + squares) * 64 + quarter * 16 + row) * 4;
    }

    // Tells all blocks the sums over a quarter. Two lanes of a quad come to the same sum, and tell half of the blocks each.
    template <bool SQUARED, int FROM, int TO>
    __device__ __forceinline__ void tell(const float (&x)[96], u32 half, u32 quarter) const {
        const float first = row_part<SQUARED, FROM, TO>(x, 0), second = row_part<SQUARED, FROM, TO>(x, 1);
        float sum = lane & 1 ? second : first;
        sum += __shfl_xor_sync(FULL_WARP, lane & 1 ? first : second, 1);
        sum += __shfl_xor_sync(FULL_WARP, sum, 2);
#pragma unroll
        for (u32 block = 0; block < BLOCKS; block += 2) {
            store_in(sum_at(half, SQUARED, quarter), sum, told(half, SQUARED), block + lane / 2 % 2);
        }
    }

    // Tells all blocks a half's sums.
    template <bool SQUARED>
    __device__ __forceinline__ void tell_all(const float (&x)[96], u32 half) const {
        const u32 block = blockIdx.x % BLOCKS;
        if (BLOCKS == 4) {
            tell<SQUARED, 0, 3>(x, half, block);
        } else {
            tell<SQUARED, 0, 2>(x, half, block);
            tell<SQUARED, 2, 3>(x, half, block + 2);
        }
    }

    // The sum over a whole row, that of a lane's own one, of numbers or of squares, once all blocks have told.
    __device__ __forceinline__ float total(u32 half, u32 squares, u32 parity) const {
        if (lane == 0) barrier_expect(told(half, squares), 4 * 16 * 4);
        __syncwarp();
        barrier_wait(told(half, squares), parity);
        float quarters[4];
#pragma unroll
        for (u32 quarter = 0; quarter < 4; quarter++) quarters[quarter] = load_number(sum_at(half, squares, quarter));
        return (quarters[0] + quarters[2]) + (quarters[1] + quarters[3]);
    }

    // What the lane of the quad has whose own row this is.
    __device__ __forceinline__ float of_row(float x, u32 row) const { return __shfl_sync(FULL_WARP, x, (lane & ~3u) | row); }

    // Takes the mean away.
    __device__ __forceinline__ void centre(float (&x)[96], float sum) const {
        const float mean = join.norm.kind == LAYER_NORM ? norm_mean(sum, SHARE) : 0.0f;
#pragma unroll
        for (int row = 0; row < 2; row++) {
            const float of = of_row(mean, row);
#pragma unroll
            for (int i = 0; i < 48; i++) x[i / 2 * 4 + row * 2 + i % 2] -= of;
        }
    }

    // Divides by the square root of the variance, multiplies with the norm's weight, adds its bias, and writes.
    __device__ __forceinline__ void write(float (&x)[96], float squares, u32 row, u32 half) const {
        const float scale = norm_scale(squares, SHARE, join.norm.epsilon);
        const float scales[2] = {of_row(scale, 0), of_row(scale, 1)};
#pragma unroll
        for (int p = 0; p < 8; p += 2) {
#pragma unroll
            for (int chunk = 0; chunk < 3; chunk++) {
                u32 words[4];
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const float* from = x + chunk * 32 + (p + i / 2) * 4 + i % 2 * 2;
                    const float2 weight = factor(1, chunk, p + i / 2), bias = factor(2, chunk, p + i / 2);
                    words[i] = pair_of<ELEMENT>(fmaf(from[0] * scales[i % 2], weight.x, bias.x),
                                                fmaf(from[1] * scales[i % 2], weight.y, bias.y));
                }
                store_matrices(in_panel(half, chunk, p), words[0], words[1], words[2], words[3]);
            }
        }
        show_copies();
        __syncwarp();
        if (lane > 0) return;
        u8* to = join.layer.out + place(row + half * 64 + warp() * 16, 0, join.layer.out_steps);
        const u32 from = panels() + half * (3 * 2048);
#pragma unroll
        for (u32 chunk = 0; chunk < 3; chunk++) store_bulk(to + tile_of<BLOCKS>(chunk) * TILE_BYTES, from + chunk * 2048, 2048);
    }
};

// Multiplies, normalises and writes every second of a block's tiles. While sums of one half of a tile are on their way, there is
// the other half to see to.
template <int ELEMENT, int STAGES, int BLOCKS>
__device__ __forceinline__ void multiply_join(const Join& join, u32 data, u32 full, u32 free, u32 order) {
    typedef typename Groups<ELEMENT>::Type Group;
    const ClusterTiles<BLOCKS> tiles(join.layer);
    Shift<STAGES, BLOCKS> shift(join.layer.steps, data, full, free, order);
    const Joiner<ELEMENT, STAGES, BLOCKS> joiner(join, data);
    const u32 group = shift.group();
    if (group == 0 && joiner.lane == 0) {
        wait_for_launches();
        for (u32 half = 0; half < 2; half++) joiner.fetch(tiles.row(tiles.first()), 0, half);
    }
    u32 parity = 0;
    for (u32 tile = tiles.first() + group * tiles.apart(); tile < tiles.count; tile += 2 * tiles.apart()) {
        float x[2][96];
        shift.template multiply<Group>(x, join.layer.steps);
#pragma unroll
        for (u32 half = 0; half < 2; half++) {
            barrier_wait(joiner.fetched(group, half), parity);
            joiner.add(x[half], half);
            joiner.template tell_all<false>(x[half], half);
        }
        parity ^= 1;
        // In this order registers suffice.
#pragma unroll
        for (int half = 1; half >= 0; half--) {
            joiner.centre(x[half], joiner.total(half, 0, group));
            joiner.template tell_all<true>(x[half], half);
        }
#pragma unroll
        for (int half = 1; half >= 0; half--) joiner.write(x[half], joiner.total(half, 1, group), tiles.row(tile), half);
        if (joiner.lane == 0 && tile + tiles.apart() < tiles.count) {
            wait_stores_read<3>();
            joiner.fetch(tiles.row(tile + tiles.apart()), group ^ 1, 1);
            wait_stores_read<0>();
            joiner.fetch(tiles.row(tile + tiles.apart()), group ^ 1, 0);
        }
        __syncwarp();
    }
    if (joiner.lane == 0) wait_stores_read<0>();
}

// Reads what is added to and multiplied with a block's columns. A layer without a bias adds what changes nothing, not even a
// zero's sign.
template <int BLOCKS>
__device__ __forceinline__ void read_factors(const Join& join, float* to) {
    for (u32 at = threadIdx.x; at < 192; at += blockDim.x) {
        const u32 column = tile_of<BLOCKS>(at / 64) * 64 + at % 64;
        to[at] = join.layer.bias ? join.layer.bias[column] : -0.0f;
        to[192 + at] = join.norm.weight[column];
        to[384 + at] = join.norm.bias ? join.norm.bias[column] : 0.0f;
    }
}

template <int ELEMENT, int STAGES, int BLOCKS>
__device__ __forceinline__ void linear_join(const Join& join) {
    typedef Joint<STAGES> Size;
    extern __shared__ __align__(1024) u8 shared[];
    start_next_launch();
    const u32 data = shared_address(shared), full = data + Size::BARRIERS_AT, free = full + STAGES * 8;
    const u32 order = free + STAGES * 8;
    if (threadIdx.x == 0) {
        for (u32 stage = 0; stage < STAGES; stage++) {
            barrier_begin(full + stage * 8, 1);
            // One arrival of each warp of all blocks that multiplies.
            barrier_begin(free + stage * 8, 4 * BLOCKS);
        }
        barrier_begin(order, 4);
        barrier_begin(order + 8, 4);
        for (u32 one = 2; one < 34; one++) barrier_begin(order + one * 8, 1);
        barriers_begun();
    }
    read_factors<BLOCKS>(join, (float*)(shared + Size::FACTORS_AT));
    sync_cluster();
    if (threadIdx.x >= 256) {
        shrink_registers<24>();
        if (threadIdx.x == 256) fill_join<STAGES, BLOCKS>(join.layer, data, full, free);
    } else {
        grow_registers<240>();
        multiply_join<ELEMENT, STAGES, BLOCKS>(join, data, full, free, order);
    }
    // Until the end, other blocks may arrive at barriers of this one.
    __syncwarp();
    sync_cluster();
}

#define CLUSTER_OF(blocks) __cluster_dims__(blocks, 1, 1)

#else

#define CLUSTER_OF(blocks)

template <int ELEMENT, int STAGES, int BLOCKS>
__device__ __forceinline__ void linear_join(const Join& join) {}

#endif
