// Long lines to units. A bracket of more than LEAST_CUT tokens with commas of its own is cut into chunks, each from a comma
// to another, which are parsed on their own; in the unit around it one token stands for them. Which token that is follows
// from the kind of the bracket and the token before it; should it be the wrong one, a unit does not parse, and the CPU
// takes the source.

#include "parse_tree.cuh"

// A bracket of so many tokens or fewer stays whole.
#define LEAST_CUT 64u
// A longer line would keep all others waiting: the CPU is as fast with it.
#define MOST_CUT 5000u
// A chunk ends with the first comma behind so many tokens.
#define CHUNK 48u
#define MOST_OPEN 256u
#define CUT_THREADS 256u
// Groups of tokens that a block looks at together.
#define GROUPS 64u

// What stands in a bracket itself, not deeper.
enum Direct : u32 { HAS_COMMA = 1, HAS_FOR = 2, HAS_COLON = 4, IS_FIELD = 8, IS_NOTED = 16 };
#define LAMBDAS_SHIFT 8

// The bits below one, which may be 32.
__device__ __forceinline__ u32 bits_below(u32 bit) { return bit < 32 ? (1u << bit) - 1 : FULL_WARP; }

__device__ __forceinline__ bool is_field_open(u32 kind) { return kind == TOKEN_FIELD_OPEN || kind == TOKEN_DEBUG_OPEN; }
__device__ __forceinline__ bool opens(u32 kind) {
    return is_field_open(kind) || kind == TOKEN_WITH_PAREN || kind == TOKEN_LEFT_PAREN || kind == TOKEN_LEFT_BRACKET ||
        kind == TOKEN_LEFT_BRACE;
}
__device__ __forceinline__ bool closes(u32 kind) {
    return kind == TOKEN_FIELD_CLOSE || kind == TOKEN_RIGHT_PAREN || kind == TOKEN_RIGHT_BRACKET || kind == TOKEN_RIGHT_BRACE;
}

// Whether a token may end a primary, which an argument list or a subscript can follow.
__device__ __forceinline__ bool ends_primary(u32 kind) {
    return kind <= TOKEN_STRING || kind == TOKEN_F_STRING_END || (kind >= TOKEN_ELLIPSIS && kind <= TOKEN_FALSE) ||
        closes(kind);
}

// 32 tokens of a line. What brackets enclose that open and close among them is hidden, as they are themselves: they are
// too short to be cut.
struct Group {
    u32 brackets, lambdas, colons, commas, fors, parts, cuts;
    u8 kinds[32];

    // Looks at the tokens from `base` on, one a lane. `cuts` tells brackets that are to be cut, once that is known.
    __device__ void load(const TreeBatch& batch, u32 base, u32 end) {
        const u32 at = base + lane_id(), kind = at < end ? batch.kinds[at] : TOKEN_NAME;
        const u32 opening = __ballot_sync(FULL_WARP, opens(kind)), closing = __ballot_sync(FULL_WARP, closes(kind));
        const u32 own_parts = __ballot_sync(FULL_WARP, kind == TOKEN_FIELD_COLON || kind == TOKEN_FIELD_BANG);
        const u32 fields = __ballot_sync(FULL_WARP, is_field_open(kind) || kind == TOKEN_FIELD_CLOSE) | own_parts;
        u32 own_brackets = opening | closing;
        // All fields are to be noted.
        const u32 seen = own_brackets && !fields ? visible(opening, closing, own_brackets) : FULL_WARP;
        const u32 all_lambdas = __ballot_sync(FULL_WARP, kind == TOKEN_LAMBDA);
        const u32 all_colons = __ballot_sync(FULL_WARP, kind == TOKEN_COLON);
        const u32 all_commas = __ballot_sync(FULL_WARP, kind == TOKEN_COMMA);
        const u32 all_fors = __ballot_sync(FULL_WARP, kind == TOKEN_FOR);
        const bool may = own_brackets >> lane_id() & 1 &&
            (kind == TOKEN_LEFT_PAREN || kind == TOKEN_LEFT_BRACKET || kind == TOKEN_LEFT_BRACE);
        const u32 own_cuts = __ballot_sync(FULL_WARP, may && batch.payloads[at] != 0);
        kinds[lane_id()] = (u8)kind;
        if (lane_id() != 0) return;
        brackets = own_brackets;
        lambdas = all_lambdas & seen;
        colons = all_colons & seen;
        commas = all_commas & seen;
        fors = all_fors & seen;
        parts = own_parts;
        cuts = own_cuts;
    }

