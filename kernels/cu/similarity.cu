// What similarity search does around its scans: copying rows and queries in few bits, floors, candidates, exact scores,
// sorting. The scans are in similarity_vector.cu, similarity_tiles.cu and similarity_warpgroup.cu; what all of it proves is
// in similarity.cuh.

#include "similarity.cuh"
#include "topk.cuh"

// Eight columns of a vector in few bits.
struct Packed {
    uint4 words;
    // Squared norm of what was lost, and of what is left, without the scale.
    double error2, norm2;
};

__device__ __forceinline__ u16 encode(double x, int format) {
    return format == F16 ? f32_to_f16((float)x) : f32_to_bf16((float)x);
}

__device__ __forceinline__ double decode(u16 bits, int format) {
    return format == F16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

__device__ __forceinline__ int to_i8(double x) { return max(-127, min(127, __double2int_rn(x))); }

// Encodes columns that were multiplied by `up` for it, as 16-bit floats or int8.
__device__ __forceinline__ Packed pack(const double (&x)[8], int format) {
    Packed packed = {};
    u32* words = &packed.words.x;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int code = format == I8 ? to_i8(x[i]) : encode(x[i], format);
        const double value = format == I8 ? (double)code : decode((u16)code, format);
        if (format == I8) words[i / 4] |= (u32)(code & 0xff) << (8 * (i % 4));
        else words[i / 2] |= (u32)code << (16 * (i % 2));
        packed.error2 += (x[i] - value) * (x[i] - value);
        packed.norm2 += value * value;
    }
    return packed;
}

// Eight columns from `at` on, zero past `pitch`, times `factor`.
__device__ __forceinline__ void load_columns(double (&x)[8], const float* row, u32 at, u32 pitch, double factor) {
    const float4 zero = make_float4(0, 0, 0, 0);
    const float4 a = at < pitch ? *(const float4*)(row + at) : zero;
    const float4 b = at + 4 < pitch ? *(const float4*)(row + at + 4) : zero;
    const float values[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
    for (int i = 0; i < 8; i++) x[i] = values[i] * factor;
}

// By what a vector whose largest column is `largest` is multiplied before it is encoded; `scale` undoes it exactly.
__device__ __forceinline__ double encoding(double largest, int format, float& scale) {
    scale = 1.0f;
    if (format == F16 && largest > 0) {
        // A power of two that brings the largest column to 2^13..2^14: neither end of the range is near.
        const int exponent = max(-120, min(120, 1036 - ((__double2hiint(largest) >> 20) & 0x7ff)));
        scale = __int_as_float((127 - exponent) << 23);
        return __hiloint2double((1023 + exponent) << 20, 0);
    }
    if (format != I8) return 1.0;
    scale = (float)(largest / 127.0);
    if (scale > 1e-37f) return 1.0 / (double)scale;
    scale = 0.0f;
    return 0.0;
}

// f64 to f32, never smaller, with room for the roundings before.
__device__ __forceinline__ float rounded_up(double x) { return __double2float_ru(x * (1.0 + 1e-9)); }

// Whether f32 can take products of a vector of this norm with others.
__device__ __forceinline__ bool is_tame(double norm) { return norm == 0.0 || (norm >= SMALL && norm <= LARGE); }

// Copies one row, by one warp. `format` is of the scan copy; F32 has none, but measures what bfloat16 would lose.
__device__ __forceinline__ void quantise(const float* __restrict__ originals, u8* __restrict__ scan,
    Row* __restrict__ rows, u32* __restrict__ peaks, u32 row, u32 steps, u32 pitch, u32 metric, int format) {
    const u32 lane = threadIdx.x & 31;
    const float* from = originals + (u64)row * pitch;
    double norm2 = 0, x[8];
    float largest = 0;
    for (u32 at = lane * 8; at < pitch; at += 256) {
        load_columns(x, from, at, pitch, 1.0);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            norm2 += x[i] * x[i];
            largest = fmaxf(largest, fabsf((float)x[i]));
        }
    }
    const double norm = sqrt(warp_sum(norm2));
    largest = warp_max(largest);

    // What is copied is the row, or for the cosine the normalised row; F32 normalises after the product instead.
    const bool normalised = metric == COSINE;
    const double factor = normalised && norm > 0 ? 1.0 / norm : 1.0;
    const double before = format == F32 ? 1.0 : factor;
    float scale;
    const double up = encoding(largest * before, format == F32 ? BF16 : format, scale);
    double error2 = 0;
    const u32 pieces = format == F32 ? (pitch + 7) / 8 : steps * (format == I8 ? 16 : 8);
    for (u32 piece = lane; piece < pieces; piece += 32) {
        load_columns(x, from, piece * 8, pitch, before * up);
        const Packed packed = pack(x, format == F32 ? BF16 : format);
        if (format == I8) {
            u8* to = scan + chunk_at(row, piece / 2, steps, TILE_ROWS) + piece % 2 * 8;
            *(uint2*)to = make_uint2(packed.words.x, packed.words.y);
        } else if (format != F32) {
            *(uint4*)(scan + chunk_at(row, piece, steps, TILE_ROWS)) = packed.words;
        }
        error2 += packed.error2;
    }
    // Where nothing could be encoded (scale 0), everything is lost.
    const double unit = normalised ? (norm > 0) : norm;
    double error = scale > 0 ? sqrt(warp_sum(error2)) * scale : unit;
    if (format == F32 && normalised) {
        // A scale rounded to f32 moves the copy by another 2^-24.
        scale = norm > 0 ? (float)factor : 0.0f;
        error = error * factor + 1e-7 * unit;
    }
    if (lane != 0) return;
    const bool tame = is_tame(format == F32 || !normalised ? norm : unit);
    const Row out = {scale, metric == SQUARED_L2 ? (float)(-0.5 * norm * norm) : 0.0f, rounded_up(error),
        tame ? rounded_up(unit) : INFINITE};
    rows[row] = out;
    // Neither is negative, so that their bits are in their order.
    atomicMax(peaks + row / TILE_ROWS * 2, __float_as_uint(out.error));
    atomicMax(peaks + row / TILE_ROWS * 2 + 1, __float_as_uint(out.norm));
}

