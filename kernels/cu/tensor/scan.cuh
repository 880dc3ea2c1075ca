// Cumulative sums, products and extremes along the middle dimension of contiguous spaces [outer, extent, inner].
//
// The source that includes this file defines before:
//   Element, Value, Output    types in memory, of what is combined, and of the results
//   prologue(element, index, value), epilogue(value, index, result)
//                             conversions between them
//   Operator                  what combines values: one of tensor/states.cuh
//   VEC                       elements that a thread reads at once where inner is 1; divides the extent
//   COLUMN_UNROLL             elements of a column in flight
//
// The arguments are words: addresses of input, output and totals; outer, extent, inner; elements of a part, a multiple of the tile; parts.
//
// Few long scans are cut into parts: one kernel writes the total of each part, and another starts each part from the totals before it. The
// order of operations depends on the shape alone.

#pragma once
#include "tensor/pack.cuh"
#include "tensor/templates_launch.cuh"

constexpr int SCAN_THREADS = WORDS_THREADS, SCAN_WARPS = SCAN_THREADS / 32;
// Vectors of a thread; each warp has one total for each, 32 together.
constexpr int ROUNDS = SCAN_ROUNDS;
constexpr int SCAN_TILE = SCAN_THREADS * ROUNDS * VEC;
static_assert(ROUNDS * SCAN_WARPS == 32, "a warp scans the totals of a tile");

__device__ __forceinline__ Value scan_identity() { return Operator::identity(); }
__device__ __forceinline__ Value combine(Value a, Value b) { return Operator::combine(a, b); }

// The values of lanes up to this one, combined.
__device__ __forceinline__ Value warp_scan(Value value) {
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const Value before = __shfl_up_sync(FULL_WARP, value, step);
        if (threadIdx.x % 32 >= step) value = combine(before, value);
    }
    return value;
}

// The value of the lane before; the identity in the first.
__device__ __forceinline__ Value lane_before(Value value) {
    const Value before = __shfl_up_sync(FULL_WARP, value, 1);
    return threadIdx.x % 32 ? before : scan_identity();
}

__device__ __forceinline__ void load_scanned(const Element* from, bool is_there, Value* values) {
    if (!is_there) {
#pragma unroll
        for (int e = 0; e < VEC; e++) values[e] = scan_identity();
        return;
    }
    const Pack<Element, VEC> pack = Pack<Element, VEC>::load(from);
    prologue(pack.at[0], 0, values[0]);
#pragma unroll
    for (int e = 1; e < VEC; e++) {
        prologue(pack.at[e], 0, values[e]);
        values[e] = combine(values[e - 1], values[e]);
    }
}

__device__ __forceinline__ void store_scanned(Output* to, Value before, const Value* values) {
    Pack<Output, VEC> pack;
#pragma unroll
    for (int e = 0; e < VEC; e++) epilogue(combine(before, values[e]), 0, pack.at[e]);
    pack.store(to);
}

// A warp for each short row.
__device__ __forceinline__ void scan_short_rows(const u64* words) {
    const u64 rows = words[3], extent = words[4];
    const u64 row = ((u64)blockIdx.x * SCAN_THREADS + threadIdx.x) / 32;
    if (row >= rows) return;
    const Element* from = (const Element*)words[0] + row * extent;
    Output* to = (Output*)words[1] + row * extent;
    Value carry = scan_identity();
    for (u64 start = 0; start < extent; start += 32 * VEC) {
        const u64 at = start + threadIdx.x % 32 * VEC;
        Value values[VEC];
        load_scanned(from + at, at < extent, values);
        const Value inclusive = warp_scan(values[VEC - 1]);
        const Value before = lane_before(inclusive);
        if (at < extent) store_scanned(to + at, combine(carry, before), values);
        carry = combine(carry, __shfl_sync(FULL_WARP, inclusive, 31));
    }
}

// The values of all threads combined, in all of them.
__device__ __forceinline__ Value block_combine(Value value) {
    __shared__ Value scratch[SCAN_WARPS];
#pragma unroll
    for (int step = 16; step > 0; step /= 2) value = combine(value, __shfl_xor_sync(FULL_WARP, value, step));
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
    __syncthreads();
    value = scratch[0];
#pragma unroll
    for (int warp = 1; warp < SCAN_WARPS; warp++) value = combine(value, scratch[warp]);
    return value;
}

// Elements [begin, end) of a row: the part of block (row, part).
struct ScanPart {
    u64 begin, end;

    __device__ __forceinline__ ScanPart(const u64* words) {
        begin = (u64)blockIdx.y * words[6];
        end = begin + words[6] < words[4] ? begin + words[6] : words[4];
    }
};

