// Attention over packed texts: what its kernels take, and the biases of scores.

#pragma once
#include "encode.cuh"

#define EVERYTHING 0xffffffffu

// out = softmax(scale * q k^T + biases) v, for each head within each text.
//   qkv: a row has heads of `padded` columns, the first `head` of them in use and the others zeros: `heads` of queries,
//   then `kv_heads` of keys, then as many of values; query head h reads head h / share. out: `heads` heads alike
//   A token reads those at most `window` away (EVERYTHING: all), and where `causal` none behind itself.
//   slopes f32[heads] or null: slope * |key - query| is taken from a score
//   wide: out is bfloat16 where the rest is binary16; the tensor cores' kernels ask for it
//   backwards: the last items first
//   relative f32[heads, 2 * reach - 1] or null: key - query + reach - 1 is added
//   items u32[.., 2]: a text and its first row of queries. `long_items` have 128 queries each of texts of more than 64
//   tokens, and a block does one head; then `whole_items` are texts of 33 to 64 tokens, alike; then `middle_items` are texts
//   of at most 32 tokens, two heads a block; then `short_items` of at most 16, four heads a block
struct Attention {
    const u8* qkv;
    u8* out;
    const u32* starts;
    const uint2* items;
    const float* slopes;
    const float* relative;
    u32 rows;
    u32 texts;
    u32 steps;
    u32 out_steps;
    u32 heads;
    u32 kv_heads;
    u32 share;
    u32 head;
    u32 padded;
    u32 reach;
    u32 causal;
    u32 window;
    u32 long_items;
    u32 whole_items;
    u32 middle_items;
    u32 short_items;
    float scale;
    u32 wide;
    u32 backwards;
    u32 unused;
};

// What is added to a score.
__device__ __forceinline__ float bias_of(const Attention& how, u32 head, u32 query, u32 key) {
    float bias = 0.0f;
    if (how.slopes) bias = -how.slopes[head] * (float)(key > query ? key - query : query - key);
    if (how.relative) bias += how.relative[(u64)head * (2 * how.reach - 1) + key + how.reach - 1 - query];
    return bias;
}

// Whether a query reads a key of its text.
__device__ __forceinline__ bool reads(const Attention& how, u32 query, u32 key, u32 length) {
    const u32 distance = key > query ? key - query : query - key;
    return key < length && distance <= how.window && !(how.causal && key > query);
}
