// Attention of 16-bit types on Hopper (wgmma), with the schedule of FlashAttention-3 (Shah and others, 2024).
//
// Defined before, in addition to what tensor/attention.cuh needs: Wgmma, with elements of the type; pack, two f32 to a pair of them; and
// DIM, 64 or 128, the columns of queries, keys and values, padded with zeros. HAS_LENGTHS is false: values of keys that take no part would
// be multiplied by 0. The tensor maps are of [batches, heads, rows, columns], with boxes of 128 rows and 64 columns.
//
// Two consumer warpgroups have 64 queries each of an item, a tile of 128 queries of a head. A producer loads queries, and 128 keys and values
// at a time, running ahead into the next item. The softmax of a warpgroup overlaps its preceding product with values and the products of
// the other warpgroup.
//   SM90_THREADS threads, one block a multiprocessor; dynamic shared memory: sm90_shared_bytes(DIM)

#pragma once
#include "attention/online_softmax.cuh"
#include "attention/warp_scheduler.cuh"
#include "common/tma.cuh"
#include "tensor/attention_tile.cuh"

constexpr u32 THREADS = SM90_THREADS, QUERIES = SM90_ROWS, KEYS = SM90_ROWS;
// 64 columns of 128 rows; a head has one or two such panels.
constexpr u32 PANEL_BYTES = SM90_BOX_ROWS * 128, PANELS = DIM / SM90_BOX_COLUMNS, HEAD_BYTES = PANELS * PANEL_BYTES;
static_assert(THREADS == 3 * 128 && QUERIES == 2 * 64 && KEYS == 128, "two consumer warpgroups of 64 queries each, and the producer's");
static_assert(2 * SM90_BOX_COLUMNS == 128, "a row of a panel");
static_assert(SM90_BOX_ROWS == QUERIES && SM90_BOX_ROWS == KEYS, "a copy loads a panel");
static_assert(6 * HEAD_BYTES + 1024 == sm90_shared_bytes(DIM), "the launch allocates another size");
// Rings of two slots each.
constexpr u32 KEY_RING = 0, VALUE_RING = 2, QUERY_RING = 4;
// Heads that causal attention interleaves, so that long items come first and keys and values stay in the L2 cache.
constexpr u32 GROUPED_HEADS = 8;

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Slots of keys, values and queries, and their barriers.
struct AttentionSmem {
    u32 begin;

    __device__ __forceinline__ u32 at(u32 ring, u32 slot) const { return begin + (ring + slot) * HEAD_BYTES; }
    __device__ __forceinline__ u32 full(u32 ring, u32 slot) const { return at(6, 0) + (ring + slot) * 16; }
    __device__ __forceinline__ u32 empty(u32 ring, u32 slot) const { return full(ring, slot) + 8; }

    // One lane for its warp.
    __device__ __forceinline__ void release(u32 ring, u32 slot) const {
        if (threadIdx.x % 32 == 0) mbarrier_arrive(empty(ring, slot));
    }
};

// A tile of queries of a head.
struct AttentionItem {
    Head head;
    int nth, first, end;

    // Item `at` of all: tiles of a head are neighbours, or of causal attention the longest of some heads come first.
    __device__ __forceinline__ AttentionItem(const Attention& attention, u32 at, u32 heads) {
        const u32 tiles = ((u32)attention.queries + QUERIES - 1) / QUERIES;
        u32 tile = at % tiles, of_head = at / tiles;
        if constexpr (IS_CAUSAL) {
            const u32 first_head = at / (tiles * GROUPED_HEADS) * GROUPED_HEADS, grouped = min(GROUPED_HEADS, heads - first_head);
            const u32 in_group = at - first_head * tiles;
            tile = tiles - 1 - in_group / grouped;
            of_head = first_head + in_group % grouped;
        }
        nth = (int)of_head;
        head = head_of(attention, nth);
        first = (int)(tile * QUERIES);
        end = end_of_keys(head, first + (int)QUERIES);
    }
};

