// The instance of gemm_pingpong.cuh; the contract is there.

#include "gemm/gemm_pingpong.cuh"

extern "C" __global__ void CLUSTER_OF_2 __launch_bounds__(384, 1) INSTANCE(gemm_pingpong, 128x192)(const __grid_constant__ LinearParams layer) {
    gemm_pingpong<ELEMENT_TYPE, 5>(layer);
}
