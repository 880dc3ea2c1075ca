// Attention with heads of 128 columns by Hopper's warpgroup products. On other devices the kernel is empty.

#pragma once
#include "encode_attend_group.cuh"

// encode_attend_128_group: what encode_attend_128_long takes and gives, without biases; an item may be of an empty text.
// Two warpgroups have 64 queries each of an item and head. A warp copies queries, and 128 keys and values at a time, to shared
// memory as fast as there is room, on into the next item; a head is two columns of 128 bytes, one behind the other. While a
// warpgroup computes shares, the values before are added, and the other multiplies: they take turns at starting products
// (Shah and others, "FlashAttention-3", 2024). As to rows see encode_attend_group.cuh.
//   384 threads, one block a multiprocessor; dynamic shared memory: WIDE_SHARED bytes
#define WIDE_KEYS 128
#define WIDE_COLUMN QUERIES_BYTES
#define WIDE_HEAD (2 * WIDE_COLUMN)
// Of a thread that attends, and of one that does not. A block has those it starts with, and would wait for more for ever.
#define WIDE_REGISTERS 232
#define SPARE_REGISTERS 40
static_assert(128 * (2 * WIDE_REGISTERS + SPARE_REGISTERS) <= 384 * (65536 / 384 / 8 * 8), "more registers than there are");
#define WIDE_SHARED (6 * WIDE_HEAD + 1024)
// Rings of two places each for what is brought.
#define WIDE_OF_KEYS 0
#define WIDE_OF_VALUES 2
#define WIDE_OF_QUERIES 4

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// The same for 128 columns: the second 64 of them lie WIDE_COLUMN bytes behind the first.
__device__ __forceinline__ void multiply_held(float (&x)[64], const u32* held, u64 values) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 " NAMES_64 ", {%64, %65, %66, %67}, %68, 1, 1, 1, 1;\n"
                 : SIXTY_FOUR(IN_F32, x)
                 : "r"(held[0]), "r"(held[1]), "r"(held[2]), "r"(held[3]), "l"(values));
}

// Where everything lies in shared memory: places of keys, values and queries, what is done with these, and barriers.
struct WideRoom {
    u32 begin;

    __device__ __forceinline__ u32 at(u32 ring, u32 place) const { return begin + (ring + place) * WIDE_HEAD; }
    __device__ __forceinline__ u32 shares(u32 place) const { return at(6, 0) + place * 32; }
    __device__ __forceinline__ u32 came(u32 ring, u32 place) const { return shares(2) + (ring + place) * 16; }
    __device__ __forceinline__ u32 free(u32 ring, u32 place) const { return came(ring, place) + 8; }
};

// Copies rows [from, to) of the batch, of one head, from the multiple of 8 before them on; at most 135.
__device__ __forceinline__ void copy_head(const Attention& how, u32 shared, u32 head, u32 from, u32 to, u32 barrier) {
    from = from / 8 * 8;
    const u32 middle = min(to, (from / TILE_ROWS + 1) * TILE_ROWS);
    barrier_expect(barrier, (to - from) * 256);
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
        const u32 here = shared + half * WIDE_COLUMN, column = (2 * head + half) * 8;
        copy_bulk(here, how.qkv + place(from, column, how.steps), (middle - from) * 128, barrier);
        if (middle >= to) continue;
        copy_bulk(here + (middle - from) * 128, how.qkv + place(middle, column, how.steps), (to - middle) * 128, barrier);
    }
}

// Zeros in rows [from, to) of a head that begins at `rows`; one warp.
__device__ __forceinline__ void clear_head(u32 rows, u32 from, u32 to) {
    for (u32 at = from * 8 + threadIdx.x % 32; at < to * 8; at += 32) {
        store_words(rows + at * 16, 0, 0, 0, 0);
        store_words(rows + WIDE_COLUMN + at * 16, 0, 0, 0, 0);
    }
    show_copies();
    __syncwarp();
}

// Keys or values of a text that are to be brought.
struct Rows {
    u32 head, from, to;
};

// A lane's share, to the whole warp.
__device__ __forceinline__ Share share_of(const Share& mine, u32 lane) {
    auto of = [&](u32 word) { return __shfl_sync(FULL_WARP, word, lane); };
    return {of(mine.start), of(mine.length), of(mine.query), of(mine.column), of(mine.first), of(mine.last)};
}

