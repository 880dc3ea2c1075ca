// Attention with heads of 128 columns on Hopper (wgmma). On other devices the kernel is empty.

#pragma once
#include "attention/attention_sm90_d64.cuh"
#include "attention/warp_scheduler.cuh"

// attention_sm90_128: the contract of attention_mma_128_long, without biases; an item may be of an empty sequence.
// Two consumer warpgroups have 64 queries each of a work item and head. A producer warp loads queries, and 128 keys and values at a
// time, running ahead into the next item; a head is two consecutive columns of 128 bytes. As in FlashAttention-3 (Shah and others,
// 2024), the softmax of a warpgroup overlaps its preceding product with values and the products of the other warpgroup: named
// barriers make them alternate. For the alignment of rows see attention_sm90_d64.cuh.
//   D128_THREADS threads, one block a multiprocessor; dynamic shared memory: D128_SMEM_BYTES
#define KV_TILE_D128 128
#define COLUMN_BYTES Q_TILE_BYTES
#define HEAD_BYTES (2 * COLUMN_BYTES)
// Registers of a consumer and of a producer thread. Together they must fit the block's allocation: setmaxnreg would wait forever for
// more.
#define CONSUMER_REGISTERS_D128 232
#define PRODUCER_REGISTERS_D128 40
static_assert(128 * (2 * CONSUMER_REGISTERS_D128 + PRODUCER_REGISTERS_D128) <= D128_THREADS * (65536 / D128_THREADS / 8 * 8), "more registers than there are");
static_assert(D128_THREADS == 3 * 128 && LONG_QUERIES == 2 * 64, "two consumer warpgroups of 64 queries each, and the producer's");
static_assert(6 * HEAD_BYTES + 2 * 32 + 6 * 16 <= D128_SMEM_BYTES, "work items and barriers");
// Rings of two slots each.
#define KEYS_RING 0
#define VALUES_RING 2
#define QUERIES_RING 4

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Shared memory: slots of keys, values and queries, the work items of the queries, and barriers.
struct SmemLayoutD128 {
    u32 begin;

    __device__ __forceinline__ u32 at(u32 ring, u32 slot) const { return begin + (ring + slot) * HEAD_BYTES; }
    __device__ __forceinline__ u32 work_item(u32 slot) const { return at(6, 0) + slot * 32; }
    __device__ __forceinline__ u32 full(u32 ring, u32 slot) const { return work_item(2) + (ring + slot) * 16; }
    __device__ __forceinline__ u32 empty(u32 ring, u32 slot) const { return full(ring, slot) + 8; }
};

// Loads rows [from, to) of one head, starting at the preceding multiple of 8; at most 135 rows.
__device__ __forceinline__ void load_head(const AttentionParams& params, u32 shared, u32 head, u32 from, u32 to, u32 barrier) {
    from = from / 8 * 8;
    const u32 middle = min(to, (from / TILE_ROWS + 1) * TILE_ROWS);
    mbarrier_arrive_expect_tx(barrier, (to - from) * 256);
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
        const u32 here = shared + half * COLUMN_BYTES, column = (2 * head + half) * 8;
        bulk_load(here, params.qkv + chunk_offset(from, column, params.tiles_per_row), (middle - from) * 128, barrier);
        if (middle >= to) continue;
        bulk_load(here + (middle - from) * 128, params.qkv + chunk_offset(middle, column, params.tiles_per_row), (to - middle) * 128, barrier);
    }
}

// Zeroes rows [from, to) of the head at `rows`; one warp.
__device__ __forceinline__ void zero_head(u32 rows, u32 from, u32 to) {
    for (u32 at = from * 8 + threadIdx.x % 32; at < to * 8; at += 32) {
        store_words(rows + at * 16, 0, 0, 0, 0);
        store_words(rows + COLUMN_BYTES + at * 16, 0, 0, 0, 0);
    }
    fence_proxy_async();
    __syncwarp();
}

// Keys or values of a sequence to load.
struct Rows {
    u32 head, from, to;
};

// Broadcasts a lane's work item to the warp.
__device__ __forceinline__ WorkItem broadcast_item(const WorkItem& mine, u32 lane) {
    auto of = [&](u32 word) { return __shfl_sync(FULL_WARP, word, lane); };
    return {of(mine.start), of(mine.length), of(mine.query), of(mine.column), of(mine.first), of(mine.last)};
}

