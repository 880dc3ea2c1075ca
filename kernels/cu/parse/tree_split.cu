// Splits long lines into units. A bracket of more than MIN_SPLIT tokens with commas of its own is split into chunks,
// each from one comma to another, which are parsed on their own; in the enclosing unit one placeholder token stands for
// them. Its terminal follows from the kind of the bracket and the preceding token; if that is wrong, a unit does not
// parse, and the source falls back to the CPU.

#include "parse/tree.cuh"

// A bracket of at most this many tokens is not split.
#define MIN_SPLIT 64u
// A longer line would delay all others, and the CPU is as fast with it. Mirrored in ops/parse/cuda/fallback.rs.
#define MAX_SPLIT 5000u
// A chunk ends at the first comma after this many tokens.
#define CHUNK 48u
#define MAX_OPEN 256u
// Groups of tokens that a block loads at once.
#define GROUPS 64u

// What a bracket contains at its own depth.
enum BracketContent : u32 { HAS_COMMA = 1, HAS_FOR = 2, HAS_COLON = 4, IS_FIELD = 8, HAS_FIELD_END = 16 };
#define LAMBDAS_SHIFT 8

// A mask of the bits below `bit`, which may be 32.
__device__ __forceinline__ u32 bits_below(u32 bit) { return bit < 32 ? (1u << bit) - 1 : FULL_WARP; }

__device__ __forceinline__ bool is_field_open(u32 kind) { return kind == TOKEN_FIELD_OPEN || kind == TOKEN_DEBUG_OPEN; }
__device__ __forceinline__ bool opens(u32 kind) {
    return is_field_open(kind) || kind == TOKEN_WITH_PAREN || kind == TOKEN_LEFT_PAREN || kind == TOKEN_LEFT_BRACKET ||
        kind == TOKEN_LEFT_BRACE;
}
__device__ __forceinline__ bool closes(u32 kind) {
    return kind == TOKEN_FIELD_CLOSE || kind == TOKEN_RIGHT_PAREN || kind == TOKEN_RIGHT_BRACKET || kind == TOKEN_RIGHT_BRACE;
}

// Whether a token may end a primary expression, so that an argument list or subscript can follow.
__device__ __forceinline__ bool ends_primary(u32 kind) {
    return kind <= TOKEN_STRING || kind == TOKEN_F_STRING_END || (kind >= TOKEN_ELLIPSIS && kind <= TOKEN_FALSE) ||
        closes(kind);
}

// 32 tokens of a line. Brackets that open and close within the group, and what they enclose, are masked out: they are
// too short to be split.
struct Group {
    u32 brackets, lambdas, colons, commas, fors, parts, splits;
    u8 kinds[32];

    // Loads the tokens from `base` on, one per lane. `splits` marks brackets to split, once that is known.
    __device__ void load(const TreeBatch& batch, u32 base, u32 end) {
        const u32 at = base + lane_id(), kind = at < end ? batch.kinds[at] : TOKEN_NAME;
        const u32 opening = __ballot_sync(FULL_WARP, opens(kind)), closing = __ballot_sync(FULL_WARP, closes(kind));
        const u32 own_parts = __ballot_sync(FULL_WARP, kind == TOKEN_FIELD_COLON || kind == TOKEN_FIELD_BANG);
        const u32 fields = __ballot_sync(FULL_WARP, is_field_open(kind) || kind == TOKEN_FIELD_CLOSE) | own_parts;
        u32 own_brackets = opening | closing;
        // With replacement fields in the group nothing is masked: each needs its end noted.
        const u32 seen = own_brackets && !fields ? visible(opening, closing, own_brackets) : FULL_WARP;
        const u32 all_lambdas = __ballot_sync(FULL_WARP, kind == TOKEN_LAMBDA);
        const u32 all_colons = __ballot_sync(FULL_WARP, kind == TOKEN_COLON);
        const u32 all_commas = __ballot_sync(FULL_WARP, kind == TOKEN_COMMA);
        const u32 all_fors = __ballot_sync(FULL_WARP, kind == TOKEN_FOR);
        const bool may = own_brackets >> lane_id() & 1 &&
            (kind == TOKEN_LEFT_PAREN || kind == TOKEN_LEFT_BRACKET || kind == TOKEN_LEFT_BRACE);
        const u32 own_splits = __ballot_sync(FULL_WARP, may && batch.payloads[at] != 0);
        kinds[lane_id()] = (u8)kind;
        if (lane_id() != 0) return;
        brackets = own_brackets;
        lambdas = all_lambdas & seen;
        colons = all_colons & seen;
        commas = all_commas & seen;
        fors = all_fors & seen;
        parts = own_parts;
        splits = own_splits;
    }

