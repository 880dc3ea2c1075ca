// The LR(1) parser: logical lines to nodes, one thread a line, or a unit of a cut line, by the tables of the grammar.
//
// It is the loop of the parser's `driver` module, bit for bit. Nodes leave it in postorder into the line's own slots. The
// roots that the symbols on the stack have left so far lie on a second stack, so that a reduction finds its children
// without reading what was written. Steps of both kinds, taking a terminal and reducing, share one loop: the threads
// of a warp stay together. Chunks that were cut out leave one root, which tree_merge replaces with theirs.

#include "parse_tree.cuh"

// An entry of the tables: what to do, and with which state or production.
#define ENTRY_NUMBER 0x3fffu
#define ENTRY_REDUCE 1u
#define ENTRY_TAKE_AND_REDUCE 2u
#define ENTRY_LOOK 2u  // among steps: ask a row of the gotos
#define ENTRY_STOP 3u
#define ENTRY_ACCEPT 0xc001u

// Where `aux` comes from: `Aux` of the grammar's notation.
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

// The stack of a thread; what does not fit makes the CPU parse the source.
#define DEPTH 120
// Lines of the first keys have more than 256 tokens and a warp alone; those up to the second more than 128, and few share
// a warp.
#define ALONE_KEYS 24
#define FEW_KEYS 28
#define FEW 4u
// Threads of a block.
#define LR_THREADS 384u
// Symbols and roots of each thread that lie in shared memory; behind them come those that a thread keeps for itself, and
// roots beyond in device memory. Threads of a warp are at different heights: in shared memory alone that costs nothing.
#define NEAR_SYMBOLS 22u
#define NEAR_ROOTS 14u
#define OWN_ROOTS 72u

// Where each table starts, in bytes. Rows are given by where they start, save those of `gotos`.
struct Tables {
    u32 productions;  // uint4 each
    u32 actions;      // u16 by row start and terminal
    u32 gotos;        // u16 by row and column
    u32 steps;        // u16 by row start and rule
    u32 action_rows;  // u16 by state
    u32 step_rows;    // u16 by state
    u32 goto_columns; // u8 by terminal
    u32 labels;       // kind, field of it, field of others: u8 each, 4 a label
    u32 bytes;
    u32 end;          // the terminal that stands for the end of a line
    u32 goto_width;
    u32 unused;
};

struct Lr {
    TreeBatch batch;
    const u8* bytes;   // the tables
    const u32* order;  // lines to parse
    const u32* count;  // how many
    const u32* ends;   // by key: where its lines end in the order
    Tables tables;
};

// A symbol: state, first token in the unit, height of the roots' stack.
__device__ __forceinline__ u32 symbol_of(u32 state, u32 token, u32 roots) { return state | token << 9 | roots << 20; }
__device__ __forceinline__ u32 state_of(u32 symbol) { return symbol & 0x1ff; }
__device__ __forceinline__ u32 token_of(u32 symbol) { return symbol >> 9 & 0x7ff; }
__device__ __forceinline__ u32 roots_of(u32 symbol) { return symbol >> 20; }

// One unit on its way through the tables.
struct Line {
    const Lr& lr;
    const u8* bytes;
    Record* records;
    u32* far;
    u32 line, unit;         // its first piece, or NONE for a whole line
    u32 first, count, room; // its tokens, and slots
    // The piece that the token behind the next one is in: kinds of its tokens, by their numbers in the unit, and the
    // number of the one that stands for the chunks behind it.
    const u8* kinds;
    u32 ahead, hole;
    // The piece that the next token is in: its first token, and what makes a token of the batch of one behind it.
    u32 piece, before, shift;
    u32 at;                 // the next one
    u32 terminal, behind;   // it, and the one behind it
    u32 top;                // the topmost symbol
    u32 nodes, values, roots;
    u32 last;               // kind of the last node
    // They lie outside, DEPTH and OWN_ROOTS: a struct with arrays does not stay in registers.
    u32* symbols;
    u32* own_roots;
    // In shared memory, LR_THREADS apart.
    u32* near_symbols;
    u32* near_roots;

    __device__ Line(const Lr& lr, const u8* bytes, u32* symbols, u32* own_roots, u32* near)
        : lr(lr), bytes(bytes), symbols(symbols), own_roots(own_roots), near_symbols(near + threadIdx.x),
          near_roots(near + NEAR_SYMBOLS * LR_THREADS + threadIdx.x) {}

    __device__ __forceinline__ u32 symbol(u32 place) const {
        return place < NEAR_SYMBOLS ? near_symbols[place * LR_THREADS] : symbols[place];
    }