// The producer, one warp. Keys are loaded before the values of the preceding keys, in the order of use.
__device__ __forceinline__ void producer_d128(const AttentionParams& params, const SmemLayoutD128& smem, u32 count) {
    const bool copies = threadIdx.x % 32 == 0;
    griddepcontrol_wait();
    // Waiting for the parity before the first round returns at once: all slots are empty.
    PipelineState<2> keys = {0, 1}, values = {0, 1}, queries = {0, 1};
    Rows last = {};
    auto load_values = [&]() {
        if (last.from == last.to) return;
        const u32 to = smem.at(VALUES_RING, values.stage), left = last.to - last.from;
        mbarrier_wait(smem.empty(VALUES_RING, values.stage), values.parity);
        // Rows past the end of the sequence are undefined, and are multiplied by 0. The load ends before them.
        if (left < KV_TILE_D128) zero_head(to + last.from % 8 * 128, left, left > KV_TILE_D128 / 2 ? KV_TILE_D128 : KV_TILE_D128 / 2);
        if (copies) load_head(params, to, last.head, last.from, last.to, smem.full(VALUES_RING, values.stage));
        values.advance();
        last.from = last.to;
    };
    auto publish = [&](const WorkItem& item) {
        mbarrier_wait(smem.empty(QUERIES_RING, queries.stage), queries.parity);
        if (!copies) return;
        store_words(smem.work_item(queries.stage), item.start, item.length, item.query, item.column);
        store_words(smem.work_item(queries.stage) + 16, item.first, item.last, 0, 0);
    };
    WorkItem mine = {};
    for (u32 at = blockIdx.x, turn = 0; at < count; at += gridDim.x, turn++) {
        if (turn % 32 == 0) {
            // The lanes look up the next 32 items in the time of one.
            const u32 my = at + threadIdx.x % 32 * gridDim.x;
            if (my < count) mine = work_item_at<128>(params, params.reverse ? count - 1 - my : my);
        }
        const WorkItem item = broadcast_item(mine, turn % 32);
        const u32 end = item.start + item.length, head = params.heads + item.column / params.group_size;
        if (item.length == 0) {
            load_values();
            publish(item);
            if (copies) mbarrier_arrive(smem.full(QUERIES_RING, queries.stage));
            queries.advance();
        }
        for (u32 key = item.first; key < item.last; key += KV_TILE_D128) {
            const Rows rows = {head, item.start + key, min(item.start + key + KV_TILE_D128, end)};
            mbarrier_wait(smem.empty(KEYS_RING, keys.stage), keys.parity);
            const u32 to = smem.at(KEYS_RING, keys.stage);
            if (copies) load_head(params, to, rows.head, rows.from, rows.to, smem.full(KEYS_RING, keys.stage));
            keys.advance();
            load_values();
            if (key == item.first) {
                // Neither the first keys nor the preceding values wait for an empty slot of queries.
                publish(item);
                const u32 query = item.start + item.query, slot = queries.stage;
                if (copies) {
                    load_head(params, smem.at(QUERIES_RING, slot), item.column, query, min(query + LONG_QUERIES, end),
                              smem.full(QUERIES_RING, slot));
                }
                queries.advance();
            }
            last = {rows.head + params.kv_heads, rows.from, rows.to};
        }
    }
    load_values();
}

// A warpgroup's task: 64 queries of a work item, the end of the keys visible to them, and the descriptors of queries and of the first
// slot of keys.
struct TaskD128 {
    WorkItem item;
    u32 group, visible_end, rows, queries, keys;

    __device__ __forceinline__ u32 query() const { return item.query + group * 64; }
    // The first query of the warp.
    __device__ __forceinline__ u32 warp_query() const { return query() + threadIdx.x / 32 % 4 * 16; }
    // Whether at most half of the keys from `key` are visible. Only in the last step, since the other warpgroup sees at most 64 keys
    // more.
    __device__ __forceinline__ bool is_half_tile(u32 key) const { return visible_end <= key + KV_TILE_D128 / 2; }

    __device__ __forceinline__ void locate(const AttentionParams& params, const SmemLayoutD128& smem, u32 slot) {
        const u32 skew = item.start % 8 * 128;
        rows = smem.at(QUERIES_RING, slot) + skew;
        queries = DESCRIPTOR_LOW(rows + group * (64 * 128));
        keys = DESCRIPTOR_LOW(smem.at(KEYS_RING, 0) + skew);
        visible_end = item.length;
        if (params.window != NO_WINDOW) visible_end = min(visible_end, query() + 64 + min(params.window, item.length));
        if (params.causal) visible_end = min(visible_end, query() + 64);
    }
};

