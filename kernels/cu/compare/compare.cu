// Compares two tensors element by element under a policy: counts by class, a histogram of distances in units in the last place, the
// largest errors, and which tiles and rows have a mismatch.

#include "common/common.cuh"
#include "launch/compare.cuh"
#include "compare/element.cuh"

#define THREADS ((int)COMPARE_THREADS)
// Vectors of 16 bytes that a thread loads of each tensor at a time.
#define VECTORS 4
static_assert(TILE_BYTES == 16 * THREADS * VECTORS, "the launch has other tiles");

// Classes that are counted, after the buckets.
enum Class { EQUAL, ZERO_SIGN, WITHIN_TOLERANCE, MISMATCH, NAN_EQUAL, NAN_MISMATCH, INFINITY_MISMATCH, LAST_CLASS = INFINITY_MISMATCH };
static_assert(LAST_CLASS + 1 == CLASSES, "the host reads other classes");
#define BUCKETS ((int)HISTOGRAM_BUCKETS)
#define COUNTERS (BUCKETS + (int)CLASSES)

// What all blocks add to, zeros at first. Numbers that are not negative are in the order of their bits.
struct Totals {
    u64 counters[COUNTERS];
    u64 norm, excess, ratio;
};

// A maximum by the bits of a number that is not negative, and its first index.
struct Largest {
    u64 value, index;

    __device__ __forceinline__ void update(u64 other, u64 at) {
        if (other > value) value = other, index = at;
    }
};

// The maxima of a block. An index is that of no pair if the value is 0.
struct Maxima {
    Largest absolute, relative, ulps;
};

__device__ __forceinline__ int bit_length(u32 x) { return 32 - __clz((int)x); }
__device__ __forceinline__ int bit_length(u64 x) { return 64 - __clzll((i64)x); }

__device__ __forceinline__ u64 bits_of(double x) { return (u64)__double_as_longlong(x); }

__device__ __forceinline__ u64 shuffle_down(u64 x, int lanes) { return __shfl_down_sync(FULL_WARP, x, lanes); }

