// Scans of int8 copies by warpgroup products; the contract is in similarity_tile.cuh.

#include "similarity_warpgroup.cuh"

extern "C" __global__ void __launch_bounds__(384, 1) similarity_warpgroup_i8_16(SCAN_PARAMS, u32 stages) {
    scan_groups<I8, 16, 1>(SCAN_ARGS, stages);
}

extern "C" __global__ void __launch_bounds__(384, 1) similarity_warpgroup_i8_128(SCAN_PARAMS, u32 stages) {
    scan_groups<I8, 128, 1>(SCAN_ARGS, stages);
}

extern "C" __global__ void PAIRED __launch_bounds__(384, 1) similarity_warpgroup_i8_pair(SCAN_PARAMS, u32 stages) {
    scan_groups<I8, 128, 2>(SCAN_ARGS, stages);
}
