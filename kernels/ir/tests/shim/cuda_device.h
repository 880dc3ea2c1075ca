// What emitted device code takes from CUDA, for a compiler of the host. Threads run one after the other.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define __global__ static
#define __device__
#define __forceinline__ inline
#define __noinline__
#define __grid_constant__
#define __restrict__ __restrict

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
static dim3 gridDim, blockDim, blockIdx, threadIdx;

template <typename TO, typename FROM>
inline TO shim_bits(FROM from) {
    static_assert(sizeof(TO) == sizeof(FROM), "types of equal size");
    TO to;
    std::memcpy(&to, &from, sizeof(to));
    return to;
}
inline float __uint_as_float(unsigned x) { return shim_bits<float>(x); }
inline float __int_as_float(int x) { return shim_bits<float>(x); }
inline unsigned __float_as_uint(float x) { return shim_bits<unsigned>(x); }
inline int __float_as_int(float x) { return shim_bits<int>(x); }
inline double __longlong_as_double(long long x) { return shim_bits<double>(x); }
inline long long __double_as_longlong(double x) { return shim_bits<long long>(x); }

// Towards zero: the nearest one, or the one before it. The difference of an f32 and a 64-bit number is exact in long double.
template <typename NUMBER>
inline float shim_truncate(NUMBER x) {
    const float nearest = (float)x;
    const bool is_over = std::isfinite((long double)x) && fabsl((long double)nearest) > fabsl((long double)x);
    return is_over ? nextafterf(nearest, 0.0f) : nearest;
}
inline float __double2float_rz(double x) { return shim_truncate(x); }
inline float __ll2float_rz(long long x) { return shim_truncate(x); }
inline float __ull2float_rz(unsigned long long x) { return shim_truncate(x); }
inline float __int2float_rz(int x) { return shim_truncate(x); }
inline float __uint2float_rz(unsigned x) { return shim_truncate(x); }

inline long long __mul64hi(long long a, long long b) { return (long long)(((__int128)a * b) >> 64); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdividef(float a, float b) { return a / b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline void __threadfence() {}
inline void __trap() { std::abort(); }

using std::isinf;
using std::isnan;
#define SHIM_LEAST(T)                                    \
    inline T min(T a, T b) { return b < a ? b : a; }     \
    inline T max(T a, T b) { return a < b ? b : a; }
SHIM_LEAST(int)
SHIM_LEAST(unsigned)
SHIM_LEAST(long long)
SHIM_LEAST(unsigned long long)

// Those that the device has, so that no others are emitted.
#define SHIM_ATOMIC(NAME, T, RESULT) \
    inline T NAME(T* at, T x) {      \
        const T old = *at;           \
        *at = RESULT;                \
        return old;                  \
    }
#define SHIM_SUM(T, UNSIGNED) SHIM_ATOMIC(atomicAdd, T, (T)((UNSIGNED)old + (UNSIGNED)x))
SHIM_SUM(int, unsigned)
SHIM_SUM(unsigned, unsigned)
SHIM_SUM(unsigned long long, unsigned long long)
SHIM_SUM(float, float)
SHIM_SUM(double, double)
#define SHIM_WORD(T)                        \
    SHIM_ATOMIC(atomicMin, T, min(old, x))  \
    SHIM_ATOMIC(atomicMax, T, max(old, x))
SHIM_WORD(int)
SHIM_WORD(unsigned)
SHIM_WORD(long long)
SHIM_WORD(unsigned long long)
#define SHIM_UNSIGNED(T)                  \
    SHIM_ATOMIC(atomicAnd, T, old & x)    \
    SHIM_ATOMIC(atomicOr, T, old | x)     \
    SHIM_ATOMIC(atomicXor, T, old ^ x)    \
    SHIM_ATOMIC(atomicExch, T, x)         \
    SHIM_EXCHANGE(T)
#define SHIM_EXCHANGE(T)                         \
    inline T atomicCAS(T* at, T expected, T x) { \
        const T old = *at;                       \
        if (old == expected) *at = x;            \
        return old;                              \
    }
SHIM_EXCHANGE(unsigned short)
SHIM_UNSIGNED(int)
SHIM_UNSIGNED(unsigned)
SHIM_UNSIGNED(unsigned long long)
SHIM_ATOMIC(atomicExch, float, x)

// What the prelude writes in PTX.
namespace ir {
inline float f16_to_f32(unsigned short bits) { return (float)shim_bits<_Float16>(bits); }
inline unsigned short f32_to_f16(float x) { return shim_bits<unsigned short>((_Float16)x); }
inline float exp2_approx(float x) { return exp2f(x); }

template <typename INTEGER, typename FLOAT>
inline INTEGER shim_saturate(FLOAT x, FLOAT end, INTEGER least, INTEGER greatest) {
    if (x != x) return 0;
    if (x >= end) return greatest;
    return x <= (FLOAT)least ? least : (INTEGER)x;
}
template <typename FLOAT>
inline int to_i32(FLOAT x) {
    return shim_saturate<int, FLOAT>(x, 2147483648.0f, INT32_MIN, INT32_MAX);
}
template <typename FLOAT>
inline unsigned to_u32(FLOAT x) {
    return shim_saturate<unsigned, FLOAT>(x, 4294967296.0f, 0, UINT32_MAX);
}
template <typename FLOAT>
inline long long to_i64(FLOAT x) {
    return shim_saturate<long long, FLOAT>(x, 9223372036854775808.0f, INT64_MIN, INT64_MAX);
}
template <typename FLOAT>
inline unsigned long long to_u64(FLOAT x) {
    return shim_saturate<unsigned long long, FLOAT>(x, 18446744073709551616.0f, 0, UINT64_MAX);
}
}  // namespace ir
