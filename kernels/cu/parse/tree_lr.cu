// The LR(1) parser: logical lines to nodes by the grammar's tables, one thread per line or unit of a split line.
//
// It is the loop of the parser's `driver` module and gives the same nodes, bit for bit, in postorder in the unit's node
// slots. A second stack holds the roots that the symbols on the first have produced, so that a reduction finds its
// children without reading nodes back. Shifts and reductions share one loop, which keeps the threads of a warp
// converged. A bracket's chunks leave one placeholder root, which tree_merge replaces with theirs.

#include "parse/tree.cuh"

// A table entry: action << 14 | state or production.
#define INDEX_MASK 0x3fffu
#define ENTRY_REDUCE 1u
#define ENTRY_SHIFT_REDUCE 2u
#define ENTRY_LOOKAHEAD 2u  // in `gotos`: look up `lookahead_gotos`
#define ENTRY_STOP 3u
#define ENTRY_ACCEPT 0xc001u

// Where `aux` comes from: `Aux` of the grammar.
enum Aux {
    AUX_CONSTANT = 0,
    AUX_PAYLOAD = 1,
    AUX_SECOND = 2,
    AUX_REFERENCE = 3,
    AUX_STORE = 4,
    AUX_TOKEN = 5,
    AUX_LEVEL = 6,
    AUX_SIMPLE = 7,
    AUX_LETTER = 8,
    AUX_TEXT = 9,
    AUX_SOURCE = 10,
};

// The depth of a thread's stack; a deeper line makes the source fall back to the CPU.
#define DEPTH 120
// Lines of the first keys have more than 256 tokens and a warp each; those up to the second have more than 128 and
// share a warp by four.
#define ONE_PER_WARP_KEYS 24
#define FOUR_PER_WARP_KEYS 28
#define LINES_PER_WARP 4u
// Roots per thread in local memory.
#define LOCAL_ROOTS 72u

// A stack symbol: state, first token in the unit, height of the root stack.
__device__ __forceinline__ u32 symbol_of(u32 state, u32 token, u32 roots) { return state | token << 9 | roots << 20; }
__device__ __forceinline__ u32 state_of(u32 symbol) { return symbol & 0x1ff; }
__device__ __forceinline__ u32 token_of(u32 symbol) { return symbol >> 9 & 0x7ff; }
__device__ __forceinline__ u32 roots_of(u32 symbol) { return symbol >> 20; }

// The parser of one unit.
struct UnitParser {
    const LrParams& lr;
    const u8* bytes;
    Record* records;
    u32* spill;
    u32 line, unit;               // the unit's first segment, or NONE for a whole line
    u32 first, count, slot_count; // first token, token count, node slots
    // The segment of the lookahead token after `terminal`: kinds of its tokens, indexed by token number in the unit,
    // and the number of the placeholder after it.
    const u8* kinds;
    u32 ahead, placeholder;
    // The segment of the next token: its first token, and the offset from unit to batch token numbers.
    u32 segment, before, token_offset;
    u32 at;                      // next token
    u32 terminal, next_terminal; // the next token's terminal, and the one after it
    u32 top;                     // index of the top symbol
    u32 nodes, values, roots;
    u32 last;                    // kind of the last node emitted
    // Arrays of DEPTH and LOCAL_ROOTS, outside of the struct: one with arrays does not stay in registers.
    u32* symbols;
    u32* local_roots;
    // In shared memory, with a stride of LR_THREADS.
    u32* shared_symbols;
    u32* shared_roots;

    __device__ UnitParser(const LrParams& lr, const u8* bytes, u32* symbols, u32* local_roots, u32* shared_stack)
        : lr(lr), bytes(bytes), symbols(symbols), local_roots(local_roots), shared_symbols(shared_stack + threadIdx.x),
          shared_roots(shared_stack + SHARED_SYMBOLS * LR_THREADS + threadIdx.x) {}

