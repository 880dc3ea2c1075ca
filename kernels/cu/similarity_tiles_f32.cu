// Scans of f32 rows by mma.sync; the contract is in similarity_tile.cuh.

#include "similarity_tiles.cuh"

extern "C" __global__ void __launch_bounds__(256, 2) similarity_tiles_f32_16(SCAN_PARAMS) {
    scan_tiles<F32, 16>(SCAN_ARGS);
}

extern "C" __global__ void __launch_bounds__(256, 1) similarity_tiles_f32_128(SCAN_PARAMS) {
    scan_tiles<F32, 128>(SCAN_ARGS);
}
