// Warpgroup MMA (wgmma), bulk copies and mbarriers of Hopper; sm_90a only.

#pragma once
#include "common/mma.cuh"

// The attribute of a kernel whose clusters have `blocks` blocks: 1, 2 or 4.
#define CLUSTER_OF(blocks) EXPAND_CLUSTER(blocks)
#define EXPAND_CLUSTER(blocks) CLUSTER_OF_##blocks
#define CLUSTER_OF_1
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define CLUSTER_OF_2 __cluster_dims__(2, 1, 1)
#define CLUSTER_OF_4 __cluster_dims__(4, 1, 1)
#else
#define CLUSTER_OF_2
#define CLUSTER_OF_4
#endif

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// mbarriers: a phase completes after all expected arrivals and transaction bytes.
__device__ __forceinline__ void mbarrier_init(u32 barrier, u32 arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes mbarrier initialisation visible to the async proxy.
__device__ __forceinline__ void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ __forceinline__ void mbarrier_arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives for `count` threads.
__device__ __forceinline__ void mbarrier_arrive_count(u32 barrier, u32 count) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

// Arrives and adds the bytes of bulk loads to the expected transactions.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Waits for completion of the phase of this parity.
__device__ __forceinline__ void mbarrier_wait(u32 barrier, u32 parity) {
    u32 done;
    do {
        asm volatile(
            "{\n"
            ".reg .pred p;\n"
            "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
            "selp.u32 %0, 1, 0, p;\n"
            "}\n"
            : "=r"(done)
            : "r"(barrier), "r"(parity)
            : "memory");
    } while (!done);
}

// Position in a ring of stages and the parity of its phase, as CUTLASS's PipelineState. The ring has STAGES stages, or
// the `count` given to `advance`.
template <u32 STAGES = 0>
struct PipelineState {
    u32 stage, parity;

    __device__ __forceinline__ void advance(u32 count = STAGES) {
        if (++stage == count) {
            stage = 0;
            parity ^= 1;
        }
    }

    // Skips `count` stages, which another warpgroup consumes.
    __device__ __forceinline__ void advance_by(u32 count) {
        const u32 to = stage + count;
        stage = to % STAGES;
        parity ^= to / STAGES & 1;
    }
};

// Starts a bulk copy to shared memory, of a multiple of 16 bytes, that completes on the mbarrier.
__device__ __forceinline__ void bulk_load(u32 shared, const void* global, u32 bytes, u32 barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared),
        "l"(global), "r"(bytes), "r"(barrier)
        : "memory");
}

// Starts a bulk copy from shared memory, of a multiple of 16 bytes, in a bulk group by itself.
__device__ __forceinline__ void bulk_store(void* global, u32 shared, u32 bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global), "r"(shared), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until all but the latest PENDING bulk stores of this thread have read their shared memory.
template <int PENDING>
__device__ __forceinline__ void bulk_store_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

// Makes this thread's writes to shared memory visible to the async proxy, after a following barrier.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Writes four 8 x 8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void stmatrix_x4(u32 shared, u32 a, u32 b, u32 c, u32 d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(a), "r"(b), "r"(c),
                 "r"(d)
                 : "memory");
}

// Multicast variant of bulk_load to this offset in the first BLOCKS blocks of a cluster; completes on each block's mbarrier.
template <u32 BLOCKS>
__device__ __forceinline__ void bulk_load_multicast(u32 shared, const void* global, u32 bytes, u32 barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::
            "r"(shared),
        "l"(global), "r"(bytes), "r"(barrier), "h"((u16)((1 << BLOCKS) - 1))
        : "memory");
}

// Arrives at the mbarrier at this offset in a block of the cluster.
__device__ __forceinline__ void mbarrier_arrive_cluster(u32 barrier, u32 block) {
    asm volatile(
        "{\n"
        ".reg .b32 there;\n"
        "mapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
        "}\n" ::"r"(barrier),
        "r"(block)
        : "memory");
}

// Stores a number to this offset in a block of the cluster (st.async); completes 4 bytes on its mbarrier.
__device__ __forceinline__ void store_async_cluster(u32 shared, float x, u32 barrier, u32 block) {
    asm volatile(
        "{\n"
        ".reg .b32 there, counting;\n"
        "mapa.shared::cluster.u32 there, %0, %3;\n"
        "mapa.shared::cluster.u32 counting, %2, %3;\n"
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [there], %1, [counting];\n"
        "}\n" ::"r"(shared),
        "r"(__float_as_uint(x)), "r"(barrier), "r"(block)
        : "memory");
}

