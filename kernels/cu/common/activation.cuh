// Activation functions, and the fast exponential that attention shares with them.

#pragma once
#include "common/common.cuh"

// 2^x, about 2 units in the last place; 0 for minus infinity.
__device__ __forceinline__ float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#define LOG2_E 1.4426950408889634f

// x Phi(x) = max(x, 0) - |x| erfc(|x| / sqrt 2) / 2, where erfc is 2^(-|x| p(|x|)) for a polynomial p fitted to it: at most
// 3e-7 from the true value, for any x; that is below half a step of bfloat16 wherever the value exceeds 1e-4.
__device__ __forceinline__ float gelu(float x) {
    const float a = fminf(fabsf(x), 5.5f);
    float p = fmaf(a, -2.9924542104708962e-05f, 7.398768211714923e-04f);
    p = fmaf(a, p, -7.977469824254513e-03f);
    p = fmaf(a, p, 5.3238194435834885e-02f);
    p = fmaf(a, p, 4.5891568064689636e-01f);
    p = fmaf(a, p, 1.1511471271514893f);
    return fmaf(-0.5f * a, exp2_approx(-a * p), fmaxf(x, 0.0f));
}

// Saturates to the range of binary16; NaN propagates.
__device__ __forceinline__ float clamp_f16(float x) { return x > 65504.0f ? 65504.0f : x < -65504.0f ? -65504.0f : x; }

// x / (1 + e^-x).
__device__ __forceinline__ float silu(float x) { return __fdividef(x, 1.0f + exp2_approx(-LOG2_E * x)); }

// GELU's tanh form, which is x / (1 + e^(-2 u)) with u = sqrt(2 / pi) (x + 0.044715 x^3).
__device__ __forceinline__ float gelu_tanh(float x) {
    const float u2 = x * fmaf(0.1029432397f * x, x, 2.3022081986f);
    return __fdividef(x, 1.0f + exp2_approx(-u2));
}
