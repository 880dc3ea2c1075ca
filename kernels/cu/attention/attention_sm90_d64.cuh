// Attention with heads of 32 or 64 columns on Hopper (wgmma). On other devices the kernels are empty.

#pragma once
#include "attention/attention_mma.cuh"
#include "common/wgmma.cuh"

// attention_sm90_{D}: the contract of attention_mma_{D}_long; an item may be of an empty sequence. Heads of 32 columns come in
// even number, each with its own keys: two of them share a 128-byte column and are processed together.
// A team of two consumer warpgroups takes work items and columns in turn, with 64 queries each, or for heads of 32 columns one head
// each of the same 64 queries. A producer warp loads queries, and 64 keys and values at a time, running ahead into the next item. A
// block has two such teams. Rows are loaded from a multiple of 8 of the packed batch, because the swizzle depends on the row in the
// batch; products start at the sequence's own first row, so that the order of sums depends on the sequence alone.
//   D64_THREADS threads, one block a multiprocessor; dynamic shared memory: D64_SMEM_BYTES
#define KV_TILE 64
#define CONSUMER_REGISTERS 112
// How far, in powers of two, a score may exceed the running maximum before the accumulators are rescaled. Probabilities stay within
// binary16.
#define RESCALE_THRESHOLD 8.0f
static_assert(D64_THREADS == 5 * 128, "two warpgroups for each team, and the producers'");
static_assert(KV_TILE_BYTES == (KV_TILE + 8) * 128 && Q_TILE_BYTES == (LONG_QUERIES + 8) * 128, "tiles and what precedes them");
static_assert(2 * KV_STAGES * KV_TILE_BYTES + 2 * Q_TILE_BYTES + 2 * 32 + KV_STAGES * 24 + 2 * 16 <= TEAM_SMEM_BYTES, "work items and barriers");

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

__device__ __forceinline__ void store_words(u32 shared, u32 a, u32 b, u32 c, u32 d) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

// Heads in a 128-byte column, and queries of a team's tile.
template <int D>
constexpr u32 HEADS_PER_COLUMN = D < COLUMN_WIDTH ? COLUMN_WIDTH / D : 1;
template <int D>
constexpr u32 TEAM_Q_TILE = LONG_QUERIES / HEADS_PER_COLUMN<D>;

// A team's unit of work: a tile of queries of a sequence and column, and the range of keys they attend to.
struct WorkItem {
    u32 start, length, query, column, first, last;
};

template <int D>
__device__ __forceinline__ WorkItem work_item_at(const AttentionParams& params, u32 at) {
    const u32 columns = params.heads / HEADS_PER_COLUMN<D>, tile = at % HEADS_PER_COLUMN<D>, pair = at / HEADS_PER_COLUMN<D>;
    const uint2 item = params.work_items[pair / columns];
    const u32 start = params.cu_seqlens[item.x], length = params.cu_seqlens[item.x + 1] - start;
    const u32 query = item.y + tile * TEAM_Q_TILE<D>;
    // The item has fewer queries.
    if (query >= length) return {start, 0, 0, 0, 0, 0};
    u32 first = 0, last = length;
    if (params.window != NO_WINDOW) {
        first = query > params.window ? (query - params.window) / KV_TILE * KV_TILE : 0;
        last = min(last, min(query + TEAM_Q_TILE<D> - 1, length) + min(params.window, length) + 1);
    }
    if (params.causal) last = min(last, query + TEAM_Q_TILE<D>);
    return {start, length, query, pair % columns, first, last};
}

// A team's shared memory: stages of keys and values, two slots of queries with their work items, and barriers.
struct SmemLayout {
    u32 stages;

    __device__ __forceinline__ u32 keys(u32 stage) const { return stages + stage * 2 * KV_TILE_BYTES; }
    __device__ __forceinline__ u32 values(u32 stage) const { return keys(stage) + KV_TILE_BYTES; }
    __device__ __forceinline__ u32 queries(u32 slot) const { return keys(KV_STAGES) + slot * Q_TILE_BYTES; }
    __device__ __forceinline__ u32 work_item(u32 slot) const { return queries(2) + slot * 32; }
    __device__ __forceinline__ u32 barriers() const { return work_item(2); }
    // Per stage: keys are full, values are full, the stage is empty.
    __device__ __forceinline__ u32 full(u32 stage) const { return barriers() + stage * 24; }
    __device__ __forceinline__ u32 values_full(u32 stage) const { return full(stage) + 8; }
    __device__ __forceinline__ u32 empty(u32 stage) const { return full(stage) + 16; }
    // Per slot of queries.
    __device__ __forceinline__ u32 queries_full(u32 slot) const { return full(KV_STAGES) + slot * 16; }
    __device__ __forceinline__ u32 queries_empty(u32 slot) const { return queries_full(slot) + 8; }
};

