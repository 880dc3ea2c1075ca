// Pooling of windows of images, PLANES x height x width: one thread for each result, or for a few neighbours.
//
// Generated before: Element, in memory; Compute; Index, which holds the number of results; widen and narrow; and POOL, what becomes of a
// window.
#pragma once
#include "common/common.cuh"
#include "tensor/pack.cuh"
#include "tensor/pool_launch.cuh"

// The greatest element; NaN if one is.
struct MaxPool {
    Compute value;
    __device__ __forceinline__ MaxPool() : value(LEAST) {}
    __device__ __forceinline__ void add(Compute x) {
        if (x > value || x != x) value = x;
    }
    // `elements` and `padded` are the positions of the window in the image, and those in the padding as well.
    __device__ __forceinline__ Compute finish(i64 elements, i64 padded) const { return value; }
};

// The sum, divided by DIVISOR, or if that is 0 by the positions of the window, with those in the padding if COUNTS_PADDING.
template <i64 DIVISOR, bool COUNTS_PADDING>
struct AveragePool {
    Compute value;
    __device__ __forceinline__ AveragePool() : value(0) {}
    __device__ __forceinline__ void add(Compute x) { value += x; }
    __device__ __forceinline__ Compute finish(i64 elements, i64 padded) const {
        const i64 divisor = DIVISOR ? DIVISOR : COUNTS_PADDING ? padded : elements;
        return elements > 0 ? value / (Compute)divisor : Compute(0);
    }
};

// The plane, row and column of a result.
struct Place {
    Index plane, row, column;

    __device__ __forceinline__ Place(const Pool& pool, Index index, Index columns) {
        const Index line = index / columns;
        column = index - line * columns;
        plane = line / (Index)pool.rows;
        row = line - plane * (Index)pool.rows;
    }
};

__device__ __forceinline__ Index thread_index() { return (Index)blockIdx.x * blockDim.x + threadIdx.x; }

__device__ __forceinline__ Index results(const Pool& pool) { return (Index)(pool.planes * pool.rows * pool.columns); }

// Positions of an axis: `first` to `end`, and how many there are with those in the padding.
struct Span {
    i64 first, end, padded;
};

// Of a window without dilation that begins at `first`, in the padding if negative.
__device__ __forceinline__ Span clipped(i64 first, i64 kernel, i64 padding, i64 extent) {
    const i64 end = min(first + kernel, extent + padding);
    return {max(first, 0ll), min(end, extent), end - first};
}

// WINDOWS, generated, has the kernel, stride, padding and dilation as constants: of rows in KERNEL_Y and so on, of columns in KERNEL_X.
template <typename POOL, typename WINDOWS>
__device__ __forceinline__ void pool_windows(const Pool& pool) {
    constexpr int UNROLL = WINDOWS::KERNEL_Y * WINDOWS::KERNEL_X <= 32 ? 32 : 1;
    const Index index = thread_index();
    if (index >= results(pool)) return;
    const Place place(pool, index, (Index)pool.columns);
    const i64 first_y = (i64)place.row * WINDOWS::STRIDE_Y - WINDOWS::PADDING_Y;
    const i64 first_x = (i64)place.column * WINDOWS::STRIDE_X - WINDOWS::PADDING_X;
    const Element* plane = (const Element*)pool.input + (i64)place.plane * pool.height * pool.width;
    POOL state;
#pragma unroll UNROLL
    for (i64 ky = 0; ky < WINDOWS::KERNEL_Y; ky++) {
        const i64 y = first_y + ky * WINDOWS::DILATION_Y;
        if (y < 0 || y >= pool.height) continue;
#pragma unroll UNROLL
        for (i64 kx = 0; kx < WINDOWS::KERNEL_X; kx++) {
            const i64 x = first_x + kx * WINDOWS::DILATION_X;
            if (x >= 0 && x < pool.width) state.add(widen(plane[y * pool.width + x]));
        }
    }
    // Only averages, which have no dilation, depend on the spans.
    const Span rows = clipped(first_y, WINDOWS::KERNEL_Y, WINDOWS::PADDING_Y, pool.height);
    const Span columns = clipped(first_x, WINDOWS::KERNEL_X, WINDOWS::PADDING_X, pool.width);
    const i64 elements = max(rows.end - rows.first, 0ll) * max(columns.end - columns.first, 0ll);
    ((Element*)pool.output)[index] = narrow(state.finish(elements, rows.padded * columns.padded));
}

// Windows of 2 x 2 with stride 2, without padding: a thread reads V neighbours of two rows, and writes V / 2 results. V divides the width,
// which is twice the columns, and input and output are aligned to as many elements.
template <typename POOL, int V>
__device__ __forceinline__ void pool_pairs(const Pool& pool) {
    const Index index = thread_index(), packs = (Index)(pool.width / V);
    if (index >= results(pool) / (V / 2)) return;
    const Place place(pool, index, packs);
    const i64 line = (i64)place.plane * pool.height + 2 * (i64)place.row;
    const Element* from = (const Element*)pool.input + line * pool.width + (i64)place.column * V;
    const auto above = Pack<Element, V>::load(from), below = Pack<Element, V>::load(from + pool.width);
    Pack<Element, V / 2> pooled;
#pragma unroll
    for (int e = 0; e < V / 2; e++) {
        POOL state;
        state.add(widen(above.at[2 * e]));
        state.add(widen(above.at[2 * e + 1]));
        state.add(widen(below.at[2 * e]));
        state.add(widen(below.at[2 * e + 1]));
        pooled.at[e] = narrow(state.finish(4, 4));
    }
    pooled.store((Element*)pool.output + (i64)index * (V / 2));
}

// Window `at` of `count` along an axis: from floor(at * extent / count) to ceil((at + 1) * extent / count). The products themselves may exceed
// 64 bits.
__device__ __forceinline__ Span adaptive_span(i64 at, i64 extent, i64 count) {
    const i64 whole = extent / count, rest = extent % count;
    const i64 first = at * whole + at * rest / count, end = (at + 1) * whole + ((at + 1) * rest + count - 1) / count;
    return {first, end, end - first};
}

template <typename POOL>
__device__ __forceinline__ void pool_adaptive(const Pool& pool) {
    const Index index = thread_index();
    if (index >= results(pool)) return;
    const Place place(pool, index, (Index)pool.columns);
    const Span rows = adaptive_span(place.row, pool.height, pool.rows);
    const Span columns = adaptive_span(place.column, pool.width, pool.columns);
    const Element* plane = (const Element*)pool.input + (i64)place.plane * pool.height * pool.width;
    POOL state;
    for (i64 y = rows.first; y < rows.end; y++) {
        for (i64 x = columns.first; x < columns.end; x++) state.add(widen(plane[y * pool.width + x]));
    }
    const i64 elements = rows.padded * columns.padded;
    ((Element*)pool.output)[index] = narrow(state.finish(elements, elements));
}
