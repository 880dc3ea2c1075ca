// What reductions accumulate. A state is made of K values (`of`), of none (`identity`), or of two states (`merge`), and becomes a value
// (`finish`). All orders are fixed.
//
// MERGE_UNROLL: how often a loop of merges is unrolled. Those with exponentials, divisions or branches are not: they take the compiler
// long, and shuffles hide the loop.
//
// `of` takes the values and their indices, ascending; the indices matter to an extreme's alone and cost nothing elsewhere.

#pragma once
#include "common/common.cuh"

__device__ __forceinline__ float exponential(float x) { return expf(x); }
__device__ __forceinline__ double exponential(double x) { return exp(x); }
__device__ __forceinline__ float logarithm(float x) { return logf(x); }
__device__ __forceinline__ double logarithm(double x) { return log(x); }
__device__ __forceinline__ float largest(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ double largest(double a, double b) { return fmax(a, b); }
__device__ __forceinline__ float square_root(float x) { return sqrtf(x); }
__device__ __forceinline__ double square_root(double x) { return sqrt(x); }
// a * b + c, rounded once.
__device__ __forceinline__ float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
__device__ __forceinline__ double multiply_add(double a, double b, double c) { return fma(a, b, c); }

// Integers wrap: overflow of signed ones is undefined.
template <typename T>
__device__ __forceinline__ T wrapping_add(T a, T b) { return (T)((u64)a + (u64)b); }
__device__ __forceinline__ float wrapping_add(float a, float b) { return a + b; }
__device__ __forceinline__ double wrapping_add(double a, double b) { return a + b; }
template <typename T>
__device__ __forceinline__ T wrapping_mul(T a, T b) { return (T)((u64)a * (u64)b); }
__device__ __forceinline__ float wrapping_mul(float a, float b) { return a * b; }
__device__ __forceinline__ double wrapping_mul(double a, double b) { return a * b; }

// The least value of a type, and the greatest.
template <typename T>
__device__ __forceinline__ T least() { return T(-1) < T(1) ? (T)(1ull << (8 * sizeof(T) - 1)) : T(0); }
template <>
__device__ __forceinline__ float least<float>() { return -INFINITY; }
template <>
__device__ __forceinline__ double least<double>() { return -(double)INFINITY; }
template <typename T>
__device__ __forceinline__ T greatest() { return (T)~least<T>(); }
template <>
__device__ __forceinline__ float greatest<float>() { return INFINITY; }
template <>
__device__ __forceinline__ double greatest<double>() { return (double)INFINITY; }

// The lesser and the greater; NaN if either is.
template <typename T>
__device__ __forceinline__ T lesser(T a, T b) { return b < a ? b : a; }
__device__ __forceinline__ float lesser(float a, float b) { return ir::minimum(a, b); }
__device__ __forceinline__ double lesser(double a, double b) { return ir::minimum(a, b); }
template <typename T>
__device__ __forceinline__ T greater(T a, T b) { return a < b ? b : a; }
__device__ __forceinline__ float greater(float a, float b) { return ir::maximum(a, b); }
__device__ __forceinline__ double greater(double a, double b) { return ir::maximum(a, b); }

template <typename T>
struct Add {
    static __device__ __forceinline__ T identity() { return T(0); }
    static __device__ __forceinline__ T combine(T a, T b) { return wrapping_add(a, b); }
};
// A sum of -0 alone is -0: 0 + -0 is 0.
template <typename T>
struct Accumulate : Add<T> {
    static __device__ __forceinline__ T identity() { return T(-T(0)); }
};
template <typename T>
struct Multiply {
    static __device__ __forceinline__ T identity() { return T(1); }
    static __device__ __forceinline__ T combine(T a, T b) { return wrapping_mul(a, b); }
};
template <typename T>
struct Least {
    static __device__ __forceinline__ T identity() { return greatest<T>(); }
    static __device__ __forceinline__ T combine(T a, T b) { return lesser(a, b); }
};
template <typename T>
struct Greatest {
    static __device__ __forceinline__ T identity() { return least<T>(); }
    static __device__ __forceinline__ T combine(T a, T b) { return greater(a, b); }
};

// K values combined by a balanced tree.
template <typename OPERATOR, int K, typename T>
__device__ __forceinline__ T tree(const T* values) {
    if constexpr (K == 1) {
        return values[0];
    } else {
        return OPERATOR::combine(tree<OPERATOR, K / 2>(values), tree<OPERATOR, K - K / 2>(values + K / 2));
    }
}

// A value combined by an operator.
template <typename T, typename OPERATOR>
struct PlainState {
    static constexpr int MERGE_UNROLL = 5;
    T value;

    static __device__ __forceinline__ PlainState identity() { return {OPERATOR::identity()}; }
    template <int K>
    static __device__ __forceinline__ PlainState of(const T* values, const i64*) { return {tree<OPERATOR, K>(values)}; }
    static __device__ __forceinline__ PlainState merge(const PlainState& a, const PlainState& b) {
        return {OPERATOR::combine(a.value, b.value)};
    }
    __device__ __forceinline__ T finish() const { return value; }
};
template <typename T>
using SumState = PlainState<T, Add<T>>;
template <typename T>
using ProdState = PlainState<T, Multiply<T>>;
template <typename T>
using MinState = PlainState<T, Least<T>>;
template <typename T>
using MaxState = PlainState<T, Greatest<T>>;

// The greatest value, and the sum of exp(value - greatest). While the greatest is -inf, the sum only tells whether there was a NaN. A
// NaN is no greatest value, but makes the sum NaN.
template <typename T>
struct LogSumExpState {
    static constexpr int MERGE_UNROLL = 1;
    T greatest, sum;

    static __device__ __forceinline__ LogSumExpState identity() { return {least<T>(), T(0)}; }

    // exp(value - greatest), and 1 for equal infinities.
    static __device__ __forceinline__ T weight(T value, T greatest) {
        return value == greatest ? T(1) : exponential(value - greatest);
    }

    template <int K>
    static __device__ __forceinline__ LogSumExpState of(const T* values, const i64*) {
        T greatest = values[0];
#pragma unroll
        for (int e = 1; e < K; e++) greatest = largest(greatest, values[e]);
        T weights[K];
#pragma unroll
        for (int e = 0; e < K; e++) weights[e] = weight(values[e], greatest);
        // A greatest value of NaN would spread beyond the sum.
        return {greatest == greatest ? greatest : least<T>(), tree<Add<T>, K>(weights)};
    }

    static __device__ __forceinline__ LogSumExpState merge(const LogSumExpState& a, const LogSumExpState& b) {
        const T greatest = largest(a.greatest, b.greatest);
        return {greatest, a.sum * weight(a.greatest, greatest) + b.sum * weight(b.greatest, greatest)};
    }

    __device__ __forceinline__ T finish() const {
        if (greatest == least<T>()) return sum == sum ? greatest : sum;
        return greatest + logarithm(sum);
    }
};

// Number and mean of values, and the sum of their squared deviations from it; merged as Chan, Golub and LeVeque do.
template <typename T>
struct DeviationsState {
    static constexpr int MERGE_UNROLL = 1;
    T count, mean, squares;

    static __device__ __forceinline__ DeviationsState identity() { return {T(0), T(0), T(0)}; }

    template <int K>
    static __device__ __forceinline__ DeviationsState of(const T* values, const i64*) {
        const T mean = tree<Add<T>, K>(values) * (T(1) / T(K));
        T squares[K];
#pragma unroll
        for (int e = 0; e < K; e++) squares[e] = (values[e] - mean) * (values[e] - mean);
        return {T(K), mean, tree<Add<T>, K>(squares)};
    }

    static __device__ __forceinline__ DeviationsState merge(const DeviationsState& a, const DeviationsState& b) {
        if (a.count == T(0) || b.count == T(0)) return a.count == T(0) ? b : a;
        const T count = a.count + b.count, difference = b.mean - a.mean, share = b.count / count;
        return {count, a.mean + difference * share, a.squares + b.squares + difference * difference * (a.count * share)};
    }

    __device__ __forceinline__ T finish() const { return squares; }
};

// The first index of the greatest value, or of the least. NaN is more extreme than any number. NONE marks a state of no values.
template <typename T, bool IS_MAX>
struct ExtremeState {
    static constexpr int MERGE_UNROLL = 1;
    static constexpr i64 NONE = 0x7fffffffffffffffll;
    T value;
    i64 index;

    static __device__ __forceinline__ ExtremeState identity() { return {T(0), NONE}; }

    // Whether `a` is more extreme than `b`.
    static __device__ __forceinline__ bool beats(T a, T b) {
        if (a != a) return b == b;
        return IS_MAX ? b < a : a < b;
    }

    template <int K>
    static __device__ __forceinline__ ExtremeState of(const T* values, const i64* indices) {
        ExtremeState first = {values[0], indices[0]};
#pragma unroll
        for (int e = 1; e < K; e++) {
            if (beats(values[e], first.value)) first = {values[e], indices[e]};
        }
        return first;
    }

    static __device__ __forceinline__ ExtremeState merge(const ExtremeState& a, const ExtremeState& b) {
        if (a.index == NONE || b.index == NONE) return a.index == NONE ? b : a;
        if (beats(a.value, b.value)) return a;
        if (beats(b.value, a.value)) return b;
        return a.index < b.index ? a : b;
    }

    __device__ __forceinline__ i64 finish() const { return index; }
};