// Loads rows [from, to) of one column, starting at the preceding multiple of 8; at most 136 rows.
__device__ __forceinline__ void load_rows(const AttentionParams& params, u32 shared, u32 column, u32 from, u32 to, u32 barrier) {
    from = from / 8 * 8;
    to = (to + 7) / 8 * 8;
    const u32 middle = min(to, (from / TILE_ROWS + 1) * TILE_ROWS);
    mbarrier_arrive_expect_tx(barrier, (to - from) * 128);
    bulk_load(shared, params.qkv + chunk_offset(from, column * 8, params.tiles_per_row), (middle - from) * 128, barrier);
    if (middle < to) {
        bulk_load(shared + (middle - from) * 128, params.qkv + chunk_offset(middle, column * 8, params.tiles_per_row), (to - middle) * 128, barrier);
    }
}

// Waits for an empty slot of queries and publishes its work item.
__device__ __forceinline__ void publish(const SmemLayout& smem, const WorkItem& item, const PipelineState<2>& queries) {
    mbarrier_wait(smem.queries_empty(queries.stage), queries.parity);
    store_words(smem.work_item(queries.stage), item.start, item.length, item.query, item.column);
    store_words(smem.work_item(queries.stage) + 16, item.first, item.last, 0, 0);
}

// The producer; one thread.
template <int D>
__device__ __forceinline__ void producer(const AttentionParams& params, const SmemLayout& smem, u32 team, u32 count) {
    const u32 columns = params.heads / HEADS_PER_COLUMN<D>, kv_columns = params.kv_heads / HEADS_PER_COLUMN<D>;
    griddepcontrol_wait();
    // Waiting for the parity before the first round returns at once: all stages are empty.
    PipelineState<KV_STAGES> kv = {0, 1};
    PipelineState<2> queries = {0, 1};
    for (u32 at = team * gridDim.x + blockIdx.x; at < count; at += 2 * gridDim.x) {
        const WorkItem item = work_item_at<D>(params, params.reverse ? count - 1 - at : at);
        const u32 end = item.start + item.length, column = columns + item.column / params.group_size;
        if (item.length == 0) {
            publish(smem, item, queries);
            mbarrier_arrive(smem.queries_full(queries.stage));
            queries.advance();
        }
        for (u32 key = item.first; key < item.last; key += KV_TILE) {
            const u32 from = item.start + key, until = min(from + KV_TILE, end);
            mbarrier_wait(smem.empty(kv.stage), kv.parity);
            load_rows(params, smem.keys(kv.stage), column, from, until, smem.full(kv.stage));
            load_rows(params, smem.values(kv.stage), column + kv_columns, from, until, smem.values_full(kv.stage));
            kv.advance();
            if (key > item.first) continue;
            // The first keys do not wait for an empty slot of queries.
            publish(smem, item, queries);
            const u32 query = item.start + item.query;
            const u32 to = smem.queries(queries.stage), here = smem.queries_full(queries.stage);
            load_rows(params, to, item.column, query, min(query + TEAM_Q_TILE<D>, end), here);
            queries.advance();
        }
    }
}

// Zeroes rows from `from` of the values at `values`: rows past the end of the sequence are undefined, and are multiplied by 0. Both
// warpgroups take part.
__device__ __forceinline__ void zero_rows(u32 values, u32 from, u32 team) {
    for (u32 at = from * 8 + threadIdx.x % 256; at < KV_TILE * 8; at += 256) {
        store_words(values + at * 16, 0, 0, 0, 0);
    }
    fence_proxy_async();
    asm volatile("bar.sync %0, 256;" ::"r"(team + 1) : "memory");
}

// The state of a warp's 16 queries of a head: output accumulators, and running maximum (as a base-2 exponent) and sum of a lane's two
// rows.
template <int D>
struct SoftmaxState {
    float acc[D / 2];
    float row_max[2], row_sum[2];
};

