// Assignment of rows to their nearest centre: a GEMM of binary16 numbers on tensor cores with f32 accumulation, fused
// with the argmax of the scores, so that no distance is written to memory.

#include "kmeans/state.cuh"

// --- mma.sync ---

// c[16, 8] += a[16, 16] * b[16, 8] in f32; the fragments are those of mma.m16n8k16.
__device__ __forceinline__ void mma_m16n8k16(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#else
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(b0));
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a2), "r"(a3), "r"(b1));
#endif
}

// c[16, 8] += a[16, 32] * b[32, 8]. A lane loads 8 consecutive columns (16 bytes) of its rows and of its centre. Both
// operands permute the columns in the same way, which leaves the sum unchanged.
__device__ __forceinline__ void mma_m16n8k32(
    float (&c)[4], const uint4& upper, const uint4& lower, const uint4& center) {
    mma_m16n8k16(c, upper.x, lower.x, upper.y, lower.y, center.x, center.y);
    mma_m16n8k16(c, upper.z, lower.z, upper.w, lower.w, center.z, center.w);
}

// --- Asynchronous copies of centres into shared memory ---

__device__ __forceinline__ void cp_async(void* shared, const void* global) {
#if __CUDA_ARCH__ >= 800
    const u32 to = (u32)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
#else
    *(uint4*)shared = *(const uint4*)global;
#endif
}

__device__ __forceinline__ void cp_async_commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits for all groups of copies but the latest.
__device__ __forceinline__ void cp_async_wait_previous() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group 1;" ::: "memory");
#endif
}

// --- Epilogue: argmax over the centres ---

// A lane's best centres of 4 rows. A score is x * c - |c|^2 / 2 in centred coordinates: the nearest centre has the
// highest. CHECKED keeps the second best too.
template <bool CHECKED>
struct Best {
    float best[4], second[4];
    u32 center[4];

    __device__ __forceinline__ void init() {
#pragma unroll
        for (int i = 0; i < 4; ++i) best[i] = second[i] = -INFINITY, center[i] = 0;
    }

    // Centres come in ascending order, so ties keep the lowest.
    __device__ __forceinline__ void update(int row, float score, u32 index) {
        const bool better = score > best[row];
        if (CHECKED) second[row] = better ? best[row] : fmaxf(second[row], score);
        best[row] = better ? score : best[row];
        center[row] = better ? index : center[row];
    }

    // Reduces over the 4 lanes that share the rows.
    __device__ __forceinline__ void reduce() {
#pragma unroll
        for (int step = 1; step < 4; step <<= 1) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float other = __shfl_xor_sync(FULL_WARP, best[i], step);
                const u32 index = __shfl_xor_sync(FULL_WARP, center[i], step);
                if (CHECKED) {
                    const float next = __shfl_xor_sync(FULL_WARP, second[i], step);
                    second[i] = fmaxf(fminf(best[i], other), fmaxf(second[i], next));
                }
                const bool better = other > best[i] || (other == best[i] && index < center[i]);
                best[i] = better ? other : best[i];
                center[i] = better ? index : center[i];
            }
        }
    }
};

// An upper bound of the error of a score, for a row of squared norm `norm` and `dim` dimensions. `unit` is the relative
// error of a product of two rounded coordinates: 2^-10 with one binary16 per coordinate, 2^-20 with two.
__device__ __forceinline__ float score_error(float norm, float max_norm, u32 dim, float unit) {
    const float row = sqrtf(norm) * 1.0001f, center = max_norm * 1.0001f, dims = (float)dim;
    const float sums = (row * center + 0.5f * center * center) * (dims + 8.0f) * 2.4e-7f;
    const float tiny = sqrtf(dims) * (row + center) * 6e-8f;
    return row * center * unit * 1.01f + sums + tiny + 1e-30f;
}

// Writes a warp's results for its 32 rows. CHECKED lists the rows whose two best scores differ by less than their
// error.
template <bool CHECKED>
__device__ __forceinline__ void store_best(Best<CHECKED>& found, const AssignParams& in, u32 first, float unit) {
    found.reduce();
    const u32 lane = threadIdx.x & 31;
    if ((lane & 3) != 0) return;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const u32 row = first + 16 * (i >> 1) + 8 * (i & 1) + (lane >> 2);
        if (row >= in.count) continue;
        in.labels[row] = found.center[i];
        in.scores[row] = found.best[i];
        if (CHECKED) {
            const float error = score_error(in.norms[row], in.state->max_center_norm, in.dim, unit);
            // Negated so that NaNs are listed too.
            if (!(found.best[i] - found.second[i] > 2.0f * error)) in.list[atomicAdd(&in.state->ambiguous, 1u)] = row;
        }
    }
}

