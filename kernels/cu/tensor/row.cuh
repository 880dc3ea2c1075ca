// Rows, each read by a group of threads.
//
// The source that includes this file defines before:
//   Element, Compute          types of results in memory and of values in registers, and widen(Element), narrow(Compute) between them
//   LANES                     threads of a row: a power of two up to 32, or more for a block of any size
//   VEC                       elements that a thread reads at once; divides the number of columns
//   ITEMS                     such vectors of a thread, or in flight if a row has more
//   Source                    the rows' values: source.row(first) is that of the row whose first element is `first` in contiguous rows,
//                             and row.load(column, values) reads VEC values from a column on

#pragma once
#include "tensor/group.cuh"
#include "tensor/pack.cuh"

typedef Pack<Element, VEC> Vector;

// A thread's place in a row.
struct RowPlace {
    u64 row;
    u32 lane, lanes;

    __device__ __forceinline__ RowPlace() {
        if constexpr (LANES > 32) {
            row = blockIdx.x;
            lane = threadIdx.x;
            lanes = blockDim.x;
        } else {
            row = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / LANES;
            lane = threadIdx.x % LANES;
            lanes = LANES;
        }
    }
};

__device__ __forceinline__ void load_vector(const Element* from, Compute* values) {
    const Vector vector = Vector::load(from);
#pragma unroll
    for (int e = 0; e < VEC; e++) values[e] = widen(vector.at[e]);
}

__device__ __forceinline__ void store_vector(Element* to, const Compute* values) {
    Vector vector;
#pragma unroll
    for (int e = 0; e < VEC; e++) vector.at[e] = narrow(values[e]);
    vector.store(to);
}

// A whole row in registers: vector i of a thread is vector lane + i * lanes of the row's `vectors`; those beyond are `padding`.
struct RowValues {
    Compute at[ITEMS * VEC];

    __device__ __forceinline__ void load(const Source& row, const RowPlace& place, u32 vectors, Compute padding) {
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            const u32 vector = place.lane + i * place.lanes;
#pragma unroll
            for (int e = 0; e < VEC; e++) at[i * VEC + e] = padding;
            if (vector < vectors) row.load((u64)vector * VEC, at + i * VEC);
        }
    }

    // Calls visit(values, column) with each vector and its first column.
    template <typename Visit>
    __device__ __forceinline__ void each(const RowPlace& place, u32 vectors, const Visit& visit) {
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            const u32 vector = place.lane + i * place.lanes;
            if (vector < vectors) visit(at + i * VEC, (u64)vector * VEC);
        }
    }
};

// A part of a row that is longer than the registers of a block: columns [begin, end), multiples of VEC. Block (row, part).
struct RowPart {
    u64 begin, end;

    __device__ __forceinline__ RowPart(u64 columns, u64 part) {
        begin = blockIdx.y * part;
        end = begin + part < columns ? begin + part : columns;
    }

    // The state of the part, in all threads, with `before` applied to each value.
    template <typename State, typename Before>
    __device__ __forceinline__ State fold(const Source& row, const Before& before, State* scratch) const {
        State state = State::identity();
        const u64 stride = (u64)blockDim.x * VEC;
        u64 column = begin + threadIdx.x * VEC;
        for (; column + (ITEMS - 1) * stride < end; column += ITEMS * stride) {
            Compute values[ITEMS * VEC];
#pragma unroll
            for (int i = 0; i < ITEMS; i++) row.load(column + i * stride, values + i * VEC);
#pragma unroll
            for (int e = 0; e < ITEMS * VEC; e++) values[e] = before(values[e]);
            state = State::merge(state, State::template of<ITEMS * VEC>(values, nullptr));
        }
        for (; column < end; column += stride) {
            Compute values[VEC];
            row.load(column, values);
#pragma unroll
            for (int e = 0; e < VEC; e++) values[e] = before(values[e]);
            state = State::merge(state, State::template of<VEC>(values, nullptr));
        }
        return block_merge(state, scratch);
    }

    // Writes visit(values, column), which changes the values of a vector from its first column on.
    template <typename Visit>
    __device__ __forceinline__ void map(const Source& from, Element* to, const Visit& visit) const {
        const u64 stride = (u64)blockDim.x * VEC;
#pragma unroll 4
        for (u64 column = begin + threadIdx.x * VEC; column < end; column += stride) {
            Compute values[VEC];
            from.load(column, values);
            visit(values, column);
            store_vector(to + column, values);
        }
    }
};

// The state of this block's row from those of its parts [row, part], in all threads.
template <typename State>
__device__ __forceinline__ State merge_parts(const State* states, u32 parts, State* scratch) {
    State state = State::identity();
    for (u32 part = threadIdx.x; part < parts; part += blockDim.x) {
        state = State::merge(state, states[(u64)blockIdx.x * parts + part]);
    }
    return block_merge(state, scratch);
}
