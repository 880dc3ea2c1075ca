// Long lines to units. A bracket of more than LEAST_CUT tokens with commas of its own is cut into chunks, each from a comma
// to another, which are parsed on their own; in the unit around it one token stands for them. Which token that is follows
// from the kind of the bracket and the token before it; should it be the wrong one, a unit does not parse, and the CPU
// takes the source.

#include "parse_tree.cuh"

// A bracket of so many tokens or fewer stays whole.
#define LEAST_CUT 64u
// A chunk ends with the first comma behind so many tokens.
#define CHUNK 48u
#define MOST_OPEN 256u
#define CUT_WARPS 4u

// What stands in a bracket itself, not deeper.
enum Direct : u32 { HAS_COMMA = 1, HAS_FOR = 2, HAS_COLON = 4, IS_FIELD = 8, IS_NOTED = 16 };
#define LAMBDAS_SHIFT 8

__device__ __forceinline__ u32 lane_id() { return threadIdx.x & 31; }

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

// 32 tokens of a line, one a lane. What brackets enclose that open and close among them is hidden, as they are themselves:
// they are too short to be cut.
struct Group {
    u32 kind;
    u32 brackets, lambdas, colons, commas, fors, parts;

    __device__ explicit Group(u32 kind) : kind(kind) {
        const u32 opening = __ballot_sync(FULL_WARP, opens(kind)), closing = __ballot_sync(FULL_WARP, closes(kind));
        parts = __ballot_sync(FULL_WARP, kind == TOKEN_FIELD_COLON || kind == TOKEN_FIELD_BANG);
        brackets = opening | closing;
        const u32 fields = __ballot_sync(FULL_WARP, is_field_open(kind) || kind == TOKEN_FIELD_CLOSE) | parts;
        // All fields are to be noted.
        const u32 seen = brackets && !fields ? visible(opening, closing) : FULL_WARP;
        lambdas = __ballot_sync(FULL_WARP, kind == TOKEN_LAMBDA) & seen;
        colons = __ballot_sync(FULL_WARP, kind == TOKEN_COLON) & seen;
        commas = __ballot_sync(FULL_WARP, kind == TOKEN_COMMA) & seen;
        fors = __ballot_sync(FULL_WARP, kind == TOKEN_FOR) & seen;
    }