// Issues the product of queries and keys; a lane has COUNT scores, two keys for each.
template <int COUNT>
__device__ __forceinline__ void issue_qk(float (&scores)[COUNT], u32 queries, u32 keys) {
    fence_accumulators(scores);
    wgmma_fence();
#pragma unroll
    for (u32 k = 0; k < 8; k++) {
        const u32 step = k / 4 * (COLUMN_BYTES >> 4) + k % 4 * 2;
        WgmmaF16::mma(scores, descriptor_from(queries + step), descriptor_from(keys + step), k != 0);
    }
    wgmma_commit();
}

// Issues the product of probabilities and values.
template <int COUNT>
__device__ __forceinline__ void issue_pv(SoftmaxState<128>& softmax_state, const u32 (&probabilities)[32], u32 values) {
    fence_accumulators(softmax_state.acc);
    wgmma_fence();
    // The leading byte offset: the distance of the two columns.
    const u32 begins = values + ((COLUMN_BYTES >> 4) - 1 << 16);
#pragma unroll
    for (u32 n = 0; n < COUNT / 8; n++) WgmmaF16::mma_transposed(softmax_state.acc, probabilities + 4 * n, descriptor_from(begins + n * (2048 >> 4)));
    wgmma_commit();
}

// Sets the scores of masked keys to minus infinity.
template <int COUNT>
__device__ __forceinline__ void mask(float (&scores)[COUNT], const AttentionParams& params, const TaskD128& task, u32 key) {
    const u32 lane = threadIdx.x & 31, length = task.item.length;
    const int at = (int)(key + lane % 4 * 2);
    int first[2], last[2];
#pragma unroll
    for (u32 h = 0; h < 2; h++) {
        const u32 query = task.warp_query() + lane / 4 + 8 * h;
        u32 until = length;
        if (params.causal) until = min(until, query + 1);
        if (params.window != NO_WINDOW) until = min(until, query + min(params.window, length) + 1);
        last[h] = (int)until - at;
        first[h] = (int)(query > params.window ? query - params.window : 0) - at;
    }
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        if (8 * (i / 4) + i % 2 >= last[i / 2 % 2]) scores[i] = -INFINITY;
    }
    if (params.window == NO_WINDOW) return;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        if (8 * (i / 4) + i % 2 < first[i / 2 % 2]) scores[i] = -INFINITY;
    }
}

// Mask and softmax of the scores of keys from `key`. Returns whether the accumulators must be rescaled by `correction`.
template <int COUNT>
__device__ __forceinline__ bool mask_and_softmax(float (&scores)[COUNT], SoftmaxState<128>& softmax_state, float (&correction)[2], const AttentionParams& params,
                                      const TaskD128& task, u32 key) {
    const QueryTile tile = {task.item.start, task.item.length, 0, task.warp_query(), 0};
    if (!all_visible(params, tile, tile.query, key, 2 * COUNT)) mask(scores, params, task, key);
    const float score_scale = params.scale * LOG2_E;
    bool grown = false;
    update_row_max(scores, softmax_state, score_scale, [&](const float (&by)[2]) {
        correction[0] = by[0];
        correction[1] = by[1];
        grown = true;
    });
    exponentiate(scores, softmax_state, score_scale);
    return grown;
}

// The epilogue: normalises a warp's 16 queries and stores them through the shared memory of the queries.
__device__ __forceinline__ void epilogue_d128(const AttentionParams& params, const TaskD128& task, const SoftmaxState<128>& softmax_state) {
    const u32 lane = threadIdx.x & 31, query = task.warp_query(), row = task.item.start + query;
    const u32 count = min(task.item.length - query, 16), panel = task.rows + (query - task.item.query) * 128;
    float factor[2];
    inverse_row_sums(factor, softmax_state);
    auto pair = [&](u32 at, u32 h) {
        const float low = softmax_state.acc[at] * factor[h], high = softmax_state.acc[at + 1] * factor[h];
        return params.out_bf16 ? f32_to_bf16x2(low, high) : f32_to_f16x2(low, high);
    };
#pragma unroll
    for (u32 j = 0; j < 16; j += 2) {
        const u32 down = lane % 16, chunk = (j + lane / 16) % 8;
        stmatrix_x4(panel + j / 8 * COLUMN_BYTES + down * 128 + ((chunk ^ (row + down & 7)) << 4), pair(4 * j, 0),
                       pair(4 * j + 2, 1), pair(4 * j + 4, 0), pair(4 * j + 6, 1));
    }
    fence_proxy_async();
    __syncwarp();
    if (lane > 0) return;
    const u32 to = row + count, middle = min(to, (row / TILE_ROWS + 1) * TILE_ROWS);
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
        // The start of a row, regardless of the swizzle.
        auto begin = [&](u32 at) {
            return params.out + (chunk_offset(at, (2 * task.item.column + half) * 8, params.out_tiles_per_row) & ~(u64)127);
        };
        const u32 here = panel + half * COLUMN_BYTES;
        bulk_store(begin(row), here, (middle - row) * 128);
        if (middle < to) bulk_store(begin(middle), here + (middle - row) * 128, (to - middle) * 128);
    }
}