    // Leaves the brackets that have no match here; gives the tokens that no others enclose.
    __device__ static u32 visible(u32 opening, u32 closing, u32& brackets) {
        const u32 upto = (2u << lane_id()) - 1;
        const int depth = __popc(opening & upto) - __popc(closing & upto);
        int least_upto = depth, least_from = depth;
#pragma unroll
        for (int step = 1; step < 32; step *= 2) {
            const int earlier = __shfl_up_sync(FULL_WARP, least_upto, step);
            const int later = __shfl_down_sync(FULL_WARP, least_from, step);
            if (lane_id() >= step) least_upto = min(least_upto, earlier);
            if (lane_id() + step < 32) least_from = min(least_from, later);
        }
        const int before = __shfl_up_sync(FULL_WARP, least_upto, 1), least_before = lane_id() ? min(before, 0) : 0;
        const u32 ups = opening & __ballot_sync(FULL_WARP, least_from >= depth);
        const u32 downs = closing & __ballot_sync(FULL_WARP, depth < least_before);
        brackets = ups | downs;
        return __ballot_sync(FULL_WARP, depth == __popc(ups & upto) - __popc(downs & upto));
    }
};

// A bracket on the way through a line.
struct Open {
    u32 token, direct;
};

// A cut bracket on the way through a line: what goes on behind it.
struct Around {
    u32 piece, unit, before, holes, big, level, lambdas;
};

union Stacks {
    Open open[MOST_OPEN];
    Around around[MOST_OPEN];
};

struct Shared {
    Stacks stacks;
    Group groups[GROUPS];
    u32 cuts, number;
    bool fits;
};

// The brackets that are open at some place of a line, the innermost of them here, the others on the stack.
struct Matcher {
    u32 depth, token, direct, lambdas, cuts;
    bool fits, pattern, signature;
};

// The unit at some place of a line, those around it on the stack.
struct Current {
    u32 piece, unit, before, from, holes, big, lambdas, outer;
    u32 depth, level, height, pieces, used;
    bool fits;
};

// One line, by a block: its warps look at groups of tokens, then the first warp goes through these. All its lanes hold the
// same values.
struct Cutter {
    const TreeBatch& batch;
    Shared& shared;
    u32 line, token_base, first, end;

    // Goes through the groups in turn, in the first warp.
    template <class Pass>
    __device__ void each_group(Pass pass) const {
        const u32 warp = threadIdx.x / 32;
        for (u32 tile = first; tile < end; tile += GROUPS * 32) {
            __syncthreads();
            for (u32 group = warp; group < GROUPS && tile + group * 32 < end; group += CUT_THREADS / 32) {
                shared.groups[group].load(batch, tile + group * 32, end);
            }
            __syncthreads();
            if (warp != 0) continue;
            for (u32 group = 0; group < GROUPS && tile + group * 32 < end; group++) {
                pass(shared.groups[group], tile + group * 32);
            }
        }
    }

    // Tells a field which token ends its expression.
    __device__ void note(u32 field, u32 at) const {
        if (lane_id() != 0) return;
        batch.payloads[field] = at - token_base;
        if (batch.kinds[at - 1] == TOKEN_EQUAL) batch.kinds[field] = TOKEN_DEBUG_OPEN;
    }

    __device__ bool defines() const {
        const u32 at = batch.kinds[first] == TOKEN_ASYNC ? first + 1 : first;
        return at < end && batch.kinds[at] == TOKEN_DEF;
    }