// The larger of two maxima; of equal ones the one of the lower index.
__device__ __forceinline__ Largest larger(Largest a, Largest b) {
    return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

__device__ __forceinline__ Largest warp_largest(Largest mine) {
    for (int lanes = 16; lanes > 0; lanes >>= 1) {
        mine = larger(mine, Largest{shuffle_down(mine.value, lanes), shuffle_down(mine.index, lanes)});
    }
    return mine;
}

__device__ __forceinline__ u64 warp_max_u64(u64 mine) {
    for (int lanes = 16; lanes > 0; lanes >>= 1) {
        const u64 other = shuffle_down(mine, lanes);
        mine = other > mine ? other : mine;
    }
    return mine;
}

// Element `k` of a vector of 16 bytes, extended by zeros.
template <typename E>
__device__ __forceinline__ typename E::Word element(const uint4& vector, int k) {
    const u32 words[4] = {vector.x, vector.y, vector.z, vector.w};
    if (E::SIZE == 8) return (typename E::Word)(words[(2 * k) & 3] | (u64)words[(2 * k + 1) & 3] << 32);
    if (E::SIZE == 4) return words[k & 3];
    const int per_word = 4 / E::SIZE;
    return (words[(k / per_word) & 3] >> (8 * E::SIZE * (k % per_word))) & (E::SIZE == 2 ? 0xffffu : 0xffu);
}

// One element from memory.
template <typename E>
__device__ __forceinline__ typename E::Word load(const u8* elements, u64 at) {
    if (E::SIZE == 8) return (typename E::Word)((const u64*)elements)[at];
    if (E::SIZE == 4) return ((const u32*)elements)[at];
    return E::SIZE == 2 ? ((const u16*)elements)[at] : elements[at];
}

// The rules of a policy as bounds. The bound of a rule that the policy does not have decides nothing.
template <typename E>
struct Bounds {
    typedef typename E::Word Word;
    double excess, absolute;
    Word ulps;
    // Whether all bounds must hold, rather than one.
    bool all;

    __device__ __forceinline__ Bounds(const Params& params, double norm) {
        const u32 rules = params.flags & (HAS_CLOSE | HAS_MAX_ULPS | HAS_MAX_NORM);
        all = rules && (params.flags & ALL_RULES);
        const double unused = all ? __longlong_as_double(0x7ff0000000000000ll) : -__longlong_as_double(0x7ff0000000000000ll);
        const Word limit = ~(Word)0;
        excess = rules & HAS_CLOSE ? params.atol : unused;
        absolute = rules & HAS_MAX_NORM ? __dmul_rn(params.max_norm, norm) : unused;
        ulps = rules & HAS_MAX_ULPS ? (params.max_ulps < limit ? (Word)params.max_ulps : limit) : all ? limit : 0;
    }

    // Whether a pair of finite numbers that differ passes.
    __device__ __forceinline__ bool accept(double difference, double exceeded, Word distance) const {
        const bool close = exceeded <= excess, near = distance <= ulps, bounded = difference <= absolute;
        return all ? close & near & bounded : close | near | bounded;
    }
};

// The errors of a pair of finite numbers that differ. All operations round once, as on the CPU.
template <typename E>
struct Errors {
    double difference, magnitude, exceeded, above;

    __device__ __forceinline__ Errors(const Params& params, typename E::Word a, typename E::Word e)
        : difference(E::difference(a, e)), magnitude(E::absolute(e)) {
        exceeded = overflows() ? difference : __dsub_rn(difference, __dmul_rn(params.rtol, magnitude));
        above = __dsub_rn(difference, params.atol);
    }

    __device__ __forceinline__ bool overflows() const {
        return E::SIZE == 8 && bits_of(difference) == 0x7ff0000000000000ull;
    }
};

// What a thread has found.
template <typename E>
struct Findings {
    typedef typename E::Word Word;
    Largest absolute = {0, 0}, relative = {0, 0}, ulps = {0, 0};
    double excess = 0, ratio = 0;
    // Slightly less than `relative` and `ratio`. A quotient exceeds them only if its dividend reaches the product of its divisor and this:
    // products take the place of most divisions.
    double below_relative = 0, below_ratio = 0;
    // The largest magnitude of a finite expected number.
    Word norm = 0;
    // Pairs that `judge` did not see.
    u32 within = 0, mismatched = 0;
    bool failed = false;

    __device__ __forceinline__ bool may_raise_relative(const Errors<E>& errors) const {
        return errors.difference >= __dmul_rn(below_relative, errors.magnitude);
    }
    __device__ __forceinline__ bool may_raise_ratio(const Errors<E>& errors) const {
        return (errors.above > 0) & (errors.above >= __dmul_rn(below_ratio, errors.magnitude));
    }
    static __device__ __forceinline__ double below(double quotient) {
        return __dmul_rn(quotient, 1.0 - 4.0 * 2.220446049250313e-16);
    }

    // Whether a pair of finite numbers that differ, at a distance that is not 0, may be the largest in some way.
    __device__ __forceinline__ bool may_raise(const Errors<E>& errors, Word distance) const {
        // Without branches: the comparisons cost less than jumps.
        return (distance > (Word)ulps.value) | (errors.difference > __longlong_as_double((i64)absolute.value)) |
               (errors.exceeded > excess) | may_raise_relative(errors) | may_raise_ratio(errors);
    }

    // The class of a pair in which at least one is NaN or infinite.
    static __device__ __forceinline__ Class special(const Params& params, Word a, Word e) {
        const Word infinite = E::MAX_FINITE + 1;
        const bool a_nan = E::magnitude(a) > infinite, e_nan = E::magnitude(e) > infinite;
        if (a_nan || e_nan) {
            const bool same = (params.flags & NAN_SAME_BITS) && a == e;
            return same || ((params.flags & NAN_EQUALS) && a_nan && e_nan) ? NAN_EQUAL : NAN_MISMATCH;
        }
        return a == e && !(params.flags & INFINITY_FORBIDDEN) ? EQUAL : INFINITY_MISMATCH;
    }

    // Measures a pair of finite numbers that differ.
    __device__ __forceinline__ Class measure(const Params& params, const Bounds<E>& bounds, Word a, Word e, Word distance,
                                             u64 index) {
        const Errors<E> errors(params, a, e);
        absolute.update(bits_of(errors.difference), index);
        ulps.update(distance, index);
        if (errors.exceeded > excess) excess = errors.exceeded;
        if (may_raise_relative(errors)) {
            relative.update(bits_of(__ddiv_rn(errors.difference, errors.magnitude)), index);
            below_relative = below(__longlong_as_double((i64)relative.value));
        }
        if (may_raise_ratio(errors)) {
            const double quotient = __ddiv_rn(errors.above, errors.magnitude);
            if (quotient > ratio) ratio = quotient, below_ratio = below(quotient);
        }
        return bounds.accept(errors.difference, errors.exceeded, distance) ? WITHIN_TOLERANCE : MISMATCH;
    }

    // Judges a pair, and counts it in this lane's column of the block's counters.
    __device__ __forceinline__ void judge(const Params& params, const Bounds<E>& bounds, Word a, Word e, u64 index,
                                          u32* counters, u32* rows) {
        const Word magnitude = E::magnitude(e);
        Class found;
        if (magnitude <= E::MAX_FINITE && magnitude > norm) norm = magnitude;
        if (magnitude > E::MAX_FINITE || E::magnitude(a) > E::MAX_FINITE) {
            found = special(params, a, e);
        } else {
            if (a == e) return;
            const Word distance = E::distance(a, e);
            found = ZERO_SIGN;
            if (distance) {
                found = measure(params, bounds, a, e, distance, index);
                atomicAdd(counters + 32 * bit_length(distance), 1);
            }
        }
        if (found == EQUAL) return;
        atomicAdd(counters + 32 * (BUCKETS + found), 1);
        const bool passes = found == WITHIN_TOLERANCE || found == NAN_EQUAL;
        if (passes || (found == ZERO_SIGN && !(params.flags & DISTINGUISH_ZERO_SIGN))) return;
        failed = true;
        if (params.flags & MARK_ROWS) mark(rows, index / params.row_elements);
    }

    static __device__ __forceinline__ void mark(u32* rows, u64 row) {
        const u32 bit = 1u << (row & 31);
        if (!(((volatile u32*)rows)[row >> 5] & bit)) atomicOr(rows + (row >> 5), bit);
    }
};

// Adds to a counter of this lane, at the address of its column in shared memory.
__device__ __forceinline__ void count_one(u32 column, int counter) {
    asm volatile("red.shared.add.u32 [%0], 1;" ::"r"(column + 128 * counter) : "memory");
}

// Counts those pairs of two vectors that need no more: they raise no maximum and mark no row. A bit for each of the others.
template <typename E>
__device__ __forceinline__ u32 count_ordinary(const Params& params, const Bounds<E>& bounds, const uint4& actual,
                                              const uint4& expected, Findings<E>& found, u32 column) {
    typedef typename E::Word Word;
    constexpr int PER_VECTOR = 16 / E::SIZE;
    Word norm = 0, largest = 0;
#pragma unroll
    for (int k = 0; k < PER_VECTOR; ++k) {
        const Word a = E::magnitude(E::bits(element<E>(actual, k))), e = E::magnitude(E::bits(element<E>(expected, k)));
        norm = e > norm ? e : norm;
        largest = a > largest ? a : largest;
    }
    if (norm > E::MAX_FINITE || largest > E::MAX_FINITE) return (u32)((1ull << PER_VECTOR) - 1);
    found.norm = norm > found.norm ? norm : found.norm;
    const bool differ = (actual.x ^ expected.x) | (actual.y ^ expected.y) | (actual.z ^ expected.z) | (actual.w ^ expected.w);
    if (!differ) return 0;
    const bool marks_rows = params.flags & MARK_ROWS;
    u32 left = 0;
#pragma unroll
    for (int k = 0; k < PER_VECTOR; ++k) {
        const Word a = E::bits(element<E>(actual, k)), e = E::bits(element<E>(expected, k));
        if (a == e) continue;
        const Word distance = E::distance(a, e);
        const Errors<E> errors(params, a, e);
        const bool passes = bounds.accept(errors.difference, errors.exceeded, distance);
        if ((distance == 0) | found.may_raise(errors, distance) | (!passes & marks_rows)) {
            left |= 1u << k;
        } else {
            count_one(column, bit_length(distance));
            found.within += passes;
            found.mismatched += !passes;
            found.failed |= !passes;
        }
    }
    return left;
}

// compare_*: compares `elements` pairs.
//   actual, expected: elements, at addresses that are multiples of 16
//   totals: see Totals; with HAS_MAX_NORM, `norm` is that of compare_norm_*
//   maxima[blocks]: of each block
//   tiles u32[tiles / 32, rounded up]: zeros; the bit of each tile with a mismatch is set
//   rows u32[rows / 32, rounded up]: zeros; with MARK_ROWS, the bit of each row with a mismatch is set
// A block takes every gridDim-th tile of TILE_BYTES. A warp's lanes count in columns of their own, so that they add to different
// banks. All operations in f64 round once, as on the CPU, and sums are of integers, so that results have the CPU's bits.
template <typename E>
__device__ __forceinline__ void compare(const u8* __restrict__ actual, const u8* __restrict__ expected, Totals* totals,
                                        Maxima* maxima, u32* tiles, u32* rows, const Params& params) {
    typedef typename E::Word Word;
    constexpr int PER_VECTOR = 16 / E::SIZE;
    constexpr u64 TILE = TILE_BYTES / E::SIZE;
    // Vectors of each tensor that a thread has at once, of at most 32 elements.
    constexpr int AT_ONCE = E::SIZE == 1 ? VECTORS / 2 : VECTORS;
    __shared__ u32 counters[32 * COUNTERS];
    __shared__ Maxima warps[THREADS / 32];
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (u32 i = threadIdx.x; i < 32 * COUNTERS; i += THREADS) counters[i] = 0;
    __syncthreads();
    const u32 column = (u32)__cvta_generic_to_shared(counters + lane);
    const Bounds<E> bounds(params, __longlong_as_double((i64)totals->norm));
    Findings<E> found;
    for (u64 tile = blockIdx.x; tile * TILE < params.elements; tile += gridDim.x) {
        const u64 start = tile * TILE;
        found.failed = false;
        if (start + TILE <= params.elements) {
#pragma unroll 1
            for (int group = 0; group < VECTORS; group += AT_ONCE) {
                const u64 vector = tile * (THREADS * VECTORS) + group * THREADS + threadIdx.x;
                uint4 a[AT_ONCE], e[AT_ONCE];
#pragma unroll
                for (int j = 0; j < AT_ONCE; ++j) {
                    a[j] = ((const uint4*)actual)[vector + j * THREADS];
                    e[j] = ((const uint4*)expected)[vector + j * THREADS];
                }
                // The bit of each element that is left to `judge`.
                u32 left = 0;
#pragma unroll
                for (int j = 0; j < AT_ONCE; ++j) {
                    left |= count_ordinary(params, bounds, a[j], e[j], found, column) << (j * PER_VECTOR);
                }
                // They are few. Their code stands once, and reads them again.
                while (left) {
                    const int bit = __ffs((int)left) - 1;
                    left &= left - 1;
                    const u64 at = (vector + bit / PER_VECTOR * THREADS) * PER_VECTOR + bit % PER_VECTOR;
                    found.judge(params, bounds, E::bits(load<E>(actual, at)), E::bits(load<E>(expected, at)), at,
                                counters + lane, rows);
                }
            }
        } else {
            for (u64 at = start + threadIdx.x; at < params.elements; at += THREADS) {
                found.judge(params, bounds, E::bits(load<E>(actual, at)), E::bits(load<E>(expected, at)), at,
                            counters + lane, rows);
            }
        }
        if (__any_sync(FULL_WARP, found.failed) && lane == 0) atomicOr(tiles + (tile >> 5), 1u << (tile & 31));
    }
    atomicAdd(counters + 32 * (BUCKETS + WITHIN_TOLERANCE) + lane, found.within);
    atomicAdd(counters + 32 * (BUCKETS + MISMATCH) + lane, found.mismatched);
    const Maxima mine = {warp_largest(found.absolute), warp_largest(found.relative), warp_largest(found.ulps)};
    const u64 norms = warp_max_u64(bits_of(found.norm ? E::absolute(found.norm) : 0));
    const u64 excess = warp_max_u64(bits_of(found.excess)), ratio = warp_max_u64(bits_of(found.ratio));
    if (lane == 0) {
        warps[warp] = mine;
        atomicMax(&totals->norm, norms);
        atomicMax(&totals->excess, excess);
        atomicMax(&totals->ratio, ratio);
    }
    __syncthreads();
    for (u32 counter = warp; counter < COUNTERS; counter += THREADS / 32) {
        const u32 sum = warp_sum(counters[32 * counter + lane]);
        if (lane == 0 && sum) atomicAdd(&totals->counters[counter], (u64)sum);
    }
    if (threadIdx.x > 0) return;
    Maxima block = warps[0];
    for (int other = 1; other < THREADS / 32; ++other) {
        block.absolute = larger(block.absolute, warps[other].absolute);
        block.relative = larger(block.relative, warps[other].relative);
        block.ulps = larger(block.ulps, warps[other].ulps);
    }
    maxima[blockIdx.x] = block;
}

// compare_norm_*: the largest absolute value of the finite numbers, in totals->norm.
template <typename E>
__device__ __forceinline__ void compare_norm(const u8* __restrict__ expected, Totals* totals, u64 elements) {
    typedef typename E::Word Word;
    constexpr int PER_VECTOR = 16 / E::SIZE;
    const u64 vectors = elements / PER_VECTOR, step = (u64)gridDim.x * THREADS;
    const u64 thread = (u64)blockIdx.x * THREADS + threadIdx.x;
    Word norm = 0;
    for (u64 at = thread; at < vectors; at += step) {
        const uint4 e = ((const uint4*)expected)[at];
#pragma unroll
        for (int k = 0; k < PER_VECTOR; ++k) {
            const Word magnitude = E::magnitude(E::bits(element<E>(e, k)));
            if (magnitude <= E::MAX_FINITE && magnitude > norm) norm = magnitude;
        }
    }
    const u64 at = vectors * PER_VECTOR + thread;
    if (at < elements) {
        const Word magnitude = E::magnitude(E::bits(load<E>(expected, at)));
        if (magnitude <= E::MAX_FINITE && magnitude > norm) norm = magnitude;
    }
    const u64 largest = warp_max_u64(bits_of(norm ? E::absolute(norm) : 0));
    if ((threadIdx.x & 31) == 0) atomicMax(&totals->norm, largest);
}

#define COMPARE(name, type)                                                                                            \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                              \
        compare_##name(const u8* __restrict__ actual, const u8* __restrict__ expected, Totals* totals, Maxima* maxima, \
                       u32* tiles, u32* rows, Params params) {                                                         \
        compare<type>(actual, expected, totals, maxima, tiles, rows, params);                                          \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                              \
        compare_norm_##name(const u8* __restrict__ expected, Totals* totals, u64 elements) {                           \
        compare_norm<type>(expected, totals, elements);                                                                \
    }

typedef Integer<u8, u32> U8;
typedef Integer<i8, u32> I8;
typedef Integer<u16, u32> U16;
typedef Integer<short, u32> I16;
typedef Integer<u32, u32> U32;
typedef Integer<int, u32> I32;
typedef Integer<u64, u64> U64;
typedef Integer<i64, u64> I64;

COMPARE(bool, Bool)
COMPARE(u8, U8)
COMPARE(i8, I8)
COMPARE(u16, U16)
COMPARE(i16, I16)
COMPARE(u32, U32)
COMPARE(i32, I32)
COMPARE(u64, U64)
COMPARE(i64, I64)
COMPARE(f16, F16)
COMPARE(bf16, Bf16)
COMPARE(f32, F32)
COMPARE(f64, F64)
