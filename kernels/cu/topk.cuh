// Selection and sorting inside one block.

#pragma once
#include "common.cuh"

// A number of the same order as `x`: greater where x is greater. 0 is no float's image (NaN has none that matters).
__device__ __forceinline__ u32 ordered(float x) {
    const u32 bits = __float_as_uint(x);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ float from_ordered(u32 image) {
    return __uint_as_float(image & 0x80000000u ? image & 0x7fffffffu : ~image);
}

// Images a thread holds at most, where many are looked at.
#define HELD 32

// Images spread over a block: image `s` lies in item s / threads of thread s % threads. `used` of them, on all threads.
template <u32 ITEMS>
struct Images {
    u32 held[ITEMS];
    u32 used;
};

// Puts `count` images into a block. Where they are more than it holds, each slot keeps the largest of several: what k
// slots reach, k of the images reach.
template <u32 ITEMS, typename Image>
__device__ __forceinline__ void hold_images(Images<ITEMS>& images, u32 count, Image image) {
    const u32 room = ITEMS * blockDim.x;
    images.used = min(count, room);
#pragma unroll
    for (u32 item = 0; item < ITEMS; item++) {
        const u32 at = item * blockDim.x + threadIdx.x;
        images.held[item] = at < count ? image(at) : 0;
    }
    for (u32 base = room; base < count; base += room) {
#pragma unroll
        for (u32 item = 0; item < ITEMS; item++) {
            const u32 at = base + item * blockDim.x + threadIdx.x;
            if (at < count) images.held[item] = max(images.held[item], image(at));
        }
    }
}

// How many images of the block are at least `bar`. `counter` is zero before; all threads get the number.
template <u32 ITEMS>
__device__ __forceinline__ u32 count_images(const Images<ITEMS>& images, u32 bar, u32* counter) {
    u32 count = 0;
#pragma unroll
    for (u32 item = 0; item < ITEMS; item++) {
        if (item * blockDim.x < images.used) count += images.held[item] >= bar;
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

// The largest bar that it finds at least `k` images to reach, from the top bit down; stops early once at most `spare` more
// than k reach it. 0 where fewer than k images are not 0. `counters` holds 32 numbers; every thread of the block calls.
template <u32 ITEMS>
__device__ __forceinline__ u32 bar_of(const Images<ITEMS>& images, u32 k, u32 spare, u32* counters) {
    if (threadIdx.x < 32) counters[threadIdx.x] = 0;
    __syncthreads();
    u32 bar = 0;
    for (int bit = 31; bit >= 0; bit--) {
        const u32 tried = bar | 1u << bit;
        const u32 count = count_images(images, tried, counters + bit);
        if (count < k) continue;
        bar = tried;
        if (count <= k + spare) break;
    }
    return bar;
}

// Orders each pair of keys `step` apart, larger first where the index has no bit of `size`. Ends with a barrier.
__device__ __forceinline__ void exchange(u64* keys, u32 count, u32 first, u32 size, u32 step) {
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

// Sorts `count` keys, a power of two, in descending order: Batcher's bitonic sort. Barriers on both sides.
__device__ __forceinline__ void sort_descending(u64* keys, u32 count, u32 first) {
    __syncthreads();
    for (u32 size = 2; size <= count; size *= 2) {
        for (u32 step = size / 2; step > 0; step /= 2) exchange(keys, count, first, size, step);
    }
}
