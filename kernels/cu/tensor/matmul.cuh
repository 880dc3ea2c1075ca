// Matrix products of any element type and strides, on the general-purpose cores: the schedule.
//
// OPERANDS, generated, says how elements are multiplied: Element, in memory; Sum, in which they are multiplied and added; widen,
// multiply_add and narrow; and store, which applies the epilogue.
#pragma once
#include "common/common.cuh"
#include "tensor/matmul_launch.cuh"

constexpr int EDGE = MATMUL_EDGE;  // rows and columns of a block's tile of the result
constexpr int DEPTH = 16;          // terms of the sums between two barriers
constexpr int SIDE = 16;           // the block is SIDE * SIDE threads, each with PER_SIDE * PER_SIDE elements
constexpr int PER_SIDE = EDGE / SIDE;
static_assert(SIDE * SIDE == MATMUL_THREADS, "the launch has other threads");

// Stages EDGE lines of DEPTH terms as to[term][line]; zeros beyond the matrix. Neighbouring threads read along the terms or the lines,
// whichever is contiguous.
template <bool TERMS_CONTIGUOUS, typename OPERANDS>
__device__ __forceinline__ void stage(const typename OPERANDS::Element* from, i64 first_line, i64 lines, i64 line_stride,
                                      i64 first_term, i64 terms, i64 term_stride,
                                      typename OPERANDS::Sum (*to)[EDGE + 1]) {
    constexpr int ALONG = TERMS_CONTIGUOUS ? DEPTH : EDGE;
#pragma unroll
    for (int i = threadIdx.x; i < EDGE * DEPTH; i += SIDE * SIDE) {
        const int term = TERMS_CONTIGUOUS ? i % ALONG : i / ALONG, line = TERMS_CONTIGUOUS ? i / ALONG : i % ALONG;
        const i64 row = first_line + line, column = first_term + term;
        const bool is_inside = row < lines && column < terms;
        to[term][line] = is_inside ? OPERANDS::widen(from[row * line_stride + column * term_stride]) : typename OPERANDS::Sum(0);
    }
}

template <bool A_BY_TERMS, bool B_BY_TERMS, bool HAS_BIAS, typename OPERANDS>
__device__ __forceinline__ void matmul(const MatMul& product) {
    typedef typename OPERANDS::Element Element;
    typedef typename OPERANDS::Sum Sum;
    __shared__ Sum a[DEPTH][EDGE + 1], b[DEPTH][EDGE + 1];
    const int x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
    const i64 m = product.m, n = product.n, k = product.k;
    const u64 across = (n + EDGE - 1) / EDGE, down = (m + EDGE - 1) / EDGE;
    for (u64 tile = blockIdx.x; tile < across * down * product.batch; tile += gridDim.x) {
        const i64 matrix = tile / (across * down);
        const i64 row = tile / across % down * EDGE, column = tile % across * EDGE;
        const Element* from_a = (const Element*)product.a + matrix * product.a_strides[0];
        const Element* from_b = (const Element*)product.b + matrix * product.b_strides[0];
        Sum sums[PER_SIDE][PER_SIDE] = {};
        for (i64 term = 0; term < k; term += DEPTH) {
            stage<A_BY_TERMS, OPERANDS>(from_a, row, m, product.a_strides[1], term, k, product.a_strides[2], a);
            stage<B_BY_TERMS, OPERANDS>(from_b, column, n, product.b_strides[2], term, k, product.b_strides[1], b);
            __syncthreads();
#pragma unroll
            for (int at = 0; at < DEPTH; ++at) {
#pragma unroll
                for (int i = 0; i < PER_SIDE; ++i) {
#pragma unroll
                    for (int j = 0; j < PER_SIDE; ++j) {
                        sums[i][j] = OPERANDS::multiply_add(a[at][y + i * SIDE], b[at][x + j * SIDE], sums[i][j]);
                    }
                }
            }
            __syncthreads();
        }
#pragma unroll
        for (int i = 0; i < PER_SIDE; ++i) {
#pragma unroll
            for (int j = 0; j < PER_SIDE; ++j) {
                const i64 at_row = row + y + i * SIDE, at_column = column + x + j * SIDE;
                if (at_row >= m || at_column >= n) continue;
                Sum sum = sums[i][j];
                if (HAS_BIAS) sum += OPERANDS::widen(((const Element*)product.bias)[at_column]);
                const i64 index = (matrix * m + at_row) * n + at_column;
                OPERANDS::store(OPERANDS::narrow(sum), index, ((Element*)product.output)[index]);
            }
        }
    }
}