// Starts to load 128 rows of a head to a slot.
__device__ __forceinline__ void load_rows(const AttentionSmem& smem, u32 ring, u32 slot, const TensorMap& map, int row, int head, int batch) {
    mbarrier_arrive_expect_tx(smem.full(ring, slot), HEAD_BYTES);
#pragma unroll
    for (u32 panel = 0; panel < PANELS; panel++) {
        tensor_load(smem.at(ring, slot) + panel * PANEL_BYTES, map, (int)(64 * panel), row, head, batch, smem.full(ring, slot));
    }
}

// The producer, one thread. Keys are loaded before the values of the preceding keys, in the order of use.
__device__ __forceinline__ void attention_producer(const Attention& attention, const AttentionSmem& smem, u32 items, u32 heads,
                                                   const TensorMap& query_map, const TensorMap& key_map, const TensorMap& value_map) {
    // Waiting for the parity before the first round returns at once: all slots are empty.
    PipelineState<2> keys = {0, 1}, values = {0, 1}, queries = {0, 1};
    for (u32 at = blockIdx.x; at < items; at += gridDim.x) {
        const AttentionItem item(attention, at, heads);
        const int batch = item.nth / (int)attention.heads, head = item.nth % (int)attention.heads, kv_head = head / (int)attention.group;
        auto load_values = [&](int key) {
            mbarrier_wait(smem.empty(VALUE_RING, values.stage), values.parity);
            load_rows(smem, VALUE_RING, values.stage, value_map, key, kv_head, batch);
            values.advance();
        };
        for (int key = 0; key < item.end; key += KEYS) {
            mbarrier_wait(smem.empty(KEY_RING, keys.stage), keys.parity);
            load_rows(smem, KEY_RING, keys.stage, key_map, key, kv_head, batch);
            keys.advance();
            if (key == 0) {
                mbarrier_wait(smem.empty(QUERY_RING, queries.stage), queries.parity);
                load_rows(smem, QUERY_RING, queries.stage, query_map, item.first, head, batch);
                queries.advance();
            } else {
                load_values(key - (int)KEYS);
            }
        }
        load_values((item.end - 1) / (int)KEYS * (int)KEYS);
    }
}

// The state of a warp: accumulated values, and maximum and sum of a lane's two rows.
struct WarpState {
    float acc[DIM / 8][4], row_max[2], row_sum[2];
};

// A warpgroup's 64 queries of an item.
struct Consumer {
    const Attention& attention;
    const AttentionSmem& smem;
    float scale;
    u32 group;

    // The first query of the warp.
    __device__ __forceinline__ int query(const AttentionItem& item) const { return item.first + (int)(group * 64 + threadIdx.x / 32 % 4 * 16); }

    // Issues the product of queries and keys.
    __device__ __forceinline__ void multiply_keys(float (&scores)[KEYS / 8][4], u32 query_slot, u32 key_slot) const {
        float(&sums)[KEYS / 2] = *(float(*)[KEYS / 2])scores;
        const u32 queries = DESCRIPTOR_LOW(smem.at(QUERY_RING, query_slot) + group * (64 * 128));
        const u32 keys = DESCRIPTOR_LOW(smem.at(KEY_RING, key_slot));
        fence_accumulators(sums);
        wgmma_fence();
#pragma unroll
        for (u32 k = 0; k < DIM / 16; k++) {
            const u32 step = k / 4 * (PANEL_BYTES >> 4) + k % 4 * 2;
            Wgmma::mma(sums, descriptor_from(queries + step), descriptor_from(keys + step), k != 0);
        }
        wgmma_commit();
    }

