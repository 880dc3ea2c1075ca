// What happens to queries and keys before they meet: norms and rotations.

#include "encode.cuh"

#define LAYER_NORM 1
#define RMS_NORM 2

// encode_turn_{format}: norms of queries and keys, over each head or all heads together, then rotations; in place.
//   qkv: rows of heads of `padded` columns, `head` of them in use: `heads` of queries, `kv_heads` of keys, then others
//   query_weight, query_bias, key_weight, key_bias f32: as many numbers as are normalised together; biases may be null
//   table f32[.., dims]: of each position the cosines of dims / 2 angles, then their sines; null: no rotation
//   kind 0: no norm. together: all heads of a row are normalised together
// One block of 256 threads a row; dynamic shared memory: (heads + kv_heads) * head f32. Sums are in f32 by one fixed tree.
struct Turns {
    u8* qkv;
    const u32* starts;
    const float* query_weight;
    const float* query_bias;
    const float* key_weight;
    const float* key_bias;
    const float* table;
    u32 texts;
    u32 steps;
    u32 heads;
    u32 kv_heads;
    u32 head;
    u32 padded;
    u32 dims;
    u32 kind;
    u32 together;
    float epsilon;
};

// Normalises `count` numbers in shared memory by the threads of a warp (stride 32) or of the block.
template <typename Sum>
__device__ __forceinline__ void normalise(float* x, const float* weight, const float* bias, u32 count, u32 first,
                                          u32 stride, const Turns& turn, const Sum& sum_of) {
    float mean = 0.0f;
    if (turn.kind == LAYER_NORM) {
        float sum = 0.0f;
        for (u32 i = first; i < count; i += stride) sum += x[i];
        mean = sum_of(sum) / (float)count;
    }
    float squares = 0.0f;
    for (u32 i = first; i < count; i += stride) squares = fmaf(x[i] - mean, x[i] - mean, squares);
    const float scale = 1.0f / sqrtf(sum_of(squares) / (float)count + turn.epsilon);
    for (u32 i = first; i < count; i += stride) x[i] = fmaf((x[i] - mean) * scale, weight[i], bias ? bias[i] : 0.0f);
}

template <int ELEMENT>
__device__ __forceinline__ void turn_row(const Turns& turn) {
    follow_launches();
    typedef Elements<ELEMENT> Element;
    constexpr u32 EACH = Element::EACH;
    extern __shared__ float numbers[];
    __shared__ float scratch[32];
    const u32 row = blockIdx.x, all = turn.heads + turn.kv_heads, pieces = all * turn.padded / EACH;
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    for (u32 piece = threadIdx.x; piece < pieces; piece += blockDim.x) {
        float read[EACH];
        Element::read(*(const uint4*)(turn.qkv + place(row, piece, turn.steps)), read);
        const u32 head = piece * EACH / turn.padded, first = piece * EACH % turn.padded;
        for (u32 e = 0; e < EACH; e++) {
            if (first + e < turn.head) numbers[head * turn.head + first + e] = read[e];
        }
    }
    __syncthreads();
    if (turn.kind && turn.together) {
        auto over_block = [&](float x) {
            const float sum = block_sum(x, scratch);
            __syncthreads();
            return sum;
        };
        const u32 queries = turn.heads * turn.head, keys = turn.kv_heads * turn.head;
        normalise(numbers, turn.query_weight, turn.query_bias, queries, threadIdx.x, blockDim.x, turn, over_block);
        normalise(numbers + queries, turn.key_weight, turn.key_bias, keys, threadIdx.x, blockDim.x, turn, over_block);
        __syncthreads();
    } else if (turn.kind) {
        for (u32 head = warp; head < all; head += blockDim.x / 32) {
            const bool query = head < turn.heads;
            normalise(numbers + head * turn.head, query ? turn.query_weight : turn.key_weight,
                      query ? turn.query_bias : turn.key_bias, turn.head, lane, 32, turn,
                      [](float x) { return warp_sum(x); });
        }
        __syncthreads();
    }
    if (turn.table) {
        const u32 half = turn.dims / 2, position = row - turn.starts[text_of(row, turn.starts, turn.texts)];
        const float* cosines = turn.table + (u64)position * turn.dims;
        for (u32 at = threadIdx.x; at < all * half; at += blockDim.x) {
            const u32 i = at % half;
            float* pair = numbers + at / half * turn.head + i;
            const float a = pair[0], b = pair[half], c = cosines[i], s = cosines[half + i];
            pair[0] = a * c - b * s;
            pair[half] = b * c + a * s;
        }
        __syncthreads();
    }
    for (u32 piece = threadIdx.x; piece < pieces; piece += blockDim.x) {
        float written[EACH];
        const u32 head = piece * EACH / turn.padded, first = piece * EACH % turn.padded;
        for (u32 e = 0; e < EACH; e++) {
            written[e] = first + e < turn.head ? numbers[head * turn.head + first + e] : 0.0f;
        }
        *(uint4*)(turn.qkv + place(row, piece, turn.steps)) = Element::write(written);
    }
}

extern "C" __global__ void __launch_bounds__(256) encode_turn_f32(const __grid_constant__ Turns turn) { turn_row<F32>(turn); }

extern "C" __global__ void __launch_bounds__(256) encode_turn_f16(const __grid_constant__ Turns turn) { turn_row<F16>(turn); }

extern "C" __global__ void __launch_bounds__(256) encode_turn_bf16(const __grid_constant__ Turns turn) { turn_row<BF16>(turn); }
