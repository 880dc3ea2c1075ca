// Vectors of elements, and where a view has them.
#pragma once
#include "common/common.cuh"
#include "tensor/views_launch.cuh"

// How a view steps along the inner dimension: to the next element, not at all, or by a stride.
enum Access { CONTIGUOUS, BROADCAST, STRIDED };

template <typename T, int LANES>
struct Lanes {
    T v[LANES];
};

template <typename WORD, typename T, int LANES>
union Words {
    WORD words[LANES * sizeof(T) / sizeof(WORD)];
    T elements[LANES];
};

template <typename WORD, typename T, int LANES>
__device__ __forceinline__ void load_words(const T* from, Lanes<T, LANES>& to) {
    Words<WORD, T, LANES> bits;
#pragma unroll
    for (int i = 0; i < (int)(LANES * sizeof(T) / sizeof(WORD)); ++i) bits.words[i] = ((const WORD*)from)[i];
#pragma unroll
    for (int i = 0; i < LANES; ++i) to.v[i] = bits.elements[i];
}

template <typename WORD, typename T, int LANES>
__device__ __forceinline__ void store_words(T* to, const Lanes<T, LANES>& from) {
    Words<WORD, T, LANES> bits;
#pragma unroll
    for (int i = 0; i < LANES; ++i) bits.elements[i] = from.v[i];
#pragma unroll
    for (int i = 0; i < (int)(LANES * sizeof(T) / sizeof(WORD)); ++i) ((WORD*)to)[i] = bits.words[i];
}

// The address is a multiple of the vector's size, or of 16 bytes.
template <typename T, int LANES>
__device__ __forceinline__ void load_vector(const T* from, Lanes<T, LANES>& to) {
    constexpr int BYTES = LANES * sizeof(T);
    if constexpr (BYTES >= 16) load_words<uint4>(from, to);
    else if constexpr (BYTES == 8) load_words<uint2>(from, to);
    else if constexpr (BYTES == 4) load_words<u32>(from, to);
    else if constexpr (BYTES == 2) load_words<u16>(from, to);
    else to.v[0] = *from;
}

template <typename T, int LANES>
__device__ __forceinline__ void store_vector(T* to, const Lanes<T, LANES>& from) {
    constexpr int BYTES = LANES * sizeof(T);
    if constexpr (BYTES >= 16) store_words<uint4>(to, from);
    else if constexpr (BYTES == 8) store_words<uint2>(to, from);
    else if constexpr (BYTES == 4) store_words<u32>(to, from);
    else if constexpr (BYTES == 2) store_words<u16>(to, from);
    else *to = from.v[0];
}

// Indices of a vector along the dimensions of a space, outermost first. INDEX is signed, and holds every offset.
template <typename INDEX, int RANK>
struct Position {
    INDEX at[RANK];
};

// Below 2^31: the multiplier and the shift are those of the extent.
__device__ __forceinline__ int divide(int n, const Space& space, int dim) {
    return (int)((__umulhi((u32)n, space.multipliers[dim]) + (u32)n) >> space.shifts[dim]);
}

__device__ __forceinline__ i64 divide(i64 n, const Space& space, int dim) {
    return (i64)((u64)n / space.extents[dim]);
}

template <typename INDEX, int RANK>
__device__ __forceinline__ Position<INDEX, RANK> position_of(const Space& space, INDEX nth) {
    Position<INDEX, RANK> position;
#pragma unroll
    for (int dim = RANK - 1; dim > 0; --dim) {
        const INDEX quotient = divide(nth, space, dim);
        position.at[dim] = nth - quotient * (INDEX)space.extents[dim];
        nth = quotient;
    }
    position.at[0] = nth;
    return position;
}

// Elements from the first one of a view; the inner index counts vectors.
template <Access ACCESS, int LANES, typename INDEX, int RANK>
__device__ __forceinline__ i64 offset(const i64* strides, const Position<INDEX, RANK>& position) {
    INDEX sum = 0;
#pragma unroll
    for (int dim = 0; dim + 1 < RANK; ++dim) sum += position.at[dim] * (INDEX)strides[dim];
    const INDEX inner = position.at[RANK - 1];
    if constexpr (ACCESS == CONTIGUOUS) sum += inner * LANES;
    if constexpr (ACCESS == STRIDED) sum += inner * (INDEX)strides[RANK - 1];
    return sum;
}

template <Access ACCESS, typename T, int LANES, typename INDEX, int RANK>
__device__ __forceinline__ void load(const View& view, const Position<INDEX, RANK>& position, Lanes<T, LANES>& to) {
    const T* from = (const T*)view.address + offset<ACCESS, LANES>(view.strides, position);
    if constexpr (ACCESS == CONTIGUOUS) {
        load_vector(from, to);
    } else {
        const T value = *from;
#pragma unroll
        for (int i = 0; i < LANES; ++i) to.v[i] = value;
    }
}

template <Access ACCESS, typename T, int LANES, typename INDEX, int RANK>
__device__ __forceinline__ void store(const View& view, const Position<INDEX, RANK>& position,
                                      const Lanes<T, LANES>& from) {
    store_vector((T*)view.address + offset<ACCESS, LANES>(view.strides, position), from);
}
