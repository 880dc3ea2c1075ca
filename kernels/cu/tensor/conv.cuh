// What the kernels of convolutions share. A position is one of all images of the output, row-major.
//
// OPERANDS, generated, says how elements are computed with: Element, in memory; Sum; widen, multiply_add and narrow; and store, which
// applies the epilogue.
#pragma once
#include "common/common.cuh"
#include "tensor/conv_launch.cuh"
#include "tensor/pack.cuh"

// The index of a position in the first channel of the output.
__device__ __forceinline__ i64 output_index(const Conv& conv, i64 position) {
    const i64 area = conv.rows * conv.columns, image = position / area;
    return image * conv.out_channels * area + (position - image * area);
}

// Writes V neighbouring positions of an output channel; `first` is the index of the first position in the first channel.
template <int V, bool HAS_BIAS, typename OPERANDS>
__device__ __forceinline__ void write_positions(const Conv& conv, i64 channel, i64 first, const typename OPERANDS::Sum (&sums)[V]) {
    typedef typename OPERANDS::Element Element;
    typedef typename OPERANDS::Sum Sum;
    const i64 index = first + channel * conv.rows * conv.columns;
    const Sum bias = HAS_BIAS ? OPERANDS::widen(((const Element*)conv.bias)[channel]) : Sum(0);
    Pack<Element, V> results;
#pragma unroll
    for (int e = 0; e < V; e++) {
        OPERANDS::store(OPERANDS::narrow(HAS_BIAS ? sums[e] + bias : sums[e]), index + e, results.at[e]);
    }
    results.store((Element*)conv.output + index);
}

// The element of a filter at a term, of which the channel varies first, then the kernel's columns and rows; beyond the channels of a group
// are zeros.
template <typename Element>
__device__ __forceinline__ Element filter_element(const Conv& conv, i64 out, i64 term) {
    const i64 group_channels = conv.channels / conv.groups, taps = conv.kernel[0] * conv.kernel[1];
    const i64 tap = term / conv.padded_channels, channel = term - tap * conv.padded_channels;
    return channel < group_channels ? ((const Element*)conv.weight)[(out * group_channels + channel) * taps + tap] : Element(0);
}

// The position of a term in the kernel. Terms are visited in steps of a fixed length.
struct Tap {
    int row, column, channel;

    __device__ __forceinline__ Tap(int first_channel) : row(0), column(0), channel(first_channel) {}

    __device__ __forceinline__ void normalize(const Conv& conv) {
        const int padded_channels = (int)conv.padded_channels;
        while (channel >= padded_channels) {
            channel -= padded_channels;
            if (++column == (int)conv.kernel[1]) {
                column = 0;
                ++row;
            }
        }
    }
};
