// Expression contexts, and the errors that the grammar does not exclude. Each check looks at one node of a line, its
// siblings or its ancestors; it only finds that there is an error, and the parser's `checks` module on the CPU says
// which.

#pragma once

#include "parse/tree.cuh"

enum Context { LOAD = 0, STORE = 1, DELETE = 2 };

// The nodes of one line, in postorder.
struct Nodes {
    const TreeBatch& batch;
    const Record* records;
    const u32* parents;  // of a split line; else null
    u32 source;
    u32 first_token;

    __device__ __forceinline__ u32 head(u32 row) const { return records[row].x; }
    __device__ __forceinline__ u32 kind(u32 row) const { return head(row) & 0xff; }
    __device__ __forceinline__ u32 field(u32 row) const { return head(row) >> 8 & 0xff; }
    __device__ __forceinline__ u32 parent(u32 row) const {
        if (parents) return parents[row];
        const u32 near = head(row) >> 16;
        return near == UNIT_ROOT ? ROOT : near;
    }

    // The next sibling, or ROOT.
    __device__ __forceinline__ u32 next_sibling(u32 row) const {
        const u32 parent = this->parent(row);
        u32 next = row + 1;
        while (next < parent) {
            const u32 above = this->parent(next);
            if (above == parent) return next;
            next = above;
        }
        return ROOT;
    }

    // Sets the context of a node, LOAD if it is no target. False if the node cannot be such a target.
    __device__ bool context(u32 row, u32 own_field, u32& context) const {
        context = LOAD;
        if (own_field != FIELD_TARGET && own_field != FIELD_TARGETS && own_field != FIELD_OPTIONAL_VARS &&
            own_field != FIELD_ELTS && own_field != FIELD_VALUE) {
            return true;
        }
        u32 target = row, field = own_field;
        for (;;) {
            const u32 parent = this->parent(target);
            if (parent == ROOT) return true;
            const u32 outer = kind(parent);
            if (field == FIELD_ELTS ? outer == KIND_TUPLE || outer == KIND_LIST
                                    : field == FIELD_VALUE && outer == KIND_STARRED) {
                target = parent;
                field = this->field(parent);
                continue;
            }
            if (field != FIELD_TARGET && field != FIELD_TARGETS && field != FIELD_OPTIONAL_VARS) return true;
            if (outer == KIND_NAMED_EXPR) return true;
            context = outer == KIND_DELETE ? DELETE : STORE;
            const u32 own = kind(row);
            if (own == KIND_NAME || own == KIND_ATTRIBUTE || own == KIND_SUBSCRIPT) return true;
            if (outer == KIND_AUG_ASSIGN || outer == KIND_ANN_ASSIGN) return false;
            return own == KIND_TUPLE || own == KIND_LIST || (own == KIND_STARRED && context == STORE);
        }
    }

    // Checks the arguments after a keyword argument, up to the next keyword.
    __device__ bool keyword(u32 row) const {
        const bool unpacks = records[row].w == NONE;
        u32 next = next_sibling(row);
        for (; next != ROOT && kind(next) != KIND_KEYWORD; next = next_sibling(next)) {
            if (kind(next) != KIND_STARRED || unpacks) return false;
        }
        if (!unpacks || next == ROOT || records[next].w == NONE) return true;
        // Named arguments after a `**`, up to the next `**`.
        for (next = next_sibling(next); next != ROOT; next = next_sibling(next)) {
            if (kind(next) == KIND_KEYWORD && records[next].w == NONE) return true;
            if (kind(next) == KIND_STARRED) return false;
        }
        return true;
    }

    // The parameter after one with a default has a default, too.
    __device__ bool parameter_default(u32 row) const {
        const u32 parameter = next_sibling(row);
        if (parameter == ROOT) return true;
        const u32 what = field(parameter);
        if (what != FIELD_ARGS && what != FIELD_POSONLYARGS) return true;
        const u32 next = next_sibling(parameter);
        return next != ROOT && field(next) == FIELD_DEFAULTS;
    }

    __device__ bool is_underscore(u32 name) const {
        const u32 place = batch.name_bases[source] + name;
        const u32 start = batch.name_starts[place], length = batch.name_ends[place] - start;
        return length == 1 && start < batch.source_lens[source] && batch.text[batch.source_starts[source] + start] == '_';
    }

    // `_` captures nothing: alone it is the wildcard pattern, elsewhere it is an error.
    __device__ bool capture(u32 row, u32& aux) const {
        if (aux == NONE || !is_underscore(aux)) return true;
        if (kind(row) == KIND_MATCH_AS && row > 0 && parent(row - 1) == row) return false;
        if (kind(row) == KIND_MATCH_MAPPING) return false;
        aux = NONE;
        return true;
    }

