// Scaled dot-product attention: what all of its kernels share.
//
// Defined before: Element and MaskElement, in memory; Compute, float or double; widen, widen_mask and narrow between them; MASK, of
// NO_MASK, BOOL_MASK and ADDED_MASK; IS_CAUSAL; and HAS_LENGTHS.
//
// query [batches, heads, queries, dim], key [batches, heads / group, keys, dim] and value [batches, heads / group, keys, value_dim] have
// contiguous rows; other strides are in elements. output [batches, heads, queries, value_dim] is contiguous. mask [batches, heads, queries,
// keys] has any strides. A row in which no key takes part is 0. There are at most 2^30 queries and keys.

#pragma once
#include "common/activation.cuh"
#include "tensor/attention_launch.cuh"
#include "tensor/attention_tiles.cuh"

__device__ __forceinline__ float exp2_of(float x) { return exp2_approx(x); }
__device__ __forceinline__ double exp2_of(double x) { return exp2(x); }

// One head of a batch: the addresses of its rows, and how many keys it has.
struct Head {
    const Element *query, *key, *value;
    const MaskElement* mask;
    int keys;
    // The first row of its results.
    i64 row;
};

// The head `nth` of all batches.
__device__ __forceinline__ Head head_of(const Attention& attention, i64 nth) {
    const i64 batch = nth / attention.heads, head = nth % attention.heads, kv_head = head / attention.group;
    Head of;
    of.query = (const Element*)attention.query + batch * attention.query_strides[0] + head * attention.query_strides[1];
    of.key = (const Element*)attention.key + batch * attention.key_strides[0] + kv_head * attention.key_strides[1];
    of.value = (const Element*)attention.value + batch * attention.value_strides[0] + kv_head * attention.value_strides[1];
    of.mask = (const MaskElement*)attention.mask + batch * attention.mask_strides[0] + head * attention.mask_strides[1];
    of.keys = (int)attention.keys;
    if constexpr (HAS_LENGTHS) {
        of.keys = min(max(((const int*)attention.lengths)[batch], 0), of.keys);
    }
    of.row = nth * attention.queries;
    return of;
}

// Scores are multiplied by this to be base 2.
__device__ __forceinline__ Compute base2_scale(const Attention& attention) {
    return (Compute)(attention.scale * 1.4426950408889634);
}

// The end of the keys that queries before `query` attend to.
__device__ __forceinline__ int end_of_keys(const Head& head, int query) {
    return IS_CAUSAL && query < head.keys ? query : head.keys;
}

// A base-2 score with its mask; minus infinity if the key takes no part.
__device__ __forceinline__ Compute masked(const Attention& attention, const Head& head, int query, int key, Compute score) {
    if (query >= attention.queries || key >= end_of_keys(head, query + 1)) return -INFINITY;
    if constexpr (MASK != NO_MASK) {
        const MaskElement mask = head.mask[(i64)query * attention.mask_strides[2] + (i64)key * attention.mask_strides[3]];
        if constexpr (MASK == BOOL_MASK) return mask ? score : -INFINITY;
        return score + (Compute)widen_mask(mask) * (Compute)1.4426950408889634;
    }
    return score;
}

// What a row of accumulated values is multiplied by.
__device__ __forceinline__ Compute row_factor(Compute row_sum) { return row_sum == Compute(0) ? Compute(0) : Compute(1) / row_sum; }
