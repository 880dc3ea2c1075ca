// Lines to nested statements: whose body a line belongs to, which statement a clause belongs to, and where compound
// statements end. The parser's `blocks` module does the same with a stack; here each line searches for what it needs.
//
// Any error makes the source fall back to the CPU, which reports it.

#include "parse/tree.cuh"

// A longer chain of clauses falls back to the CPU.
#define MAX_CLAUSES 1024
// CPython's limit of indentation levels (MAXINDENT - 1).
#define MAX_INDENTS 99

// One source's lines.
struct Lines {
    const TreeBatch& batch;
    u32 begin, end;

    __device__ __forceinline__ u32 column(u32 line) const { return batch.columns[line]; }
    __device__ __forceinline__ u32 first(u32 line) const { return batch.first_terminals[line]; }
    __device__ __forceinline__ u32 second(u32 line) const {
        const uint4 facts = batch.lines[line];
        return facts.x + 1 < facts.y ? batch.kinds[facts.x + 1] : NONE;
    }

    // The last line before `at` with a column <= `most`, or NONE.
    __device__ u32 last_before(u32 at, u32 most) const {
        while (at > begin) {
            if ((at & 1023) == 0 && at - begin >= 1024 && batch.min_columns_1024[at / 1024 - 1] > most) {
                at -= 1024;
            } else if ((at & 31) == 0 && at - begin >= 32 && batch.min_columns_32[at / 32 - 1] > most) {
                at -= 32;
            } else if (column(--at) <= most) {
                return at;
            }
        }
        return NONE;
    }

    // The first line after `at` with a column <= `most`, or the end.
    __device__ u32 first_after(u32 at, u32 most) const {
        at += 1;
        while (at < end) {
            if ((at & 1023) == 0 && end - at >= 1024 && batch.min_columns_1024[at / 1024] > most) at += 1024;
            else if ((at & 31) == 0 && end - at >= 32 && batch.min_columns_32[at / 32] > most) at += 32;
            else if (column(at) <= most) return at;
            else at += 1;
        }
        return end;
    }

