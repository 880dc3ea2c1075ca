// Products of 16-bit matrices on Hopper, [batch, m, k] by [batch, n, k], with bias and epilogue.
//
// The tensor maps are of [batch, rows, terms] with boxes of 64 terms, and 128 rows of `a` or 96 of `b`; and of the output with boxes of 16 rows
// and 64 columns. Blocks of a cluster have neighbouring rows, and each multicasts half of `b` to both.
//
// OPERANDS is that of tensor/matmul.cuh, with Wgmma, what multiplies.
#pragma once
#include "tensor/matmul_launch.cuh"
#include "tensor/pingpong.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

static_assert(BOX_COLUMNS == PINGPONG_TERMS && A_BOX_ROWS == PINGPONG_ROWS && 2 * B_BOX_ROWS == PINGPONG_COLUMNS && OUTPUT_BOX_ROWS == 16,
              "the copies of a block have other boxes");

template <bool HAS_BIAS, typename OPERANDS>
struct LinearProblem {
    typedef typename OPERANDS::Wgmma Wgmma;
    typedef typename OPERANDS::Element Element;
    static constexpr int STAGES = LINEAR_STAGES, BUFFERS = LINEAR_BUFFERS;
    const MatMul& product;
    const TensorMap &a, &b, &output;
    u32 k_tiles, across, down, pairs;
    int row, column, matrix;

    __device__ __forceinline__ LinearProblem(const MatMul& product, const TensorMap& a, const TensorMap& b, const TensorMap& output)
        : product(product), a(a), b(b), output(output) {
        k_tiles = (u32)((product.k + 63) / 64);
        across = (u32)((product.n + 191) / 192);
        down = (u32)((product.m + 255) / 256);
        pairs = across * down * (u32)product.batch;
    }

    __device__ __forceinline__ void start(u32 pair) {
        const u32 rest = pair / across;
        column = (int)(pair % across * 192);
        row = (int)(rest % down * 256 + blockIdx.x % 2 * 128);
        matrix = (int)(rest / down);
    }

    __device__ __forceinline__ void load(u32 to, u32 k_tile, u32 barrier) const {
        const int term = (int)(64 * k_tile), half = (int)(blockIdx.x % 2) * 96;
        // Matrices that a batch shares have one of them.
        tensor_load(to, a, term, row, product.a_strides[0] ? matrix : 0, barrier);
        const u32 columns = to + PingpongSmem<STAGES>::A_BYTES + half * 128;
        tensor_load_multicast<2>(columns, b, term, column + half, product.b_strides[0] ? matrix : 0, barrier);
    }

    // The bias of a column and the next, which are both inside or both outside.
    __device__ __forceinline__ float2 bias_at(int at) const {
        if (!HAS_BIAS || at >= (int)product.n) return make_float2(0.0f, 0.0f);
        const u32 pair = *(const u32*)((const Element*)product.bias + at);
        return make_float2(OPERANDS::widen((Element)pair), OPERANDS::widen((Element)(pair >> 16)));
    }

    __device__ __forceinline__ void write(const float (&sums)[2][96], u32 pair, ResultStaging<BUFFERS>& staging) {
        start(pair);
        const u32 lane = threadIdx.x % 32;
        const int warp_row = row + (int)(threadIdx.x / 32 % 4 * 16);
        const i64 n = (i64)product.n, first_of_lane = ((i64)matrix * (i64)product.m + warp_row + lane / 4) * n + column;
#pragma unroll
        for (int subtile = 0; subtile < 3; subtile++) {
            const int first_column = column + 64 * subtile;
            if (first_column >= (int)product.n) break;
            float2 bias[8];
#pragma unroll
            for (int j = 0; j < 8; j++) bias[j] = bias_at(first_column + 8 * j + (int)(lane % 4 * 2));
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float* from = sums[half] + 32 * subtile;
                const u32 buffer = staging.stage([&](u32 at, u32 right, u32 lower) {
                    const float2 of = HAS_BIAS ? bias[right / 8] : make_float2(0.0f, 0.0f);
                    const float low = HAS_BIAS ? from[at] + of.x : from[at], high = HAS_BIAS ? from[at + 1] + of.y : from[at + 1];
                    const i64 index = first_of_lane + (64 * half + 8 * lower) * n + 64 * subtile + right;
                    return stored<OPERANDS>(low, index) | stored<OPERANDS>(high, index + 1) << 16;
                });
                fence_proxy_async();
                __syncwarp();
                if (lane == 0) tensor_store(output, first_column, warp_row + 64 * half, matrix, buffer);
            }
        }
    }
};

template <bool HAS_BIAS, typename OPERANDS>
__device__ __forceinline__ void linear_sm90(const MatMul& product, const TensorMap& a, const TensorMap& b, const TensorMap& output) {
    prefetch_tensor_map(a);
    prefetch_tensor_map(b);
    pingpong(LinearProblem<HAS_BIAS, OPERANDS>(product, a, b, output));
}

#endif