// The reciprocal row sums, which normalise the accumulators.
template <int D>
__device__ __forceinline__ void inverse_row_sums(float (&factor)[2], const SoftmaxState<D>& softmax_state) {
#pragma unroll
    for (u32 h = 0; h < 2; h++) {
        float total = softmax_state.row_sum[h];
        total += __shfl_xor_sync(FULL_WARP, total, 1);
        total += __shfl_xor_sync(FULL_WARP, total, 2);
        factor[h] = 1.0f / total;
    }
}

// Raises the running maximum where scores, in units of `score_scale`, exceed it by more than RESCALE_THRESHOLD, and then calls
// `on_rescale` with the factors of the accumulators.
template <int D, int COUNT, typename OnRescale>
__device__ __forceinline__ void update_row_max(const float (&scores)[COUNT], SoftmaxState<D>& softmax_state, float score_scale, const OnRescale& on_rescale) {
    float(&row_max)[2] = softmax_state.row_max;
    float new_max[2];
#pragma unroll
    for (u32 h = 0; h < 2; h++) {
        new_max[h] = scores[2 * h];
#pragma unroll
        for (u32 j = 0; j < COUNT / 4; j++) {
            new_max[h] = fmaxf(new_max[h], fmaxf(scores[4 * j + 2 * h], scores[4 * j + 2 * h + 1]));
        }
    }
#pragma unroll
    for (u32 step = 1; step < 4; step *= 2) {
#pragma unroll
        for (u32 h = 0; h < 2; h++) new_max[h] = fmaxf(new_max[h], __shfl_xor_sync(FULL_WARP, new_max[h], step));
    }
#pragma unroll
    for (u32 h = 0; h < 2; h++) new_max[h] *= score_scale;
    // A row is rescaled by its own scores alone, whatever the other rows of the warp do.
    if (__any_sync(FULL_WARP, new_max[0] > row_max[0] + RESCALE_THRESHOLD || new_max[1] > row_max[1] + RESCALE_THRESHOLD)) {
        float correction[2];
#pragma unroll
        for (u32 h = 0; h < 2; h++) {
            const bool grown = new_max[h] > row_max[h] + RESCALE_THRESHOLD;
            correction[h] = grown ? exp2_approx(row_max[h] - new_max[h]) : 1.0f;
            if (grown) row_max[h] = new_max[h];
            softmax_state.row_sum[h] *= correction[h];
        }
        on_rescale(correction);
    }
}

template <int D>
__device__ __forceinline__ void rescale(SoftmaxState<D>& softmax_state, const float (&correction)[2]) {
#pragma unroll
    for (u32 i = 0; i < D / 2; i++) softmax_state.acc[i] *= correction[i / 2 % 2];
}

// Turns scores into probabilities and adds them to the row sums.
template <int D, int COUNT>
__device__ __forceinline__ void exponentiate(float (&scores)[COUNT], SoftmaxState<D>& softmax_state, float score_scale) {
    float from[2], total[2][2] = {};
    // A fully masked row has no maximum yet; any finite one serves.
#pragma unroll
    for (u32 h = 0; h < 2; h++) from[h] = softmax_state.row_max[h] == -INFINITY ? 0.0f : softmax_state.row_max[h];
#pragma unroll
    for (u32 i = 0; i < COUNT; i++) {
        const u32 h = i / 2 % 2;
        scores[i] = exp2_approx(fmaf(scores[i], score_scale, -from[h]));
        total[h][i % 2] += scores[i];
    }
#pragma unroll
    for (u32 h = 0; h < 2; h++) softmax_state.row_sum[h] += total[h][0] + total[h][1];
}

// Turns scores, in units of `score_scale`, into probabilities, and rescales the accumulators where necessary.
template <int D>
__device__ __forceinline__ void softmax(float (&scores)[KV_TILE / 2], SoftmaxState<D>& softmax_state, float score_scale) {
    update_row_max(scores, softmax_state, score_scale, [&](const float (&correction)[2]) { rescale(softmax_state, correction); });
    exponentiate(scores, softmax_state, score_scale);
}

// A warp's task: the work item, its index in the team, and the descriptors of queries and of the first stage's keys.
template <int D>
struct ConsumerTask {
    WorkItem item;
    u32 warp, team, rows, queries, keys;

