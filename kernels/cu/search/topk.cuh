// Selection and sorting within a block.

#pragma once
#include "common/common.cuh"

// The order-preserving mapping of floats to integers of radix sorting. No float maps to 0, except a NaN.
__device__ __forceinline__ u32 sortable(float x) {
    const u32 bits = __float_as_uint(x);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ float from_sortable(u32 key) {
    return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

// Keys distributed over a block: key i is item i / blockDim.x of thread i % blockDim.x. `used` is their number.
template <u32 ITEMS>
struct BlockKeys {
    u32 items[ITEMS];
    u32 used;
};

// Loads `count` keys. If there are more than the block holds, each item keeps the largest of several; a threshold that
// k items reach is still reached by k of the keys.
template <u32 ITEMS, typename Key>
__device__ __forceinline__ void load_keys(BlockKeys<ITEMS>& keys, u32 count, Key key) {
    const u32 capacity = ITEMS * blockDim.x;
    keys.used = min(count, capacity);
#pragma unroll
    for (u32 item = 0; item < ITEMS; item++) {
        const u32 at = item * blockDim.x + threadIdx.x;
        keys.items[item] = at < count ? key(at) : 0;
    }
    for (u32 base = capacity; base < count; base += capacity) {
#pragma unroll
        for (u32 item = 0; item < ITEMS; item++) {
            const u32 at = base + item * blockDim.x + threadIdx.x;
            if (at < count) keys.items[item] = max(keys.items[item], key(at));
        }
    }
}

// The number of the block's keys that are at least `threshold`, in all threads. `counter` must be 0 before.
template <u32 ITEMS>
__device__ __forceinline__ u32 count_at_least(const BlockKeys<ITEMS>& keys, u32 threshold, u32* counter) {
    u32 count = 0;
#pragma unroll
    for (u32 item = 0; item < ITEMS; item++) {
        if (item * blockDim.x < keys.used) count += keys.items[item] >= threshold;
    }
#if __CUDA_ARCH__ >= 800
    count = __reduce_add_sync(FULL_WARP, count);
#else
    count = warp_sum(count);
#endif
    if ((threadIdx.x & 31) == 0 && count) atomicAdd(counter, count);
    __syncthreads();
    return *counter;
}

// The largest threshold that at least `k` keys reach, by bisection from the top bit down; stops early once at most k +
// `spare` keys reach it. 0 if fewer than k keys are nonzero. `counters` has 32 entries; all threads of the block must
// call.
template <u32 ITEMS>
__device__ __forceinline__ u32 select_threshold(const BlockKeys<ITEMS>& keys, u32 k, u32 spare, u32* counters) {
    if (threadIdx.x < 32) counters[threadIdx.x] = 0;
    __syncthreads();
    u32 threshold = 0;
    for (int bit = 31; bit >= 0; bit--) {
        const u32 tried = threshold | 1u << bit;
        const u32 count = count_at_least(keys, tried, counters + bit);
        if (count < k) continue;
        threshold = tried;
        if (count <= k + spare) break;
    }
    return threshold;
}

// One step of a bitonic sort: orders the pairs of keys `step` apart, descending if the index lacks the bit `size`. Ends
// with a barrier.
__device__ __forceinline__ void bitonic_exchange(u64* keys, u32 count, u32 first, u32 size, u32 step) {
    for (u32 pair = threadIdx.x; pair < count / 2; pair += blockDim.x) {
        const u32 low = (pair & ~(step - 1)) * 2 + (pair & (step - 1)), high = low + step;
        const u64 a = keys[low], b = keys[high];
        const bool descending = ((first + low) & size) == 0;
        if ((a < b) == descending) {
            keys[low] = b;
            keys[high] = a;
        }
    }
    __syncthreads();
}

// Sorts `count` keys, a power of two, in descending order by Batcher's bitonic sort. Begins and ends with a barrier.
__device__ __forceinline__ void bitonic_sort_descending(u64* keys, u32 count, u32 first) {
    __syncthreads();
    for (u32 size = 2; size <= count; size *= 2) {
        for (u32 step = size / 2; step > 0; step /= 2) bitonic_exchange(keys, count, first, size, step);
    }
}
