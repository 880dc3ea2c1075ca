// Attention with heads of 32 or 64 columns by Hopper's warpgroup products. On other devices the kernels are empty.

#pragma once
#include "encode_attend.cuh"
#include "wgmma.cuh"

// encode_attend_{D}_group: what encode_attend_{D}_long takes and gives; an item may be of an empty text. Heads of 32 columns
// are even in number, each with keys of its own: two of them make a column of 128 bytes and are attended to together.
// Two warpgroups take items and columns in turn: 64 queries each, or of heads of 32 columns a head each of the same 64
// queries. A warp copies queries, and 64 keys and values at a time, to shared memory as fast as there is room, on into the
// next item. A block has two such teams. Rows lie in shared memory as in the packed batch, from a multiple of 8 rows on,
// because the swizzle follows the row in the batch; products begin at the text's own row, so that what is summed together
// depends on the text alone.
//   640 threads, one block a multiprocessor; dynamic shared memory: 2 * TEAM_SHARED bytes
#define GROUP_KEYS 64
#define KEYS_BYTES (72 * 128)
#define QUERIES_BYTES (136 * 128)
#define GROUP_STAGES 4
#define GROUP_REGISTERS 112
// How much a score may exceed, in powers of two, what its row's shares are in proportion to: binary16 holds them still.
#define GROUP_SLACK 8.0f
#define TEAM_SHARED (2 * GROUP_STAGES * KEYS_BYTES + 2 * QUERIES_BYTES + 1024)

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// sums += held * values for 64 rows, 16 keys and 64 or 32 columns: a warp holds shares of its 16 rows, as mma.sync wants
// them; values have the keys' rows one below the other.
__device__ __forceinline__ void multiply_held(float (&x)[32], const u32* held, u64 values) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " NAMES_32 ", {%32, %33, %34, %35}, %36, 1, 1, 1, 1;\n"
                 : THIRTY_TWO(IN_F32, x)
                 : "r"(held[0]), "r"(held[1]), "r"(held[2]), "r"(held[3]), "l"(values));
}

__device__ __forceinline__ void multiply_held(float (&x)[16], const u32* held, u64 values) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 " NAMES_16 ", {%16, %17, %18, %19}, %20, 1, 1, 1, 1;\n"
                 : SIXTEEN(IN_F32, x)
                 : "r"(held[0]), "r"(held[1]), "r"(held[2]), "r"(held[3]), "l"(values));
}

__device__ __forceinline__ void store_words(u32 shared, u32 a, u32 b, u32 c, u32 d) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

// Heads in a column of 128 bytes, and queries that a team takes at once.
template <int D>
constexpr u32 ABREAST = D < 64 ? 64 / D : 1;
template <int D>
constexpr u32 TEAM_QUERIES = 128 / ABREAST<D>;

// What a team does next: queries of a text and column of heads, and the keys they read.
struct Share {
    u32 start, length, query, column, first, last;
};

template <int D>
__device__ __forceinline__ Share share_at(const Attention& how, u32 at) {
    const u32 columns = how.heads / ABREAST<D>, part = at % ABREAST<D>, pair = at / ABREAST<D>;
    const uint2 item = how.items[pair / columns];
    const u32 start = how.starts[item.x], length = how.starts[item.x + 1] - start;
    const u32 query = item.y + part * TEAM_QUERIES<D>;
    // The rest of the item is not there.
    if (query >= length) return {start, 0, 0, 0, 0, 0};
    u32 first = 0, last = length;
    if (how.window != EVERYTHING) {
        first = query > how.window ? (query - how.window) / GROUP_KEYS * GROUP_KEYS : 0;
        last = min(last, min(query + TEAM_QUERIES<D> - 1, length) + min(how.window, length) + 1);
    }
    if (how.causal) last = min(last, query + TEAM_QUERIES<D>);
    return {start, length, query, pair % columns, first, last};
}

// Where everything of a team lies in shared memory: stages of keys and values, two places of queries, what is done with
// these, and barriers.
struct Room {
    u32 stages;