// kmeans_assign_{dim}: the nearest centre of each row, for up to 64, up to 128, or any number of dimensions; `split`
// for coordinates of two binary16, `checked` for the final assignment.
//   rows, rows_low f16[count, pitch], centers, centers_low f16[64 or 128 * tiles, pitch]: centred coordinates, zeros
//     past the dimensions; low parts for `split`. Padding centres have a half norm of infinity
//   half_norms f32: |c|^2 / 2; norms f32[count]: |x|^2
//   labels u32[count], scores f32[count]: the nearest centre, ties to the lowest, and its score
//   list u32[count]: with CHECKED, the rows to be assigned exactly; state->ambiguous is their number
// A warp takes 32 rows, a block ASSIGN_ROWS. The error of a score is at most score_error.

static_assert(ASSIGN_ROWS == 32 * BLOCK_WARPS && BLOCK_THREADS == 32 * BLOCK_WARPS && NARROW_TILE == 64, "the copies of a thread");

// Up to 128 dimensions: a warp keeps its rows in registers and streams all centres, 64 at a time.
template <int CHUNKS, bool CHECKED>
__device__ __forceinline__ void assign_resident(const AssignParams& in) {
    constexpr u32 STRIDE = CHUNKS * 64 + (CHUNKS % 2 ? 0 : 64);  // 64 more than a multiple of 128: no bank conflicts
    constexpr u32 TILE = NARROW_TILE, N = CHUNKS == 4 ? 2 : 4;  // tiles of 8 centres at once: as many as registers allow
    __shared__ __align__(128) u8 stages[2][TILE * STRIDE];
    if (!CHECKED && in.state->done) return;
    const u32 lane = threadIdx.x & 31, group = lane >> 2, quad = lane & 3;
    const u32 first = blockIdx.x * ASSIGN_ROWS + (threadIdx.x >> 5) * 32;

    auto load_centers = [&](u32 tile) {
        const u8* from = (const u8*)in.centers + (u64)tile * TILE * (CHUNKS * 64);
#pragma unroll
        for (int i = 0; i < CHUNKS; ++i) {
            const u32 vector = threadIdx.x + BLOCK_THREADS * i, center = vector / (CHUNKS * 4), part = vector % (CHUNKS * 4);
            cp_async(stages[tile & 1] + center * STRIDE + part * 16, from + center * (CHUNKS * 64) + part * 16);
        }
    };
    load_centers(0);
    cp_async_commit();

    uint4 x[2][CHUNKS][2];
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const u32 row = min(first + 16 * m + 8 * half + group, in.count - 1);
            const uint4* from = (const uint4*)(in.rows + (u64)row * (CHUNKS * 32)) + quad;
#pragma unroll
            for (int chunk = 0; chunk < CHUNKS; ++chunk) x[m][chunk][half] = __ldg(from + 4 * chunk);
        }
    }

    Best<CHECKED> found;
    found.init();
    for (u32 tile = 0; tile < in.tiles; ++tile) {
        if (tile + 1 < in.tiles) load_centers(tile + 1);
        cp_async_commit();
        cp_async_wait_previous();
        __syncthreads();
        const u8* stage = stages[tile & 1] + group * STRIDE + quad * 16;
#pragma unroll
        for (int part = 0; part < TILE / 8 / N; ++part) {
            const u32 base = tile * TILE + part * N * 8 + 2 * quad;
            float c[2][N][4];
#pragma unroll
            for (int n = 0; n < N; ++n) {
                const float2 half = __ldg((const float2*)(in.half_norms + base + n * 8));
#pragma unroll
                for (int m = 0; m < 2; ++m) c[m][n][0] = c[m][n][2] = -half.x, c[m][n][1] = c[m][n][3] = -half.y;
            }
#pragma unroll
            for (int chunk = 0; chunk < CHUNKS; ++chunk) {
#pragma unroll
                for (int n = 0; n < N; ++n) {
                    const uint4 center = *(const uint4*)(stage + (part * N + n) * 8 * STRIDE + chunk * 64);
#pragma unroll
                    for (int m = 0; m < 2; ++m) mma_m16n8k32(c[m][n], x[m][chunk][0], x[m][chunk][1], center);
                }
            }
#pragma unroll
            for (int n = 0; n < N; ++n) {
#pragma unroll
                for (int m = 0; m < 2; ++m) {
#pragma unroll
                    for (int e = 0; e < 4; ++e) found.update(2 * m + (e >> 1), c[m][n][e], base + n * 8 + (e & 1));
                }
            }
        }
        __syncthreads();
    }
    store_best(found, in, first, 0x1p-10f);
}

