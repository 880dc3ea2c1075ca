// The products of a k tile by mma.sync, for a warp. Linear layers, search and convolutions share it on GPUs from sm_80 on other than Hopper.
#pragma once
#include "common/mma.cuh"

#if __CUDA_ARCH__ >= 800

// The operands of a warp for one of the four steps of a k tile, 32 bytes of each row: WARP_M rows and WARP_N columns. K tiles are
// in shared memory: rows of 128 bytes with the 128-byte swizzle, at addresses that are multiples of 1024.
template <typename Mma, int WARP_M, int WARP_N>
struct Fragments {
    typedef typename Mma::Sum Sums[WARP_M / 16][WARP_N / 2];
    u32 a[WARP_M / 16][4], b[WARP_N / 16][4];

    // Where the lane reads, in the k tile at address `tile`: rows from `row` on, a multiple of 8.
    static __device__ __forceinline__ u32 address_a(u32 tile, u32 row) {
        const u32 lane = threadIdx.x & 31;
        return tile + (row + lane % 16) * 128 + ((lane / 16 ^ lane % 8) << 4);
    }
    static __device__ __forceinline__ u32 address_b(u32 tile, u32 column) {
        const u32 lane = threadIdx.x & 31;
        return tile + (column + lane / 16 * 8 + lane % 8) * 128 + ((lane / 8 % 2 ^ lane % 8) << 4);
    }

    __device__ __forceinline__ void load(u32 from_a, u32 from_b, u32 step) {
#pragma unroll
        for (u32 m = 0; m < WARP_M / 16; m++) ldmatrix_x4(a[m], (from_a ^ step << 5) + m * (16 * 128));
#pragma unroll
        for (u32 n = 0; n < WARP_N / 16; n++) ldmatrix_x4(b[n], (from_b ^ step << 5) + n * (16 * 128));
    }

    // sums += a * b^T; element 8 n + i of sums[m] belongs to fragments m and n. Calls between(m) before the products of rows m.
    // Consecutive products share an operand, which the register cache then holds.
    template <typename Between>
    __device__ __forceinline__ void mma(Sums& sums, Between between) const {
#pragma unroll
        for (u32 m = 0; m < WARP_M / 16; m++) {
            between(m);
#pragma unroll
            for (u32 i = 0; i < WARP_N / 16; i++) {
                const u32 n = m % 2 ? WARP_N / 16 - 1 - i : i;
                Mma::mma(&sums[m][8 * n], a[m], b[n][0], b[n][1]);
                Mma::mma(&sums[m][8 * n + 4], a[m], b[n][2], b[n][3]);
            }
        }
    }
};

// sums += rows * columns^T over a whole k tile, for WARP_M rows from `row` on and WARP_N columns from `column` on.
template <typename Mma, int WARP_M, int WARP_N>
__device__ __forceinline__ void multiply_k_tile(typename Fragments<Mma, WARP_M, WARP_N>::Sums& sums, u32 rows, u32 columns, u32 row,
                                                u32 column) {
    Fragments<Mma, WARP_M, WARP_N> fragments;
    const u32 from_a = fragments.address_a(rows, row), from_b = fragments.address_b(columns, column);
#pragma unroll
    for (u32 step = 0; step < 4; step++) {
        fragments.load(from_a, from_b, step);
        fragments.mma(sums, [](u32) {});
    }
}

#endif
