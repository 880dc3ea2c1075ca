// One pass of a stable radix sort of rows, by a digit of 8 bits from the lowest on.
//
// The source that includes this file defines, besides what sort_key.cuh needs:
//   IS_FIRST                  whether keys are computed from elements, else read with their indices
//   IS_LAST                   whether indices alone are written
//
// The arguments are words: address of the elements or keys that are read; of their indices; of the keys that are written; of their indices,
// i64 in the last pass; of the counters [row, digit, part]; of the totals [row, digit]; elements of a row; of a part, a multiple of the
// tile; parts of a row; results of a row; shift of the digit.
//
// A pass is three launches: the parts count their digits, the counters become the numbers of equal digits in the parts before, and the parts
// move their elements. A row that is one part has no second launch; its counters are the totals.

#pragma once
#include "tensor/sort_key.cuh"
#include "tensor/templates_launch.cuh"

constexpr u32 RADIX_THREADS = WORDS_THREADS, RADIX_WARPS = RADIX_THREADS / 32, DIGITS = RADIX_DIGITS;
constexpr u32 RADIX_ITEMS = sizeof(Key) == 8 ? RADIX_ITEMS_64 : RADIX_ITEMS_32;
static_assert(DIGITS == RADIX_THREADS, "a thread counts a digit");
constexpr u32 RADIX_TILE = RADIX_THREADS * RADIX_ITEMS;

__device__ __forceinline__ u32 digit_of(const u64* words, Key key) { return (u32)(key >> words[10]) & (DIGITS - 1); }

__device__ __forceinline__ Key radix_key(const u64* words, u64 at) {
    if constexpr (IS_FIRST) return sort_key(((const Element*)words[0])[at]);
    else return ((const Key*)words[0])[at];
}

// The part of a block: elements [begin, end) of a row, which begins at `base`.
struct RadixPart {
    u64 row, base;
    u32 part, begin, end;

    __device__ __forceinline__ RadixPart(const u64* words) {
        const u32 parts = (u32)words[8], columns = (u32)words[6];
        row = blockIdx.x / parts;
        part = blockIdx.x - (u32)row * parts;
        base = row * columns;
        const u64 first = part * words[7], last = first + words[7];
        begin = (u32)first;
        end = last < columns ? (u32)last : columns;
    }

    // The counter of a digit.
    __device__ __forceinline__ u64 counter(const u64* words, u32 digit) const { return (row * DIGITS + digit) * words[8] + part; }
};

// The values of threads before this one, added up. All threads of the block call it; `scratch` may be used again after a barrier.
__device__ __forceinline__ u32 radix_exclusive_scan(u32 value, u32* scratch) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u32 inclusive = value;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const u32 before = __shfl_up_sync(FULL_WARP, inclusive, step);
        if (lane >= step) inclusive += before;
    }
    if (lane == 31) scratch[warp] = inclusive;
    __syncthreads();
    u32 before = 0;
#pragma unroll
    for (u32 other = 0; other < RADIX_WARPS; other++) before += other < warp ? scratch[other] : 0;
    return before + inclusive - value;
}

__device__ __forceinline__ void radix_count(const u64* words) {
    __shared__ u32 counts[RADIX_WARPS][DIGITS];
    const u32 warp = threadIdx.x / 32;
    const RadixPart part(words);
#pragma unroll
    for (u32 other = 0; other < RADIX_WARPS; other++) counts[other][threadIdx.x] = 0;
    __syncthreads();
#pragma unroll 4
    for (u32 at = part.begin + threadIdx.x; at < part.end; at += RADIX_THREADS) {
        atomicAdd(&counts[warp][digit_of(words, radix_key(words, part.base + at))], 1u);
    }
    __syncthreads();
    u32 count = 0;
#pragma unroll
    for (u32 other = 0; other < RADIX_WARPS; other++) count += counts[other][threadIdx.x];
    ((u32*)words[4])[part.counter(words, threadIdx.x)] = count;
}

// Of one digit of a row, for each block.
__device__ __forceinline__ void radix_scan(const u64* words) {
    __shared__ u32 scratch[RADIX_WARPS];
    const u32 parts = (u32)words[8];
    u32* counters = (u32*)words[4] + (u64)blockIdx.x * parts;
    u32 total = 0;
    for (u32 start = 0; start < parts; start += RADIX_THREADS) {
        const u32 at = start + threadIdx.x;
        const u32 count = at < parts ? counters[at] : 0;
        const u32 before = radix_exclusive_scan(count, scratch);
        if (at < parts) counters[at] = total + before;
        u32 sum = 0;
#pragma unroll
        for (u32 warp = 0; warp < RADIX_WARPS; warp++) sum += scratch[warp];
        total += sum;
        __syncthreads();
    }
    if (threadIdx.x == 0) ((u32*)words[5])[blockIdx.x] = total;
}

