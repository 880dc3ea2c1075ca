// Instances of gemm_sm90.cuh; the contract is there.

#include "gemm/gemm_sm90.cuh"

extern "C" __global__ void CLUSTER_OF_2 __launch_bounds__(384, 1) INSTANCE(gemm_sm90, 128x256)(const __grid_constant__ LinearParams layer) {
    gemm_sm90<ELEMENT_TYPE, 2, 256, 4, 2>(layer);
}

extern "C" __global__ void __launch_bounds__(384, 1) INSTANCE(gemm_sm90, 128x192)(const __grid_constant__ LinearParams layer) {
    gemm_sm90<ELEMENT_TYPE, 2, 192, 4>(layer);
}

extern "C" __global__ void __launch_bounds__(288, 2) INSTANCE(gemm_sm90, 128x128)(const __grid_constant__ LinearParams layer) {
    gemm_sm90<ELEMENT_TYPE, 2, 128, 3>(layer);
}

extern "C" __global__ void __launch_bounds__(160) INSTANCE(gemm_sm90, 64x64)(const __grid_constant__ LinearParams layer) {
    gemm_sm90<ELEMENT_TYPE, 1, 64, 6>(layer);
}

extern "C" __global__ void __launch_bounds__(160) INSTANCE(gemm_sm90, 64x16)(const __grid_constant__ LinearParams layer) {
    gemm_sm90<ELEMENT_TYPE, 1, 16, 10>(layer);
}