// Brings everything, one warp. Keys come before the values of the keys before them, as they are used.
__device__ __forceinline__ void bring_wide(const Attention& how, const WideRoom& room, u32 count) {
    const bool copies = threadIdx.x % 32 == 0;
    wait_for_launches();
    // A wait for the parity before the first round ends at once: all is free.
    Turn<2> keys = {0, 1}, values = {0, 1}, queries = {0, 1};
    Rows last = {};
    auto bring_values = [&]() {
        if (last.from == last.to) return;
        const u32 to = room.at(WIDE_OF_VALUES, values.stage), left = last.to - last.from;
        barrier_wait(room.free(WIDE_OF_VALUES, values.stage), values.parity);
        // What lies behind a text may be anything, and is multiplied with 0. The copy ends before it.
        if (left < WIDE_KEYS) clear_head(to + last.from % 8 * 128, left, left > WIDE_KEYS / 2 ? WIDE_KEYS : WIDE_KEYS / 2);
        if (copies) copy_head(how, to, last.head, last.from, last.to, room.came(WIDE_OF_VALUES, values.stage));
        values.next();
        last.from = last.to;
    };
    auto tell = [&](const Share& share) {
        barrier_wait(room.free(WIDE_OF_QUERIES, queries.stage), queries.parity);
        if (!copies) return;
        store_words(room.shares(queries.stage), share.start, share.length, share.query, share.column);
        store_words(room.shares(queries.stage) + 16, share.first, share.last, 0, 0);
    };
    Share mine = {};
    for (u32 at = blockIdx.x, turn = 0; at < count; at += gridDim.x, turn++) {
        if (turn % 32 == 0) {
            // Each lane looks one of the next 32 up, which takes as long as one alone.
            const u32 my = at + threadIdx.x % 32 * gridDim.x;
            if (my < count) mine = share_at<128>(how, how.backwards ? count - 1 - my : my);
        }
        const Share share = share_of(mine, turn % 32);
        const u32 end = share.start + share.length, head = how.heads + share.column / how.share;
        if (share.length == 0) {
            bring_values();
            tell(share);
            if (copies) barrier_arrive(room.came(WIDE_OF_QUERIES, queries.stage));
            queries.next();
        }
        for (u32 key = share.first; key < share.last; key += WIDE_KEYS) {
            const Rows rows = {head, share.start + key, min(share.start + key + WIDE_KEYS, end)};
            barrier_wait(room.free(WIDE_OF_KEYS, keys.stage), keys.parity);
            const u32 to = room.at(WIDE_OF_KEYS, keys.stage);
            if (copies) copy_head(how, to, rows.head, rows.from, rows.to, room.came(WIDE_OF_KEYS, keys.stage));
            keys.next();
            bring_values();
            if (key == share.first) {
                // Neither first keys nor the values before need wait until there is room for queries.
                tell(share);
                const u32 query = share.start + share.query, place = queries.stage;
                if (copies) {
                    copy_head(how, room.at(WIDE_OF_QUERIES, place), share.column, query, min(query + 128, end),
                              room.came(WIDE_OF_QUERIES, place));
                }
                queries.next();
            }
            last = {rows.head + how.kv_heads, rows.from, rows.to};
        }
    }
    bring_values();
}

// What a warpgroup computes: 64 queries of a share, and keys that it reads less than; where queries, and keys of the first
// place, begin.
struct WideTask {
    Share share;
    u32 group, reach, rows, queries, keys;

    __device__ __forceinline__ u32 query() const { return share.query + group * 64; }
    // The first of the warp's queries.
    __device__ __forceinline__ u32 warp_query() const { return query() + threadIdx.x / 32 % 4 * 16; }
    // Whether no more than half of the keys from here on are read: of the last step alone, since the other warpgroup reads at
    // most 64 keys more.
    __device__ __forceinline__ bool half(u32 key) const { return reach <= key + WIDE_KEYS / 2; }