// A barrier of all threads of a cluster; whole warps call it.
__device__ __forceinline__ void cluster_sync() {
    asm volatile(
        "barrier.cluster.arrive.release.aligned;\n"
        "barrier.cluster.wait.acquire.aligned;\n" ::
            : "memory");
}

// Releases registers of the calling warpgroup, or requests them.
template <u32 COUNT>
__device__ __forceinline__ void setmaxnreg_dec() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

template <u32 COUNT>
__device__ __forceinline__ void setmaxnreg_inc() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

// Descriptor of a K-major matrix in shared memory with 128-byte swizzle, eight rows in 1024 bytes, aligned to 1024 bytes;
// add a byte offset `>> 4` to step along K.
__device__ __forceinline__ u64 smem_descriptor(u32 shared) {
    return (u64)((shared & 0x3ffff) >> 4) | 1ull << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}

// The low word of such a descriptor, whose addresses count 16 bytes, and the descriptor that it begins.
#define DESCRIPTOR_LOW(shared) ((shared) >> 4 | 1u << 16)
__device__ __forceinline__ u64 descriptor_from(u32 begins) {
    u64 matrix;
    asm("mov.b64 %0, {%1, %2};" : "=l"(matrix) : "r"(begins), "r"((u32)(smem_descriptor(0) >> 32)));
    return matrix;
}

// Orders register writes of other instructions before the following wgmma.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Commits the wgmma issued so far as a group.
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most PENDING of the latest groups are in flight.
template <int PENDING>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// Keeps the compiler from moving accesses of accumulators across a wait.
template <int COUNT>
__device__ __forceinline__ void fence_accumulators(float (&sums)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) asm volatile("" : "+f"(sums[i])::"memory");
}

template <int COUNT>
__device__ __forceinline__ void fence_accumulators(int (&sums)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) asm volatile("" : "+r"(sums[i])::"memory");
}

// Operand lists of the wgmma instructions below.
#define EIGHT(C, x, i)                                                                                           \
    C(x[i]), C(x[i + 1]), C(x[i + 2]), C(x[i + 3]), C(x[i + 4]), C(x[i + 5]), C(x[i + 6]), C(x[i + 7])
#define SIXTY_FOUR(C, x)                                                                                              \
    EIGHT(C, x, 0), EIGHT(C, x, 8), EIGHT(C, x, 16), EIGHT(C, x, 24), EIGHT(C, x, 32), EIGHT(C, x, 40), EIGHT(C, x, 48), \
        EIGHT(C, x, 56)
#define FOUR(C, x) C(x[0]), C(x[1]), C(x[2]), C(x[3])
#define ALL_8(C, x) EIGHT(C, x, 0)
#define TWELVE(C, x) EIGHT(C, x, 0), C(x[8]), C(x[9]), C(x[10]), C(x[11])
#define SIXTEEN(C, x) EIGHT(C, x, 0), EIGHT(C, x, 8)
#define TWENTY_FOUR(C, x) SIXTEEN(C, x), EIGHT(C, x, 16)
#define THIRTY_TWO(C, x) EIGHT(C, x, 0), EIGHT(C, x, 8), EIGHT(C, x, 16), EIGHT(C, x, 24)
#define NINETY_SIX(C, x) SIXTY_FOUR(C, x), EIGHT(C, x, 64), EIGHT(C, x, 72), EIGHT(C, x, 80), EIGHT(C, x, 88)
#define HUNDRED_28(C, x) NINETY_SIX(C, x), EIGHT(C, x, 96), EIGHT(C, x, 104), EIGHT(C, x, 112), EIGHT(C, x, 120)
#define IN_F32(x) "+f"(x)
#define IN_S32(x) "+r"(x)
#define NAMES_4 "{%0, %1, %2, %3}"
#define NAMES_8 "{%0, %1, %2, %3, %4, %5, %6, %7}"
#define NAMES_12 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11}"
#define NAMES_16 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}"
#define NAMES_24                                                                                           \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                              \
    "%16, %17, %18, %19, %20, %21, %22, %23}"
#define NAMES_32                                                                                           \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                              \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
#define NAMES_64                                                                                           \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                              \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                     \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                     \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}"

#define NAMES_96 \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}"
#define NAMES_128 \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}"

// x = rows * queries, or x += rows * queries if `more`: an m64nNkK product with K spanning 32 bytes. Warp w of the
// warpgroup holds rows from 16 w; element 4 j + 2 h + b of lane l is row l / 4 + 8 h and column 8 j + l % 4 * 2 + b. NUMBERS
// is the shape suffix and types of the instruction; ROWS, QUERIES and MORE are the operand numbers after the accumulators.
#define WGMMA(SUM, COUNT, NUMBERS, NAMES, SUMS, ROWS, QUERIES, MORE, END)                                  \
    static __device__ __forceinline__ void mma(SUM (&x)[COUNT], u64 rows, u64 queries, u32 more) {            \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " MORE ", 0;\n"                                            \
                     "wgmma.mma_async.sync.aligned.m64n" NUMBERS " " NAMES ", " ROWS ", " QUERIES ", p" END ";\n}\n" \
                     : SUMS                                                                                        \
                     : "l"(rows), "l"(queries), "r"(more));                                                        \
    }
