// GEMM in f32 arithmetic without tensor cores: for f32 models and for devices before sm_80.

#include "gemm/linear.cuh"
#include "launch/gemm_simt.cuh"

// Activations by the precise math functions. Not inlined, since a thread calls it 32 times.
__device__ __noinline__ float activate_any(float x, u32 activation) {
    if (activation == GELU) return 0.5f * x * erfcf(-0.70710678118654752f * x);
    if (activation == GELU_TANH) return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * fmaf(0.044715f * x * x, x, x)));
    if (activation == RELU) return fmaxf(x, 0.0f);
    if (activation == SILU) return x / (1.0f + expf(-x));
    return x;
}

__device__ __forceinline__ float activate_precise(float x, u32 activation) {
    return activation == PLAIN ? x : activate_any(x, activation);
}

// gemm_simt_{dtype}: a linear layer (see linear.cuh); products and sums in f32, in the order of k.
// A block computes SIMT_ROWS x SIMT_COLUMNS outputs, a thread 8 x 4 of them: rows thread / 16 + 16 i and columns thread % 16 + 16 j.
// Each 16 columns hold 8 of the gate and 8 of the up projection.
#define SLICE 16
static_assert(SIMT_ROWS == 8 * 16 && SIMT_COLUMNS == 4 * 16 && SIMT_THREADS == 16 * 16, "the outputs of a thread");

// Loads SLICE columns of ROWS rows from `row` into shared memory, transposed.
template <int ELEMENT, int ROWS>
__device__ __forceinline__ void load_slice(float (*to)[ROWS + 4], const u8* from, u32 row, u32 slice, u32 k_tiles) {
    constexpr u32 SIZE = Chunk<ELEMENT>::SIZE, CHUNKS = SLICE / SIZE;
    for (u32 at = threadIdx.x; at < ROWS * CHUNKS; at += SIMT_THREADS) {
        const u32 row_in_tile = at / CHUNKS, chunk = at % CHUNKS;
        float numbers[SIZE];
        Chunk<ELEMENT>::read(*(const uint4*)(from + chunk_offset(row + row_in_tile, slice * CHUNKS + chunk, k_tiles)), numbers);
#pragma unroll
        for (u32 e = 0; e < SIZE; e++) to[chunk * SIZE + e][row_in_tile] = numbers[e];
    }
}

template <int ELEMENT>
__device__ __forceinline__ void gemm_simt(const LinearParams& layer) {
    griddepcontrol_launch_and_wait();
    constexpr u32 SIZE = Chunk<ELEMENT>::SIZE;
    __shared__ __align__(16) float rows[SLICE][SIMT_ROWS + 4];
    __shared__ __align__(16) float weights[SLICE][SIMT_COLUMNS + 4];
    const u32 n_tiles = (layer.columns + SIMT_COLUMNS - 1) / SIMT_COLUMNS;
    const u32 row = blockIdx.x / n_tiles * SIMT_ROWS, column = blockIdx.x % n_tiles * SIMT_COLUMNS;
    const u32 x = threadIdx.x % 16, y = threadIdx.x / 16;
    float sums[8][4] = {};
    for (u32 slice = 0; slice < layer.k_tiles * 8 * SIZE / SLICE; slice++) {
        load_slice<ELEMENT, SIMT_ROWS>(rows, layer.x, row, slice, layer.k_tiles);
        load_slice<ELEMENT, SIMT_COLUMNS>(weights, layer.weight, column, slice, layer.k_tiles);
        __syncthreads();
#pragma unroll
        for (u32 k = 0; k < SLICE; k++) {
            float a[8], b[4];
#pragma unroll
            for (u32 i = 0; i < 8; i++) a[i] = rows[k][y + 16 * i];
#pragma unroll
            for (u32 j = 0; j < 4; j++) b[j] = weights[k][x + 16 * j];
#pragma unroll
            for (u32 i = 0; i < 8; i++) {
#pragma unroll
                for (u32 j = 0; j < 4; j++) sums[i][j] = fmaf(a[i], b[j], sums[i][j]);
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (u32 i = 0; i < 8; i++) {
#pragma unroll
        for (u32 j = 0; j < 4; j++) {
            const u32 at = column + x + 16 * j, width = layer.out_tiles_per_row * 8 * SIZE;
            float sum = sums[i][j];
            if (layer.bias) sum += layer.bias[at];
            if (layer.gated) {
                // Lanes x < 8 have the gate, lanes x + 8 the up projection.
                const float other = __shfl_xor_sync(FULL_WARP, sum, 8);
                const u32 to = at / 16 * 8 + x;
                if (x < 8 && to < width) {
                    store_element<ELEMENT>(layer.out, row + y + 16 * i, to, layer.out_tiles_per_row,
                                       activate_precise(sum, layer.activation) * other);
                }
            } else if (at < width) {
                store_element<ELEMENT>(layer.out, row + y + 16 * i, at, layer.out_tiles_per_row, activate_precise(sum, layer.activation));
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(SIMT_THREADS) gemm_simt_f32(const __grid_constant__ LinearParams layer) {
    gemm_simt<F32>(layer);
}

extern "C" __global__ void __launch_bounds__(SIMT_THREADS) gemm_simt_f16(const __grid_constant__ LinearParams layer) {
    gemm_simt<F16>(layer);
}

extern "C" __global__ void __launch_bounds__(SIMT_THREADS) gemm_simt_bf16(const __grid_constant__ LinearParams layer) {
    gemm_simt<BF16>(layer);
}
