// The epilogue of a linear layer on tensor cores: bias, activation and gate, on the accumulators of a warp.
//
// A warp has 16 rows. Accumulators 4 j to 4 j + 3 of lane l are columns 8 j + l % 4 * 2 and the next, of rows l / 4 (0, 1) and
// l / 4 + 8 (2, 3): the layout of mma.sync and of wgmma.
#pragma once
#include "gemm/linear.cuh"

// x Phi(x) for bfloat16: `gelu` with a polynomial of lower degree. The relative error of the exponential is at most 1.4e-4, a
// fourteenth of the rounding to bfloat16. x is finite.
__device__ __forceinline__ float gelu_bf16(float x) {
    const float h = -0.5f * fabsf(x);
    float p = fmaf(h, 0.009539950015916f, 0.08991883824f);
    p = fmaf(h, p, 0.3809879824f);
    p = fmaf(h, p, -1.858772776f);
    p = fmaf(h, p, 2.29845132f);
    return fmaf(h, exp2_approx(h * p), fmaxf(x, 0.0f));
}

template <int ELEMENT, int ACTIVATION>
__device__ __forceinline__ float activate_as(float x) {
    return ELEMENT == BF16 && ACTIVATION == GELU ? gelu_bf16(x) : activate<ACTIVATION>(x);
}

// Adds the bias and applies the activation to a thread's accumulators in place; `column` is the column of the first. In a
// gated layer the first half of the accumulators becomes the output.
template <int ELEMENT, int ACTIVATION, bool GATED, int COUNT>
__device__ __forceinline__ void apply_epilogue(float (&acc)[COUNT], const float* __restrict__ bias, u32 column) {
    if (bias) {
#pragma unroll
        for (int j = 0; j < COUNT / 4; j++) {
            const float2 b = *(const float2*)(bias + column + 8 * j);
            acc[4 * j] += b.x;
            acc[4 * j + 1] += b.y;
            acc[4 * j + 2] += b.x;
            acc[4 * j + 3] += b.y;
        }
    }
    if (GATED) {
#pragma unroll
        for (int j = 0; j < COUNT / 8; j++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                acc[4 * j + i] = activate_as<ELEMENT, ACTIVATION>(acc[8 * j + i]) * acc[8 * j + 4 + i];
            }
        }
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; i++) acc[i] = activate_as<ELEMENT, ACTIVATION>(acc[i]);
    }
}

// Writes fewer than 64 columns from registers.
template <int ELEMENT, int GROUPS>
__device__ __forceinline__ void store_tile_direct(const float* acc, const LinearParams& layer, u32 row, u32 column) {
    const u32 lane = threadIdx.x & 31;
#pragma unroll
    for (int j = 0; j < GROUPS; j++) {
        if (column / 8 + j >= layer.out_tiles_per_row * 8) return;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            u8* to = layer.out + chunk_offset(row + lane / 4 + 8 * h, column / 8 + j, layer.out_tiles_per_row) + lane % 4 * 4;
            *(u32*)to = pack2<ELEMENT>(acc[4 * j + 2 * h], acc[4 * j + 2 * h + 1]);
        }
    }
}

// The epilogue of COLUMNS columns and 16 FRAGMENTS rows of the product; the first 16 rows exist, and others that are past the end are
// not written. `store` writes 16 rows of GROUPS * 8 columns: store.write<ELEMENT, GROUPS>(acc, layer, row, column).
template <int ELEMENT, int ACTIVATION, bool GATED, int COLUMNS, int FRAGMENTS, typename Store>
__device__ __forceinline__ void epilogue(float (&acc)[FRAGMENTS][COLUMNS / 2], const LinearParams& layer, Store& store, u32 row, u32 column) {
    constexpr int GROUPS = GATED ? COLUMNS / 16 : COLUMNS / 8, OUT = ACTIVATION == CLAMP_F16 ? F16 : ELEMENT;
#pragma unroll
    for (u32 m = 0; m < FRAGMENTS; m++) {
        if (m > 0 && row + 16 * m >= layer.rows) return;
        apply_epilogue<OUT, ACTIVATION, GATED>(acc[m], layer.bias, column + threadIdx.x % 4 * 2);
        store.template write<OUT, GROUPS>(acc[m], layer, row + 16 * m, GATED ? column / 2 : column);
    }
}

template <int ELEMENT, int COLUMNS, int FRAGMENTS, typename Store>
__device__ __forceinline__ void dispatch_epilogue(float (&acc)[FRAGMENTS][COLUMNS / 2], const LinearParams& layer, Store& store, u32 row,
                                                  u32 column) {
    if constexpr (COLUMNS != 192) {
        if (layer.gated) {
            if (layer.activation == SILU) epilogue<ELEMENT, SILU, true, COLUMNS>(acc, layer, store, row, column);
            else if (layer.activation == GELU) epilogue<ELEMENT, GELU, true, COLUMNS>(acc, layer, store, row, column);
            else if (layer.activation == GELU_TANH) epilogue<ELEMENT, GELU_TANH, true, COLUMNS>(acc, layer, store, row, column);
            else epilogue<ELEMENT, RELU, true, COLUMNS>(acc, layer, store, row, column);
            return;
        }
    }
    if (layer.activation == PLAIN) epilogue<ELEMENT, PLAIN, false, COLUMNS>(acc, layer, store, row, column);
    else if (layer.activation == GELU) epilogue<ELEMENT, GELU, false, COLUMNS>(acc, layer, store, row, column);
    else if (layer.activation == GELU_TANH) epilogue<ELEMENT, GELU_TANH, false, COLUMNS>(acc, layer, store, row, column);
    else if (layer.activation == RELU) epilogue<ELEMENT, RELU, false, COLUMNS>(acc, layer, store, row, column);
    else if (ELEMENT == F16 || layer.activation == SILU) epilogue<ELEMENT, SILU, false, COLUMNS>(acc, layer, store, row, column);
    else epilogue<ELEMENT, CLAMP_F16, false, COLUMNS>(acc, layer, store, row, column);
}