// similarity_quantise_*: copies rows first..first + count for scanning, and measures what each copy loses.
//   originals f32[rows, pitch], columns past the dimension zero, pitch a multiple of 4
//   scan: tiles (similarity.cuh), `steps` a row; not written for f32
//   rows Row[rows]; peaks f32[rows / 128, 2], the largest error and norm of each 128 rows, zero before their first row
// One warp per row, 8 a block.
#define QUANTISE_PARAMS                                                                                          \
    const float *__restrict__ originals, u8 *__restrict__ scan, Row *__restrict__ rows, u32 *__restrict__ peaks, \
        u32 first, u32 count, u32 steps, u32 pitch, u32 metric
#define QUANTISE_ARGS originals, scan, rows, peaks, first, count, steps, pitch, metric

template <int FORMAT>
__device__ __forceinline__ void quantise_rows(QUANTISE_PARAMS) {
    const u32 at = blockIdx.x * 8 + threadIdx.x / 32;
    if (at < count) quantise(originals, scan, rows, peaks, first + at, steps, pitch, metric, FORMAT);
}

extern "C" __global__ void __launch_bounds__(256) similarity_quantise_f32(QUANTISE_PARAMS) {
    quantise_rows<F32>(QUANTISE_ARGS);
}

extern "C" __global__ void __launch_bounds__(256) similarity_quantise_f16(QUANTISE_PARAMS) {
    quantise_rows<F16>(QUANTISE_ARGS);
}

extern "C" __global__ void __launch_bounds__(256) similarity_quantise_bf16(QUANTISE_PARAMS) {
    quantise_rows<BF16>(QUANTISE_ARGS);
}

extern "C" __global__ void __launch_bounds__(256) similarity_quantise_i8(QUANTISE_PARAMS) {
    quantise_rows<I8>(QUANTISE_ARGS);
}

