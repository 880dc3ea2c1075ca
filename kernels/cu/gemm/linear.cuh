// A linear layer, the contract of all GEMM kernels.
#pragma once
#include "common/activation.cuh"
#include "common/tiled.cuh"
#include "launch/linear.cuh"

// LinearParams: out[m, n] = activation(x[m, k] weight[n, k]^T + bias), or gated, out[m, n / 2] = activation(gate) * up. The rows
// of a gated weight interleave gate and up in groups of 8, so that each 16 columns of the product hold 8 of each.
//   bias f32[n], padded to whole tiles; or null
//   columns: n, a multiple of 64 for 16-bit elements, of 32 for f32; k_tiles: tiles per row of x and of the weight
//   reverse: last rows first
//   activation: PLAIN, GELU, .., or CLAMP_F16

// The epilogue after the bias.
template <int ACTIVATION>
__device__ __forceinline__ float activate(float x) {
    if (ACTIVATION == GELU) return gelu(x);
    if (ACTIVATION == GELU_TANH) return gelu_tanh(x);
    if (ACTIVATION == RELU) return fmaxf(x, 0.0f);
    if (ACTIVATION == SILU) return silu(x);
    if (ACTIVATION == CLAMP_F16) return clamp_f16(x);
    return x;
}