    __device__ __forceinline__ u32 keys(u32 stage) const { return stages + stage * 2 * KEYS_BYTES; }
    __device__ __forceinline__ u32 values(u32 stage) const { return keys(stage) + KEYS_BYTES; }
    __device__ __forceinline__ u32 queries(u32 place) const { return keys(GROUP_STAGES) + place * QUERIES_BYTES; }
    __device__ __forceinline__ u32 shares(u32 place) const { return queries(2) + place * 32; }
    __device__ __forceinline__ u32 barriers() const { return shares(2); }
    // Of a stage: keys have come, values have come, and it is free.
    __device__ __forceinline__ u32 came(u32 stage) const { return barriers() + stage * 24; }
    __device__ __forceinline__ u32 values_came(u32 stage) const { return came(stage) + 8; }
    __device__ __forceinline__ u32 free(u32 stage) const { return came(stage) + 16; }
    // Of a place of queries.
    __device__ __forceinline__ u32 queries_came(u32 place) const { return came(GROUP_STAGES) + place * 16; }
    __device__ __forceinline__ u32 queries_free(u32 place) const { return queries_came(place) + 8; }
};

// Copies rows [from, to) of the batch, of one head's columns, from the multiple of 8 before them on; at most 136.
__device__ __forceinline__ void copy_rows(const Attention& how, u32 shared, u32 column, u32 from, u32 to, u32 barrier) {
    from = from / 8 * 8;
    to = (to + 7) / 8 * 8;
    const u32 middle = min(to, (from / TILE_ROWS + 1) * TILE_ROWS);
    barrier_expect(barrier, (to - from) * 128);
    copy_bulk(shared, how.qkv + place(from, column * 8, how.steps), (middle - from) * 128, barrier);
    if (middle < to) {
        copy_bulk(shared + (middle - from) * 128, how.qkv + place(middle, column * 8, how.steps), (to - middle) * 128, barrier);
    }
}

// Waits for room for queries, and says what they are.
__device__ __forceinline__ void tell(const Room& room, const Share& share, const Turn<2>& queries) {
    barrier_wait(room.queries_free(queries.stage), queries.parity);
    store_words(room.shares(queries.stage), share.start, share.length, share.query, share.column);
    store_words(room.shares(queries.stage) + 16, share.first, share.last, 0, 0);
}

// Brings everything; one thread.
template <int D>
__device__ __forceinline__ void bring(const Attention& how, const Room& room, u32 team, u32 count) {
    const u32 columns = how.heads / ABREAST<D>, kv_columns = how.kv_heads / ABREAST<D>;
    wait_for_launches();
    // A wait for the parity before the first round ends at once: all is free.
    Turn<GROUP_STAGES> round = {0, 1};
    Turn<2> queries = {0, 1};
    for (u32 at = team * gridDim.x + blockIdx.x; at < count; at += 2 * gridDim.x) {
        const Share share = share_at<D>(how, how.backwards ? count - 1 - at : at);
        const u32 end = share.start + share.length, column = columns + share.column / how.share;
        if (share.length == 0) {
            tell(room, share, queries);
            barrier_arrive(room.queries_came(queries.stage));
            queries.next();
        }
        for (u32 key = share.first; key < share.last; key += GROUP_KEYS) {
            const u32 from = share.start + key, until = min(from + GROUP_KEYS, end);
            barrier_wait(room.free(round.stage), round.parity);
            copy_rows(how, room.keys(round.stage), column, from, until, room.came(round.stage));
            copy_rows(how, room.values(round.stage), column + kv_columns, from, until, room.values_came(round.stage));
            round.next();
            if (key > share.first) continue;
            // The first keys need not wait until there is room for queries.
            tell(room, share, queries);
            const u32 query = share.start + share.query;
            const u32 to = room.queries(queries.stage), here = room.queries_came(queries.stage);
            copy_rows(how, to, share.column, query, min(query + TEAM_QUERIES<D>, end), here);
            queries.next();
        }
    }
}