    // Issues the product of probabilities and values.
    __device__ __forceinline__ void multiply_values(WarpState& state, const u32 (&probabilities)[KEYS / 4], u32 value_slot) const {
        float(&acc)[DIM / 2] = *(float(*)[DIM / 2])state.acc;
        // The leading byte offset is the distance of the panels.
        const u32 values = DESCRIPTOR_LOW(smem.at(VALUE_RING, value_slot)) + ((PANEL_BYTES >> 4) - 1 << 16);
        fence_accumulators(acc);
        wgmma_fence();
#pragma unroll
        for (u32 n = 0; n < KEYS / 16; n++) Wgmma::mma_transposed(acc, probabilities + 4 * n, descriptor_from(values + n * (2048 >> 4)));
        wgmma_commit();
    }

    // Turns products of keys from `key` on into probabilities.
    __device__ __forceinline__ void softmax(float (&scores)[KEYS / 8][4], WarpState& state, float (&correction)[2], const AttentionItem& item,
                                            int key) const {
        const int first = query(item), lane = threadIdx.x % 32;
        // A maximum of products is one of scores only if the scale is positive.
        const bool is_plain = MASK == NO_MASK && scale > 0.0f && key + (int)KEYS <= end_of_keys(item.head, first + 1);
        if (!is_plain) {
#pragma unroll
            for (int j = 0; j < KEYS / 8; j++) {
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const int of_query = first + lane / 4 + 8 * (e / 2), of_key = key + 8 * j + lane % 4 * 2 + e % 2;
                    scores[j][e] = masked(attention, item.head, of_query, of_key, scores[j][e] * scale);
                }
            }
        }
        softmax_of_tile(scores, state.row_max, state.row_sum, correction, is_plain ? scale : 1.0f);
    }

    static __device__ __forceinline__ void pack_probabilities(u32 (&probabilities)[KEYS / 4], const float (&scores)[KEYS / 8][4]) {
#pragma unroll
        for (u32 i = 0; i < KEYS / 4; i++) probabilities[i] = pack(scores[i / 2][i % 2 * 2], scores[i / 2][i % 2 * 2 + 1]);
    }

    // The first scores of an item.
    __device__ __forceinline__ void first(WarpState& state, u32 (&probabilities)[KEYS / 4], const AttentionItem& item, u32 query_slot,
                                          const PipelineState<2>& kv) const {
        float scores[KEYS / 8][4], correction[2];
        mbarrier_wait(smem.full(KEY_RING, kv.stage), kv.parity);
        warp_scheduler_sync(group);
        multiply_keys(scores, query_slot, kv.stage);
        warp_scheduler_arrive(group);
        wgmma_wait<0>();
        fence_accumulators(*(float(*)[KEYS / 2])scores);
        smem.release(KEY_RING, kv.stage);
        softmax(scores, state, correction, item, 0);
        pack_probabilities(probabilities, scores);
    }

    // The next scores, whose softmax overlaps the product of the preceding probabilities and values.
    __device__ __forceinline__ void next(WarpState& state, u32 (&probabilities)[KEYS / 4], const AttentionItem& item, u32 query_slot,
                                         PipelineState<2>& kv, int key) const {
        float scores[KEYS / 8][4], correction[2];
        PipelineState<2> next = kv;
        next.advance();
        mbarrier_wait(smem.full(KEY_RING, next.stage), next.parity);
        mbarrier_wait(smem.full(VALUE_RING, kv.stage), kv.parity);
        warp_scheduler_sync(group);
        multiply_keys(scores, query_slot, next.stage);
        multiply_values(state, probabilities, kv.stage);
        warp_scheduler_arrive(group);
        wgmma_wait<1>();
        fence_accumulators(*(float(*)[KEYS / 2])scores);
        smem.release(KEY_RING, next.stage);
        softmax(scores, state, correction, item, key);
        wgmma_wait<0>();
        fence_accumulators(*(float(*)[DIM / 2])state.acc);
        smem.release(VALUE_RING, kv.stage);
        rescale_rows(state.acc, correction);
        pack_probabilities(probabilities, scores);
        kv = next;
    }

    // Normalises a warp's rows, and writes them by way of its queries in shared memory, which no product reads any more.
    __device__ __forceinline__ void store_rows(WarpState& state, const AttentionItem& item, u32 tile) const {
        const u32 lane = threadIdx.x % 32, row = group * 64 + threadIdx.x / 32 % 4 * 16;
#pragma unroll
        for (u32 h = 0; h < 2; h++) {
            float row_sum = state.row_sum[h];
            row_sum += __shfl_xor_sync(FULL_WARP, row_sum, 1);
            row_sum += __shfl_xor_sync(FULL_WARP, row_sum, 2);
            const float factor = row_factor(row_sum);
#pragma unroll
            for (u32 i = 0; i < DIM / 8; i++) {
                const u32 to = tile + tile_offset<DIM, QUERIES>(row + lane / 4 + 8 * h, i) + lane % 4 * 4;
                store_shared(to, pack(state.acc[i][2 * h] * factor, state.acc[i][2 * h + 1] * factor));
            }
        }
        __syncwarp();
        write_rows<DIM, QUERIES>(attention, item.head, query(item), 16, tile, row);
        __syncwarp();
    }

    __device__ __forceinline__ void attend(const AttentionItem& item, u32 query_slot, PipelineState<2>& kv) const {
        WarpState state = {};
        state.row_max[0] = state.row_max[1] = -INFINITY;
        u32 probabilities[KEYS / 4];
        first(state, probabilities, item, query_slot, kv);
        for (int key = KEYS; key < item.end; key += KEYS) next(state, probabilities, item, query_slot, kv, key);
        mbarrier_wait(smem.full(VALUE_RING, kv.stage), kv.parity);
        multiply_values(state, probabilities, kv.stage);
        wgmma_wait<0>();
        fence_accumulators(*(float(*)[DIM / 2])state.acc);
        smem.release(VALUE_RING, kv.stage);
        kv.advance();
        store_rows(state, item, smem.at(QUERY_RING, query_slot));
    }
};