// Releases a slot; one lane for its warp.
__device__ __forceinline__ void release_slot(const SmemLayoutD128& smem, u32 ring, u32 slot) {
    if (threadIdx.x % 32 == 0) mbarrier_arrive(smem.empty(ring, slot));
}

template <int COUNT>
__device__ __forceinline__ void pack_probabilities(u32 (&probabilities)[32], const float (&scores)[COUNT]) {
#pragma unroll
    for (u32 i = 0; i < COUNT / 2; i++) probabilities[i] = f32_to_f16x2(scores[2 * i], scores[2 * i + 1]);
}

// The steps of a warpgroup's mainloop, with COUNT scores in a lane.
struct Mainloop {
    const AttentionParams& params;
    const SmemLayoutD128& smem;
    const TaskD128& task;

    template <int COUNT, typename OnFirstScores>
    __device__ __forceinline__ void first(SoftmaxState<128>& softmax_state, u32 (&probabilities)[32], const PipelineState<2>& kv, u32 key,
                                          const OnFirstScores& on_first_scores) const {
        float scores[COUNT], correction[2];
        mbarrier_wait(smem.full(KEYS_RING, kv.stage), kv.parity);
        warp_scheduler_sync(task.group);
        issue_qk(scores, task.queries, task.keys + kv.stage * (HEAD_BYTES >> 4));
        warp_scheduler_arrive(task.group);
        wgmma_wait<0>();
        fence_accumulators(scores);
        release_slot(smem, KEYS_RING, kv.stage);
        on_first_scores();
        mask_and_softmax(scores, softmax_state, correction, params, task, key);
        pack_probabilities(probabilities, scores);
    }

    // Overlaps the softmax with the product of the preceding probabilities and values.
    template <int COUNT>
    __device__ __forceinline__ void next(SoftmaxState<128>& softmax_state, u32 (&probabilities)[32], PipelineState<2>& kv, u32 key) const {
        float scores[COUNT], correction[2];
        PipelineState<2> next = kv;
        next.advance();
        mbarrier_wait(smem.full(KEYS_RING, next.stage), next.parity);
        mbarrier_wait(smem.full(VALUES_RING, kv.stage), kv.parity);
        warp_scheduler_sync(task.group);
        issue_qk(scores, task.queries, task.keys + next.stage * (HEAD_BYTES >> 4));
        issue_pv<64>(softmax_state, probabilities, task.keys + (2 * HEAD_BYTES >> 4) + kv.stage * (HEAD_BYTES >> 4));
        warp_scheduler_arrive(task.group);
        wgmma_wait<1>();
        fence_accumulators(scores);
        release_slot(smem, KEYS_RING, next.stage);
        const bool grown = mask_and_softmax(scores, softmax_state, correction, params, task, key);
        wgmma_wait<0>();
        fence_accumulators(softmax_state.acc);
        release_slot(smem, VALUES_RING, kv.stage);
        if (grown) rescale(softmax_state, correction);
        pack_probabilities(probabilities, scores);
        kv = next;
    }
};

