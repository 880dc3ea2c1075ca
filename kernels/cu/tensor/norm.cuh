// Layer norm and RMS norm of rows [rows, columns]: (x - mean) / sqrt(variance + epsilon), or x / sqrt(mean square + epsilon),
// times weight, plus bias. The variance is that of all columns, from deviations from the mean. Fused multiply-adds are called by name: the
// operations before a norm must not be contracted.
//
// A row whose squares overflow is read once more, times SHRINK. Its norm is that of the row itself, with epsilon times the square of SHRINK.
//
// Defined before: what tensor/row.cuh needs, IS_LAYER, HAS_WEIGHT, HAS_BIAS.

#pragma once
#include "tensor/row.cuh"

// A power of two with which the squares of the greatest numbers have a sum, and those of numbers whose squares overflow are not subnormal.
constexpr Compute SHRINK = sizeof(Compute) == 4 ? Compute(0x1p-80) : Compute(0x1p-600);

// True for infinite and NaN.
__device__ __forceinline__ bool overflows(Compute squares) { return !(squares < Compute(INFINITY)); }

// The epsilon of a row times `factor`.
__device__ __forceinline__ double shrunk_epsilon(double epsilon, Compute factor) { return epsilon * factor * factor; }

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

// Mean, if the norm has one, and squared deviations of a row in registers, in all of its threads.
struct RowMoments {
    Compute mean, squares;

    __device__ __forceinline__ RowMoments(RowValues& values, const RowPlace& place, u64 columns, u32 vectors, SumState<Compute>* scratch)
        : mean(Compute(0)) {
        if constexpr (IS_LAYER) {
            const auto add = [](Compute sum, Compute value) { return sum + value; };
            mean = row_sum(values, place, vectors, scratch, add) / (Compute)columns;
        }
        const Compute center = mean;
        squares = row_sum(values, place, vectors, scratch + 32, [=](Compute sum, Compute value) {
            return multiply_add(value - center, value - center, sum);
        });
    }
};

// One launch reads a row once: it stays in registers.
__device__ __forceinline__ void norm_rows(const Source& x, const Affine& affine, Element* y, u64 rows, u64 columns, double epsilon) {
    __shared__ SumState<Compute> scratch[4][32];
    const RowPlace place;
    const u32 vectors = place.row < rows ? (u32)(columns / VEC) : 0;
    RowValues values;
    values.load(x.row(place.row * columns), place, vectors, Compute(0));
    RowMoments moments(values, place, columns, vectors, scratch[0]);
    const bool is_shrunk = overflows(moments.squares);
    // Rows of one warp are summed together.
    if (__any_sync(FULL_WARP, is_shrunk)) {
        const Compute factor = is_shrunk ? SHRINK : Compute(1);
#pragma unroll
        for (int i = 0; i < ITEMS * VEC; i++) values.at[i] *= factor;
        epsilon = shrunk_epsilon(epsilon, factor);
        moments = RowMoments(values, place, columns, vectors, scratch[2]);
    }
    const Scaling scaling(moments.mean, moments.squares, columns, epsilon);
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
    static __device__ __forceinline__ Compute squares(const State& state) { return state.squares; }
    static __device__ __forceinline__ State shrunk(const State& state) {
        return {state.count, state.mean * SHRINK, state.squares * SHRINK * SHRINK};
    }
    static __device__ __forceinline__ Scaling scaling(const State& state, u64 columns, double epsilon) {
        return Scaling(state.mean, state.squares, columns, epsilon);
    }
};
template <>
struct NormState<false> {
    typedef SumState<Compute> State;
    static __device__ __forceinline__ Compute before(Compute value) { return value * value; }
    static __device__ __forceinline__ Compute squares(const State& state) { return state.value; }
    static __device__ __forceinline__ State shrunk(const State& state) { return {state.value * SHRINK * SHRINK}; }
    static __device__ __forceinline__ Scaling scaling(const State& state, u64 columns, double epsilon) {
        return Scaling(Compute(0), state.value, columns, epsilon);
    }
};
typedef NormState<IS_LAYER> Norm;
typedef Norm::State RowState;

// The state of a part of a row times `factor`.
__device__ __forceinline__ RowState norm_state(const RowPart& part, const Source& row, Compute factor, RowState* scratch) {
    return part.fold<RowState>(row, [=](Compute value) { return Norm::before(value * factor); }, scratch);
}

// Norms of a part of a row times `factor`, from the state of that row.
__device__ __forceinline__ void norm_map(const RowPart& part, const RowState& state, Compute factor, const Affine& affine,
                                         const Source& from, Element* to, u64 columns, double epsilon) {
    const Scaling scaling = Norm::scaling(state, columns, shrunk_epsilon(epsilon, factor));
    part.map(from, to, [&](Compute* at, u64 column) {
#pragma unroll
        for (int e = 0; e < VEC; e++) at[e] *= factor;
        affine.apply(scaling, at, column);
    });
}

// One launch reads a row twice. A block for each row.
__device__ __forceinline__ void norm_long(const Source& x, const Affine& affine, Element* y, u64 columns, double epsilon) {
    __shared__ RowState scratch[2][32];
    const u64 row = blockIdx.x * columns;
    const RowPart part(columns, columns);
    RowState state = norm_state(part, x.row(row), Compute(1), scratch[0]);
    Compute factor = Compute(1);
    if (overflows(Norm::squares(state))) {
        factor = SHRINK;
        state = norm_state(part, x.row(row), factor, scratch[1]);
    }
    norm_map(part, state, factor, affine, x.row(row), y + row, columns, epsilon);
}

// Two launches read a row twice. Block (row, part) writes the states of a part of `part` columns, and of the part times SHRINK, to
// states[2, row, part].
__device__ __forceinline__ void norm_parts(const Source& x, RowState* states, u64 columns, u64 part) {
    __shared__ RowState scratch[2][32];
    const RowPart own(columns, part);
    const Source row = x.row(blockIdx.x * columns);
    const RowState state = norm_state(own, row, Compute(1), scratch[0]);
    RowState shrunk = Norm::shrunk(state);
    if (overflows(Norm::squares(state))) shrunk = norm_state(own, row, SHRINK, scratch[1]);
    if (threadIdx.x == 0) {
        const u64 place = (u64)blockIdx.x * gridDim.y + blockIdx.y;
        states[place] = state;
        states[(u64)gridDim.x * gridDim.y + place] = shrunk;
    }
}

// The second: the same grid.
__device__ __forceinline__ void norm_scale(const Source& x, const Affine& affine, Element* y, const RowState* states, u64 columns,
                                           u64 part, double epsilon) {
    __shared__ RowState scratch[2][32];
    const u64 row = blockIdx.x * columns;
    RowState state = merge_parts(states, gridDim.y, scratch[0]);
    Compute factor = Compute(1);
    if (overflows(Norm::squares(state))) {
        factor = SHRINK;
        state = merge_parts(states + (u64)gridDim.x * gridDim.y, gridDim.y, scratch[1]);
    }
    norm_map(RowPart(columns, part), state, factor, affine, x.row(row), y + row, columns, epsilon);
}