    __device__ __forceinline__ void set_symbol(u32 place, u32 value) {
        if (place < NEAR_SYMBOLS) near_symbols[place * LR_THREADS] = value;
        else symbols[place] = value;
    }

    template <class T>
    __device__ __forceinline__ T table(u32 start, u32 place) const {
        return ((const T*)(bytes + start))[place];
    }

    // Asked for each token in turn.
    __device__ __forceinline__ u32 terminal_at(u32 token) {
        if (token >= count) return lr.tables.end;
        return token == hole ? look_over_hole() : kinds[token];
    }

    __device__ __forceinline__ u32 look_over_hole() {
        look_into(lr.batch.pieces[ahead].next);
        return lr.batch.pieces[ahead].big;
    }

    __device__ __forceinline__ void look_into(u32 number) {
        const Stretch& own = lr.batch.pieces[number];
        ahead = number;
        kinds = lr.batch.kinds + own.token - own.before;
        hole = own.next == NONE ? NONE : lr.batch.pieces[own.next].before - 1;
    }

    __device__ __forceinline__ void start() {
        at = top = nodes = values = roots = last = 0;
        set_symbol(0, symbol_of(0, 0, 0));
        before = 0;
        shift = first;
        kinds = lr.batch.kinds + first;
        hole = NONE;
        piece = unit;
        if (unit != NONE) start_unit();
        terminal = terminal_at(0);
        behind = terminal_at(1);
    }

    // A chunk starts as if a token had been taken that says what it is a chunk of.
    __device__ __forceinline__ void start_unit() {
        look_into(unit);
        const u32 big = lr.batch.pieces[unit].big;
        if (big == 0) return;
        terminal = big == TOKEN_BIG_ARGS ? TOKEN_CHUNK_ARGS : big == TOKEN_BIG_DICT ? TOKEN_CHUNK_DICT : TOKEN_CHUNK_LIST;
        set_symbol(1, symbol_of(action() & 0x1ff, 0, 0));
        top = 1;
    }

    // The token of the batch.
    __device__ __forceinline__ u32 token_at(u32 token) const {
        return token >= before ? token + shift : token_of_unit(lr.batch.pieces, unit, token);
    }

    __device__ __forceinline__ u32 root(u32 place) const {
        if (place < NEAR_ROOTS) return near_roots[place * LR_THREADS];
        return place < OWN_ROOTS ? own_roots[place] : far[place];
    }

    // A root: its node, kind and field.
    __device__ __forceinline__ void set_root(u32 place, u32 value) {
        if (place < NEAR_ROOTS) near_roots[place * LR_THREADS] = value;
        else if (place < OWN_ROOTS) own_roots[place] = value;
        else far[place] = value;
    }

    // Takes the terminal.
    __device__ __forceinline__ void take(u32 state) {
        set_symbol(++top, symbol_of(state, at, roots));
        at += 1;
        if (terminal - TOKEN_BIG_LIST <= TOKEN_BIG_DICT - TOKEN_BIG_LIST) take_hole();
        terminal = behind;
        behind = terminal_at(at + 1);
    }

    // Leaves a root for the chunks.
    __device__ __forceinline__ void take_hole() {
        const u32 node = min(nodes++, room - 1);
        set_root(roots++, KIND_HOLE | FIELD_BODY << 8 | node << 16);
        last = KIND_HOLE;
        piece = lr.batch.pieces[piece].next;
        Stretch& own = lr.batch.pieces[piece];
        own.node = nodes;
        own.value = values;
        before = own.before;
        shift = own.token - own.before;
    }

    __device__ __forceinline__ u32 action() const {
        const u32 row = table<u16>(lr.tables.action_rows, state_of(symbol(top)));
        return table<u16>(lr.tables.actions, row + terminal);
    }

    // The field that a label gives to a root of a kind.
    __device__ __forceinline__ u32 field_of(u32 label, u32 kind) const {
        const uchar4 parts = table<uchar4>(lr.tables.labels, label);
        return kind == parts.x ? parts.y : parts.z;
    }

