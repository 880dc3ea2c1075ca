// Linear layers with the residual and the norm behind them in binary16; the contract is in encode_join.cuh.

#include "encode_join.cuh"

extern "C" __global__ void CLUSTER_OF(2) __launch_bounds__(384, 1) encode_join_f16_384(const __grid_constant__ Join join) {
    linear_join<F16, 4, 2>(join);
}

extern "C" __global__ void CLUSTER_OF(4) __launch_bounds__(384, 1) encode_join_f16_768(const __grid_constant__ Join join) {
    linear_join<F16, 4, 4>(join);
}
