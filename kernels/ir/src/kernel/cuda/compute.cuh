// What kernels compute with besides the operations of scalar functions.

namespace ir {

// Absolute value; the least number is its own.
template <typename INTEGER>
__device__ __forceinline__ INTEGER wrapping_abs(INTEGER x) {
    return x < 0 ? (INTEGER)(0 - (u64)x) : x;
}

// The next number of a range, `end` if there is none. `step` is not 0, and `value` is before `end`.
template <typename INTEGER>
__device__ __forceinline__ INTEGER advance(INTEGER value, INTEGER step, INTEGER end) {
    if (step > 0) return (u64)end - (u64)value > (u64)step ? (INTEGER)(value + step) : end;
    return (u64)value - (u64)end > 0 - (u64)step ? (INTEGER)(value + step) : end;
}

// The numbers from `start` to before `end`, `step` apart; none if it is 0. They are counted, so that the last one is not passed.
template <typename INTEGER>
struct Range {
    u64 value;
    u64 step;
    u64 count;
    __device__ __forceinline__ Range(INTEGER start, INTEGER end, INTEGER by) : value((u64)start), step((u64)by), count(0) {
        if (by > 0 && start < end) count = ((u64)end - (u64)start - 1) / (u64)by + 1;
        if (by < 0 && start > end) count = ((u64)start - (u64)end - 1) / (0 - (u64)by) + 1;
    }
    // Takes the next number, if there is one.
    __device__ __forceinline__ bool next(INTEGER& number) {
        if (count == 0) return false;
        number = (INTEGER)value;
        value += step;
        count--;
        return true;
    }
};

// Atomic operations that the device does not have for the type. Each is that of an unsigned integer of equal size, or a
// compare-and-exchange until no other thread came in between.
__device__ __forceinline__ u32 word(float x) { return __float_as_uint(x); }
__device__ __forceinline__ u64 word(double x) { return (u64)__double_as_longlong(x); }
__device__ __forceinline__ u64 word(i64 x) { return (u64)x; }
__device__ __forceinline__ float number(u32 bits, float) { return __uint_as_float(bits); }
__device__ __forceinline__ double number(u64 bits, double) { return __longlong_as_double((i64)bits); }
__device__ __forceinline__ i64 number(u64 bits, i64) { return (i64)bits; }

__device__ __forceinline__ i64 atomic_add(i64* at, i64 x) { return (i64)atomicAdd((u64*)at, (u64)x); }

__device__ __forceinline__ i64 atomic_and(i64* at, i64 x) { return (i64)atomicAnd((u64*)at, (u64)x); }

__device__ __forceinline__ i64 atomic_or(i64* at, i64 x) { return (i64)atomicOr((u64*)at, (u64)x); }

__device__ __forceinline__ i64 atomic_xor(i64* at, i64 x) { return (i64)atomicXor((u64*)at, (u64)x); }

__device__ __forceinline__ i64 atomic_exchange(i64* at, i64 x) { return (i64)atomicExch((u64*)at, (u64)x); }

__device__ __forceinline__ double atomic_exchange(double* at, double x) {
    return number(atomicExch((u64*)at, word(x)), x);
}

__device__ __forceinline__ u32 compare_exchange(u32* at, u32 expected, u32 x) { return atomicCAS(at, expected, x); }
__device__ __forceinline__ u64 compare_exchange(u64* at, u64 expected, u64 x) { return atomicCAS(at, expected, x); }
__device__ __forceinline__ u32* words(float* at) { return (u32*)at; }
__device__ __forceinline__ u64* words(double* at) { return (u64*)at; }
__device__ __forceinline__ u64* words(i64* at) { return (u64*)at; }

template <typename T>
__device__ __forceinline__ T atomic_compare_exchange(T* at, T expected, T x) {
    return number(compare_exchange(words(at), word(expected), word(x)), x);
}

// The lesser or greater; of a number and NaN the number.
template <typename T>
__device__ __forceinline__ T least_number(T a, T b) {
    return minimum(a == a ? a : b, b == b ? b : a);
}

template <typename T>
__device__ __forceinline__ T greatest_number(T a, T b) {
    return maximum(a == a ? a : b, b == b ? b : a);
}

template <typename T>
__device__ __forceinline__ T atomic_min(T* at, T x) {
    auto seen = *words(at);
    for (;;) {
        const T old = number(seen, x);
        const auto before = compare_exchange(words(at), seen, word(least_number(old, x)));
        if (before == seen) return old;
        seen = before;
    }
}

template <typename T>
__device__ __forceinline__ T atomic_max(T* at, T x) {
    auto seen = *words(at);
    for (;;) {
        const T old = number(seen, x);
        const auto before = compare_exchange(words(at), seen, word(greatest_number(old, x)));
        if (before == seen) return old;
        seen = before;
    }
}

// Of 16-bit floating-point numbers by their bits. `next` is the number after the operation.
template <typename NEXT>
__device__ __forceinline__ u16 replace_atomically(u16* at, NEXT next) {
    u16 seen = *at;
    for (;;) {
        const u16 before = atomicCAS(at, seen, next(seen));
        if (before == seen) return before;
        seen = before;
    }
}

__device__ __forceinline__ u16 atomic_add_f16(u16* at, u16 x) {
    return replace_atomically(at, [x](u16 old) { return f32_to_f16(f16_to_f32(old) + f16_to_f32(x)); });
}

__device__ __forceinline__ u16 atomic_min_f16(u16* at, u16 x) {
    return replace_atomically(at, [x](u16 old) { return f32_to_f16(least_number(f16_to_f32(old), f16_to_f32(x))); });
}

__device__ __forceinline__ u16 atomic_max_f16(u16* at, u16 x) {
    return replace_atomically(at, [x](u16 old) { return f32_to_f16(greatest_number(f16_to_f32(old), f16_to_f32(x))); });
}

__device__ __forceinline__ u16 atomic_add_bf16(u16* at, u16 x) {
    return replace_atomically(at, [x](u16 old) { return f32_to_bf16(bf16_to_f32(old) + bf16_to_f32(x)); });
}

__device__ __forceinline__ u16 atomic_min_bf16(u16* at, u16 x) {
    return replace_atomically(at, [x](u16 old) { return f32_to_bf16(least_number(bf16_to_f32(old), bf16_to_f32(x))); });
}

__device__ __forceinline__ u16 atomic_max_bf16(u16* at, u16 x) {
    return replace_atomically(at, [x](u16 old) { return f32_to_bf16(greatest_number(bf16_to_f32(old), bf16_to_f32(x))); });
}

}  // namespace ir