// The mainloop over the keys of a work item; calls `on_first_scores` once the first scores are complete. The product with a step's
// values overlaps the next step's softmax.
template <typename OnFirstScores>
__device__ __forceinline__ void attend_d128(const AttentionParams& params, const SmemLayoutD128& smem, const TaskD128& task, PipelineState<2>& kv,
                                            const OnFirstScores& on_first_scores) {
    SoftmaxState<128> softmax_state = {};
    softmax_state.row_max[0] = softmax_state.row_max[1] = -INFINITY;
    u32 probabilities[32];
    u32 key = task.item.first;
    const u32 values = task.keys + (2 * HEAD_BYTES >> 4);
    const Mainloop tiles_per_row = {params, smem, task};
    if (task.is_half_tile(key)) tiles_per_row.first<32>(softmax_state, probabilities, kv, key, on_first_scores);
    else tiles_per_row.first<64>(softmax_state, probabilities, kv, key, on_first_scores);
    for (; key + KV_TILE_D128 < task.item.last && !task.is_half_tile(key + KV_TILE_D128); key += KV_TILE_D128) {
        tiles_per_row.next<64>(softmax_state, probabilities, kv, key + KV_TILE_D128);
    }
    if (key + KV_TILE_D128 < task.item.last) {
        key += KV_TILE_D128;
        tiles_per_row.next<32>(softmax_state, probabilities, kv, key);
    }
    mbarrier_wait(smem.full(VALUES_RING, kv.stage), kv.parity);
    const u32 from = values + kv.stage * (HEAD_BYTES >> 4);
    if (task.is_half_tile(key)) issue_pv<32>(softmax_state, probabilities, from);
    else issue_pv<64>(softmax_state, probabilities, from);
    wgmma_wait<0>();
    fence_accumulators(softmax_state.acc);
    release_slot(smem, VALUES_RING, kv.stage);
    kv.advance();
    if (task.warp_query() < task.item.length) epilogue_d128(params, task, softmax_state);
}

// Keeps pace with the other warpgroup where this one has no queries.
__device__ __forceinline__ void skip_work_item(const SmemLayoutD128& smem, const TaskD128& task, PipelineState<2>& kv) {
    for (u32 key = task.item.first; key < task.item.last; key += KV_TILE_D128) {
        mbarrier_wait(smem.full(KEYS_RING, kv.stage), kv.parity);
        warp_scheduler_sync(task.group);
        warp_scheduler_arrive(task.group);
        release_slot(smem, KEYS_RING, kv.stage);
        mbarrier_wait(smem.full(VALUES_RING, kv.stage), kv.parity);
        release_slot(smem, VALUES_RING, kv.stage);
        kv.advance();
    }
}

// The consumer; two warpgroups.
__device__ __forceinline__ void consumer_d128(const AttentionParams& params, const SmemLayoutD128& smem, u32 count) {
    const u32 lane = threadIdx.x & 31;
    PipelineState<2> kv = {0, 0}, slot = {0, 0};
    TaskD128 task = {};
    task.group = threadIdx.x / 128;
    if (task.group == 1) warp_scheduler_arrive(1);
    for (u32 at = blockIdx.x; at < count; at += gridDim.x) {
        mbarrier_wait(smem.full(QUERIES_RING, slot.stage), slot.parity);
        const uint4 words = load_shared_v4(smem.work_item(slot.stage)), more = load_shared_v4(smem.work_item(slot.stage) + 16);
        task.item = {words.x, words.y, words.z, words.w, more.x, more.y};
        task.locate(params, smem, slot.stage);
        auto release_other_queries = [&]() {
            if (at < gridDim.x) return;
            // The bulk stores from the other slot must have read it.
            if (lane == 0) bulk_store_wait_read<0>();
            __syncwarp();
            mbarrier_arrive(smem.empty(QUERIES_RING, slot.stage ^ 1));
        };
        if (task.query() < task.item.length) {
            attend_d128(params, smem, task, kv, release_other_queries);
        } else {
            release_other_queries();
            skip_work_item(smem, task, kv);
        }
        slot.advance();
    }
    if (task.group == 0) warp_scheduler_sync(0);
    if (lane == 0) bulk_store_wait_read<0>();
}

__device__ __forceinline__ void attention_sm90_d128(const AttentionParams& params) {
    extern __shared__ __align__(1024) u8 shared[];
    griddepcontrol_launch_dependents();
    const u32 count = params.long_items * params.heads;
    const SmemLayoutD128 smem = {smem_address(shared)};
    if (threadIdx.x == 256) {
        for (u32 slot = 0; slot < 6; slot++) {
            mbarrier_init(smem.full(0, slot), 1);
            // One arrival per consumer warp, and for queries per consumer thread.
            mbarrier_init(smem.empty(0, slot), slot < QUERIES_RING ? 8 : 256);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x >= 256) {
        setmaxnreg_dec<PRODUCER_REGISTERS_D128>();
        if (threadIdx.x < 288) producer_d128(params, smem, count);
    } else {
        setmaxnreg_inc<CONSUMER_REGISTERS_D128>();
        consumer_d128(params, smem, count);
    }
}

#else

__device__ __forceinline__ void attention_sm90_d128(const AttentionParams& params) {}

#endif

extern "C" __global__ void __launch_bounds__(D128_THREADS, 1) attention_sm90_128(const __grid_constant__ AttentionParams params) {
    attention_sm90_d128(params);
}