    // Keeps in `brackets` those without a match in the group; returns the tokens that no matched brackets enclose.
    __device__ static u32 visible(u32 opening, u32 closing, u32& brackets) {
        const u32 upto = (2u << lane_id()) - 1;
        const int depth = __popc(opening & upto) - __popc(closing & upto);
        int min_upto = depth, min_from = depth;
#pragma unroll
        for (int step = 1; step < 32; step *= 2) {
            const int earlier = __shfl_up_sync(FULL_WARP, min_upto, step);
            const int later = __shfl_down_sync(FULL_WARP, min_from, step);
            if (lane_id() >= step) min_upto = min(min_upto, earlier);
            if (lane_id() + step < 32) min_from = min(min_from, later);
        }
        const int before = __shfl_up_sync(FULL_WARP, min_upto, 1), min_before = lane_id() ? min(before, 0) : 0;
        const u32 opens_here = opening & __ballot_sync(FULL_WARP, min_from >= depth);
        const u32 closes_here = closing & __ballot_sync(FULL_WARP, depth < min_before);
        brackets = opens_here | closes_here;
        return __ballot_sync(FULL_WARP, depth == __popc(opens_here & upto) - __popc(closes_here & upto));
    }
};

// An open bracket.
struct OpenBracket {
    u32 token, direct;
};

// The state of the enclosing unit, resumed after a split bracket.
struct OuterUnit {
    u32 segment, unit, before, placeholders, placeholder, level, lambdas;
};

union Stacks {
    OpenBracket open[MAX_OPEN];
    OuterUnit outer_units[MAX_OPEN];
};

struct Shared {
    Stacks stacks;
    Group groups[GROUPS];
    u32 splits, number;
    bool fits;
};

// The open brackets at a position of a line: the innermost here, the others on the stack.
struct BracketState {
    u32 depth, token, direct, lambdas, splits;
    bool fits, pattern, signature;
};

// The unit at a position of a line; the enclosing ones are on the stack.
struct SplitState {
    u32 segment, unit, before, from, placeholders, placeholder, lambdas, outer;
    u32 depth, level, height, segments, used;
    bool fits;
};

// Splits one line, by a block: all warps load groups of tokens, then the first warp goes through them with uniform
// lanes.
struct Splitter {
    const TreeBatch& batch;
    Shared& shared;
    u32 line, token_base, first, end;

    // Calls `pass` for each group in order, in the first warp.
    template <class Pass>
    __device__ void each_group(Pass pass) const {
        const u32 warp = threadIdx.x / 32;
        for (u32 tile = first; tile < end; tile += GROUPS * 32) {
            __syncthreads();
            for (u32 group = warp; group < GROUPS && tile + group * 32 < end; group += SPLIT_THREADS / 32) {
                shared.groups[group].load(batch, tile + group * 32, end);
            }
            __syncthreads();
            if (warp != 0) continue;
            for (u32 group = 0; group < GROUPS && tile + group * 32 < end; group++) {
                pass(shared.groups[group], tile + group * 32);
            }
        }
    }

