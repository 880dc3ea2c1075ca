// Rows of states: embedding sums and norms. One warp a row, or for wide rows a block.

#include "encode.cuh"

// A row in the registers of WARPS warps, 1 or all of a block: a thread has piece `own` + 32 WARPS i in numbers EACH * i on.
// Pieces beyond `pieces` are zeros.
template <int ELEMENT, int PIECES, int WARPS>
struct Row {
    static constexpr int EACH = Elements<ELEMENT>::EACH;
    float numbers[PIECES * EACH];
};

// Calls visit(i, piece) for each piece that this thread has.
template <int PIECES, int WARPS, typename Visit>
__device__ __forceinline__ void each_piece(u32 pieces, const Visit& visit) {
#pragma unroll
    for (int i = 0; i < PIECES; i++) {
        const u32 piece = threadIdx.x % (32 * WARPS) + 32 * WARPS * i;
        if (piece < pieces) visit(i, piece);
    }
}

// Sum over a row, in each of its threads, of what each of them has of columns 2 q and 2 q + 1 of its pieces in pairs[q]; each
// call of a block has `scratch` of its own. Where a warp has a row of 16-bit elements, the order is the one that encode.cuh
// defines.
template <int PAIRS, int WARPS>
__device__ __forceinline__ float row_sum(const float (&pairs)[PAIRS], float* scratch) {
    if constexpr (WARPS > 1 || PAIRS != 4) {
        float sum = pairs[0];
#pragma unroll
        for (int q = 1; q < PAIRS; q++) sum += pairs[q];
        if constexpr (WARPS > 1) return block_sum(sum, scratch);
        else return warp_sum(sum);
    } else {
        const bool upper = threadIdx.x & 4, odd = threadIdx.x & 2;
        float even_pair = upper ? pairs[2] : pairs[0], odd_pair = upper ? pairs[3] : pairs[1];
        // Of the eight lanes of a tile each has one pair in the end, of all eight pieces.
        even_pair += __shfl_xor_sync(FULL_WARP, upper ? pairs[0] : pairs[2], 4);
        odd_pair += __shfl_xor_sync(FULL_WARP, upper ? pairs[1] : pairs[3], 4);
        float sum = odd ? odd_pair : even_pair;
        sum += __shfl_xor_sync(FULL_WARP, odd ? even_pair : odd_pair, 2);
        sum += __shfl_xor_sync(FULL_WARP, sum, 1);
        sum += __shfl_xor_sync(FULL_WARP, sum, 2);
        sum += __shfl_xor_sync(FULL_WARP, sum, 4);
        sum += __shfl_xor_sync(FULL_WARP, sum, 16);
        return sum + __shfl_xor_sync(FULL_WARP, sum, 8);
    }
}

// The weights of a norm that a thread multiplies with, in registers: read early, before the launch before is over. What is
// read when it is needed takes fewer registers, which is better where many rows are on their way.
template <int ELEMENT, int PIECES, int WARPS, bool EARLY>
struct Weights {
    __device__ __forceinline__ Weights(const Norm& norm, u32 pieces) {}
    static __device__ __forceinline__ float4 bias(const Norm& norm, u32 at) {
        return norm.bias ? *(const float4*)(norm.bias + at) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
    __device__ __forceinline__ float4 scale_of(const Norm& norm, int, u32 at) const { return *(const float4*)(norm.weight + at); }
    __device__ __forceinline__ float4 bias_of(const Norm& norm, int, u32 at) const { return bias(norm, at); }
};

template <int ELEMENT, int PIECES, int WARPS>
struct Weights<ELEMENT, PIECES, WARPS, true> {
    static constexpr int EACH = Elements<ELEMENT>::EACH;
    float4 scales[PIECES * EACH / 4], biases[PIECES * EACH / 4];