    // The name at the head of a class or value pattern is not `_`.
    __device__ bool pattern_head(u32 row) const {
        while (kind(row) == KIND_ATTRIBUTE) row -= 1;
        return kind(row) != KIND_NAME || !is_underscore(records[row].w / 4);
    }

    __device__ bool is_name(u32 name, const char* wanted, u32 wanted_length) const {
        const u32 place = batch.name_bases[source] + name;
        const u32 start = batch.name_starts[place], length = batch.name_ends[place] - start;
        if (length != wanted_length || start >= batch.source_lens[source]) return false;
        const u8* text = batch.text + batch.source_starts[source] + start;
        for (u32 at = 0; at < length; at++) {
            if (text[at] != (u8)wanted[at]) return false;
        }
        return true;
    }

    // The features that an import from `__future__` names: from 3.14 on all must exist. For older versions the CPU
    // checks where the statement stands.
    __device__ __noinline__ bool future(u32 row, u32 module) const {
        if (!is_name(module, "__future__", 10)) return true;
        const u32 statement = parent(row);
        for (u32 part = row + 1; part < statement; part++) {
            if (field(part) == FIELD_NAMES && parent(part - 1) != part) return false;
            if (field(part) != FIELD_NAME) continue;
            const u32 name = records[part].w;
            const bool known = is_name(name, "annotations", 11) || is_name(name, "division", 8) ||
                is_name(name, "absolute_import", 15) || is_name(name, "print_function", 14) ||
                is_name(name, "unicode_literals", 16) || is_name(name, "generator_stop", 14) ||
                is_name(name, "with_statement", 14) || is_name(name, "nested_scopes", 13) || is_name(name, "generators", 10);
            if (!known) return false;
        }
        return true;
    }

    __device__ bool is_imaginary(u32 row) const {
        const u32 end = records[row].z;
        return end > 0 && (batch.text[batch.source_starts[source] + end - 1] | 0x20) == 'j';
    }

    // The operands of a complex literal are a real and an imaginary number.
    __device__ bool literal(u32 row) const {
        if (kind(row) != KIND_BIN_OP) return true;
        const u32 left = kind(row - 2) == KIND_UNARY_OP ? row - 3 : row - 2;
        return !is_imaginary(left) && is_imaginary(row - 1);
    }

    // Whether a tuple has no parentheses: one that it may start with closes before its end.
    __device__ bool is_bare(u32 row) const {
        const u32 start = records[row].y, end = records[row].z;
        u32 token = first_token;
        while (batch.starts[token] < start) token += 1;
        for (u32 depth = 0;; token++) {
            const u32 kind = batch.kinds[token];
            if (kind >= TOKEN_LEFT_PAREN && kind <= TOKEN_RIGHT_BRACE) depth += (kind & 1) == (TOKEN_LEFT_PAREN & 1) ? 1 : -1;
            if (depth == 0) return batch.ends[token] < end;
            if (batch.ends[token] >= end) return false;
        }
    }

    __device__ bool version(u32 row, u32 kind, u32 field, u32 minor) const {
        if (field == FIELD_TYPE_PARAMS) {
            const bool more = row > 0 && this->field(row - 1) == FIELD_DEFAULT_VALUE && parent(row - 1) == row;
            return minor >= (more ? 13 : 12);
        }
        if (field == FIELD_POSONLYARGS || kind == KIND_NAMED_EXPR) return minor >= 8;
        if (kind == KIND_MATCH) return minor >= 10;
        if (kind == KIND_TYPE_ALIAS) return minor >= 12;
        if (kind == KIND_TUPLE && field == FIELD_TYPE) return minor >= 14 || !is_bare(row);
        return kind != KIND_TEMPLATE_STR || minor >= 14;
    }

    // Whether a node has no error; adds its context to `aux`.
    __device__ __forceinline__ bool check(u32 row, u32 kind, u32 field, u32& aux) const {
        u32 own;
        if (!context(row, field, own)) return false;
        if (own != LOAD) aux |= own;
        if (field == FIELD_DEFAULTS && !parameter_default(row)) return false;
        if (field == FIELD_KWD_PATTERNS) {
            const u32 next = next_sibling(row);
            if (next != ROOT && this->field(next) == FIELD_PATTERNS) return false;
        }
        if (field == FIELD_CLS && !pattern_head(row)) return false;
        switch (kind) {
            case KIND_KEYWORD: return keyword(row);
            case KIND_MATCH_AS: case KIND_MATCH_STAR: case KIND_MATCH_MAPPING: return capture(row, aux);
            case KIND_MATCH_VALUE: return literal(row - 1) && pattern_head(row - 1);
            case KIND_BIN_OP:
                return field != FIELD_KEYS || this->kind(parent(row)) != KIND_MATCH_MAPPING || literal(row);
            case KIND_FORMATTED_VALUE: case KIND_INTERPOLATION:
                return aux == 's' || aux == 'r' || aux == 'a' || aux == NONE;
            default: return true;
        }
    }
};