    __device__ __forceinline__ u32 symbol(u32 place) const {
        return place < SHARED_SYMBOLS ? shared_symbols[place * LR_THREADS] : symbols[place];
    }

    __device__ __forceinline__ void set_symbol(u32 place, u32 value) {
        if (place < SHARED_SYMBOLS) shared_symbols[place * LR_THREADS] = value;
        else symbols[place] = value;
    }

    template <class T>
    __device__ __forceinline__ T table(u32 start, u32 place) const {
        return ((const T*)(bytes + start))[place];
    }

    // Called for each token in order.
    __device__ __forceinline__ u32 terminal_at(u32 token) {
        if (token >= count) return lr.tables.end;
        return token == placeholder ? next_segment_terminal() : kinds[token];
    }

    __device__ __forceinline__ u32 next_segment_terminal() {
        enter_segment(lr.batch.segments[ahead].next);
        return lr.batch.segments[ahead].placeholder;
    }

    __device__ __forceinline__ void enter_segment(u32 number) {
        const Segment& own = lr.batch.segments[number];
        ahead = number;
        kinds = lr.batch.kinds + own.token - own.before;
        placeholder = own.next == NONE ? NONE : lr.batch.segments[own.next].before - 1;
    }

    __device__ __forceinline__ void start() {
        at = top = nodes = values = roots = last = 0;
        set_symbol(0, symbol_of(0, 0, 0));
        before = 0;
        token_offset = first;
        kinds = lr.batch.kinds + first;
        placeholder = NONE;
        segment = unit;
        if (unit != NONE) start_chunk();
        terminal = terminal_at(0);
        next_terminal = terminal_at(1);
    }

    // A chunk starts after a shifted terminal that says what it is a chunk of.
    __device__ __forceinline__ void start_chunk() {
        enter_segment(unit);
        const u32 opened = lr.batch.segments[unit].placeholder;
        if (opened == 0) return;
        terminal = opened == TOKEN_BIG_ARGS ? TOKEN_CHUNK_ARGS
            : opened == TOKEN_BIG_DICT ? TOKEN_CHUNK_DICT : TOKEN_CHUNK_LIST;
        set_symbol(1, symbol_of(action() & 0x1ff, 0, 0));
        top = 1;
    }

    // The token's number in the batch.
    __device__ __forceinline__ u32 token_at(u32 token) const {
        return token >= before ? token + token_offset : token_of_unit(lr.batch.segments, unit, token);
    }

    __device__ __forceinline__ u32 root(u32 place) const {
        if (place < SHARED_ROOTS) return shared_roots[place * LR_THREADS];
        return place < LOCAL_ROOTS ? local_roots[place] : spill[place];
    }

    // A root: kind | field << 8 | node << 16.
    __device__ __forceinline__ void set_root(u32 place, u32 value) {
        if (place < SHARED_ROOTS) shared_roots[place * LR_THREADS] = value;
        else if (place < LOCAL_ROOTS) local_roots[place] = value;
        else spill[place] = value;
    }

    // Shifts the terminal.
    __device__ __forceinline__ void shift(u32 state) {
        set_symbol(++top, symbol_of(state, at, roots));
        at += 1;
        if (terminal - TOKEN_BIG_LIST <= TOKEN_BIG_DICT - TOKEN_BIG_LIST) shift_placeholder();
        terminal = next_terminal;
        next_terminal = terminal_at(at + 1);
    }

    // Pushes a placeholder root for the chunks.
    __device__ __forceinline__ void shift_placeholder() {
        const u32 node = min(nodes++, slot_count - 1);
        set_root(roots++, KIND_PLACEHOLDER | FIELD_BODY << 8 | node << 16);
        last = KIND_PLACEHOLDER;
        segment = lr.batch.segments[segment].next;
        Segment& own = lr.batch.segments[segment];
        own.node = nodes;
        own.value = values;
        before = own.before;
        token_offset = own.token - own.before;
    }

