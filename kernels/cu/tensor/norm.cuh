// Layer norm and RMS norm of rows [rows, columns]: (x - mean) / sqrt(variance + epsilon), or x / sqrt(mean square + epsilon),
// times weight, plus bias. The variance is that of all columns, from deviations from the mean. Fused multiply-adds are called by name: the
// operations before a norm must not be contracted.
//
// Defined before: what tensor/row.cuh needs, IS_LAYER, HAS_WEIGHT, HAS_BIAS.

#pragma once
#include "tensor/row.cuh"

// What a row is scaled by.
struct Scaling {
    Compute mean, scale;

    __device__ __forceinline__ Scaling(Compute mean, Compute squares, u64 columns, double epsilon)
        : mean(mean), scale(Compute(1) / square_root(squares / (Compute)columns + (Compute)epsilon)) {}
};

// What all rows share: null where there is none.
struct Affine {
    const Element *weight, *bias;

    // Scales the values of a vector from its first column on.
    __device__ __forceinline__ void apply(const Scaling& scaling, Compute* values, u64 column) const {
        Compute weights[VEC], biases[VEC];
        if constexpr (HAS_WEIGHT) load_vector(weight + column, weights);
        if constexpr (HAS_BIAS) load_vector(bias + column, biases);
#pragma unroll
        for (int e = 0; e < VEC; e++) {
            const Compute centered = IS_LAYER ? values[e] - scaling.mean : values[e], scaled = centered * scaling.scale;
            if constexpr (HAS_WEIGHT && HAS_BIAS) values[e] = multiply_add(scaled, weights[e], biases[e]);
            else if constexpr (HAS_WEIGHT) values[e] = scaled * weights[e];
            else if constexpr (HAS_BIAS) values[e] = multiply_add(centered, scaling.scale, biases[e]);
            else values[e] = scaled;
        }
    }
};

// The sum over a row in registers, in all of its threads: accumulate(sum, value) adds the term of a value.
template <typename Accumulate>
__device__ __forceinline__ Compute row_sum(RowValues& values, const RowPlace& place, u32 vectors, SumState<Compute>* scratch,
                                           const Accumulate& accumulate) {
    Compute sums[4] = {};
    values.each(place, vectors, [&](Compute* at, u64) {
#pragma unroll
        for (int e = 0; e < VEC; e++) sums[e % 4] = accumulate(sums[e % 4], at[e]);
    });
    const SumState<Compute> own = {(sums[0] + sums[1]) + (sums[2] + sums[3])};
    return group_merge<LANES>(own, scratch).value;
}

// One launch reads a row once: it stays in registers.
__device__ __forceinline__ void norm_rows(const Source& x, const Affine& affine, Element* y, u64 rows, u64 columns, double epsilon) {
    __shared__ SumState<Compute> scratch[2][32];
    const RowPlace place;
    const u32 vectors = place.row < rows ? (u32)(columns / VEC) : 0;
    RowValues values;
    values.load(x.row(place.row * columns), place, vectors, Compute(0));
    Compute mean = Compute(0);
    if constexpr (IS_LAYER) {
        mean = row_sum(values, place, vectors, scratch[0], [](Compute sum, Compute value) { return sum + value; }) / (Compute)columns;
    }
    const Compute squares = row_sum(values, place, vectors, scratch[1], [&](Compute sum, Compute value) {
        return multiply_add(value - mean, value - mean, sum);
    });
    const Scaling scaling(mean, squares, columns, epsilon);
    values.each(place, vectors, [&](Compute* at, u64 column) {
        affine.apply(scaling, at, column);
        store_vector(y + place.row * columns + column, at);
    });
}

// A part of a row: mean and squared deviations, or the sum of squares.
template <bool OF_LAYER>
struct NormState;
template <>
struct NormState<true> {
    typedef DeviationsState<Compute> State;
    static __device__ __forceinline__ Compute before(Compute value) { return value; }
    static __device__ __forceinline__ Scaling scaling(const State& state, u64 columns, double epsilon) {
        return Scaling(state.mean, state.squares, columns, epsilon);
    }
};
template <>
struct NormState<false> {
    typedef SumState<Compute> State;
    static __device__ __forceinline__ Compute before(Compute value) { return value * value; }
    static __device__ __forceinline__ Scaling scaling(const State& state, u64 columns, double epsilon) {
        return Scaling(Compute(0), state.value, columns, epsilon);
    }
};
typedef NormState<IS_LAYER> Norm;
typedef Norm::State RowState;

__device__ __forceinline__ RowState norm_state(const RowPart& part, const Source& row, RowState* scratch) {
    return part.fold<RowState>(row, [](Compute value) { return Norm::before(value); }, scratch);
}

__device__ __forceinline__ void norm_map(const RowPart& part, const Scaling& scaling, const Affine& affine, const Source& from,
                                         Element* to) {
    part.map(from, to, [&](Compute* at, u64 column) { affine.apply(scaling, at, column); });
}

// One launch reads a row twice. A block for each row.
__device__ __forceinline__ void norm_long(const Source& x, const Affine& affine, Element* y, u64 columns, double epsilon) {
    __shared__ RowState scratch[32];
    const u64 row = blockIdx.x * columns;
    const RowPart part(columns, columns);
    const RowState state = norm_state(part, x.row(row), scratch);
    norm_map(part, Norm::scaling(state, columns, epsilon), affine, x.row(row), y + row);
}

// Two launches read a row twice. Block (row, part) writes the state of a part of `part` columns to states[row, part].
__device__ __forceinline__ void norm_parts(const Source& x, RowState* states, u64 columns, u64 part) {
    __shared__ RowState scratch[32];
    const RowState state = norm_state(RowPart(columns, part), x.row(blockIdx.x * columns), scratch);
    if (threadIdx.x == 0) states[(u64)blockIdx.x * gridDim.y + blockIdx.y] = state;
}

// The second: the same grid.
__device__ __forceinline__ void norm_scale(const Source& x, const Affine& affine, Element* y, const RowState* states, u64 columns,
                                           u64 part, double epsilon) {
    __shared__ RowState scratch[32];
    const u64 row = blockIdx.x * columns;
    const RowState state = merge_parts(states, gridDim.y, scratch);
    norm_map(RowPart(columns, part), Norm::scaling(state, columns, epsilon), affine, x.row(row), y + row);
}