    // Stores in a replacement field's payload the token that ends its expression.
    __device__ void note_field_end(u32 field, u32 at) const {
        if (lane_id() != 0) return;
        batch.payloads[field] = at - token_base;
        if (batch.kinds[at - 1] == TOKEN_EQUAL) batch.kinds[field] = TOKEN_DEBUG_OPEN;
    }

    __device__ bool defines() const {
        const u32 at = batch.kinds[first] == TOKEN_ASYNC ? first + 1 : first;
        return at < end && batch.kinds[at] == TOKEN_DEF;
    }

    // The placeholder terminal for the elements of a long bracket, or 0 if it is not split.
    __device__ u32 placeholder_of(u32 token, u32 direct) const {
        if ((direct & (HAS_COMMA | HAS_FOR)) != HAS_COMMA) return 0;
        const u32 kind = batch.kinds[token], before = token > first ? batch.kinds[token - 1] : NONE;
        if (kind == TOKEN_LEFT_BRACE) {
            return direct & HAS_COLON || batch.kinds[token + 1] == TOKEN_DOUBLE_STAR ? TOKEN_BIG_DICT : TOKEN_BIG_LIST;
        }
        if (kind == TOKEN_LEFT_BRACKET) return ends_primary(before) ? 0 : TOKEN_BIG_LIST;
        if (kind != TOKEN_LEFT_PAREN || before == TOKEN_IMPORT) return 0;
        return ends_primary(before) ? TOKEN_BIG_ARGS : TOKEN_BIG_TUPLE;
    }

    // Finds brackets to split, stores the placeholder terminal in the payload of each, and counts them; also notes the
    // ends of replacement fields.
    __device__ void match(BracketState& now, const Group& group, u32 base) const {
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

    __device__ void open(BracketState& now, u32 kind, u32 at) const {
        now.fits = now.depth < MAX_OPEN;
        if (!now.fits) return;
        if (lane_id() == 0) shared.stacks.open[now.depth] = {now.token, now.direct | now.lambdas << LAMBDAS_SHIFT};
        now.depth += 1;
        now.token = at;
        now.direct = is_field_open(kind) ? IS_FIELD : 0;
        now.lambdas = 0;
    }

    // Whether a bracket on the stack is a replacement field whose expression has ended.
    __device__ bool has_field_end(u32 height) const {
        return (shared.stacks.open[height].direct & (IS_FIELD | HAS_FIELD_END)) == (IS_FIELD | HAS_FIELD_END);
    }

    // Handles a closing bracket, or the end of a field's expression.
    __device__ void close(BracketState& now, u32 kind, u32 at) const {
        now.fits = now.depth > 0;
        if (!now.fits) return;
        if ((now.direct & (IS_FIELD | HAS_FIELD_END)) == IS_FIELD) {
            // `=` in a field nested in a format specification of a nested field has no text.
            now.fits = now.depth < 3 || batch.kinds[at - 1] != TOKEN_EQUAL || !has_field_end(now.depth - 1) ||
                !has_field_end(now.depth - 2);
            if (!now.fits) return;
            note_field_end(now.token, at);
        }
        now.direct |= HAS_FIELD_END;
        if (!closes(kind)) return;
        if (!(now.direct & IS_FIELD) && at - now.token > MIN_SPLIT) {
            const u32 placeholder = now.pattern || (now.signature && now.depth == 1) ? 0 : placeholder_of(now.token, now.direct);
            if (lane_id() == 0) batch.payloads[now.token] = placeholder;
            now.splits += placeholder != 0;
        }
        now.depth -= 1;
        const OpenBracket enclosing = shared.stacks.open[now.depth];
        now.token = enclosing.token;
        now.direct = enclosing.direct & ((1u << LAMBDAS_SHIFT) - 1);
        now.lambdas = enclosing.direct >> LAMBDAS_SHIFT;
    }

    __device__ void begin(u32 number, u32 token, u32 unit, u32 before, u32 placeholder) const {
        if (lane_id() != 0) return;
        Segment& segment = batch.segments[number];
        segment.token = token;
        segment.before = before;
        segment.next = NONE;
        segment.unit = unit;
        segment.placeholder = placeholder;
        segment.node = segment.value = 0;
    }

    __device__ void begin_unit(u32 unit, u32 token, u32 outer, u32 placeholder) const {
        begin(unit, token, unit, 0, placeholder);
        if (lane_id() == 0) batch.segments[unit].outer = outer;
    }

    // `used`: tokens of the line whose node slots are assigned. False: the unit is too long.
    __device__ bool end_unit(u32 unit, u32 count, u32 placeholders, u32& used) const {
        if (lane_id() == 0) {
            Segment& segment = batch.segments[unit];
            segment.count = count;
            segment.own = count - placeholders;
            segment.slots = first + used;
            segment.line = line;
            segment.nodes = segment.values = segment.head = 0;
        }
        used += count - placeholders;
        return count <= MAX_TOKENS;
    }

    // Splits the line into segments.
    __device__ void split(SplitState& now, const Group& group, u32 base, u32 number) const {
        for (u32 left = FULL_WARP; left;) {
            const bool inside = now.depth == now.level;
            const u32 stops =
                (group.brackets | (inside ? group.lambdas : 0) | (inside && now.lambdas ? group.colons : 0)) & left;
            const u32 stop = stops ? __ffs(stops) - 1 : 32, run = left & bits_below(stop);
            if (inside && !now.lambdas) end_chunk(now, run & group.commas, base, number);
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
                if (group.splits >> stop & 1) enter(now, here, number);
            } else {
                if (inside) leave(now, here, number);
                now.depth -= 1;
            }
        }
    }

