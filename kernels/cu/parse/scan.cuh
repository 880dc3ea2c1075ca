// Device-wide exclusive scan in two launches of the same grid (reduce, then scan): each block sums its range, then adds
// the sums of the preceding ranges and writes.

#pragma once

#include "launch/tree.cuh"

struct Range {
    u32 first, end;
};

// The items of a block.
__device__ __forceinline__ Range block_range(u32 count) {
    const u32 tiles = (count + SCAN_THREADS - 1) / SCAN_THREADS;
    const u32 each = (tiles + gridDim.x - 1) / gridDim.x * SCAN_THREADS;
    const u64 first = (u64)blockIdx.x * each;
    if (first >= count) return {count, count};
    return {(u32)first, (u32)(first + each < count ? first + each : count)};
}

// Exclusive sum over the block in thread order; `total` is the sum of all. `warps` holds 33 values.
__device__ __forceinline__ u64 block_exclusive_scan(u64 value, u64* warps, u64& total) {
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

// First launch: sums the block's range.
template <class Load>
__device__ __forceinline__ void reduce_range(u32 count, u64* sums, Load load) {
    __shared__ u64 scratch[33];
    const Range range = block_range(count);
    u64 sum = 0;
    for (u32 at = range.first + threadIdx.x; at < range.end; at += blockDim.x) sum += load(at);
    u64 total;
    block_exclusive_scan(sum, scratch, total);
    if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

// Second launch: calls `store` with the sum before each item, and once with `(count, total)`, in the last block.
template <class Load, class Store>
__device__ __forceinline__ void scan_range(u32 count, const u64* sums, Load load, Store store) {
    __shared__ u64 scratch[33];
    u64 before = 0, total = 0, part = 0;
    for (u32 at = threadIdx.x; at < gridDim.x; at += blockDim.x) {
        part += at < blockIdx.x ? sums[at] : 0;
    }
    block_exclusive_scan(part, scratch, before);
    const Range range = block_range(count);
    for (u32 tile = range.first; tile < range.end; tile += blockDim.x) {
        const u32 at = tile + threadIdx.x;
        const u64 value = at < range.end ? load(at) : 0;
        const u64 place = before + block_exclusive_scan(value, scratch, total);
        if (at < range.end) store(at, place);
        before += total;
    }
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) store(count, before);
}
