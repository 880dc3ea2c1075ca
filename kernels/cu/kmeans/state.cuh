// k-means: the centred coordinates that initialisation (init.cu), assignment (assign.cu) and update (lloyd.cu) share.
//
// Rows and centres are stored twice: as the original f32 numbers, and centred as binary16, (x - mean) * scale, where
// scale is a power of two that brings the largest number near the top of the range. Distances are compared in centred
// coordinates; means and the inertia are computed from the f32 numbers.

#pragma once

#include "launch/kmeans.cuh"

// A centred coordinate.
__device__ __forceinline__ float centered(float x, float mean, float scale) { return fmaf(x, scale, -mean * scale); }

// Writes a centred coordinate: the nearest binary16, and to `low`, unless null, the remainder.
__device__ __forceinline__ void store_centered(u16* high, u16* low, float x) {
    const u16 bits = f32_to_f16(x);
    *high = bits;
    if (low) *low = f32_to_f16(x - f16_to_f32(bits));
}
