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

// A unit parsed by one thread has at most so many tokens; its nodes are at most twice as many.
#define MOST_TOKENS 2047
#define SLOTS_PER_TOKEN 2

// A line's node while its rows have no numbers.
//   x: kind | field << 8 | parent in the line << 16, ROOT where it has none
//   y, z: start and end
//   w: aux; of a constant with a value its token in the line | its rank among the line's values << 16
#define ROOT 0xffffu
typedef uint4 Record;

// What the tables made of a line.
//   x: nodes | values << 16
//   y: the first root | LINE_OK
#define LINE_OK 0x80000000u
typedef uint2 Outcome;

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
    Record* records;         // SLOTS_PER_TOKEN a token
    Outcome* outcomes;       // by line
    uint2* bases;            // by line and behind the last: rows and values before it
    Place* places;           // by line
    u32 source_count;
    u32 line_cap;            // room for lines; how many there are stands in `logical_bases`
    u32 token_cap;
    u32 unused;
};

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
