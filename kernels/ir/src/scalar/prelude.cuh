// What emitted scalar functions call: operations that C++ leaves undefined or defines otherwise, and 16-bit types.
//
// No CUDA header is included, and no name is outside the namespace.

namespace ir {

typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

// binary16 to f32, exact.
__device__ __forceinline__ float f16_to_f32(u16 bits) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}

// bfloat16 to f32, exact.
__device__ __forceinline__ float bf16_to_f32(u16 bits) { return __uint_as_float((u32)bits << 16); }

// f32 to binary16, to nearest, ties to even.
__device__ __forceinline__ u16 f32_to_f16(float x) {
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}

// f32 to bfloat16, to nearest, ties to even.
__device__ __forceinline__ u16 f32_to_bf16(float x) {
#if __CUDA_ARCH__ >= 800
    u16 bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
#else
    const u32 bits = __float_as_uint(x);
    if (x != x) return 0x7fff;
    return (u16)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
#endif
}

// f32 with an odd last bit if a conversion, which truncated, was inexact. It rounds to a 16-bit type as the exact number does.
__device__ __forceinline__ float set_odd(float truncated, bool exact) {
    return exact ? truncated : __uint_as_float(__float_as_uint(truncated) | 1u);
}

__device__ __forceinline__ float to_odd(float x) { return x; }

__device__ __forceinline__ float to_odd(double x) {
    const float truncated = __double2float_rz(x);
    return set_odd(truncated, (double)truncated == x);
}

__device__ __forceinline__ float to_odd(i64 x) {
    const float truncated = __ll2float_rz(x);
    return set_odd(truncated, (i64)truncated == x);
}

__device__ __forceinline__ float to_odd(u64 x) {
    const float truncated = __ull2float_rz(x);
    return set_odd(truncated, (u64)truncated == x);
}

__device__ __forceinline__ float to_odd(int x) {
    const float truncated = __int2float_rz(x);
    return set_odd(truncated, (int)truncated == x);
}

__device__ __forceinline__ float to_odd(u32 x) {
    const float truncated = __uint2float_rz(x);
    return set_odd(truncated, (u32)truncated == x);
}

// 2^x, about 2 units in the last place.
__device__ __forceinline__ float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Elementary functions where results are rounded to 16 bits: errors are below 1e-6, and of `exp` below 1e-5 of the value.
__device__ __forceinline__ float exp_for_16_bits(float x) { return exp2_approx(x * 1.4426950408889634f); }

// 1 - 2 / (1 + e^(2 |x|)), with the sign of x.
__device__ __forceinline__ float tanh_for_16_bits(float x) {
    return copysignf(1.0f - __fdividef(2.0f, 1.0f + exp2_approx(fabsf(x) * 2.8853900817779268f)), x);
}

// 1 - 2^(-|x| p(|x|)), with the sign of x, for a polynomial p fitted to the error function.
__device__ __forceinline__ float erf_for_16_bits(float x) {
    const float a = fabsf(x);
    float p = fmaf(a, 0.0029441099613904953f, -0.029589885845780373f);
    p = fmaf(a, p, 0.14866545796394348f);
    p = fmaf(a, p, 0.9185094237327576f);
    p = fmaf(a, p, 1.6278890371322632f);
    return copysignf(1.0f - exp2_approx(-a * p), x);
}

// Truncate to an integer. The instruction saturates; what it makes of NaN depends on the types.
#define IR_TRUNCATE(NAME, INTEGER, REGISTER, PTX)                                     \
    __device__ __forceinline__ INTEGER NAME(float x) {                                \
        INTEGER y;                                                                    \
        asm("cvt.rzi." PTX ".f32 %0, %1;" : "=" REGISTER(y) : "f"(x));                \
        return x == x ? y : 0;                                                        \
    }                                                                                 \
    __device__ __forceinline__ INTEGER NAME(double x) {                               \
        INTEGER y;                                                                    \
        asm("cvt.rzi." PTX ".f64 %0, %1;" : "=" REGISTER(y) : "d"(x));                \
        return x == x ? y : 0;                                                        \
    }
IR_TRUNCATE(to_i32, int, "r", "s32")
IR_TRUNCATE(to_u32, u32, "r", "u32")
IR_TRUNCATE(to_i64, i64, "l", "s64")
IR_TRUNCATE(to_u64, u64, "l", "u64")
#undef IR_TRUNCATE

template <typename FLOAT>
__device__ __forceinline__ i8 to_i8(FLOAT x) {
    const int y = to_i32(x);
    return (i8)(y < -128 ? -128 : y > 127 ? 127 : y);
}

template <typename FLOAT>
__device__ __forceinline__ i16 to_i16(FLOAT x) {
    const int y = to_i32(x);
    return (i16)(y < -32768 ? -32768 : y > 32767 ? 32767 : y);
}

