// Writes the nodes of lines to the sources' columns, with parents across lines, contexts and checks.

#include "parse/tree_checks.cuh"

// The parts of a row that depend on other lines.
struct Row {
    u32 kind, field, parent, end;
};

__device__ __forceinline__ Row nest(u32 record, u32 parent, u32 end, u32 node, u32 line_row, u32 head, const Nesting& nesting) {
    Row row = {record & 0xff, record >> 8 & 0xff, parent, end};
    if (row.parent != ROOT) {
        row.parent += line_row;
    } else if (nesting.w & HAS_HEADER && node == head) {
        row = {row.kind, nesting.w >> 8 & 0xff, nesting.y, nesting.z};
        if (nesting.w & STARRED) row.kind = KIND_TRY_STAR;
    } else {
        row.parent = nesting.x;
        if (nesting.w & 0xff) row.field = nesting.w & 0xff;
    }
    return row;
}

// Writes the row of a node; its source falls back if the node has an error. `SPLIT`: its line was split.
template <bool SPLIT>
__device__ __forceinline__ void write_row(const TreeBatch& batch, const NodeColumns& rows, u32 line, u32 node, u32 line_row) {
    const u32 source = batch.line_sources[line], at = line_row + node, token = batch.lines[line].x;
    const u64 slot = (u64)token * SLOTS_PER_TOKEN;
    const Nodes nodes{batch, (SPLIT ? batch.merged : batch.records) + slot, SPLIT ? batch.spill + slot : nullptr, source, token};
    const Record record = nodes.records[node];
    const uint2 before = batch.bases[batch.logical_bases[source]];
    u32 aux = record.w;
    const u32 kind = record.x & 0xff, field = record.x >> 8 & 0xff;
    bool valid = nodes.check(node, kind, field, aux);
    const u32 minor = batch.versions[source];
    if (minor < 14) valid = valid && nodes.version(node, kind, field, minor);
    else if (field == FIELD_MODULE) valid = valid && nodes.future(node, aux);
    // `except*`.
    if (minor < 11 && batch.nestings[line].w & STARRED) valid = false;
    if (!valid) fall_back(batch, source, REASON_CHECK);
    // tree_merge has numbered the values of a split line.
    if (!SPLIT && kind == KIND_CONSTANT && aux < VALUE_ELLIPSIS) {
        const u32 value = batch.bases[line].y + (aux >> 16);
        rows.value_rows[value] = at;
        rows.value_tokens[value] = token + (aux & 0xffff);
        rows.value_sources[value] = source;
        aux = value - before.y;
    }
    const u32 head = sizes_of(batch, batch.outcomes[line]).head, parent = nodes.parent(node);
    const Row row = nest(record.x, parent, record.z, node, line_row - before.x, head, batch.nestings[line]);
    rows.kinds[at] = (u8)row.kind;
    rows.fields[at] = (u8)row.field;
    rows.parents[at] = row.parent;
    rows.starts[at] = record.y;
    rows.ends[at] = row.end;
    rows.aux[at] = aux;
}

// tree_nodes: writes the rows of lines that were not split, coalesced; sources with an error fall back. NODES_LINES
// lines per block, whose threads take their rows in turn.
extern "C" __global__ void __launch_bounds__(TREE_THREADS)
    tree_nodes(const __grid_constant__ TreeBatch batch, const __grid_constant__ NodeColumns rows) {
    __shared__ u32 bases[NODES_LINES + 1];
    const u32 first = blockIdx.x * NODES_LINES, lines = lines_of(batch);
    if (first >= lines) return;
    const u32 count = min(NODES_LINES, lines - first);
    for (u32 at = threadIdx.x; at <= count; at += blockDim.x) bases[at] = batch.bases[first + at].x;
    __syncthreads();
    const u32 end = bases[count];
    for (u32 at = bases[0] + threadIdx.x; at < end; at += blockDim.x) {
        const u32 local = owner_of(bases, count + 1, at), line = first + local;
        if (batch.outcomes[line].y & LINE_SPLIT) continue;
        write_row<false>(batch, rows, line, at - bases[local], bases[local]);
    }
}

// tree_nodes_split: the same for split lines. Grid-stride: one warp per segment.
extern "C" __global__ void __launch_bounds__(TREE_THREADS)
    tree_nodes_split(const __grid_constant__ TreeBatch batch, const __grid_constant__ NodeColumns rows) {
    const u32 count = min(batch.counters[COUNT_SEGMENTS], batch.segment_cap), warps = gridDim.x * blockDim.x / 32;
    for (u32 number = (blockIdx.x * blockDim.x + threadIdx.x) / 32; number < count; number += warps) {
        const Segment& segment = batch.segments[number];
        if (segment.unit == NONE) continue;
        const Segment& unit = batch.segments[segment.unit];
        const u32 line = unit.line, from = batch.bases[line].x;
        // No rows: the source falls back.
        if (batch.bases[line + 1].x == from) continue;
        const u32 nodes = nodes_of(batch.segments, segment, unit);
        for (u32 node = threadIdx.x & 31; node < nodes; node += 32) write_row<true>(batch, rows, line, segment.row + node, from);
    }
}
