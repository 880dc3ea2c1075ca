// Compares two tensors element by element under a policy: counts by class, a histogram of distances in units in the last place, the
// largest errors, and which tiles and rows have a mismatch.

#include "common/common.cuh"
#include "verify/element.cuh"

#define THREADS 256
// Vectors of 16 bytes that a thread loads of each tensor at a time.
#define VECTORS 4
// Bytes of each tensor that a block compares at a time.
#define TILE_BYTES (16 * THREADS * VECTORS)

#define BUCKETS 65
// Classes that are counted, after the buckets. Pairs with equal bits are the rest.
enum Class { EQUAL, ZERO_SIGN, WITHIN_TOLERANCE, MISMATCH, NAN_EQUAL, NAN_MISMATCH, INFINITY_MISMATCH, CLASSES };
#define COUNTERS (BUCKETS + CLASSES)

enum Flag {
    HAS_CLOSE = 1,
    HAS_MAX_ULPS = 2,
    HAS_MAX_NORM = 4,
    ALL_RULES = 8,
    NAN_EQUALS = 16,
    NAN_SAME_BITS = 32,
    INFINITY_FORBIDDEN = 64,
    DISTINGUISH_ZERO_SIGN = 128,
    MARK_ROWS = 256
};

struct Params {
    u64 elements;
    // At least 1.
    u64 row_elements;
    u64 max_ulps;
    double atol, rtol;
    // Bounds the absolute error by this multiple of the largest expected number.
    double max_norm;
    u32 flags, reserved;
};

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

// What a thread has found.
template <typename E>
struct Findings {
    typedef typename E::Word Word;
    Largest absolute = {0, 0}, relative = {0, 0}, ulps = {0, 0};
    double excess = 0, ratio = 0;
    // The largest magnitude of a finite expected number.
    Word norm = 0;
    bool failed = false;

    // Whether a pair of finite numbers with these errors passes.
    static __device__ __forceinline__ bool accepts(const Params& params, double norm_bound, double absolute, double excess,
                                                   u64 ulps) {
        const bool close = excess <= params.atol, near = ulps <= params.max_ulps, bounded = absolute <= norm_bound;
        const u32 flags = params.flags;
        if (flags & ALL_RULES) {
            return (flags & (HAS_CLOSE | HAS_MAX_ULPS | HAS_MAX_NORM)) && (close || !(flags & HAS_CLOSE)) &&
                   (near || !(flags & HAS_MAX_ULPS)) && (bounded || !(flags & HAS_MAX_NORM));
        }
        return (close && (flags & HAS_CLOSE)) || (near && (flags & HAS_MAX_ULPS)) || (bounded && (flags & HAS_MAX_NORM));
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

    // Measures a pair of finite numbers that differ. Products take the place of most divisions: a quotient can exceed the largest so
    // far only if the dividend reaches the product of the divisor and slightly less than that.
    __device__ __forceinline__ Class measure(const Params& params, double norm_bound, Word a, Word e, u64 distance, u64 index) {
        const double SLIGHTLY_LESS = 1.0 - 4.0 * 2.220446049250313e-16;
        const double difference = E::difference(a, e), magnitude = E::absolute(e);
        const bool overflows = bits_of(difference) == 0x7ff0000000000000ull;
        const double exceeded = overflows ? difference : __dsub_rn(difference, __dmul_rn(params.rtol, magnitude));
        const double above = __dsub_rn(difference, params.atol);
        absolute.update(bits_of(difference), index);
        ulps.update(distance, index);
        if (exceeded > excess) excess = exceeded;
        const double reached = __dmul_rn(__longlong_as_double((i64)relative.value), SLIGHTLY_LESS);
        if (difference >= __dmul_rn(reached, magnitude)) relative.update(bits_of(__ddiv_rn(difference, magnitude)), index);
        if (above > 0 && above >= __dmul_rn(__dmul_rn(ratio, SLIGHTLY_LESS), magnitude)) {
            const double quotient = __ddiv_rn(above, magnitude);
            if (quotient > ratio) ratio = quotient;
        }
        return accepts(params, norm_bound, difference, exceeded, distance) ? WITHIN_TOLERANCE : MISMATCH;
    }

    // Judges a pair, and counts it in this lane's column of the block's counters.
    __device__ __forceinline__ void judge(const Params& params, double norm_bound, Word a, Word e, u64 index, u32* counters,
                                          u32* rows) {
        const Word magnitude = E::magnitude(e);
        Class found;
        if (magnitude <= E::MAX_FINITE && magnitude > norm) norm = magnitude;
        if (magnitude > E::MAX_FINITE || E::magnitude(a) > E::MAX_FINITE) {
            found = special(params, a, e);
        } else {
            if (a == e) return;
            const u64 distance = E::distance(a, e);
            found = ZERO_SIGN;
            if (distance) {
                found = measure(params, norm_bound, a, e, distance, index);
                atomicAdd(counters + 32 * (64 - __clzll((i64)distance)), 1);
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
    __shared__ u32 counters[32 * COUNTERS];
    __shared__ Maxima warps[THREADS / 32];
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (u32 i = threadIdx.x; i < 32 * COUNTERS; i += THREADS) counters[i] = 0;
    __syncthreads();
    const double norm = __longlong_as_double((i64)totals->norm);
    const double norm_bound = params.flags & HAS_MAX_NORM ? __dmul_rn(params.max_norm, norm) : 0;
    Findings<E> found;
    for (u64 tile = blockIdx.x; tile * TILE < params.elements; tile += gridDim.x) {
        const u64 start = tile * TILE;
        found.failed = false;
        if (start + TILE <= params.elements) {
            uint4 a[VECTORS], e[VECTORS];
#pragma unroll
            for (int j = 0; j < VECTORS; ++j) {
                const u64 at = tile * (THREADS * VECTORS) + j * THREADS + threadIdx.x;
                a[j] = ((const uint4*)actual)[at];
                e[j] = ((const uint4*)expected)[at];
            }
#pragma unroll
            for (int j = 0; j < VECTORS; ++j) {
                Word largest = 0;
#pragma unroll
                for (int k = 0; k < PER_VECTOR; ++k) {
                    const Word magnitude = E::magnitude(E::bits(element<E>(e[j], k)));
                    largest = magnitude > largest ? magnitude : largest;
                }
                const bool differs = (a[j].x ^ e[j].x) | (a[j].y ^ e[j].y) | (a[j].z ^ e[j].z) | (a[j].w ^ e[j].w);
                if (!differs && largest <= E::MAX_FINITE) {
                    found.norm = largest > found.norm ? largest : found.norm;
                    continue;
                }
                const u64 first = start + (u64)(j * THREADS + threadIdx.x) * PER_VECTOR;
#pragma unroll
                for (int k = 0; k < PER_VECTOR; ++k) {
                    found.judge(params, norm_bound, E::bits(element<E>(a[j], k)), E::bits(element<E>(e[j], k)), first + k,
                                counters + lane, rows);
                }
            }
        } else {
            for (u64 at = start + threadIdx.x; at < params.elements; at += THREADS) {
                found.judge(params, norm_bound, E::bits(load<E>(actual, at)), E::bits(load<E>(expected, at)), at,
                            counters + lane, rows);
            }
        }
        if (__any_sync(FULL_WARP, found.failed) && lane == 0) atomicOr(tiles + (tile >> 5), 1u << (tile & 31));
    }
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
