// Linear layers and attention in f32 arithmetic: for f32 models, for devices without the products of Hopper, and for heads
// that the tensor cores' kernel does not take.

#include "encode.cuh"
#include "encode_attention.cuh"

// Activations as the host's mathematics has them. Once in the code: it is asked 32 times by a thread.
__device__ __noinline__ float activate_any(float x, u32 activation) {
    if (activation == GELU) return 0.5f * x * erfcf(-0.70710678118654752f * x);
    if (activation == GELU_TANH) return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * fmaf(0.044715f * x * x, x, x)));
    if (activation == RELU) return fmaxf(x, 0.0f);
    if (activation == SILU) return x / (1.0f + expf(-x));
    return x;
}

__device__ __forceinline__ float activate_exact(float x, u32 activation) {
    return activation == PLAIN ? x : activate_any(x, activation);
}

// encode_linear_{format}_exact: a linear layer (see encode.cuh); products and sums in f32, in the order of k.
// One block of 256 threads for 128 x 64 sums; a thread has 8 x 4: rows thread / 16 + 16 i, and columns thread % 16 + 16 j,
// so that gate and the other half lie in one thread: columns thread % 16 of 16 are 8 of each.
#define SLICE 16

// Reads SLICE numbers of each of ROWS rows from `row` on to shared memory, transposed.
template <int ELEMENT, int ROWS>
__device__ __forceinline__ void read_slice(float (*to)[ROWS + 4], const u8* from, u32 row, u32 slice, u32 steps) {
    constexpr u32 EACH = Elements<ELEMENT>::EACH, PIECES = SLICE / EACH;
    for (u32 at = threadIdx.x; at < ROWS * PIECES; at += 256) {
        const u32 down = at / PIECES, piece = at % PIECES;
        float numbers[EACH];
        Elements<ELEMENT>::read(*(const uint4*)(from + place(row + down, slice * PIECES + piece, steps)), numbers);
#pragma unroll
        for (u32 e = 0; e < EACH; e++) to[piece * EACH + e][down] = numbers[e];
    }
}

template <int ELEMENT>
__device__ __forceinline__ void write_one(u8* out, u32 row, u32 column, u32 steps, float x) {
    constexpr u32 EACH = Elements<ELEMENT>::EACH;
    u8* to = out + place(row, column / EACH, steps) + column % EACH * (16 / EACH);
    if (ELEMENT == F32) *(float*)to = x;
    else *(u16*)to = ELEMENT == F16 ? f32_to_f16(x) : f32_to_bf16(x);
}

