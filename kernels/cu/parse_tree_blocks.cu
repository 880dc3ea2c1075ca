// Lines to nested statements: whose body a line is part of, which statement a clause belongs to, and where compound
// statements end. The parser's `blocks` module does the same with a stack; here each line looks for what it needs.
//
// What is wrong in any way makes the CPU parse the source; it says what is wrong.

#include "parse_tree.cuh"

// Chains of clauses beyond this length are left to the CPU.
#define MOST_CLAUSES 1024
// CPython keeps at most so many indentations.
#define MOST_INDENTS 99

// One source's lines.
struct Lines {
    const TreeBatch& batch;
    u32 begin, end;

    __device__ __forceinline__ u32 column(u32 line) const { return batch.columns[line]; }
    __device__ __forceinline__ u32 first(u32 line) const { return batch.firsts[line]; }
    __device__ __forceinline__ u32 second(u32 line) const {
        const uint4 facts = batch.lines[line];
        return facts.x + 1 < facts.y ? batch.kinds[facts.x + 1] : NONE;
    }

    // The last line before `at` with a column of at most `most`, or NONE.
    __device__ u32 before(u32 at, u32 most) const {
        while (at > begin) {
            if ((at & 1023) == 0 && at - begin >= 1024 && batch.least_of_least[at / 1024 - 1] > most) {
                at -= 1024;
            } else if ((at & 31) == 0 && at - begin >= 32 && batch.least[at / 32 - 1] > most) {
                at -= 32;
            } else if (column(--at) <= most) {
                return at;
            }
        }
        return NONE;
    }

    // The first line behind `at` with a column of at most `most`, or the end.
    __device__ u32 behind(u32 at, u32 most) const {
        at += 1;
        while (at < end) {
            if ((at & 1023) == 0 && end - at >= 1024 && batch.least_of_least[at / 1024] > most) at += 1024;
            else if ((at & 31) == 0 && end - at >= 32 && batch.least[at / 32] > most) at += 32;
            else if (column(at) <= most) return at;
            else at += 1;
        }
        return end;
    }

    // The statement or clause before a line in the same block, or NONE.
    __device__ u32 sibling(u32 line) const {
        const u32 found = before(line, column(line));
        return found != NONE && column(found) == column(line) ? found : NONE;
    }

    __device__ __forceinline__ bool starts_header(u32 line) const {
        switch (first(line)) {
            case TOKEN_IF: case TOKEN_WHILE: case TOKEN_FOR: case TOKEN_ASYNC: case TOKEN_WITH: case TOKEN_DEF:
            case TOKEN_CLASS: case TOKEN_TRY: case TOKEN_MATCH: case TOKEN_CASE: return true;
            default: return false;
        }
    }

    __device__ __forceinline__ bool is_clause(u32 line) const {
        const u32 terminal = first(line);
        return terminal >= TOKEN_ELIF && terminal <= TOKEN_FINALLY;
    }

    // Whether a line leaves a row for its header.
    __device__ __forceinline__ bool has_header(u32 line) const {
        return starts_header(line) || first(line) == TOKEN_ELIF || first(line) == TOKEN_EXCEPT;
    }

    // Whether the next line must be deeper.
    __device__ __forceinline__ bool opens(u32 line) const {
        const Sizes sizes = sizes_of(batch, batch.outcomes[line]);
        if (has_header(line)) return sizes.head + 1 == sizes.nodes;
        return is_clause(line) && sizes.nodes == 0;
    }

    __device__ __forceinline__ bool is_loop(u32 line) const {
        const u32 terminal = first(line);
        return terminal == TOKEN_WHILE || terminal == TOKEN_FOR || (terminal == TOKEN_ASYNC && second(line) == TOKEN_FOR);
    }

    __device__ __forceinline__ bool is_if(u32 line) const {
        return first(line) == TOKEN_IF || first(line) == TOKEN_ELIF;
    }

    // The row of a line's header in its source.
    __device__ __forceinline__ u32 header(u32 line) const {
        return batch.bases[line].x - batch.bases[begin].x + sizes_of(batch, batch.outcomes[line]).head;
    }

    // The `try` that an `except`, or an `else` behind one, belongs to; NONE if there is none.
    __device__ u32 try_of(u32 line) const {
        for (u32 steps = 0; line != NONE && steps < MOST_CLAUSES; steps++) {
            const u32 terminal = first(line);
            if (terminal == TOKEN_TRY) return line;
            if (terminal != TOKEN_EXCEPT && terminal != TOKEN_ELSE) return NONE;
            line = sibling(line);
        }
        return NONE;
    }

    // The row that the body of a line belongs to, and the field; a row of NONE where the clause fits nothing.
    __device__ uint2 body(u32 line) const {
        const u32 terminal = first(line);
        if (terminal == TOKEN_MATCH) return make_uint2(header(line), FIELD_CASES);
        if (terminal != TOKEN_ELSE && terminal != TOKEN_FINALLY) return make_uint2(header(line), FIELD_BODY);
        const u32 before = sibling(line);
        if (before == NONE) return make_uint2(NONE, 0);
        if (terminal == TOKEN_ELSE && (is_if(before) || is_loop(before))) {
            return make_uint2(header(before), FIELD_ORELSE);
        }
        const u32 head = try_of(before);
        if (head == NONE) return make_uint2(NONE, 0);
        return make_uint2(header(head), terminal == TOKEN_ELSE ? FIELD_ORELSE : FIELD_FINALBODY);
    }

    // Whether the indentation fits that of the lines before.
    __device__ bool indented(u32 line) const {
        const u32 here = column(line), tabs = batch.lines[line].w;
        if (line == begin) return here == 0 && tabs == 0;
        if (column(line - 1) < here) return opens(line - 1) && batch.lines[line - 1].w < tabs && shallow(line);
        if (opens(line - 1)) return false;
        const u32 level = before(line, here);
        return level != NONE && column(level) == here && batch.lines[level].w == tabs;
    }

