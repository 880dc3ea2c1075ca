// Attention on tensor cores (mma.sync, from sm_80 on). On older devices the kernels are empty.

#pragma once
#include "encode_attention.cuh"
#include "mma.cuh"

// encode_attend_{D}, encode_attend_{D}_long: attention (see encode_attention.cuh) for heads padded to D = 32, 64 or 128
// columns, of texts of at most 64 tokens and of longer ones. Queries, keys, values and shares are binary16 in models of
// bfloat16 too: they fit its range, and it has three bits more where scores amplify what was rounded away. What is written
// is bfloat16 where `wide` says so.
// One block of 128 threads an item and head, or for short texts an item and 2 or 4 heads; a warp has 16 or 32 queries. Keys and
// values come to shared memory 64 rows at a time, the next while these are used. Scores and sums are in f32, the maximum
// is moved along (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018).
//   dynamic shared memory: 512 * D bytes
#if __CUDA_ARCH__ >= 800

// Where a 16-byte piece of one of 64 rows lies in shared memory, so that 8 rows' pieces lie in different banks.
template <int D>
__device__ __forceinline__ u32 slot(u32 row, u32 piece) {
    if (D == 32) return row * 64 + ((piece ^ (row / 2 & 3)) << 4);
    return piece / 8 * 8192 + row * 128 + ((piece % 8 ^ (row & 7)) << 4);
}

// What a warp computes: 16 queries of a head, and where its keys begin among the 64 rows.
struct Part {
    u32 start, length; // of the text
    u32 head, query, slot;
};

// Starts to copy keys and values: 64 rows of one head from `key` on, or the first rows of 4 / W heads; rows behind the end
// of the text repeat the last.
template <int D, int W>
__device__ __forceinline__ void fetch(const Attention& how, const Part& part, u32 head, u32 key, u32 keys, u32 values) {
    constexpr u32 PIECES = D / 8, EACH = 16 * W;
#pragma unroll
    for (u32 at = threadIdx.x; at < 64 * PIECES; at += 128) {
        const u32 row = at / PIECES, piece = at % PIECES;
        const u32 mine = W == 4 ? head : min(head + row / EACH, how.heads - 1);
        const u32 token = min(W == 4 ? key + row : row % EACH, part.length - 1);
        const u32 column = (how.heads + mine / how.share) * PIECES + piece;
        const u32 to = slot<D>(row, piece);
        copy_async(keys + to, how.qkv + place(part.start + token, column, how.steps));
        copy_async(values + to, how.qkv + place(part.start + token, column + how.kv_heads * PIECES, how.steps));
    }
    commit_copies();
}

// The state of a warp with 16 M queries: the queries, sums of values, and of each of a lane's 2 M rows the maximum and the
// sum of shares.
template <int D, int M>
struct State {
    u32 queries[M][D / 16][4];
    float sums[M][D / 8][4];
    float most[M][2], total[M][2];
};

template <int D, int M>
__device__ __forceinline__ void begin(State<D, M>& state, const Attention& how, const Part& part) {
    const u32 lane = threadIdx.x & 31;
#pragma unroll
    for (u32 m = 0; m < M; m++) {
#pragma unroll
        for (u32 h = 0; h < 2; h++) {
            const u32 row = part.start + min(part.query + 16 * m + lane / 4 + 8 * h, part.length - 1);
#pragma unroll
            for (u32 k = 0; k < D / 16; k++) {
#pragma unroll
                for (u32 half = 0; half < 2; half++) {
                    const u64 at = place(row, part.head * (D / 8) + 2 * k + half, how.steps) + lane % 4 * 4;
                    state.queries[m][k][2 * half + h] = *(const u32*)(how.qkv + at);
                }
            }
            state.most[m][h] = -INFINITE;
            state.total[m][h] = 0.0f;
        }
#pragma unroll
        for (u32 i = 0; i < D / 8; i++) {
#pragma unroll
            for (u32 e = 0; e < 4; e++) state.sums[m][i][e] = 0.0f;
        }
    }
}

// Whether every one of 16 queries from `query` on reads every one of `count` keys from `key` on.
__device__ __forceinline__ bool reads_all(const Attention& how, const Part& part, u32 query, u32 key, u32 count) {
    const u32 last = key + count - 1;
    return last < part.length && (!how.causal || last <= query) &&
           (how.window == EVERYTHING || (query + 15 <= key + how.window && last <= query + how.window));
}