    __device__ __forceinline__ void find(const Attention& how, const WideRoom& room, u32 place) {
        const u32 skew = share.start % 8 * 128;
        rows = room.at(WIDE_OF_QUERIES, place) + skew;
        queries = MATRIX_BEGINS(rows + group * (64 * 128));
        keys = MATRIX_BEGINS(room.at(WIDE_OF_KEYS, 0) + skew);
        reach = share.length;
        if (how.window != EVERYTHING) reach = min(reach, query() + 64 + min(how.window, share.length));
        if (how.causal) reach = min(reach, query() + 64);
    }
};

// The warpgroups start products in turns.
__device__ __forceinline__ void take_turn(u32 group) {
    asm volatile("bar.sync %0, 256;" ::"r"(group + 1) : "memory");
}

__device__ __forceinline__ void give_turn(u32 group) {
    asm volatile("bar.arrive %0, 256;" ::"r"((group ^ 1) + 1) : "memory");
}

// Starts to multiply queries with keys, two of these for each of a lane's scores.
template <int COUNT>
__device__ __forceinline__ void start_wide(float (&scores)[COUNT], u32 queries, u32 keys) {
    pin(scores);
    begin_products();
#pragma unroll
    for (u32 k = 0; k < 8; k++) {
        const u32 step = k / 4 * (WIDE_COLUMN >> 4) + k % 4 * 2;
        F16Group::multiply(scores, matrix_from(queries + step), matrix_from(keys + step), k != 0);
    }
    commit_products();
}

// Starts to add values by their shares.
template <int COUNT>
__device__ __forceinline__ void add_wide(Held<128>& held, const u32 (&shares)[32], u32 values) {
    pin(held.sums);
    begin_products();
    // Instead of 1, how far apart the columns are.
    const u32 begins = values + ((WIDE_COLUMN >> 4) - 1 << 16);
#pragma unroll
    for (u32 n = 0; n < COUNT / 8; n++) multiply_held(held.sums, shares + 4 * n, matrix_from(begins + n * (2048 >> 4)));
    commit_products();
}

// Makes scores of keys that a query does not read minus infinity.
template <int COUNT>
__device__ __forceinline__ void hide(float (&scores)[COUNT], const Attention& how, const WideTask& task, u32 key) {
    const u32 lane = threadIdx.x & 31, length = task.share.length;
    const int at = (int)(key + lane % 4 * 2);
    int first[2], last[2];
#pragma unroll
    for (u32 h = 0; h < 2; h++) {
        const u32 query = task.warp_query() + lane / 4 + 8 * h;
        u32 until = length;
        if (how.causal) until = min(until, query + 1);
        if (how.window != EVERYTHING) until = min(until, query + min(how.window, length) + 1);
        last[h] = (int)until - at;
        first[h] = (int)(query > how.window ? query - how.window : 0) - at;
    }
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        if (8 * (i / 4) + i % 2 >= last[i / 2 % 2]) scores[i] = -INFINITE;
    }
    if (how.window == EVERYTHING) return;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        if (8 * (i / 4) + i % 2 < first[i / 2 % 2]) scores[i] = -INFINITE;
    }
}

// Makes products of queries and keys from `key` on shares; sums are to be multiplied with `shrink` where it says so.
template <int COUNT>
__device__ __forceinline__ bool weigh(float (&scores)[COUNT], Held<128>& held, float (&shrink)[2], const Attention& how,
                                      const WideTask& task, u32 key) {
    const Part part = {task.share.start, task.share.length, 0, task.warp_query(), 0};
    if (!reads_all(how, part, part.query, key, 2 * COUNT)) hide(scores, how, task, key);
    const float unit = how.scale * LOG2_E;
    bool grown = false;
    raise(scores, held, unit, [&](const float (&by)[2]) {
        shrink[0] = by[0];
        shrink[1] = by[1];
        grown = true;
    });
    take_shares(scores, held, unit);
    return grown;
}

