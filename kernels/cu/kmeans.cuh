// What the two halves of k-means share, the starts and the iteration.
//
// Rows and centres are kept twice: in f32 as they are, and in a frame of binary16 numbers, (x - mean) * scale, where
// scale is a power of two that brings the largest number near the top of the range. Distances are compared in the
// frame; means and the final sums are of the f32 numbers.

#pragma once

#include "common.cuh"

// What one run knows; the host reads it now and then. Mirrored by `State` on the host.
struct State {
    u32 done;        // the centres have come to rest: later kernels leave everything as it is
    u32 iterations;
    u32 ticket;      // blocks that have finished, of a kernel whose last block sums up
    u32 ambiguous;   // rows in the list for an exact decision
    u32 best;        // candidate chosen by the last step of the start
    u32 unused;
    float scale;     // of the frame
    float widest;    // largest length of a centre in the frame
    double rest;     // squared movement at which the centres are at rest
    double squares;  // sum of the squared lengths of all rows in the frame
    double potential; // sum of the squared distances to the nearest centre of the start, in the frame
    double inertia;  // sum of the squared distances at the end
};

// A column of a row or centre in the frame.
__device__ __forceinline__ float framed(float x, float mean, float scale) { return fmaf(x, scale, -mean * scale); }

// Writes a column of the frame: the nearest binary16, and in `low`, where there is one, what it leaves.
__device__ __forceinline__ void put_framed(u16* high, u16* low, float x) {
    const u16 bits = f32_to_f16(x);
    *high = bits;
    if (low) *low = f32_to_f16(x - f16_to_f32(bits));
}
