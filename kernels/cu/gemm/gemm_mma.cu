// Instances of gemm_mma.cuh; the contract is there.

#include "gemm/gemm_mma.cuh"

#define TILE(shape, field) GEMM_MMA_##shape##_##field
#define TILE_THREADS(shape) gemm_mma_threads(TILE(shape, rows), TILE(shape, columns), TILE(shape, warp_rows), TILE(shape, warp_columns))
#define GEMM_MMA_INSTANCE(shape)                                                                                                           \
    extern "C" __global__ void __launch_bounds__(TILE_THREADS(shape), TILE(shape, min_blocks))                                             \
    INSTANCE(gemm_mma, shape)(const __grid_constant__ LinearParams layer) {                                                                \
        gemm_mma<ELEMENT_TYPE, TILE(shape, rows) / TILE(shape, warp_rows), TILE(shape, columns) / TILE(shape, warp_columns),               \
                 TILE(shape, warp_rows), TILE(shape, warp_columns), TILE(shape, stages)>(layer);                                           \
    }

GEMM_MMA(GEMM_MMA_INSTANCE)