// Makes products of 16 queries from `query` on and keys from `key` on scores in powers of two: scaled, biased, and minus
// infinity where a query does not read a key.
template <int TILES>
__device__ __forceinline__ void rate(float (&scores)[TILES][4], const Attention& how, const Part& part, u32 query, u32 key) {
    const u32 lane = threadIdx.x & 31;
    const float scale = how.scale * LOG2_E;
    const bool biased = how.slopes || how.relative;
    if (!biased && !how.causal && how.window == EVERYTHING) {
        // Only the end of the text is in the way.
        const int left = (int)(part.length - key) - (int)(lane % 4 * 2);
#pragma unroll
        for (int j = 0; j < TILES; j++) {
#pragma unroll
            for (int e = 0; e < 4; e++) scores[j][e] = 8 * j + e % 2 < left ? scores[j][e] * scale : -INFINITE;
        }
        return;
    }
#pragma unroll
    for (u32 j = 0; j < TILES; j++) {
#pragma unroll
        for (u32 e = 0; e < 4; e++) {
            float& score = scores[j][e];
            const u32 from = query + lane / 4 + 8 * (e / 2), to = key + 8 * j + lane % 4 * 2 + e % 2;
            score *= scale;
            if (!reads(how, from, to, part.length)) score = -INFINITE;
            else if (biased && from < part.length) score = fmaf(bias_of(how, part.head, from, to), LOG2_E, score);
        }
    }
}

// Makes scores, in units of `unit`, shares of 16 queries, and what was summed before smaller where the maximum has grown.
template <int D, int M, int TILES>
__device__ __forceinline__ void share(float (&scores)[TILES][4], State<D, M>& state, u32 m, float unit) {
#pragma unroll
    for (u32 h = 0; h < 2; h++) {
        float peak = scores[0][2 * h];
#pragma unroll
        for (u32 j = 0; j < TILES; j++) peak = fmaxf(peak, fmaxf(scores[j][2 * h], scores[j][2 * h + 1]));
        peak = fmaxf(peak, __shfl_xor_sync(FULL_WARP, peak, 1));
        peak = fmaxf(peak, __shfl_xor_sync(FULL_WARP, peak, 2));
        peak = fmaxf(peak * unit, state.most[m][h]);
        // Nothing was read yet: any finite number will do.
        const float from = peak == -INFINITE ? 0.0f : peak, shrink = exp2_fast(state.most[m][h] - from);
        float total = 0.0f;
        state.most[m][h] = peak;
#pragma unroll
        for (u32 j = 0; j < TILES; j++) {
#pragma unroll
            for (u32 e = 0; e < 2; e++) {
                float& score = scores[j][2 * h + e];
                score = exp2_fast(fmaf(score, unit, -from));
                total += score;
            }
        }
        state.total[m][h] = fmaf(state.total[m][h], shrink, total);
#pragma unroll
        for (u32 i = 0; i < D / 8; i++) {
            state.sums[m][i][2 * h] *= shrink;
            state.sums[m][i][2 * h + 1] *= shrink;
        }
    }
}