    // The preceding statement or clause in the same block, or NONE.
    __device__ u32 sibling(u32 line) const {
        const u32 found = last_before(line, column(line));
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

    // Whether a line has a row for its statement's or handler's header.
    __device__ __forceinline__ bool has_header(u32 line) const {
        return starts_header(line) || first(line) == TOKEN_ELIF || first(line) == TOKEN_EXCEPT;
    }

    // Whether the next line must be indented.
    __device__ __forceinline__ bool opens_block(u32 line) const {
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

    // The row of a line's header, counted from the source's first.
    __device__ __forceinline__ u32 header(u32 line) const {
        return batch.bases[line].x - batch.bases[begin].x + sizes_of(batch, batch.outcomes[line]).head;
    }

    // The `try` that an `except`, or an `else` after one, belongs to, or NONE.
    __device__ u32 enclosing_try(u32 line) const {
        for (u32 clauses = 0; line != NONE && clauses < MAX_CLAUSES; clauses++) {
            const u32 terminal = first(line);
            if (terminal == TOKEN_TRY) return line;
            if (terminal != TOKEN_EXCEPT && terminal != TOKEN_ELSE) return NONE;
            line = sibling(line);
        }
        return NONE;
    }

    // The row and field that own the body of a line; the row is NONE if the clause fits no statement.
    __device__ uint2 body(u32 line) const {
        const u32 terminal = first(line);
        if (terminal == TOKEN_MATCH) return make_uint2(header(line), FIELD_CASES);
        if (terminal != TOKEN_ELSE && terminal != TOKEN_FINALLY) return make_uint2(header(line), FIELD_BODY);
        const u32 previous = sibling(line);
        if (previous == NONE) return make_uint2(NONE, 0);
        if (terminal == TOKEN_ELSE && (is_if(previous) || is_loop(previous))) {
            return make_uint2(header(previous), FIELD_ORELSE);
        }
        const u32 head = enclosing_try(previous);
        if (head == NONE) return make_uint2(NONE, 0);
        return make_uint2(header(head), terminal == TOKEN_ELSE ? FIELD_ORELSE : FIELD_FINALBODY);
    }

    // Whether the indentation is consistent with the preceding lines.
    __device__ bool has_valid_indentation(u32 line) const {
        const u32 here = column(line), tabs = batch.lines[line].w;
        if (line == begin) return here == 0 && tabs == 0;
        if (column(line - 1) < here) return opens_block(line - 1) && batch.lines[line - 1].w < tabs && has_valid_depth(line);
        if (opens_block(line - 1)) return false;
        const u32 level = last_before(line, here);
        return level != NONE && column(level) == here && batch.lines[level].w == tabs;
    }

    __device__ bool has_valid_depth(u32 line) const {
        if (column(line) <= MAX_INDENTS) return true;
        u32 depth = 0;
        while (column(line) > 0 && depth <= MAX_INDENTS) {
            line = last_before(line, column(line) - 1);
            if (line == NONE) return false;
            depth += 1;
        }
        return depth <= MAX_INDENTS;
    }

    // Whether a definition follows a decorator's line; sets `decorated` to it.
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

    // Whether a clause may follow the preceding statement or clause of its block.
    __device__ bool continues(u32 line) const {
        const u32 previous = sibling(line);
        if (previous == NONE) return false;
        const u32 terminal = first(previous);
        switch (first(line)) {
            case TOKEN_ELIF: return is_if(previous);
            case TOKEN_ELSE: return is_if(previous) || is_loop(previous) || terminal == TOKEN_EXCEPT;
            case TOKEN_EXCEPT:
                return terminal == TOKEN_TRY || (terminal == TOKEN_EXCEPT && has_star(previous) == has_star(line));
            default: {
                if (terminal == TOKEN_TRY || terminal == TOKEN_EXCEPT) return true;
                const u32 more = terminal == TOKEN_ELSE ? sibling(previous) : NONE;
                return more != NONE && first(more) == TOKEN_EXCEPT;
            }
        }
    }

    // Sets the line that the header's range ends with: the last of its block and, for a statement, of its clauses.
    __device__ bool last_line(u32 line, u32& last) const {
        const u32 here = column(line);
        u32 next = first_after(line, here), clauses = 0;
        if (first(line) != TOKEN_EXCEPT) {
            for (; next < end && column(next) == here && is_clause(next); clauses++) {
                if (clauses >= MAX_CLAUSES) return false;
                next = first_after(next, here);
            }
        }
        last = next - 1;
        return true;
    }

    // Computes the nesting of a line; false if it is an error.
    __device__ bool nest(u32 line, Nesting& nesting) const {
        const u32 terminal = first(line), here = column(line);
        if (!has_valid_indentation(line) || (line + 1 == end && opens_block(line))) return false;
        nesting = make_uint4(NONE, NONE, 0, FIELD_BODY);
        if (is_clause(line)) return continues(line) && clause(line, nesting);
        const u32 outer = here == 0 ? NONE : last_before(line, here - 1);
        if ((outer != NONE && first(outer) == TOKEN_MATCH) != (terminal == TOKEN_CASE)) return false;
        if (terminal == TOKEN_AT) {
            u32 decorated;
            if (!decorates(line, decorated)) return false;
            nesting = make_uint4(header(decorated), NONE, 0, 0);
            return true;
        }
        uint2 owner = make_uint2(NONE, FIELD_BODY);
        if (outer != NONE) {
            owner = body(outer);
            if (owner.x == NONE) return false;
        }
        if (!starts_header(line)) {
            nesting = make_uint4(owner.x, NONE, 0, owner.y);
            return true;
        }
        nesting = make_uint4(header(line), owner.x, 0, FIELD_BODY | owner.y << 8 | HAS_HEADER);
        if (terminal == TOKEN_TRY) {
            const u32 next = first_after(line, here);
            if (next == end || column(next) != here) return false;
            if (first(next) != TOKEN_EXCEPT && first(next) != TOKEN_FINALLY) return false;
            if (first(next) == TOKEN_EXCEPT && has_star(next)) nesting.w |= STARRED;
        }
        return set_end(line, nesting);
    }

    __device__ bool clause(u32 line, Nesting& nesting) const {
        const u32 terminal = first(line), previous = sibling(line);
        if (terminal == TOKEN_ELIF) {
            nesting = make_uint4(header(line), header(previous), 0, FIELD_BODY | FIELD_ORELSE << 8 | HAS_HEADER);
            return set_end(line, nesting);
        }
        if (terminal == TOKEN_EXCEPT) {
            const u32 head = enclosing_try(previous);
            if (head == NONE) return false;
            nesting = make_uint4(header(line), header(head), 0, FIELD_BODY | FIELD_HANDLERS << 8 | HAS_HEADER);
            return set_end(line, nesting);
        }
        const uint2 owner = body(line);
        nesting = make_uint4(owner.x, NONE, 0, owner.y);
        return owner.x != NONE;
    }

    __device__ bool set_end(u32 line, Nesting& nesting) const {
        u32 last;
        if (!last_line(line, last)) return false;
        nesting.z = batch.ends[batch.lines[last].y - 1];
        return true;
    }
};

// tree_blocks: writes the nesting of each line of the sources without an error so far; sources with an error fall back.
// One thread per line.
extern "C" __global__ void __launch_bounds__(TREE_THREADS) tree_blocks(const __grid_constant__ TreeBatch batch) {
    const u32 line = blockIdx.x * blockDim.x + threadIdx.x;
    if (line >= lines_of(batch)) return;
    const u32 source = batch.line_sources[line];
    Nesting nesting = make_uint4(NONE, NONE, 0, 0);
    if (!batch.reasons[source]) {
        const Lines lines{batch, batch.logical_bases[source], batch.logical_bases[source + 1]};
        if (!lines.nest(line, nesting)) fall_back(batch, source, REASON_BLOCK);
    }
    batch.nestings[line] = nesting;
}
