// What the kernels of the encoder share: how activations and weights lie in memory, types of elements, activations.
//
// A matrix lies in tiles of 128 rows by 128 bytes of each row (64 columns of 16 bits, 32 of f32), tiles of the same rows
// one after the other. Inside, the 16-byte piece p of row r lies at r * 128 + ((p ^ (r & 7)) << 4): the layout that shared
// memory wants to serve tensor cores without bank conflicts (the 128-byte swizzle), so that tiles are copied as they are.
// Rows are padded to whole tiles and hold anything there; columns are padded to whole tiles, with zeros.
//
// Launches may go over rows from the last to the first (`backwards`): what the launch before wrote last is near still.
//
// Texts are packed: text t has the rows starts[t] .. starts[t + 1]. Nothing is computed between rows except by attention
// and pooling, and these stay within a text; every sum has an order that depends on its own row or text alone. So the bits
// of a text do not depend on its neighbours.

#pragma once
#include "common.cuh"

// Types of elements.
#define F32 0
#define F16 1
#define BF16 2

#define TILE_ROWS 128u
#define TILE_BYTES 16384u

// Where a 16-byte piece of a row lies; `steps` tiles make a row.
__device__ __forceinline__ u64 place(u32 row, u32 piece, u32 steps) {
    const u64 tile = (u64)(row / TILE_ROWS) * steps + piece / 8;
    return tile * TILE_BYTES + (row % TILE_ROWS) * 128 + ((piece % 8 ^ (row & 7)) << 4);
}

// How elements become numbers and back; EACH of them make a piece of 16 bytes.
template <int ELEMENT>
struct Elements;

template <>
struct Elements<F32> {
    static constexpr u32 EACH = 4;
    static __device__ __forceinline__ void read(const uint4& piece, float* to) {
        to[0] = __uint_as_float(piece.x);
        to[1] = __uint_as_float(piece.y);
        to[2] = __uint_as_float(piece.z);
        to[3] = __uint_as_float(piece.w);
    }
    static __device__ __forceinline__ uint4 write(const float* from) {
        return make_uint4(__float_as_uint(from[0]), __float_as_uint(from[1]), __float_as_uint(from[2]),
                          __float_as_uint(from[3]));
    }
};

// Two numbers as a pair of 16-bit elements, the first in the low half.
template <int ELEMENT>
__device__ __forceinline__ u32 pair_of(float low, float high) {
    return ELEMENT == F16 ? f32_to_f16x2(low, high) : f32_to_bf16x2(low, high);
}

template <int ELEMENT>
__device__ __forceinline__ float number_of(u16 bits) {
    return ELEMENT == F16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

template <int ELEMENT>
struct Halves {
    static constexpr u32 EACH = 8;
    static __device__ __forceinline__ void read(const uint4& piece, float* to) {
        const u32 words[4] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            to[2 * i] = number_of<ELEMENT>((u16)words[i]);
            to[2 * i + 1] = number_of<ELEMENT>((u16)(words[i] >> 16));
        }
    }
    static __device__ __forceinline__ uint4 write(const float* from) {
        return make_uint4(pair_of<ELEMENT>(from[0], from[1]), pair_of<ELEMENT>(from[2], from[3]),
                          pair_of<ELEMENT>(from[4], from[5]), pair_of<ELEMENT>(from[6], from[7]));
    }
};

template <>
struct Elements<F16> : Halves<F16> {};

template <>
struct Elements<BF16> : Halves<BF16> {};

// The text that a row belongs to: the last one that starts at or before it.
__device__ __forceinline__ u32 text_of(u32 row, const u32* __restrict__ starts, u32 texts) {
    u32 low = 0, high = texts;
    while (high - low > 1) {
        const u32 middle = (low + high) / 2;
        if (starts[middle] <= row) low = middle;
        else high = middle;
    }
    return low;
}

// 2^x, about 2 units in the last place; 0 for minus infinity.
__device__ __forceinline__ float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#define LOG2_E 1.4426950408889634f