    __device__ __forceinline__ u32 action() const {
        const u32 row = table<u16>(lr.tables.action_rows, state_of(symbol(top)));
        return table<u16>(lr.tables.actions, row + terminal);
    }

    // The field that a label assigns to a root of a kind.
    __device__ __forceinline__ u32 field_of(u32 label, u32 kind) const {
        const uchar4 parts = table<uchar4>(lr.tables.labels, label);
        return kind == parts.x ? parts.y : parts.z;
    }

    // Assigns fields to the roots of a production's symbols, and pops them as children of `parent` unless that is
    // UNIT_ROOT.
    __device__ __forceinline__ void attach_children(const uint4& production, u32 base, u32 length, u32 least, u32 parent) {
        u32 next = roots;
        for (u32 place = length; place-- > least;) {
            const u32 label = (place < 4 ? production.z >> place * 8 : production.w >> (place - 4) * 8) & 0xff;
            const u32 lowest = roots_of(symbol(base + place));
            // A list grows by one symbol at a time: its earlier roots must not be walked again.
            if (parent == UNIT_ROOT && label == 0) next = min(next, lowest);
            while (next > lowest) {
                next -= 1;
                u32 entry = root(next);
                const u32 kind = entry & 0xff;
                if (label) entry = (entry & ~0xff00u) | field_of(label, kind) << 8;
                if (parent != UNIT_ROOT) records[entry >> 16].x = (entry & 0xffff) | parent << 16;
                else if (label) set_root(next, entry);
            }
        }
        if (parent != UNIT_ROOT) roots = next;
    }

    __device__ __forceinline__ u32 payload(u32 token) const { return lr.batch.payloads[token_at(token)]; }
    __device__ __forceinline__ u32 start_of(u32 token) const { return lr.batch.starts[token_at(token)]; }
    __device__ __forceinline__ u32 end_of(u32 token) const { return lr.batch.ends[token_at(token)]; }

    __device__ __forceinline__ u32 rare_aux(u32 from, u32 token, u32 end, u32 root_end) const {
        if (from == AUX_LEVEL) {
            u32 sum = 0;
            for (; token < end; token++) sum += end_of(token) - start_of(token);
            return sum;
        }
        if (from == AUX_SIMPLE) {
            const u32 entry = root(root_end - 1);
            return (entry & 0xff) == KIND_NAME && records[entry >> 16].y == start_of(token);
        }
        if (end_of(token) - start_of(token) != 1 || end_of(token - 1) != start_of(token)) return 0;
        return lr.batch.text[lr.batch.source_starts[lr.batch.line_sources[line]] + start_of(token)];
    }

    __device__ __forceinline__ u32 aux_of(const uint4& production, u32 base, u32 length) {
        const u32 from = production.x >> 20 & 0xf;
        if (from == AUX_CONSTANT) return production.y;
        const u32 place = production.x >> 24 & 0xf;
        const u32 token = token_of(symbol(base + place));
        if (from <= AUX_STORE) {
            const u32 value = payload(token + (from == AUX_SECOND));
            return from < AUX_REFERENCE ? value : value * 4 + (from == AUX_STORE);
        }
        if (from == AUX_TOKEN || from == AUX_TEXT) return token | values++ << 16;
        if (from == AUX_SOURCE) return (token_of(symbol(base - 1)) - 1) | values++ << 16;
        const bool more = place + 1 < length;
        const u32 next = more ? symbol(base + place + 1) : 0;
        return rare_aux(from, token, more ? token_of(next) : at, roots_of(next));
    }

