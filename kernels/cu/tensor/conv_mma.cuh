// Convolutions on tensor cores, as products of packed filters, [out_channels, terms], and windows of packed images, [positions, terms]: the
// schedule. By wgmma on sm_90, by mma.sync on other devices from sm_80 on.
//
// A block of 256 threads computes CHANNELS output channels of a group at 128 positions, in steps of 128 bytes of terms: 64 of 16 bits or 32
// of 32 bits. Filters and windows of a step are rows of 128 bytes in shared memory, their chunks of 16 bytes swizzled as wgmma expects;
// STAGES steps take turns, and are filled by cp.async, with zeros in the padding.
//   dynamic shared memory: conv_mma_shared_bytes(CHANNELS)
// OPERANDS also names Mma, what multiplies; ELEMENT_BYTES are those of packed elements.
#pragma once
#include "common/wgmma.cuh"
#include "gemm/mainloop_mma.cuh"
#include "tensor/conv.cuh"

#if __CUDA_ARCH__ >= 800

constexpr int POSITIONS = MMA_POSITIONS, ROW_BYTES = MMA_ROW_BYTES, STAGES = MMA_STAGES, THREADS = CONV_THREADS;
// Floats from a channel to the next in the sums of a block; 8 modulo the banks, so that rows of fragments are free of conflicts.
constexpr int SUMS_PITCH = POSITIONS + 8;

// What a thread loads of each step: one chunk of every 32nd row.
template <int CHANNELS, int ELEMENT_BYTES>
struct ConvLoader {
    static constexpr int CHUNK = 16 / ELEMENT_BYTES, STEP = ROW_BYTES / ELEMENT_BYTES, ROWS = THREADS / 8;
    u64 filter, filters, images;
    i64 filter_stride, pixel_bytes;
    u64 window[POSITIONS / ROWS];
    int row[POSITIONS / ROWS], column[POSITIONS / ROWS];
    int filter_rows;
    u32 shared;
    Tap tap;

    __device__ __forceinline__ ConvLoader(const Conv& conv, u64 workspace, u32 group, u32 first_channel, u32 first_position)
        : filters(workspace), images(workspace + conv.images_offset), tap(threadIdx.x % 8 * CHUNK) {
        const u32 line = threadIdx.x / 8, outputs = (u32)(conv.out_channels / conv.groups), channel = first_channel + line;
        const i64 filter_bytes = conv.kernel[0] * conv.kernel[1] * conv.padded_channels * ELEMENT_BYTES;
        filter = filters + ((i64)group * outputs + channel) * filter_bytes + threadIdx.x % 8 * 16;
        filter_stride = ROWS * filter_bytes;
        filter_rows = channel < outputs ? (int)((outputs - channel + ROWS - 1) / ROWS) : 0;
        pixel_bytes = conv.groups * conv.padded_channels * ELEMENT_BYTES;
        const u32 rows = (u32)conv.rows, columns = (u32)conv.columns, positions = (u32)conv.batch * rows * columns;
#pragma unroll
        for (int i = 0; i < POSITIONS / ROWS; i++) {
            const u32 position = first_position + line + i * ROWS, y = position / columns, image = y / rows;
            // Beyond the last position, far in the padding.
            row[i] = position < positions ? (int)(y - image * rows) * (int)conv.stride[0] - (int)conv.padding[0] : -(1 << 30);
            column[i] = (int)(position - y * columns) * (int)conv.stride[1] - (int)conv.padding[1];
            const i64 pixel = ((i64)image * conv.height + row[i]) * conv.width + column[i];
            window[i] = images + pixel * pixel_bytes + (i64)group * conv.padded_channels * ELEMENT_BYTES;
        }
        shared = line * ROW_BYTES + ((threadIdx.x % 8 ^ line % 8) << 4);
        tap.normalize(conv);
    }

