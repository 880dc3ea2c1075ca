// Convolutions on the general-purpose cores, as products of filters, [out_channels, terms], and windows, [terms, positions], that are read
// in place: the schedule. Any type of floating-point numbers and any extents.
#pragma once
#include "tensor/conv.cuh"

constexpr int DEPTH = SIMT_DEPTH;  // terms between two barriers; the padded channels are a multiple
constexpr int SIDE = SIMT_SIDE;    // the block is SIDE * SIDE threads, each with PER_SIDE * PER_SIDE sums
static_assert(SIDE * SIDE == CONV_THREADS, "the launch has other threads");

// Packs filters to Sum[groups][terms][out_channels of a group].
template <typename OPERANDS>
__device__ __forceinline__ void pack_filters_simt(const Conv& conv, u64 workspace) {
    const i64 outputs = conv.out_channels / conv.groups, terms = conv.kernel[0] * conv.kernel[1] * conv.padded_channels;
    const i64 count = conv.out_channels * terms, stride = (i64)gridDim.x * blockDim.x;
    for (i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += stride) {
        const i64 line = at / outputs, out = line / terms * outputs + (at - line * outputs);
        const auto element = filter_element<typename OPERANDS::Element>(conv, out, line % terms);
        ((typename OPERANDS::Sum*)workspace)[at] = OPERANDS::widen(element);
    }
}

// A block computes 16 PER_SIDE channels of a group at 16 PER_SIDE positions. Two buffers take turns: while the block multiplies one, its
// threads read the next terms to registers.
template <int PER_SIDE, int V, bool HAS_BIAS, typename OPERANDS>
__device__ __forceinline__ void conv_simt(const Conv& conv, u64 workspace) {
    typedef typename OPERANDS::Element Element;
    typedef typename OPERANDS::Sum Sum;
    constexpr int EDGE = SIDE * PER_SIDE, LINES = SIDE * SIDE / EDGE, PASSES = DEPTH / LINES;
    constexpr int VECTOR = 16 / sizeof(Sum), QUADS = PER_SIDE / 4;
    __shared__ __align__(16) Sum filters[2][DEPTH][EDGE];
    __shared__ __align__(16) Sum windows[2][DEPTH][EDGE];
    const i64 group_channels = conv.channels / conv.groups, outputs = conv.out_channels / conv.groups;
    const i64 positions = conv.batch * conv.rows * conv.columns, area = conv.height * conv.width;
    const i64 terms = conv.kernel[0] * conv.kernel[1] * conv.padded_channels;
    const u32 tiles = (u32)((outputs + EDGE - 1) / EDGE), rest = blockIdx.x / tiles;
    const i64 first_channel = (i64)(blockIdx.x % tiles) * EDGE;
    const i64 group = rest % (u32)conv.groups, first_position = (i64)(rest / (u32)conv.groups) * EDGE;

    // What this thread reads: one channel and one position, of every LINES-th term.
    const int lane = threadIdx.x % EDGE, line = threadIdx.x / EDGE;
    const bool is_channel = first_channel + lane < outputs;
    const Sum* filter = (const Sum*)workspace + (group * terms + line) * outputs + first_channel + lane;
    const i64 position = first_position + lane, image = position / (conv.rows * conv.columns);
    const i64 at = position - image * conv.rows * conv.columns, at_row = at / conv.columns;
    const i64 row = at_row * conv.stride[0] - conv.padding[0], column = (at - at_row * conv.columns) * conv.stride[1] - conv.padding[1];
    const bool is_position = position < positions;
    const Element* plane = (const Element*)conv.input + (image * conv.channels + group * group_channels) * area;

    Tap tap(0);
    Sum next_filter[PASSES], next_window[PASSES];
    auto read = [&]() {
        const i64 y = row + tap.row * conv.dilation[0], x = column + tap.column * conv.dilation[1];
        const bool is_inside = is_position && y >= 0 && y < conv.height && x >= 0 && x < conv.width;
        const Element* from = plane + y * conv.width + x;
#pragma unroll
        for (int pass = 0; pass < PASSES; pass++) {
            const i64 channel = tap.channel + pass * LINES + line;
            next_filter[pass] = is_channel ? filter[pass * LINES * outputs] : Sum(0);
            next_window[pass] = is_inside && channel < group_channels ? OPERANDS::widen(from[channel * area]) : Sum(0);
        }
        filter += DEPTH * outputs;
        tap.channel += DEPTH;
        tap.normalize(conv);
    };
    auto publish = [&](int buffer) {
#pragma unroll
        for (int pass = 0; pass < PASSES; pass++) {
            filters[buffer][pass * LINES + line][lane] = next_filter[pass];
            windows[buffer][pass * LINES + line][lane] = next_window[pass];
        }
    };

    // Its sums: of four neighbouring channels and positions, and those 64 further.
    const int x = threadIdx.x % SIDE * 4, y = threadIdx.x / SIDE * 4;
    Sum sums[PER_SIDE][PER_SIDE] = {};
    if (terms > 0) {
        read();
        publish(0);
    }
    __syncthreads();
    for (i64 term = 0; term < terms; term += DEPTH) {
        const int buffer = (int)(term / DEPTH) & 1;
        const bool is_last = term + DEPTH >= terms;
        if (!is_last) read();
#pragma unroll
        for (int depth = 0; depth < DEPTH; depth++) {
            Sum a[PER_SIDE], b[PER_SIDE];
#pragma unroll
            for (int i = 0; i < PER_SIDE; i += VECTOR) {
                const int from = i % 4 + i / 4 * 4 * SIDE;
                const auto pack_a = Pack<Sum, VECTOR>::load(&filters[buffer][depth][y + from]);
                const auto pack_b = Pack<Sum, VECTOR>::load(&windows[buffer][depth][x + from]);
#pragma unroll
                for (int e = 0; e < VECTOR; e++) {
                    a[i + e] = pack_a.at[e];
                    b[i + e] = pack_b.at[e];
                }
            }
#pragma unroll
            for (int i = 0; i < PER_SIDE; i++) {
#pragma unroll
                for (int j = 0; j < PER_SIDE; j++) sums[i][j] = OPERANDS::multiply_add(a[i], b[j], sums[i][j]);
            }
        }
        if (!is_last) publish(buffer ^ 1);
        __syncthreads();
    }

#pragma unroll
    for (int quad = 0; quad < QUADS; quad++) {
#pragma unroll
        for (int from = 0; from < 4; from += V) {
            const i64 position = first_position + x + quad * 4 * SIDE + from;
            if (position >= positions) continue;
            const i64 first = output_index(conv, position);
#pragma unroll
            for (int i = 0; i < PER_SIDE; i++) {
                const i64 channel = first_channel + y + i % 4 + i / 4 * 4 * SIDE;
                if (channel >= outputs) continue;
                Sum part[V];
#pragma unroll
                for (int e = 0; e < V; e++) part[e] = sums[i][quad * 4 + from + e];
                write_positions<V, HAS_BIAS, OPERANDS>(conv, group * outputs + channel, first, part);
            }
        }
    }
}
