// The softmax of attention over blocks of keys, for scores that lie as mma.sync leaves them (Milakov and Gimelshein, "Online normalizer
// calculation for softmax", 2018).

#pragma once
#include "common/activation.cuh"

// Turns base-2 scores of 16 queries, in units of `score_scale` > 0, into unnormalised probabilities with a new row maximum, and updates the
// row sums. `correction` is what accumulators of each row must be multiplied by. A lane has 2 rows, elements 0, 1 and 2, 3 of each tile, and
// its part of their sums.
template <int SCORES>
__device__ __forceinline__ void softmax_of_tile(float (&scores)[SCORES][4], float (&row_max)[2], float (&row_sum)[2], float (&correction)[2],
                                                float score_scale) {
#pragma unroll
    for (u32 h = 0; h < 2; h++) {
        float new_max = scores[0][2 * h];
#pragma unroll
        for (u32 j = 0; j < SCORES; j++) new_max = fmaxf(new_max, fmaxf(scores[j][2 * h], scores[j][2 * h + 1]));
        new_max = fmaxf(new_max, __shfl_xor_sync(FULL_WARP, new_max, 1));
        new_max = fmaxf(new_max, __shfl_xor_sync(FULL_WARP, new_max, 2));
        new_max = fmaxf(new_max * score_scale, row_max[h]);
        // A fully masked row has no maximum yet; any finite one serves.
        const float from = new_max == -INFINITY ? 0.0f : new_max;
        correction[h] = exp2_approx(row_max[h] - from);
        float sum = 0.0f;
        row_max[h] = new_max;
#pragma unroll
        for (u32 j = 0; j < SCORES; j++) {
#pragma unroll
            for (u32 e = 0; e < 2; e++) {
                float& score = scores[j][2 * h + e];
                score = exp2_approx(fmaf(score, score_scale, -from));
                sum += score;
            }
        }
        row_sum[h] = fmaf(row_sum[h], correction[h], sum);
    }
}

// Multiplies the accumulators of each row.
template <int VALUES>
__device__ __forceinline__ void rescale_rows(float (&acc)[VALUES][4], const float (&correction)[2]) {
#pragma unroll
    for (u32 i = 0; i < VALUES; i++) {
#pragma unroll
        for (u32 e = 0; e < 4; e++) acc[i][e] *= correction[e / 2];
    }
}

// Both.
template <int SCORES, int VALUES>
__device__ __forceinline__ void online_softmax(float (&scores)[SCORES][4], float (&acc)[VALUES][4], float (&row_max)[2], float (&row_sum)[2],
                                               float score_scale) {
    float correction[2];
    softmax_of_tile(scores, row_max, row_sum, correction, score_scale);
    rescale_rows(acc, correction);
}