    // The token that stands for what is in a long bracket, or 0 if it stays whole.
    __device__ u32 big_of(u32 token, u32 direct) const {
        if ((direct & (HAS_COMMA | HAS_FOR)) != HAS_COMMA) return 0;
        const u32 kind = batch.kinds[token], before = token > first ? batch.kinds[token - 1] : NONE;
        if (kind == TOKEN_LEFT_BRACE) {
            return direct & HAS_COLON || batch.kinds[token + 1] == TOKEN_DOUBLE_STAR ? TOKEN_BIG_DICT : TOKEN_BIG_LIST;
        }
        if (kind == TOKEN_LEFT_BRACKET) return ends_primary(before) ? 0 : TOKEN_BIG_LIST;
        if (kind != TOKEN_LEFT_PAREN || before == TOKEN_IMPORT) return 0;
        return ends_primary(before) ? TOKEN_BIG_ARGS : TOKEN_BIG_TUPLE;
    }

    // Looks for brackets to cut, notes in the payload of each what stands for it, and counts them; marks fields, too.
    __device__ void match(Matcher& now, const Group& group, u32 base) const {
        const u32 events = group.brackets | group.lambdas | group.parts;
        for (u32 left = now.fits ? FULL_WARP : 0; left;) {
            const u32 stops = (events | (now.lambdas ? group.colons : 0)) & left;
            const u32 stop = stops ? __ffs(stops) - 1 : 32, run = left & bits_below(stop);
            if (run & group.fors) now.direct |= HAS_FOR;
            if (!now.lambdas && run & group.commas) now.direct |= HAS_COMMA;
            if (!now.lambdas && run & group.colons) now.direct |= HAS_COLON;
            if (stop == 32) return;
            left &= ~(bits_below(stop) | 1u << stop);
            const u32 kind = group.kinds[stop];
            __syncwarp();
            if (kind == TOKEN_LAMBDA) now.lambdas += 1;
            else if (kind == TOKEN_COLON) now.lambdas -= 1;
            else if (opens(kind)) open(now, kind, base + stop);
            else close(now, kind, base + stop);
            if (!now.fits) return;
        }
    }

    __device__ void open(Matcher& now, u32 kind, u32 at) const {
        now.fits = now.depth < MOST_OPEN;
        if (!now.fits) return;
        if (lane_id() == 0) shared.stacks.open[now.depth] = {now.token, now.direct | now.lambdas << LAMBDAS_SHIFT};
        now.depth += 1;
        now.token = at;
        now.direct = is_field_open(kind) ? IS_FIELD : 0;
        now.lambdas = 0;
    }

    // Whether a bracket on the stack is a field whose expression has ended.
    __device__ bool is_noted(u32 height) const {
        return (shared.stacks.open[height].direct & (IS_FIELD | IS_NOTED)) == (IS_FIELD | IS_NOTED);
    }

    // A closing bracket, or the end of a field's expression.
    __device__ void close(Matcher& now, u32 kind, u32 at) const {
        now.fits = now.depth > 0;
        if (!now.fits) return;
        if ((now.direct & (IS_FIELD | IS_NOTED)) == IS_FIELD) {
            // With `=` in the specification of a field that is in one itself it has no text.
            now.fits = now.depth < 3 || batch.kinds[at - 1] != TOKEN_EQUAL || !is_noted(now.depth - 1) || !is_noted(now.depth - 2);
            if (!now.fits) return;
            note(now.token, at);
        }
        now.direct |= IS_NOTED;
        if (!closes(kind)) return;
        if (!(now.direct & IS_FIELD) && at - now.token > LEAST_CUT) {
            const u32 big = now.pattern || (now.signature && now.depth == 1) ? 0 : big_of(now.token, now.direct);
            if (lane_id() == 0) batch.payloads[now.token] = big;
            now.cuts += big != 0;
        }
        now.depth -= 1;
        const Open around = shared.stacks.open[now.depth];
        now.token = around.token;
        now.direct = around.direct & ((1u << LAMBDAS_SHIFT) - 1);
        now.lambdas = around.direct >> LAMBDAS_SHIFT;
    }

