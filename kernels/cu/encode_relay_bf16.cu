// Linear layers in bfloat16 by warpgroups that relieve one another; the contract is in encode_relay.cuh.

#include "encode_relay.cuh"

extern "C" __global__ void PAIRED __launch_bounds__(384, 1) encode_linear_bf16_relay(const __grid_constant__ Linear layer) {
    linear_relay<BF16, 5>(layer);
}