// similarity_spread: rows of `dim` columns to rows of `pitch`, zeros between.
//   packed f32[count, dim], spread f32[count, pitch]
// One thread per column written.
extern "C" __global__ void __launch_bounds__(256) similarity_spread(
    const float* __restrict__ packed, float* __restrict__ spread, u64 count, u32 dim, u32 pitch) {
    const u64 at = (u64)blockIdx.x * 256 + threadIdx.x;
    if (at >= count * pitch) return;
    const u32 column = at % pitch;
    spread[at] = column < dim ? packed[at / pitch * dim + column] : 0.0f;
}

// Largest of the block, in every thread; `scratch` holds 32.
__device__ __forceinline__ float block_max(float x, float* scratch) {
    x = warp_max(x);
    if ((threadIdx.x & 31) == 0) scratch[threadIdx.x >> 5] = x;
    __syncthreads();
    return warp_max((threadIdx.x & 31) < (blockDim.x >> 5) ? scratch[threadIdx.x & 31] : 0.0f);
}

// Columns of the fine part of a pair: what the coarse part `codes` left of `x`, in steps of 1/256.
__device__ __forceinline__ uint2 fine_part(const double (&x)[8], double& error2, double& norm2) {
    u32 words[2] = {0, 0};
    error2 = norm2 = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int coarse = to_i8(x[i]), fine = to_i8((x[i] - coarse) * 256.0);
        const double value = coarse + fine / 256.0;
        words[i / 4] |= (u32)(fine & 0xff) << (8 * (i % 4));
        error2 += (x[i] - value) * (x[i] - value);
        norm2 += value * value;
    }
    return make_uint2(words[0], words[1]);
}

// Copies eight columns of a query, of which `x` was multiplied for its format.
__device__ __forceinline__ void copy_columns(u8* copies, const double (&x)[8], u32 query, u32 piece, u32 columns,
    u32 steps, u32 tile, u32 format, double& error2, double& norm2) {
    Packed packed = pack(x, format == F16 ? F16 : format == BF16 ? BF16 : I8);
    if (format == VECTOR) {
        float* to = (float*)copies + (u64)query * columns + piece * 8;
        packed.error2 = packed.norm2 = 0;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            to[i] = (float)x[i];
            packed.error2 += (x[i] - to[i]) * (x[i] - to[i]);
            packed.norm2 += (double)to[i] * to[i];
        }
    } else if (format == PAIR) {
        u8* to = copies + (u64)query * 2 * columns + piece * 8;
        *(uint2*)to = make_uint2(packed.words.x, packed.words.y);
        *(uint2*)(to + columns) = fine_part(x, packed.error2, packed.norm2);
    } else if (format == I8) {
        u8* to = copies + chunk_at(query, piece / 2, steps, tile) + piece % 2 * 8;
        *(uint2*)to = make_uint2(packed.words.x, packed.words.y);
    } else {
        *(uint4*)(copies + chunk_at(query, piece, steps, tile)) = packed.words;
    }
    error2 += packed.error2;
    norm2 += packed.norm2;
}

// The factors of a query's bound: `norm` of its copy, `lost` by copying, `sum` the relative error of the products' sum.
__device__ __forceinline__ Query query_of(float scale, double norm, double lost, double sum, bool rows_are_exact) {
    const double rounding = 1.9073486328125e-6; // 2^-19
    const double per_error = rows_are_exact ? 0.0 : norm * (1.0 + sum + rounding);
    const double per_norm = lost + norm * (sum + rounding);
    if (!is_tame(norm)) return {scale, INFINITE, INFINITE, -INFINITE};
    return {scale, rounded_up(per_error * 1.0001), rounded_up(per_norm * 1.0001), -INFINITE};
}