// Takes 16 W keys and values in: `key` is the first of them.
template <int D, int W, int M>
__device__ __forceinline__ void take(State<D, M>& state, const Attention& how, const Part& part, u32 key, u32 keys, u32 values) {
    const u32 lane = threadIdx.x & 31;
    float scores[M][2 * W][4] = {};
#pragma unroll
    for (u32 k = 0; k < D / 16; k++) {
#pragma unroll
        for (u32 n = 0; n < W; n++) {
            u32 b[4];
            load_matrices(b, keys + slot<D>(part.slot + 16 * n + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
#pragma unroll
            for (u32 m = 0; m < M; m++) {
                F16Product::add(scores[m][2 * n], state.queries[m][k], b[0], b[1]);
                F16Product::add(scores[m][2 * n + 1], state.queries[m][k], b[2], b[3]);
            }
        }
    }
#pragma unroll
    for (u32 m = 0; m < M; m++) {
        const u32 query = part.query + 16 * m;
        const bool plain = !how.slopes && !how.relative && reads_all(how, part, query, key, 16 * W);
        if (!plain) rate<2 * W>(scores[m], how, part, query, key);
        share(scores[m], state, m, plain ? how.scale * LOG2_E : 1.0f);
    }
#pragma unroll
    for (u32 n = 0; n < W; n++) {
        u32 a[M][4];
#pragma unroll
        for (u32 m = 0; m < M; m++) {
#pragma unroll
            for (u32 i = 0; i < 4; i++) {
                const float* pair = &scores[m][2 * n + i / 2][i % 2 * 2];
                a[m][i] = f32_to_f16x2(pair[0], pair[1]);
            }
        }
#pragma unroll
        for (u32 i = 0; i < D / 16; i++) {
            u32 b[4];
            load_matrices_transposed(b, values + slot<D>(part.slot + 16 * n + lane % 16, 2 * i + lane / 16));
#pragma unroll
            for (u32 m = 0; m < M; m++) {
                F16Product::add(state.sums[m][2 * i], a[m], b[0], b[1]);
                F16Product::add(state.sums[m][2 * i + 1], a[m], b[2], b[3]);
            }
        }
    }
}

template <int D, int M>
__device__ __forceinline__ void end(const State<D, M>& state, const Attention& how, const Part& part) {
    const u32 lane = threadIdx.x & 31;
#pragma unroll
    for (u32 m = 0; m < M; m++) {
#pragma unroll
        for (u32 h = 0; h < 2; h++) {
            float total = state.total[m][h];
            total += __shfl_xor_sync(FULL_WARP, total, 1);
            total += __shfl_xor_sync(FULL_WARP, total, 2);
            const u32 query = part.query + 16 * m + lane / 4 + 8 * h;
            if (query >= part.length) continue;
            const float factor = 1.0f / total;
#pragma unroll
            for (u32 i = 0; i < D / 8; i++) {
                u8* to = how.out + place(part.start + query, part.head * (D / 8) + i, how.out_steps) + lane % 4 * 4;
                const float low = state.sums[m][i][2 * h] * factor, high = state.sums[m][i][2 * h + 1] * factor;
                *(u32*)to = how.wide ? f32_to_bf16x2(low, high) : f32_to_f16x2(low, high);
            }
        }
    }
}

// What a block takes.
__device__ __forceinline__ u32 block_of(const Attention& how) {
    return how.backwards ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
}

// A text of at most 16 W tokens, 4 / W heads from `head` on.
template <int D, int W>
__device__ __forceinline__ void attend_short(const Attention& how, u32 text, u32 head, u32 keys, u32 values) {
    const u32 warp = threadIdx.x / 32, start = how.starts[text];
    const Part part = {start, how.starts[text + 1] - start, head + warp / W, warp % W * 16, warp / W * 16 * W};
    wait_for_launches();
    fetch<D, W>(how, part, head, 0, keys, values);
    const bool some = part.head < how.heads && part.query < part.length;
    State<D, 1> state;
    if (some) begin(state, how, part);
    wait_copies<0>();
    __syncthreads();
    if (!some) return;
    take<D, W, 1>(state, how, part, 0, keys, values);
    end(state, how, part);
}

// 64 M queries of a text and head, from `query` on.
template <int D, int M>
__device__ __forceinline__ void attend_long(const Attention& how, u32 start, u32 length, u32 query, u32 head, u32 keys, u32 values) {
    constexpr u32 BYTES = 128 * D, QUERIES = 64 * M;
    const Part part = {start, length, head, query + threadIdx.x / 32 * (16 * M), 0};
    u32 first = 0, last = length;
    if (how.window != EVERYTHING) {
        first = query > how.window ? (query - how.window) / 64 * 64 : 0;
        last = min(last, min(query + QUERIES - 1, length) + min(how.window, length) + 1);
    }
    if (how.causal) last = min(last, query + QUERIES);
    fetch<D, 4>(how, part, head, first, keys, values);
    State<D, M> state;
    begin(state, how, part);
    u32 turn = 0;
    for (u32 key = first; key < last; key += 64) {
        if (key + 64 < last) {
            fetch<D, 4>(how, part, head, key + 64, keys + (turn ^ 1) * BYTES, values + (turn ^ 1) * BYTES);
            wait_copies<1>();
        } else {
            wait_copies<0>();
        }
        __syncthreads();
        if (part.query < length) take<D, 4, M>(state, how, part, key, keys + turn * BYTES, values + turn * BYTES);
        __syncthreads();
        turn ^= 1;
    }
    if (part.query < length) end(state, how, part);
}

// Texts of more than 64 tokens. Two tiles of queries a warp use what is read of keys and values twice, where the registers
// allow it.
template <int D>
__device__ __forceinline__ void attend_many(const Attention& how) {
    follow_launches();
    extern __shared__ __align__(128) u8 shared[];
    const u32 keys = shared_address(shared), values = keys + 256 * D, block = block_of(how), head = block % how.heads;
    const uint2 item = how.items[block / how.heads];
    const u32 start = how.starts[item.x], length = how.starts[item.x + 1] - start;
    constexpr u32 TILES = D < 128 ? 2 : 1;
#pragma unroll 1
    for (u32 query = item.y; query < min(item.y + 128, length); query += 64 * TILES) {
        attend_long<D, TILES>(how, start, length, query, head, keys, values);
    }
}

// Texts of at most 64 tokens. What is uploaded is there before the first launch of a pass; only what a launch wrote is waited
// for.
template <int D>
__device__ __forceinline__ void attend_few(const Attention& how) {
    start_next_launch();
    extern __shared__ __align__(128) u8 shared[];
    const u32 keys = shared_address(shared), values = keys + 256 * D;
    const u32 pairs = (how.heads + 1) / 2, fours = (how.heads + 3) / 4;
    const uint2* items = how.items + how.long_items;
    u32 block = block_of(how);
    if (block < how.whole_items * how.heads) {
        attend_short<D, 4>(how, items[block / how.heads].x, block % how.heads, keys, values);
        return;
    }
    block -= how.whole_items * how.heads;
    items += how.whole_items;
    if (block < how.middle_items * pairs) {
        attend_short<D, 2>(how, items[block / pairs].x, block % pairs * 2, keys, values);
        return;
    }
    block -= how.middle_items * pairs;
    items += how.middle_items;
    attend_short<D, 1>(how, items[block / fours].x, block % fours * 4, keys, values);
}

#else

template <int D>
__device__ __forceinline__ void attend_many(const Attention& how) {}

template <int D>
__device__ __forceinline__ void attend_few(const Attention& how) {}

#endif
