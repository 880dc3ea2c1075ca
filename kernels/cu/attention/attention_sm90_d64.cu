// Instances of attention_sm90_d64.cuh; the contract is there.

#include "attention/attention_sm90_d64.cuh"

extern "C" __global__ void __launch_bounds__(D64_THREADS, 1) attention_sm90_32(const __grid_constant__ AttentionParams params) {
    attention_sm90_d64<32>(params);
}

extern "C" __global__ void __launch_bounds__(D64_THREADS, 1) attention_sm90_64(const __grid_constant__ AttentionParams params) {
    attention_sm90_d64<64>(params);
}