// similarity_prepare: copies queries for a scan, and begins what is known of each.
//   queries f32[count, pitch], columns past the dimension zero
//   wishes Wish[count]
//   copies: f32[count, columns] for VECTOR, i8[count, 2, columns] for PAIR, else tiles of `tile` queries, `steps` a query
//   known Query[blocks], status Status[count], found u32[count], which becomes zero
// One block per query; blocks past `count` make queries that find nothing, to fill the last tile.
extern "C" __global__ void __launch_bounds__(128) similarity_prepare(const float* __restrict__ queries,
    const Wish* __restrict__ wishes, u8* __restrict__ copies, Query* __restrict__ known, Status* __restrict__ status,
    u32* __restrict__ found, u32 count, u32 pitch, u32 columns, u32 steps, u32 tile, u32 format, u32 metric,
    u32 rows_are_exact) {
    __shared__ double sums[3][32];
    __shared__ float maxima[32];
    const u32 query = blockIdx.x;
    const bool real = query < count;
    const float* from = queries + (u64)query * pitch;
    const u32 past = real ? pitch : 0;
    double x[8], norm2 = 0;
    float largest = 0;
    for (u32 at = threadIdx.x * 8; at < past; at += 1024) {
        load_columns(x, from, at, past, 1.0);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            norm2 += x[i] * x[i];
            largest = fmaxf(largest, fabsf((float)x[i]));
        }
    }
    norm2 = block_sum(norm2, sums[0]);
    largest = block_max(largest, maxima);
    const double factor = metric == COSINE && norm2 > 0 ? 1.0 / sqrt(norm2) : 1.0;

    float scale = 1.0f;
    double error2 = 0, copied2 = 0;
    if (format != NOTHING) {
        const double up = encoding(largest * factor, format == PAIR ? I8 : format, scale);
        for (u32 piece = threadIdx.x; piece < columns / 8; piece += 128) {
            load_columns(x, from, piece * 8, past, factor * up);
            copy_columns(copies, x, query, piece, columns, steps, tile, format, error2, copied2);
        }
    }
    error2 = block_sum(error2, sums[1]);
    copied2 = block_sum(copied2, sums[2]);
    if (threadIdx.x != 0) return;

    const bool coded = scale > 0;
    const double unit = metric == COSINE ? (norm2 > 0) : sqrt(norm2);
    const double sum = format == VECTOR ? (columns / 4 + 16) * 5.9604644775390625e-8
        : format == F16 || format == BF16 ? columns * 2.384185791015625e-7 : 0.0;
    Query q = query_of(scale, sqrt(copied2) * scale, coded ? sqrt(error2) * scale : unit, sum, rows_are_exact);
    if (!is_tame(unit)) q.per_error = q.per_norm = INFINITE;
    if (!real) {
        q.floor = INFINITE;
        known[query] = q;
        return;
    }
    const Wish wish = wishes[query];
    const double distance2 = metric == SQUARED_L2 ? norm2 : 0.0;
    const double bar = metric == SQUARED_L2 ? 0.5 * (norm2 - wish.threshold) : (double)wish.threshold;
    q.floor = wish.bounded ? lowered(bar, distance2) : -INFINITE;
    known[query] = q;
    status[query] = {0, q.floor, norm2};
    found[query] = 0;
}

// similarity_floor: raises each query's floor to what k groups of rows reach.
//   lows f32[queries, groups], the best lower bound of each group, minus infinity for none
// One block per query. Leaves the floor lower than it could be where that saves time: at most k/8 + 2 groups more reach it.
extern "C" __global__ void __launch_bounds__(1024) similarity_floor(const float* __restrict__ lows,
    const Wish* __restrict__ wishes, const Status* __restrict__ status, Query* __restrict__ known, u32 groups,
    u32 metric) {
    __shared__ u32 counters[32];
    const u32 query = blockIdx.x, k = wishes[query].k;
    const float* mine = lows + (u64)query * groups;
    Images<HELD> images;
    hold_images(images, groups, [&](u32 at) {
        const float low = mine[at];
        return low > -INFINITE ? ordered(low) : 0;
    });
    const u32 bar = bar_of(images, k, k / 8 + 2, counters);
    if (threadIdx.x != 0 || bar == 0) return;
    const double norm2 = metric == SQUARED_L2 ? status[query].norm2 : 0.0;
    known[query].floor = fmaxf(known[query].floor, lowered(from_ordered(bar), norm2));
}