    __device__ bool shallow(u32 line) const {
        if (column(line) <= MOST_INDENTS) return true;
        u32 depth = 0;
        while (column(line) > 0 && depth <= MOST_INDENTS) {
            line = before(line, column(line) - 1);
            if (line == NONE) return false;
            depth += 1;
        }
        return depth <= MOST_INDENTS;
    }

    // Whether a decorator's line is followed by what it may decorate, which is found.
    __device__ bool decorates(u32 line, u32& decorated) const {
        const u32 here = column(line);
        do {
            line += 1;
            if (line >= end || column(line) != here) return false;
        } while (first(line) == TOKEN_AT);
        decorated = line;
        const u32 terminal = first(line);
        return terminal == TOKEN_DEF || terminal == TOKEN_CLASS || (terminal == TOKEN_ASYNC && second(line) == TOKEN_DEF);
    }

    __device__ __forceinline__ bool has_star(u32 line) const { return second(line) == TOKEN_STAR; }

    // Whether a clause may follow what stands before it in its block.
    __device__ bool continues(u32 line) const {
        const u32 before = sibling(line);
        if (before == NONE) return false;
        const u32 terminal = first(before);
        switch (first(line)) {
            case TOKEN_ELIF: return is_if(before);
            case TOKEN_ELSE: return is_if(before) || is_loop(before) || terminal == TOKEN_EXCEPT;
            case TOKEN_EXCEPT:
                return terminal == TOKEN_TRY || (terminal == TOKEN_EXCEPT && has_star(before) == has_star(line));
            default: {
                if (terminal == TOKEN_TRY || terminal == TOKEN_EXCEPT) return true;
                const u32 more = terminal == TOKEN_ELSE ? sibling(before) : NONE;
                return more != NONE && first(more) == TOKEN_EXCEPT;
            }
        }
    }

    // Where the header of a line ends: behind the last line of its block and, for a statement, of its clauses.
    __device__ bool last_line(u32 line, u32& last) const {
        const u32 here = column(line);
        u32 next = behind(line, here), steps = 0;
        if (first(line) != TOKEN_EXCEPT) {
            for (; next < end && column(next) == here && is_clause(next); steps++) {
                if (steps >= MOST_CLAUSES) return false;
                next = behind(next, here);
            }
        }
        last = next - 1;
        return true;
    }

    // The place of a line, if it fits.
    __device__ bool place(u32 line, Place& place) const {
        const u32 terminal = first(line), here = column(line);
        if (!indented(line) || (line + 1 == end && opens(line))) return false;
        place = make_uint4(NONE, NONE, 0, FIELD_BODY);
        if (is_clause(line)) return continues(line) && clause(line, place);
        const u32 outer = here == 0 ? NONE : before(line, here - 1);
        if ((outer != NONE && first(outer) == TOKEN_MATCH) != (terminal == TOKEN_CASE)) return false;
        if (terminal == TOKEN_AT) {
            u32 decorated;
            if (!decorates(line, decorated)) return false;
            place = make_uint4(header(decorated), NONE, 0, 0);
            return true;
        }
        uint2 owner = make_uint2(NONE, FIELD_BODY);
        if (outer != NONE) {
            owner = body(outer);
            if (owner.x == NONE) return false;
        }
        if (!starts_header(line)) {
            place = make_uint4(owner.x, NONE, 0, owner.y);
            return true;
        }
        place = make_uint4(header(line), owner.x, 0, FIELD_BODY | owner.y << 8 | HAS_HEADER);
        if (terminal == TOKEN_TRY) {
            const u32 next = behind(line, here);
            if (next == end || column(next) != here) return false;
            if (first(next) != TOKEN_EXCEPT && first(next) != TOKEN_FINALLY) return false;
            if (first(next) == TOKEN_EXCEPT && has_star(next)) place.w |= STARRED;
        }
        return ended(line, place);
    }

    __device__ bool clause(u32 line, Place& place) const {
        const u32 terminal = first(line), before = sibling(line);
        if (terminal == TOKEN_ELIF) {
            place = make_uint4(header(line), header(before), 0, FIELD_BODY | FIELD_ORELSE << 8 | HAS_HEADER);
            return ended(line, place);
        }
        if (terminal == TOKEN_EXCEPT) {
            const u32 head = try_of(before);
            if (head == NONE) return false;
            place = make_uint4(header(line), header(head), 0, FIELD_BODY | FIELD_HANDLERS << 8 | HAS_HEADER);
            return ended(line, place);
        }
        const uint2 owner = body(line);
        place = make_uint4(owner.x, NONE, 0, owner.y);
        return owner.x != NONE;
    }

    __device__ bool ended(u32 line, Place& place) const {
        u32 last;
        if (!last_line(line, last)) return false;
        place.z = batch.ends[batch.lines[last].y - 1];
        return true;
    }
};

// tree_blocks: the place of each line of the sources that are right so far; gives up those where one does not fit.
// One thread a line.
extern "C" __global__ void __launch_bounds__(256) tree_blocks(const __grid_constant__ TreeBatch batch) {
    const u32 line = blockIdx.x * blockDim.x + threadIdx.x;
    if (line >= lines_of(batch)) return;
    const u32 source = batch.line_sources[line];
    Place place = make_uint4(NONE, NONE, 0, 0);
    if (!batch.reasons[source]) {
        const Lines lines{batch, batch.logical_bases[source], batch.logical_bases[source + 1]};
        if (!lines.place(line, place)) give_up(batch, source, BY_BLOCK);
    }
    batch.places[line] = place;
}