// Zeros in rows from `from` on of values that begin at `values`: what lies behind a text may be anything, and is multiplied
// with 0. Both warpgroups do it together.
__device__ __forceinline__ void clear_rows(u32 values, u32 from, u32 team) {
    for (u32 at = from * 8 + threadIdx.x % 256; at < GROUP_KEYS * 8; at += 256) {
        store_words(values + at * 16, 0, 0, 0, 0);
    }
    show_copies();
    asm volatile("bar.sync %0, 256;" ::"r"(team + 1) : "memory");
}

// The state of a warp's 16 queries of a head: sums of values, and of each of a lane's two rows what shares are in
// proportion to, the power of two of a score, and their sum.
template <int D>
struct Held {
    float sums[D / 2];
    float most[2], total[2];
};

// What the sums of a lane's rows are multiplied with in the end: all shares together are 1.
template <int D>
__device__ __forceinline__ void divide(float (&factor)[2], const Held<D>& held) {
#pragma unroll
    for (u32 h = 0; h < 2; h++) {
        float total = held.total[h];
        total += __shfl_xor_sync(FULL_WARP, total, 1);
        total += __shfl_xor_sync(FULL_WARP, total, 2);
        factor[h] = 1.0f / total;
    }
}

// Where scores, in units of `unit`, exceed by too much what their row's shares are in proportion to, moves that there, and
// calls `outgrown` with what the row's sums are to be multiplied with.
template <int D, int COUNT, typename Outgrown>
__device__ __forceinline__ void raise(const float (&scores)[COUNT], Held<D>& held, float unit, const Outgrown& outgrown) {
    float(&most)[2] = held.most;
    float peak[2];
#pragma unroll
    for (u32 h = 0; h < 2; h++) {
        peak[h] = scores[2 * h];
#pragma unroll
        for (u32 j = 0; j < COUNT / 4; j++) {
            peak[h] = fmaxf(peak[h], fmaxf(scores[4 * j + 2 * h], scores[4 * j + 2 * h + 1]));
        }
    }
#pragma unroll
    for (u32 step = 1; step < 4; step *= 2) {
#pragma unroll
        for (u32 h = 0; h < 2; h++) peak[h] = fmaxf(peak[h], __shfl_xor_sync(FULL_WARP, peak[h], step));
    }
#pragma unroll
    for (u32 h = 0; h < 2; h++) peak[h] *= unit;
    // A row's proportion depends on its own scores alone; that others of the warp change theirs does nothing to it.
    if (__any_sync(FULL_WARP, peak[0] > most[0] + GROUP_SLACK || peak[1] > most[1] + GROUP_SLACK)) {
        float shrink[2];
#pragma unroll
        for (u32 h = 0; h < 2; h++) {
            const bool grown = peak[h] > most[h] + GROUP_SLACK;
            shrink[h] = grown ? exp2_fast(most[h] - peak[h]) : 1.0f;
            if (grown) most[h] = peak[h];
            held.total[h] *= shrink[h];
        }
        outgrown(shrink);
    }
}

template <int D>
__device__ __forceinline__ void shrink_sums(Held<D>& held, const float (&shrink)[2]) {
#pragma unroll
    for (u32 i = 0; i < D / 2; i++) held.sums[i] *= shrink[i / 2 % 2];
}

// Makes scores shares, and counts them.
template <int D, int COUNT>
__device__ __forceinline__ void take_shares(float (&scores)[COUNT], Held<D>& held, float unit) {
    float from[2], total[2][2] = {};
    // Nothing was read yet: any finite number will do.
#pragma unroll
    for (u32 h = 0; h < 2; h++) from[h] = held.most[h] == -INFINITE ? 0.0f : held.most[h];
#pragma unroll
    for (u32 i = 0; i < COUNT; i++) {
        const u32 h = i / 2 % 2;
        scores[i] = exp2_fast(fmaf(scores[i], unit, -from[h]));
        total[h][i % 2] += scores[i];
    }
#pragma unroll
    for (u32 h = 0; h < 2; h++) held.total[h] += total[h][0] + total[h][1];
}

// Makes scores, in units of `unit`, shares, and what was summed before smaller where it has to be.
template <int D>
__device__ __forceinline__ void share_out(float (&scores)[GROUP_KEYS / 2], Held<D>& held, float unit) {
    raise(scores, held, unit, [&](const float (&shrink)[2]) { shrink_sums(held, shrink); });
    take_shares(scores, held, unit);
}

