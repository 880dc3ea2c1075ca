// Runs two functions on a case, and decides whether their results are equal.

namespace screen {

using ir::u32;
using ir::u64;

// An array of the one case of a thread, for a kernel that maps a function over rows.
template <typename T>
__device__ __forceinline__ ir::Array<1> cell(T& value) {
    return {(char*)&value, {0}, {1}};
}

// What a side is launched with for one case.
__device__ __forceinline__ ir::Launch one_case(const ir::Launch& launch, ir::Fault* fault) {
    return {launch.stop, fault, 0, 1, launch.budget, {1, 1, 1, 1}};
}

template <typename T>
__device__ __forceinline__ bool is_nan(T value) {
    return value != value;
}

// Whether results have equal bits, and are no infinity unless those pass; or are NaN, if those pass.
template <bool INFINITIES_PASS, bool NANS_PASS, typename T>
__device__ __forceinline__ bool is_equal(T actual, T expected) {
    if constexpr (cases::Type<T>::IS_FLOAT) {
        if (is_nan(actual) || is_nan(expected)) return NANS_PASS && is_nan(actual) && is_nan(expected);
        return ir::word(actual) == ir::word(expected) && (INFINITIES_PASS || !ir::is_inf(actual));
    } else {
        return actual == expected;
    }
}

// The absolute value of a finite number, else 0.
template <typename T>
__device__ __forceinline__ double magnitude(T value) {
    if constexpr (cases::Type<T>::IS_FLOAT) {
        return ir::is_inf(value) || is_nan(value) ? 0.0 : fabs((double)value);
    } else {
        return value < 0 ? (double)(0 - (u64)value) : (double)value;
    }
}

// Raises a maximum of numbers that are not negative, whose order is that of their bits.
__device__ __forceinline__ void raise(u64* maximum, double value) {
    const u64 bits = (u64)__double_as_longlong(value);
    if (*(volatile u64*)maximum < bits) atomicMax(maximum, bits);
}

// Adds to a count that all threads share.
__device__ __forceinline__ void add(u64* count, u32 more) {
    if (more != 0) atomicAdd(count, (u64)more);
}

// Counts a case in which neither side has a result, by how they ended. Whether the counts say how: not if a budget was used up, which
// may be lower than the caller's.
__device__ __forceinline__ bool count_faults(u64* counts, u32 subject, u32 reference) {
    if (subject == 0 || reference == 0 || subject == ir::BUDGET_EXHAUSTED || reference == ir::BUDGET_EXHAUSTED) return false;
    atomicAdd(&counts[(subject - 1) * FAULT_KINDS + reference - 1], 1ull);
    return true;
}

}  // namespace screen
