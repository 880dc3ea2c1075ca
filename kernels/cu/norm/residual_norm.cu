// Residual addition and norm. One warp per row, or one block for wide rows.

#include "norm/row.cuh"

// residual_norm_{dtype}_{columns}, .._preload for few rows: out = norm(x + delta), and residual_out = x + delta. Norm kind 0 copies the
// sum.
//   x, out, and where they are not null delta and residual_out: `rows` rows, tiled; at most `columns`
//   f32_residual: x and residual_out are f32 where the compute type has 16 bits; reverse: last rows first
// The sum is normalised before it is rounded. out and residual_out may alias x or delta.
template <int ELEMENT, int VALUES, int WARPS, bool PRELOAD = false>
__device__ __forceinline__ void residual_norm(const ResidualNormParams& params) {
    griddepcontrol_launch_dependents();
    typedef Chunk<ELEMENT> Element;
    constexpr int SIZE = Element::SIZE, CHUNKS = VALUES / SIZE;
    const u32 block = params.reverse ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
    const u32 row_index = (block * blockDim.x + threadIdx.x) / (32 * WARPS), chunks = params.tiles_per_row * 8;
    if (row_index >= params.rows) return;
    const NormWeights<ELEMENT, CHUNKS, WARPS, PRELOAD> weights(params.norm, chunks);
    griddepcontrol_wait();
    const bool is_f32 = SIZE == 8 && params.f32_residual;
    RowFragment<ELEMENT, CHUNKS, WARPS> row = {};
    uint4 raw[CHUNKS], more[CHUNKS];
    each_chunk<CHUNKS, WARPS>(chunks, [&](int i, u32 chunk) {
        const u64 from = chunk_offset(row_index, chunk, params.tiles_per_row);
        if (is_f32) load_f32_chunk(params.x, row_index, chunk, params.tiles_per_row, row.values + i * SIZE);
        else raw[i] = *(const uint4*)(params.x + from);
        if (params.delta) more[i] = *(const uint4*)(params.delta + from);
    });
    each_chunk<CHUNKS, WARPS>(chunks, [&](int i, u32) {
        if (!is_f32) Element::read(raw[i], row.values + i * SIZE);
        if (!params.delta) return;
        float delta[SIZE];
        Element::read(more[i], delta);
#pragma unroll
        for (int e = 0; e < SIZE; e++) row.values[i * SIZE + e] += delta[e];
    });
    if (params.residual_out) {
        each_chunk<CHUNKS, WARPS>(chunks, [&](int i, u32 chunk) {
            if (is_f32) store_f32_chunk(params.residual_out, row_index, chunk, params.tiles_per_row, row.values + i * SIZE);
            else *(uint4*)(params.residual_out + chunk_offset(row_index, chunk, params.tiles_per_row)) = Element::write(row.values + i * SIZE);
        });
    }
    if (params.norm.kind) normalize(row, params.norm, params.width, chunks, weights);
    each_chunk<CHUNKS, WARPS>(chunks, [&](int i, u32 chunk) {
        *(uint4*)(params.out + chunk_offset(row_index, chunk, params.tiles_per_row)) = Element::write(row.values + i * SIZE);
    });
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS) residual_norm_f32_1024(const __grid_constant__ ResidualNormParams params) {
    residual_norm<F32, 32, 1>(params);
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS) residual_norm_f32_4096(const __grid_constant__ ResidualNormParams params) {
    residual_norm<F32, 16, ROW_THREADS / 32>(params);
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS) residual_norm_f16_512(const __grid_constant__ ResidualNormParams params) {
    residual_norm<F16, 16, 1>(params);
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS) residual_norm_f16_1024(const __grid_constant__ ResidualNormParams params) {
    residual_norm<F16, 32, 1>(params);
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS) residual_norm_f16_512_preload(const __grid_constant__ ResidualNormParams params) {
    residual_norm<F16, 16, 1, true>(params);
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS) residual_norm_f16_1024_preload(const __grid_constant__ ResidualNormParams params) {
    residual_norm<F16, 32, 1, true>(params);
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS) residual_norm_f16_4096(const __grid_constant__ ResidualNormParams params) {
    residual_norm<F16, 16, ROW_THREADS / 32>(params);
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS) residual_norm_bf16_512(const __grid_constant__ ResidualNormParams params) {
    residual_norm<BF16, 16, 1>(params);
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS) residual_norm_bf16_1024(const __grid_constant__ ResidualNormParams params) {
    residual_norm<BF16, 32, 1>(params);
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS) residual_norm_bf16_512_preload(const __grid_constant__ ResidualNormParams params) {
    residual_norm<BF16, 16, 1, true>(params);
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS) residual_norm_bf16_1024_preload(const __grid_constant__ ResidualNormParams params) {
    residual_norm<BF16, 32, 1, true>(params);
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS) residual_norm_bf16_4096(const __grid_constant__ ResidualNormParams params) {
    residual_norm<BF16, 16, ROW_THREADS / 32>(params);
}