// similarity_collect: keeps the rows whose upper bound reaches the floor.
//   uppers f32[queries, stride], minus infinity for rows that do not count; stride a multiple of 4
//   candidates (row, upper bound)[queries, room]; found u32[queries] counts them, those without room too
// Four rows a thread, 1024 a block; y is the query.
extern "C" __global__ void __launch_bounds__(256) similarity_collect(const float* __restrict__ uppers,
    const Query* __restrict__ known, u32* __restrict__ found, uint2* __restrict__ candidates, u32 stride, u32 room) {
    const u32 query = blockIdx.y, first = (blockIdx.x * 256 + threadIdx.x) * 4;
    const float floor = known[query].floor;
    float4 four = make_float4(-INFINITE, -INFINITE, -INFINITE, -INFINITE);
    if (first < stride) four = *(const float4*)(uppers + (u64)query * stride + first);
    const float values[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        const bool keep = values[i] > -INFINITE && values[i] >= floor;
        const u32 lanes = __ballot_sync(FULL_WARP, keep);
        if (lanes == 0) continue;
        const u32 lane = threadIdx.x & 31;
        u32 at = 0;
        if (lane == 0) at = atomicAdd(found + query, __popc(lanes));
        at = __shfl_sync(FULL_WARP, at, 0) + __popc(lanes & ((1u << lane) - 1));
        if (keep && at < room) candidates[(u64)query * room + at] = make_uint2(first + i, __float_as_uint(values[i]));
    }
}

