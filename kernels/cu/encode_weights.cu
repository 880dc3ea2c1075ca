// Weights as the kernels want them, made from row-major tensors.

#include "encode.cuh"

// encode_pack: rows of a tensor to tiles, or to rows of whole tiles' width, in another type and order.
//   from: [from_rows, from_columns] row-major, of type `from_type`
//   to: `to_rows` rows of `steps` * 128 bytes of type `to_type`: tiled, or where `flat` one after the other
// Row r of `to` comes from row source(r): in heads of `head` rows padded to `padded` each; or, where `half` is not 0, in
// turns of 8 of the rows below `half` and 8 of those above. Columns come in heads of `column_head` padded to
// `column_padded`. What comes from nowhere is zeros. One thread a piece of 16 bytes.
struct Pack {
    const u8* from;
    u8* to;
    u32 from_rows;
    u32 from_columns;
    u32 from_type;
    u32 to_type;
    u32 to_rows;
    u32 steps;
    u32 head;
    u32 padded;
    u32 half;
    u32 column_head;
    u32 column_padded;
    u32 flat;
};

#define NOWHERE 0xffffffffu

__device__ __forceinline__ u32 padded_source(u32 at, u32 head, u32 padded, u32 count) {
    const u32 source = at / padded * head + at % padded;
    return at % padded < head && source < count ? source : NOWHERE;
}

__device__ __forceinline__ u32 row_source(u32 row, const Pack& pack) {
    if (!pack.half) return padded_source(row, pack.head, pack.padded, pack.from_rows);
    const u32 turn = row / 16 * 8 + row % 8;
    return turn < pack.half ? turn + (row % 16 < 8 ? 0 : pack.half) : NOWHERE;
}

__device__ __forceinline__ float read_number(const u8* from, u64 at, u32 type) {
    if (type == F32) return ((const float*)from)[at];
    const u16 bits = ((const u16*)from)[at];
    return type == F16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

extern "C" __global__ void __launch_bounds__(256) encode_pack(const __grid_constant__ Pack pack) {
    const u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    const u32 pieces = pack.steps * 8, each = pack.to_type == F32 ? 4 : 8;
    if (at >= (u64)pack.to_rows * pieces) return;
    const u32 row = (u32)(at / pieces), piece = (u32)(at % pieces), source = row_source(row, pack);
    float numbers[8] = {};
    for (u32 e = 0; e < each; e++) {
        const u32 column = padded_source(piece * each + e, pack.column_head, pack.column_padded, pack.from_columns);
        if (source == NOWHERE || column == NOWHERE) continue;
        numbers[e] = read_number(pack.from, (u64)source * pack.from_columns + column, pack.from_type);
    }
    uint4 written;
    if (pack.to_type == F32) written = Elements<F32>::write(numbers);
    else if (pack.to_type == F16) written = Elements<F16>::write(numbers);
    else written = Elements<BF16>::write(numbers);
    *(uint4*)(pack.to + (pack.flat ? at * 16 : place(row, piece, pack.steps))) = written;
}