    // Ends the chunk after the first of `commas` with at least CHUNK tokens before it.
    __device__ void end_chunk(SplitState& now, u32 commas, u32 base, u32 number) const {
        const u32 enough = now.from + CHUNK - now.before;
        if (base + 32 < enough) return;
        if (enough > base + 1) commas &= ~bits_below(enough - 1 - base);
        if (commas == 0) return;
        const u32 next = base + __ffs(commas);
        if (next >= end || closes(batch.kinds[next])) return;
        now.fits &= end_unit(now.unit, now.before + next - now.from, now.placeholders, now.used);
        now.segment = now.unit = number + now.segments++;
        begin_unit(now.unit, next, now.outer, now.placeholder);
        now.before = now.placeholders = 0;
        now.from = next;
    }

    // Starts the first chunk of a bracket.
    __device__ void enter(SplitState& now, u32 here, u32 number) const {
        if (lane_id() == 0) {
            const u32 resume = now.before + here + 2 - now.from;
            shared.stacks.outer_units[now.height] = {
                now.segment, now.unit, resume, now.placeholders + 1, now.placeholder, now.level, now.lambdas};
        }
        now.height += 1;
        now.outer = now.segment;
        now.placeholder = batch.payloads[here];
        now.segment = now.unit = number + now.segments++;
        begin_unit(now.unit, here + 1, now.outer, now.placeholder);
        now.before = now.placeholders = now.lambdas = 0;
        now.from = here + 1;
        now.level = now.depth;
    }

    // Ends the last chunk of a bracket and resumes the enclosing unit.
    __device__ void leave(SplitState& now, u32 here, u32 number) const {
        now.fits &= end_unit(now.unit, now.before + here - now.from, now.placeholders, now.used);
        now.height -= 1;
        const OuterUnit outer_unit = shared.stacks.outer_units[now.height];
        const u32 next = number + now.segments++;
        begin(next, here, outer_unit.unit, outer_unit.before, now.placeholder);
        if (lane_id() == 0) batch.segments[outer_unit.segment].next = next;
        now.segment = next;
        now.unit = outer_unit.unit;
        now.before = outer_unit.before;
        now.from = here;
        now.placeholders = outer_unit.placeholders;
        now.placeholder = outer_unit.placeholder;
        now.level = outer_unit.level;
        now.lambdas = outer_unit.lambdas;
        now.outer = now.height ? shared.stacks.outer_units[now.height - 1].segment : NONE;
    }