    // Starts to load the next step to a stage.
    __device__ __forceinline__ void load(const Conv& conv, u32 stage) {
        const bool is_term = tap.row < (int)conv.kernel[0];
        const int y = tap.row * (int)conv.dilation[0], x = tap.column * (int)conv.dilation[1];
        const i64 offset = ((i64)y * conv.width + x) * pixel_bytes + tap.channel * ELEMENT_BYTES;
#pragma unroll
        for (int i = 0; i < CHANNELS / ROWS; i++) {
            const bool is_inside = is_term && i < filter_rows;
            const u64 from = is_inside ? filter + i * filter_stride : filters;
            cp_async_or_zero(stage + shared + i * ROWS * ROW_BYTES, (const void*)from, is_inside ? 16 : 0);
        }
#pragma unroll
        for (int i = 0; i < POSITIONS / ROWS; i++) {
            const bool is_inside = is_term && (u32)(row[i] + y) < (u32)conv.height && (u32)(column[i] + x) < (u32)conv.width;
            const u64 from = is_inside ? window[i] + offset : images;
            const u32 to = stage + (CHANNELS + i * ROWS) * ROW_BYTES + shared;
            cp_async_l1_or_zero(to, (const void*)from, is_inside ? 16 : 0);
        }
        filter += ROW_BYTES;
        tap.channel += STEP;
        tap.normalize(conv);
    }
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// The sums of a thread. A warpgroup has 64 channels: two of them half of 128 channels each, or of the positions if there are 64.
template <int CHANNELS, typename Mma>
struct ConvSums {
    static constexpr int WIDTH = CHANNELS;
    float sums[WIDTH / 2];

    // Makes the thread's copies visible to the async proxy, after the following barrier.
    static __device__ __forceinline__ void copied() { fence_proxy_async(); }

    static __device__ __forceinline__ u32 first_channel() { return CHANNELS == 128 ? threadIdx.x / 128 * 64 : 0; }
    static __device__ __forceinline__ u32 first_position() { return CHANNELS == 128 ? 0 : threadIdx.x / 128 * 64; }

    __device__ __forceinline__ void start(u32 stage) {
        const u64 filters = smem_descriptor(stage + first_channel() * ROW_BYTES);
        const u64 windows = smem_descriptor(stage + (CHANNELS + first_position()) * ROW_BYTES);
        fence_accumulators(sums);
        wgmma_fence();
#pragma unroll
        for (u32 part = 0; part < 4; part++) Mma::mma(sums, filters + part * 2, windows + part * 2, 1);
        wgmma_commit();
        fence_accumulators(sums);
    }

    __device__ __forceinline__ void finish(u32) {
        wgmma_wait<0>();
        fence_accumulators(sums);
    }

    __device__ __forceinline__ void store(float* to) const {
        const u32 lane = threadIdx.x % 32, row = first_channel() + threadIdx.x / 32 % 4 * 16 + lane / 4;
#pragma unroll
        for (u32 j = 0; j < WIDTH / 8; j++) {
#pragma unroll
            for (u32 half = 0; half < 2; half++) {
                float* at = to + (row + 8 * half) * SUMS_PITCH + first_position() + 8 * j + lane % 4 * 2;
                *(float2*)at = make_float2(sums[4 * j + 2 * half], sums[4 * j + 2 * half + 1]);
            }
        }
    }
};

#else

// The sums of a thread. A warp has 64 channels at CHANNELS / 4 positions.
template <int CHANNELS, typename Mma>
struct ConvSums {
    static constexpr int WIDTH = CHANNELS / 4;
    float sums[4][WIDTH / 2];

    static __device__ __forceinline__ void copied() {}

    static __device__ __forceinline__ u32 first_channel() { return threadIdx.x / 32 / (POSITIONS / WIDTH) * 64; }
    static __device__ __forceinline__ u32 first_position() { return threadIdx.x / 32 % (POSITIONS / WIDTH) * WIDTH; }

    __device__ __forceinline__ void start(u32) {}

    __device__ __forceinline__ void finish(u32 stage) {
        multiply_k_tile<Mma, 64, WIDTH>(sums, stage, stage + CHANNELS * ROW_BYTES, first_channel(), first_position());
    }

    __device__ __forceinline__ void store(float* to) const {
        const u32 lane = threadIdx.x % 32;
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
#pragma unroll
            for (u32 j = 0; j < WIDTH / 8; j++) {
#pragma unroll
                for (u32 half = 0; half < 2; half++) {
                    const u32 row = first_channel() + 16 * i + 8 * half + lane / 4;
                    float* at = to + row * SUMS_PITCH + first_position() + 8 * j + lane % 4 * 2;
                    *(float2*)at = make_float2(sums[i][4 * j + 2 * half], sums[i][4 * j + 2 * half + 1]);
                }
            }
        }
    }
};

