// The nodes of lines to rows of sources: one behind the other, with parents across lines, contexts and checks.

#include "parse_tree_checks.cuh"

// Lines of a block.
#define LINES 256u

// The columns of all sources' rows, one source behind the other; numbers in `parents` and `aux` are the source's own.
struct Rows {
    u8* kinds;
    u8* fields;
    u32* parents;
    u32* starts;
    u32* ends;
    u32* aux;
    u32* value_rows;     // by value: its row among all
    u32* value_tokens;   // by value: its first token
    u32* value_sources;  // by value
};

// What is decided about a row by the lines around it.
struct Row {
    u32 kind, field, parent, end;
};

__device__ __forceinline__ Row placed(u32 record, u32 parent, u32 end, u32 node, u32 line_row, u32 head, const Place& place) {
    Row row = {record & 0xff, record >> 8 & 0xff, parent, end};
    if (row.parent != ROOT) {
        row.parent += line_row;
    } else if (place.w & HAS_HEADER && node == head) {
        row = {row.kind, place.w >> 8 & 0xff, place.y, place.z};
        if (place.w & STARRED) row.kind = KIND_TRY_STAR;
    } else {
        row.parent = place.x;
        if (place.w & 0xff) row.field = place.w & 0xff;
    }
    return row;
}

// Writes the row of a node; gives up its source if it is wrong. `CUT`: its line was cut.
template <bool CUT>
__device__ __forceinline__ void write_row(const TreeBatch& batch, const Rows& rows, u32 line, u32 node, u32 line_row) {
    const u32 source = batch.line_sources[line], at = line_row + node, token = batch.lines[line].x;
    const u64 slot = (u64)token * SLOTS_PER_TOKEN;
    const Nodes nodes{batch, (CUT ? batch.merged : batch.records) + slot, CUT ? batch.far + slot : nullptr, source, token};
    const Record record = nodes.records[node];
    const uint2 before = batch.bases[batch.logical_bases[source]];
    u32 aux = record.w;
    const u32 kind = record.x & 0xff, field = record.x >> 8 & 0xff;
    bool right = nodes.check(node, kind, field, aux);
    const u32 minor = batch.versions[source];
    if (minor < 14) right = right && nodes.version(node, kind, field, minor);
    else if (field == FIELD_MODULE) right = right && nodes.future(node, aux);
    // Exception groups.
    if (minor < 11 && batch.places[line].w & STARRED) right = false;
    if (!right) give_up(batch, source, BY_CHECK);
    // Of a cut line, tree_merge has numbered the values.
    if (!CUT && kind == KIND_CONSTANT && aux < VALUE_ELLIPSIS) {
        const u32 value = batch.bases[line].y + (aux >> 16);
        rows.value_rows[value] = at;
        rows.value_tokens[value] = token + (aux & 0xffff);
        rows.value_sources[value] = source;
        aux = value - before.y;
    }
    const u32 head = sizes_of(batch, batch.outcomes[line]).head, above = nodes.parent(node);
    const Row row = placed(record.x, above, record.z, node, line_row - before.x, head, batch.places[line]);
    rows.kinds[at] = (u8)row.kind;
    rows.fields[at] = (u8)row.field;
    rows.parents[at] = row.parent;
    rows.starts[at] = record.y;
    rows.ends[at] = row.end;
    rows.aux[at] = aux;
}

// tree_rows: writes the rows of lines that were not cut, coalesced; gives up sources with rows that are wrong.
// LINES lines a block, whose threads take their rows in turn.
extern "C" __global__ void __launch_bounds__(256) tree_rows(const __grid_constant__ TreeBatch batch, const __grid_constant__ Rows rows) {
    __shared__ u32 bases[LINES + 1];
    const u32 first = blockIdx.x * LINES, lines = lines_of(batch);
    if (first >= lines) return;
    const u32 count = min(LINES, lines - first);
    for (u32 at = threadIdx.x; at <= count; at += blockDim.x) bases[at] = batch.bases[first + at].x;
    __syncthreads();
    const u32 end = bases[count];
    for (u32 at = bases[0] + threadIdx.x; at < end; at += blockDim.x) {
        const u32 local = owner_of(bases, count + 1, at), line = first + local;
        if (batch.outcomes[line].y & LINE_CUT) continue;
        write_row<false>(batch, rows, line, at - bases[local], bases[local]);
    }
}

// tree_rows_cut: the same for lines that were cut. A warp a piece, in turns.
extern "C" __global__ void __launch_bounds__(256)
    tree_rows_cut(const __grid_constant__ TreeBatch batch, const __grid_constant__ Rows rows) {
    const u32 count = min(batch.counters[COUNT_PIECES], batch.piece_cap), warps = gridDim.x * blockDim.x / 32;
    for (u32 number = (blockIdx.x * blockDim.x + threadIdx.x) / 32; number < count; number += warps) {
        const Stretch& piece = batch.pieces[number];
        if (piece.unit == NONE) continue;
        const Stretch& unit = batch.pieces[piece.unit];
        const u32 line = unit.line, from = batch.bases[line].x;
        // None where the CPU parses the source.
        if (batch.bases[line + 1].x == from) continue;
        const u32 nodes = nodes_of(batch.pieces, piece, unit);
        for (u32 node = threadIdx.x & 31; node < nodes; node += 32) write_row<true>(batch, rows, line, piece.row + node, from);
    }
}
