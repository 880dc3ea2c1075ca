// Packs row-major weights into the layout of the kernels.

#include "common/tiled.cuh"
#include "launch/pack_weights.cuh"

// pack_weights: converts, permutes and pads the rows of a tensor.
//   from: [from_rows, from_columns] row-major, of type `from_type`
//   to: `to_rows` rows of `tiles_per_row` * 128 bytes of type `to_type`: tiled, or with `row_major` one after the other
// Rows are padded from `head_dim` to `padded_head_dim` per head; or, where `gate_rows` is not 0, groups of 8 of the first
// `gate_rows` rows (the gate) alternate with groups of 8 of the others. Columns are padded from `column_head_dim` to
// `column_padded_head_dim` per head. Padding is zeros. One thread per chunk of 16 bytes.

#define PADDING 0xffffffffu

__device__ __forceinline__ u32 padded_source(u32 at, u32 head, u32 padded, u32 count) {
    const u32 source = at / padded * head + at % padded;
    return at % padded < head && source < count ? source : PADDING;
}

__device__ __forceinline__ u32 row_source(u32 row, const PackWeightsParams& params) {
    if (!params.gate_rows) return padded_source(row, params.head_dim, params.padded_head_dim, params.from_rows);
    const u32 source = row / 16 * 8 + row % 8;
    return source < params.gate_rows ? source + (row % 16 < 8 ? 0 : params.gate_rows) : PADDING;
}

__device__ __forceinline__ float load_as_f32(const u8* from, u64 at, u32 type) {
    if (type == F32) return ((const float*)from)[at];
    const u16 bits = ((const u16*)from)[at];
    return type == F16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

extern "C" __global__ void __launch_bounds__(PACK_WEIGHTS_THREADS) pack_weights(const __grid_constant__ PackWeightsParams params) {
    const u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    const u32 chunks = params.tiles_per_row * 8, each = params.to_type == F32 ? 4 : 8;
    if (at >= (u64)params.to_rows * chunks) return;
    const u32 row = (u32)(at / chunks), chunk = (u32)(at % chunks), source = row_source(row, params);
    float values[8] = {};
    for (u32 e = 0; e < each; e++) {
        const u32 column = padded_source(chunk * each + e, params.column_head_dim, params.column_padded_head_dim, params.from_columns);
        if (source == PADDING || column == PADDING) continue;
        values[e] = load_as_f32(params.from, (u64)source * params.from_columns + column, params.from_type);
    }
    uint4 written;
    if (params.to_type == F32) written = Chunk<F32>::write(values);
    else if (params.to_type == F16) written = Chunk<F16>::write(values);
    else written = Chunk<BF16>::write(values);
    *(uint4*)(params.to + (params.row_major ? at * 16 : chunk_offset(row, chunk, params.tiles_per_row))) = written;
}
