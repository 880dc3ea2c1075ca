// Linear layers in bfloat16 by warpgroup products; the contract is in encode_linear.cuh.

#include "encode_linear.cuh"

extern "C" __global__ void PAIRED __launch_bounds__(384, 1) encode_linear_bf16_wide(const __grid_constant__ Linear layer) {
    linear<BF16, 2, 256, 4, 2>(layer);
}

extern "C" __global__ void __launch_bounds__(384, 1) encode_linear_bf16_broad(const __grid_constant__ Linear layer) {
    linear<BF16, 2, 192, 4>(layer);
}

extern "C" __global__ void __launch_bounds__(288, 2) encode_linear_bf16_even(const __grid_constant__ Linear layer) {
    linear<BF16, 2, 128, 3>(layer);
}

extern "C" __global__ void __launch_bounds__(160) encode_linear_bf16_middle(const __grid_constant__ Linear layer) {
    linear<BF16, 1, 64, 6>(layer);
}

extern "C" __global__ void __launch_bounds__(160) encode_linear_bf16_small(const __grid_constant__ Linear layer) {
    linear<BF16, 1, 16, 10>(layer);
}