    // Within the column.
    __device__ __forceinline__ u32 head() const { return D == 64 ? 0 : warp / 4; }
    // The first row of the warpgroup, and of the warp, within the item.
    __device__ __forceinline__ u32 group_row() const { return D == 64 ? warp / 4 * 64 : 0; }
    __device__ __forceinline__ u32 row() const { return group_row() + warp % 4 * 16; }
    __device__ __forceinline__ u32 query() const { return item.query + row(); }
    __device__ __forceinline__ u32 skew() const { return item.start % 8 * 128; }

    // Sets the descriptors for a slot of queries.
    __device__ __forceinline__ void locate(const SmemLayout& smem, u32 slot) {
        rows = smem.queries(slot) + skew();
        queries = DESCRIPTOR_LOW(rows + group_row() * 128) + head() * (D / 8);
        keys = DESCRIPTOR_LOW(smem.keys(0) + skew()) + head() * (D / 8);
    }
};

// The epilogue: normalises a warp's 16 queries and stores them through the shared memory of the queries.
template <int D>
__device__ __forceinline__ void epilogue(const AttentionParams& params, const ConsumerTask<D>& task, const SoftmaxState<D>& softmax_state) {
    const u32 lane = threadIdx.x & 31, query = task.query(), row = task.item.start + query;
    const u32 count = min(task.item.length - query, 16);
    const u32 panel = task.rows + task.row() * 128, chunks = task.head() * (D / 8);
    float factor[2];
    inverse_row_sums(factor, softmax_state);
    auto pair = [&](u32 at, u32 h) {
        const float low = softmax_state.acc[at] * factor[h], high = softmax_state.acc[at + 1] * factor[h];
        return params.out_bf16 ? f32_to_bf16x2(low, high) : f32_to_f16x2(low, high);
    };
    auto smem_address = [&](u32 down, u32 chunk) { return panel + down * 128 + ((chunks + chunk ^ (row + down & 7)) << 4); };
#pragma unroll
    for (u32 j = 0; j < D / 8; j += 2) {
        stmatrix_x4(smem_address(lane % 16, j + lane / 16), pair(4 * j, 0), pair(4 * j + 2, 1), pair(4 * j + 4, 0),
                       pair(4 * j + 6, 1));
    }
    fence_proxy_async();
    __syncwarp();
    if constexpr (D == 64) {
        if (lane > 0) return;
        const u32 to = row + count, middle = min(to, (row / TILE_ROWS + 1) * TILE_ROWS);
        // The start of a row, regardless of the swizzle.
        auto begin = [&](u32 at) { return params.out + (chunk_offset(at, task.item.column * 8, params.out_tiles_per_row) & ~(u64)127); };
        bulk_store(begin(row), panel, (middle - row) * 128);
        if (middle < to) bulk_store(begin(middle), panel + (middle - row) * 128, (to - middle) * 128);
    } else {
        // The other half of each row belongs to the other warpgroup.
#pragma unroll
        for (u32 at = lane; at < 16 * D / 8; at += 32) {
            const u32 down = at / (D / 8), chunk = at % (D / 8);
            if (down >= count) continue;
            const u64 to = chunk_offset(row + down, task.item.column * 8 + chunks + chunk, params.out_tiles_per_row);
            *(uint4*)(params.out + to) = load_shared_v4(smem_address(down, chunk));
        }
    }
}

// Issues the product of queries and a stage's keys.
template <int D>
__device__ __forceinline__ void issue_qk(float (&scores)[KV_TILE / 2], const ConsumerTask<D>& task, u32 stage) {
    const u32 keys = task.keys + stage * (2 * KV_TILE_BYTES >> 4);
    fence_accumulators(scores);
    wgmma_fence();
#pragma unroll
    for (u32 k = 0; k < D / 16; k++) {
        WgmmaF16::mma(scores, descriptor_from(task.queries + 2 * k), descriptor_from(keys + 2 * k), k != 0);
    }
    wgmma_commit();
}

