// Attention with wide heads on Hopper; the contract is in encode_attend_wide.cuh.

#include "encode_attend_wide.cuh"

extern "C" __global__ void __launch_bounds__(384, 1) encode_attend_128_group(const __grid_constant__ Attention how) {
    attend_wide_heads(how);
}
