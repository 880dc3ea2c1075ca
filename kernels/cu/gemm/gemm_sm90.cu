// Instances of gemm_sm90.cuh; the contract is there.

#include "gemm/gemm_sm90.cuh"

#define TILE(shape, field) GEMM_SM90_##shape##_##field
#define GEMM_SM90_INSTANCE(shape)                                                                                                          \
    static_assert(SmemLayout<TILE(shape, rows) / 64, TILE(shape, columns), TILE(shape, stages)>::STAGING == TILE(shape, buffers) &&        \
                      SmemLayout<TILE(shape, rows) / 64, TILE(shape, columns), TILE(shape, stages)>::THREADS == TILE(shape, threads),      \
                  "the launch has other staging buffers or threads");                                                                     \
    extern "C" __global__ void CLUSTER_OF(TILE(shape, cluster)) __launch_bounds__(TILE(shape, threads), TILE(shape, min_blocks))           \
    INSTANCE(gemm_sm90, shape)(const __grid_constant__ LinearParams layer) {                                                               \
        gemm_sm90<ELEMENT_TYPE, TILE(shape, rows) / 64, TILE(shape, columns), TILE(shape, stages), TILE(shape, cluster)>(layer);           \
    }

GEMM_SM90(GEMM_SM90_INSTANCE)