    // Gives the roots of a production's symbols their fields, and to `parent` if that is no NEAR_ROOT: the roots go.
    __device__ __forceinline__ void adopt(const uint4& production, u32 base, u32 length, u32 least, u32 parent) {
        u32 next = roots;
        for (u32 place = length; place-- > least;) {
            const u32 label = (place < 4 ? production.z >> place * 8 : production.w >> (place - 4) * 8) & 0xff;
            const u32 lowest = roots_of(symbol(base + place));
            // A list grows by one symbol at a time: the roots it has already must not be walked again.
            if (parent == NEAR_ROOT && label == 0) next = min(next, lowest);
            while (next > lowest) {
                next -= 1;
                u32 entry = root(next);
                const u32 kind = entry & 0xff;
                if (label) entry = (entry & ~0xff00u) | field_of(label, kind) << 8;
                if (parent != NEAR_ROOT) records[entry >> 16].x = (entry & 0xffff) | parent << 16;
                else if (label) set_root(next, entry);
            }
        }
        if (parent != NEAR_ROOT) roots = next;
    }

    __device__ __forceinline__ u32 payload(u32 token) const { return lr.batch.payloads[token_at(token)]; }
    __device__ __forceinline__ u32 start_of(u32 token) const { return lr.batch.starts[token_at(token)]; }
    __device__ __forceinline__ u32 end_of(u32 token) const { return lr.batch.ends[token_at(token)]; }