__device__ __forceinline__ void scan_row_totals(const u64* words) {
    const ScanPart part(words);
    const Element* from = (const Element*)words[0] + blockIdx.x * words[4];
    Value total = scan_identity();
    for (u64 start = part.begin; start < part.end; start += SCAN_TILE) {
        Value values[ROUNDS][VEC];
#pragma unroll
        for (int u = 0; u < ROUNDS; u++) {
            const u64 at = start + (u * SCAN_THREADS + threadIdx.x) * VEC;
            load_scanned(from + at, at < part.end, values[u]);
        }
#pragma unroll
        for (int u = 0; u < ROUNDS; u++) total = combine(total, values[u][VEC - 1]);
    }
    total = block_combine(total);
    if (threadIdx.x == 0) ((Value*)words[2])[blockIdx.x * words[7] + blockIdx.y] = total;
}

__device__ __forceinline__ void scan_rows(const u64* words) {
    __shared__ Value totals[2][32];
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const ScanPart part(words);
    const Element* from = (const Element*)words[0] + blockIdx.x * words[4];
    Output* to = (Output*)words[1] + blockIdx.x * words[4];
    Value carry = scan_identity();
    if (words[7] > 1) {
        const Value* before = (const Value*)words[2] + blockIdx.x * words[7];
        for (u32 nth = threadIdx.x; nth < blockIdx.y; nth += SCAN_THREADS) carry = combine(carry, before[nth]);
        carry = block_combine(carry);
    }
    // The totals of a tile are read until the barrier of the next one, which has the other buffer.
    u32 buffer = 0;
    for (u64 start = part.begin; start < part.end; start += SCAN_TILE, buffer ^= 1) {
        Value values[ROUNDS][VEC], inclusive[ROUNDS];
#pragma unroll
        for (int u = 0; u < ROUNDS; u++) {
            const u64 at = start + (u * SCAN_THREADS + threadIdx.x) * VEC;
            load_scanned(from + at, at < part.end, values[u]);
        }
#pragma unroll
        for (int u = 0; u < ROUNDS; u++) {
            inclusive[u] = warp_scan(values[u][VEC - 1]);
            if (lane == 31) totals[buffer][u * SCAN_WARPS + warp] = inclusive[u];
        }
        __syncthreads();
        const Value scanned = warp_scan(totals[buffer][lane]);
        const Value exclusive = lane_before(scanned);
#pragma unroll
        for (int u = 0; u < ROUNDS; u++) {
            const u64 at = start + (u * SCAN_THREADS + threadIdx.x) * VEC;
            const Value of_warp = combine(carry, __shfl_sync(FULL_WARP, exclusive, u * SCAN_WARPS + warp));
            const Value before = combine(of_warp, lane_before(inclusive[u]));
            if (at < part.end) store_scanned(to + at, before, values[u]);
        }
        carry = combine(carry, __shfl_sync(FULL_WARP, scanned, 31));
    }
}

// Calls visit(value, element) for the elements of a thread's column in order. Block (columns, part) of the columns of all outer positions.
template <typename Visit>
__device__ __forceinline__ void each_of_column(const u64* words, const Visit& visit) {
    const u64 inner = words[5], columns = words[3] * inner;
    const u64 column = (u64)blockIdx.x * SCAN_THREADS + threadIdx.x;
    if (column >= columns) return;
    const u64 outer = column / inner;
    const u64 base = outer * words[4] * inner + (column - outer * inner);
    const Element* from = (const Element*)words[0] + base;
    const ScanPart part(words);
    u64 row = part.begin;
    for (; row + COLUMN_UNROLL <= part.end; row += COLUMN_UNROLL) {
        Element elements[COLUMN_UNROLL];
#pragma unroll
        for (int u = 0; u < COLUMN_UNROLL; u++) elements[u] = from[(row + u) * inner];
#pragma unroll
        for (int u = 0; u < COLUMN_UNROLL; u++) {
            Value value;
            prologue(elements[u], 0, value);
            visit(value, base + (row + u) * inner);
        }
    }
    for (; row < part.end; row++) {
        Value value;
        prologue(from[row * inner], 0, value);
        visit(value, base + row * inner);
    }
}

__device__ __forceinline__ void scan_column_totals(const u64* words) {
    const u64 columns = words[3] * words[5], column = (u64)blockIdx.x * SCAN_THREADS + threadIdx.x;
    Value total = scan_identity();
    each_of_column(words, [&](Value value, u64) { total = combine(total, value); });
    if (column < columns) ((Value*)words[2])[blockIdx.y * columns + column] = total;
}

__device__ __forceinline__ void scan_columns(const u64* words) {
    const u64 columns = words[3] * words[5], column = (u64)blockIdx.x * SCAN_THREADS + threadIdx.x;
    Output* to = (Output*)words[1];
    Value state = scan_identity();
    if (column < columns) {
        for (u32 part = 0; part < blockIdx.y; part++) state = combine(state, ((const Value*)words[2])[part * columns + column]);
    }
    each_of_column(words, [&](Value value, u64 at) {
        state = combine(state, value);
        epilogue(state, 0, to[at]);
    });
}