// Any number of dimensions: rows and centres are streamed, 64 columns at a time. SPLIT takes both parts of each
// coordinate.
template <bool SPLIT, bool CHECKED>
__device__ __forceinline__ void assign_streaming(const AssignParams& in) {
    constexpr u32 TILE = SPLIT ? NARROW_TILE : WIDE_TILE, PARTS = SPLIT ? 2 : 1, N = TILE / 8;
    constexpr u32 STRIDE = 192;  // 64 columns, and 64 bytes more than a multiple of 128: no bank conflicts
    __shared__ __align__(128) u8 stages[2][PARTS][TILE * STRIDE];
    if (!CHECKED && in.state->done) return;
    const u32 lane = threadIdx.x & 31, group = lane >> 2, quad = lane & 3;
    const u32 first = blockIdx.x * ASSIGN_ROWS + (threadIdx.x >> 5) * 32;
    const u32 slabs = in.pitch / 64, steps = in.tiles * slabs;

    auto load_centers = [&](u32 step) {
        const u32 tile = step / slabs, slab = step % slabs;
#pragma unroll
        for (int p = 0; p < PARTS; ++p) {
            const u16* from = (p ? in.centers_low : in.centers) + (u64)tile * TILE * in.pitch + slab * 64;
#pragma unroll
            for (int i = 0; i < TILE / 32; ++i) {
                const u32 vector = threadIdx.x + BLOCK_THREADS * i, center = vector / 8, part = vector % 8;
                cp_async(stages[step & 1][p] + center * STRIDE + part * 16, from + (u64)center * in.pitch + part * 8);
            }
        }
    };
    const uint4* rows[PARTS][2][2];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const u32 row = min(first + 8 * i + group, in.count - 1);
        rows[0][i >> 1][i & 1] = (const uint4*)(in.rows + (u64)row * in.pitch) + quad;
        if (SPLIT) rows[PARTS - 1][i >> 1][i & 1] = (const uint4*)(in.rows_low + (u64)row * in.pitch) + quad;
    }
    load_centers(0);
    cp_async_commit();

    Best<CHECKED> found;
    found.init();
    float c[2][N][4];
    for (u32 step = 0; step < steps; ++step) {
        const u32 tile = step / slabs, slab = step % slabs, base = tile * TILE + 2 * quad;
        if (step + 1 < steps) load_centers(step + 1);
        cp_async_commit();
        if (slab == 0) {
#pragma unroll
            for (int n = 0; n < N; ++n) {
                const float2 half = __ldg((const float2*)(in.half_norms + base + n * 8));
#pragma unroll
                for (int m = 0; m < 2; ++m) c[m][n][0] = c[m][n][2] = -half.x, c[m][n][1] = c[m][n][3] = -half.y;
            }
        }
        uint4 x[2][PARTS][2][2];  // of both chunks of 32 columns
#pragma unroll
        for (int chunk = 0; chunk < 2; ++chunk) {
#pragma unroll
            for (int i = 0; i < 4 * PARTS; ++i) {
                x[chunk][i >> 2][(i >> 1) & 1][i & 1] = __ldg(rows[i >> 2][(i >> 1) & 1][i & 1] + slab * 8 + chunk * 4);
            }
        }
        cp_async_wait_previous();
        __syncthreads();
#pragma unroll
        for (int chunk = 0; chunk < 2; ++chunk) {
#pragma unroll
            for (int n = 0; n < N; ++n) {
                const u32 at = (n * 8 + group) * STRIDE + chunk * 64 + quad * 16;
                const uint4 center = *(const uint4*)(stages[step & 1][0] + at);
#pragma unroll
                for (int m = 0; m < 2; ++m) mma_m16n8k32(c[m][n], x[chunk][0][m][0], x[chunk][0][m][1], center);
                if (SPLIT) {
                    const uint4 low = *(const uint4*)(stages[step & 1][PARTS - 1] + at);
#pragma unroll
                    for (int m = 0; m < 2; ++m) {
                        mma_m16n8k32(c[m][n], x[chunk][0][m][0], x[chunk][0][m][1], low);
                        mma_m16n8k32(c[m][n], x[chunk][PARTS - 1][m][0], x[chunk][PARTS - 1][m][1], center);
                    }
                }
            }
        }
        if (slab + 1 == slabs) {
#pragma unroll
            for (int n = 0; n < N; ++n) {
#pragma unroll
                for (int m = 0; m < 2; ++m) {
#pragma unroll
                    for (int e = 0; e < 4; ++e) found.update(2 * m + (e >> 1), c[m][n][e], base + n * 8 + (e & 1));
                }
            }
        }
        __syncthreads();
    }
    store_best(found, in, first, SPLIT ? 0x1p-20f : 0x1p-10f);
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 2) kmeans_assign_64(AssignParams in) {
    assign_resident<2, false>(in);
}
extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 2) kmeans_assign_128(AssignParams in) {
    assign_resident<4, false>(in);
}
extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 2) kmeans_assign_64_checked(AssignParams in) {
    assign_resident<2, true>(in);
}
extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 2) kmeans_assign_128_checked(AssignParams in) {
    assign_resident<4, true>(in);
}
extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 1) kmeans_assign_any(AssignParams in) {
    assign_streaming<false, false>(in);
}
extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 1) kmeans_assign_split(AssignParams in) {
    assign_streaming<true, false>(in);
}
extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 1) kmeans_assign_any_checked(AssignParams in) {
    assign_streaming<false, true>(in);
}
extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 1) kmeans_assign_split_checked(AssignParams in) {
    assign_streaming<true, true>(in);
}