    // Reduces by a production; returns the next step.
    __device__ __forceinline__ u32 reduce(u32 number) {
        const uint4 production = table<uint4>(lr.tables.productions, number);
        const u32 length = production.x & 0xf, kind = production.x >> 12 & 0xff;
        const u32 base = top + 1 - length;
        const u32 below = symbol(base - 1);
        const u32 own = length ? symbol(base) : symbol_of(0, at, roots);
        if (kind == 0) {
            if (production.z | production.w) attach_children(production, base, length, 0, UNIT_ROOT);
        } else {
            const bool merges = (production.x >> 20 & 0xf) == AUX_TEXT && roots_of(below) < roots && last == KIND_CONSTANT;
            if (!merges) emit(production, base, length, kind, token_of(own));
        }
        const u32 row = table<u16>(lr.tables.goto_rows, state_of(below)) + (production.x >> 4 & 0xff);
        u32 step = table<u16>(lr.tables.gotos, row);
        if (step >> 14 == ENTRY_LOOKAHEAD) {
            const u32 column = table<u8>(lr.tables.lookahead_columns, terminal);
            step = table<u16>(lr.tables.lookahead_gotos, (step & INDEX_MASK) * lr.tables.lookahead_width + column);
        }
        top = base;
        set_symbol(base, symbol_of(step & 0x1ff, token_of(own), roots_of(own)));
        return step;
    }

    __device__ __forceinline__ void emit(const uint4& production, u32 base, u32 length, u32 kind, u32 token) {
        // `parse` rejects a line with more nodes than slots.
        const u32 node = min(nodes++, slot_count - 1);
        const u32 aux = aux_of(production, base, length);
        attach_children(production, base, length, production.x >> 28 & 7, node);
        // The first word is written with the node's parent; one store costs less than three.
        records[node] = make_uint4(0, token < count ? start_of(token) : 0, end_of(at - 1), aux);
        set_root(roots++, kind | FIELD_BODY << 8 | node << 16);
        last = kind;
    }

    // Whether the tables accept the whole unit. `overflows`: the stack or the node slots were full.
    __device__ __forceinline__ bool parse(bool& overflows) {
        start();
        u32 step = 0;
        for (;;) {
            if (step >> 14 != ENTRY_REDUCE) {
                step = action();
                const u32 what = step >> 14;
                if (what == 0 || what == ENTRY_SHIFT_REDUCE) shift(step & 0x1ff);
            }
            const u32 what = step >> 14;
            if (what == ENTRY_REDUCE || what == ENTRY_SHIFT_REDUCE) step = reduce(step & INDEX_MASK);
            if (top >= DEPTH - 2 || nodes > slot_count) {
                overflows = true;
                return false;
            }
            if (step >> 14 == ENTRY_STOP) return step == ENTRY_ACCEPT;
        }
    }

    // Stores the remaining roots, which have no parent in the unit.
    __device__ __forceinline__ void store_roots() {
        for (u32 place = 0; place < roots; place++) {
            const u32 entry = root(place);
            records[entry >> 16].x = (entry & 0xffff) | UNIT_ROOT << 16;
        }
    }

    // If a line does not parse with parenthesised `with` items, the parenthesis belongs to an expression.
    __device__ __forceinline__ bool demote_with_paren() {
        for (u32 token = 0; token < count && token < 3; token++) {
            if (lr.batch.kinds[first + token] == TOKEN_WITH_PAREN) {
                lr.batch.kinds[first + token] = TOKEN_LEFT_PAREN;
                return true;
            }
        }
        return false;
    }

    // `number`: of a line, or segment_base + a unit's first segment.
    __device__ __forceinline__ void run(u32 number) {
        u32 slots;
        if (number < lr.batch.segment_base) {
            const uint4 facts = lr.batch.lines[number];
            line = number;
            unit = NONE;
            first = slots = facts.x;
            count = facts.y - facts.x;
            slot_count = count * SLOTS_PER_TOKEN;
        } else {
            unit = number - lr.batch.segment_base;
            const Segment& own = lr.batch.segments[unit];
            line = own.line;
            first = own.token;
            count = own.count;
            slots = own.slots;
            slot_count = own.own * SLOTS_PER_TOKEN;
        }
        records = lr.batch.records + (u64)slots * SLOTS_PER_TOKEN;
        spill = lr.batch.spill + (u64)slots * SLOTS_PER_TOKEN;
        bool overflows = false;
        bool accepted = parse(overflows);
        if (!accepted && demote_with_paren()) accepted = parse(overflows);
        if (accepted) store_roots();
        store_outcome(accepted, overflows);
    }

