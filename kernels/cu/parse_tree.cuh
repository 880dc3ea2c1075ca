// What the kernels of the parser share: the batch they work on.

#pragma once

#include "common.cuh"
#include "parse_tree_numbers.cuh"

#define NONE 0xffffffffu
// The least of the values that stand for themselves: `...`.
#define VALUE_ELLIPSIS (NONE - 3)

// Why the CPU parses a source anew, as bits.
enum Reason {
    BY_LEXER = 1,    // what the lexer left
    BY_LINE = 2,     // a line that the tables refuse
    BY_LENGTH = 4,   // a line of too many tokens, or too deep
    BY_BLOCK = 8,    // indentation or clauses that do not fit
    BY_CHECK = 16,   // an error that the checks found
    BY_VALUE = 32,   // a value in error, or one that only the CPU knows
};
// Above them stand the lexer's own.
#define LEXER_SHIFT 8

// A unit, which one thread parses, has at most so many tokens; its nodes are at most twice as many.
#define MOST_TOKENS 2047
#define SLOTS_PER_TOKEN 2
// Lines of more tokens are looked at by a warp, and cut into units where that can be done.
#define SHORT_TOKENS 64

// A unit's node while its rows have no numbers.
//   x: kind | field << 8 | parent in the unit << 16, NEAR_ROOT where it has none
//   y, z: start and end
//   w: aux; of a constant with a value its token in the unit | its rank among the unit's values << 16
#define NEAR_ROOT 0xffffu
#define ROOT NONE
typedef uint4 Record;
// The kind of a node that stands for the chunks cut out of a bracket.
#define KIND_HOLE 0xffu

// What the tables made of a line.
//   x: nodes | values << 16; of a cut line its first piece
//   y: the first root | LINE_OK; of a cut line LINE_CUT
#define LINE_OK 0x80000000u
#define LINE_CUT 0x40000000u
typedef uint2 Outcome;

// Tokens of a cut line that follow each other in one unit, which are those between two places where the line is cut. A
// line's pieces follow each other in its order. The units are what remains of the line, and chunks: the elements of a long
// bracket, from a comma to another. In the unit around it a token stands for each bracket's chunks. Tokens of a unit are
// numbered with those.
struct Stretch {
    u32 token;       // its first one, in the batch
    u32 before;      // tokens of the unit before it
    u32 next;        // the unit's next piece, or NONE
    u32 unit;        // the unit's first piece; NONE: this is no piece
    u32 big;         // which token stands for the chunks before it, or, of a chunk, for it; else 0
    u32 node, value; // nodes and values of the unit before it
    u32 row, place;  // nodes and values of the line before it
    // Of a unit's first piece:
    u32 outer;       // of a chunk the last piece before its bracket, in the unit around it
    u32 count;       // tokens
    u32 own;         // tokens that are the line's own
    u32 slots;       // the token whose slots its nodes go to
    u32 line;
    u32 nodes, values, head;  // of the unit; the first root
    // Of a line's first piece:
    u32 pieces, line_nodes, line_values;
};

// What blocks made of a line.
//   x: parent of its roots   y: parent of its header   z: end of its header
//   w: field of its roots, 0 to keep it | field of its header << 8 | HAS_HEADER | STARRED
#define HAS_HEADER 0x10000u
#define STARRED 0x20000u
typedef uint4 Place;

