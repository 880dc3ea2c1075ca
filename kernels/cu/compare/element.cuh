// Element types of comparisons: bit patterns, values, and the distance between two of them. They compute as
// kernels/src/ops/compare/element.rs does.

#pragma once

#include "common/common.cuh"

// Numbers of a floating-point type, whose bits are in the low bits of a WORD.
template <typename WORD, int BYTES, WORD INFINITE>
struct Float {
    typedef WORD Word;
    static constexpr int SIZE = BYTES;
    static constexpr WORD SIGN = (WORD)1 << (8 * BYTES - 1);
    static constexpr WORD MAX_FINITE = INFINITE - 1;

    static __device__ __forceinline__ WORD bits(WORD raw) { return raw; }
    static __device__ __forceinline__ WORD magnitude(WORD bits) { return bits & (SIGN - 1); }
    static __device__ __forceinline__ WORD distance(WORD a, WORD b) {
        const WORD x = magnitude(a), y = magnitude(b);
        return ((a ^ b) & SIGN) ? x + y : (x > y ? x - y : y - x);
    }
};

// Adds what follows from the value of a floating-point type.
template <typename BASE>
struct FloatErrors : BASE {
    typedef typename BASE::Word Word;
    static __device__ __forceinline__ double absolute(Word bits) { return fabs(BASE::value(bits)); }
    static __device__ __forceinline__ double difference(Word a, Word b) {
        return fabs(__dsub_rn(BASE::value(a), BASE::value(b)));
    }
};

struct F16Value : Float<u32, 2, 0x7c00> {
    static __device__ __forceinline__ double value(u32 bits) { return f16_to_f32((u16)bits); }
};
struct Bf16Value : Float<u32, 2, 0x7f80> {
    static __device__ __forceinline__ double value(u32 bits) { return bf16_to_f32((u16)bits); }
};
struct F32Value : Float<u32, 4, 0x7f800000> {
    static __device__ __forceinline__ double value(u32 bits) { return __uint_as_float(bits); }
};
struct F64Value : Float<u64, 8, 0x7ff0000000000000ull> {
    static __device__ __forceinline__ double value(u64 bits) { return __longlong_as_double((i64)bits); }
};

typedef FloatErrors<F16Value> F16;
typedef FloatErrors<Bf16Value> Bf16;
typedef FloatErrors<F32Value> F32;
typedef FloatErrors<F64Value> F64;

// Integers. NUMBER is the type, of which every value is finite.
template <typename NUMBER, typename WORD>
struct Integer {
    typedef WORD Word;
    static constexpr int SIZE = sizeof(NUMBER);
    static constexpr WORD MAX_FINITE = ~(WORD)0;

    static __device__ __forceinline__ WORD bits(WORD raw) { return raw; }
    static __device__ __forceinline__ WORD magnitude(WORD bits) {
        const NUMBER number = (NUMBER)bits;
        return number < 0 ? (WORD)0 - (WORD)(i64)number : (WORD)number;
    }
    static __device__ __forceinline__ WORD distance(WORD a, WORD b) {
        const NUMBER x = (NUMBER)a, y = (NUMBER)b;
        return x > y ? (WORD)x - (WORD)y : (WORD)y - (WORD)x;
    }
    static __device__ __forceinline__ double absolute(WORD bits) { return (double)magnitude(bits); }
    static __device__ __forceinline__ double difference(WORD a, WORD b) { return (double)distance(a, b); }
};

// Truth values: every byte but 0 is 1.
struct Bool : Integer<u8, u32> {
    static __device__ __forceinline__ u32 bits(u32 raw) { return raw != 0; }
};
