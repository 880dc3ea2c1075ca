// Vectors of elements in memory, read and written by one instruction.

#pragma once
#include "common/common.cuh"

template <int BYTES>
struct PackWord;
template <>
struct PackWord<1> { typedef u8 Type; };
template <>
struct PackWord<2> { typedef u16 Type; };
template <>
struct PackWord<4> { typedef u32 Type; };
template <>
struct PackWord<8> { typedef uint2 Type; };
template <>
struct PackWord<16> { typedef uint4 Type; };

// N elements, of at most 16 bytes together.
template <typename T, int N>
struct Pack {
    typedef typename PackWord<sizeof(T) * N>::Type Word;
    T at[N];

    // `from` is aligned to the pack.
    static __device__ __forceinline__ Pack load(const T* from) {
        const Word word = *(const Word*)from;
        Pack pack;
        memcpy(pack.at, &word, sizeof(Word));
        return pack;
    }

    __device__ __forceinline__ void store(T* to) const {
        Word word;
        memcpy(&word, at, sizeof(Word));
        *(Word*)to = word;
    }
};

// One element, N times.
template <typename T, int N>
__device__ __forceinline__ Pack<T, N> broadcast_pack(T element) {
    Pack<T, N> pack;
#pragma unroll
    for (int e = 0; e < N; e++) pack.at[e] = element;
    return pack;
}