// Sources of one launch, one behind the other. What the lexer made comes first: its tokens and names are numbered in each
// source, as are the tokens in the payloads of fields; `*_bases` say by source, and behind the last, what is before it.
struct TreeBatch {
    const u8* text;
    const u32* source_starts;
    const u32* source_lens;
    const u32* flags;        // by source: not 0 where the CPU takes it; its lines may be anything
    const u32* token_bases;
    const u32* logical_bases;
    const u32* name_bases;
    u8* kinds;               // by token
    const u32* starts;
    const u32* ends;
    u32* payloads;
    const u32* logical_firsts;  // by line: tokens of the source
    const u32* logical_ends;
    const u32* logical_columns;
    const u32* logical_alternates;
    const u32* name_starts;
    const u32* name_ends;
    const u8* versions;      // by source: the minor version of its grammar
    u32* reasons;            // by source: why the CPU parses it anew
    uint4* lines;            // first token, token behind the last, through the batch; column, column with tabs as 1
    u32* line_sources;       // by line: its source
    u16* columns;            // by line
    u16* least;              // by 32 lines: the least column
    u16* least_of_least;     // by 1024 lines
    u8* firsts;              // by line: its first terminal
    Record* records;         // SLOTS_PER_TOKEN a token: nodes of units
    Record* merged;          // likewise: nodes of whole lines that were cut; their parents are in `far`
    u32* far;                // likewise: roots that a thread has no room for; later parents in a line, or ROOT
    Outcome* outcomes;       // by line
    uint2* bases;            // by line and behind the last: rows and values before it
    Place* places;           // by line
    Stretch* pieces;           // COUNT_PIECES
    u32* long_lines;         // COUNT_LONG lines of more than SHORT_TOKENS tokens
    u32* counters;           // zeros at first
    u32 source_count;
    u32 line_cap;            // room for lines; how many there are stands in `logical_bases`
    u32 token_cap;
    u32 piece_cap;
    u32 piece_base;          // units that are no lines are numbered from here on: a multiple of 65,536
    u32 unused;
};

// What is counted: SHARES are those that warps have taken.
enum Counter {
    COUNT_SHARES, COUNT_LONG, COUNT_PIECES, COUNT_APPENDING, COUNT_LONG_APPENDING, COUNT_LONG_TEXTS, COUNT_TEXT_SHARES,
    COUNT_EXTRA_SHARES,
};

struct Sizes {
    u32 nodes, values, head;
};

__device__ __forceinline__ Sizes sizes_of(const TreeBatch& batch, const Outcome& outcome) {
    if (!(outcome.y & LINE_CUT)) return {outcome.x & 0xffff, outcome.x >> 16, outcome.y & 0xffff};
    const Stretch& piece = batch.pieces[outcome.x];
    return {piece.line_nodes, piece.line_values, piece.head};
}

// The token of a batch that a unit's token is.
__device__ __forceinline__ u32 token_of_unit(const Stretch* pieces, u32 unit, u32 token) {
    u32 piece = unit;
    for (u32 next; (next = pieces[piece].next) != NONE && pieces[next].before <= token;) piece = next;
    return pieces[piece].token + token - pieces[piece].before;
}

// How many nodes of its unit a piece has: the node in front of the next piece stands for what is between them.
__device__ __forceinline__ u32 nodes_of(const Stretch* pieces, const Stretch& piece, const Stretch& unit) {
    return (piece.next == NONE ? unit.nodes : pieces[piece.next].node - 1) - piece.node;
}

// The row in its line of a unit's node, which is in a piece or behind it.
__device__ __forceinline__ u32 row_of_node(const Stretch* pieces, u32 piece, u32 node) {
    for (u32 next; (next = pieces[piece].next) != NONE && pieces[next].node <= node;) piece = next;
    return pieces[piece].row + node - pieces[piece].node;
}

__device__ __forceinline__ u32 lane_id() { return threadIdx.x & 31; }

__device__ __forceinline__ u32 lines_of(const TreeBatch& batch) {
    return min(batch.logical_bases[batch.source_count], batch.line_cap);
}

__device__ __forceinline__ void give_up(const TreeBatch& batch, u32 source, Reason reason) {
    atomicOr(&batch.reasons[source], (u32)reason);
}

// The last of the ascending `starts` that is at most `at`.
__device__ __forceinline__ u32 owner_of(const u32* starts, u32 count, u32 at) {
    u32 low = 0, high = count;
    while (high - low > 1) {
        const u32 middle = (low + high) / 2;
        if (starts[middle] <= at) low = middle;
        else high = middle;
    }
    return low;
}
