// Parameters and arithmetic of layer norm and RMS norm.

#pragma once
#include "common/tiled.cuh"
#include "launch/norm.cuh"

// NormParams: kind is 0 for no norm, LAYER_NORM or RMS_NORM. weight and bias are f32, padded to whole tiles; bias may be null.
//
// All kernels sum a row of 16-bit elements of at most 1,024 columns in the same order, so that their bits agree. Tile t of the
// row belongs to quarter t % 4. Within a quarter, the column pair 8 p + 2 q + {0, 1} is accumulated over the tiles in order,
// from zero, the lower column first. Then follow the butterflies over chunks (p ^ 4, p ^ 2, p ^ 1), pairs (q ^ 1, q ^ 2) and
// quarters (^ 2, ^ 1).

// The mean of a row from its sum, and 1 / sqrt(variance + epsilon) from the sum of its squared deviations. All kernels use exactly these
// instructions.
__device__ __forceinline__ float norm_mean(float sum, float inverse_width) { return __fmul_rn(sum, inverse_width); }
__device__ __forceinline__ float norm_scale(float squares, float inverse_width, float epsilon) {
    return rsqrtf(fmaf(squares, inverse_width, epsilon));
}
