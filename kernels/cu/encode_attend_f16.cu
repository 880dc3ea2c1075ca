// Attention in binary16 on tensor cores; the contract is in encode_attend.cuh.

#include "encode_attend.cuh"

extern "C" __global__ void __launch_bounds__(128) encode_attend_f16_32(const __grid_constant__ Attention how) {
    attend_few<F16, 32>(how);
}

extern "C" __global__ void __launch_bounds__(128, 3) encode_attend_f16_32_long(const __grid_constant__ Attention how) {
    attend_many<F16, 32>(how);
}

extern "C" __global__ void __launch_bounds__(128) encode_attend_f16_64(const __grid_constant__ Attention how) {
    attend_few<F16, 64>(how);
}

extern "C" __global__ void __launch_bounds__(128) encode_attend_f16_64_long(const __grid_constant__ Attention how) {
    attend_many<F16, 64>(how);
}

extern "C" __global__ void __launch_bounds__(128) encode_attend_f16_128(const __grid_constant__ Attention how) {
    attend_few<F16, 128>(how);
}

extern "C" __global__ void __launch_bounds__(128) encode_attend_f16_128_long(const __grid_constant__ Attention how) {
    attend_many<F16, 128>(how);
}