    __device__ __forceinline__ Weights(const Norm& norm, u32 pieces) {
        if (!norm.kind) return;
        each_piece<PIECES, WARPS>(pieces, [&](int i, u32 piece) {
#pragma unroll
            for (int e = 0; e < EACH; e += 4) {
                scales[(i * EACH + e) / 4] = *(const float4*)(norm.weight + piece * EACH + e);
                biases[(i * EACH + e) / 4] = Weights<ELEMENT, PIECES, WARPS, false>::bias(norm, piece * EACH + e);
            }
        });
    }
    __device__ __forceinline__ float4 scale_of(const Norm&, int i, u32) const { return scales[i / 4]; }
    __device__ __forceinline__ float4 bias_of(const Norm&, int i, u32) const { return biases[i / 4]; }
};

// Normalises the first `width` numbers of a row; the rest becomes zeros. The variance is that of the differences from the
// mean, all sums in f32 by one fixed tree.
template <int ELEMENT, int PIECES, int WARPS, bool EARLY>
__device__ __forceinline__ void normalise(Row<ELEMENT, PIECES, WARPS>& row, const Norm& norm, u32 width, u32 pieces,
                                          const Weights<ELEMENT, PIECES, WARPS, EARLY>& weights) {
    constexpr int EACH = Elements<ELEMENT>::EACH;
    __shared__ float scratch[2][32];
    const float share = 1.0f / (float)width;
    float mean = 0.0f;
    if (norm.kind == LAYER_NORM) {
        float sums[EACH / 2] = {};
#pragma unroll
        for (int i = 0; i < PIECES * EACH; i++) sums[i % EACH / 2] += row.numbers[i];
        mean = norm_mean(row_sum<EACH / 2, WARPS>(sums, scratch[0]), share);
    }
    float squares[EACH / 2] = {};
    each_piece<PIECES, WARPS>(pieces, [&](int i, u32 piece) {
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            float& x = row.numbers[i * EACH + e];
            x = piece * EACH + e < width ? x - mean : 0.0f;
            squares[e / 2] = fmaf(x, x, squares[e / 2]);
        }
    });
    const float scale = norm_scale(row_sum<EACH / 2, WARPS>(squares, scratch[1]), share, norm.epsilon);
    each_piece<PIECES, WARPS>(pieces, [&](int i, u32 piece) {
#pragma unroll
        for (int e = 0; e < EACH; e += 4) {
            float* x = row.numbers + i * EACH + e;
            const float4 w = weights.scale_of(norm, i * EACH + e, piece * EACH + e);
            const float4 b = weights.bias_of(norm, i * EACH + e, piece * EACH + e);
            x[0] = fmaf(x[0] * scale, w.x, b.x);
            x[1] = fmaf(x[1] * scale, w.y, b.y);
            x[2] = fmaf(x[2] * scale, w.z, b.z);
            x[3] = fmaf(x[3] * scale, w.w, b.w);
        }
    });
}

// encode_embed_{format}_{columns}, .._early for few rows: the word's row, plus the position's, plus the type's, then the norm.
//   ids u32[T]; types u32[T] or null: all 0; starts u32[texts + 1]
//   words, positions, kinds: tables with rows of `steps` tiles' width, zeros at the end; the latter two may be null
//   out: T rows, tiled; at most `columns`
//   exact: which of them are f32 where the format has 16 bits: EXACT_WORDS, ..
// A token's position is its distance from the start of its text, plus `offset`.
struct Embedding {
    const u32* ids;
    const u32* types;
    const u32* starts;
    const u8* words;
    const u8* positions;
    const u8* kinds;
    u8* out;
    Norm norm;
    u32 rows;
    u32 texts;
    u32 steps;
    u32 width;
    u32 offset;
    u32 exact;
};

#define EXACT_WORDS 1
#define EXACT_POSITIONS 2
#define EXACT_KINDS 4
#define EXACT_OUT 8

// The 32 bytes of a piece of 8 numbers among f32 tiles, twice as many as 16-bit elements have.
__device__ __forceinline__ void read_exact(const u8* from, u32 row, u32 piece, u32 steps, float* to) {
    Elements<F32>::read(*(const uint4*)(from + place(row, 2 * piece, 2 * steps)), to);
    Elements<F32>::read(*(const uint4*)(from + place(row, 2 * piece + 1, 2 * steps)), to + 4);
}

__device__ __forceinline__ void write_exact(u8* out, u32 row, u32 piece, u32 steps, const float* from) {
    *(uint4*)(out + place(row, 2 * piece, 2 * steps)) = Elements<F32>::write(from);
    *(uint4*)(out + place(row, 2 * piece + 1, 2 * steps)) = Elements<F32>::write(from + 4);
}

