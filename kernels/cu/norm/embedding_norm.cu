// Embedding lookup and norm. One warp per row, or one block for wide rows.

#include "norm/row.cuh"

// embedding_norm_{dtype}_{columns}, .._preload for few rows: the sum of word, position and token type embedding, then the norm.
//   ids u32[T]; token_type_ids u32[T] or null: all 0; position_rows u32[T] or null; cu_seqlens u32[sequences + 1]
//   word_embeddings, position_embeddings, token_type_embeddings: rows of `tiles_per_row` * 128 bytes, zero-padded; the latter two may
//   be null
//   out: T rows, tiled; at most `columns`
//   f32_mask: which operands are f32 where the compute type has 16 bits: F32_WORD_EMBEDDINGS, ..
// A token's position is its position row or, without these, its index in its sequence plus `position_offset`.

template <int ELEMENT, int VALUES, int WARPS, bool PRELOAD = false>
__device__ __forceinline__ void embedding_norm(const EmbeddingNormParams& params) {
    griddepcontrol_launch_dependents();
    typedef Chunk<ELEMENT> Element;
    constexpr int SIZE = Element::SIZE, CHUNKS = VALUES / SIZE;
    const u32 row_index = (blockIdx.x * blockDim.x + threadIdx.x) / (32 * WARPS), chunks = params.tiles_per_row * 8;
    if (row_index >= params.rows) return;
    const NormWeights<ELEMENT, CHUNKS, WARPS, PRELOAD> weights(params.norm, chunks);
    griddepcontrol_wait();
    RowFragment<ELEMENT, CHUNKS, WARPS> row = {};
    auto add = [&](const u8* table, u64 index, bool is_f32) {
        is_f32 = is_f32 && SIZE == 8;
        const u8* values = table + index * params.tiles_per_row * (is_f32 ? 256 : 128);
        each_chunk<CHUNKS, WARPS>(chunks, [&](int i, u32 chunk) {
            float more[SIZE];
            if (is_f32) {
                Chunk<F32>::read(*(const uint4*)(values + chunk * 32), more);
                Chunk<F32>::read(*(const uint4*)(values + chunk * 32 + 16), more + 4 % SIZE);
            } else {
                Element::read(*(const uint4*)(values + chunk * 16), more);
            }
#pragma unroll
            for (int e = 0; e < SIZE; e++) row.values[i * SIZE + e] += more[e];
        });
    };
    // All loads are issued before the first is used.
    const u32 word = params.ids[row_index], kind = params.token_type_embeddings && params.token_type_ids ? params.token_type_ids[row_index] : 0;
    u32 position = 0;
    if (params.position_embeddings && params.position_rows) {
        position = params.position_rows[row_index];
    } else if (params.position_embeddings) {
        position = row_index - params.cu_seqlens[sequence_of(row_index, params.cu_seqlens, params.sequences)] + params.position_offset;
    }
    add(params.word_embeddings, word, params.f32_mask & F32_WORD_EMBEDDINGS);
    if (params.position_embeddings) add(params.position_embeddings, position, params.f32_mask & F32_POSITION_EMBEDDINGS);
    if (params.token_type_embeddings) add(params.token_type_embeddings, kind, params.f32_mask & F32_TOKEN_TYPE_EMBEDDINGS);
    if (params.norm.kind) normalize(row, params.norm, params.width, chunks, weights);
    each_chunk<CHUNKS, WARPS>(chunks, [&](int i, u32 chunk) {
        if (SIZE == 8 && (params.f32_mask & F32_OUT)) {
            store_f32_chunk(params.out, row_index, chunk, params.tiles_per_row, row.values + i * SIZE);
        } else {
            *(uint4*)(params.out + chunk_offset(row_index, chunk, params.tiles_per_row)) = Element::write(row.values + i * SIZE);
        }
    });
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS) embedding_norm_f32_1024(const __grid_constant__ EmbeddingNormParams params) {
    embedding_norm<F32, 32, 1>(params);
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS) embedding_norm_f32_4096(const __grid_constant__ EmbeddingNormParams params) {
    embedding_norm<F32, 16, ROW_THREADS / 32>(params);
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS) embedding_norm_f16_1024(const __grid_constant__ EmbeddingNormParams params) {
    embedding_norm<F16, 32, 1>(params);
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS) embedding_norm_f16_1024_preload(const __grid_constant__ EmbeddingNormParams params) {
    embedding_norm<F16, 32, 1, true>(params);
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS) embedding_norm_f16_4096(const __grid_constant__ EmbeddingNormParams params) {
    embedding_norm<F16, 16, ROW_THREADS / 32>(params);
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS) embedding_norm_bf16_1024(const __grid_constant__ EmbeddingNormParams params) {
    embedding_norm<BF16, 32, 1>(params);
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS) embedding_norm_bf16_1024_preload(const __grid_constant__ EmbeddingNormParams params) {
    embedding_norm<BF16, 32, 1, true>(params);
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS) embedding_norm_bf16_4096(const __grid_constant__ EmbeddingNormParams params) {
    embedding_norm<BF16, 16, ROW_THREADS / 32>(params);
}
