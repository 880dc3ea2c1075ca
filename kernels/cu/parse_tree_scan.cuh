// Exclusive sums over a device's worth of items in two launches of the same grid: each block sums a range of its own,
// then each adds what is before its range and writes.

#pragma once

#include "common.cuh"

// At most so many blocks share a sum.
#define MOST_RANGES 1024
#define SCAN_THREADS 256

struct Range {
    u32 first, end;
};

// The items of this block.
__device__ __forceinline__ Range own_range(u32 count) {
    const u32 tiles = (count + SCAN_THREADS - 1) / SCAN_THREADS;
    const u32 each = (tiles + gridDim.x - 1) / gridDim.x * SCAN_THREADS;
    const u64 first = (u64)blockIdx.x * each;
    if (first >= count) return {count, count};
    return {(u32)first, (u32)(first + each < count ? first + each : count)};
}

// The sum of `value` over the threads before this one; `total` is that over all. `warps` holds 33 values.
__device__ __forceinline__ u64 scan_block(u64 value, u64* warps, u64& total) {
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5, count = blockDim.x >> 5;
    u64 sum = value;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const u64 other = __shfl_up_sync(FULL_WARP, sum, step);
        if (lane >= step) sum += other;
    }
    if (lane == 31) warps[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        u64 mine = lane < count ? warps[lane] : 0, all = mine;
#pragma unroll
        for (int step = 1; step < 32; step *= 2) {
            const u64 other = __shfl_up_sync(FULL_WARP, all, step);
            if (lane >= step) all += other;
        }
        if (lane < count) warps[lane] = all - mine;
        if (lane == 31) warps[32] = all;
    }
    __syncthreads();
    total = warps[32];
    const u64 before = warps[warp] + sum - value;
    __syncthreads();
    return before;
}

// First launch: the sum of this block's range.
template <class Load>
__device__ __forceinline__ void sum_range(u32 count, u64* sums, Load load) {
    __shared__ u64 scratch[33];
    const Range range = own_range(count);
    u64 sum = 0;
    for (u32 at = range.first + threadIdx.x; at < range.end; at += blockDim.x) sum += load(at);
    u64 total;
    scan_block(sum, scratch, total);
    if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

// Second launch: hands each item the sum of those before it. `store(count, total)` comes from the last block.
template <class Load, class Store>
__device__ __forceinline__ void spread_range(u32 count, const u64* sums, Load load, Store store) {
    __shared__ u64 scratch[33];
    u64 before = 0, total = 0, part = 0;
    for (u32 at = threadIdx.x; at < gridDim.x; at += blockDim.x) {
        part += at < blockIdx.x ? sums[at] : 0;
    }
    scan_block(part, scratch, before);
    const Range range = own_range(count);
    for (u32 tile = range.first; tile < range.end; tile += blockDim.x) {
        const u32 at = tile + threadIdx.x;
        const u64 value = at < range.end ? load(at) : 0;
        const u64 place = before + scan_block(value, scratch, total);
        if (at < range.end) store(at, place);
        before += total;
    }
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) store(count, before);
}
