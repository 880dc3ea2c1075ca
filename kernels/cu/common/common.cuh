// What kernels share: 16-bit conversions, warp and block reductions.
//
// No CUDA header is included, here or anywhere: a user's machine has the compiler library alone.

#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef long long i64;

#define FULL_WARP 0xffffffffu
#define INFINITY __int_as_float(0x7f800000)

// The name of a kernel's instance, with `DTYPE` from the module's defines: KERNEL_NAME(linear_, DTYPE, _128x256).
#define KERNEL_NAME(prefix, dtype, suffix) KERNEL_NAME_(prefix, dtype, suffix)
#define KERNEL_NAME_(prefix, dtype, suffix) prefix##dtype##suffix

// Programmatic dependent launch: waits for the preceding grids of the stream to complete. Every kernel launched that
// way calls this before it reads or writes what they write.
__device__ __forceinline__ void griddepcontrol_wait() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets a dependent grid start once all blocks have called this.
__device__ __forceinline__ void griddepcontrol_launch_dependents() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Both, for a kernel without a prologue.
__device__ __forceinline__ void griddepcontrol_launch_and_wait() {
    griddepcontrol_launch_dependents();
    griddepcontrol_wait();
}

// bfloat16 to f32, exact.
__device__ __forceinline__ float bf16_to_f32(u16 bits) { return __uint_as_float((u32)bits << 16); }

// f32 to bfloat16, to nearest, ties to even; a NaN stays one.
__device__ __forceinline__ u16 f32_to_bf16(float x) {
#if __CUDA_ARCH__ >= 800
    u16 bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
#else
    u32 bits = __float_as_uint(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
    return (u16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#endif
}

// Two f32 to a pair of bfloat16: `low` in the low half.
__device__ __forceinline__ u32 f32_to_bf16x2(float low, float high) {
#if __CUDA_ARCH__ >= 800
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
#else
    return (u32)f32_to_bf16(low) | ((u32)f32_to_bf16(high) << 16);
#endif
}

// binary16 to f32, exact.
__device__ __forceinline__ float f16_to_f32(u16 bits) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}

// f32 to binary16, to nearest, ties to even; beyond the range it is infinite.
__device__ __forceinline__ u16 f32_to_f16(float x) {
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}

// Two f32 to a pair of binary16: `low` in the low half.
__device__ __forceinline__ u32 f32_to_f16x2(float low, float high) {
    return (u32)f32_to_f16(low) | ((u32)f32_to_f16(high) << 16);
}

// Sum over the warp by one fixed tree, in every lane.
template <typename T>
__device__ __forceinline__ T warp_sum(T x) {
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) x += __shfl_xor_sync(FULL_WARP, x, step);
    return x;
}

// Largest of the warp, in every lane.
__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) x = fmaxf(x, __shfl_xor_sync(FULL_WARP, x, step));
    return x;
}

// Sum over the block by one fixed tree, in every thread. `scratch` holds 32 values, and may be used again after the
// next barrier. The block is whole warps.
template <typename T>
__device__ __forceinline__ T block_sum(T x, T* scratch) {
    const unsigned lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    x = warp_sum(x);
    if (lane == 0) scratch[warp] = x;
    __syncthreads();
    x = warp_sum(lane < warps ? scratch[lane] : T(0));
    return x;
}
