// The instance of gemm_pingpong.cuh; the contract is there.

#include "gemm/gemm_pingpong.cuh"
#include "launch/gemm_pingpong.cuh"

#define TILE(shape, field) GEMM_PINGPONG_##shape##_##field
#define GEMM_PINGPONG_INSTANCE(shape)                                                                                                      \
    static_assert(TILE(shape, rows) == PINGPONG_ROWS && TILE(shape, columns) == PINGPONG_COLUMNS && TILE(shape, threads) == PINGPONG_THREADS && \
                      TILE(shape, buffers) == 1 && TILE(shape, cluster) == 2,                                                              \
                  "the schedule has no other tile");                                                                                       \
    extern "C" __global__ void CLUSTER_OF(TILE(shape, cluster)) __launch_bounds__(TILE(shape, threads), TILE(shape, min_blocks))           \
    INSTANCE(gemm_pingpong, shape)(const __grid_constant__ LinearParams layer) {                                                           \
        gemm_pingpong<ELEMENT_TYPE, TILE(shape, stages)>(layer);                                                                           \
    }

GEMM_PINGPONG(GEMM_PINGPONG_INSTANCE)
