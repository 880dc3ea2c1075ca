// Attention over packed sequences: contract, mask and biases.

#pragma once
#include "common/activation.cuh"
#include "common/tiled.cuh"
#include "launch/attention.cuh"
#include "launch/work_items.cuh"

// AttentionParams: out = softmax(scale * q k^T + bias) v, for each head within each sequence.
//   qkv: a row has heads of `padded_head_dim` columns, of which `head_dim` are in use and the others zeros: `heads` of queries,
//   then `kv_heads` of keys, then as many of values; query head h reads head h / group_size. out: `heads` heads alike
//   window: a token attends to tokens at most this far away (NO_WINDOW: all); causal: and to none after itself
//   slopes f32[heads] or null (ALiBi): slope * |key - query| is subtracted from a score
//   relative_bias f32[heads, 2 * max_seqlen - 1] or null: entry key - query + max_seqlen - 1 is added to a score
//   out_bf16: out is bfloat16 although q, k and v are binary16; for the tensor core kernels
//   reverse: the last work items first
//   work_items u32[.., 2]: a sequence and its first query row. `long_items` have LONG_QUERIES = 128 queries each, of sequences of more than
//   WHOLE_SEQUENCE = 64 tokens, with a block per head; then come `whole_items` of sequences of 33 to 64 tokens, with a block per head;
//   `middle_items` of at most 32 tokens, with a block per two heads; `short_items` of at most 16, with a block per four heads

// The bias of a score.
__device__ __forceinline__ float attention_bias(const AttentionParams& params, u32 head, u32 query, u32 key) {
    float bias = 0.0f;
    if (params.slopes) bias = -params.slopes[head] * (float)(key > query ? key - query : query - key);
    if (params.relative_bias) bias += params.relative_bias[(u64)head * (2 * params.max_seqlen - 1) + key + params.max_seqlen - 1 - query];
    return bias;
}

// Whether a query attends to a key of its sequence.
__device__ __forceinline__ bool is_visible(const AttentionParams& params, u32 query, u32 key, u32 length) {
    const u32 distance = key > query ? key - query : query - key;
    return key < length && distance <= params.window && !(params.causal && key > query);
}