    // The number of brackets to split; sets `shared.fits` to whether the nesting is within MAX_OPEN.
    __device__ u32 count_splits() const {
        BracketState now = {0, NONE, 0, 0, 0, true, batch.kinds[first] == TOKEN_CASE, defines()};
        each_group([&](const Group& group, u32 base) { match(now, group, base); });
        if (threadIdx.x == 0) {
            shared.splits = now.fits ? now.splits : 0;
            shared.fits = now.fits;
        }
        __syncthreads();
        return shared.splits;
    }

    // Reserves segments for the line; NONE if too few are left.
    __device__ u32 reserve_segments(u32 needed) const {
        if (threadIdx.x == 0) shared.number = atomicAdd(&batch.counters[COUNT_SEGMENTS], needed);
        __syncthreads();
        const u32 number = shared.number, end = min(number + needed, batch.segment_cap);
        if ((u64)number + needed <= batch.segment_cap) return number;
        for (u32 rest = number + threadIdx.x; rest < end; rest += SPLIT_THREADS) batch.segments[rest].unit = NONE;
        return NONE;
    }

    // Splits the line; false if a unit has too many tokens.
    __device__ bool split_line(u32 number, u32 needed) const {
        SplitState now = {number, number, 0, first, 0, 0, 0, NONE, 0, NONE, 0, 1, 0, true};
        if (threadIdx.x < 32) begin_unit(number, first, NONE, 0);
        each_group([&](const Group& group, u32 base) { split(now, group, base, number); });
        if (threadIdx.x < 32) {
            now.fits &= end_unit(now.unit, now.before + end - now.from, now.placeholders, now.used);
            if (lane_id() == 0) batch.segments[number].segments = now.segments;
            for (u32 rest = now.segments + lane_id(); rest < needed; rest += 32) batch.segments[number + rest].unit = NONE;
        }
        return now.fits;
    }

    // Splits the line if it has brackets to split; its outcome then refers to its first segment. Falls back if a unit
    // is too long.
    __device__ void run(u32 source) const {
        const u32 tokens = end - first;
        if (tokens > MAX_SPLIT) {
            if (threadIdx.x == 0) {
                batch.outcomes[line] = make_uint2(0, 0);
                fall_back(batch, source, REASON_LIMIT);
            }
            return;
        }
        const u32 splits = count_splits(), needed = 1 + 3 * splits + tokens / CHUNK;
        const u32 number = splits ? reserve_segments(needed) : NONE;
        const bool fits = number == NONE ? shared.fits && tokens <= MAX_TOKENS : split_line(number, needed);
        if (threadIdx.x != 0) return;
        batch.outcomes[line] = number == NONE ? make_uint2(0, 0) : make_uint2(number, LINE_SPLIT);
        if (!fits) fall_back(batch, source, REASON_LIMIT);
    }
};

// tree_split: splits long lines, notes the ends of their replacement fields, and falls back for sources with a line
// that is too long.
//   writes segments, and outcomes of long lines. Grid-stride: one block per line.
extern "C" __global__ void __launch_bounds__(SPLIT_THREADS) tree_split(const __grid_constant__ TreeBatch batch) {
    __shared__ Shared shared;
    const u32 count = batch.counters[COUNT_LONG];
    for (u32 at = blockIdx.x; at < count; at += gridDim.x) {
        const u32 line = batch.long_lines[at], source = batch.line_sources[line];
        const uint4 facts = batch.lines[line];
        const Splitter splitter{batch, shared, line, batch.token_bases[source], facts.x, facts.y};
        splitter.run(source);
        __syncthreads();
    }
}
