// The nodes of a cut line's units, put together: the chunks' where one node of the unit around them stood for them.

#include "parse_tree.cuh"

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
                own_nodes = nodes_of(batch.pieces, piece, unit);
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
        const u32 end = piece.node + nodes_of(pieces, piece, unit);
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
