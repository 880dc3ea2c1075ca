// Scans of bfloat16 copies by mma.sync; the contract is in similarity_tile.cuh.

#include "similarity_tiles.cuh"

extern "C" __global__ void __launch_bounds__(256, 2) similarity_tiles_bf16_16(SCAN_PARAMS) {
    scan_tiles<BF16, 16>(SCAN_ARGS);
}

extern "C" __global__ void __launch_bounds__(256, 1) similarity_tiles_bf16_128(SCAN_PARAMS) {
    scan_tiles<BF16, 128>(SCAN_ARGS);
}
