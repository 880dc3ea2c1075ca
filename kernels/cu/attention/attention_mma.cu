// Instances of attention_mma.cuh; the contract is there.

#include "attention/attention_mma.cuh"

extern "C" __global__ void __launch_bounds__(MMA_THREADS) attention_mma_32(const __grid_constant__ AttentionParams params) {
    attention_mma<32>(params);
}

extern "C" __global__ void __launch_bounds__(MMA_THREADS, 3) attention_mma_32_long(const __grid_constant__ AttentionParams params) {
    attention_mma_long<32>(params);
}

extern "C" __global__ void __launch_bounds__(MMA_THREADS) attention_mma_64(const __grid_constant__ AttentionParams params) {
    attention_mma<64>(params);
}

extern "C" __global__ void __launch_bounds__(MMA_THREADS) attention_mma_64_long(const __grid_constant__ AttentionParams params) {
    attention_mma_long<64>(params);
}

extern "C" __global__ void __launch_bounds__(MMA_THREADS) attention_mma_128(const __grid_constant__ AttentionParams params) {
    attention_mma<128>(params);
}

extern "C" __global__ void __launch_bounds__(MMA_THREADS) attention_mma_128_long(const __grid_constant__ AttentionParams params) {
    attention_mma_long<128>(params);
}