// Waits for a stage's values, and zeroes those past the end of the sequence.
template <int D>
__device__ __forceinline__ void wait_values(const SmemLayout& smem, const ConsumerTask<D>& task, const PipelineState<KV_STAGES>& kv, u32 key) {
    mbarrier_wait(smem.values_full(kv.stage), kv.parity);
    const u32 left = task.item.length - key;
    if (left < KV_TILE) zero_rows(smem.values(kv.stage) + task.skew(), left, task.team);
}

// Releases a stage: each thread for itself where it may have zeroed rows, else one for its warp.
template <int D>
__device__ __forceinline__ void release(const SmemLayout& smem, const ConsumerTask<D>& task, u32 stage, u32 key) {
    const bool cleared = task.item.length - key < KV_TILE;
    if (cleared || threadIdx.x % 32 == 0) mbarrier_arrive_count(smem.empty(stage), cleared ? 1 : 32);
}

// Issues the product of probabilities and a stage's values.
template <int D>
__device__ __forceinline__ void issue_pv(SoftmaxState<D>& softmax_state, const u32 (&probabilities)[KV_TILE / 4], const ConsumerTask<D>& task,
                                             u32 stage) {
    const u32 values = task.keys + stage * (2 * KV_TILE_BYTES >> 4) + (KV_TILE_BYTES >> 4);
    fence_accumulators(softmax_state.acc);
    wgmma_fence();
#pragma unroll
    for (u32 n = 0; n < KV_TILE / 16; n++) WgmmaF16::mma_transposed(softmax_state.acc, probabilities + 4 * n, descriptor_from(values + n * (2048 >> 4)));
    wgmma_commit();
}

// Masks, biases and softmax of the scores of keys from `key`. UNMASKED: every query attends to every key without bias.
template <int D, bool UNMASKED>
__device__ __forceinline__ void mask_and_softmax(float (&scores)[KV_TILE / 2], SoftmaxState<D>& softmax_state, const AttentionParams& params,
                                               const ConsumerTask<D>& task, u32 key) {
    const QueryTile tile = {task.item.start, task.item.length, task.item.column * HEADS_PER_COLUMN<D> + task.head(), task.query(), 0};
    const bool plain = UNMASKED ? key + KV_TILE <= tile.length
                              : !params.slopes && !params.relative_bias && all_visible(params, tile, tile.query, key, KV_TILE);
    if (UNMASKED && !plain) {
        const int left = (int)(tile.length - key) - (int)(threadIdx.x % 4 * 2);
#pragma unroll
        for (int i = 0; i < KV_TILE / 2; i++) scores[i] = 8 * (i / 4) + i % 2 < left ? scores[i] : -INFINITY;
    } else if (!plain) {
        bias_and_mask<KV_TILE / 8>(*(float(*)[KV_TILE / 8][4])scores, params, tile, tile.query, key);
    }
    softmax<D>(scores, softmax_state, UNMASKED || plain ? params.scale * LOG2_E : 1.0f);
}

__device__ __forceinline__ void pack_probabilities(u32 (&probabilities)[KV_TILE / 4], const float (&scores)[KV_TILE / 2]) {
#pragma unroll
    for (u32 i = 0; i < KV_TILE / 4; i++) probabilities[i] = f32_to_f16x2(scores[2 * i], scores[2 * i + 1]);
}

// The mainloop over the keys of a work item; calls `on_first_scores` once the first scores are complete. The product with values
// overlaps the next product with keys, and the softmax of one warpgroup overlaps the products of others.
template <int D, bool UNMASKED, typename OnFirstScores>
__device__ __forceinline__ void attend(const AttentionParams& params, const SmemLayout& smem, const ConsumerTask<D>& task,
                                             PipelineState<KV_STAGES>& kv, SoftmaxState<D>& softmax_state, const OnFirstScores& on_first_scores) {
    float scores[KV_TILE / 2];
    auto start = [&](const PipelineState<KV_STAGES>& at) {
        mbarrier_wait(smem.full(at.stage), at.parity);
        issue_qk<D>(scores, task, at.stage);
    };
    start(kv);
    wgmma_wait<0>();
    fence_accumulators(scores);
    on_first_scores();
    for (u32 key = task.item.first; key < task.item.last; key += KV_TILE) {
        u32 probabilities[KV_TILE / 4];
        PipelineState<KV_STAGES> next = kv;
        next.advance();
        mask_and_softmax<D, UNMASKED>(scores, softmax_state, params, task, key);
        pack_probabilities(probabilities, scores);
        wait_values(smem, task, kv, key);
        issue_pv<D>(softmax_state, probabilities, task, kv.stage);
        if (key + KV_TILE < task.item.last) start(next);
        wgmma_wait<0>();
        fence_accumulators(softmax_state.acc);
        fence_accumulators(scores);
        release(smem, task, kv.stage, key);
        kv = next;
    }
}