    __device__ void begin(u32 number, u32 token, u32 unit, u32 before, u32 big) const {
        if (lane_id() != 0) return;
        Stretch& piece = batch.pieces[number];
        piece.token = token;
        piece.before = before;
        piece.next = NONE;
        piece.unit = unit;
        piece.big = big;
        piece.node = piece.value = 0;
    }

    __device__ void begin_unit(u32 unit, u32 token, u32 outer, u32 big) const {
        begin(unit, token, unit, 0, big);
        if (lane_id() == 0) batch.pieces[unit].outer = outer;
    }

    // `used`: how many of the line's tokens have given their slots away. False: the unit is too long.
    __device__ bool end_unit(u32 unit, u32 count, u32 holes, u32& used) const {
        if (lane_id() == 0) {
            Stretch& piece = batch.pieces[unit];
            piece.count = count;
            piece.own = count - holes;
            piece.slots = first + used;
            piece.line = line;
            piece.nodes = piece.values = piece.head = 0;
        }
        used += count - holes;
        return count <= MOST_TOKENS;
    }

    // Cuts the line into pieces.
    __device__ void cut(Current& now, const Group& group, u32 base, u32 number) const {
        for (u32 left = FULL_WARP; left;) {
            const bool inside = now.depth == now.level;
            const u32 stops = (group.brackets | (inside ? group.lambdas : 0) | (inside && now.lambdas ? group.colons : 0)) & left;
            const u32 stop = stops ? __ffs(stops) - 1 : 32, run = left & bits_below(stop);
            if (inside && !now.lambdas) part(now, run & group.commas, base, number);
            if (stop == 32) return;
            left &= ~(bits_below(stop) | 1u << stop);
            const u32 kind = group.kinds[stop], here = base + stop;
            __syncwarp();
            if (kind == TOKEN_LAMBDA) {
                now.lambdas += 1;
            } else if (kind == TOKEN_COLON) {
                now.lambdas -= 1;
            } else if (opens(kind)) {
                now.depth += 1;
                if (group.cuts >> stop & 1) enter(now, here, number);
            } else {
                if (inside) leave(now, here, number);
                now.depth -= 1;
            }
        }
    }

    // Ends the chunk behind the first of these commas that has enough in front of it.
    __device__ void part(Current& now, u32 commas, u32 base, u32 number) const {
        const u32 enough = now.from + CHUNK - now.before;
        if (base + 32 < enough) return;
        if (enough > base + 1) commas &= ~bits_below(enough - 1 - base);
        if (commas == 0) return;
        const u32 behind = base + __ffs(commas);
        if (behind >= end || closes(batch.kinds[behind])) return;
        now.fits &= end_unit(now.unit, now.before + behind - now.from, now.holes, now.used);
        now.piece = now.unit = number + now.pieces++;
        begin_unit(now.unit, behind, now.outer, now.big);
        now.before = now.holes = 0;
        now.from = behind;
    }

    // Begins the first chunk of a bracket.
    __device__ void enter(Current& now, u32 here, u32 number) const {
        if (lane_id() == 0) {
            const u32 behind = now.before + here + 2 - now.from;
            shared.stacks.around[now.height] = {now.piece, now.unit, behind, now.holes + 1, now.big, now.level, now.lambdas};
        }
        now.height += 1;
        now.outer = now.piece;
        now.big = batch.payloads[here];
        now.piece = now.unit = number + now.pieces++;
        begin_unit(now.unit, here + 1, now.outer, now.big);
        now.before = now.holes = now.lambdas = 0;
        now.from = here + 1;
        now.level = now.depth;
    }