// Writes a warp's 16 queries through where they were.
__device__ __forceinline__ void give_wide(const Attention& how, const WideTask& task, const Held<128>& held) {
    const u32 lane = threadIdx.x & 31, query = task.warp_query(), row = task.share.start + query;
    const u32 count = min(task.share.length - query, 16), panel = task.rows + (query - task.share.query) * 128;
    float factor[2];
    divide(factor, held);
    auto pair = [&](u32 at, u32 h) {
        const float low = held.sums[at] * factor[h], high = held.sums[at + 1] * factor[h];
        return how.wide ? f32_to_bf16x2(low, high) : f32_to_f16x2(low, high);
    };
#pragma unroll
    for (u32 j = 0; j < 16; j += 2) {
        const u32 down = lane % 16, piece = (j + lane / 16) % 8;
        store_matrices(panel + j / 8 * WIDE_COLUMN + down * 128 + ((piece ^ (row + down & 7)) << 4), pair(4 * j, 0),
                       pair(4 * j + 2, 1), pair(4 * j + 4, 0), pair(4 * j + 6, 1));
    }
    show_copies();
    __syncwarp();
    if (lane > 0) return;
    const u32 to = row + count, middle = min(to, (row / TILE_ROWS + 1) * TILE_ROWS);
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
        // Where a row begins, whatever piece the swizzle puts there.
        auto begin = [&](u32 at) {
            return how.out + (place(at, (2 * task.share.column + half) * 8, how.out_steps) & ~(u64)127);
        };
        const u32 here = panel + half * WIDE_COLUMN;
        store_bulk(begin(row), here, (middle - row) * 128);
        if (middle < to) store_bulk(begin(middle), here + (middle - row) * 128, (to - middle) * 128);
    }
}

// Says that a warp has used what a place holds.
__device__ __forceinline__ void give_back_wide(const WideRoom& room, u32 ring, u32 place) {
    if (threadIdx.x % 32 == 0) barrier_arrive(room.free(ring, place));
}

template <int COUNT>
__device__ __forceinline__ void pack_wide(u32 (&shares)[32], const float (&scores)[COUNT]) {
#pragma unroll
    for (u32 i = 0; i < COUNT / 2; i++) shares[i] = f32_to_f16x2(scores[2 * i], scores[2 * i + 1]);
}

// What a warpgroup does with keys and values of a step, with a lane's COUNT scores.
struct Steps {
    const Attention& how;
    const WideRoom& room;
    const WideTask& task;

    template <int COUNT, typename Begun>
    __device__ __forceinline__ void first(Held<128>& held, u32 (&shares)[32], const Turn<2>& round, u32 key,
                                          const Begun& begun) const {
        float scores[COUNT], shrink[2];
        barrier_wait(room.came(WIDE_OF_KEYS, round.stage), round.parity);
        take_turn(task.group);
        start_wide(scores, task.queries, task.keys + round.stage * (WIDE_HEAD >> 4));
        give_turn(task.group);
        wait_products<0>();
        pin(scores);
        give_back_wide(room, WIDE_OF_KEYS, round.stage);
        begun();
        weigh(scores, held, shrink, how, task, key);
        pack_wide(shares, scores);
    }

    // Adds the values of the step before meanwhile.
    template <int COUNT>
    __device__ __forceinline__ void next(Held<128>& held, u32 (&shares)[32], Turn<2>& round, u32 key) const {
        float scores[COUNT], shrink[2];
        Turn<2> next = round;
        next.next();
        barrier_wait(room.came(WIDE_OF_KEYS, next.stage), next.parity);
        barrier_wait(room.came(WIDE_OF_VALUES, round.stage), round.parity);
        take_turn(task.group);
        start_wide(scores, task.queries, task.keys + next.stage * (WIDE_HEAD >> 4));
        add_wide<64>(held, shares, task.keys + (2 * WIDE_HEAD >> 4) + round.stage * (WIDE_HEAD >> 4));
        give_turn(task.group);
        wait_products<1>();
        pin(scores);
        give_back_wide(room, WIDE_OF_KEYS, next.stage);
        const bool grown = weigh(scores, held, shrink, how, task, key);
        wait_products<0>();
        pin(held.sums);
        give_back_wide(room, WIDE_OF_VALUES, round.stage);
        if (grown) shrink_sums(held, shrink);
        pack_wide(shares, scores);
        round = next;
    }
};