// Keeps pace with the other warpgroup of the team where this one has no queries.
template <int D>
__device__ __forceinline__ void skip_work_item(const SmemLayout& smem, const ConsumerTask<D>& task, PipelineState<KV_STAGES>& kv) {
    for (u32 key = task.item.first; key < task.item.last; key += KV_TILE) {
        wait_values(smem, task, kv, key);
        release(smem, task, kv.stage, key);
        kv.advance();
    }
}

// The consumer; two warpgroups.
template <int D, bool UNMASKED>
__device__ __forceinline__ void consumer(const AttentionParams& params, const SmemLayout& smem, u32 team, u32 count) {
    const u32 lane = threadIdx.x & 31;
    PipelineState<KV_STAGES> kv = {0, 0};
    PipelineState<2> slot = {0, 0};
    ConsumerTask<D> task = {{}, threadIdx.x / 32 % 8, team, 0, 0, 0};
    for (u32 at = team * gridDim.x + blockIdx.x; at < count; at += 2 * gridDim.x) {
        mbarrier_wait(smem.queries_full(slot.stage), slot.parity);
        const uint4 words = load_shared_v4(smem.work_item(slot.stage)), more = load_shared_v4(smem.work_item(slot.stage) + 16);
        task.item = {words.x, words.y, words.z, words.w, more.x, more.y};
        task.locate(smem, slot.stage);
        auto release_other_queries = [&]() {
            if (at < 2 * gridDim.x) return;
            // The bulk stores from the other slot must have read it.
            if (lane == 0) bulk_store_wait_read<0>();
            __syncwarp();
            mbarrier_arrive(smem.queries_empty(slot.stage ^ 1));
        };
        if (task.item.query + task.group_row() < task.item.length) {
            SoftmaxState<D> softmax_state = {};
            softmax_state.row_max[0] = softmax_state.row_max[1] = -INFINITY;
            attend<D, UNMASKED>(params, smem, task, kv, softmax_state, release_other_queries);
            if (task.query() < task.item.length) epilogue<D>(params, task, softmax_state);
        } else {
            release_other_queries();
            skip_work_item(smem, task, kv);
        }
        slot.advance();
    }
    if (lane == 0) bulk_store_wait_read<0>();
}

template <int D>
__device__ __forceinline__ void attention_sm90_d64(const AttentionParams& params) {
    extern __shared__ __align__(1024) u8 shared[];
    griddepcontrol_launch_dependents();
    // The first warps of the last warpgroup are the producers, one per team.
    const bool is_producer = threadIdx.x >= 512;
    const u32 team = is_producer ? threadIdx.x / 32 % 4 : threadIdx.x / 256, count = params.long_items * params.heads;
    const SmemLayout smem = {smem_address(shared) + team % 2 * TEAM_SMEM_BYTES};
    if (is_producer && team < 2 && threadIdx.x % 32 == 0) {
        for (u32 stage = 0; stage < KV_STAGES; stage++) {
            mbarrier_init(smem.full(stage), 1);
            mbarrier_init(smem.values_full(stage), 1);
            // One arrival per consumer thread.
            mbarrier_init(smem.empty(stage), 256);
        }
        for (u32 slot = 0; slot < 2; slot++) {
            mbarrier_init(smem.queries_full(slot), 1);
            mbarrier_init(smem.queries_empty(slot), 256);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (is_producer) {
        setmaxnreg_dec<32>();
        if (team < 2 && threadIdx.x % 32 == 0) producer<D>(params, smem, team, count);
    } else {
        setmaxnreg_inc<CONSUMER_REGISTERS>();
        const bool unmasked = !params.slopes && !params.relative_bias && !params.causal && params.window == NO_WINDOW;
        if (unmasked) consumer<D, true>(params, smem, team, count);
        else consumer<D, false>(params, smem, team, count);
    }
}

#else

template <int D>
__device__ __forceinline__ void attention_sm90_d64(const AttentionParams& params) {}

#endif