// Describes a matrix as `matrix_at` does, from what begins its description: addresses in steps of 16 bytes.
#define MATRIX_BEGINS(shared) ((shared) >> 4 | 1u << 16)
__device__ __forceinline__ u64 matrix_from(u32 begins) {
    u64 matrix;
    asm("mov.b64 %0, {%1, %2};" : "=l"(matrix) : "r"(begins), "r"((u32)(matrix_at(0) >> 32)));
    return matrix;
}

// What a warp computes: a share, which warp of the team this is, and where queries, and keys of the first stage, begin.
template <int D>
struct Task {
    Share share;
    u32 warp, team, rows, queries, keys;

    // Of those in the column.
    __device__ __forceinline__ u32 head() const { return D == 64 ? 0 : warp / 4; }
    // The first row of its warpgroup, and its own, within the share.
    __device__ __forceinline__ u32 group_row() const { return D == 64 ? warp / 4 * 64 : 0; }
    __device__ __forceinline__ u32 row() const { return group_row() + warp % 4 * 16; }
    __device__ __forceinline__ u32 query() const { return share.query + row(); }
    __device__ __forceinline__ u32 skew() const { return share.start % 8 * 128; }

    // Queries and keys from a multiple of 64 on.
    __device__ __forceinline__ void find(const Room& room, u32 place) {
        rows = room.queries(place) + skew();
        queries = MATRIX_BEGINS(rows + group_row() * 128) + head() * (D / 8);
        keys = MATRIX_BEGINS(room.keys(0) + skew()) + head() * (D / 8);
    }
};

// Writes a warp's 16 queries through where they were.
template <int D>
__device__ __forceinline__ void give(const Attention& how, const Task<D>& task, const Held<D>& held) {
    const u32 lane = threadIdx.x & 31, query = task.query(), row = task.share.start + query;
    const u32 count = min(task.share.length - query, 16);
    const u32 panel = task.rows + task.row() * 128, pieces = task.head() * (D / 8);
    float factor[2];
    divide(factor, held);
    auto pair = [&](u32 at, u32 h) {
        const float low = held.sums[at] * factor[h], high = held.sums[at + 1] * factor[h];
        return how.wide ? f32_to_bf16x2(low, high) : f32_to_f16x2(low, high);
    };
    auto slot_of = [&](u32 down, u32 piece) { return panel + down * 128 + ((pieces + piece ^ (row + down & 7)) << 4); };
#pragma unroll
    for (u32 j = 0; j < D / 8; j += 2) {
        store_matrices(slot_of(lane % 16, j + lane / 16), pair(4 * j, 0), pair(4 * j + 2, 1), pair(4 * j + 4, 0),
                       pair(4 * j + 6, 1));
    }
    show_copies();
    __syncwarp();
    if constexpr (D == 64) {
        if (lane > 0) return;
        const u32 to = row + count, middle = min(to, (row / TILE_ROWS + 1) * TILE_ROWS);
        // Where a row begins, whatever piece the swizzle puts there.
        auto begin = [&](u32 at) { return how.out + (place(at, task.share.column * 8, how.out_steps) & ~(u64)127); };
        store_bulk(begin(row), panel, (middle - row) * 128);
        if (middle < to) store_bulk(begin(middle), panel + (middle - row) * 128, (to - middle) * 128);
    } else {
        // The other half of each row is the other warpgroup's.
#pragma unroll
        for (u32 at = lane; at < 16 * D / 8; at += 32) {
            const u32 down = at / (D / 8), piece = at % (D / 8);
            if (down >= count) continue;
            const u64 to = place(row + down, task.share.column * 8 + pieces + piece, how.out_steps);
            *(uint4*)(how.out + to) = load_piece(slot_of(down, piece));
        }
    }
}

