// The first elements of tiles of rows in order, by Batcher's bitonic sort in shared memory.
//
// The source that includes this file defines, besides what sort_key.cuh needs:
//   SIZE                      elements of a tile, a power of two
//   TILES                     tiles of a block, which all have SIZE elements
//   READS_ELEMENTS            whether tiles are of elements, else of the entries that an earlier launch kept
//   WRITES_INDICES            whether indices are written, else entries for a later launch
//
// The arguments are words: addresses of what is read and written; rows; elements or entries of a row; tiles of a row; what is kept of a tile.
//
// Entries are all different, because they hold the index of their element: the order is stable, whichever tiles they meet in.

#pragma once
#include "tensor/sort_key.cuh"
#include "tensor/templates_launch.cuh"

constexpr u32 SORT_THREADS = WORDS_THREADS;

template <typename KEY>
struct Entry;

// Key and index in one word.
template <>
struct Entry<u32> {
    u64 bits;

    static __device__ __forceinline__ Entry of(u32 key, u32 index) { return {(u64)key << 32 | index}; }
    __device__ __forceinline__ bool operator<(const Entry& other) const { return bits < other.bits; }
    __device__ __forceinline__ u32 index() const { return (u32)bits; }
};

template <>
struct Entry<u64> {
    u64 key, at;

    static __device__ __forceinline__ Entry of(u64 key, u32 index) { return {key, index}; }
    __device__ __forceinline__ bool operator<(const Entry& other) const {
        return key < other.key || (key == other.key && at < other.at);
    }
    __device__ __forceinline__ u32 index() const { return (u32)at; }
};

typedef Entry<Key> SortEntry;

// The entry at a position of a row; after the last one, an entry that comes after all others.
__device__ __forceinline__ SortEntry sort_entry(const u64* words, u64 row, u64 at) {
    const u64 columns = words[3];
    if (row >= words[2] || at >= columns) return SortEntry::of((Key)~(Key)0, 0xffffffffu);
    if constexpr (READS_ELEMENTS) return SortEntry::of(sort_key(((const Element*)words[0])[row * columns + at]), (u32)at);
    else return ((const SortEntry*)words[0])[row * columns + at];
}

__device__ __forceinline__ void sort_tiles(const u64* words) {
    __shared__ SortEntry entries[TILES * SIZE];
    const u64 tiles = words[4], kept = words[5];
    for (u32 at = threadIdx.x; at < TILES * SIZE; at += SORT_THREADS) {
        const u64 list = (u64)blockIdx.x * TILES + at / SIZE, row = list / tiles;
        entries[at] = sort_entry(words, row, (list - row * tiles) * SIZE + at % SIZE);
    }
    for (u32 size = 2; size <= SIZE; size *= 2) {
        for (u32 step = size / 2; step > 0; step /= 2) {
            __syncthreads();
            for (u32 pair = threadIdx.x; pair < TILES * SIZE / 2; pair += SORT_THREADS) {
                const u32 low = (pair & ~(step - 1)) * 2 + (pair & (step - 1)), high = low + step;
                const SortEntry a = entries[low], b = entries[high];
                const bool is_ascending = (low & (SIZE - 1) & size) == 0;
                if ((b < a) == is_ascending) {
                    entries[low] = b;
                    entries[high] = a;
                }
            }
        }
    }
    __syncthreads();
    for (u32 slot = 0; slot < TILES; slot++) {
        const u64 list = (u64)blockIdx.x * TILES + slot;
        if (list >= words[2] * tiles) break;
        for (u64 at = threadIdx.x; at < kept; at += SORT_THREADS) {
            const SortEntry entry = entries[slot * SIZE + at];
            if constexpr (WRITES_INDICES) ((i64*)words[1])[list * kept + at] = entry.index();
            else ((SortEntry*)words[1])[list * kept + at] = entry;
        }
    }
}
