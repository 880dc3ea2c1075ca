// Attention in f32 arithmetic without tensor cores: for f32 models, older devices and head sizes that the tensor core kernels
// do not support.

#include "attention/attention.cuh"

// attention_simt_{dtype}: attention (see attention.cuh) for heads of any size up to 1024, padded to 32 bytes or not at all.
// One warp per row and head: each lane scores one key of 32, then accumulates some of the columns.
//   grid: rows / SIMT_ROWS rounded up, heads; SIMT_THREADS threads; dynamic shared memory: simt_shared_bytes(head_dim)
static_assert(SIMT_THREADS == 32 * SIMT_ROWS, "a warp for each row");

template <int ELEMENT>
__device__ __forceinline__ void attention_simt(const AttentionParams& params) {
    griddepcontrol_launch_and_wait();
    extern __shared__ float shared[];
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x & 31, row = blockIdx.x * SIMT_ROWS + warp, head = blockIdx.y;
    if (row >= params.rows) return;
    float* query = shared + warp * 2 * params.head_dim;
    float* acc = query + params.head_dim;
    const u32 text = sequence_of(row, params.cu_seqlens, params.sequences), start = params.cu_seqlens[text], end = params.cu_seqlens[text + 1];
    const u32 keys = params.heads * params.padded_head_dim + head / params.group_size * params.padded_head_dim, values = keys + params.kv_heads * params.padded_head_dim;
    for (u32 i = lane; i < params.head_dim; i += 32) {
        query[i] = load_element<ELEMENT>(params.qkv, row, head * params.padded_head_dim + i, params.tiles_per_row);
        acc[i] = 0.0f;
    }
    __syncwarp();
    const u32 at = row - start, length = end - start;
    const u32 first = at > params.window ? at - params.window : 0;
    u32 last = length - at > params.window ? at + params.window + 1 : length;
    if (params.causal && last > at + 1) last = at + 1;
    float row_max = -INFINITY, row_sum = 0.0f;
    for (u32 from = first; from < last; from += 32) {
        const u32 key = from + lane;
        float score = -INFINITY;
        if (key < last) {
            float sum = 0.0f;
            for (u32 i = 0; i < params.head_dim; i++) {
                sum = fmaf(query[i], load_element<ELEMENT>(params.qkv, start + key, keys + i, params.tiles_per_row), sum);
            }
            score = sum * params.scale + attention_bias(params, head, at, key);
        }
        const float new_max = fmaxf(row_max, warp_max(score)), correction = expf(row_max - new_max), probability = expf(score - new_max);
        row_max = new_max;
        row_sum = row_sum * correction + warp_sum(probability);
        const u32 count = min(32u, last - from);
        for (u32 i = lane; i < params.head_dim; i += 32) acc[i] *= correction;
        for (u32 k = 0; k < count; k++) {
            const float weight = __shfl_sync(FULL_WARP, probability, k);
            for (u32 i = lane; i < params.head_dim; i += 32) {
                acc[i] = fmaf(weight, load_element<ELEMENT>(params.qkv, start + from + k, values + i, params.tiles_per_row), acc[i]);
            }
        }
    }
    for (u32 i = lane; i < params.padded_head_dim; i += 32) {
        store_element<ELEMENT>(params.out, row, head * params.padded_head_dim + i, params.out_tiles_per_row, i < params.head_dim ? acc[i] / row_sum : 0.0f);
    }
}

extern "C" __global__ void __launch_bounds__(SIMT_THREADS) attention_simt_f32(const __grid_constant__ AttentionParams params) {
    attention_simt<F32>(params);
}

extern "C" __global__ void __launch_bounds__(SIMT_THREADS) attention_simt_f16(const __grid_constant__ AttentionParams params) {
    attention_simt<F16>(params);
}

extern "C" __global__ void __launch_bounds__(SIMT_THREADS) attention_simt_bf16(const __grid_constant__ AttentionParams params) {
    attention_simt<BF16>(params);
}
