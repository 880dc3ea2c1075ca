// Merges the nodes of a split line's units: a chunk's nodes replace the placeholder node in the enclosing unit.

#include "parse/tree.cuh"

// tree_segments: offsets of each segment's nodes and values in its line, and the line's totals. Grid-stride: one warp
// per long line.
extern "C" __global__ void __launch_bounds__(TREE_THREADS) tree_segments(const __grid_constant__ TreeBatch batch) {
    const u32 count = batch.counters[COUNT_LONG], warps = gridDim.x * blockDim.x / 32;
    for (u32 at = (blockIdx.x * blockDim.x + threadIdx.x) / 32; at < count; at += warps) {
        const u32 line = batch.long_lines[at];
        const Outcome outcome = batch.outcomes[line];
        if (!(outcome.y & LINE_SPLIT) || batch.reasons[batch.line_sources[line]]) continue;
        Segment* segments = batch.segments + outcome.x;
        const u32 all = segments->segments;
        u32 nodes = 0, values = 0;
        for (u32 base = 0; base < all; base += 32) {
            const u32 own = base + lane_id();
            u32 own_nodes = 0, own_values = 0;
            if (own < all) {
                const Segment& segment = segments[own];
                const Segment& unit = batch.segments[segment.unit];
                own_nodes = nodes_of(batch.segments, segment, unit);
                own_values = (segment.next == NONE ? unit.values : batch.segments[segment.next].value) - segment.value;
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
                segments[own].row = nodes + sum_nodes - own_nodes;
                segments[own].value_row = values + sum_values - own_values;
            }
            nodes += __shfl_sync(FULL_WARP, sum_nodes, 31);
            values += __shfl_sync(FULL_WARP, sum_values, 31);
        }
        __syncwarp();
        if (lane_id() == 0) {
            segments->line_nodes = nodes;
            segments->line_values = values;
            segments->head = row_of_node(batch.segments, outcome.x, segments->head);
        }
    }
}

// Moves the nodes of a segment to their line.
struct Merger {
    const TreeBatch& batch;
    const Segment* segments;
    u32 number;

    // The row of a root's parent, and its field, from the chunk's placeholder node in the enclosing unit.
    __device__ u32 chunk_parent(const Segment& unit, u32 kind, u32& field) const {
        if (unit.outer == NONE) return ROOT;
        const Segment& outer_unit = segments[segments[unit.outer].unit];
        const u32 placeholder = segments[segments[unit.outer].next].node - 1;
        const u32 head = batch.records[(u64)outer_unit.slots * SLOTS_PER_TOKEN + placeholder].x;
        if (unit.placeholder != TOKEN_BIG_DICT) {
            field = unit.placeholder == TOKEN_BIG_ARGS && kind == KIND_KEYWORD ? FIELD_KEYWORDS : head >> 8 & 0xff;
        }
        return row_of_node(segments, segments[unit.outer].next, head >> 16);
    }

    __device__ void run(u32* value_rows, u32* value_tokens, u32* value_sources) const {
        const Segment& segment = segments[number];
        const Segment& unit = segments[segment.unit];
        const u32 line = unit.line, source = batch.line_sources[line];
        if (batch.reasons[source]) return;
        const uint2 bases = batch.bases[line], before = batch.bases[batch.logical_bases[source]];
        const u64 from = (u64)unit.slots * SLOTS_PER_TOKEN, to = (u64)batch.lines[line].x * SLOTS_PER_TOKEN;
        const u32 end = segment.node + nodes_of(segments, segment, unit);
        for (u32 node = segment.node + lane_id(); node < end; node += 32) {
            Record record = batch.records[from + node];
            const u32 row = segment.row + node - segment.node, kind = record.x & 0xff, parent = record.x >> 16;
            u32 field = record.x >> 8 & 0xff;
            batch.spill[to + row] = parent == UNIT_ROOT ? chunk_parent(unit, kind, field) : row_of_node(segments, number, parent);
            record.x = kind | field << 8;
            if (kind == KIND_CONSTANT && record.w < VALUE_ELLIPSIS) {
                const u32 value = bases.y + segment.value_row + (record.w >> 16) - segment.value;
                value_rows[value] = bases.x + row;
                value_tokens[value] = token_of_unit(segments, segment.unit, record.w & 0xffff);
                value_sources[value] = source;
                record.w = value - before.y;
            }
            batch.merged[to + row] = record;
        }
    }
};

// tree_merge: merges the nodes of split lines.
//   writes merged, spill, and rows, tokens and sources of the values in them. Grid-stride: one warp per segment.
extern "C" __global__ void __launch_bounds__(TREE_THREADS) tree_merge(
    const __grid_constant__ TreeBatch batch, u32* value_rows, u32* value_tokens, u32* value_sources) {
    const u32 count = min(batch.counters[COUNT_SEGMENTS], batch.segment_cap), warps = gridDim.x * blockDim.x / 32;
    for (u32 at = (blockIdx.x * blockDim.x + threadIdx.x) / 32; at < count; at += warps) {
        if (batch.segments[at].unit != NONE) Merger{batch, batch.segments, at}.run(value_rows, value_tokens, value_sources);
    }
}