// similarity_narrow: raises the floor by the candidates' own lower bounds, and lists those that still reach it.
//   found, candidates as collected; rows Row[N]; kept u32[queries, kept_room]; status gets count and floor, or OVERFLOW
//   where either list had no room
// One block per query.
extern "C" __global__ void __launch_bounds__(1024) similarity_narrow(const uint2* __restrict__ candidates,
    const u32* __restrict__ found, const Row* __restrict__ rows, const Query* __restrict__ known,
    const Wish* __restrict__ wishes, Status* __restrict__ status, u32* __restrict__ kept, u32 room, u32 kept_room,
    u32 metric) {
    __shared__ u32 counters[32];
    __shared__ u32 listed;
    const u32 query = blockIdx.x, count = found[query], k = wishes[query].k;
    if (threadIdx.x == 0) listed = 0;
    if (count > room) {
        if (threadIdx.x == 0) status[query].kept = OVERFLOW;
        return;
    }
    const uint2* mine = candidates + (u64)query * room;
    const Query q = known[query];
    float floor = q.floor;
    if (count > k) {
        Images<HELD> images;
        hold_images(images, count, [&](u32 at) {
            const float low = lower_from_upper(__uint_as_float(mine[at].y), q, rows[mine[at].x]);
            return low > -INFINITE ? ordered(low) : 0;
        });
        const u32 bar = bar_of(images, k, k / 16, counters);
        const double norm2 = metric == SQUARED_L2 ? status[query].norm2 : 0.0;
        if (bar != 0) floor = fmaxf(floor, lowered(from_ordered(bar), norm2));
    }
    __syncthreads();
    for (u32 at = threadIdx.x; at < count; at += blockDim.x) {
        const uint2 one = mine[at];
        if (__uint_as_float(one.y) < floor) continue;
        const u32 to = atomicAdd(&listed, 1);
        if (to < kept_room) kept[(u64)query * kept_room + to] = one.x;
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    status[query].kept = listed <= kept_room ? listed : OVERFLOW;
    status[query].floor = floor;
}

// The exact score of one row, by one warp: f64 sums of f32 numbers, in one order whatever else is computed.
__device__ __forceinline__ float exact_score(
    const float* __restrict__ query, const float* __restrict__ row, u32 pitch, double norm2, u32 metric) {
    double sum = 0, row2 = 0;
#pragma unroll 4
    for (u32 at = (threadIdx.x & 31) * 4; at < pitch; at += 128) {
        const float4 q = *(const float4*)(query + at), x = *(const float4*)(row + at);
        const float qs[4] = {q.x, q.y, q.z, q.w}, xs[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const double a = qs[i], b = xs[i];
            sum = metric == SQUARED_L2 ? fma(a - b, a - b, sum) : fma(a, b, sum);
            if (metric == COSINE) row2 = fma(b, b, row2);
        }
    }
    sum = warp_sum(sum);
    if (metric == COSINE) {
        const double norms = norm2 * warp_sum(row2);
        sum = norms > 0 ? sum / sqrt(norms) : 0.0;
    }
    return (float)sum + 0.0f;
}

// A score as a sort key: the better score has the larger key, then the lower row; 0 where it misses the threshold.
__device__ __forceinline__ u64 key_of(float score, u32 row, const Wish& wish, u32 metric) {
    const bool lower = metric == SQUARED_L2;
    if (wish.bounded && (lower ? score > wish.threshold : score < wish.threshold)) return 0;
    return (u64)ordered(lower ? -score + 0.0f : score) << 32 | ~row;
}

// similarity_rescore: exact scores as sort keys, 0 for a row that does not count or misses the threshold.
//   originals f32[n, pitch], queries f32[queries, pitch]
//   listed u32[queries or 1, listed_stride], or null for all rows; `count` of them, or as `status` says for NO_COUNT
//   checked: whether rows must still be looked up in dead and masks
//   keys u64[queries, stride]
// One warp per row, 8 a block; y is the query.
#define NO_COUNT 0xffffffffu
extern "C" __global__ void __launch_bounds__(256) similarity_rescore(const float* __restrict__ originals,
    const float* __restrict__ queries, const Wish* __restrict__ wishes, const Status* __restrict__ status,
    const u32* __restrict__ dead, const u32* __restrict__ masks, const u32* __restrict__ listed, u64* __restrict__ keys,
    u64 listed_stride, u64 stride, u32 n, u32 pitch, u32 count, u32 mask_words, u32 checked, u32 metric) {
    const u32 query = blockIdx.y, lane = threadIdx.x & 31;
    const Wish wish = wishes[query];
    const double norm2 = status[query].norm2;
    u32 rows = count;
    if (count == NO_COUNT) rows = status[query].kept == OVERFLOW ? 0 : status[query].kept;
    for (u32 at = blockIdx.x * 8 + threadIdx.x / 32; at < rows; at += gridDim.x * 8) {
        const u32 row = listed ? listed[query * listed_stride + at] : at;
        u64 key = 0;
        if (row < n && (!checked || counts_for(row, wish.mask, dead, masks, mask_words))) {
            const float* mine = queries + (u64)query * pitch;
            key = key_of(exact_score(mine, originals + (u64)row * pitch, pitch, norm2, metric), row, wish, metric);
        }
        if (lane == 0) keys[query * stride + at] = key;
    }
}

// Keys that shared memory sorts.
#define SORTED 4096u

// Sorts one piece of global memory as `sort_descending` would the whole, whose part it is, through shared memory: all
// steps of the sizes up to SORTED (`from` = 2), or those of `from` below SORTED.
__device__ __forceinline__ void sort_piece(u64* piece, u64* shared, u32 first, u32 from) {
    for (u32 i = threadIdx.x; i < SORTED; i += blockDim.x) shared[i] = piece[i];
    if (from == 2) {
        sort_descending(shared, SORTED, first);
    } else {
        __syncthreads();
        for (u32 step = SORTED / 2; step > 0; step /= 2) exchange(shared, SORTED, first, from, step);
    }
    for (u32 i = threadIdx.x; i < SORTED; i += blockDim.x) piece[i] = shared[i];
    __syncthreads();
}

__device__ __forceinline__ void sort_in_pieces(u64* keys, u64* shared, u32 count) {
    for (u32 first = 0; first < count; first += SORTED) sort_piece(keys + first, shared, first, 2);
    for (u32 size = 2 * SORTED; size <= count; size *= 2) {
        for (u32 step = size / 2; step >= SORTED; step /= 2) exchange(keys, count, 0, size, step);
        for (u32 first = 0; first < count; first += SORTED) sort_piece(keys + first, shared, first, size);
    }
}

// similarity_sort: the best keys of each piece of every query's list, in descending order.
//   keys u64[queries, stride]; `count` of them, or as `status` says for NO_COUNT, after `rounds` such reductions before
//   best u64[queries, best_stride]: `keep` of each piece, piece after piece, zeros where there are fewer
//   work u64[queries, pieces, piece]: only used where `piece`, a power of two, is more than 4096
// One block per piece; y is the query.
extern "C" __global__ void __launch_bounds__(512) similarity_sort(const u64* __restrict__ keys,
    const Status* __restrict__ status, u64* __restrict__ work, u64* __restrict__ best, u64 stride, u64 best_stride,
    u32 count, u32 piece, u32 keep, u32 rounds) {
    __shared__ u64 shared[SORTED];
    const u32 query = blockIdx.y;
    u32 left = count;
    if (count == NO_COUNT) left = status[query].kept == OVERFLOW ? 0 : status[query].kept;
    for (u32 round = 0; round < rounds; round++) left = (left + piece - 1) / piece * keep;
    const u32 first = blockIdx.x * piece;
    if (first >= left && blockIdx.x != 0) return;
    const u32 mine = min(piece, left - first);
    u32 size = 2;
    while (size < mine) size *= 2;
    const u64* from = keys + query * stride + first;
    u64* sorted = size <= SORTED ? shared : work + ((u64)query * gridDim.x + blockIdx.x) * piece;
    for (u32 i = threadIdx.x; i < size; i += blockDim.x) sorted[i] = i < mine ? from[i] : 0;
    if (size <= SORTED) {
        sort_descending(sorted, size, 0);
    } else {
        __syncthreads();
        sort_in_pieces(sorted, shared, size);
    }
    u64* to = best + query * best_stride + (u64)blockIdx.x * keep;
    for (u32 i = threadIdx.x; i < keep; i += blockDim.x) to[i] = i < mine ? sorted[i] : 0;
}

// Groups of rows, and rows, that `similarity_finish` has room for.
#define FINISHED_GROUPS 2048u
#define FINISHED (4 * 1024u)

// Takes the next place for each thread that has something; the whole warp calls.
__device__ __forceinline__ u32 next_place(bool mine, u32* count) {
    const u32 lanes = __ballot_sync(FULL_WARP, mine), lane = threadIdx.x & 31;
    u32 first = 0;
    if (lane == 0 && lanes) first = atomicAdd(count, __popc(lanes));
    return __shfl_sync(FULL_WARP, first, 0) + __popc(lanes & ((1u << lane) - 1));
}

// similarity_finish: floor, candidates, narrowing, exact scores and sorting at once, for few candidates.
//   lows, highs f32[queries, groups], uppers f32[queries, groups * 32] as the vector kernels write them
//   originals f32[n, pitch], rows Row[n], queries f32[queries, pitch]
//   best u64[queries, keep]: the best keys in descending order, zeros where there are fewer
//   status gets count and floor, or OVERFLOW where there was no room
// One block of 1024 threads per query.
extern "C" __global__ void __launch_bounds__(1024) similarity_finish(const float* __restrict__ lows,
    const float* __restrict__ highs, const float* __restrict__ uppers, const float* __restrict__ originals,
    const Row* __restrict__ rows, const float* __restrict__ queries, const Query* __restrict__ known,
    const Wish* __restrict__ wishes, Status* __restrict__ status, u64* __restrict__ best, u32 groups, u32 pitch,
    u32 keep, u32 metric) {
    __shared__ u64 list[FINISHED];
    __shared__ u32 reached[FINISHED_GROUPS];
    __shared__ u32 counters[2][32];
    __shared__ u32 counts[3];
    const u32 query = blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    const Wish wish = wishes[query];
    const Query q = known[query];
    const double norm2 = status[query].norm2, distance2 = metric == SQUARED_L2 ? norm2 : 0.0;
    const float *low = lows + (u64)query * groups, *high = highs + (u64)query * groups;
    if (threadIdx.x < 3) counts[threadIdx.x] = 0;

    float floor = q.floor;
    {
        Images<HELD> images;
        hold_images(images, groups, [&](u32 at) { return low[at] > -INFINITE ? ordered(low[at]) : 0; });
        const u32 bar = bar_of(images, wish.k, wish.k / 8 + 2, counters[0]);
        if (bar != 0) floor = fmaxf(floor, lowered(from_ordered(bar), distance2));
    }

    // Groups that reach the floor, then their rows that do.
    for (u32 first = threadIdx.x; first - threadIdx.x < groups; first += 8 * blockDim.x) {
        float bounds[8];
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            const u32 group = first + i * blockDim.x;
            bounds[i] = group < groups ? high[group] : -INFINITE;
        }
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            const bool reaches = bounds[i] > -INFINITE && bounds[i] >= floor;
            const u32 at = next_place(reaches, &counts[0]);
            if (reaches && at < FINISHED_GROUPS) reached[at] = first + i * blockDim.x;
        }
    }
    __syncthreads();
    for (u32 i = warp; i < min(counts[0], FINISHED_GROUPS); i += 32) {
        const u32 row = reached[i] * 32 + lane;
        const float bound = uppers[(u64)query * groups * 32 + row];
        const bool reaches = bound > -INFINITE && bound >= floor;
        const u32 at = next_place(reaches, &counts[1]);
        if (reaches && at < FINISHED) list[at] = (u64)__float_as_uint(bound) << 32 | row;
    }
    __syncthreads();
    const u32 count = counts[1];
    if (counts[0] > FINISHED_GROUPS || count > FINISHED) {
        if (threadIdx.x == 0) status[query].kept = OVERFLOW;
        return;
    }

    // Every thread takes its rows out, and puts back those that reach the floor of all candidates.
    u64 mine[FINISHED / 1024];
