// The products of a k tile by mma.sync, for a warp. Linear layers, search and convolutions share it on GPUs from sm_80 on other than Hopper.
#pragma once
#include "common/mma.cuh"

#if __CUDA_ARCH__ >= 800

// sums += rows * columns^T for WARP_M rows from `row` on and WARP_N columns from `column` on, multiples of 8, of k tiles in shared memory: rows of
// 128 bytes with the 128-byte swizzle, at addresses that are multiples of 1024. Element 8 n + i of sums[m] belongs to fragments m and n.
template <typename Mma, int WARP_M, int WARP_N>
__device__ __forceinline__ void multiply_k_tile(typename Mma::Sum (&sums)[WARP_M / 16][WARP_N / 2], u32 rows, u32 columns, u32 row, u32 column) {
    const u32 lane = threadIdx.x & 31;
    const u32 from_a = rows + (row + lane % 16) * 128, from_b = columns + (column + lane / 16 * 8 + lane % 8) * 128;
#pragma unroll
    for (u32 k = 0; k < 4; k++) {
        u32 a[WARP_M / 16][4], b[WARP_N / 16][4];
        // The rows of a lane are equal modulo 8 in all fragments.
        const u32 a_chunk = (2 * k + lane / 16 ^ lane % 8) << 4, b_chunk = (2 * k + lane / 8 % 2 ^ lane % 8) << 4;
#pragma unroll
        for (u32 m = 0; m < WARP_M / 16; m++) ldmatrix_x4(a[m], from_a + m * (16 * 128) + a_chunk);
#pragma unroll
        for (u32 n = 0; n < WARP_N / 16; n++) ldmatrix_x4(b[n], from_b + n * (16 * 128) + b_chunk);
#pragma unroll
        for (u32 n = 0; n < WARP_N / 16; n++) {
#pragma unroll
            for (u32 m = 0; m < WARP_M / 16; m++) {
                Mma::mma(&sums[m][8 * n], a[m], b[n][0], b[n][1]);
                Mma::mma(&sums[m][8 * n + 4], a[m], b[n][2], b[n][3]);
            }
        }
    }
}

#endif
