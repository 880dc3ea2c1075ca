// Linear layers of few rows in bfloat16; the contract is in encode_few.cuh.

#include "encode_few.cuh"

extern "C" __global__ void __launch_bounds__(160)
encode_few_bf16_8(const __grid_constant__ Linear layer, u32 stages) {
    few<BF16, 8>(layer, stages);
}

extern "C" __global__ void __launch_bounds__(160)
encode_few_bf16_16(const __grid_constant__ Linear layer, u32 stages) {
    few<BF16, 16>(layer, stages);
}

extern "C" __global__ void __launch_bounds__(160)
encode_few_bf16_24(const __grid_constant__ Linear layer, u32 stages) {
    few<BF16, 24>(layer, stages);
}

extern "C" __global__ void __launch_bounds__(160)
encode_few_bf16_32(const __grid_constant__ Linear layer, u32 stages) {
    few<BF16, 32>(layer, stages);
}

extern "C" __global__ void __launch_bounds__(160)
encode_few_bf16_48(const __grid_constant__ Linear layer, u32 stages) {
    few<BF16, 48>(layer, stages);
}
