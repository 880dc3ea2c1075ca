// Elements by index: output[i] = input[i, index[i]].
//
// The source that includes this file defines before:
//   Word                      what is copied: an element, or several adjacent ones that have one index
//   Subscript                 type of the indices: int or long long
//   Index                     holds positions of the output: u32 or u64
//   RANK                      dimensions of the output in words, after neighbours were merged
//   WRAPS                     whether negative indices count from the end
//
// The arguments are words: words of the output; extent and stride of the dimension that is indexed; a report, which is not 0; addresses of
// input, index, output and status; extents; strides of input, index and output. Strides are in words, those of the index in indices.
//
// The status of an execution is report, index and extent of one that is out of range; the report is 0 before. Such an index reads nothing,
// and 0 is written.

#pragma once
#include "tensor/offsets.cuh"
#include "tensor/templates_launch.cuh"

constexpr int THREADS = WORDS_THREADS, UNROLL = INDEX_UNROLL;

static __device__ __noinline__ void report_index(u64* status, u64 report, i64 index, u64 extent) {
    if (atomicCAS(status, 0ull, report) != 0) return;
    status[1] = (u64)index;
    status[2] = extent;
}

// The offset in words that is added for the index, or -1 if it is out of range.
__device__ __forceinline__ i64 chosen_offset(const u64* words, i64 subscript) {
    const u64 extent = words[1];
    const i64 index = WRAPS && subscript < 0 ? (i64)((u64)subscript + extent) : subscript;
    if ((u64)index < extent) return index;
    report_index((u64*)words[7], words[3], subscript, extent);
    return -1;
}

__device__ __forceinline__ void copy_by_index(const u64* words) {
    const u64 count = words[0], stride = words[2];
    const Word* input = (const Word*)words[4];
    const Subscript* subscripts = (const Subscript*)words[5];
    Word* output = (Word*)words[6];
    const u64 first = (u64)blockIdx.x * (THREADS * UNROLL) + threadIdx.x;
    i64 offsets[UNROLL][3] = {};
    i64 chosen[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        const u64 at = first + u * THREADS;
        chosen[u] = -1;
        if (at >= count) continue;
        add_offsets<RANK, 3>((Index)at, words + 8, words + 8 + RANK, offsets[u]);
        chosen[u] = chosen_offset(words, (i64)subscripts[offsets[u][1]]);
    }
    Word values[UNROLL] = {};
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        if (chosen[u] >= 0) values[u] = input[offsets[u][0] + (i64)((u64)chosen[u] * stride)];
    }
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        if (first + u * THREADS < count) output[offsets[u][2]] = values[u];
    }
}