    // Leaves the brackets that have no match here; gives the tokens that no others enclose.
    __device__ u32 visible(u32 opening, u32 closing) {
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

// The groups of a line, each read before it is needed.
struct Groups {
    const u8* kinds;
    u32 end, next;

    __device__ Groups(const u8* kinds, u32 first, u32 end) : kinds(kinds), end(end), next(read(first)) {}

    __device__ u32 read(u32 base) const { return base + lane_id() < end ? kinds[base + lane_id()] : TOKEN_NAME; }

    // The tokens from `base` on, which is 32 more each time.
    __device__ Group at(u32 base) {
        const u32 kind = next;
        next = read(base + 32);
        return Group(kind);
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

// One line, by a warp. All lanes hold the same values, except those of a group.
struct Cutter {
    const TreeBatch& batch;
    Stacks& stacks;
    u32 line, token_base, first, end;

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
    __device__ u32 big_of(u32 token, u32 close, u32 direct) const {
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
    // False: brackets are too deep.
    __device__ bool match(u32& cuts) const {
        const bool pattern = batch.kinds[first] == TOKEN_CASE, signature = defines();
        u32 depth = 0, token = NONE, direct = 0, lambdas = 0;
        cuts = 0;
        Groups groups(batch.kinds, first, end);
        for (u32 base = first; base < end; base += 32) {
            const Group group = groups.at(base);
            const u32 events = group.brackets | group.lambdas | group.parts;
            for (u32 left = FULL_WARP;;) {
                const u32 stops = (events | (lambdas ? group.colons : 0)) & left;
                const u32 stop = stops ? __ffs(stops) - 1 : 32, run = left & bits_below(stop);
                if (run & group.fors) direct |= HAS_FOR;
                if (!lambdas && run & group.commas) direct |= HAS_COMMA;
                if (!lambdas && run & group.colons) direct |= HAS_COLON;
                if (stop == 32) break;
                left &= ~(bits_below(stop) | 1u << stop);
                const u32 kind = __shfl_sync(FULL_WARP, group.kind, stop), at = base + stop;
                __syncwarp();
                if (kind == TOKEN_LAMBDA) {
                    lambdas += 1;
                } else if (kind == TOKEN_COLON) {
                    lambdas -= 1;
                } else if (opens(kind)) {
                    if (depth == MOST_OPEN) return false;
                    if (lane_id() == 0) stacks.open[depth] = {token, direct | lambdas << LAMBDAS_SHIFT};
                    depth += 1;
                    token = at;
                    direct = is_field_open(kind) ? IS_FIELD : 0;
                    lambdas = 0;
                } else {
                    if (depth == 0) return false;
                    if ((direct & (IS_FIELD | IS_NOTED)) == IS_FIELD) note(token, at);
                    direct |= IS_NOTED;
                    if (!closes(kind)) continue;
                    if (!(direct & IS_FIELD) && at - token > LEAST_CUT) {
                        const u32 big = pattern || (signature && depth == 1) ? 0 : big_of(token, at, direct);
                        if (lane_id() == 0) batch.payloads[token] = big;
                        cuts += big != 0;
                    }
                    depth -= 1;
                    token = stacks.open[depth].token;
                    direct = stacks.open[depth].direct & ((1u << LAMBDAS_SHIFT) - 1);
                    lambdas = stacks.open[depth].direct >> LAMBDAS_SHIFT;
                }
            }
        }
        return true;
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

    // Cuts the line into pieces, from a number on, for which there is room. False: a unit is too long.
    __device__ bool cut(u32 number, u32 room) const {
        u32 piece = number, unit = number, before = 0, from = first, holes = 0, big = 0, lambdas = 0, outer = NONE;
        u32 depth = 0, level = NONE, height = 0, pieces = 1, used = 0;
        bool fits = true;
        begin_unit(number, first, NONE, 0);
        Groups groups(batch.kinds, first, end);
        for (u32 base = first; base < end; base += 32) {
            const u32 at = base + lane_id();
            const Group group = groups.at(base);
            const bool may = group.kind == TOKEN_LEFT_PAREN || group.kind == TOKEN_LEFT_BRACKET || group.kind == TOKEN_LEFT_BRACE;
            const u32 bigs = may && group.brackets >> lane_id() & 1 ? batch.payloads[at] : 0;
            for (u32 left = FULL_WARP;;) {
                const bool inside = depth == level;
                const u32 stops = (group.brackets | (inside ? group.lambdas : 0) | (inside && lambdas ? group.colons : 0)) & left;
                const u32 stop = stops ? __ffs(stops) - 1 : 32, run = left & bits_below(stop);
                // The places where the chunk is long enough, in this group.
                const u32 enough = from + CHUNK - before;
                u32 commas = inside && !lambdas && base + 32 >= enough ? run & group.commas : 0;
                if (enough > base + 1) commas &= ~bits_below(enough - 1 - base);
                if (commas) {
                    const u32 behind = base + __ffs(commas);
                    if (behind < end && !closes(batch.kinds[behind])) {
                        fits &= end_unit(unit, before + behind - from, holes, used);
                        piece = unit = number + pieces++;
                        begin_unit(unit, behind, outer, big);
                        before = holes = 0;
                        from = behind;
                    }
                }
                if (stop == 32) break;
                left &= ~(bits_below(stop) | 1u << stop);
                const u32 kind = __shfl_sync(FULL_WARP, group.kind, stop), own = __shfl_sync(FULL_WARP, bigs, stop);
                const u32 here = base + stop;
                __syncwarp();
                if (kind == TOKEN_LAMBDA) {
                    lambdas += 1;
                } else if (kind == TOKEN_COLON) {
                    lambdas -= 1;
                } else if (opens(kind)) {
                    depth += 1;
                    if (own == 0) continue;
                    if (lane_id() == 0) {
                        stacks.around[height] = {piece, unit, before + here + 2 - from, holes + 1, big, level, lambdas};
                    }
                    height += 1;
                    outer = piece;
                    big = own;
                    piece = unit = number + pieces++;
                    begin_unit(unit, here + 1, outer, big);
                    before = holes = lambdas = 0;
                    from = here + 1;
                    level = depth;
                } else {
                    if (inside) {
                        fits &= end_unit(unit, before + here - from, holes, used);
                        height -= 1;
                        const Around around = stacks.around[height];
                        const u32 next = number + pieces++;
                        begin(next, here, around.unit, around.before, big);
                        if (lane_id() == 0) batch.pieces[around.piece].next = next;
                        piece = next;
                        unit = around.unit;
                        before = around.before;
                        holes = around.holes;
                        big = around.big;
                        level = around.level;
                        lambdas = around.lambdas;
                        from = here;
                        outer = height ? stacks.around[height - 1].piece : NONE;
                    }
                    depth -= 1;
                }
            }
        }
        fits &= end_unit(unit, before + end - from, holes, used);
        if (lane_id() == 0) batch.pieces[number].pieces = pieces;
        for (u32 rest = pieces + lane_id(); rest < room; rest += 32) batch.pieces[number + rest].unit = NONE;
        return fits;
    }

    // Whether the line is parsed here, cut or whole; its pieces are found in its outcome.
    __device__ bool run() const {
        const u32 tokens = end - first;
        u32 cuts;
        bool fits = match(cuts);
        __syncwarp();
        Outcome outcome = make_uint2(0, 0);
        if (fits && cuts) {
            const u32 room = 1 + 3 * cuts + tokens / CHUNK;
            u32 number = 0;
            if (lane_id() == 0) number = atomicAdd(&batch.counters[COUNT_PIECES], room);
            number = __shfl_sync(FULL_WARP, number, 0);
            if ((u64)number + room <= batch.piece_cap) {
                fits = cut(number, room);
                outcome = make_uint2(number, LINE_CUT);
            } else {
                for (u32 rest = number + lane_id(); rest < batch.piece_cap; rest += 32) batch.pieces[rest].unit = NONE;
            }
        }
        if (lane_id() == 0) batch.outcomes[line] = outcome;
        return fits && (outcome.y & LINE_CUT || tokens <= MOST_TOKENS);
    }
};

// tree_cut: cuts long lines, marks their fields, and gives up sources with one that no unit takes.
//   writes pieces, and outcomes of long lines
// CUT_WARPS warps a block, each a line in turns.
extern "C" __global__ void __launch_bounds__(CUT_WARPS * 32) tree_cut(const __grid_constant__ TreeBatch batch) {
    __shared__ Stacks stacks[CUT_WARPS];
    const u32 warp = threadIdx.x / 32, count = batch.counters[COUNT_LONG];
    for (u32 at = blockIdx.x * CUT_WARPS + warp; at < count; at += gridDim.x * CUT_WARPS) {
        const u32 line = batch.long_lines[at], source = batch.line_sources[line];
        const uint4 facts = batch.lines[line];
        const Cutter cutter{batch, stacks[warp], line, batch.token_bases[source], facts.x, facts.y};
        const bool parsed = cutter.run();
        if (!parsed && lane_id() == 0) give_up(batch, source, BY_LENGTH);
        __syncwarp();
    }
}

// tree_pieces: where the nodes and values of each piece go in its line, and how many the line has. A warp a long line, in
// turns.
extern "C" __global__ void __launch_bounds__(256) tree_pieces(const __grid_constant__ TreeBatch batch) {
    const u32 count = batch.counters[COUNT_LONG], warps = gridDim.x * blockDim.x / 32;
    for (u32 at = (blockIdx.x * blockDim.x + threadIdx.x) / 32; at < count; at += warps) {
        const u32 line = batch.long_lines[at];
        const Outcome outcome = batch.outcomes[line];
        if (!(outcome.y & LINE_CUT) || batch.reasons[batch.line_sources[line]]) continue;
        Stretch* pieces = batch.pieces + outcome.x;
        const u32 all = pieces->pieces;
        u32 nodes = 0, values = 0;
        for (u32 base = 0; base < all; base += 32) {
            const u32 own = base + lane_id();
            u32 own_nodes = 0, own_values = 0;
            if (own < all) {
                const Stretch& piece = pieces[own];
                const Stretch& unit = batch.pieces[piece.unit];
                // The node in front of the next piece stands for what is between them.
                own_nodes = (piece.next == NONE ? unit.nodes : batch.pieces[piece.next].node - 1) - piece.node;
                own_values = (piece.next == NONE ? unit.values : batch.pieces[piece.next].value) - piece.value;
            }
            u32 sum_nodes = own_nodes, sum_values = own_values;
#pragma unroll
            for (int step = 1; step < 32; step *= 2) {
                const u32 other_nodes = __shfl_up_sync(FULL_WARP, sum_nodes, step);
                const u32 other_values = __shfl_up_sync(FULL_WARP, sum_values, step);
                if (lane_id() >= step) {
                    sum_nodes += other_nodes;
                    sum_values += other_values;
                }
            }
            if (own < all) {
                pieces[own].row = nodes + sum_nodes - own_nodes;
                pieces[own].place = values + sum_values - own_values;
            }
            nodes += __shfl_sync(FULL_WARP, sum_nodes, 31);
            values += __shfl_sync(FULL_WARP, sum_values, 31);
        }
        __syncwarp();
        if (lane_id() == 0) {
            pieces->line_nodes = nodes;
            pieces->line_values = values;
            pieces->head = row_of_node(batch.pieces, outcome.x, pieces->head);
        }
    }
}

// The nodes of a piece, in their line.
struct Merger {
    const TreeBatch& batch;
    const Stretch* pieces;
    u32 number;

    // The row of a root's parent, and its field, by the node that stands for the chunk in the unit around it.
    __device__ u32 adopted(const Stretch& unit, u32 kind, u32& field) const {
        if (unit.outer == NONE) return ROOT;
        const Stretch& around = pieces[pieces[unit.outer].unit];
        const u32 hole = pieces[pieces[unit.outer].next].node - 1;
        const u32 head = batch.records[(u64)around.slots * SLOTS_PER_TOKEN + hole].x;
        if (unit.big != TOKEN_BIG_DICT) {
            field = unit.big == TOKEN_BIG_ARGS && kind == KIND_KEYWORD ? FIELD_KEYWORDS : head >> 8 & 0xff;
        }
        return row_of_node(pieces, pieces[unit.outer].next, head >> 16);
    }

    __device__ void run(u32* value_rows, u32* value_tokens, u32* value_sources) const {
        const Stretch& piece = pieces[number];
        const Stretch& unit = pieces[piece.unit];
        const u32 line = unit.line, source = batch.line_sources[line];
        if (batch.reasons[source]) return;
        const uint2 bases = batch.bases[line], before = batch.bases[batch.logical_bases[source]];
        const u64 from = (u64)unit.slots * SLOTS_PER_TOKEN, to = (u64)batch.lines[line].x * SLOTS_PER_TOKEN;
        const u32 end = piece.next == NONE ? unit.nodes : pieces[piece.next].node - 1;
        for (u32 node = piece.node + lane_id(); node < end; node += 32) {
            Record record = batch.records[from + node];
            const u32 row = piece.row + node - piece.node, kind = record.x & 0xff, above = record.x >> 16;
            u32 field = record.x >> 8 & 0xff;
            batch.far[to + row] = above == NEAR_ROOT ? adopted(unit, kind, field) : row_of_node(pieces, number, above);
            record.x = kind | field << 8;
            if (kind == KIND_CONSTANT && record.w < VALUE_ELLIPSIS) {
                const u32 value = bases.y + piece.place + (record.w >> 16) - piece.value;
                value_rows[value] = bases.x + row;
                value_tokens[value] = token_of_unit(pieces, piece.unit, record.w & 0xffff);
                value_sources[value] = source;
                record.w = value - before.y;
            }
            batch.merged[to + row] = record;
        }
    }
};

// tree_merge: puts the nodes of cut lines together.
//   writes merged, far, and rows, tokens and sources of the values in them. A warp a piece, in turns.
extern "C" __global__ void __launch_bounds__(256) tree_merge(
    const __grid_constant__ TreeBatch batch, u32* value_rows, u32* value_tokens, u32* value_sources) {
    const u32 count = min(batch.counters[COUNT_PIECES], batch.piece_cap), warps = gridDim.x * blockDim.x / 32;
    for (u32 at = (blockIdx.x * blockDim.x + threadIdx.x) / 32; at < count; at += warps) {
        if (batch.pieces[at].unit != NONE) Merger{batch, batch.pieces, at}.run(value_rows, value_tokens, value_sources);
    }
}