// Starts to multiply queries with a stage's keys.
template <int D>
__device__ __forceinline__ void start_scores(float (&scores)[GROUP_KEYS / 2], const Task<D>& task, u32 stage) {
    const u32 keys = task.keys + stage * (2 * KEYS_BYTES >> 4);
    pin(scores);
    begin_products();
#pragma unroll
    for (u32 k = 0; k < D / 16; k++) {
        F16Group::multiply(scores, matrix_from(task.queries + 2 * k), matrix_from(keys + 2 * k), k != 0);
    }
    commit_products();
}

// Waits for a stage's values, and sees to it that what lies behind the text is zeros.
template <int D>
__device__ __forceinline__ void await_values(const Room& room, const Task<D>& task, const Turn<GROUP_STAGES>& round, u32 key) {
    barrier_wait(room.values_came(round.stage), round.parity);
    const u32 left = task.share.length - key;
    if (left < GROUP_KEYS) clear_rows(room.values(round.stage) + task.skew(), left, task.team);
}

// Says that this thread has used a stage: each for itself where it may have cleared rows, else one for its warp.
template <int D>
__device__ __forceinline__ void give_back(const Room& room, const Task<D>& task, u32 stage, u32 key) {
    const bool cleared = task.share.length - key < GROUP_KEYS;
    if (cleared || threadIdx.x % 32 == 0) barrier_arrive_by(room.free(stage), cleared ? 1 : 32);
}

// Starts to add a stage's values by their shares.
template <int D>
__device__ __forceinline__ void start_values(Held<D>& held, const u32 (&shares)[GROUP_KEYS / 4], const Task<D>& task,
                                             u32 stage) {
    const u32 values = task.keys + stage * (2 * KEYS_BYTES >> 4) + (KEYS_BYTES >> 4);
    pin(held.sums);
    begin_products();
#pragma unroll
    for (u32 n = 0; n < GROUP_KEYS / 16; n++) multiply_held(held.sums, shares + 4 * n, matrix_from(values + n * (2048 >> 4)));
    commit_products();
}

// Makes products of queries and keys from `key` on shares. SIMPLE: every query reads every key as it is.
template <int D, bool SIMPLE>
__device__ __forceinline__ void rate_and_share(float (&scores)[GROUP_KEYS / 2], Held<D>& held, const Attention& how,
                                               const Task<D>& task, u32 key) {
    const Part part = {task.share.start, task.share.length, task.share.column * ABREAST<D> + task.head(), task.query(), 0};
    const bool plain = SIMPLE ? key + GROUP_KEYS <= part.length
                              : !how.slopes && !how.relative && reads_all(how, part, part.query, key, GROUP_KEYS);
    if (SIMPLE && !plain) {
        const int left = (int)(part.length - key) - (int)(threadIdx.x % 4 * 2);
#pragma unroll
        for (int i = 0; i < GROUP_KEYS / 2; i++) scores[i] = 8 * (i / 4) + i % 2 < left ? scores[i] : -INFINITE;
    } else if (!plain) {
        rate<GROUP_KEYS / 8>(*(float(*)[GROUP_KEYS / 8][4])scores, how, part, part.query, key);
    }
    share_out<D>(scores, held, SIMPLE || plain ? how.scale * LOG2_E : 1.0f);
}

__device__ __forceinline__ void pack_shares(u32 (&shares)[GROUP_KEYS / 4], const float (&scores)[GROUP_KEYS / 2]) {
#pragma unroll
    for (u32 i = 0; i < GROUP_KEYS / 4; i++) shares[i] = f32_to_f16x2(scores[2 * i], scores[2 * i + 1]);
}

// Attends with what is brought for a share; calls `begun` once the first scores are there. Values are added while the next
// scores are computed, and while one warpgroup computes shares, others multiply.
template <int D, bool SIMPLE, typename Begun>
__device__ __forceinline__ void attend_share(const Attention& how, const Room& room, const Task<D>& task,
                                             Turn<GROUP_STAGES>& round, Held<D>& held, const Begun& begun) {
    float scores[GROUP_KEYS / 2];
    auto start = [&](const Turn<GROUP_STAGES>& at) {
        barrier_wait(room.came(at.stage), at.parity);
        start_scores<D>(scores, task, at.stage);
    };
    start(round);
    wait_products<0>();
    pin(scores);
    begun();
    for (u32 key = task.share.first; key < task.share.last; key += GROUP_KEYS) {
        u32 shares[GROUP_KEYS / 4];
        Turn<GROUP_STAGES> next = round;
        next.next();
        rate_and_share<D, SIMPLE>(scores, held, how, task, key);
        pack_shares(shares, scores);
        await_values(room, task, round, key);
        start_values<D>(held, shares, task, round.stage);
        if (key + GROUP_KEYS < task.share.last) start(next);
        wait_products<0>();
        pin(held.sums);
        pin(scores);
        give_back(room, task, round.stage, key);
        round = next;
    }
}

