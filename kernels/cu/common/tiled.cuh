// The tiled layout of activations and weights, element types, and packed sequences.
//
// A matrix is stored in tiles of TILE_ROWS = 128 rows by 128 bytes of each row (64 columns of 16 bits, 32 of f32); the tiles of the same
// rows are consecutive. Within a tile, the 16-byte chunk c of row r is at r * 128 + ((c ^ (r & 7)) << 4): the 128-byte swizzle
// that tensor cores read from shared memory without bank conflicts, so a tile is copied as it is. Rows are padded to whole
// tiles with undefined contents, columns to whole tiles with zeros.
//
// A launch may traverse the rows in reverse (`reverse`) to start with what the previous launch wrote last and the L2 cache
// still holds.
//
// Sequences are packed without padding, as in FlashAttention's varlen interface: sequence s has rows cu_seqlens[s] ..
// cu_seqlens[s + 1]. Only attention and pooling combine rows, within a sequence. The order of every sum depends on its own row
// or sequence alone, so the bits of a sequence are independent of the batch.
#pragma once
#include "common/common.cuh"
#include "launch/tiled.cuh"

// Modules with one element type get it as -DDTYPE=f16 or -DDTYPE=bf16. INSTANCE(gemm_sm90, 128x256) is then the kernel's name,
// gemm_sm90_bf16_128x256, and ELEMENT_TYPE its template argument.
#define DTYPE_f16 F16
#define DTYPE_bf16 BF16
#define JOIN_TOKENS(a, b) a##b
#define JOIN_NAME(kernel, dtype, shape) kernel##_##dtype##_##shape
#define EXPAND_NAME(kernel, dtype, shape) JOIN_NAME(kernel, dtype, shape)
#define EXPAND_TYPE(dtype) JOIN_TOKENS(DTYPE_, dtype)
#define INSTANCE(kernel, shape) EXPAND_NAME(kernel, DTYPE, shape)
#define ELEMENT_TYPE EXPAND_TYPE(DTYPE)

// The byte offset of a 16-byte chunk of a row.
__device__ __forceinline__ u64 chunk_offset(u32 row, u32 chunk, u32 tiles_per_row) {
    const u64 tile = (u64)(row / TILE_ROWS) * tiles_per_row + chunk / 8;
    return tile * TILE_BYTES + (row % TILE_ROWS) * 128 + ((chunk % 8 ^ (row & 7)) << 4);
}

// Converts a 16-byte chunk of SIZE elements to f32 and back.
template <int ELEMENT>
struct Chunk;

template <>
struct Chunk<F32> {
    static constexpr u32 SIZE = 4;
    static __device__ __forceinline__ void read(const uint4& chunk, float* to) {
        to[0] = __uint_as_float(chunk.x);
        to[1] = __uint_as_float(chunk.y);
        to[2] = __uint_as_float(chunk.z);
        to[3] = __uint_as_float(chunk.w);
    }
    static __device__ __forceinline__ uint4 write(const float* from) {
        return make_uint4(__float_as_uint(from[0]), __float_as_uint(from[1]), __float_as_uint(from[2]),
                          __float_as_uint(from[3]));
    }
};

// Packs two numbers as 16-bit elements, `low` in the low half.
template <int ELEMENT>
__device__ __forceinline__ u32 pack2(float low, float high) {
    return ELEMENT == F16 ? f32_to_f16x2(low, high) : f32_to_bf16x2(low, high);
}

template <int ELEMENT>
__device__ __forceinline__ float to_f32(u16 bits) {
    return ELEMENT == F16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

template <int ELEMENT>
struct Pack16 {
    static constexpr u32 SIZE = 8;
    static __device__ __forceinline__ void read(const uint4& chunk, float* to) {
        const u32 words[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            to[2 * i] = to_f32<ELEMENT>((u16)words[i]);
            to[2 * i + 1] = to_f32<ELEMENT>((u16)(words[i] >> 16));
        }
    }
    static __device__ __forceinline__ uint4 write(const float* from) {
        return make_uint4(pack2<ELEMENT>(from[0], from[1]), pack2<ELEMENT>(from[2], from[3]),
                          pack2<ELEMENT>(from[4], from[5]), pack2<ELEMENT>(from[6], from[7]));
    }
};

template <>
struct Chunk<F16> : Pack16<F16> {};

template <>
struct Chunk<BF16> : Pack16<BF16> {};

// The sequence of a row, by binary search.
__device__ __forceinline__ u32 sequence_of(u32 row, const u32* __restrict__ cu_seqlens, u32 sequences) {
    u32 low = 0, high = sequences;
    while (high - low > 1) {
        const u32 middle = (low + high) / 2;
        if (cu_seqlens[middle] <= row) low = middle;
        else high = middle;
    }
    return low;
}

template <int ELEMENT>
__device__ __forceinline__ float load_element(const u8* from, u32 row, u32 column, u32 tiles_per_row) {
    constexpr u32 SIZE = Chunk<ELEMENT>::SIZE;
    const u8* at = from + chunk_offset(row, column / SIZE, tiles_per_row) + column % SIZE * (16 / SIZE);
    return ELEMENT == F32 ? *(const float*)at : to_f32<ELEMENT>(*(const u16*)at);
}

template <int ELEMENT>
__device__ __forceinline__ void store_element(u8* out, u32 row, u32 column, u32 tiles_per_row, float x) {
    constexpr u32 SIZE = Chunk<ELEMENT>::SIZE;
    u8* to = out + chunk_offset(row, column / SIZE, tiles_per_row) + column % SIZE * (16 / SIZE);
    if (ELEMENT == F32) *(float*)to = x;
    else *(u16*)to = ELEMENT == F16 ? f32_to_f16(x) : f32_to_bf16(x);
}
