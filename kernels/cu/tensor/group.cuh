// Merges the states of threads: of a part of a warp, a warp, or a block.

#pragma once
#include "tensor/states.cuh"

// The state of lane `own ^ mask`.
template <typename State>
__device__ __forceinline__ State exchange(const State& state, int mask) {
    constexpr int WORDS = (sizeof(State) + 3) / 4;
    u32 words[WORDS] = {};
    memcpy(words, &state, sizeof(State));
#pragma unroll
    for (int w = 0; w < WORDS; w++) words[w] = __shfl_xor_sync(FULL_WARP, words[w], mask);
    State other;
    memcpy(&other, words, sizeof(State));
    return other;
}

// The merged state of each group of LANES lanes, in all of them: the lower lane's state comes first, so that their bits agree. LANES is
// a power of two up to 32; all lanes of the warp call it.
template <int LANES, typename State>
__device__ __forceinline__ State warp_merge(State state) {
#pragma unroll State::MERGE_UNROLL
    for (int step = LANES / 2; step > 0; step >>= 1) {
        const State other = exchange(state, step);
        state = threadIdx.x & step ? State::merge(other, state) : State::merge(state, other);
    }
    return state;
}

// The merged state of the block, in all threads. The block is whole warps. Each call of a kernel needs its own `scratch` of 32 states.
template <typename State>
__device__ __forceinline__ State block_merge(State state, State* scratch) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    state = warp_merge<32>(state);
    if (lane == 0) scratch[warp] = state;
    __syncthreads();
    return warp_merge<32>(lane < warps ? scratch[lane] : State::identity());
}

// As group_merge, of a block of THREADS threads and in the first thread of each group alone.
template <int LANES, int THREADS, typename State>
__device__ __forceinline__ State merge_to_first(State state, State* scratch) {
    if constexpr (LANES <= 32) {
        return warp_merge<LANES>(state);
    } else {
        constexpr u32 WARPS = THREADS / 32;
        const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        state = warp_merge<32>(state);
        if (lane == 0) scratch[warp] = state;
        __syncthreads();
        return warp == 0 ? warp_merge<WARPS>(scratch[lane % WARPS]) : state;
    }
}

// Of each group of LANES consecutive threads: a part of a warp, or with more than 32 the whole block.
template <int LANES, typename State>
__device__ __forceinline__ State group_merge(State state, State* scratch) {
    if constexpr (LANES > 32) return block_merge(state, scratch);
    else return warp_merge<LANES>(state);
}