    __device__ __forceinline__ u32 rare_aux(u32 from, u32 token, u32 end, u32 node_behind) const {
        if (from == AUX_LEVEL) {
            u32 sum = 0;
            for (; token < end; token++) sum += end_of(token) - start_of(token);
            return sum;
        }
        if (from == AUX_SIMPLE) {
            const u32 entry = root(node_behind - 1);
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

    // Replaces the symbols of a production by its rule and says what to do next.
    __device__ __forceinline__ u32 reduce(u32 number) {
        const uint4 production = table<uint4>(lr.tables.productions, number);
        const u32 length = production.x & 0xf, kind = production.x >> 12 & 0xff;
        const u32 base = top + 1 - length;
        const u32 below = symbol(base - 1);
        const u32 own = length ? symbol(base) : symbol_of(0, at, roots);
        if (kind == 0) {
            if (production.z | production.w) adopt(production, base, length, 0, NEAR_ROOT);
        } else {
            const bool touches = (production.x >> 20 & 0xf) == AUX_TEXT && roots_of(below) < roots && last == KIND_CONSTANT;
            if (!touches) emit(production, base, length, kind, token_of(own));
        }
        const u32 row = table<u16>(lr.tables.step_rows, state_of(below)) + (production.x >> 4 & 0xff);
        u32 step = table<u16>(lr.tables.steps, row);
        if (step >> 14 == ENTRY_LOOK) {
            const u32 column = table<u8>(lr.tables.goto_columns, terminal);
            step = table<u16>(lr.tables.gotos, (step & ENTRY_NUMBER) * lr.tables.goto_width + column);
        }
        top = base;
        set_symbol(base, symbol_of(step & 0x1ff, token_of(own), roots_of(own)));
        return step;
    }

    __device__ __forceinline__ void emit(const uint4& production, u32 base, u32 length, u32 kind, u32 token) {
        // More nodes than slots make the line fail in the end.
        const u32 node = min(nodes++, room - 1);
        const u32 aux = aux_of(production, base, length);
        adopt(production, base, length, production.x >> 28 & 7, node);
        // The first word follows when the node gets its parent; one store costs less than three.
        records[node] = make_uint4(0, token < count ? start_of(token) : 0, end_of(at - 1), aux);
        set_root(roots++, kind | FIELD_BODY << 8 | node << 16);
        last = kind;
    }

    // Whether the tables take the whole line. `deep`: the stack was full.
    __device__ __forceinline__ bool parse(bool& deep) {
        start();
        u32 step = 0;
        for (;;) {
            if (step >> 14 != ENTRY_REDUCE) {
                step = action();
                const u32 what = step >> 14;
                if (what == 0 || what == ENTRY_TAKE_AND_REDUCE) take(step & 0x1ff);
            }
            const u32 what = step >> 14;
            if (what == ENTRY_REDUCE || what == ENTRY_TAKE_AND_REDUCE) step = reduce(step & ENTRY_NUMBER);
            if (top >= DEPTH - 2 || nodes > room) {
                deep = true;
                return false;
            }
            if (step >> 14 == ENTRY_STOP) return step == ENTRY_ACCEPT;
        }
    }

    // The roots that are left have no parent in the unit.
    __device__ __forceinline__ void leave_roots() {
        for (u32 place = 0; place < roots; place++) {
            const u32 entry = root(place);
            records[entry >> 16].x = (entry & 0xffff) | NEAR_ROOT << 16;
        }
    }

    // In a line that does not parse with the items of a `with` in parentheses, these are part of one expression.
    __device__ __forceinline__ bool free_parenthesis() {
        for (u32 token = 0; token < count && token < 3; token++) {
            if (lr.batch.kinds[first + token] == TOKEN_WITH_PAREN) {
                lr.batch.kinds[first + token] = TOKEN_LEFT_PAREN;
                return true;
            }
        }
        return false;
    }

    // `number`: of a line, or of a unit's first piece.
    __device__ __forceinline__ void run(u32 number) {
        u32 slots;
        if (number < lr.batch.piece_base) {
            const uint4 facts = lr.batch.lines[number];
            line = number;
            unit = NONE;
            first = slots = facts.x;
            count = facts.y - facts.x;
            room = count * SLOTS_PER_TOKEN;
        } else {
            unit = number - lr.batch.piece_base;
            const Stretch& own = lr.batch.pieces[unit];
            line = own.line;
            first = own.token;
            count = own.count;
            slots = own.slots;
            room = own.own * SLOTS_PER_TOKEN;
        }
        records = lr.batch.records + (u64)slots * SLOTS_PER_TOKEN;
        far = lr.batch.far + (u64)slots * SLOTS_PER_TOKEN;
        bool deep = false;
        bool right = parse(deep);
        if (!right && free_parenthesis()) right = parse(deep);
        if (right) leave_roots();
        leave(right, deep);
    }

    __device__ __forceinline__ void leave(bool right, bool deep) {
        if (!right) give_up(lr.batch, lr.batch.line_sources[line], deep ? BY_LENGTH : BY_LINE);
        const u32 head = right && roots ? root(0) >> 16 : 0;
        if (unit == NONE) {
            lr.batch.outcomes[line] = right ? make_uint2(nodes | values << 16, head | LINE_OK) : make_uint2(0, 0);
        } else {
            Stretch& own = lr.batch.pieces[unit];
            own.nodes = nodes;
            own.values = values;
            own.head = head;
        }
    }
};

// The lines of a warp: how many, from which place of the order on. The longest lines, which come first, have a warp each,
// so that nothing holds them up; 32 short ones share one.
struct Share {
    u32 first, lines;
};

__device__ __forceinline__ Share share_of(const Lr& lr, u32 ticket) {
    const u32 alone = lr.ends[ALONE_KEYS - 1], few = lr.ends[FEW_KEYS - 1], count = *lr.count;
    if (ticket < alone) return {ticket, 1};
    ticket -= alone;
    const u32 fews = (few - alone + FEW - 1) / FEW;
    if (ticket < fews) return {alone + ticket * FEW, min(FEW, few - alone - ticket * FEW)};
    const u32 first = few + (ticket - fews) * 32;
    return {first, first < count ? min(32u, count - first) : 0};
}

// Warps take shares until none is left.
__device__ __forceinline__ void parse_all(const Lr& lr, const u8* bytes, u32* near) {
    const u32 lane = threadIdx.x & 31;
    u32 symbols[DEPTH], roots[OWN_ROOTS];
    Line line(lr, bytes, symbols, roots, near);
    for (;;) {
        const u32 ticket = __shfl_sync(FULL_WARP, lane == 0 ? atomicAdd(&lr.batch.counters[COUNT_SHARES], 1u) : 0, 0);
        const Share share = share_of(lr, ticket);
        if (share.lines == 0) return;
        if (lane < share.lines) line.run(lr.order[share.first + lane]);
        __syncwarp();
    }
}

// tree_lr_shared: parses the lines of an order; the tables lie in shared memory.
//   records, outcomes, pieces and reasons are written.
// LR_THREADS threads, as many blocks as run at once; dynamic shared memory for the tables, NEAR_SYMBOLS and NEAR_ROOTS.
extern "C" __global__ void __launch_bounds__(LR_THREADS) tree_lr_shared(const __grid_constant__ Lr lr) {
    extern __shared__ uint4 shared[];
    const uint4* from = (const uint4*)lr.bytes;
    for (u32 at = threadIdx.x; at < lr.tables.bytes / 16; at += blockDim.x) shared[at] = from[at];
    __syncthreads();
    parse_all(lr, (const u8*)shared, (u32*)((u8*)shared + lr.tables.bytes));
}

// tree_lr: the same with the tables in device memory, for devices with little shared memory.
extern "C" __global__ void __launch_bounds__(LR_THREADS) tree_lr(const __grid_constant__ Lr lr) {
    extern __shared__ uint4 shared[];
    parse_all(lr, lr.bytes, (u32*)shared);
}
