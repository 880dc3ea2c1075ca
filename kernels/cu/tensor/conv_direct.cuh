// Convolutions of groups with few channels or output channels: one thread for each result.
#pragma once
#include "tensor/conv.cuh"

// Index holds the number of results.
template <typename Index, bool HAS_BIAS, typename OPERANDS>
__device__ __forceinline__ void conv_direct(const Conv& conv) {
    typedef typename OPERANDS::Element Element;
    const Index index = (Index)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= (Index)(conv.batch * conv.out_channels * conv.rows * conv.columns)) return;
    const Index line = index / (Index)conv.columns, plane = line / (Index)conv.rows, image = plane / (Index)conv.out_channels;
    const i64 out = plane - image * (Index)conv.out_channels;
    const i64 group_channels = conv.channels / conv.groups, first_channel = out / (conv.out_channels / conv.groups) * group_channels;
    const i64 row = (i64)(line - plane * (Index)conv.rows) * conv.stride[0] - conv.padding[0];
    const i64 column = (i64)(index - line * (Index)conv.columns) * conv.stride[1] - conv.padding[1];
    const Element* filter = (const Element*)conv.weight + out * group_channels * conv.kernel[0] * conv.kernel[1];
    const Element* channel = (const Element*)conv.input + ((i64)image * conv.channels + first_channel) * conv.height * conv.width;
    typename OPERANDS::Sum sum[1] = {0};
    for (i64 nth = 0; nth < group_channels; nth++, channel += conv.height * conv.width) {
        for (i64 y = row, tap = 0; tap < conv.kernel[0]; tap++, y += conv.dilation[0]) {
            if (y < 0 || y >= conv.height) {
                filter += conv.kernel[1];
                continue;
            }
            i64 x = column;
            for (i64 tap = 0; tap < conv.kernel[1]; tap++, x += conv.dilation[1], filter++) {
                if (x < 0 || x >= conv.width) continue;
                sum[0] = OPERANDS::multiply_add(OPERANDS::widen(channel[y * conv.width + x]), OPERANDS::widen(*filter), sum[0]);
            }
        }
    }
    write_positions<1, HAS_BIAS, OPERANDS>(conv, out, (i64)index - out * conv.rows * conv.columns, sum);
}
