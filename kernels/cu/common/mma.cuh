// Warp-wide matrix products (mma.sync, from sm_80 on) and what feeds them: ldmatrix and cp.async.

#pragma once
#include "common/common.cuh"

__device__ __forceinline__ u32 smem_address(const void* pointer) { return (u32)__cvta_generic_to_shared(pointer); }

#if __CUDA_ARCH__ >= 800

// Starts an asynchronous copy of 16 bytes to shared memory.
__device__ __forceinline__ void cp_async(u32 shared, const void* global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}

// The same of the first `bytes` bytes, at most 16; zeros follow. `global` is aligned to 16 bytes.
__device__ __forceinline__ void cp_async_or_zero(u32 shared, const void* global, u32 bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes) : "memory");
}

// Commits the copies issued so far as a group.
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most PENDING of the latest groups are in flight.
template <int PENDING>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// As cp_async_or_zero, through the L1 cache: for what the block reads several times.
__device__ __forceinline__ void cp_async_l1_or_zero(u32 shared, const void* global, u32 bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes) : "memory");
}

// Four 8 x 8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void ldmatrix_x4(u32 (&to)[4], u32 shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared)
                 : "memory");
}

// The same, each transposed.
__device__ __forceinline__ void ldmatrix_x4_trans(u32 (&to)[4], u32 shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared)
                 : "memory");
}

// 16 bytes of shared memory.
__device__ __forceinline__ uint4 load_shared_v4(u32 shared) {
    uint4 value;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "r"(shared)
                 : "memory");
    return value;
}

// 4 bytes to shared memory.
__device__ __forceinline__ void store_shared(u32 shared, u32 value) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(shared), "r"(value) : "memory");
}

// Transposes 4 x 4 words over four consecutive lanes: word i of lane q becomes word q of lane i.
__device__ __forceinline__ void transpose_quad(u32 (&words)[4]) {
    const u32 lane = threadIdx.x & 31;
#pragma unroll
    for (u32 step = 1; step <= 2; step *= 2) {
        const bool upper = lane & step;
#pragma unroll
        for (u32 pair = 0; pair < 2; pair++) {
            const u32 low = step == 1 ? 2 * pair : pair, high = low + step;
            const u32 received = __shfl_xor_sync(FULL_WARP, upper ? words[low] : words[high], step);
            if (upper) words[low] = received;
            else words[high] = received;
        }
    }
}

// sum += a * b for 16 rows and 8 columns, over 32 bytes of each: lane l has rows l / 4 and l / 4 + 8 (elements 0, 1 and
// 2, 3 of the sum), columns l % 4 * 2 and the next.
struct MmaBf16 {
    typedef float Sum;
    static __device__ __forceinline__ void mma(float* sum, const u32 (&a)[4], u32 b0, u32 b1) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                     "{%0, %1, %2, %3};"
                     : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
};

struct MmaF16 {
    typedef float Sum;
    static __device__ __forceinline__ void mma(float* sum, const u32 (&a)[4], u32 b0, u32 b1) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                     "{%0, %1, %2, %3};"
                     : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
};

// f32, of which TF32 is multiplied: what is not rounded before is truncated.
struct MmaTf32 {
    typedef float Sum;
    static __device__ __forceinline__ void mma(float* sum, const u32 (&a)[4], u32 b0, u32 b1) {
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                     "{%0, %1, %2, %3};"
                     : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
};

struct MmaI8 {
    typedef int Sum;
    static __device__ __forceinline__ void mma(int* sum, const u32 (&a)[4], u32 b0, u32 b1) {
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                     "{%0, %1, %2, %3};"
                     : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
};

#endif
