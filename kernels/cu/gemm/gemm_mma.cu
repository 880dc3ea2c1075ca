// Instances of gemm_mma.cuh; the contract is there.

#include "gemm/gemm_mma.cuh"

extern "C" __global__ void __launch_bounds__(256, 1) INSTANCE(gemm_mma, 256x128)(const __grid_constant__ LinearParams layer) {
    gemm_mma<ELEMENT_TYPE, 4, 2, 64, 64, 3>(layer);
}

extern "C" __global__ void __launch_bounds__(128, 2) INSTANCE(gemm_mma, 128x128)(const __grid_constant__ LinearParams layer) {
    gemm_mma<ELEMENT_TYPE, 2, 2, 64, 64, 3>(layer);
}

extern "C" __global__ void __launch_bounds__(128) INSTANCE(gemm_mma, 64x64)(const __grid_constant__ LinearParams layer) {
    gemm_mma<ELEMENT_TYPE, 2, 2, 32, 32, 4>(layer);
}

extern "C" __global__ void __launch_bounds__(128) INSTANCE(gemm_mma, 64x16)(const __grid_constant__ LinearParams layer) {
    gemm_mma<ELEMENT_TYPE, 4, 1, 16, 16, 6>(layer);
}
