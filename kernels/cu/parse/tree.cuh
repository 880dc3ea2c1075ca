// What the parser's kernels share besides the batch they work on.

#pragma once

#include "launch/tree.cuh"
#include "parse/tree_enums.cuh"

#define NONE 0xffffffffu
// The smallest aux of a constant without a value row: `...`, before True, False and None.
#define VALUE_ELLIPSIS (NONE - 3)

// Why a source falls back to the CPU, as bits; mirrored in ops/parse/cuda/fallback_reason.rs.
enum FallbackReason {
    REASON_LEXER = 1,    // the lexer flagged it
    REASON_SYNTAX = 2,   // a line that the LR tables reject
    REASON_LIMIT = 4,    // a line with too many tokens, or nested too deep
    REASON_BLOCK = 8,    // invalid indentation, or a clause without its statement
    REASON_CHECK = 16,   // an error found by the checks
    REASON_LITERAL = 32, // a literal that is invalid, or that only the CPU decodes
};
// The lexer's bits are above them.
#define LEXER_SHIFT 8

// A unit is what one thread parses: a line, or a part of a split one. It has at most MAX_TOKENS tokens and twice as
// many nodes.
#define MAX_TOKENS 2047

// A node of a unit before rows are assigned.
//   x: kind | field << 8 | parent in the unit << 16, UNIT_ROOT if it has none
//   y, z: start and end
//   w: aux; for a constant with a value its token in the unit | its rank among the unit's values << 16
#define UNIT_ROOT 0xffffu
#define ROOT NONE
typedef uint4 Record;
// The kind of the node that stands for the chunks split out of a bracket.
#define KIND_PLACEHOLDER 0xffu

// The result of parsing a line.
//   x: nodes | values << 16; for a split line its first segment
//   y: the first root | LINE_OK; for a split line LINE_SPLIT
#define LINE_OK 0x80000000u
#define LINE_SPLIT 0x40000000u
typedef uint2 Outcome;

// The place of a line in the statement tree.
//   x: parent of its roots   y: parent of its header   z: end of its header
//   w: field of its roots, 0 to keep it | field of its header << 8 | HAS_HEADER | STARRED
#define HAS_HEADER 0x10000u
#define STARRED 0x20000u
typedef uint4 Nesting;

// Indices of `counters`. SHARES are work tickets taken by warps.
enum Counter {
    COUNT_SHARES, COUNT_LONG, COUNT_SEGMENTS, COUNT_APPENDING, COUNT_LONG_APPENDING, COUNT_LONG_TEXTS, COUNT_TEXT_SHARES,
    COUNT_EXTRA_SHARES,
};
static_assert(COUNT_EXTRA_SHARES + 1 == COUNTERS, "the host allocates another number");
static_assert(LINE_THREADS == BLOCK_LINES, "a thread takes a line");

struct Sizes {
    u32 nodes, values, head;
};

__device__ __forceinline__ Sizes sizes_of(const TreeBatch& batch, const Outcome& outcome) {
    if (!(outcome.y & LINE_SPLIT)) return {outcome.x & 0xffff, outcome.x >> 16, outcome.y & 0xffff};
    const Segment& segment = batch.segments[outcome.x];
    return {segment.line_nodes, segment.line_values, segment.head};
}

// Converts a token number of a unit to one of the batch.
__device__ __forceinline__ u32 token_of_unit(const Segment* segments, u32 unit, u32 token) {
    u32 segment = unit;
    for (u32 next; (next = segments[segment].next) != NONE && segments[next].before <= token;) segment = next;
    return segments[segment].token + token - segments[segment].before;
}

// The number of a unit's nodes in a segment: the node before the next segment is the placeholder between them.
__device__ __forceinline__ u32 nodes_of(const Segment* segments, const Segment& segment, const Segment& unit) {
    return (segment.next == NONE ? unit.nodes : segments[segment.next].node - 1) - segment.node;
}

// The row within the line of a unit's node in `segment` or a later one.
__device__ __forceinline__ u32 row_of_node(const Segment* segments, u32 segment, u32 node) {
    for (u32 next; (next = segments[segment].next) != NONE && segments[next].node <= node;) segment = next;
    return segments[segment].row + node - segments[segment].node;
}

__device__ __forceinline__ u32 lane_id() { return threadIdx.x & 31; }

__device__ __forceinline__ u32 lines_of(const TreeBatch& batch) {
    return min(batch.logical_bases[batch.source_count], batch.line_cap);
}

__device__ __forceinline__ void fall_back(const TreeBatch& batch, u32 source, FallbackReason reason) {
    atomicOr(&batch.reasons[source], (u32)reason);
}

// Index of the last of the ascending `starts` that is <= `at`.
__device__ __forceinline__ u32 owner_of(const u32* starts, u32 count, u32 at) {
    u32 low = 0, high = count;
    while (high - low > 1) {
        const u32 middle = (low + high) / 2;
        if (starts[middle] <= at) low = middle;
        else high = middle;
    }
    return low;
}