// Keeps pace with the other warpgroup of the team, without queries of its own.
template <int D>
__device__ __forceinline__ void pass_share(const Room& room, const Task<D>& task, Turn<GROUP_STAGES>& round) {
    for (u32 key = task.share.first; key < task.share.last; key += GROUP_KEYS) {
        await_values(room, task, round, key);
        give_back(room, task, round.stage, key);
        round.next();
    }
}

// Attends with everything that is brought; two warpgroups.
template <int D, bool SIMPLE>
__device__ __forceinline__ void use(const Attention& how, const Room& room, u32 team, u32 count) {
    const u32 lane = threadIdx.x & 31;
    Turn<GROUP_STAGES> round = {0, 0};
    Turn<2> place = {0, 0};
    Task<D> task = {{}, threadIdx.x / 32 % 8, team, 0, 0, 0};
    for (u32 at = team * gridDim.x + blockIdx.x; at < count; at += 2 * gridDim.x) {
        barrier_wait(room.queries_came(place.stage), place.parity);
        const uint4 words = load_piece(room.shares(place.stage)), more = load_piece(room.shares(place.stage) + 16);
        task.share = {words.x, words.y, words.z, words.w, more.x, more.y};
        task.find(room, place.stage);
        auto free_other = [&]() {
            if (at < 2 * gridDim.x) return;
            // What was written from the other place has left it by now.
            if (lane == 0) wait_stores_read<0>();
            __syncwarp();
            barrier_arrive(room.queries_free(place.stage ^ 1));
        };
        if (task.share.query + task.group_row() < task.share.length) {
            Held<D> held = {};
            held.most[0] = held.most[1] = -INFINITE;
            attend_share<D, SIMPLE>(how, room, task, round, held, free_other);
            if (task.query() < task.share.length) give<D>(how, task, held);
        } else {
            free_other();
            pass_share(room, task, round);
        }
        place.next();
    }
    if (lane == 0) wait_stores_read<0>();
}

template <int D>
__device__ __forceinline__ void attend_group(const Attention& how) {
    extern __shared__ __align__(1024) u8 shared[];
    start_next_launch();
    // The last warpgroup's first warps copy, one a team.
    const bool brings = threadIdx.x >= 512;
    const u32 team = brings ? threadIdx.x / 32 % 4 : threadIdx.x / 256, count = how.long_items * how.heads;
    const Room room = {shared_address(shared) + team % 2 * TEAM_SHARED};
    if (brings && team < 2 && threadIdx.x % 32 == 0) {
        for (u32 stage = 0; stage < GROUP_STAGES; stage++) {
            barrier_begin(room.came(stage), 1);
            barrier_begin(room.values_came(stage), 1);
            // One arrival of each thread that attends.
            barrier_begin(room.free(stage), 256);
        }
        for (u32 place = 0; place < 2; place++) {
            barrier_begin(room.queries_came(place), 1);
            barrier_begin(room.queries_free(place), 256);
        }
        barriers_begun();
    }
    __syncthreads();
    if (brings) {
        shrink_registers<32>();
        if (team < 2 && threadIdx.x % 32 == 0) bring<D>(how, room, team, count);
    } else {
        grow_registers<GROUP_REGISTERS>();
        const bool simple = !how.slopes && !how.relative && !how.causal && how.window == EVERYTHING;
        if (simple) use<D, true>(how, room, team, count);
        else use<D, false>(how, room, team, count);
    }
}

#else

template <int D>
__device__ __forceinline__ void attend_group(const Attention& how) {}

#endif
