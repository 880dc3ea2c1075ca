// Copies of tiles of a tensor by the tensor memory accelerator (TMA) of Hopper; sm_90a only.
//
// A tensor map, which the host encodes, describes a tensor in global memory and the box that a copy transfers. Boxes here are 128 bytes
// wide and have the 128-byte swizzle: in shared memory a row is 128 bytes, as `smem_descriptor` expects. Elements outside of the tensor
// are loaded as zeros, and are not stored. Coordinates start with the innermost dimension.
#pragma once
#include "common/wgmma.cuh"
#include "launch/tensor_map.cuh"

struct __align__(64) TensorMap {
    u64 words[16];
};
static_assert(sizeof(TensorMap) == TENSOR_MAP_BYTES, "the host passes another size");

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

__device__ __forceinline__ void prefetch_tensor_map(const TensorMap& map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// Starts to load a box of a tensor of three or four dimensions; it completes on the mbarrier.
__device__ __forceinline__ void tensor_load(u32 shared, const TensorMap& map, int x, int y, int z, u32 barrier) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared),
                 "l"(&map), "r"(x), "r"(y), "r"(z), "r"(barrier)
                 : "memory");
}

__device__ __forceinline__ void tensor_load(u32 shared, const TensorMap& map, int x, int y, int z, int w, u32 barrier) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(shared),
                 "l"(&map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(barrier)
                 : "memory");
}

// The same for all BLOCKS blocks of the cluster, at the same offsets in each.
template <u32 BLOCKS>
__device__ __forceinline__ void tensor_load_multicast(u32 shared, const TensorMap& map, int x, int y, int z, u32 barrier) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(
            shared),
        "l"(&map), "r"(x), "r"(y), "r"(z), "r"(barrier), "h"((u16)((1 << BLOCKS) - 1))
        : "memory");
}

// Starts to load windows of images, [batch, height, width, channels]: for as many positions as the map says, from the one at (column, row,
// image) on, the pixel that is `column_offset` and `row_offset` further.
__device__ __forceinline__ void tensor_load_im2col(u32 shared, const TensorMap& map, int channel, int column, int row, int image,
                                                   u16 column_offset, u16 row_offset, u32 barrier) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};" ::"r"(
            shared),
        "l"(&map), "r"(channel), "r"(column), "r"(row), "r"(image), "r"(barrier), "h"(column_offset), "h"(row_offset)
        : "memory");
}

// Starts to store a box, in a bulk group by itself.
__device__ __forceinline__ void tensor_store(const TensorMap& map, int x, int y, int z, u32 shared) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(&map), "r"(x), "r"(y), "r"(z), "r"(shared)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

#endif