// The consumers, two warpgroups.
__device__ __forceinline__ void attention_consumer(const Attention& attention, const AttentionSmem& smem, u32 items, u32 heads) {
    const Consumer consumer = {attention, smem, base2_scale(attention), threadIdx.x / 128};
    PipelineState<2> kv = {0, 0}, queries = {0, 0};
    if (consumer.group == 1) warp_scheduler_arrive(1);
    for (u32 at = blockIdx.x; at < items; at += gridDim.x) {
        const AttentionItem item(attention, at, heads);
        mbarrier_wait(smem.full(QUERY_RING, queries.stage), queries.parity);
        consumer.attend(item, queries.stage, kv);
        // The copies of the next queries must not overtake the reads of these results.
        fence_proxy_async();
        smem.release(QUERY_RING, queries.stage);
        queries.advance();
    }
    if (consumer.group == 0) warp_scheduler_sync(0);
}

__device__ __forceinline__ void attention_sm90(const Attention& attention, const TensorMap& query_map, const TensorMap& key_map,
                                               const TensorMap& value_map) {
    extern __shared__ __align__(1024) u8 shared[];
    const AttentionSmem smem = {smem_address(shared)};
    const u32 heads = (u32)(attention.rows / attention.queries), items = heads * (((u32)attention.queries + QUERIES - 1) / QUERIES);
    griddepcontrol_launch_dependents();
    if (threadIdx.x == 256) {
        for (u32 slot = 0; slot < 6; slot++) {
            mbarrier_init(smem.full(0, slot), 1);
            // One arrival per consumer warp.
            mbarrier_init(smem.empty(0, slot), 8);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    griddepcontrol_wait();
    if (threadIdx.x >= 256) {
        setmaxnreg_dec<40>();
        if (threadIdx.x == 256) attention_producer(attention, smem, items, heads, query_map, key_map, value_map);
    } else {
        setmaxnreg_inc<232>();
        attention_consumer(attention, smem, items, heads);
    }
}

#else

__device__ __forceinline__ void attention_sm90(const Attention&, const TensorMap&, const TensorMap&, const TensorMap&) {}

#endif
