// Two consumer warpgroups that alternate in issuing products, so that the softmax of one overlaps the products of the other
// (FlashAttention-3, Shah and others, 2024). Barriers 1 and 2 are theirs.
#pragma once
#include "common/common.cuh"

// Waits for the turn of a warpgroup. The second one starts the alternation with `warp_scheduler_arrive`.
__device__ __forceinline__ void warp_scheduler_sync(u32 group) {
    asm volatile("bar.sync %0, 256;" ::"r"(group + 1) : "memory");
}

// Gives the turn to the other warpgroup.
__device__ __forceinline__ void warp_scheduler_arrive(u32 group) {
    asm volatile("bar.arrive %0, 256;" ::"r"((group ^ 1) + 1) : "memory");
}
