// Linear layers of few rows in binary16; the contract is in encode_few.cuh.

#include "encode_few.cuh"

extern "C" __global__ void __launch_bounds__(160)
encode_few_f16_8(const __grid_constant__ Linear layer, u32 stages) {
    few<F16, 8>(layer, stages);
}

extern "C" __global__ void __launch_bounds__(160)
encode_few_f16_16(const __grid_constant__ Linear layer, u32 stages) {
    few<F16, 16>(layer, stages);
}

extern "C" __global__ void __launch_bounds__(160)
encode_few_f16_24(const __grid_constant__ Linear layer, u32 stages) {
    few<F16, 24>(layer, stages);
}

extern "C" __global__ void __launch_bounds__(160)
encode_few_f16_32(const __grid_constant__ Linear layer, u32 stages) {
    few<F16, 32>(layer, stages);
}

extern "C" __global__ void __launch_bounds__(160)
encode_few_f16_48(const __grid_constant__ Linear layer, u32 stages) {
    few<F16, 48>(layer, stages);
}
