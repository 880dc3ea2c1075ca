// What convolutions on tensor cores read: filters and images with the channels innermost, those of each group padded to whole chunks of 16
// bytes.
#pragma once
#include "tensor/conv.cuh"

// Elements as they are multiplied: 16-bit ones as they are, f32 rounded to TF32.
__device__ __forceinline__ u16 multiplied(u16 x) { return x; }
__device__ __forceinline__ float multiplied(float x) {
#if __CUDA_ARCH__ >= 800
    u32 bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return __uint_as_float(bits);
#else
    return x;
#endif
}

// Packs filters to Element[out_channels][kernel height][kernel width][padded channels] at the start of the workspace.
template <typename Element>
__device__ __forceinline__ void pack_filters(const Conv& conv, u64 workspace) {
    const i64 terms = conv.kernel[0] * conv.kernel[1] * conv.padded_channels;
    const i64 count = conv.out_channels * terms, stride = (i64)gridDim.x * blockDim.x;
    for (i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += stride) {
        ((Element*)workspace)[at] = multiplied(filter_element<Element>(conv, at / terms, at % terms));
    }
}

// Packs images to Element[batch][height][width][groups][padded channels] at `images_offset` of the workspace. A block
// transposes TILE packed channels of TILE positions; a thread reads V neighbouring positions at a time, and writes 16 bytes.
template <typename Element, int V>
__device__ __forceinline__ void pack_images(const Conv& conv, u64 workspace) {
    constexpr int TILE = PACK_TILE, THREADS = CONV_THREADS, CHUNK = 16 / sizeof(Element), CHUNKS = TILE / CHUNK;
    // Odd rows spread the chunks that are read together over the banks.
    __shared__ Element tile[TILE][TILE + 1];
    const i64 area = conv.height * conv.width, group_channels = conv.channels / conv.groups;
    const i64 packed_channels = conv.groups * conv.padded_channels;
    const i64 across = (area + TILE - 1) / TILE, down = (packed_channels + TILE - 1) / TILE;
    const i64 rest = (i64)blockIdx.x / across, image = rest / down;
    const i64 first_position = ((i64)blockIdx.x - rest * across) * TILE, first_channel = (rest - image * down) * TILE;
    const Element* from = (const Element*)conv.input + image * conv.channels * area + first_position;
#pragma unroll
    for (int i = threadIdx.x; i < TILE * TILE / V; i += THREADS) {
        const int row = i / (TILE / V), at = i % (TILE / V) * V;
        const i64 packed = first_channel + row, group = packed / conv.padded_channels;
        const i64 channel = packed - group * conv.padded_channels;
        Pack<Element, V> elements = broadcast_pack<Element, V>(Element(0));
        if (packed < packed_channels && channel < group_channels && first_position + at < area) {
            elements = Pack<Element, V>::load(from + (group * group_channels + channel) * area + at);
        }
#pragma unroll
        for (int e = 0; e < V; e++) tile[row][at + e] = multiplied(elements.at[e]);
    }
    __syncthreads();
    Element* to = (Element*)(workspace + conv.images_offset) + (image * area + first_position) * packed_channels + first_channel;
#pragma unroll
    for (int i = threadIdx.x; i < TILE * CHUNKS; i += THREADS) {
        const int chunk = i % CHUNKS * CHUNK, at = i / CHUNKS;
        if (first_position + at >= area || first_channel + chunk >= packed_channels) continue;
        Pack<Element, CHUNK> elements;
#pragma unroll
        for (int e = 0; e < CHUNK; e++) elements.at[e] = tile[chunk + e][at];
        elements.store(to + at * packed_channels + chunk);
    }
}