template <int ELEMENT, int NUMBERS, int WARPS, bool EARLY = false>
__device__ __forceinline__ void embed(const Embedding& from) {
    start_next_launch();
    typedef Elements<ELEMENT> Element;
    constexpr int EACH = Element::EACH, PIECES = NUMBERS / EACH;
    const u32 at = (blockIdx.x * blockDim.x + threadIdx.x) / (32 * WARPS), pieces = from.steps * 8;
    if (at >= from.rows) return;
    const Weights<ELEMENT, PIECES, WARPS, EARLY> weights(from.norm, pieces);
    wait_for_launches();
    Row<ELEMENT, PIECES, WARPS> row = {};
    auto add = [&](const u8* table, u64 index, bool exact) {
        exact = exact && EACH == 8;
        const u8* numbers = table + index * from.steps * (exact ? 256 : 128);
        each_piece<PIECES, WARPS>(pieces, [&](int i, u32 piece) {
            float more[EACH];
            if (exact) {
                Elements<F32>::read(*(const uint4*)(numbers + piece * 32), more);
                Elements<F32>::read(*(const uint4*)(numbers + piece * 32 + 16), more + 4 % EACH);
            } else {
                Element::read(*(const uint4*)(numbers + piece * 16), more);
            }
#pragma unroll
            for (int e = 0; e < EACH; e++) row.numbers[i * EACH + e] += more[e];
        });
    };
    // All are asked for before any is waited for.
    const u32 word = from.ids[at], kind = from.kinds && from.types ? from.types[at] : 0;
    const u32 position = from.positions ? at - from.starts[text_of(at, from.starts, from.texts)] + from.offset : 0;
    add(from.words, word, from.exact & EXACT_WORDS);
    if (from.positions) add(from.positions, position, from.exact & EXACT_POSITIONS);
    if (from.kinds) add(from.kinds, kind, from.exact & EXACT_KINDS);
    if (from.norm.kind) normalise(row, from.norm, from.width, pieces, weights);
    each_piece<PIECES, WARPS>(pieces, [&](int i, u32 piece) {
        if (EACH == 8 && (from.exact & EXACT_OUT)) {
            write_exact(from.out, at, piece, from.steps, row.numbers + i * EACH);
        } else {
            *(uint4*)(from.out + place(at, piece, from.steps)) = Element::write(row.numbers + i * EACH);
        }
    });
}

// encode_norm_{format}_{columns}, .._early for few rows: out = norm(x + delta), and sum = x + delta. Norm kind 0 leaves the
// sum as it is.
//   x, out, and delta and sum where they are not null: `rows` rows, tiled; at most `columns`
//   exact: x and sum are f32 where the format has 16 bits; backwards: the last rows first
// The sum is normalised before it is rounded. out and sum may be x or delta.
struct Norms {
    const u8* x;
    const u8* delta;
    u8* out;
    u8* sum;
    Norm norm;
    u32 rows;
    u32 steps;
    u32 width;
    u32 exact;
    u32 backwards;
    u32 unused;
};

template <int ELEMENT, int NUMBERS, int WARPS, bool EARLY = false>
__device__ __forceinline__ void norm_rows(const Norms& on) {
    start_next_launch();
    typedef Elements<ELEMENT> Element;
    constexpr int EACH = Element::EACH, PIECES = NUMBERS / EACH;
    const u32 block = on.backwards ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
    const u32 at = (block * blockDim.x + threadIdx.x) / (32 * WARPS), pieces = on.steps * 8;
    if (at >= on.rows) return;
    const Weights<ELEMENT, PIECES, WARPS, EARLY> weights(on.norm, pieces);
    wait_for_launches();
    const bool exact = EACH == 8 && on.exact;
    Row<ELEMENT, PIECES, WARPS> row = {};
    uint4 raw[PIECES], more[PIECES];
    each_piece<PIECES, WARPS>(pieces, [&](int i, u32 piece) {
        const u64 from = place(at, piece, on.steps);
        if (exact) read_exact(on.x, at, piece, on.steps, row.numbers + i * EACH);
        else raw[i] = *(const uint4*)(on.x + from);
        if (on.delta) more[i] = *(const uint4*)(on.delta + from);
    });
    each_piece<PIECES, WARPS>(pieces, [&](int i, u32) {
        if (!exact) Element::read(raw[i], row.numbers + i * EACH);
        if (!on.delta) return;
        float delta[EACH];
        Element::read(more[i], delta);
#pragma unroll
        for (int e = 0; e < EACH; e++) row.numbers[i * EACH + e] += delta[e];
    });
    if (on.sum) {
        each_piece<PIECES, WARPS>(pieces, [&](int i, u32 piece) {
            if (exact) write_exact(on.sum, at, piece, on.steps, row.numbers + i * EACH);
            else *(uint4*)(on.sum + place(at, piece, on.steps)) = Element::write(row.numbers + i * EACH);
        });
    }
    if (on.norm.kind) normalise(row, on.norm, on.width, pieces, weights);
    each_piece<PIECES, WARPS>(pieces, [&](int i, u32 piece) {
        *(uint4*)(on.out + place(at, piece, on.steps)) = Element::write(row.numbers + i * EACH);
    });
}

