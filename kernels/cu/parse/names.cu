// Numbers names in the order of their first occurrence: lex_first_names, lex_name_ranks, lex_number_names, in this
// order after lex_tokens. They read the counts on the device, so a grid may be too large.
//   see LexBatch; writes payloads of names, name_starts, name_ends, name_bases

#include "parse/lex.cuh"

#define WORDS_A_THREAD 4u
#define WORDS_A_BLOCK (LEX_THREADS * WORDS_A_THREAD)
static_assert(WORDS_A_BLOCK == ROWS_PER_BLOCK, "the launch has other blocks");
#define TOKENS_A_BLOCK 1024u

// lex_first_names: marks first occurrences. Grid-stride: one thread per slot.
extern "C" __global__ void lex_first_names(LexBatch b) {
    if (is_full(b)) return;
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < b.name_cap; i += gridDim.x * blockDim.x) {
        const u32 first = ~b.name_firsts[i];
        if (first != ~0u) atomicOr(&b.first_bits[first >> 5], 1u << (first & 31));
    }
}

struct AddSums {
    __device__ u64 operator()(u64 first, u64 second) const { return first + second; }
};

// lex_name_ranks: first occurrences before each word of the bitmap, and one past the last.
extern "C" __global__ void __launch_bounds__(LEX_THREADS) lex_name_ranks(LexBatch b) {
    if (is_full(b)) return;
    __shared__ u32 scratch[33];
    __shared__ u32 ticket;
    __shared__ u32 before_block;
    const u32 words = b.counts->tokens / 32 + 1;
    if (threadIdx.x == 0) ticket = atomicAdd(&b.counts->rank_ticket, 1);
    __syncthreads();
    const u32 tile = ticket, first = tile * WORDS_A_BLOCK + threadIdx.x * WORDS_A_THREAD;
    if (tile * WORDS_A_BLOCK >= words) return;
    u32 counts[WORDS_A_THREAD], own = 0, total;
#pragma unroll
    for (u32 i = 0; i < WORDS_A_THREAD; i++) {
        counts[i] = first + i < words ? (u32)__popc(b.first_bits[first + i]) : 0;
        own += counts[i];
    }
    u32 before = block_exclusive_scan(own, scratch, &total);
    if (threadIdx.x < 32) {
        const u64 tiles_before = look_back(b.rank_sums, tile, (u64)total, 0, AddSums());
        if (threadIdx.x == 0) before_block = (u32)tiles_before;
    }
    __syncthreads();
    before += before_block;
#pragma unroll
    for (u32 i = 0; i < WORDS_A_THREAD; i++) {
        if (first + i < words) b.first_ranks[first + i] = before;
        before += counts[i];
    }
    if ((tile + 1) * WORDS_A_BLOCK >= words && threadIdx.x == 0) b.counts->names = before_block + total;
}

// The number of names whose first occurrence is before `token`.
__device__ __forceinline__ u32 names_before(const LexBatch& b, u32 token) {
    const u32 bits = b.first_bits[token >> 5] & ((1u << (token & 31)) - 1);
    return b.first_ranks[token >> 5] + (u32)__popc(bits);
}

__device__ bool is_same(const u8* a, const u8* b, u32 length) {
    for (u32 i = 0; i < length; i++)
        if (a[i] != b[i]) return false;
    return true;
}

// Numbers a name; marks a string of a source with carriage returns as changed.
__device__ void number_token(const LexBatch& b, u32 token, u32 first_source, u32 last_source) {
    const u32 kind = b.kinds[token], payload = b.payloads[token];
    const bool name = kind == T_NAME || (kind >= T_MATCH && kind <= T_TYPE);
    if (!name && kind != T_STRING) return;
    const u32 source = last_at_most(b.token_bases, first_source, last_source, token);
    if (kind == T_STRING) {
        if (payload & (STRING_RAW | STRING_TRIPLE) && b.carriage_returns[source]) b.payloads[token] = payload | STRING_CHANGED;
        return;
    }
    if (payload >= b.name_cap) return;
    const u32 first = ~b.name_firsts[payload], number = names_before(b, first);
    const u32 start = b.starts[token], end = b.ends[token];
    b.payloads[token] = number - names_before(b, b.token_bases[source]);
    if (first == token) {
        b.name_starts[number] = start;
        b.name_ends[number] = end;
    } else if (end - start > 8) {
        const u8* text = b.text + b.source_starts[source];
        const u32 other = b.starts[first], length = end - start;
        if (b.ends[first] - other != length || !is_same(text + start, text + other, length))
            flag(b, source, FLAG_NAME_TABLE);
    }
}

// lex_number_names: payloads and columns of names.
extern "C" __global__ void __launch_bounds__(LEX_THREADS) lex_number_names(LexBatch b) {
    if (is_full(b)) return;
    __shared__ u32 range[2];
    const u32 tokens = b.counts->tokens, sources = b.sources;
    for (u32 i = blockIdx.x * LEX_THREADS + threadIdx.x; i <= sources; i += gridDim.x * LEX_THREADS)
        b.name_bases[i] = names_before(b, b.token_bases[i]);
    for (u32 from = blockIdx.x * TOKENS_A_BLOCK; from < tokens; from += gridDim.x * TOKENS_A_BLOCK) {
        const u32 end = min(from + TOKENS_A_BLOCK, tokens);
        __syncthreads();
        if (threadIdx.x < 2)
            range[threadIdx.x] = last_at_most(b.token_bases, 0, sources - 1, threadIdx.x ? end - 1 : from);
        __syncthreads();
        for (u32 token = from + threadIdx.x; token < end; token += LEX_THREADS) number_token(b, token, range[0], range[1]);
    }
}
