// Tiles of rows in shared memory, and the results of a warp, which leave by way of them. For attention on tensor cores.
#pragma once
#include "common/mma.cuh"
#include "tensor/attention.cuh"

#if __CUDA_ARCH__ >= 800

// The swizzled shared-memory offset of a 16-byte chunk of one of ROWS rows, which are cut into panels of 64 or 32 columns: free of bank
// conflicts for 8 consecutive rows.
template <u32 COLUMNS, u32 ROWS>
__device__ __forceinline__ u32 tile_offset(u32 row, u32 chunk) {
    if constexpr (COLUMNS % 64 == 0) return chunk / 8 * (ROWS * 128) + row * 128 + ((chunk % 8 ^ row % 8) << 4);
    else return chunk / 4 * (ROWS * 64) + row * 64 + ((chunk % 4 ^ row / 2 % 4) << 4);
}

// Writes the results of a warp's `count` queries from `query` on, which are rows from `row` on of a tile. The warp has stored them.
template <u32 COLUMNS, u32 ROWS>
__device__ __forceinline__ void write_rows(const Attention& attention, const Head& head, int query, u32 count, u32 tile, u32 row) {
    constexpr u32 CHUNKS = COLUMNS / 8;
    const u32 columns = (u32)attention.value_dim;
    for (u32 at = threadIdx.x % 32; at < count * CHUNKS; at += 32) {
        const u32 in_warp = at / CHUNKS, chunk = at % CHUNKS;
        if (query + in_warp >= attention.queries || 8 * chunk >= columns) continue;
        const uint4 chunk_of = load_shared_v4(tile + tile_offset<COLUMNS, ROWS>(row + in_warp, chunk));
        Element* to = (Element*)attention.output + (head.row + query + in_warp) * attention.value_dim + 8 * chunk;
        if (columns % 8 == 0) {
            *(uint4*)to = chunk_of;
            continue;
        }
        const u32 words[4] = {chunk_of.x, chunk_of.y, chunk_of.z, chunk_of.w};
#pragma unroll
        for (u32 e = 0; e < 8; e++) {
            if (8 * chunk + e < columns) to[e] = (Element)(words[e / 2] >> (e % 2 * 16));
        }
    }
}

#endif