// 16-bit inputs, N = 8, 16, 24, 32, 48, 64, 128, 192 or 256.
#define WGMMA_16BIT(TYPE, QUERIES, COUNT, NAMES, SUMS, A, B, C)                                                      \
    WGMMA(float, COUNT, QUERIES "k16.f32." TYPE "." TYPE, NAMES, SUMS(IN_F32, x), A, B, C, ", 1, 1, 0, 0")
// acc += a * b for 64 rows and 16 terms, with `a` in registers, a warp's 16 rows in the layout of mma.sync, and the rows of `b` along its
// columns, N = 32, 64 or 128. A descriptor of more than 64 columns has the distance of the second 64 in its leading byte offset.
#define WGMMA_REGISTERS(TYPE, COLUMNS, COUNT, NAMES, SUMS, A0, A1, A2, A3, B)                                                                \
    static __device__ __forceinline__ void mma_transposed(float (&x)[COUNT], const u32* a, u64 b) {                                          \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" COLUMNS "k16.f32." TYPE "." TYPE " " NAMES ", {" A0 ", " A1 ", " A2 ", " A3 "}, " B \
                     ", 1, 1, 1, 1;\n"                                                                                                       \
                     : SUMS(IN_F32, x)                                                                                                       \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                                                  \
    }
#define WGMMAS_16BIT(TYPE)                                                                    \
    WGMMA_16BIT(TYPE, "8", 4, NAMES_4, FOUR, "%4", "%5", "%6")                                \
    WGMMA_16BIT(TYPE, "16", 8, NAMES_8, ALL_8, "%8", "%9", "%10")                             \
    WGMMA_16BIT(TYPE, "24", 12, NAMES_12, TWELVE, "%12", "%13", "%14")                        \
    WGMMA_16BIT(TYPE, "32", 16, NAMES_16, SIXTEEN, "%16", "%17", "%18")                       \
    WGMMA_16BIT(TYPE, "48", 24, NAMES_24, TWENTY_FOUR, "%24", "%25", "%26")                   \
    WGMMA_16BIT(TYPE, "64", 32, NAMES_32, THIRTY_TWO, "%32", "%33", "%34")                    \
    WGMMA_16BIT(TYPE, "128", 64, NAMES_64, SIXTY_FOUR, "%64", "%65", "%66")                   \
    WGMMA_16BIT(TYPE, "192", 96, NAMES_96, NINETY_SIX, "%96", "%97", "%98")                   \
    WGMMA_16BIT(TYPE, "256", 128, NAMES_128, HUNDRED_28, "%128", "%129", "%130")              \
    WGMMA_REGISTERS(TYPE, "32", 16, NAMES_16, SIXTEEN, "%16", "%17", "%18", "%19", "%20")     \
    WGMMA_REGISTERS(TYPE, "64", 32, NAMES_32, THIRTY_TWO, "%32", "%33", "%34", "%35", "%36")  \
    WGMMA_REGISTERS(TYPE, "128", 64, NAMES_64, SIXTY_FOUR, "%64", "%65", "%66", "%67", "%68")

struct WgmmaBf16 {
    typedef float Sum;
    WGMMAS_16BIT("bf16")
};

struct WgmmaF16 {
    typedef float Sum;
    WGMMAS_16BIT("f16")
};

// f32 inputs, of which TF32 is multiplied, N = 64 or 128.
struct WgmmaTf32 {
    typedef float Sum;
    WGMMA(float, 32, "64k8.f32.tf32.tf32", NAMES_32, THIRTY_TWO(IN_F32, x), "%32", "%33", "%34", ", 1, 1")
    WGMMA(float, 64, "128k8.f32.tf32.tf32", NAMES_64, SIXTY_FOUR(IN_F32, x), "%64", "%65", "%66", ", 1, 1")
};

// 8-bit inputs, N = 16 or 128.
struct WgmmaI8 {
    typedef int Sum;
    WGMMA(int, 8, "16k32.s32.s8.s8", NAMES_8, ALL_8(IN_S32, x), "%8", "%9", "%10", "")
    WGMMA(int, 64, "128k32.s32.s8.s8", NAMES_64, SIXTY_FOUR(IN_S32, x), "%64", "%65", "%66", "")
};

#endif