// What follows a linear layer.
#define PLAIN 0
#define GELU 1
#define GELU_TANH 2
#define RELU 3
#define SILU 4
// Nothing, and out is binary16 whatever the other elements are: numbers beyond its range become its largest.
#define HALVES 5

// x Phi(x) = max(x, 0) - |x| erfc(|x| / sqrt 2) / 2, where erfc is 2^(-|x| p(|x|)) for a polynomial p fitted to it: at most
// 3e-7 from the true value, for any x; that is below half a step of bfloat16 wherever the value exceeds 1e-4.
__device__ __forceinline__ float gelu(float x) {
    const float a = fminf(fabsf(x), 5.5f);
    float p = fmaf(a, -2.9924542104708962e-05f, 7.398768211714923e-04f);
    p = fmaf(a, p, -7.977469824254513e-03f);
    p = fmaf(a, p, 5.3238194435834885e-02f);
    p = fmaf(a, p, 4.5891568064689636e-01f);
    p = fmaf(a, p, 1.1511471271514893f);
    return fmaf(-0.5f * a, exp2_fast(-a * p), fmaxf(x, 0.0f));
}

// To the largest binary16 what is beyond; a NaN stays one.
__device__ __forceinline__ float in_f16(float x) { return x > 65504.0f ? 65504.0f : x < -65504.0f ? -65504.0f : x; }

// x / (1 + e^-x).
__device__ __forceinline__ float silu(float x) { return __fdividef(x, 1.0f + exp2_fast(-LOG2_E * x)); }

// GELU's tanh form, which is x / (1 + e^(-2 u)) with u = sqrt(2 / pi) (x + 0.044715 x^3).
__device__ __forceinline__ float gelu_tanh(float x) {
    const float u2 = x * fmaf(0.1029432397f * x, x, 2.3022081986f);
    return __fdividef(x, 1.0f + exp2_fast(-u2));
}

template <int ACTIVATION>
__device__ __forceinline__ float activate(float x) {
    if (ACTIVATION == GELU) return gelu(x);
    if (ACTIVATION == GELU_TANH) return gelu_tanh(x);
    if (ACTIVATION == RELU) return fmaxf(x, 0.0f);
    if (ACTIVATION == SILU) return silu(x);
    if (ACTIVATION == HALVES) return in_f16(x);
    return x;
}

#define LAYER_NORM 1
#define RMS_NORM 2

// How a row is normalised: kind 0 leaves it. weight and bias are f32, padded to whole tiles; bias may be null.
//
// Sums over a row of 16-bit elements of at most 1,024 columns have one order, whichever kernel computes them. Tile t of the row
// belongs to quarter t % 4. In a quarter the pair of columns 8 p + 2 q + {0, 1} of its tiles is summed in order, from zero on,
// the lower column first; then piece p with p ^ 4, p ^ 2, p ^ 1; then pair q with q ^ 1, q ^ 2; then quarters with quarter ^ 2,
// quarter ^ 1.
struct Norm {
    const float* weight;
    const float* bias;
    u32 kind;
    float epsilon;
};

// What a row of `1 / share` numbers has as mean, and what it is multiplied with once that is taken away, of a sum of numbers and
// one of squares. In these instructions everywhere.
__device__ __forceinline__ float norm_mean(float sum, float share) { return __fmul_rn(sum, share); }
__device__ __forceinline__ float norm_scale(float squares, float share, float epsilon) {
    return rsqrtf(fmaf(squares, share, epsilon));
}

// A linear layer: out[m, n] = activation(x[m, k] weight[n, k]^T + bias), or where it is gated
// out[m, n / 2] = activation(gate) * up: then of each 16 columns of the product 8 are of the gate and the next 8 of the
// other, which the order of the weight's rows sees to.
struct Linear {
    const u8* x;
    const u8* weight;
    const float* bias; // one a column, padded to whole tiles; or null
    u8* out;
    u32 rows;
    u32 columns;   // of the weight: a multiple of 64 where elements have 16 bits, of 32 for f32
    u32 steps;     // tiles in a row of x and of the weight
    u32 out_steps; // tiles in a row of out
    u32 activation;
    u32 gated;
    u32 backwards; // the last rows first
    u32 unused;
};