// Attends with what is brought for a share; calls `begun` once the first scores are there. A step's values are added while
// the next step's shares are computed.
template <typename Begun>
__device__ __forceinline__ void attend_wide(const Attention& how, const WideRoom& room, const WideTask& task, Turn<2>& round,
                                            const Begun& begun) {
    Held<128> held = {};
    held.most[0] = held.most[1] = -INFINITE;
    u32 shares[32];
    u32 key = task.share.first;
    const u32 values = task.keys + (2 * WIDE_HEAD >> 4);
    const Steps steps = {how, room, task};
    if (task.half(key)) steps.first<32>(held, shares, round, key, begun);
    else steps.first<64>(held, shares, round, key, begun);
    for (; key + WIDE_KEYS < task.share.last && !task.half(key + WIDE_KEYS); key += WIDE_KEYS) {
        steps.next<64>(held, shares, round, key + WIDE_KEYS);
    }
    if (key + WIDE_KEYS < task.share.last) {
        key += WIDE_KEYS;
        steps.next<32>(held, shares, round, key);
    }
    barrier_wait(room.came(WIDE_OF_VALUES, round.stage), round.parity);
    const u32 from = values + round.stage * (WIDE_HEAD >> 4);
    if (task.half(key)) add_wide<32>(held, shares, from);
    else add_wide<64>(held, shares, from);
    wait_products<0>();
    pin(held.sums);
    give_back_wide(room, WIDE_OF_VALUES, round.stage);
    round.next();
    if (task.warp_query() < task.share.length) give_wide(how, task, held);
}

// Keeps pace with the other warpgroup, without queries of its own.
__device__ __forceinline__ void pass_wide(const WideRoom& room, const WideTask& task, Turn<2>& round) {
    for (u32 key = task.share.first; key < task.share.last; key += WIDE_KEYS) {
        barrier_wait(room.came(WIDE_OF_KEYS, round.stage), round.parity);
        take_turn(task.group);
        give_turn(task.group);
        give_back_wide(room, WIDE_OF_KEYS, round.stage);
        barrier_wait(room.came(WIDE_OF_VALUES, round.stage), round.parity);
        give_back_wide(room, WIDE_OF_VALUES, round.stage);
        round.next();
    }
}

// Attends with everything that is brought; two warpgroups.
__device__ __forceinline__ void use_wide(const Attention& how, const WideRoom& room, u32 count) {
    const u32 lane = threadIdx.x & 31;
    Turn<2> round = {0, 0}, place = {0, 0};
    WideTask task = {};
    task.group = threadIdx.x / 128;
    if (task.group == 1) give_turn(1);
    for (u32 at = blockIdx.x; at < count; at += gridDim.x) {
        barrier_wait(room.came(WIDE_OF_QUERIES, place.stage), place.parity);
        const uint4 words = load_piece(room.shares(place.stage)), more = load_piece(room.shares(place.stage) + 16);
        task.share = {words.x, words.y, words.z, words.w, more.x, more.y};
        task.find(how, room, place.stage);
        auto free_other = [&]() {
            if (at < gridDim.x) return;
            // What was written from the other place has left it by now.
            if (lane == 0) wait_stores_read<0>();
            __syncwarp();
            barrier_arrive(room.free(WIDE_OF_QUERIES, place.stage ^ 1));
        };
        if (task.query() < task.share.length) {
            attend_wide(how, room, task, round, free_other);
        } else {
            free_other();
            pass_wide(room, task, round);
        }
        place.next();
    }
    if (task.group == 0) take_turn(0);
    if (lane == 0) wait_stores_read<0>();
}

__device__ __forceinline__ void attend_wide_heads(const Attention& how) {
    extern __shared__ __align__(1024) u8 shared[];
    start_next_launch();
    const u32 count = how.long_items * how.heads;
    const WideRoom room = {shared_address(shared)};
    if (threadIdx.x == 256) {
        for (u32 place = 0; place < 6; place++) {
            barrier_begin(room.came(0, place), 1);
            // One arrival of each warp that attends, and for queries of each thread.
            barrier_begin(room.free(0, place), place < WIDE_OF_QUERIES ? 8 : 256);
        }
        barriers_begun();
    }
    __syncthreads();
    if (threadIdx.x >= 256) {
        shrink_registers<SPARE_REGISTERS>();
        if (threadIdx.x < 288) bring_wide(how, room, count);
    } else {
        grow_registers<WIDE_REGISTERS>();
        use_wide(how, room, count);
    }
}

#else

__device__ __forceinline__ void attend_wide_heads(const Attention& how) {}

#endif