#endif

// Writes the sums of a block; V divides the positions of an image.
template <int CHANNELS, int V, bool HAS_BIAS, typename OPERANDS>
__device__ __forceinline__ void write_sums(const Conv& conv, const float* sums, u32 group, u32 first_channel, u32 first_position) {
    constexpr int PACKS = POSITIONS / V, LOAD = V < 4 ? V : 4;
    const u32 outputs = (u32)(conv.out_channels / conv.groups), at = threadIdx.x % PACKS * V;
    const i64 position = (i64)first_position + at;
    if (position >= conv.batch * conv.rows * conv.columns) return;
    const i64 first = output_index(conv, position);
    for (u32 row = threadIdx.x / PACKS; row < CHANNELS && first_channel + row < outputs; row += THREADS / PACKS) {
        float part[V];
#pragma unroll
        for (int e = 0; e < V; e += LOAD) {
            const auto pack = Pack<float, LOAD>::load(sums + row * SUMS_PITCH + at + e);
#pragma unroll
            for (int i = 0; i < LOAD; i++) part[e + i] = pack.at[i];
        }
        write_positions<V, HAS_BIAS, OPERANDS>(conv, (i64)group * outputs + first_channel + row, first, part);
    }
}

template <int CHANNELS, int V, bool HAS_BIAS, typename OPERANDS, int ELEMENT_BYTES>
__device__ __forceinline__ void conv_mma(const Conv& conv, u64 workspace) {
    extern __shared__ u8 dynamic_shared[];
    const u32 unaligned = smem_address(dynamic_shared), shared = (unaligned + MMA_ALIGNMENT - 1) & ~(MMA_ALIGNMENT - 1);
    constexpr u32 STAGE_BYTES = (CHANNELS + POSITIONS) * ROW_BYTES;
    static_assert(STAGES * STAGE_BYTES + MMA_ALIGNMENT == conv_mma_shared_bytes(CHANNELS), "the launch allocates another size");
    static_assert(CHANNELS * SUMS_PITCH * sizeof(float) <= STAGES * STAGE_BYTES, "the sums take the place of the stages");
    typedef ConvLoader<CHANNELS, ELEMENT_BYTES> Loader;
    const i64 terms = conv.kernel[0] * conv.kernel[1] * conv.padded_channels;
    const int k_tiles = (int)((terms + Loader::STEP - 1) / Loader::STEP);
    // Blocks that read the same windows are neighbours.
    const u32 tiles = (u32)((conv.out_channels / conv.groups + CHANNELS - 1) / CHANNELS), rest = blockIdx.x / tiles;
    const u32 first_channel = blockIdx.x % tiles * CHANNELS;
    const u32 group = rest % (u32)conv.groups, first_position = rest / (u32)conv.groups * POSITIONS;
    Loader loader(conv, workspace, group, first_channel, first_position);
    ConvSums<CHANNELS, typename OPERANDS::Mma> products = {};
#pragma unroll
    for (int step = 0; step < STAGES - 1; step++) {
        if (step < k_tiles) loader.load(conv, shared + step * STAGE_BYTES);
        cp_async_commit();
    }
    u32 stage = 0, free = STAGES - 1;
    for (int step = 0; step < k_tiles; step++) {
        cp_async_wait<STAGES - 2>();
        products.copied();
        // The step is there, and nobody reads the stage of the one before.
        __syncthreads();
        products.start(shared + stage * STAGE_BYTES);
        if (step + STAGES - 1 < k_tiles) loader.load(conv, shared + free * STAGE_BYTES);
        cp_async_commit();
        products.finish(shared + stage * STAGE_BYTES);
        free = stage;
        stage = stage + 1 == STAGES ? 0 : stage + 1;
    }
    cp_async_wait<0>();
    __syncthreads();
    float* sums = (float*)(dynamic_shared + (shared - unaligned));
    products.store(sums);
    __syncthreads();
    write_sums<CHANNELS, V, HAS_BIAS, OPERANDS>(conv, sums, group, first_channel, first_position);
}

#endif