template <typename FLOAT>
__device__ __forceinline__ u8 to_u8(FLOAT x) {
    const u32 y = to_u32(x);
    return (u8)(y > 255 ? 255 : y);
}

template <typename FLOAT>
__device__ __forceinline__ u16 to_u16(FLOAT x) {
    const u32 y = to_u32(x);
    return (u16)(y > 65535 ? 65535 : y);
}

__device__ __forceinline__ bool sign_bit(float x) { return __float_as_int(x) < 0; }
__device__ __forceinline__ bool sign_bit(double x) { return __double_as_longlong(x) < 0; }

__device__ __forceinline__ bool is_inf(float x) { return (__float_as_uint(x) & 0x7fffffffu) == 0x7f800000u; }
__device__ __forceinline__ bool is_inf(double x) {
    return (__double_as_longlong(x) & 0x7fffffffffffffffll) == 0x7ff0000000000000ll;
}

// -1, 0 or 1; NaN for NaN.
template <typename FLOAT>
__device__ __forceinline__ FLOAT sign(FLOAT x) {
    return x > 0 ? FLOAT(1) : x < 0 ? FLOAT(-1) : x == 0 ? FLOAT(0) : x;
}

// IEEE 754-2019 minimum and maximum: NaN propagates, and -0 is less than 0. Equal numbers differ in the sign of zero at most.
__device__ __forceinline__ float minimum(float a, float b) {
#if __CUDA_ARCH__ >= 800
    float x;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b));
    return x;
#else
    return a < b ? a : b < a ? b : a == b ? __uint_as_float(__float_as_uint(a) | __float_as_uint(b)) : a + b;
#endif
}

__device__ __forceinline__ float maximum(float a, float b) {
#if __CUDA_ARCH__ >= 800
    float x;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b));
    return x;
#else
    return a > b ? a : b > a ? b : a == b ? __uint_as_float(__float_as_uint(a) & __float_as_uint(b)) : a + b;
#endif
}

__device__ __forceinline__ double minimum(double a, double b) {
    const i64 both = __double_as_longlong(a) | __double_as_longlong(b);
    return a < b ? a : b < a ? b : a == b ? __longlong_as_double(both) : a + b;
}

__device__ __forceinline__ double maximum(double a, double b) {
    const i64 both = __double_as_longlong(a) & __double_as_longlong(b);
    return a > b ? a : b > a ? b : a == b ? __longlong_as_double(both) : a + b;
}

// Quotient of integers: 0 if the divisor is 0; -1 as the divisor negates, which wraps.
template <typename INTEGER>
__device__ __forceinline__ INTEGER quotient(INTEGER a, INTEGER b) {
    constexpr bool SIGNED = INTEGER(-1) < INTEGER(1);
    if (b == 0) return 0;
    if (SIGNED && b == INTEGER(-1)) return (INTEGER)(0 - (u64)a);
    return (INTEGER)(a / b);
}

// Remainder of integers: 0 if the divisor is 0.
template <typename INTEGER>
__device__ __forceinline__ INTEGER remainder(INTEGER a, INTEGER b) {
    constexpr bool SIGNED = INTEGER(-1) < INTEGER(1);
    if (b == 0 || (SIGNED && b == INTEGER(-1))) return 0;
    return (INTEGER)(a % b);
}

// Shifts by any number of bits; a negative one is as large as an unsigned one.
template <typename INTEGER>
__device__ __forceinline__ INTEGER shift_left(INTEGER a, INTEGER bits) {
    if ((u64)bits >= 8 * sizeof(INTEGER)) return 0;
    return sizeof(INTEGER) == 8 ? (INTEGER)((u64)a << (u32)bits) : (INTEGER)((u32)a << (u32)bits);
}

template <typename INTEGER>
__device__ __forceinline__ INTEGER shift_right(INTEGER a, INTEGER bits) {
    constexpr u32 LAST = 8 * sizeof(INTEGER) - 1;
    if ((u64)bits > LAST) return (INTEGER)(a >> LAST >> 1);
    return (INTEGER)(a >> (u32)bits);
}

// The upper half of a product. Of up to 32 bits the compiler knows the instruction.
template <typename INTEGER>
__device__ __forceinline__ INTEGER mul_high(INTEGER a, INTEGER b) {
    constexpr bool SIGNED = INTEGER(-1) < INTEGER(1);
    constexpr u32 BITS = 8 * sizeof(INTEGER);
    return SIGNED ? (INTEGER)(((i64)a * (i64)b) >> BITS) : (INTEGER)(((u64)a * (u64)b) >> BITS);
}

__device__ __forceinline__ i64 mul_high(i64 a, i64 b) { return __mul64hi(a, b); }

__device__ __forceinline__ u64 mul_high(u64 a, u64 b) { return __umul64hi(a, b); }

}  // namespace ir
