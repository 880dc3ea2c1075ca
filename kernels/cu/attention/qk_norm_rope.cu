// QK norm and rotary position embedding of queries and keys, before attention.

#include "launch/qk_norm_rope.cuh"
#include "norm/norm.cuh"

// qk_norm_rope_{dtype}: normalises queries and keys, per head or over all heads of a row, then rotates them; in place.
//   qkv: rows of heads of `padded_head_dim` columns, `head_dim` of them in use: `heads` of queries, `kv_heads` of keys, then values
//   query_weight, query_bias, key_weight, key_bias f32: of the normalised width; biases may be null
//   rotary f32[.., rotary_dims]: per position the cosines of rotary_dims / 2 angles, then their sines; null: no rotation
//   kind: 0 for no norm; all_heads: the norm spans all heads of a row
// One block of QK_NORM_ROPE_THREADS threads per row; dynamic shared memory: qk_norm_rope_shared_bytes(heads + kv_heads, head_dim). Sums are f32 in a fixed tree.

// Normalises `count` numbers in shared memory, by the threads of a warp (stride 32) or of the block.
template <typename Sum>
__device__ __forceinline__ void normalize_vector(float* x, const float* weight, const float* bias, u32 count, u32 first,
                                          u32 stride, const QkNormRopeParams& params, const Sum& sum_of) {
    float mean = 0.0f;
    if (params.kind == LAYER_NORM) {
        float sum = 0.0f;
        for (u32 i = first; i < count; i += stride) sum += x[i];
        mean = sum_of(sum) / (float)count;
    }
    float squares = 0.0f;
    for (u32 i = first; i < count; i += stride) squares = fmaf(x[i] - mean, x[i] - mean, squares);
    const float scale = 1.0f / sqrtf(sum_of(squares) / (float)count + params.epsilon);
    for (u32 i = first; i < count; i += stride) x[i] = fmaf((x[i] - mean) * scale, weight[i], bias ? bias[i] : 0.0f);
}

template <int ELEMENT>
__device__ __forceinline__ void qk_norm_rope(const QkNormRopeParams& params) {
    griddepcontrol_launch_and_wait();
    typedef Chunk<ELEMENT> Element;
    constexpr u32 SIZE = Element::SIZE;
    extern __shared__ float numbers[];
    __shared__ float scratch[32];
    const u32 row = blockIdx.x, all = params.heads + params.kv_heads, chunks = all * params.padded_head_dim / SIZE;
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    for (u32 chunk = threadIdx.x; chunk < chunks; chunk += blockDim.x) {
        float read[SIZE];
        Element::read(*(const uint4*)(params.qkv + chunk_offset(row, chunk, params.tiles_per_row)), read);
        const u32 head = chunk * SIZE / params.padded_head_dim, first = chunk * SIZE % params.padded_head_dim;
        for (u32 e = 0; e < SIZE; e++) {
            if (first + e < params.head_dim) numbers[head * params.head_dim + first + e] = read[e];
        }
    }
    __syncthreads();
    if (params.kind && params.all_heads) {
        auto block_total = [&](float x) {
            const float sum = block_sum(x, scratch);
            __syncthreads();
            return sum;
        };
        const u32 queries = params.heads * params.head_dim, keys = params.kv_heads * params.head_dim;
        normalize_vector(numbers, params.query_weight, params.query_bias, queries, threadIdx.x, blockDim.x, params, block_total);
        normalize_vector(numbers + queries, params.key_weight, params.key_bias, keys, threadIdx.x, blockDim.x, params, block_total);
        __syncthreads();
    } else if (params.kind) {
        for (u32 head = warp; head < all; head += blockDim.x / 32) {
            const bool query = head < params.heads;
            normalize_vector(numbers + head * params.head_dim, query ? params.query_weight : params.key_weight,
                      query ? params.query_bias : params.key_bias, params.head_dim, lane, 32, params,
                      [](float x) { return warp_sum(x); });
        }
        __syncthreads();
    }
    if (params.rotary) {
        const u32 half = params.rotary_dims / 2, position = row - params.cu_seqlens[sequence_of(row, params.cu_seqlens, params.sequences)];
        const float* cosines = params.rotary + (u64)position * params.rotary_dims;
        for (u32 at = threadIdx.x; at < all * half; at += blockDim.x) {
            const u32 i = at % half;
            float* pair = numbers + at / half * params.head_dim + i;
            const float a = pair[0], b = pair[half], c = cosines[i], s = cosines[half + i];
            pair[0] = a * c - b * s;
            pair[half] = b * c + a * s;
        }
        __syncthreads();
    }
    for (u32 chunk = threadIdx.x; chunk < chunks; chunk += blockDim.x) {
        float written[SIZE];
        const u32 head = chunk * SIZE / params.padded_head_dim, first = chunk * SIZE % params.padded_head_dim;
        for (u32 e = 0; e < SIZE; e++) {
            written[e] = first + e < params.head_dim ? numbers[head * params.head_dim + first + e] : 0.0f;
        }
        *(uint4*)(params.qkv + chunk_offset(row, chunk, params.tiles_per_row)) = Element::write(written);
    }
}

extern "C" __global__ void __launch_bounds__(QK_NORM_ROPE_THREADS) qk_norm_rope_f32(const __grid_constant__ QkNormRopeParams params) { qk_norm_rope<F32>(params); }

extern "C" __global__ void __launch_bounds__(QK_NORM_ROPE_THREADS) qk_norm_rope_f16(const __grid_constant__ QkNormRopeParams params) { qk_norm_rope<F16>(params); }

extern "C" __global__ void __launch_bounds__(QK_NORM_ROPE_THREADS) qk_norm_rope_bf16(const __grid_constant__ QkNormRopeParams params) { qk_norm_rope<BF16>(params); }
