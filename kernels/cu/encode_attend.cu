// Attention on tensor cores; the contract is in encode_attend.cuh.

#include "encode_attend.cuh"

extern "C" __global__ void __launch_bounds__(128) encode_attend_32(const __grid_constant__ Attention how) {
    attend_few<32>(how);
}

extern "C" __global__ void __launch_bounds__(128, 3) encode_attend_32_long(const __grid_constant__ Attention how) {
    attend_many<32>(how);
}

extern "C" __global__ void __launch_bounds__(128) encode_attend_64(const __grid_constant__ Attention how) {
    attend_few<64>(how);
}

extern "C" __global__ void __launch_bounds__(128) encode_attend_64_long(const __grid_constant__ Attention how) {
    attend_many<64>(how);
}

extern "C" __global__ void __launch_bounds__(128) encode_attend_128(const __grid_constant__ Attention how) {
    attend_few<128>(how);
}

extern "C" __global__ void __launch_bounds__(128) encode_attend_128_long(const __grid_constant__ Attention how) {
    attend_many<128>(how);
}
