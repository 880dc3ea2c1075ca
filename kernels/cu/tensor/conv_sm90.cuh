// Convolutions of 16-bit types on Hopper, as products of packed filters, [out_channels, terms], and windows of packed images, [positions, terms].
//
// The tensor maps are of filters, [out_channels, taps, channels] with boxes of 64 channels of a tap of 64 filters, and of images, with windows of
// 64 channels at 192 positions (TMA's im2col mode). There is one group. Blocks of a cluster have neighbouring positions, and each multicasts half
// of the filters to both. Terms are visited by taps, row-major, and 64 channels at a time.
//
// OPERANDS is that of tensor/conv.cuh, with Wgmma, what multiplies. V positions are written at a time, and divide those of an image.
#pragma once
#include "tensor/conv.cuh"
#include "tensor/pingpong.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <int V, bool HAS_BIAS, typename OPERANDS>
struct ConvProblem {
    typedef typename OPERANDS::Wgmma Wgmma;
    typedef typename OPERANDS::Element Element;
    static constexpr int STAGES = SM90_STAGES, BUFFERS = SM90_BUFFERS;
    static constexpr u32 PER_BLOCK = PINGPONG_COLUMNS;
    const Conv& conv;
    const TensorMap &filters, &images;
    u32 k_tiles, pairs, channel_tiles, per_tap;
    u32 channel, position;
    int input_column, input_row, image;
    Tap tap;

    __device__ __forceinline__ ConvProblem(const Conv& conv, const TensorMap& filters, const TensorMap& images)
        : conv(conv), filters(filters), images(images), tap(0) {
        per_tap = (u32)((conv.padded_channels + 63) / 64);
        k_tiles = (u32)(conv.kernel[0] * conv.kernel[1]) * per_tap;
        channel_tiles = (u32)((conv.out_channels + 127) / 128);
        pairs = channel_tiles * (u32)((positions() + 2 * PER_BLOCK - 1) / (2 * PER_BLOCK));
    }

    __device__ __forceinline__ i64 positions() const { return conv.batch * conv.rows * conv.columns; }

    __device__ __forceinline__ void locate(u32 pair) {
        channel = pair % channel_tiles * 128;
        position = (pair / channel_tiles * 2 + blockIdx.x % 2) * PER_BLOCK;
    }

    __device__ __forceinline__ void start(u32 pair) {
        locate(pair);
        const u32 rows = (u32)conv.rows, columns = (u32)conv.columns, y = position / columns;
        // Beyond the last position, an image that does not exist.
        image = (int)(y / rows);
        input_column = (int)(position - y * columns) * (int)conv.stride[1] - (int)conv.padding[1];
        input_row = (int)(y - image * rows) * (int)conv.stride[0] - (int)conv.padding[0];
        tap = Tap(0);
    }

    __device__ __forceinline__ void load(u32 to, u32, u32 barrier) {
        const u32 half = blockIdx.x % 2 * 64;
        const int nth = tap.row * (int)conv.kernel[1] + tap.column;
        tensor_load_multicast<2>(to + half * 128, filters, tap.channel, nth, (int)(channel + half), barrier);
        tensor_load_im2col(to + PingpongSmem<STAGES>::A_BYTES, images, tap.channel, input_column, input_row, image,
                           (u16)(tap.column * (int)conv.dilation[1]), (u16)(tap.row * (int)conv.dilation[0]), barrier);
        tap.channel += 64;
        if (tap.channel >= (int)conv.padded_channels) {
            tap.channel = 0;
            if (++tap.column == (int)conv.kernel[1]) {
                tap.column = 0;
                ++tap.row;
            }
        }
    }

    // Writes a staged tile of 16 channels and 64 positions.
    __device__ __forceinline__ void write_staged(u32 buffer, u32 first_channel, u32 first_position) const {
        constexpr u32 PACKS = 64 / V, ROWS = PACKS < 32 ? 32 / PACKS : 1;
        const u32 lane = threadIdx.x % 32;
#pragma unroll
        for (u32 at = lane % PACKS; at < PACKS; at += 32) {
            const i64 of = (i64)first_position + at * V, area = conv.rows * conv.columns;
            if (of >= positions()) return;
            const i64 first = output_index(conv, of);
#pragma unroll
            for (u32 row = lane / PACKS; row < 16; row += ROWS) {
                if (first_channel + row >= conv.out_channels) break;
                Pack<Element, V> results;
                load_shared<V>(staged(buffer, row, at * V / 8) + at * V % 8 * 2, results);
                results.store((Element*)conv.output + first + (i64)(first_channel + row) * area);
            }
        }
    }

    template <int N>
    static __device__ __forceinline__ void load_shared(u32 from, Pack<Element, N>& to) {
        typename Pack<Element, N>::Word word;
        if constexpr (N == 8) word = load_shared_v4(from);
        else if constexpr (N == 4) asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(word.x), "=r"(word.y) : "r"(from) : "memory");
        else if constexpr (N == 2) asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(from) : "memory");
        else asm volatile("ld.shared.u16 %0, [%1];" : "=h"(word) : "r"(from) : "memory");
        memcpy(to.at, &word, sizeof(word));
    }

    __device__ __forceinline__ void write(const float (&sums)[2][96], u32 pair, ResultStaging<BUFFERS>& staging) {
        locate(pair);
        const u32 warp_channel = channel + threadIdx.x / 32 % 4 * 16;
        const i64 area = conv.rows * conv.columns;
#pragma unroll
        for (u32 half = 0; half < 2; half++) {
            const u32 first_channel = warp_channel + 64 * half, of_lane = first_channel + threadIdx.x % 32 / 4;
            float bias[2] = {};
#pragma unroll
            for (u32 lower = 0; HAS_BIAS && lower < 2; lower++) {
                if (of_lane + 8 * lower < conv.out_channels) bias[lower] = OPERANDS::widen(((const Element*)conv.bias)[of_lane + 8 * lower]);
            }
#pragma unroll
            for (u32 subtile = 0; subtile < 3; subtile++) {
                const u32 first_position = position + 64 * subtile;
                const float* from = sums[half] + 32 * subtile;
                const u32 buffer = staging.stage([&](u32 at, u32 right, u32 lower) {
                    const float low = HAS_BIAS ? from[at] + bias[lower] : from[at], high = HAS_BIAS ? from[at + 1] + bias[lower] : from[at + 1];
                    const i64 of_channel = (i64)(of_lane + 8 * lower) * area, of_position = (i64)first_position + right;
                    return stored<OPERANDS>(low, output_index(conv, of_position) + of_channel) |
                           stored<OPERANDS>(high, output_index(conv, of_position + 1) + of_channel) << 16;
                });
                __syncwarp();
                write_staged(buffer, first_channel, first_position);
                __syncwarp();
            }
        }
    }
};

template <int V, bool HAS_BIAS, typename OPERANDS>
__device__ __forceinline__ void conv_sm90(const Conv& conv, const TensorMap& filters, const TensorMap& images) {
    prefetch_tensor_map(filters);
    prefetch_tensor_map(images);
    pingpong(ConvProblem<V, HAS_BIAS, OPERANDS>(conv, filters, images));
}

#endif
