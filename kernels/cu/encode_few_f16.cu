// Linear layers of few rows in binary16; the contract is in encode_few.cuh.

#include "encode_few.cuh"

extern "C" __global__ void CLUSTERED __launch_bounds__(160)
encode_few_f16_8(const __grid_constant__ Linear layer) {
    few<F16, 8, 12>(layer);
}

extern "C" __global__ void CLUSTERED __launch_bounds__(160)
encode_few_f16_16(const __grid_constant__ Linear layer) {
    few<F16, 16, 10>(layer);
}

extern "C" __global__ void CLUSTERED __launch_bounds__(160)
encode_few_f16_24(const __grid_constant__ Linear layer) {
    few<F16, 24, 9>(layer);
}
