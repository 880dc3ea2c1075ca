// Scans of binary16 copies by warpgroup products; the contract is in similarity_tile.cuh.

#include "similarity_warpgroup.cuh"

extern "C" __global__ void __launch_bounds__(384, 1) similarity_warpgroup_f16_16(SCAN_PARAMS, u32 stages) {
    scan_groups<F16, 16, 1>(SCAN_ARGS, stages);
}

extern "C" __global__ void __launch_bounds__(384, 1) similarity_warpgroup_f16_128(SCAN_PARAMS, u32 stages) {
    scan_groups<F16, 128, 1>(SCAN_ARGS, stages);
}

extern "C" __global__ void PAIRED __launch_bounds__(384, 1) similarity_warpgroup_f16_pair(SCAN_PARAMS, u32 stages) {
    scan_groups<F16, 128, 2>(SCAN_ARGS, stages);
}