extern "C" __global__ void __launch_bounds__(256) encode_embed_f32_1024(const __grid_constant__ Embedding from) {
    embed<F32, 32, 1>(from);
}

extern "C" __global__ void __launch_bounds__(256) encode_norm_f32_1024(const __grid_constant__ Norms on) {
    norm_rows<F32, 32, 1>(on);
}

extern "C" __global__ void __launch_bounds__(256) encode_embed_f32_4096(const __grid_constant__ Embedding from) {
    embed<F32, 16, 8>(from);
}

extern "C" __global__ void __launch_bounds__(256) encode_norm_f32_4096(const __grid_constant__ Norms on) {
    norm_rows<F32, 16, 8>(on);
}

extern "C" __global__ void __launch_bounds__(256) encode_norm_f16_512(const __grid_constant__ Norms on) {
    norm_rows<F16, 16, 1>(on);
}

extern "C" __global__ void __launch_bounds__(256) encode_embed_f16_1024(const __grid_constant__ Embedding from) {
    embed<F16, 32, 1>(from);
}

extern "C" __global__ void __launch_bounds__(256) encode_norm_f16_1024(const __grid_constant__ Norms on) {
    norm_rows<F16, 32, 1>(on);
}

extern "C" __global__ void __launch_bounds__(256) encode_embed_f16_1024_early(const __grid_constant__ Embedding from) {
    embed<F16, 32, 1, true>(from);
}

extern "C" __global__ void __launch_bounds__(256) encode_norm_f16_512_early(const __grid_constant__ Norms on) {
    norm_rows<F16, 16, 1, true>(on);
}

extern "C" __global__ void __launch_bounds__(256) encode_norm_f16_1024_early(const __grid_constant__ Norms on) {
    norm_rows<F16, 32, 1, true>(on);
}

extern "C" __global__ void __launch_bounds__(256) encode_embed_f16_4096(const __grid_constant__ Embedding from) {
    embed<F16, 16, 8>(from);
}

extern "C" __global__ void __launch_bounds__(256) encode_norm_f16_4096(const __grid_constant__ Norms on) {
    norm_rows<F16, 16, 8>(on);
}

extern "C" __global__ void __launch_bounds__(256) encode_norm_bf16_512(const __grid_constant__ Norms on) {
    norm_rows<BF16, 16, 1>(on);
}

extern "C" __global__ void __launch_bounds__(256) encode_embed_bf16_1024(const __grid_constant__ Embedding from) {
    embed<BF16, 32, 1>(from);
}

extern "C" __global__ void __launch_bounds__(256) encode_norm_bf16_1024(const __grid_constant__ Norms on) {
    norm_rows<BF16, 32, 1>(on);
}

extern "C" __global__ void __launch_bounds__(256) encode_embed_bf16_1024_early(const __grid_constant__ Embedding from) {
    embed<BF16, 32, 1, true>(from);
}

extern "C" __global__ void __launch_bounds__(256) encode_norm_bf16_512_early(const __grid_constant__ Norms on) {
    norm_rows<BF16, 16, 1, true>(on);
}

extern "C" __global__ void __launch_bounds__(256) encode_norm_bf16_1024_early(const __grid_constant__ Norms on) {
    norm_rows<BF16, 32, 1, true>(on);
}

extern "C" __global__ void __launch_bounds__(256) encode_embed_bf16_4096(const __grid_constant__ Embedding from) {
    embed<BF16, 16, 8>(from);
}

extern "C" __global__ void __launch_bounds__(256) encode_norm_bf16_4096(const __grid_constant__ Norms on) {
    norm_rows<BF16, 16, 8>(on);
}
