// Attention on Hopper; the contract is in encode_attend_group.cuh.

#include "encode_attend_group.cuh"

extern "C" __global__ void __launch_bounds__(640, 1) encode_attend_32_group(const __grid_constant__ Attention how) {
    attend_group<32>(how);
}

extern "C" __global__ void __launch_bounds__(640, 1) encode_attend_64_group(const __grid_constant__ Attention how) {
    attend_group<64>(how);
}