    // Ends the last one, and goes on with the unit around it.
    __device__ void leave(Current& now, u32 here, u32 number) const {
        now.fits &= end_unit(now.unit, now.before + here - now.from, now.holes, now.used);
        now.height -= 1;
        const Around around = shared.stacks.around[now.height];
        const u32 next = number + now.pieces++;
        begin(next, here, around.unit, around.before, now.big);
        if (lane_id() == 0) batch.pieces[around.piece].next = next;
        now.piece = next;
        now.unit = around.unit;
        now.before = around.before;
        now.from = here;
        now.holes = around.holes;
        now.big = around.big;
        now.level = around.level;
        now.lambdas = around.lambdas;
        now.outer = now.height ? shared.stacks.around[now.height - 1].piece : NONE;
    }

    // How many brackets are to be cut; `shared.fits`: whether none are too deep.
    __device__ u32 count_cuts() const {
        Matcher now = {0, NONE, 0, 0, 0, true, batch.kinds[first] == TOKEN_CASE, defines()};
        each_group([&](const Group& group, u32 base) { match(now, group, base); });
        if (threadIdx.x == 0) {
            shared.cuts = now.fits ? now.cuts : 0;
            shared.fits = now.fits;
        }
        __syncthreads();
        return shared.cuts;
    }

    // Room for pieces of the line, or NONE.
    __device__ u32 take_room(u32 room) const {
        if (threadIdx.x == 0) shared.number = atomicAdd(&batch.counters[COUNT_PIECES], room);
        __syncthreads();
        const u32 number = shared.number, end = min(number + room, batch.piece_cap);
        if ((u64)number + room <= batch.piece_cap) return number;
        for (u32 rest = number + threadIdx.x; rest < end; rest += CUT_THREADS) batch.pieces[rest].unit = NONE;
        return NONE;
    }

    // Whether all units fit.
    __device__ bool cut_all(u32 number, u32 room) const {
        Current now = {number, number, 0, first, 0, 0, 0, NONE, 0, NONE, 0, 1, 0, true};
        if (threadIdx.x < 32) begin_unit(number, first, NONE, 0);
        each_group([&](const Group& group, u32 base) { cut(now, group, base, number); });
        if (threadIdx.x < 32) {
            now.fits &= end_unit(now.unit, now.before + end - now.from, now.holes, now.used);
            if (lane_id() == 0) batch.pieces[number].pieces = now.pieces;
            for (u32 rest = now.pieces + lane_id(); rest < room; rest += 32) batch.pieces[number + rest].unit = NONE;
        }
        return now.fits;
    }

    // Cuts the line, if that helps; its pieces are found in its outcome. Gives its source up if no unit takes it.
    __device__ void run(u32 source) const {
        const u32 tokens = end - first;
        if (tokens > MOST_CUT) {
            if (threadIdx.x == 0) {
                batch.outcomes[line] = make_uint2(0, 0);
                give_up(batch, source, BY_LENGTH);
            }
            return;
        }
        const u32 cuts = count_cuts(), room = 1 + 3 * cuts + tokens / CHUNK;
        const u32 number = cuts ? take_room(room) : NONE;
        const bool fits = number == NONE ? shared.fits && tokens <= MOST_TOKENS : cut_all(number, room);
        if (threadIdx.x != 0) return;
        batch.outcomes[line] = number == NONE ? make_uint2(0, 0) : make_uint2(number, LINE_CUT);
        if (!fits) give_up(batch, source, BY_LENGTH);
    }
};

// tree_cut: cuts long lines, marks their fields, and gives up sources with one that no unit takes.
//   writes pieces, and outcomes of long lines. A block a line, in turns.
extern "C" __global__ void __launch_bounds__(CUT_THREADS) tree_cut(const __grid_constant__ TreeBatch batch) {
    __shared__ Shared shared;
    const u32 count = batch.counters[COUNT_LONG];
    for (u32 at = blockIdx.x; at < count; at += gridDim.x) {
        const u32 line = batch.long_lines[at], source = batch.line_sources[line];
        const uint4 facts = batch.lines[line];
        const Cutter cutter{batch, shared, line, batch.token_bases[source], facts.x, facts.y};
        cutter.run(source);
        __syncthreads();
    }
}