#pragma unroll
    for (u32 i = 0; i < FINISHED / 1024; i++) {
        const u32 at = i * blockDim.x + threadIdx.x;
        mine[i] = at < count ? list[at] : 0;
    }
    if (count > wish.k) {
        Images<FINISHED / 1024> images;
        hold_images(images, count, [&](u32 at) {
            const float bound = lower_from_upper(__uint_as_float((u32)(list[at] >> 32)), q, rows[(u32)list[at]]);
            return bound > -INFINITE ? ordered(bound) : 0;
        });
        const u32 bar = bar_of(images, wish.k, 0, counters[1]);
        if (bar != 0) floor = fmaxf(floor, lowered(from_ordered(bar), distance2));
    }
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < FINISHED / 1024; i++) {
        const bool reaches =
            i * blockDim.x + threadIdx.x < count && __uint_as_float((u32)(mine[i] >> 32)) >= floor;
        const u32 at = next_place(reaches, &counts[2]);
        if (reaches) list[at] = (u32)mine[i];
    }
    __syncthreads();
    const u32 kept = counts[2];
    for (u32 i = warp; i < kept; i += 32) {
        const u32 row = (u32)list[i];
        const float score =
            exact_score(queries + (u64)query * pitch, originals + (u64)row * pitch, pitch, norm2, metric);
        __syncwarp();
        if (lane == 0) list[i] = key_of(score, row, wish, metric);
    }
    u32 size = 2;
    while (size < kept) size *= 2;
    for (u32 i = kept + threadIdx.x; i < size; i += blockDim.x) list[i] = 0;
    sort_descending(list, size, 0);
    for (u32 i = threadIdx.x; i < keep; i += blockDim.x) best[(u64)query * keep + i] = i < kept ? list[i] : 0;
    if (threadIdx.x != 0) return;
    status[query].kept = kept;
    status[query].floor = floor;
}