    __device__ __forceinline__ void store_outcome(bool accepted, bool overflows) {
        if (!accepted) fall_back(lr.batch, lr.batch.line_sources[line], overflows ? REASON_LIMIT : REASON_SYNTAX);
        const u32 head = accepted && roots ? root(0) >> 16 : 0;
        if (unit == NONE) {
            lr.batch.outcomes[line] = accepted ? make_uint2(nodes | values << 16, head | LINE_OK) : make_uint2(0, 0);
        } else {
            Segment& own = lr.batch.segments[unit];
            own.nodes = nodes;
            own.values = values;
            own.head = head;
        }
    }
};

// The units of a warp's ticket. The longest, which come first, have a warp each, so that nothing delays them; 32 short
// ones share one.
struct WarpShare {
    u32 first, lines;
};

__device__ __forceinline__ WarpShare warp_share(const LrParams& lr, u32 ticket) {
    const u32 single = lr.ends[ONE_PER_WARP_KEYS - 1], shared_end = lr.ends[FOUR_PER_WARP_KEYS - 1], count = *lr.count;
    if (ticket < single) return {ticket, 1};
    ticket -= single;
    const u32 groups = (shared_end - single + LINES_PER_WARP - 1) / LINES_PER_WARP;
    if (ticket < groups) {
        const u32 skipped = ticket * LINES_PER_WARP;
        return {single + skipped, min(LINES_PER_WARP, shared_end - single - skipped)};
    }
    const u32 first = shared_end + (ticket - groups) * 32;
    return {first, first < count ? min(32u, count - first) : 0};
}

// Warps take tickets until none is left.
__device__ __forceinline__ void parse_units(const LrParams& lr, const u8* bytes, u32* shared_stack) {
    const u32 lane = threadIdx.x & 31;
    u32 symbols[DEPTH], roots[LOCAL_ROOTS];
    UnitParser line(lr, bytes, symbols, roots, shared_stack);
    for (;;) {
        const u32 ticket = __shfl_sync(FULL_WARP, lane == 0 ? atomicAdd(&lr.batch.counters[COUNT_SHARES], 1u) : 0, 0);
        const WarpShare share = warp_share(lr, ticket);
        if (share.lines == 0) return;
        if (lane < share.lines) line.run(lr.order[share.first + lane]);
        __syncwarp();
    }
}

// tree_lr_shared: parses the units of an order, with the tables in shared memory.
//   writes records, outcomes, segments and reasons
// LR_THREADS threads, one block per SM; dynamic shared memory for the tables, SHARED_SYMBOLS and SHARED_ROOTS.
extern "C" __global__ void __launch_bounds__(LR_THREADS) tree_lr_shared(const __grid_constant__ LrParams lr) {
    extern __shared__ uint4 shared[];
    const uint4* from = (const uint4*)lr.bytes;
    for (u32 at = threadIdx.x; at < lr.tables.bytes / 16; at += blockDim.x) shared[at] = from[at];
    __syncthreads();
    parse_units(lr, (const u8*)shared, (u32*)((u8*)shared + lr.tables.bytes));
}

// tree_lr: the same with the tables in device memory, for devices with too little shared memory.
extern "C" __global__ void __launch_bounds__(LR_THREADS) tree_lr(const __grid_constant__ LrParams lr) {
    extern __shared__ uint4 shared[];
    parse_units(lr, lr.bytes, (u32*)shared);
}