// Where the elements of each digit go. Thread d answers for digit d.
struct RadixPlaces {
    // Of the elements of each warp among those of their digit in the tile.
    u32 counts[RADIX_WARPS][DIGITS];
    // Of the first element of a digit in the sorted tile, and from there to its place in the sorted row; it wraps.
    u32 tile_start[DIGITS], distance[DIGITS];
};

// The ranks of a warp's keys among the keys of their digit in the warp, and the warp's counts.
__device__ __forceinline__ void rank_digits(const u64* words, const Key* keys, u32 first, u32 end, u32* counts, u32* ranks) {
    const u32 lane = threadIdx.x % 32;
    for (u32 digit = lane; digit < DIGITS; digit += 32) counts[digit] = 0;
    __syncwarp();
#pragma unroll
    for (u32 item = 0; item < RADIX_ITEMS; item++) {
        const bool is_there = first + item * 32 + lane < end;
        const u32 digit = is_there ? digit_of(words, keys[item]) : DIGITS;
        const u32 peers = __match_any_sync(FULL_WARP, digit);
        const u32 before = is_there ? counts[digit] : 0;
        __syncwarp();
        if (is_there && lane == (u32)__ffs(peers) - 1) counts[digit] = before + __popc(peers);
        __syncwarp();
        ranks[item] = before + __popc(peers & ((1u << lane) - 1));
    }
}

__device__ __forceinline__ void radix_move(const u64* words) {
    __shared__ Key sorted_keys[RADIX_TILE];
    __shared__ u32 sorted_indices[RADIX_TILE];
    __shared__ RadixPlaces places;
    __shared__ u32 scratch[2][RADIX_WARPS];
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const RadixPart part(words);
    // The place of the next element of this thread's digit.
    u32 next = radix_exclusive_scan(((const u32*)words[5])[part.row * DIGITS + threadIdx.x], scratch[0]);
    if (words[8] > 1) next += ((const u32*)words[4])[part.counter(words, threadIdx.x)];
    for (u32 start = part.begin; start < part.end; start += RADIX_TILE) {
        const u32 first = start + warp * 32 * RADIX_ITEMS;
        Key keys[RADIX_ITEMS];
        u32 indices[RADIX_ITEMS], ranks[RADIX_ITEMS];
#pragma unroll
        for (u32 item = 0; item < RADIX_ITEMS; item++) {
            const u32 at = first + item * 32 + lane;
            const bool is_there = at < part.end;
            keys[item] = is_there ? radix_key(words, part.base + at) : 0;
            if constexpr (IS_FIRST) indices[item] = at;
            else indices[item] = is_there ? ((const u32*)words[1])[part.base + at] : 0;
        }
        rank_digits(words, keys, first, part.end, places.counts[warp], ranks);
        __syncthreads();
        u32 count = 0;
#pragma unroll
        for (u32 other = 0; other < RADIX_WARPS; other++) {
            const u32 own = places.counts[other][threadIdx.x];
            places.counts[other][threadIdx.x] = count;
            count += own;
        }
        const u32 tile_start = radix_exclusive_scan(count, scratch[1]);
        places.tile_start[threadIdx.x] = tile_start;
        places.distance[threadIdx.x] = next - tile_start;
        next += count;
        __syncthreads();
#pragma unroll
        for (u32 item = 0; item < RADIX_ITEMS; item++) {
            if (first + item * 32 + lane >= part.end) continue;
            const u32 digit = digit_of(words, keys[item]);
            const u32 at = places.tile_start[digit] + places.counts[warp][digit] + ranks[item];
            sorted_keys[at] = keys[item];
            sorted_indices[at] = indices[item];
        }
        __syncthreads();
        const u32 tile = part.end - start < RADIX_TILE ? part.end - start : RADIX_TILE;
        for (u32 at = threadIdx.x; at < tile; at += RADIX_THREADS) {
            const Key key = sorted_keys[at];
            const u32 to = places.distance[digit_of(words, key)] + at;
            if constexpr (IS_LAST) {
                if (to < words[9]) ((i64*)words[3])[part.row * words[9] + to] = sorted_indices[at];
            } else {
                ((Key*)words[2])[part.base + to] = key;
                ((u32*)words[3])[part.base + to] = sorted_indices[at];
            }
        }
    }
}