template <int ELEMENT>
__device__ __forceinline__ void linear_exact(const Linear& layer) {
    follow_launches();
    constexpr u32 EACH = Elements<ELEMENT>::EACH;
    __shared__ __align__(16) float rows[SLICE][128 + 4];
    __shared__ __align__(16) float weights[SLICE][64 + 4];
    const u32 across = (layer.columns + 63) / 64, row = blockIdx.x / across * 128, column = blockIdx.x % across * 64;
    const u32 x = threadIdx.x % 16, y = threadIdx.x / 16;
    float sums[8][4] = {};
    for (u32 slice = 0; slice < layer.steps * 8 * EACH / SLICE; slice++) {
        read_slice<ELEMENT, 128>(rows, layer.x, row, slice, layer.steps);
        read_slice<ELEMENT, 64>(weights, layer.weight, column, slice, layer.steps);
        __syncthreads();
#pragma unroll
        for (u32 k = 0; k < SLICE; k++) {
            float a[8], b[4];
#pragma unroll
            for (u32 i = 0; i < 8; i++) a[i] = rows[k][y + 16 * i];
#pragma unroll
            for (u32 j = 0; j < 4; j++) b[j] = weights[k][x + 16 * j];
#pragma unroll
            for (u32 i = 0; i < 8; i++) {
#pragma unroll
                for (u32 j = 0; j < 4; j++) sums[i][j] = fmaf(a[i], b[j], sums[i][j]);
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (u32 i = 0; i < 8; i++) {
#pragma unroll
        for (u32 j = 0; j < 4; j++) {
            const u32 at = column + x + 16 * j, width = layer.out_steps * 8 * EACH;
            float sum = sums[i][j];
            if (layer.bias) sum += layer.bias[at];
            if (layer.gated) {
                // Lanes x < 8 have the gate of the product, lanes x + 8 what it gates.
                const float other = __shfl_xor_sync(FULL_WARP, sum, 8);
                const u32 to = at / 16 * 8 + x;
                if (x < 8 && to < width) {
                    write_one<ELEMENT>(layer.out, row + y + 16 * i, to, layer.out_steps,
                                       activate_exact(sum, layer.activation) * other);
                }
            } else if (at < width && ELEMENT == BF16 && layer.activation == HALVES) {
                write_one<F16>(layer.out, row + y + 16 * i, at, layer.out_steps, in_f16(sum));
            } else if (at < width) {
                write_one<ELEMENT>(layer.out, row + y + 16 * i, at, layer.out_steps, activate_exact(sum, layer.activation));
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) encode_linear_f32_exact(const __grid_constant__ Linear layer) {
    linear_exact<F32>(layer);
}

extern "C" __global__ void __launch_bounds__(256) encode_linear_f16_exact(const __grid_constant__ Linear layer) {
    linear_exact<F16>(layer);
}

extern "C" __global__ void __launch_bounds__(256) encode_linear_bf16_exact(const __grid_constant__ Linear layer) {
    linear_exact<BF16>(layer);
}

// encode_attend_{format}_exact: attention (see encode_attention.cuh) for heads of any size up to 1024, padded to 32 bytes
// or not at all. One warp a row and head: a lane has a key of each 32, then each lane some of the columns.
//   grid: rows / 4 rounded up, heads; 128 threads; dynamic shared memory: 4 * 2 * head f32
template <int ELEMENT>
__device__ __forceinline__ float read_one(const u8* from, u32 row, u32 column, u32 steps) {
    constexpr u32 EACH = Elements<ELEMENT>::EACH;
    const u8* at = from + place(row, column / EACH, steps) + column % EACH * (16 / EACH);
    return ELEMENT == F32 ? *(const float*)at : number_of<ELEMENT>(*(const u16*)at);
}

template <int ELEMENT>
__device__ __forceinline__ void attend_exact(const Attention& how) {
    follow_launches();
    extern __shared__ float shared[];
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x & 31, row = blockIdx.x * 4 + warp, head = blockIdx.y;
    if (row >= how.rows) return;
    float* query = shared + warp * 2 * how.head;
    float* sums = query + how.head;
    const u32 text = text_of(row, how.starts, how.texts), start = how.starts[text], end = how.starts[text + 1];
    const u32 kv = how.heads * how.padded + head / how.share * how.padded, values = kv + how.kv_heads * how.padded;
    for (u32 i = lane; i < how.head; i += 32) {
        query[i] = read_one<ELEMENT>(how.qkv, row, head * how.padded + i, how.steps);
        sums[i] = 0.0f;
    }
    __syncwarp();
    const u32 at = row - start, length = end - start;
    const u32 first = at > how.window ? at - how.window : 0;
    u32 last = length - at > how.window ? at + how.window + 1 : length;
    if (how.causal && last > at + 1) last = at + 1;
    float most = -INFINITE, total = 0.0f;
    for (u32 from = first; from < last; from += 32) {
        const u32 key = from + lane;
        float score = -INFINITE;
        if (key < last) {
            float sum = 0.0f;
            for (u32 i = 0; i < how.head; i++) {
                sum = fmaf(query[i], read_one<ELEMENT>(how.qkv, start + key, kv + i, how.steps), sum);
            }
            score = sum * how.scale + bias_of(how, head, at, key);
        }
        const float peak = fmaxf(most, warp_max(score)), shrink = expf(most - peak), share = expf(score - peak);
        most = peak;
        total = total * shrink + warp_sum(share);
        const u32 count = min(32u, last - from);
        for (u32 i = lane; i < how.head; i += 32) sums[i] *= shrink;
        for (u32 k = 0; k < count; k++) {
            const float weight = __shfl_sync(FULL_WARP, share, k);
            for (u32 i = lane; i < how.head; i += 32) {
                sums[i] = fmaf(weight, read_one<ELEMENT>(how.qkv, start + from + k, values + i, how.steps), sums[i]);
            }
        }
    }
    for (u32 i = lane; i < how.padded; i += 32) {
        write_one<ELEMENT>(how.out, row, head * how.padded + i, how.out_steps, i < how.head ? sums[i] / total : 0.0f);
    }
}

extern "C" __global__ void __launch_bounds__(128) encode_attend_f32_exact(const __grid_constant__ Attention how) {
    attend_exact<F32>(how);
}

extern "C" __global__ void __launch_bounds__(128) encode_attend_f16_exact(const __grid_constant__ Attention how) {
    attend_exact<F16>(how);
}

extern "C" __global__ void __launch_bounds__(128) encode_attend_bf16_exact(const __grid_constant__ Attention how) {
    attend_exact<BF16>(how);
}
